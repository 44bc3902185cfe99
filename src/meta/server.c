/* The server as a whole: taking asks, answering them once, time. */
#include "meta/server.h"

#include "base/mem.h"
#include "meta/server_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void meta_tell(struct meta_server *server, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (server->options.tell) {
        server->options.tell(server->options.context, line);
    }
}

void ask_destroy(struct ask *ask)
{
    op_write_end(ask);
    volume_order_drop(ask->order);
    meta_free_op(ask->op);
    free(ask);
}

uint64_t server_opens(const struct meta_server *server, uint64_t inode)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < server->session_count; i++) {
        sum += counts_of(&server->sessions[i]->opens, inode);
    }
    return sum;
}

bool server_is_open(void *context, uint64_t inode)
{
    return server_opens(context, inode) > 0;
}

/* Answering. ----------------------------------------------------------------------------------- */

static void pack_answer(struct meta_server *server, Drover__MetaAnswer *answer, struct str *out)
{
    answer->durable = volume_seq_durable(server->volume);
    answer->tide = answer->tide ? answer->tide : server->tide;
    size_t size = drover__meta_answer__get_packed_size(answer);
    str_clear(out);
    str_add_repeat(out, " ", size);
    (void)drover__meta_answer__pack(answer, (uint8_t *)out->text);
}

void server_send(struct meta_server *server, struct session *session, Drover__MetaAnswer *answer)
{
    AUTO_STR struct str bytes = {0};
    answer->clock_ms = grant_clock(session);
    pack_answer(server, answer, &bytes);
    (void)server->options.send(server->options.context, &session->peer, bytes.text, bytes.size);
}

/* Reading again gives what is true then, so only answers to the rest are kept. */
static bool is_kept(const struct ask *ask)
{
    Drover__MetaVerb verb = ask->op->verb;
    return meta_is_change(verb) || verb == DROVER__META_VERB__META_VERB_OPEN ||
           verb == DROVER__META_VERB__META_VERB_CLOSE ||
           verb == DROVER__META_VERB__META_VERB_LOCK || verb == DROVER__META_VERB__META_VERB_ORDER;
}

/* An answer that is true only as long as the session holds something; or that let go of what would
 * be taken again. */
static bool is_holding(const Drover__MetaOp *op)
{
    return op->verb == DROVER__META_VERB__META_VERB_OPEN ||
           op->verb == DROVER__META_VERB__META_VERB_CLOSE ||
           op->verb == DROVER__META_VERB__META_VERB_LOCK;
}

void server_answer(struct meta_server *server, struct ask *ask, struct reply *reply,
                   enum err_code code, const struct err *err)
{
    struct session *session = ask->session;
    struct str bytes = {0};
    Drover__MetaAnswer *answer = &reply->answer;
    answer->number = ask->number;
    answer->code = (uint32_t)code;
    answer->posix = (uint32_t)reply->posix;
    answer->text = code == ERR_OK ? (char *)(uintptr_t) "" : (char *)(uintptr_t)err->text;
    answer->seq = volume_seq_next(server->volume);
    answer->clock_ms = grant_clock(session);
    pack_answer(server, answer, &bytes);
    if (session->peer.key[0]) {
        (void)server->options.send(server->options.context, &session->peer, bytes.text, bytes.size);
    }
    if (is_kept(ask) && session->answer_count < ANSWERS_MAX) {
        bool opens = ask->op->verb == DROVER__META_VERB__META_VERB_MAKE && (ask->op->flags & 1) &&
                     ask->stamp == 0 && code == ERR_OK && answer->attr;
        VEC_PUSH(session->answers, session->answer_count, session->answer_cap) =
            (struct kept_answer){.number = ask->number,
                                 .bytes = bytes,
                                 .is_holding = is_holding(ask->op),
                                 .is_lock = ask->op->verb == DROVER__META_VERB__META_VERB_LOCK,
                                 .opened = opens ? answer->attr->inode : 0};
        return;
    }
    str_release(&bytes);
}

