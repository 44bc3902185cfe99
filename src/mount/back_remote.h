/* back_remote.h - asking an owner elsewhere. Only back*.c includes it. */
#ifndef MOUNT_BACK_REMOTE_H
#define MOUNT_BACK_REMOTE_H

#include "mount/back.h"

struct remote_why {
    int *posix;
    struct err *err;
};

/* With who asks, and about request->inode. */
Drover__MetaOp remote_op(const struct request *request, Drover__MetaVerb verb);
/* The answer, or ERR_AGAIN until it is there. Valid as long as the request. */
enum err_code remote_ask(struct mount *mount, struct request *request, const Drover__MetaOp *op,
                         const Drover__MetaAnswer **answer, int *posix, struct err *err);
enum err_code remote_open_file(struct mount *mount, struct request *request,
                               struct engine_attr *out, int *posix, struct err *err);
enum err_code remote_attr(struct mount *mount, struct request *request, const Drover__MetaOp *op,
                          struct engine_attr *out, int *posix, struct err *err);
enum err_code remote_bytes(struct mount *mount, struct request *request, const Drover__MetaOp *op,
                           struct str *out, int *posix, struct err *err);
enum err_code remote_extents(struct mount *mount, struct request *request,
                             const struct back_span *span, int *posix, struct err *err);
enum err_code remote_list(struct mount *mount, struct request *request,
                          const struct back_listing *listing, int *posix, struct err *err);

/* What the kernel may have of a file's content: of this generation. */
bool remote_may_keep(struct mount *mount, const struct engine_attr *attr);
void remote_saw(struct mount *mount, const struct engine_attr *attr);
/* We have changed it ourselves: what the kernel has is still right, if nobody else did before. */
void remote_changed(struct mount *mount, const struct engine_attr *attr);

/* The session was lost for a while: the kernel is to forget what it has of files. */
void stale_all(struct mount *mount);
void stale_end(struct mount *mount);

/* ERR_DENIED: the owner refuses us. ERR_AGAIN: the store is away. */
enum err_code remote_trouble(const struct mount *mount, struct err *err);
bool remote_run(struct mount *mount, int wait_ms);
void remote_tick(struct mount *mount, int64_t now_ms);
enum err_code remote_sync_all(struct mount *mount, struct err *err);

#endif
