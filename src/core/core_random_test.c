/* Random clusters against the plainest model of what core.h promises: several workflows with gangs
 * and labels; nodes that fall silent, come back with all, some or none of what they had, lie about
 * it, drain, die and are replaced; searches that suggest, stop and close; messages that are lost;
 * results that are late, doubled or forged; people who cancel and retry; masters that die at any
 * moment, also in the middle of writing down what they decided. A failure prints its seed; run
 * `core_random_test SEED` to see it again. */
#include "core/core_random.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void make_spec(struct cluster *cluster, uint32_t w, uint32_t e)
{
    struct core_experiment_spec *spec = &cluster->specs[w][e];
    uint32_t gang = below(cluster, 3) == 0 ? (uint32_t)(2 + below(cluster, 3)) : 0;
    uint64_t tasks = 1 + below(cluster, TASKS_MAX);
    *spec = (struct core_experiment_spec){
        .task_count = gang ? (tasks / gang + 1) * gang : tasks,
        .needs = {.cpu_milli = (uint32_t)(500 * (1 + below(cluster, 4)))},
        .gang = gang,
        .workers = below(cluster, 3) == 0 ? (uint32_t)(1 + below(cluster, 4)) : 0,
        .allow_failure = below(cluster, 4) == 0,
        .retries = (uint32_t)below(cluster, 4),
        .backoff_ms = (int64_t)below(cluster, 3000),
        .max_failures = below(cluster, 4) == 0 ? 1 + below(cluster, 3) : 0,
        .crash_limit = below(cluster, 4) == 0 ? 3 : 0,
        .depends_on = cluster->depends[w][e]};
    spec->task_count = spec->task_count > TASKS_MAX ? UINT64_C(2) * gang : spec->task_count;
    spec->searched = below(cluster, 4) == 0;
    if (below(cluster, 3) == 0) {
        spec->labels = (struct core_labels){.items = &label_names[below(cluster, LABELS - 1)],
                                            .count = 1 + below(cluster, 2)};
    }
    for (uint32_t other = 0; other < e; other++) {
        if (below(cluster, 3) == 0) {
            cluster->depends[w][e][spec->depends_count++] = other;
        }
    }
}

static void make_specs(struct cluster *cluster)
{
    cluster->wanted = (uint32_t)(1 + below(cluster, WORKFLOWS_MAX));
    for (uint32_t w = 0; w < cluster->wanted; w++) {
        cluster->experiment_count[w] = 1 + below(cluster, EXPERIMENTS_MAX);
        cluster->priority[w] = (int32_t)below(cluster, 2);
        for (uint32_t e = 0; e < cluster->experiment_count[w]; e++) {
            make_spec(cluster, w, e);
        }
    }
    for (uint32_t n = 0; n < NODES; n++) {
        cluster->agents[n].fresh = true;
    }
}

static void define(struct cluster *cluster, uint32_t workflow)
{
    struct core_workflow_spec spec = {.seed = 7,
                                      .priority = cluster->priority[workflow - 1],
                                      .experiments = cluster->specs[workflow - 1],
                                      .experiment_count = cluster->experiment_count[workflow - 1]};
    core_define(cluster->core, workflow, &spec);
}

static void step_stale_report(struct cluster *cluster)
{
    if (cluster->stale_count == 0) {
        return;
    }
    struct core_attempt id = cluster->stale[below(cluster, cluster->stale_count)];
    uint32_t node = (uint32_t)below(cluster, NODES + 2);
    struct model_task *task = task_of(cluster, id.workflow, id.experiment, id.task);
    id.attempt += (uint32_t)(below(cluster, 4) == 0);
    id.term += (uint32_t)(below(cluster, 4) == 0);
    if (task->live && task->node == node && task->attempt == id.attempt && task->term == id.term) {
        return;
    }
    id.task += below(cluster, 8) == 0 ? 1000 : 0;
    struct core_result result = random_result(cluster);
    core_task_ended(cluster->core, node, &id, &result, cluster->now_ms, &cluster->out);
    for (size_t i = 0; i < cluster->out.fact_count; i++) { /* at most, it made room for others */
        CHECK(cluster->out.facts[i].kind != FACT_ACCEPTED);
        CHECK(cluster->out.facts[i].kind != FACT_FAILED);
    }
}

/* --- people and masters ------------------------------------------------------------------------
 */

