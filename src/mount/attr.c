/* Attributes of files and of the whole. */
#include "mount/back.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static void reply_attr(struct mount *mount, struct request *request, struct engine_attr *attr)
{
    struct stat stat;
    bool is_draft = file_show(mount, attr);
    stat_of(attr, &stat);
    fuse_reply_attr(request->req, &stat, is_draft ? 0 : mount->timeout_s);
}

static bool try_getattr(struct mount *mount, struct request *request)
{
    struct engine_attr attr;
    struct err err;
    int posix;
    enum err_code code = back_getattr(mount, request, request->inode, &attr, &posix, &err);
    const struct engine_attr *ghost = NULL;
    if (code == ERR_INVALID && posix == ENOENT) {
        ghost = ghost_find(mount, request->inode);
    }
    if (code != ERR_OK && !ghost) {
        return request_settle(mount, request, code, posix, &err);
    }
    attr = ghost ? *ghost : attr;
    reply_attr(mount, request, &attr);
    return true;
}

static void on_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)fi;
    struct request request;
    request_of(&request, req, try_getattr, inode);
    request_begin(fuse_req_userdata(req), &request);
}

/* A file that is being written is cut in its draft: until it is closed or synced, the volume keeps
 * the old content whole. */
static enum err_code cut_draft(struct mount *mount, struct request *request, int *posix,
                               struct err *err)
{
    struct file *file = file_find(mount, request->inode);
    bool is_written = file != NULL && (file->writers > 0 || file->has_draft);
    if (!(request->set.set & ENGINE_SET_SIZE) || !is_written) {
        return ERR_OK;
    }
    if (file->flush) {
        return err_set(err, ERR_AGAIN, "its content is on its way");
    }
    enum err_code code = file_begin_draft(mount, request, file, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    uint64_t before = file->draft.memory_bytes;
    draft_truncate(&file->draft, request->set.attr.size);
    mount->dirty_bytes -= before - file->draft.memory_bytes;
    file->mtime_ns = file->changed_ns = request->caller.now_ns;
    request->set.set &= ~(uint32_t)ENGINE_SET_SIZE;
    return ERR_OK;
}

static bool try_setattr(struct mount *mount, struct request *request)
{
    struct engine_attr attr;
    struct err err;
    int posix = 0;
    enum err_code code = cut_draft(mount, request, &posix, &err);
    if (code == ERR_OK) {
        code = request->set.set ? back_setattr(mount, request, &attr, &posix, &err)
                                : back_getattr(mount, request, request->inode, &attr, &posix, &err);
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    struct file *file = file_find(mount, request->inode);
    if (file != NULL && file->has_draft && (request->set.set & ENGINE_SET_MTIME)) {
        file->mtime_ns = request->set.attr.mtime_ns;
    }
    if (file != NULL && (request->set.set & ENGINE_SET_MODE)) {
        file->kill_priv = false; /* the rights were given after what was written so far */
    }
    reply_attr(mount, request, &attr);
    return true;
}

static void on_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *stat, int to_set,
                       struct fuse_file_info *fi)
{
    (void)fi;
    struct request request;
    request_of(&request, req, try_setattr, inode);
    struct engine_set *set = &request.set;
    int64_t now_ns = request.caller.now_ns;
    set->attr = (struct engine_attr){
        .inode = request.inode,
        .mode = stat->st_mode,
        .uid = stat->st_uid,
        .gid = stat->st_gid,
        .size = (uint64_t)stat->st_size,
        .atime_ns = to_set & FUSE_SET_ATTR_ATIME_NOW ? now_ns : clock_ns_of(&stat->st_atim),
        .mtime_ns = to_set & FUSE_SET_ATTR_MTIME_NOW ? now_ns : clock_ns_of(&stat->st_mtim),
        .ctime_ns = clock_ns_of(&stat->st_ctim),
    };
    static const struct {
        int fuse;
        uint32_t ours;
    } bits[] = {
        {FUSE_SET_ATTR_MODE, ENGINE_SET_MODE},   {FUSE_SET_ATTR_UID, ENGINE_SET_UID},
        {FUSE_SET_ATTR_GID, ENGINE_SET_GID},     {FUSE_SET_ATTR_SIZE, ENGINE_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, ENGINE_SET_ATIME}, {FUSE_SET_ATTR_MTIME, ENGINE_SET_MTIME},
        {FUSE_SET_ATTR_CTIME, ENGINE_SET_CTIME},
    };
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        if (to_set & bits[i].fuse) {
            set->set |= bits[i].ours;
        }
    }
    if ((to_set & FUSE_SET_ATTR_SIZE) && request.caller.uid != 0) {
        set->set |= ENGINE_KILL_PRIV;
    }
    if ((to_set & FUSE_SET_ATTR_SIZE) && stat->st_size < 0) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_statfs(struct mount *mount, struct request *request)
{
    struct engine_usage usage;
    struct err err;
    enum err_code code = back_usage(mount, request, &usage, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, 0, &err);
    }
    /* An object store has no end; a number that programs can add to without overflow has. */
    uint64_t room = (uint64_t)1 << 50;
    struct statvfs stat = {.f_bsize = 1 << 17,
                           .f_frsize = 4096,
                           .f_blocks = (room + usage.bytes) / 4096,
                           .f_bfree = room / 4096,
                           .f_bavail = room / 4096,
                           .f_files = usage.files + ((uint64_t)1 << 32),
                           .f_ffree = (uint64_t)1 << 32,
                           .f_favail = (uint64_t)1 << 32,
                           .f_namemax = ENGINE_NAME_MAX};
    fuse_reply_statfs(request->req, &stat);
    return true;
}

static void on_statfs(fuse_req_t req, fuse_ino_t inode)
{
    struct request request;
    request_of(&request, req, try_statfs, inode);
    request_begin(fuse_req_userdata(req), &request);
}

void attr_fill(struct fuse_lowlevel_ops *ops)
{
    ops->getattr = on_getattr;
    ops->setattr = on_setattr;
    ops->statfs = on_statfs;
}
