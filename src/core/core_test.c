#include "core/core_world.h"

static void test_a_node_is_given_what_fits_and_no_more(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 5, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    core_out_clear(&world.out);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    assert_int_equal(effect(&world, EFFECT_START, 0)->id.task, 0);
    assert_int_equal(effect(&world, EFFECT_START, 1)->id.task, 1);
    assert_int_equal(effect(&world, EFFECT_START, 0)->after, 0);
    struct core_attempt first = effect(&world, EFFECT_START, 0)->id;
    report(&world, &first, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->after > 0);
    assert_int_equal(effect(&world, EFFECT_START, 0)->id.task, 2);
    world_end(&world);
}

static void test_a_result_is_accepted_once(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
    report(&world, &id, OUT_EXITED, 0);
    assert_int_equal(effect_count(&world, EFFECT_WORKFLOW), 1);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    /* its node did not hear that it was accepted, and must not throw its output away */
    report(&world, &id, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(effect(&world, EFFECT_SETTLED, 0)->after, core_last_fact(world.core));
    assert_int_equal(world.out.fact_count, 0);
    world_end(&world);
}

static void test_a_late_result_of_an_old_attempt_is_refused(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    struct core_attempt old = effect(&world, EFFECT_START, 0)->id;
    core_out_clear(&world.out);
    core_node_lost(world.core, 0, false, 2000, &world.out);
    assert_int_equal(state_of(&world, 0, 0), TASK_QUEUED);
    core_node_join(world.core, 0, &two_slots, 3000, &world.out);
    struct core_attempt new = effect(&world, EFFECT_START, 0)->id;
    assert_int_equal(new.attempt, 2);
    report(&world, &old, OUT_EXITED, 0);
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    struct core_attempt forged = new;
    forged.term++;
    report(&world, &forged, OUT_EXITED, 0);
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    report(&world, &new, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    world_end(&world);
}

static struct core_task_view task_seen(const struct world *world)
{
    struct core_task_view view;
    core_task_view(world->core, 1, 0, 0, &view);
    return view;
}

static void test_a_running_task_says_since_when(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
    assert_int_equal(task_seen(&world).started_ms, 0);
    core_task_running(world.core, &id, 1500, 1600);
    assert_int_equal(task_seen(&world).started_ms, 1500);
    core_task_running(world.core, &id, 1700, 1800); /* said again */
    assert_int_equal(task_seen(&world).started_ms, 1500);
    core_out_clear(&world.out);
    core_node_lost(world.core, 0, false, 2000, &world.out);
    assert_int_equal(task_seen(&world).started_ms, 1000); /* there is no result to say better */
    assert_int_equal(task_seen(&world).duration_ms, 1000);
    core_node_join(world.core, 0, &two_slots, 3000, &world.out);
    assert_int_equal(task_seen(&world).started_ms, 0); /* the next attempt has not begun */
    assert_int_equal(task_seen(&world).duration_ms, 0);
    world_end(&world);
}

/* By a node whose clock is wrong. */
static void test_no_task_began_before_it_was_assigned_or_in_the_future(void **state)
{
    (void)state;
    static const int64_t said[] = {INT64_MIN, -5, 0, 999, 5000, INT64_MAX};
    static const int64_t believed[] = {1000, 1000, 1000, 1000, 2000, 2000};
    for (size_t i = 0; i < 6; i++) {
        struct core_experiment_spec one = {.task_count = 1, .needs = {.cpu_milli = 1000}};
        struct world world;
        world_begin(&world, &one, 1);
        core_node_join(world.core, 0, &two_slots, 1000, &world.out);
        struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
        core_task_running(world.core, &id, said[i], 2000);
        assert_int_equal(task_seen(&world).started_ms, believed[i]);
        core_out_clear(&world.out);
        core_cancel(world.core, 1, 3000, &world.out);
        assert_int_equal(task_seen(&world).duration_ms, 2000);
        world_end(&world);
    }
}

static void test_failures_are_retried_after_a_growing_delay(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .retries = 2, .backoff_ms = 1000};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    int64_t last_delay = 0;
    for (int attempt = 1; attempt <= 2; attempt++) {
        struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
        assert_int_equal(id.attempt, attempt);
        report(&world, &id, OUT_EXITED, 3);
        assert_int_equal(effect_count(&world, EFFECT_START), 0);
        int64_t due_ms = core_next_due_ms(world.core);
        assert_in_range(due_ms - world.now_ms, 500 * attempt, 1000 << (attempt - 1));
        assert_true(due_ms - world.now_ms >= last_delay / 2);
        last_delay = due_ms - world.now_ms;
        core_tick(world.core, due_ms - 1, &world.out);
        assert_int_equal(effect_count(&world, EFFECT_START), 0);
        world.now_ms = due_ms;
        core_tick(world.core, due_ms, &world.out);
        assert_int_equal(effect_count(&world, EFFECT_START), 1);
    }
    struct core_attempt last = effect(&world, EFFECT_START, 0)->id;
    report(&world, &last, OUT_SIGNALLED, 11);
    assert_int_equal(state_of(&world, 0, 0), TASK_FAILED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    struct core_task_view view;
    core_task_view(world.core, 1, 0, 0, &view);
    assert_int_equal(view.outcome, OUT_SIGNALLED);
    assert_int_equal(view.code, 11);
    world_end(&world);
}

static void apply_all(struct core *core, const struct core_out *out)
{
    for (size_t i = 0; i < out->fact_count; i++) {
        assert_int_equal(core_apply(core, &out->facts[i], NULL), ERR_OK);
    }
}

static void test_a_clock_set_back_between_runs_holds_up_no_retry(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .retries = 1, .backoff_ms = 500};
    struct core_workflow_spec spec = {.experiments = &one, .experiment_count = 1};
    struct world world;
    struct core *later = core_create();
    core_define(later, 1, &spec);
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    apply_all(later, &world.out);
    struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
    world.now_ms = INT64_C(1000000000000);
    report(&world, &id, OUT_EXITED, 1);
    apply_all(later, &world.out);
    core_out_clear(&world.out);
    core_begin_term(later, CORE_NODES_GONE, 2000, &world.out);
    assert_in_range(core_next_due_ms(later), 2000, 2000 + 60000);
    core_verify(later);
    core_destroy(later);
    world_end(&world);
}

static void test_losing_nodes_uses_no_retries_but_has_a_limit(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 3};
    struct world world;
    world_begin(&world, &one, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_RUNNING);
        core_node_join(world.core, 0, &two_slots, 1000, &world.out);
        core_node_lost(world.core, 0, false, 1000, &world.out);
    }
    assert_int_equal(state_of(&world, 0, 0), TASK_FAILED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    world_end(&world);
}

