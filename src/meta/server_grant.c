/* What mounts may know without asking, and who is told when it is about to become untrue. */
#include "base/mem.h"
#include "meta/server_internal.h"

#include <errno.h>
#include <string.h>

enum { HOT_PART = 5, AGAIN_PART = 10 }; /* of the lease */

static int64_t *hot_of(struct meta_server *server, uint64_t inode)
{
    return &server->hot_ms[(inode * 0x9E3779B97F4A7C15U) >> 48];
}

/* Recalling. ----------------------------------------------------------------------------------- */

static void send_forget(struct meta_server *server, struct session *session,
                        const struct recall *recall)
{
    Drover__MetaAnswer answer = DROVER__META_ANSWER__INIT;
    answer.forget = recall->inode;
    answer.tide = recall->tide;
    server_send(server, session, &answer);
}

static bool is_recalled(const struct session *session, uint64_t inode)
{
    for (size_t i = 0; i < session->recall_count; i++) {
        if (session->recalls[i].inode == inode) {
            return true;
        }
    }
    return false;
}

static void recall(struct meta_server *server, struct session *session, uint64_t inode)
{
    if (is_recalled(session, inode)) {
        return;
    }
    struct recall fresh = {inode, ++server->tide, server->now_ms, server->now_ms,
                           session->clock_ms};
    VEC_PUSH(session->recalls, session->recall_count, session->recall_cap) = fresh;
    server->counts.recalls++;
    send_forget(server, session, &fresh);
}

bool grant_recall(struct meta_server *server, const struct session *keeper, uint64_t inode)
{
    bool is_clear = true;
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        if (session != keeper && inodes_have(&session->grants, inode)) {
            recall(server, session, inode);
            is_clear = false;
        }
    }
    if (!is_clear) {
        *hot_of(server, inode) = server->now_ms + server->lease_ms / HOT_PART;
    }
    return is_clear;
}

/* It may have opened the file by itself before it was told to forget it, and that must be known
 * here before the file may be removed. */
static bool opens_it(const struct session *session, uint64_t inode)
{
    for (const struct ask *ask = session->parked; ask != NULL; ask = ask->next) {
        if (ask->op->verb == DROVER__META_VERB__META_VERB_OPEN &&
            (ask->op->inode == inode || inode == META_FORGET_ALL)) {
            return true;
        }
    }
    return false;
}

static void release_grants(struct meta_server *server, struct session *session)
{
    server->grant_sum -= session->grants.count;
    inodes_release(&session->grants);
}

void grant_forgot(struct meta_server *server, struct session *session, uint64_t tide)
{
    size_t at = 0;
    while (at < session->recall_count && session->recalls[at].tide != tide) {
        at++;
    }
    if (at == session->recall_count || opens_it(session, session->recalls[at].inode)) {
        return; /* it will be told again */
    }
    uint64_t inode = session->recalls[at].inode;
    if (inode == META_FORGET_ALL) {
        release_grants(server, session);
    } else {
        server->grant_sum -= inodes_remove(&session->grants, inode);
    }
    session->recall_count--;
    memmove(&session->recalls[at], &session->recalls[at + 1],
            (session->recall_count - at) * sizeof session->recalls[0]);
    server->locks_changed = true;
}

void grant_drop(struct meta_server *server, struct session *session)
{
    release_grants(server, session);
    server->locks_changed = server->locks_changed || session->recall_count > 0;
    session->recall_count = 0;
}

/* Who has lapsed, or is not back yet, may be sent answers, and must not take them for a lease. */
int64_t grant_clock(const struct session *session)
{
    bool is_late = session->is_restored && !session->is_ready; /* it may be given up any time */
    if (session->is_lapsed || session->is_over || is_late) {
        return 0;
    }
    return session->recall_count > 0 ? session->recalls[0].clock_ms : session->clock_ms;
}

bool grant_is_overdue(const struct meta_server *server, const struct session *session)
{
    return session->recall_count > 0 &&
           server->now_ms - session->recalls[0].sent_ms > server->lease_ms;
}

void grant_turn(struct meta_server *server)
{
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        if (session->knows_too_much && session->grants.count > 0) {
            recall(server, session, META_FORGET_ALL);
        }
        session->knows_too_much = false;
        for (size_t j = 0; j < session->recall_count; j++) {
            struct recall *item = &session->recalls[j];
            if (server->now_ms - item->again_ms < server->lease_ms / AGAIN_PART) {
                continue;
            }
            /* The Forget may have been lost. And nobody gets it before whoever waits for it. */
            item->again_ms = server->now_ms;
            *hot_of(server, item->inode) = server->now_ms + server->lease_ms / HOT_PART;
            send_forget(server, session, item);
        }
    }
}

/* What a change touches. ----------------------------------------------------------------------- */

struct touched {
    uint64_t inodes[META_TOUCHED_MAX];
    size_t count;
};

static void touch(struct touched *touched, uint64_t inode)
{
    for (size_t i = 0; i < touched->count; i++) {
        if (touched->inodes[i] == inode) {
            return;
        }
    }
    touched->inodes[touched->count++] = inode;
}

