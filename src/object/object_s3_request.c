/* Requests: the line they wait in, how they are signed and sent, what their failures mean. */
#include "object/object_s3_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- making one -------------------------------------------------------------------------------- */

struct s3_request *s3_request_create(struct s3 *s3, struct object_call *call, const char *method,
                                     const char *key)
{
    struct s3_request *request = mem_alloc(sizeof *request);
    request->s3 = s3;
    request->call = call;
    request->method = method;
    str_add(&request->path, s3->config.path);
    if (key) {
        str_add_char(&request->path, '/');
        s3_add_encoded(&request->path, s3->config.prefix, true);
        s3_add_encoded(&request->path, key, true);
    } else if (request->path.size == 0) {
        str_add_char(&request->path, '/');
    }
    return request;
}

void s3_request_destroy(struct s3_request *request)
{
    s3_exchange_release(&request->exchange);
    str_release(&request->path);
    str_release(&request->query);
    str_release(&request->data_own);
    str_release(&request->url);
    str_release(&request->authorization);
    free(request);
}

void s3_request_add_header(struct s3_request *request, const char *name, const char *format, ...)
{
    size_t at = request->header_count++;
    CHECK(at < S3_HEADERS_MAX);
    va_list args;
    va_start(args, format);
    int size = vsnprintf(request->values[at], sizeof request->values[at], format, args);
    va_end(args);
    CHECK(size >= 0 && (size_t)size < sizeof request->values[at]);
    request->headers[at] = (struct s3_header){name, request->values[at]};
}

/* -- sending ----------------------------------------------------------------------------------- */

static void add_borrowed(struct s3_request *request, const char *name, const char *value)
{
    CHECK(request->header_count < S3_HEADERS_MAX);
    request->headers[request->header_count++] = (struct s3_header){name, value};
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct s3_header *)left)->name, ((const struct s3_header *)right)->name);
}

static void sign(struct s3_request *request)
{
    const struct s3 *s3 = request->s3;
    uint8_t digest[SHA256_BYTES];
    sha256_of(request->data, request->data_size, digest);
    sha256_hex(digest, request->payload_hash);
    s3_stamp(request->stamp, s3_now_ms(s3));
    add_borrowed(request, "host", s3->config.host);
    add_borrowed(request, "x-amz-content-sha256", request->payload_hash);
    add_borrowed(request, "x-amz-date", request->stamp);
    if (s3->credentials.token.size > 0) {
        add_borrowed(request, "x-amz-security-token", s3->credentials.token.text);
    }
    qsort(request->headers, request->header_count, sizeof request->headers[0], by_name);

    const struct s3_signable signable = {
        .method = request->method,
        .path = request->path.text,
        .query = str_text(&request->query),
        .headers = request->headers,
        .header_count = request->header_count,
        .payload_hash = request->payload_hash,
    };
    const struct s3_signer signer = {
        .access_key = s3->credentials.access_key.text,
        .secret_key = s3->credentials.secret_key.text,
        .region = s3->config.region,
        .service = "s3",
    };
    s3_sign(&request->authorization, &signable, &signer, request->stamp);
    add_borrowed(request, "authorization", request->authorization.text);
}

static void count(struct object_stats *stats, const struct s3_request *request)
{
    switch (request->call ? request->call->verb : OBJECT_PUT) {
    case OBJECT_GET:
        stats->gets++;
        break;
    case OBJECT_HEAD:
        stats->heads++;
        break;
    case OBJECT_PUT: /* parts too, and what goes with them */
        stats->puts++;
        break;
    case OBJECT_DELETE:
        stats->deletes++;
        break;
    case OBJECT_LIST:
        stats->lists++;
        break;
    }
}

static void leave_flight(struct s3_request *request)
{
    struct s3 *s3 = request->s3;
    size_t at = 0;
    while (s3->flight[at] != request) {
        at++;
        CHECK(at < s3->flight_count);
    }
    s3->flight[at] = s3->flight[--s3->flight_count];
}

static void on_exchange(struct s3_exchange *exchange)
{
    struct s3_request *request = (struct s3_request *)exchange;
    struct s3 *s3 = request->s3;
    leave_flight(request);
    request->done(request);
    s3_requests_advance(s3);
}

static void start(struct s3 *s3, struct s3_request *request)
{
    sign(request);
    str_addf(&request->url, "%s%s%s%s", s3->config.origin, request->path.text,
             request->query.size > 0 ? "?" : "", str_text(&request->query));
    struct s3_exchange *exchange = &request->exchange;
    exchange->method = request->method;
    exchange->url = request->url.text;
    exchange->headers = request->headers;
    exchange->header_count = request->header_count;
    exchange->data = request->data;
    exchange->data_size = request->data_size;
    exchange->ca_file = s3->config.ca_file;
    exchange->timeout_ms = s3->config.timeout_ms;
    exchange->done = on_exchange;
    count(&s3->stats, request);
    s3->flight[s3->flight_count++] = request;
    s3_pump_start(&s3->pump, exchange);
}

static struct s3_request *take_first(struct s3 *s3)
{
    struct s3_request *request = s3->line_first;
    s3->line_first = request->next;
    if (!s3->line_first) {
        s3->line_last = NULL;
    }
    request->next = NULL;
    return request;
}

void s3_requests_advance(struct s3 *s3)
{
    while (s3->line_first && s3->flight_count < OBJECT_IN_FLIGHT_MAX) {
        bool coming = false;
        struct err err = {0};
        if (s3_renew_ready(s3, &coming, &err)) {
            start(s3, take_first(s3));
            continue;
        }
        if (coming || !s3->line_first) {
            return;
        }
        struct s3_request *request = take_first(s3);
        request->exchange.code = err_set(&request->exchange.err, err.code, "%s", err.text);
        request->done(request);
    }
}

