/* Experiments whose tasks are suggested while they run. */
#include "core/core_world.h"

static const struct core_experiment_spec hunt = {
    .task_count = 6, .searched = true, .needs = {.cpu_milli = 1000}};

static bool suggest(struct world *world, uint64_t count)
{
    core_out_clear(&world->out);
    bool done = core_suggest(world->core, 1, 0, count, world->now_ms, &world->out);
    core_verify(world->core);
    return done;
}

static bool close_search(struct world *world)
{
    core_out_clear(&world->out);
    bool done = core_close(world->core, 1, 0, world->now_ms, &world->out);
    core_verify(world->core);
    return done;
}

static bool stop(struct world *world, uint64_t task)
{
    core_out_clear(&world->out);
    bool done = core_stop_task(world->core, 1, 0, task, world->now_ms, &world->out);
    core_verify(world->core);
    return done;
}

static struct core_experiment_view look(const struct world *world, uint32_t experiment)
{
    struct core_experiment_view view;
    core_experiment_view(world->core, 1, experiment, &view);
    return view;
}

static void test_only_what_was_suggested_runs(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &hunt, 1);
    join_slots(&world, 0, 4);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    assert_int_equal(look(&world, 0).tasks, 0);
    assert_false(look(&world, 0).closed);
    assert_true(look(&world, 0).ready);
    assert_true(suggest(&world, 2));
    assert_int_equal(fact_count(&world, FACT_SUGGESTED), 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    assert_int_equal(started(&world, 1).task, 1);
    assert_int_equal(look(&world, 0).tasks, 2);
    assert_int_equal(state_of(&world, 0, 2), TASK_WAITING); /* there is none yet */
    assert_false(core_cancel_task(world.core, 1, 0, 2, world.now_ms, &world.out));
    assert_false(suggest(&world, 5)); /* more than there may be */
    assert_false(suggest(&world, 0));
    assert_false(suggest(&world, UINT64_MAX));
    assert_true(suggest(&world, 4));
    assert_int_equal(started(&world, 0).task, 2);
    assert_int_equal(state_of(&world, 0, 5), TASK_QUEUED);
    world_end(&world);
}

static void test_a_search_ends_when_it_is_closed_and_all_is_final(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &hunt, 1);
    join_slots(&world, 0, 4);
    assert_true(suggest(&world, 2));
    struct core_attempt a = started(&world, 0);
    struct core_attempt b = started(&world, 1);
    report(&world, &a, OUT_EXITED, 0);
    report(&world, &b, OUT_EXITED, 1); /* a failure is a result like others */
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_RUNNING);
    assert_true(suggest(&world, 1));
    struct core_attempt c = started(&world, 0);
    assert_true(close_search(&world));
    assert_true(look(&world, 0).closed);
    assert_false(look(&world, 0).ended);
    assert_false(close_search(&world));
    assert_false(suggest(&world, 1));
    report(&world, &c, OUT_EXITED, 0);
    assert_true(look(&world, 0).ended);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    assert_int_equal(look(&world, 0).tasks, 3);
    world_end(&world);
}

static const uint32_t on_first[] = {0};
static const struct core_experiment_spec chain[] = {
    {.task_count = 6, .searched = true, .needs = {.cpu_milli = 1000}},
    {.task_count = 1, .needs = {.cpu_milli = 1000}, .depends_on = on_first, .depends_count = 1},
};

static void test_a_search_that_found_nothing_has_failed(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, chain, 2);
    assert_true(close_search(&world));
    assert_true(look(&world, 0).ended);
    assert_int_equal(state_of(&world, 1, 0), TASK_SKIPPED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    world_end(&world);
}

static void test_what_depends_on_a_search_runs_after_it(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, chain, 2);
    join_slots(&world, 0, 4);
    assert_true(suggest(&world, 2));
    struct core_attempt a = started(&world, 0);
    struct core_attempt b = started(&world, 1);
    report(&world, &a, OUT_EXITED, 0);
    report(&world, &b, OUT_EXITED, 1);
    assert_true(close_search(&world));
    assert_int_equal(started(&world, 0).experiment, 1);
    world_end(&world);
}

