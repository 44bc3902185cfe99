#include "meta/router.h"

#include "base/clock.h"
#include "base/mem.h"

#include <poll.h>
#include <stdio.h>
#include <zmq.h>

enum { BATCH = 128, TICK_MS = 100, SPIN_US = 50 };

struct router {
    struct volume *volume;
    const struct meta_router_options *options;
    void *socket;
    struct meta_server *server;
    int64_t tick_ms;
};

static bool on_send(void *context, const struct door_sender *to, const void *bytes, size_t size)
{
    struct router *router = context;
    return door_send(router->socket, to->route, to->route_size, bytes, size, NULL) == ERR_OK;
}

static void on_tell(void *context, const char *line)
{
    const struct router *router = context;
    if (!router->options->quiet) {
        fprintf(stderr, "drover meta: %s\n", line);
    }
}

static bool serve_mounts(struct router *router, struct door_frame *frame)
{
    bool any = false;
    for (int i = 0; i < BATCH; i++) {
        struct door_sender sender;
        const void *bytes = NULL;
        size_t size = 0;
        enum err_code code = door_receive(router->socket, frame, &sender, &bytes, &size, NULL);
        if (code != ERR_OK && code != ERR_INVALID) {
            break;
        }
        if (code == ERR_OK) {
            meta_server_take(router->server, &sender, bytes, size, clock_mono_ms());
        }
        any = true;
    }
    return any;
}

static void wait_for_work(struct router *router)
{
    int fd = -1;
    size_t size = sizeof fd;
    (void)zmq_getsockopt(router->socket, ZMQ_FD, &fd, &size);
    struct pollfd polls[3] = {{.fd = fd, .events = POLLIN},
                              {.fd = volume_fd(router->volume), .events = POLLIN},
                              {.fd = router->options->signal_fd, .events = POLLIN}};
    int64_t left_ms = router->tick_ms - clock_mono_ms();
    (void)poll(polls, 3, left_ms > 0 ? (int)left_ms : 0);
}

static bool is_told_to_end(const struct router *router)
{
    struct pollfd signal = {.fd = router->options->signal_fd, .events = POLLIN};
    return poll(&signal, 1, 0) > 0;
}

/* A socket's descriptor tells of news only once, so it is asked until nothing is left. */
static enum err_code serve(struct router *router, struct err *err)
{
    struct door_frame *frame = door_frame_create();
    enum err_code code = ERR_OK;
    int64_t last_us = 0;
    bool is_over = false;
    while (!is_over) {
        bool any = serve_mounts(router, frame);
        int64_t now_ms = clock_mono_ms();
        volume_run(router->volume, 0);
        if (now_ms >= router->tick_ms) {
            volume_tick(router->volume, now_ms);
            router->tick_ms = now_ms + TICK_MS;
            is_over = is_told_to_end(router);
        }
        code = volume_trouble(router->volume, err);
        if (code == ERR_STALE) {
            break; /* what is asked is the next owner's to answer */
        }
        code = ERR_OK;
        meta_server_turn(router->server, now_ms);
        int64_t now_us = clock_mono_us();
        last_us = any ? now_us : last_us;
        if (!any && now_us - last_us > SPIN_US) {
            wait_for_work(router);
        }
    }
    door_frame_destroy(frame);
    return code;
}

enum err_code meta_router_run(struct volume *volume, const struct meta_router_options *options,
                              struct err *err)
{
    struct router router = {.volume = volume, .options = options};
    struct meta_server_options how = options->server;
    uint16_t port = options->port;
    void *context = zmq_ctx_new();
    CHECK(context);
    struct door_guard *guard = door_guard_start(context);
    how.send = on_send;
    how.tell = on_tell;
    how.context = &router;
    enum err_code code =
        door_bind(context, options->host, &port, options->keys, &router.socket, err);
    if (code == ERR_OK) {
        code = meta_server_create(volume, &how, clock_mono_ms(), &router.server, err);
    }
    if (code == ERR_OK) {
        code = options->ready(options->context, port, err);
    }
    if (code == ERR_OK) {
        code = serve(&router, err);
    }
    meta_server_destroy(router.server);
    if (router.socket) {
        zmq_close(router.socket);
    }
    door_guard_stop(guard);
    zmq_ctx_term(context);
    return code;
}
