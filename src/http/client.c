#include "http/client.h"

#include "base/mem.h"
#include "http/lib.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    CONNECT_TIMEOUT_S = 5,
    ANSWER_BYTES_MAX = 256 << 20,
    BUFFER_BYTES = 64 << 10,
};

struct client {
    const struct lib_curl *curl;
    CURL *easy;
    char *url;           /* without a slash at its end */
    char *authorization; /* the whole header; never printed */
    int timeout_s;
    bool loopback;
    char trouble[CURL_ERROR_SIZE];
};

/* --- life ------------------------------------------------------------------------------------ */

/* The host of a URL is this machine. The name is taken at its word. */
static bool is_loopback(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t length = strcspn(host, "/?#");
    if (memchr(host, '@', length)) {
        return false;
    }
    size_t name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    return (name == 9 && strncasecmp(host, "localhost", 9) == 0) ||
           (name == 5 && strncmp(host, "[::1]", 5) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == name);
}

static enum err_code check_url(const char *url, struct err *err)
{
    bool plain = strncasecmp(url, "http://", 7) == 0;
    bool safe = strncasecmp(url, "https://", 8) == 0;
    const char *host = plain ? url + 7 : safe ? url + 8 : "";
    if (host[0] == '\0' || strpbrk(url, " \t\r\n")) {
        return err_set(err, ERR_INVALID, "'%.200s' is not a server's address, such as %s", url,
                       "http://127.0.0.1:1234");
    }
    if (plain && !is_loopback(url)) {
        return err_set(err, ERR_DENIED,
                       "%.200s: a token is not sent unencrypted to another machine; use https, or "
                       "come in through `ssh -L`",
                       url);
    }
    return ERR_OK;
}

