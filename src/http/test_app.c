#include "http/test_app.h"

#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum { PATIENCE_S = 10, PIECE = 64 << 10 };

struct app {
    void *context;
    struct http *http;
    pthread_t thread;
    atomic_bool stop;
    uint64_t stream;
    unsigned long closed;
};

/* --- the owner ------------------------------------------------------------------------------- */

static void reply_text(struct app *app, uint64_t id, const char *type, const void *text,
                       size_t size)
{
    http_reply(
        app->http, id,
        &(struct http_reply){.status = 200, .content_type = type, .body = text, .body_size = size});
}

static unsigned long number(const struct http_request *request, const char *key)
{
    char text[32];
    return http_query(request, key, text, sizeof text) ? strtoul(text, NULL, 10) : 0;
}

static void answer_info(struct app *app, const struct http_request *request)
{
    AUTO_STR struct str text = {0};
    char a[100];
    bool found = http_query(request, "a", a, sizeof a);
    str_addf(&text, "method=%s\npath=%s\nquery=%s\ntoken=%s\ncontent_type=%s\naccept=%s\n",
             request->method, request->path, request->query, request->token, request->content_type,
             request->accept);
    str_addf(&text, "last_event_id=%s\nidempotency_key=%s\npeer=%s\nbody=%zu\na=%s\n",
             request->last_event_id, request->idempotency_key, request->peer, request->body_size,
             found ? a : "none");
    reply_text(app, request->id, "text/plain", str_text(&text), text.size);
}

static void answer_file(struct app *app, const struct http_request *request)
{
    char path[300];
    CHECK(http_query(request, "path", path, sizeof path));
    http_reply(app->http, request->id,
               &(struct http_reply){.status = 200,
                                    .content_type = "text/plain",
                                    .file = path,
                                    .file_offset = number(request, "offset"),
                                    .file_size = number(request, "size")});
}

static void answer_push(struct app *app, const struct http_request *request)
{
    char text[200];
    if (strcmp(request->path, "/end") == 0) {
        http_close_stream(app->http, app->stream);
    } else if (http_query(request, "text", text, sizeof text)) {
        http_push(app->http, app->stream, text, strlen(text));
    }
    AUTO_FREE char *piece = mem_alloc(PIECE);
    memset(piece, 'x', PIECE);
    for (unsigned long i = 0; i < number(request, "count"); i++) {
        http_push(app->http, app->stream, piece, PIECE);
    }
    reply_text(app, request->id, NULL, "{}", 2);
}

static void answer_counts(struct app *app, const struct http_request *request)
{
    struct http_counts counts;
    http_counts(app->http, &counts);
    char text[200];
    int size =
        snprintf(text, sizeof text, "%llu %llu %llu %llu %lu", (unsigned long long)counts.requests,
                 (unsigned long long)counts.refused, (unsigned long long)counts.connections,
                 (unsigned long long)counts.streams, app->closed);
    reply_text(app, request->id, "text/plain", text, (size_t)size);
}

static void answer_big(struct app *app, const struct http_request *request)
{
    size_t size = number(request, "size");
    AUTO_FREE char *bytes = mem_alloc(size);
    memset(bytes, 'b', size);
    reply_text(app, request->id, "text/plain", bytes, size);
}

static void answer(struct app *app, const struct http_request *request)
{
    const char *path = request->path;
    if (strcmp(request->method, "CLOSED") == 0) {
        app->closed += 1;
    } else if (strcmp(path, "/hello") == 0) {
        reply_text(app, request->id, NULL, "{\"hello\":true}", 14);
    } else if (strcmp(path, "/echo") == 0) {
        reply_text(app, request->id, request->content_type, request->body, request->body_size);
    } else if (strcmp(path, "/info") == 0) {
        answer_info(app, request);
    } else if (strcmp(path, "/big") == 0) {
        answer_big(app, request);
    } else if (strcmp(path, "/file") == 0) {
        answer_file(app, request);
    } else if (strcmp(path, "/stream") == 0) {
        app->stream = request->id;
        http_reply(app->http, request->id,
                   &(struct http_reply){
                       .status = 200, .content_type = "text/event-stream", .stream = true});
    } else if (strcmp(path, "/push") == 0 || strcmp(path, "/flood") == 0 ||
               strcmp(path, "/end") == 0) {
        answer_push(app, request);
    } else if (strcmp(path, "/counts") == 0) {
        answer_counts(app, request);
    } else if (strcmp(path, "/made") == 0) {
        http_reply(app->http, request->id,
                   &(struct http_reply){.status = 201, .location = "/made/1", .retry_after_s = 3});
    } else if (strcmp(path, "/never") != 0) {
        http_problem(app->http, request->id, 404, "there is no \"%s\"", path);
    }
}

