/* api_metrics.c - /metrics, in Prometheus' text format. Bounded: what has ended is only counted. */
#include "base/mem.h"
#include "master/api.h"
#include "master/api_cost.h"
#include "master/words.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TASK_LINES_MAX = 20000, NODE_LINES_MAX = 10000 };

static void begin(struct str *out, const char *name, const char *type, const char *help)
{
    str_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_single(struct str *out, const char *name, const char *type, const char *help,
                       double value)
{
    begin(out, name, type, help);
    str_addf(out, "%s ", name);
    str_add_double(out, value);
    str_add_char(out, '\n');
}

/* key="value", escaped as the format wants it. */
static void add_label(struct str *out, const char *key, const char *value)
{
    str_addf(out, "%s=\"", key);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"') {
            str_add_char(out, '\\');
            str_add_char(out, *value);
        } else if (*value == '\n') {
            str_add(out, "\\n");
        } else {
            str_add_char(out, *value);
        }
    }
    str_add_char(out, '"');
}

static void add_state_line(struct str *out, const char *name, const char *state, uint64_t count)
{
    str_addf(out, "%s{", name);
    add_label(out, "state", state);
    str_addf(out, "} %" PRIu64 "\n", count);
}

/* --- workflows ------------------------------------------------------------------------------- */

static void add_experiment(struct str *out, const struct flow *flow, uint32_t experiment,
                           const struct core_experiment_view *view)
{
    uint64_t over = view->succeeded + view->failed + view->cancelled + view->skipped;
    uint64_t rest = view->tasks - over - view->assigned - view->running;
    const struct {
        enum core_task_state state;
        uint64_t count;
    } counts[] = {
        {TASK_WAITING, view->ready ? 0 : rest}, {TASK_QUEUED, view->ready ? rest : 0},
        {TASK_ASSIGNED, view->assigned},        {TASK_RUNNING, view->running},
        {TASK_SUCCEEDED, view->succeeded},      {TASK_FAILED, view->failed},
        {TASK_CANCELLED, view->cancelled},      {TASK_SKIPPED, view->skipped},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        str_add(out, "drover_tasks{");
        add_label(out, "workflow", flow->id);
        str_add_char(out, ',');
        add_label(out, "experiment", flow->recipe->experiments[experiment].name);
        str_add_char(out, ',');
        add_label(out, "state", words_task_state(counts[i].state));
        str_addf(out, "} %" PRIu64 "\n", counts[i].count);
    }
}

static void add_workflows(struct str *out, const struct server *server)
{
    const struct core *core = server_core(server);
    uint64_t states[WORDS_WORKFLOW_STATES] = {0};
    size_t lines = 0;
    begin(out, "drover_tasks", "gauge", "Tasks of workflows that have not ended.");
    for (uint64_t n = server_flow_count(server); n > 0; n--) {
        const struct flow *flow = server_flow(server, (uint32_t)n);
        if (!flow) {
            continue;
        }
        enum core_workflow_state state = core_workflow_state(core, flow->number);
        states[state]++;
        for (uint32_t e = 0; state == WORKFLOW_RUNNING && lines < TASK_LINES_MAX &&
                             e < flow->recipe->experiment_count;
             e++, lines += WORDS_TASK_STATES) {
            struct core_experiment_view view;
            core_experiment_view(core, flow->number, e, &view);
            add_experiment(out, flow, e, &view);
        }
    }
    begin(out, "drover_workflows", "gauge", "Workflows by state.");
    for (size_t i = 0; i < WORDS_WORKFLOW_STATES; i++) {
        add_state_line(out, "drover_workflows", words_workflow_state((enum core_workflow_state)i),
                       states[i]);
    }
}

/* --- nodes ----------------------------------------------------------------------------------- */

struct node_metric {
    const char *name;
    const char *help;
    double (*value)(const struct herd_node *node);
};

static double node_cpu(const struct herd_node *node)
{
    return (double)node->usage.cpu_milli / 1000.0;
}

static double node_memory(const struct herd_node *node)
{
    return (double)node->usage.memory_bytes;
}

static double node_disk(const struct herd_node *node)
{
    return (double)(node->usage.disk_read_bytes + node->usage.disk_write_bytes);
}

static double node_net(const struct herd_node *node)
{
    return (double)(node->usage.net_in_bytes + node->usage.net_out_bytes);
}

static double node_gpu(const struct herd_node *node)
{
    return (double)node->usage.gpu_milli / 1000.0;
}

static double node_gpu_memory(const struct herd_node *node)
{
    return (double)node->usage.gpu_memory_bytes;
}

