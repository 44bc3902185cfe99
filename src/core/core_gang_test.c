/* Gangs, and whose turn it is. */
#include "core/core_world.h"

static const struct core_experiment_spec two_gangs = {
    .task_count = 8, .needs = {.cpu_milli = 1000}, .gang = 4, .retries = 1, .backoff_ms = 1000};

/* Joins a node of one slot and returns how many attempts that started. */
static size_t join_one(struct world *world, uint32_t node)
{
    join_slots(world, node, 1);
    return effect_count(world, EFFECT_START);
}

static void test_a_gang_starts_as_a_whole_or_not_at_all(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &two_gangs, 1);
    for (uint32_t node = 0; node < 3; node++) {
        assert_int_equal(join_one(&world, node), 0);
    }
    join_slots(&world, 3, 2); /* five slots: the second gang does not fit */
    assert_int_equal(effect_count(&world, EFFECT_START), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(started(&world, i).task, i);
    }
    join_slots(&world, 4, 3);
    assert_int_equal(effect_count(&world, EFFECT_START), 4);
    assert_int_equal(started(&world, 0).task, 4);
    world_end(&world);
}

static void test_gangs_are_never_prefetched(void **state)
{
    (void)state;
    struct core_experiment_spec pairs = {.task_count = 20, .needs = {.cpu_milli = 1000}, .gang = 2};
    struct world world;
    world_begin(&world, &pairs, 1);
    join_slots(&world, 0, 2);
    struct core_attempt id[2] = {started(&world, 0), started(&world, 1)};
    struct core_result quick = {.outcome = OUT_EXITED, .duration_us = 1};
    core_task_ended(world.core, 0, &id[0], &quick, world.now_ms, &world.out);
    core_out_clear(&world.out);
    core_task_ended(world.core, 0, &id[1], &quick, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    world_end(&world);
}

static void test_when_a_member_fails_the_gang_tries_again_together(void **state)
{
    (void)state;
    struct core_experiment_spec one = two_gangs;
    one.task_count = 4;
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 4);
    struct core_attempt id[4];
    for (size_t i = 0; i < 4; i++) {
        id[i] = started(&world, i);
    }
    report(&world, &id[0], OUT_EXITED, 0);
    report(&world, &id[1], OUT_EXITED, 1);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 2);
    assert_int_equal(fact_count(&world, FACT_LOST), 2);
    assert_int_equal(state_of(&world, 0, 0), TASK_SUCCEEDED); /* accepted stays accepted */
    assert_int_equal(view_of(&world, 1).failures, 1);
    assert_int_equal(view_of(&world, 2).failures, 0);
    assert_int_equal(view_of(&world, 2).losses, 0);
    report(&world, &id[2], OUT_KILLED, 9);
    report(&world, &id[3], OUT_EXITED, 0); /* too late: it was given up */
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(effect_count(&world, EFFECT_START), 0); /* back-off holds for all of them */
    int64_t due_ms = core_next_due_ms(world.core);
    assert_in_range(due_ms - world.now_ms, 500, 1000);
    core_node_heard(world.core, 0, world.now_ms, &world.out);
    pass(&world, due_ms - world.now_ms);
    assert_int_equal(effect_count(&world, EFFECT_START), 3);
    assert_int_equal(started(&world, 0).task, 1);
    assert_int_equal(started(&world, 2).task, 3);
    for (size_t i = 0; i < 3; i++) {
        id[i] = started(&world, i);
    }
    for (size_t i = 0; i < 3; i++) {
        report(&world, &id[i], OUT_EXITED, 0);
    }
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    world_end(&world);
}

static void test_when_a_member_fails_for_good_the_rest_is_cancelled(void **state)
{
    (void)state;
    struct core_experiment_spec one = two_gangs;
    one.retries = 0;
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 4);
    struct core_attempt bad = started(&world, 2);
    report(&world, &bad, OUT_EXITED, 1);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 3);
    assert_int_equal(state_of(&world, 0, 2), TASK_FAILED);
    assert_int_equal(state_of(&world, 0, 3), TASK_CANCELLED);
    assert_int_equal(state_of(&world, 0, 4), TASK_QUEUED); /* the other gang has its own fate */
    struct core_experiment_view view;
    core_experiment_view(world.core, 1, 0, &view);
    assert_int_equal(view.failed, 1);
    world_end(&world);
}

