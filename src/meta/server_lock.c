/* Locks of whole files (flock), between mounts. */
#include "base/mem.h"
#include "meta/server_internal.h"

#include <errno.h>

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
static void stop_waiting(struct meta_server *server, struct session *session, uint64_t number)
{
    for (struct ask *ask = session->parked; ask != NULL; ask = ask->next) {
        if (ask->number == number && ask->op->verb == DROVER__META_VERB__META_VERB_LOCK &&
            ask->op->lock->type != 0) {
            ask->is_stopped = true;
            server->locks_changed = true; /* it is answered with the next turn */
        }
    }
}

enum err_code lock_take(struct meta_server *server, struct session *session,
                        const Drover__MetaLock *wanted, int *posix, struct err *err)
{
    *posix = 0;
    let_go(server, session, wanted);
    if (wanted->type == 0) {
        return ERR_OK;
    }
    for (size_t i = 0; i < server->lock_count; i++) {
        if (is_in_the_way(&server->locks[i], session, wanted)) {
            *posix = EWOULDBLOCK;
            return err_set(err, ERR_INVALID, "someone holds the lock");
        }
    }
    if (server->lock_count >= META_LOCKS_MAX) {
        *posix = ENOLCK;
        return err_set(err, ERR_INVALID, "too many locks");
    }
    VEC_PUSH(server->locks, server->lock_count, server->lock_cap) =
        (struct lock){wanted->inode, wanted->owner, session, wanted->type};
    return ERR_OK;
}

enum err_code op_lock(struct meta_server *server, const struct ask *ask, int *posix,
                      struct err *err)
{
    const Drover__MetaOp *op = ask->op;
    bool waits = (op->flags & 1) != 0;
    if (ask->is_stopped) {
        *posix = EINTR;
        return err_set(err, ERR_INVALID, "nobody waits for the lock any more");
    }
    if (op->lock->type == 0 && waits) {
        stop_waiting(server, ask->session, op->offset);
    }
    enum err_code code = lock_take(server, ask->session, op->lock, posix, err);
    return waits && *posix == EWOULDBLOCK ? err_set(err, ERR_AGAIN, "someone holds the lock")
                                          : code;
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
}
