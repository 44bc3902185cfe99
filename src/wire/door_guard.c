/* The gatekeeper. libzmq asks it about each handshake (ZAP, RFC 27) over inproc; its owner talks to
 * it over a PAIR. Nothing but the count is shared between the two threads. */
#include "base/mem.h"
#include "wire/door.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum {
    DENIED_MAX = 1 << 16, /* beyond it the oldest is forgotten; the master knows who it sent away */
    KEY_BYTES = 32,
    FIELD_BYTES_MAX = 256,
};

#define ZAP_ADDRESS "inproc://zeromq.zap.01"

struct door_guard {
    pthread_t thread;
    void *control; /* the owner's end of the PAIR */
    _Atomic uint64_t refused;
    /* The rest is the thread's alone. */
    void *orders;
    void *requests;
    char (*denied)[DOOR_KEY_CHARS + 1];
    size_t denied_count; /* ever; the newest DENIED_MAX are kept */
    size_t denied_cap;
};

/* A request: the frames that matter. */
struct request {
    uint8_t id[FIELD_BYTES_MAX];
    size_t id_size;
    char key[DOOR_KEY_CHARS + 1]; /* "": no valid CURVE request */
};

static int receive_frame(void *socket, zmq_msg_t *frame, int flags)
{
    int size = 0;
    do {
        size = zmq_msg_recv(frame, socket, flags);
    } while (size < 0 && zmq_errno() == EINTR);
    return size;
}

static void send_frame(void *socket, const void *bytes, size_t size, int flags)
{
    while (zmq_send(socket, bytes, size, flags) < 0 && zmq_errno() == EINTR) {
    }
}

static bool frame_is(zmq_msg_t *frame, const char *text)
{
    return zmq_msg_size(frame) == strlen(text) &&
           memcmp(zmq_msg_data(frame), text, strlen(text)) == 0;
}

/* version, request id, domain, address, routing id, mechanism, credentials. False: none waits. */
static bool receive_request(void *socket, struct request *out)
{
    *out = (struct request){0};
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (receive_frame(socket, &frame, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&frame);
        return false;
    }
    bool good = frame_is(&frame, "1.0");
    int index = 0;
    while (zmq_msg_more(&frame) && receive_frame(socket, &frame, 0) >= 0) {
        index++;
        size_t size = zmq_msg_size(&frame);
        if (index == 1 && size <= sizeof out->id) {
            memcpy(out->id, zmq_msg_data(&frame), size);
            out->id_size = size;
        } else if (index == 5) {
            good = good && frame_is(&frame, "CURVE");
        } else if (index == 6 && size == KEY_BYTES) {
            CHECK(zmq_z85_encode(out->key, zmq_msg_data(&frame), KEY_BYTES));
        }
    }
    if (!good || index != 6) {
        out->key[0] = '\0';
    }
    zmq_msg_close(&frame);
    return true;
}

