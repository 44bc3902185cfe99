/* The Pareto front: goals against one another. */
#include "base/mem.h"
#include "cli/trial_plots.h"
#include "cli/trial_range.h"
#include "cli/trial_svg.h"
#include "search/pareto.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WIDTH = 800,
    ALONE_HEIGHT = 400,
    SIDE = 300,
    SIDE_GAP = 96,
    SIDE_HEIGHT = 231,
    LEFT = 78,
    DRAWN_MAX = 4
};
enum { LABELS_MAX = 60, BELOW_PANEL = 48, BELOW = 34 };

struct drawing {
    struct str *out;
    const struct trial_goal *goals;
    const uint64_t *numbers;
    size_t trial_count;
    bool *on_front; /* by trial */
    bool *failed;
    size_t front_count;
    size_t failed_count;
    struct trial_range ranges[TRIAL_GOALS_MAX];
};

static void find_front(struct drawing *drawing, size_t goal_count)
{
    bool maximize[TRIAL_GOALS_MAX];
    for (size_t g = 0; g < goal_count; g++) {
        maximize[g] = drawing->goals[g].maximize;
    }
    struct pareto *pareto = pareto_create(maximize, goal_count, 0);
    for (size_t t = 0; t < drawing->trial_count; t++) {
        double values[TRIAL_GOALS_MAX];
        for (size_t g = 0; g < goal_count; g++) {
            values[g] = drawing->goals[g].values[t];
        }
        drawing->failed[t] = pareto_add(pareto, t, values) == PARETO_FAILED;
        drawing->failed_count += drawing->failed[t];
    }
    drawing->front_count = pareto_count(pareto);
    for (size_t i = 0; i < drawing->front_count; i++) {
        drawing->on_front[pareto_at(pareto, i).trial] = true;
    }
    pareto_destroy(pareto);
}

struct spot {
    double x;
    double y;
    size_t trial;
};

static int by_x(const void *left, const void *right)
{
    const struct spot *a = left;
    const struct spot *b = right;
    if (a->x != b->x) {
        return a->x < b->x ? -1 : 1;
    }
    if (a->y != b->y) {
        return a->y < b->y ? -1 : 1;
    }
    return (a->trial > b->trial) - (a->trial < b->trial);
}

/* Between two goals what is attained is bounded by a staircase: from one trial of the front to the
 * next, first the worse of x, or first the worse of y, never both better at once. */
static void draw_stairs(struct str *out, const struct spot *spots, size_t count, bool x_maximize)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0) {
            str_addf(out, "<path class=\"l c1\" d=\"M%.1f %.1f", spots[i].x, spots[i].y);
        } else if (x_maximize) {
            str_addf(out, "V%.1fH%.1f", spots[i].y, spots[i].x);
        } else {
            str_addf(out, "H%.1fV%.1f", spots[i].x, spots[i].y);
        }
    }
    if (count > 0) {
        str_add(out, "\"/>\n");
    }
}

/* The two lines of one step of the stairs. */
static void take_step(struct plot_boxes *boxes, const struct spot *from, const struct spot *to,
                      bool x_maximize)
{
    double level = x_maximize ? to->y : from->y;
    double wall = x_maximize ? from->x : to->x;
    double top = fmin(from->y, to->y);
    plot_boxes_take(boxes, (struct plot_box){from->x, level - 1, to->x - from->x, 2});
    plot_boxes_take(boxes, (struct plot_box){wall - 1, top, 2, fabs(from->y - to->y)});
}

/* A label that had to go farther away gets a line that leads to it. */
static void lead_to(struct str *out, const struct spot *spot, const struct plot_box *box)
{
    double x = fmin(fmax(spot->x, box->x), box->x + box->w);
    double y = fmin(fmax(spot->y, box->y), box->y + box->h);
    if (hypot(x - spot->x, y - spot->y) > 11) {
        str_addf(out, "<path class=\"lead\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", spot->x, spot->y, x,
                 y);
    }
}