static void free_answers(struct session *session, const Drover__MetaAsk *message)
{
    if (message->have <= session->have && message->have_locks <= session->have_locks) {
        return;
    }
    session->have = message->have > session->have ? message->have : session->have;
    session->have_locks =
        message->have_locks > session->have_locks ? message->have_locks : session->have_locks;
    size_t left = 0;
    for (size_t i = 0; i < session->answer_count; i++) {
        const struct kept_answer *kept = &session->answers[i];
        if (kept->number <= (kept->is_lock ? session->have_locks : session->have)) {
            str_release(&session->answers[i].bytes);
        } else {
            session->answers[left++] = session->answers[i];
        }
    }
    session->answer_count = left;
}

void server_let_go_answers(struct session *session)
{
    size_t left = 0;
    for (size_t i = 0; i < session->answer_count; i++) {
        struct kept_answer *kept = &session->answers[i];
        kept->is_let_go = kept->opened != 0;
        if (kept->is_holding) {
            str_release(&kept->bytes);
        } else {
            session->answers[left++] = *kept;
        }
    }
    session->answer_count = left;
}

/* Working. ------------------------------------------------------------------------------------- */

/* What became of it: true: answered. */
static bool attempt(struct meta_server *server, struct ask *ask)
{
    struct reply reply = {.answer = DROVER__META_ANSWER__INIT};
    struct err err = {0};
    enum err_code code = op_apply(server, ask, &reply, &err);
    bool is_lock = ask->op->verb == DROVER__META_VERB__META_VERB_LOCK;
    struct err trouble = {0};
    if (code != ERR_OK) {
        (void)volume_trouble(server->volume, &trouble);
    }
    /* Who is no longer the owner answers nothing: the next one will. And a lock waits for its
     * holder, not for the volume. */
    bool waits =
        code == ERR_AGAIN && (is_lock || trouble.code == ERR_OK || trouble.code == ERR_AGAIN);
    if (waits || (code != ERR_OK && trouble.code == ERR_STALE)) {
        if (!is_lock) {
            volume_want(server->volume);
        }
        arena_release(&reply.arena);
        str_release(&reply.bytes);
        return false;
    }
    if (code == ERR_AGAIN) {
        code = trouble.code;
        err = trouble;
    }
    grant_answer(server, ask, &reply, code);
    server_answer(server, ask, &reply, code, &err);
    arena_release(&reply.arena);
    str_release(&reply.bytes);
    return true;
}

void server_work(struct meta_server *server, struct session *session)
{
    bool is_blocked = false; /* a change waits, and those behind it keep their order */
    struct ask **at = &session->parked;
    if (server->recovering) {
        return;
    }
    while (*at != NULL) {
        struct ask *ask = *at;
        bool is_change = meta_is_change(ask->op->verb);
        if ((is_change && is_blocked) || !attempt(server, ask)) {
            is_blocked = is_blocked || is_change;
            at = &ask->next;
            continue;
        }
        *at = ask->next;
        session->parked_count--;
        ask_destroy(ask);
    }
    session->parked_end = at;
    if (session->is_ready && session->parked == NULL) {
        session->owed_count = 0; /* what it has not said again it wants no more */
    }
}

static bool is_repeated(struct meta_server *server, struct session *session, uint64_t number,
                        Drover__MetaVerb verb)
{
    bool is_lock = verb == DROVER__META_VERB__META_VERB_LOCK;
    if (number <= (is_lock ? session->have_locks : session->have)) {
        return true;
    }
    if (number > session->top) {
        return false;
    }
    for (size_t i = 0; i < session->answer_count; i++) {
        struct kept_answer *kept = &session->answers[i];
        if (kept->number == number) {
            if (kept->is_let_go) {
                counts_add(&session->opens, kept->opened);
                kept->is_let_go = false;
            }
            (void)server->options.send(server->options.context, &session->peer, kept->bytes.text,
                                       kept->bytes.size);
            return true;
        }
    }
    for (const struct ask *ask = session->parked; ask != NULL; ask = ask->next) {
        if (ask->number == number) {
            return true;
        }
    }
    return false;
}

static void refuse_op(struct meta_server *server, struct session *session, uint64_t number,
                      enum err_code code)
{
    Drover__MetaAnswer answer = DROVER__META_ANSWER__INIT;
    answer.number = number;
    answer.code = (uint32_t)code;
    answer.text = (char *)(uintptr_t) "this cannot be asked";
    server_send(server, session, &answer);
}

/* What was answered once, what was opened without waiting for the answer, and what lets go of
 * something must not be refused; nor what waits only because this owner is not ready. */
