#include "cli/top.h"

#include "base/mem.h"
#include "cli/standing.h"

#include <stdlib.h>
#include <string.h>

/* --- histories ------------------------------------------------------------------------------- */

void top_history_add(struct top_history *history, double value)
{
    history->values[history->next] = (float)value;
    history->next = (history->next + 1) % TOP_HISTORY;
    history->count += history->count < TOP_HISTORY;
}

double top_history_get(const struct top_history *history, unsigned back)
{
    CHECK(back < history->count);
    return history->values[(history->next + TOP_HISTORY - 1 - back) % TOP_HISTORY];
}

/* --- reading --------------------------------------------------------------------------------- */

/* A text that may be printed. */
static char *clean(const struct jnode *object, const char *key)
{
    struct str out = {0};
    jread_add_clean(&out, jread_text(object, key, ""));
    return out.size > 0 ? str_take(&out) : mem_strdup("");
}

static int64_t time_of(const struct jnode *object, const char *key)
{
    int64_t at_ms = standing_time_ms(jread_text(object, key, ""));
    return at_ms > 0 ? at_ms : 0;
}

static bool is_gone(const struct top_node *node)
{
    return strcmp(node->state, "left") == 0 || strcmp(node->state, "revoked") == 0;
}

static void replace(char **text, char *by)
{
    free(*text);
    *text = by;
}

void top_read_server(struct top *top, const struct jnode *server, const char *url, int64_t now_ms)
{
    int64_t their_ms = time_of(server, "now");
    replace(&top->url, mem_strdup(url));
    replace(&top->version, clean(server, "version"));
    replace(&top->trouble, clean(server, "trouble"));
    top->began_ms = time_of(server, "began_at");
    top->now_ms = their_ms > 0 ? their_ms : now_ms;
    top->accepted = jread_u64(jread_get(server, "counts"), "accepted", 0);
    top->rate = jread_number(server, "tasks_per_s", -1);
    top->workflow_count = jread_u64(server, "workflows", 0);
}

static void release_node(struct top_node *node)
{
    free(node->name);
    free(node->state);
    free(node->gpu);
}

static void read_node(struct top_node *node, const struct jnode *object)
{
    const struct jnode *usage = jread_get(object, "usage");
    *node = (struct top_node){
        .name = clean(object, "name"),
        .state = clean(object, "state"),
        .gpu = clean(object, "gpu"),
        .has_usage = usage && usage->kind == JREAD_OBJECT,
        .tasks = jread_u64(object, "tasks", 0),
        .slots = jread_u64(object, "slots", 0),
        .cpu = jread_number(usage, "cpu", 0),
        .cpu_total = jread_number(object, "cpu", 0),
        .memory_bytes = jread_u64(usage, "memory_bytes", 0),
        .memory_total_bytes = jread_u64(object, "memory_bytes", 0),
        .gpu_busy = jread_number(usage, "gpu", 0),
        .gpus = jread_u64(object, "gpus", 0),
        .net_bytes = jread_u64(usage, "net_in_bytes", 0) + jread_u64(usage, "net_out_bytes", 0),
        .disk_bytes =
            jread_u64(usage, "disk_read_bytes", 0) + jread_u64(usage, "disk_write_bytes", 0),
        .price_hour = jread_number(object, "price_hour", 0),
        .cost = jread_number(object, "cost", 0),
    };
    node->is_here = strcmp(node->state, "here") == 0 || strcmp(node->state, "draining") == 0;
}

void top_read_nodes(struct top *top, const struct jnode *items)
{
    size_t count = items ? items->count : 0;
    if (count == 0) {
        return;
    }
    top->nodes = mem_resize(top->nodes, top->node_count + count, sizeof *top->nodes);
    for (const struct jnode *item = jread_first(items); item; item = item->next) {
        struct top_node *node = &top->nodes[top->node_count];
        read_node(node, item);
        if (is_gone(node)) {
            top->gone_cost += node->cost;
            release_node(node);
            continue;
        }
        top->node_count++;
    }
}

