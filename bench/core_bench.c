/* core_bench - a million tasks through the core alone: memory, and time per dispatch decision.
 * Prints "BYTES NS_PER_DECISION": each decision is a result accepted and the next task assigned,
 * their facts encoded as the log would hold them. */
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { TASKS = 1000000, SLOTS = 64 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void)
{
    struct core_experiment_spec experiment = {.task_count = TASKS, .needs = {.cpu_milli = 1000}};
    struct core_workflow_spec spec = {.experiments = &experiment, .experiment_count = 1};
    struct core *core = core_create();
    struct core_out out = {0};
    core_define(core, 1, &spec);
    core_begin_term(core, CORE_NODES_GONE, 1, &out);
    core_submit(core, 1, 1, &out);
    struct core_node_spec node = {
        .capacity = {.cpu_milli = SLOTS * 1000, .memory_bytes = 1u << 30, .disk_bytes = 1u << 30}};
    core_out_clear(&out);
    core_node_join(core, 0, &node, 1, &out);

    static struct core_attempt queue[1 << 16];
    size_t head = 0;
    size_t tail = 0;
    size_t log_bytes = 0;
    int64_t now_ms = 1;
    double began_s = now_s();
    long decisions = 0;
    do {
        for (size_t i = 0; i < out.fact_count; i++) {
            uint8_t bytes[FACT_BYTES_MAX];
            log_bytes += fact_encode(&out.facts[i], bytes);
        }
        for (size_t i = 0; i < out.effect_count; i++) {
            if (out.effects[i].kind == EFFECT_START) {
                queue[tail++ & 0xffff] = out.effects[i].id;
            }
        }
        core_out_clear(&out);
        if (head == tail) {
            break;
        }
        struct core_attempt id = queue[head++ & 0xffff];
        struct core_result result = {
            .outcome = OUT_EXITED, .started_ms = now_ms, .duration_us = 60000000};
        core_task_ended(core, 0, &id, &result, ++now_ms, &out);
        decisions++;
    } while (core_workflow_state(core, 1) == WORKFLOW_RUNNING);
    double took_s = now_s() - began_s;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld %.1f %.1f\n", usage.ru_maxrss * 1024, took_s * 1e9 / (double)decisions,
           (double)log_bytes / (double)decisions);
    if (decisions != TASKS) {
        fprintf(stderr, "core_bench: %ld decisions\n", decisions);
        return 1;
    }
    core_out_release(&out);
    core_destroy(core);
    return 0;
}
