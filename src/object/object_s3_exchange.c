#include "object/object_s3_exchange.h"

#include "base/clock.h"
#include "object/object_driver.h"
#include "object/object_s3_reply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CONNECT_MS = 10000,
    BUFFER_BYTES = 256 << 10,
    LARGE_BYTES = 1 << 20, /* from here on a body is worth a large buffer */
    HUGE_PAGE_BYTES = 2 << 20,
};

/* -- sending ----------------------------------------------------------------------------------- */

static size_t on_read(char *out, size_t size, size_t count, void *context)
{
    struct s3_exchange *exchange = context;
    size_t left = exchange->data_size - exchange->sent;
    size_t taken = size * count < left ? size * count : left;
    if (taken > 0) {
        memcpy(out, (const char *)exchange->data + exchange->sent, taken);
    }
    exchange->sent += taken;
    exchange->pump->bytes_out += taken;
    exchange->progress_ms = clock_mono_ms();
    return taken;
}

/* -- receiving --------------------------------------------------------------------------------- */

/* The value of "Name: value", if that is the header; trimmed at its front. */
static const char *value_of(const char *line, const char *name)
{
    size_t size = strlen(name);
    if (strncasecmp(line, name, size) != 0 || line[size] != ':') {
        return NULL;
    }
    line += size + 1;
    while (*line == ' ' || *line == '\t') {
        line++;
    }
    return line;
}

static bool parse_u64(const char **at, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(*at, &end, 10);
    bool good = **at >= '0' && **at <= '9' && errno == 0;
    *at = end;
    return good;
}

static void read_range(struct s3_exchange *exchange, const char *value)
{
    exchange->has_range = strncmp(value, "bytes ", 6) == 0;
    value += exchange->has_range ? 6 : 0;
    exchange->has_range = exchange->has_range && parse_u64(&value, &exchange->range_first) &&
                          *value++ == '-' && parse_u64(&value, &exchange->range_last) &&
                          *value++ == '/' && parse_u64(&value, &exchange->range_total) &&
                          *value == '\0';
}

static void clear_headers(struct s3_exchange *exchange)
{
    exchange->has_size = false;
    exchange->has_range = false;
    exchange->etag[0] = '\0';
    exchange->region[0] = '\0';
    exchange->is_sealed = false;
}

static void read_header(struct s3_exchange *exchange, const char *line)
{
    const char *value = NULL;
    if (strncmp(line, "HTTP/", 5) == 0) {
        clear_headers(exchange); /* what came before was of a "100 Continue" or of a proxy */
    } else if ((value = value_of(line, "content-length"))) {
        exchange->has_size = parse_u64(&value, &exchange->size) && *value == '\0';
    } else if ((value = value_of(line, "content-range"))) {
        read_range(exchange, value);
    } else if ((value = value_of(line, "etag"))) {
        if (!s3_etag_copy(exchange->etag, value, strlen(value))) {
            exchange->etag[0] = '\0';
        }
    } else if ((value = value_of(line, "x-amz-bucket-region"))) {
        snprintf(exchange->region, sizeof exchange->region, "%s", value);
    } else if ((value = value_of(line, "x-amz-server-side-encryption"))) {
        exchange->is_sealed = strcmp(value, "AES256") != 0;
    } else if (value_of(line, "x-amz-server-side-encryption-customer-algorithm")) {
        exchange->is_sealed = true;
    }
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
    struct s3_exchange *exchange = context;
    char line[512]; /* what we look for is shorter */
    size_t used = size * count < sizeof line - 1 ? size * count : sizeof line - 1;
    memcpy(line, bytes, used);
    while (used > 0 && (unsigned char)line[used - 1] <= ' ') {
        used--;
    }
    line[used] = '\0';
    read_header(exchange, line);
    exchange->progress_ms = clock_mono_ms();
    return size * count;
}

