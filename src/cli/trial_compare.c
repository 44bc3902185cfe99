#include "cli/trial_compare.h"

#include "base/json.h"
#include "cli/trial_picture.h"
#include "cli/trial_show.h"
#include "cli/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool maximizes(const struct trial_comparison *comparison)
{
    return comparison->entries[0].search->maximize[comparison->entries[0].goal];
}

static const char *metric_of(const struct trial_comparison *comparison)
{
    return comparison->entries[0].search->metrics[comparison->entries[0].goal];
}

static const char *algorithm_of(const struct trial_search *search)
{
    return jread_text(search->node, "chosen", jread_text(search->node, "algorithm", "?"));
}

double trial_compare_after(const struct trial_outcome *outcome, uint64_t trials)
{
    double value = (double)NAN;
    for (size_t i = 0; i < outcome->line_count && outcome->line[i].x <= (double)trials; i++) {
        value = outcome->line[i].y;
    }
    return value;
}

/* --- comparing ---------------------------------------------------------------------------------
 */

static void judge(struct trial_comparison *comparison, size_t index)
{
    const struct trial_entry *entry = &comparison->entries[index];
    struct trial_outcome *outcome = &comparison->outcomes[index];
    outcome->best = (double)NAN;
    outcome->line_count =
        trial_picture_best_line(entry->search, entry->goal, &comparison->arena, &outcome->line);
    if (outcome->line_count > 0) {
        outcome->best = outcome->line[outcome->line_count - 1].y;
    }
    /* the last point may only say how long the search went on */
    for (size_t i = outcome->line_count; i > 0 && outcome->line[i - 1].y == outcome->best; i--) {
        outcome->best_trial = (uint64_t)outcome->line[i - 1].x - 1;
    }
}

static uint64_t first_reach(const struct trial_outcome *outcome, double target, bool maximize)
{
    for (size_t i = 0; i < outcome->line_count; i++) {
        if (!trial_better(target, outcome->line[i].y, maximize)) {
            return (uint64_t)outcome->line[i].x;
        }
    }
    return 0;
}

/* 1, 2, 5, 10, 20 ... as many as the longest search needs, and of these the last. */
static void choose_columns(struct trial_comparison *comparison)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_outcome *outcome = &comparison->outcomes[i];
        double last = outcome->line_count > 0 ? outcome->line[outcome->line_count - 1].x : 0;
        longest = (uint64_t)last > longest ? (uint64_t)last : longest;
    }
    uint64_t next = 1;
    for (unsigned step = 0; next < longest; step++) {
        if (comparison->after_count == TRIAL_COMPARE_COLUMNS) {
            memmove(comparison->after, comparison->after + 1,
                    (TRIAL_COMPARE_COLUMNS - 1) * sizeof comparison->after[0]);
            comparison->after_count--;
        }
        comparison->after[comparison->after_count++] = next;
        next = step % 3 == 1 ? next / 2 * 5 : next * 2;
    }
}

/* What a picture says: names with their algorithms, as text that the comparison owns. */
static void make_labels(struct trial_comparison *comparison)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "Best %s so far, %s", metric_of(comparison),
             maximizes(comparison) ? "higher is better" : "lower is better");
    comparison->title = arena_strndup(&comparison->arena, str_text(&text), text.size);
    for (size_t i = 0; i < comparison->count; i++) {
        str_clear(&text);
        str_addf(&text, "%s (", comparison->entries[i].name);
        jread_add_clean(&text, algorithm_of(comparison->entries[i].search));
        str_add_char(&text, ')');
        comparison->outcomes[i].label =
            arena_strndup(&comparison->arena, str_text(&text), text.size);
    }
}

void trial_compare(const struct trial_entry *entries, size_t count, struct trial_comparison *out)
{
    CHECK(count > 0);
    CHECK(count <= TRIAL_COMPARE_MAX);
    *out = (struct trial_comparison){.entries = entries, .count = count, .target = (double)NAN};
    out->outcomes = arena_alloc(&out->arena, count * sizeof *out->outcomes);
    bool maximize = maximizes(out);
    for (size_t i = 0; i < count; i++) {
        judge(out, i);
        double best = out->outcomes[i].best;
        if (!isnan(best) && (isnan(out->target) || trial_better(out->target, best, maximize))) {
            out->target = best;
        }
    }
    for (size_t i = 0; i < count; i++) {
        out->outcomes[i].reached = first_reach(&out->outcomes[i], out->target, maximize);
    }
    choose_columns(out);
    make_labels(out);
}

void trial_compare_release(struct trial_comparison *comparison)
{
    arena_release(&comparison->arena);
    *comparison = (struct trial_comparison){0};
}

/* --- showing -----------------------------------------------------------------------------------
 */

