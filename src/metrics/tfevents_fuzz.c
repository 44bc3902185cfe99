/* Any bytes as an event file; as one event, since the checksums hide events from random bytes; and
 * as events in whole records, behind a length in the first byte. */
#include "base/check.h"
#include "base/str.h"
#include "metrics/crc32c.h"
#include "metrics/tfevents.h"

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

static uint64_t run(const void *data, size_t size, size_t piece)
{
    uint64_t count = 0;
    const struct metric_sink sink = {.take = take, .owner = &count};
    struct tfevents *events = tfevents_create();
    enum err_code code = ERR_OK;
    for (size_t at = 0; at < size; at += piece) {
        code = tfevents_feed(events, (const char *)data + at, piece < size - at ? piece : size - at,
                             0, &sink, NULL);
    }
    struct tfevents_counts counts = tfevents_counts(events);
    tfevents_destroy(events);
    return count * 1000003 + counts.records * 1009 + counts.damaged * 11 + (code != ERR_OK);
}

static void add_fixed(struct str *out, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        str_add_char(out, (char)(bits >> 8 * i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t count = 0;
    const struct metric_sink sink = {.take = take, .owner = &count};
    (void)tfevents_read_event(data, size, 0, &sink);
    CHECK(run(data, size, size > 0 ? size : 1) == run(data, size, 3));
    AUTO_STR struct str file = {0};
    for (size_t at = 0; at < size;) {
        size_t length = data[at++];
        length = length < size - at ? length : size - at;
        AUTO_STR struct str head = {0};
        add_fixed(&head, length, 8);
        str_add_bytes(&file, head.text, head.size);
        add_fixed(&file, crc32c_masked(crc32c(0, head.text, head.size)), 4);
        str_add_bytes(&file, data + at, length);
        add_fixed(&file, crc32c_masked(crc32c(0, data + at, length)), 4);
        at += length;
    }
    CHECK(run(str_text(&file), file.size, file.size + 1) == run(str_text(&file), file.size, 5));
    return 0;
}
