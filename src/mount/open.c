/* Opening, closing and syncing files. */
#include "mount/back.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static bool is_writing(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY;
}

static void count_open(struct mount *mount, const struct engine_attr *attr,
                       struct fuse_file_info *fi)
{
    struct file *file = file_take(mount, attr->inode);
    file->opens++;
    file->writers += is_writing(fi->flags);
    fi->fh = (uint64_t)(uintptr_t)file;
    fi->keep_cache = back_may_keep_cache(mount, attr);
    fi->noflush = !is_writing(fi->flags); /* nothing to do when a reader closes */
}

static void count_close(struct mount *mount, struct file *file, int flags)
{
    CHECK(file->opens > 0);
    file->opens--;
    file->writers -= is_writing(flags);
    if (file->writers == 0) {
        back_release(mount, file->inode);
    }
    bool ends_making = is_writing(flags) || (file->is_made && file->opens == 0);
    file->is_made = file->is_made && !ends_making;
    back_close(mount, file->inode, ends_making);
}

/* O_TRUNC. ERR_AGAIN: its content is on its way. */
static enum err_code cut_whole(struct mount *mount, struct request *request,
                               const struct engine_attr *attr, int *posix, struct err *err)
{
    struct file *file = file_take(mount, request->inode);
    enum err_code code = ERR_OK;
    if (file->flush) {
        return err_set(err, ERR_AGAIN, "its content is on its way");
    }
    if (mount->dealer && !file->has_draft) {
        draft_init(&file->draft, attr->size);
        file->has_draft = true;
        file->kill_priv = false;
    } else {
        code = file_begin_draft(mount, request, file, posix, err);
    }
    if (code != ERR_OK) {
        file_drop(mount, file);
        return code;
    }
    mount->dirty_bytes -= file->draft.memory_bytes;
    draft_truncate(&file->draft, 0);
    file->mtime_ns = file->changed_ns = request->caller.now_ns;
    file->kill_priv = file->kill_priv || request->caller.uid != 0;
    return ERR_OK;
}

static bool try_open(struct mount *mount, struct request *request)
{
    struct engine_attr attr = {.inode = request->inode};
    struct err err;
    int posix = 0;
    bool cuts = (request->fi.flags & O_TRUNC) && is_writing(request->fi.flags);

    enum err_code code = back_open(mount, request, &attr, &posix, &err);
    if (code == ERR_OK && cuts) {
        code = cut_whole(mount, request, &attr, &posix, &err);
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    count_open(mount, &attr, &request->fi);
    if (fuse_reply_open(request->req, &request->fi) != 0) { /* the caller was interrupted */
        struct file *file = file_find(mount, request->inode);
        count_close(mount, file, request->fi.flags);
        file_drop(mount, file);
    }
    return true;
}

static void on_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    struct mount *mount = fuse_req_userdata(req);
    if (mount->read_only && (!mount->dealer || is_writing(fi->flags))) {
        /* The kernel then opens files by itself, from now on without asking. */
        fuse_reply_err(req, is_writing(fi->flags) ? EROFS : ENOSYS);
        return;
    }
    struct request request;
    request_of(&request, req, try_open, inode);
    request.fi = *fi;
    request_begin(mount, &request);
}

static bool try_create(struct mount *mount, struct request *request)
{
    struct engine_make make = {
        .folder = request->inode, .name = request->name, .mode = S_IFREG | (request->mode & 07777)};
    struct engine_attr attr;
    struct err err;
    int posix;
    /* A new file is not committed before it is closed or synced: a crash shows all of it or none.
     */
    enum err_code code = back_create(mount, request, &make, &attr, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    struct fuse_entry_param entry;
    entry_of(mount, &attr, &entry);
    count_open(mount, &attr, &request->fi);
    struct file *made = file_find(mount, attr.inode);
    made->knows_base = mount->dealer != NULL;
    made->is_made = true;
    if (fuse_reply_create(request->req, &entry, &request->fi) != 0) {
        struct file *file = file_find(mount, attr.inode);
        count_close(mount, file, request->fi.flags);
        file_drop(mount, file);
    }
    return true;
}

static void on_create(fuse_req_t req, fuse_ino_t folder, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    struct request request;
    request_of(&request, req, try_create, folder);
    request.name = name;
    request.mode = mode;
    request.fi = *fi;
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_flush(struct mount *mount, struct request *request)
{
    struct file *file = file_find(mount, request->inode);
    struct err err;
    int posix = 0;
    if (file != NULL) {
        enum err_code code = file_flush(mount, file, false, &posix, &err);
        if (code != ERR_OK) {
            return request_settle(mount, request, code, posix, &err);
        }
    }
    fuse_reply_err(request->req, 0);
    return true;
}

static void on_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)fi;
    struct mount *mount = fuse_req_userdata(req);
    if (mount->read_only && !mount->dealer) {
        fuse_reply_err(req, ENOSYS); /* and the kernel asks no more */
        return;
    }
    struct request request;
    request_of(&request, req, try_flush, inode);
    request_begin(mount, &request);
}