static void test_a_lost_node_takes_its_gang_along(void **state)
{
    (void)state;
    struct core_experiment_spec one = two_gangs;
    one.task_count = 4;
    one.crash_limit = 1;
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 3);
    join_slots(&world, 1, 1);
    core_node_lost(world.core, 1, true, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 3);
    for (uint64_t t = 0; t < 4; t++) {
        assert_int_equal(state_of(&world, 0, t), TASK_QUEUED);
        assert_int_equal(view_of(&world, t).losses, 0);
    }
    world_end(&world);
}

static void test_a_gang_with_a_suspect_is_given_up_once_all_of_it_fits(void **state)
{
    (void)state;
    struct core_experiment_spec one = two_gangs;
    one.task_count = 2;
    one.gang = 2;
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 1);
    join_slots(&world, 1, 1);
    struct core_attempt a = started(&world, effect(&world, EFFECT_START, 0)->node == 1 ? 0 : 1);
    pass(&world, LEASE_MS - 1);
    core_node_heard(world.core, 1, world.now_ms, &world.out);
    pass(&world, 1);
    assert_int_equal(node_state(&world, 0), CORE_NODE_SUSPECT);
    assert_int_equal(world.out.fact_count, 0);
    join_slots(&world, 2, 1); /* its own slot on node 1 and this one would do */
    assert_int_equal(fact_count(&world, FACT_LOST), 2);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    report_from(&world, 1, &a, OUT_KILLED, 9);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    world_end(&world);
}

/* --- reservation -------------------------------------------------------------------------------
 */

static void define_and_submit(struct world *world, uint32_t workflow, int32_t priority,
                              const struct core_experiment_spec *experiment)
{
    struct core_workflow_spec spec = {
        .experiments = experiment, .experiment_count = 1, .priority = priority};
    core_define(world->core, workflow, &spec);
    core_out_clear(&world->out);
    core_submit(world->core, workflow, world->now_ms, &world->out);
    core_verify(world->core);
}

static void test_behind_a_gang_that_waits_nothing_younger_starts(void **state)
{
    (void)state;
    struct core_experiment_spec singles = {.task_count = 3, .needs = {.cpu_milli = 1000}};
    struct core_experiment_spec more = {.task_count = 9, .needs = {.cpu_milli = 1000}};
    struct core_experiment_spec gang = two_gangs;
    gang.task_count = 4;
    struct world world;
    world_begin(&world, &singles, 1);
    join_slots(&world, 0, 4);
    struct core_attempt id[3] = {started(&world, 0), started(&world, 1), started(&world, 2)};
    define_and_submit(&world, 2, 0, &gang);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    define_and_submit(&world, 3, 0, &more); /* one slot is free, but kept */
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    define_and_submit(&world, 4, 5, &singles); /* more important: goes ahead */
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    struct core_attempt urgent = started(&world, 0);
    report(&world, &urgent, OUT_EXITED, 0);
    urgent = started(&world, 0);
    for (size_t i = 0; i < 3; i++) {
        report(&world, &id[i], OUT_EXITED, 0);
        if (effect_count(&world, EFFECT_START) > 0) {
            assert_int_equal(started(&world, 0).workflow, 4); /* the last of the urgent ones */
            id[i] = started(&world, 0);
        }
    }
    report(&world, &urgent, OUT_EXITED, 0);
    report(&world, &id[0], OUT_EXITED, 0);
    assert_int_equal(effect_count(&world, EFFECT_START), 4); /* now it is whole */
    assert_int_equal(started(&world, 0).workflow, 2);
    world_end(&world);
}

