/* The two that may stand behind a mount, and which of them does. */
#include "mount/back.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mount/back_remote.h"

#include <stdlib.h>

enum err_code back_lookup(struct mount *mount, struct request *request, struct engine_attr *out,
                          int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_LOOKUP);
        op.name = meta_text(request->name);
        return remote_attr(mount, request, &op, out, posix, err);
    }
    return engine_lookup(mount->engine, request->inode, request->name, out, posix, err);
}

enum err_code back_lookup_new(struct mount *mount, struct request *request, struct engine_attr *out,
                              int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_LOOKUP);
        op.inode = request->folder;
        op.name = meta_text(request->new_name);
        return remote_attr(mount, request, &op, out, posix, err);
    }
    return engine_lookup(mount->engine, request->folder, request->new_name, out, posix, err);
}

enum err_code back_getattr(struct mount *mount, struct request *request, uint64_t inode,
                           struct engine_attr *out, int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_GETATTR);
        op.inode = inode;
        return remote_attr(mount, request, &op, out, posix, err);
    }
    return engine_getattr(mount->engine, inode, out, posix, err);
}

enum err_code back_read_attr(struct mount *mount, struct request *request, struct engine_attr *out,
                             int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_EXTENTS);
        op.offset = request->offset;
        op.size = request->size > 0 ? request->size : 1;
        return remote_attr(mount, request, &op, out, posix, err);
    }
    return engine_getattr(mount->engine, request->inode, out, posix, err);
}

enum err_code back_extents(struct mount *mount, struct request *request,
                           const struct back_span *span, int *posix, struct err *err)
{
    if (mount->dealer) {
        return remote_extents(mount, request, span, posix, err);
    }
    return engine_extents(mount->engine, &span->span, span->each, span->context, posix, err);
}

enum err_code back_list(struct mount *mount, struct request *request,
                        const struct back_listing *listing, int *posix, struct err *err)
{
    if (mount->dealer) {
        return remote_list(mount, request, listing, posix, err);
    }
    return engine_list(mount->engine, &listing->ask, listing->each, listing->context, posix, err);
}

enum err_code back_readlink(struct mount *mount, struct request *request, struct str *out,
                            int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_READLINK);
        return remote_bytes(mount, request, &op, out, posix, err);
    }
    return engine_readlink(mount->engine, request->inode, out, posix, err);
}

enum err_code back_xattr_get(struct mount *mount, struct request *request, struct str *out,
                             int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_XATTR_GET);
        op.name = meta_text(request->name);
        return remote_bytes(mount, request, &op, out, posix, err);
    }
    return engine_xattr_get(mount->engine, request->inode, request->name, out, posix, err);
}

enum err_code back_xattr_list(struct mount *mount, struct request *request, struct str *out,
                              int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_XATTR_LIST);
        return remote_bytes(mount, request, &op, out, posix, err);
    }
    return engine_xattr_list(mount->engine, request->inode, out, posix, err);
}

enum err_code back_usage(struct mount *mount, struct request *request, struct engine_usage *out,
                         struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_USAGE);
        const Drover__MetaAnswer *answer = NULL;
        int posix = 0;
        enum err_code code = remote_ask(mount, request, &op, &answer, &posix, err);
        if (code == ERR_OK) {
            *out = (struct engine_usage){answer->files, answer->bytes};
        }
        return code;
    }
    engine_usage(mount->engine, out);
    return ERR_OK;
}

/* Changes. ------------------------------------------------------------------------------------- */

static enum err_code remote_make(struct mount *mount, struct request *request,
                                 const struct engine_make *make, bool opens,
                                 struct engine_attr *out, struct remote_why *why)
{
    Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_MAKE);
    op.inode = make->folder;
    op.name = meta_text(make->name);
    op.new_name = meta_text(make->target);
    op.mode = make->mode;
    op.rdev = make->rdev;
    op.flags = opens;
    return remote_attr(mount, request, &op, out, why->posix, why->err);
}

enum err_code back_make(struct mount *mount, struct request *request,
                        const struct engine_make *make, struct engine_attr *out, int *posix,
                        struct err *err)
{
    if (mount->dealer) {
        struct remote_why why = {posix, err};
        return remote_make(mount, request, make, false, out, &why);
    }
    return engine_make(mount->engine, &request->caller, make, out, posix, err);
}

enum err_code back_create(struct mount *mount, struct request *request,
                          const struct engine_make *make, struct engine_attr *out, int *posix,
                          struct err *err)
{
    if (mount->dealer) {
        struct remote_why why = {posix, err};
        enum err_code made = remote_make(mount, request, make, true, out, &why);
        if (made == ERR_OK) {
            remote_saw(mount, out);
        }
        return made;
    }
    enum err_code code = engine_make(mount->engine, &request->caller, make, out, posix, err);
    if (code == ERR_OK) {
        engine_hold(mount->engine, make->folder, out->inode, false);
    }
    return code;
}

enum err_code back_link(struct mount *mount, struct request *request,
                        const struct engine_make *link, struct engine_attr *out, int *posix,
                        struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_LINK);
        op.inode = link->inode;
        op.folder = link->folder;
        op.new_name = meta_text(link->name);
        return remote_attr(mount, request, &op, out, posix, err);
    }
    return engine_link(mount->engine, &request->caller, link, out, posix, err);
}

enum err_code back_remove(struct mount *mount, struct request *request,
                          const struct engine_remove *remove, int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_REMOVE);
        const Drover__MetaAnswer *answer = NULL;
        op.inode = remove->folder;
        op.name = meta_text(remove->name);
        op.flags = remove->is_folder;
        return remote_ask(mount, request, &op, &answer, posix, err);
    }
    return engine_remove(mount->engine, &request->caller, remove, posix, err);
}