/* Like flush; and the file's last user frees what has no name any more. */
static bool try_release(struct mount *mount, struct request *request)
{
    struct file *file = (struct file *)(uintptr_t)request->fi.fh;
    struct err err;
    int posix = 0;
    bool is_last_writer = is_writing(request->fi.flags) && file->writers == 1;
    if (is_last_writer || file->opens == 1) {
        enum err_code code = file_flush(mount, file, false, &posix, &err);
        if (code == ERR_AGAIN) {
            return request_settle(mount, request, code, posix, &err);
        }
    }
    if (file->opens == 1) {
        enum err_code code = back_forget(mount, file->inode, &err);
        if (code == ERR_AGAIN) {
            return request_settle(mount, request, code, 0, &err);
        }
    }
    if (mount->dealer && request->fi.flock_release) {
        back_unlock(mount, file->inode, request->fi.lock_owner);
    }
    count_close(mount, file, request->fi.flags);
    file_drop(mount, file);
    fuse_reply_err(request->req, 0);
    return true;
}

static void on_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    struct mount *mount = fuse_req_userdata(req);
    const struct file *file = (const struct file *)(uintptr_t)fi->fh;
    struct request request;
    request_of(&request, req, try_release, inode);
    request.fi = *fi;
    if (is_writing(fi->flags) || file->has_draft || file->is_made || fi->flock_release) {
        request_begin(mount, &request);
    } else {
        request_put_off(mount, &request);
    }
}

/* Fsync of a file or folder: everything so far becomes one commit, shared with whoever else waits.
 */
static bool try_fsync(struct mount *mount, struct request *request)
{
    struct err err;
    int posix = 0;
    if (request->seq == 0) {
        struct file *file = file_find(mount, request->inode);
        enum err_code code = file ? file_flush(mount, file, true, &posix, &err) : ERR_OK;
        if (code != ERR_OK) {
            return request_settle(mount, request, code, posix, &err);
        }
    }
    enum err_code code = back_sync(mount, request, &err);
    if (code == ERR_AGAIN) { /* also while some metadata cannot be read: commits go on */
        enum err_code trouble = back_trouble(mount, &err);
        bool waits = trouble == ERR_OK || trouble == ERR_AGAIN || trouble == ERR_CORRUPT;
        return waits ? false : request_settle(mount, request, trouble, 0, &err);
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, 0, &err);
    }
    fuse_reply_err(request->req, 0);
    return true;
}

static void on_fsync(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    (void)fi;
    struct request request;
    request_of(&request, req, try_fsync, inode);
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_flock(struct mount *mount, struct request *request)
{
    struct err err;
    int posix = 0;
    enum err_code code = back_flock(mount, request, &posix, &err);
    if (code == ERR_AGAIN && fuse_req_interrupted(request->req)) {
        memo_abandon(mount, request);
        fuse_reply_err(request->req, EINTR);
        return true;
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    fuse_reply_err(request->req, 0);
    return true;
}

/* Only where the owner is elsewhere: the kernel keeps locks of one machine by itself. */
static void on_flock(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi, int operation)
{
    struct request request;
    request_of(&request, req, try_flock, inode);
    request.fi = *fi;
    request.flags = (uint32_t)operation;
    request_begin(fuse_req_userdata(req), &request);
}

void open_fill_remote(struct fuse_lowlevel_ops *ops)
{
    ops->flock = on_flock;
}

void open_fill(struct fuse_lowlevel_ops *ops)
{
    ops->open = on_open;
    ops->create = on_create;
    ops->flush = on_flush;
    ops->release = on_release;
    ops->fsync = on_fsync;
    ops->fsyncdir = on_fsync;
}
