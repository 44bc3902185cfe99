/* Any bytes as a file of curves: blocks are found or not, their points are valid. What reads well
 * is written again and must read whole. */
#include "base/check.h"
#include "metrics/block.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct again {
    struct block block;
    bool is_full;
    uint64_t count;
};

static void take(void *owner, const struct metric *metric)
{
    struct again *again = owner;
    CHECK(metric_name_valid(metric->name, strlen(metric->name)));
    CHECK(isfinite(metric->step));
    CHECK(metric->has_step || metric->step == 0);
    again->is_full = again->is_full || !block_add(&again->block, metric);
    again->count++;
}

static void count_points(void *owner, const struct metric *metric)
{
    (void)metric;
    (*(uint64_t *)owner)++;
}

static void read_one(const uint8_t *bytes, size_t size)
{
    static struct again again;
    const struct metric_sink sink = {.take = take, .owner = &again};
    block_start(&again.block);
    again.is_full = false;
    again.count = 0;
    if (!block_read(bytes, size, &sink) || again.is_full || again.count == 0) {
        return;
    }
    uint64_t count = 0;
    const struct metric_sink counter = {.take = count_points, .owner = &count};
    size_t sealed = block_seal(&again.block);
    CHECK(block_read(again.block.bytes, sealed, &counter));
    CHECK(count == again.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *found = NULL;
    size_t found_size = 0;
    size_t before = 0;
    size_t at = 0;
    while (block_next(data, size, &at, &found, &found_size)) {
        CHECK(at > before);
        CHECK(at <= size);
        before = at;
        read_one(found, found_size);
    }
    CHECK(at >= before);
    CHECK(at <= size);
    /* The checksum hides the points from random bytes: they are also tried without one. */
    read_one(data, size);
    return 0;
}
