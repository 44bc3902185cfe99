/* Slices: the value against each parameter, small panels side by side with one scale for all. */
#include "base/mem.h"
#include "base/rng.h"
#include "cli/trial_plots.h"
#include "cli/trial_range.h"
#include "cli/trial_svg.h"

#include <math.h>

enum {
    COLUMNS = 3,
    PANELS_MAX = 24,
    PANEL_WIDTH = 232,
    PANEL_HEIGHT = 170,
    COLUMN_GAP = 20,
    ROW_GAP = 62,
    LEFT = 74,
    BELOW = 30,
};

/* The range of a parameter's finite values; for a category, all of its choices. */
static void scale_of(const struct trial_table *table, size_t param, struct plot_scale *scale)
{
    const struct trial_param *about = &table->params[param];
    double low = (double)INFINITY;
    double high = -(double)INFINITY;
    for (size_t t = 0; t < table->trial_count; t++) {
        double value = table->values[t * table->param_count + param];
        if (trial_range_usable(value, about->kind == TRIAL_LOG)) {
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    if (about->kind == TRIAL_CATEGORY) {
        double count = about->choice_count > 0 ? (double)about->choice_count : 1;
        plot_scale_init(scale, -0.5, count - 0.5, false, 4);
        return;
    }
    if (low > high) {
        low = 0;
        high = 1;
    }
    bool log = about->kind == TRIAL_LOG && low > 0;
    double air = log ? pow(high / low, 0.05) : 0.05 * (high - low);
    if (log) {
        plot_scale_init(scale, low / air, high * air, true, 5);
    } else {
        plot_scale_init(scale, low - air, high + air, false, 5);
    }
}

/* Trials of one category lie beside one another: up to a quarter of its room to either side, by a
 * number drawn from the trial. */
static double jitter(const struct trial_param *param, size_t trial)
{
    if (param->kind != TRIAL_CATEGORY) {
        return 0;
    }
    return 0.5 * (rng_unit_of(rng_mix(1, trial, 0)) - 0.5);
}

static void draw_panel(struct str *out, const struct trial_table *table, size_t param,
                       const struct trial_range *range, struct trial_panel *panel)
{
    const struct trial_param *about = &table->params[param];
    struct trial_dots dots;
    scale_of(table, param, &panel->x);
    panel->x_label = about->name;
    if (about->kind == TRIAL_CATEGORY && about->choice_count > 0) {
        panel->x_names = about->choices;
        panel->x_name_count = about->choice_count;
    }
    trial_panel_draw(out, panel);
    trial_dots_init(&dots, &panel->frame);
    for (size_t t = 0; t < table->trial_count; t++) {
        double value = table->values[t * table->param_count + param];
        double x = trial_panel_x(panel, value + jitter(about, t));
        if (isfinite(x) && trial_range_holds(range, table->objective[t])) {
            trial_dots_add(&dots, x, trial_panel_y(panel, table->objective[t]));
        }
    }
    trial_dots_finish(&dots, out, "p i c0");
    if (range->finite == 0) {
        return;
    }
    double best = table->values[range->best * table->param_count + param];
    if (trial_range_usable(best, about->kind == TRIAL_LOG)) {
        trial_svg_mark(out, "ring", "c1", trial_panel_x(panel, best + jitter(about, range->best)),
                       trial_panel_y(panel, table->objective[range->best]));
    }
}

void trial_plot_slices(const struct trial_table *table, struct str *out)
{
    struct trial_range range =
        trial_range_of(table->objective, table->trial_count, table->maximize);
    size_t panels = table->param_count < PANELS_MAX ? table->param_count : PANELS_MAX;
    size_t rows = panels > 0 ? (panels + COLUMNS - 1) / COLUMNS : 1;
    AUTO_STR struct str title = {0};
    AUTO_STR struct str subtitle = {0};
    str_addf(&title, "Slices: %s against each parameter", table->metric);
    str_addf(&subtitle, "%zu trials; %s is better", table->trial_count,
             table->maximize ? "higher" : "lower");
    size_t hidden = table->trial_count - range.finite + range.beyond;
    if (hidden > 0) {
        str_addf(&subtitle, "; %zu failed or far off are not shown", hidden);
    }
    if (panels < table->param_count) {
        str_addf(&subtitle, "; the first %zu of %zu parameters", panels, table->param_count);
    }
    double width = LEFT + COLUMNS * PANEL_WIDTH + (COLUMNS - 1) * COLUMN_GAP + 20;
    double height = TRIAL_SVG_TOP + (double)rows * (PANEL_HEIGHT + ROW_GAP) + BELOW - 14;
    trial_svg_begin(out, width, height, str_text(&title), str_text(&subtitle));
    for (size_t p = 0; p < panels; p++) {
        size_t column = p % COLUMNS;
        size_t row = p / COLUMNS;
        struct trial_panel panel = {.small = true, .y_label = column == 0 ? table->metric : NULL};
        panel.frame = (struct plot_box){LEFT + (double)column * (PANEL_WIDTH + COLUMN_GAP),
                                        TRIAL_SVG_TOP + (double)row * (PANEL_HEIGHT + ROW_GAP),
                                        PANEL_WIDTH, PANEL_HEIGHT};
        trial_range_scale(&range, 5, &panel.y);
        draw_panel(out, table, p, &range, &panel);
    }
    const struct trial_key keys[] = {{"dot", "p i c0", "trial"},
                                     {"ring", "c1", range.finite > 0 ? "the best" : NULL}};
    trial_svg_legend(out, keys, 2, LEFT, height - 14);
    trial_svg_end(out);
}
