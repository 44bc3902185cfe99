/* socket.h - what the sockets for messages (door) and for large transfers (bulk) have in common.
 * For this folder only.
 */
#ifndef WIRE_SOCKET_H
#define WIRE_SOCKET_H

#include "wire/door.h"

/* Why the last call of libzmq failed: ERR_AGAIN, ERR_NOT_FOUND (that connection is gone),
 * ERR_EXISTS (the port is taken), ERR_CANCELLED (the context was terminated) or ERR_IO. */
enum err_code socket_error(struct err *err, const char *what);

/* For an option that this libzmq must know, with a value that it must accept. */
void socket_set_int(void *socket, int option, int value);

bool socket_key_is_valid(const char *key);

/* tcp://HOST:PORT; an IPv6 address gets its brackets. */
void socket_endpoint(char *out, size_t out_size, const char *host, const char *port);

/* Binds a ROUTER as a CURVE server whose peers the gatekeeper vouches for, with mandatory routing.
 * host, port and errors as door_bind. */
MUST_USE enum err_code socket_bind(void *router, const char *host, uint16_t *port,
                                   const struct door_keys *keys, struct err *err);

#endif
