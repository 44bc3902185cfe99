/* ledger.h - what the tasks of a workflow's searches are: which trial, which rung, which values.
 *
 * Made from the "suggested" lines of trials.log, read when first asked about (or taken line by line
 * by whoever runs the searches); from then on whoever runs them adds to it. It is what a flow's
 * `given` asks, so plans, statuses and logs of a searched experiment show the same arguments
 * whoever looks.
 *
 * A leg is what runs at once for a trial: one task, or with gang that many; with asha a trial has a
 * leg for each rung it reaches. Leg n is the tasks [n * gang, (n + 1) * gang).
 *
 * Memory: 24 bytes a leg, and 24 for each parameter of each trial. One thread.
 */
#ifndef MASTER_LEDGER_H
#define MASTER_LEDGER_H

#include "master/search_space.h"
#include "master/trials.h"
#include "recipe/plan.h"

struct flow;
struct ledger;

struct ledger_leg {
    uint64_t trial;
    uint64_t budget; /* 0: none */
    uint32_t rung;
};

/* One searched experiment. Read-only but for ledger_add. */
struct ledger_book {
    const struct experiment *experiment;
    struct search_space *space;
    struct ledger_leg *legs;
    size_t leg_count;
    size_t leg_cap;
    struct search_value *values; /* of trial t: from t * search_space_count(space) */
    uint64_t trial_count;
    size_t value_count;
    size_t value_cap;
};

/* Gives the flow a ledger, and `given`, if it has a search; the flow owns it (ledger_destroy). Its
 * folder need not be known yet, its recipe's files not be bound. */
void ledger_attach(struct flow *flow);
void ledger_destroy(struct ledger *ledger); /* NULL does nothing */

/* The flow's trials.log, unless it is loaded. ERR_CORRUPT with the line. Without a ledger, or
 * without the file: nothing. */
MUST_USE enum err_code ledger_load(struct ledger *ledger, struct err *err);

/* Frees the memory; it is loaded again when asked about. NULL does nothing. ledger_age does so if
 * nobody asked since it was called last. */
void ledger_forget(struct ledger *ledger);
void ledger_age(struct ledger *ledger);

/* For whoever reads the log anyway: empties it, and takes one line of it. ERR_CORRUPT: it does not
 * follow from those before. Lines of other kinds, and of experiments that are no search, are
 * checked for their task alone. */
void ledger_begin(struct ledger *ledger);
MUST_USE enum err_code ledger_take(struct ledger *ledger, const struct trials_line *line,
                                   struct err *err);

/* The book of that experiment, NULL where it has no search. */
struct ledger_book *ledger_book(struct ledger *ledger, uint32_t experiment);
struct ledger_book *ledger_book_of(struct ledger *ledger, const char *experiment);

const struct search_value *ledger_values(const struct ledger_book *book, uint64_t trial);

/* The next leg; a trial that is the next has these values, others have theirs. */
void ledger_add(struct ledger_book *book, const struct ledger_leg *leg,
                const struct search_value *values);

/* A plan_given_fn. */
bool ledger_given(void *owner, uint32_t experiment, uint64_t task, struct value *values,
                  struct plan_trial *out, struct arena *arena);

#endif
