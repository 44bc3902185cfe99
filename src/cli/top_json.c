/* What `drover top --json` prints. */
#include "base/clock.h"
#include "cli/top.h"

#include <math.h>

static void add_number(struct json *json, const char *key, double number)
{
    json_key(json, key);
    json_double(json, number);
}

static void add_count(struct json *json, const char *key, uint64_t count)
{
    json_key(json, key);
    json_u64(json, count);
}

static void add_text(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_text(json, text ? text : "");
}

static void add_node(struct json *json, const struct top_node *node)
{
    json_object(json);
    add_text(json, "name", node->name);
    add_text(json, "state", node->state);
    add_count(json, "tasks", node->tasks);
    add_count(json, "slots", node->slots);
    add_number(json, "cpu", node->cpu);
    add_number(json, "cpu_total", node->cpu_total);
    add_count(json, "memory_bytes", node->memory_bytes);
    add_count(json, "memory_total_bytes", node->memory_total_bytes);
    add_number(json, "gpu", node->gpu_busy);
    add_count(json, "gpus", node->gpus);
    add_number(json, "price_hour", node->price_hour);
    add_number(json, "cost", node->cost);
    json_end(json);
}

static void add_flow(struct json *json, const struct top *top, const struct top_flow *flow)
{
    int64_t eta_ms = top_eta_ms(top, flow);
    json_object(json);
    add_text(json, "id", flow->id);
    add_count(json, "tasks", flow->tasks);
    add_count(json, "succeeded", flow->succeeded);
    add_count(json, "failed", flow->failed);
    add_count(json, "running", flow->running);
    add_count(json, "queued", flow->queued);
    json_key(json, "eta_s");
    if (eta_ms >= 0) {
        json_double(json, (double)eta_ms / 1000.0);
    } else {
        json_null(json);
    }
    json_end(json);
}

void top_add_json(struct str *out, const struct top *top)
{
    struct json json = {.out = out};
    struct top_sums sums;
    AUTO_STR struct str at = {0};
    top_sum(top, &sums);
    clock_add_rfc3339(&at, top->now_ms);
    json_object(&json);
    add_text(&json, "at", str_text(&at));
    add_text(&json, "server", top->url);
    add_number(&json, "uptime_s", (double)(top->now_ms - top->began_ms) / 1000.0);
    json_key(&json, "tasks_per_s");
    json_double(&json, top->rate >= 0 ? top->rate : NAN);
    add_count(&json, "succeeded", sums.done);
    add_count(&json, "failed", sums.failed);
    add_count(&json, "running", sums.running);
    add_count(&json, "queued", sums.queued);
    add_count(&json, "nodes_here", sums.here);
    add_count(&json, "nodes_away", sums.away);
    add_number(&json, "cpu", sums.cpu);
    add_number(&json, "cpu_total", sums.cpu_total);
    add_count(&json, "memory_bytes", sums.memory_bytes);
    add_count(&json, "memory_total_bytes", sums.memory_total_bytes);
    add_number(&json, "gpu", sums.gpu_busy);
    add_count(&json, "gpus", sums.gpus);
    add_number(&json, "cost", sums.cost);
    add_number(&json, "cost_hour", sums.price_hour);
    json_key(&json, "workflows");
    json_array(&json);
    for (size_t i = 0; i < top->flow_count; i++) {
        add_flow(&json, top, &top->flows[i]);
    }
    json_end(&json);
    json_key(&json, "nodes");
    json_array(&json);
    for (size_t i = 0; i < top->node_count; i++) {
        add_node(&json, &top->nodes[i]);
    }
    json_end(&json);
    json_end(&json);
    str_add_char(out, '\n');
}
