#include "base/mem.h"
#include "volume/engine_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { REST_MIN = 1024 };

struct engine *engine_create(struct map *map)
{
    struct engine *engine = mem_alloc(sizeof *engine);
    engine->map = map;
    engine->counters.next_inode = ENGINE_ROOT + 1;
    engine->young_inode = ENGINE_ROOT + 1;
    engine->rest_min = REST_MIN;
    return engine;
}

void engine_destroy(struct engine *engine)
{
    if (!engine) {
        return;
    }
    pending_release(&engine->pending);
    holds_release(&engine->holds);
    str_release(&engine->change.bytes);
    free(engine->change.ops);
    free(engine->change.containers);
    free(engine->young);
    free(engine->rest.list.items);
    free(engine->touched.items);
    free(engine->result.items);
    free(engine->kin.items);
    free(engine->tail.items);
    free(engine);
}

void engine_format(struct engine *engine, const struct engine_caller *caller, uint32_t root_mode)
{
    change_begin(engine);
    engine->change.next_inode = ENGINE_ROOT;
    struct engine_node *root = change_new_node(engine);
    root->attr = (struct engine_attr){.inode = ENGINE_ROOT,
                                      .mode = S_IFDIR | (root_mode & 07777),
                                      .uid = caller->uid,
                                      .gid = caller->gid,
                                      .nlink = 2,
                                      .parent = ENGINE_ROOT,
                                      .atime_ns = caller->now_ns,
                                      .mtime_ns = caller->now_ns,
                                      .ctime_ns = caller->now_ns};
    change_apply(engine);
}

/* Opening. ------------------------------------------------------------------------------------- */

struct first_orphan {
    uint64_t inode; /* 0: none */
    bool is_bad;
};

static bool see_orphan(void *context, struct map_slice key, struct map_slice value)
{
    struct first_orphan *first = context;
    (void)value;
    first->is_bad = key.size != 9 || !codec_key_inode_read(key, &first->inode);
    return false;
}

static enum err_code free_orphan(struct engine *engine, uint64_t inode, struct err *err)
{
    change_begin(engine);
    struct codec_key key;
    codec_key_inode(&key, 'O', inode);
    struct engine_node *node = NULL;
    enum err_code code = change_node(engine, inode, &node, err);
    if (code == ERR_OK && node->attr.nlink == 0) {
        code = data_free(engine, node, err);
    }
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        return code;
    }
    change_delete(engine, slice_of_key(&key));
    change_apply(engine);
    return ERR_OK;
}

static enum err_code free_orphans(struct engine *engine, struct err *err)
{
    for (;;) {
        struct first_orphan first = {0};
        struct map_range range = {.prefix = {(const uint8_t *)"O", 1}};
        enum err_code code = map_scan(engine->map, &range, see_orphan, &first, err);
        if (code != ERR_OK) {
            return code;
        }
        if (first.is_bad) {
            return err_set(err, ERR_CORRUPT, "the list of orphans is damaged");
        }
        if (first.inode == 0) {
            return ERR_OK;
        }
        code = free_orphan(engine, first.inode, err);
        if (code != ERR_OK) {
            return code;
        }
    }
}

static bool bury(void *context, const struct engine_container *container)
{
    struct engine *engine = context;
    if (container->live == 0 && container->dead == 0) {
        engine_container_add(engine, container);
    }
    return true;
}

enum err_code engine_begin(struct engine *engine, struct err *err)
{
    struct codec_key key;
    codec_key_counters(&key);
    struct map_slice value;
    enum err_code code = map_get(engine->map, key.bytes, key.size, &value, err);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_NOT_FOUND, "the metadata has no root");
    }
    if (code != ERR_OK) {
        return code;
    }
    if (engine->committed.next_inode == 0) {
        if (!codec_counters_read(value, &engine->counters)) {
            return err_set(err, ERR_CORRUPT, "the counters of the volume are damaged");
        }
        engine->committed = engine->counters;
        engine->young_inode = engine->counters.next_inode;
    }
    code = free_orphans(engine, err);
    if (code != ERR_OK) {
        return code;
    }
    return engine_containers(engine, bury, engine, err);
}

/* Reading. ------------------------------------------------------------------------------------- */

int engine_name_refusal(const char *name)
{
    size_t size = strnlen(name, ENGINE_NAME_MAX + 1);
    if (size == 0) {
        return ENOENT;
    }
    if (size > ENGINE_NAME_MAX) {
        return ENAMETOOLONG;
    }
    if (memchr(name, '/', size) != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return EINVAL;
    }
    return 0;
}

enum err_code engine_find_name(struct engine *engine, uint64_t folder, const char *name,
                               uint64_t *inode, uint32_t *type, struct err *err)
{
    struct codec_key key;
    codec_key_name(&key, folder, name, strlen(name));
    struct map_slice value;
    enum err_code code = map_get(engine->map, key.bytes, key.size, &value, err);
    if (code == ERR_OK && !codec_name_read(value, inode, type)) {
        return err_set(err, ERR_CORRUPT, "folder %" PRIu64 ": an entry is damaged", folder);
    }
    return code;
}

enum err_code engine_lookup(struct engine *engine, uint64_t folder, const char *name,
                            struct engine_attr *out, int *posix, struct err *err)
{
    *posix = 0;
    int refusal = engine_name_refusal(name);
    if (refusal) {
        return engine_refuse(posix, refusal, err);
    }
    uint64_t inode = 0;
    uint32_t type = 0;
    struct engine_node node;
    enum err_code code = engine_find_name(engine, folder, name, &inode, &type, err);
    if (code == ERR_NOT_FOUND) {
        code = engine_read_node(engine, folder, &node, err);
        if (code == ERR_OK || code == ERR_NOT_FOUND) {
            bool is_folder = code == ERR_NOT_FOUND || S_ISDIR(node.attr.mode);
            return engine_refuse(posix, is_folder ? ENOENT : ENOTDIR, err);
        }
    }
    if (code != ERR_OK) {
        return code;
    }
    code = engine_read_node(engine, inode, &node, err);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_CORRUPT, "inode %" PRIu64 " has a name but is missing", inode);
    }
    if (code == ERR_OK) {
        *out = node.attr;
    }
    return code;
}

static enum err_code read_named(struct engine *engine, uint64_t inode, struct engine_node *out,
                                int *posix, struct err *err)
{
    *posix = 0;
    enum err_code code = engine_read_node(engine, inode, out, err);
    return code == ERR_NOT_FOUND ? engine_refuse(posix, ENOENT, err) : code;
}

enum err_code engine_getattr(struct engine *engine, uint64_t inode, struct engine_attr *out,
                             int *posix, struct err *err)
{
    struct engine_node node;
    enum err_code code = read_named(engine, inode, &node, posix, err);
    if (code == ERR_OK) {
        *out = node.attr;
    }
    return code;
}

enum err_code engine_readlink(struct engine *engine, uint64_t inode, struct str *out, int *posix,
                              struct err *err)
{
    struct engine_node node;
    enum err_code code = read_named(engine, inode, &node, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    if (!S_ISLNK(node.attr.mode)) {
        return engine_refuse(posix, EINVAL, err);
    }
    str_add_bytes(out, node.target, node.attr.size);
    return ERR_OK;
}

void engine_usage(const struct engine *engine, struct engine_usage *out)
{
    out->files = engine->counters.files;
    out->bytes = engine->counters.bytes;
}
