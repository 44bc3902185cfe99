/* Names: looking up, making, removing, renaming, linking. */
#include "mount/back.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/stat.h>

static void reply_entry(struct mount *mount, struct request *request, struct engine_attr *attr)
{
    struct fuse_entry_param entry;
    bool is_draft = file_show(mount, attr);
    entry_of(mount, attr, &entry);
    entry.attr_timeout = is_draft ? 0 : entry.attr_timeout;
    entry_give(mount, request->inode, request->name, &entry);
    if (fuse_reply_entry(request->req, &entry) != 0) {
        entry_forget(mount, entry.ino, 1);
    }
}

static bool try_lookup(struct mount *mount, struct request *request)
{
    struct engine_attr attr;
    struct err err;
    int posix;
    enum err_code code = back_lookup(mount, request, &attr, &posix, &err);
    if (code == ERR_INVALID && posix == ENOENT) {
        struct fuse_entry_param none = {.entry_timeout = mount->timeout_s}; /* known to be absent */
        fuse_reply_entry(request->req, &none);
        return true;
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    reply_entry(mount, request, &attr);
    return true;
}

static void on_lookup(fuse_req_t req, fuse_ino_t folder, const char *name)
{
    struct mount *mount = fuse_req_userdata(req);
    struct request request;
    request_of(&request, req, try_lookup, folder);
    request.name = name;
    walk_looked_up(&mount->walk, request.inode, name);
    request_begin(mount, &request);
}

static void on_forget(fuse_req_t req, fuse_ino_t number, uint64_t count)
{
    entry_forget(fuse_req_userdata(req), number, count);
    fuse_reply_none(req);
}

static void on_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++) {
        entry_forget(fuse_req_userdata(req), forgets[i].ino, forgets[i].nlookup);
    }
    fuse_reply_none(req);
}

