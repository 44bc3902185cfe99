/* run.h - one sorted, immutable object of metadata: its blocks, its index, its filter.
 *
 * An object is blocks (block.h) one behind the other, then the index: a header (magic, which run
 * this is, counts, the first and last key), for each block its stored size and the shortest key
 * that is above the previous block's last and not above its own first, and then, in runs of the
 * upper levels, a filter: lines of 64 bytes, about ten bits for each key, all of a key's bits in
 * one line. A key that the filter does not know (all but one or two in a hundred of those that are
 * not in the run) is not looked for, so a lookup fetches blocks of hardly more than one run. The
 * lowest levels have none, because there it would take more memory than it is worth: nearly every
 * key is there.
 *
 * run_create checks what it is given from end to end; run_load checks a block, also against the
 * index: what they accept may be relied on. Pure code.
 */
#ifndef VOLUME_RUN_H
#define VOLUME_RUN_H

#include "base/err.h"
#include "base/str.h"
#include "volume/block.h"
#include "volume/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run {
    struct map_run info;
    uint32_t block_count;
    uint32_t filter_lines; /* 0: no filter */
    uint32_t *offsets;     /* of the blocks, and of their end */
    uint32_t *key_ends;    /* in keys: where each block's least key ends and the next begins */
    uint8_t *keys;
    uint8_t *filter;
    struct map_slice first, last; /* keys, owned */
    /* The map's own: */
    uint32_t *slots;    /* of each block in the block cache; 0: not there */
    uint32_t ahead_end; /* reading ahead: the block behind the last range asked for */
    uint32_t ahead_begin;
};

/* The levels whose runs have a filter. */
static inline bool run_has_filter(uint32_t level)
{
    return level <= 1;
}

/* index: the bytes of the object from info->index_offset on. The filter is kept only at levels that
 * have one. ERR_CORRUPT: it is not the index of that run. */
MUST_USE enum err_code run_create(const struct map_run *info, const void *index, size_t size,
                                  struct run **out, struct err *err);
/* The same run without the map's own members and without the filter. */
struct run *run_copy(const struct run *run);
void run_destroy(struct run *run); /* NULL does nothing */
void run_drop_filter(struct run *run);
size_t run_bytes(const struct run *run); /* memory */
size_t run_filter_bytes(const struct run *run);

uint64_t run_hash(struct map_slice key);                 /* for run_may_hold */
bool run_may_hold(const struct run *run, uint64_t hash); /* false: the key is not in it */
/* The block that key is in, if it is in the run; run->first <= key. */
uint32_t run_block_of(const struct run *run, struct map_slice key);
struct map_slice run_block_key(const struct run *run, uint32_t index); /* not above its first */
static inline uint32_t run_block_size(const struct run *run, uint32_t index)
{
    return run->offsets[index + 1] - run->offsets[index];
}
/* The block that begins at offset; block_count: none does. */
uint32_t run_block_at(const struct run *run, uint64_t offset);

/* Checks the stored bytes of a block (run_block_size of them) and decodes them into *out, whose
 * bytes the caller frees. ERR_CORRUPT. */
MUST_USE enum err_code run_load(const struct run *run, uint32_t index, const void *stored,
                                struct ZSTD_DCtx_s *zstd, struct block *out, struct err *err);
/* Only the checksum. */
MUST_USE enum err_code run_verify(const struct run *run, uint32_t index, const void *stored,
                                  struct err *err);

/* Building: keys in rising order, value.bytes NULL: deleted. block_bytes: MAP_BLOCK_BYTES. */
struct run_builder;
struct run_builder *run_builder_create(const struct container *container, uint32_t level,
                                       size_t block_bytes);
/* Makes room for an object of so many bytes, so that growing will not copy it. */
void run_builder_reserve(struct run_builder *builder, size_t bytes);
void run_builder_restart(struct run_builder *builder, const struct container *container);
void run_builder_destroy(struct run_builder *builder);
void run_builder_add(struct run_builder *builder, struct map_slice key, struct map_slice value);
size_t run_builder_size(const struct run_builder *builder); /* stored bytes so far, about */
uint64_t run_builder_keys(const struct run_builder *builder);
/* Keeps copies of the decoded blocks, the first of them up to so many bytes: run_builder_kept is
 * one of them, NULL: none. Who takes it (sets its bytes NULL) frees it. */
void run_builder_keep(struct run_builder *builder, size_t bytes_max);
struct block *run_builder_kept(struct run_builder *builder, uint32_t index);

/* A part of the work of ending the run, so that the end itself is short: false: there is more. No
 * key is added any more. */
bool run_builder_prepare(struct run_builder *builder);
/* The object, which takes out's place; all of *info is set. The builder is good for another run
 * after run_builder_restart (out's old memory and the builder's own serve again). */
void run_builder_finish(struct run_builder *builder, struct map_run *info, struct str *out);

#endif
