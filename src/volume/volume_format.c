/* Making an empty volume.
 *
 * `format` is written first and if-absent, so of two who make a volume in one place one wins. What
 * follows is the same whoever writes it; so where a volume was begun and not ended (no head), the
 * next who makes one there ends it. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROOT_MODE = 0755 };

enum err_code volume_format_read(struct object_store *store, struct volume_format *out,
                                 struct err *err)
{
    AUTO_STR struct str bytes = {0};
    enum err_code code = object_get(store, "format", &bytes, NULL, err);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_NOT_FOUND, "there is no volume here");
    }
    return code != ERR_OK ? code : volume_format_decode(str_text(&bytes), bytes.size, out, err);
}

struct first_log {
    struct logobj_change *changes;
    size_t count, cap;
};

static void keep_change(void *context, const struct logobj_change *change)
{
    struct first_log *log = context;
    struct logobj_change copy = *change;
    copy.key = mem_dup(change->key, change->key_size);
    copy.value = change->value == NULL ? NULL : mem_dup(change->value, change->value_size);
    VEC_PUSH(log->changes, log->count, log->cap) = copy;
}

/* log/1: the root folder. */
static void write_first_log(const struct volume_format *format, const struct engine_caller *caller,
                            struct str *out)
{
    struct map *map = map_create(0);
    struct engine *engine = engine_create(map);
    struct first_log log = {0};
    struct logobj_header header = {.seq = 1};
    struct str none = {0};
    engine_set_seq(engine, 1);
    engine_format(engine, caller, ROOT_MODE);
    engine_take(engine, keep_change, &log);
    memcpy(header.uuid, format->uuid, sizeof header.uuid);
    logobj_write(&header, &none, log.changes, log.count, out);
    for (size_t i = 0; i < log.count; i++) {
        free((void *)(uintptr_t)log.changes[i].key);
        free((void *)(uintptr_t)log.changes[i].value);
    }
    free(log.changes);
    engine_destroy(engine);
    map_destroy(map);
}

static enum err_code write_rest(struct object_store *store, const struct volume_format *format,
                                const struct engine_caller *caller, struct err *err)
{
    AUTO_STR struct str log = {0};
    AUTO_STR struct str bytes = {0};
    struct container first = {.kind = CONTAINER_LOG, .number = 1};
    char name[CONTAINER_NAME_MAX];
    container_name(&first, name);
    write_first_log(format, caller, &log);
    enum err_code code = object_put_if_absent(store, name, log.text, log.size, err);
    if (code != ERR_OK && code != ERR_EXISTS) {
        return code;
    }
    struct volume_head head = {0};
    volume_head_encode(&head, &bytes);
    code = object_put_if_absent(store, "head", bytes.text, bytes.size, err);
    return code == ERR_EXISTS ? ERR_OK : code;
}

static void fill_in(const struct volume_format *options, struct volume_format *out)
{
    static const uint8_t zero[16];
    *out = *options;
    out->version = VOLUME_VERSION;
    out->pack_bytes = options->pack_bytes ? options->pack_bytes : PACK_BYTES_DEFAULT;
    out->created_unix_ms = options->created_unix_ms ? options->created_unix_ms : clock_unix_ms();
    if (memcmp(out->uuid, zero, sizeof zero) == 0) {
        uint64_t words[2] = {rng_seed_from_system(), rng_seed_from_system()};
        memcpy(out->uuid, words, sizeof out->uuid);
    }
}

/* There is a format: is it ours after a lost reply, or that of a volume which was never ended? */
static enum err_code settle(struct object_store *store, struct volume_format *format,
                            struct err *err)
{
    struct volume_format there;
    enum err_code code = volume_format_read(store, &there, err);
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str head = {0};
    code = object_get(store, "head", &head, NULL, err);
    if (code == ERR_OK) {
        return err_set(err, ERR_EXISTS, "there is a volume here already");
    }
    *format = there;
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

enum err_code volume_format_write(struct object_store *store, const struct volume_format *options,
                                  const struct engine_caller *caller, struct err *err)
{
    struct volume_format format;
    fill_in(options, &format);
    if (format.pack_bytes < PACK_BYTES_MIN || format.pack_bytes > PACK_BYTES_MAX ||
        format.zstd_level < 0 || format.zstd_level > 22) {
        return err_set(err, ERR_INVALID, "packs of %u bytes at level %d cannot be made",
                       format.pack_bytes, format.zstd_level);
    }
    AUTO_STR struct str bytes = {0};
    volume_format_encode(&format, &bytes);
    enum err_code code = object_put_if_absent(store, "format", bytes.text, bytes.size, err);
    if (code == ERR_EXISTS) {
        code = settle(store, &format, err);
    }
    return code == ERR_OK ? write_rest(store, &format, caller, err) : code;
}
