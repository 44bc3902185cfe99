#include "metrics/tfevents.h"

#include "base/mem.h"
#include "base/str.h"
#include "metrics/crc32c.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 12, FOOT_BYTES = 4 };

enum place { IN_HEAD, IN_EVENT, IN_FOOT };

struct tfevents {
    enum place place;
    uint64_t offset; /* of the record at hand, in the file */
    uint64_t length; /* of its event */
    uint64_t done;   /* bytes of the event that have come */
    uint32_t crc;    /* over them */
    size_t small_size;
    uint8_t small[HEAD_BYTES]; /* head or foot, as far as it has come */
    struct str event;
    bool is_given_up;
    uint64_t bad_offset;
    struct tfevents_counts counts;
};

struct tfevents *tfevents_create(void)
{
    return mem_alloc(sizeof(struct tfevents));
}

void tfevents_destroy(struct tfevents *events)
{
    if (events) {
        str_release(&events->event);
        free(events);
    }
}

static uint32_t read_u32(const uint8_t *bytes)
{
    uint32_t number = 0;
    memcpy(&number, bytes, sizeof number);
    return le32toh(number);
}

/* Gathers what is missing of a head or foot. Returns the bytes taken. */
static size_t gather(struct tfevents *events, const uint8_t *bytes, size_t size, size_t wanted)
{
    size_t missing = wanted - events->small_size;
    size_t taken = size < missing ? size : missing;
    memcpy(events->small + events->small_size, bytes, taken);
    events->small_size += taken;
    return taken;
}

static size_t take_head(struct tfevents *events, const uint8_t *bytes, size_t size)
{
    size_t taken = gather(events, bytes, size, HEAD_BYTES);
    if (events->small_size < HEAD_BYTES) {
        return taken;
    }
    uint64_t length = 0;
    memcpy(&length, events->small, sizeof length);
    uint32_t crc = crc32c_masked(crc32c(0, events->small, sizeof length));
    length = le64toh(length);
    if (crc != read_u32(events->small + sizeof length) || length > UINT64_MAX / 4) {
        events->is_given_up = true;
        events->bad_offset = events->offset;
        return taken;
    }
    events->length = length;
    events->done = 0;
    events->crc = 0;
    events->small_size = 0;
    events->place = length > 0 ? IN_EVENT : IN_FOOT;
    str_clear(&events->event);
    return taken;
}

static size_t take_event(struct tfevents *events, const uint8_t *bytes, size_t size)
{
    uint64_t missing = events->length - events->done;
    size_t taken = size < missing ? size : (size_t)missing;
    events->crc = crc32c(events->crc, bytes, taken);
    events->done += taken;
    if (events->length <= TFEVENTS_EVENT_MAX) {
        str_add_bytes(&events->event, bytes, taken);
    }
    if (events->done == events->length) {
        events->place = IN_FOOT;
    }
    return taken;
}

static size_t take_foot(struct tfevents *events, const uint8_t *bytes, size_t size, int64_t at_ms,
                        const struct metric_sink *sink)
{
    size_t taken = gather(events, bytes, size, FOOT_BYTES);
    if (events->small_size < FOOT_BYTES) {
        return taken;
    }
    events->counts.records++;
    if (read_u32(events->small) != crc32c_masked(events->crc)) {
        events->counts.damaged++;
    } else if (events->length > TFEVENTS_EVENT_MAX) {
        events->counts.large++;
    } else if (!tfevents_read_event(str_text(&events->event), events->event.size, at_ms, sink)) {
        events->counts.damaged++;
    }
    events->offset += HEAD_BYTES + events->length + FOOT_BYTES;
    events->small_size = 0;
    events->place = IN_HEAD;
    return taken;
}

enum err_code tfevents_feed(struct tfevents *events, const void *bytes, size_t size, int64_t at_ms,
                            const struct metric_sink *sink, struct err *err)
{
    const uint8_t *at = bytes;
    while (size > 0 && !events->is_given_up) {
        size_t taken = events->place == IN_HEAD    ? take_head(events, at, size)
                       : events->place == IN_EVENT ? take_event(events, at, size)
                                                   : take_foot(events, at, size, at_ms, sink);
        at += taken;
        size -= taken;
    }
    if (events->is_given_up) {
        str_release(&events->event);
        return err_set(err, ERR_CORRUPT,
                       "not an event file from byte %" PRIu64 " on: the checksum of the record's "
                       "length is wrong",
                       events->bad_offset);
    }
    return ERR_OK;
}

struct tfevents_counts tfevents_counts(const struct tfevents *events)
{
    return events->counts;
}
