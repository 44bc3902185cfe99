/* Locks of whole files (flock), between mounts. */
#include "base/mem.h"
#include "meta/server_internal.h"

#include <errno.h>
#include <stdlib.h>

static bool is_holder(const struct lock *lock, const struct session *session, uint64_t inode,
                      uint64_t owner)
{
    return lock->inode == inode && lock->session == session && lock->owner == owner;
}

static bool is_in_the_way(const struct lock *lock, const struct session *session,
                          const Drover__MetaLock *wanted)
{
    return lock->inode == wanted->inode &&
           !is_holder(lock, session, wanted->inode, wanted->owner) &&
           (wanted->type == 2 || lock->type == 2);
}

/* A lock is changed by letting it go and taking it anew, as flock(2) says. */
static void let_go(struct meta_server *server, const struct session *session,
                   const Drover__MetaLock *wanted)
{
    for (size_t i = 0; i < server->lock_count; i++) {
        if (is_holder(&server->locks[i], session, wanted->inode, wanted->owner)) {
            server->locks[i] = server->locks[--server->lock_count];
            server->locks_changed = true;
            return;
        }
    }
}

/* Whoever asked under this number waits no longer. What the ask has got is let go by our caller. */
static void stop_waiting(struct meta_server *server, const struct ask *told)
{
    for (struct ask *ask = told->session->parked; ask != NULL; ask = ask->next) {
        const Drover__MetaLock *lock = ask->op->lock;
        if (ask->number == told->op->offset && ask->op->verb == told->op->verb && lock->type != 0 &&
            lock->inode == told->op->inode && lock->owner == told->op->lock->owner) {
            ask->is_stopped = true;
            server->locks_changed = true; /* it is answered with the next turn */
        }
    }
}

enum err_code lock_take(struct meta_server *server, struct session *session,
                        const Drover__MetaLock *wanted, int *posix, struct err *err)
{
    *posix = 0;
    for (size_t i = 0; i < server->lock_count; i++) {
        if (is_in_the_way(&server->locks[i], session, wanted)) {
            *posix = EWOULDBLOCK;
            return err_set(err, ERR_INVALID, "someone holds the lock");
        }
    }
    let_go(server, session, wanted);
    if (server->lock_count >= META_LOCKS_MAX) {
        *posix = ENOLCK;
        return err_set(err, ERR_INVALID, "too many locks");
    }
    VEC_PUSH(server->locks, server->lock_count, server->lock_cap) =
        (struct lock){wanted->inode, wanted->owner, session, wanted->type};
    return ERR_OK;
}

/* Of another kind it is let go first, also if it cannot be had then, as flock(2) says. */
enum err_code op_lock(struct meta_server *server, struct ask *ask, int *posix, struct err *err)
{
    const Drover__MetaOp *op = ask->op;
    bool flag = (op->flags & 1) != 0;
    if (ask->is_stopped) {
        *posix = EINTR;
        return err_set(err, ERR_INVALID, "nobody waits for the lock any more");
    }
    if (!ask->is_tried) {
        let_go(server, ask->session, op->lock);
        ask->is_tried = true;
    }
    if (op->lock->type == 0) {
        if (flag) {
            stop_waiting(server, ask);
        }
        *posix = 0;
        return ERR_OK;
    }
    enum err_code code = lock_take(server, ask->session, op->lock, posix, err);
    return flag && *posix == EWOULDBLOCK ? err_set(err, ERR_AGAIN, "someone holds the lock") : code;
}

static void take_back(struct meta_server *server, struct session *session,
                      const Drover__MetaLock *named)
{
    int posix = 0;
    if (lock_take(server, session, named, &posix, NULL) != ERR_OK) {
        meta_tell(server, "a lock that a mount held was taken by another meanwhile");
    }
}

void lock_restore(struct meta_server *server, struct session *session,
                  const Drover__MetaLock *named)
{
    int64_t doubt_ms = named->doubt_ms < INT32_MAX ? (int64_t)named->doubt_ms : INT32_MAX;
    if (named->doubt_ms == 0 || !server->recovering) {
        take_back(server, session, named);
    } else if (server->doubtful_count < META_LOCKS_MAX) {
        VEC_PUSH(server->doubtful, server->doubtful_count, server->doubtful_cap) =
            (struct doubtful_lock){{named->inode, named->owner, session, named->type},
                                   server->now_ms - doubt_ms};
    }
}

static int by_doubt(const void *a, const void *b)
{
    const struct doubtful_lock *left = a;
    const struct doubtful_lock *right = b;
    return left->since_ms > right->since_ms ? -1 : left->since_ms < right->since_ms;
}

/* Of two that name the same lock, the one that was cut off first has lost it to the other. */
void lock_recovered(struct meta_server *server)
{
    if (server->doubtful_count > 1) {
        qsort(server->doubtful, server->doubtful_count, sizeof server->doubtful[0], by_doubt);
    }
    for (size_t i = 0; i < server->doubtful_count; i++) {
        const struct lock *lock = &server->doubtful[i].lock;
        Drover__MetaLock named = DROVER__META_LOCK__INIT;
        named.inode = lock->inode;
        named.owner = lock->owner;
        named.type = lock->type;
        take_back(server, lock->session, &named);
    }
    server->doubtful_count = 0;
}

Drover__MetaLock **lock_list(const struct meta_server *server, const struct session *session,
                             size_t *count)
{
    size_t used = 0;
    for (size_t i = 0; i < server->lock_count; i++) {
        used += server->locks[i].session == session;
    }
    Drover__MetaLock **list =
        mem_alloc(used * (sizeof(Drover__MetaLock *) + sizeof(Drover__MetaLock)));
    Drover__MetaLock *locks = (Drover__MetaLock *)(void *)(list + used);
    *count = used;
    used = 0;
    for (size_t i = 0; i < server->lock_count; i++) {
        const struct lock *lock = &server->locks[i];
        if (lock->session == session) {
            drover__meta_lock__init(&locks[used]);
            locks[used].inode = lock->inode;
            locks[used].owner = lock->owner;
            locks[used].type = lock->type;
            list[used] = &locks[used];
            used++;
        }
    }
    return list;
}

void lock_drop_session(struct meta_server *server, const struct session *session)
{
    size_t left = 0;
    for (size_t i = 0; i < server->lock_count; i++) {
        if (server->locks[i].session != session) {
            server->locks[left++] = server->locks[i];
        }
    }
    server->locks_changed = server->locks_changed || left != server->lock_count;
    server->lock_count = left;
    left = 0;
    for (size_t i = 0; i < server->doubtful_count; i++) {
        if (server->doubtful[i].lock.session != session) {
            server->doubtful[left++] = server->doubtful[i];
        }
    }
    server->doubtful_count = left;
}
