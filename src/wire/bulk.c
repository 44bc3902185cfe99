#include "wire/bulk.h"

#include "base/sha256.h"
#include "wire/socket.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

enum {
    FILE_BYTES_LOG2_MAX = 50, /* a file of a petabyte is a mistake */
    SEAL_BYTES = 64,          /* what CURVE adds to a frame */
    HANDSHAKE_MS = 10 * 1000,
    RECEIVE_QUEUE_MAX = 40, /* pieces: a little more than the credit */
    SEND_QUEUE_MAX = 400,   /* many small answers, or the credit's pieces */
};

#define FILE_BYTES_MAX (UINT64_C(1) << FILE_BYTES_LOG2_MAX)

void bulk_attempt_from(struct bulk_attempt *out, const Drover__Attempt *id)
{
    *out = (struct bulk_attempt){.workflow = id->workflow,
                                 .experiment = id->experiment,
                                 .task = id->task,
                                 .attempt = id->attempt,
                                 .term = id->term};
}

void bulk_attempt_to(Drover__Attempt *out, const struct bulk_attempt *id)
{
    drover__attempt__init(out);
    out->workflow = id->workflow;
    out->experiment = id->experiment;
    out->task = id->task;
    out->attempt = id->attempt;
    out->term = id->term;
}

static bool part_is_safe(const char *part, size_t size)
{
    if (size == 0 || size > 255) {
        return false;
    }
    bool is_dots = part[0] == '.' && (size == 1 || (size == 2 && part[1] == '.'));
    return !is_dots;
}

bool bulk_path_is_safe(const void *path, size_t size)
{
    const char *text = path;
    if (size == 0 || size > BULK_PATH_BYTES_MAX || memchr(text, '\0', size)) {
        return false;
    }
    size_t depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && text[i] != '/') {
            continue;
        }
        if (!part_is_safe(text + begin, i - begin) || ++depth > BULK_PATH_DEPTH_MAX) {
            return false;
        }
        begin = i + 1;
    }
    return true;
}

/* --- validation ------------------------------------------------------------------------------ */

static bool part_is_valid(const Drover__BulkPart *part, bool is_log)
{
    if (is_log) {
        return part->path.len == 0 && part->offset <= FILE_BYTES_MAX;
    }
    if (!bulk_path_is_safe(part->path.data, part->path.len) || part->mode > 07777) {
        return false;
    }
    switch (part->type) {
    case DROVER__BULK_TYPE__BULK_TYPE_FILE:
        return part->size <= FILE_BYTES_MAX && part->offset <= part->size &&
               part->data.len <= part->size - part->offset && !(part->keep && part->data.len > 0);
    case DROVER__BULK_TYPE__BULK_TYPE_FOLDER:
        return part->data.len == 0;
    case DROVER__BULK_TYPE__BULK_TYPE_LINK:
        return part->data.len > 0 && part->data.len <= BULK_LINK_BYTES_MAX &&
               !memchr(part->data.data, '\0', part->data.len);
    case DROVER__BULK_TYPE__BULK_TYPE_NONE:
    case _DROVER__BULK_TYPE_IS_INT_SIZE:
    default:
        return false;
    }
}

static enum err_code check_piece(const Drover__BulkPiece *piece, struct err *err)
{
    /* a log's piece is one part without a path; whether it may be one is the transfer's business */
    bool is_log = piece->n_part == 1 && piece->part[0]->path.len == 0;
    size_t size = 0;
    if (piece->n_part > BULK_PIECE_PARTS_MAX) {
        return err_set(err, ERR_INVALID, "piece: too many parts");
    }
    for (size_t i = 0; i < piece->n_part; i++) {
        if (!part_is_valid(piece->part[i], is_log)) {
            return err_set(err, ERR_INVALID, "piece: a part that cannot be");
        }
        size += piece->part[i]->data.len;
    }
    if (size > 2 * (size_t)BULK_PIECE_BYTES) {
        return err_set(err, ERR_INVALID, "piece: %zu bytes are too many", size);
    }
    return ERR_OK;
}

static bool version_is_valid(const char *name)
{
    return strlen(name) == SHA256_HEX_CHARS && strspn(name, "0123456789abcdef") == SHA256_HEX_CHARS;
}

