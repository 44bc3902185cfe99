/* What this mount has locked (flock): what it holds for certain, what it gave up waiting for, and
 * what it may have lost while its lease had run out. */
#include "base/mem.h"
#include "meta/link_internal.h"

#include <errno.h>
#include <stdlib.h>

static const char lost[] = "a lock that this mount held was taken by another meanwhile";

static bool is_of(const struct meta_call *call, uint64_t inode, uint64_t owner)
{
    return call->verb == DROVER__META_VERB__META_VERB_LOCK && call->inode == inode &&
           call->lock_owner == owner;
}

static struct held_lock *find(const struct meta_link *link, uint64_t inode, uint64_t owner)
{
    for (size_t i = 0; i < link->lock_count; i++) {
        struct held_lock *held = &link->locks[i];
        if (held->lock.inode == inode && held->lock.owner == owner) {
            return held;
        }
    }
    return NULL;
}

static void forget(struct meta_link *link, uint64_t inode, uint64_t owner)
{
    struct held_lock *held = find(link, inode, owner);
    if (held) {
        *held = link->locks[--link->lock_count];
    }
}

/* Another ask of the same owner that comes after this number (0: any) and is not answered. */
static bool has_later(const struct meta_link *link, uint64_t inode, uint64_t owner, uint64_t number)
{
    const struct meta_call *call = NULL;
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        if (call->number > number && is_of(call, inode, owner)) {
            return true;
        }
    }
    return false;
}

/* Of another kind it is let go before it is waited for; and if it is not had, it is lost. */
void locks_asked(struct meta_link *link, const struct meta_call *asked)
{
    struct meta_call *call = NULL;
    forget(link, asked->inode, asked->lock_owner);
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        if (call->is_reclaim && call != asked && is_of(call, asked->inode, asked->lock_owner)) {
            call->is_reclaim = false; /* what comes now decides */
            call->is_undone = true;
        }
    }
}

static void hold(struct meta_link *link, const struct meta_call *call)
{
    struct held_lock *held = find(link, call->inode, call->lock_owner);
    if (held == NULL) {
        held = &VEC_PUSH(link->locks, link->lock_count, link->lock_cap);
        drover__meta_lock__init(&held->lock);
        held->lock.inode = call->inode;
        held->lock.owner = call->lock_owner;
    }
    held->lock.type = call->lock_type;
    held->doubtful_ms = 0;
}

/* The owner has heard that this lock is let go, and of what was asked before. If the answer to one
 * that was given up is still missing, it was lost or comes to nothing, and it must not be asked for
 * again from the next owner, which would give the lock to nobody. */
static void settle_given_up(struct meta_link *link, const struct meta_call *unlocked)
{
    struct meta_call *call = TAILQ_FIRST(&link->waiting);
    while (call != NULL && call->number < unlocked->number) {
        struct meta_call *next = TAILQ_NEXT(call, link);
        if (is_of(call, unlocked->inode, unlocked->lock_owner) && call->is_undone &&
            !call->is_wanted) {
            call_settle(link, call);
        }
        call = next;
    }
}

/* A lock was taken after it had been let go: if the answer to that is still missing, it was lost,
 * and must not be asked for again from the next owner, which would let go of this one. */
static void settle_unlocks(struct meta_link *link, const struct meta_call *locked)
{
    settle_given_up(link, locked);
    struct meta_call *call = TAILQ_FIRST(&link->waiting);
    while (call != NULL && call->number < locked->number) {
        struct meta_call *next = TAILQ_NEXT(call, link);
        if (is_of(call, locked->inode, locked->lock_owner) && call->lock_type == 0 &&
            !call->is_wanted) {
            call_settle(link, call);
        }
        call = next;
    }
}

void locks_answered(struct meta_link *link, const struct meta_call *call,
                    const Drover__MetaAnswer *answer)
{
    if (call->lock_type == 0) {
        settle_given_up(link, call);
    } else if (answer->code == ERR_OK && !call->is_undone) {
        settle_unlocks(link, call);
        if (!has_later(link, call->inode, call->lock_owner, call->number)) {
            hold(link, call); /* else what comes later decides */
        }
    } else if (call->is_reclaim && answer->posix == EWOULDBLOCK) {
        forget(link, call->inode, call->lock_owner);
        link_tell(link, lost);
    }
}

