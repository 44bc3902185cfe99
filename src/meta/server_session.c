/* Sessions: who is there, from hello to goodbye, and what they leave behind. */
#include "base/mem.h"
#include "meta/server_internal.h"
#include "volume/le.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_BYTES = 24, NUMBER_BYTES = 8, RECOVER_EXTRA_MS = 5000 };

struct session *session_of_key(const struct meta_server *server, const char *key)
{
    for (size_t i = 0; i < server->session_count; i++) {
        if (strcmp(server->sessions[i]->peer.key, key) == 0) {
            return server->sessions[i];
        }
    }
    return NULL;
}

struct session *session_of_mount(const struct meta_server *server, const uint8_t *mount)
{
    for (size_t i = 0; i < server->session_count; i++) {
        if (memcmp(server->sessions[i]->mount, mount, META_ID_BYTES) == 0) {
            return server->sessions[i];
        }
    }
    return NULL;
}

static struct session *session_create(struct meta_server *server, const uint8_t *mount)
{
    struct session *session = mem_alloc(sizeof *session);
    memcpy(session->mount, mount, META_ID_BYTES);
    session->parked_end = &session->parked;
    VEC_PUSH(server->sessions, server->session_count, server->session_cap) = session;
    server->writers_changed = true;
    return session;
}

void session_destroy(struct session *session)
{
    while (session->parked != NULL) {
        struct ask *ask = session->parked;
        session->parked = ask->next;
        ask_destroy(ask);
    }
    for (size_t i = 0; i < session->answer_count; i++) {
        str_release(&session->answers[i].bytes);
    }
    for (size_t i = 0; i < session->fresh_count; i++) {
        free(session->fresh[i].name);
    }
    counts_release(&session->opens);
    inodes_release(&session->grants);
    free(session->recalls);
    free(session->answers);
    free(session->fresh);
    free(session->owed);
    free(session);
}

void server_set_writers(struct meta_server *server)
{
    struct volume_writer *writers = mem_array(server->session_count, sizeof *writers);
    for (size_t i = 0; i < server->session_count; i++) {
        const struct session *session = server->sessions[i];
        writers[i] = (struct volume_writer){session->writer, session->term, session->floor};
    }
    volume_set_writers(server->volume, writers, server->session_count);
    free(writers);
    server->writers_changed = false;
}

/* The record of a session. --------------------------------------------------------------------- */

void session_store(struct meta_server *server, struct session *session)
{
    uint8_t value[RECORD_BYTES + (size_t)NUMBER_BYTES * HELD_MAX];
    size_t size = RECORD_BYTES;
    CHECK(session->owed_count + session->held_count <= HELD_MAX);
    le_put_u32(value, session->writer);
    le_put_u32(value + 4, session->term);
    le_put_u64(value + 8, session->last);
    le_put_u64(value + 16, session->floor);
    for (size_t i = 0; i < session->owed_count; i++, size += NUMBER_BYTES) {
        le_put_u64(value + size, session->owed[i]);
    }
    for (size_t i = 0; session->held_count > 0 && i < session->fresh_count; i++) {
        if (session->fresh[i].is_held) {
            le_put_u64(value + size, session->fresh[i].number);
            size += NUMBER_BYTES;
        }
    }
    engine_service_put(server->engine, session->mount, value, size);
}

static void read_owed(struct session *session, const struct engine_service *item)
{
    session->owed_count = (item->size - RECORD_BYTES) / NUMBER_BYTES;
    session->owed = mem_array(session->owed_count, sizeof session->owed[0]);
    for (size_t i = 0; i < session->owed_count; i++) {
        session->owed[i] = le_get_u64(item->value + RECORD_BYTES + i * NUMBER_BYTES);
    }
}

void session_pay(struct session *session, uint64_t number)
{
    size_t left = 0;
    for (size_t i = 0; i < session->owed_count; i++) {
        if (session->owed[i] != number) {
            session->owed[left++] = session->owed[i];
        }
    }
    session->owed_count = left;
}