static bool experiment_is_valid(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size <= WIRE_NAME_BYTES_MAX && name[0] != '.' && !strchr(name, '/');
}

static bool get_is_valid(const Drover__BulkGet *get)
{
    if (get->path.len > 0 && !bulk_path_is_safe(get->path.data, get->path.len)) {
        return false;
    }
    switch (get->kind) {
    case DROVER__BULK_KIND__BULK_KIND_CHECKPOINT:
        return get->id != NULL;
    case DROVER__BULK_KIND__BULK_KIND_INPUTS:
        return get->id != NULL && experiment_is_valid(get->name);
    case DROVER__BULK_KIND__BULK_KIND_MANIFEST:
    case DROVER__BULK_KIND__BULK_KIND_UNPACK:
        return version_is_valid(get->name);
    case DROVER__BULK_KIND__BULK_KIND_OBJECTS:
        return get->hashes.len % SHA256_BYTES == 0 && get->hashes.len > 0 &&
               get->hashes.len / SHA256_BYTES <= BULK_HASHES_MAX;
    case DROVER__BULK_KIND__BULK_KIND_NONE:
    case DROVER__BULK_KIND__BULK_KIND_LOG:
    case DROVER__BULK_KIND__BULK_KIND_OUTPUT:
    case _DROVER__BULK_KIND_IS_INT_SIZE:
    default:
        return false;
    }
}

static bool put_is_valid(const Drover__BulkPut *put)
{
    bool is_kind = put->kind == DROVER__BULK_KIND__BULK_KIND_LOG ||
                   put->kind == DROVER__BULK_KIND__BULK_KIND_OUTPUT ||
                   put->kind == DROVER__BULK_KIND__BULK_KIND_CHECKPOINT;
    return is_kind && put->id && put->have <= FILE_BYTES_MAX;
}

static enum err_code check_to_depot(const Drover__ToDepot *message, struct err *err)
{
    if (message->protocol != BULK_PROTOCOL) {
        return err_set(err, ERR_INVALID, "bulk: protocol %u, need %d", message->protocol,
                       (int)BULK_PROTOCOL);
    }
    if (message->ticket == 0) {
        return err_set(err, ERR_INVALID, "bulk: no ticket");
    }
    if (message->put && !put_is_valid(message->put)) {
        return err_set(err, ERR_INVALID, "put: not possible");
    }
    if (message->get && !get_is_valid(message->get)) {
        return err_set(err, ERR_INVALID, "get: not possible");
    }
    return message->piece ? check_piece(message->piece, err) : ERR_OK;
}

static enum err_code check_from_depot(const Drover__FromDepot *message, struct err *err)
{
    if (message->ticket == 0) {
        return err_set(err, ERR_INVALID, "bulk: no ticket");
    }
    if (message->no && (message->no->code == ERR_OK || message->no->code > ERR_IO)) {
        return err_set(err, ERR_INVALID, "no: unknown code");
    }
    return message->piece ? check_piece(message->piece, err) : ERR_OK;
}

enum err_code bulk_parse_to_depot(const void *bytes, size_t size, Drover__ToDepot **out,
                                  struct err *err)
{
    if (size > BULK_MESSAGE_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "message: %zu bytes are too many", size);
    }
    Drover__ToDepot *message = drover__to_depot__unpack(NULL, size, bytes);
    if (!message) {
        return err_set(err, ERR_INVALID, "message: not a ToDepot");
    }
    enum err_code code = check_to_depot(message, err);
    if (code != ERR_OK) {
        bulk_free_to_depot(message);
        return code;
    }
    *out = message;
    return ERR_OK;
}

enum err_code bulk_parse_from_depot(const void *bytes, size_t size, Drover__FromDepot **out,
                                    struct err *err)
{
    if (size > BULK_MESSAGE_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "message: %zu bytes are too many", size);
    }
    Drover__FromDepot *message = drover__from_depot__unpack(NULL, size, bytes);
    if (!message) {
        return err_set(err, ERR_INVALID, "message: not a FromDepot");
    }
    enum err_code code = check_from_depot(message, err);
    if (code != ERR_OK) {
        bulk_free_from_depot(message);
        return code;
    }
    *out = message;
    return ERR_OK;
}

void bulk_free_to_depot(Drover__ToDepot *message)
{
    drover__to_depot__free_unpacked(message, NULL);
}

