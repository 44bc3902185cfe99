/* Parallel coordinates: an axis a parameter and one for the value, a line a trial. */
#include "base/mem.h"
#include "cli/trial_plots.h"
#include "cli/trial_range.h"
#include "cli/trial_svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    AXES_MAX = 33, /* with that of the value */
    LINES_MAX = 400,
    WIDTH_MIN = 800,
    AXIS_STEP = 104,
    LEFT = 58,
    RIGHT = 74,
    AXIS_HEIGHT = 340,
    ABSENT = 26,    /* below the axes: where absent values and failures go */
    NAMES_MAX = 14, /* choices named on an axis */
};

struct axis {
    const char *name;
    const struct trial_param *param; /* NULL: the value */
    struct plot_scale scale;
    bool has_absent;
    double x;
};

struct drawing {
    struct str *out;
    const struct trial_table *table;
    struct trial_range range;
    struct axis axes[AXES_MAX];
    size_t axis_count;
    double top;
    double bottom;
};

static double value_at(const struct drawing *drawing, size_t axis, size_t trial)
{
    const struct trial_table *table = drawing->table;
    const struct trial_param *param = drawing->axes[axis].param;
    double value =
        param ? table->values[trial * table->param_count + axis] : table->objective[trial];
    bool log = param && param->kind == TRIAL_LOG;
    return trial_range_usable(value, log) ? value : (double)NAN;
}

static void scale_axis(struct drawing *drawing, size_t at)
{
    struct axis *axis = &drawing->axes[at];
    double low = (double)INFINITY;
    double high = -(double)INFINITY;
    for (size_t t = 0; t < drawing->table->trial_count; t++) {
        double value = value_at(drawing, at, t);
        axis->has_absent = axis->has_absent || !isfinite(value);
        low = isfinite(value) ? fmin(low, value) : low;
        high = isfinite(value) ? fmax(high, value) : high;
    }
    if (!axis->param) {
        low = drawing->range.low;
        high = drawing->range.high;
    } else if (axis->param->kind == TRIAL_CATEGORY && axis->param->choice_count > 0) {
        low = 0;
        high = (double)axis->param->choice_count - 1;
    } else if (low > high) {
        low = 0;
        high = 1;
    }
    plot_scale_init(&axis->scale, low, high, axis->param && axis->param->kind == TRIAL_LOG, 6);
}

static double axis_y(const struct drawing *drawing, const struct axis *axis, double value)
{
    if (!isfinite(value)) {
        return drawing->bottom + ABSENT;
    }
    double place = fmin(fmax(plot_scale_place(&axis->scale, value), 0), 1);
    return drawing->bottom - place * (drawing->bottom - drawing->top);
}

static void lay_axes(struct drawing *drawing, double width)
{
    const struct trial_table *table = drawing->table;
    double step = (width - LEFT - RIGHT) / (double)(drawing->axis_count - 1);
    for (size_t i = 0; i < drawing->axis_count; i++) {
        struct axis *axis = &drawing->axes[i];
        bool last = i + 1 == drawing->axis_count;
        axis->param = last ? NULL : &table->params[i];
        axis->name = last ? table->metric : axis->param->name;
        axis->x = LEFT + step * (double)i;
        scale_axis(drawing, i);
    }
}

/* --- lines -------------------------------------------------------------------------------------*/

struct ranked {
    double key; /* lower is better; infinity: failed */
    size_t trial;
};

static int by_key(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return (a->trial > b->trial) - (a->trial < b->trial);
}

static struct ranked *rank_trials(const struct trial_table *table)
{
    struct ranked *ranked = mem_array(table->trial_count, sizeof *ranked);
    for (size_t t = 0; t < table->trial_count; t++) {
        double value = table->objective[t];
        double key = table->maximize ? -value : value;
        ranked[t] = (struct ranked){trial_range_usable(value, false) ? key : (double)INFINITY, t};
    }
    qsort(ranked, table->trial_count, sizeof *ranked, by_key);
    return ranked;
}

static void draw_line(struct drawing *drawing, size_t trial, const char *class)
{
    str_addf(drawing->out, "<path class=\"l %s\" d=\"", class);
    for (size_t i = 0; i < drawing->axis_count; i++) {
        const struct axis *axis = &drawing->axes[i];
        str_addf(drawing->out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', axis->x,
                 axis_y(drawing, axis, value_at(drawing, i, trial)));
    }
    str_add(drawing->out, "\"/>\n");
}

/* By rank, so that some lines stand out whatever the values are: the best 3 %, at most ten, are
 * strongest. */
static int strength(size_t rank, size_t count)
{
    static const struct {
        double share;
        size_t most;
    } steps[TRIAL_SVG_RAMP - 1] = {{0.03, 10},      {0.1, 40},       {0.22, 100},
                                   {0.4, SIZE_MAX}, {0.6, SIZE_MAX}, {0.8, SIZE_MAX}};
    for (int i = 0; i < TRIAL_SVG_RAMP - 1; i++) {
        if (rank == 0 || (rank < steps[i].most && (double)rank < steps[i].share * (double)count)) {
            return TRIAL_SVG_RAMP - 1 - i;
        }
    }
    return 0;
}

/* Worst first, so that good lines lie on top. Of too many, the best quarter of the lines is spent
 * on the best trials, the others evenly on the rest. Returns how many were drawn. */