static void step_people(struct cluster *cluster)
{
    if (cluster->defined < cluster->wanted && below(cluster, 4) == 0) {
        define(cluster, ++cluster->defined);
        core_submit(cluster->core, cluster->defined, cluster->now_ms, &cluster->out);
        return;
    }
    uint32_t w = (uint32_t)(1 + below(cluster, cluster->defined));
    uint32_t e = (uint32_t)below(cluster, cluster->experiment_count[w - 1]);
    uint64_t t = below(cluster, cluster->specs[w - 1][e].task_count);
    struct core_task_view before;
    core_task_view(cluster->core, w, e, t, &before);
    bool is_defined = !cluster->specs[w - 1][e].searched || t < cluster->suggested[w - 1][e];
    bool is_final = before.state >= TASK_SUCCEEDED;
    switch (below(cluster, 40)) {
    case 0:
        core_cancel(cluster->core, w, cluster->now_ms, &cluster->out);
        break;
    case 1:
    case 2:
    case 3:
        CHECK(core_cancel_task(cluster->core, w, e, t, cluster->now_ms, &cluster->out) ==
              (!is_final && is_defined));
        break;
    case 4:
        core_retry(cluster->core, w, cluster->now_ms, &cluster->out);
        break;
    case 5:
    case 6:
    case 7: {
        bool done = core_retry_task(cluster->core, w, e, t, cluster->now_ms, &cluster->out);
        CHECK(!done || (is_final && before.state != TASK_SUCCEEDED));
        break;
    }
    case 8:
        core_pause(cluster->core, below(cluster, 2), cluster->now_ms, &cluster->out);
        break;
    default:
        break;
    }
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

static struct core *restored(struct cluster *cluster)
{
    core_destroy(cluster->core);
    cluster->core = core_create();
    core_set_lease(cluster->core, LEASE_MS);
    for (uint32_t w = 1; w <= cluster->defined; w++) {
        define(cluster, w);
    }
    size_t from = 0;
    if (cluster->snapshot.size > 0 && below(cluster, 2)) {
        CHECK(core_snapshot_read(cluster->core, str_text(&cluster->snapshot),
                                 cluster->snapshot.size, NULL) == ERR_OK);
        from = cluster->snapshot_log_size;
    }
    replay(cluster, cluster->core, from);
    core_verify(cluster->core);
    return cluster->core;
}

/* The master dies: everything but the log and the last snapshot is gone. Agents live on, or, when
 * all ran on one machine, die too. */
static void restart(struct cluster *cluster)
{
    enum core_begin begin = below(cluster, 4) ? CORE_NODES_AWAY : CORE_NODES_GONE;
    restored(cluster);
    for (uint32_t n = 0; n < NODES; n++) {
        struct agent *agent = &cluster->agents[n];
        agent->joined = false;
        agent->suspect = false;
        agent->drain = CORE_DRAIN_OFF;
        if (begin == CORE_NODES_GONE) {
            agent->held_count = 0;
            agent->fresh = true;
        }
    }
    core_begin_term(cluster->core, begin, cluster->now_ms, &cluster->out);
    core_verify(cluster->core);
    for (uint32_t w = 1; w <= cluster->defined; w++) {
        if (!core_is_submitted(cluster->core, w)) {
            core_submit(cluster->core, w, cluster->now_ms, &cluster->out);
        }
    }
}

/* All tasks as people see them, but for what a restart may forget: that they run. */
static void add_views(struct cluster *cluster, struct str *out)
{
    for (uint32_t w = 1; w <= cluster->defined; w++) {
        str_addf(out, "%u: %d %lld\n", w, core_workflow_state(cluster->core, w),
                 (long long)core_workflow_ended_ms(cluster->core, w));
        for (uint32_t e = 0; e < cluster->experiment_count[w - 1]; e++) {
            for (uint64_t t = 0; t < cluster->specs[w - 1][e].task_count; t++) {
                struct core_task_view view;
                core_task_view(cluster->core, w, e, t, &view);
                bool runs = view.state == TASK_RUNNING;
                str_addf(out, "%u/%u/%llu: %d %d %u %u %u %u %d %lld %lld\n", w, e,
                         (unsigned long long)t, runs ? TASK_ASSIGNED : view.state, view.outcome,
                         view.code, view.attempt, view.failures, view.losses, view.has_output,
                         (long long)(runs ? 0 : view.started_ms), (long long)view.duration_ms);
            }
        }
    }
}

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
    AUTO_STR struct str views_before = {0};
    AUTO_STR struct str views_after = {0};
    struct str before = {0};
    struct str after = {0};
    core_snapshot_write(cluster->core, &before);
    add_views(cluster, &views_before);
    restored(cluster);
    core_snapshot_write(cluster->core, &after);
    add_views(cluster, &views_after);
    CHECK(strcmp(str_text(&views_before), str_text(&views_after)) == 0);
    CHECK(before.size == after.size);
    str_release(&before);
    str_release(&after);
    restart(cluster);
}

