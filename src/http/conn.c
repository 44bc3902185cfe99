#include "base/clock.h"
#include "base/mem.h"
#include "http/actor.h"
#include "http/http_parse.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { SLOT_BITS = 16 };

/* --- those whose request is awaited, oldest first -------------------------------------------- */

static void waiting_add(struct conn *conn)
{
    struct actor *actor = conn->actor;
    conn->until_ms = clock_mono_ms() + actor->patience_ms;
    conn->older = actor->newest;
    conn->newer = NULL;
    *(actor->newest ? &actor->newest->newer : &actor->oldest) = conn;
    actor->newest = conn;
}

static void waiting_remove(struct conn *conn)
{
    struct actor *actor = conn->actor;
    if (!conn->older && actor->oldest != conn) {
        return; /* it is not among them */
    }
    *(conn->older ? &conn->older->newer : &actor->oldest) = conn->newer;
    *(conn->newer ? &conn->newer->older : &actor->newest) = conn->older;
    conn->older = NULL;
    conn->newer = NULL;
}

void conn_cut(struct conn *conn)
{
    if (!conn->cut) {
        conn->cut = true;
        waiting_remove(conn);
        shutdown(conn->fd, SHUT_RDWR);
    }
}

void conn_resume(struct conn *conn)
{
    if (conn->suspended) {
        conn->suspended = false;
        conn->actor->mhd->MHD_resume_connection(conn->mhd);
    }
}

void conn_sweep(struct actor *actor, int64_t now_ms)
{
    while (actor->oldest && actor->oldest->until_ms <= now_ms) {
        struct conn *conn = actor->oldest;
        bool idle = conn->served && !conn->in_request; /* kept alive, nothing wrong with it */
        actor->counts.refused += idle ? 0 : 1;
        conn_cut(conn);
    }
}

/* --- connections ----------------------------------------------------------------------------- */

static struct conn *conn_create(struct actor *actor, struct MHD_Connection *mhd)
{
    struct conn *conn = mem_alloc(sizeof *conn);
    conn->actor = actor;
    conn->mhd = mhd;
    conn->fd =
        actor->mhd->MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    while (actor->slots[actor->slot_hint]) {
        actor->slot_hint = (actor->slot_hint + 1) % actor->slot_count;
    }
    conn->slot = actor->slot_hint;
    actor->slots[conn->slot] = conn;
    actor->counts.connections += 1;
    return conn;
}

static void conn_forget_request(struct conn *conn)
{
    conn->actor->bodies_bytes -= conn->body_bytes;
    conn->body_bytes = 0;
    str_release(&conn->body);
    answer_forget(conn);
    conn->in_request = false;
    conn->id = 0;
    conn->body_dropped = 0;
    conn->refused = 0;
}

static void conn_destroy(struct conn *conn)
{
    conn_forget_request(conn);
    waiting_remove(conn);
    conn->actor->slots[conn->slot] = NULL;
    conn->actor->counts.connections -= 1;
    str_release(&conn->target);
    free(conn);
}

/* When there are too many, the one that has waited longest for its request makes room: a peer that
 * opens connections and says nothing cannot keep others out. */
static void make_room(struct actor *actor, struct conn *fresh)
{
    if (actor->counts.connections > actor->connections_max) {
        actor->counts.refused += 1;
        conn_cut(actor->oldest ? actor->oldest : fresh);
    }
}

void conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
                 enum MHD_ConnectionNotificationCode code)
{
    struct actor *actor = cls;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*context) {
            conn_destroy(*context);
            *context = NULL;
        }
        return;
    }
    struct conn *conn = conn_create(actor, mhd);
    *context = conn;
    waiting_add(conn);
    make_room(actor, conn);
}

struct conn *conn_of_request(struct actor *actor, uint64_t id)
{
    uint64_t slot = id & ((1u << SLOT_BITS) - 1);
    struct conn *conn = slot < actor->slot_count ? actor->slots[slot] : NULL;
    return conn && id != 0 && conn->id == id ? conn : NULL;
}