static void test_nodes_that_a_waiting_gang_cannot_use_stay_busy(void **state)
{
    (void)state;
    const char *const label[] = {"fast"};
    struct core_experiment_spec gang = two_gangs;
    gang.task_count = 4;
    gang.labels = (struct core_labels){.items = label, .count = 1};
    struct core_experiment_spec more = {.task_count = 9, .needs = {.cpu_milli = 1000}};
    struct core_experiment_spec first = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &first, 1);
    struct core_node_spec fast = two_slots;
    fast.capacity.cpu_milli = 4000;
    fast.labels = gang.labels;
    core_node_join(world.core, 0, &fast, world.now_ms, &world.out);
    define_and_submit(&world, 2, 0, &gang);
    define_and_submit(&world, 3, 0, &more);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    join_slots(&world, 1, 2);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    assert_int_equal(effect(&world, EFFECT_START, 0)->node, 1);
    world_end(&world);
}

static void test_a_younger_gang_waits_behind_an_older_one(void **state)
{
    (void)state;
    struct core_experiment_spec singles = {.task_count = 2, .needs = {.cpu_milli = 1000}};
    struct core_experiment_spec four = two_gangs;
    struct core_experiment_spec pair = {.task_count = 2, .needs = {.cpu_milli = 1000}, .gang = 2};
    struct world world;
    world_begin(&world, &singles, 1);
    join_slots(&world, 0, 4);
    define_and_submit(&world, 2, 0, &four);
    define_and_submit(&world, 3, 0, &pair); /* would fit, but keeps its place */
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    world_end(&world);
}