static void step(struct cluster *cluster)
{
    switch (below(cluster, 17)) {
    case 0:
        step_restart(cluster);
        break;
    case 1:
    case 2:
        step_stale_report(cluster);
        break;
    case 3:
    case 4:
    case 5:
        step_node(cluster);
        break;
    case 6:
        step_people(cluster);
        break;
    case 7:
    case 8:
        step_time(cluster);
        break;
    case 9:
        step_search(cluster);
        break;
    default:
        step_end_one(cluster);
    }
    if (cluster->out.fact_count > 0 && below(cluster, 100) == 0) {
        carry_out_up_to(cluster, below(cluster, cluster->out.fact_count));
        restart(cluster);
    }
}

/* Nothing fails any more but tasks: it must come to an end. */
static void calm_down(struct cluster *cluster)
{
    cluster->calm = true;
    while (cluster->defined < cluster->wanted) {
        define(cluster, ++cluster->defined);
        core_submit(cluster->core, cluster->defined, cluster->now_ms, &cluster->out);
        carry_out(cluster);
    }
    core_pause(cluster->core, false, cluster->now_ms, &cluster->out);
    carry_out(cluster);
    for (uint32_t n = 0; n < NODES; n++) {
        cluster->agents[n].drain = CORE_DRAIN_OFF;
        core_node_drain(cluster->core, n, CORE_DRAIN_OFF, cluster->now_ms, &cluster->out);
        carry_out(cluster);
        join(cluster, n);
        carry_out(cluster);
    }
}

static bool all_ended(const struct cluster *cluster)
{
    for (uint32_t w = 1; w <= cluster->defined; w++) {
        if (core_workflow_state(cluster->core, w) == WORKFLOW_RUNNING) {
            return false;
        }
    }
    return true;
}

static void check_task_end(struct cluster *cluster, uint32_t w, uint32_t e, uint64_t t)
{
    const struct model_task *task = task_of(cluster, w, e, t);
    bool is_defined = !cluster->specs[w - 1][e].searched || t < cluster->suggested[w - 1][e];
    struct core_task_view view;
    core_task_view(cluster->core, w, e, t, &view);
    CHECK((view.state >= TASK_SUCCEEDED) == is_defined);
    CHECK((view.state == TASK_SUCCEEDED) == (task->accepted == 1 || task->stopped));
    CHECK(view.stopped == task->stopped);
}

static void check_end(struct cluster *cluster)
{
    for (uint32_t w = 1; w <= cluster->wanted; w++) {
        for (uint32_t e = 0; e < cluster->experiment_count[w - 1]; e++) {
            for (uint64_t t = 0; t < cluster->specs[w - 1][e].task_count; t++) {
                check_task_end(cluster, w, e, t);
            }
        }
    }
}

static void release(struct cluster *cluster)
{
    core_destroy(cluster->core);
    core_out_release(&cluster->out);
    str_release(&cluster->log);
    str_release(&cluster->snapshot);
    free(cluster->stale);
    for (uint32_t n = 0; n < NODES; n++) {
        free(cluster->agents[n].held);
    }
}

static void run_cluster(uint64_t seed)
{
    struct cluster cluster = {.rng = {.state = seed}, .now_ms = 1};
    cluster.core = core_create();
    core_set_lease(cluster.core, LEASE_MS);
    make_specs(&cluster);
    define(&cluster, ++cluster.defined);
    core_begin_term(cluster.core, CORE_NODES_GONE, 1, &cluster.out);
    core_submit(cluster.core, 1, 1, &cluster.out);
    carry_out(&cluster);
    for (int i = 0; i < CHAOS_STEPS; i++) {
        step(&cluster);
        carry_out(&cluster);
        if (i % 8 == 0) {
            core_verify(cluster.core);
        }
    }
    calm_down(&cluster);
    int steps = 0;
    while (!all_ended(&cluster) && steps++ < CALM_STEPS) {
        if (below(&cluster, 3) == 0) {
            step_time(&cluster);
        } else if (below(&cluster, 8) == 0) {
            step_search(&cluster);
        } else {
            step_end_one(&cluster);
        }
        carry_out(&cluster);
        if (steps % 16 == 0) {
            core_verify(cluster.core);
        }
    }
    CHECK(all_ended(&cluster));
    core_verify(cluster.core);
    check_end(&cluster);
    release(&cluster);
}

static uint64_t first_seed = 1;
static uint64_t seed_count = 4000;
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
