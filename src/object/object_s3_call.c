/* The verbs: what each asks the server, and what its answer means. */
#include "object/object_s3_internal.h"

#include "object/object_s3_xml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t single_max = UINT64_C(5) << 30; /* bytes of a PUT in one piece */

bool s3_md5(const struct s3 *s3, const void *bytes, size_t size, uint8_t out[S3_MD5_BYTES])
{
    const struct object_lib *lib = s3->pump.lib;
    unsigned written = 0;
    return lib->EVP_Digest(bytes, size, out, &written, lib->EVP_md5(), NULL) == 1 &&
           written == S3_MD5_BYTES;
}

static void end(struct s3_request *request)
{
    struct s3 *s3 = request->s3;
    struct object_call *call = request->call;
    s3_request_destroy(request);
    s3_call_end(s3, call);
}

/* -- GET, HEAD --------------------------------------------------------------------------------- */

static bool is_whole(const struct object_call *call)
{
    return call->offset == 0 && call->size == 0;
}

/* The bytes are those asked for: nothing is trusted that a proxy or cache could have mixed up. */
static bool range_is_right(const struct object_call *call, const struct s3_exchange *exchange)
{
    if (is_whole(call)) {
        return exchange->status == 200;
    }
    uint64_t rest = exchange->range_total - call->offset;
    uint64_t wanted = call->size && call->size < rest ? call->size : rest;
    return exchange->status == 206 && exchange->has_range &&
           exchange->range_first == call->offset && call->offset < exchange->range_total &&
           call->body.size == wanted && exchange->range_last == call->offset + (wanted - 1);
}

static void on_get(struct s3_request *request)
{
    struct object_call *call = request->call;
    const struct s3_exchange *exchange = &request->exchange;
    if (s3_request_succeeded(request)) {
        if (range_is_right(call, exchange)) {
            call->object_size = is_whole(call) ? exchange->size : exchange->range_total;
            memcpy(call->etag, exchange->etag, sizeof call->etag);
        } else {
            object_call_fail(call, ERR_IO, "S3 at %.64s answers %d with another range than asked",
                             request->s3->config.host, exchange->status);
        }
    }
    if (call->code != ERR_OK) {
        str_release(&call->body);
    }
    end(request);
}

static void begin_get(struct s3 *s3, struct object_call *call)
{
    struct s3_request *request = s3_request_create(s3, call, "GET", call->key);
    request->exchange.call = call;
    request->done = on_get;
    int64_t last = 0; /* servers have no larger number for it */
    if (!is_whole(call)) {
        if (call->size == 0 || __builtin_add_overflow(call->offset, call->size - 1, &last)) {
            s3_request_add_header(request, "range", "bytes=%" PRIu64 "-", call->offset);
        } else {
            s3_request_add_header(request, "range", "bytes=%" PRIu64 "-%" PRId64, call->offset,
                                  last);
        }
    }
    s3_request_send(request);
}

static void on_head(struct s3_request *request)
{
    struct object_call *call = request->call;
    if (s3_request_succeeded(request)) {
        if (request->exchange.has_size) {
            call->object_size = request->exchange.size;
            memcpy(call->etag, request->exchange.etag, sizeof call->etag);
        } else {
            object_call_fail(call, ERR_IO, "S3 at %.64s does not say how long it is",
                             request->s3->config.host);
        }
    }
    end(request);
}

static void begin_head(struct s3 *s3, struct object_call *call)
{
    struct s3_request *request = s3_request_create(s3, call, "HEAD", call->key);
    request->done = on_head;
    s3_request_send(request);
}

/* -- PUT --------------------------------------------------------------------------------------- */

bool s3_md5_parse(const char *etag, uint8_t out[S3_MD5_BYTES])
{
    size_t chars = (size_t)2 * S3_MD5_BYTES;
    if (strlen(etag) != chars || strspn(etag, "0123456789abcdef") != chars) {
        return false;
    }
    for (size_t i = 0; i < S3_MD5_BYTES; i++) {
        out[i] = (uint8_t)(str_hex_digit(etag[2 * i]) << 4 | str_hex_digit(etag[2 * i + 1]));
    }
    return true;
}

/* What was stored is what we sent, as far as its etag tells. */
static void check_stored(struct s3_request *request)
{
    const struct s3 *s3 = request->s3;
    struct object_call *call = request->call;
    uint8_t sent[S3_MD5_BYTES];
    uint8_t stored[S3_MD5_BYTES];
    if (!s3->config.etag_is_md5 || request->exchange.is_sealed ||
        !s3_md5_parse(call->etag, stored) || !s3_md5(s3, call->data, call->data_size, sent)) {
        return;
    }
    if (memcmp(sent, stored, sizeof sent) != 0) {
        object_call_fail(call, ERR_CORRUPT,
                         "S3 at %.64s has stored other bytes than were sent: their MD5 is %s",
                         s3->config.host, call->etag);
    }
}

