/* hunt_tell.c - what came of trials: read from their tasks, written down, told to the search. */
#include "master/hunt_internal.h"

#include "base/mem.h"
#include "master/place.h"
#include "master/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 12 };

/* --- what a result means -----------------------------------------------------------------------
 */

bool hunt_is_told(const struct hunt *hunt, uint64_t leg)
{
    return leg < hunt->told_cap && hunt->told[leg] != 0;
}

static void mark_told(struct hunt *hunt, uint64_t leg, enum trials_state state)
{
    if (leg >= hunt->told_cap) {
        size_t cap = 2 * (size_t)leg + 64;
        hunt->told = mem_resize(hunt->told, cap, 1);
        memset(hunt->told + hunt->told_cap, 0, cap - hunt->told_cap);
        hunt->told_cap = cap;
    }
    hunt->told[leg] = (uint8_t)(1 + state);
}

static void tell_search(struct hunt *hunt, uint64_t trial, enum search_status status,
                        const double *values)
{
    enum err_code code = search_tell(hunt->search, hunt->warm_count + trial, status, values, NULL);
    CHECK(code == ERR_OK);
}

static bool all_finite(const struct trials_line *line)
{
    for (size_t i = 0; i < line->value_count; i++) {
        if (!isfinite(line->values[i])) {
            return false;
        }
    }
    return line->value_count > 0;
}

static void tell_plain(struct hunt *hunt, const struct trials_line *line)
{
    const double *values = all_finite(line) ? line->values : NULL;
    switch (line->state) {
    case TRIALS_SUCCEEDED:
        tell_search(hunt, line->trial, SEARCH_FINISHED, line->values);
        break;
    case TRIALS_STOPPED:
        tell_search(hunt, line->trial, SEARCH_PRUNED, values);
        break;
    case TRIALS_FAILED:
        tell_search(hunt, line->trial, SEARCH_FAILED, NULL);
        break;
    case TRIALS_DIVERGED:
        tell_search(hunt, line->trial, SEARCH_DIVERGED, NULL);
        break;
    case TRIALS_CANCELLED:
        tell_search(hunt, line->trial, SEARCH_GONE, NULL);
        break;
    }
}

/* --- asha: a trial is told of once, when it is clear how far it gets ---------------------------
 */

static bool *told_place(struct hunt *hunt, uint64_t trial)
{
    if (trial >= hunt->search_told_cap) {
        size_t cap = 2 * (size_t)trial + 64;
        hunt->search_told = mem_resize(hunt->search_told, cap, sizeof *hunt->search_told);
        memset(hunt->search_told + hunt->search_told_cap, 0,
               (cap - hunt->search_told_cap) * sizeof *hunt->search_told);
        hunt->search_told_cap = cap;
    }
    return &hunt->search_told[trial];
}

/* Whether the value is among the best 1/eta of those that reported in this rung so far. */
static bool is_promising(struct hunt *hunt, uint32_t rung, double value)
{
    struct hunt_rung *of = &hunt->rungs[rung];
    double sign = hunt->experiment->search->goals[0].maximize ? -1 : 1;
    size_t better = 0;
    for (size_t i = 0; i < of->count; i++) {
        better += sign * of->values[i] < sign * value;
    }
    VEC_PUSH(of->values, of->count, of->cap) = value;
    return better < of->count / hunt->experiment->search->early.eta;
}

/* Bad ones at once, as far as they got; promising ones after their next rung; those that got to the
 * end as finished. */
static void tell_asha(struct hunt *hunt, const struct trials_line *line)
{
    bool finite =
        all_finite(line) && (line->state == TRIALS_SUCCEEDED || line->state == TRIALS_STOPPED);
    double value = finite ? line->values[0] : (double)NAN;
    if (asha_report(hunt->asha, (uint32_t)line->trial, line->rung, value, NULL) != ERR_OK) {
        return; /* it reported there before */
    }
    bool *told = told_place(hunt, line->trial);
    bool is_last = line->rung + 1 == asha_rung_count(hunt->asha);
    bool waits = finite && !is_last && line->state == TRIALS_SUCCEEDED &&
                 is_promising(hunt, line->rung, value);
    if (*told || waits) {
        return;
    }
    *told = true;
    if (line->state == TRIALS_SUCCEEDED && !is_last) {
        tell_search(hunt, line->trial, SEARCH_PRUNED, line->values);
    } else {
        tell_plain(hunt, line);
    }
}

static void count_result(struct hunt *hunt, const struct trials_line *line)
{
    bool counts = line->state == TRIALS_SUCCEEDED || line->state == TRIALS_STOPPED;
    if (line->state == TRIALS_CANCELLED) {
        return;
    }
    if (hunt->pareto) {
        bool moved = counts && all_finite(line) &&
                     pareto_add(hunt->pareto, line->trial, line->values) == PARETO_MOVED;
        stop_front(&hunt->stop, moved);
    } else {
        stop_result(&hunt->stop, line->trial, counts ? line->values[0] : (double)NAN);
    }
}

