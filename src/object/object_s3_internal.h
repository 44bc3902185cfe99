/* object_s3_internal.h - the parts of the S3 driver, for its own files.
 *
 * A call becomes one request, or for a large body an upload of many. Requests wait in one line, are
 * signed when they leave it, and at most OBJECT_IN_FLIGHT_MAX are in flight. Nothing is retried
 * here. Calls that have ended wait in `ended` until run tells their owners.
 */
#ifndef OBJECT_OBJECT_S3_INTERNAL_H
#define OBJECT_OBJECT_S3_INTERNAL_H

#include "object/object_driver.h"
#include "object/object_s3_config.h"
#include "object/object_s3_credentials.h"
#include "object/object_s3_metadata.h"
#include "object/object_s3_pump.h"
#include "object/object_s3_reply.h"
#include "object/object_s3_sign.h"

enum { S3_HEADERS_MAX = 10, S3_UPLOAD_PARTS_AT_ONCE = 8, S3_MD5_BYTES = 16 };

struct s3_upload;

struct s3_request {
    struct s3_exchange exchange; /* first: `done` of an exchange finds us by it */
    struct s3 *s3;
    struct s3_request *next; /* in line */
    struct object_call *call;
    struct s3_upload *upload; /* NULL: the request is all of the call */
    size_t part;              /* of an upload, from 1 */
    bool is_second_try;       /* with the etag written the other way */
    void (*done)(struct s3_request *request);

    /* The question. */
    const char *method;
    struct str path;  /* encoded */
    struct str query; /* encoded, names in order */
    struct str data_own;
    const void *data; /* borrowed, or data_own's */
    size_t data_size;
    struct s3_header headers[S3_HEADERS_MAX]; /* in any order; values borrowed or in `values` */
    size_t header_count;
    char values[S3_HEADERS_MAX][OBJECT_ETAG_MAX + 2];

    /* Made when it is sent. */
    struct str url;
    struct str authorization;
    char payload_hash[SHA256_HEX_CHARS + 1];
    char stamp[S3_STAMP_CHARS + 1];
};

struct s3 {
    struct object_store store; /* first */
    struct s3_config config;
    struct s3_profile profile;
    struct s3_credentials credentials;
    struct s3_metadata metadata;
    struct s3_pump pump;
    struct object_line ended;
    struct s3_request *line_first, *line_last;
    struct s3_request **flight; /* OBJECT_IN_FLIGHT_MAX of them */
    size_t flight_count;
    struct s3_upload *uploads;
    struct object_stats stats;
    int64_t skew_ms; /* for tests: added to the clock */
    int64_t renew_not_before_ms;
    bool is_named;     /* the profile was asked for */
    bool quotes_etags; /* in If-Match; see object_s3_call.c */
    bool is_closing;
};

/* -- object_s3.c */

void s3_call_end(struct s3 *s3, struct object_call *call); /* code and text are set */

/* -- object_s3_request.c */

struct s3_request *s3_request_create(struct s3 *s3, struct object_call *call, const char *method,
                                     const char *key); /* NULL: the bucket */
void s3_request_destroy(struct s3_request *request);
void s3_request_add_header(struct s3_request *request, const char *name, const char *format, ...)
    PRINTF_LIKE(3, 4);
void s3_request_send(struct s3_request *request); /* into the line; it is done's to destroy */
/* Starts what may be started; fails what cannot be. Called after anything ended. */
void s3_requests_advance(struct s3 *s3);
/* Takes back those of an upload (NULL: all), wherever they are, without calling `done`. */
void s3_requests_cancel(struct s3 *s3, const struct s3_upload *upload);

/* Sets the call's failure from the answer; true if there is none (2xx). */
MUST_USE bool s3_request_succeeded(struct s3_request *request);
/* The same for an <Error> in XML. */
enum err_code s3_fail(struct s3 *s3, struct object_call *call, int status,
                      const struct s3_fault *fault);

/* -- object_s3_call.c */

void s3_call_begin(struct s3 *s3, struct object_call *call);
/* False where libcrypto has no MD5. */
bool s3_md5(const struct s3 *s3, const void *bytes, size_t size, uint8_t out[S3_MD5_BYTES]);
/* False: the etag is none. */
bool s3_md5_parse(const char *etag, uint8_t out[S3_MD5_BYTES]);

/* -- object_s3_upload.c */

void s3_upload_begin(struct s3 *s3, struct object_call *call);
/* At the end of the store: the calls end, and the server is told to forget the parts. */
void s3_uploads_close(struct s3 *s3);

/* -- object_s3_credentials of a store: object_s3_renew.c */

/* Reads them, waiting for a metadata server if need be. */
MUST_USE enum err_code s3_renew_first(struct s3 *s3, struct err *err);
/* Whether requests may be signed now; otherwise new credentials are on their way, or *err says why
 * there are none. */
MUST_USE bool s3_renew_ready(struct s3 *s3, bool *coming, struct err *err);
/* The server has refused them as expired or unknown: true if there are others now or soon. */
MUST_USE bool s3_renew_refused(struct s3 *s3);

int64_t s3_now_ms(const struct s3 *s3);

/* For tests: the store's clock runs ahead by this much. */
void object_s3_set_skew(struct object_store *store, int64_t skew_ms);

#endif
