/* The workflows and the nodes, a line each. */
#include "cli/top_tables.h"

#include "base/clock.h"
#include "cli/nodes_table.h"
#include "cli/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BAR_MIN = 8 };

struct flow_columns {
    int id;
    int bar;
    int counts;
};

static void draw_flow(struct parts *parts, const struct top *top, const struct top_flow *flow,
                      const struct flow_columns *columns)
{
    char text[64];
    uint64_t done = flow->succeeded + flow->failed + flow->other;
    struct parts_progress progress = {.total = flow->tasks,
                                      .good = flow->succeeded,
                                      .bad = flow->failed,
                                      .other = flow->other,
                                      .busy = flow->running};
    parts_pad(parts, flow->id, columns->id);
    str_add_char(parts->out, ' ');
    /* What it waits for, if it waits, is more than an empty bar says. */
    bool is_stuck = flow->running == 0 && flow->waiting_for && flow->waiting_for[0];
    if (is_stuck) {
        parts_begin(parts, PARTS_YELLOW);
        parts_pad(parts, flow->waiting_for, columns->bar);
        parts_finish(parts);
    } else {
        parts_progress(parts, &progress, columns->bar);
    }
    snprintf(text, sizeof text, "%" PRIu64 "/%" PRIu64, done, flow->tasks);
    parts_addf(parts, " %*s", columns->counts, text);
    parts_addf(parts, " %6" PRIu64, flow->running);
    snprintf(text, sizeof text, " %6" PRIu64, flow->failed);
    parts_paint(parts, flow->failed > 0 ? PARTS_RED : PARTS_DIM, text);
    AUTO_STR struct str left = {0};
    int64_t eta_ms = top_eta_ms(top, flow);
    if (eta_ms >= 0) {
        clock_add_duration(&left, eta_ms);
    }
    parts_addf(parts, " %7s", left.size ? str_text(&left) : "-");
    if (!is_stuck && flow->waiting_for && flow->waiting_for[0]) {
        str_add(parts->out, "  ");
        parts_paint(parts, PARTS_YELLOW, flow->waiting_for);
    }
    parts_end_line(parts);
}

