/* Any bytes as a log: points have valid names, and cuts into pieces make no difference. The first
 * byte says how the bytes are cut. */
#include "base/check.h"
#include "base/rng.h"
#include "metrics/lines.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
    uint64_t hash;
    uint64_t count;
};

static void take(void *owner, const struct metric *metric)
{
    struct sum *sum = owner;
    double value = isnan(metric->value) ? 0 : metric->value;
    CHECK(metric_name_valid(metric->name, strlen(metric->name)));
    CHECK(!metric->has_step || isfinite(metric->step));
    sum->hash = rng_hash_bytes(sum->hash, metric->name, strlen(metric->name));
    sum->hash = rng_hash_bytes(sum->hash, &value, sizeof value);
    sum->hash = rng_hash_bytes(sum->hash, &metric->step, sizeof metric->step);
    sum->count++;
}

static struct sum run(const uint8_t *data, size_t size, size_t piece, bool patterns)
{
    struct sum sum = {0};
    const struct metric_sink sink = {.take = take, .owner = &sum};
    struct lines *lines = lines_create();
    lines_want(lines, "throughput");
    if (patterns) {
        CHECK(lines_add_pattern(lines, "x", "a * {value} b{step}", NULL) == ERR_OK);
        CHECK(lines_add_pattern(lines, NULL, "{name}={value}", NULL) == ERR_OK);
        lines_use_defaults(lines, true);
    }
    for (size_t at = 0; at < size; at += piece) {
        lines_feed(lines, data + at, piece < size - at ? piece : size - at, 0, &sink);
    }
    lines_end(lines, 0, &sink);
    lines_destroy(lines);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    bool patterns = data[0] & 1;
    struct sum whole = run(data + 1, size - 1, size, patterns);
    struct sum cut = run(data + 1, size - 1, 1 + data[0] / 2, patterns);
    CHECK(whole.count == cut.count);
    CHECK(whole.hash == cut.hash);
    return 0;
}
