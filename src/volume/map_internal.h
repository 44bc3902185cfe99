/* map_internal.h - what the parts of the map share: map.c, map_runs.c, map_want.c, map_scan.c and
 * map_merge.c. */
#ifndef VOLUME_MAP_INTERNAL_H
#define VOLUME_MAP_INTERNAL_H

#include "volume/block_cache.h"
#include "volume/map.h"
#include "volume/run.h"
#include "volume/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAP_WANTS_MAX = 128,
    MAP_WANT_BYTES = 256 << 10, /* of one want, about */
    MAP_AHEAD_BYTES = 1 << 20,  /* read ahead of one run */
};

struct map_level {
    struct run **runs; /* owned. Level 0: the newest first; others: by key */
    size_t count, cap;
};

struct map_missed { /* blocks that were not there */
    struct run *run;
    uint32_t first, count;
};

struct map_writing; /* the frozen table becoming a run, map_runs.c */
struct map_source;  /* of a scan, map_scan.c */

/* A stretch that holds deleted keys only: from one key to another, both included. A scan that had
 * to stop within it goes on behind it, however much longer it is than the cache. */
struct map_barren {
    bool is_known;
    size_t from_size, to_size;
    uint8_t from[MAP_KEY_MAX], to[MAP_KEY_MAX + 1]; /* `to` has room for its successor */
};

struct map {
    struct table *table;
    struct table *frozen; /* NULL: none is */
    struct map_writing *writing;
    struct map_level levels[MAP_LEVELS];
    struct block_cache *cache;
    struct ZSTD_DCtx_s *zstd;
    struct map_missed missed[MAP_WANTS_MAX];
    size_t missed_count;
    size_t needed_count; /* of them: at the front, not just read ahead */
    struct map_source *sources;
    struct map_source **order;
    size_t source_cap;
    struct map_barren barren;
    size_t block_bytes; /* map.h's sizes; tests make them small */
    uint64_t run_bytes;
    uint64_t level_one_bytes;
};

/* The block, or NULL: it is missed. ahead: how many blocks to ask for if nothing is known of the
 * reading of this run so far. prefix: no key beyond those that begin with it will be asked for. */
struct map_ahead {
    uint32_t count;
    struct map_slice prefix;
};
const struct block *map_block(struct map *map, struct run *run, uint32_t index,
                              const struct map_ahead *ahead);

/* True: all keys from key on are above all those that begin with prefix. */
bool map_is_beyond(struct map_slice key, struct map_slice prefix);

/* Whether run holds keys within [first, last]. */
bool run_overlaps(const struct run *run, struct map_slice first, struct map_slice last);
/* The first run of a level other than 0 that does not end below key. */
size_t map_level_find(const struct map_level *level, struct map_slice key);
uint64_t map_level_bytes(const struct map_level *level);

/* Puts a run into its level, before others of level 0 or by its keys; the run is the map's. */
void map_insert_run(struct map *map, struct run *run);
/* Takes it out; it is the caller's, and its blocks have left the cache if drop is set. */
struct run *map_remove_run(struct map *map, const struct container *container, bool drop);
/* To be called when runs have come or gone. */
void map_runs_changed(struct map *map);
void map_writing_destroy(struct map_writing *writing);

#endif
