/* stop.h - when a whole search is over, and why, in words.
 *
 * Any of: a target value, `patience` results in a row without a better one, money, time, or the
 * number of trials. The caller tells what happened and asks with the money and time of now, so that
 * the same calls give the same answer in a replay. The first reason found stays the reason: a
 * search that was over is never taken up again because money was refunded.
 *
 * Single goal: stop_result with each value. Several goals: stop_front with whether the Pareto front
 * moved (pareto.h); a target then makes no sense and must not be set. Pure; one thread.
 */
#ifndef SEARCH_STOP_H
#define SEARCH_STOP_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct stop_options {
    bool maximize;
    bool has_target;
    double target;        /* reached when a value is as good or better */
    uint64_t patience;    /* results; 0: none. Failures count as results that are not better */
    double least_gain;    /* a value this much better, or less, is not better; 0: any is */
    int64_t cost_micro;   /* millionths of `currency`; 0: no limit */
    const char *currency; /* for the words; must outlive the stop; NULL: none */
    int64_t time_ms;      /* since the search began; 0: no limit */
    uint64_t trials;      /* to begin; 0: no limit */
};

enum stop_reason {
    STOP_NOT_YET,
    STOP_TARGET,
    STOP_PATIENCE,
    STOP_COST,
    STOP_TIME,
    STOP_TRIALS,
    STOP_EXHAUSTED, /* told by stop_exhausted: the space has nothing new to offer */
};

struct stop {
    struct stop_options options;
    enum stop_reason reason;
    uint64_t begun;
    uint64_t results;
    uint64_t failed;
    uint64_t since_better; /* results */
    bool has_best;
    double best;
    double bar; /* the last value that was better by least_gain: small gains add up */
    uint64_t best_trial;
    int64_t spent_micro; /* when it stopped, or at the last question */
    int64_t elapsed_ms;
};

void stop_init(struct stop *stop, const struct stop_options *options);

void stop_begun(struct stop *stop); /* one more trial has begun */
/* A value at the end of trial `trial`; not finite: it failed. */
void stop_result(struct stop *stop, uint64_t trial, double value);
/* The same with several goals. */
void stop_front(struct stop *stop, bool moved);
void stop_exhausted(struct stop *stop);

/* Is it over, with this much spent and this long after it began? */
enum stop_reason stop_ask(struct stop *stop, int64_t spent_micro, int64_t elapsed_ms);

/* Are the trials still running to be ended as well? Not where only new ones are unwanted: their
 * results may be the best, and were paid for. */
bool stop_ends_running(enum stop_reason reason);

/* "target", "patience", ...; a word for JSON and the log. "" for STOP_NOT_YET. */
const char *stop_reason_name(enum stop_reason reason);
/* "no better value in 50 results; the best is 0.981, of trial 17". */
void stop_why(const struct stop *stop, struct str *out);

#endif
