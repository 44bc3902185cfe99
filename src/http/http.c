#include "http/http.h"

#include "base/mem.h"
#include "base/thread.h"
#include "http/actor.h"
#include "http/http_parse.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { POSTS_MAX = 256 }; /* at each end; then the owner waits for the thread, which never waits */

struct http {
    pthread_t thread;
    void *socket; /* the owner's end of the PAIR */
    char url[320];
    struct http_counts counts; /* as of the newest note */
    struct actor *actor;       /* the thread's, until it ended */
};

/* --- life ------------------------------------------------------------------------------------ */

static void *make_socket(void *context)
{
    void *socket = zmq_socket(context, ZMQ_PAIR);
    int linger = 0;
    if (socket) {
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    }
    return socket;
}

/* To the thread the PAIR is bounded; to the owner it is bounded by the number of connections. */
static enum err_code make_pair(void *context, void **owner, void **thread, struct err *err)
{
    int bound = POSTS_MAX;
    int none = 0;
    char endpoint[64];
    *owner = make_socket(context);
    *thread = make_socket(context);
    snprintf(endpoint, sizeof endpoint, "inproc://http-%p", *owner);
    if (!*owner || !*thread || zmq_setsockopt(*owner, ZMQ_SNDHWM, &bound, sizeof bound) != 0 ||
        zmq_setsockopt(*thread, ZMQ_RCVHWM, &bound, sizeof bound) != 0 ||
        zmq_setsockopt(*owner, ZMQ_RCVHWM, &none, sizeof none) != 0 ||
        zmq_setsockopt(*thread, ZMQ_SNDHWM, &none, sizeof none) != 0 ||
        zmq_bind(*owner, endpoint) != 0 || zmq_connect(*thread, endpoint) != 0) {
        enum err_code code =
            err_set(err, ERR_IO, "the HTTP server does not start: %s", zmq_strerror(zmq_errno()));
        if (*owner) {
            zmq_close(*owner);
        }
        if (*thread) {
            zmq_close(*thread);
        }
        return code;
    }
    return ERR_OK;
}

static enum err_code start_at(const struct http_options *options, struct listen_place *place,
                              struct http *http, struct err *err)
{
    void *thread_socket = NULL;
    enum err_code code = make_pair(options->zmq_context, &http->socket, &thread_socket, err);
    if (code != ERR_OK) {
        http->socket = NULL;
        return code;
    }
    snprintf(http->url, sizeof http->url, "%s", place->url);
    code = actor_create(options, place, thread_socket, &http->actor, err);
    if (code != ERR_OK) {
        return code;
    }
    int result = thread_start(&http->thread, actor_run, http->actor);
    if (result != 0) {
        actor_destroy(http->actor);
        return err_errno(err, result, "the HTTP server's thread does not start");
    }
    return ERR_OK;
}

enum err_code http_start(const struct http_options *options, struct http **out, struct err *err)
{
    CHECK(options->zmq_context);
    CHECK(options->host);
    struct listen_place place;
    enum err_code code = listen_open(options, &place, err);
    if (code != ERR_OK) {
        return code;
    }
    struct http *http = mem_alloc(sizeof *http);
    code = start_at(options, &place, http, err);
    listen_release(&place);
    if (code != ERR_OK) {
        if (http->socket) {
            zmq_close(http->socket);
        }
        free(http);
        return code;
    }
    *out = http;
    return ERR_OK;
}

const char *http_url(const struct http *http)
{
    return http->url;
}

static void send_post(struct http *http, zmq_msg_t *message)
{
    int result;
    do {
        result = zmq_msg_send(message, http->socket, 0);
    } while (result < 0 && zmq_errno() == EINTR);
    if (result < 0) {
        zmq_msg_close(message); /* the context is being ended: nobody is left to answer */
    }
}

void http_stop(struct http *http)
{
    if (!http) {
        return;
    }
    zmq_msg_t message;
    CHECK(zmq_msg_init_size(&message, sizeof(struct post)) == 0);
    memcpy(zmq_msg_data(&message), &(struct post){.kind = POST_STOP}, sizeof(struct post));
    send_post(http, &message);
    CHECK(pthread_join(http->thread, NULL) == 0);
    actor_destroy(http->actor);
    zmq_close(http->socket);
    free(http);
}

/* --- requests -------------------------------------------------------------------------------- */

/* A request and the messages its texts and its body live in. */
struct arrival {
    struct http_request request; /* first: what the owner has is this */
    zmq_msg_t head;
    zmq_msg_t body;
};

void *http_socket(struct http *http)
{
    return http->socket;
}

