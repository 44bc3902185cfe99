/* api_nodes.c - nodes: who they are, what they offer and use, what they cost; draining, revoking.
 */
#include "master/api.h"
#include "master/api_cost.h"
#include "master/words.h"

#include <inttypes.h>
#include <string.h>

double api_node_cost(const struct herd_node *node, int64_t now_ms)
{
    int64_t here_ms = node->here_ms;
    if (node->here_since_ms > 0 && now_ms > node->here_since_ms) {
        here_ms += now_ms - node->here_since_ms;
    }
    return (double)node->price_micro_hour / 1e6 * ((double)here_ms / 3600e3);
}

bool api_node_exists(const struct herd_node *node)
{
    return node && (node->key[0] || node->joined_ms > 0);
}

const char *api_node_state(const struct herd_node *node)
{
    switch (node->state) {
    case HERD_REVOKED:
        return "revoked";
    case HERD_LEFT:
        return "left";
    case HERD_AWAY:
        return node->suspect ? "suspect" : "away";
    case HERD_HERE:
        break;
    }
    if (node->suspect) {
        return "suspect";
    }
    return node->drain == CORE_DRAIN_OFF ? "here" : "draining";
}

static void add_number(struct json *json, const char *key, uint64_t number)
{
    json_key(json, key);
    json_u64(json, number);
}

static void add_milli(struct json *json, const char *key, uint64_t milli)
{
    json_key(json, key);
    json_double(json, (double)milli / 1000.0);
}

static void add_used(struct json *json, const struct core_resources *used)
{
    json_key(json, "used");
    json_object(json);
    add_milli(json, "cpu", used->cpu_milli);
    add_number(json, "memory_bytes", used->memory_bytes);
    add_number(json, "disk_bytes", used->disk_bytes);
    add_number(json, "gpus", used->gpus);
    json_end(json);
}

static void add_usage(struct json *json, const struct herd_usage *usage)
{
    json_key(json, "usage");
    if (usage->at_ms == 0) {
        json_null(json);
        return;
    }
    json_object(json);
    words_json_time(json, "at", usage->at_ms);
    add_milli(json, "cpu", usage->cpu_milli);
    add_number(json, "memory_bytes", usage->memory_bytes);
    add_number(json, "disk_read_bytes", usage->disk_read_bytes);
    add_number(json, "disk_write_bytes", usage->disk_write_bytes);
    add_number(json, "net_in_bytes", usage->net_in_bytes);
    add_number(json, "net_out_bytes", usage->net_out_bytes);
    add_milli(json, "gpu", usage->gpu_milli);
    add_number(json, "gpu_memory_bytes", usage->gpu_memory_bytes);
    json_end(json);
}

static void add_capacity(struct json *json, const struct core_resources *capacity)
{
    add_number(json, "slots", capacity->cpu_milli / 1000);
    add_milli(json, "cpu", capacity->cpu_milli);
    add_number(json, "memory_bytes", capacity->memory_bytes);
    add_number(json, "disk_bytes", capacity->disk_bytes);
    add_number(json, "gpus", capacity->gpus);
    json_key(json, "gpu");
    if (capacity->gpu_kind[0]) {
        json_text(json, capacity->gpu_kind);
    } else {
        json_null(json);
    }
}

static void add_price(struct json *json, const struct herd_node *node, int64_t now_ms)
{
    json_key(json, "price_hour");
    if (node->price_micro_hour > 0) {
        json_double(json, (double)node->price_micro_hour / 1e6);
    } else {
        json_null(json);
    }
    json_key(json, "cost");
    if (node->price_micro_hour > 0) {
        json_double(json, api_node_cost(node, now_ms));
    } else {
        json_null(json);
    }
}

static void add_node(struct json *json, const struct server *server, const struct herd_node *node)
{
    struct core_node_view view = {0};
    core_node_view(server_core(server), node->number, &view);
    json_object(json);
    json_key(json, "name");
    json_text(json, node->name ? node->name : "");
    add_number(json, "number", node->number);
    json_key(json, "state");
    json_text(json, api_node_state(node));
    add_capacity(json, &node->capacity);
    json_key(json, "labels");
    json_array(json);
    for (size_t i = 0; i < node->label_count; i++) {
        json_text(json, node->labels[i]);
    }
    json_end(json);
    add_number(json, "tasks", view.attempts);
    add_number(json, "ended", node->ended_count);
    add_used(json, &view.used);
    add_usage(json, &node->usage);
    add_price(json, node, server_now_ms(server));
    words_json_time(json, "joined_at", node->joined_ms);
    words_json_time(json, "heard_at", node->heard_ms);
    json_key(json, "version");
    json_text(json, node->version ? node->version : "");
    add_number(json, "pid", node->pid);
    json_end(json);
}

/* In the order of numbers; the cursor is the number of the next one. */
void api_list_nodes(struct api_call *call)
{
    const struct herd *herd = server_herd(call->server);
    const char *after = api_text(call, "after");
    uint64_t number = 0;
    if (after[0] && !api_read_u64(after, &number)) {
        api_fail(call, 400, "after: not a cursor of this list");
        return;
    }
    struct api_page page;
    api_page_begin(&page, call);
    for (; number < herd->count && !api_page_is_full(&page); number++) {
        if (api_node_exists(herd->nodes[number])) {
            add_node(&page.json, call->server, herd->nodes[number]);
            page.count++;
        }
    }
    char next[24] = "";
    if (number < herd->count) {
        snprintf(next, sizeof next, "%" PRIu64, number);
    }
    api_page_end(&page, call, next);
}

static void reply_node(struct api_call *call, const struct herd_node *node, uint64_t after)
{
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    add_node(&json, call->server, node);
    api_reply_json(call, &body, after);
}

void api_get_node(struct api_call *call)
{
    const struct herd_node *node = api_find_node(call);
    if (node) {
        reply_node(call, node, 0);
    }
}

void api_drain_node(struct api_call *call)
{
    const struct herd_node *node = api_find_node(call);
    const char *mode = api_text(call, "mode");
    if (!node) {
        return;
    }
    if (node->state == HERD_REVOKED) {
        api_fail(call, 409, "node %s was revoked", node->name);
        return;
    }
    server_drain(call->server, node->number,
                 strcmp(mode, "off") == 0    ? CORE_DRAIN_OFF
                 : strcmp(mode, "hard") == 0 ? CORE_DRAIN_HARD
                                             : CORE_DRAIN_SOFT);
    reply_node(call, node, core_last_fact(server_core(call->server)));
}

void api_revoke_node(struct api_call *call)
{
    const struct herd_node *node = api_find_node(call);
    uint64_t after = 0;
    if (!node) {
        return;
    }
    if (node->key[0] == '\0') {
        api_fail(call, 409, "node %s is part of the server", node->name);
        return;
    }
    if (node->state != HERD_REVOKED) {
        server_revoke(call->server, node->number, &after);
    }
    reply_node(call, node, after);
}
