/* top.h - what `drover top` knows: the server's answers as numbers, and how they changed since.
 * Pure: JSON objects in, numbers out; the drawing is in top_view.h.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "base/jread.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOP_HISTORY = 120 };

/* The newest values of something, as shares of what there is (0..1). */
struct top_history {
    float values[TOP_HISTORY]; /* a ring */
    unsigned next;
    unsigned count;
};
void top_history_add(struct top_history *history, double value);
/* The value `back` places before the newest (0: itself). */
double top_history_get(const struct top_history *history, unsigned back);

struct top_node {
    char *name;
    char *state; /* "here", "away"... */
    char *gpu;   /* its kind, or "" */
    bool is_here;
    bool has_usage;
    uint64_t tasks;
    uint64_t slots;
    double cpu;
    double cpu_total;
    uint64_t memory_bytes;
    uint64_t memory_total_bytes;
    double gpu_busy;
    uint64_t gpus;
    uint64_t net_bytes; /* in and out, per second */
    uint64_t disk_bytes;
    double price_hour; /* 0: not known */
    double cost;
    struct top_history history; /* cpu */
    bool has_past;              /* the history was filled from the server's series */
};

struct top_flow {
    char *id;
    char *waiting_for; /* or "" */
    uint64_t tasks;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t other; /* cancelled, skipped */
    uint64_t running;
    uint64_t queued; /* and waiting */
    int64_t created_ms;
    double rate; /* tasks done a second; 0: not known */
};

struct top {
    char *url;
    char *version;
    char *trouble; /* why nothing is started, or why nobody answers; or "" */
    int64_t began_ms;
    int64_t now_ms; /* of the newest numbers */
    uint64_t accepted;
    double rate; /* results a second; < 0: not known */
    uint64_t workflow_count;

    struct top_node *nodes; /* without those that left for good */
    size_t node_count;
    double gone_cost; /* what those have cost */
    struct top_flow *flows;
    size_t flow_count;
    struct top_history cpu; /* of all nodes together */
};

void top_release(struct top *top);

/* One look at a server: begin with an empty one, read the answers into it, and merge it with the
 * one before, which is released: rates and histories go over by name. */
void top_read_server(struct top *top, const struct jnode *server, const char *url, int64_t now_ms);
void top_read_nodes(struct top *top, const struct jnode *items);
void top_read_flows(struct top *top, const struct jnode *items);
void top_merge(struct top *top, struct top *before);

/* The answer of /usage for a node, its cpu as history. */
void top_read_past(struct top_node *node, const struct jnode *items);

struct top_sums {
    size_t here;
    size_t away;
    uint64_t tasks; /* on nodes */
    double cpu;
    double cpu_total;
    uint64_t memory_bytes;
    uint64_t memory_total_bytes;
    double gpu_busy;
    uint64_t gpus;
    double price_hour;
    double cost;
    bool has_price;
    uint64_t flow_tasks;
    uint64_t done; /* well */
    uint64_t failed;
    uint64_t other;
    uint64_t running;
    uint64_t queued;
};
void top_sum(const struct top *top, struct top_sums *out);

/* Milliseconds until the workflow is over at its rate, or at that of its whole life; -1: not known.
 */
int64_t top_eta_ms(const struct top *top, const struct top_flow *flow);

enum top_order { TOP_BY_BUSY, TOP_BY_TASKS, TOP_BY_MEMORY, TOP_BY_COST, TOP_BY_NAME };
enum { TOP_ORDERS = TOP_BY_NAME + 1 };
const char *top_order_name(enum top_order order);
/* Those that are here come first, whatever the order. */
void top_sort(struct top *top, enum top_order order);

/* One object on one line. */
void top_add_json(struct str *out, const struct top *top);

#endif