static int status_of(const struct s3_exchange *exchange)
{
    long status = 0;
    exchange->pump->lib->curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

/* Refuses what comes. The reason is kept, since curl only knows that we did. */
static size_t refuse(struct s3_exchange *exchange, enum err_code code, const char *why)
{
    exchange->code = err_set(&exchange->err, code, "%s", why);
    return 0;
}

static size_t add_text(struct s3_exchange *exchange, const char *bytes, size_t size)
{
    if (size > S3_TEXT_MAX - exchange->text.size) {
        return refuse(exchange, ERR_IO, "the answer is too long");
    }
    str_add_bytes(&exchange->text, bytes, size);
    return size;
}

/* Room for the object. In huge pages where it fills some: as many small ones as a pack has cost
 * more time than all the rest of receiving it. */
static bool reserve(struct object_call *call, uint64_t size)
{
    if (call->room.cap > size || size < (uint64_t)2 * HUGE_PAGE_BYTES || size > SIZE_MAX / 2) {
        return object_call_reserve(call, size);
    }
    size_t cap = ((size_t)size / HUGE_PAGE_BYTES + 1) * HUGE_PAGE_BYTES;
    char *text = aligned_alloc(HUGE_PAGE_BYTES, cap);
    if (!text) {
        return false;
    }
    (void)madvise(text, cap, MADV_HUGEPAGE); /* it works without, only slower */
    text[0] = '\0';
    call->body = (struct str){.text = text, .cap = cap};
    return true;
}

static size_t add_body(struct s3_exchange *exchange, const char *bytes, size_t size)
{
    struct object_call *call = exchange->call;
    if (!exchange->is_begun) {
        exchange->is_begun = true;
        if (!exchange->has_size) {
            return refuse(exchange, ERR_IO, "the answer does not say how long it is");
        }
        if (!reserve(call, exchange->size)) {
            return refuse(exchange, ERR_AGAIN, "no memory for the object");
        }
    }
    if (size > exchange->size - call->body.size) {
        return refuse(exchange, ERR_IO, "the answer is longer than it says");
    }
    memcpy(call->body.text + call->body.size, bytes, size);
    call->body.size += size;
    call->body.text[call->body.size] = '\0';
    return size;
}

static size_t on_write(char *bytes, size_t size, size_t count, void *context)
{
    struct s3_exchange *exchange = context;
    size *= count;
    exchange->progress_ms = clock_mono_ms();
    exchange->pump->bytes_in += size;
    if (!exchange->is_begun) {
        exchange->status = status_of(exchange);
    }
    bool is_body = exchange->call && exchange->status / 100 == 2;
    return is_body ? add_body(exchange, bytes, size) : add_text(exchange, bytes, size);
}

/* -- the handle -------------------------------------------------------------------------------- */

static void set_headers(struct s3_exchange *exchange)
{
    const struct object_lib *lib = exchange->pump->lib;
    AUTO_STR struct str line = {0};
    for (size_t i = 0; i < exchange->header_count; i++) {
        str_clear(&line);
        /* "Name;" is how curl is told to send a header without a value. */
        bool is_empty = exchange->headers[i].value[0] == '\0';
        str_addf(&line, is_empty ? "%s;%s" : "%s: %s", exchange->headers[i].name,
                 exchange->headers[i].value);
        exchange->list = lib->curl_slist_append(exchange->list, line.text);
    }
    /* No waiting for a "100 Continue", and no content type of curl's own choice. */
    exchange->list = lib->curl_slist_append(exchange->list, "Expect:");
    exchange->list = lib->curl_slist_append(exchange->list, "User-Agent: drover/" DROVER_VERSION);
    CHECK(exchange->list);
    if (line.text) {
        explicit_bzero(line.text, line.cap); /* it may have held a session token */
    }
    lib->curl_easy_setopt(exchange->easy, CURLOPT_HTTPHEADER, exchange->list);
}

static void set_method(struct s3_exchange *exchange)
{
    const struct object_lib *lib = exchange->pump->lib;
    CURL *easy = exchange->easy;
    if (strcmp(exchange->method, "HEAD") == 0) {
        lib->curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (strcmp(exchange->method, "GET") != 0 && strcmp(exchange->method, "DELETE") != 0) {
        lib->curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        lib->curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)exchange->data_size);
        lib->curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
        lib->curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
        if (exchange->data_size >= LARGE_BYTES) {
            lib->curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
        }
    }
    lib->curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, exchange->method);
}

void s3_exchange_set_up(struct s3_exchange *exchange)
{
    const struct object_lib *lib = exchange->pump->lib;
    CURL *easy = exchange->easy;
    exchange->code = ERR_OK;
    exchange->status = 0;
    exchange->sent = 0;
    exchange->is_begun = false;
    str_clear(&exchange->text);
    clear_headers(exchange);

    lib->curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    lib->curl_easy_setopt(easy, CURLOPT_URL, exchange->url);
    lib->curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    lib->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    lib->curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    lib->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    lib->curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    lib->curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    lib->curl_easy_setopt(
        easy, CURLOPT_CONNECTTIMEOUT_MS,
        (long)(exchange->timeout_ms < CONNECT_MS ? exchange->timeout_ms : CONNECT_MS));
    lib->curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    lib->curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    lib->curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    lib->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    lib->curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    if (exchange->ca_file) {
        lib->curl_easy_setopt(easy, CURLOPT_CAINFO, exchange->ca_file);
    }
    if (exchange->is_direct) {
        lib->curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    }
    set_method(exchange);
    set_headers(exchange);
}

/* -- the end ----------------------------------------------------------------------------------- */

static enum err_code code_of(CURLcode result)
{
    switch ((int)result) {
    case CURLE_OK:
        return ERR_OK;
    case CURLE_OPERATION_TIMEDOUT:
        return ERR_TIMEOUT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
        return ERR_AGAIN;
    default:
        return ERR_IO;
    }
}

void s3_exchange_judge(struct s3_exchange *exchange, CURLcode result)
{
    exchange->status = status_of(exchange);
    if (exchange->code != ERR_OK) {
        return; /* refused by ourselves */
    }
    exchange->code = code_of(result);
    if (exchange->code != ERR_OK) {
        err_set(&exchange->err, exchange->code, "%s",
                exchange->pump->lib->curl_easy_strerror(result));
        return;
    }
    if (exchange->status < 200) {
        exchange->code = err_set(&exchange->err, ERR_AGAIN, "no answer came");
    }
    bool is_body = exchange->call && exchange->status / 100 == 2;
    if (is_body && (!exchange->has_size || exchange->call->body.size != exchange->size)) {
        exchange->code =
            err_set(&exchange->err, ERR_AGAIN, "%zu of %" PRIu64 " bytes came",
                    exchange->call->body.size, exchange->has_size ? exchange->size : 0);
    }
}
