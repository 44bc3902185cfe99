/* Any bytes as a file of samples: blocks are found or not, rows are in order and in range. */
#include "base/check.h"
#include "master/series_block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct series_block block;
    size_t before = 0;
    for (size_t at = 0; series_block_next(data, size, &at, &block);) {
        CHECK(at > before);
        CHECK(at <= size);
        before = at;
        struct series_cursor cursor = {0};
        struct series_row row;
        int64_t last_ms = block.first_ms;
        while (series_block_row(&block, &cursor, &row)) {
            CHECK(row.at_ms >= last_ms);
            CHECK(row.at_ms <= block.last_ms);
            last_ms = row.at_ms;
        }
        CHECK(cursor.at <= block.size);
    }
    /* The checksum hides the rows from random bytes: they are also tried without one. */
    if (size > 1) {
        struct series_cursor cursor = {0};
        struct series_row row;
        block = (struct series_block){
            .rows = data + 1, .size = size - 1, .row_count = data[0], .last_ms = INT64_MAX};
        while (series_block_row(&block, &cursor, &row)) {
            CHECK(row.at_ms >= 0);
        }
        CHECK(cursor.row <= data[0]);
    }
    return 0;
}
