#include "wire/wire.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <zmq.h>

/* A length of time no longer than this can be added to any clock without overflow. */
#define TIME_MS_MAX (INT64_C(1000) * 60 * 60 * 24 * 366 * 100)

bool wire_attempt_equal(const Drover__Attempt *a, const Drover__Attempt *b)
{
    return a->task == b->task && a->attempt == b->attempt && a->experiment == b->experiment &&
           a->workflow == b->workflow && a->term == b->term;
}

static bool time_is_sane(int64_t time_ms)
{
    return time_ms >= 0 && time_ms <= TIME_MS_MAX;
}

/* As the name of one folder: not empty, not hidden or special, no separator. */
static bool name_is_safe(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size <= WIRE_NAME_BYTES_MAX && name[0] != '.' && !strchr(name, '/');
}

static bool variable_is_safe(const char *name)
{
    size_t size = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return size > 0 && size <= WIRE_NAME_BYTES_MAX && name[size] == '\0' &&
           !(name[0] >= '0' && name[0] <= '9');
}

static enum err_code check_run(const Drover__Run *run, struct err *err)
{
    if (!run->id) {
        return err_set(err, ERR_INVALID, "run: no id");
    }
    if (!name_is_safe(run->experiment_name)) {
        return err_set(err, ERR_INVALID, "run: the experiment's name cannot name a folder");
    }
    if (run->n_argv == 0 || run->argv[0].len == 0) {
        return err_set(err, ERR_INVALID, "run: no program");
    }
    if (!time_is_sane(run->timeout_ms) || !time_is_sane(run->grace_ms)) {
        return err_set(err, ERR_INVALID, "run: timeout or grace out of range");
    }
    if (run->gpus > WIRE_GPUS_MAX || run->cpu_milli > WIRE_CPU_MILLI_MAX ||
        run->memory_bytes > INT64_MAX || run->log_limit_bytes > INT64_MAX) {
        return err_set(err, ERR_INVALID, "run: a need out of range");
    }
    for (size_t i = 0; i < run->n_secrets; i++) {
        if (!variable_is_safe(run->secrets[i]->name)) {
            return err_set(err, ERR_INVALID, "run: a secret's name cannot name a variable");
        }
    }
    return ERR_OK;
}

static enum err_code check_to_node(const Drover__ToNode *message, struct err *err)
{
    for (size_t i = 0; i < message->n_run; i++) {
        enum err_code code = check_run(message->run[i], err);
        if (code != ERR_OK) {
            return code;
        }
    }
    for (size_t i = 0; i < message->n_kill; i++) {
        if (!message->kill[i]->id || !time_is_sane(message->kill[i]->grace_ms)) {
            return err_set(err, ERR_INVALID, "kill: no id, or grace out of range");
        }
    }
    for (size_t i = 0; i < message->n_settled; i++) {
        if (!message->settled[i]->id) {
            return err_set(err, ERR_INVALID, "settled: no id");
        }
    }
    if (message->stop && !time_is_sane(message->stop->grace_ms)) {
        return err_set(err, ERR_INVALID, "stop: grace out of range");
    }
    return ERR_OK;
}

static enum err_code check_ended(const Drover__Ended *ended, struct err *err)
{
    if (!ended->id) {
        return err_set(err, ERR_INVALID, "ended: no id");
    }
    if (ended->outcome <= DROVER__OUTCOME__OUTCOME_NONE ||
        ended->outcome > DROVER__OUTCOME__OUTCOME_SLOT_LOST) {
        return err_set(err, ERR_INVALID, "ended: unknown outcome");
    }
    if (ended->code > 255 || ended->duration_us < 0 || ended->cpu_us < 0 ||
        ended->started_unix_ms < 0) {
        return err_set(err, ERR_INVALID, "ended: a number out of range");
    }
    return ERR_OK;
}

static enum err_code check_hello(const Drover__Hello *hello, struct err *err)
{
    if (hello->protocol != WIRE_PROTOCOL) {
        return err_set(err, ERR_INVALID, "hello: protocol %u, need %d", hello->protocol,
                       (int)WIRE_PROTOCOL);
    }
    if (!name_is_safe(hello->name) || strlen(hello->gpu_kind) > WIRE_NAME_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "hello: a name that cannot be one");
    }
    if (hello->gpus > WIRE_GPUS_MAX || hello->cpu_milli > WIRE_CPU_MILLI_MAX ||
        hello->memory_bytes > INT64_MAX || hello->disk_bytes > INT64_MAX) {
        return err_set(err, ERR_INVALID, "hello: a number out of range");
    }
    return ERR_OK;
}

static enum err_code check_to_master(const Drover__ToMaster *message, struct err *err)
{
    for (size_t i = 0; i < message->n_started; i++) {
        if (!message->started[i]->id || message->started[i]->started_unix_ms < 0) {
            return err_set(err, ERR_INVALID, "started: no id, or time out of range");
        }
    }
    for (size_t i = 0; i < message->n_ended; i++) {
        enum err_code code = check_ended(message->ended[i], err);
        if (code != ERR_OK) {
            return code;
        }
    }
    return message->hello ? check_hello(message->hello, err) : ERR_OK;
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
    enum err_code code = check_to_node(message, err);
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
    enum err_code code = check_to_master(message, err);
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
