/* inproc.c - a node in a thread of this process: `drover run` on one machine. */
#include "master/server_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

enum { STOP_GRACE_MS = 10000 };

static const char node_endpoint[] = "inproc://node";

static void *node_thread(void *argument)
{
    struct inproc *inproc = argument;
    /* the loop reads err only after it has seen the event */
    enum err_code code = node_run(&inproc->options, &inproc->err);
    uint64_t one = 1;
    if (code != ERR_OK && write(inproc->ended_fd, &one, sizeof one) != (ssize_t)sizeof one) {
        check_failed(__FILE__, __LINE__, __func__, "an eventfd takes a one");
    }
    return NULL;
}

static void on_hello(struct server *server, struct herd_node *node, const Drover__Hello *hello)
{
    struct core_node_spec spec = {.capacity = {.cpu_milli = hello->cpu_milli,
                                               .gpus = hello->gpus,
                                               .memory_bytes = hello->memory_bytes,
                                               .disk_bytes = hello->disk_bytes}};
    snprintf(spec.capacity.gpu_kind, sizeof spec.capacity.gpu_kind, "%s", hello->gpu_kind);
    const struct recipe *recipe = server->session->flow->recipe;
    for (size_t i = 0; i < hello->n_notes; i++) {
        bool about_memory = strstr(hello->notes[i], "memory") != NULL;
        bool needed = false;
        for (size_t e = 0; e < recipe->experiment_count; e++) {
            needed = needed || recipe->experiments[e].hardware.memory_bytes > 0;
        }
        if (!about_memory || needed) {
            server_note(server, "%s", hello->notes[i]);
        }
    }
    node->state = HERD_HERE;
    node->capacity = spec.capacity;
    core_node_join(server->core, node->number, &spec, server_now_ms(server), &server->out);
    server_carry(server, NULL);
}

void inproc_read(struct server *server)
{
    Drover__ToMaster *message = NULL;
    struct herd_node *node = herd_at(&server->herd, 0);
    while (wire_receive_to_master(server->inproc.socket, &message, NULL) == ERR_OK) {
        if (message->hello) {
            on_hello(server, node, message->hello);
        }
        (void)!reports_take(server, node, message); /* logs are on our disk already */
        server->inproc.stopped = server->inproc.stopped || message->stopped;
        wire_free_to_master(message);
    }
}

void inproc_see_end(struct server *server, bool has_ended)
{
    if (has_ended) {
        server->broken = true;
        server->inproc.lost = true;
        err_set(&server->err, ERR_IO, "the node on this machine failed: %s",
                server->inproc.err.text);
    }
}

void inproc_start(struct server *server)
{
    struct inproc *inproc = &server->inproc;
    inproc->socket = zmq_socket(server->context, ZMQ_PAIR);
    CHECK(inproc->socket);
    int no_limit = 0;
    zmq_setsockopt(inproc->socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    zmq_setsockopt(inproc->socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    CHECK(zmq_bind(inproc->socket, node_endpoint) == 0);
    inproc->options = (struct node_options){.work_folder = server->session->folder,
                                            .name = "local",
                                            .capacity = *server->options->capacity,
                                            .zmq_context = server->context,
                                            .endpoint = node_endpoint,
                                            .keep_fd = server->session->lock_fd};
    CHECK(pthread_create(&inproc->thread, NULL, node_thread, inproc) == 0);
    /* until it has said hello nothing can be sent to it, a stop least of all */
    zmq_pollitem_t items[] = {
        {.socket = inproc->socket, .events = ZMQ_POLLIN},
        {.fd = inproc->ended_fd, .events = ZMQ_POLLIN},
    };
    zmq_poll(items, 2, -1);
    inproc_read(server);
    inproc_see_end(server, items[1].revents != 0);
}

/* In one process the peer's queue has no limit: a message is not taken only when nobody is there
 * any more. It has said so, or its end is about to be seen; what it did not hear it need not know.
 * The size is bounded by the soft limit plus one task, whose parts the recipe bounds. */
void inproc_send(struct server *server, const Drover__ToNode *message)
{
    enum err_code code = wire_send_to_node(server->inproc.socket, message, NULL);
    CHECK(code == ERR_OK || code == ERR_AGAIN);
}

void inproc_send_stop(struct server *server, int64_t grace_ms)
{
    if (!server->inproc.socket) {
        return; /* it has not begun */
    }
    carry_flush(&server->carrier);
    Drover__Stop stop = DROVER__STOP__INIT;
    stop.grace_ms = grace_ms;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.stop = &stop;
    inproc_send(server, &message);
}

void inproc_stop(struct server *server)
{
    struct inproc *inproc = &server->inproc;
    if (!inproc->socket) {
        return;
    }
    if (!inproc->stopped && !inproc->lost && server->signals == 0) {
        inproc_send_stop(server, server->broken ? 0 : STOP_GRACE_MS);
    }
    pthread_join(inproc->thread, NULL);
    zmq_close(inproc->socket);
    inproc->socket = NULL;
}
