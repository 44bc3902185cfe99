/* back.h - what stands behind a mount: the volume's engine in this process, or its owner elsewhere.
 *
 * Private to src/mount. An attempt (request.h) is tried again from its beginning, so what it has
 * asked an owner elsewhere is remembered with the request (its memo): the same question gets the
 * same answer, and a change is asked for once. ERR_AGAIN: the answer is not here yet. In this
 * process it costs one branch.
 *
 * `posix` and `err` are as in engine.h.
 */
#ifndef MOUNT_BACK_H
#define MOUNT_BACK_H

#include "mount/request.h"

enum err_code back_lookup(struct mount *mount, struct request *request, struct engine_attr *out,
                          int *posix, struct err *err); /* request->name in request->inode */
enum err_code back_lookup_new(struct mount *mount, struct request *request, struct engine_attr *out,
                              int *posix, struct err *err); /* new_name in request->folder */
enum err_code back_getattr(struct mount *mount, struct request *request, uint64_t inode,
                           struct engine_attr *out, int *posix, struct err *err);
/* The attributes that go with the extents of [request->offset, + request->size). */
enum err_code back_read_attr(struct mount *mount, struct request *request, struct engine_attr *out,
                             int *posix, struct err *err);
struct back_span {
    struct engine_span span;
    engine_extent_fn each;
    void *context;
};
enum err_code back_extents(struct mount *mount, struct request *request,
                           const struct back_span *span, int *posix, struct err *err);
struct back_listing {
    struct engine_listing ask;
    engine_each_fn each;
    void *context;
    size_t room; /* bytes that the entries may take, about */
};
enum err_code back_list(struct mount *mount, struct request *request,
                        const struct back_listing *listing, int *posix, struct err *err);
enum err_code back_readlink(struct mount *mount, struct request *request, struct str *out,
                            int *posix, struct err *err);
enum err_code back_xattr_get(struct mount *mount, struct request *request, struct str *out,
                             int *posix, struct err *err);
enum err_code back_xattr_list(struct mount *mount, struct request *request, struct str *out,
                              int *posix, struct err *err);
enum err_code back_usage(struct mount *mount, struct request *request, struct engine_usage *out,
                         struct err *err);

/* Changes, by request->caller. */
enum err_code back_make(struct mount *mount, struct request *request,
                        const struct engine_make *make, struct engine_attr *out, int *posix,
                        struct err *err);
/* The same, and the file is open then; it is not committed before it is closed or synced. */
enum err_code back_create(struct mount *mount, struct request *request,
                          const struct engine_make *make, struct engine_attr *out, int *posix,
                          struct err *err);
enum err_code back_link(struct mount *mount, struct request *request,
                        const struct engine_make *link, struct engine_attr *out, int *posix,
                        struct err *err);
enum err_code back_remove(struct mount *mount, struct request *request,
                          const struct engine_remove *remove, int *posix, struct err *err);
enum err_code back_rename(struct mount *mount, struct request *request,
                          const struct engine_rename *rename, int *posix, struct err *err);
enum err_code back_setattr(struct mount *mount, struct request *request, struct engine_attr *out,
                           int *posix, struct err *err);
enum err_code back_xattr_set(struct mount *mount, struct request *request,
                             const struct engine_xattr *xattr, int *posix, struct err *err);

/* Files. open: says that request->inode is open here (nothing to say in this process). close: that
 * one handle is gone; ends_making: a new file may be stored from now on. */
enum err_code back_open(struct mount *mount, struct request *request, struct engine_attr *out,
                        int *posix, struct err *err);
void back_close(struct mount *mount, uint64_t inode, bool ends_making);
/* The last handle here goes. */
enum err_code back_forget(struct mount *mount, uint64_t inode, struct err *err);
void back_release(struct mount *mount, uint64_t inode); /* engine_release */
/* Everything of this inode so far is stored. */
enum err_code back_sync(struct mount *mount, struct request *request, struct err *err);
/* May the kernel keep what it has of this file's content? */
bool back_may_keep_cache(struct mount *mount, const struct engine_attr *attr);
enum err_code back_flock(struct mount *mount, struct request *request, int *posix, struct err *err);
void back_unlock(struct mount *mount, uint64_t inode, uint64_t owner);

/* Data. */
void back_place(struct mount *mount, struct file *file, size_t index, bool inlined);
bool back_is_congested(const struct mount *mount);
/* The stored bytes of an extent that is not in the store yet; NULL: it is there. */
const void *back_young(const struct mount *mount, const struct request *request,
                       const struct extent *extent);
/* file_flush of a mount whose owner is elsewhere. */
enum err_code back_flush_remote(struct mount *mount, struct file *file, bool inlined, int *posix,
                                struct err *err);

/* Driving. */
enum err_code back_trouble(const struct mount *mount, struct err *err); /* volume_trouble */
void back_want(struct mount *mount);
uint64_t back_progress(const struct mount *mount);
bool back_run(struct mount *mount, int wait_ms); /* true: something may have come */
void back_tick(struct mount *mount, int64_t now_ms);
void back_end(struct mount *mount); /* after the folder was unmounted */
enum { BACK_FDS = 2 };
void back_fds(struct mount *mount, int out[BACK_FDS]); /* -1: none */
/* Everything so far is stored; blocking. */
enum err_code back_sync_all(struct mount *mount, struct err *err);
void back_stats(const struct mount *mount, struct volume_stats *out);
/* orders.c, remote: what the owner said is in mount->said. */
enum err_code back_order(struct mount *mount, struct request *request, struct str *said,
                         struct err *err);

void back_make_room(struct mount *mount); /* for what waits to be placed */

/* Before another attempt: if what was answered is older than a change of our own that has been
 * answered since, it is asked again. The kernel takes a file's size from us when it appends. */
void memo_refresh(struct mount *mount, struct request *request);
void memo_release(struct mount *mount, struct request *request);
/* The same for a request that is given up before it has made use of its answers. */
void memo_abandon(struct mount *mount, struct request *request);

#endif