static void test_a_polite_stop_blames_nobody(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 1};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
    core_pause(world.core, true, 1000, &world.out);
    report(&world, &id, OUT_KILLED, 15);
    assert_int_equal(state_of(&world, 0, 0), TASK_QUEUED);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    core_out_clear(&world.out);
    core_pause(world.core, false, 1000, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    world_end(&world);
}

static void test_experiments_wait_for_what_they_depend_on(void **state)
{
    (void)state;
    uint32_t on_first[] = {0};
    struct core_experiment_spec two[] = {
        {.task_count = 2, .needs = {.cpu_milli = 1000}},
        {.task_count = 1, .needs = {.cpu_milli = 1000}, .depends_on = on_first, .depends_count = 1},
    };
    struct world world;
    world_begin(&world, two, 2);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    struct core_attempt a = effect(&world, EFFECT_START, 0)->id;
    struct core_attempt b = effect(&world, EFFECT_START, 1)->id;
    assert_int_equal(state_of(&world, 1, 0), TASK_WAITING);
    report(&world, &a, OUT_EXITED, 0);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    report(&world, &b, OUT_EXITED, 0);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(effect(&world, EFFECT_START, 0)->id.experiment, 1);
    world_end(&world);
}

static void test_what_depends_on_a_failure_is_skipped(void **state)
{
    (void)state;
    uint32_t on_first[] = {0};
    uint32_t on_second[] = {1};
    struct core_experiment_spec three[] = {
        {.task_count = 1, .needs = {.cpu_milli = 1000}},
        {.task_count = 4, .needs = {.cpu_milli = 1000}, .depends_on = on_first, .depends_count = 1},
        {.task_count = 1,
         .needs = {.cpu_milli = 1000},
         .depends_on = on_second,
         .depends_count = 1},
    };
    for (int allowed = 0; allowed < 2; allowed++) {
        three[0].allow_failure = allowed;
        struct world world;
        world_begin(&world, three, 3);
        core_node_join(world.core, 0, &two_slots, 1000, &world.out);
        struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
        report(&world, &id, OUT_EXITED, 1);
        assert_int_equal(state_of(&world, 1, 0), allowed ? TASK_ASSIGNED : TASK_SKIPPED);
        assert_int_equal(state_of(&world, 2, 0), allowed ? TASK_WAITING : TASK_SKIPPED);
        assert_int_equal(core_workflow_state(world.core, 1),
                         allowed ? WORKFLOW_RUNNING : WORKFLOW_FAILED);
        world_end(&world);
    }
}

