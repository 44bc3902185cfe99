/* Random clusters against the plainest model of what core.h promises: nodes that come and go,
 * results that are late, doubled or forged, restarts at any moment from the log or a snapshot. A
 * failure prints its seed; run `core_random_test SEED` to see it again. */
#include "base/mem.h"
#include "base/rng.h"
#include "core/core.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 6, EXPERIMENTS_MAX = 5, TASKS_MAX = 40, STEPS_MAX = 200000 };

struct flying { /* an attempt some node is busy with, or a report of one still under way */
    struct core_attempt id;
    uint32_t node;
};

struct cluster {
    struct rng rng;
    struct core_experiment_spec specs[EXPERIMENTS_MAX];
    uint32_t depends[EXPERIMENTS_MAX][EXPERIMENTS_MAX];
    size_t experiment_count;
    struct core *core;
    struct core_out out;
    int64_t now_ms;
    bool joined[NODES];
    struct flying *flying;
    size_t flying_count;
    size_t flying_cap;
    struct flying *stale; /* attempts whose node died or that ended already: reports repeat */
    size_t stale_count;
    size_t stale_cap;
    struct str log; /* all facts, encoded */
    struct str snapshot;
    size_t snapshot_log_size;
    int accepted[EXPERIMENTS_MAX][TASKS_MAX];
    bool ended;
};

static uint64_t below(struct cluster *cluster, uint64_t limit)
{
    return rng_below(&cluster->rng, limit);
}

static void make_specs(struct cluster *cluster)
{
    cluster->experiment_count = 1 + below(cluster, EXPERIMENTS_MAX);
    for (size_t e = 0; e < cluster->experiment_count; e++) {
        struct core_experiment_spec *spec = &cluster->specs[e];
        *spec = (struct core_experiment_spec){
            .task_count = 1 + below(cluster, TASKS_MAX),
            .needs = {.cpu_milli = (uint32_t)(500 * (1 + below(cluster, 4)))},
            .workers = below(cluster, 3) == 0 ? (uint32_t)(1 + below(cluster, 4)) : 0,
            .allow_failure = below(cluster, 4) == 0,
            .retries = (uint32_t)below(cluster, 4),
            .backoff_ms = (int64_t)below(cluster, 3000),
            .max_failures = below(cluster, 4) == 0 ? 1 + below(cluster, 3) : 0,
            .crash_limit = below(cluster, 4) == 0 ? 3 : 0,
            .depends_on = cluster->depends[e]};
        for (uint32_t other = 0; other < e; other++) {
            if (below(cluster, 3) == 0) {
                cluster->depends[e][spec->depends_count++] = other;
            }
        }
    }
}

static void define(struct cluster *cluster)
{
    struct core_workflow_spec spec = {
        .seed = 7, .experiments = cluster->specs, .experiment_count = cluster->experiment_count};
    core_define(cluster->core, 1, &spec);
}

/* Logs the facts and carries out the effects, as a shell would. */
static void carry_out(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->out.fact_count; i++) {
        const struct fact *fact = &cluster->out.facts[i];
        uint8_t bytes[FACT_BYTES_MAX];
        str_add_bytes(&cluster->log, bytes, fact_encode(fact, bytes));
        if (fact->kind == FACT_ACCEPTED) {
            int times = ++cluster->accepted[fact->experiment][fact->task];
            CHECK(times == 1);
        }
        cluster->ended = cluster->ended || fact->kind == FACT_ENDED;
    }
    for (size_t i = 0; i < cluster->out.effect_count; i++) {
        const struct core_effect *effect = &cluster->out.effects[i];
        if (effect->kind == EFFECT_START) {
            CHECK(cluster->joined[effect->node]);
            VEC_PUSH(cluster->flying, cluster->flying_count, cluster->flying_cap) =
                (struct flying){.id = effect->id, .node = effect->node};
        }
    }
    core_out_clear(&cluster->out);
}

