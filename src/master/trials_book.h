/* trials_book.h - what FLOW/trials.log says of each trial, folded together. Private to trials_*.c
 * and warm*.c. Memory: the text of each trial's parameters and metrics, and about 150 bytes. */
#ifndef MASTER_TRIALS_BOOK_H
#define MASTER_TRIALS_BOOK_H

#include "base/arena.h"
#include "base/err.h"
#include "master/flow.h"
#include "master/trials.h"

struct book_trial {
    uint64_t trial;
    uint64_t task; /* with rung and budget: of the newest suggestion */
    uint32_t rung;
    bool has_budget;
    uint64_t budget;
    const char *params;
    const char *point;
    int64_t suggested_ms; /* first */
    bool ended;           /* the newest suggestion has a result */
    bool has_result;      /* some has: the last one is what follows */
    enum trials_state state;
    uint64_t result_task;
    double values[TRIALS_GOALS_MAX];
    size_t value_count;
    const char *metrics; /* a JSON object */
    const char *reason;  /* or NULL */
    bool has_step;
    double step;
    int64_t finished_ms;
};

struct book_search {
    bool begun; /* what follows is known */
    char algorithm[16];
    char chosen[16];
    const char *why;
    uint64_t seed;
    const char *closed;        /* why, or NULL */
    uint64_t warm;             /* trials of earlier workflows that were told */
    struct book_trial *trials; /* ascending */
    size_t count;
    size_t cap;
};

struct book {
    const struct recipe *recipe;
    struct arena arena;
    struct book_search *searches; /* one for each experiment of the recipe */
};

/* Release in either case. ERR_CORRUPT, ERR_IO. */
MUST_USE enum err_code book_read(struct book *book, const struct recipe *recipe,
                                 const char *flow_folder, struct err *err);
void book_release(struct book *book);

/* One line of one search. Texts go into the arena; free search->trials. ERR_CORRUPT: it does not
 * follow from those before. */
MUST_USE enum err_code book_take(struct arena *arena, struct book_search *search,
                                 const struct trials_line *line, struct err *err);

/* NULL: there is no such trial. */
const struct book_trial *book_find(const struct book_search *search, uint64_t trial);

#endif
