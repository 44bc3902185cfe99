/* server_state.h - what the loop is made of. Private to the files that are the loop: master.c (the
 * loop itself), server.c (what the API asks of it), reports.c (what nodes say), inproc.c (a node in
 * this process), gate.c (nodes over the network). */
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
    bool store_trouble;
    bool unsafe_many;
    bool link_trouble;
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
    struct server_counts counts;

    uint64_t documents_posted;
    uint64_t documents_durable;
    struct waiting_reply *replies; /* in the order made */
    size_t reply_count;
    size_t reply_cap;
};

/* --- master.c --- */

void server_note(struct server *server, const char *format, ...) PRINTF_LIKE(2, 3);
/* Does what the core decided; `report` as in carry_out. */
void server_carry(struct server *server, const Drover__Ended *report);
void server_read_signals(struct server *server);

/* --- server.c --- */

/* Sends the replies that need wait no longer. */
void server_send_replies(struct server *server);
void server_drop_replies(struct server *server);
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

/* --- depot_answers.c --- */

void depot_read(struct server *server);

/* --- inproc.c --- */

void inproc_start(struct server *server);
void inproc_read(struct server *server);
void inproc_see_end(struct server *server, bool has_ended);
void inproc_send_stop(struct server *server, int64_t grace_ms);
void inproc_stop(struct server *server); /* and waits for its thread */

/* --- gate.c, gate_join.c --- */

MUST_USE enum err_code gate_open(struct server *server, struct err *err);
void gate_read(struct server *server);
void gate_tick(struct server *server);
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
const char *serve_wire_host(const struct master_serve *serve);

/* --- locals.c: node processes of our own --- */

MUST_USE enum err_code locals_start(struct server *server, struct err *err);
int locals_fd(const struct server *server); /* readable when one may have ended; -1: none */
void locals_read(struct server *server);
void locals_tick(struct server *server);
void locals_stop(struct server *server);

/* --- hooks.c: telling others when a workflow has ended --- */

void hooks_ended(struct server *server, const struct flow *flow);
void hooks_read(struct server *server); /* what could not be told */
void hooks_stop(struct server *server);

/* --- herd.c --- */

struct herd_node *herd_add(struct herd *herd, const char *name, const char *key);
struct herd_node *herd_at(const struct herd *herd, uint32_t number);
void herd_release(struct herd *herd);
void herd_record(const struct herd *herd, struct str *document);
MUST_USE enum err_code herd_restore(struct herd *herd, const struct str *document, struct err *err);

#endif
