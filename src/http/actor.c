#include "http/actor.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum {
    BODY_BYTES_DEFAULT = 8 << 20,
    CONNECTIONS_DEFAULT = 1000,
    CONNECTIONS_MAX = 60000, /* a slot's number has 16 bits */
    POSTS_A_ROUND = 256,
    ACCEPTS_A_ROUND = 64,
    LISTEN_PAUSE_MS = 100,
    STOP_PATIENCE_MS = 1000,
    EVENTS = 64,
};

/* --- libmicrohttpd --------------------------------------------------------------------------- */

/* The only sign of a head that libmicrohttpd answers itself (it is no HTTP, or too large). */
static void on_log(void *cls, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
static void on_log(void *cls, const char *format, va_list arguments)
{
    struct actor *actor = cls;
    if (strncmp(format, "Error processing request", 24) == 0) {
        actor->counts.refused += 1;
    } else if (!actor->daemon) { /* it does not start: say why */
        vsnprintf(actor->trouble, sizeof actor->trouble, format, arguments);
        actor->trouble[strcspn(actor->trouble, "\n")] = '\0';
    }
}

/* Paths are decoded by us, where what is wrong with them can be answered. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls, (void)mhd;
    return strlen(text);
}

static struct MHD_Daemon *start_daemon(struct actor *actor, struct listen_place *place)
{
    bool tls = place->certificate.size > 0;
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem options[8];
    size_t count = 0;
    if (tls) {
        flags |= MHD_USE_TLS;
        options[count++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, place->certificate.text};
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, place->key.text};
    }
    if (!place->loopback) { /* on loopback everyone has the same address */
        unsigned share = actor->connections_max / 4 + 1;
        options[count++] =
            (struct MHD_OptionItem){MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)share, NULL};
    }
    options[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    /* Ours is the deadline for requests; theirs is for readers that stop reading. */
    unsigned timeout_s = (unsigned)(actor->patience_ms / 1000) + 5;
    return actor->mhd->MHD_start_daemon(
        flags, 0, NULL, NULL, conn_handle, actor, MHD_OPTION_EXTERNAL_LOGGER, on_log, actor,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)actor->slot_count, MHD_OPTION_CONNECTION_TIMEOUT,
        timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)ACTOR_POOL_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_NOTIFY_CONNECTION, conn_notify, actor, MHD_OPTION_NOTIFY_COMPLETED,
        conn_completed, actor, MHD_OPTION_URI_LOG_CALLBACK, conn_target, actor,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_ARRAY, options,
        MHD_OPTION_END);
}

static enum err_code start(struct actor *actor, const struct http_options *options,
                           struct listen_place *place, struct err *err)
{
    actor->daemon = start_daemon(actor, place);
    if (actor->daemon) {
        actor->listen_fd = place->fd;
        place->fd = -1;
        return ERR_OK;
    }
    if (place->certificate.size > 0) {
        return err_set(err, ERR_INVALID, "%s: this certificate cannot be used with the key %s: %s",
                       options->certificate_file, options->key_file, actor->trouble);
    }
    return err_set(err, ERR_IO, "the HTTP server does not start: %s", actor->trouble);
}

/* --- life ------------------------------------------------------------------------------------ */

static void add_to_epoll(struct actor *actor, int fd, void *mark)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};
    CHECK(epoll_ctl(actor->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* Half of the files this process may open are left to the rest of it. */
static uint32_t choose_connections_max(unsigned wanted)
{
    struct rlimit files = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &files);
    uint64_t max = wanted == 0 ? CONNECTIONS_DEFAULT : wanted;
    max = max < CONNECTIONS_MAX ? max : CONNECTIONS_MAX;
    max = files.rlim_cur / 2 < max ? files.rlim_cur / 2 : max;
    return (uint32_t)(max > 0 ? max : 1);
}

enum err_code actor_create(const struct http_options *options, struct listen_place *place,
                           void *socket, struct actor **out, struct err *err)
{
    struct actor *actor = mem_alloc(sizeof *actor);
    actor->socket = socket;
    actor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    actor->listen_fd = -1;
    actor->patience_ms =
        options->patience_ms > 0 ? (int64_t)options->patience_ms : (int64_t)HTTP_PATIENCE_S * 1000;
    actor->body_bytes_max =
        options->body_bytes_max > 0 ? options->body_bytes_max : BODY_BYTES_DEFAULT;
    actor->connections_max = choose_connections_max(options->connections_max);
    actor->slot_count = actor->connections_max + ACTOR_SPARE_CONNECTIONS;
    actor->slots = mem_array(actor->slot_count, sizeof actor->slots[0]);

    enum err_code code = lib_load_mhd(&actor->mhd, err);
    if (code == ERR_OK && actor->epoll_fd < 0) {
        code = err_errno(err, errno, "cannot make an epoll set");
    }
    if (code == ERR_OK) {
        code = start(actor, options, place, err);
    }
    if (code != ERR_OK) {
        actor_destroy(actor);
        return code;
    }
    int fd = -1;
    size_t size = sizeof fd;
    CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0);
    add_to_epoll(actor, fd, NULL);
    add_to_epoll(
        actor, actor->mhd->MHD_get_daemon_info(actor->daemon, MHD_DAEMON_INFO_EPOLL_FD)->listen_fd,
        NULL);
    *out = actor;
    return ERR_OK;
}

void actor_destroy(struct actor *actor)
{
    if (!actor) {
        return;
    }
    if (actor->daemon) {
        actor->mhd->MHD_stop_daemon(actor->daemon);
    }
    for (uint32_t i = 0; i < actor->slot_count; i++) {
        CHECK(!actor->slots[i]);
    }
    CHECK(actor->replies_bytes == 0);
    CHECK(actor->bodies_bytes == 0);
    CHECK(actor->streams_bytes == 0);
    mem_auto_close(&actor->listen_fd);
    mem_auto_close(&actor->epoll_fd);
    zmq_close(actor->socket);
    free(actor->slots);
    free(actor);
}