static bool try_make(struct mount *mount, struct request *request)
{
    struct engine_make make = {.folder = request->inode,
                               .name = request->name,
                               .mode = request->mode,
                               .rdev = request->flags,
                               .target = request->new_name};
    struct engine_attr attr;
    struct err err;
    int posix;
    enum err_code code = back_make(mount, request, &make, &attr, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    reply_entry(mount, request, &attr);
    return true;
}

static void on_mknod(fuse_req_t req, fuse_ino_t folder, const char *name, mode_t mode, dev_t rdev)
{
    struct request request;
    request_of(&request, req, try_make, folder);
    request.name = name;
    request.mode = mode;
    request.flags = (uint32_t)rdev;
    request_begin(fuse_req_userdata(req), &request);
}

static void on_mkdir(fuse_req_t req, fuse_ino_t folder, const char *name, mode_t mode)
{
    struct request request;
    request_of(&request, req, try_make, folder);
    request.name = name;
    request.mode = S_IFDIR | (mode & 07777);
    request_begin(fuse_req_userdata(req), &request);
}

static void on_symlink(fuse_req_t req, const char *target, fuse_ino_t folder, const char *name)
{
    struct request request;
    request_of(&request, req, try_make, folder);
    request.name = name;
    request.new_name = target;
    request.mode = S_IFLNK | 0777;
    request_begin(fuse_req_userdata(req), &request);
}

/* A file that is being written and gets another name is made part of the volume first: else a crash
 * might show the new name, perhaps in place of an older file, with nothing behind it. */
static enum err_code settle_draft(struct mount *mount, uint64_t inode, int *posix, struct err *err)
{
    struct file *file = file_find(mount, inode);
    return file ? file_flush(mount, file, false, posix, err) : ERR_OK;
}

static bool try_link(struct mount *mount, struct request *request)
{
    struct engine_make link = {
        .folder = request->folder, .name = request->new_name, .inode = request->inode};
    struct engine_attr attr;
    struct err err;
    int posix;
    enum err_code code = settle_draft(mount, request->inode, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    code = back_link(mount, request, &link, &attr, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    reply_entry(mount, request, &attr);
    return true;
}

static void on_link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t folder, const char *name)
{
    struct request request;
    request_of(&request, req, try_link, inode);
    request.folder = spots_inode(folder);
    request.new_name = name;
    request_begin(fuse_req_userdata(req), &request);
}

const struct engine_attr *ghost_find(const struct mount *mount, uint64_t inode)
{
    for (size_t i = 0; i < GHOSTS; i++) {
        if (mount->ghosts[i].inode == inode) {
            return &mount->ghosts[i];
        }
    }
    return NULL;
}

static void ghost_keep(struct mount *mount, struct engine_attr attr, int64_t now_ns)
{
    attr.nlink = 0;
    attr.ctime_ns = now_ns;
    mount->ghosts[mount->ghost_next] = attr;
    mount->ghost_next = (mount->ghost_next + 1) % GHOSTS;
}

static bool try_remove(struct mount *mount, struct request *request)
{
    struct engine_remove remove = {.folder = request->inode,
                                   .name = request->name,
                                   .is_folder = request->flags != 0,
                                   .is_open = file_is_open,
                                   .context = mount};
    struct engine_attr attr;
    struct err err;
    int posix;
    bool leaves_ghost = remove.is_folder && !mount->dealer;
    enum err_code code = ERR_OK;
    if (leaves_ghost) {
        code = back_lookup(mount, request, &attr, &posix, &err);
    }
    if (code == ERR_OK) {
        code = back_remove(mount, request, &remove, &posix, &err);
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    if (leaves_ghost) {
        ghost_keep(mount, attr, request->caller.now_ns);
    }
    fuse_reply_err(request->req, 0);
    return true;
}

static void remove_name(fuse_req_t req, fuse_ino_t folder, const char *name, bool is_folder)
{
    struct request request;
    request_of(&request, req, try_remove, folder);
    request.name = name;
    request.flags = is_folder;
    request_begin(fuse_req_userdata(req), &request);
}

static void on_unlink(fuse_req_t req, fuse_ino_t folder, const char *name)
{
    remove_name(req, folder, name, false);
}

static void on_rmdir(fuse_req_t req, fuse_ino_t folder, const char *name)
{
    remove_name(req, folder, name, true);
}

/* What changes places with what is renamed. */
static enum err_code settle_other(struct mount *mount, struct request *request,
                                  struct engine_attr *out, int *posix, struct err *err)
{
    enum err_code code = back_lookup_new(mount, request, out, posix, err);
    return code == ERR_OK ? settle_draft(mount, out->inode, posix, err) : code;
}

static void move_spot(struct mount *mount, const struct engine_attr *attr, uint64_t folder,
                      const char *name)
{
    if (mount->spots && S_ISDIR(attr->mode)) {
        spots_move(mount->spots, attr->inode, folder, name);
    }
}

static bool try_rename(struct mount *mount, struct request *request)
{
    struct engine_rename rename = {.from = request->inode,
                                   .to = request->folder,
                                   .old_name = request->name,
                                   .new_name = request->new_name,
                                   .flags = request->flags,
                                   .is_open = file_is_open,
                                   .context = mount};
    bool is_exchange = (request->flags & RENAME_EXCHANGE) != 0;
    struct engine_attr attr, other;
    struct err err;
    int posix;
    enum err_code code = back_lookup(mount, request, &attr, &posix, &err);
    if (code == ERR_OK) {
        code = settle_draft(mount, attr.inode, &posix, &err);
    }
    if (code == ERR_OK && is_exchange) {
        code = settle_other(mount, request, &other, &posix, &err);
    }
    if (code == ERR_OK) {
        code = back_rename(mount, request, &rename, &posix, &err);
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    move_spot(mount, &attr, request->folder, request->new_name);
    if (is_exchange) {
        move_spot(mount, &other, request->inode, request->name);
    }
    fuse_reply_err(request->req, 0);
    return true;
}

static void on_rename(fuse_req_t req, fuse_ino_t from, const char *old_name, fuse_ino_t to,
                      const char *new_name, unsigned int flags)
{
    struct request request;
    request_of(&request, req, try_rename, from);
    request.folder = spots_inode(to);
    request.name = old_name;
    request.new_name = new_name;
    request.flags = flags;
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_readlink(struct mount *mount, struct request *request)
{
    struct err err;
    int posix;
    str_clear(&mount->scratch);
    enum err_code code = back_readlink(mount, request, &mount->scratch, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    fuse_reply_readlink(request->req, str_text(&mount->scratch));
    return true;
}

static void on_readlink(fuse_req_t req, fuse_ino_t inode)
{
    struct request request;
    request_of(&request, req, try_readlink, inode);
    request_begin(fuse_req_userdata(req), &request);
}

void names_fill(struct fuse_lowlevel_ops *ops)
{
    ops->lookup = on_lookup;
    ops->forget = on_forget;
    ops->forget_multi = on_forget_multi;
    ops->mknod = on_mknod;
    ops->mkdir = on_mkdir;
    ops->symlink = on_symlink;
    ops->link = on_link;
    ops->unlink = on_unlink;
    ops->rmdir = on_rmdir;
    ops->rename = on_rename;
    ops->readlink = on_readlink;
}
