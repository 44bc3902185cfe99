#include "volume/engine_model.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>

struct model_file *model_file(struct model *model, uint64_t inode)
{
    for (size_t i = 0; i < MODEL_FILES_MAX && inode; i++) {
        if (model->files[i].attr.inode == inode) {
            return &model->files[i];
        }
    }
    return NULL;
}

struct model_name *model_name(struct model *model, uint64_t folder, const char *name)
{
    for (size_t i = 0; i < MODEL_NAMES_MAX && folder; i++) {
        if (model->names[i].folder == folder && strcmp(model->names[i].name, name) == 0) {
            return &model->names[i];
        }
    }
    return NULL;
}

bool model_is_hidden(struct model *model, uint64_t inode)
{
    const struct model_file *file = model_file(model, inode);
    return file && file->is_held;
}

static struct model_file *free_file(struct model *model)
{
    for (size_t i = 0; i < MODEL_FILES_MAX; i++) {
        if (model->files[i].attr.inode == 0) {
            return &model->files[i];
        }
    }
    return NULL;
}

static struct model_name *free_name(struct model *model)
{
    for (size_t i = 0; i < MODEL_NAMES_MAX; i++) {
        if (model->names[i].folder == 0) {
            return &model->names[i];
        }
    }
    return NULL;
}

bool model_is_full(const struct model *model)
{
    struct model *all = (struct model *)(uintptr_t)model;
    return free_file(all) == NULL || free_name(all) == NULL;
}

void model_format(struct model *model, const struct engine_caller *caller, uint32_t mode)
{
    *model = (struct model){.next_inode = 2};
    model->files[0].attr = (struct engine_attr){.inode = 1,
                                                .mode = S_IFDIR | mode,
                                                .uid = caller->uid,
                                                .gid = caller->gid,
                                                .nlink = 2,
                                                .parent = 1,
                                                .atime_ns = caller->now_ns,
                                                .mtime_ns = caller->now_ns,
                                                .ctime_ns = caller->now_ns};
}

static int check_name(const char *name)
{
    if (*name == '\0') {
        return ENOENT;
    }
    if (strlen(name) > 255) {
        return ENAMETOOLONG;
    }
    return strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..") ? EINVAL : 0;
}

static int check_folder(struct model *model, uint64_t inode)
{
    const struct model_file *folder = model_file(model, inode);
    return !folder ? ENOENT : !S_ISDIR(folder->attr.mode) ? ENOTDIR : 0;
}

static bool is_empty(const struct model *model, uint64_t folder)
{
    for (size_t i = 0; i < MODEL_NAMES_MAX; i++) {
        if (model->names[i].folder == folder) {
            return false;
        }
    }
    return true;
}

static void stamp_folder(struct model *model, uint64_t folder, const struct engine_caller *caller)
{
    struct model_file *file = model_file(model, folder);
    file->attr.mtime_ns = file->attr.ctime_ns = caller->now_ns;
}

static void add_name(struct model *model, uint64_t folder, const char *name, uint64_t inode)
{
    struct model_name *entry = free_name(model);
    entry->folder = folder;
    entry->inode = inode;
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
}

/* Can a new name be put there? */
static int check_slot(struct model *model, uint64_t folder, const char *name)
{
    int code = check_name(name);
    code = code ? code : check_folder(model, folder);
    if (code) {
        return code;
    }
    if (model_file(model, folder)->attr.nlink == 0) {
        return ENOENT;
    }
    return model_name(model, folder, name) ? EEXIST : 0;
}

int model_make(struct model *model, const struct engine_caller *caller,
               const struct engine_make *make)
{
    int code = check_slot(model, make->folder, make->name);
    if (code) {
        return code;
    }
    if (S_ISLNK(make->mode) && (!make->target || !*make->target)) {
        return ENOENT;
    }
    if (S_ISLNK(make->mode) && strlen(make->target) > 4095) {
        return ENAMETOOLONG;
    }
    struct model_file *folder = model_file(model, make->folder);
    struct model_file *file = free_file(model);
    *file = (struct model_file){.attr = {.inode = model->next_inode++,
                                         .mode = make->mode,
                                         .uid = caller->uid,
                                         .gid = caller->gid,
                                         .nlink = 1,
                                         .atime_ns = caller->now_ns,
                                         .mtime_ns = caller->now_ns,
                                         .ctime_ns = caller->now_ns}};
    if (folder->attr.mode & S_ISGID) {
        file->attr.gid = folder->attr.gid;
        file->attr.mode |= S_ISDIR(make->mode) ? (uint32_t)S_ISGID : 0;
    }
    if (S_ISDIR(make->mode)) {
        file->attr.nlink = 2;
        file->attr.parent = make->folder;
        folder->attr.nlink++;
    }
    if (S_ISLNK(make->mode)) {
        (void)snprintf(file->target, sizeof file->target, "%s", make->target);
        file->attr.size = strlen(make->target);
    }
    if (S_ISCHR(make->mode) || S_ISBLK(make->mode)) {
        file->attr.rdev = make->rdev;
    }
    add_name(model, make->folder, make->name, file->attr.inode);
    stamp_folder(model, make->folder, caller);
    return 0;
}

