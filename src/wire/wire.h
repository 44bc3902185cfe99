/* wire.h - sending and receiving the messages of proto/drover.proto over a ZeroMQ socket.
 *
 * What comes out of a wire_receive_* or wire_parse_* call has been validated once, here, and is
 * trusted after: ids are present, numbers are in range, an experiment's name is safe as the name
 * of a folder, enums are known, text for people has no control characters. The contents of a
 * command (arguments, environment, folders) are not judged here: the node answers a bad one with
 * OUTCOME_NOT_STARTED, so that it is the task that fails and not the connection.
 *
 * A message is one frame of at most WIRE_MESSAGE_BYTES_MAX. Messages received are the caller's and
 * are freed with wire_free_*. Nothing here blocks on receiving.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/err.h"
#include "drover.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    WIRE_PROTOCOL = 3,                     /* Hello.protocol */
    WIRE_MESSAGE_BYTES_MAX = 4 << 20,      /* larger ones are neither sent nor accepted */
    WIRE_GPUS_MAX = 1024,                  /* of a node or a task */
    WIRE_NAME_BYTES_MAX = 200,             /* of experiments, nodes, secrets, GPU kinds */
    WIRE_CPU_MILLI_MAX = 1000 * 1000 * 10, /* ten thousand CPUs */
    WIRE_LABELS_MAX = 32,                  /* of a node */
    WIRE_LABEL_BYTES_MAX = 64,             /* printable ASCII, no spaces */
    WIRE_LOG_BYTES_MAX = 64 << 10,         /* Ended.log */
    WIRE_REASON_BYTES_MAX = 1000,          /* Bye.reason, Notice.reason, a note of Hello */
    WIRE_VOLUMES_MAX = 1100,               /* of a run: its own, and outputs of experiments */
    WIRE_STORE_BYTES_MAX = 2000,           /* an address in Volume */
};

/* These in Run.argv, env, workdir and outputs stand for folders that only the node knows. Between
 * the name and the closing byte stands Run.nonce, drawn by the master, so that no text of the
 * user's can be taken for one. */
#define WIRE_TOKEN_BYTE "\001"
#define WIRE_TOKEN_OUTPUT WIRE_TOKEN_BYTE "OUTPUT"
#define WIRE_TOKEN_CHECKPOINT WIRE_TOKEN_BYTE "CHECKPOINT"
#define WIRE_TOKEN_CODE WIRE_TOKEN_BYTE "CODE"
#define WIRE_TOKEN_OUTPUTS WIRE_TOKEN_BYTE "OUTPUTS"
#define WIRE_TOKEN_LOCAL WIRE_TOKEN_BYTE "LOCAL"
#define WIRE_TOKEN_VOLUME WIRE_TOKEN_BYTE "VOLUME." /* then its name */

/* Queues the message. ERR_RANGE: larger than WIRE_MESSAGE_BYTES_MAX (send it in parts).
 * ERR_AGAIN: the peer's queue is full. ERR_CANCELLED: the context was terminated. ERR_IO: else. */
MUST_USE enum err_code wire_send_to_node(void *socket, const Drover__ToNode *message,
                                         struct err *err);
MUST_USE enum err_code wire_send_to_master(void *socket, const Drover__ToMaster *message,
                                           struct err *err);

/* Takes the next message if one waits. ERR_AGAIN: none does. ERR_INVALID: it was not a valid
 * message, and is dropped. ERR_CANCELLED: the context was terminated. ERR_IO: else. */
MUST_USE enum err_code wire_receive_to_node(void *socket, Drover__ToNode **out, struct err *err);
MUST_USE enum err_code wire_receive_to_master(void *socket, Drover__ToMaster **out,
                                              struct err *err);

/* The same from bytes. ERR_INVALID is the only error.
 *
 * A message with a Hello of another protocol is valid, so that its sender can be told what to do:
 * of such a one only hello->protocol and hello->version are kept (the rest is as if not sent, even
 * the name is empty). Whoever takes a Hello calls wire_check_protocol first. */
MUST_USE enum err_code wire_parse_to_node(const void *bytes, size_t size, Drover__ToNode **out,
                                          struct err *err);
MUST_USE enum err_code wire_parse_to_master(const void *bytes, size_t size, Drover__ToMaster **out,
                                            struct err *err);

void wire_free_to_node(Drover__ToNode *message); /* NULL does nothing */
void wire_free_to_master(Drover__ToMaster *message);

/* ERR_UNSUPPORTED: another one than ours; the text says what to do about it, for Bye.reason. */
MUST_USE enum err_code wire_check_protocol(const Drover__Hello *hello, struct err *err);

/* "fast", "zone=a": 1 to WIRE_LABEL_BYTES_MAX bytes, printable ASCII without spaces. */
bool wire_label_is_valid(const char *label);

bool wire_attempt_equal(const Drover__Attempt *a, const Drover__Attempt *b);

#endif