void hunt_apply_result(struct hunt *hunt, const struct trials_line *line)
{
    uint64_t leg = line->task / hunt->experiment->gang;
    bool is_first = !hunt_is_told(hunt, leg);
    mark_told(hunt, leg, line->state);
    if (!is_first) {
        return; /* tried again by hand: for people */
    }
    if (hunt->asha) {
        tell_asha(hunt, line);
    } else {
        tell_plain(hunt, line);
    }
    count_result(hunt, line);
    if (hunt->early) {
        early_forget(hunt->early, (uint32_t)line->trial);
    }
}

/* --- reading a task ----------------------------------------------------------------------------
 */

static void view_of(const struct hunt_leg *leg, uint32_t member, struct core_task_view *out)
{
    const struct hunt *hunt = leg->hunt;
    core_task_view(hunt->server->core, hunt->home->flow->number, hunt->number,
                   hunt_task(hunt, leg->leg) + member, out);
}

/* The logs and outputs of the leg's tasks, the rest of them. False: there is more, next time. */
static bool read_tasks(struct hunt_leg *leg)
{
    const struct hunt *hunt = leg->hunt;
    const char *folder = hunt->home->flow->folder;
    int64_t now_ms = server_now_ms(hunt->server);
    if (leg->gauge && leg->folder) { /* the folder may be another task's by now: read it all anew */
        gauge_destroy(leg->gauge);
        leg->gauge = NULL;
        free(leg->folder);
        leg->folder = NULL;
    }
    if (!leg->gauge) {
        leg->gauge = hunt_make_gauge(leg);
    }
    for (; leg->member < hunt->experiment->gang; leg->member++) {
        uint64_t task = hunt_task(hunt, leg->leg) + leg->member;
        struct core_task_view view;
        AUTO_STR struct str path = {0};
        view_of(leg, leg->member, &view);
        if (leg->attempt != view.attempt) {
            leg->attempt = view.attempt;
            gauge_next_log(leg->gauge);
        }
        place_add_log(&path, folder, hunt->experiment->name, task, view.attempt);
        while (gauge_read_log(leg->gauge, str_text(&path), now_ms)) {
            if (hunt_time_is_up(hunt)) {
                return false;
            }
        }
        gauge_end_log(leg->gauge, now_ms);
        if (view.has_output && view.state == TASK_SUCCEEDED) {
            str_clear(&path);
            place_add_attempt(&path, folder, hunt->experiment->name, task, view.attempt);
            gauge_read_folder(leg->gauge, str_text(&path), now_ms);
        }
        leg->attempt = 0; /* the next task's log is another */
    }
    return true;
}

/* --- the result --------------------------------------------------------------------------------
 */

static void add_seen(const struct metrics *metrics, struct str *out)
{
    size_t count = metrics ? metrics_count(metrics) : 0;
    if (count == 0) {
        str_add(out, "no metrics at all were seen");
        return;
    }
    str_add(out, "seen: ");
    for (size_t i = 0; i < count && i < NAMES_SHOWN; i++) {
        str_addf(out, "%s%s", i > 0 ? ", " : "", metrics_at(metrics, i)->name);
    }
    str_add(out, count > NAMES_SHOWN ? ", ..." : "");
}

/* The value of each goal; what is wrong with them, if anything, goes to the state and `why`. */
static void judge_values(const struct hunt_leg *leg, struct trials_line *line, struct str *why)
{
    const struct search_spec *spec = leg->hunt->experiment->search;
    const struct metrics *metrics = leg->gauge ? gauge_metrics(leg->gauge) : NULL;
    line->value_count = spec->goal_count;
    for (size_t i = 0; i < spec->goal_count; i++) {
        const struct metric_summary *found =
            metrics ? metrics_find_like(metrics, spec->goals[i].metric) : NULL;
        line->values[i] = found ? found->last.value : (double)NAN;
        if (found && !isfinite(found->last.value) && line->state != TRIALS_FAILED &&
            line->state != TRIALS_CANCELLED) {
            line->state = TRIALS_DIVERGED;
            str_clear(why);
            str_addf(why, "%s is %g", found->name, found->last.value);
        } else if (!found && line->state == TRIALS_SUCCEEDED) {
            line->state = TRIALS_FAILED;
            str_clear(why);
            str_addf(why, "no value of %s; ", spec->goals[i].metric);
            add_seen(metrics, why);
        }
    }
}

static void warn_of_missing(struct hunt *hunt, const struct hunt_leg *leg, const char *why)
{
    if (hunt->warned_metric) {
        return;
    }
    hunt->warned_metric = true;
    server_note(hunt->server,
                "warning: %s/%llu succeeded, but it reported %s. Such trials count as failed. See "
                "metric: and metrics: in the recipe",
                hunt->title, (unsigned long long)hunt_task(hunt, leg->leg), why);
}

