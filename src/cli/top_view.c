#include "cli/top_view.h"

#include "base/clock.h"
#include "cli/plot.h"
#include "cli/top_tables.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    WIDTH_MIN = 20,
    PLOT_LINES = 10, /* of the drawing itself */
    PLOT_WIDTH_MIN = 60,
    PLOT_WIDTH_MAX = 140,
};

/* --- what goes where ------------------------------------------------------------------------- */

struct plan {
    int head; /* lines of the header */
    bool has_foot;
    bool has_flows;
    bool has_nodes;
    size_t flow_rows; /* lines of each table, the last maybe saying how many more there are */
    size_t node_rows;
    int free; /* lines left over */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

static bool has_trouble(const struct top *top, const struct top_screen *screen)
{
    return screen->silent_ms > 0 || (top->trouble && top->trouble[0]);
}

static void make_plan(const struct top *top, const struct top_screen *screen, struct plan *plan)
{
    *plan = (struct plan){
        .head = has_trouble(top, screen) ? 4 : 3,
        .has_foot = screen->height > 0,
        .has_flows = screen->focus != TOP_NODES,
        .has_nodes = screen->focus != TOP_FLOWS,
    };
    size_t flows = plan->has_flows ? at_least_one(top->flow_count) : 0;
    size_t nodes = plan->has_nodes ? at_least_one(top->node_count) : 0;
    int frames = 2 * (plan->has_flows + plan->has_nodes); /* a blank and a heading each */
    int room = screen->height - plan->head - plan->has_foot - frames;
    if (screen->height == 0) {
        plan->flow_rows = flows;
        plan->node_rows = nodes;
        return;
    }
    if (room <= 0) {
        plan->has_flows = false;
        plan->has_nodes = false;
        return;
    }
    size_t lines = (size_t)room;
    size_t fair = plan->has_nodes ? lines / 3 : lines;
    size_t spare = lines > nodes ? lines - nodes : 0;
    plan->flow_rows = least(flows, fair > spare ? fair : spare);
    plan->node_rows = least(nodes, lines - plan->flow_rows);
    plan->free = (int)(lines - plan->flow_rows - plan->node_rows);
}

/* The rows of a table of `count` that are shown in so many lines. */
static struct top_window window_of(size_t count, size_t lines, size_t scroll)
{
    if (count <= lines || lines == 0) {
        return (struct top_window){.rows = least(count, lines)};
    }
    size_t rows = lines - 1;
    return (struct top_window){.first = least(scroll, count - rows), .rows = rows};
}

static bool scrolls_flows(const struct top_screen *screen)
{
    return screen->focus == TOP_FLOWS;
}

size_t top_view_scroll_max(const struct top *top, const struct top_screen *screen)
{
    struct plan plan;
    make_plan(top, screen, &plan);
    size_t count = scrolls_flows(screen) ? top->flow_count : top->node_count;
    size_t lines = scrolls_flows(screen) ? plan.flow_rows : plan.node_rows;
    return count > lines && lines > 0 ? count - (lines - 1) : 0;
}

size_t top_view_nodes(const struct top *top, const struct top_screen *screen, size_t *first)
{
    struct plan plan;
    make_plan(top, screen, &plan);
    size_t scroll = scrolls_flows(screen) ? 0 : screen->scroll;
    struct top_window window = window_of(top->node_count, plan.node_rows, scroll);
    *first = window.first;
    return plan.has_nodes ? window.rows : 0;
}

/* --- the header ------------------------------------------------------------------------------ */

static void add_money(struct parts *parts, double amount)
{
    parts_addf(parts, amount >= 0.1 || amount == 0 ? "%.2f" : "%.4f", amount);
}

static void draw_title(struct parts *parts, const struct top *top, const struct top_sums *sums)
{
    parts_paint(parts, PARTS_BOLD, "drover top");
    parts_addf(parts, "  %s", top->url ? top->url : "");
    str_add(parts->out, "  up ");
    clock_add_duration(parts->out, top->now_ms > top->began_ms ? top->now_ms - top->began_ms : 0);
    if (sums->has_price) {
        parts_paint(parts, PARTS_DIM, "  cost ");
        add_money(parts, sums->cost);
        str_add(parts->out, ", ");
        add_money(parts, sums->price_hour);
        str_add(parts->out, "/h");
    }
    if (parts->width >= PARTS_WIDE && top->version && top->version[0]) {
        parts_addf(parts, "  version %s", top->version);
    }
    AUTO_STR struct str at = {0};
    clock_add_rfc3339(&at, top->now_ms);
    if (at.size >= 19) {
        char clock[16];
        snprintf(clock, sizeof clock, "%.8s UTC", str_text(&at) + 11);
        parts_right(parts, clock);
    }
    parts_end_line(parts);
}

static void draw_tasks(struct parts *parts, const struct top *top, const struct top_sums *sums)
{
    char rate[32] = "";
    if (top->rate >= 0) {
        snprintf(rate, sizeof rate, top->rate >= 10 ? "%.0f/s" : "%.2g/s", top->rate);
    }
    parts_paint(parts, PARTS_DIM, "tasks ");
    parts_pad(parts, rate, 8);
    struct parts_progress progress = {.total = sums->flow_tasks,
                                      .good = sums->done,
                                      .bad = sums->failed,
                                      .other = sums->other,
                                      .busy = sums->running};
    int bar = parts->width / 4;
    parts_progress(parts, &progress, bar > 6 ? bar : 6);
    parts_addf(parts, "  %" PRIu64 " running", sums->running);
    parts_addf(parts, "  %" PRIu64 " queued", sums->queued);
    parts_addf(parts, "  %" PRIu64 " done", sums->done);
    if (sums->failed > 0) {
        char text[48];
        snprintf(text, sizeof text, "  %" PRIu64 " failed", sums->failed);
        parts_paint(parts, PARTS_RED, text);
    }
    parts_end_line(parts);
}

static void add_meter(struct parts *parts, const char *name, double share, int columns)
{
    parts_paint(parts, PARTS_DIM, name);
    parts_meter(parts, share, columns);
    parts_addf(parts, " %3.0f%%", share * 100);
}

static void draw_herd(struct parts *parts, const struct top *top, const struct top_sums *sums)
{
    int columns = parts->width >= PARTS_WIDE ? 16 : 6;
    char text[64];
    int size = snprintf(text, sizeof text, "%zu here", sums->here);
    if (sums->away > 0 && size > 0) {
        snprintf(text + size, sizeof text - (size_t)size, ", %zu away", sums->away);
    }
    parts_paint(parts, PARTS_DIM, "nodes ");
    parts_addf(parts, "%-8s", text);
    add_meter(parts, "  cpu ", parts_share(sums->cpu, sums->cpu_total), columns);
    add_meter(parts, "  mem ",
              parts_share((double)sums->memory_bytes, (double)sums->memory_total_bytes), columns);
    if (sums->gpus > 0) {
        add_meter(parts, "  gpu ", parts_share(sums->gpu_busy, (double)sums->gpus), columns);
    }
    if (parts->width >= PARTS_WIDE) {
        str_add(parts->out, "  ");
        parts_spark(parts, &top->cpu, 30);
    }
    parts_end_line(parts);
}

static void draw_trouble(struct parts *parts, const struct top *top,
                         const struct top_screen *screen)
{
    if (!has_trouble(top, screen)) {
        return;
    }
    AUTO_STR struct str text = {0};
    if (screen->silent_ms > 0) {
        str_add(&text, "no answer for ");
        clock_add_duration(&text, screen->silent_ms);
        str_add(&text, top->trouble && top->trouble[0] ? ": " : "");
    }
    str_add(&text, top->trouble ? top->trouble : "");
    parts_paint(parts, PARTS_RED, str_text(&text));
    parts_end_line(parts);
}

/* --- the picture ----------------------------------------------------------------------------- */

static int count_lines(const struct str *text)
{
    int lines = 0;
    for (size_t i = 0; i < text->size; i++) {
        lines += text->text[i] == '\n';
    }
    return lines;
}

/* Where a large screen has room left: the processors of all nodes over time. */
static void draw_plot(struct parts *parts, const struct top *top, const struct top_screen *screen,
                      int free)
{
    struct plot_point points[TOP_HISTORY];
    unsigned count = top->cpu.count;
    if (count < 3 || parts->width < PLOT_WIDTH_MIN || free < PLOT_LINES + 4) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        points[i] = (struct plot_point){.x = -(double)(count - 1 - i),
                                        .y = 100 * top_history_get(&top->cpu, count - 1 - i)};
    }
    struct plot_series series = {.line = true, .points = points, .count = count};
    struct plot plot = {.title = "all processors",
                        .x_label = "samples ago",
                        .y_label = "busy (%)",
                        .y_from_zero = true,
                        .series = &series,
                        .series_count = 1};
    struct plot_terminal terminal = {.width = parts->width < PLOT_WIDTH_MAX ? parts->width
                                                                            : PLOT_WIDTH_MAX,
                                     .height = PLOT_LINES,
                                     .utf8 = screen->utf8,
                                     .colour = screen->colour};
    AUTO_STR struct str text = {0};
    plot_term(&plot, &terminal, &text);
    int lines = count_lines(&text);
    if (lines + 1 <= free) {
        parts_end_line(parts);
        str_add_bytes(parts->out, text.text, text.size);
        parts->start = parts->out->size;
        parts->lines += lines;
    }
}