static void report(struct cluster *cluster, const struct flying *what)
{
    static const enum core_outcome outcomes[] = {
        OUT_EXITED,  OUT_EXITED, OUT_EXITED,        OUT_EXITED,    OUT_SIGNALLED,
        OUT_TIMEOUT, OUT_KILLED, OUT_OUT_OF_MEMORY, OUT_SLOT_LOST, OUT_EXITED};
    size_t choice = below(cluster, sizeof outcomes / sizeof outcomes[0]);
    struct core_result result = {.outcome = outcomes[choice],
                                 .code = choice < 4 ? 0 : 1,
                                 .has_output = below(cluster, 2),
                                 .started_ms = cluster->now_ms,
                                 .duration_us = (int64_t)below(cluster, 100000)};
    core_task_ended(cluster->core, what->node, &what->id, &result, cluster->now_ms, &cluster->out);
}

static void step_end_one(struct cluster *cluster)
{
    if (cluster->flying_count == 0) {
        return;
    }
    size_t at = below(cluster, cluster->flying_count);
    struct flying one = cluster->flying[at];
    if (below(cluster, 3) == 0) {
        core_task_running(cluster->core, &one.id);
        return;
    }
    cluster->flying[at] = cluster->flying[--cluster->flying_count];
    VEC_PUSH(cluster->stale, cluster->stale_count, cluster->stale_cap) = one;
    report(cluster, &one);
}

static void step_stale_report(struct cluster *cluster)
{
    if (cluster->stale_count == 0) {
        return;
    }
    struct flying one = cluster->stale[below(cluster, cluster->stale_count)];
    one.node = below(cluster, 2) ? one.node : (uint32_t)below(cluster, NODES + 2);
    one.id.attempt += (uint32_t)(below(cluster, 4) == 0);
    one.id.term += (uint32_t)(below(cluster, 4) == 0);
    one.id.task += below(cluster, 8) == 0 ? 1000 : 0;
    bool is_flying = false;
    for (size_t i = 0; i < cluster->flying_count; i++) {
        const struct core_attempt *id = &cluster->flying[i].id;
        is_flying = is_flying || (id->task == one.id.task && id->experiment == one.id.experiment);
    }
    if (!is_flying) {
        report(cluster, &one); /* must change nothing */
        CHECK(cluster->out.fact_count == 0);
    }
}

static void step_node(struct cluster *cluster)
{
    uint32_t node = (uint32_t)below(cluster, NODES);
    if (!cluster->joined[node]) {
        struct core_resources capacity = {.cpu_milli = (uint32_t)(2000 + 500 * below(cluster, 4)),
                                          .memory_bytes = 1,
                                          .disk_bytes = 1};
        cluster->joined[node] = true;
        core_node_join(cluster->core, node, &capacity, cluster->now_ms, &cluster->out);
        return;
    }
    if (below(cluster, 4) != 0) {
        return;
    }
    cluster->joined[node] = false;
    size_t kept = 0;
    for (size_t i = 0; i < cluster->flying_count; i++) {
        if (cluster->flying[i].node == node) {
            VEC_PUSH(cluster->stale, cluster->stale_count, cluster->stale_cap) = cluster->flying[i];
        } else {
            cluster->flying[kept++] = cluster->flying[i];
        }
    }
    cluster->flying_count = kept;
    core_node_lost(cluster->core, node, cluster->now_ms, &cluster->out);
}

static void replay(struct cluster *cluster, struct core *into, size_t from)
{
    const uint8_t *bytes = (const uint8_t *)str_text(&cluster->log);
    while (from < cluster->log.size) {
        struct fact fact;
        size_t used = 0;
        struct err err = {0};
        CHECK(fact_decode(bytes + from, cluster->log.size - from, &fact, &used, &err) == ERR_OK);
        CHECK(core_apply(into, &fact, &err) == ERR_OK);
        from += used;
    }
}

