/* Real handshakes over 127.0.0.1, and what strangers do to the port. */
#include "base/clock.h"
#include "base/rng.h"
#include "wire/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum { PATIENCE_MS = 10 * 1000, SILENCE_MS = 400 };

/* A master's end. */
struct house {
    void *context;
    struct door_guard *guard;
    struct door_keys keys;
    uint16_t port;
    void *router;
    struct door_frame *frame;
    struct door_sender sender; /* of the last message */
    const void *bytes;
    size_t size;
};

static struct house house_open(bool guarded)
{
    struct house house = {.context = zmq_ctx_new(), .frame = door_frame_create()};
    struct err err = {0};
    assert_int_equal(zmq_curve_keypair(house.keys.public_key, house.keys.secret_key), 0);
    house.guard = guarded ? door_guard_start(house.context) : NULL;
    if (door_bind(house.context, "127.0.0.1", &house.port, &house.keys, &house.router, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_not_equal(house.port, 0);
    return house;
}

static void house_close(struct house *house)
{
    zmq_close(house->router);
    door_guard_stop(house->guard);
    zmq_ctx_term(house->context);
    door_frame_destroy(house->frame);
}

/* The next message within wait_ms, or ERR_AGAIN. */
static enum err_code house_receive(struct house *house, int wait_ms)
{
    zmq_pollitem_t item = {.socket = house->router, .events = ZMQ_POLLIN};
    zmq_poll(&item, 1, wait_ms);
    return door_receive(house->router, house->frame, &house->sender, &house->bytes, &house->size,
                        NULL);
}

static void *visitor_open(struct house *house, const struct door_keys *keys)
{
    void *socket = NULL;
    struct err err = {0};
    struct door_address to = {"127.0.0.1", house->port, house->keys.public_key};
    if (door_connect(house->context, &to, keys, &socket, &err)) {
        fail_msg("%s", err.text);
    }
    return socket;
}

static struct door_keys new_keys(void)
{
    struct door_keys keys;
    assert_int_equal(zmq_curve_keypair(keys.public_key, keys.secret_key), 0);
    return keys;
}

static void say(void *socket, const char *text)
{
    assert_int_equal(zmq_send(socket, text, strlen(text), ZMQ_DONTWAIT), (int)strlen(text));
}

static void expect_said(struct house *house, const char *text, const char *key)
{
    assert_int_equal(house_receive(house, PATIENCE_MS), ERR_OK);
    assert_int_equal(house->size, strlen(text));
    assert_memory_equal(house->bytes, text, house->size);
    assert_string_equal(house->sender.key, key);
}

static void expect_heard(void *socket, const char *text)
{
    char bytes[100] = "";
    int wait_ms = PATIENCE_MS;
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    assert_int_equal(zmq_recv(socket, bytes, sizeof bytes - 1, 0), (int)strlen(text));
    assert_string_equal(bytes, text);
}

static void expect_silence(void *socket)
{
    char byte = 0;
    int wait_ms = SILENCE_MS;
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    assert_int_equal(zmq_recv(socket, &byte, 1, 0), -1);
}

static void answer(struct house *house, const char *text)
{
    struct err err = {0};
    if (door_send(house->router, house->sender.route, house->sender.route_size, text, strlen(text),
                  &err)) {
        fail_msg("%s", err.text);
    }
}

/* There and back: whoever else is at the door, this one is served. */
static void expect_service(struct house *house)
{
    struct door_keys keys = new_keys();
    void *visitor = visitor_open(house, &keys);
    say(visitor, "ping");
    expect_said(house, "ping", keys.public_key);
    answer(house, "pong");
    expect_heard(visitor, "pong");
    zmq_close(visitor);
}

static void both_sides_hear_each_other_and_the_key_is_known(void **state)
{
    (void)state;
    struct house house = house_open(true);
    expect_service(&house);
    struct door_keys keys[3] = {new_keys(), new_keys(), new_keys()};
    void *visitors[3];
    struct door_sender senders[3];
    for (int i = 0; i < 3; i++) {
        visitors[i] = visitor_open(&house, &keys[i]);
        say(visitors[i], "hello");
        expect_said(&house, "hello", keys[i].public_key);
        senders[i] = house.sender;
    }
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    for (uint64_t i = 0; i < 3; i++) {
        message.session = i + 1;
        assert_int_equal(door_send_to_node(house.router, senders[i].route, senders[i].route_size,
                                           &message, NULL),
                         ERR_OK);
    }
    for (uint64_t i = 0; i < 3; i++) {
        zmq_pollitem_t item = {.socket = visitors[i], .events = ZMQ_POLLIN};
        assert_int_equal(zmq_poll(&item, 1, PATIENCE_MS), 1);
        Drover__ToNode *received = NULL;
        assert_int_equal(wire_receive_to_node(visitors[i], &received, NULL), ERR_OK);
        assert_int_equal(received->session, i + 1);
        wire_free_to_node(received);
        zmq_close(visitors[i]);
    }
    assert_int_equal(door_guard_refused(house.guard), 0);
    assert_int_equal(house_receive(&house, 0), ERR_AGAIN);
    house_close(&house);
}

static void a_wrong_server_key_gets_nothing(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct door_keys keys = new_keys();
    struct door_keys other = new_keys();
    void *lost = NULL;
    struct door_address to = {"127.0.0.1", house.port, other.public_key};
    assert_int_equal(door_connect(house.context, &to, &keys, &lost, NULL), ERR_OK);
    say(lost, "psst");
    assert_int_equal(house_receive(&house, SILENCE_MS), ERR_AGAIN);
    expect_silence(lost);
    expect_service(&house);
    zmq_close(lost);
    house_close(&house);
}

static void who_does_not_speak_curve_gets_nothing(void **state)
{
    (void)state;
    struct house house = house_open(true);
    void *plain = zmq_socket(house.context, ZMQ_DEALER);
    int none = 0;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", (unsigned)house.port);
    zmq_setsockopt(plain, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal(zmq_connect(plain, endpoint), 0);
    say(plain, "let me in");
    assert_int_equal(house_receive(&house, SILENCE_MS), ERR_AGAIN);
    expect_service(&house);
    zmq_close(plain);
    house_close(&house);
}

static void a_denied_key_is_refused_at_its_next_handshake(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct door_keys keys = new_keys();
    void *before = visitor_open(&house, &keys);
    say(before, "one");
    expect_said(&house, "one", keys.public_key);
    door_guard_deny(house.guard, keys.public_key);
    door_guard_deny(house.guard, keys.public_key);
    say(before, "two"); /* the connection that is there goes on */
    expect_said(&house, "two", keys.public_key);
    zmq_close(before);

    void *after = visitor_open(&house, &keys);
    say(after, "three");
    assert_int_equal(house_receive(&house, SILENCE_MS), ERR_AGAIN);
    assert_true(door_guard_refused(house.guard) >= 1);
    expect_silence(after);
    expect_service(&house);
    zmq_close(after);
    house_close(&house);
}

static void many_keys_can_be_denied(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct door_keys keys = new_keys();
    char other[DOOR_KEY_CHARS + 1];
    for (unsigned i = 0; i < 300; i++) {
        snprintf(other, sizeof other, "%040u", i);
        door_guard_deny(house.guard, other);
    }
    door_guard_deny(house.guard, keys.public_key);
    void *visitor = visitor_open(&house, &keys);
    say(visitor, "hello");
    assert_int_equal(house_receive(&house, SILENCE_MS), ERR_AGAIN);
    expect_service(&house);
    zmq_close(visitor);
    house_close(&house);
}

static void without_a_gatekeeper_nobody_is_believed(void **state)
{
    (void)state;
    struct house house = house_open(false);
    struct door_keys keys = new_keys();
    void *visitor = visitor_open(&house, &keys);
    say(visitor, "hello");
    assert_int_equal(house_receive(&house, PATIENCE_MS), ERR_INVALID);
    zmq_close(visitor);
    house_close(&house);
}

static void a_message_of_several_frames_is_dropped_whole(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct door_keys keys = new_keys();
    void *visitor = visitor_open(&house, &keys);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(zmq_send(visitor, "part", 4, ZMQ_SNDMORE), 4);
    }
    say(visitor, "end");
    say(visitor, "whole");
    assert_int_equal(house_receive(&house, PATIENCE_MS), ERR_INVALID);
    expect_said(&house, "whole", keys.public_key);
    zmq_close(visitor);
    house_close(&house);
}

static void a_message_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct door_keys keys = new_keys();
    void *visitor = visitor_open(&house, &keys);
    size_t size = WIRE_MESSAGE_BYTES_MAX;
    char *bytes = calloc(1, size * 2);
    assert_non_null(bytes);

    assert_int_equal(zmq_send(visitor, bytes, size, 0), (int)size);
    assert_int_equal(house_receive(&house, PATIENCE_MS), ERR_OK);
    assert_int_equal(house.size, size);
    assert_int_equal(
        door_send(house.router, house.sender.route, house.sender.route_size, bytes, size + 1, NULL),
        ERR_RANGE);
    answer(&house, "fine");
    expect_heard(visitor, "fine");

    assert_int_equal(zmq_send(visitor, bytes, size * 2, 0), (int)(size * 2));
    say(visitor, "small"); /* comes over a new connection, if at all */
    enum err_code code = house_receive(&house, 1500);
    assert_true(code == ERR_AGAIN || house.size == strlen("small"));
    expect_service(&house);
    free(bytes);
    zmq_close(visitor);
    house_close(&house);
}

static void a_route_that_nobody_has_is_not_found(void **state)
{
    (void)state;
    struct house house = house_open(true);
    const uint8_t route[5] = {0, 1, 2, 3, 4};
    assert_int_equal(door_send(house.router, route, sizeof route, "x", 1, NULL), ERR_NOT_FOUND);
    struct door_keys keys = new_keys();
    void *visitor = visitor_open(&house, &keys);
    say(visitor, "hello");
    expect_said(&house, "hello", keys.public_key);
    zmq_close(visitor);
    enum err_code code = ERR_OK;
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (code == ERR_OK && clock_mono_ms() < until_ms) {
        usleep(10 * 1000);
        code = door_send(house.router, house.sender.route, house.sender.route_size, "x", 1, NULL);
    }
    assert_int_equal(code, ERR_NOT_FOUND);
    house_close(&house);
}

static void who_does_not_listen_fills_only_its_own_queue(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct door_keys keys = new_keys();
    void *deaf = visitor_open(&house, &keys);
    say(deaf, "hello");
    expect_said(&house, "hello", keys.public_key);
    struct door_sender sender = house.sender;
    static char bytes[32 * 1024];
    enum err_code code = ERR_OK;
    int sent = 0;
    while (code == ERR_OK && sent < 20000) {
        code = door_send(house.router, sender.route, sender.route_size, bytes, sizeof bytes, NULL);
        sent++;
    }
    assert_int_equal(code, ERR_AGAIN);
    expect_service(&house);
    zmq_close(deaf);
    house_close(&house);
}

static void a_taken_port_is_said_to_be_taken(void **state)
{
    (void)state;
    struct house house = house_open(true);
    struct err err = {0};
    void *router = NULL;
    uint16_t port = house.port;
    assert_int_equal(door_bind(house.context, "127.0.0.1", &port, &house.keys, &router, &err),
                     ERR_EXISTS);
    assert_non_null(strstr(err.text, "taken"));
    assert_null(router);
    port = 0;
    assert_int_not_equal(
        door_bind(house.context, "no such host", &port, &house.keys, &router, &err), ERR_OK);
    assert_int_equal(door_bind(house.context, "*", &port, &house.keys, &router, &err), ERR_OK);
    zmq_close(router);
    struct door_keys none = {0};
    struct door_address to = {"h", 1, "short"};
    assert_int_equal(door_connect(house.context, &to, &house.keys, &router, &err), ERR_INVALID);
    to.server_key = house.keys.public_key;
    assert_int_equal(door_connect(house.context, &to, &none, &router, &err), ERR_INVALID);
    house_close(&house);
}

/* --- strangers ----------------------------------------------------------------------------------
 */

static int tcp_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void tcp_write(int fd, const void *bytes, size_t size)
{
    (void)!send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* As the ZMTP greeting begins: signature, version 3.0 or 3.1, CURVE or anything else. */
static size_t greeting_write(uint8_t out[64], const char *mechanism)
{
    memset(out, 0, 64);
    out[0] = 0xff;
    out[9] = 0x7f;
    out[10] = 3;
    memcpy(out + 12, mechanism, strlen(mechanism));
    return 64;
}

static void garbage_on_the_port_harms_nobody(void **state)
{
    (void)state;
    struct house house = house_open(true);
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    printf("seed %llu\n", (unsigned long long)seed);
    enum { STRANGERS = 60 };
    int fds[STRANGERS];
    static uint8_t bytes[1 << 20];
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = tcp_connect(house.port);
        for (size_t k = 0; k < 4096; k++) {
            bytes[k] = (uint8_t)rng_next(&rng);
        }
        size_t begin = i % 2 ? greeting_write(bytes, i % 4 == 1 ? "CURVE" : "NULL") : 0;
        if (i % 3 == 0) {
            memset(bytes + begin, 0xff, sizeof bytes - begin); /* lengths beyond all bounds */
            tcp_write(fds[i], bytes, sizeof bytes);
        } else {
            tcp_write(fds[i], bytes, begin + rng_below(&rng, 4000));
        }
        if (i % 5 == 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
    expect_service(&house);
    assert_int_equal(house_receive(&house, SILENCE_MS), ERR_AGAIN);
    for (int i = 0; i < STRANGERS; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    expect_service(&house);
    house_close(&house);
}

static void half_open_connections_do_not_keep_others_out(void **state)
{
    (void)state;
    struct house house = house_open(true);
    enum { SILENT = 200 };
    int fds[SILENT];
    uint8_t greeting[64];
    greeting_write(greeting, "CURVE");
    for (int i = 0; i < SILENT; i++) {
        fds[i] = tcp_connect(house.port);
        tcp_write(fds[i], greeting, (size_t)(i % 65));
    }
    expect_service(&house);
    for (int i = 0; i < SILENT; i++) {
        close(fds[i]);
    }
    expect_service(&house);
    house_close(&house);
}

/* A wire tap between a visitor and the house: keeps what the visitor sends. */
struct tap {
    int listener;
    uint16_t port;
    uint16_t target;
    size_t size;
    uint8_t bytes[64 * 1024];
};

static bool tap_move(int from, int to, struct tap *tap)
{
    uint8_t bytes[4096];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) {
        return false;
    }
    size_t size = (size_t)got;
    if (tap && tap->size + size <= sizeof tap->bytes) {
        memcpy(tap->bytes + tap->size, bytes, size);
        tap->size += size;
    }
    return write(to, bytes, size) == got;
}

static void *tap_main(void *argument)
{
    struct tap *tap = argument;
    int visitor = accept(tap->listener, NULL, NULL);
    int house = tcp_connect(tap->target);
    bool is_open = visitor >= 0;
    while (is_open) {
        struct pollfd polls[] = {{.fd = visitor, .events = POLLIN},
                                 {.fd = house, .events = POLLIN}};
        poll(polls, 2, -1);
        if (polls[0].revents) {
            is_open = tap_move(visitor, house, tap);
        }
        if (is_open && polls[1].revents) {
            is_open = tap_move(house, visitor, NULL);
        }
    }
    close(visitor);
    close(house);
    return NULL;
}

static void a_replayed_conversation_is_not_heard_again(void **state)
{
    (void)state;
    struct house house = house_open(true);
    static struct tap tap;
    tap = (struct tap){.target = house.port};
    tap.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t address_size = sizeof address;
    assert_int_equal(bind(tap.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(tap.listener, 5), 0);
    getsockname(tap.listener, (struct sockaddr *)&address, &address_size);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, tap_main, &tap), 0);

    struct door_keys keys = new_keys();
    void *visitor = NULL;
    struct door_address to = {"127.0.0.1", ntohs(address.sin_port), house.keys.public_key};
    assert_int_equal(door_connect(house.context, &to, &keys, &visitor, NULL), ERR_OK);
    say(visitor, "pay me");
    expect_said(&house, "pay me", keys.public_key);
    zmq_close(visitor);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(tap.listener);
    assert_true(tap.size > 64);

    int whole = tcp_connect(house.port);
    tcp_write(whole, tap.bytes, tap.size);
    int slow = tcp_connect(house.port); /* in step with the answers */
    tcp_write(slow, tap.bytes, 64);
    usleep(100 * 1000);
    tcp_write(slow, tap.bytes + 64, tap.size - 64);
    assert_int_equal(house_receive(&house, SILENCE_MS), ERR_AGAIN);
    expect_service(&house);
    close(whole);
    close(slow);
    house_close(&house);
}

static void a_herd_that_joins_at_once_is_let_in(void **state)
{
    (void)state;
    enum { NODES = 200 };
    struct house house = house_open(true);
    struct door_keys keys = new_keys(); /* many connections of one key are fine */
    void *visitors[NODES];
    for (int i = 0; i < NODES; i++) {
        visitors[i] = visitor_open(&house, &keys);
        say(visitors[i], "hello");
    }
    for (int i = 0; i < NODES; i++) {
        expect_said(&house, "hello", keys.public_key);
        answer(&house, "welcome");
    }
    for (int i = 0; i < NODES; i++) {
        expect_heard(visitors[i], "welcome");
        zmq_close(visitors[i]);
    }
    house_close(&house);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_hear_each_other_and_the_key_is_known),
        cmocka_unit_test(a_wrong_server_key_gets_nothing),
        cmocka_unit_test(who_does_not_speak_curve_gets_nothing),
        cmocka_unit_test(a_denied_key_is_refused_at_its_next_handshake),
        cmocka_unit_test(many_keys_can_be_denied),
        cmocka_unit_test(without_a_gatekeeper_nobody_is_believed),
        cmocka_unit_test(a_message_of_several_frames_is_dropped_whole),
        cmocka_unit_test(a_message_over_the_limit_is_refused),
        cmocka_unit_test(a_route_that_nobody_has_is_not_found),
        cmocka_unit_test(who_does_not_listen_fills_only_its_own_queue),
        cmocka_unit_test(a_taken_port_is_said_to_be_taken),
        cmocka_unit_test(garbage_on_the_port_harms_nobody),
        cmocka_unit_test(half_open_connections_do_not_keep_others_out),
        cmocka_unit_test(a_replayed_conversation_is_not_heard_again),
        cmocka_unit_test(a_herd_that_joins_at_once_is_let_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
