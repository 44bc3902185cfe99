#include "master/ledger.h"

#include "base/mem.h"
#include "master/flow.h"

#include <stdlib.h>
#include <string.h>

struct ledger {
    const struct flow *flow;
    struct ledger_book *books; /* by experiment; made by ledger_begin */
    bool is_loaded;
    bool is_used;    /* since ledger_age looked */
    bool has_failed; /* to load: not tried again with every task that is looked at */
};

static bool has_search(const struct flow *flow)
{
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        if (flow->recipe->experiments[e].search) {
            return true;
        }
    }
    return false;
}

void ledger_attach(struct flow *flow)
{
    if (flow->ledger || !has_search(flow)) {
        return;
    }
    flow->ledger = mem_alloc(sizeof *flow->ledger);
    flow->ledger->flow = flow;
    flow->given = ledger_given;
    flow->given_owner = flow->ledger;
}

static void release_books(struct ledger *ledger)
{
    for (size_t e = 0; ledger->books && e < ledger->flow->recipe->experiment_count; e++) {
        search_space_destroy(ledger->books[e].space);
        free(ledger->books[e].legs);
        free(ledger->books[e].values);
    }
    free(ledger->books);
    ledger->books = NULL;
}

void ledger_destroy(struct ledger *ledger)
{
    if (ledger) {
        release_books(ledger);
        free(ledger);
    }
}

void ledger_forget(struct ledger *ledger)
{
    if (ledger) {
        release_books(ledger);
        ledger->is_loaded = false;
    }
}

void ledger_age(struct ledger *ledger)
{
    if (ledger && !ledger->is_used) {
        ledger_forget(ledger);
    }
    if (ledger) {
        ledger->is_used = false;
    }
}

void ledger_begin(struct ledger *ledger)
{
    const struct flow *flow = ledger->flow;
    release_books(ledger);
    ledger->books = mem_array(flow->recipe->experiment_count, sizeof *ledger->books);
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        const struct experiment *experiment = &flow->recipe->experiments[e];
        ledger->books[e].experiment = experiment;
        if (experiment->search) {
            ledger->books[e].space = search_space_create(experiment, flow->seed);
        }
    }
    ledger->is_loaded = true;
    ledger->has_failed = false;
}

static enum err_code take_line(void *owner, const struct trials_line *line, struct err *err)
{
    return ledger_take(owner, line, err);
}

enum err_code ledger_load(struct ledger *ledger, struct err *err)
{
    if (!ledger || ledger->is_loaded) {
        return ERR_OK;
    }
    ledger_begin(ledger);
    enum err_code code = trials_read(ledger->flow->folder, take_line, ledger, err);
    if (code != ERR_OK) {
        release_books(ledger);
        ledger->is_loaded = false;
        ledger->has_failed = true;
    }
    return code;
}

struct ledger_book *ledger_book(struct ledger *ledger, uint32_t experiment)
{
    if (!ledger || !ledger->books || experiment >= ledger->flow->recipe->experiment_count) {
        return NULL;
    }
    return ledger->books[experiment].space ? &ledger->books[experiment] : NULL;
}

struct ledger_book *ledger_book_of(struct ledger *ledger, const char *experiment)
{
    const struct recipe *recipe = ledger->flow->recipe;
    for (uint32_t e = 0; e < recipe->experiment_count; e++) {
        if (strcmp(recipe->experiments[e].name, experiment) == 0) {
            return ledger_book(ledger, e);
        }
    }
    return NULL;
}

const struct search_value *ledger_values(const struct ledger_book *book, uint64_t trial)
{
    CHECK(trial < book->trial_count);
    return book->values + trial * search_space_count(book->space);
}

void ledger_add(struct ledger_book *book, const struct ledger_leg *leg,
                const struct search_value *values)
{
    CHECK(leg->trial <= book->trial_count);
    if (leg->trial == book->trial_count) {
        for (size_t i = 0; i < search_space_count(book->space); i++) {
            VEC_PUSH(book->values, book->value_count, book->value_cap) = values[i];
        }
        book->trial_count++;
    }
    VEC_PUSH(book->legs, book->leg_count, book->leg_cap) = *leg;
}

static enum err_code take_suggested(struct ledger_book *book, const struct trials_line *line,
                                    struct err *err)
{
    const struct experiment *experiment = book->experiment;
    struct search_value values[SEARCH_PARAMS_MAX];
    if (line->task != (uint64_t)book->leg_count * experiment->gang ||
        line->task >= experiment->task_count || line->trial > book->trial_count) {
        return err_set(err, ERR_CORRUPT, "task %llu, trial %llu is not the next one",
                       (unsigned long long)line->task, (unsigned long long)line->trial);
    }
    enum err_code code = search_space_read_text(book->space, line->point, values, err);
    if (code == ERR_OK) {
        ledger_add(book,
                   &(struct ledger_leg){.trial = line->trial,
                                        .rung = line->rung,
                                        .budget = line->has_budget ? line->budget : 0},
                   values);
    }
    return code;
}

enum err_code ledger_take(struct ledger *ledger, const struct trials_line *line, struct err *err)
{
    struct ledger_book *book = ledger_book_of(ledger, line->experiment);
    if (!book) {
        return err_set(err, ERR_CORRUPT, "there is no search '%s'", line->experiment);
    }
    if (line->kind == TRIALS_SUGGESTED) {
        return take_suggested(book, line, err);
    }
    uint64_t leg = line->task / book->experiment->gang;
    if (line->kind == TRIALS_RESULT &&
        (leg >= book->leg_count || book->legs[leg].trial != line->trial ||
         book->legs[leg].rung != line->rung || line->task % book->experiment->gang != 0)) {
        return err_set(err, ERR_CORRUPT, "a result of task %llu, which is not trial %llu",
                       (unsigned long long)line->task, (unsigned long long)line->trial);
    }
    return ERR_OK;
}

bool ledger_given(void *owner, uint32_t experiment, uint64_t task, struct value *values,
                  struct plan_trial *out, struct arena *arena)
{
    struct ledger *ledger = owner;
    ledger->is_used = true;
    if (ledger->has_failed || ledger_load(ledger, NULL) != ERR_OK) {
        return false;
    }
    const struct ledger_book *book = ledger_book(ledger, experiment);
    if (!book || task / book->experiment->gang >= book->leg_count) {
        return false;
    }
    const struct ledger_leg *leg = &book->legs[task / book->experiment->gang];
    search_space_arguments(book->space, ledger_values(book, leg->trial), values, arena);
    *out = (struct plan_trial){.trial = leg->trial, .rung = leg->rung, .budget = leg->budget};
    return true;
}
