/* asha.h - asynchronous successive halving: many trials a little, few of them all the way.
 *
 * A trial is trained in rungs: rung 0 up to `min` units of the resource (epochs, say), each next
 * rung eta times as far, the last one to `max`. A trial that is among the best 1/eta of those that
 * reported at its rung may go on to the next; nobody waits for a rung to fill. (Li and others, "A
 * system for massively parallel hyperparameter tuning", 2020.) Each (trial, rung) is a task of its
 * own, from resource_from to resource; what was learned so far is the trial's, in its checkpoint.
 *
 * The rungs are min, min*eta, min*eta^2 ... and max; the last of them before max is left out where
 * it is nearer to max than a factor of sqrt(eta). With brackets > 1 there are several such ladders
 * (Hyperband): bracket b begins at rung b, competes only with itself, and gets trials so that all
 * brackets cost about the same. That helps where early values mislead.
 *
 * Deciding and applying are apart: asha_next only says what to do; asha_begin and asha_report are
 * the facts. The same facts in the same order give the same state, whatever was decided, so a log
 * of them is all that a restart needs.
 *
 * Values that are not finite (failed, diverged) count as reported and are worse than all others;
 * such a trial never goes on. Equal values: the trial with the lower number is better.
 *
 * Pure and deterministic. A fact costs O(log n), asha_next O(rungs * brackets). Memory: about 60
 * bytes a trial with eta 3, never over 200. One thread owns an asha.
 */
#ifndef SEARCH_ASHA_H
#define SEARCH_ASHA_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ASHA_RUNGS_MAX = 64, ASHA_ETA_MAX = 1000, ASHA_TRIALS_MAX = 10000000 };
#define ASHA_RESOURCE_MAX UINT64_C(1000000000000)

struct asha_options {
    bool maximize;
    uint64_t min;        /* units of the resource in rung 0, at least 1 */
    uint64_t max;        /* and in the last rung; min .. ASHA_RESOURCE_MAX */
    uint32_t eta;        /* 2 .. ASHA_ETA_MAX */
    uint32_t brackets;   /* 0 or 1: plain ASHA; at most as many as there are rungs */
    uint32_t trials_max; /* trials begun at most, 1 .. ASHA_TRIALS_MAX */
};

enum asha_action {
    ASHA_START,   /* begin a new trial, `trial`, in `rung` (0 unless there are brackets) */
    ASHA_PROMOTE, /* take `trial` on to `rung` */
    ASHA_WAIT,    /* nothing to do until something running reports */
    ASHA_DONE,    /* nothing to do any more */
};

struct asha_step {
    enum asha_action action;
    uint32_t trial;
    uint32_t rung;
    uint64_t resource_from; /* where the trial's checkpoint is; 0 for a new one */
    uint64_t resource;      /* train up to here, then report */
};

struct asha_counts {
    uint32_t begun;    /* trials */
    uint32_t running;  /* (trial, rung) begun and not reported */
    uint32_t finished; /* trials with a finite value at `max` */
    uint32_t failed;
    uint64_t resource; /* given out so far, in units */
};

struct asha;

/* ERR_INVALID: a number is out of its range, or there are more brackets than rungs. */
MUST_USE enum err_code asha_create(const struct asha_options *options, struct asha **out,
                                   struct err *err);
void asha_destroy(struct asha *asha); /* NULL does nothing */

uint32_t asha_rung_count(const struct asha *asha);
uint64_t asha_rung_resource(const struct asha *asha, uint32_t rung);

/* What to do with a free slot: promote where possible, the highest rung first; else begin a new
 * trial, unless trials_max have begun or asha_close was called. Then, once nothing runs, where no
 * trial has a finite value at `max` yet, the best of the highest rung are promoted one at a time
 * until one has: a search never ends with nothing trained to the end, unless all of it failed. */
struct asha_step asha_next(const struct asha *asha);

/* (trial, rung) was begun. Trials are numbered from 0 in the order they begin; a new one may begin
 * in any rung below the number of brackets.
 * ERR_RANGE: no such rung, or not the next number. ERR_QUOTA: trials_max. ERR_STALE: the trial is
 * not at the rung below, or runs, or failed. Unchanged on error. */
MUST_USE enum err_code asha_begin(struct asha *asha, uint32_t trial, uint32_t rung,
                                  struct err *err);

/* Its value; NaN for a failure. ERR_RANGE: no such trial. ERR_STALE: it does not run in this rung
 * (it reported before). Unchanged on error. */
MUST_USE enum err_code asha_report(struct asha *asha, uint32_t trial, uint32_t rung, double value,
                                   struct err *err);

/* No new trials from here on: the search stops, or its space is exhausted. Promotions go on. */
void asha_close(struct asha *asha);

struct asha_counts asha_counts(const struct asha *asha);
size_t asha_bytes(const struct asha *asha); /* of memory held */

#endif
