/* metrics.h - the one form in which numbers about training reach drover, and what is kept of them.
 *
 * Whatever the source - lines of a log (lines.h), metrics.jsonl (jsonl.h), TensorBoard's files
 * (tfevents.h), `drover report` - a reader hands each number to a sink as a struct metric. A struct
 * metrics is such a sink: for each name it keeps the last, least and greatest value and how many
 * there were. Bounded whatever comes: METRICS_NAMES_MAX names of METRIC_NAME_MAX bytes; points of
 * further names are counted and dropped.
 *
 * Steps. A metric may say at which step it was measured. An epoch is the step where nothing better
 * is given, and always a metric of its own ("epoch") beside the others of its line, so that
 * progress can be judged by either (metrics_progress).
 *
 * Pure; the caller owns a table and may use it from one thread.
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { METRIC_NAME_MAX = 100, METRICS_NAMES_MAX = 256 };

struct metric {
    const char *name; /* metric_name_valid; borrowed for the call */
    double value;     /* NaN and the infinities too: that a run diverged is news */
    double step;      /* finite; 0 without has_step */
    int64_t at_ms;    /* Unix time */
    bool has_step;
};

typedef void (*metric_take_fn)(void *owner, const struct metric *metric);

struct metric_sink {
    metric_take_fn take;
    void *owner;
};

void metric_send(const struct metric_sink *sink, const struct metric *metric);

/* 1 to METRIC_NAME_MAX bytes of UTF-8 without control characters, not blank at either end. */
bool metric_name_valid(const char *name, size_t size);

/* Whether the point number `index` (from 0) of one name is to be kept where curves are stored: all
 * of the first 8192, then every second, from 16384 on every fourth, and so on. A curve of n points
 * keeps about 4096 * log2(n / 2048), always its first. */
bool metric_is_kept(uint64_t index);

struct metric_value {
    double value;
    double step; /* 0 without has_step */
    int64_t at_ms;
    bool has_step;
};

struct metric_summary {
    const char *name;
    uint64_t count;        /* points seen */
    uint64_t finite_count; /* of them, with a finite value */
    struct metric_value last;
    struct metric_value least; /* of the finite ones, the first of equals; none: zeros */
    struct metric_value greatest;
    double newest_step; /* the greatest; 0 without has_step */
    bool has_step;
};

struct metrics;

struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *metrics); /* NULL does nothing */

/* False: dropped, for there are METRICS_NAMES_MAX other names. The name must be valid. */
bool metrics_add(struct metrics *metrics, const struct metric *metric);
struct metric_sink metrics_sink(struct metrics *metrics); /* one that calls metrics_add */

size_t metrics_count(const struct metrics *metrics);
uint64_t metrics_dropped(const struct metrics *metrics); /* points */
/* In the order in which names were first seen; valid until the next metrics_add. */
const struct metric_summary *metrics_at(const struct metrics *metrics, size_t index);
const struct metric_summary *metrics_find(const struct metrics *metrics, const char *name);

/* What a person means by a name: that very metric, else one that differs in case, else the one with
 * val, valid, validation, test, eval or dev before it (val_accuracy, test/accuracy), in this
 * order, else the one with train before it. NULL: none. */
const struct metric_summary *metrics_find_like(const struct metrics *metrics, const char *name);

/* The best finite value: the greatest or the least. NULL: there is none yet. */
const struct metric_value *metric_best(const struct metric_summary *summary, bool maximize);

/* How far the task has come, by the resource of that name: the greatest value of a metric of that
 * name (epoch), else the newest step of any metric. False: nothing is known. */
bool metrics_progress(const struct metrics *metrics, const char *resource, double *out);

#endif
