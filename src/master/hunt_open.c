/* hunt_open.c - a workflow's searches as their log says they were. */
#include "master/hunt_internal.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void hunt_leg_destroy(struct hunt_leg *leg)
{
    gauge_destroy(leg->gauge);
    str_release(&leg->why);
    free(leg->folder);
    free(leg);
}

static void drop_open(struct hunt *hunt)
{
    for (size_t i = 0; i < hunt->open_count; i++) {
        hunt_leg_destroy(hunt->open[i]);
    }
    hunt->open_count = 0;
    hunt->stopped_count = 0;
}

void hunt_destroy(struct hunt *hunt)
{
    if (!hunt) {
        return;
    }
    drop_open(hunt);
    hunt_drop_warm(hunt);
    search_destroy(hunt->search);
    asha_destroy(hunt->asha);
    early_destroy(hunt->early);
    pareto_destroy(hunt->pareto);
    gauge_destroy(hunt->reread_gauge);
    for (size_t i = 0; i < ASHA_RUNGS_MAX; i++) {
        free(hunt->rungs[i].values);
    }
    free(hunt->title);
    free(hunt->told);
    free(hunt->open);
    free(hunt->stopped);
    free(hunt->search_told);
    str_release(&hunt->why);
    free(hunt);
}

/* What has a result stays so, unless its task is tried again; what has none is waited for. */
void hunt_find_open(struct hunt *hunt)
{
    drop_open(hunt);
    for (uint64_t leg = 0; leg < hunt->book->leg_count; leg++) {
        bool is_told = hunt_is_told(hunt, leg);
        if (is_told && hunt_is_final(hunt, leg)) {
            continue;
        }
        if (is_told &&
            (hunt->told[leg] == 1 + TRIALS_STOPPED || hunt->told[leg] == 1 + TRIALS_DIVERGED)) {
            VEC_PUSH(hunt->stopped, hunt->stopped_count, hunt->stopped_cap) = leg;
        } else {
            hunt_add_open(hunt, leg);
        }
    }
}

static enum err_code make_judges(struct hunt *hunt, struct err *err)
{
    const struct search_spec *spec = hunt->experiment->search;
    struct stop_options stop;
    search_space_stop(hunt->experiment, &stop);
    stop_init(&hunt->stop, &stop);
    if (spec->goal_count > 1) {
        bool maximize[RECIPE_GOALS_MAX];
        for (size_t i = 0; i < spec->goal_count; i++) {
            maximize[i] = spec->goals[i].maximize;
        }
        hunt->pareto = pareto_create(maximize, spec->goal_count, 0);
    }
    hunt->early = hunt_make_early(hunt);
    if (spec->early.algorithm != RECIPE_EARLY_ASHA) {
        return ERR_OK;
    }
    struct asha_options asha;
    search_space_asha(hunt->experiment, &asha);
    return asha_create(&asha, &hunt->asha, err);
}

static enum err_code make_hunt(struct hunt_flow *home, struct server *server, uint32_t number,
                               struct err *err)
{
    struct hunt *hunt = mem_alloc(sizeof *hunt);
    home->hunts[home->hunt_count++] = hunt;
    hunt->server = server;
    hunt->home = home;
    hunt->number = number;
    hunt->experiment = &home->flow->recipe->experiments[number];
    struct str title = {0};
    str_addf(&title, "%s%s%s", home->flow->has_own_folder ? home->flow->id : "",
             home->flow->has_own_folder ? "/" : "", hunt->experiment->name);
    hunt->title = str_take(&title);
    hunt->book = ledger_book(home->flow->ledger, number);
    hunt->search = search_create(search_space_options(hunt->book->space), err);
    if (!hunt->search) {
        return ERR_INVALID;
    }
    hunt->chosen = search_choice(hunt->search);
    return make_judges(hunt, err);
}

/* --- the log -----------------------------------------------------------------------------------
 */

static struct hunt *hunt_of(const struct hunt_flow *home, const char *experiment)
{
    for (size_t i = 0; i < home->hunt_count; i++) {
        if (strcmp(home->hunts[i]->experiment->name, experiment) == 0) {
            return home->hunts[i];
        }
    }
    return NULL;
}

static enum err_code take_line(void *owner, const struct trials_line *line, struct err *err)
{
    struct hunt_flow *home = owner;
    enum err_code code = ledger_take(home->flow->ledger, line, err);
    if (code != ERR_OK) {
        return code;
    }
    struct hunt *hunt = hunt_of(home, line->experiment);
    switch (line->kind) {
    case TRIALS_SEARCH:
        hunt->began_ms = hunt->began_ms ? hunt->began_ms : line->at_ms;
        (void)!search_algorithm_find(line->chosen, &hunt->chosen);
        break;
    case TRIALS_SUGGESTED:
        return hunt_apply_suggested(hunt, line, err);
    case TRIALS_RESULT:
        if (line->value_count != hunt->experiment->search->goal_count) {
            return err_set(err, ERR_CORRUPT, "%zu values, not one for each metric",
                           line->value_count);
        }
        hunt_apply_result(hunt, line);
        break;
    case TRIALS_WARM:
        return hunt_apply_warm(hunt, line, err);
    case TRIALS_STOP:
        hunt->is_over = true;
        hunt->ends_running = true; /* otherwise it would not be written before they ended */
        hunt->over_is_logged = true;
        str_clear(&hunt->why);
        str_add(&hunt->why, line->why);
        break;
    }
    return ERR_OK;
}

/* The core knows of no task that the log does not have: that was written first. */
static enum err_code compare_with_core(struct hunt *hunt, struct err *err)
{
    struct core_experiment_view view;
    core_experiment_view(hunt->server->core, hunt->home->flow->number, hunt->number, &view);
    if (view.tasks > hunt_task(hunt, hunt->book->leg_count)) {
        return err_set(err, ERR_CORRUPT,
                       "trials.log: has %zu suggestions for '%s', of which %llu tasks were made",
                       hunt->book->leg_count, hunt->experiment->name,
                       (unsigned long long)view.tasks);
    }
    return ERR_OK;
}

enum err_code hunt_open_flow(struct hunt_flow *home, struct server *server, struct err *err)
{
    const struct recipe *recipe = home->flow->recipe;
    enum err_code code = ERR_OK;
    home->hunts = mem_array(recipe->experiment_count, sizeof(struct hunt *));
    ledger_begin(home->flow->ledger);
    for (uint32_t e = 0; e < recipe->experiment_count && code == ERR_OK; e++) {
        if (recipe->experiments[e].search) {
            code = make_hunt(home, server, e, err);
        }
    }
    if (code == ERR_OK) {
        code = trials_open(home->flow->folder, &home->log, err);
    }
    if (code == ERR_OK) {
        code = trials_read(home->flow->folder, take_line, home, err);
    }
    for (size_t i = 0; i < home->hunt_count && code == ERR_OK; i++) {
        code = compare_with_core(home->hunts[i], err);
    }
    for (size_t i = 0; i < home->hunt_count && code == ERR_OK; i++) {
        struct hunt *hunt = home->hunts[i];
        hunt_find_open(hunt);
        hunt->reread_count = hunt->early ? hunt->book->leg_count : 0;
    }
    return code;
}
