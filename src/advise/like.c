#include "advise/like.h"

#include "base/detmath.h"

#include <string.h>
#include <strings.h>

/* "c4" of c4.8xlarge, "n2-standard" of n2-standard-32, all of what has neither. */
static size_t family_size(const char *type)
{
    const char *dot = strchr(type, '.');
    if (dot) {
        return (size_t)(dot - type);
    }
    const char *dash = strrchr(type, '-');
    bool number = dash && dash[1] >= '0' && dash[1] <= '9';
    return number ? (size_t)(dash - type) : strlen(type);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Standard_D4s_v5 and Standard_D16s_v5: all alike but for the first number. */
static bool differ_in_size(const char *a, const char *b)
{
    while (*a && *a == *b && !is_digit(*a)) {
        a++;
        b++;
    }
    if (!is_digit(*a) || !is_digit(*b)) {
        return false;
    }
    a += strspn(a, "0123456789");
    b += strspn(b, "0123456789");
    return strcmp(a, b) == 0;
}

static bool same_family(const struct catalog_row *a, const struct catalog_row *b)
{
    size_t size = family_size(a->type);
    if (strcmp(a->provider, b->provider) != 0) {
        return false;
    }
    if (strchr(a->type, '_') && strchr(b->type, '_')) {
        return differ_in_size(a->type, b->type);
    }
    return size == family_size(b->type) && strncmp(a->type, b->type, size) == 0;
}

static bool compare(const struct catalog_row *row, const struct catalog_row *other,
                    struct like *out)
{
    *out = (struct like){.scale = 1};
    if (strcmp(row->type, other->type) == 0) {
        return true;
    }
    if (row->gpus > 0 || other->gpus > 0) {
        bool same = row->gpus > 0 && other->gpus > 0 && strcasecmp(row->gpu, other->gpu) == 0;
        out->scale = same ? (double)row->gpus / other->gpus : 0;
        out->scale_sd = row->gpus == other->gpus ? .1 : .2;
        return same;
    }
    /* Cores of one machine add up a little less than fully. */
    out->scale = det_exp(.9 * det_log(row->vcpus / other->vcpus));
    out->scale_sd = same_family(row, other) ? .2 : .4;
    return true;
}

bool like_find(const struct catalog_row *row, const struct catalog_row *const *measured,
               size_t count, struct like *out)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        struct like like;
        if (!compare(row, measured[i], &like)) {
            continue;
        }
        like.index = i;
        if (!found || like.scale_sd < out->scale_sd) {
            *out = like;
            found = true;
        }
    }
    return found;
}
