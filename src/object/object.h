/* object.h - object stores: named, immutable-in-one-piece blobs, behind one small interface.
 *
 * A store holds objects by key. Keys are 1 to 900 bytes of [A-Za-z0-9._/@=+-], in parts between
 * slashes, none of which is empty, "." or ".."; object_key_is_sound judges them. An object is
 * written whole or not at all, and once a PUT has been answered it is durable and every later GET,
 * HEAD and LIST sees it.
 *
 * Calls are asynchronous. The caller fills in a struct object_call, starts it, and leaves it alone
 * until its `done` is called, which happens only inside object_run or object_close, never inside
 * object_start, and exactly once for each started call; one that `done` starts while the store is
 * closing is cancelled too. One thread owns a store; two threads open two.
 *
 * Drivers: directory, S3, memory, and wrappers that may be stacked: faulty (delays, failures, lost,
 * repeated and truncated replies, by seed) and retry (the one owner of retries: drivers below it
 * never retry; callers above it need not). All pass one conformance suite (object_conformance.h).
 *
 * Errors, in call->code (call->err has the text, which names the key):
 *   ERR_NOT_FOUND  GET, HEAD: no such object. PUT if-match: there is none either
 *   ERR_EXISTS     PUT if-absent: there is one. After a reply was lost and the PUT retried it may
 *                  be our own: the caller settles it by reading the object back
 *   ERR_STALE      PUT if-match: the object has another etag now (the same caveat)
 *   ERR_RANGE      GET: the range begins at or behind the end (the whole of an empty object, offset
 *                  and size 0, is fine); or a key that is not sound
 *   ERR_AGAIN      not now: overload, a dropped connection, a truncated reply (retry takes these)
 *   ERR_TIMEOUT    no progress for too long (retry takes these)
 *   ERR_DENIED     credentials missing, wrong or without the right; no such bucket is NOT_FOUND
 *   ERR_QUOTA      the disk or the account is full
 *   ERR_CORRUPT    the bytes that came are not those that were stored
 *   ERR_CANCELLED  the store was closed first
 *   ERR_IO         anything else; the text says what
 */
#ifndef OBJECT_OBJECT_H
#define OBJECT_OBJECT_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum object_verb {
    OBJECT_GET,    /* key, offset, size → body, etag, object_size */
    OBJECT_HEAD,   /* key → etag, object_size */
    OBJECT_PUT,    /* key, data, data_size, condition, match → etag */
    OBJECT_DELETE, /* keys, key_count: all of them; a missing one is fine */
    OBJECT_LIST,   /* prefix in key, after, max → page, page_count, more: in byte order of keys */
};

enum object_condition {
    OBJECT_ALWAYS,
    OBJECT_IF_ABSENT, /* only if there is no such object */
    OBJECT_IF_MATCH,  /* only if the object's etag is `match` */
};

enum {
    OBJECT_KEY_MAX = 900,
    OBJECT_ETAG_MAX = 128,     /* with the NUL */
    OBJECT_DELETE_MAX = 1000,  /* keys in one DELETE */
    OBJECT_LIST_MAX = 1000,    /* items of one page */
    OBJECT_IN_FLIGHT_MAX = 64, /* calls a driver works on at once; later ones wait in line */
};

struct object_item {
    char *key; /* whole key, with the prefix asked for */
    uint64_t size;
};

struct object_call {
    /* The question: set by the caller, borrowed until done. */
    enum object_verb verb;
    const char *key;
    uint64_t offset; /* GET: first byte */
    uint64_t size;   /* GET: how many at most; 0: to the end */
    const void *data;
    size_t data_size;
    enum object_condition condition;
    char match[OBJECT_ETAG_MAX];
    const char *const *keys;
    size_t key_count;
    const char *after; /* LIST: only keys behind this one; NULL: from the beginning */
    size_t max;        /* LIST: 1 to OBJECT_LIST_MAX; 0: the most */
    bool foreign;      /* GET: a key that others have made, as LIST gave it: in S3 it may be any */
    struct str room;   /* GET: empty memory to be used for the body if it is larger than that; taken
                        * then, even if the call fails. Freed by object_call_release */
    void (*done)(struct object_call *call); /* may start further calls; not run or close */
    void *context;

    /* The answer. */
    enum err_code code;
    struct err err;
    struct str body;      /* GET: the bytes; freed by object_call_release */
    uint64_t object_size; /* GET, HEAD: of the whole object */
    char etag[OBJECT_ETAG_MAX];
    struct object_item *page; /* LIST; freed by object_call_release */
    size_t page_count;
    bool more; /* LIST: ask again with after = the last key */

    /* The driver's own, while the call is in flight. */
    struct object_call *next;
    void *driver;
};

struct object_stats { /* since the store was opened; wrappers pass the inner store's on */
    uint64_t gets, puts, heads, lists, deletes; /* requests sent, retries and parts included */
    uint64_t bytes_in, bytes_out;
    uint64_t retries;
};

struct object_store;

struct object_ops {
    void (*start)(struct object_store *store, struct object_call *call);
    /* Works on calls in flight and calls `done` for those that have ended; waits up to wait_ms for
     * the first of them (0: not at all). Returns how many ended. */
    size_t (*run)(struct object_store *store, int wait_ms);
    /* Readable when run has something to do (level-triggered; spurious wake-ups are allowed). The
     * same descriptor for the life of the store. */
    int (*fd)(struct object_store *store);
    void (*stats)(const struct object_store *store, struct object_stats *out);
    void (*close)(struct object_store *store); /* ends calls in flight with ERR_CANCELLED, frees */
};

