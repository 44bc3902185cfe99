#include "cli/trial_picture.h"

#include "base/mem.h"
#include "cli/trial_columns.h"
#include "cli/trial_range.h"

#include <math.h>
#include <string.h>

static const char *const names[TRIAL_PICTURE_COUNT] = {"history", "parallel", "importance",
                                                       "slices", "pareto"};

const char *trial_picture_name(enum trial_picture picture)
{
    CHECK(picture < TRIAL_PICTURE_COUNT);
    return names[picture];
}

enum trial_picture trial_picture_find(const char *name)
{
    enum trial_picture picture = TRIAL_HISTORY;
    while (picture < TRIAL_PICTURE_COUNT && strcmp(names[picture], name) != 0) {
        picture++;
    }
    return picture;
}

/* --- importance --------------------------------------------------------------------------------
 */

static enum err_code compute(const struct trial_columns *columns, struct importance *out,
                             struct err *err)
{
    const struct trial_table *table = &columns->table;
    struct importance_table numbers = {.params = columns->params,
                                       .param_count = table->param_count,
                                       .values = table->values,
                                       .results = table->objective,
                                       .trial_count = table->trial_count};
    struct importance_options options = {.seed = 1, .maximize = table->maximize};
    return importance_compute(&numbers, &options, out, err);
}

enum err_code trial_picture_importance(const struct trial_search *search, size_t goal,
                                       struct importance *out, struct err *err)
{
    struct arena arena = {0};
    struct trial_columns columns;
    struct importance found = {0};
    trial_columns_make(search, goal, &arena, &columns);
    enum err_code code = compute(&columns, &found, err);
    if (code == ERR_OK) {
        *out = found;
        memset(out->main, 0, sizeof out->main);
        for (size_t i = 0; i < columns.table.param_count; i++) {
            out->main[columns.which[i]] = found.main[i];
        }
        for (size_t i = 0; i < found.pair_count; i++) {
            out->pairs[i].a = columns.which[found.pairs[i].a];
            out->pairs[i].b = columns.which[found.pairs[i].b];
        }
    }
    arena_release(&arena);
    return code;
}

/* --- svg ---------------------------------------------------------------------------------------
 */

static void draw_pareto(const struct trial_search *search, const struct trial_table *table,
                        struct arena *arena, struct str *out)
{
    struct trial_goal goals[TRIAL_SET_GOALS_MAX];
    for (size_t g = 0; g < search->goal_count; g++) {
        struct trial_columns columns;
        trial_columns_make(search, g, arena, &columns);
        goals[g] = (struct trial_goal){.name = search->metrics[g],
                                       .maximize = search->maximize[g],
                                       .values = columns.table.objective};
    }
    trial_plot_pareto(goals, search->goal_count, table->numbers, table->trial_count, out);
}

static enum err_code draw(const struct trial_search *search, enum trial_picture picture,
                          const struct trial_columns *columns, struct arena *arena, struct str *out,
                          struct err *err)
{
    struct importance found = {0};
    enum err_code code = ERR_OK;
    switch (picture) {
    case TRIAL_HISTORY:
        trial_plot_history(&columns->table, out);
        break;
    case TRIAL_PARALLEL:
        trial_plot_parallel(&columns->table, out);
        break;
    case TRIAL_SLICES:
        trial_plot_slices(&columns->table, out);
        break;
    case TRIAL_IMPORTANCE:
        code = compute(columns, &found, err);
        if (code == ERR_OK) {
            trial_plot_importance(&columns->table, &found, out);
        }
        break;
    case TRIAL_PARETO:
        draw_pareto(search, &columns->table, arena, out);
        break;
    case TRIAL_PICTURE_COUNT:
        break;
    }
    return code;
}

