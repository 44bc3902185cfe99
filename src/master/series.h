/* series.h - what nodes and tasks used over time, kept compactly on disk.
 *
 * A series belongs to a node or to a task. Each sample is about ten bytes: values are rounded to
 * nine bits of precision (0.2 %), times to a tenth of a second, and only differences are written
 * (series_block.h). Samples are gathered in memory and appended a block at a time, so that a series
 * costs a write about every forty seconds; a crash loses at most the samples of the last minute. A
 * block has a checksum: torn or damaged ones are skipped, and what stands around them is read.
 *
 * Layout: FOLDER/DAY/nodes/N and FOLDER/DAY/tasks/WORKFLOW/EXPERIMENT/K/INDEX, DAY being days since
 * 1970 and K the index divided by a thousand. A day that ended a day ago is thinned to averages
 * over a minute; days too old, or too many bytes, are removed, the oldest first. Both go on in
 * slices, from series_tick. A task with fewer than two samples (it ran for less than about four
 * seconds) leaves nothing.
 *
 * Memory is bounded: SERIES_LIVE_MAX series are gathered at once, at about 450 bytes each; samples
 * of more are dropped and counted. Nothing here is worth stopping for: a failed write loses its
 * samples and is counted. One thread owns a store; calls touch the local disk and take milliseconds
 * at the most.
 */
#ifndef MASTER_SERIES_H
#define MASTER_SERIES_H

#include "base/err.h"
#include "wire/wire.h"

#include <stddef.h>
#include <stdint.h>

enum { SERIES_LIVE_MAX = 65536, SERIES_POINTS_MAX = 100000 };

struct series;

struct series_options {
    const char *folder; /* STATE/usage; made when the first block is written */
    int64_t raw_ms;     /* samples are thinned when their day ended this long ago; 0: a day */
    int64_t keep_ms;    /* and removed after this; 0: 30 days */
    uint64_t bytes_max; /* in all, but the newest day always stays; 0: 4 GiB */
};

struct series *series_open(const struct series_options *options);
/* Writes what is in memory. NULL does nothing. */
void series_close(struct series *series);

/* workflow 0: the node of that number; else the task. */
struct series_who {
    uint32_t node;
    uint32_t workflow;
    uint32_t experiment;
    uint64_t task;
};

/* Adds a sample. at_ms is the master's clock (usage->at_unix_ms is a node's, and not looked at); a
 * sample that is not later than the last one of its series is dropped. */
void series_add(struct series *series, const struct series_who *who, int64_t at_ms,
                const Drover__Usage *usage);

/* The task has ended (or the node has left): what is in memory is written now. A series that is
 * not ended is written when nothing has come for a minute. Unknown ones are ignored. */
void series_end(struct series *series, const struct series_who *who);

/* Called about once a second: writes what has waited, thins and removes a little. */
void series_tick(struct series *series, int64_t now_ms);

/* What a node or task used at one time, or on average in one step of time. */
struct series_point {
    int64_t at_ms; /* where the step begins; of a single sample, when it was taken */
    uint32_t cpu_milli;
    uint64_t memory_bytes;
    uint64_t disk_read_bytes; /* per second, like the next three */
    uint64_t disk_write_bytes;
    uint64_t net_in_bytes;
    uint64_t net_out_bytes;
    uint32_t gpu_milli;
    uint64_t gpu_memory_bytes;
};

struct series_span {
    int64_t from_ms;
    int64_t to_ms;   /* not included */
    int64_t step_ms; /* > 0: averages over steps that begin at from_ms; 0: the samples themselves */
    size_t max;      /* how many points at most */
};

/* Gives the points of the span, oldest first, what is in memory included; steps without a sample
 * are left out. `out` has room for span->max; *count says how many there are. No such series: none.
 * ERR_RANGE: to before from, or more than SERIES_POINTS_MAX steps. ERR_IO, ERR_QUOTA: a file cannot
 * be read. */
MUST_USE enum err_code series_read(struct series *series, const struct series_who *who,
                                   const struct series_span *span, struct series_point *out,
                                   size_t *count, struct err *err);

/* A workflow is being removed: its samples go too, in the background. */
void series_forget(struct series *series, uint32_t workflow);

struct series_counts {
    uint64_t samples; /* added since the start */
    uint64_t dropped; /* too many series, or the clock went back */
    uint64_t lost;    /* samples in blocks that could not be written */
    uint64_t written_bytes;
    size_t live; /* series in memory */
};
void series_counts(const struct series *series, struct series_counts *out);

#endif
