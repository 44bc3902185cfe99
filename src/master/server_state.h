/* server_state.h - what the loop is made of. Private to the files that are the loop: master.c (the
 * loop itself), server.c (what the API asks of it), reports.c (what nodes say), inproc.c (a node in
 * this process), gate.c (nodes over the network), life.c (beginning and end). */
#ifndef MASTER_SERVER_STATE_H
#define MASTER_SERVER_STATE_H

#include "master/carry.h"
#include "master/depot.h"
#include "master/herd.h"
#include "master/master.h"
#include "master/server.h"
#include "wire/door.h"

#include <pthread.h>

/* A reply that waits until what it tells is durable. */
struct waiting_reply {
    uint64_t request;
    uint64_t after;          /* a fact */
    uint64_t documents;      /* so many of those posted */
    struct http_reply reply; /* its texts are ours */
};

/* A node in this process. */
struct inproc {
    void *socket; /* NULL: there is none */
    pthread_t thread;
    struct node_options options;
    int ended_fd; /* an eventfd: the node's thread has returned */
    bool stopped; /* it has said so */
    bool lost;
    struct err err;
};

enum { GATE_SECRETS = 4 };

/* A secret that lets new nodes join. */
struct gate_secret {
    char text[DOOR_SECRET_CHARS + 1];
    int64_t made_ms;
};

/* Nodes over the network. */
struct gate {
    void *socket; /* NULL: closed */
    struct door_guard *guard;
    struct door_frame *frame;
    struct door_keys keys;
    uint16_t port;
    char host[256]; /* as others know it */
    char probe[DOOR_SECRET_CHARS + 1];
    struct gate_secret secrets[GATE_SECRETS]; /* newest first */
    size_t secret_count;
    int64_t lease_ms;
    bool has_news; /* nodes that the document does not have yet */
};

struct server {
    const struct master_options *options;
    struct session *session;
    struct core *core;
    struct core_out out;
    struct carrier carrier;
    void *context;
    int signal_fd;
    int64_t began_mono_ms;
    int64_t began_unix_ms;
    int64_t refreshed_ms;
    int64_t links_tried_ms;
    int64_t ticked_ms; /* the once-a-second things */
    int64_t looked_ms; /* when leases were last looked at */
    int64_t waited_ms; /* at most, for news in this turn */
    bool store_trouble;
    bool unsafe_many;
    bool link_trouble;
    int64_t log_trouble_ms; /* when a node's log could not be written; 0: the last one could */
    bool logs_wait;
    bool paused;
    char trouble[200];
    int signals; /* INT and TERM so far */
    bool ended;  /* a run's workflow, durably */
    bool broken;
    struct err err;

    struct herd herd;
    struct locals *locals; /* NULL: none */
    struct inproc inproc;
    struct gate gate;
    struct http *http;   /* NULL: none */
    struct api *api;     /* lives as long as http */
    struct depot *depot; /* NULL: none */
    struct webhook *webhook;
    struct series *series;
    struct sweep *sweep;
    struct owners *owners; /* of volumes; NULL: none */
    char *owners_folder;
    int64_t owners_ms;    /* when to look next which are needed */
    int64_t keep_code_ms; /* when to tell the depot next which code is needed */
    struct removal **litter;
    size_t litter_count;
    size_t litter_cap;
    struct hunts *hunts; /* NULL until there was a turn */
    struct server_counts counts;

    uint64_t documents_posted;
    uint64_t documents_durable;
    struct waiting_reply *replies; /* in the order made */
    size_t reply_count;
    size_t reply_cap;
};

/* --- life.c: a master begins and ends --- */

/* Opens all parts and reads what the last life left. An error: nothing is open; `broken`: a part
 * could not be had, and only server_close is left to do. */
MUST_USE enum err_code server_open(struct server *server, struct err *err);
/* The new term, durable. False: there is nothing to do, or it cannot be done. */
bool server_begin(struct server *server);
void server_close(struct server *server);

/* --- master.c: the loop --- */

extern const struct carrier_ops server_carrier_ops;
void server_loop(struct server *server); /* until it is over */
/* One turn of it. wait_ms: at most so long for news; negative: until something is due. */
void server_turn(struct server *server, long wait_ms);
void server_read_keeper(struct server *server);
void server_note(struct server *server, const char *format, ...) PRINTF_LIKE(2, 3);
/* Does what the core decided; `report` as in carry_out. */
void server_carry(struct server *server, const Drover__Ended *report);
void server_read_signals(struct server *server);

/* --- server.c --- */