static void draw_foot(struct parts *parts, const struct top_screen *screen)
{
    char text[160];
    snprintf(text, sizeof text, "q quit  s sort: %s  w %s  n %s  arrows scroll",
             top_order_name(screen->order), screen->focus == TOP_FLOWS ? "all" : "workflows",
             screen->focus == TOP_NODES ? "all" : "nodes");
    parts_paint(parts, PARTS_DIM, text);
    parts_end_line(parts);
}

int top_view_draw(struct str *out, const struct top *top, const struct top_screen *screen)
{
    struct plan plan;
    struct top_sums sums;
    struct parts parts = {.out = out,
                          .start = out->size,
                          .width = screen->width > WIDTH_MIN ? screen->width : WIDTH_MIN,
                          .height = screen->height,
                          .colour = screen->colour,
                          .utf8 = screen->utf8};
    make_plan(top, screen, &plan);
    top_sum(top, &sums);
    draw_title(&parts, top, &sums);
    draw_tasks(&parts, top, &sums);
    draw_herd(&parts, top, &sums);
    draw_trouble(&parts, top, screen);
    if (plan.has_flows) {
        size_t scroll = scrolls_flows(screen) ? screen->scroll : 0;
        struct top_window window = window_of(top->flow_count, plan.flow_rows, scroll);
        top_tables_flows(&parts, top, &window);
    }
    if (plan.has_nodes) {
        size_t scroll = scrolls_flows(screen) ? 0 : screen->scroll;
        struct top_window window = window_of(top->node_count, plan.node_rows, scroll);
        top_tables_nodes(&parts, top, &window, screen->order);
    }
    draw_plot(&parts, top, screen, plan.free);
    if (plan.has_foot) {
        while (parts.lines < screen->height - 1) {
            parts_end_line(&parts);
        }
        draw_foot(&parts, screen);
    }
    return parts.lines;
}
