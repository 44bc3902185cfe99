/* map.h - a volume's metadata: an ordered map of byte strings in memory and in immutable runs.
 *
 * The newest changes are in a table in memory. Below it lie runs: objects of sorted blocks, each
 * compressed and checksummed, with an index of the blocks' first keys. Level 0 holds tables as they
 * were written, newest first, whose keys may overlap; each level below holds runs of disjoint key
 * ranges and up to MAP_LEVEL_FACTOR times the bytes of the one above. A lookup asks the table, the
 * runs of level 0, then one run of each level; a deleted key is a tombstone that hides what lies
 * below. Runs of a level that has grown too large are merged into the next one, a few at a time, so
 * a change is rewritten a bounded number of times and a merge holds little in memory. The memory of
 * a map depends on the table's limit and the block cache's, not on the number of keys; the indexes
 * take about 1/450 of the metadata's size. Runs of levels 0 and 1 also have filters in memory, 10
 * to 15 MB in all, so that a lookup fetches blocks of the levels below those only, one of each.
 *
 * Pure code: it does no I/O. What it needs from a run it asks for: a call that needs a block which
 * is not in the cache returns ERR_AGAIN, changes nothing, and map_wanted says which range of which
 * run to fetch; the caller gives the bytes to map_supply and calls again. So an operation is a
 * function that may be run from its beginning any number of times until it no longer needs
 * anything. One thread owns a map.
 */
#ifndef VOLUME_MAP_H
#define VOLUME_MAP_H

#include "base/err.h"
#include "base/str.h"
#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAP_KEY_MAX = 512,
    MAP_VALUE_MAX = 1 << 20,
    MAP_BLOCK_BYTES = 32 << 10, /* before compression, about */
    MAP_RUN_BYTES = 32 << 20,   /* of a run that a merge writes, about */
    MAP_LEVELS = 6,
    MAP_LEVEL_ZERO_MAX = 4,          /* runs of level 0 before they ought to be merged */
    MAP_LEVEL_ONE_BYTES = 128 << 20, /* of level 1 before it overflows into level 2 */
    MAP_LEVEL_FACTOR = 10,
    MAP_RUNS_MAX = 4096,
};

struct map;

struct map_slice {
    const uint8_t *bytes; /* NULL: absent */
    size_t size;
};

/* cache_bytes bounds the decoded blocks kept; a call never needs more than it at once (at least
 * a few dozen blocks are kept, whatever the bound says). */
struct map *map_create(size_t cache_bytes);
void map_destroy(struct map *map);

/* The value of key; it stays valid until the next change or map_supply. ERR_NOT_FOUND, ERR_AGAIN,
 * ERR_CORRUPT (a block is damaged: it was dropped, so that asking again fetches it anew). */
MUST_USE enum err_code map_get(struct map *map, const void *key, size_t key_size,
                               struct map_slice *value, struct err *err);

/* Calls each for keys from `from` on (inclusive) while they begin with prefix and each returns
 * true, in byte order; slices are borrowed for the call, which must not use the map. ERR_AGAIN: the
 * keys so far have been given; go on from behind the last one. Blocks ahead are asked for too. */
struct map_range {
    struct map_slice prefix;
    struct map_slice from; /* bytes NULL: from the prefix itself */
};
typedef bool (*map_each_fn)(void *context, struct map_slice key, struct map_slice value);
MUST_USE enum err_code map_scan(struct map *map, const struct map_range *range, map_each_fn each,
                                void *context, struct err *err);

/* Changes: to the table only, at once. */
void map_put(struct map *map, const void *key, size_t key_size, const void *value, size_t size);
void map_delete(struct map *map, const void *key, size_t key_size);
size_t map_table_bytes(const struct map *map); /* memory of the table: when to checkpoint */
size_t map_table_count(const struct map *map);

struct map_memory { /* bytes */
    size_t tables;  /* the frozen one included */
    size_t indexes; /* of runs, filters included */
    size_t filters;
    size_t cache; /* decoded blocks */
};
void map_memory(const struct map *map, struct map_memory *out);