enum err_code back_rename(struct mount *mount, struct request *request,
                          const struct engine_rename *rename, int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_RENAME);
        const Drover__MetaAnswer *answer = NULL;
        op.inode = rename->from;
        op.folder = rename->to;
        op.name = meta_text(rename->old_name);
        op.new_name = meta_text(rename->new_name);
        op.flags = rename->flags;
        return remote_ask(mount, request, &op, &answer, posix, err);
    }
    return engine_rename(mount->engine, &request->caller, rename, posix, err);
}

enum err_code back_setattr(struct mount *mount, struct request *request, struct engine_attr *out,
                           int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_SETATTR);
        Drover__MetaAttr set;
        meta_attr_to(&request->set.attr, &set);
        op.set = &set;
        op.flags = request->set.set;
        enum err_code code = remote_attr(mount, request, &op, out, posix, err);
        if (code == ERR_OK) {
            remote_changed(mount, out);
        }
        return code;
    }
    return engine_setattr(mount->engine, &request->caller, &request->set, out, posix, err);
}

enum err_code back_xattr_set(struct mount *mount, struct request *request,
                             const struct engine_xattr *xattr, int *posix, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_XATTR_SET);
        const Drover__MetaAnswer *answer = NULL;
        op.name = meta_text(xattr->name);
        op.data = meta_bytes(xattr->value, xattr->value ? xattr->size : 0);
        op.mode = xattr->value == NULL;
        op.flags = (uint32_t)xattr->flags;
        return remote_ask(mount, request, &op, &answer, posix, err);
    }
    return engine_xattr_set(mount->engine, &request->caller, xattr, posix, err);
}

/* Files. --------------------------------------------------------------------------------------- */

enum err_code back_open(struct mount *mount, struct request *request, struct engine_attr *out,
                        int *posix, struct err *err)
{
    if (mount->dealer) {
        return remote_open_file(mount, request, out, posix, err);
    }
    return ERR_OK;
}

void back_close(struct mount *mount, uint64_t inode, bool ends_making)
{
    if (mount->dealer) {
        Drover__MetaOp op = DROVER__META_OP__INIT;
        op.verb = DROVER__META_VERB__META_VERB_CLOSE;
        op.inode = inode;
        op.flags = ends_making;
        meta_link_drop(mount->link, meta_link_ask(mount->link, &op));
    }
}

enum err_code back_forget(struct mount *mount, uint64_t inode, struct err *err)
{
    return mount->dealer ? ERR_OK : engine_forget(mount->engine, inode, err);
}

void back_release(struct mount *mount, uint64_t inode)
{
    if (!mount->dealer) {
        engine_release(mount->engine, inode);
    }
}

enum err_code back_sync(struct mount *mount, struct request *request, struct err *err)
{
    if (mount->dealer) {
        Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_SYNC);
        const Drover__MetaAnswer *answer = NULL;
        int posix = 0;
        request->seq =
            1; /* the content has arrived; what is written from now on is not waited for */
        return remote_ask(mount, request, &op, &answer, &posix, err);
    }
    if (request->seq == 0) {
        engine_release(mount->engine, request->inode);
        request->seq = volume_commit(mount->volume);
    }
    return volume_seq_durable(mount->volume) >= request->seq
               ? ERR_OK
               : err_set(err, ERR_AGAIN, "not stored yet");
}

bool back_may_keep_cache(struct mount *mount, const struct engine_attr *attr)
{
    return mount->dealer ? remote_may_keep(mount, attr) : true; /* every change is this kernel's */
}

/* Driving. ------------------------------------------------------------------------------------- */

enum err_code back_trouble(const struct mount *mount, struct err *err)
{
    return mount->dealer ? remote_trouble(mount, err) : volume_trouble(mount->volume, err);
}

void back_make_room(struct mount *mount)
{
    if (!mount->dealer) {
        (void)volume_commit(mount->volume);
    }
}

void back_want(struct mount *mount)
{
    if (!mount->dealer) {
        volume_want(mount->volume);
    }
}

uint64_t back_progress(const struct mount *mount)
{
    return mount->dealer ? meta_link_progress(mount->link) + upload_progress(mount->upload)
                         : volume_progress(mount->volume) + volume_seq_durable(mount->volume);
}

bool back_run(struct mount *mount, int wait_ms)
{
    if (mount->dealer) {
        return remote_run(mount, wait_ms);
    }
    volume_run(mount->volume, wait_ms);
    return true;
}

void back_tick(struct mount *mount, int64_t now_ms)
{
    if (mount->dealer) {
        remote_tick(mount, now_ms);
    } else {
        volume_tick(mount->volume, now_ms);
    }
}

void back_end(struct mount *mount)
{
    stale_end(mount);
}

void back_fds(struct mount *mount, int out[BACK_FDS])
{
    out[0] = mount->dealer ? object_fd(mount->store) : volume_fd(mount->volume);
    out[1] = mount->dealer ? meta_dealer_fd(mount->dealer) : -1;
}

enum err_code back_sync_all(struct mount *mount, struct err *err)
{
    return mount->dealer ? remote_sync_all(mount, err) : volume_sync(mount->volume, err);
}

void back_stats(const struct mount *mount, struct volume_stats *out)
{
    if (mount->dealer) {
        *out = (struct volume_stats){0};
        object_stats(mount->store, &out->store);
        return;
    }
    volume_stats(mount->volume, out);
}