/* --- requests -------------------------------------------------------------------------------- */

static const char *header(struct conn *conn, const char *name)
{
    const char *value =
        conn->actor->mhd->MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* Called with the request target as it came, when the request line is complete. */
void *conn_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct actor *actor = cls;
    struct conn *conn = actor->mhd->MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
                            ->socket_context;
    str_clear(&conn->target);
    str_add(&conn->target, target);
    return conn;
}

static enum MHD_Result queue(struct conn *conn, unsigned status, struct MHD_Response *response)
{
    waiting_remove(conn);
    conn->phase = PHASE_ANSWERING;
    enum MHD_Result result = conn->actor->mhd->MHD_queue_response(conn->mhd, status, response);
    conn->actor->mhd->MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct conn *conn, int status, const char *detail)
{
    conn->actor->counts.refused += 1;
    struct MHD_Response *response = answer_problem(conn->actor, status, detail);
    return queue(conn, (unsigned)status, response);
}

static enum MHD_Result refuse_body(struct conn *conn, int status)
{
    return refuse(conn, status,
                  status == 413 ? "the body is too large"
                                : "too many requests are being read; try again");
}

/* 413, 503 or 0 for a body that will have this many bytes. */
static int judge_size(const struct conn *conn, uint64_t size)
{
    const struct actor *actor = conn->actor;
    if (size > actor->body_bytes_max) {
        return 413;
    }
    size_t room = ACTOR_BODIES_BYTES_MAX > actor->body_bytes_max ? ACTOR_BODIES_BYTES_MAX
                                                                 : actor->body_bytes_max;
    return actor->bodies_bytes - conn->body_bytes + size > room ? 503 : 0;
}

/* The head is complete. Refusing now closes the connection and spares us the body. */
static enum MHD_Result begin(struct conn *conn, const char *method)
{
    conn->in_request = true;
    if (conn->actor->stopping) {
        return refuse(conn, 503, "the server is stopping");
    }
    if (!http_parse_method(method)) {
        return refuse(conn, 501, "there is no such method");
    }
    if (strcmp(method, "OPTIONS") != 0) {
        AUTO_STR struct str path = {0};
        const char *why = http_parse_path(str_text(&conn->target), &path);
        if (why) {
            return refuse(conn, 400, why);
        }
    }
    const char *encoding = header(conn, "Transfer-Encoding");
    if (encoding[0] != '\0' && strcasecmp(encoding, "chunked") != 0) {
        return refuse(conn, 501, "the only transfer encoding understood is chunked");
    }
    /* libmicrohttpd has checked the number. */
    int status = judge_size(conn, strtoull(header(conn, "Content-Length"), NULL, 10));
    return status != 0 ? refuse_body(conn, status) : MHD_YES;
}

/* In the middle of a body there is no way to answer, so what is too much is read and thrown away
 * for a while, for the client to see the answer; then the connection is closed. */
static enum MHD_Result gather(struct conn *conn, const char *bytes, size_t size)
{
    struct actor *actor = conn->actor;
    if (conn->refused == 0) {
        conn->refused = judge_size(conn, (uint64_t)conn->body.size + size);
    }
    if (conn->refused == 0) {
        str_add_bytes(&conn->body, bytes, size);
        conn->body_bytes += size;
        actor->bodies_bytes += size;
        return MHD_YES;
    }
    actor->bodies_bytes -= conn->body_bytes;
    conn->body_bytes = 0;
    str_release(&conn->body);
    conn->body_dropped += size;
    if (conn->body_dropped > actor->body_bytes_max) {
        actor->counts.refused += 1;
        return MHD_NO;
    }
    return MHD_YES;
}

