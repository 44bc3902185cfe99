/* series_block.h - samples as bytes: blocks that can be checked and read alone. Pure.
 *
 * A block is a header of SERIES_HEADER_BYTES (a magic number, sizes, the times of its first and
 * last sample, a checksum over all of it) and rows. A row is a varint of the time since the row
 * before, a byte that says which values changed, and the changed ones as zigzag varints of the
 * difference in code. A value's code (series_code) has nine significant bits, so that noise costs
 * one or two bytes. The first row of a block differs from nothing: from zeros.
 *
 * Files are sequences of blocks. A reader that meets bytes which are no whole, unharmed block looks
 * for the next place where one begins.
 */
#ifndef MASTER_SERIES_BLOCK_H
#define MASTER_SERIES_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SERIES_COLUMNS = 8,
    SERIES_HEADER_BYTES = 28,
    SERIES_ROW_BYTES_MAX = 10 + 1 + SERIES_COLUMNS * 3,
    SERIES_BLOCK_ROWS_MAX = 255,
    SERIES_TIME_UNIT_MS = 100,
};

struct series_row {
    int64_t at_ms; /* a multiple of SERIES_TIME_UNIT_MS, >= 0 */
    uint64_t values[SERIES_COLUMNS];
};

/* Values to codes, rounding down to nine bits; and back, to the middle of what rounds to it. */
uint32_t series_code(uint64_t value);
uint64_t series_value(uint32_t code);

/* A block in the making. The caller zeroes it; bytes below SERIES_HEADER_BYTES are the header's. */
enum { SERIES_BUILD_BYTES = 320 };
struct series_build {
    int64_t first_ms;
    int64_t last_ms;
    uint32_t codes[SERIES_COLUMNS]; /* of the last row */
    uint16_t size;                  /* of the rows */
    uint8_t rows;
    uint8_t bytes[SERIES_BUILD_BYTES];
};

/* Adds a row, later than the last. False: the block is full; seal it, zero it, and try again. */
bool series_build_add(struct series_build *build, const struct series_row *row);
/* Fills in the header and returns the size of the whole block, which begins at bytes. Not empty.
 * The block may be added to and sealed again. `is_average`: its rows are averages over a minute. */
size_t series_build_seal(struct series_build *build, bool is_average);

/* A block as found in a file. */
struct series_block {
    const uint8_t *rows;
    size_t size;
    size_t row_count;
    int64_t first_ms;
    int64_t last_ms;
    bool is_average;
};

/* Finds the next whole, unharmed block at or after *at, and moves *at behind it. False: none. */
bool series_block_next(const uint8_t *bytes, size_t size, size_t *at, struct series_block *out);

/* Where reading a block stands; zeroed at its beginning. */
struct series_cursor {
    size_t at;
    size_t row;
    int64_t at_ms;
    uint32_t codes[SERIES_COLUMNS];
};
/* The next row. False: no more, or the rows are not what the header promises. */
bool series_block_row(const struct series_block *block, struct series_cursor *cursor,
                      struct series_row *out);

#endif
