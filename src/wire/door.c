#include "wire/door.h"

#include "base/mem.h"
#include "wire/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum {
    /* A frame grows by 33 bytes when CURVE seals it (flags, nonce, MAC), and the limit is on what
     * arrives. What is then still too large is refused by whoever parses it. */
    SEAL_BYTES = 64,
    /* Half-open connections are dropped after it; a handshake takes three round trips. */
    HANDSHAKE_MS = 10 * 1000,
    /* A peer that is gone without a word (power, cable) frees its connection within the sum. The
     * timeout leaves time for one whole message over a slow line. */
    HEARTBEAT_MS = 10 * 1000,
    HEARTBEAT_TIMEOUT_MS = 30 * 1000,
    CONNECT_TIMEOUT_MS = 5 * 1000, /* a SYN that nobody answers */
    RECONNECT_MS = 100,            /* doubled, with jitter, up to */
    RECONNECT_MAX_MS = 2 * 1000,
    /* Messages waiting for one connection. The master reads all the time: what a peer sends faster
     * than that waits at the peer's end. */
    SEND_QUEUE_MAX = 1000,
    RECEIVE_QUEUE_MAX = 256,
};

struct door_frame {
    zmq_msg_t route;
    zmq_msg_t body;
};

static void set_key(void *socket, int option, const char *key)
{
    CHECK(strlen(key) == DOOR_KEY_CHARS);
    CHECK(zmq_setsockopt(socket, option, key, DOOR_KEY_CHARS + 1) == 0);
}

static void set_common(void *socket)
{
    int64_t size_max = WIRE_MESSAGE_BYTES_MAX + SEAL_BYTES;
    CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &size_max, sizeof size_max) == 0);
    socket_set_int(socket, ZMQ_LINGER, 0);
    socket_set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    socket_set_int(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS);
    socket_set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS);
    socket_set_int(socket, ZMQ_HEARTBEAT_TTL, HEARTBEAT_MS + HEARTBEAT_TIMEOUT_MS);
    socket_set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    socket_set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 30);
    socket_set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 10);
    socket_set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, 3);
    socket_set_int(socket, ZMQ_SNDHWM, SEND_QUEUE_MAX);
    socket_set_int(socket, ZMQ_RCVHWM, RECEIVE_QUEUE_MAX);
}

enum err_code door_bind(void *zmq_context, const char *host, uint16_t *port,
                        const struct door_keys *keys, void **socket, struct err *err)
{
    void *made = zmq_socket(zmq_context, ZMQ_ROUTER);
    if (!made) {
        return socket_error(err, "listen");
    }
    set_common(made);
    enum err_code code = socket_bind(made, host, port, keys, err);
    if (code != ERR_OK) {
        zmq_close(made);
        return code;
    }
    *socket = made;
    return ERR_OK;
}