/* A lock may be waited for for hours: the owner is told at once that nobody does, and lets go of it
 * if it has given it. So the answer, if one still comes, changes nothing. */
void locks_undo(struct meta_link *link, const struct meta_call *call)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    Drover__MetaLock lock = DROVER__META_LOCK__INIT;
    op.verb = DROVER__META_VERB__META_VERB_LOCK;
    op.inode = lock.inode = call->inode;
    op.flags = 1;
    op.offset = call->number;
    lock.owner = call->lock_owner;
    op.lock = &lock;
    meta_link_drop(link, meta_link_ask(link, &op));
}

static void reclaim(struct meta_link *link, Drover__MetaLock *lock)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = DROVER__META_VERB__META_VERB_LOCK;
    op.inode = lock->inode;
    op.lock = lock;
    meta_link_drop(link, link_ask(link, &op, true));
}

void locks_doubt(struct meta_link *link)
{
    const Drover__MetaWelcome *welcome = meta_link_welcome(link);
    int64_t over_ms = welcome ? link->proven_ms + welcome->lease_ms : link->now_ms;
    over_ms = over_ms < link->now_ms ? over_ms : link->now_ms;
    for (size_t i = 0; i < link->lock_count; i++) {
        struct held_lock *held = &link->locks[i];
        held->doubtful_ms = held->doubtful_ms ? held->doubtful_ms : over_ms;
    }
}

size_t locks_name(struct meta_link *link, Drover__MetaLock **out)
{
    for (size_t i = 0; i < link->lock_count; i++) {
        struct held_lock *held = &link->locks[i];
        int64_t since_ms = link->now_ms - held->doubtful_ms;
        held->lock.doubt_ms = held->doubtful_ms ? (uint64_t)(since_ms > 0 ? since_ms : 0) + 1 : 0;
        out[i] = &held->lock;
    }
    return link->lock_count;
}

static int by_owner(const void *a, const void *b)
{
    const Drover__MetaLock *left = *(const Drover__MetaLock *const *)a;
    const Drover__MetaLock *right = *(const Drover__MetaLock *const *)b;
    if (left->inode != right->inode) {
        return left->inode < right->inode ? -1 : 1;
    }
    return left->owner < right->owner ? -1 : left->owner > right->owner;
}

static bool is_known(const Drover__MetaWelcome *welcome, const Drover__MetaLock *lock)
{
    return welcome->n_lock > 0 && bsearch(&lock, welcome->lock, welcome->n_lock,
                                          sizeof welcome->lock[0], by_owner) != NULL;
}

static bool is_reclaimed(const struct meta_link *link, const Drover__MetaLock *lock)
{
    const struct meta_call *call = NULL;
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        if (call->is_reclaim && is_of(call, lock->inode, lock->owner)) {
            return true;
        }
    }
    return false;
}

/* What hello named and the owner does not know is another's; what it knows is ours, in doubt or
 * not. The rest of what is in doubt is asked for: a new owner gives it back before it serves anyone
 * else, but for what others hold without doubt, or doubt for less long. */
void locks_confirm(struct meta_link *link, const Drover__MetaWelcome *welcome)
{
    if (welcome->n_lock > 1) {
        qsort(welcome->lock, welcome->n_lock, sizeof welcome->lock[0], by_owner);
    }
    AUTO_FREE Drover__MetaLock *doubtful = mem_array(link->lock_count, sizeof *doubtful);
    size_t left = 0;
    size_t doubts = 0;
    for (size_t i = 0; i < link->lock_count; i++) {
        struct held_lock *held = &link->locks[i];
        if (is_known(welcome, &held->lock)) {
            held->doubtful_ms = 0;
        } else if (held->doubtful_ms == 0) {
            link_tell(link, lost);
            continue;
        } else if (!is_reclaimed(link, &held->lock)) {
            doubtful[doubts++] = held->lock;
        }
        link->locks[left++] = *held;
    }
    link->lock_count = left;
    for (size_t i = 0; i < doubts; i++) {
        reclaim(link, &doubtful[i]);
    }
}

bool meta_link_holds(const struct meta_link *link, const Drover__MetaLock *lock, int64_t now_ms)
{
    const struct held_lock *held = find(link, lock->inode, lock->owner);
    return held && held->doubtful_ms == 0 && held->lock.type == lock->type &&
           link_has_lease(link, now_ms) && !has_later(link, lock->inode, lock->owner, 0);
}
