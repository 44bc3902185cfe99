/* Peers, what each has under way, and the short answers they get. */
#include "master/depot_internal.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static size_t bucket_of(const char *key)
{
    return (size_t)(rng_hash_bytes(7, key, strlen(key)) % PEER_BUCKETS);
}

struct peer *depot_peer_find(struct worker *worker, const char *key, bool makes)
{
    struct peer **bucket = &worker->peers[bucket_of(key)];
    for (struct peer *peer = *bucket; peer; peer = peer->next) {
        if (strcmp(peer->key, key) == 0) {
            return peer;
        }
    }
    if (!makes) {
        return NULL;
    }
    struct peer *peer = mem_alloc(sizeof *peer);
    snprintf(peer->key, sizeof peer->key, "%s", key);
    uint8_t bytes[32] = {0};
    if (strlen(key) == DOOR_KEY_CHARS && zmq_z85_decode(bytes, key)) {
        for (size_t i = 0; i < 16; i++) {
            snprintf(peer->hex + 2 * i, 3, "%02x", bytes[i]);
        }
    }
    peer->heard_ms = worker->now_ms;
    peer->next = *bucket;
    *bucket = peer;
    worker->peer_count++;
    return peer;
}

void depot_peer_drop_loads(struct worker *worker, struct peer *peer)
{
    struct load *next = NULL;
    for (struct load *load = peer->loads; load; load = next) {
        next = load->next;
        depot_load_free(worker, load);
    }
}

bool depot_peer_was_done(const struct peer *peer, uint64_t ticket)
{
    for (size_t i = 0; i < DONE_MAX; i++) {
        if (peer->done[i] == ticket) {
            return true;
        }
    }
    return false;
}

static void expire_loads(struct worker *worker, struct peer *peer)
{
    struct load *next = NULL;
    for (struct load *load = peer->loads; load; load = next) {
        next = load->next;
        int64_t patience_ms = load->is_up ? UP_PATIENCE_MS : DOWN_PATIENCE_MS;
        if (worker->now_ms - load->heard_ms > patience_ms) {
            depot_load_free(worker, load); /* if the node still wants it, it asks again */
        }
    }
}

void depot_peer_expire(struct worker *worker)
{
    worker->active_peers = 0;
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        struct peer **link = &worker->peers[i];
        while (*link) {
            struct peer *peer = *link;
            expire_loads(worker, peer);
            int64_t patience_ms = peer->is_known ? PEER_PATIENCE_MS : STRANGER_PATIENCE_MS;
            bool is_idle =
                !peer->loads && !peer->is_denied && worker->now_ms - peer->heard_ms > patience_ms;
            if (is_idle) {
                *link = peer->next;
                worker->peer_count--;
                free(peer);
                continue;
            }
            worker->active_peers += peer->in_flight > 0;
            link = &peer->next;
        }
    }
}

void depot_peer_free_all(struct worker *worker)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        while (worker->peers[i]) {
            struct peer *peer = worker->peers[i];
            worker->peers[i] = peer->next;
            depot_peer_drop_loads(worker, peer);
            free(peer);
        }
    }
}

/* --- loads ----------------------------------------------------------------------------------- */

struct load *depot_load_find(struct peer *peer, uint64_t ticket)
{
    for (struct load *load = peer->loads; load; load = load->next) {
        if (load->ticket == ticket) {
            return load;
        }
    }
    return NULL;
}

struct load *depot_load_by_question(struct worker *worker, uint64_t question)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        for (struct peer *peer = worker->peers[i]; peer; peer = peer->next) {
            for (struct load *load = peer->loads; load; load = load->next) {
                if (load->question == question) {
                    return load;
                }
            }
        }
    }
    return NULL;
}

struct load *depot_load_create(struct worker *worker, struct peer *peer,
                               const Drover__ToDepot *message)
{
    struct load *load = mem_alloc(sizeof *load);
    load->peer = peer;
    load->ticket = message->ticket;
    load->is_up = message->put != NULL;
    load->top_fd = -1;
    load->object_fd = -1;
    load->heard_ms = worker->now_ms;
    const Drover__Attempt *id = message->put ? message->put->id : message->get->id;
    if (id) {
        bulk_attempt_from(&load->id, id);
        load->checkpoint = load->id.task;
    }
    load->kind = message->put ? message->put->kind : message->get->kind;
    load->next = peer->loads;
    peer->loads = load;
    peer->load_count++;
    worker->counts.open++;
    return load;
}

void depot_load_free(struct worker *worker, struct load *load)
{
    if (!load) {
        return;
    }
    struct load **link = &load->peer->loads;
    while (*link != load) {
        link = &(*link)->next;
    }
    *link = load->next;
    load->peer->load_count--;
    worker->counts.open--;
    depot_load_release_held(worker, load);
    depot_down_close(load);
    treewrite_close(load->write);
    free(load->log_file);
    str_release(&load->bytes_out);
    free(load->staging);
    free(load->name);
    free(load->flow_folder);
    free(load);
}

bool depot_load_hold(struct worker *worker, struct load *load, Drover__ToDepot *message,
                     size_t size)
{
    depot_load_release_held(worker, load);
    if (worker->held_bytes + size > HELD_BYTES_MAX) {
        return false;
    }
    load->held = message;
    load->held_size = size;
    worker->held_bytes += size;
    return true;
}

void depot_load_release_held(struct worker *worker, struct load *load)
{
    bulk_free_to_depot(load->held);
    worker->held_bytes -= load->held_size;
    load->held = NULL;
    load->held_size = 0;
}

/* --- answers --------------------------------------------------------------------------------- */

void depot_say_begin(const struct load *load, Drover__FromDepot *message)
{
    drover__from_depot__init(message);
    message->ticket = load->ticket;
}

bool depot_say(struct worker *worker, const struct peer *peer, const Drover__FromDepot *message)
{
    return bulk_send_from_depot(worker->router, &peer->route, message, NULL) == ERR_OK;
}

void depot_say_no(struct worker *worker, const struct peer *peer, uint64_t ticket,
                  enum err_code code, const char *reason)
{
    Drover__FromDepot message;
    Drover__BulkNo no;
    drover__from_depot__init(&message);
    drover__bulk_no__init(&no);
    no.code = code;
    no.reason = (char *)(uintptr_t)(reason && reason[0] ? reason : err_name(code));
    message.ticket = ticket;
    message.no = &no;
    depot_say(worker, peer, &message);
}

void depot_say_wait(struct worker *worker, const struct peer *peer, uint64_t ticket,
                    uint32_t wait_ms)
{
    Drover__FromDepot message;
    drover__from_depot__init(&message);
    message.ticket = ticket;
    message.wait_ms = wait_ms;
    depot_say(worker, peer, &message);
}

void depot_say_unknown(struct worker *worker, const struct peer *peer, uint64_t ticket)
{
    Drover__FromDepot message;
    drover__from_depot__init(&message);
    message.ticket = ticket;
    message.unknown = true;
    depot_say(worker, peer, &message);
}
