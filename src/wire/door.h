/* door.h - how master and nodes reach each other over TCP: CURVE keys, who may come in, the
 * sockets.
 *
 * Every connection is encrypted and both ends are known by their keys. The master's key is in the
 * join URL; a node makes a key of its own, kept in its work folder. Whoever knows the master's
 * public key may complete a handshake, unless its own key was denied; what it may then do is the
 * master's business: each message comes with the sender's key, vouched for by CURVE.
 */
#ifndef WIRE_DOOR_H
#define WIRE_DOOR_H

#include "base/str.h"
#include "wire/wire.h"

#include <stdint.h>

enum {
    DOOR_KEY_CHARS = 40, /* Z85 of 32 bytes */
    DOOR_ROUTE_BYTES_MAX = 255,
    DOOR_SECRET_CHARS = 64, /* hex of 32 bytes */
};

struct door_keys {
    char public_key[DOOR_KEY_CHARS + 1];
    char secret_key[DOOR_KEY_CHARS + 1];
};

/* Reads the keys in FILE, or makes them and writes FILE (mode 0600, whole or not at all, synced).
 * ERR_CORRUPT: it holds something else; ERR_DENIED: others may read it. */
MUST_USE enum err_code door_keys_load(const char *file, struct door_keys *out, struct err *err);
void door_keys_wipe(struct door_keys *keys);

/* drover://HOST:PORT?key=HEX&secret=HEX ; HOST may be a name, an IPv4 or a [IPv6] address. */
struct door_url {
    char host[256]; /* without brackets */
    uint16_t port;
    char server_key[DOOR_KEY_CHARS + 1];
    char secret[DOOR_SECRET_CHARS + 1]; /* "": none */
};
MUST_USE enum err_code door_url_parse(const char *text, struct door_url *out, struct err *err);
void door_url_add(struct str *out, const struct door_url *url);

/* Random hex. */
void door_make_secret(char out[DOOR_SECRET_CHARS + 1]);
/* In a time that does not depend on where they differ. */
bool door_secret_equal(const char *a, const char *b);

/* --- the gatekeeper: a thread that answers libzmq's ZAP requests of one context -------------- */

struct door_guard;

/* One for each context. Start it before any CURVE server socket of the context is bound. It lets
 * every key in that is not denied, and vouches for it (the User-Id of each message is the Z85 key).
 */
struct door_guard *door_guard_start(void *zmq_context);
/* Holds when it returns, for the next handshake: connections that are there go on. Of the keys
 * denied, the last 65536 are remembered. From the thread that started it. */
void door_guard_deny(struct door_guard *guard, const char *key);
/* Handshakes refused so far. */
uint64_t door_guard_refused(const struct door_guard *guard);
/* After the sockets were closed, before the context is terminated. NULL does nothing. */
void door_guard_stop(struct door_guard *guard);

/* --- the master's end: a ROUTER --------------------------------------------------------------- */

/* host: an address, "*" or "" for all of them, IPv6 too where there is any. *port: 0 for any free
 * one; gets the one bound. ERR_EXISTS: it is taken. Mandatory routing, no linger, message size and
 * handshake time bounded. */
MUST_USE enum err_code door_bind(void *zmq_context, const char *host, uint16_t *port,
                                 const struct door_keys *keys, void **socket, struct err *err);

struct door_sender {
    uint8_t route[DOOR_ROUTE_BYTES_MAX];
    size_t route_size;
    char key[DOOR_KEY_CHARS + 1];
};

/* The next message's frame, whole: ERR_AGAIN: none waits; ERR_INVALID: not in two parts, or from
 * nobody vouched for (dropped; count it). bytes are valid until the next call on this frame. */
struct door_frame; /* a reusable receive buffer */
struct door_frame *door_frame_create(void);
void door_frame_destroy(struct door_frame *frame);
MUST_USE enum err_code door_receive(void *socket, struct door_frame *frame,
                                    struct door_sender *sender, const void **bytes, size_t *size,
                                    struct err *err);

/* ERR_NOT_FOUND: that connection is gone. ERR_AGAIN: its queue is full. ERR_RANGE: larger than
 * WIRE_MESSAGE_BYTES_MAX. */
MUST_USE enum err_code door_send(void *socket, const uint8_t *route, size_t route_size,
                                 const void *bytes, size_t size, struct err *err);
MUST_USE enum err_code door_send_to_node(void *socket, const uint8_t *route, size_t route_size,
                                         const Drover__ToNode *message, struct err *err);

/* --- the node's end: a DEALER ----------------------------------------------------------------- */

struct door_address {
    const char *host;
    uint16_t port;
    const char *server_key; /* Z85 */
};

/* Connects (in the background; reconnects by itself, quickly at first). No linger. A name is looked
 * up as IPv4: whoever wants IPv6 gives the address. ERR_INVALID: no such host can be, or the keys
 * are none. */
MUST_USE enum err_code door_connect(void *zmq_context, const struct door_address *to,
                                    const struct door_keys *keys, void **socket, struct err *err);

#endif
