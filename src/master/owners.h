/* owners.h - who owns the volumes that tasks write to: `drover meta` processes beside the server.
 *
 * A volume has one owner. So that tasks on many nodes can write to one, the server starts an owner
 * for each, and tells nodes where it is and the secret it wants; they mount it through it. Owners
 * keep their key, port and secret in FOLDER/HASH and die with the server (they store everything
 * first); the next server starts them again at the same place, and mounts go on. One that fails is
 * started again, less and less eagerly. One that nobody has needed for a while ends.
 *
 * Private to src/master; used by the loop's thread. Times are clock_mono_ms.
 */
#ifndef MASTER_OWNERS_H
#define MASTER_OWNERS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { OWNERS_MAX = 256 };

struct owners;

struct owners_options {
    const char *folder;      /* borrowed, as are the others */
    const char *listen_host; /* "" or "*": everywhere */
    const char *public_host; /* as nodes know this machine */
    uint16_t port;           /* the first to be tried, and those behind it; 0: any */
    void (*note)(void *context, const char *text); /* something went wrong */
    void *context;
};

struct owners_volume { /* as in Drover__Volume */
    const char *store, *endpoint, *region, *addressing;
};

struct owners *owners_create(const struct owners_options *options);
/* Ends all of them once they have stored everything; waits a while for that. NULL does nothing. */
void owners_destroy(struct owners *owners);

/* The volume is needed, now and for the next minute: its owner is started if it does not run. */
void owners_need(struct owners *owners, const struct owners_volume *volume);
/* What a node is told of it: drover://..., with the secret; borrowed while it is needed. NULL: no
 * owner can be had; err says why. */
const char *owners_url(const struct owners *owners, const struct owners_volume *volume,
                       struct err *err);
/* A node says that a volume could not be mounted: why, if it is because there is no owner (the node
 * may have been told of it before that was known); else the text itself. */
const char *owners_explain(const struct owners *owners, const char *text);
/* Once a second. */
void owners_tick(struct owners *owners);

#endif
