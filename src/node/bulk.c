#include "node/bulk.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "node/bulk_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

struct bulk {
    pthread_t thread;
    void *orders; /* the owner's end */
    int event_fd;
    uint64_t next_ticket;
    uint16_t port;
};

/* --- the owner's side ------------------------------------------------------------------------ */

static void post(struct bulk *bulk, const struct order *order)
{
    while (zmq_send(bulk->orders, order, sizeof *order, 0) < 0 && zmq_errno() == EINTR) {
    }
}

static uint64_t request(struct bulk *bulk, enum order_kind kind, const Drover__Attempt *id,
                        const char *folder, const char *name)
{
    struct order order = {.kind = kind, .ticket = ++bulk->next_ticket};
    CHECK(strlen(folder) < sizeof order.folder);
    CHECK(strlen(name) < sizeof order.name);
    if (id) {
        bulk_attempt_from(&order.id, id);
    }
    snprintf(order.folder, sizeof order.folder, "%s", folder);
    snprintf(order.name, sizeof order.name, "%s", name);
    post(bulk, &order);
    return order.ticket;
}

uint64_t bulk_follow_log(struct bulk *bulk, const Drover__Attempt *id, const char *file)
{
    return request(bulk, ORDER_LOG, id, file, "");
}

uint64_t bulk_send_output(struct bulk *bulk, const Drover__Attempt *id, const char *folder)
{
    return request(bulk, ORDER_OUTPUT, id, folder, "");
}

uint64_t bulk_watch_checkpoint(struct bulk *bulk, const Drover__Attempt *id, const char *folder)
{
    return request(bulk, ORDER_WATCH, id, folder, "");
}

uint64_t bulk_fetch_checkpoint(struct bulk *bulk, const Drover__Attempt *id, const char *folder)
{
    return request(bulk, ORDER_GET_CHECKPOINT, id, folder, "");
}

uint64_t bulk_fetch_outputs(struct bulk *bulk, const Drover__Attempt *id, const char *experiment,
                            const char *folder)
{
    return request(bulk, ORDER_GET_OUTPUTS, id, folder, experiment);
}

uint64_t bulk_fetch_code(struct bulk *bulk, const char *version)
{
    return request(bulk, ORDER_GET_CODE, NULL, "", version);
}

void bulk_hurry(struct bulk *bulk, uint64_t ticket)
{
    post(bulk, &(struct order){.kind = ORDER_HURRY, .ticket = ticket});
}

void bulk_finish(struct bulk *bulk, uint64_t ticket)
{
    post(bulk, &(struct order){.kind = ORDER_FINISH, .ticket = ticket});
}

void bulk_drop(struct bulk *bulk, uint64_t ticket)
{
    post(bulk, &(struct order){.kind = ORDER_DROP, .ticket = ticket});
}

void bulk_reconnect(struct bulk *bulk, uint16_t port)
{
    if (port != bulk->port && port != 0) {
        bulk->port = port;
        post(bulk, &(struct order){.kind = ORDER_RECONNECT, .port = port});
    }
}

void bulk_keep_code(struct bulk *bulk, const char *const *versions, size_t count)
{
    AUTO_STR struct str message = {0};
    struct order order = {.kind = ORDER_KEEP, .count = count};
    str_add_bytes(&message, &order, sizeof order);
    for (size_t i = 0; i < count; i++) {
        char version[SHA256_HEX_CHARS + 1] = {0};
        snprintf(version, sizeof version, "%s", versions[i]);
        str_add_bytes(&message, version, sizeof version);
    }
    zmq_send(bulk->orders, message.text, message.size, 0);
}

int bulk_fd(const struct bulk *bulk)
{
    return bulk->event_fd;
}

static bool take_event(struct bulk *bulk, struct bulk_event *out)
{
    int size = 0;
    do {
        size = zmq_recv(bulk->orders, out, sizeof *out, ZMQ_DONTWAIT);
    } while (size < 0 && zmq_errno() == EINTR);
    return size == (int)sizeof *out;
}

bool bulk_next(struct bulk *bulk, struct bulk_event *out)
{
    if (take_event(bulk, out)) {
        return true;
    }
    /* An event is queued before its signal: one that comes after this look signals again. */
    uint64_t ignored = 0;
    while (read(bulk->event_fd, &ignored, sizeof ignored) < 0 && errno == EINTR) {
    }
    return take_event(bulk, out);
}

/* --- starting and stopping ------------------------------------------------------------------- */

static struct actor *make_actor(const struct bulk_options *options, int event_fd)
{
    struct actor *actor = mem_alloc(sizeof *actor);
    actor->context = options->zmq_context;
    actor->event_fd = event_fd;
    actor->port = options->port;
    snprintf(actor->host, sizeof actor->host, "%s", options->host);
    snprintf(actor->server_key, sizeof actor->server_key, "%s", options->server_key);
    actor->keys = *options->keys;
    actor->work = mem_strdup(options->work_folder);
    actor->is_shared = options->is_shared;
    actor->boot = rng_seed_from_system();
    actor->now_ms = clock_mono_ms();
    actor->heard_ms = actor->now_ms;
    return actor;
}

static void *make_pair(void *context, const char *endpoint, bool binds)
{
    void *socket = zmq_socket(context, ZMQ_PAIR);
    int zero = 0;
    if (!socket) {
        return NULL;
    }
    zmq_setsockopt(socket, ZMQ_SNDHWM, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    int failed = binds ? zmq_bind(socket, endpoint) : zmq_connect(socket, endpoint);
    if (failed != 0) {
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

enum err_code bulk_start(const struct bulk_options *options, struct bulk **out, struct err *err)
{
    CHECK(options->work_folder[0] == '/');
    struct bulk *bulk = mem_alloc(sizeof *bulk);
    bulk->port = options->port;
    bulk->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct actor *actor = make_actor(options, bulk->event_fd);
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://bulk-%p", (void *)bulk);
    bulk->orders = make_pair(options->zmq_context, endpoint, true);
    actor->orders = bulk->orders ? make_pair(options->zmq_context, endpoint, false) : NULL;
    bulk_actor_reopen(actor);
    if (bulk->event_fd >= 0 && actor->orders && actor->dealer &&
        thread_start(&bulk->thread, bulk_actor_thread, actor) == 0) {
        *out = bulk;
        return ERR_OK;
    }
    if (bulk->orders) {
        zmq_close(bulk->orders);
    }
    if (bulk->event_fd >= 0) {
        close(bulk->event_fd);
    }
    bulk_actor_release(actor);
    free(bulk);
    return err_set(err, ERR_IO, "cannot start the thread for large transfers to %s port %u",
                   options->host, (unsigned)options->port);
}

void bulk_stop(struct bulk *bulk)
{
    if (bulk) {
        post(bulk, &(struct order){.kind = ORDER_STOP});
        pthread_join(bulk->thread, NULL);
        zmq_close(bulk->orders);
        close(bulk->event_fd);
        free(bulk);
    }
}