static void add_number(struct str *out, int width, double number)
{
    AUTO_STR struct str text = {0};
    trial_show_number(&text, number);
    str_addf(out, "  %*s", width, str_text(&text));
}

static void add_row(struct str *out, const struct trial_comparison *comparison, size_t index,
                    int columns)
{
    const struct trial_entry *entry = &comparison->entries[index];
    const struct trial_outcome *outcome = &comparison->outcomes[index];
    AUTO_STR struct str name = {0};
    jread_add_clean(&name, entry->name);
    int width = view_width(str_text(&name), name.size);
    str_add_bytes(out, str_text(&name), name.size);
    str_add_repeat(out, " ", (size_t)(columns > width ? columns - width : 0));
    name.size = 0;
    jread_add_clean(&name, algorithm_of(entry->search));
    str_addf(out, "  %-9.9s  %6zu", str_text(&name), entry->search->count);
    for (size_t i = 0; i < comparison->after_count; i++) {
        add_number(out, 10, trial_compare_after(outcome, comparison->after[i]));
    }
    add_number(out, 10, outcome->best);
    if (outcome->line_count > 0) {
        str_addf(out, "  %6" PRIu64 "  %7" PRIu64, outcome->best_trial, outcome->reached);
    }
    str_add_char(out, '\n');
}

void trial_compare_text(struct str *out, const struct trial_comparison *comparison)
{
    int columns = (int)strlen("workflow");
    for (size_t i = 0; i < comparison->count; i++) {
        const char *name = comparison->entries[i].name;
        int width = view_width(name, strlen(name));
        columns = width > columns ? width : columns;
    }
    str_addf(out, "best %s so far (%s) after so many trials\n", metric_of(comparison),
             maximizes(comparison) ? "maximize" : "minimize");
    str_addf(out, "%-*s  %-9s  %6s", columns, "workflow", "algorithm", "trials");
    for (size_t i = 0; i < comparison->after_count; i++) {
        str_addf(out, "  %10" PRIu64, comparison->after[i]);
    }
    str_addf(out, "  %10s  %6s  %7s\n", "best", "trial", "reached");
    for (size_t i = 0; i < comparison->count; i++) {
        add_row(out, comparison, i, columns);
    }
    if (!isnan(comparison->target)) {
        str_add(out, "reached: how many trials it took to be as good as ");
        trial_show_number(out, comparison->target);
        str_add_char(out, '\n');
    }
}

static void add_curve(struct json *json, const struct trial_outcome *outcome)
{
    json_key(json, "curve");
    json_array(json);
    for (size_t i = 0; i < outcome->line_count; i++) {
        bool corner = i + 1 < outcome->line_count && outcome->line[i + 1].x == outcome->line[i].x;
        if (!corner) {
            json_array(json);
            json_u64(json, (uint64_t)outcome->line[i].x);
            json_double(json, outcome->line[i].y);
            json_end(json);
        }
    }
    json_end(json);
}

void trial_compare_json(struct str *out, const struct trial_comparison *comparison,
                        const char *const *workflows)
{
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_search *search = comparison->entries[i].search;
        const struct trial_outcome *outcome = &comparison->outcomes[i];
        struct json json = {.out = out};
        json_object(&json);
        json_key(&json, "workflow"), json_text(&json, workflows[i]);
        json_key(&json, "experiment"), json_text(&json, search->experiment);
        json_key(&json, "algorithm"), json_text(&json, algorithm_of(search));
        json_key(&json, "metric"), json_text(&json, metric_of(comparison));
        json_key(&json, "goal");
        json_text(&json, maximizes(comparison) ? "maximize" : "minimize");
        json_key(&json, "trials"), json_u64(&json, search->count);
        json_key(&json, "best"), json_double(&json, outcome->best);
        json_key(&json, "trial");
        if (outcome->line_count > 0) {
            json_u64(&json, outcome->best_trial);
        } else {
            json_null(&json);
        }
        json_key(&json, "target"), json_double(&json, comparison->target);
        json_key(&json, "reached");
        if (outcome->reached > 0) {
            json_u64(&json, outcome->reached);
        } else {
            json_null(&json);
        }
        add_curve(&json, outcome);
        json_end(&json);
        str_add_char(out, '\n');
    }
}

struct plot trial_compare_plot(const struct trial_comparison *comparison,
                               struct plot_series *series)
{
    for (size_t i = 0; i < comparison->count; i++) {
        series[i] = (struct plot_series){.name = comparison->outcomes[i].label,
                                         .style = (unsigned)i,
                                         .line = true,
                                         .points = comparison->outcomes[i].line,
                                         .count = comparison->outcomes[i].line_count};
    }
    return (struct plot){.title = comparison->title,
                         .x_label = "trials",
                         .y_label = metric_of(comparison),
                         .series = series,
                         .series_count = comparison->count};
}