/* What a name stands for. If it stands for nothing, the change itself will say so. */
static enum err_code touch_name(struct meta_server *server, uint64_t folder,
                                const ProtobufCBinaryData *name, struct touched *touched,
                                struct err *err)
{
    char text[META_NAME_BYTES];
    struct engine_attr attr;
    int posix = 0;
    touch(touched, folder);
    enum err_code code =
        engine_lookup(server->engine, folder, meta_name(name, text), &attr, &posix, err);
    if (code == ERR_OK) {
        touch(touched, attr.inode);
    }
    return code == ERR_INVALID ? ERR_OK : code;
}

static enum err_code find_touched(struct meta_server *server, const Drover__MetaOp *op,
                                  struct touched *touched, struct err *err)
{
    enum err_code code = ERR_OK;
    if (op->verb == DROVER__META_VERB__META_VERB_REMOVE ||
        op->verb == DROVER__META_VERB__META_VERB_RENAME) {
        code = touch_name(server, op->inode, &op->name, touched, err);
    } else {
        touch(touched, op->inode);
    }
    if (op->verb == DROVER__META_VERB__META_VERB_LINK) {
        touch(touched, op->folder);
    } else if (code == ERR_OK && op->verb == DROVER__META_VERB__META_VERB_RENAME) {
        code = touch_name(server, op->folder, &op->new_name, touched, err);
    }
    return code;
}

enum err_code grant_clear(struct meta_server *server, const struct ask *ask, struct reply *reply,
                          struct err *err)
{
    struct touched touched = {0};
    bool is_clear = true;
    enum err_code code = find_touched(server, ask->op, &touched, err);
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < touched.count; i++) {
        is_clear = grant_recall(server, ask->session, touched.inodes[i]) && is_clear;
    }
    if (!is_clear) {
        return err_set(err, ERR_AGAIN, "others have not forgotten it yet");
    }
    reply->answer.touched = arena_alloc(&reply->arena, sizeof touched.inodes);
    memcpy(reply->answer.touched, touched.inodes, sizeof touched.inodes);
    reply->answer.n_touched = touched.count;
    return ERR_OK;
}

/* Granting. ------------------------------------------------------------------------------------ */

/* There is room for one more: or the mount that knows most is told to forget it all. */
static bool has_room(struct meta_server *server, struct session *session)
{
    struct session *most = session;
    bool is_full = session->grants.count >= server->grants_max;
    if (!is_full && server->grant_sum < GRANTS_SUM * server->grants_max) {
        return true;
    }
    for (size_t i = 0; !is_full && i < server->session_count; i++) {
        struct session *other = server->sessions[i];
        most = other->grants.count > most->grants.count ? other : most;
    }
    most->knows_too_much = true; /* not told before the answer that is being made has been sent */
    return false;
}

static bool grant(struct meta_server *server, struct session *session, uint64_t inode)
{
    if (inode == 0 || session->is_lapsed || session->is_over || !session->is_welcome ||
        is_recalled(session, inode) || is_recalled(session, META_FORGET_ALL)) {
        return false;
    }
    if (inodes_have(&session->grants, inode)) {
        return true;
    }
    if (*hot_of(server, inode) > server->now_ms || !has_room(server, session)) {
        return false;
    }
    inodes_add(&session->grants, inode);
    server->grant_sum++;
    return true;
}

/* A file without a name is freed without anybody being told. */
static void grant_attr(struct meta_server *server, struct session *session, Drover__MetaAttr *attr)
{
    attr->granted = attr->nlink > 0 && grant(server, session, attr->inode);
}

/* The inode whose names, or of which the whole answer, may be believed; 0: none. */
static uint64_t subject_of(const struct ask *ask, const struct reply *reply, enum err_code code)
{
    const Drover__MetaOp *op = ask->op;
    bool is_absent = code == ERR_INVALID && (reply->posix == ENOENT || reply->posix == ENODATA);
    switch ((int)op->verb) {
    case DROVER__META_VERB__META_VERB_LOOKUP:
    case DROVER__META_VERB__META_VERB_XATTR_GET:
        return code == ERR_OK || is_absent ? op->inode : 0;
    case DROVER__META_VERB__META_VERB_LIST:
    case DROVER__META_VERB__META_VERB_READLINK:
    case DROVER__META_VERB__META_VERB_XATTR_LIST:
    case DROVER__META_VERB__META_VERB_MAKE:
        return code == ERR_OK ? op->inode : 0;
    case DROVER__META_VERB__META_VERB_LINK:
        return code == ERR_OK ? op->folder : 0;
    default:
        return 0;
    }
}

void grant_answer(struct meta_server *server, const struct ask *ask, struct reply *reply,
                  enum err_code code)
{
    Drover__MetaAnswer *answer = &reply->answer;
    uint64_t subject = subject_of(ask, reply, code);
    answer->granted = subject != 0 && grant(server, ask->session, subject);
    if (code != ERR_OK || ask->op->verb == DROVER__META_VERB__META_VERB_EXTENTS) {
        return;
    }
    if (answer->attr) {
        grant_attr(server, ask->session, answer->attr);
    }
    for (size_t i = 0; i < answer->n_entry; i++) {
        if (answer->entry[i]->attr) {
            grant_attr(server, ask->session, answer->entry[i]->attr);
        }
    }
}