static size_t draw_lines(struct drawing *drawing)
{
    size_t count = drawing->table->trial_count;
    struct ranked *ranked = rank_trials(drawing->table);
    size_t sure = LINES_MAX / 4;
    size_t skip = count > LINES_MAX ? (count - sure) / (LINES_MAX - sure) + 1 : 1;
    size_t drawn = 0;
    for (size_t i = count; i-- > 0;) {
        if (i >= sure && (i - sure) % skip != 0) {
            continue;
        }
        drawn++;
        if (ranked[i].key == (double)INFINITY) {
            draw_line(drawing, ranked[i].trial, "n dash c7");
            continue;
        }
        int level = strength(i, drawing->range.finite);
        char class[16];
        snprintf(class, sizeof class, "%sv%d",
                 i == 0                        ? "w "
                 : level == TRIAL_SVG_RAMP - 1 ? ""
                                               : "n ",
                 level);
        draw_line(drawing, ranked[i].trial, class);
    }
    free(ranked);
    return drawn;
}

/* --- axes --------------------------------------------------------------------------------------*/

static void draw_tick(struct drawing *drawing, const struct axis *axis, double value,
                      const char *text)
{
    double y = axis_y(drawing, axis, value);
    str_addf(drawing->out, "<path class=\"axis\" d=\"M%.1f %.1fh-4\"/>\n", axis->x, y);
    bool last = !axis->param;
    trial_svg_text(drawing->out,
                   &(struct trial_text){axis->x + (last ? 6 : -6), y + 4, last ? "start" : "end",
                                        "s k", last ? RIGHT - 10 : 64},
                   text);
}

static void draw_ticks(struct drawing *drawing, const struct axis *axis)
{
    if (!axis->param || axis->param->kind != TRIAL_CATEGORY || axis->param->choice_count == 0) {
        for (size_t i = 0; i < axis->scale.tick_count; i++) {
            draw_tick(drawing, axis, axis->scale.ticks[i].value, axis->scale.ticks[i].text);
        }
        return;
    }
    size_t skip = (axis->param->choice_count - 1) / NAMES_MAX + 1;
    for (size_t i = 0; i < axis->param->choice_count; i += skip) {
        draw_tick(drawing, axis, (double)i, axis->param->choices[i]);
    }
}

static void draw_axis(struct drawing *drawing, const struct axis *axis, double room)
{
    str_addf(drawing->out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1f\"/>\n", axis->x, drawing->top,
             drawing->bottom);
    draw_ticks(drawing, axis);
    if (axis->has_absent) {
        draw_tick(drawing, axis, (double)NAN, axis->param ? "absent" : "failed");
    }
    trial_svg_text(drawing->out,
                   &(struct trial_text){axis->x + (axis->param ? 0 : 12), drawing->top - 14,
                                        "middle", "h", room},
                   axis->name);
}

static void draw_ramp(struct drawing *drawing, double y)
{
    trial_svg_text(drawing->out, &(struct trial_text){LEFT, y, "start", "", 0}, "worse");
    for (int i = 0; i < TRIAL_SVG_RAMP; i++) {
        str_addf(drawing->out,
                 "<rect class=\"f v%d\" x=\"%d\" y=\"%.1f\" width=\"22\" height=\"11\"/>\n", i,
                 LEFT + 46 + 22 * i, y - 10);
    }
    trial_svg_text(drawing->out,
                   &(struct trial_text){LEFT + 52 + 22 * TRIAL_SVG_RAMP, y, "start", "", 0},
                   "better, by rank");
}

static void add_subtitle(const struct drawing *drawing, struct str *text)
{
    const struct trial_table *table = drawing->table;
    str_addf(text, "%zu trials; %s %s is better", table->trial_count,
             table->maximize ? "higher" : "lower", table->metric);
    if (table->trial_count > LINES_MAX) {
        str_addf(text, "; drawn are the best %d and some others", LINES_MAX / 4);
    }
    if (drawing->range.beyond > 0) {
        str_addf(text, "; %zu beyond the scale", drawing->range.beyond);
    }
    if (drawing->axis_count <= table->param_count) {
        str_addf(text, "; the first %zu of %zu parameters", drawing->axis_count - 1,
                 table->param_count);
    }
}

void trial_plot_parallel(const struct trial_table *table, struct str *out)
{
    struct drawing drawing = {.out = out, .table = table, .top = TRIAL_SVG_TOP + 34};
    drawing.range = trial_range_of(table->objective, table->trial_count, table->maximize);
    drawing.bottom = drawing.top + AXIS_HEIGHT;
    drawing.axis_count = table->param_count < AXES_MAX - 1 ? table->param_count + 1 : AXES_MAX;
    drawing.axis_count = drawing.axis_count > 1 ? drawing.axis_count : 2;
    CHECK(table->param_count > 0);
    double width = fmax(WIDTH_MIN, LEFT + RIGHT + (double)(drawing.axis_count - 1) * AXIS_STEP);
    lay_axes(&drawing, width);
    AUTO_STR struct str title = {0};
    AUTO_STR struct str subtitle = {0};
    str_addf(&title, "Parallel coordinates: from parameters to %s", table->metric);
    add_subtitle(&drawing, &subtitle);
    double height = drawing.bottom + ABSENT + 50;
    trial_svg_begin(out, width, height, str_text(&title), str_text(&subtitle));
    draw_lines(&drawing);
    double room = drawing.axes[1].x - drawing.axes[0].x - 8;
    for (size_t i = 0; i < drawing.axis_count; i++) {
        draw_axis(&drawing, &drawing.axes[i], room);
    }
    draw_ramp(&drawing, height - 16);
    trial_svg_end(out);
}