static bool has_room(const struct meta_server *server, const struct session *session,
                     const Drover__MetaAsk *message, const Drover__MetaOp *op)
{
    bool is_again = message->stamp != 0 && session->is_restored && meta_is_change(op->verb);
    bool lets_go = op->verb == DROVER__META_VERB__META_VERB_CLOSE ||
                   (op->verb == DROVER__META_VERB__META_VERB_LOCK && op->lock->type == 0);
    bool must =
        server->recovering || is_again || lets_go || op->verb == DROVER__META_VERB__META_VERB_OPEN;
    return session->parked_count < (must ? PARKED_AGAIN_MAX : PARKED_MAX);
}

static void take_op(struct meta_server *server, struct session *session,
                    const Drover__MetaAsk *message)
{
    Drover__MetaOp *op = NULL;
    if (meta_parse_op(message->op.data, message->op.len, &op, NULL) != ERR_OK) {
        refuse_op(server, session, message->number, ERR_INVALID);
        return;
    }
    if (is_repeated(server, session, message->number, op->verb)) {
        server->counts.repeated++;
        meta_free_op(op);
        return;
    }
    session->top = message->number > session->top ? message->number : session->top;
    if (!has_room(server, session, message, op)) {
        meta_free_op(op);
        refuse_op(server, session, message->number, ERR_QUOTA);
        return;
    }
    struct ask *ask = mem_alloc(sizeof *ask);
    ask->session = session;
    ask->op = op;
    ask->number = message->number;
    ask->stamp = meta_is_change(op->verb) ? message->stamp : 0;
    ask->fresh = message->fresh;
    ask->held = message->held;
    *session->parked_end = ask;
    session->parked_end = &ask->next;
    session->parked_count++;
    server->counts.asks++;
    server_work(server, session);
}

static void say_who(struct meta_server *server, const struct door_sender *to)
{
    struct session stranger = {.peer = *to};
    Drover__MetaAnswer answer = DROVER__META_ANSWER__INIT;
    answer.who = true;
    server_send(server, &stranger, &answer);
}

/* The echo of a sign of life; it lets the mount see whether answers were lost on the way. */
static void echo(struct meta_server *server, struct session *session, uint64_t after)
{
    Drover__MetaAnswer alive = DROVER__META_ANSWER__INIT;
    alive.heard = after;
    for (const struct ask *ask = session->parked; ask != NULL; ask = ask->next) {
        alive.parked += ask->number <= after;
    }
    server_send(server, session, &alive);
}

void meta_server_take(struct meta_server *server, const struct door_sender *from, const void *bytes,
                      size_t size, int64_t now_ms)
{
    Drover__MetaAsk *message = NULL;
    server->now_ms = now_ms;
    /* Who is no longer the owner hears nobody: the next one will. */
    if (volume_trouble(server->volume, NULL) == ERR_STALE ||
        meta_parse_ask(bytes, size, &message, NULL) != ERR_OK) {
        return;
    }
    if (message->hello) {
        session_hello(server, from, message->hello, now_ms);
        meta_free_ask(message);
        return;
    }
    struct session *session = session_of_key(server, from->key);
    if (session == NULL || session->is_lapsed || session->is_over || !session->is_welcome) {
        if (session == NULL || session->is_lapsed) {
            say_who(server, from);
        }
        meta_free_ask(message);
        return;
    }
    session->has_spoken = true;
    session->heard_ms = now_ms;
    session->clock_ms =
        message->clock_ms > session->clock_ms ? message->clock_ms : session->clock_ms;
    session->peer = *from;
    if (message->floor > session->floor) {
        session->floor = message->floor;
        server->writers_changed = true;
    }
    free_answers(session, message);
    bool is_whole = message->after <= session->top; /* nothing was lost on the way */
    session->is_ready = session->is_ready || (message->ready && is_whole);
    if (message->bye) {
        session_end(server, session);
    } else if (!is_whole) {
        say_who(server, from); /* it will all be said again */
    } else if (message->number > 0) {
        take_op(server, session, message);
    } else if (message->n_forgot > 0) {
        for (size_t i = 0; i < message->n_forgot; i++) {
            grant_forgot(server, session, message->forgot[i]);
        }
    } else {
        echo(server, session, message->after);
    }
    meta_free_ask(message);
}