static void write_peer(struct conn *conn, char *out, socklen_t size)
{
    const struct sockaddr *address =
        conn->actor->mhd->MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
            ->client_addr;
    const void *bytes =
        address->sa_family == AF_INET
            ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
            : (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (!inet_ntop(address->sa_family, bytes, out, size)) {
        snprintf(out, size, "?");
    }
}

/* The request is whole: over to the owner. A HEAD is a GET whose body libmicrohttpd leaves out. */
static enum MHD_Result ask(struct conn *conn, const char *method)
{
    struct actor *actor = conn->actor;
    const char *target = str_text(&conn->target);
    AUTO_STR struct str path = {0};
    CHECK(!http_parse_path(target, &path)); /* begin() has looked at it */
    char peer[INET6_ADDRSTRLEN];
    write_peer(conn, peer, sizeof peer);
    size_t token_size;
    const char *token = http_parse_bearer(header(conn, "Authorization"), &token_size);
    AUTO_FREE char *token_text = mem_strndup(token, token_size);

    const char *texts[NOTE_TEXTS] = {
        [NOTE_METHOD] = strcmp(method, "HEAD") == 0 ? "GET" : method,
        [NOTE_PATH] = str_text(&path),
        [NOTE_QUERY] = http_parse_query(target),
        [NOTE_TOKEN] = token_text,
        [NOTE_CONTENT_TYPE] = header(conn, "Content-Type"),
        [NOTE_ACCEPT] = header(conn, "Accept"),
        [NOTE_LAST_EVENT_ID] = header(conn, "Last-Event-ID"),
        [NOTE_IDEMPOTENCY_KEY] = header(conn, "Idempotency-Key"),
        [NOTE_PEER] = peer,
    };
    conn->id = ++actor->next_serial << SLOT_BITS | conn->slot;
    conn->phase = PHASE_ASKED;
    conn->served = true;
    waiting_remove(conn);
    actor->counts.requests += 1;
    answer_tell(actor, conn->id, texts, &conn->body);
    conn->suspended = true;
    actor->mhd->MHD_suspend_connection(conn->mhd);
    return MHD_YES;
}

static enum MHD_Result finish(struct conn *conn, const char *method)
{
    if (conn->refused != 0) {
        return refuse_body(conn, conn->refused);
    }
    if (strcmp(method, "OPTIONS") == 0) {
        struct MHD_Response *response = answer_problem(conn->actor, 204, NULL);
        conn->actor->mhd->MHD_add_response_header(response, "Allow",
                                                  "GET, HEAD, POST, PUT, DELETE, OPTIONS");
        conn->served = true;
        return queue(conn, 204, response);
    }
    return ask(conn, method);
}

/* libmicrohttpd calls this when the head is complete, for each piece of the body, when the request
 * is whole, and again when it was suspended and is resumed. */
// NOLINTNEXTLINE(readability-function-size): the parameters are libmicrohttpd's
enum MHD_Result conn_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_size, void **context)
{
    (void)cls, (void)mhd, (void)url, (void)version;
    struct conn *conn = *context;
    if (conn->phase == PHASE_ASKED) {
        struct MHD_Response *response = conn->response;
        conn->response = NULL;
        return response ? queue(conn, conn->status, response) : MHD_NO;
    }
    if (!conn->in_request) {
        return begin(conn, method);
    }
    if (*upload_size > 0) {
        size_t size = *upload_size;
        *upload_size = 0;
        return gather(conn, upload, size);
    }
    return finish(conn, method);
}

/* The request is over, answered or not. Unless the connection goes too, the next may come. */
void conn_completed(void *cls, struct MHD_Connection *mhd, void **context,
                    enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)mhd, (void)code;
    struct conn *conn = *context;
    if (!conn) {
        return;
    }
    conn_forget_request(conn);
    waiting_remove(conn);
    conn->phase = PHASE_READING;
    if (conn->actor->stopping) {
        conn_cut(conn);
    } else if (!conn->cut) {
        waiting_add(conn);
    }
}
