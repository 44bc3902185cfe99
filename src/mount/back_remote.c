#include "mount/back_remote.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { WAIT_MS = 20 };

Drover__MetaOp remote_op(const struct request *request, Drover__MetaVerb verb)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = verb;
    op.uid = request->caller.uid;
    op.gid = request->caller.gid;
    op.now_ns = request->caller.now_ns;
    op.inode = request->inode;
    return op;
}

/* The memo. ------------------------------------------------------------------------------------ */

void memo_release(struct mount *mount, struct request *request)
{
    for (size_t i = 0; i < request->memo.count; i++) {
        meta_link_drop(mount->link, request->memo.calls[i]);
    }
    free(request->memo.calls);
    request->memo = (struct memo){0};
}

void memo_refresh(struct mount *mount, struct request *request)
{
    enum { TRIES = 3 }; /* a file that is written all the time is answered at last */
    bool is_overtaken = false;
    bool may_ask_again = request->refreshed < TRIES;
    for (size_t i = 0; i < request->memo.count; i++) {
        const struct meta_call *call = request->memo.calls[i];
        is_overtaken = is_overtaken || meta_call_is_overtaken(mount->link, call);
        may_ask_again = may_ask_again && meta_call_is_reading(call);
    }
    if (is_overtaken && may_ask_again) {
        request->refreshed++;
        memo_release(mount, request);
    }
}

void memo_abandon(struct mount *mount, struct request *request)
{
    for (size_t i = 0; i < request->memo.count; i++) {
        meta_link_abandon(mount->link, request->memo.calls[i]);
    }
    request->memo.count = 0;
    memo_release(mount, request);
}

static struct meta_call *memo_find(const struct request *request, uint64_t key)
{
    for (size_t i = 0; i < request->memo.count; i++) {
        if (meta_call_key(request->memo.calls[i]) == key) {
            return request->memo.calls[i];
        }
    }
    return NULL;
}

/* What the owner said of an ask, as the engine would have said it. */
static enum err_code verdict(const Drover__MetaAnswer *answer, int *posix, struct err *err)
{
    enum err_code code = (enum err_code)answer->code;
    *posix = (int)answer->posix;
    if (code == ERR_AGAIN) {
        code = ERR_IO; /* it would not have answered */
    }
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%.400s", answer->text);
}

enum err_code remote_ask(struct mount *mount, struct request *request, const Drover__MetaOp *op,
                         const Drover__MetaAnswer **answer, int *posix, struct err *err)
{
    struct memo *memo = &request->memo;
    struct meta_call *call = memo_find(request, meta_key_of(op));
    *posix = 0;
    if (call == NULL) {
        call = meta_link_known(mount->link, op, clock_boot_ms());
        call = call ? call : meta_link_ask(mount->link, op);
        VEC_PUSH(memo->calls, memo->count, memo->cap) = call;
    }
    *answer = meta_call_answer(call);
    if (*answer == NULL) {
        return err_set(err, ERR_AGAIN, "asked the owner");
    }
    return verdict(*answer, posix, err);
}

/* A file whose attributes are known is open at once, and the owner is told. If the request has to
 * be tried again, for whatever cause, it waits for the owner's answer. */
enum err_code remote_open_file(struct mount *mount, struct request *request,
                               struct engine_attr *out, int *posix, struct err *err)
{
    Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_OPEN);
    struct memo *memo = &request->memo;
    *posix = 0;
    if (memo_find(request, meta_key_of(&op)) == NULL) {
        struct meta_call *call = NULL;
        bool is_known = meta_link_open(mount->link, &op, clock_boot_ms(), &call, out);
        VEC_PUSH(memo->calls, memo->count, memo->cap) = call;
        if (is_known) {
            return ERR_OK;
        }
    }
    return remote_attr(mount, request, &op, out, posix, err);
}

/* Kinds of answers. ---------------------------------------------------------------------------- */

enum err_code remote_attr(struct mount *mount, struct request *request, const Drover__MetaOp *op,
                          struct engine_attr *out, int *posix, struct err *err)
{
    const Drover__MetaAnswer *answer = NULL;
    enum err_code code = remote_ask(mount, request, op, &answer, posix, err);
    if (code == ERR_OK && answer->attr == NULL) {
        return err_set(err, ERR_CORRUPT, "the owner's answer lacks the attributes");
    }
    if (code == ERR_OK) {
        meta_attr_from(answer->attr, out);
    }
    return code;
}

enum err_code remote_bytes(struct mount *mount, struct request *request, const Drover__MetaOp *op,
                           struct str *out, int *posix, struct err *err)
{
    const Drover__MetaAnswer *answer = NULL;
    enum err_code code = remote_ask(mount, request, op, &answer, posix, err);
    if (code == ERR_OK && answer->data.len > 0) {
        str_add_bytes(out, answer->data.data, answer->data.len);
    }
    return code;
}