static void draw_more(struct parts *parts, size_t count, const struct top_window *window)
{
    char text[96];
    if (window->rows >= count) {
        return;
    }
    if (window->first > 0) {
        snprintf(text, sizeof text, "  ... %zu above, %zu below", window->first,
                 count - window->first - window->rows);
    } else {
        snprintf(text, sizeof text, "  ... and %zu more", count - window->rows);
    }
    parts_paint(parts, PARTS_DIM, text);
    parts_end_line(parts);
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static int longest_id(const struct top *top, int most)
{
    int longest = 8;
    for (size_t i = 0; i < top->flow_count && longest < most; i++) {
        int width = view_width(top->flows[i].id, strlen(top->flows[i].id));
        longest = clamp(width, longest, most);
    }
    return longest;
}

static int longest_name(const struct top *top, int most)
{
    int longest = 8;
    for (size_t i = 0; i < top->node_count && longest < most; i++) {
        int width = view_width(top->nodes[i].name, strlen(top->nodes[i].name));
        longest = clamp(width, longest, most);
    }
    return longest;
}

void top_tables_flows(struct parts *parts, const struct top *top, const struct top_window *window)
{
    struct flow_columns columns = {.counts = parts->width >= PARTS_WIDE ? 17 : 13};
    int room = parts->width - columns.counts - 26;
    columns.id = longest_id(top, clamp(room - BAR_MIN, 8, 40));
    columns.bar = clamp(room - columns.id, BAR_MIN, 60);
    AUTO_STR struct str heading = {0};
    str_addf(&heading, "%-*s %-*s %*s %6s %6s %7s", columns.id, "WORKFLOW", columns.bar, "",
             columns.counts, "DONE", "RUN", "FAIL", "LEFT");
    parts_end_line(parts);
    parts_heading(parts, str_text(&heading));
    if (top->flow_count == 0) {
        parts_paint(parts, PARTS_DIM, "  no workflow is running");
        parts_end_line(parts);
        return;
    }
    for (size_t i = 0; i < window->rows; i++) {
        draw_flow(parts, top, &top->flows[window->first + i], &columns);
    }
    draw_more(parts, top->flow_count, window);
}

struct node_columns {
    int name;
    int bar;
    bool has_gpu;
    bool has_rates;
    bool has_price;
    int spark;
};

static void choose_columns(const struct parts *parts, const struct top *top,
                           struct node_columns *out)
{
    struct top_sums sums;
    top_sum(top, &sums);
    bool is_wide = parts->width >= PARTS_WIDE;
    *out = (struct node_columns){.name = longest_name(top, is_wide ? 40 : 20),
                                 .bar = is_wide ? 12 : 6,
                                 .has_gpu = sums.gpus > 0,
                                 .has_rates = is_wide,
                                 .has_price = is_wide && sums.has_price};
    int used = out->name + 1 + 8 + 1 + 9 + 2 * (out->bar + 6);
    used += out->has_gpu ? out->bar + 6 : 0;
    used += out->has_rates ? 2 * 9 : 0;
    used += out->has_price ? 9 : 0;
    out->spark = parts->width - used - 1;
    out->spark = out->spark > 60 ? 60 : out->spark;
}

static void add_rate(struct parts *parts, uint64_t bytes)
{
    AUTO_STR struct str text = {0};
    nodes_table_add_bytes(&text, bytes);
    parts_addf(parts, " %8s", str_text(&text));
}

static void add_share(struct parts *parts, bool is_known, double share, int bar)
{
    str_add_char(parts->out, ' ');
    if (is_known) {
        parts_meter(parts, share, bar);
        parts_addf(parts, " %3.0f%%", share * 100);
    } else {
        parts_addf(parts, "%*s", bar + 5, "-");
    }
}

static void draw_node(struct parts *parts, const struct top_node *node,
                      const struct node_columns *columns)
{
    char tasks[48];
    bool is_known = node->has_usage && node->is_here;
    bool is_fine = strcmp(node->state, "here") == 0;
    bool is_bad = strcmp(node->state, "suspect") == 0 || strcmp(node->state, "revoked") == 0;
    parts_pad(parts, node->name, columns->name);
    str_add_char(parts->out, ' ');
    parts_begin(parts, is_fine ? PARTS_GREEN : is_bad ? PARTS_RED : PARTS_YELLOW);
    parts_pad(parts, node->state, 8);
    parts_finish(parts);
    snprintf(tasks, sizeof tasks, "%" PRIu64 "/%" PRIu64, node->tasks, node->slots);
    parts_addf(parts, " %9s", tasks);
    add_share(parts, is_known, parts_share(node->cpu, node->cpu_total), columns->bar);
    add_share(parts, is_known,
              parts_share((double)node->memory_bytes, (double)node->memory_total_bytes),
              columns->bar);
    if (columns->has_gpu) {
        add_share(parts, is_known && node->gpus > 0,
                  parts_share(node->gpu_busy, (double)node->gpus), columns->bar);
    }
    if (columns->has_rates) {
        add_rate(parts, node->disk_bytes);
        add_rate(parts, node->net_bytes);
    }
    if (columns->has_price) {
        parts_addf(parts, " %8.3f", node->price_hour);
    }
    if (columns->spark > 0) {
        str_add_char(parts->out, ' ');
        parts_spark(parts, &node->history, columns->spark);
    }
    parts_end_line(parts);
}

static void draw_node_heading(struct parts *parts, const struct node_columns *columns,
                              enum top_order order)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "%-*s %-8s %9s %-*s %-*s", columns->name, "NODE", "STATE", "TASKS",
             columns->bar + 5, "CPU", columns->bar + 5, "MEMORY");
    if (columns->has_gpu) {
        str_addf(&text, " %-*s", columns->bar + 5, "GPU");
    }
    str_add(&text, columns->has_rates ? "   DISK/S    NET/S" : "");
    str_add(&text, columns->has_price ? "  PRICE/H" : "");
    if (columns->spark >= 10) {
        str_addf(&text, " by %s", top_order_name(order));
    }
    parts_end_line(parts);
    parts_heading(parts, str_text(&text));
}

void top_tables_nodes(struct parts *parts, const struct top *top, const struct top_window *window,
                      enum top_order order)
{
    struct node_columns columns;
    choose_columns(parts, top, &columns);
    draw_node_heading(parts, &columns, order);
    if (top->node_count == 0) {
        parts_paint(parts, PARTS_DIM, "  no node has joined: drover node --join @DIR/join.url");
        parts_end_line(parts);
        return;
    }
    for (size_t i = 0; i < window->rows; i++) {
        draw_node(parts, &top->nodes[window->first + i], &columns);
    }
    draw_more(parts, top->node_count, window);
}
