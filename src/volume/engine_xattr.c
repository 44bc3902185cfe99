#include "volume/engine_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static enum err_code damaged(uint64_t inode, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "inode %" PRIu64 ": an extended attribute is damaged", inode);
}

static bool name_is_sound(const char *name)
{
    size_t size = strnlen(name, ENGINE_XATTR_NAME_MAX + 1);
    return size > 0 && size <= ENGINE_XATTR_NAME_MAX;
}

/* ERR_NOT_FOUND: there is none of this name. */
static enum err_code find(struct engine *engine, uint64_t inode, const char *name,
                          struct map_slice *value, struct err *err)
{
    struct codec_key key;
    codec_key_xattr(&key, inode, name, strlen(name));
    enum err_code code = map_get(engine->map, key.bytes, key.size, value, err);
    if (code == ERR_OK && (value->size == 0 || value->bytes[0] != CODEC_VERSION)) {
        return damaged(inode, err);
    }
    return code;
}

enum err_code engine_xattr_get(struct engine *engine, uint64_t inode, const char *name,
                               struct str *out, int *posix, struct err *err)
{
    *posix = 0;
    if (!name_is_sound(name)) {
        return engine_refuse(posix, ERANGE, err);
    }
    struct engine_node node;
    enum err_code code = engine_read_node(engine, inode, &node, err);
    if (code == ERR_NOT_FOUND) {
        return engine_refuse(posix, ENOENT, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (node.xattrs == 0) {
        return engine_refuse(posix, ENODATA, err); /* the common case asks for no second key */
    }
    struct map_slice value;
    code = find(engine, inode, name, &value, err);
    if (code == ERR_NOT_FOUND) {
        return engine_refuse(posix, ENODATA, err);
    }
    if (code == ERR_OK) {
        str_add_bytes(out, value.bytes + 1, value.size - 1);
    }
    return code;
}

static bool take_name(void *context, struct map_slice key, struct map_slice value)
{
    struct str *names = context;
    (void)value;
    str_add_bytes(names, key.bytes + 9, key.size - 9);
    str_add_char(names, '\0');
    return true;
}

/* The names of an inode are added to out; ERR_AGAIN: some may have been. */
static enum err_code list_names(struct engine *engine, uint64_t inode, struct str *out,
                                struct err *err)
{
    struct codec_key prefix;
    codec_key_inode(&prefix, 'X', inode);
    struct map_range range = {.prefix = slice_of_key(&prefix)};
    return map_scan(engine->map, &range, take_name, out, err);
}

enum err_code engine_xattr_list(struct engine *engine, uint64_t inode, struct str *out, int *posix,
                                struct err *err)
{
    *posix = 0;
    struct engine_node node;
    enum err_code code = engine_read_node(engine, inode, &node, err);
    if (code == ERR_NOT_FOUND) {
        return engine_refuse(posix, ENOENT, err);
    }
    if (code != ERR_OK || node.xattrs == 0) {
        return code;
    }
    AUTO_STR struct str names = {0};
    code = list_names(engine, inode, &names, err);
    if (code == ERR_OK) {
        str_add_bytes(out, names.text, names.size);
    }
    return code;
}

/* One name more: is there room for it in what listxattr may return? */
static enum err_code check_room(struct engine *engine, const struct engine_node *node,
                                const char *name, int *posix, struct err *err)
{
    AUTO_STR struct str names = {0};
    enum err_code code = ERR_OK;
    if (node->xattrs > 0) {
        code = list_names(engine, node->attr.inode, &names, err);
    }
    if (code == ERR_OK && names.size + strlen(name) + 1 > ENGINE_XATTR_LIST_MAX) {
        return engine_refuse(posix, ENOSPC, err);
    }
    return code;
}

static void put(struct engine *engine, const struct engine_xattr *xattr)
{
    struct codec_key key;
    codec_key_xattr(&key, xattr->inode, xattr->name, strlen(xattr->name));
    if (xattr->value == NULL) {
        change_delete(engine, slice_of_key(&key));
        return;
    }
    AUTO_STR struct str value = {0};
    str_add_char(&value, CODEC_VERSION);
    str_add_bytes(&value, xattr->value, xattr->size);
    change_put(engine, &key, value.text, value.size);
}

/* Whether the attribute is there already, as far as that matters. */
static enum err_code check_presence(struct engine *engine, const struct engine_xattr *xattr,
                                    struct engine_node *node, int *posix, struct err *err)
{
    struct map_slice old;
    enum err_code code = ERR_NOT_FOUND;
    if (node->xattrs > 0) {
        code = find(engine, xattr->inode, xattr->name, &old, err);
    }
    if (code == ERR_OK) {
        node->xattrs -= xattr->value ? 0 : 1;
        return xattr->value && (xattr->flags & ENGINE_XATTR_CREATE)
                   ? engine_refuse(posix, EEXIST, err)
                   : ERR_OK;
    }
    if (code != ERR_NOT_FOUND) {
        return code;
    }
    if (xattr->value == NULL || (xattr->flags & ENGINE_XATTR_REPLACE)) {
        return engine_refuse(posix, ENODATA, err);
    }
    code = check_room(engine, node, xattr->name, posix, err);
    node->xattrs++;
    return code;
}

enum err_code engine_xattr_set(struct engine *engine, const struct engine_caller *caller,
                               const struct engine_xattr *xattr, int *posix, struct err *err)
{
    *posix = 0;
    change_begin(engine);
    if (!name_is_sound(xattr->name)) {
        return engine_refuse(posix, ERANGE, err);
    }
    if (xattr->value && xattr->size > ENGINE_XATTR_MAX) {
        return engine_refuse(posix, E2BIG, err);
    }
    struct engine_node *node = NULL;
    enum err_code code = engine_named_node(engine, xattr->inode, &node, posix, err);
    if (code == ERR_OK) {
        code = check_presence(engine, xattr, node, posix, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    node->attr.ctime_ns = caller->now_ns;
    change_touch(engine, node);
    put(engine, xattr);
    change_apply(engine);
    return ERR_OK;
}

static bool take_key(void *context, struct map_slice key, struct map_slice value)
{
    (void)value;
    change_delete(context, key);
    return true;
}

enum err_code xattr_free(struct engine *engine, const struct engine_node *node, struct err *err)
{
    if (node->xattrs == 0) {
        return ERR_OK;
    }
    struct codec_key prefix;
    codec_key_inode(&prefix, 'X', node->attr.inode);
    struct map_range range = {.prefix = slice_of_key(&prefix)};
    return map_scan(engine->map, &range, take_key, engine, err);
}
