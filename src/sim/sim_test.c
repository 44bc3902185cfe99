#include "sim/sim.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_times_are_read(void **state)
{
    (void)state;
    struct sim_time time;
    struct err err = {0};
    assert_int_equal(sim_time_parse("90s", &time, &err), ERR_OK);
    assert_true(time.kind == SIM_FIXED && time.a == 90);
    assert_int_equal(sim_time_parse("1.5m", &time, &err), ERR_OK);
    assert_true(time.a == 90);
    assert_int_equal(sim_time_parse("uniform(10s, 2m)", &time, &err), ERR_OK);
    assert_true(time.kind == SIM_UNIFORM && time.a == 10 && time.b == 120);
    assert_int_equal(sim_time_parse("lognormal(60s,0.5)", &time, &err), ERR_OK);
    assert_true(time.kind == SIM_LOGNORMAL && time.b == 0.5);
    static const char *const bad[] = {
        "", "s", "-1s", "1e400", "nan", "uniform(2,1)", "exp(60s", "lognormal(1,99)", "60 apples"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sim_time_parse(bad[i], &time, &err), ERR_INVALID);
    }
}

static void test_drawn_times_have_the_right_mean(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double mean;
    } cases[] = {
        {"60s", 60}, {"uniform(10s,90s)", 50}, {"exp(60s)", 60}, {"lognormal(60s,0.5)", 67.99}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sim_time time;
        struct rng rng = {.state = 1};
        assert_int_equal(sim_time_parse(cases[i].text, &time, NULL), ERR_OK);
        double sum = 0;
        for (int n = 0; n < 100000; n++) {
            sum += sim_time_draw(&time, &rng);
        }
        assert_true(fabs(sum / 100000 - cases[i].mean) < 0.02 * cases[i].mean);
    }
}

static void test_a_quiet_cluster_takes_the_time_it_must(void **state)
{
    (void)state;
    struct core_experiment_spec experiment = {.task_count = 1000, .needs = {.cpu_milli = 1000}};
    struct core_workflow_spec spec = {.experiments = &experiment, .experiment_count = 1};
    struct sim_options options = {.spec = &spec,
                                  .nodes = 10,
                                  .slots = 2,
                                  .task_time = {.kind = SIM_FIXED, .a = 60},
                                  .price_usd_micro = 1000000,
                                  .scan_every = 100};
    struct sim_result result;
    assert_int_equal(sim_run(&options, &result, NULL), ERR_OK);
    assert_int_equal(result.accepted, 1000);
    assert_int_equal(result.attempts, 1000);
    assert_true(result.simulated_s >= 3000 && result.simulated_s < 3001);
    assert_true(fabs((double)result.cost_usd_micro / 1e6 - 10 * 3000 / 3600.0) < 0.01);
    assert_true(result.busy_share > 0.999);
    struct sim_result again;
    assert_int_equal(sim_run(&options, &again, NULL), ERR_OK);
    assert_memory_equal(&again, &result, sizeof result);
}