static void read_flow(struct top_flow *flow, const struct jnode *object)
{
    *flow = (struct top_flow){.id = clean(object, "id"),
                              .waiting_for = clean(object, "waiting_for"),
                              .created_ms = time_of(object, "created_at")};
    const struct jnode *item = jread_first(jread_get(object, "experiments"));
    for (; item; item = item->next) {
        flow->tasks += jread_u64(item, "tasks", 0);
        flow->succeeded += jread_u64(item, "succeeded", 0);
        flow->failed += jread_u64(item, "failed", 0);
        flow->other += jread_u64(item, "cancelled", 0) + jread_u64(item, "skipped", 0);
        flow->running += jread_u64(item, "running", 0);
        flow->queued += jread_u64(item, "queued", 0) + jread_u64(item, "waiting", 0);
    }
}

void top_read_flows(struct top *top, const struct jnode *items)
{
    size_t count = items ? items->count : 0;
    if (count == 0) {
        return;
    }
    top->flows = mem_resize(top->flows, top->flow_count + count, sizeof *top->flows);
    for (const struct jnode *item = jread_first(items); item; item = item->next) {
        read_flow(&top->flows[top->flow_count++], item);
    }
}

static double share(double part, double whole)
{
    double value = whole > 0 ? part / whole : 0;
    return value > 1 ? 1 : value > 0 ? value : 0;
}

void top_read_past(struct top_node *node, const struct jnode *items)
{
    struct top_history old = node->history;
    node->history = (struct top_history){0};
    node->has_past = true;
    for (const struct jnode *item = jread_first(items); item; item = item->next) {
        top_history_add(&node->history, share(jread_number(item, "cpu", 0), node->cpu_total));
    }
    if (node->history.count < old.count) {
        node->history = old; /* the server keeps no series, or has only begun to */
    }
}

/* --- merging --------------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
    const struct top_node *a = left;
    const struct top_node *b = right;
    return strcmp(a->name, b->name);
}

static void merge_nodes(struct top *top, struct top *before)
{
    if (before->node_count > 0) {
        qsort(before->nodes, before->node_count, sizeof *before->nodes, compare_names);
    }
    for (size_t i = 0; i < top->node_count; i++) {
        struct top_node *node = &top->nodes[i];
        const struct top_node *old = before->node_count > 0
                                         ? bsearch(node, before->nodes, before->node_count,
                                                   sizeof *before->nodes, compare_names)
                                         : NULL;
        if (old) {
            node->history = old->history;
            node->has_past = old->has_past;
        }
        if (node->has_usage && node->is_here) {
            top_history_add(&node->history, share(node->cpu, node->cpu_total));
        }
    }
}

static uint64_t done_of(const struct top_flow *flow)
{
    return flow->succeeded + flow->failed + flow->other;
}

/* Smoothed over about ten seconds: a rate that jumps cannot be read. */
static double smooth(double old, double grown, int64_t passed_ms)
{
    double now = grown * 1000.0 / (double)passed_ms;
    double weight = (double)passed_ms / ((double)passed_ms + 10000.0);
    return old > 0 ? old * (1 - weight) + now * weight : now;
}

static void merge_flows(struct top *top, const struct top *before, int64_t passed_ms)
{
    for (size_t i = 0; i < top->flow_count; i++) {
        struct top_flow *flow = &top->flows[i];
        const struct top_flow *old = NULL;
        for (size_t j = 0; j < before->flow_count && !old; j++) {
            /* the order hardly changes, so this is found at once */
            const struct top_flow *other = &before->flows[(i + j) % before->flow_count];
            old = strcmp(other->id, flow->id) == 0 ? other : NULL;
        }
        if (old && passed_ms > 0 && done_of(flow) >= done_of(old)) {
            flow->rate = smooth(old->rate, (double)(done_of(flow) - done_of(old)), passed_ms);
        }
    }
}

void top_merge(struct top *top, struct top *before)
{
    int64_t passed_ms = before->now_ms > 0 ? top->now_ms - before->now_ms : 0;
    bool is_same_life = before->began_ms == top->began_ms;
    if (top->rate < 0 && passed_ms > 0 && is_same_life && top->accepted >= before->accepted) {
        top->rate = smooth(before->rate, (double)(top->accepted - before->accepted), passed_ms);
    }
    merge_nodes(top, before);
    merge_flows(top, before, passed_ms);
    struct top_sums sums;
    top_sum(top, &sums);
    top->cpu = before->cpu;
    if (sums.cpu_total > 0) {
        top_history_add(&top->cpu, share(sums.cpu, sums.cpu_total));
    }
    top_release(before);
}