static void test_what_is_stopped_early_is_done_for_good(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &hunt, 1);
    join_slots(&world, 0, 1);
    assert_true(suggest(&world, 2));
    struct core_attempt a = started(&world, 0);
    assert_false(stop(&world, 1)); /* does not run yet */
    assert_false(stop(&world, 2));
    assert_true(stop(&world, 0));
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    assert_int_equal(state_of(&world, 0, 0), TASK_SUCCEEDED);
    assert_true(view_of(&world, 0).stopped);
    assert_false(stop(&world, 0));
    report(&world, &a, OUT_EXITED, 0); /* even if it made it to the end */
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    struct core_attempt b = started(&world, 0);
    assert_int_equal(b.task, 1);
    assert_true(close_search(&world));
    report(&world, &b, OUT_EXITED, 1);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    core_out_clear(&world.out);
    assert_int_equal(core_retry(world.core, 1, world.now_ms, &world.out), 1);
    assert_int_equal(started(&world, 0).task, 1);
    world_end(&world);
}

static void test_a_gang_is_suggested_and_stopped_as_one(void **state)
{
    (void)state;
    struct core_experiment_spec gangs = hunt;
    gangs.gang = 3;
    struct world world;
    world_begin(&world, &gangs, 1);
    join_slots(&world, 0, 3);
    assert_false(suggest(&world, 2));
    assert_true(suggest(&world, 3));
    assert_int_equal(effect_count(&world, EFFECT_START), 3);
    assert_true(stop(&world, 1));
    assert_int_equal(fact_count(&world, FACT_STOPPED), 3);
    assert_int_equal(look(&world, 0).succeeded, 3);
    world_end(&world);
}

static void test_a_cancelled_search_goes_on_after_a_retry(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &hunt, 1);
    join_slots(&world, 0, 2);
    assert_true(suggest(&world, 1));
    struct core_attempt a = started(&world, 0);
    report(&world, &a, OUT_EXITED, 0);
    core_cancel(world.core, 1, world.now_ms, &world.out);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_CANCELLED);
    assert_true(look(&world, 0).ended);
    assert_false(look(&world, 0).closed);
    assert_false(suggest(&world, 1));
    assert_false(close_search(&world));
    assert_int_equal(core_retry(world.core, 1, world.now_ms, &world.out), 1); /* the search */
    core_verify(world.core);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_RUNNING);
    assert_true(suggest(&world, 1));
    assert_int_equal(started(&world, 0).task, 1);
    world_end(&world);
}

/* Failed first, then a search that was skipped with nothing in it. */
static void test_a_skipped_search_has_hope_again(void **state)
{
    (void)state;
    struct core_experiment_spec two[] = {{.task_count = 1, .needs = {.cpu_milli = 1000}}, hunt};
    two[1].depends_on = on_first;
    two[1].depends_count = 1;
    struct world world;
    world_begin(&world, two, 2);
    join_slots(&world, 0, 2);
    struct core_attempt a = started(&world, 0);
    report(&world, &a, OUT_EXITED, 1);
    assert_true(look(&world, 1).ended);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    core_out_clear(&world.out);
    assert_true(core_retry_task(world.core, 1, 0, 0, world.now_ms, &world.out));
    core_verify(world.core);
    struct core_attempt again = started(&world, 0);
    report(&world, &again, OUT_EXITED, 0);
    assert_false(look(&world, 1).ended);
    assert_true(core_suggest(world.core, 1, 1, 1, world.now_ms, &world.out));
    assert_int_equal(started(&world, 0).experiment, 1);
    world_end(&world);
}