static void *own(void *cls)
{
    struct app *app = cls;
    while (!atomic_load(&app->stop)) {
        zmq_pollitem_t item = {.socket = http_socket(app->http), .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 50);
        struct http_request *request;
        while ((request = http_next(app->http))) {
            answer(app, request);
            http_request_free(request);
        }
    }
    return NULL;
}

struct app *app_start(const struct http_options *given)
{
    struct app *app = mem_alloc(sizeof *app);
    struct http_options options = *given;
    struct err err;
    app->context = zmq_ctx_new();
    options.zmq_context = app->context;
    options.host = options.host ? options.host : "127.0.0.1";
    if (http_start(&options, &app->http, &err) != ERR_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    CHECK(pthread_create(&app->thread, NULL, own, app) == 0);
    return app;
}

void app_stop(struct app *app)
{
    atomic_store(&app->stop, true);
    CHECK(pthread_join(app->thread, NULL) == 0);
    http_stop(app->http);
    zmq_ctx_term(app->context);
    free(app);
}

const char *app_url(const struct app *app)
{
    return http_url(app->http);
}

int app_port(const struct app *app)
{
    return (int)strtol(strrchr(app_url(app), ':') + 1, NULL, 10);
}

/* --- plain sockets --------------------------------------------------------------------------- */

int raw_connect(const struct app *app)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)app_port(app)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

bool raw_try_send(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

void raw_send(int fd, const char *text)
{
    CHECK(raw_try_send(fd, text, strlen(text)));
}

static bool read_some(int fd, struct str *out, size_t size)
{
    char bytes[16 << 10];
    ssize_t got = recv(fd, bytes, size < sizeof bytes ? size : sizeof bytes, 0);
    if (got > 0) {
        str_add_bytes(out, bytes, (size_t)got);
    }
    return got > 0;
}

bool raw_response(int fd, struct str *out)
{
    str_clear(out);
    while (!strstr(str_text(out), "\r\n\r\n")) {
        if (!read_some(fd, out, 1)) {
            return false;
        }
    }
    const char *length = strcasestr(str_text(out), "\r\nContent-Length: ");
    size_t left = length ? strtoul(length + 18, NULL, 10) : 0;
    size_t whole = out->size + left;
    while (out->size < whole) {
        if (!read_some(fd, out, whole - out->size)) {
            return false;
        }
    }
    return true;
}

bool raw_until_closed(int fd, struct str *out)
{
    errno = 0;
    while (read_some(fd, out, 16 << 10)) {
    }
    return errno != EAGAIN;
}

void raw_exchange(const struct app *app, const char *request, struct str *out)
{
    int fd = raw_connect(app);
    raw_send(fd, request);
    CHECK(raw_response(fd, out));
    close(fd);
}

int raw_status(const struct str *response)
{
    const char *text = str_text(response);
    return strncmp(text, "HTTP/1.", 7) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
}

struct app_counts app_counts(const struct app *app)
{
    AUTO_STR struct str response = {0};
    raw_exchange(app, "GET /counts HTTP/1.1\r\nHost: x\r\n\r\n", &response);
    struct app_counts counts = {0};
    CHECK(sscanf(strstr(str_text(&response), "\r\n\r\n"), "%lu %lu %lu %lu %lu", &counts.requests,
                 &counts.refused, &counts.connections, &counts.streams, &counts.closed) == 5);
    return counts;
}

#if defined(__SANITIZE_ADDRESS__)
#define FREED_MEMORY_IS_KEPT
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FREED_MEMORY_IS_KEPT
#endif
#endif

long app_rss_kb(void)
{
#ifdef FREED_MEMORY_IS_KEPT
    return 0;
#endif
    FILE *file = fopen("/proc/self/status", "re");
    char line[200];
    long kb = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtol(line + 6, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return kb;
}