enum err_code trial_picture_svg(const struct trial_search *search, enum trial_picture picture,
                                size_t goal, struct str *out, struct err *err)
{
    struct arena arena = {0};
    struct trial_columns columns;
    enum err_code code = ERR_OK;
    if (picture == TRIAL_PARETO && search->goal_count < 2) {
        return err_set(err, ERR_INVALID,
                       "a Pareto front needs two metrics; %.64s is searched for "
                       "one alone",
                       search->experiment);
    }
    trial_columns_make(search, goal, &arena, &columns);
    if (columns.table.trial_count == 0) {
        code = err_set(err, ERR_INVALID, "no trial is over yet");
    } else if (columns.table.param_count == 0 && picture != TRIAL_HISTORY &&
               picture != TRIAL_PARETO) {
        code = err_set(err, ERR_INVALID, "no parameter has more than one value yet");
    } else {
        code = draw(search, picture, &columns, &arena, out, err);
    }
    arena_release(&arena);
    return code;
}

/* --- terminal ----------------------------------------------------------------------------------
 */

size_t trial_picture_best_line(const struct trial_search *search, size_t goal, struct arena *arena,
                               struct plot_point **out)
{
    AUTO_FREE size_t *order = trial_set_by_number(search);
    struct plot_point *points = arena_alloc(arena, (2 * search->count + 1) * sizeof *points);
    size_t count = 0;
    double best = (double)NAN;
    double last = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct trial *trial = &search->trials[order[i]];
        double x = (double)trial->number + 1;
        last = trial->rated || !trial->open ? x : last;
        if (!trial->rated ||
            (count > 0 && !trial_better(trial->values[goal], best, search->maximize[goal]))) {
            continue;
        }
        if (count > 0) {
            points[count++] = (struct plot_point){.x = x, .y = best};
        }
        best = trial->values[goal];
        points[count++] = (struct plot_point){.x = x, .y = best};
    }
    if (count > 0 && last > points[count - 1].x) {
        points[count++] = (struct plot_point){.x = last, .y = best};
    }
    *out = points;
    return count;
}

/* All results but those so far off that they would squeeze the others together. */
static size_t find_dots(const struct trial_search *search, size_t goal, struct arena *arena,
                        struct plot_point **out, struct trial_range *range)
{
    struct trial_columns columns;
    trial_columns_make(search, goal, arena, &columns);
    const struct trial_table *table = &columns.table;
    *range = trial_range_of(table->objective, table->trial_count, table->maximize);
    *out = arena_alloc(arena, (table->trial_count + 1) * sizeof **out);
    size_t count = 0;
    for (size_t i = 0; i < table->trial_count; i++) {
        double value = table->objective[i];
        if (trial_range_usable(value, false) && trial_range_holds(range, value)) {
            (*out)[count++] = (struct plot_point){.x = (double)table->numbers[i] + 1, .y = value};
        }
    }
    return count;
}

void trial_picture_term(const struct trial_search *search, size_t goal,
                        const struct plot_terminal *terminal, struct str *out)
{
    struct arena arena = {0};
    struct trial_range range;
    struct plot_point *dots = NULL;
    struct plot_point *line = NULL;
    struct plot_series series[2] = {{.name = "trial", .dots = true, .style = 0},
                                    {.name = "best so far", .line = true, .style = 1}};
    series[0].count = find_dots(search, goal, &arena, &dots, &range);
    series[1].count = trial_picture_best_line(search, goal, &arena, &line);
    /* the best only gets better: what is far off of it comes first */
    while (series[1].count > 0 && !trial_range_holds(&range, line->y)) {
        line++;
        series[1].count--;
    }
    series[0].points = dots;
    series[1].points = line;
    struct plot plot = {.title = search->experiment,
                        .x_label = "trial, counted from 1",
                        .y_label = search->metrics[goal],
                        .series = series,
                        .series_count = 2};
    if (series[0].count > 0) {
        plot_term(&plot, terminal, out);
    } else {
        str_add(out, "no trial has a value yet\n");
    }
    if (range.beyond > 0) {
        str_addf(out, "%zu results far off are not shown\n", range.beyond);
    }
    arena_release(&arena);
}