static void test_max_failures_stops_a_hopeless_experiment(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1000, .needs = {.cpu_milli = 1000}, .max_failures = 2};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    struct core_attempt a = effect(&world, EFFECT_START, 0)->id;
    struct core_attempt b = effect(&world, EFFECT_START, 1)->id;
    report(&world, &a, OUT_EXITED, 1);
    struct core_attempt c = effect(&world, EFFECT_START, 0)->id;
    report(&world, &b, OUT_EXITED, 1);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    assert_int_equal(effect(&world, EFFECT_KILL, 0)->id.task, c.task);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    struct core_experiment_view view;
    core_experiment_view(world.core, 1, 0, &view);
    assert_int_equal(view.failed, 2);
    assert_int_equal(view.cancelled, 998);
    report(&world, &c, OUT_KILLED, 9);
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    world_end(&world);
}

static void test_max_failures_counts_tasks_that_were_lost_too_often(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 9, .needs = {.cpu_milli = 1000}, .max_failures = 1, .crash_limit = 1};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    core_node_lost(world.core, 0, false, 1000, &world.out);
    assert_int_equal(state_of(&world, 0, 0), TASK_FAILED);
    assert_int_equal(state_of(&world, 0, 8), TASK_CANCELLED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    world_end(&world);
}

static void test_cancel_ends_the_workflow_and_kills_what_runs(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 10, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    core_out_clear(&world.out);
    core_cancel(world.core, 1, 1000, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 2);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_CANCELLED);
    world_end(&world);
}

static void test_workers_caps_what_runs_at_once(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 10, .needs = {.cpu_milli = 100}, .workers = 3};
    struct world world;
    world_begin(&world, &one, 1);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 3);
    world_end(&world);
}

static void test_needs_that_nobody_meets_are_named(void **state)
{
    (void)state;
    struct core_experiment_spec two[] = {
        {.task_count = 1, .needs = {.cpu_milli = 1000}},
        {.task_count = 1, .needs = {.cpu_milli = 9000, .gpus = 1, .gpu_kind = "k80"}},
    };
    struct world world;
    world_begin(&world, two, 2);
    core_node_join(world.core, 0, &two_slots, 1000, &world.out);
    struct str lack = {0};
    assert_int_equal(core_unmet_need(world.core, 1, &lack), 1);
    assert_string_equal(str_text(&lack), "1 gpu of kind k80 (there are 0), 9 cpus (there are 2)");
    str_clear(&lack);
    struct core_node_spec big = {
        .capacity = {
            .cpu_milli = 16000, .gpus = 8, .gpu_kind = "v100", .memory_bytes = 1, .disk_bytes = 1}};
    core_node_join(world.core, 1, &big, 1000, &world.out);
    assert_int_equal(core_unmet_need(world.core, 1, &lack), 1);
    assert_string_equal(str_text(&lack), "1 gpu of kind k80 (there are 8 of another kind)");
    str_release(&lack);
    world_end(&world);
}

static void test_short_tasks_are_prefetched_and_long_ones_are_not(void **state)
{
    (void)state;
    for (int is_short = 0; is_short < 2; is_short++) {
        struct core_experiment_spec one = {.task_count = 1000, .needs = {.cpu_milli = 1000}};
        struct world world;
        world_begin(&world, &one, 1);
        core_node_join(world.core, 0, &two_slots, 1000, &world.out);
        struct core_attempt id = effect(&world, EFFECT_START, 0)->id;
        struct core_result result = {.outcome = OUT_EXITED, .duration_us = is_short ? 600 : 600000};
        core_out_clear(&world.out);
        core_task_ended(world.core, 0, &id, &result, 1000, &world.out);
        size_t started = effect_count(&world, EFFECT_START);
        assert_int_equal(started, is_short ? 81 : 1); /* 40 for each slot, and the one that ended */
        world_end(&world);
    }
}

