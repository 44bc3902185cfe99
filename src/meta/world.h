/* world.h - tests: an owner and its mounts in one thread, on a shelf of memory, with a network that
 * loses what is on its way. */
#ifndef META_WORLD_H
#define META_WORLD_H

#include "base/rng.h"
#include "meta/link.h"
#include "meta/server.h"

enum { WORLD_MOUNTS = 3, WORLD_LEASE_MS = 3000 };

struct world_mail {
    struct str bytes;
    struct world_mail *next;
};

struct world_mount {
    struct world *world;
    struct meta_link *link;
    struct door_sender sender;
    struct world_mail *up, *down; /* on their way, oldest first */
    bool is_cut;                  /* nothing goes through */
    bool is_deaf;                 /* what it is told to forget is lost, all else is not */
    bool is_frozen;               /* it does not run; what is sent to it waits */
};

struct world {
    struct object_shelf *shelf;
    struct volume *volume;
    struct meta_server *server; /* NULL: dead */
    struct world_mount mounts[WORLD_MOUNTS];
    size_t mount_count;
    int64_t now_ms;
    size_t grants_max;
    struct rng rng;
};

void world_begin(struct world *world, size_t mounts, uint64_t seed);
void world_end(struct world *world);
void world_join(struct world *world, size_t mount); /* a new mount */
void world_leave(struct world *world, size_t mount, bool says_bye);
void world_lose(struct world *world,
                size_t mount);        /* all that is on its way, but for a beginning */
void world_kill(struct world *world); /* the owner */
void world_revive(struct world *world);
/* Some time passes and mail arrives. */
void world_step(struct world *world);
/* Until the call is answered; its answer, which stays the call's. Fails the test after a while. */
const Drover__MetaAnswer *world_wait(struct world *world, struct meta_call *call);
/* Asks and waits: the code; *posix and *inode may be NULL. */
enum err_code world_do(struct world *world, size_t mount, const Drover__MetaOp *op, int *posix,
                       uint64_t *inode);

/* Ops, by root. Texts are borrowed. */
Drover__MetaOp world_op(Drover__MetaVerb verb, uint64_t inode, const char *name);

#endif