void bulk_free_from_depot(Drover__FromDepot *message)
{
    drover__from_depot__free_unpacked(message, NULL);
}

/* --- sockets --------------------------------------------------------------------------------- */

enum err_code bulk_send_to_depot(void *socket, const Drover__ToDepot *message, struct err *err)
{
    size_t size = drover__to_depot__get_packed_size(message);
    CHECK(size <= BULK_MESSAGE_BYTES_MAX);
    zmq_msg_t frame;
    CHECK(zmq_msg_init_size(&frame, size) == 0);
    drover__to_depot__pack(message, zmq_msg_data(&frame));
    while (zmq_msg_send(&frame, socket, ZMQ_DONTWAIT) < 0) {
        if (zmq_errno() != EINTR) {
            enum err_code code = socket_error(err, "send");
            zmq_msg_close(&frame);
            return code;
        }
    }
    return ERR_OK;
}

enum err_code bulk_receive_from_depot(void *socket, Drover__FromDepot **out, struct err *err)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int size = 0;
    bool is_single = true;
    bool more = true;
    while (more) {
        do {
            size = zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT);
        } while (size < 0 && zmq_errno() == EINTR);
        if (size < 0) {
            enum err_code code = socket_error(err, "receive");
            zmq_msg_close(&frame);
            return code;
        }
        more = zmq_msg_more(&frame);
        is_single = is_single && !more;
    }
    enum err_code code =
        is_single ? bulk_parse_from_depot(zmq_msg_data(&frame), zmq_msg_size(&frame), out, err)
                  : err_set(err, ERR_INVALID, "message: more than one frame");
    zmq_msg_close(&frame);
    return code;
}

enum err_code bulk_send_from_depot(void *socket, const struct door_sender *to,
                                   const Drover__FromDepot *message, struct err *err)
{
    size_t size = drover__from_depot__get_packed_size(message);
    CHECK(size <= BULK_MESSAGE_BYTES_MAX);
    zmq_msg_t head;
    zmq_msg_t body;
    CHECK(zmq_msg_init_size(&head, to->route_size) == 0);
    CHECK(zmq_msg_init_size(&body, size) == 0);
    memcpy(zmq_msg_data(&head), to->route, to->route_size);
    drover__from_depot__pack(message, zmq_msg_data(&body));
    enum err_code code = ERR_OK;
    if (zmq_msg_send(&head, socket, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0 ||
        zmq_msg_send(&body, socket, ZMQ_DONTWAIT) < 0) {
        code = socket_error(err, "send");
    }
    zmq_msg_close(&head);
    zmq_msg_close(&body);
    return code;
}

static void set_options(void *zmq_context, void *socket)
{
    int64_t size_max = BULK_MESSAGE_BYTES_MAX + SEAL_BYTES;
    CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &size_max, sizeof size_max) == 0);
    if (zmq_ctx_get(zmq_context, ZMQ_IO_THREADS) >= 2) {
        uint64_t second = 2; /* a mask */
        CHECK(zmq_setsockopt(socket, ZMQ_AFFINITY, &second, sizeof second) == 0);
    }
    socket_set_int(socket, ZMQ_LINGER, 0);
    socket_set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    socket_set_int(socket, ZMQ_HEARTBEAT_IVL, HANDSHAKE_MS);
    socket_set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, 3 * HANDSHAKE_MS);
    socket_set_int(socket, ZMQ_HEARTBEAT_TTL, 4 * HANDSHAKE_MS);
    socket_set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    socket_set_int(socket, ZMQ_SNDHWM, SEND_QUEUE_MAX);
    socket_set_int(socket, ZMQ_RCVHWM, RECEIVE_QUEUE_MAX);
}

enum err_code bulk_bind(void *zmq_context, const char *host, uint16_t *port,
                        const struct door_keys *keys, void **socket, struct err *err)
{
    void *made = zmq_socket(zmq_context, ZMQ_ROUTER);
    if (!made) {
        return socket_error(err, "listen");
    }
    set_options(zmq_context, made);
    enum err_code code = socket_bind(made, host, port, keys, err);
    if (code != ERR_OK) {
        zmq_close(made);
        return code;
    }
    *socket = made;
    return ERR_OK;
}