struct object_store {
    const struct object_ops *ops;
};

void object_start(struct object_store *store, struct object_call *call); /* clears the answer */
size_t object_run(struct object_store *store, int wait_ms);
int object_fd(struct object_store *store);
void object_stats(const struct object_store *store, struct object_stats *out);
void object_close(struct object_store *store); /* NULL does nothing */

void object_call_release(struct object_call *call); /* frees the answer; zeroed calls are fine */
bool object_key_is_sound(const char *key);

/* One call from start to end, blocking: call->code, also returned; err gets its text. Other calls
 * in flight go on (their `done` may be called). call->done is not used. */
MUST_USE enum err_code object_do(struct object_store *store, struct object_call *call,
                                 struct err *err);

/* Short forms of object_do. get appends to out (unchanged on failure); etag (OBJECT_ETAG_MAX) may
 * be NULL. */
MUST_USE enum err_code object_get(struct object_store *store, const char *key, struct str *out,
                                  char *etag, struct err *err);
MUST_USE enum err_code object_put(struct object_store *store, const char *key, const void *data,
                                  size_t size, struct err *err);
MUST_USE enum err_code object_put_if_absent(struct object_store *store, const char *key,
                                            const void *data, size_t size, struct err *err);
/* match: the etag expected; replaced by the new one on success. */
MUST_USE enum err_code object_put_if_match(struct object_store *store, const char *key,
                                           const void *data, size_t size, char *match,
                                           struct err *err);
MUST_USE enum err_code object_delete(struct object_store *store, const char *key, struct err *err);
/* Every key under prefix, in order, page after page; each returning false ends it early. */
MUST_USE enum err_code object_each(struct object_store *store, const char *prefix,
                                   bool (*each)(void *context, const struct object_item *item),
                                   void *context, struct err *err);

/* Opening. ------------------------------------------------------------------------------------ */

struct object_options {     /* all may be NULL or 0; environment and files fill the rest */
    const char *endpoint;   /* S3: http://host:port or https://...; AWS by default */
    const char *region;     /* S3: else AWS_REGION, AWS_DEFAULT_REGION, the profile, us-east-1 */
    const char *ca_file;    /* S3: certificates to trust, else AWS_CA_BUNDLE, else the system's */
    const char *addressing; /* S3: "path", "virtual" or NULL: path with an endpoint */
    const char *profile;    /* S3: of ~/.aws, else AWS_PROFILE, else "default" */
    int timeout_ms;         /* without progress; 0: 30 s */
    size_t part_bytes;      /* S3: multipart from twice this size on; 0: 16 MiB */
    bool create;            /* directory: make the folder if missing */
};

/* Opens file:///folder, s3://bucket/prefix or memory://NAME (tests: a new empty store each time),
 * with the retry wrapper around it. Keys are below the prefix. Reads no object: a wrong bucket is
 * seen at the first call. ERR_INVALID: a URL or option that means nothing; ERR_NOT_FOUND: no such
 * folder; ERR_DENIED: no credentials are to be found. */
MUST_USE enum err_code object_open(const char *url, const struct object_options *options,
                                   struct object_store **out, struct err *err);

MUST_USE enum err_code object_directory_open(const char *folder, bool create,
                                             struct object_store **out, struct err *err);
MUST_USE enum err_code object_s3_open(const char *bucket, const char *prefix,
                                      const struct object_options *options,
                                      struct object_store **out, struct err *err);

/* Memory: a shelf holds the objects, so that several stores (a writer and a later one) may be
 * opened on it, from one thread. The shelf outlives its stores. */
struct object_shelf;
struct object_shelf *object_shelf_create(void);
void object_shelf_destroy(struct object_shelf *shelf);
struct object_store *object_memory_open(struct object_shelf *shelf);

/* A store that lives in a thread of its own and is driven from this one by messages: start hands a
 * call over, run takes finished ones back. `open` is called in that thread; what it says is this
 * function's answer. */
typedef enum err_code (*object_open_fn)(void *context, struct object_store **out, struct err *err);
MUST_USE enum err_code object_threaded_open(object_open_fn open, void *context,
                                            struct object_store **out, struct err *err);

struct object_faults {
    uint64_t seed;
    double fail;       /* share of calls that end with ERR_AGAIN and did nothing */
    double lost_reply; /* share of PUTs and DELETEs that happen but end with ERR_AGAIN */
    double repeated;   /* share of PUTs and DELETEs that are carried out twice */
    double truncated;  /* share of GETs that end with ERR_AGAIN after part of the body */
    int delay_ms;      /* the longest delay of a call's end */
};
/* Takes ownership of inner. The fate of the n-th call depends on the seed and n alone. */
struct object_store *object_faulty_create(struct object_store *inner,
                                          const struct object_faults *faults);

struct object_patience {
    uint64_t seed;  /* of the jitter */
    int tries;      /* in all; 0: 8 */
    int first_ms;   /* the first delay's upper bound, doubled each time; 0: 50 */
    int longest_ms; /* 0: 5000 */
};
/* Takes ownership of inner. Calls that end with ERR_AGAIN or ERR_TIMEOUT are started again after a
 * random delay; the last failure is the call's, its text saying how often it was tried. */
struct object_store *object_retry_create(struct object_store *inner,
                                         const struct object_patience *patience);

#endif
