/* Making, linking and removing names. Renaming is in engine_rename.c. */
#include "volume/engine_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void stamp_folder(struct engine *engine, struct engine_node *folder,
                         const struct engine_caller *caller)
{
    folder->attr.mtime_ns = caller->now_ns;
    folder->attr.ctime_ns = caller->now_ns;
    change_touch(engine, folder);
}

static void put_name(struct engine *engine, uint64_t folder, const char *name,
                     const struct engine_attr *attr)
{
    struct codec_key key;
    codec_key_name(&key, folder, name, strlen(name));
    uint8_t value[CODEC_NAME_MAX];
    change_put(engine, &key, value, codec_name_write(value, attr->inode, attr->mode));
}

/* A folder that may get an entry of this name, which it does not have yet. */
static enum err_code open_slot(struct engine *engine, uint64_t folder, const char *name,
                               struct engine_node **out, int *posix, struct err *err)
{
    int refusal = engine_name_refusal(name);
    if (refusal) {
        return engine_refuse(posix, refusal, err);
    }
    enum err_code code = engine_named_folder(engine, folder, out, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    if ((*out)->attr.nlink == 0) {
        return engine_refuse(posix, ENOENT, err); /* removed while it was open */
    }
    uint64_t inode = 0;
    uint32_t type = 0;
    code = engine_find_name(engine, folder, name, &inode, &type, err);
    if (code == ERR_OK) {
        return engine_refuse(posix, EEXIST, err);
    }
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* 0, or why there can be no such inode. */
static int make_refusal(const struct engine_make *make, const struct engine_node *folder)
{
    switch (make->mode & S_IFMT) {
    case S_IFREG:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK:
        return 0;
    case S_IFDIR:
        return folder->attr.nlink >= ENGINE_LINK_MAX ? EMLINK : 0;
    case S_IFLNK:
        if (make->target == NULL || make->target[0] == '\0') {
            return ENOENT;
        }
        return strnlen(make->target, ENGINE_TARGET_MAX + 1) > ENGINE_TARGET_MAX ? ENAMETOOLONG : 0;
    default:
        return EINVAL;
    }
}

static void fill_new(struct engine_node *node, const struct engine_node *folder,
                     const struct engine_make *make, const struct engine_caller *caller)
{
    struct engine_attr *attr = &node->attr;
    attr->mode = make->mode & (S_IFMT | 07777);
    attr->uid = caller->uid;
    attr->gid = caller->gid;
    attr->nlink = 1;
    attr->atime_ns = attr->mtime_ns = attr->ctime_ns = caller->now_ns;
    if (folder->attr.mode & S_ISGID) {
        attr->gid = folder->attr.gid;
        attr->mode |= S_ISDIR(attr->mode) ? (uint32_t)S_ISGID : 0;
    }
    if (S_ISDIR(attr->mode)) {
        attr->nlink = 2;
        attr->parent = folder->attr.inode;
    } else if (S_ISLNK(attr->mode)) {
        node->target = make->target;
        attr->size = strlen(make->target);
    } else if (S_ISCHR(attr->mode) || S_ISBLK(attr->mode)) {
        attr->rdev = make->rdev;
    }
}

/* With the number asked for, or (0) the next one. */
static enum err_code new_node(struct engine *engine, uint64_t inode, struct engine_node **out,
                              int *posix, struct err *err)
{
    struct engine_node there;
    uint64_t next = engine->change.next_inode;
    if (inode != 0) {
        enum err_code code = engine_read_node(engine, inode, &there, err);
        if (code != ERR_NOT_FOUND) {
            return code == ERR_OK ? engine_refuse(posix, EEXIST, err) : code;
        }
        engine->change.next_inode = inode;
    }
    *out = change_new_node(engine);
    if (engine->change.next_inode < next) {
        engine->change.next_inode = next;
    }
    return ERR_OK;
}

enum err_code engine_make(struct engine *engine, const struct engine_caller *caller,
                          const struct engine_make *make, struct engine_attr *out, int *posix,
                          struct err *err)
{
    *posix = 0;
    change_begin(engine);
    struct engine_node *folder = NULL;
    enum err_code code = open_slot(engine, make->folder, make->name, &folder, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    int refusal = make_refusal(make, folder);
    if (refusal) {
        return engine_refuse(posix, refusal, err);
    }
    struct engine_node *node = NULL;
    code = new_node(engine, make->inode, &node, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    fill_new(node, folder, make, caller);
    put_name(engine, make->folder, make->name, &node->attr);
    folder->attr.nlink += S_ISDIR(node->attr.mode) ? 1 : 0;
    stamp_folder(engine, folder, caller);
    *out = node->attr;
    change_apply(engine);
    return ERR_OK;
}

enum err_code engine_link(struct engine *engine, const struct engine_caller *caller,
                          const struct engine_make *link, struct engine_attr *out, int *posix,
                          struct err *err)
{
    *posix = 0;
    change_begin(engine);
    struct engine_node *folder = NULL;
    enum err_code code = open_slot(engine, link->folder, link->name, &folder, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    struct engine_node *node = NULL;
    code = engine_named_node(engine, link->inode, &node, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    if (S_ISDIR(node->attr.mode)) {
        return engine_refuse(posix, EPERM, err);
    }
    if (node->attr.nlink == 0 || node->attr.nlink >= ENGINE_LINK_MAX) {
        return engine_refuse(posix, node->attr.nlink == 0 ? ENOENT : EMLINK, err);
    }
    node->attr.nlink++;
    node->attr.ctime_ns = caller->now_ns;
    change_touch(engine, node);
    put_name(engine, link->folder, link->name, &node->attr);
    stamp_folder(engine, folder, caller);
    change_release(engine, link->inode);
    *out = node->attr;
    change_apply(engine);
    return ERR_OK;
}

static bool see_entry(void *context, struct map_slice key, struct map_slice value)
{
    (void)key;
    (void)value;
    *(bool *)context = false;
    return false;
}

enum err_code engine_folder_is_empty(struct engine *engine, uint64_t folder, bool *empty,
                                     struct err *err)
{
    struct codec_key prefix;
    codec_key_inode(&prefix, 'D', folder);
    struct map_range range = {.prefix = slice_of_key(&prefix)};
    *empty = true;
    enum err_code code = map_scan(engine->map, &range, see_entry, empty, err);
    return *empty ? code : ERR_OK;
}

enum err_code engine_unlinked(struct engine *engine, struct engine_node *node,
                              bool (*is_open)(void *context, uint64_t inode), void *context,
                              struct err *err)
{
    change_touch(engine, node);
    change_release(engine, node->attr.inode);
    if (node->attr.nlink > 0) {
        return ERR_OK;
    }
    if (is_open == NULL || !is_open(context, node->attr.inode)) {
        return data_free(engine, node, err);
    }
    struct codec_key key;
    codec_key_inode(&key, 'O', node->attr.inode);
    uint8_t value = CODEC_VERSION;
    change_put(engine, &key, &value, 1);
    return ERR_OK;
}

/* May this entry be removed this way? */
static enum err_code check_removal(struct engine *engine, const struct engine_remove *remove,
                                   uint64_t inode, uint32_t type, int *posix, struct err *err)
{
    if (!remove->is_folder) {
        return S_ISDIR(type) ? engine_refuse(posix, EISDIR, err) : ERR_OK;
    }
    if (!S_ISDIR(type)) {
        return engine_refuse(posix, ENOTDIR, err);
    }
    bool empty = false;
    enum err_code code = engine_folder_is_empty(engine, inode, &empty, err);
    if (code == ERR_OK && !empty) {
        return engine_refuse(posix, ENOTEMPTY, err);
    }
    return code;
}

enum err_code engine_remove(struct engine *engine, const struct engine_caller *caller,
                            const struct engine_remove *remove, int *posix, struct err *err)
{
    *posix = 0;
    change_begin(engine);
    int refusal = engine_name_refusal(remove->name);
    if (refusal) {
        return engine_refuse(posix, refusal, err);
    }
    struct engine_node *folder = NULL;
    enum err_code code = engine_named_folder(engine, remove->folder, &folder, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    uint64_t inode = 0;
    uint32_t type = 0;
    code = engine_find_name(engine, remove->folder, remove->name, &inode, &type, err);
    if (code != ERR_OK) {
        return code == ERR_NOT_FOUND ? engine_refuse(posix, ENOENT, err) : code;
    }
    code = check_removal(engine, remove, inode, type, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    struct engine_node *node = NULL;
    code = engine_linked_node(engine, inode, &node, err);
    if (code != ERR_OK) {
        return code;
    }
    node->attr.nlink = S_ISDIR(type) || node->attr.nlink == 0 ? 0 : node->attr.nlink - 1;
    node->attr.ctime_ns = caller->now_ns;
    struct codec_key key;
    codec_key_name(&key, remove->folder, remove->name, strlen(remove->name));
    change_delete(engine, slice_of_key(&key));
    folder->attr.nlink -= S_ISDIR(type) && folder->attr.nlink > 2 ? 1 : 0;
    stamp_folder(engine, folder, caller);
    code = engine_unlinked(engine, node, remove->is_open, remove->context, err);
    if (code == ERR_OK) {
        change_apply(engine);
    }
    return code;
}

enum err_code engine_forget(struct engine *engine, uint64_t inode, struct err *err)
{
    change_begin(engine);
    struct engine_node *node = NULL;
    enum err_code code = change_node(engine, inode, &node, err);
    if (code == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    if (code != ERR_OK || node->attr.nlink > 0) {
        return code;
    }
    code = data_free(engine, node, err);
    if (code != ERR_OK) {
        return code;
    }
    struct codec_key key;
    codec_key_inode(&key, 'O', inode);
    change_delete(engine, slice_of_key(&key));
    change_apply(engine);
    return ERR_OK;
}
