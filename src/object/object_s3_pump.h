/* object_s3_pump.h - HTTP exchanges, many at once, on one descriptor.
 *
 * A pump drives libcurl from an epoll descriptor that holds its sockets and a timer, so that its
 * owner can wait for it among other things. An exchange belongs to its owner, who leaves it alone
 * until `done` is called, which happens inside s3_pump_run only and exactly once, unless it was
 * cancelled. Connections are kept and used again. Nothing is ever sent twice: a PUT or POST whose
 * kept connection turns out dead fails. One thread owns a pump.
 */
#ifndef OBJECT_OBJECT_S3_PUMP_H
#define OBJECT_OBJECT_S3_PUMP_H

#include "object/object.h"
#include "object/object_lib.h"
#include "object/object_s3_sign.h"

enum {
    S3_PUMP_MAX = OBJECT_IN_FLIGHT_MAX + 1, /* one more renews the credentials */
    S3_TEXT_MAX = 16 << 20, /* of an answer kept as text: a page of 1000 long keys is 7 MB */
};

struct s3_exchange {
    /* The question; all of it is borrowed. */
    const char *method; /* GET, HEAD, PUT, POST, DELETE */
    const char *url;
    const struct s3_header *headers;
    size_t header_count;
    const void *data; /* PUT, POST */
    size_t data_size;
    struct object_call *call; /* its body gets the bytes of a good answer; NULL: `text` does */
    const char *ca_file;      /* NULL: the system's */
    int timeout_ms;           /* without progress */
    bool is_direct;           /* past any proxy of the environment */
    void (*done)(struct s3_exchange *exchange);

    /* The answer. */
    enum err_code code; /* ERR_OK: an answer came, whole; its status may be any */
    struct err err;     /* says what went wrong, and not where */
    int status;
    struct str text; /* freed by s3_exchange_release */
    bool has_size;
    uint64_t size;  /* Content-Length */
    bool has_range; /* Content-Range: bytes FIRST-LAST/TOTAL */
    uint64_t range_first, range_last, range_total;
    char etag[OBJECT_ETAG_MAX]; /* "" if there is none */
    char region[32];            /* where the bucket is, if the server says so */
    bool is_sealed;             /* encrypted there: the etag is not the MD5 */

    /* The pump's own. */
    struct s3_pump *pump;
    struct s3_exchange *prev, *next;
    CURL *easy;
    struct curl_slist *list;
    size_t sent;
    int64_t progress_ms;
    bool is_begun; /* the first byte of the body has come */
};

struct s3_pump {
    const struct object_lib *lib;
    CURLM *multi;
    int fd;
    int timer;
    int64_t curl_due_ms; /* -1: curl waits for nothing */
    int64_t armed_ms;    /* when the timer will go off; -1: never */
    struct s3_exchange *first;
    size_t count;
    CURL *idle[S3_PUMP_MAX];
    size_t idle_count;
    uint64_t bytes_in, bytes_out;
};

MUST_USE enum err_code s3_pump_init(struct s3_pump *pump, struct err *err);
void s3_pump_release(struct s3_pump *pump); /* no exchange is in flight by then */

/* Readable when s3_pump_run has something to do. Other descriptors may be added: they wake the
 * waiting, and are otherwise ignored. */
void s3_pump_watch(struct s3_pump *pump, int fd);

void s3_pump_start(struct s3_pump *pump, struct s3_exchange *exchange); /* at most S3_PUMP_MAX */
void s3_pump_cancel(struct s3_exchange *exchange); /* its `done` is not called */

/* Waits up to wait_ms for something to happen, once, and works on it. */
void s3_pump_run(struct s3_pump *pump, int wait_ms);

void s3_exchange_release(struct s3_exchange *exchange);

#endif