static void read_note(struct http *http, struct arrival *arrival)
{
    struct note note;
    const char *at = zmq_msg_data(&arrival->head);
    CHECK(zmq_msg_size(&arrival->head) >= sizeof note);
    memcpy(&note, at, sizeof note);
    at += sizeof note;
    const char *texts[NOTE_TEXTS];
    for (int i = 0; i < NOTE_TEXTS; i++) {
        texts[i] = at;
        at += note.text_sizes[i];
    }
    http->counts = note.counts;
    arrival->request = (struct http_request){
        .id = note.id,
        .method = texts[NOTE_METHOD],
        .path = texts[NOTE_PATH],
        .query = texts[NOTE_QUERY],
        .token = texts[NOTE_TOKEN],
        .content_type = texts[NOTE_CONTENT_TYPE],
        .accept = texts[NOTE_ACCEPT],
        .last_event_id = texts[NOTE_LAST_EVENT_ID],
        .idempotency_key = texts[NOTE_IDEMPOTENCY_KEY],
        .peer = texts[NOTE_PEER],
        .body = zmq_msg_data(&arrival->body),
        .body_size = zmq_msg_size(&arrival->body),
    };
}

struct http_request *http_next(struct http *http)
{
    struct arrival *arrival = mem_alloc(sizeof *arrival);
    zmq_msg_init(&arrival->head);
    zmq_msg_init(&arrival->body);
    if (zmq_msg_recv(&arrival->head, http->socket, ZMQ_DONTWAIT) < 0) {
        http_request_free(&arrival->request);
        return NULL;
    }
    if (zmq_msg_more(&arrival->head)) {
        CHECK(zmq_msg_recv(&arrival->body, http->socket, ZMQ_DONTWAIT) >= 0);
    }
    read_note(http, arrival);
    return &arrival->request;
}

void http_request_free(struct http_request *request)
{
    struct arrival *arrival = (struct arrival *)(void *)request;
    if (arrival) {
        zmq_msg_close(&arrival->head);
        zmq_msg_close(&arrival->body);
        free(arrival);
    }
}

bool http_query(const struct http_request *request, const char *key, char *out, size_t size)
{
    return http_parse_value(request->query, key, 0, out, size);
}

bool http_query_nth(const struct http_request *request, const char *key, unsigned index, char *out,
                    size_t size)
{
    return http_parse_value(request->query, key, index, out, size);
}

/* --- replies --------------------------------------------------------------------------------- */

/* Sends a post with its texts (NULL: not given) and its body. */
static void send_with(struct http *http, struct post *post, const char *const texts[3],
                      const void *body, size_t body_size)
{
    size_t size = sizeof *post + body_size;
    for (int i = 0; i < 3; i++) {
        post->text_sizes[i] = texts[i] ? (uint32_t)strlen(texts[i]) + 1 : 0;
        size += post->text_sizes[i];
    }
    zmq_msg_t message;
    CHECK(zmq_msg_init_size(&message, size) == 0);
    char *at = zmq_msg_data(&message);
    memcpy(at, post, sizeof *post);
    at += sizeof *post;
    for (int i = 0; i < 3; i++) {
        if (texts[i]) {
            memcpy(at, texts[i], post->text_sizes[i]);
            at += post->text_sizes[i];
        }
    }
    if (body_size > 0) {
        memcpy(at, body, body_size);
    }
    send_post(http, &message);
}

void http_reply(struct http *http, uint64_t id, const struct http_reply *reply)
{
    CHECK(reply->status >= 200 && reply->status <= 599);
    struct post post = {
        .kind = POST_REPLY,
        .status = reply->status,
        .retry_after_s = reply->retry_after_s,
        .stream = reply->stream,
        .id = id,
        .file_offset = reply->file_offset,
        .file_size = reply->file_size,
    };
    const char *texts[3] = {reply->content_type, reply->location, reply->file};
    bool own_body = !reply->file && !reply->stream;
    send_with(http, &post, texts, reply->body, own_body ? reply->body_size : 0);
}

void http_problem(struct http *http, uint64_t id, int status, const char *format, ...)
{
    char detail[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    AUTO_STR struct str text = {0};
    problem_add(&text, status, detail);
    http_reply(http, id,
               &(struct http_reply){.status = status,
                                    .content_type = "application/problem+json",
                                    .body = str_text(&text),
                                    .body_size = text.size});
}

void http_push(struct http *http, uint64_t id, const void *bytes, size_t size)
{
    struct post post = {.kind = POST_PUSH, .id = id};
    send_with(http, &post, (const char *const[3]){NULL, NULL, NULL}, bytes, size);
}

void http_close_stream(struct http *http, uint64_t id)
{
    struct post post = {.kind = POST_CLOSE, .id = id};
    send_with(http, &post, (const char *const[3]){NULL, NULL, NULL}, NULL, 0);
}

void http_counts(const struct http *http, struct http_counts *out)
{
    *out = http->counts;
}