/* --- new connections ------------------------------------------------------------------------- */

/* libmicrohttpd stops to listen when there is no descriptor left for a connection, and does not
 * begin again before one of its own has ended; so we listen ourselves. */
static bool may_accept(const struct actor *actor, uint32_t accepted, int64_t now_ms)
{
    return actor->listen_fd >= 0 && now_ms >= actor->listens_ms &&
           actor->counts.connections + accepted < actor->slot_count;
}

/* Those who connect wait while there is no place for them. True: there are new ones, of which
 * libmicrohttpd must hear before anything is waited for. */
static bool accept_new(struct actor *actor, int64_t now_ms)
{
    uint32_t accepted = 0; /* libmicrohttpd may tell of them only when it runs */
    for (int i = 0; i < ACCEPTS_A_ROUND && may_accept(actor, accepted, now_ms); i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof address;
        int fd = accept4(actor->listen_fd, (struct sockaddr *)&address, &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) { /* closed by it, also when it does not take it */
            accepted++;
            (void)actor->mhd->MHD_add_connection(actor->daemon, fd, (struct sockaddr *)&address,
                                                 size);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            actor->listens_ms = now_ms + LISTEN_PAUSE_MS;
        }
    }
    bool listens = may_accept(actor, accepted, now_ms);
    if (listens && !actor->listens) {
        add_to_epoll(actor, actor->listen_fd, NULL);
    } else if (!listens && actor->listens) {
        CHECK(epoll_ctl(actor->epoll_fd, EPOLL_CTL_DEL, actor->listen_fd, NULL) == 0);
    }
    actor->listens = listens;
    return accepted > 0;
}

/* --- the loop -------------------------------------------------------------------------------- */

static void begin_stop(struct actor *actor)
{
    actor->stopping = true;
    actor->stop_ms = clock_mono_ms() + STOP_PATIENCE_MS;
    mem_auto_close(&actor->listen_fd);
    actor->listen_fd = -1;
    actor->listens = false;
    for (uint32_t i = 0; i < actor->slot_count; i++) {
        if (actor->slots[i]) {
            answer_stopping(actor->slots[i]);
        }
    }
}

static void take_post(struct actor *actor, zmq_msg_t *message)
{
    const struct post *post = zmq_msg_data(message);
    CHECK(zmq_msg_size(message) >= sizeof *post);
    if (post->kind == POST_STOP) {
        begin_stop(actor);
    } else {
        answer_post(actor, message);
    }
}

static void take_posts(struct actor *actor)
{
    for (int i = 0; i < POSTS_A_ROUND; i++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        bool came = zmq_msg_recv(&message, actor->socket, ZMQ_DONTWAIT) >= 0;
        if (came) {
            take_post(actor, &message);
        }
        zmq_msg_close(&message);
        if (!came) {
            return;
        }
    }
}

/* How long to sleep: for ever, unless a deadline is near or something is at hand. */
static int sleep_ms(struct actor *actor)
{
    /* The PAIR's file descriptor only tells of changes, so it has to be asked itself. */
    int events = 0;
    size_t size = sizeof events;
    CHECK(zmq_getsockopt(actor->socket, ZMQ_EVENTS, &events, &size) == 0);
    if (events & ZMQ_POLLIN) {
        return 0;
    }
    int64_t least_ms = INT64_MAX;
    MHD_UNSIGNED_LONG_LONG theirs_ms = 0;
    if (actor->mhd->MHD_get_timeout(actor->daemon, &theirs_ms) == MHD_YES) {
        least_ms = theirs_ms < INT_MAX ? (int64_t)theirs_ms : INT_MAX;
    }
    int64_t now_ms = clock_mono_ms();
    if (actor->oldest && actor->oldest->until_ms - now_ms < least_ms) {
        least_ms = actor->oldest->until_ms - now_ms;
    }
    if (actor->listen_fd >= 0 && actor->listens_ms > now_ms &&
        actor->listens_ms - now_ms < least_ms) {
        least_ms = actor->listens_ms - now_ms;
    }
    if (actor->stopping && actor->stop_ms - now_ms < least_ms) {
        least_ms = actor->stop_ms - now_ms;
    }
    if (least_ms == INT64_MAX) {
        return -1;
    }
    return least_ms < 0 ? 0 : least_ms < INT_MAX ? (int)least_ms : INT_MAX;
}

static void wait_for_events(struct actor *actor, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(actor->epoll_fd, events, EVENTS, timeout_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr) { /* no connection is freed before these are through */
            answer_left(events[i].data.ptr);
        }
    }
}

static bool is_done(const struct actor *actor)
{
    return actor->stopping && (actor->counts.connections == 0 || clock_mono_ms() >= actor->stop_ms);
}

void *actor_run(void *cls)
{
    struct actor *actor = cls;
    for (;;) {
        take_posts(actor);
        conn_sweep(actor, clock_mono_ms());
        actor->mhd->MHD_run(actor->daemon);
        if (is_done(actor)) {
            break;
        }
        bool any_new = accept_new(actor, clock_mono_ms());
        wait_for_events(actor, any_new ? 0 : sleep_ms(actor));
    }
    /* libmicrohttpd will not stop while something is suspended. */
    for (uint32_t i = 0; i < actor->slot_count; i++) {
        if (actor->slots[i]) {
            answer_left(actor->slots[i]);
        }
    }
    return NULL;
}
