#include "base/mem.h"
#include "http/actor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum {
    STREAM_BLOCK_BYTES = 4096,
    STREAM_KEEP_BYTES = 16 << 10, /* of memory for a queue that is empty */
};

/* --- to the owner ---------------------------------------------------------------------------- */

static void free_body(void *bytes, void *hint)
{
    (void)hint;
    free(bytes);
}

void answer_tell(struct actor *actor, uint64_t id, const char *const texts[NOTE_TEXTS],
                 struct str *body)
{
    struct note note = {.id = id, .counts = actor->counts};
    size_t size = sizeof note;
    for (int i = 0; i < NOTE_TEXTS; i++) {
        note.text_sizes[i] = (uint32_t)strlen(texts[i] ? texts[i] : "") + 1;
        size += note.text_sizes[i];
    }
    zmq_msg_t message;
    CHECK(zmq_msg_init_size(&message, size) == 0);
    char *at = zmq_msg_data(&message);
    memcpy(at, &note, sizeof note);
    at += sizeof note;
    for (int i = 0; i < NOTE_TEXTS; i++) {
        memcpy(at, texts[i] ? texts[i] : "", note.text_sizes[i]);
        at += note.text_sizes[i];
    }
    /* Never full: one note for each connection, and one for each stream that ended. */
    bool more = body && body->size > 0;
    CHECK(zmq_msg_send(&message, actor->socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0);
    if (more) {
        size_t body_size = body->size;
        CHECK(zmq_msg_init_data(&message, str_take(body), body_size, free_body, NULL) == 0);
        CHECK(zmq_msg_send(&message, actor->socket, ZMQ_DONTWAIT) >= 0);
    }
}

/* --- responses ------------------------------------------------------------------------------- */

/* What a response's bytes live in: a message from the owner, or text of our own. */
struct holder {
    struct actor *actor;
    zmq_msg_t message;
    char *text;
    size_t size;
};

static void free_holder(void *cls)
{
    struct holder *holder = cls;
    holder->actor->replies_bytes -= holder->size;
    zmq_msg_close(&holder->message);
    free(holder->text);
    free(holder);
}

static struct holder *hold(struct actor *actor, size_t size)
{
    struct holder *holder = mem_alloc(sizeof *holder);
    holder->actor = actor;
    holder->size = size;
    zmq_msg_init(&holder->message);
    actor->replies_bytes += size;
    return holder;
}

static struct MHD_Response *respond(struct holder *holder, void *bytes)
{
    struct MHD_Response *response =
        holder->actor->mhd->MHD_create_response_from_buffer_with_free_callback_cls(
            holder->size, bytes, free_holder, holder);
    CHECK(response);
    return response;
}

/* Takes over text. */
static struct MHD_Response *respond_text(struct actor *actor, struct str *text)
{
    struct holder *holder = hold(actor, text->size);
    holder->text = str_take(text);
    return respond(holder, holder->text);
}

/* Takes over the message; the body is its last size bytes. */
static struct MHD_Response *respond_message(struct actor *actor, zmq_msg_t *message, size_t size)
{
    struct holder *holder = hold(actor, size);
    zmq_msg_move(&holder->message, message);
    char *bytes = zmq_msg_data(&holder->message);
    return respond(holder, bytes + zmq_msg_size(&holder->message) - size);
}

/* libmicrohttpd adds Date; nobody need know what the server is. */
static void add_headers(struct actor *actor, struct MHD_Response *response, int status,
                        const char *content_type)
{
    __typeof__(actor->mhd->MHD_add_response_header) add = actor->mhd->MHD_add_response_header;
    if (content_type) {
        add(response, "Content-Type", content_type);
    }
    add(response, "Cache-Control", "no-store");
    add(response, "X-Content-Type-Options", "nosniff");
    if (status == 401) {
        add(response, "WWW-Authenticate", "Bearer");
    }
    if (actor->stopping) {
        add(response, "Connection", "close");
    }
}

struct MHD_Response *answer_problem(struct actor *actor, int status, const char *detail)
{
    struct str text = {0};
    if (detail) {
        problem_add(&text, status, detail);
    }
    struct MHD_Response *response = respond_text(actor, &text);
    add_headers(actor, response, status, detail ? "application/problem+json" : NULL);
    return response;
}

/* Opens a file and clips *size to what it has from offset; -1: it has nothing there. */
static int open_part(const char *path, uint64_t offset, uint64_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || *size == 0 ||
        offset >= (uint64_t)status.st_size) {
        close(fd);
        return -1;
    }
    uint64_t left = (uint64_t)status.st_size - offset;
    *size = *size < left ? *size : left;
    return fd;
}

static struct MHD_Response *respond_file(struct actor *actor, const char *path, uint64_t offset,
                                         uint64_t size)
{
    int fd = open_part(path, offset, &size);
    if (fd < 0) {
        return respond_text(actor, &(struct str){0});
    }
    struct MHD_Response *response =
        actor->mhd->MHD_create_response_from_fd_at_offset64(size, fd, offset); /* closes it */
    CHECK(response);
    return response;
}

/* --- streams --------------------------------------------------------------------------------- */

static void watch(struct conn *conn, int operation)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = conn};
    epoll_ctl(conn->actor->epoll_fd, operation, conn->fd, &event);
}

