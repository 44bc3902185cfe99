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

/* The session whose first ask was answered before all others'. NULL: none is left. */
static struct session *earliest(const struct meta_server *server)
{
    struct session *found = NULL;
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        const struct ask *ask = session->parked;
        if (ask && ask->stamp > 0 && (!found || ask->stamp < found->parked->stamp)) {
            found = session;
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

static void redo_first(struct meta_server *server, struct session *session)
{
    struct ask *ask = session->parked;
    struct redo again = {server, ask, {.answer = DROVER__META_ANSWER__INIT}};
    struct err err = {0};
    enum err_code code = volume_do(server->volume, redo, &again, &err);
    if (code != ERR_OK) {
        meta_tell(server, "mount %u: a change could not be made again: %s", session->writer,
                    err.text);
    }
    /* The mount only has to know when it is stored. */
    Drover__MetaAnswer *answer = &again.reply.answer;
    answer->number = ask->number;
    answer->code = (uint32_t)code;
    answer->posix = (uint32_t)again.reply.posix;
    answer->text = err.text;
    answer->seq = volume_seq_next(server->volume);
    server_send(server, session, answer);
    arena_release(&again.reply.arena);
    str_release(&again.reply.bytes);
    session->parked = ask->next;
    session->parked_count--;
    if (session->parked == NULL) {
        session->parked_end = &session->parked;
    }
    ask_destroy(ask);
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
    server->recovering = false;
    server->locks_changed = true; /* all that wait are tried */
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *late = server->sessions[i];
        if (late->is_restored && !late->is_ready) {
            session_lapse(server, late, now_ms);
        }
    }
    meta_tell(server, "%s; %zu change%s made again",
                in_time ? "every mount is back" : "going on without those that did not come back",
                count, count == 1 ? "" : "s");
}
