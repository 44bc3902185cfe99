/* record.h - the numbers that stand together in one line or one object, before they are sent.
 *
 * Keys that say where or when (step, epoch, time) are told from metrics here, for all sources
 * alike. At most RECORD_ITEMS_MAX metrics; the rest is dropped. A name given twice has the later
 * value. Pure.
 */
#ifndef METRICS_RECORD_H
#define METRICS_RECORD_H

#include "metrics/metrics.h"

enum { RECORD_ITEMS_MAX = 64 };

struct record_item {
    double value;
    char name[METRIC_NAME_MAX + 1];
};

/* Only record_clear makes one valid. */
struct record {
    size_t count;
    double step;
    double epoch;
    int64_t time_ms;
    bool has_step;
    bool has_epoch;
    bool has_time;
    struct record_item items[RECORD_ITEMS_MAX];
};

void record_clear(struct record *record);

/* A key and its number. step, _step, global_step, trainer/global_step, iteration and iter (any
 * case) are the step, of several the first; epoch is the epoch; time, ts, timestamp, _timestamp
 * and wall_time are the time if they look like Unix time in seconds or milliseconds. Anything else
 * is a metric, if its name is valid (metric_name_valid). False: neither kept nor understood. */
bool record_add(struct record *record, const char *name, size_t size, double value);

/* A metric, whatever its name. False: the name is not valid, or the record is full. */
bool record_add_metric(struct record *record, const char *name, size_t size, double value);

/* Whether both would be sent with the same step. */
bool record_same_step(const struct record *one, const struct record *other);

/* Sends all, first the epoch if there is one; at_ms for a record that has no time of its own. */
void record_send(const struct record *record, const struct metric_sink *sink, int64_t at_ms);

#endif
