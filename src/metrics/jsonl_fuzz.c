/* Any bytes as JSON lines, strict and as Python prints dictionaries; cut into pieces too. */
#include "base/check.h"
#include "metrics/jsonl.h"
#include "metrics/object.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(void *owner, const struct metric *metric)
{
    uint64_t *count = owner;
    CHECK(metric_name_valid(metric->name, strlen(metric->name)));
    CHECK(isfinite(metric->step));
    (*count)++;
}

static uint64_t run(const uint8_t *data, size_t size, size_t piece)
{
    uint64_t count = 0;
    const struct metric_sink sink = {.take = take, .owner = &count};
    struct jsonl *jsonl = jsonl_create();
    for (size_t at = 0; at < size; at += piece) {
        jsonl_feed(jsonl, data + at, piece < size - at ? piece : size - at, 0, &sink);
    }
    jsonl_end(jsonl, 0, &sink);
    count = count * 1000 + jsonl_faults(jsonl).lines;
    jsonl_destroy(jsonl);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record record;
    struct object_about about;
    record_clear(&record);
    if (object_read((const char *)data, size, true, &record, &about)) {
        CHECK(record.count <= RECORD_ITEMS_MAX);
        CHECK(isfinite(record.step));
        CHECK(isfinite(record.epoch));
    }
    uint64_t whole = run(data, size, size > 0 ? size : 1);
    CHECK(whole == run(data, size, 1 + (size > 0 ? data[0] % 16 : 0)));
    return 0;
}
