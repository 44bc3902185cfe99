#include "wire/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { BACKLOG = 1024 }; /* hundreds of nodes may connect in the same instant */

enum err_code socket_error(struct err *err, const char *what)
{
    int why = zmq_errno();
    if (why == EAGAIN) {
        return err_set(err, ERR_AGAIN, "%s: not now", what);
    }
    if (why == EHOSTUNREACH) {
        return err_set(err, ERR_NOT_FOUND, "%s: that connection is gone", what);
    }
    if (why == EADDRINUSE) {
        return err_set(err, ERR_EXISTS, "%s: the port is taken", what);
    }
    enum err_code code = why == ETERM ? ERR_CANCELLED : ERR_IO;
    return err_set(err, code, "%s: %s", what, zmq_strerror(why));
}

void socket_set_int(void *socket, int option, int value)
{
    CHECK(zmq_setsockopt(socket, option, &value, sizeof value) == 0);
}

bool socket_key_is_valid(const char *key)
{
    uint8_t bytes[32];
    bool good = strlen(key) == DOOR_KEY_CHARS && zmq_z85_decode(bytes, key);
    explicit_bzero(bytes, sizeof bytes);
    return good;
}

static uint16_t bound_port(void *socket)
{
    char endpoint[512];
    size_t size = sizeof endpoint;
    CHECK(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
    const char *colon = strrchr(endpoint, ':');
    CHECK(colon);
    unsigned long port = strtoul(colon + 1, NULL, 10);
    CHECK(port > 0 && port <= UINT16_MAX);
    return (uint16_t)port;
}

void socket_endpoint(char *out, size_t out_size, const char *host, const char *port)
{
    bool in_brackets = strchr(host, ':') && host[0] != '[';
    snprintf(out, out_size, "tcp://%s%s%s:%s", in_brackets ? "[" : "", host, in_brackets ? "]" : "",
             port);
}

enum err_code socket_bind(void *router, const char *host, uint16_t *port,
                          const struct door_keys *keys, struct err *err)
{
    bool is_any = host[0] == '\0' || strcmp(host, "*") == 0;
    char port_text[16];
    char endpoint[320];
    snprintf(port_text, sizeof port_text, "%u", (unsigned)*port);
    socket_endpoint(endpoint, sizeof endpoint, is_any ? "*" : host, *port ? port_text : "*");
    if (strlen(host) > 255 || !socket_key_is_valid(keys->secret_key)) {
        return err_set(err, ERR_INVALID, "listen: no such host, or no keys");
    }
    socket_set_int(router, ZMQ_BACKLOG, BACKLOG);
    socket_set_int(router, ZMQ_ROUTER_MANDATORY, 1);
    socket_set_int(router, ZMQ_CURVE_SERVER, 1);
    CHECK(zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, keys->secret_key, DOOR_KEY_CHARS + 1) == 0);
    /* Without a gatekeeper libzmq lets everybody in, but vouches for nobody: door_receive drops
     * what they say. */
    CHECK(zmq_setsockopt(router, ZMQ_ZAP_DOMAIN, "drover", strlen("drover")) == 0);
    /* "*" is both kinds of address where there is IPv6, and 0.0.0.0 where there is not. */
    socket_set_int(router, ZMQ_IPV6, is_any || strchr(host, ':') != NULL);
    if (zmq_bind(router, endpoint) != 0) {
        char what[336];
        snprintf(what, sizeof what, "listen on %s", endpoint);
        return socket_error(err, what);
    }
    *port = bound_port(router);
    return ERR_OK;
}