static void test_priority_goes_first_then_who_has_least(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 4, .needs = {.cpu_milli = 1000}};
    struct core *core = core_create();
    struct core_out out = {0};
    for (uint32_t w = 1; w <= 3; w++) {
        struct core_workflow_spec spec = {
            .experiments = &one, .experiment_count = 1, .priority = w == 3 ? 10 : 0};
        core_define(core, w, &spec);
    }
    core_begin_term(core, CORE_NODES_GONE, 1, &out);
    for (uint32_t w = 1; w <= 3; w++) {
        core_submit(core, w, 1, &out);
    }
    struct core_node_spec six = {
        .capacity = {.cpu_milli = 6000, .memory_bytes = 1, .disk_bytes = 1}};
    core_out_clear(&out);
    core_node_join(core, 0, &six, 1, &out);
    uint32_t order[6];
    size_t count = 0;
    for (size_t i = 0; i < out.effect_count; i++) {
        if (out.effects[i].kind == EFFECT_START) {
            order[count++] = out.effects[i].id.workflow;
        }
    }
    assert_int_equal(count, 6);
    uint32_t expected[] = {3, 3, 3, 3, 1, 2};
    assert_memory_equal(order, expected, sizeof expected);
    core_out_release(&out);
    core_destroy(core);
}

static void test_a_log_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 2, .needs = {.cpu_milli = 1000}};
    struct core_workflow_spec spec = {.experiments = &one, .experiment_count = 1};
    struct core *core = core_create();
    core_define(core, 1, &spec);
    struct fact submitted = {.kind = FACT_SUBMITTED, .workflow = 1};
    struct fact assigned = {.kind = FACT_ASSIGNED, .workflow = 1, .task = 0, .attempt = 1};
    struct fact accepted = {.kind = FACT_ACCEPTED, .workflow = 1, .task = 0, .attempt = 1};
    assert_int_equal(core_apply(core, &assigned, NULL), ERR_CORRUPT);
    assert_int_equal(core_apply(core, &submitted, NULL), ERR_OK);
    assert_int_equal(core_apply(core, &submitted, NULL), ERR_CORRUPT);
    assert_int_equal(core_apply(core, &accepted, NULL), ERR_CORRUPT);
    assert_int_equal(core_apply(core, &assigned, NULL), ERR_OK);
    assert_int_equal(core_apply(core, &accepted, NULL), ERR_OK);
    assert_int_equal(core_apply(core, &accepted, NULL), ERR_CORRUPT);
    assigned.task = 2;
    assert_int_equal(core_apply(core, &assigned, NULL), ERR_CORRUPT);
    assigned.experiment = 1;
    assert_int_equal(core_apply(core, &assigned, NULL), ERR_CORRUPT);
    core_verify(core);
    core_destroy(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_is_given_what_fits_and_no_more),
        cmocka_unit_test(test_a_result_is_accepted_once),
        cmocka_unit_test(test_a_late_result_of_an_old_attempt_is_refused),
        cmocka_unit_test(test_a_running_task_says_since_when),
        cmocka_unit_test(test_no_task_began_before_it_was_assigned_or_in_the_future),
        cmocka_unit_test(test_failures_are_retried_after_a_growing_delay),
        cmocka_unit_test(test_a_clock_set_back_between_runs_holds_up_no_retry),
        cmocka_unit_test(test_losing_nodes_uses_no_retries_but_has_a_limit),
        cmocka_unit_test(test_a_polite_stop_blames_nobody),
        cmocka_unit_test(test_experiments_wait_for_what_they_depend_on),
        cmocka_unit_test(test_what_depends_on_a_failure_is_skipped),
        cmocka_unit_test(test_max_failures_stops_a_hopeless_experiment),
        cmocka_unit_test(test_max_failures_counts_tasks_that_were_lost_too_often),
        cmocka_unit_test(test_cancel_ends_the_workflow_and_kills_what_runs),
        cmocka_unit_test(test_workers_caps_what_runs_at_once),
        cmocka_unit_test(test_needs_that_nobody_meets_are_named),
        cmocka_unit_test(test_short_tasks_are_prefetched_and_long_ones_are_not),
        cmocka_unit_test(test_priority_goes_first_then_who_has_least),
        cmocka_unit_test(test_a_log_that_contradicts_itself_is_refused),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