int model_link(struct model *model, const struct engine_caller *caller,
               const struct engine_make *link)
{
    int code = check_slot(model, link->folder, link->name);
    if (code) {
        return code;
    }
    struct model_file *file = model_file(model, link->inode);
    if (!file) {
        return ENOENT;
    }
    if (S_ISDIR(file->attr.mode)) {
        return EPERM;
    }
    if (file->attr.nlink == 0) {
        return ENOENT;
    }
    file->attr.nlink++;
    file->attr.ctime_ns = caller->now_ns;
    file->is_held = false;
    add_name(model, link->folder, link->name, link->inode);
    stamp_folder(model, link->folder, caller);
    return 0;
}

static void drop_link(struct model *model, uint64_t inode, const struct engine_caller *caller)
{
    struct model_file *file = model_file(model, inode);
    file->attr.nlink -= S_ISDIR(file->attr.mode) ? file->attr.nlink : 1;
    file->attr.ctime_ns = caller->now_ns;
    file->is_held = false;
    if (file->attr.nlink == 0 && !file->is_open) {
        file->attr.inode = 0;
    }
}

int model_remove(struct model *model, const struct engine_caller *caller,
                 const struct engine_remove *remove)
{
    int code = check_name(remove->name);
    code = code ? code : check_folder(model, remove->folder);
    if (code) {
        return code;
    }
    struct model_name *entry = model_name(model, remove->folder, remove->name);
    if (!entry) {
        return ENOENT;
    }
    struct model_file *file = model_file(model, entry->inode);
    bool is_folder = S_ISDIR(file->attr.mode);
    if (is_folder != remove->is_folder) {
        return is_folder ? EISDIR : ENOTDIR;
    }
    if (is_folder && !is_empty(model, entry->inode)) {
        return ENOTEMPTY;
    }
    if (is_folder) {
        model_file(model, remove->folder)->attr.nlink--;
    }
    entry->folder = 0;
    drop_link(model, file->attr.inode, caller);
    stamp_folder(model, remove->folder, caller);
    return 0;
}

static bool lies_within(struct model *model, uint64_t folder, uint64_t ancestor)
{
    while (folder != ancestor && folder != 1) {
        folder = model_file(model, folder)->attr.parent;
    }
    return folder == ancestor;
}

/* The new name exists. */
static int check_replacing(struct model *model, const struct engine_rename *rename,
                           const struct model_name *source, const struct model_name *target)
{
    if (rename->flags & RENAME_NOREPLACE) {
        return EEXIST;
    }
    if (source->inode == target->inode) {
        return 0;
    }
    bool from_folder = S_ISDIR(model_file(model, source->inode)->attr.mode);
    bool to_folder = S_ISDIR(model_file(model, target->inode)->attr.mode);
    if (from_folder && lies_within(model, rename->to, source->inode)) {
        return EINVAL;
    }
    if (to_folder && lies_within(model, rename->from, target->inode)) {
        return rename->flags & RENAME_EXCHANGE ? EINVAL : ENOTEMPTY;
    }
    if (rename->flags & RENAME_EXCHANGE) {
        return 0;
    }
    if (from_folder != to_folder) {
        return from_folder ? ENOTDIR : EISDIR;
    }
    return to_folder && !is_empty(model, target->inode) ? ENOTEMPTY : 0;
}

static int check_rename(struct model *model, const struct engine_rename *rename,
                        struct model_name **source, struct model_name **target)
{
    int code = check_name(rename->old_name);
    code = code ? code : check_name(rename->new_name);
    if (!code && rename->flags > 2) {
        code = EINVAL;
    }
    code = code ? code : check_folder(model, rename->from);
    code = code ? code : check_folder(model, rename->to);
    if (code) {
        return code;
    }
    *source = model_name(model, rename->from, rename->old_name);
    *target = model_name(model, rename->to, rename->new_name);
    if (!*source || model_file(model, rename->to)->attr.nlink == 0) {
        return ENOENT;
    }
    if (!*target) {
        bool ring = S_ISDIR(model_file(model, (*source)->inode)->attr.mode) &&
                    lies_within(model, rename->to, (*source)->inode);
        return rename->flags & RENAME_EXCHANGE ? ENOENT : ring ? EINVAL : 0;
    }
    return check_replacing(model, rename, *source, *target);
}

/* An inode leaves one folder for another. */
static void move(struct model *model, struct model_file *file, uint64_t from, uint64_t to)
{
    if (S_ISDIR(file->attr.mode)) {
        model_file(model, from)->attr.nlink--;
        model_file(model, to)->attr.nlink++;
        file->attr.parent = to;
    }
    file->is_held = false;
}

