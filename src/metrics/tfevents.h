/* tfevents.h - TensorBoard's event files, read as they grow.
 *
 * A file is records: a length, its checksum, an event (protobuf), its checksum. Of the events, the
 * scalars are metrics: Summary values with a simple_value, or with a tensor of one number (float,
 * double, half, bfloat16, 32- and 64-bit integers). The tag is the name, a tag that is no valid
 * name (metrics.h) is dropped; the event's step and wall_time are the point's.
 *
 * A record that is not whole yet waits. One whose event is damaged is passed over and counted;
 * where the length itself is damaged nobody can say where the next record begins, and the file is
 * given up. Events longer than TFEVENTS_EVENT_MAX (images, graphs) are passed over without being
 * kept. However the bytes are cut into pieces, the result is the same. Pure; one thread.
 */
#ifndef METRICS_TFEVENTS_H
#define METRICS_TFEVENTS_H

#include "base/err.h"
#include "metrics/metrics.h"

enum { TFEVENTS_EVENT_MAX = 256 << 10 };

struct tfevents;

struct tfevents_counts {
    uint64_t records; /* whole ones, damaged or not */
    uint64_t damaged; /* events with a wrong checksum, or that are no protobuf */
    uint64_t large;   /* passed over for their size */
};

struct tfevents *tfevents_create(void);
void tfevents_destroy(struct tfevents *events); /* NULL does nothing */

/* The next bytes of the file; at_ms is for events without a time. ERR_CORRUPT, now and from now on:
 * given up, with the byte where. What was read before that has been sent. */
MUST_USE enum err_code tfevents_feed(struct tfevents *events, const void *bytes, size_t size,
                                     int64_t at_ms, const struct metric_sink *sink,
                                     struct err *err);

struct tfevents_counts tfevents_counts(const struct tfevents *events);

/* The scalars of one event, without framing. False: damaged; some may have been sent. */
bool tfevents_read_event(const void *bytes, size_t size, int64_t at_ms,
                         const struct metric_sink *sink);

#endif