static void label_spots(struct drawing *drawing, const struct trial_panel *panel,
                        const struct spot *spots, size_t count, bool x_maximize)
{
    struct plot_boxes boxes = {.frame = panel->frame};
    size_t skip = count / LABELS_MAX + 1;
    for (size_t i = 0; i < count; i++) {
        plot_boxes_take(&boxes, (struct plot_box){spots[i].x - 5, spots[i].y - 5, 10, 10});
        if (i > 0) {
            take_step(&boxes, &spots[i - 1], &spots[i], x_maximize);
        }
    }
    for (size_t i = 0; i < count; i += skip) {
        char text[24];
        uint64_t number = drawing->numbers ? drawing->numbers[spots[i].trial] : spots[i].trial;
        snprintf(text, sizeof text, "%" PRIu64, number);
        struct plot_box box = {.w = trial_svg_text_width(text, TRIAL_SVG_SMALL) + 4, .h = 14};
        if (plot_boxes_place(&boxes, spots[i].x, spots[i].y, 7, &box)) {
            lead_to(drawing->out, &spots[i], &box);
            trial_svg_text(drawing->out,
                           &(struct trial_text){box.x + box.w / 2, box.y + 11, "middle", "s k", 0},
                           text);
        }
    }
    plot_boxes_release(&boxes);
}

static void draw_trials(struct drawing *drawing, const struct trial_panel *panel, size_t x_goal,
                        size_t y_goal, bool alone)
{
    struct spot *spots = mem_array(drawing->front_count + 1, sizeof *spots);
    size_t count = 0;
    struct trial_dots others;
    struct trial_dots front;
    trial_dots_init(&others, &panel->frame);
    trial_dots_init(&front, &panel->frame);
    for (size_t t = 0; t < drawing->trial_count; t++) {
        double x = drawing->goals[x_goal].values[t];
        double y = drawing->goals[y_goal].values[t];
        bool shown = !drawing->failed[t] && trial_range_holds(&drawing->ranges[x_goal], x) &&
                     trial_range_holds(&drawing->ranges[y_goal], y);
        if (!shown) {
            continue;
        }
        struct spot spot = {trial_panel_x(panel, x), trial_panel_y(panel, y), t};
        trial_dots_add(drawing->on_front[t] ? &front : &others, spot.x, spot.y);
        if (drawing->on_front[t]) {
            spots[count++] = spot;
        }
    }
    qsort(spots, count, sizeof *spots, by_x);
    trial_dots_finish(&others, drawing->out, "p i c6");
    if (alone) {
        draw_stairs(drawing->out, spots, count, drawing->goals[x_goal].maximize);
    }
    trial_dots_finish(&front, drawing->out, alone ? "p big c1" : "p c1");
    if (alone) {
        label_spots(drawing, panel, spots, count, drawing->goals[x_goal].maximize);
    }
    free(spots);
}

static void draw_pair(struct drawing *drawing, size_t x_goal, size_t y_goal, struct plot_box frame,
                      bool alone)
{
    AUTO_STR struct str x_label = {0};
    AUTO_STR struct str y_label = {0};
    const struct trial_goal *x = &drawing->goals[x_goal];
    const struct trial_goal *y = &drawing->goals[y_goal];
    str_addf(&x_label, "%s (%s is better)", x->name, x->maximize ? "higher" : "lower");
    str_addf(&y_label, "%s (%s is better)", y->name, y->maximize ? "higher" : "lower");
    struct trial_panel panel = {.frame = frame,
                                .x_label = str_text(&x_label),
                                .y_label = str_text(&y_label),
                                .small = !alone};
    trial_range_scale(&drawing->ranges[x_goal], alone ? 8 : 5, &panel.x);
    trial_range_scale(&drawing->ranges[y_goal], alone ? 7 : 5, &panel.y);
    trial_panel_draw(drawing->out, &panel);
    draw_trials(drawing, &panel, x_goal, y_goal, alone);
}