static void test_no_search_is_asked_of_others(void **state)
{
    (void)state;
    struct core_experiment_spec plain = hunt;
    plain.searched = false;
    struct world world;
    world_begin(&world, &plain, 1);
    assert_int_equal(look(&world, 0).tasks, 6);
    assert_true(look(&world, 0).closed);
    assert_false(suggest(&world, 1));
    assert_false(close_search(&world));
    assert_false(core_suggest(world.core, 2, 0, 1, 1, &world.out));
    assert_false(core_suggest(world.core, 1, 1, 1, 1, &world.out));
    assert_false(core_close(world.core, 0, 0, 1, &world.out));
    assert_false(core_stop_task(world.core, 9, 0, 0, 1, &world.out));
    assert_int_equal(world.out.fact_count, 0);
    world_end(&world);
}

static void test_a_snapshot_and_the_log_keep_a_search(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &hunt, 1);
    join_slots(&world, 0, 2);
    core_suggest(world.core, 1, 0, 3, world.now_ms, &world.out);
    core_stop_task(world.core, 1, 0, 0, world.now_ms, &world.out);
    core_close(world.core, 1, 0, world.now_ms, &world.out);
    struct str snapshot = {0};
    core_snapshot_write(world.core, &snapshot);
    struct core_workflow_spec spec = {.experiments = &hunt, .experiment_count = 1};
    struct core *later = core_create();
    core_define(later, 1, &spec);
    assert_int_equal(core_snapshot_read(later, str_text(&snapshot), snapshot.size, NULL), ERR_OK);
    core_verify(later);
    struct core_experiment_view view;
    core_experiment_view(later, 1, 0, &view);
    assert_int_equal(view.tasks, 3);
    assert_true(view.closed);
    assert_int_equal(view.succeeded, 1);
    struct core_task_view task;
    core_task_view(later, 1, 0, 0, &task);
    assert_true(task.stopped);
    core_destroy(later);
    struct core_experiment_spec plain = hunt;
    plain.searched = false;
    spec.experiments = &plain;
    struct core *other = core_create();
    core_define(other, 1, &spec);
    assert_int_equal(core_snapshot_read(other, str_text(&snapshot), snapshot.size, NULL),
                     ERR_CORRUPT);
    core_destroy(other);
    str_release(&snapshot);
    world_end(&world);
}

static void test_impossible_facts_of_a_search_are_refused(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &hunt, 1);
    struct fact suggested = {.kind = FACT_SUGGESTED, .workflow = 1, .task = 7};
    assert_int_equal(core_apply(world.core, &suggested, NULL), ERR_CORRUPT);
    suggested.task = 0;
    assert_int_equal(core_apply(world.core, &suggested, NULL), ERR_CORRUPT);
    struct fact assigned = {.kind = FACT_ASSIGNED, .workflow = 1, .attempt = 1, .term = 1};
    assert_int_equal(core_apply(world.core, &assigned, NULL), ERR_CORRUPT);
    struct fact stopped = {.kind = FACT_STOPPED, .workflow = 1};
    assert_int_equal(core_apply(world.core, &stopped, NULL), ERR_CORRUPT);
    struct fact closed = {.kind = FACT_CLOSED, .workflow = 1};
    assert_int_equal(core_apply(world.core, &closed, NULL), ERR_OK);
    assert_int_equal(core_apply(world.core, &closed, NULL), ERR_CORRUPT);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_was_suggested_runs),
        cmocka_unit_test(test_a_search_ends_when_it_is_closed_and_all_is_final),
        cmocka_unit_test(test_a_search_that_found_nothing_has_failed),
        cmocka_unit_test(test_what_depends_on_a_search_runs_after_it),
        cmocka_unit_test(test_what_is_stopped_early_is_done_for_good),
        cmocka_unit_test(test_a_gang_is_suggested_and_stopped_as_one),
        cmocka_unit_test(test_a_cancelled_search_goes_on_after_a_retry),
        cmocka_unit_test(test_a_skipped_search_has_hope_again),
        cmocka_unit_test(test_no_search_is_asked_of_others),
        cmocka_unit_test(test_a_snapshot_and_the_log_keep_a_search),
        cmocka_unit_test(test_impossible_facts_of_a_search_are_refused),
    };
    return cmocka_run_group_tests_name("core_search", tests, NULL, NULL);
}