/* Time. ---------------------------------------------------------------------------------------- */

static void check_leases(struct meta_server *server, int64_t now_ms)
{
    /* While this process did not run, nobody could be heard. */
    int64_t gap_ms = now_ms - server->turned_ms;
    server->turned_ms = now_ms;
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        if (gap_ms > META_HEARTBEAT_MS) {
            session->heard_ms += gap_ms;
            for (size_t j = 0; j < session->recall_count; j++) {
                session->recalls[j].sent_ms += gap_ms;
            }
        }
        if (session->is_lapsed && now_ms - session->lapsed_ms > FORGET_MS) {
            session_end(server, session);
        } else if (!session->is_lapsed && !server->recovering &&
                   (now_ms - session->heard_ms > server->lease_ms ||
                    grant_is_overdue(server, session))) {
            session_lapse(server, session, now_ms);
        }
    }
}

static void free_ended(struct meta_server *server)
{
    size_t left = 0;
    for (size_t i = 0; i < server->session_count; i++) {
        if (server->sessions[i]->is_over) {
            session_destroy(server->sessions[i]);
            server->writers_changed = true;
        } else {
            server->sessions[left++] = server->sessions[i];
        }
    }
    server->session_count = left;
}

void meta_server_turn(struct meta_server *server, int64_t now_ms)
{
    server->now_ms = now_ms;
    if (volume_trouble(server->volume, NULL) == ERR_STALE) {
        return;
    }
    check_leases(server, now_ms);
    free_ended(server);
    if (server->recovering) {
        server_recover(server, now_ms);
    }
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        if (!session->is_welcome && session->peer.key[0] &&
            volume_seq_durable(server->volume) >= session->welcome_seq) {
            session_welcome(server, session);
        }
    }
    uint64_t progress = volume_progress(server->volume) + volume_seq_durable(server->volume);
    if (progress != server->seen || server->locks_changed) {
        server->seen = progress;
        server->locks_changed = false;
        for (size_t i = 0; i < server->session_count; i++) {
            server_work(server, server->sessions[i]);
        }
    }
    if (!server->recovering) {
        server_sweep(server);
    }
    grant_turn(server);
    if (server->writers_changed) {
        server_set_writers(server);
    }
}

enum err_code meta_server_create(struct volume *volume, const struct meta_server_options *options,
                                 int64_t now_ms, struct meta_server **out, struct err *err)
{
    struct meta_server *server = mem_alloc(sizeof *server);
    server->volume = volume;
    server->engine = volume_engine(volume);
    server->options = *options;
    server->lease_ms = options->lease_ms ? options->lease_ms : META_LEASE_MS;
    server->grants_max = options->grants_max ? options->grants_max : META_GRANTS_MAX;
    server->turned_ms = server->now_ms = now_ms;
    server->next_writer = 1;
    server->stamp = (uint64_t)volume_term(volume) << 40;
    server->tide = server->stamp; /* above that of every owner before */
    enum err_code code = sessions_restore(server, now_ms, err);
    if (code != ERR_OK) {
        meta_server_destroy(server);
        return code;
    }
    *out = server;
    return ERR_OK;
}

void meta_server_destroy(struct meta_server *server)
{
    if (server == NULL) {
        return;
    }
    for (size_t i = 0; i < server->session_count; i++) {
        session_destroy(server->sessions[i]);
    }
    for (size_t i = 0; i < server->litter_count; i++) {
        free(server->litter[i].name);
    }
    free(server->sessions);
    free(server->locks);
    free(server->doubtful);
    free(server->forgets);
    free(server->litter);
    free(server);
}

void meta_server_counts(const struct meta_server *server, struct meta_server_counts *out)
{
    *out = server->counts;
    out->sessions = server->session_count;
    out->locks = server->lock_count;
    out->recovering = server->recovering;
    out->lapsed = out->opens = out->parked = out->grants = out->answers = 0;
    for (size_t i = 0; i < server->session_count; i++) {
        const struct session *session = server->sessions[i];
        out->lapsed += session->is_lapsed;
        out->opens += session->opens.sum;
        out->grants += session->grants.count;
        out->parked += session->parked_count;
        out->answers += session->answer_count;
    }
}