static void send_put(struct s3 *s3, struct object_call *call, bool is_second_try);

/* After a 412 to If-Match, a HEAD tells what is true. Some servers say 412 where there is no object
 * at all. And RFC 9110 wants the etag in quotes there, as most take it, while Ceph's RGW only
 * matches it without: so what the object has already is sent once more the other way. */
static void on_settled(struct s3_request *request)
{
    struct s3 *s3 = request->s3;
    struct object_call *call = request->call;
    bool is_good = s3_request_succeeded(request);
    bool is_same = is_good && strcmp(request->exchange.etag, call->match) == 0;
    if (is_same && !request->is_second_try) {
        s3_request_destroy(request);
        s3->quotes_etags = !s3->quotes_etags;
        send_put(s3, call, true);
        return;
    }
    if (is_good || call->code == ERR_DENIED) {
        object_call_fail(call, ERR_STALE, "it has changed: its etag is not '%s'", call->match);
    }
    end(request);
}

static void settle(struct s3_request *put)
{
    struct s3_request *head = s3_request_create(put->s3, put->call, "HEAD", put->call->key);
    head->is_second_try = put->is_second_try;
    head->done = on_settled;
    s3_request_destroy(put);
    s3_request_send(head);
}

static void on_put(struct s3_request *request)
{
    struct object_call *call = request->call;
    const struct s3_exchange *exchange = &request->exchange;
    if (exchange->code == ERR_OK && exchange->status == 412 && call->condition == OBJECT_IF_MATCH) {
        settle(request);
        return;
    }
    if (s3_request_succeeded(request)) {
        memcpy(call->etag, exchange->etag, sizeof call->etag);
        if (call->etag[0]) {
            check_stored(request);
        } else {
            object_call_fail(call, ERR_IO, "S3 at %.64s gives no etag", request->s3->config.host);
        }
    }
    end(request);
}

static void send_put(struct s3 *s3, struct object_call *call, bool is_second_try)
{
    struct s3_request *request = s3_request_create(s3, call, "PUT", call->key);
    request->is_second_try = is_second_try;
    request->data = call->data;
    request->data_size = call->data_size;
    request->done = on_put;
    if (call->condition == OBJECT_IF_ABSENT) {
        s3_request_add_header(request, "if-none-match", "*");
    } else if (call->condition == OBJECT_IF_MATCH) {
        s3_request_add_header(request, "if-match", s3->quotes_etags ? "\"%s\"" : "%s", call->match);
    }
    s3_request_send(request);
}

/* A conditional PUT goes in one piece whatever its size: servers that know the conditions of a PUT
 * may ignore those of a completed upload without a word (Ceph's RGW does). */
static void begin_put(struct s3 *s3, struct object_call *call)
{
    char etag[OBJECT_ETAG_MAX];
    bool is_large = call->data_size / 2 >= s3->config.part_bytes;
    if (call->condition == OBJECT_ALWAYS && is_large) {
        s3_upload_begin(s3, call);
    } else if (call->data_size > single_max) {
        object_call_fail(call, ERR_IO, "S3 takes conditional writes of 5 GiB at most");
        s3_call_end(s3, call);
    } else if (call->condition == OBJECT_IF_MATCH &&
               !s3_etag_copy(etag, call->match, strnlen(call->match, sizeof call->match))) {
        object_call_fail(call, ERR_STALE, "no object has such an etag");
        s3_call_end(s3, call);
    } else {
        send_put(s3, call, false);
    }
}

/* -- DELETE ------------------------------------------------------------------------------------ */

static void on_delete(struct s3_request *request)
{
    struct s3_fault fault = {0};
    const struct s3_exchange *exchange = &request->exchange;
    bool is_missing =
        exchange->code == ERR_OK && exchange->status == 404 &&
        !(s3_reply_fault(&exchange->text, &fault) && strcmp(fault.code, "NoSuchBucket") == 0);
    if (!is_missing) {
        (void)!s3_request_succeeded(request);
    }
    end(request);
}

