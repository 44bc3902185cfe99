/* volume_compact.h - what the two files of compaction share. */
#ifndef VOLUME_VOLUME_COMPACT_H
#define VOLUME_VOLUME_COMPACT_H

#include "volume/volume_internal.h"

enum { COMPACT_VICTIMS_MAX = 1024 };

enum compact_state {
    COMPACT_CHOOSE,
    COMPACT_INDEX,  /* reading what the victims say of themselves */
    COMPACT_CHECK,  /* which of their extents are in use */
    COMPACT_READ,   /* those extents' bytes */
    COMPACT_FILL,   /* into new packs */
    COMPACT_UPLOAD, /* until those are stored */
    COMPACT_MOVE,
    COMPACT_DONE,
};

enum compact_step { COMPACT_GO_ON, COMPACT_WAIT, COMPACT_MISSING, COMPACT_FAILED };

struct compact_victim {
    struct engine_container record;
    struct str body; /* bytes of it, from base on */
    uint64_t base;
};

struct compact_item {
    size_t victim;
    uint64_t inode;
    struct extent old, fresh;
    bool is_placed;
};

struct volume_compact {
    enum compact_state state;
    uint64_t budget, spent;     /* bytes read */
    struct volume_order *order; /* which waits for its end; or NULL */
    bool missing_block;         /* an operation needs a block... */
    uint64_t asked_at;          /* ...asked for when this was the volume's progress */
    int reading;                /* calls in flight */
    struct compact_victim *victims;
    size_t victim_count, victim_cap;
    struct compact_item *items;
    size_t item_count, item_cap;
    size_t next, kept_items; /* of victims or items */
    struct young_pack **packs;
    size_t pack_count, pack_cap;
    struct packer *packer;
    struct container container;
    struct container *done; /* victims of earlier rounds, whatever became of them */
    size_t done_count, done_cap;
    uint8_t *scratch; /* a decoded extent */
    struct err err;
};

static inline enum compact_step compact_step_of(enum err_code code)
{
    return code == ERR_OK ? COMPACT_GO_ON : code == ERR_AGAIN ? COMPACT_MISSING : COMPACT_FAILED;
}

enum compact_order_step { COMPACT_NEW, COMPACT_RUNS, COMPACT_ENDED, COMPACT_SYNC };

void compact_round_release(struct volume_compact *compact);

/* volume_compact_read.c: the two states that read from the store. */
enum compact_step compact_index(struct volume *volume);
enum compact_step compact_read(struct volume *volume);

#endif
