/* listen.h - where a server listens, and with which certificate. Private to src/http. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/str.h"
#include "http/http.h"

struct listen_place {
    int fd; /* listening; -1: none */
    bool loopback;
    char url[320];
    struct str certificate; /* PEM; empty: no TLS */
    struct str key;
};

/* Resolves, binds and listens, and reads the certificate's files. ERR_INVALID: host, certificate or
 * key cannot be used. ERR_DENIED: not loopback and no certificate. ERR_EXISTS: the port is taken.
 */
MUST_USE enum err_code listen_open(const struct http_options *options, struct listen_place *out,
                                   struct err *err);

/* Forgets the key, and closes fd unless it is -1. */
void listen_release(struct listen_place *place);

#endif