int model_rename(struct model *model, const struct engine_caller *caller,
                 const struct engine_rename *rename)
{
    struct model_name *source = NULL;
    struct model_name *target = NULL;
    int code = check_rename(model, rename, &source, &target);
    if (code || (target && source->inode == target->inode)) {
        return code;
    }
    struct model_file *moved = model_file(model, source->inode);
    moved->attr.ctime_ns = caller->now_ns;
    move(model, moved, rename->from, rename->to);
    if (target && (rename->flags & RENAME_EXCHANGE)) {
        struct model_file *other = model_file(model, target->inode);
        other->attr.ctime_ns = caller->now_ns;
        move(model, other, rename->to, rename->from);
        source->inode = other->attr.inode;
        target->inode = moved->attr.inode;
    } else {
        if (target) {
            if (S_ISDIR(model_file(model, target->inode)->attr.mode)) {
                model_file(model, rename->to)->attr.nlink--;
            }
            target->folder = 0;
            drop_link(model, target->inode, caller);
        }
        source->folder = 0;
        add_name(model, rename->to, rename->new_name, moved->attr.inode);
    }
    stamp_folder(model, rename->from, caller);
    stamp_folder(model, rename->to, caller);
    return 0;
}

static void kill_priv(struct model_file *file)
{
    if (!S_ISDIR(file->attr.mode)) {
        bool has_group = file->attr.mode & S_IXGRP;
        file->attr.mode &= ~(uint32_t)(has_group ? S_ISUID | S_ISGID : S_ISUID);
    }
}

static void set_size(struct model_file *file, uint64_t size)
{
    for (uint64_t i = size; i < MODEL_BYTES_MAX; i++) {
        file->bytes[i] = 0;
        file->is_data[i] = false;
    }
    file->attr.size = size;
    file->attr.generation++;
}

int model_setattr(struct model *model, const struct engine_caller *caller,
                  const struct engine_set *set)
{
    struct model_file *file = model_file(model, set->attr.inode);
    if (!file) {
        return ENOENT;
    }
    struct engine_attr *attr = &file->attr;
    if (set->set & ENGINE_SET_SIZE) {
        if (!S_ISREG(attr->mode)) {
            return S_ISDIR(attr->mode) ? EISDIR : EINVAL;
        }
        set_size(file, set->attr.size);
        attr->mtime_ns = caller->now_ns;
    }
    if (set->set & (ENGINE_SET_UID | ENGINE_SET_GID | ENGINE_KILL_PRIV)) {
        kill_priv(file);
    }
    attr->mode = set->set & ENGINE_SET_MODE ? (attr->mode & S_IFMT) | set->attr.mode : attr->mode;
    attr->uid = set->set & ENGINE_SET_UID ? set->attr.uid : attr->uid;
    attr->gid = set->set & ENGINE_SET_GID ? set->attr.gid : attr->gid;
    attr->atime_ns = set->set & ENGINE_SET_ATIME ? set->attr.atime_ns : attr->atime_ns;
    attr->mtime_ns = set->set & ENGINE_SET_MTIME ? set->attr.mtime_ns : attr->mtime_ns;
    attr->ctime_ns = set->set & ENGINE_SET_CTIME ? set->attr.ctime_ns : caller->now_ns;
    return 0;
}

int model_write(struct model *model, const struct engine_caller *caller,
                const struct engine_write *write, const struct model_write *parts)
{
    struct model_file *file = model_file(model, write->inode);
    if (!file) {
        return ENOENT;
    }
    if (!S_ISREG(file->attr.mode)) {
        return S_ISDIR(file->attr.mode) ? EISDIR : EINVAL;
    }
    for (size_t i = 0; i < write->count; i++) {
        for (size_t j = 0; j < parts[i].size; j++) {
            file->bytes[parts[i].offset + j] = parts[i].bytes ? parts[i].bytes[j] : 0;
            file->is_data[parts[i].offset + j] = parts[i].bytes != NULL;
        }
    }
    set_size(file, write->size);
    file->attr.mtime_ns = write->mtime_ns;
    file->attr.ctime_ns = caller->now_ns;
    if (write->kill_priv) {
        kill_priv(file);
    }
    return 0;
}

int model_xattr_set(struct model *model, const struct engine_caller *caller,
                    const struct engine_xattr *xattr)
{
    struct model_file *file = model_file(model, xattr->inode);
    if (!file) {
        return ENOENT;
    }
    size_t at = 0;
    while (at < file->xattr_count && strcmp(file->xattrs[at].name, xattr->name) != 0) {
        at++;
    }
    bool found = at < file->xattr_count;
    if (xattr->value && found && (xattr->flags & ENGINE_XATTR_CREATE)) {
        return EEXIST;
    }
    if (!found && (!xattr->value || (xattr->flags & ENGINE_XATTR_REPLACE))) {
        return ENODATA;
    }
    file->attr.ctime_ns = caller->now_ns;
    if (!xattr->value) {
        file->xattrs[at] = file->xattrs[--file->xattr_count];
        return 0;
    }
    file->xattr_count += found ? 0 : 1;
    (void)snprintf(file->xattrs[at].name, sizeof file->xattrs[at].name, "%s", xattr->name);
    memcpy(file->xattrs[at].value, xattr->value, xattr->size);
    file->xattrs[at].size = xattr->size;
    return 0;
}

void model_close(struct model *model, uint64_t inode)
{
    struct model_file *file = model_file(model, inode);
    if (file) {
        file->is_open = false;
        file->attr.inode = file->attr.nlink ? inode : 0;
    }
}
