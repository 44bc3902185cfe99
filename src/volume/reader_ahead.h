/* reader_ahead.h - what to fetch, decided from what has been asked for: pure policy.
 *
 * Three ways of reading are told apart:
 *   sequential  asks that follow one another in a container (small gaps and small steps back are
 *               fine, so several threads that share the work count as one): several pieces are
 *               read ahead, more the longer it lasts, and on into the next pack when the end of
 *               this one is reached. Up to STREAMS such readings at once.
 *   dense       asks all over a container: each miss fetches more around it, and from the fourth on
 *               the whole container is fetched, if the cache can hold all that is being read now.
 *   scattered   the same when the cache cannot hold it: little more than what is asked for, since
 *               what comes along would be gone before it is asked for; unless the last asks fell
 *               close together.
 * It does not know what is there already: the caller fetches only what is missing of a range. The
 * same calls give the same answers. One thread owns it.
 */
#ifndef VOLUME_READER_AHEAD_H
#define VOLUME_READER_AHEAD_H

#include "volume/container.h"
#include "volume/ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ahead;

struct ahead_access {
    struct container container;
    uint64_t begin, end; /* in the container */
    uint64_t size;       /* of the container; 0: unknown */
    uint64_t inode, file_offset;
};

struct ahead_want {
    struct container container;
    struct range range;
    bool passing; /* sequential: most likely read once, soon, from memory */
};

/* capacity: what the cache holds at most; memory_bytes: of fetches on their way and not yet read.
 */
struct ahead *ahead_create(uint64_t capacity, size_t memory_bytes);
void ahead_destroy(struct ahead *ahead);

/* Something is asked for; asking again for the same changes nothing. */
void ahead_note(struct ahead *ahead, const struct ahead_access *access);
/* It (noted before) is neither there nor on its way: fetch what is missing of this range around it,
 * which holds it. */
struct ahead_want ahead_miss(struct ahead *ahead, const struct ahead_access *access);
/* The next range worth reading ahead; false: none now. Each is given once. */
bool ahead_next(struct ahead *ahead, struct ahead_want *want);
/* What a fetch has shown: the container's size; 0: there is no such container. */
void ahead_learn(struct ahead *ahead, const struct container *container, uint64_t size);

#endif