static void add_node_metric(struct str *out, const struct herd *herd,
                            const struct node_metric *metric)
{
    size_t lines = 0;
    begin(out, metric->name, "gauge", metric->help);
    for (size_t i = 0; i < herd->count && lines < NODE_LINES_MAX; i++) {
        const struct herd_node *node = herd->nodes[i];
        if (node && node->state == HERD_HERE && node->usage.at_ms > 0) {
            str_addf(out, "%s{", metric->name);
            add_label(out, "node", node->name ? node->name : "");
            str_add(out, "} ");
            str_add_double(out, metric->value(node));
            str_add_char(out, '\n');
            lines++;
        }
    }
}

static void add_nodes(struct str *out, const struct server *server)
{
    static const char *const states[API_NODE_STATES] = {"here",     "away", "suspect",
                                                        "draining", "left", "revoked"};
    static const struct node_metric metrics[] = {
        {"drover_node_cpu", "Processors in use on a node.", node_cpu},
        {"drover_node_memory_bytes", "Memory in use on a node.", node_memory},
        {"drover_node_disk_bytes_per_second", "Read and written on a node.", node_disk},
        {"drover_node_network_bytes_per_second", "Received and sent by a node.", node_net},
        {"drover_node_gpu", "GPUs in use on a node.", node_gpu},
        {"drover_node_gpu_memory_bytes", "GPU memory in use on a node.", node_gpu_memory},
    };
    const struct herd *herd = server_herd(server);
    double cost = 0;
    uint64_t counts[API_NODE_STATES] = {0};
    for (size_t i = 0; i < herd->count; i++) {
        const struct herd_node *node = herd->nodes[i];
        bool exists = api_node_exists(node);
        for (size_t s = 0; exists && s < API_NODE_STATES; s++) {
            counts[s] += strcmp(api_node_state(node), states[s]) == 0;
        }
        cost += exists ? api_node_cost(node, server_now_ms(server)) : 0;
    }
    begin(out, "drover_nodes", "gauge", "Nodes by state.");
    for (size_t s = 0; s < API_NODE_STATES; s++) {
        add_state_line(out, "drover_nodes", states[s], counts[s]);
    }
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        add_node_metric(out, herd, &metrics[i]);
    }
    add_single(out, "drover_cost_total", "counter",
               "What the nodes have cost, in the currency of their prices.", cost);
}

/* --- the server ------------------------------------------------------------------------------ */

static void add_process(struct str *out)
{
    struct rusage usage = {0};
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%*u %llu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    getrusage(RUSAGE_SELF, &usage);
    add_single(out, "process_resident_memory_bytes", "gauge", "Resident memory of the server.",
               (double)pages * (double)sysconf(_SC_PAGESIZE));
    add_single(out, "process_cpu_seconds_total", "counter", "Processor time of the server.",
               (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

static void add_server(struct str *out, const struct api *api)
{
    struct server_counts counts = {0};
    struct http_counts http = {0};
    server_counts(api->server, &counts);
    http_counts(server_http(api->server), &http);
    begin(out, "drover_results_total", "counter", "Results that nodes reported.");
    str_addf(out, "drover_results_total{result=\"accepted\"} %" PRIu64 "\n", counts.accepted);
    str_addf(out, "drover_results_total{result=\"refused\"} %" PRIu64 "\n", counts.refused);
    add_single(out, "drover_facts_total", "counter", "Facts decided.", (double)counts.facts);
    add_single(out, "drover_facts_not_durable", "gauge", "Facts that are not durable yet.",
               (double)counts.unsafe_facts);
    add_single(out, "drover_bad_messages_total", "counter",
               "Messages of nodes that were malformed, stale or not theirs to send.",
               (double)counts.bad_messages);
    add_single(out, "drover_denied_total", "counter", "Joins and handshakes refused.",
               (double)counts.denied);
    add_single(out, "drover_paused", "gauge", "1 while nothing new is started.",
               counts.paused ? 1 : 0);
    add_single(out, "drover_http_requests_total", "counter", "HTTP requests.",
               (double)http.requests);
    add_single(out, "drover_http_refused_total", "counter",
               "HTTP requests too large, too slow, malformed or too many.", (double)http.refused);
    add_single(out, "drover_http_denied_total", "counter",
               "HTTP requests without a token that may.", (double)api->denied);
    add_single(out, "drover_http_connections", "gauge", "Open HTTP connections.",
               (double)http.connections);
    add_single(out, "drover_http_streams", "gauge", "Open event streams.", (double)http.streams);
}

void api_get_metrics(struct api_call *call)
{
    AUTO_STR struct str out = {0};
    begin(&out, "drover_info", "gauge", "The version of the server.");
    str_add(&out, "drover_info{version=\"" DROVER_VERSION "\"} 1\n");
    add_workflows(&out, call->server);
    add_nodes(&out, call->server);
    add_server(&out, call->api);
    add_process(&out);
    struct http_reply reply = {
        .status = 200,
        .content_type = call->route->type,
        .body = str_text(&out),
        .body_size = out.size,
    };
    api_reply(call, &reply, 0);
}
