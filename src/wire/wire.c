#include "wire/wire.h"

#include "wire/wire_check.h"

#include <errno.h>
#include <stdint.h>
#include <zmq.h>

enum { VERSION_BYTES_MAX = 64 };

bool wire_attempt_equal(const Drover__Attempt *a, const Drover__Attempt *b)
{
    return a->task == b->task && a->attempt == b->attempt && a->experiment == b->experiment &&
           a->workflow == b->workflow && a->term == b->term;
}

/* A Hello of another protocol may mean anything: all that is kept of such a message is who speaks.
 */
static Drover__ToMaster *reduce_to_protocol(Drover__ToMaster *message)
{
    Drover__Hello hello = DROVER__HELLO__INIT;
    hello.protocol = message->hello->protocol;
    if (wire_text_is_clean(message->hello->version, VERSION_BYTES_MAX)) {
        hello.version = message->hello->version;
    }
    Drover__ToMaster reduced = DROVER__TO_MASTER__INIT;
    reduced.hello = &hello;
    uint8_t bytes[VERSION_BYTES_MAX + 64];
    size_t size = drover__to_master__get_packed_size(&reduced);
    CHECK(size <= sizeof bytes);
    drover__to_master__pack(&reduced, bytes);
    wire_free_to_master(message);
    Drover__ToMaster *out = drover__to_master__unpack(NULL, size, bytes);
    CHECK(out);
    return out;
}

enum err_code wire_parse_to_node(const void *bytes, size_t size, Drover__ToNode **out,
                                 struct err *err)
{
    if (size > WIRE_MESSAGE_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "message: %zu bytes are too many", size);
    }
    Drover__ToNode *message = drover__to_node__unpack(NULL, size, bytes);
    if (!message) {
        return err_set(err, ERR_INVALID, "message: not a ToNode");
    }
    enum err_code code = wire_check_to_node(message, err);
    if (code != ERR_OK) {
        wire_free_to_node(message);
        return code;
    }
    *out = message;
    return ERR_OK;
}

enum err_code wire_parse_to_master(const void *bytes, size_t size, Drover__ToMaster **out,
                                   struct err *err)
{
    if (size > WIRE_MESSAGE_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "message: %zu bytes are too many", size);
    }
    Drover__ToMaster *message = drover__to_master__unpack(NULL, size, bytes);
    if (!message) {
        return err_set(err, ERR_INVALID, "message: not a ToMaster");
    }
    if (message->hello && message->hello->protocol != WIRE_PROTOCOL) {
        *out = reduce_to_protocol(message);
        return ERR_OK;
    }
    enum err_code code = wire_check_to_master(message, err);
    if (code != ERR_OK) {
        wire_free_to_master(message);
        return code;
    }
    *out = message;
    return ERR_OK;
}

void wire_free_to_node(Drover__ToNode *message)
{
    drover__to_node__free_unpacked(message, NULL);
}

void wire_free_to_master(Drover__ToMaster *message)
{
    drover__to_master__free_unpacked(message, NULL);
}

static enum err_code socket_error(struct err *err, const char *what)
{
    int why = zmq_errno();
    if (why == EAGAIN) {
        return err_set(err, ERR_AGAIN, "%s: not now", what);
    }
    enum err_code code = why == ETERM ? ERR_CANCELLED : ERR_IO;
    return err_set(err, code, "%s: %s", what, zmq_strerror(why));
}

static enum err_code send_packed(void *socket, const ProtobufCMessage *message, struct err *err)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size > WIRE_MESSAGE_BYTES_MAX) {
        return err_set(err, ERR_RANGE, "send: a message of %zu bytes is too large", size);
    }
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, size) != 0) {
        return socket_error(err, "send");
    }
    protobuf_c_message_pack(message, zmq_msg_data(&frame));
    while (zmq_msg_send(&frame, socket, ZMQ_DONTWAIT) < 0) {
        if (zmq_errno() != EINTR) {
            enum err_code code = socket_error(err, "send");
            zmq_msg_close(&frame);
            return code;
        }
    }
    return ERR_OK;
}

enum err_code wire_send_to_node(void *socket, const Drover__ToNode *message, struct err *err)
{
    return send_packed(socket, &message->base, err);
}

enum err_code wire_send_to_master(void *socket, const Drover__ToMaster *message, struct err *err)
{
    return send_packed(socket, &message->base, err);
}

static int receive_frame(void *socket, zmq_msg_t *frame)
{
    int size = 0;
    do {
        size = zmq_msg_recv(frame, socket, ZMQ_DONTWAIT);
    } while (size < 0 && zmq_errno() == EINTR);
    return size;
}

/* A message of several frames is none of ours; its frames arrive together, so all can be taken. */
static enum err_code receive_message(void *socket, zmq_msg_t *frame, struct err *err)
{
    if (receive_frame(socket, frame) < 0) {
        return socket_error(err, "receive");
    }
    bool is_single = !zmq_msg_more(frame);
    while (zmq_msg_more(frame)) {
        if (receive_frame(socket, frame) < 0) {
            return socket_error(err, "receive");
        }
    }
    return is_single ? ERR_OK : err_set(err, ERR_INVALID, "message: more than one frame");
}

enum err_code wire_receive_to_node(void *socket, Drover__ToNode **out, struct err *err)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    enum err_code code = receive_message(socket, &frame, err);
    if (code == ERR_OK) {
        code = wire_parse_to_node(zmq_msg_data(&frame), zmq_msg_size(&frame), out, err);
    }
    zmq_msg_close(&frame);
    return code;
}

enum err_code wire_receive_to_master(void *socket, Drover__ToMaster **out, struct err *err)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    enum err_code code = receive_message(socket, &frame, err);
    if (code == ERR_OK) {
        code = wire_parse_to_master(zmq_msg_data(&frame), zmq_msg_size(&frame), out, err);
    }
    zmq_msg_close(&frame);
    return code;
}