static void add_subtitle(struct drawing *drawing, size_t goal_count, struct str *text)
{
    size_t beyond[2] = {0}; /* others, and on the front */
    for (size_t t = 0; t < drawing->trial_count; t++) {
        bool inside = true;
        for (size_t g = 0; g < goal_count && inside; g++) {
            inside = trial_range_holds(&drawing->ranges[g], drawing->goals[g].values[t]);
        }
        beyond[drawing->on_front[t]] += !inside && !drawing->failed[t];
    }
    str_addf(text, "%zu trials, %zu on the front", drawing->trial_count, drawing->front_count);
    if (drawing->failed_count > 0) {
        str_addf(text, ", %zu failed", drawing->failed_count);
    }
    if (beyond[0] + beyond[1] > 0) {
        str_addf(text, "; far off and not shown: %zu, of the front %zu", beyond[0] + beyond[1],
                 beyond[1]);
    }
    if (goal_count > DRAWN_MAX) {
        str_addf(text, "; the first %d of %zu goals", DRAWN_MAX, goal_count);
    }
}

static void draw_pairs(struct drawing *drawing, size_t drawn)
{
    size_t at = 0;
    for (size_t y = 1; y < drawn; y++) {
        for (size_t x = 0; x < y; x++, at++) {
            size_t column = at % 2;
            size_t row = at / 2;
            struct plot_box frame = {LEFT + (double)column * (SIDE + SIDE_GAP),
                                     TRIAL_SVG_TOP + (double)row * (SIDE_HEIGHT + BELOW_PANEL),
                                     SIDE, SIDE_HEIGHT};
            draw_pair(drawing, x, y, frame, false);
        }
    }
}

void trial_plot_pareto(const struct trial_goal *goals, size_t goal_count, const uint64_t *numbers,
                       size_t trial_count, struct str *out)
{
    CHECK(goal_count >= 2 && goal_count <= TRIAL_GOALS_MAX);
    struct drawing drawing = {.out = out,
                              .goals = goals,
                              .numbers = numbers,
                              .trial_count = trial_count,
                              .on_front = mem_array(trial_count, sizeof(bool)),
                              .failed = mem_array(trial_count, sizeof(bool))};
    find_front(&drawing, goal_count);
    for (size_t g = 0; g < goal_count; g++) {
        drawing.ranges[g] = trial_range_of(goals[g].values, trial_count, goals[g].maximize);
    }
    AUTO_STR struct str subtitle = {0};
    add_subtitle(&drawing, goal_count, &subtitle);
    size_t drawn = goal_count < DRAWN_MAX ? goal_count : DRAWN_MAX;
    size_t rows = (drawn * (drawn - 1) / 2 + 1) / 2;
    bool alone = goal_count == 2;
    double body = alone ? ALONE_HEIGHT + BELOW_PANEL : (double)rows * (SIDE_HEIGHT + BELOW_PANEL);
    double height = TRIAL_SVG_TOP + body + BELOW;
    trial_svg_begin(out, WIDTH, height, "Pareto front: no trial is better in every goal",
                    str_text(&subtitle));
    if (alone) {
        struct plot_box frame = {LEFT, TRIAL_SVG_TOP, WIDTH - LEFT - 24, ALONE_HEIGHT};
        draw_pair(&drawing, 0, 1, frame, true);
    } else {
        draw_pairs(&drawing, drawn);
    }
    const struct trial_key keys[] = {{"dot", alone ? "p big c1" : "p c1",
                                      alone ? "on the front, with its trial" : "on the front"},
                                     {"dot", "p i c6", "other trials"}};
    trial_svg_legend(out, keys, 2, LEFT, height - 16);
    trial_svg_end(out);
    free(drawing.on_front);
    free(drawing.failed);
}