enum err_code door_connect(void *zmq_context, const struct door_address *to,
                           const struct door_keys *keys, void **socket, struct err *err)
{
    if (strlen(to->host) == 0 || strlen(to->host) > 255 || to->port == 0 ||
        !socket_key_is_valid(to->server_key) || !socket_key_is_valid(keys->public_key) ||
        !socket_key_is_valid(keys->secret_key)) {
        return err_set(err, ERR_INVALID, "connect: no such host or port, or no keys");
    }
    char port_text[16];
    char endpoint[320];
    snprintf(port_text, sizeof port_text, "%u", (unsigned)to->port);
    socket_endpoint(endpoint, sizeof endpoint, to->host, port_text);
    void *made = zmq_socket(zmq_context, ZMQ_DEALER);
    if (!made) {
        return socket_error(err, "connect");
    }
    set_common(made);
    socket_set_int(made, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    socket_set_int(made, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    socket_set_int(made, ZMQ_CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS);
    set_key(made, ZMQ_CURVE_SERVERKEY, to->server_key);
    set_key(made, ZMQ_CURVE_PUBLICKEY, keys->public_key);
    set_key(made, ZMQ_CURVE_SECRETKEY, keys->secret_key);
    /* libzmq tries one address of a name only, and with this set an IPv6 one where there is one,
     * which "localhost" and many machines have and the master does not listen on. */
    socket_set_int(made, ZMQ_IPV6, strchr(to->host, ':') != NULL);
    if (zmq_connect(made, endpoint) != 0) {
        char what[336];
        snprintf(what, sizeof what, "connect to %s", endpoint);
        enum err_code code = socket_error(err, what);
        zmq_close(made);
        return code;
    }
    *socket = made;
    return ERR_OK;
}

struct door_frame *door_frame_create(void)
{
    struct door_frame *frame = mem_alloc(sizeof *frame);
    zmq_msg_init(&frame->route);
    zmq_msg_init(&frame->body);
    return frame;
}

void door_frame_destroy(struct door_frame *frame)
{
    if (frame) {
        zmq_msg_close(&frame->route);
        zmq_msg_close(&frame->body);
        free(frame);
    }
}

static int receive_part(void *socket, zmq_msg_t *part)
{
    int size = 0;
    do {
        size = zmq_msg_recv(part, socket, ZMQ_DONTWAIT);
    } while (size < 0 && zmq_errno() == EINTR);
    return size;
}

/* Takes all parts of the next message, which arrive together. Returns how many, or -1. */
static int receive_parts(void *socket, struct door_frame *frame)
{
    if (receive_part(socket, &frame->route) < 0) {
        return -1;
    }
    int count = 1;
    bool more = zmq_msg_more(&frame->route);
    while (more) {
        if (receive_part(socket, &frame->body) < 0) {
            return -1;
        }
        count += count < 3;
        more = zmq_msg_more(&frame->body);
    }
    return count;
}

enum err_code door_receive(void *socket, struct door_frame *frame, struct door_sender *sender,
                           const void **bytes, size_t *size, struct err *err)
{
    int count = receive_parts(socket, frame);
    if (count < 0) {
        return socket_error(err, "receive");
    }
    size_t route_size = zmq_msg_size(&frame->route);
    if (count != 2 || route_size == 0 || route_size > DOOR_ROUTE_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "message: not of one frame");
    }
    const char *key = zmq_msg_gets(&frame->body, "User-Id");
    if (!key || strlen(key) != DOOR_KEY_CHARS) {
        return err_set(err, ERR_INVALID, "message: from a connection without a key");
    }
    memcpy(sender->route, zmq_msg_data(&frame->route), route_size);
    sender->route_size = route_size;
    memcpy(sender->key, key, DOOR_KEY_CHARS + 1);
    *bytes = zmq_msg_data(&frame->body);
    *size = zmq_msg_size(&frame->body);
    return ERR_OK;
}

static int send_part(void *socket, zmq_msg_t *part, int flags)
{
    int sent = 0;
    do {
        sent = zmq_msg_send(part, socket, ZMQ_DONTWAIT | flags);
    } while (sent < 0 && zmq_errno() == EINTR);
    return sent;
}

/* The body is closed in any case. With mandatory routing it is the route that can fail; the body
 * then follows into the place kept for it. */
static enum err_code send_routed(void *socket, const uint8_t *route, size_t route_size,
                                 zmq_msg_t *body, struct err *err)
{
    CHECK(route_size > 0 && route_size <= DOOR_ROUTE_BYTES_MAX);
    zmq_msg_t head;
    CHECK(zmq_msg_init_size(&head, route_size) == 0);
    memcpy(zmq_msg_data(&head), route, route_size);
    enum err_code code = ERR_OK;
    if (send_part(socket, &head, ZMQ_SNDMORE) < 0 || send_part(socket, body, 0) < 0) {
        code = socket_error(err, "send");
    }
    zmq_msg_close(&head);
    zmq_msg_close(body);
    return code;
}

static enum err_code make_body(zmq_msg_t *body, size_t size, struct err *err)
{
    if (size > WIRE_MESSAGE_BYTES_MAX) {
        return err_set(err, ERR_RANGE, "send: a message of %zu bytes is too large", size);
    }
    return zmq_msg_init_size(body, size) == 0 ? ERR_OK : socket_error(err, "send");
}

enum err_code door_send(void *socket, const uint8_t *route, size_t route_size, const void *bytes,
                        size_t size, struct err *err)
{
    zmq_msg_t body;
    enum err_code code = make_body(&body, size, err);
    if (code != ERR_OK) {
        return code;
    }
    if (size > 0) {
        memcpy(zmq_msg_data(&body), bytes, size);
    }
    return send_routed(socket, route, route_size, &body, err);
}

enum err_code door_send_to_node(void *socket, const uint8_t *route, size_t route_size,
                                const Drover__ToNode *message, struct err *err)
{
    zmq_msg_t body;
    enum err_code code = make_body(&body, drover__to_node__get_packed_size(message), err);
    if (code != ERR_OK) {
        return code;
    }
    drover__to_node__pack(message, zmq_msg_data(&body));
    return send_routed(socket, route, route_size, &body, err);
}
