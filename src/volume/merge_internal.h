/* merge_internal.h - what the parts of a merge share: map_merge.c steps, merge_pick.c chooses what
 * is merged, merge_source.c reads it. */
#ifndef VOLUME_MERGE_INTERNAL_H
#define VOLUME_MERGE_INTERNAL_H

#include "volume/map_internal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One sequence of rising keys: a run of level 0, or some runs of another level. Of equal keys the
 * one of the source with the lowest rank counts. */
struct merge_source {
    struct map_slice key, value; /* where it is; value only if it has entered the run */
    size_t rank;
    struct run **runs; /* copies, owned */
    size_t run_count, run_cap;
    size_t run_at;
    uint32_t block_at;
    bool entered;       /* false: before the first block of a run, key being the run's first */
    struct block block; /* decoded, owned */
    struct block_cursor cursor;
    struct str stored; /* what was fetched: blocks stored_first to stored_end of the run */
    uint32_t stored_first, stored_end;
};

struct merge_result { /* in the order of keys */
    struct run *made; /* NULL: `moved` is taken as it is */
    struct container moved;
};

struct map_merge {
    uint32_t term;
    uint64_t next_number, number_end;
    uint32_t target; /* level */
    bool drops;      /* nothing lies below: tombstones have done their work */
    bool moves;      /* runs that need no change are taken as they are */
    uint64_t run_bytes;
    size_t fetch_bytes; /* at once, of one source */
    struct merge_source *sources;
    size_t source_count, source_cap;
    struct merge_source **order; /* those that have not ended, by key */
    size_t order_count;
    bool waiting;                /* order[0] is between blocks */
    struct run_builder *builder; /* without keys: nothing is being written */
    size_t last_size;
    bool any; /* last is the key that was written or dropped last */
    uint8_t last[MAP_KEY_MAX];
    struct merge_result *results;
    size_t result_count, result_cap;
    struct container *inputs;
    size_t input_count, input_cap;
    struct ZSTD_DCtx_s *zstd;
    bool done;
};

/* Chooses what to merge and fills in target, drops, moves, sources and inputs; false: nothing. */
bool merge_pick(struct map_merge *merge, const struct map *map, bool all);
bool merge_pick_is_due(const struct map *map);

struct run *merge_source_run(const struct merge_source *source); /* the one it is in */
/* Decodes the block it is at, if that has been fetched: *entered, and *work grows by its bytes.
 * ERR_CORRUPT. */
MUST_USE enum err_code merge_source_enter(struct map_merge *merge, struct merge_source *source,
                                          bool *entered, size_t *work, struct err *err);
/* To the run behind the present one; false: there is none. */
bool merge_source_next_run(struct merge_source *source);
/* What it would like to have fetched, if anything. */
bool merge_source_wants(const struct map_merge *merge, const struct merge_source *source,
                        struct map_want *out);
/* ERR_CORRUPT: damaged. Bytes that are not what it waits for are ignored. */
MUST_USE enum err_code merge_source_supply(struct merge_source *source, const struct map_want *want,
                                           const void *bytes, struct err *err);
void merge_source_release(struct merge_source *source);

#endif