struct services {
    struct meta_server *server;
    struct engine_service *items;
    size_t count;
};

static enum err_code read_services(void *context, struct err *err)
{
    struct services *services = context;
    return engine_services(services->server->engine, &services->items, &services->count, err);
}

/* Inodes that a dead owner made and did not store have numbers that mounts know. New ones get
 * others, also if this owner dies before it has stored anything else. */
static enum err_code skip_inodes(struct meta_server *server, struct err *err)
{
    engine_skip_inodes(server->engine, SKIPPED_INODES);
    session_store(server, server->sessions[0]); /* something to commit */
    return volume_sync(server->volume, err);
}

enum err_code sessions_restore(struct meta_server *server, int64_t now_ms, struct err *err)
{
    struct services services = {.server = server};
    enum err_code code = volume_do(server->volume, read_services, &services, err);
    for (size_t i = 0; code == ERR_OK && i < services.count; i++) {
        const struct engine_service *item = &services.items[i];
        if (item->size < RECORD_BYTES || (item->size - RECORD_BYTES) % NUMBER_BYTES != 0 ||
            (item->size - RECORD_BYTES) / NUMBER_BYTES > HELD_MAX) {
            code = err_set(err, ERR_CORRUPT, "the record of a mount is damaged");
            break;
        }
        struct session *session = session_create(server, item->id);
        session->writer = le_get_u32(item->value);
        session->term = le_get_u32(item->value + 4);
        session->last = le_get_u64(item->value + 8);
        session->floor = le_get_u64(item->value + 16);
        session->heard_ms = now_ms;
        session->is_restored = true;
        read_owed(session, item);
    }
    engine_services_free(services.items, services.count);
    if (code == ERR_OK && server->session_count > 0) {
        server->recovering = true;
        server->recover_until_ms = now_ms + server->lease_ms + RECOVER_EXTRA_MS;
        code = skip_inodes(server, err);
        meta_tell(server, "waiting for %zu mount%s to come back", server->session_count,
                  server->session_count == 1 ? "" : "s");
    }
    server_set_writers(server);
    return code;
}

/* Hello. --------------------------------------------------------------------------------------- */

static void refuse(struct meta_server *server, const struct door_sender *to, const char *why)
{
    struct session stranger = {.peer = *to};
    Drover__MetaAnswer answer = DROVER__META_ANSWER__INIT;
    answer.bye = (char *)(uintptr_t)why;
    server_send(server, &stranger, &answer);
}

static const char *refusal(const struct meta_server *server, const struct door_sender *from,
                           const Drover__MetaHello *hello)
{
    const struct session *session = session_of_mount(server, hello->mount.data);
    if (hello->protocol != META_PROTOCOL) {
        return "the owner of the volume speaks another version of the protocol: use the same "
               "drover on both machines";
    }
    if (!door_secret_equal(hello->secret, server->options.secret)) {
        return "the secret is not that of this volume's owner (volume.url has changed?)";
    }
    if (session && session->peer.key[0] && strcmp(session->peer.key, from->key) != 0) {
        return "another mount has this one's number";
    }
    if (!session && server->session_count >= SESSIONS_MAX) {
        return "too many mounts";
    }
    return NULL;
}

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

