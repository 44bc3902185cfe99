/* block.h - points of curves as bytes: blocks that can be checked and read alone. Pure.
 *
 * A block is a header of BLOCK_HEADER_BYTES (a magic number, a checksum over all that follows, a
 * time, sizes) and points. A point is a byte that says how its step and value are written, the
 * name's index, the time since the point before, the step, the value. The first point of a name in
 * a block brings the name; steps and values are differences from the point of that name before.
 * Values come back bit for bit (but for the payload of a NaN): those that are short decimals, as
 * printed ones are, as the difference of the decimals, floats in four bytes, others in eight. A
 * point of a log takes five or six bytes.
 *
 * Files are sequences of blocks. A reader that meets bytes which are no whole, unharmed block looks
 * for the next place where one begins, so a torn write costs its own points only.
 */
#ifndef METRICS_BLOCK_H
#define METRICS_BLOCK_H

#include "metrics/metrics.h"

enum {
    BLOCK_HEADER_BYTES = 20,
    BLOCK_BYTES_MAX = 4096, /* with its header */
    BLOCK_NAMES_MAX = 32,
    BLOCK_POINTS_MAX = 2000,
    BLOCK_POINT_BYTES_MAX = 1 + 2 + METRIC_NAME_MAX + 10 + 10 + 10,
};

/* What the next point of a name differs from. */
struct block_name {
    char name[METRIC_NAME_MAX + 1];
    int64_t step;   /* the last whole one */
    int64_t stride; /* from the one before to it */
    int64_t digits; /* of the last decimal value */
    uint8_t scale;  /* and how many of them stand behind the point */
    uint64_t bits;  /* of the last value */
};

/* A block in the making; block_start before anything else. */
struct block {
    size_t size; /* of the points */
    size_t point_count;
    size_t name_count;
    int64_t first_ms;
    int64_t last_ms;
    struct block_name names[BLOCK_NAMES_MAX];
    uint8_t bytes[BLOCK_BYTES_MAX];
};

void block_start(struct block *block);
/* False: the block is full; seal it, start it anew, and try again. */
bool block_add(struct block *block, const struct metric *metric);
/* Fills in the header and returns the size of the whole, which begins at bytes. Not empty. */
size_t block_seal(struct block *block);

/* Finds the next whole, unharmed block at or after *at and moves *at behind it; *found is its
 * beginning, *size its size with the header. False: none; *at is then where one may begin that is
 * not whole yet, or the end. */
bool block_next(const uint8_t *bytes, size_t size, size_t *at, const uint8_t **found,
                size_t *found_size);

/* Sends the points of a block that block_next found. False: they are not what the header promises;
 * some may have been sent. */
bool block_read(const uint8_t *bytes, size_t size, const struct metric_sink *sink);

#endif
