/* router.h - a server (server.h) over TCP: the owner's loop. */
#ifndef META_ROUTER_H
#define META_ROUTER_H

#include "base/err.h"
#include "meta/server.h"
#include "wire/door.h"

struct meta_router_options {
    const char *host;
    uint16_t port; /* 0: any that is free */
    const struct door_keys *keys;
    struct meta_server_options server; /* send, tell and context are set here */
    /* Called once it listens, in this thread. An error ends it. */
    enum err_code (*ready)(void *context, uint16_t port, struct err *err);
    void *context;
    int signal_fd; /* readable: end */
    bool quiet;
};

/* Serves until signal_fd is readable or the volume is lost (ERR_STALE, and others of
 * volume_trouble). The volume is borrowed; what mounts have done is not committed yet. */
MUST_USE enum err_code meta_router_run(struct volume *volume,
                                       const struct meta_router_options *options, struct err *err);

#endif
