/* History, importance and the Pareto front. */
#include "cli/trial_plots.h"

#include "base/mem.h"
#include "cli/trial_range.h"
#include "cli/trial_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 800, FRAME_HEIGHT = 360, FRAME_LEFT = 78, BELOW = 88 };

static uint64_t number_of(const uint64_t *numbers, size_t trial)
{
    return numbers ? numbers[trial] : trial;
}

/* --- history -----------------------------------------------------------------------------------*/

static void draw_best_line(struct str *out, const struct trial_table *table,
                           const struct trial_panel *panel)
{
    double sign = table->maximize ? -1 : 1;
    double best = (double)INFINITY;
    double drawn_y = 0;
    bool begun = false;
    for (size_t t = 0; t < table->trial_count; t++) {
        double value = table->objective[t];
        if (!trial_range_usable(value, false) || sign * value >= best) {
            continue;
        }
        best = sign * value;
        double x = trial_panel_x(panel, (double)t);
        double y = trial_panel_y(panel, value);
        if (!begun) {
            str_addf(out, "<path class=\"l c1\" d=\"M%.1f %.1f", x, y);
        } else if (fabs(y - drawn_y) >= 0.1) {
            str_addf(out, "H%.1fV%.1f", x, y);
        }
        begun = true;
        drawn_y = y;
    }
    if (begun) {
        str_addf(out, "H%.1f\"/>\n", panel->frame.x + panel->frame.w);
    }
}

/* Marks that would hide one another are drawn once: they only differ in x. */
struct edge {
    double free_from;
};

static void draw_edge_mark(struct str *out, struct edge *edge, const char *shape, double x,
                           double y)
{
    if (x >= edge->free_from) {
        trial_svg_mark(out, shape, shape[0] == 'c' ? "c7" : "c0", x, y);
        edge->free_from = x + 3;
    }
}

static void draw_results(struct str *out, const struct trial_table *table,
                         const struct trial_panel *panel, const struct trial_range *range)
{
    struct trial_dots dots;
    struct edge failed = {-1e9};
    struct edge beyond = {-1e9};
    trial_dots_init(&dots, &panel->frame);
    for (size_t t = 0; t < table->trial_count; t++) {
        double value = table->objective[t];
        double x = trial_panel_x(panel, (double)t);
        if (!trial_range_usable(value, false)) {
            draw_edge_mark(out, &failed, "cross", x, panel->frame.y - 9);
        } else if (!trial_range_holds(range, value)) {
            draw_edge_mark(out, &beyond, table->maximize ? "down" : "up", x,
                           panel->frame.y + (table->maximize ? panel->frame.h : 0));
        } else {
            trial_dots_add(&dots, x, trial_panel_y(panel, value));
        }
    }
    trial_dots_finish(&dots, out, table->trial_count > 400 ? "p i c0" : "p c0");
}

static void draw_best_label(struct str *out, const struct trial_table *table,
                            const struct trial_panel *panel, size_t best)
{
    double x = trial_panel_x(panel, (double)best);
    double y = trial_panel_y(panel, table->objective[best]);
    AUTO_STR struct str label = {0};
    str_addf(&label, "%.5g, trial %" PRIu64, table->objective[best],
             number_of(table->numbers, best));
    trial_svg_mark(out, "ring", "c1", x, y);
    /* nothing is better than the best: on that side there is room */
    bool left = x > panel->frame.x + panel->frame.w / 2;
    struct trial_text where = {x + (left ? 4 : -4), y + (table->maximize ? -12 : 22),
                               left ? "end" : "start", "k h", 0};
    trial_svg_text(out, &where, str_text(&label));
}

static const char *count_text(struct str *text, const char *what, size_t count)
{
    str_addf(text, "%s (%zu)", what, count);
    return count > 0 ? str_text(text) : NULL;
}

static void scale_history(const struct trial_table *table, const struct trial_range *range,
                          struct trial_panel *panel)
{
    double last = table->trial_count > 1 ? (double)(table->trial_count - 1) : 1;
    double air = range->high - range->low;
    plot_scale_init(&panel->x, -0.01 * last, 1.01 * last, false, 8);
    plot_scale_init(&panel->y, range->low - (table->maximize ? 0.04 : 0.1) * air,
                    range->high + (table->maximize ? 0.1 : 0.04) * air, false, 7);
}

void trial_plot_history(const struct trial_table *table, struct str *out)
{
    struct trial_range range =
        trial_range_of(table->objective, table->trial_count, table->maximize);
    AUTO_STR struct str subtitle = {0};
    AUTO_STR struct str failed = {0};
    AUTO_STR struct str beyond = {0};
    AUTO_STR struct str title = {0};
    str_addf(&title, "History: %s by trial", table->metric);
    str_addf(&subtitle, "%zu trials; %s is better", table->trial_count,
             table->maximize ? "higher" : "lower");
    double height = TRIAL_SVG_TOP + FRAME_HEIGHT + BELOW;
    struct trial_panel panel = {.x_label = "trial", .y_label = table->metric};
    panel.frame = (struct plot_box){FRAME_LEFT, TRIAL_SVG_TOP + 14, WIDTH - FRAME_LEFT - 24,
                                    FRAME_HEIGHT - 14};
    scale_history(table, &range, &panel);
    trial_svg_begin(out, WIDTH, height, str_text(&title), str_text(&subtitle));
    trial_panel_draw(out, &panel);
    draw_results(out, table, &panel, &range);
    draw_best_line(out, table, &panel);
    if (range.finite > 0) {
        draw_best_label(out, table, &panel, range.best);
    }
    const struct trial_key keys[] = {
        {"dot", "p c0", "trial"},
        {"line", "l c1", "best so far"},
        {"cross", "c7", count_text(&failed, "failed", table->trial_count - range.finite)},
        {table->maximize ? "down" : "up", "c0",
         count_text(&beyond, "beyond the frame", range.beyond)}};
    trial_svg_legend(out, keys, 4, FRAME_LEFT, height - 18);
    trial_svg_end(out);
}

