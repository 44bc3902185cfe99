/* median.h - the median stopping rule: a trial that does worse than half of the others ends.
 *
 * At each report of a trial its best value so far is compared with the median, over the other
 * trials that got as far, of their mean value up to there; strictly worse, and the trial should
 * stop. (Golovin and others, "Google Vizier", 2017.) A mean over the past is a mild bar, so noise
 * in one report ends nobody. Nothing is stopped before step `grace`, nor while fewer than
 * `trials_min` others got as far. Stopped, failed and finished trials stay in the comparison: what
 * they reported was true.
 *
 * "As far" is by intervals of `interval` steps. In each, a trial is judged at its first report
 * there and then counts with its mean up to that report. Steps of a trial that do not ascend (an
 * attempt that began again from a checkpoint) neither count nor are judged, until they pass the
 * highest again.
 *
 * Pure and deterministic: the same reports in the same order give the same verdicts. O(log n) a
 * report. Memory: 40 bytes a trial and 8 for each of its intervals, up to values_max of these; from
 * then on reports are judged by what there is and no longer added. One thread owns a rule.
 */
#ifndef SEARCH_MEDIAN_H
#define SEARCH_MEDIAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEDIAN_INTERVALS_MAX = 65536, /* reports in later ones count as in the last */
    MEDIAN_TRIALS_MIN = 3,
    MEDIAN_VALUES_MAX = 4000000,
};

struct median_options {
    bool maximize;
    uint64_t grace;      /* nothing stops before this step */
    uint64_t interval;   /* steps; 0: 1 */
    uint32_t trials_min; /* others needed for a verdict; 0: MEDIAN_TRIALS_MIN */
    uint32_t trials_max; /* trials are numbered below this; above 0 */
    size_t values_max;   /* 0: MEDIAN_VALUES_MAX */
};

enum median_verdict {
    MEDIAN_GO_ON,
    MEDIAN_WORSE,    /* than the median of the others: stop */
    MEDIAN_DIVERGED, /* the value is NaN or infinite: stop, whatever the grace */
};

struct median_judgement {
    enum median_verdict verdict;
    double best;   /* of this trial so far */
    double median; /* of the others; NaN where too few got here, or not the first report here */
    size_t others;
};

struct median;

struct median *median_create(const struct median_options *options);
void median_destroy(struct median *median); /* NULL does nothing */

/* ERR_RANGE: no such trial; nothing is changed and *out is not set. */
MUST_USE enum err_code median_report(struct median *median, uint32_t trial, uint64_t step,
                                     double value, struct median_judgement *out, struct err *err);

#endif
