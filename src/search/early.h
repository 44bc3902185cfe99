/* early.h - should this trial stop now? One question for the rules that look at a trial's curve:
 * the median rule and "it has stabilised". (ASHA is not here: its rungs are tasks of their own.)
 *
 * Every report of every running trial goes through early_report, in order; the answer says whether
 * to stop, and why in words. When a trial should stop, the caller tells its task, and calls
 * early_forget once it has ended. Whether a curve has stabilised is judged by a function of the
 * caller's: that knowledge is elsewhere (advise/stabilise.h, stabilise_online).
 *
 * Pure if the function is. Memory: median.h for the median rule; for stabilised, 16 bytes a point
 * of the trials that run, at most EARLY_POINTS_MAX points each: a longer curve loses every second
 * of its points. One thread.
 */
#ifndef SEARCH_EARLY_H
#define SEARCH_EARLY_H

#include "base/str.h"
#include "search/median.h"

enum { EARLY_POINTS_MAX = 2048, EARLY_RUNNING_MAX = 65536 };

enum early_rule { EARLY_NONE, EARLY_MEDIAN, EARLY_STABILISED };

/* May training stop after these points, in ascending order of step? */
typedef bool early_stable_fn(void *arg, const double *steps, const double *values, size_t count);

struct early_options {
    enum early_rule rule;
    struct median_options median; /* maximize, grace and trials_max hold for the other rules too */
    early_stable_fn *stable;      /* EARLY_STABILISED; asked each time a curve grew by 2 % */
    void *arg;                    /* of it; must outlive the early */
};

struct early;

struct early *early_create(const struct early_options *options);
void early_destroy(struct early *early); /* NULL does nothing */

/* True: the trial should stop; why (may be NULL) gets a clause for people. A value that is not
 * finite stops under any rule but EARLY_NONE. Once true, always true for this trial. False for
 * trials beyond trials_max, and under EARLY_STABILISED for all while EARLY_RUNNING_MAX are kept. */
bool early_report(struct early *early, uint32_t trial, uint64_t step, double value,
                  struct str *why);

/* The trial ended, however: its curve is dropped. Its part in medians stays. */
void early_forget(struct early *early, uint32_t trial);

#endif