static void list_metrics(const struct hunt_leg *leg, struct arena *arena, struct trials_line *line)
{
    const struct metrics *metrics = leg->gauge ? gauge_metrics(leg->gauge) : NULL;
    size_t count = metrics ? metrics_count(metrics) : 0;
    struct trials_metric *list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const struct metric_summary *summary = metrics_at(metrics, i);
        list[i] = (struct trials_metric){.name = summary->name, .value = summary->last.value};
    }
    line->metrics = list;
    line->metric_count = count < TRIALS_METRICS_MAX ? count : TRIALS_METRICS_MAX;
    const char *resource = leg->hunt->experiment->search->early.resource;
    line->has_step = metrics &&
                     metrics_progress(metrics, resource ? resource : "step", &line->step) &&
                     isfinite(line->step);
}

void hunt_finish_leg(struct hunt_leg *leg, enum trials_state state, const char *reason)
{
    struct hunt *hunt = leg->hunt;
    const struct ledger_leg *about = &hunt->book->legs[leg->leg];
    struct arena arena = {0};
    AUTO_STR struct str why = {0};
    str_add(&why, reason ? reason : "");
    struct trials_line line = {.kind = TRIALS_RESULT,
                               .experiment = hunt->experiment->name,
                               .at_ms = server_now_ms(hunt->server),
                               .task = hunt_task(hunt, leg->leg),
                               .trial = about->trial,
                               .rung = about->rung,
                               .state = state};
    judge_values(leg, &line, &why);
    if (state == TRIALS_SUCCEEDED && line.state == TRIALS_FAILED) {
        warn_of_missing(hunt, leg, str_text(&why));
    }
    list_metrics(leg, &arena, &line);
    line.reason = why.size > 0 ? str_text(&why) : NULL;
    trials_add_line(&hunt->home->pending, &line);
    for (size_t i = 0; i < line.value_count; i++) { /* as it will be read back */
        line.values[i] = isfinite(line.values[i]) ? line.values[i] : (double)NAN;
    }
    hunt_apply_result(hunt, &line);
    arena_release(&arena);
}

/* --- collecting --------------------------------------------------------------------------------
 */

/* How the leg ended, by the worst of its tasks. */
static enum trials_state state_of(const struct hunt_leg *leg, struct str *reason)
{
    enum trials_state state = TRIALS_SUCCEEDED;
    for (uint32_t i = 0; i < leg->hunt->experiment->gang; i++) {
        struct core_task_view view;
        view_of(leg, i, &view);
        if (view.state == TASK_FAILED) {
            words_add_outcome(reason, view.outcome, view.code, NULL);
            return TRIALS_FAILED;
        }
        if (view.state != TASK_SUCCEEDED) {
            state = TRIALS_CANCELLED;
        } else if (view.stopped && state == TRIALS_SUCCEEDED) {
            state = TRIALS_STOPPED;
        }
    }
    return state;
}

/* True: the leg has its result, or will have none, and is no longer open. */
static bool collect_leg(struct hunt_leg *leg, bool is_cancelled)
{
    struct hunt *hunt = leg->hunt;
    if (leg->after == 0) {
        if (!hunt_is_final(hunt, leg->leg)) {
            return false;
        }
        leg->after = core_last_fact(hunt->server->core);
    }
    if (leg->after > hunt->server->carrier.durable) {
        struct hunt_flow *home = hunt->home;
        home->waits_for =
            home->waits_for == 0 || leg->after < home->waits_for ? leg->after : home->waits_for;
        return false;
    }
    AUTO_STR struct str reason = {0};
    enum trials_state state = state_of(leg, &reason);
    if (state == TRIALS_CANCELLED && is_cancelled) {
        return true; /* with everything else: a retry takes it up again */
    }
    if (state != TRIALS_CANCELLED && !read_tasks(leg)) {
        return false;
    }
    if (hunt->ends_running && (state == TRIALS_STOPPED || state == TRIALS_CANCELLED)) {
        str_addf(&reason, "the search was over: %s", str_text(&hunt->why));
    }
    hunt_finish_leg(leg, state, reason.size > 0 ? str_text(&reason) : NULL);
    return true;
}

void hunt_collect(struct hunt *hunt)
{
    struct core_experiment_view view;
    core_experiment_view(hunt->server->core, hunt->home->flow->number, hunt->number, &view);
    bool is_cancelled = view.ended && !view.closed;
    size_t kept = 0;
    for (size_t i = 0; i < hunt->open_count; i++) {
        struct hunt_leg *leg = hunt->open[i];
        if (!hunt_time_is_up(hunt) && collect_leg(leg, is_cancelled)) {
            hunt_leg_destroy(leg);
        } else {
            hunt->open[kept++] = leg;
        }
    }
    hunt->open_count = kept;
}