static void on_delete_many(struct s3_request *request)
{
    struct object_call *call = request->call;
    struct s3_fault fault = {0};
    if (s3_request_succeeded(request)) {
        if (!s3_reply_deleted(&request->exchange.text, &fault)) {
            object_call_fail(call, ERR_AGAIN, "S3 at %.64s: the answer is cut off or not XML",
                             request->s3->config.host);
        } else if (fault.code[0]) {
            /* Some are gone, some are not; the word says what the caller can do about them. */
            int status = strcmp(fault.code, "AccessDenied") == 0 ? 403 : 200;
            s3_fail(request->s3, call, status, &fault);
        }
    }
    end(request);
}

static bool add_md5_header(struct s3_request *request)
{
    uint8_t digest[S3_MD5_BYTES];
    if (!s3_md5(request->s3, request->data, request->data_size, digest)) {
        return false;
    }
    AUTO_STR struct str text = {0};
    s3_add_base64(&text, digest, sizeof digest);
    s3_request_add_header(request, "content-md5", "%s", text.text);
    return true;
}

static void begin_delete_many(struct s3 *s3, struct object_call *call)
{
    struct s3_request *request = s3_request_create(s3, call, "POST", NULL);
    struct str *body = &request->data_own;
    str_add(body, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
    for (size_t i = 0; i < call->key_count; i++) {
        str_add(body, "<Object><Key>");
        s3_xml_add_escaped(body, s3->config.prefix);
        s3_xml_add_escaped(body, call->keys[i]);
        str_add(body, "</Key></Object>");
    }
    str_add(body, "</Delete>");
    request->data = body->text;
    request->data_size = body->size;
    request->done = on_delete_many;
    s3_add_query(&request->query, "delete", "");
    s3_request_add_header(request, "content-type", "application/xml");
    if (!add_md5_header(request)) {
        object_call_fail(call, ERR_UNSUPPORTED, "libcrypto has no MD5 here, which S3 asks for");
        end(request);
        return;
    }
    s3_request_send(request);
}

static void begin_delete(struct s3 *s3, struct object_call *call)
{
    if (call->key_count == 0) {
        s3_call_end(s3, call);
    } else if (call->key_count == 1) {
        struct s3_request *request = s3_request_create(s3, call, "DELETE", call->keys[0]);
        request->done = on_delete;
        s3_request_send(request);
    } else {
        CHECK(call->key_count <= OBJECT_DELETE_MAX);
        begin_delete_many(s3, call);
    }
}

/* -- LIST -------------------------------------------------------------------------------------- */

static void drop_page(struct object_call *call)
{
    for (size_t i = 0; i < call->page_count; i++) {
        free(call->page[i].key);
    }
    free(call->page);
    call->page = NULL;
    call->page_count = 0;
    call->more = false;
}

static void on_list(struct s3_request *request)
{
    struct s3 *s3 = request->s3;
    struct object_call *call = request->call;
    if (s3_request_succeeded(request) &&
        !s3_reply_page(&request->exchange.text, s3->config.prefix, call)) {
        object_call_fail(call, ERR_AGAIN,
                         "S3 at %.64s: the answer is cut off or not a page of keys",
                         s3->config.host);
        drop_page(call);
    }
    end(request);
}

static void add_query_below(struct s3_request *request, const char *name, const char *key)
{
    AUTO_STR struct str value = {0};
    str_add(&value, request->s3->config.prefix);
    str_add(&value, key);
    s3_add_query(&request->query, name, value.text);
}

static void begin_list(struct s3 *s3, struct object_call *call)
{
    struct s3_request *request = s3_request_create(s3, call, "GET", NULL);
    char max[24];
    snprintf(max, sizeof max, "%zu", call->max ? call->max : (size_t)OBJECT_LIST_MAX);
    s3_add_query(&request->query, "list-type", "2");
    s3_add_query(&request->query, "max-keys", max);
    add_query_below(request, "prefix", call->key ? call->key : "");
    if (call->after && call->after[0]) {
        add_query_below(request, "start-after", call->after);
    }
    request->done = on_list;
    s3_request_send(request);
}

void s3_call_begin(struct s3 *s3, struct object_call *call)
{
    bool foreign = call->verb == OBJECT_GET && call->foreign && call->key && call->key[0] != '\0';
    if (!foreign && !object_call_judge(call)) {
        s3_call_end(s3, call);
        return;
    }
    switch (call->verb) {
    case OBJECT_GET:
        begin_get(s3, call);
        break;
    case OBJECT_HEAD:
        begin_head(s3, call);
        break;
    case OBJECT_PUT:
        begin_put(s3, call);
        break;
    case OBJECT_DELETE:
        begin_delete(s3, call);
        break;
    case OBJECT_LIST:
        begin_list(s3, call);
        break;
    }
}
