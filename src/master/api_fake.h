/* api_fake.h - for tests: a server without a loop, a store or sockets, over a real core.
 *
 * It implements server.h and the part of http.h that the API uses; every reply and push is kept for
 * the test to look at. Facts are durable at once. */
#ifndef MASTER_API_FAKE_H
#define MASTER_API_FAKE_H

#include "master/server.h"

struct fake_reply {
    uint64_t id;
    int status;
    char *type;
    char *body;
    size_t body_size;
    char *location;
    char *file;
    uint64_t file_offset;
    uint64_t file_size;
    bool stream;
    struct str pushed; /* into the stream */
    bool closed;       /* by the API */
};

struct fake {
    struct server *server;
    struct api *api;
    char folder[64];
    struct fake_reply *replies;
    size_t reply_count;
    size_t reply_cap;
    uint64_t next_id;
    struct str tokens_document;
    bool has_tokens;
    uint64_t code_requests;
    uint64_t rotations;
};

struct fake_request {
    const char *method;
    const char *path;
    const char *query;
    const char *token; /* NULL: admin's */
    const char *body;
    size_t body_size; /* 0: strlen(body) */
    const char *content_type;
    const char *accept;
    const char *last_event_id;
    const char *key;
};

/* A server with a folder of its own in /tmp, the API made; node 0, "old", has left, 1 and 2, "ant"
 * and "bee", are here. */
struct fake *fake_create(void);
void fake_destroy(struct fake *fake); /* and the folder */
/* The API's memory is gone, its documents stay: as after a restart, in another term. */
void fake_restart(struct fake *fake);

const char *fake_admin_token(const struct fake *fake); /* as in FOLDER/admin.token */

/* Asks, and ticks until there is an answer. Valid until the next request. */
const struct fake_reply *fake_ask(struct fake *fake, const struct fake_request *request);
const struct fake_reply *fake_get(struct fake *fake, const char *path, const char *query);
const struct fake_reply *fake_find(const struct fake *fake, uint64_t id);
size_t fake_count_replies(const struct fake *fake, uint64_t id);

/* Forgets all replies. */
void fake_forget(struct fake *fake);

void fake_pass_ms(struct fake *fake, int64_t ms); /* and ticks */

/* What runs on node 1: starts and ends all that can, with this exit code; at most `count`. Events
 * are told. Returns how many ended. */
uint64_t fake_work(struct fake *fake, uint64_t count, uint32_t exit_code);

/* Tells the API of an event, as the loop would. */
void fake_tell(struct fake *fake, const struct server_event *event);

struct herd_node *fake_node(struct fake *fake, uint32_t number);

#endif
