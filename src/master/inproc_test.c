/* A node in this process that has left: a loop that lags behind still has something to tell it. */
#include "master/server_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

static const char endpoint[] = "inproc://leaving";

static void *open_pair(void *context)
{
    void *socket = zmq_socket(context, ZMQ_PAIR);
    int no_limit = 0;
    assert_int_equal(zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit), 0);
    return socket;
}

static void say_stopped(void *socket)
{
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.stopped = true;
    assert_int_equal(wire_send_to_master(socket, &message, NULL), ERR_OK);
}

/* Until the socket knows that nobody is there. */
static void wait_until_gone(void *socket)
{
    int events = ZMQ_POLLOUT;
    for (int tries = 0; events & ZMQ_POLLOUT && tries < 1000; tries++) {
        size_t size = sizeof events;
        assert_int_equal(zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size), 0);
        usleep(1000);
    }
    assert_int_equal(events & ZMQ_POLLOUT, 0);
}

static void what_a_node_that_left_is_told_is_dropped(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct server *server = calloc(1, sizeof *server);
    assert_non_null(server);
    server->carrier.ops = &server_carrier_ops;
    server->carrier.context = server;
    server->inproc.socket = open_pair(context);
    assert_int_equal(zmq_bind(server->inproc.socket, endpoint), 0);
    void *node = open_pair(context);
    assert_int_equal(zmq_connect(node, endpoint), 0);

    Drover__ToNode message = DROVER__TO_NODE__INIT;
    inproc_send(server, &message);
    Drover__ToNode *heard = NULL;
    assert_int_equal(wire_receive_to_node(node, &heard, NULL), ERR_OK);
    wire_free_to_node(heard);
    say_stopped(node);
    zmq_close(node);
    inproc_read(server);
    assert_true(server->inproc.stopped);
    wait_until_gone(server->inproc.socket);

    server_carrier_ops.send(server, 0, &message); /* what became durable just now */
    inproc_send_stop(server, 0);                  /* asked twice */

    zmq_close(server->inproc.socket);
    zmq_ctx_term(context);
    free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_node_that_left_is_told_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
