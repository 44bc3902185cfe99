#include "cli/task_name.h"

#include "base/mem.h"
#include "http/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool read_index(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && *end == '\0';
}

bool task_name_parse(const char *text, struct task_name *out)
{
    *out = (struct task_name){.copy = mem_strdup(text)};
    char *last = strrchr(out->copy, '/');
    if (!last || !read_index(last + 1, &out->index)) {
        return false;
    }
    *last = '\0';
    char *first = strchr(out->copy, '/');
    if (first) {
        *first = '\0';
        out->run = out->copy;
    }
    out->experiment = first ? first + 1 : out->copy;
    return out->experiment[0] != '\0' && !strchr(out->experiment, '/') &&
           (!out->run || out->run[0] != '\0');
}

void task_name_release(struct task_name *name)
{
    free(name->copy);
    *name = (struct task_name){0};
}

void task_name_add_path(struct str *path, const struct task_name *name)
{
    str_add(path, "/tasks/");
    client_add_encoded(path, name->experiment);
    str_addf(path, "/%" PRIu64, name->index);
}