void session_welcome(struct meta_server *server, struct session *session)
{
    Drover__MetaAnswer answer = DROVER__META_ANSWER__INIT;
    Drover__MetaWelcome welcome = DROVER__META_WELCOME__INIT;
    const struct volume_format *format = volume_format(server->volume);
    welcome.uuid = meta_bytes(format->uuid, sizeof format->uuid);
    welcome.server_term = volume_term(server->volume);
    welcome.writer = session->writer;
    welcome.term = session->term;
    welcome.lease_ms = (uint32_t)server->lease_ms;
    welcome.heartbeat_ms = (uint32_t)(server->lease_ms / 10 > 10 ? server->lease_ms / 10 : 10);
    welcome.last = session->last;
    welcome.lapsed = session->is_lapsed;
    welcome.held = session->owed;
    welcome.n_held = session->owed_count;
    welcome.serial = session->serial;
    AUTO_FREE Drover__MetaLock **locks = lock_list(server, session, &welcome.n_lock);
    welcome.lock = locks;
    welcome.url = text_of(server->options.url);
    welcome.endpoint = text_of(server->options.endpoint);
    welcome.region = text_of(server->options.region);
    welcome.addressing = text_of(server->options.addressing);
    answer.welcome = &welcome;
    session->is_welcome = true;
    session->is_lapsed = false;
    server_send(server, session, &answer);
}

static void drop_opens(struct meta_server *server, struct session *session)
{
    for (size_t i = 0; i < session->opens.count; i++) {
        VEC_PUSH(server->forgets, server->forget_count, server->forget_cap) =
            session->opens.items[i].inode;
    }
    counts_release(&session->opens);
    lock_drop_session(server, session);
}

/* What it had open and locked, of which this owner knows nothing (any more), before what it asks
 * next: that is done again, though it may have been before. */
static void take_holdings(struct meta_server *server, struct session *session,
                          const Drover__MetaHello *hello)
{
    drop_opens(server, session);
    server_let_go_answers(session);
    for (size_t i = 0; i < hello->n_open; i++) {
        counts_add(&session->opens, hello->open[i]);
    }
    for (size_t i = 0; i < hello->n_lock; i++) {
        lock_restore(server, session, hello->lock[i]);
    }
}

static struct session *begin(struct meta_server *server, const Drover__MetaHello *hello)
{
    struct session *session = session_create(server, hello->mount.data);
    session->writer = server->next_writer++;
    session->term = volume_term(server->volume);
    session->is_ready = true;
    session_store(server, session);
    session->welcome_seq = volume_commit(server->volume);
    meta_tell(server, "mount %u: %.200s", session->writer, hello->who);
    return session;
}

void session_hello(struct meta_server *server, const struct door_sender *from,
                   const Drover__MetaHello *hello, int64_t now_ms)
{
    const char *why = refusal(server, from, hello);
    if (why) {
        refuse(server, from, why);
        return;
    }
    struct session *session = session_of_mount(server, hello->mount.data);
    bool is_new = session == NULL || session->is_over;
    if (session && session->is_over) {
        refuse(server, from, "this mount has said goodbye");
        return;
    }
    if (session && hello->serial <= session->serial) {
        return; /* overtaken by a later one */
    }
    if (is_new) {
        session = begin(server, hello);
    }
    bool is_first = is_new || session->is_lapsed || (session->is_restored && !session->peer.key[0]);
    if (is_first || !session->has_spoken) { /* a later hello knows better what it holds */
        session->has_spoken = false;
        take_holdings(server, session, hello);
    }
    session->serial = hello->serial;
    session->peer = *from;
    session->heard_ms = now_ms;
    grant_drop(server, session); /* it has forgotten everything before it said hello */
    server->tide++;              /* and takes in nothing that was answered before */
    if (session->is_welcome || session->is_restored) {
        session_welcome(server, session);
    }
}

/* The end. ------------------------------------------------------------------------------------- */

void session_note_fresh(struct session *session, const struct fresh_file *file)
{
    struct fresh_file *noted = &VEC_PUSH(session->fresh, session->fresh_count, session->fresh_cap);
    *noted = *file;
    noted->name = mem_strdup(file->name);
    session->held_count += file->is_held;
}

