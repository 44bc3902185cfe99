/* client.h - asking a drover server over HTTP(S), for the commands.
 *
 * One client keeps its connection. Calls block, at most timeout_s for an answer (streams and long
 * downloads: that long without a byte). Certificates are verified; DROVER_CA may name a file with
 * the certificate to trust besides the system's.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

struct client;

/* url is what api.url holds. The token is copied and never printed. Connects only when it is asked
 * something; timeout_s 0: no limit. ERR_INVALID: this is no URL. ERR_DENIED: plain http to another
 * machine, where the token could be read. ERR_UNSUPPORTED: libcurl is not installed. */
MUST_USE enum err_code client_open(const char *url, const char *token, int timeout_s,
                                   struct client **out, struct err *err);
void client_close(struct client *client); /* NULL does nothing */

struct client_answer {
    int status;
    struct str body;
    char content_type[128];
};
void client_answer_release(struct client_answer *answer);

struct client_request {
    const char *method;
    const char *path;         /* "/api/v1/...?query", already encoded */
    const char *content_type; /* or NULL */
    const void *body;
    size_t body_size;
    const char *idempotency_key; /* or NULL */
};

/* ERR_IO: nobody answers, not in time, or is not to be trusted; the text says what to do.
 * ERR_QUOTA: the answer has more than 256 MiB. Any HTTP answer, 4xx and 5xx too, is ERR_OK. On
 * failure the answer is empty; otherwise the caller releases it. */
MUST_USE enum err_code client_call(struct client *client, const struct client_request *request,
                                   struct client_answer *answer, struct err *err);

/* GETs and hands the body over as it comes, whatever the status, which is known when fn is called.
 * With last_event_id, "" or an id, an event stream is asked for; with NULL, a plain download. fn
 * returns false to stop (then ERR_CANCELLED). */
typedef bool (*client_bytes_fn)(void *context, const void *bytes, size_t size);
MUST_USE enum err_code client_stream(struct client *client, const char *path,
                                     const char *last_event_id, client_bytes_fn fn, void *context,
                                     int *status, struct err *err);

/* Appends text, percent-encoded for one part of a path or query. */
void client_add_encoded(struct str *out, const char *text);

#endif
