/* drover analyse stabilise */
#include "base/json.h"
#include "cli/analyse.h"

#include <math.h>

static void add_number_key(struct json *json, const char *key, double number)
{
    json_key(json, key);
    json_double(json, number); /* NAN becomes null */
}

static void add_setup(struct json *json, const struct curve *run)
{
    json_key(json, "type");
    if (run->type[0]) {
        json_text(json, run->type);
    } else {
        json_null(json);
    }
    add_number_key(json, "batch", run->batch);
}

/* The step at which training could have been stopped without knowing the rest; NAN: never. */
static double stop_step(const struct analyse *analyse, const struct curve *run)
{
    size_t stop = stabilise_replay(run->points, run->count, &analyse->stabilise);
    return stop > 0 ? run->points[stop - 1].step : (double)NAN;
}

static void add_run_json(const struct analyse *analyse, const struct curve *run,
                         const struct stabilise_result *result, struct str *out)
{
    bool stable = result->verdict == STABILISE_STABLE;
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "kind"), json_text(&json, "run");
    add_setup(&json, run);
    json_key(&json, "run"), json_text(&json, run->run);
    json_key(&json, "points"), json_u64(&json, run->count);
    json_key(&json, "stable"), json_bool(&json, stable);
    json_key(&json, "why"), json_text(&json, stabilise_verdict_why(result->verdict));
    add_number_key(&json, "step", stable ? result->step : (double)NAN);
    add_number_key(&json, "time_s",
                   stable && run->has_time ? run->points[result->index].time_s : (double)NAN);
    add_number_key(&json, "level", result->level);
    add_number_key(&json, "range", result->range);
    add_number_key(&json, "noise", result->noise);
    add_number_key(&json, "to_come", result->to_come);
    add_number_key(&json, "best_step", result->best_step);
    add_number_key(&json, "best", result->best_level);
    if (analyse->online) {
        add_number_key(&json, "stop_step", stop_step(analyse, run));
    }
    json_end(&json);
    str_add_char(out, '\n');
}

static void add_group_json(const struct curve *run, const struct stabilise_group *group,
                           struct str *out)
{
    bool stable = group->verdict == STABILISE_STABLE;
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "kind"), json_text(&json, "group");
    add_setup(&json, run);
    json_key(&json, "runs"), json_u64(&json, group->run_count);
    json_key(&json, "stable_runs"), json_u64(&json, group->stable_count);
    json_key(&json, "stable"), json_bool(&json, stable);
    add_number_key(&json, "step", stable ? group->step : (double)NAN);
    add_number_key(&json, "low_step", group->has_interval ? group->low_step : (double)NAN);
    add_number_key(&json, "high_step", group->has_interval ? group->high_step : (double)NAN);
    json_end(&json);
    str_add_char(out, '\n');
}

static void add_name(struct str *out, int width, const char *name)
{
    str_addf(out, "%-*.*s ", width, width, name[0] ? name : "-");
}

static void add_run_line(const struct analyse *analyse, const struct curve *run,
                         const struct stabilise_result *result, struct str *out)
{
    add_name(out, 16, run->type);
    analyse_add_number(out, 7, run->batch);
    str_add_char(out, ' ');
    add_name(out, 12, run->run);
    bool stable = result->verdict == STABILISE_STABLE;
    analyse_add_number(out, 10, stable ? result->step : (double)NAN);
    analyse_add_number(out, 10,
                       stable && run->has_time ? run->points[result->index].time_s : (double)NAN);
    bool judged = result->verdict != STABILISE_TOO_SHORT;
    analyse_add_number(out, 11, judged ? result->level : (double)NAN);
    analyse_add_number(out, 11, judged ? result->noise : (double)NAN);
    if (analyse->online) {
        analyse_add_number(out, 10, stop_step(analyse, run));
    }
    str_addf(out, "  %s", stabilise_verdict_name(result->verdict));
    if (!stable) {
        str_addf(out, ": %s", stabilise_verdict_why(result->verdict));
    }
    str_add_char(out, '\n');
}

static void add_group_line(const struct curve *run, const struct stabilise_group *group,
                           struct str *out)
{
    add_name(out, 16, run->type);
    analyse_add_number(out, 7, run->batch);
    str_addf(out, "  %zu of %zu runs stable", group->stable_count, group->run_count);
    if (group->verdict == STABILISE_STABLE) {
        str_add(out, ", at step ");
        analyse_add_number(out, 0, group->step);
    }
    if (group->has_interval) {
        str_add(out, " (90 %: ");
        analyse_add_number(out, 0, group->low_step);
        str_add(out, " to ");
        analyse_add_number(out, 0, group->high_step);
        str_add(out, ")");
    }
    str_add_char(out, '\n');
}

static void add_heading(const struct analyse *analyse, struct str *out)
{
    str_addf(out, "%-16s %7s %-12s %9s %9s %10s %10s", "TYPE", "BATCH", "RUN", "STEP", "TIME_S",
             "LEVEL", "NOISE");
    str_addf(out, "%s  VERDICT\n", analyse->online ? "   STOP_AT" : "");
}

static void add_groups(const struct analyse *analyse, const struct analysed *analysed,
                       struct str *out)
{
    const struct curve_set *set = &analysed->set;
    if (!analyse->as_json) {
        str_add_char(out, '\n');
    }
    for (size_t first = 0, group = 0; first < set->count; group++) {
        if (analyse->as_json) {
            add_group_json(&set->runs[first], &analysed->groups[group], out);
        } else {
            add_group_line(&set->runs[first], &analysed->groups[group], out);
        }
        first = curve_set_group_end(set, first);
    }
}

static int show(const struct analyse *analyse, const struct analysed *analysed)
{
    const struct curve_set *set = &analysed->set;
    AUTO_STR struct str out = {0};
    AUTO_STR struct str svg = {0};
    if (!analyse->as_json) {
        add_heading(analyse, &out);
    }
    for (size_t i = 0; i < set->count; i++) {
        if (analyse->as_json) {
            add_run_json(analyse, &set->runs[i], &analysed->results[i], &out);
        } else {
            add_run_line(analyse, &set->runs[i], &analysed->results[i], &out);
        }
    }
    add_groups(analyse, analysed, &out);
    struct draw_target target = analyse_target(analyse, &svg, &out);
    if (target.text) {
        str_add_char(&out, '\n');
    }
    if (target.text || target.svg) {
        draw_curves(&target, set, analysed->groups, analysed->counts.metric);
    }
    cli_write(&out);
    return analyse_write_svg(analyse, &svg);
}

int analyse_stabilise(const struct analyse *analyse)
{
    struct analysed analysed;
    int code = analyse_read(analyse, &analysed);
    if (code == EXIT_DONE) {
        code = show(analyse, &analysed);
    }
    analysed_release(&analysed);
    return code;
}