/* The master dies: everything but the log and the last snapshot is gone, nodes included. */
static void step_restart(struct cluster *cluster)
{
    if (below(cluster, 2)) {
        str_clear(&cluster->snapshot);
        core_snapshot_write(cluster->core, &cluster->snapshot);
        cluster->snapshot_log_size = cluster->log.size;
    }
    if (below(cluster, 3) != 0) {
        return;
    }
    struct str before = {0};
    struct str after = {0};
    core_snapshot_write(cluster->core, &before);
    core_destroy(cluster->core);
    cluster->core = core_create();
    define(cluster);
    size_t from = 0;
    if (cluster->snapshot.size > 0 && below(cluster, 2)) {
        CHECK(core_snapshot_read(cluster->core, str_text(&cluster->snapshot),
                                 cluster->snapshot.size, NULL) == ERR_OK);
        from = cluster->snapshot_log_size;
    }
    replay(cluster, cluster->core, from);
    core_snapshot_write(cluster->core, &after);
    CHECK(before.size == after.size);
    str_release(&before);
    str_release(&after);
    for (size_t i = 0; i < cluster->flying_count; i++) {
        VEC_PUSH(cluster->stale, cluster->stale_count, cluster->stale_cap) = cluster->flying[i];
    }
    cluster->flying_count = 0;
    memset(cluster->joined, 0, sizeof cluster->joined);
    core_begin_term(cluster->core, cluster->now_ms, &cluster->out);
}

static void step(struct cluster *cluster)
{
    switch (below(cluster, 16)) {
    case 0:
        step_restart(cluster);
        break;
    case 1:
    case 2:
        step_stale_report(cluster);
        break;
    case 3:
    case 4:
        step_node(cluster);
        break;
    case 5: {
        bool paused = below(cluster, 4) == 0;
        core_pause(cluster->core, paused, cluster->now_ms, &cluster->out);
        break;
    }
    case 6:
        if (below(cluster, 2000) == 0) {
            core_cancel(cluster->core, 1, cluster->now_ms, &cluster->out);
        }
        break;
    case 7:
    case 8:
        cluster->now_ms += (int64_t)below(cluster, 2000);
        core_tick(cluster->core, cluster->now_ms, &cluster->out);
        break;
    default:
        step_end_one(cluster);
    }
}

static void run_cluster(uint64_t seed)
{
    struct cluster cluster = {.rng = {.state = seed}, .now_ms = 1};
    cluster.core = core_create();
    make_specs(&cluster);
    define(&cluster);
    core_begin_term(cluster.core, 1, &cluster.out);
    core_submit(cluster.core, 1, 1, &cluster.out);
    carry_out(&cluster);
    int steps = 0;
    while (!cluster.ended && steps++ < STEPS_MAX) {
        step(&cluster);
        carry_out(&cluster);
        if (steps % 16 == 0) {
            core_verify(cluster.core);
        }
    }
    CHECK(cluster.ended); /* liveness: with nodes coming back, it always ends */
    core_verify(cluster.core);
    for (uint32_t e = 0; e < cluster.experiment_count; e++) {
        for (uint64_t t = 0; t < cluster.specs[e].task_count; t++) {
            struct core_task_view view;
            core_task_view(cluster.core, 1, e, t, &view);
            CHECK(view.state >= TASK_SUCCEEDED);
            CHECK((view.state == TASK_SUCCEEDED) == (cluster.accepted[e][t] == 1));
        }
    }
    core_destroy(cluster.core);
    core_out_release(&cluster.out);
    str_release(&cluster.log);
    str_release(&cluster.snapshot);
    free(cluster.flying);
    free(cluster.stale);
}

static uint64_t first_seed = 1;
static uint64_t seed_count = 10000;
static volatile uint64_t current_seed;

/* Only what a signal handler may call. */
static void say_seed(int signal_number)
{
    (void)signal_number;
    char text[] = "failed with seed                     \n";
    char *at = text + sizeof text - 3;
    for (uint64_t seed = current_seed; seed > 0; seed /= 10) {
        *at-- = (char)('0' + seed % 10);
    }
    (void)!write(2, text, sizeof text - 1);
}

static void test_random_clusters_lose_nothing_and_accept_once(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) {
        current_seed = seed;
        run_cluster(seed);
    }
    printf("seeds %llu to %llu\n", (unsigned long long)first_seed,
           (unsigned long long)(first_seed + seed_count - 1));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    }
    signal(SIGABRT, say_seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_clusters_lose_nothing_and_accept_once),
    };
    return cmocka_run_group_tests_name("core_random", tests, NULL, NULL);
}