static void random_options(struct rng *rng, struct core_experiment_spec *experiments,
                           uint32_t (*depends)[4], struct sim_options *out)
{
    static struct core_workflow_spec spec;
    size_t count = 1 + rng_below(rng, 4);
    for (size_t e = 0; e < count; e++) {
        experiments[e] = (struct core_experiment_spec){.task_count = 1 + rng_below(rng, 300),
                                                       .needs = {.cpu_milli = 1000},
                                                       .workers = rng_below(rng, 3) ? 0 : 5,
                                                       .retries = (uint32_t)rng_below(rng, 5),
                                                       .backoff_ms = (int64_t)rng_below(rng, 5000),
                                                       .allow_failure = rng_below(rng, 2),
                                                       .depends_on = depends[e]};
        if (rng_below(rng, 4) == 0) {
            experiments[e].gang = 2 + (uint32_t)rng_below(rng, 3);
            experiments[e].task_count *= experiments[e].gang;
        }
        for (uint32_t other = 0; other < e; other++) {
            if (rng_below(rng, 2)) {
                depends[e][experiments[e].depends_count++] = other;
            }
        }
    }
    spec = (struct core_workflow_spec){.experiments = experiments, .experiment_count = count};
    *out =
        (struct sim_options){.spec = &spec,
                             .nodes = (uint32_t)(4 + rng_below(rng, 30)),
                             .slots = (uint32_t)(1 + rng_below(rng, 4)),
                             .task_time = {.kind = (enum sim_time_kind)rng_below(rng, 4),
                                           .a = rng_below(rng, 4) ? 30 : 0.002,
                                           .b = 1},
                             .fail_share = rng_below(rng, 2) ? 0.1 : 0,
                             .mtbf_s = rng_below(rng, 4) ? 60.0 + (double)rng_below(rng, 600) : 0,
                             .cut_share = 0.5,
                             .boot_s = (double)rng_below(rng, 120),
                             .lease_s = 4,
                             .latency_s = 0.001,
                             .net_loss = rng_below(rng, 2) ? 0.2 : 0,
                             .master_mtbf_s = rng_below(rng, 3) ? 0 : 200,
                             .seed = rng_next(rng),
                             .scan_every = 50,
                             .limit_s = 1e9};
    if (out->task_time.kind == SIM_UNIFORM) {
        out->task_time.b = out->task_time.a * 2;
    }
}

static void test_200_random_clusters_keep_every_promise(void **state)
{
    (void)state;
    const char *given = getenv("DROVER_TEST_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    const char *rounds = getenv("DROVER_TEST_ROUNDS");
    uint64_t count = rounds ? strtoull(rounds, NULL, 10) : 200;
    uint64_t refused = 0;
    uint64_t restarts = 0;
    printf("seeds %" PRIu64 " to %" PRIu64 "\n", first, first + count - 1);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct rng rng = {.state = seed};
        struct core_experiment_spec experiments[4];
        uint32_t depends[4][4];
        struct sim_options options;
        struct sim_result result;
        struct err err = {0};
        random_options(&rng, experiments, depends, &options);
        if (sim_run(&options, &result, &err) != ERR_OK) {
            fail_msg("seed %" PRIu64 ": %s", seed, err.text);
        }
        assert_int_equal(result.lost, 0);
        assert_int_equal(result.duplicates, 0);
        refused += result.refused;
        restarts += result.master_losses;
    }
    assert_true(refused > 0); /* the simulated faults do reach the fence */
    assert_true(restarts > 0);
}

static void test_a_search_keeps_its_trials_under_way(void **state)
{
    (void)state;
    struct core_experiment_spec experiment = {
        .task_count = 300, .searched = true, .needs = {.cpu_milli = 1000}};
    struct sim_search search = {.trials = 100, .parallel = 4};
    struct core_workflow_spec spec = {.experiments = &experiment, .experiment_count = 1};
    struct sim_options options = {.spec = &spec,
                                  .searches = &search,
                                  .nodes = 10,
                                  .slots = 1,
                                  .task_time = {.kind = SIM_FIXED, .a = 60},
                                  .scan_every = 1};
    struct sim_result result;
    assert_int_equal(sim_run(&options, &result, NULL), ERR_OK);
    assert_int_equal(result.tasks, 100);
    assert_int_equal(result.accepted, 100);
    assert_true(result.simulated_s >= 25 * 60 && result.simulated_s < 26 * 60);
    search.parallel = 0;
    assert_int_equal(sim_run(&options, &result, NULL), ERR_OK);
    assert_true(result.simulated_s >= 10 * 60 && result.simulated_s < 11 * 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_search_keeps_its_trials_under_way),
        cmocka_unit_test(test_times_are_read),
        cmocka_unit_test(test_drawn_times_have_the_right_mean),
        cmocka_unit_test(test_a_quiet_cluster_takes_the_time_it_must),
        cmocka_unit_test(test_200_random_clusters_keep_every_promise),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
