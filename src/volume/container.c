#include "volume/container.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

void container_name(const struct container *container, char out[CONTAINER_NAME_MAX])
{
    int size = -1;
    switch ((enum container_kind)container->kind) {
    case CONTAINER_PACK:
        size = snprintf(out, CONTAINER_NAME_MAX, "packs/%08" PRIx32 "-%08" PRIx32 "-%016" PRIx64,
                        container->writer, container->term, container->number);
        break;
    case CONTAINER_LOG:
        size = snprintf(out, CONTAINER_NAME_MAX, "log/%016" PRIx64, container->number);
        break;
    case CONTAINER_RUN:
        size = snprintf(out, CONTAINER_NAME_MAX, "runs/%08" PRIx32 "-%016" PRIx64, container->term,
                        container->number);
        break;
    }
    CHECK(size > 0);
    CHECK(size < CONTAINER_NAME_MAX);
}

/* Takes `digits` lower-case hexadecimal digits off *text. */
static bool take_hex(const char **text, int digits, uint64_t *out)
{
    uint64_t number = 0;
    const char *at = *text;
    for (int i = 0; i < digits; i++, at++) {
        if (*at >= '0' && *at <= '9') {
            number = number << 4 | (uint64_t)(*at - '0');
        } else if (*at >= 'a' && *at <= 'f') {
            number = number << 4 | (uint64_t)(*at - 'a' + 10);
        } else {
            return false;
        }
    }
    *text = at;
    *out = number;
    return true;
}

static bool take_text(const char **text, const char *prefix)
{
    size_t size = strlen(prefix);
    if (strncmp(*text, prefix, size) != 0) {
        return false;
    }
    *text += size;
    return true;
}

bool container_parse(const char *name, struct container *out)
{
    uint64_t writer = 0;
    uint64_t term = 0;
    uint64_t number = 0;
    uint8_t kind = 0;
    bool sound = false;
    if (take_text(&name, "packs/")) {
        kind = CONTAINER_PACK;
        sound = take_hex(&name, 8, &writer) && take_text(&name, "-") && take_hex(&name, 8, &term) &&
                take_text(&name, "-") && take_hex(&name, 16, &number);
    } else if (take_text(&name, "log/")) {
        kind = CONTAINER_LOG;
        sound = take_hex(&name, 16, &number);
    } else if (take_text(&name, "runs/")) {
        kind = CONTAINER_RUN;
        sound = take_hex(&name, 8, &term) && take_text(&name, "-") && take_hex(&name, 16, &number);
    }
    if (!sound || *name != '\0') {
        return false;
    }
    *out = (struct container){kind, (uint32_t)writer, (uint32_t)term, number};
    return true;
}

bool container_equal(const struct container *a, const struct container *b)
{
    return a->kind == b->kind && a->writer == b->writer && a->term == b->term &&
           a->number == b->number;
}

static enum err_code damaged(const struct extent *extent, const char *why, struct err *err)
{
    char name[CONTAINER_NAME_MAX] = "an unknown container";
    if (extent->container.kind >= CONTAINER_PACK && extent->container.kind <= CONTAINER_RUN) {
        container_name(&extent->container, name);
    }
    return err_set(err, ERR_CORRUPT, "%s: the extent at %" PRIu64 " %s", name, extent->offset, why);
}

enum err_code extent_check(const struct extent *extent, const void *stored, struct err *err)
{
    bool plain = extent->codec == EXTENT_PLAIN;
    if (extent->whole == 0 || extent->whole > EXTENT_BYTES_MAX || extent->stored_size == 0 ||
        extent->stored_size > extent->whole || (plain && extent->stored_size != extent->whole)) {
        return damaged(extent, "has an impossible size", err);
    }
    if (!plain && extent->codec != EXTENT_ZSTD) {
        return damaged(extent, "is of an unknown codec", err);
    }
    if (XXH3_64bits(stored, extent->stored_size) != extent->checksum) {
        return damaged(extent, "does not have its checksum", err);
    }
    return ERR_OK;
}

enum err_code extent_decode(const struct extent *extent, const void *stored, void *out,
                            struct err *err)
{
    enum err_code code = extent_check(extent, stored, err);
    if (code != ERR_OK) {
        return code;
    }
    if (extent->codec == EXTENT_PLAIN) {
        memcpy(out, stored, extent->whole);
        return ERR_OK;
    }
    size_t size = ZSTD_decompress(out, extent->whole, stored, extent->stored_size);
    if (ZSTD_isError(size) || size != extent->whole) {
        return damaged(extent, "does not decompress to its size", err);
    }
    return ERR_OK;
}
