/* reader_internal.h - what the files of the reader share. */
#ifndef VOLUME_READER_INTERNAL_H
#define VOLUME_READER_INTERNAL_H

#include "volume/cache_disk.h"
#include "volume/cache_memory.h"
#include "volume/reader.h"
#include "volume/reader_ahead.h"

enum {
    READER_WAITING_MAX = 256,
    READER_FAILURES_MAX = 16,
    READER_DAMAGED_MAX = 3, /* once in the cache, once on the way; then it is the store's */
};

struct fetch {
    struct object_call call;
    struct reader *reader; /* NULL: it is gone, nobody wants the bytes */
    struct container container;
    uint64_t begin, end;
    bool passing;       /* as in ahead_want */
    uint64_t needed_to; /* what somebody waits for ends here; 0: nobody does */
    char key[CONTAINER_NAME_MAX];
    struct fetch *next;
};

struct place {
    struct container container; /* kind 0: none */
    uint64_t begin, end;
};

struct waiting { /* an ask that was answered "again" */
    struct place place;
    uint64_t since;   /* progress */
    unsigned damaged; /* how often what came for it was */
};

struct failure { /* of a fetch that was needed */
    struct place place;
    uint64_t when; /* progress */
    int64_t when_ms;
    struct err err;
};

struct reader {
    struct object_store *store;
    struct cache_disk *disk; /* NULL: memory only */
    struct cache_memory *memory;
    struct cache_bodies *bodies;
    struct ahead *ahead;
    struct fetch *fetches; /* in flight */
    uint64_t fetching_bytes;
    uint64_t fetching_max; /* of reading ahead */
    uint64_t progress;     /* fetches that have ended */
    struct waiting waiting[READER_WAITING_MAX];
    size_t waiting_next, waiting_count;
    struct failure failures[READER_FAILURES_MAX];
    size_t failure_next;
    struct str scratch;
    struct reader_stats stats;
};

/* The first byte at or behind `at` that is neither in memory nor on disk; on_way: nor in flight. */
uint64_t reader_there_to(const struct reader *reader, const struct container *container,
                         uint64_t at, bool on_way);
/* Fetches what is missing of [place.begin, place.end) and needed by somebody, and what is missing
 * what is wanted (of the same container) on either side of it. */
void reader_fetch_needed(struct reader *reader, const struct place *place,
                         const struct ahead_want *want);
/* Reads ahead as far as the bounds allow. */
void reader_fetch_ahead(struct reader *reader);
/* The last failure of a fetch that the place needed and that ended after `since`; NULL: none. */
const struct err *reader_failure(const struct reader *reader, const struct place *place,
                                 uint64_t since);

#endif
