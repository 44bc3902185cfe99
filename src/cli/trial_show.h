/* trial_show.h - trials as text: a table for people, CSV and JSON lines for programs. Pure. */
#ifndef CLI_TRIAL_SHOW_H
#define CLI_TRIAL_SHOW_H

#include "cli/trial_set.h"
#include "search/importance.h"

/* "W/E: maximize accuracy; gp: ..." and "40 of 40 trials; 38 with a value, 2 without one", and why
 * the search is over where it is. */
void trial_show_heading(struct str *out, const struct trial_set *set,
                        const struct trial_search *search);

/* The table, best first, at most `limit` trials. Text that could steer a terminal is made harmless;
 * columns are cut to a bounded width. */
void trial_show_table(struct str *out, const struct trial_search *search, size_t limit);

/* Quoted as RFC 4180 says, lines ended by LF, with a heading. Columns: experiment, trial, state,
 * best, value (with several metrics value.M for each), rung, budget, task, step, reason, params.P
 * for each parameter, metrics.M for each metric that was reported. Numbers are as they were
 * answered, to the last digit. */
void trial_show_csv(struct str *out, const struct trial_search *search, size_t limit);
/* One field of such a line. */
void trial_show_csv_field(struct str *out, const char *text);

/* The objects as they were answered, with "best" added, one a line. */
void trial_show_json(struct str *out, const struct trial_search *search, size_t limit);

/* Shares of the variance as bars of text, and what they are worth. */
void trial_show_importance(struct str *out, const struct trial_search *search, size_t goal,
                           const struct importance *found);
/* The same as one object: experiment, metric, method, trials, fit, parameters[], pairs[], rest. */
void trial_show_importance_json(struct str *out, const struct trial_search *search, size_t goal,
                                const struct importance *found);

/* A value for people: "0.98127", "1.2e-05"; "-" for none. */
void trial_show_number(struct str *out, double number);
/* A parameter for people: "adam", "0.00132"; "-" where it is absent. */
void trial_show_param(struct str *out, const struct jnode *value);

#endif