enum err_code client_open(const char *url, const char *token, int timeout_s, struct client **out,
                          struct err *err)
{
    const struct lib_curl *curl = NULL;
    enum err_code code = check_url(url, err);
    if (code == ERR_OK && strpbrk(token, "\r\n")) {
        code = err_set(err, ERR_INVALID, "the token for %.200s is more than one line", url);
    }
    if (code == ERR_OK) {
        code = lib_load_curl(&curl, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    CURL *easy = curl->curl_easy_init();
    CHECK(easy);
    struct client *client = mem_alloc(sizeof *client);
    client->curl = curl;
    client->easy = easy;
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/') {
        length--;
    }
    client->url = mem_strndup(url, length);
    client->loopback = is_loopback(url);
    client->timeout_s = timeout_s;
    struct str header = {0};
    str_addf(&header, "Authorization: Bearer %s", token);
    client->authorization = str_take(&header);
    *out = client;
    return ERR_OK;
}

void client_close(struct client *client)
{
    if (client) {
        client->curl->curl_easy_cleanup(client->easy);
        explicit_bzero(client->authorization, strlen(client->authorization));
        free(client->authorization);
        free(client->url);
        free(client);
    }
}

void client_answer_release(struct client_answer *answer)
{
    if (answer) {
        str_release(&answer->body);
    }
}

/* --- one exchange ---------------------------------------------------------------------------- */

/* Where the bytes of an answer go. */
struct sink {
    struct client *client;
    struct str *body; /* gathered here, or handed to fn */
    client_bytes_fn fn;
    void *context;
    int *status;
    bool too_large;
    bool stopped;
};

static size_t on_bytes(char *bytes, size_t one, size_t size, void *cls)
{
    (void)one;
    struct sink *sink = cls;
    if (sink->body) {
        sink->too_large = sink->body->size + size > ANSWER_BYTES_MAX;
        if (!sink->too_large) {
            str_add_bytes(sink->body, bytes, size);
        }
        return sink->too_large ? 0 : size;
    }
    long status = 0;
    sink->client->curl->curl_easy_getinfo(sink->client->easy, CURLINFO_RESPONSE_CODE, &status);
    *sink->status = (int)status;
    sink->stopped = !sink->fn(sink->context, bytes, size);
    return sink->stopped ? 0 : size;
}

static void add_header(struct client *client, struct curl_slist **list, const char *name,
                       const char *value)
{
    if (value && !strpbrk(value, "\r\n")) {
        AUTO_STR struct str header = {0};
        str_addf(&header, "%s: %s", name, value);
        *list = client->curl->curl_slist_append(*list, str_text(&header));
        CHECK(*list);
    }
}

static void set_up(struct client *client, const char *url, const struct curl_slist *headers,
                   struct sink *sink)
{
    CURL *easy = client->easy;
    __typeof__(client->curl->curl_easy_setopt) set = client->curl->curl_easy_setopt;
    client->curl->curl_easy_reset(easy); /* connections are kept */
    client->trouble[0] = '\0';
    set(easy, CURLOPT_URL, url);
    set(easy, CURLOPT_HTTPHEADER, headers);
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    set(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    set(easy, CURLOPT_FOLLOWLOCATION, 0L);
    set(easy, CURLOPT_TCP_NODELAY, 1L);
    set(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    set(easy, CURLOPT_ERRORBUFFER, client->trouble);
    set(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    if (client->timeout_s > 0) { /* that long without a byte */
        set(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        set(easy, CURLOPT_LOW_SPEED_TIME, (long)client->timeout_s);
    }
    if (client->loopback) {
        set(easy, CURLOPT_PROXY, "");
    }
    const char *ca = getenv("DROVER_CA");
    if (ca && ca[0] != '\0') { /* the system's stay in CURLOPT_CAPATH */
        set(easy, CURLOPT_CAINFO, ca);
    }
    set(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    set(easy, CURLOPT_WRITEDATA, sink);
}

static void set_method(struct client *client, const struct client_request *request)
{
    __typeof__(client->curl->curl_easy_setopt) set = client->curl->curl_easy_setopt;
    if (strcmp(request->method, "HEAD") == 0) {
        set(client->easy, CURLOPT_NOBODY, 1L);
        return;
    }
    bool bare = strcmp(request->method, "GET") == 0 || strcmp(request->method, "DELETE") == 0;
    if (!bare || request->body_size > 0) {
        set(client->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
        set(client->easy, CURLOPT_POSTFIELDS, request->body_size > 0 ? request->body : "");
    }
    set(client->easy, CURLOPT_CUSTOMREQUEST, request->method);
}

/* --- what went wrong ------------------------------------------------------------------------- */

static const char *reason(struct client *client, CURLcode result, char *out, size_t size)
{
    long number = 0;
    client->curl->curl_easy_getinfo(client->easy, CURLINFO_OS_ERRNO, &number);
    bool system = result == CURLE_COULDNT_CONNECT && number != 0;
    const char *text = system               ? strerror((int)number)
                       : client->trouble[0] ? client->trouble
                                            : client->curl->curl_easy_strerror(result);
    snprintf(out, size, "%s", text);
    out[0] = (char)tolower((unsigned char)out[0]);
    return out;
}

static enum err_code explain(struct client *client, CURLcode result, const struct sink *sink,
                             struct err *err)
{
    char why[CURL_ERROR_SIZE];
    reason(client, result, why, sizeof why);
    if (sink->stopped) {
        return err_set(err, ERR_CANCELLED, "stopped reading from %s", client->url);
    }
    if (sink->too_large) {
        return err_set(err, ERR_QUOTA, "%s: the answer has more than %d MiB", client->url,
                       ANSWER_BYTES_MAX >> 20);
    }
    if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE) {
        return err_set(err, ERR_IO,
                       "cannot trust %s (%.160s); DROVER_CA may name a file with its certificate",
                       client->url, why);
    }
    if (result == CURLE_OPERATION_TIMEDOUT) {
        return err_set(err, ERR_IO, "no answer from %s (%.160s)", client->url, why);
    }
    return err_set(err, ERR_IO, "cannot reach %s (%.160s); is `drover serve` running there?",
                   client->url, why);
}

/* The request, its answer's bytes to the sink, its status. */
static enum err_code exchange(struct client *client, const struct client_request *request,
                              struct curl_slist *headers, struct sink *sink, struct err *err)
{
    AUTO_STR struct str url = {0};
    str_add(&url, client->url);
    str_add(&url, request->path);
    headers = client->curl->curl_slist_append(headers, client->authorization);
    CHECK(headers);
    set_up(client, str_text(&url), headers, sink);
    set_method(client, request);
    CURLcode result = client->curl->curl_easy_perform(client->easy);
    client->curl->curl_slist_free_all(headers);
    if (result != CURLE_OK) {
        return explain(client, result, sink, err);
    }
    long status = 0;
    client->curl->curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    *sink->status = (int)status;
    return ERR_OK;
}

/* --- calls ----------------------------------------------------------------------------------- */

enum err_code client_call(struct client *client, const struct client_request *request,
                          struct client_answer *answer, struct err *err)
{
    *answer = (struct client_answer){0};
    /* Left to itself, libcurl would say that a body is a form. */
    struct curl_slist *headers = client->curl->curl_slist_append(NULL, "Content-Type:");
    add_header(client, &headers, "Content-Type", request->content_type);
    add_header(client, &headers, "Idempotency-Key", request->idempotency_key);
    struct sink sink = {.client = client, .body = &answer->body, .status = &answer->status};
    enum err_code code = exchange(client, request, headers, &sink, err);
    if (code != ERR_OK) {
        client_answer_release(answer);
        return code;
    }
    const char *type = NULL;
    client->curl->curl_easy_getinfo(client->easy, CURLINFO_CONTENT_TYPE, &type);
    snprintf(answer->content_type, sizeof answer->content_type, "%s", type ? type : "");
    return ERR_OK;
}

// NOLINTNEXTLINE(readability-function-size): one more parameter than we like
enum err_code client_stream(struct client *client, const char *path, const char *last_event_id,
                            client_bytes_fn fn, void *context, int *status, struct err *err)
{
    *status = 0;
    struct curl_slist *headers = NULL;
    if (last_event_id) {
        add_header(client, &headers, "Accept", "text/event-stream");
    }
    if (last_event_id && last_event_id[0] != '\0') {
        add_header(client, &headers, "Last-Event-ID", last_event_id);
    }
    struct client_request request = {.method = "GET", .path = path};
    struct sink sink = {.client = client, .fn = fn, .context = context, .status = status};
    return exchange(client, &request, headers, &sink, err);
}

void client_add_encoded(struct str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text)) {
            str_add_char(out, *text);
        } else {
            str_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
        }
    }
}