void top_release(struct top *top)
{
    for (size_t i = 0; i < top->node_count; i++) {
        release_node(&top->nodes[i]);
    }
    for (size_t i = 0; i < top->flow_count; i++) {
        free(top->flows[i].id);
        free(top->flows[i].waiting_for);
    }
    free(top->nodes);
    free(top->flows);
    free(top->url);
    free(top->version);
    free(top->trouble);
    *top = (struct top){0};
}

/* --- numbers --------------------------------------------------------------------------------- */

void top_sum(const struct top *top, struct top_sums *out)
{
    *out = (struct top_sums){.cost = top->gone_cost, .has_price = top->gone_cost > 0};
    for (size_t i = 0; i < top->node_count; i++) {
        const struct top_node *node = &top->nodes[i];
        out->cost += node->cost;
        out->has_price = out->has_price || node->price_hour > 0 || node->cost > 0;
        if (!node->is_here) {
            out->away++;
            continue;
        }
        out->here++;
        out->tasks += node->tasks;
        out->price_hour += node->price_hour;
        out->cpu += node->cpu;
        out->cpu_total += node->cpu_total;
        out->memory_bytes += node->memory_bytes;
        out->memory_total_bytes += node->memory_total_bytes;
        out->gpu_busy += node->gpu_busy;
        out->gpus += node->gpus;
    }
    for (size_t i = 0; i < top->flow_count; i++) {
        const struct top_flow *flow = &top->flows[i];
        out->flow_tasks += flow->tasks;
        out->done += flow->succeeded;
        out->failed += flow->failed;
        out->other += flow->other;
        out->running += flow->running;
        out->queued += flow->queued;
    }
}

int64_t top_eta_ms(const struct top *top, const struct top_flow *flow)
{
    uint64_t done = done_of(flow);
    uint64_t left = flow->tasks > done ? flow->tasks - done : 0;
    double rate = flow->rate;
    int64_t lived_ms = top->now_ms - flow->created_ms;
    if (rate <= 0 && flow->created_ms > 0 && lived_ms > 0) {
        rate = (double)done * 1000.0 / (double)lived_ms;
    }
    return left > 0 && rate > 0 ? (int64_t)((double)left / rate * 1000.0) : -1;
}

/* --- order ----------------------------------------------------------------------------------- */

const char *top_order_name(enum top_order order)
{
    static const char *const names[] = {"busy", "tasks", "memory", "cost", "name"};
    return names[order];
}

struct sorting {
    enum top_order order;
};

static double rank_of(const struct top_node *node, enum top_order order)
{
    switch (order) {
    case TOP_BY_BUSY:
        return share(node->cpu, node->cpu_total) + share(node->gpu_busy, (double)node->gpus);
    case TOP_BY_TASKS:
        return (double)node->tasks;
    case TOP_BY_MEMORY:
        return share((double)node->memory_bytes, (double)node->memory_total_bytes);
    case TOP_BY_COST:
        return node->cost;
    case TOP_BY_NAME:
        break;
    }
    return 0;
}

static int compare_ranks(const void *left, const void *right, void *context)
{
    const struct sorting *sorting = context;
    const struct top_node *a = left;
    const struct top_node *b = right;
    if (a->is_here != b->is_here) {
        return a->is_here ? -1 : 1;
    }
    double difference = rank_of(a, sorting->order) - rank_of(b, sorting->order);
    if (difference != 0) {
        return difference > 0 ? -1 : 1;
    }
    return strverscmp(a->name, b->name);
}

void top_sort(struct top *top, enum top_order order)
{
    struct sorting sorting = {.order = order};
    if (top->node_count > 0) {
        qsort_r(top->nodes, top->node_count, sizeof *top->nodes, compare_ranks, &sorting);
    }
}