static void test_nodes_kept_for_a_gang_are_free_again_when_it_has_no_chance(void **state)
{
    (void)state;
    struct core_experiment_spec singles = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct core_experiment_spec three = {.task_count = 3, .needs = {.cpu_milli = 1000}, .gang = 3};
    struct core_experiment_spec more = {.task_count = 9, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &singles, 1);
    join_slots(&world, 0, 2);
    join_slots(&world, 1, 1);
    define_and_submit(&world, 2, 0, &three);
    define_and_submit(&world, 3, 0, &more);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    core_node_drain(world.core, 1, CORE_DRAIN_SOFT, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(effect(&world, EFFECT_START, 0)->node, 0);
    world_end(&world);
}

static void test_a_gang_too_large_for_the_cluster_holds_up_nobody_and_is_named(void **state)
{
    (void)state;
    struct core_experiment_spec gang = two_gangs;
    struct core_experiment_spec more = {.task_count = 9, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &gang, 1);
    join_slots(&world, 0, 3);
    struct str lack = {0};
    assert_int_equal(core_unmet_need(world.core, 1, &lack), 0);
    assert_string_equal(str_text(&lack), "room for a gang of 4 (there is room for 3)");
    str_release(&lack);
    define_and_submit(&world, 2, 0, &more);
    assert_int_equal(effect_count(&world, EFFECT_START), 3);
    world_end(&world);
}

static void test_a_gang_cut_off_in_the_log_does_not_go_on_half(void **state)
{
    (void)state;
    struct core_workflow_spec spec = {.experiments = &two_gangs, .experiment_count = 1};
    struct world world;
    world_begin(&world, &two_gangs, 1);
    core_node_join(world.core, 0, &two_slots, world.now_ms, &world.out);
    core_node_join(world.core, 1, &two_slots, world.now_ms, &world.out);
    assert_int_equal(fact_count(&world, FACT_ASSIGNED), 4);
    for (size_t cut = 1; cut <= world.out.fact_count; cut++) {
        struct core *later = core_create();
        struct core_out out = {0};
        core_define(later, 1, &spec);
        for (size_t i = 0; i < cut; i++) {
            assert_int_equal(core_apply(later, &world.out.facts[i], NULL), ERR_OK);
        }
        core_begin_term(later, CORE_NODES_AWAY, world.now_ms, &out);
        core_verify(later); /* no group is half live */
        core_out_release(&out);
        core_destroy(later);
    }
    world_end(&world);
}

/* --- fair shares -------------------------------------------------------------------------------
 */

static void test_workflows_of_one_priority_share_by_what_they_have_running(void **state)
{
    (void)state;
    struct core_experiment_spec big = {.task_count = 100, .needs = {.cpu_milli = 3000}};
    struct core_experiment_spec small = {.task_count = 100, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &big, 1);
    define_and_submit(&world, 2, 0, &small);
    join_slots(&world, 0, 12);
    uint64_t cpus[3] = {0};
    for (size_t i = 0; i < effect_count(&world, EFFECT_START); i++) {
        uint32_t workflow = started(&world, i).workflow;
        cpus[workflow] += workflow == 1 ? 3 : 1;
    }
    assert_int_equal(cpus[1], 6);
    assert_int_equal(cpus[2], 6);
    assert_int_equal(started(&world, 0).workflow, 1); /* equal: the one submitted first */
    world_end(&world);
}

static void test_a_newcomer_gets_the_next_slots_until_it_has_as_much(void **state)
{
    (void)state;
    struct core_experiment_spec many = {.task_count = 100, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &many, 1);
    join_slots(&world, 0, 4);
    struct core_attempt id[4];
    for (size_t i = 0; i < 4; i++) {
        id[i] = started(&world, i);
    }
    define_and_submit(&world, 2, 0, &many);
    uint32_t expected[] = {2, 2, 1, 1}; /* at 2 : 2 the elder is first again */
    for (size_t i = 0; i < 4; i++) {
        report(&world, &id[i], OUT_EXITED, 0);
        assert_int_equal(started(&world, 0).workflow, expected[i]);
        assert_int_equal(started(&world, 0).task, expected[i] == 2 ? i : i + 2);
    }
    world_end(&world);
}

static void test_a_gang_that_needs_everything_is_not_starved_by_small_tasks(void **state)
{
    (void)state;
    struct core_experiment_spec many = {.task_count = 100, .needs = {.cpu_milli = 1000}};
    struct core_experiment_spec all = {.task_count = 2, .needs = {.cpu_milli = 1000}, .gang = 2};
    struct world world;
    world_begin(&world, &many, 1);
    join_slots(&world, 0, 2);
    struct core_attempt small[2] = {started(&world, 0), started(&world, 1)};
    define_and_submit(&world, 2, 0, &all);
    report(&world, &small[0], OUT_EXITED, 0);
    assert_int_equal(effect_count(&world, EFFECT_START), 0); /* the slot is kept */
    report(&world, &small[1], OUT_EXITED, 0); /* nothing of either runs now; the elder must wait */
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    assert_int_equal(started(&world, 0).workflow, 2);
    assert_int_equal(started(&world, 1).workflow, 2);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gang_starts_as_a_whole_or_not_at_all),
        cmocka_unit_test(test_gangs_are_never_prefetched),
        cmocka_unit_test(test_when_a_member_fails_the_gang_tries_again_together),
        cmocka_unit_test(test_when_a_member_fails_for_good_the_rest_is_cancelled),
        cmocka_unit_test(test_a_lost_node_takes_its_gang_along),
        cmocka_unit_test(test_a_gang_with_a_suspect_is_given_up_once_all_of_it_fits),
        cmocka_unit_test(test_behind_a_gang_that_waits_nothing_younger_starts),
        cmocka_unit_test(test_nodes_that_a_waiting_gang_cannot_use_stay_busy),
        cmocka_unit_test(test_a_younger_gang_waits_behind_an_older_one),
        cmocka_unit_test(test_nodes_kept_for_a_gang_are_free_again_when_it_has_no_chance),
        cmocka_unit_test(test_a_gang_too_large_for_the_cluster_holds_up_nobody_and_is_named),
        cmocka_unit_test(test_a_gang_cut_off_in_the_log_does_not_go_on_half),
        cmocka_unit_test(test_workflows_of_one_priority_share_by_what_they_have_running),
        cmocka_unit_test(test_a_newcomer_gets_the_next_slots_until_it_has_as_much),
        cmocka_unit_test(test_a_gang_that_needs_everything_is_not_starved_by_small_tasks),
    };
    return cmocka_run_group_tests_name("core_gang", tests, NULL, NULL);
}