/* What to fetch: up to max ranges that calls have missed since the last map_wanted (or since runs
 * came or went); those needed come first, others are read ahead. Each is one block or a few that
 * follow each other, 256 KiB or one block at most, and may be asked for again while it is being
 * fetched. Calls that do not depend on each other may all be made before fetching what they miss
 * together. Returns how many. */
struct map_want {
    struct container run;
    uint64_t offset;
    uint32_t size;
};
size_t map_wanted(struct map *map, struct map_want *out, size_t max);
/* The bytes of a want. ERR_CORRUPT: some are not that run's: its other blocks are taken, and the
 * damaged will be asked for again. Unknown runs are ignored. */
MUST_USE enum err_code map_supply(struct map *map, const struct map_want *want, const void *bytes,
                                  struct err *err);

/* Runs. ---------------------------------------------------------------------------------------- */

struct map_run { /* what a checkpoint says of a run */
    struct container container;
    uint32_t level;
    uint64_t size;         /* of the object */
    uint64_t index_offset; /* its index, from here to the end */
    uint64_t index_checksum;
    uint64_t keys; /* tombstones included */
};

/* Adds a run while a checkpoint is loaded (level 0: the newest first). index: the bytes from
 * index_offset to the end. ERR_CORRUPT: not that index, or keys overlap within a level.
 * ERR_RANGE: MAP_RUNS_MAX are there, or no such level. */
MUST_USE enum err_code map_add_run(struct map *map, const struct map_run *run, const void *index,
                                   size_t index_size, struct err *err);
/* By level, within level 0 newest first, within others by key. Returns how many there are; writes
 * up to max of them. */
size_t map_runs(const struct map *map, struct map_run *out, size_t max);

/* A checkpoint. The table is frozen: new changes go to a new one above it, lookups see both.
 * ERR_EXISTS: one is frozen already. */
MUST_USE enum err_code map_freeze(struct map *map, struct err *err);
/* The frozen table as a run object in out; the caller has set run->container, this sets the rest.
 */
void map_write_frozen(struct map *map, struct map_run *run, struct str *out);
/* The same a few milliseconds at a time, for a loop that serves others meanwhile: false: call again
 * with the same run and out, which mean nothing before it is true. */
bool map_write_frozen_part(struct map *map, struct map_run *run, struct str *out);
/* The object is stored: the run takes the frozen table's place, as the newest of level 0. */
void map_thaw(struct map *map, const struct map_run *run, const struct str *object);
/* It could not be stored: the frozen table's changes go back under the newer ones. */
void map_unfreeze(struct map *map);

/* Merging. A merge reads its runs block by block and writes new ones into the level below; it works
 * on what it copied at its creation, so another thread than the map's may run it. While it runs,
 * the map may take checkpoints, but no second merge is begun. */
struct map_merge;
enum map_merge_state { MAP_MERGE_NEEDS, MAP_MERGE_OUTPUT, MAP_MERGE_DONE };

bool map_merge_is_due(const struct map *map);
/* NULL: there is nothing to merge. all: everything into one level (tests, `fsck`). New runs are
 * numbered from *next_number on, which is advanced. */
struct map_merge *map_merge_create(const struct map *map, bool all, uint32_t term,
                                   uint64_t *next_number);
void map_merge_destroy(struct map_merge *merge);
/* Goes on for a few milliseconds (about 512 KiB of decoded blocks) or as far as it can. NEEDS:
 * supply what map_merge_wanted names, if anything, then step again: with nothing wanted it only
 * gives way to others. OUTPUT: store `out` (which is emptied first) as run->container, then step
 * again. DONE: apply it. ERR_CORRUPT: a run is damaged; give the merge up. */
MUST_USE enum err_code map_merge_step(struct map_merge *merge, enum map_merge_state *state,
                                      struct map_run *run, struct str *out, struct err *err);
size_t map_merge_wanted(struct map_merge *merge, struct map_want *out, size_t max);
MUST_USE enum err_code map_merge_supply(struct map_merge *merge, const struct map_want *want,
                                        const void *bytes, struct err *err);
/* A finished merge: its results replace what it read. A run of which nothing had to change keeps
 * its object and only changes its level. The objects of runs that map_runs no longer names are the
 * caller's to forget, once a checkpoint that does not name them is stored. */
void map_merge_apply(struct map *map, struct map_merge *merge);

#endif