void sessions_settle(struct meta_server *server)
{
    if (server->settled == engine_releases(server->engine)) {
        return;
    }
    server->settled = engine_releases(server->engine);
    for (size_t i = 0; i < server->session_count; i++) {
        struct session *session = server->sessions[i];
        size_t before = session->held_count;
        for (size_t j = 0; session->held_count > 0 && j < session->fresh_count; j++) {
            struct fresh_file *file = &session->fresh[j];
            if (file->is_held && !engine_is_held(server->engine, file->inode)) {
                file->is_held = false;
                session->held_count--;
            }
        }
        if (session->held_count != before) {
            session_store(server, session);
        }
    }
}

void session_drop_fresh(struct session *session, uint64_t inode)
{
    for (size_t i = 0; i < session->fresh_count; i++) {
        if (session->fresh[i].inode == inode) {
            session->held_count -= session->fresh[i].is_held;
            free(session->fresh[i].name);
            session->fresh[i] = session->fresh[--session->fresh_count];
            return;
        }
    }
}

static void drop_waiting_locks(struct session *session)
{
    struct ask **at = &session->parked;
    while (*at != NULL) {
        struct ask *ask = *at;
        if (ask->op->verb != DROVER__META_VERB__META_VERB_LOCK) {
            at = &ask->next;
            continue;
        }
        *at = ask->next;
        session->parked_count--;
        ask_destroy(ask);
    }
    session->parked_end = at;
}

void session_lapse(struct meta_server *server, struct session *session, int64_t now_ms)
{
    meta_tell(server, "mount %u has not been heard of for %lld s: its files and locks are let go",
              session->writer, (long long)(server->lease_ms / 1000));
    session->is_lapsed = true;
    session->lapsed_ms = now_ms;
    drop_opens(server, session);
    grant_drop(server, session);
    drop_waiting_locks(session);
    for (size_t i = 0; i < session->fresh_count; i++) {
        VEC_PUSH(server->litter, server->litter_count, server->litter_cap) = session->fresh[i];
    }
    session->fresh_count = 0;
    session->held_count = 0;
    session_store(server, session); /* they are no longer its own */
}

void session_end(struct meta_server *server, struct session *session)
{
    drop_opens(server, session);
    grant_drop(server, session);
    engine_service_put(server->engine, session->mount, NULL, 0);
    session->is_over = true;
}

/* A new file that its maker never closed is no file. True: done with. */
static bool clear_litter(struct meta_server *server, const struct fresh_file *file)
{
    struct engine_attr attr;
    struct err err;
    int posix = 0;
    enum err_code code =
        engine_lookup(server->engine, file->folder, file->name, &attr, &posix, &err);
    if (code != ERR_OK) {
        return code != ERR_AGAIN;
    }
    if (attr.inode != file->inode || attr.size > 0 || server_opens(server, attr.inode) > 0) {
        engine_release(server->engine, file->inode);
        return true;
    }
    bool folder_is_clear = grant_recall(server, NULL, file->folder);
    if (!grant_recall(server, NULL, file->inode) || !folder_is_clear) {
        return false; /* not before everyone has forgotten it */
    }
    server->tide++;
    struct engine_caller caller = {.now_ns = attr.mtime_ns};
    struct engine_remove remove = {.folder = file->folder, .name = file->name};
    return engine_remove(server->engine, &caller, &remove, &posix, &err) != ERR_AGAIN;
}

void server_sweep(struct meta_server *server)
{
    size_t left = 0;
    struct err err;
    for (size_t i = 0; i < server->forget_count; i++) {
        uint64_t inode = server->forgets[i];
        if (server_opens(server, inode) == 0 &&
            engine_forget(server->engine, inode, &err) == ERR_AGAIN) {
            server->forgets[left++] = inode;
        }
    }
    server->forget_count = left;
    size_t litter = 0;
    for (size_t i = 0; i < server->litter_count; i++) {
        if (clear_litter(server, &server->litter[i])) {
            free(server->litter[i].name);
        } else {
            server->litter[litter++] = server->litter[i];
        }
    }
    server->litter_count = litter;
    if (left > 0 || litter > 0) {
        volume_want(server->volume);
    }
}
