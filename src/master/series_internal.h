/* series_internal.h - the inside of series.h: series.c gathers and writes, series_read.c reads,
 * series_old.c thins and removes. */
#ifndef MASTER_SERIES_INTERNAL_H
#define MASTER_SERIES_INTERNAL_H

#include "base/str.h"
#include "master/retention.h"
#include "master/series.h"
#include "master/series_block.h"
#include "master/walk.h"

#include <sys/queue.h>

enum {
    SERIES_BUCKETS = 8192,
    SERIES_FILE_BYTES_MAX = 8 << 20, /* a day of samples at ten times the usual rate */
    SERIES_MINUTE_MS = 60 * 1000,
    SERIES_DAY_MS = 24 * 3600 * 1000,
};

/* A series with samples in memory. */
struct series_live {
    struct series_who who;
    bool has_file;    /* something of it was written already */
    uint16_t limit;   /* bytes of rows after which the block is written */
    int64_t since_ms; /* of the oldest sample in memory */
    struct series_build build;
    LIST_ENTRY(series_live) in_bucket;
    TAILQ_ENTRY(series_live) in_order; /* the one that has waited longest comes first */
};

/* A day's folder. */
struct series_day {
    int32_t day; /* since 1970 */
    bool is_measured;
    bool is_thin;
    uint64_t bytes;
};

enum series_job { SERIES_IDLE, SERIES_MEASURE, SERIES_THIN, SERIES_REMOVE };

struct series {
    char *folder;
    int64_t raw_ms;
    int64_t keep_ms;
    uint64_t bytes_max;
    struct series_counts counts;
    struct str path; /* reused */

    LIST_HEAD(series_bucket, series_live) buckets[SERIES_BUCKETS];
    TAILQ_HEAD(series_order, series_live) order;

    struct series_day *days; /* the oldest first */
    size_t day_count;
    size_t day_cap;

    char **doomed; /* paths to remove, in the background */
    size_t doomed_count;
    size_t doomed_cap;
    enum series_job job;
    int32_t job_day;
    uint64_t job_bytes; /* measured so far */
    struct walk *walk;
    struct removal *removal;
};

/* FOLDER/DAY/nodes/N or FOLDER/DAY/tasks/W/E/K/I */
void series_path(const struct series *series, const struct series_who *who, int32_t day,
                 struct str *out);
struct series_live *series_find(struct series *series, const struct series_who *who);
/* Forgets what is in memory, without writing. */
void series_drop_live(struct series *series, struct series_live *live);

/* series_old.c */
void series_scan_days(struct series *series); /* what is there at the start */
struct series_day *series_note_day(struct series *series, int32_t day, uint64_t bytes);
void series_old_tick(struct series *series, int64_t now_ms);
void series_old_close(struct series *series);

/* series_thin.c: replaces the file by one of averages over a minute. `bytes` is its size after. */
MUST_USE enum err_code series_thin_file(int folder, const char *name, uint64_t *bytes,
                                        struct err *err);

#endif
