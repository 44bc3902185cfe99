/* trials.h - FLOW/trials.log, the lasting record of a workflow's searches.
 *
 * Lines of JSON, only ever appended to, each durable before it is used: a suggestion before its
 * task is defined, a result before the search is told. Replaying them in order makes the searches
 * what they were. One writer, the master that runs the workflow; any number of readers meanwhile.
 *
 *   {"v":1,"kind":"search","experiment":"train","at":1700000000000,"algorithm":"auto",
 *    "chosen":"gp","why":"...","metrics":["accuracy"],"goals":["maximize"],"seed":7}
 *   {"v":1,"kind":"suggested","experiment":"train","at":...,"task":5,"trial":5,"rung":0,
 *    "budget":3,"params":{"lr":0.01,"act":"relu"},"point":"0.01 1"}
 *   {"v":1,"kind":"result","experiment":"train","at":...,"task":5,"trial":5,"rung":0,
 *    "state":"succeeded","values":[0.97],"metrics":{"accuracy":0.97,"loss":0.1},"reason":null,
 *    "step":27}
 *   {"v":1,"kind":"warm","experiment":"train","at":...,"from":"mnist-2","trial":17,
 *    "state":"succeeded","values":[0.96],"params":{"lr":0.02,"act":"relu"},"point":"0.02 1"}
 *   {"v":1,"kind":"stop","experiment":"train","at":...,"why":"target 0.99 reached"}
 *
 * "warm" is a trial of an earlier workflow that the search was told at its beginning (warm.h):
 * before all suggestions, so that a replay needs no other workflow.
 *
 * "at" is Unix time in ms. `params` is for people, `point` (search_space.h) is what is restored. A
 * task may have several results (it was tried again by hand): the last one is what it came to, the
 * first one is what the search was told. With gang: the task is the first of the gang.
 *
 * A last line without its end was cut off by a crash: readers leave it out, a writer cuts it off.
 * Anything else that does not read is ERR_CORRUPT with the number of its line.
 */
#ifndef MASTER_TRIALS_H
#define MASTER_TRIALS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRIALS_GOALS_MAX = 8,
    TRIALS_METRICS_MAX = 256,   /* in one result */
    TRIALS_LINE_MAX = 4 << 20,  /* bytes of a line */
    TRIALS_EXPERIMENT_MAX = 64, /* bytes of a name */
    TRIALS_REASON_BYTES = 1000, /* a longer reason is cut when written */
};

enum trials_kind { TRIALS_SEARCH, TRIALS_SUGGESTED, TRIALS_RESULT, TRIALS_STOP, TRIALS_WARM };

enum trials_state {
    TRIALS_SUCCEEDED,
    TRIALS_FAILED,    /* the task did, or the metric never came */
    TRIALS_STOPPED,   /* early; values are the last there were */
    TRIALS_DIVERGED,  /* a value is NaN or infinite */
    TRIALS_CANCELLED, /* by hand: tells nothing about the point */
};

struct trials_metric {
    const char *name;
    double value; /* NaN: not finite */
};

/* One line. Texts are never NULL where their kind has them, but for `reason`. */
struct trials_line {
    enum trials_kind kind;
    const char *experiment;
    int64_t at_ms;
    const char *why; /* SEARCH, STOP */

    /* SEARCH */
    const char *algorithm; /* as in the recipe */
    const char *chosen;    /* what makes the suggestions now */
    const char *goal_metrics[TRIALS_GOALS_MAX];
    bool maximize[TRIALS_GOALS_MAX];
    size_t goal_count; /* at least 1 */
    uint64_t seed;

    /* WARM: the workflow that it is a trial of. It has `trial`, `params`, `point`, `state` and
     * `values` besides. */
    const char *from;

    /* SUGGESTED and RESULT */
    uint64_t task;
    uint64_t trial;
    uint32_t rung;

    /* SUGGESTED */
    bool has_budget;
    uint64_t budget;
    const char *params; /* a JSON object */
    const char *point;

    /* RESULT */
    enum trials_state state;
    double values[TRIALS_GOALS_MAX]; /* NaN: missing or not finite */
    size_t value_count;
    const struct trials_metric *metrics; /* the last value of each that was seen */
    size_t metric_count;
    const char *reason; /* or NULL */
    bool has_step;
    double step;
};

/* "succeeded" and so on. */
const char *trials_state_name(enum trials_state state);

/* FLOW/trials.log. */
void trials_add_path(struct str *out, const char *flow_folder);

/* The line with its end. Numbers read back as the same bits. */
void trials_add_line(struct str *out, const struct trials_line *line);

/* One line without its end; everything in *out lives in the arena. ERR_CORRUPT: not such a line. */
MUST_USE enum err_code trials_parse(const char *text, size_t size, struct arena *arena,
                                    struct trials_line *out, struct err *err);

/* Gets one line after the other, valid for the call; an error ends the reading and is returned. */
typedef enum err_code (*trials_take_fn)(void *owner, const struct trials_line *line,
                                        struct err *err);

/* Sends every whole line in order. No such file: no lines. ERR_CORRUPT with the line's number,
 * whether it does not parse or `take` says ERR_CORRUPT of it. */
MUST_USE enum err_code trials_read(const char *flow_folder, trials_take_fn take, void *owner,
                                   struct err *err);

struct trials_log;

/* For appending; made if missing. A last line without its end is cut off. */
MUST_USE enum err_code trials_open(const char *flow_folder, struct trials_log **out,
                                   struct err *err);
void trials_close(struct trials_log *log); /* NULL does nothing */

/* Appends whole lines (trials_add_line) and waits until they are on the disk. On failure none of
 * them counts: the file is cut back, now or before the next append. */
MUST_USE enum err_code trials_append(struct trials_log *log, const struct str *lines,
                                     struct err *err);

#endif