/* --- importance --------------------------------------------------------------------------------*/

enum { BARS_MAX = 24, PAIR_BARS_MAX = 6, BAR_HEIGHT = 17, BAR_STEP = 25, NAME_ROOM = 240 };

static int by_share(const void *left, const void *right)
{
    const struct importance_pair *a = left;
    const struct importance_pair *b = right;
    if (a->share != b->share) {
        return a->share > b->share ? -1 : 1;
    }
    return (a->a > b->a) - (a->a < b->a);
}

/* Where the next bar goes; without out they are only measured. */
struct bars {
    struct str *out;
    struct plot_box row;
    struct plot_scale scale; /* of per cent */
    double widest;           /* name */
};

static void draw_bar(struct bars *bars, const char *name, double share, const char *class)
{
    struct plot_box *row = &bars->row;
    bars->widest = fmax(bars->widest, trial_svg_text_width(name, TRIAL_SVG_FONT));
    if (bars->out) {
        double length = row->w * plot_scale_place(&bars->scale, 100 * share);
        char percent[16];
        snprintf(percent, sizeof percent, "%.1f %%", 100 * share);
        trial_svg_text(bars->out,
                       &(struct trial_text){row->x - 8, row->y + 13, "end", "", NAME_ROOM}, name);
        str_addf(bars->out,
                 "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", class,
                 row->x, row->y, fmax(length, 0.5), BAR_HEIGHT);
        trial_svg_text(bars->out,
                       &(struct trial_text){row->x + length + 6, row->y + 13, "start", "k", 0},
                       percent);
    }
    row->y += BAR_STEP;
}

static void draw_bars(struct bars *bars, const struct trial_table *table,
                      const struct importance *found)
{
    struct importance_pair mains[IMPORTANCE_PARAMS_MAX] = {{0}};
    for (size_t p = 0; p < table->param_count; p++) {
        mains[p] = (struct importance_pair){.a = p, .share = found->main[p]};
    }
    qsort(mains, table->param_count, sizeof mains[0], by_share);
    for (size_t i = 0; i < table->param_count && i < BARS_MAX; i++) {
        draw_bar(bars, table->params[mains[i].a].name, mains[i].share, "f c0");
    }
    for (size_t i = 0; i < found->pair_count && i < PAIR_BARS_MAX; i++) {
        const struct importance_pair *pair = &found->pairs[i];
        if (pair->share < 0.001) {
            break;
        }
        AUTO_STR struct str name = {0};
        str_addf(&name, "%s \xc3\x97 %s", table->params[pair->a].name, table->params[pair->b].name);
        draw_bar(bars, str_text(&name), pair->share, "e c1");
    }
    draw_bar(bars, "everything else", found->rest, "e c6");
}

static void add_importance_subtitle(struct str *text, const struct trial_table *table,
                                    const struct importance *found)
{
    str_addf(text, "%zu trials; a forest foretells %.0f %% of the variance of trials left out",
             found->used, 100 * fmax(found->fit, 0));
    if (found->fit < IMPORTANCE_FIT_MIN) {
        str_add(text, ": too little to conclude from");
    }
    if (table->param_count > BARS_MAX) {
        str_addf(text, "; %d of %zu parameters", BARS_MAX, table->param_count);
    }
}

static double highest_share(const struct trial_table *table, const struct importance *found)
{
    double highest = fmax(found->rest, found->pair_count > 0 ? found->pairs[0].share : 0);
    for (size_t p = 0; p < table->param_count; p++) {
        highest = fmax(highest, found->main[p]);
    }
    return fmax(highest, 0.05);
}

void trial_plot_importance(const struct trial_table *table, const struct importance *found,
                           struct str *out)
{
    CHECK(table->param_count <= IMPORTANCE_PARAMS_MAX);
    AUTO_STR struct str title = {0};
    AUTO_STR struct str subtitle = {0};
    str_addf(&title, "Importance: share of the variation of %s", table->metric);
    add_importance_subtitle(&subtitle, table, found);
    struct bars bars = {.row = {.y = TRIAL_SVG_TOP + 6, .h = BAR_HEIGHT}};
    struct plot_box first = bars.row;
    draw_bars(&bars, table, found);
    double end = bars.row.y;
    first.x = TRIAL_SVG_MARGIN + fmin(bars.widest, NAME_ROOM) + 12;
    first.w = WIDTH - first.x - 90;
    struct trial_panel panel = {.x_label = "share of the variance (%)"};
    panel.frame = (struct plot_box){first.x, TRIAL_SVG_TOP, first.w, end - TRIAL_SVG_TOP};
    plot_scale_init(&panel.x, 0, 100 * highest_share(table, found), false, 6);
    plot_scale_init(&panel.y, 0, 1, false, 2);
    panel.y.tick_count = 0;
    bars = (struct bars){.out = out, .row = first, .scale = panel.x};
    trial_svg_begin(out, WIDTH, end + BELOW, str_text(&title), str_text(&subtitle));
    trial_panel_draw(out, &panel);
    draw_bars(&bars, table, found);
    const struct trial_key keys[] = {{"box", "f c0", "by itself"},
                                     {"box", "e c1", "two together, beyond both alone"}};
    trial_svg_legend(out, keys, 2, first.x, end + BELOW - 18);
    trial_svg_end(out);
}
