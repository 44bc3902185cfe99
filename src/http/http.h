/* http.h - an HTTP server as an actor: a thread that owns libmicrohttpd and every connection.
 *
 * The owner (the master's loop) gets whole, bounded requests as messages, answers each one when it
 * likes, and may push into event streams. Nothing is shared: requests and replies are copied
 * through a ZeroMQ PAIR. The server knows nothing of tokens, routes or JSON; it only parses HTTP,
 * bounds everything and survives whoever connects:
 *
 *  - a request line and headers of at most HTTP_HEAD_BYTES_MAX, a body of at most `body_bytes_max`
 *    (413), read within HTTP_PATIENCE_S in all (a slow loris is cut off), at most `connections_max`
 *    connections and a share of them per address; refused ones are counted;
 *  - all bodies together take at most 64 MiB, all replies that wait for their readers 256 MiB, all
 *    streams 64 MiB (503; a stream is cut off);
 *  - no CORS headers, no sniffing, no caching; errors are application/problem+json (heads that are
 *    no HTTP get libmicrohttpd's own short page);
 *  - TLS when a certificate and key are given; without it only loopback addresses are listened on;
 *  - an event stream (SSE) has a bounded queue; a reader that does not keep up is cut off and comes
 *    back with Last-Event-ID.
 *
 * http_* are called from the owner's thread.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_HEAD_BYTES_MAX = 32 << 10,
    HTTP_PATIENCE_S = 20,
    HTTP_STREAM_BYTES_MAX = 1 << 20, /* waiting to be read by one event stream */
};

struct http;

struct http_options {
    void *zmq_context;
    const char *host;             /* "127.0.0.1"; a name or address */
    uint16_t port;                /* 0: any free one */
    bool port_is_wish;            /* if the port is taken, any free one will do */
    const char *certificate_file; /* PEM; NULL: plain, loopback only (ERR_DENIED elsewhere) */
    const char *key_file;
    size_t body_bytes_max;    /* 0: 8 MiB */
    unsigned connections_max; /* 0: 1000; never more than half the files we may open */
    unsigned patience_ms;     /* 0: HTTP_PATIENCE_S; tests have less */
};

/* ERR_EXISTS: the port is taken. ERR_INVALID: the address or certificate cannot be used.
 * ERR_DENIED: not loopback, and no certificate. ERR_UNSUPPORTED: libmicrohttpd is not installed. */
MUST_USE enum err_code http_start(const struct http_options *options, struct http **out,
                                  struct err *err);
/* "http://127.0.0.1:8080", no trailing slash. */
const char *http_url(const struct http *http);
/* Answers what is still open with 503 and waits for the thread. NULL does nothing. */
void http_stop(struct http *http);

/* All texts are NUL-terminated, never NULL, and valid until http_request_free. A HEAD comes as a
 * GET (the server leaves the body out); OPTIONS the server answers itself. */
struct http_request {
    uint64_t id;
    const char *method; /* capital letters: "GET" */
    const char *path;   /* decoded, begins with a slash, none at its end, no "//", no "." or ".." */
    const char *query;  /* as it came, without the question mark; read it with http_query */
    const char *token;  /* of "Authorization: Bearer", or "" */
    const char *content_type;
    const char *accept;
    const char *last_event_id;
    const char *idempotency_key;
    const char *peer; /* the address, for the log */
    const void *body;
    size_t body_size;
};

/* The socket to poll, and the next request if there is one (NULL: none). */
void *http_socket(struct http *http);
struct http_request *http_next(struct http *http);
void http_request_free(struct http_request *request);

/* The decoded value of a key of the query, in out (always NUL-terminated); false: it is not there,
 * does not fit, or is badly encoded. */
bool http_query(const struct http_request *request, const char *key, char *out, size_t size);
/* The index-th, from 0, of a key that may come several times. */
bool http_query_nth(const struct http_request *request, const char *key, unsigned index, char *out,
                    size_t size);

struct http_reply {
    int status;
    const char *content_type; /* NULL: application/json */
    const void *body;         /* copied */
    size_t body_size;
    const char *location; /* a header, or NULL; of a 405 it is Allow: "GET, POST" */
    int retry_after_s;    /* a header, or 0 */
    /* Instead of body: size bytes of this file from offset, sent by the server's thread (fewer if
     * it has fewer); NULL: none. A file that is not there is answered as empty. */
    const char *file;
    uint64_t file_offset;
    uint64_t file_size;
    bool stream; /* an event stream: stays open, and takes http_push until it is closed */
};

/* Exactly one reply to each request. */
void http_reply(struct http *http, uint64_t id, const struct http_reply *reply);

/* "Not Found"; a general word for a status that has no name here. */
const char *http_title(int status);

/* A problem+json reply: {"type":"about:blank","title":..,"status":..,"detail":..}. */
void http_problem(struct http *http, uint64_t id, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sends bytes (whole events) to an open stream. A stream that has gone is ignored: the owner is
 * told by http_next giving a request with the stream's id and method "CLOSED". */
void http_push(struct http *http, uint64_t id, const void *bytes, size_t size);
void http_close_stream(struct http *http, uint64_t id);

struct http_counts {
    uint64_t requests;
    uint64_t refused;     /* too large, too slow, malformed, too many */
    uint64_t connections; /* open now */
    uint64_t streams;     /* open now */
};
/* As of the last request or reply. */
void http_counts(const struct http *http, struct http_counts *out);

#endif
