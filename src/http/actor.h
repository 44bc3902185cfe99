/* actor.h - the inside of the HTTP server: the thread that owns libmicrohttpd. Private to src/http.
 *
 * The thread waits in one epoll set for libmicrohttpd's own epoll set, the PAIR to the owner, and
 * the sockets of event streams (to see a reader leave). A connection carries one request at a time
 * and is in one of three phases; while the owner thinks, and while a stream has nothing to say, it
 * is suspended: libmicrohttpd then leaves it alone. Everything below is touched by that thread only
 * (before it starts and after it ended, by the owner).
 *
 * What goes through the PAIR is copied: struct post to the thread, struct note to the owner, each
 * followed by its bytes.
 */
#ifndef HTTP_ACTOR_H
#define HTTP_ACTOR_H

#include "base/str.h"
#include "http/http.h"
#include "http/lib.h"
#include "http/listen.h"

/* Bounds on what all connections hold together. */
enum {
    ACTOR_BODIES_BYTES_MAX = 64 << 20,   /* of requests; beyond it: 503 */
    ACTOR_REPLIES_BYTES_MAX = 256 << 20, /* waiting to be read; beyond it: 503 */
    ACTOR_STREAMS_BYTES_MAX = 64 << 20,  /* waiting to be read; beyond it the stream is cut */
    ACTOR_POOL_BYTES = HTTP_HEAD_BYTES_MAX,
    ACTOR_SPARE_CONNECTIONS = 64, /* being closed while others take their place */
};

/* --- messages -------------------------------------------------------------------------------- */

enum post_kind { POST_REPLY, POST_PUSH, POST_CLOSE, POST_STOP };

/* To the thread. After it: content type, location, file (each with its NUL), then the body. */
struct post {
    enum post_kind kind;
    int status;
    int retry_after_s;
    bool stream;
    uint64_t id;
    uint64_t file_offset;
    uint64_t file_size;
    uint32_t text_sizes[3]; /* with their NULs; 0: not given */
};

enum note_text {
    NOTE_METHOD,
    NOTE_PATH,
    NOTE_QUERY,
    NOTE_TOKEN,
    NOTE_CONTENT_TYPE,
    NOTE_ACCEPT,
    NOTE_LAST_EVENT_ID,
    NOTE_IDEMPOTENCY_KEY,
    NOTE_PEER,
    NOTE_TEXTS
};

/* To the owner. After it: the texts, each with its NUL. A second frame, if any, is the body. */
struct note {
    uint64_t id;
    struct http_counts counts;
    uint32_t text_sizes[NOTE_TEXTS];
};

/* --- state ----------------------------------------------------------------------------------- */

enum phase {
    PHASE_READING,   /* a request is awaited or coming in, against a deadline */
    PHASE_ASKED,     /* the owner has it; suspended */
    PHASE_ANSWERING, /* a response is on its way */
};

struct conn {
    struct actor *actor;
    struct MHD_Connection *mhd;
    int fd;
    uint32_t slot;
    enum phase phase;
    bool suspended;
    bool cut;                   /* its socket is shut; it is about to go */
    bool in_request;            /* its head is complete */
    bool served;                /* had a whole request before */
    int64_t until_ms;           /* PHASE_READING: then it is cut */
    struct conn *older, *newer; /* PHASE_READING: in order of until_ms */

    /* the request */
    uint64_t id; /* 0: the owner does not know it */
    struct str target;
    struct str body;
    size_t body_bytes;   /* of it, counted until the reply: the owner has it until then */
    size_t body_dropped; /* bytes read beyond the limit */
    int refused;         /* status to answer with once the body is in; 0: none */

    /* the reply */
    struct MHD_Response *response;
    unsigned status;
    bool stream;
    bool closing; /* the stream ends once its queue is read */
    struct str queue;
    size_t queue_read;
};

struct actor {
    const struct lib_mhd *mhd;
    struct MHD_Daemon *daemon;
    void *socket; /* the thread's end of the PAIR */
    int epoll_fd;
    int listen_fd;      /* -1: closed */
    bool listens;       /* it is in the epoll set */
    int64_t listens_ms; /* not before: there was no descriptor left for a connection */
    int64_t patience_ms;
    size_t body_bytes_max;
    uint32_t connections_max;
    struct conn **slots; /* connections_max + ACTOR_SPARE_CONNECTIONS */
    uint32_t slot_count;
    uint32_t slot_hint;
    uint64_t next_serial;
    struct conn *oldest, *newest; /* those in PHASE_READING */
    struct http_counts counts;
    size_t bodies_bytes;
    size_t replies_bytes;
    size_t streams_bytes;
    bool stopping;
    int64_t stop_ms;   /* stopping: then whatever is left is dropped */
    char trouble[200]; /* the last thing libmicrohttpd complained of */
};

/* --- actor.c: life and loop ------------------------------------------------------------------ */

/* Takes over place->fd and socket, also when it fails. */
MUST_USE enum err_code actor_create(const struct http_options *options, struct listen_place *place,
                                    void *socket, struct actor **out, struct err *err);
void *actor_run(void *actor); /* a thread's function */
void actor_destroy(struct actor *actor);

/* --- conn.c: connections and requests -------------------------------------------------------- */

void conn_notify(void *actor, struct MHD_Connection *mhd, void **context,
                 enum MHD_ConnectionNotificationCode code);
void *conn_target(void *actor, const char *target, struct MHD_Connection *mhd);
enum MHD_Result conn_handle(void *actor, struct MHD_Connection *mhd, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_size, void **context);
void conn_completed(void *actor, struct MHD_Connection *mhd, void **context,
                    enum MHD_RequestTerminationCode code);

/* The connection with this request, or NULL: it has gone. */
struct conn *conn_of_request(struct actor *actor, uint64_t id);
void conn_resume(struct conn *conn);
/* Shuts the socket; libmicrohttpd then sees to the rest. */
void conn_cut(struct conn *conn);
/* Cuts those whose time is up. */
void conn_sweep(struct actor *actor, int64_t now_ms);

/* --- answer.c: replies and streams ----------------------------------------------------------- */

/* A problem+json response, or one without a body if detail is NULL. */
struct MHD_Response *answer_problem(struct actor *actor, int status, const char *detail);
/* Replies to what the owner was asked, with bytes as they came in a message (zmq_msg_t), which is
 * taken over. */
void answer_post(struct actor *actor, void *message);
/* Replies for an owner that stops. */
void answer_stopping(struct conn *conn);
/* The reader of a stream has gone. */
void answer_left(struct conn *conn);
/* Forgets the stream's queue and, if it is one, tells the owner. */
void answer_forget(struct conn *conn);
/* Tells the owner about a request or (no texts but the method) the end of a stream. The body is
 * taken over. */
void answer_tell(struct actor *actor, uint64_t id, const char *const texts[NOTE_TEXTS],
                 struct str *body);

/* --- problem.c ------------------------------------------------------------------------------- */

/* Appends {"type":"about:blank","title":..,"status":..,"detail":..}. */
void problem_add(struct str *out, int status, const char *detail);

#endif
