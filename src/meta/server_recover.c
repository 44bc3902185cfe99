/* After a restart: what was answered and not stored is said again by those to whom it was
 * answered, and done again in the order in which it was. */
#include "meta/server_internal.h"

static bool all_are_back(const struct meta_server *server)
{
    for (size_t i = 0; i < server->session_count; i++) {
        if (server->sessions[i]->is_restored && !server->sessions[i]->is_ready) {
            return false;
        }
    }
    return true;
}

/* When the first of its changes that were answered before was; 0: there is none left. */
static uint64_t stamp_ahead(const struct session *session)
{
    const struct ask *ask = session->parked;
    while (ask && ask->stamp == 0) {
        ask = ask->next;
    }
    return ask ? ask->stamp : 0;
}

/* The session whose turn it is. NULL: nothing is left to be done again. */
static struct session *earliest(const struct meta_server *server)
{
    struct session *found = NULL;
    uint64_t first = 0;
    for (size_t i = 0; i < server->session_count; i++) {
        uint64_t stamp = stamp_ahead(server->sessions[i]);
        if (stamp > 0 && (!found || stamp < first)) {
            found = server->sessions[i];
            first = stamp;
        }
    }
    return found;
}

struct redo {
    struct meta_server *server;
    struct ask *ask;
    struct reply reply;
};

static enum err_code redo(void *context, struct err *err)
{
    struct redo *redo = context;
    return op_apply(redo->server, redo->ask, &redo->reply, err);
}

/* The session's first change. One that comes before others that were answered was made by the dead
 * owner too, and only its answer was lost. */
static void redo_first(struct meta_server *server, struct session *session)
{
    struct ask **at = &session->parked;
    while (!meta_is_change((*at)->op->verb)) {
        at = &(*at)->next;
    }
    struct ask *ask = *at;
    struct redo again = {server, ask, {.answer = DROVER__META_ANSWER__INIT}};
    struct err err = {0};
    uint64_t place = stamp_ahead(session);
    enum err_code code = volume_do(server->volume, redo, &again, &err);
    if (code != ERR_OK && ask->stamp > 0) {
        meta_tell(server, "mount %u: a change could not be made again: %s", session->writer,
                  err.text);
    }
    if (again.reply.answer.stamp > 0) {
        again.reply.answer.stamp = place;
    }
    server_answer(server, ask, &again.reply, code, &err);
    arena_release(&again.reply.arena);
    str_release(&again.reply.bytes);
    *at = ask->next;
    session->parked_count--;
    if (*at == NULL) {
        session->parked_end = at;
    }
    ask_destroy(ask);
}

static void lapse_missing(struct meta_server *server, int64_t now_ms)
{
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        CHECK(session != NULL);
        if (session->is_restored && !session->is_ready) {
            session_lapse(server, session, now_ms);
        }
    }
}

void server_recover(struct meta_server *server, int64_t now_ms)
{
    bool in_time = all_are_back(server);
    if (!in_time && now_ms < server->recover_until_ms) {
        return;
    }
    struct session *session;
    size_t count = 0;
    while ((session = earliest(server)) != NULL) {
        redo_first(server, session);
        count++;
    }
    for (size_t i = 0; i < server->session_count; i++) { /* the rest its mount wants no more */
        struct session *each = server->sessions[i];
        CHECK(each != NULL);
        each->owed_count = each->is_ready ? 0 : each->owed_count;
    }
    server->recovering = false;
    lock_recovered(server);
    server->locks_changed = true; /* all that wait are tried */
    lapse_missing(server, now_ms);
    meta_tell(server, "%s; %zu change%s made again",
              in_time ? "every mount is back" : "going on without those that did not come back",
              count, count == 1 ? "" : "s");
}
