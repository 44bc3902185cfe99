/* jsonl.h - a file of JSON objects, one on each line, read as it grows.
 *
 * Every number of an object is a metric, but for its step, epoch and time (record.h); objects
 * within are flattened (object.h). A last line without its end waits for the rest. Lines that are
 * no object are counted, with the first one's place for a message, and passed over; so are lines
 * longer than JSONL_LINE_MAX. However the bytes are cut into pieces, the result is the same. Pure;
 * one thread.
 */
#ifndef METRICS_JSONL_H
#define METRICS_JSONL_H

#include "metrics/metrics.h"

enum { JSONL_LINE_MAX = 64 << 10 };

struct jsonl;

struct jsonl_faults {
    uint64_t lines;      /* that were passed over */
    uint64_t first_line; /* the first of them, from 1; 0: none */
    bool first_is_long;  /* it was too long; otherwise not an object */
};

struct jsonl *jsonl_create(void);
void jsonl_destroy(struct jsonl *jsonl); /* NULL does nothing */

/* The next bytes of the file; at_ms is the time of points that have none of their own. */
void jsonl_feed(struct jsonl *jsonl, const void *bytes, size_t size, int64_t at_ms,
                const struct metric_sink *sink);
/* Nothing more will come: a last line without its end is taken as it is. */
void jsonl_end(struct jsonl *jsonl, int64_t at_ms, const struct metric_sink *sink);

struct jsonl_faults jsonl_faults(const struct jsonl *jsonl);

#endif
