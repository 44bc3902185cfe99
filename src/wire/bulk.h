/* bulk.h - the messages of proto/bulk.proto: limits, validation, and the sockets that carry them.
 *
 * What bulk_parse_* gives has been validated once, here, and is trusted after: kinds and types are
 * known, numbers are in range, and every path is relative, without empty, "." or ".." parts, so
 * that it names something below the folder it is meant for, as long as no link is followed on the
 * way (place.h's business). A message is one frame of at most BULK_MESSAGE_BYTES_MAX.
 */
#ifndef WIRE_BULK_H
#define WIRE_BULK_H

#include "base/err.h"
#include "bulk.pb-c.h"
#include "wire/door.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BULK_PROTOCOL = 1,
    BULK_PIECE_BYTES = 256 << 10,     /* of content in one message */
    BULK_PIECE_PARTS_MAX = 1024,      /* entries in one message */
    BULK_CREDIT_BYTES = 8 << 20,      /* under way to one peer, unacknowledged */
    BULK_MESSAGE_BYTES_MAX = 1 << 20, /* larger ones are neither sent nor accepted */
    BULK_HASHES_MAX = 16 << 10,       /* objects asked for in one message */
    BULK_PATH_BYTES_MAX = 3800,       /* below its folder */
    BULK_PATH_DEPTH_MAX = 100,
    BULK_LINK_BYTES_MAX = 4095,
    BULK_ENTRIES_MAX = 2 * 1000 * 1000, /* of one tree */
    BULK_SMALL_LOG_BYTES = 64 << 10,    /* a log up to this travels in Ended.log */
    BULK_OLD_VERSIONS = 5,              /* of code, kept on a node though nobody uses them */
};

/* Drover__Attempt as a plain value. */
struct bulk_attempt {
    uint32_t workflow;
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt;
    uint32_t term;
};
void bulk_attempt_from(struct bulk_attempt *out, const Drover__Attempt *id);
void bulk_attempt_to(Drover__Attempt *out, const struct bulk_attempt *id);

/* True if path[0..size) names something below a folder: relative, no NUL, no empty, "." or ".."
 * part, bounded. */
bool bulk_path_is_safe(const void *path, size_t size);

/* ERR_INVALID is the only error. */
MUST_USE enum err_code bulk_parse_to_depot(const void *bytes, size_t size, Drover__ToDepot **out,
                                           struct err *err);
MUST_USE enum err_code bulk_parse_from_depot(const void *bytes, size_t size,
                                             Drover__FromDepot **out, struct err *err);
void bulk_free_to_depot(Drover__ToDepot *message); /* NULL does nothing */
void bulk_free_from_depot(Drover__FromDepot *message);

/* The node's side of a socket. ERR_AGAIN: not connected, or its queue is full; none waits. */
MUST_USE enum err_code bulk_send_to_depot(void *socket, const Drover__ToDepot *message,
                                          struct err *err);
MUST_USE enum err_code bulk_receive_from_depot(void *socket, Drover__FromDepot **out,
                                               struct err *err);
/* The master's side; errors as door_send. door_receive takes what comes. */
MUST_USE enum err_code bulk_send_from_depot(void *socket, const struct door_sender *to,
                                            const Drover__FromDepot *message, struct err *err);

/* As door_bind, with short queues and small messages: what one peer can make wait in memory is
 * BULK_CREDIT_BYTES and a little. The second I/O thread of the context carries them, if it has one.
 * The node's end is door_connect. */
MUST_USE enum err_code bulk_bind(void *zmq_context, const char *host, uint16_t *port,
                                 const struct door_keys *keys, void **socket, struct err *err);

#endif
