/* volume_world.h - for volume_model_test.c: a shelf of objects, the plainest model of what a volume
 * on it holds, and stores that die or fall asleep at a chosen call.
 *
 * The model is a list of states. A state is what each of a few dozen paths holds; every change
 * makes a new one. What is found after a crash must be exactly one of the states since the last
 * sync. */
#ifndef VOLUME_VOLUME_WORLD_H
#define VOLUME_VOLUME_WORLD_H

#include "base/rng.h"
#include "object/object.h"
#include "volume/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_FOLDERS = 3, WORLD_NAMES = 4, WORLD_SLOTS = WORLD_FOLDERS * WORLD_NAMES };
enum { WORLD_SNAPS = 6, WORLD_READERS = 3, WORLD_GENERATIONS = 64 };

struct blob {
    uint8_t *bytes;
    size_t size;
};

struct state {
    int files[WORLD_SLOTS]; /* index of a blob; -1: no such file */
    uint32_t held;          /* bits: new files that only their owner sees, and no commit has */
};

struct history {
    struct state *states;
    size_t count, cap;
    size_t synced; /* index of the newest state that is surely durable */
};

struct world_snap {
    bool exists;
    bool unsure; /* its maker died meanwhile */
    bool seen;
    char name[16];
    struct state state;
};

struct world;

/* A store that ends at its n-th call. */
enum fate {
    FATE_LIVE,
    FATE_DIE,       /* that call and all later ones are never carried out */
    FATE_DIE_AFTER, /* that call is carried out, its reply lost */
    FATE_NAP,       /* others act before that call is carried out */
    FATE_NAP_AFTER, /* others act after it, before its reply */
};
struct mortal {
    struct world *world;
    enum fate fate;
    int64_t calls_left;
    bool is_spared; /* nothing happens to it now: the model is looking */
    bool is_dead;
    bool has_napped;
    void (*nap)(struct world *world);
};
struct world_reader {
    struct volume *volume;
    struct mortal mortal; /* naps while it opens */
    struct state state;
};

struct world {
    uint64_t seed;
    struct rng rng;
    struct object_shelf *shelf;
    struct object_store *side; /* looks at the shelf without faults */
    struct blob *blobs;
    size_t blob_count, blob_cap;
    struct history history;
    struct world_snap snaps[WORLD_SNAPS];
    struct world_reader *readers[WORLD_READERS]; /* NULL: none */
    int64_t now_ms;
    uint64_t generation;               /* grows with each owner */
    size_t settled[WORLD_GENERATIONS]; /* by generation: the state that the next owner found */
    unsigned snap_number;
    int depth;    /* of naps within naps */
    bool is_told; /* TRACE=1: what happens is printed */
};

void world_tell(const struct world *world, const char *format, ...) PRINTF_LIKE(2, 3);

void world_create(struct world *world, uint64_t seed);
void world_destroy(struct world *world);
int64_t world_now(void *context);

int world_blob(struct world *world, const void *bytes, size_t size);
struct state *world_now_state(struct world *world);
/* A new state after the newest, which the caller changes. */
struct state *world_step(struct world *world);
/* What others see of it: no files that are held. */
struct state state_shown(const struct state *state);

/* Reads everything of the volume and compares; the first difference is in `why`. */
bool world_matches(struct world *world, struct volume *volume, const struct state *state,
                   struct err *why);
void world_check(struct world *world, struct volume *volume, const struct state *state,
                 const char *what);
/* After an owner's end: which state since the last sync is it? Becomes the newest, and synced. */
size_t world_settle(struct world *world, struct volume *volume);

/* Takes ownership of inner; *mortal is the caller's and outlives it. */
struct object_store *mortal_open(struct object_store *inner, struct mortal *mortal);
/* The world's shelf; for some seeds an unreliable one, and the patience to live with it. */
struct object_store *world_open_store(struct world *world, struct mortal *mortal);

#endif
