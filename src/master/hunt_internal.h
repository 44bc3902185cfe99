/* hunt_internal.h - what a hunt is made of. Private to hunt*.c. */
#ifndef MASTER_HUNT_INTERNAL_H
#define MASTER_HUNT_INTERNAL_H

#include "master/gauge.h"
#include "master/hunt.h"
#include "master/ledger.h"
#include "master/server_state.h"
#include "search/pareto.h"

/* A leg whose result the search has not got, or that is tried once more. */
struct hunt_leg {
    struct hunt *hunt;
    uint64_t leg;
    uint64_t after;          /* a fact; it was final when this one was the newest. 0: not final */
    uint32_t attempt;        /* whose log the gauge reads */
    uint32_t member;         /* of its gang: those before have been read */
    struct gauge *gauge;     /* or NULL */
    char *folder;            /* what it writes while it runs goes there; NULL: not known */
    uint32_t folder_attempt; /* whose it is */
    bool should_stop;        /* early stopping says so: */
    struct str why;
};

/* Values of the trials that reported in one rung of asha. */
struct hunt_rung {
    double *values;
    size_t count;
    size_t cap;
};

/* One searched experiment. */
struct hunt {
    struct server *server;
    struct hunt_flow *home;
    uint32_t number; /* of the experiment */
    const struct experiment *experiment;
    char *title;              /* for people: its name, on a server with the workflow's */
    struct ledger_book *book; /* the flow's */
    struct search *search;
    struct asha *asha;     /* or NULL */
    struct early *early;   /* or NULL */
    struct pareto *pareto; /* with several goals */
    struct stop stop;

    int64_t began_ms;       /* 0: not yet */
    uint64_t warm_count;    /* trials of earlier workflows; the search counts them before its own */
    struct hunt_warm *warm; /* those that are still to be told; NULL: they were not read */
    enum search_algorithm chosen;
    uint8_t *told; /* by leg: it has a result */
    size_t told_cap;
    struct hunt_leg **open; /* by ascending leg */
    size_t open_count;
    size_t open_cap;
    uint64_t *stopped; /* legs with a result that the core is still to stop */
    size_t stopped_count;
    size_t stopped_cap;
    struct hunt_rung rungs[ASHA_RUNGS_MAX];
    bool *search_told; /* by trial; only with asha */
    size_t search_told_cap;
    size_t reread; /* legs whose curves the early rule has not got again after a restart */
    size_t reread_count;
    struct gauge *reread_gauge;

    bool is_over;      /* nothing more is asked for */
    bool ends_running; /* and what runs is to end */
    bool over_is_logged;
    struct str why;
    bool warned_metric; /* that it never came */
    bool warned_price;
};

/* The searches of one workflow. */
struct hunt_flow {
    struct flow *flow;
    struct hunt **hunts; /* one for each searched experiment */
    size_t hunt_count;
    struct trials_log *log;
    struct str pending; /* lines that are not written yet */
    bool is_broken;     /* its log makes no sense; said once */
    bool has_trouble;   /* it cannot be written */
    bool is_awake;      /* to be looked at in this turn */
    bool is_busy;       /* and in the next */
    uint64_t waits_for; /* a fact: once it is durable there is something to do. 0: nothing */
    int64_t looked_ms;
};

struct hunts {
    struct hunt_flow **flows; /* that run and have a search */
    size_t flow_count;
    size_t flow_cap;
    uint32_t flows_seen; /* of the session's */
    int64_t looked_ms;
    int64_t aged_ms;
    int64_t until_ms; /* this slice ends */
};

/* --- hunt.c --- */

bool hunt_time_is_up(const struct hunt *hunt); /* of this slice; sets busy */
uint64_t hunt_task(const struct hunt *hunt, uint64_t leg);
/* The leg as the core sees it: the state of the worst of its tasks, and whether all are final. */
bool hunt_is_final(const struct hunt *hunt, uint64_t leg);

/* --- hunt_open.c --- */

/* Replays trials.log into new hunts. An error: it does not read. */
MUST_USE enum err_code hunt_open_flow(struct hunt_flow *home, struct server *server,
                                      struct err *err);
void hunt_destroy(struct hunt *hunt);
/* Makes `open` and `stopped` anew from what is told and what the core says. */
void hunt_find_open(struct hunt *hunt);
void hunt_leg_destroy(struct hunt_leg *leg);

/* --- hunt_ask.c --- */

void hunt_ask(struct hunt *hunt);
/* A leg was suggested, now or in an earlier life. ERR_CORRUPT: it cannot be so. */
MUST_USE enum err_code hunt_apply_suggested(struct hunt *hunt, const struct trials_line *line,
                                            struct err *err);
void hunt_add_open(struct hunt *hunt, uint64_t leg);

/* --- hunt_warm.c --- */

/* Before the first trial: those of the workflows that warm_start: names are told to the search and
 * written down, with a note of how many. False: there are more, in the next slice. */
bool hunt_take_warm(struct hunt *hunt);
void hunt_drop_warm(struct hunt *hunt);
/* One that was written down. ERR_CORRUPT: it cannot be so. */
MUST_USE enum err_code hunt_apply_warm(struct hunt *hunt, const struct trials_line *line,
                                       struct err *err);

/* --- hunt_tell.c --- */

/* Results of legs that are final, durably. */
void hunt_collect(struct hunt *hunt);
/* What a result means for the search: the same live and in a replay. */
void hunt_apply_result(struct hunt *hunt, const struct trials_line *line);
bool hunt_is_told(const struct hunt *hunt, uint64_t leg);
/* Fills the line from the leg's gauge, writes it down and applies it. */
void hunt_finish_leg(struct hunt_leg *leg, enum trials_state state, const char *reason);

/* --- hunt_watch.c --- */

struct early *hunt_make_early(const struct hunt *hunt);
/* One that shows the early rule, if there is one, what it reads. */
struct gauge *hunt_make_gauge(struct hunt_leg *leg);
/* Looks at the logs of running trials and marks those that should stop. */
void hunt_watch(struct hunt *hunt);

/* --- hunt_over.c --- */

/* Asks the rules whether it is over. */
void hunt_judge(struct hunt *hunt);
/* Once what was written is durable: stops legs, defines new ones, closes. */
void hunt_settle(struct hunt *hunt);
/* Before that: the line that says it is over, when its time has come. */
void hunt_log_end(struct hunt *hunt);

#endif