static bool is_denied(const struct door_guard *guard, const char *key)
{
    size_t kept = guard->denied_count < DENIED_MAX ? guard->denied_count : DENIED_MAX;
    for (size_t i = 0; i < kept; i++) {
        if (strcmp(guard->denied[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static void answer(struct door_guard *guard, const struct request *request)
{
    bool welcome = request->key[0] && !is_denied(guard, request->key);
    if (!welcome) {
        atomic_fetch_add(&guard->refused, 1);
    }
    const char *status = welcome ? "200" : "400";
    const char *text = welcome ? "" : "this key is not welcome";
    const char *user = welcome ? request->key : "";
    send_frame(guard->requests, "1.0", 3, ZMQ_SNDMORE);
    send_frame(guard->requests, request->id, request->id_size, ZMQ_SNDMORE);
    send_frame(guard->requests, status, 3, ZMQ_SNDMORE);
    send_frame(guard->requests, text, strlen(text), ZMQ_SNDMORE);
    send_frame(guard->requests, user, strlen(user), ZMQ_SNDMORE);
    send_frame(guard->requests, "", 0, 0); /* metadata */
}

static void deny(struct door_guard *guard, const char *key)
{
    if (is_denied(guard, key)) {
        return;
    }
    if (guard->denied_count >= guard->denied_cap && guard->denied_cap < DENIED_MAX) {
        guard->denied_cap = guard->denied_cap ? guard->denied_cap * 2 : 16;
        guard->denied = mem_resize(guard->denied, guard->denied_cap, sizeof guard->denied[0]);
    }
    char *slot = guard->denied[guard->denied_count++ % DENIED_MAX];
    memcpy(slot, key, DOOR_KEY_CHARS + 1);
}

/* An order is a key to deny, or empty: stop. Each is acknowledged once it holds. */
static bool take_order(struct door_guard *guard)
{
    char key[DOOR_KEY_CHARS + 1] = "";
    int size = zmq_recv(guard->orders, key, DOOR_KEY_CHARS, ZMQ_DONTWAIT);
    if (size < 0) {
        return zmq_errno() == EAGAIN || zmq_errno() == EINTR;
    }
    if (size > 0) {
        deny(guard, key);
        send_frame(guard->orders, "", 0, 0);
    }
    return size > 0;
}

static void *guard_main(void *argument)
{
    struct door_guard *guard = argument;
    zmq_pollitem_t items[] = {
        {.socket = guard->orders, .events = ZMQ_POLLIN},
        {.socket = guard->requests, .events = ZMQ_POLLIN},
    };
    bool is_open = true;
    while (is_open) {
        if (zmq_poll(items, 2, -1) < 0 && zmq_errno() != EINTR) {
            break;
        }
        is_open = take_order(guard);
        struct request request;
        while (is_open && receive_request(guard->requests, &request)) {
            answer(guard, &request);
        }
    }
    zmq_close(guard->requests);
    zmq_close(guard->orders);
    return NULL;
}

static void *open_socket(void *zmq_context, int type)
{
    void *socket = zmq_socket(zmq_context, type);
    CHECK(socket);
    int none = 0;
    CHECK(zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none) == 0);
    CHECK(zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none) == 0); /* one for each handshake */
    CHECK(zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none) == 0);
    return socket;
}

struct door_guard *door_guard_start(void *zmq_context)
{
    struct door_guard *guard = mem_alloc(sizeof *guard);
    char address[64];
    snprintf(address, sizeof address, "inproc://door-guard-%p", (void *)guard);
    guard->control = open_socket(zmq_context, ZMQ_PAIR);
    guard->orders = open_socket(zmq_context, ZMQ_PAIR);
    guard->requests = open_socket(zmq_context, ZMQ_REP);
    CHECK(zmq_bind(guard->control, address) == 0);
    CHECK(zmq_connect(guard->orders, address) == 0);
    /* Bound before a server socket can ask. A second gatekeeper of a context cannot be. */
    CHECK(zmq_bind(guard->requests, ZAP_ADDRESS) == 0);
    CHECK(pthread_create(&guard->thread, NULL, guard_main, guard) == 0);
    return guard;
}

void door_guard_deny(struct door_guard *guard, const char *key)
{
    CHECK(strlen(key) == DOOR_KEY_CHARS);
    send_frame(guard->control, key, DOOR_KEY_CHARS, 0);
    char answered = 0;
    while (zmq_recv(guard->control, &answered, sizeof answered, 0) < 0 && zmq_errno() == EINTR) {
    }
}

uint64_t door_guard_refused(const struct door_guard *guard)
{
    return atomic_load(&guard->refused);
}

void door_guard_stop(struct door_guard *guard)
{
    if (!guard) {
        return;
    }
    send_frame(guard->control, "", 0, 0);
    CHECK(pthread_join(guard->thread, NULL) == 0);
    zmq_close(guard->control);
    free(guard->denied);
    free(guard);
}