/* As engine_extents does: all of them are there before the first is given. */
static enum err_code extents_pass(struct mount *mount, struct request *request,
                                  const struct back_span *span, bool gives, struct remote_why *why)
{
    Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_EXTENTS);
    uint64_t end = span->span.offset + span->span.size;
    op.inode = span->span.inode;
    op.offset = span->span.offset;
    for (;;) {
        const Drover__MetaAnswer *answer = NULL;
        op.size = end - op.offset;
        enum err_code code = remote_ask(mount, request, &op, &answer, why->posix, why->err);
        if (code != ERR_OK) {
            return code;
        }
        for (size_t i = 0; gives && i < answer->n_extent; i++) {
            struct extent extent;
            meta_extent_from(answer->extent[i], &extent);
            bool is_wanted = extent.file_offset < end;
            if (is_wanted && !span->each(span->context, &extent)) {
                return ERR_OK;
            }
        }
        if (!answer->more || answer->next <= op.offset || answer->next >= end) {
            return ERR_OK;
        }
        op.offset = answer->next;
    }
}

enum err_code remote_extents(struct mount *mount, struct request *request,
                             const struct back_span *span, int *posix, struct err *err)
{
    struct remote_why why = {posix, err};
    enum err_code code = extents_pass(mount, request, span, false, &why);
    return code == ERR_OK ? extents_pass(mount, request, span, true, &why) : code;
}

enum err_code remote_list(struct mount *mount, struct request *request,
                          const struct back_listing *listing, int *posix, struct err *err)
{
    char after[ENGINE_NAME_MAX + 1] = "";
    Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_LIST);
    op.inode = listing->ask.folder;
    op.flags = listing->ask.plus;
    op.size = listing->room;
    op.name = meta_text(listing->ask.after);
    for (;;) {
        const Drover__MetaAnswer *answer = NULL;
        enum err_code code = remote_ask(mount, request, &op, &answer, posix, err);
        for (size_t i = 0; code == ERR_OK && i < answer->n_entry; i++) {
            const Drover__MetaEntry *item = answer->entry[i];
            struct engine_attr attr = {.inode = item->inode};
            memcpy(after, item->name.data, item->name.len);
            after[item->name.len] = '\0';
            if (item->attr) {
                meta_attr_from(item->attr, &attr);
            }
            struct engine_entry entry = {after, item->inode, item->type,
                                         listing->ask.plus ? &attr : NULL};
            if (!listing->each(listing->context, &entry)) {
                return ERR_OK;
            }
        }
        if (code != ERR_OK || !answer->more || answer->n_entry == 0) {
            return code;
        }
        op.name = meta_text(after);
    }
}

const void *back_young(const struct mount *mount, const struct request *request,
                       const struct extent *extent)
{
    if (!mount->dealer) {
        return volume_young(mount->volume, extent);
    }
    const void *ours = upload_young(mount->upload, extent);
    for (size_t i = 0; ours == NULL && i < request->memo.count; i++) {
        const Drover__MetaAnswer *answer = meta_call_answer(request->memo.calls[i]);
        for (size_t j = 0; answer != NULL && j < answer->n_extent; j++) {
            const Drover__MetaExtent *item = answer->extent[j];
            if (item->data.len > 0 && item->kind == extent->container.kind &&
                item->writer == extent->container.writer && item->term == extent->container.term &&
                item->number == extent->container.number && item->offset == extent->offset &&
                item->data.len == extent->stored_size) {
                return item->data.data;
            }
        }
    }
    return ours;
}

/* What the kernel has. ------------------------------------------------------------------------- */

static struct seen *seen_of(struct mount *mount, uint64_t inode)
{
    return &mount->seen[(inode * 0x9E3779B97F4A7C15U) >> 50];
}

void remote_saw(struct mount *mount, const struct engine_attr *attr)
{
    *seen_of(mount, attr->inode) = (struct seen){attr->inode, attr->generation};
}

bool remote_may_keep(struct mount *mount, const struct engine_attr *attr)
{
    const struct seen *seen = seen_of(mount, attr->inode);
    bool is_same = seen->inode == attr->inode && seen->generation == attr->generation;
    remote_saw(mount, attr);
    return is_same;
}

void remote_changed(struct mount *mount, const struct engine_attr *attr)
{
    struct seen *seen = seen_of(mount, attr->inode);
    bool was_known = seen->inode == attr->inode && (seen->generation + 1 == attr->generation ||
                                                    seen->generation == attr->generation);
    *seen = was_known ? (struct seen){attr->inode, attr->generation} : (struct seen){0};
}

/* Locks. --------------------------------------------------------------------------------------- */