/* Sends the replies that need wait no longer. */
void server_send_replies(struct server *server);
void server_drop_replies(struct server *server);
/* A document that goes before the facts that were gathered and not posted yet. */
void server_put_document_first(struct server *server, const char *name, const void *bytes,
                               size_t size);
/* Tells the depot of a flow. */
void server_know_flow(struct server *server, const struct flow *flow);
/* Something people may want to see. */
void server_tell(struct server *server, const struct server_event *event);

/* --- reports.c --- */

/* What a node said, whichever way it came; it is here and the session is right. False: it could not
 * be kept (a full disk), and must be said again. */
bool reports_take(struct server *server, struct herd_node *node, const Drover__ToMaster *message);
/* Whether there is such a task at all. */
bool reports_name_a_task(const struct server *server, const struct core_attempt *id);
/* Whether that attempt is the task's present one, and given to this node. */
bool reports_is_live_there(const struct server *server, const struct herd_node *node,
                           const struct core_attempt *id);

/* --- depot_answers.c --- */

void depot_read(struct server *server);

/* --- inproc.c --- */

void inproc_start(struct server *server);
void inproc_read(struct server *server);
void inproc_see_end(struct server *server, bool has_ended);
void inproc_send(struct server *server, const Drover__ToNode *message); /* nothing if it is gone */
void inproc_send_stop(struct server *server, int64_t grace_ms);
void inproc_stop(struct server *server); /* and waits for its thread */

/* --- gate.c, gate_join.c --- */

MUST_USE enum err_code gate_open(struct server *server, struct err *err);
void gate_read(struct server *server);
void gate_tick(struct server *server);
/* Saves the nodes that are new, all of this turn at once: before any fact that names them. */
void gate_flush(struct server *server);
/* The loop itself was away: no lease ends before its node had time to be heard. */
void gate_forgive(struct server *server);
void gate_send(struct server *server, uint32_t node, Drover__ToNode *message);
void gate_stop_nodes(struct server *server, int64_t grace_ms);
bool gate_has_nodes(const struct server *server); /* that are here */
void gate_revoke(struct server *server, struct herd_node *node);
void gate_put_nodes(struct server *server); /* the document */
void gate_close(struct server *server);
/* It is known that the agent died. */
void gate_lost(struct server *server, struct herd_node *node);
void gate_renew_secret(struct server *server);
/* Writes join.url: from now on nodes may come. */
MUST_USE enum err_code gate_announce(struct server *server, struct err *err);

/* The node of that key, registered now if the secret is right; NULL with the reason. */
struct herd_node *gate_admit(struct server *server, const char *key, const Drover__Hello *hello,
                             struct err *err);
MUST_USE enum err_code gate_load_secrets(struct server *server, struct err *err);
/* A new secret and join.url; with `revoke` the older ones are worth nothing any more. */
MUST_USE enum err_code gate_rotate(struct server *server, bool revoke, struct err *err);
void gate_add_url(const struct server *server, struct str *out);

/* --- serve.c: everything by which others reach us --- */

MUST_USE enum err_code serve_open(struct server *server, struct err *err);
/* Writes api.url and join.url and starts the nodes of this machine; false: broken. */
bool serve_announce(struct server *server);
void serve_close(struct server *server);
void serve_tick(struct server *server);
const char *serve_wire_host(const struct master_serve *serve);

/* --- locals.c: node processes of our own --- */

MUST_USE enum err_code locals_start(struct server *server, struct err *err);
int locals_fd(const struct server *server); /* readable when one may have ended; -1: none */
void locals_read(struct server *server);
void locals_tick(struct server *server);
void locals_stop(struct server *server);

/* --- hooks.c: telling others when a workflow has ended --- */

void hooks_ended(struct server *server, struct flow *flow);
void hooks_revived(struct server *server, struct flow *flow); /* it goes on: it has not ended */
void hooks_restore(struct server *server); /* when workflows ended, and who was not told of it */
void hooks_read(struct server *server);    /* who was told, and what could not be told */
void hooks_stop(struct server *server);

/* --- litter.c: what lost attempts left --- */

void litter_lost(struct server *server, const struct fact *fact);
bool litter_step(struct server *server); /* true: there is more */
void litter_close(struct server *server);

/* --- herd.c --- */

struct herd_node *herd_add(struct herd *herd, const char *name, const char *key);
struct herd_node *herd_at(const struct herd *herd, uint32_t number);
void herd_release(struct herd *herd);
void herd_record(const struct herd *herd, struct str *document);
MUST_USE enum err_code herd_restore(struct herd *herd, const struct str *document, struct err *err);

#endif