static ssize_t stream_read(void *cls, uint64_t position, char *out, size_t size)
{
    (void)position;
    struct conn *conn = cls;
    size_t left = conn->queue.size - conn->queue_read;
    if (conn->cut) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (left == 0 && conn->closing) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (left == 0) {
        conn->suspended = true;
        conn->actor->mhd->MHD_suspend_connection(conn->mhd);
        return 0;
    }
    size_t taken = left < size ? left : size;
    memcpy(out, conn->queue.text + conn->queue_read, taken);
    conn->queue_read += taken;
    conn->actor->streams_bytes -= taken;
    if (taken == left) {
        conn->queue_read = 0;
        str_clear(&conn->queue);
        if (conn->queue.cap > STREAM_KEEP_BYTES) {
            str_release(&conn->queue);
        }
    }
    return (ssize_t)taken;
}

static struct MHD_Response *respond_stream(struct conn *conn)
{
    struct MHD_Response *response = conn->actor->mhd->MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read, conn, NULL);
    CHECK(response);
    conn->stream = true;
    conn->closing = conn->actor->stopping;
    conn->actor->counts.streams += 1;
    watch(conn, EPOLL_CTL_ADD);
    return response;
}

static void push(struct conn *conn, const char *bytes, size_t size)
{
    struct actor *actor = conn->actor;
    size_t waiting = conn->queue.size - conn->queue_read;
    if (conn->cut || conn->closing) {
        return;
    }
    if (waiting + size > HTTP_STREAM_BYTES_MAX ||
        actor->streams_bytes + size > ACTOR_STREAMS_BYTES_MAX) {
        actor->counts.refused += 1;
        answer_left(conn);
        return;
    }
    if (conn->queue_read > waiting) { /* what was read is not kept for ever */
        memmove(conn->queue.text, conn->queue.text + conn->queue_read, waiting);
        conn->queue.size = waiting;
        conn->queue_read = 0;
    }
    str_add_bytes(&conn->queue, bytes, size);
    actor->streams_bytes += size;
    conn_resume(conn);
}

void answer_left(struct conn *conn)
{
    conn_cut(conn);
    conn_resume(conn);
}

void answer_forget(struct conn *conn)
{
    struct actor *actor = conn->actor;
    if (conn->response) {
        actor->mhd->MHD_destroy_response(conn->response);
        conn->response = NULL;
    }
    actor->streams_bytes -= conn->queue.size - conn->queue_read;
    conn->queue_read = 0;
    str_release(&conn->queue);
    if (conn->stream) {
        conn->stream = false;
        actor->counts.streams -= 1;
        watch(conn, EPOLL_CTL_DEL);
        const char *texts[NOTE_TEXTS] = {[NOTE_METHOD] = "CLOSED"};
        answer_tell(actor, conn->id, texts, NULL);
    }
    conn->closing = false;
}

/* --- from the owner -------------------------------------------------------------------------- */

static void give(struct conn *conn, int status, struct MHD_Response *response)
{
    conn->actor->bodies_bytes -= conn->body_bytes; /* the owner is done with it */
    conn->body_bytes = 0;
    conn->status = (unsigned)status;
    conn->response = response;
    conn_resume(conn);
}

static void reply(struct conn *conn, const struct post *post, zmq_msg_t *message)
{
    struct actor *actor = conn->actor;
    const char *texts[3] = {NULL, NULL, NULL};
    char *at = (char *)zmq_msg_data(message) + sizeof *post;
    for (int i = 0; i < 3; i++) {
        texts[i] = post->text_sizes[i] > 0 ? at : NULL;
        at += post->text_sizes[i];
    }
    size_t size = zmq_msg_size(message) - (size_t)(at - (char *)zmq_msg_data(message));
    if (actor->replies_bytes + size > ACTOR_REPLIES_BYTES_MAX) {
        actor->counts.refused += 1;
        give(conn, 503, answer_problem(actor, 503, "too many replies wait to be read"));
        return;
    }
    /* respond_message takes the message away. */
    AUTO_FREE char *type = mem_strdup(texts[0] ? texts[0] : "application/json");
    AUTO_FREE char *location = mem_strdup(texts[1] ? texts[1] : "");
    struct post copy = *post;
    struct MHD_Response *response =
        texts[2]      ? respond_file(actor, texts[2], copy.file_offset, copy.file_size)
        : copy.stream ? respond_stream(conn)
                      : respond_message(actor, message, size);
    add_headers(actor, response, copy.status, copy.status == 204 ? NULL : type);
    if (location[0] != '\0') {
        const char *name = copy.status == 405 ? "Allow" : "Location";
        actor->mhd->MHD_add_response_header(response, name, location);
    }
    if (copy.retry_after_s > 0) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", copy.retry_after_s);
        actor->mhd->MHD_add_response_header(response, "Retry-After", seconds);
    }
    give(conn, copy.status, response);
}

void answer_stopping(struct conn *conn)
{
    if (conn->phase == PHASE_ASKED && !conn->response) {
        give(conn, 503, answer_problem(conn->actor, 503, "the server is stopping"));
    } else if (conn->stream) {
        conn->closing = true;
        conn_resume(conn);
    } else if (conn->phase == PHASE_READING) {
        conn_cut(conn);
    }
}

void answer_post(struct actor *actor, void *cls)
{
    zmq_msg_t *message = cls;
    const struct post *post = zmq_msg_data(message);
    struct conn *conn = conn_of_request(actor, post->id);
    const char *bytes = (const char *)(post + 1);
    if (!conn) {
        return; /* it left before it was answered */
    }
    if (post->kind == POST_REPLY && conn->phase == PHASE_ASKED && !conn->response) {
        reply(conn, post, message);
    } else if (post->kind == POST_PUSH && conn->stream) {
        push(conn, bytes, zmq_msg_size(message) - sizeof *post);
    } else if (post->kind == POST_CLOSE && conn->stream) {
        conn->closing = true;
        conn_resume(conn);
    }
}