static void fill_lock(Drover__MetaOp *op, Drover__MetaLock *lock, uint64_t owner, uint32_t type)
{
    drover__meta_lock__init(lock);
    lock->inode = op->inode;
    lock->owner = owner;
    lock->type = type;
    op->lock = lock;
    op->offset = owner & INT64_MAX; /* tells asks of one request apart */
}

enum err_code back_flock(struct mount *mount, struct request *request, int *posix, struct err *err)
{
    Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_LOCK);
    Drover__MetaLock lock;
    const Drover__MetaAnswer *answer = NULL;
    int kind = (int)request->flags & ~LOCK_NB;
    fill_lock(&op, &lock, request->fi.lock_owner, kind == LOCK_EX ? 2 : kind == LOCK_SH ? 1 : 0);
    op.flags = lock.type != 0 && (request->flags & LOCK_NB) == 0;
    if (lock.type != 0 && request->memo.count == 0 &&
        meta_link_holds(mount->link, &lock, clock_boot_ms())) {
        *posix = 0;
        return ERR_OK; /* of the same kind: nothing to do, and nothing to undo */
    }
    return remote_ask(mount, request, &op, &answer, posix, err);
}

void back_unlock(struct mount *mount, uint64_t inode, uint64_t owner)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    Drover__MetaLock lock;
    op.verb = DROVER__META_VERB__META_VERB_LOCK;
    op.inode = inode;
    fill_lock(&op, &lock, owner, 0);
    meta_link_drop(mount->link, meta_link_ask(mount->link, &op));
}

enum err_code back_order(struct mount *mount, struct request *request, struct str *said,
                         struct err *err)
{
    Drover__MetaOp op = remote_op(request, DROVER__META_VERB__META_VERB_ORDER);
    const Drover__MetaAnswer *answer = NULL;
    int posix = 0;
    op.data = meta_bytes(request->data, request->size);
    enum err_code code = remote_ask(mount, request, &op, &answer, &posix, err);
    if (code == ERR_OK && answer->data.len > 0) {
        str_add_bytes(said, answer->data.data, answer->data.len);
    }
    return code;
}

/* Driving. ------------------------------------------------------------------------------------- */

enum err_code remote_trouble(const struct mount *mount, struct err *err)
{
    enum err_code code = meta_link_trouble(mount->link, err);
    const char *away = code == ERR_OK ? upload_trouble(mount->upload) : NULL;
    return away ? err_set(err, ERR_AGAIN, "%s", away) : code;
}

bool remote_run(struct mount *mount, int wait_ms)
{
    bool any = meta_dealer_run(mount->dealer);
    const Drover__MetaWelcome *welcome = meta_link_welcome(mount->link);
    if (welcome) {
        upload_set_writer(mount->upload, welcome->writer, welcome->term);
    }
    return object_run(mount->store, any ? 0 : wait_ms) > 0 || any;
}

/* The lowest pack that something not yet sent refers to. */
static uint64_t lowest_pack(const struct mount *mount)
{
    uint64_t lowest = upload_next(mount->upload);
    for (size_t i = 0; i < FILE_BUCKETS; i++) {
        for (const struct file *file = mount->files[i]; file; file = file->next) {
            const struct draft *draft = &file->draft;
            for (size_t j = 0; file->has_draft && j < draft->count; j++) {
                const struct draft_segment *segment = &draft->segments[j];
                if (segment->kind == DRAFT_PLACED && segment->extent.container.number < lowest) {
                    lowest = segment->extent.container.number;
                }
            }
        }
    }
    return lowest;
}

void remote_tick(struct mount *mount, int64_t now_ms)
{
    uint64_t lowest = lowest_pack(mount);
    meta_link_set_floor(mount->link, lowest);
    upload_forget(mount->upload, lowest);
    upload_turn(mount->upload, now_ms);
    if (meta_link_lapses(mount->link) != mount->lapses_seen) {
        mount->lapses_seen = meta_link_lapses(mount->link);
        stale_all(mount);
    }
}

enum err_code remote_sync_all(struct mount *mount, struct err *err)
{
    struct request request = {.inode = ENGINE_ROOT};
    Drover__MetaOp op = remote_op(&request, DROVER__META_VERB__META_VERB_SYNC);
    const Drover__MetaAnswer *answer = NULL;
    int posix = 0;
    enum err_code code = ERR_AGAIN;
    while (code == ERR_AGAIN) {
        code = remote_ask(mount, &request, &op, &answer, &posix, err);
        if (code == ERR_AGAIN && meta_link_trouble(mount->link, err) != ERR_OK) {
            code = meta_link_trouble(mount->link, err);
        } else if (code == ERR_AGAIN) {
            (void)remote_run(mount, WAIT_MS);
        }
    }
    memo_release(mount, &request);
    while (code == ERR_OK && !meta_link_is_idle(mount->link)) {
        (void)remote_run(mount, WAIT_MS);
        code = meta_link_trouble(mount->link, err);
    }
    return code;
}