void s3_request_send(struct s3_request *request)
{
    struct s3 *s3 = request->s3;
    request->next = NULL;
    if (s3->line_last) {
        s3->line_last->next = request;
    } else {
        s3->line_first = request;
    }
    s3->line_last = request;
    s3_requests_advance(s3);
}

/* -- cancelling -------------------------------------------------------------------------------- */

static void drop(struct s3_request *request)
{
    if (!request->upload && request->call) {
        str_release(&request->call->body);
        object_call_fail(request->call, ERR_CANCELLED, "the store was closed");
        s3_call_end(request->s3, request->call);
    }
    s3_request_destroy(request);
}

void s3_requests_cancel(struct s3 *s3, const struct s3_upload *upload)
{
    for (size_t i = s3->flight_count; i-- > 0;) {
        struct s3_request *request = s3->flight[i];
        if (!upload || request->upload == upload) {
            s3_pump_cancel(&request->exchange);
            leave_flight(request);
            drop(request);
        }
    }
    struct s3_request *kept_last = NULL;
    struct s3_request **at = &s3->line_first;
    while (*at) {
        struct s3_request *request = *at;
        if (!upload || request->upload == upload) {
            *at = request->next;
            drop(request);
        } else {
            kept_last = request;
            at = &request->next;
        }
    }
    s3->line_last = kept_last;
}

/* -- failures ---------------------------------------------------------------------------------- */

static enum err_code code_of_status(int status)
{
    switch (status) {
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 416:
        return ERR_RANGE;
    case 507:
        return ERR_QUOTA;
    case 408:
    case 409:
    case 425:
    case 429:
        return ERR_AGAIN;
    default:
        return status >= 500 && status != 501 && status != 505 ? ERR_AGAIN : ERR_IO;
    }
}

/* What the server's word says better than its number. */
static enum err_code code_of_fault(int status, const char *word)
{
    static const struct {
        const char *word;
        enum err_code code;
    } known[] = {
        {"BadDigest", ERR_AGAIN}, /* damaged on the way, and not stored */
        {"Busy", ERR_AGAIN},
        {"ConditionalRequestConflict", ERR_AGAIN},
        {"ExpiredToken", ERR_DENIED},
        {"IncompleteBody", ERR_AGAIN},
        {"InternalError", ERR_AGAIN},
        {"InvalidAccessKeyId", ERR_DENIED},
        {"InvalidToken", ERR_DENIED},
        {"NoSuchUpload", ERR_AGAIN}, /* someone swept it away: begin again */
        {"OperationAborted", ERR_AGAIN},
        {"QuotaExceeded", ERR_QUOTA},
        {"RequestTimeout", ERR_AGAIN},
        {"ServiceUnavailable", ERR_AGAIN},
        {"SlowDown", ERR_AGAIN},
        {"TokenRefreshRequired", ERR_DENIED},
        {"TooManyRequests", ERR_AGAIN},
        {"XAmzContentSHA256Mismatch", ERR_AGAIN},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(word, known[i].word) == 0) {
            return known[i].code;
        }
    }
    return code_of_status(status);
}

static bool is_about_keys(const char *word)
{
    return strcmp(word, "ExpiredToken") == 0 || strcmp(word, "InvalidAccessKeyId") == 0 ||
           strcmp(word, "InvalidToken") == 0 || strcmp(word, "TokenRefreshRequired") == 0;
}

enum err_code s3_fail(struct s3 *s3, struct object_call *call, int status,
                      const struct s3_fault *fault)
{
    enum err_code code = code_of_fault(status, fault->code);
    bool is_condition = status == 412 || strcmp(fault->code, "PreconditionFailed") == 0;
    if (is_condition && call->condition == OBJECT_IF_ABSENT) {
        return object_call_fail(call, ERR_EXISTS, "there is one already");
    }
    if (is_condition && call->condition == OBJECT_IF_MATCH) {
        return object_call_fail(call, ERR_STALE, "it has changed: its etag is not '%s'",
                                call->match);
    }
    if (is_about_keys(fault->code) && s3_renew_refused(s3)) {
        code = ERR_AGAIN;
    }
    const char *hint = "";
    if (strcmp(fault->code, "RequestTimeTooSkewed") == 0) {
        hint = "; is this machine's clock right?";
    } else if (code == ERR_NOT_FOUND && strcmp(fault->code, "NoSuchBucket") == 0) {
        hint = "; there is no such bucket";
    }
    return object_call_fail(call, code, "S3 at %.64s answers %d %s%s%s%s", s3->config.host, status,
                            fault->code, fault->message[0] ? ": " : "", fault->message, hint);
}

bool s3_request_succeeded(struct s3_request *request)
{
    const struct s3_exchange *exchange = &request->exchange;
    struct object_call *call = request->call;
    if (exchange->code != ERR_OK) {
        object_call_fail(call, exchange->code, "S3 at %.64s: %s", request->s3->config.host,
                         exchange->err.text);
        return false;
    }
    if (exchange->status / 100 == 2) {
        return true;
    }
    struct s3_fault fault = {0};
    if (!s3_reply_fault(&exchange->text, &fault)) {
        fault = (struct s3_fault){0}; /* HEAD, or a proxy's own page */
    }
    if (exchange->status / 100 == 3 && exchange->region[0] && !fault.message[0]) {
        snprintf(fault.message, sizeof fault.message, "the bucket is in %s", exchange->region);
    }
    s3_fail(request->s3, call, exchange->status, &fault);
    return false;
}
