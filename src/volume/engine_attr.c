#include "volume/engine_internal.h"

#include <errno.h>
#include <sys/stat.h>

uint32_t engine_mode_without_privilege(uint32_t mode)
{
    if (S_ISDIR(mode)) {
        return mode; /* there the bits say who inherits, not who runs */
    }
    /* Without S_IXGRP, S_ISGID means locking, not rights. */
    return mode & ~(uint32_t)(mode & S_IXGRP ? S_ISUID | S_ISGID : S_ISUID);
}

void engine_kill_priv(struct engine_node *node)
{
    node->attr.mode = engine_mode_without_privilege(node->attr.mode);
}

static void set_owner(struct engine_node *node, const struct engine_set *set)
{
    if (set->set & ENGINE_SET_UID) {
        node->attr.uid = set->attr.uid;
    }
    if (set->set & ENGINE_SET_GID) {
        node->attr.gid = set->attr.gid;
    }
    /* A program given away loses its rights, whoever gives it. */
    if (set->set & (ENGINE_SET_UID | ENGINE_SET_GID | ENGINE_KILL_PRIV)) {
        engine_kill_priv(node);
    }
    if (set->set & ENGINE_SET_MODE) {
        node->attr.mode = (node->attr.mode & S_IFMT) | (set->attr.mode & 07777);
    }
}

static void set_times(struct engine_node *node, const struct engine_set *set, int64_t now_ns)
{
    if (set->set & ENGINE_SET_ATIME) {
        node->attr.atime_ns = set->attr.atime_ns;
    }
    if (set->set & ENGINE_SET_MTIME) {
        node->attr.mtime_ns = set->attr.mtime_ns;
    } else if (set->set & ENGINE_SET_SIZE) {
        node->attr.mtime_ns = now_ns;
    }
    node->attr.ctime_ns = set->set & ENGINE_SET_CTIME ? set->attr.ctime_ns : now_ns;
}

static enum err_code set_size(struct engine *engine, struct engine_node *node, uint64_t size,
                              int *posix, struct err *err)
{
    if (!S_ISREG(node->attr.mode)) {
        return engine_refuse(posix, S_ISDIR(node->attr.mode) ? EISDIR : EINVAL, err);
    }
    if (size > INT64_MAX) {
        return engine_refuse(posix, EFBIG, err);
    }
    struct data_splice splice = {.size = size};
    return data_splice(engine, node, &splice, err);
}

enum err_code engine_setattr(struct engine *engine, const struct engine_caller *caller,
                             const struct engine_set *set, struct engine_attr *out, int *posix,
                             struct err *err)
{
    *posix = 0;
    change_begin(engine);
    struct engine_node *node = NULL;
    enum err_code code = engine_named_node(engine, set->attr.inode, &node, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    if (set->set & ENGINE_SET_SIZE) {
        code = set_size(engine, node, set->attr.size, posix, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    set_owner(node, set);
    set_times(node, set, caller->now_ns);
    change_touch(engine, node);
    *out = node->attr;
    change_apply(engine);
    return ERR_OK;
}
