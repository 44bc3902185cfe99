/* One task cancelled, work tried again by hand, and snapshots of all that. */
#include "core/core_world.h"

static const struct core_experiment_spec five = {
    .task_count = 5, .needs = {.cpu_milli = 1000}, .retries = 1, .backoff_ms = 1000};

static bool cancel_one(struct world *world, uint64_t task)
{
    core_out_clear(&world->out);
    bool done = core_cancel_task(world->core, 1, 0, task, world->now_ms, &world->out);
    core_verify(world->core);
    return done;
}

static bool retry_one(struct world *world, uint32_t experiment, uint64_t task)
{
    core_out_clear(&world->out);
    bool done = core_retry_task(world->core, 1, experiment, task, world->now_ms, &world->out);
    core_verify(world->core);
    return done;
}

static void finish_all(struct world *world)
{
    while (effect_count(world, EFFECT_START) > 0) {
        struct core_out mine = world->out;
        world->out = (struct core_out){0};
        for (size_t i = 0; i < mine.effect_count; i++) {
            if (mine.effects[i].kind == EFFECT_START) {
                struct core_result good = {.outcome = OUT_EXITED, .duration_us = 60000000};
                core_task_ended(world->core, mine.effects[i].node, &mine.effects[i].id, &good,
                                world->now_ms, &world->out);
            }
        }
        core_out_release(&mine);
    }
}

static void test_one_task_is_cancelled_whatever_it_does(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &five, 1);
    assert_true(cancel_one(&world, 2)); /* never tried */
    join_slots(&world, 0, 2);
    struct core_attempt first = started(&world, 0);
    struct core_attempt second = started(&world, 1);
    assert_true(cancel_one(&world, 0)); /* runs */
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    report(&world, &first, OUT_KILLED, 9);
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(started(&world, 0).task, 3); /* 2 is passed over */
    report(&world, &second, OUT_EXITED, 1);
    assert_true(cancel_one(&world, 1)); /* waits for its retry */
    assert_int_equal(state_of(&world, 0, 0), TASK_CANCELLED);
    assert_int_equal(state_of(&world, 0, 1), TASK_CANCELLED);
    assert_int_equal(state_of(&world, 0, 2), TASK_CANCELLED);
    assert_false(cancel_one(&world, 1));
    assert_int_equal(world.out.fact_count, 0);
    assert_false(cancel_one(&world, 5)); /* there is none */
    struct core_attempt three = {.workflow = 1, .task = 3, .attempt = 1, .term = 1};
    struct core_attempt four = {.workflow = 1, .task = 4, .attempt = 1, .term = 1};
    report(&world, &three, OUT_EXITED, 0);
    report(&world, &four, OUT_EXITED, 0);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED); /* not all is done */
    world_end(&world);
}

static void test_a_cancelled_task_need_not_spoil_what_allows_failure(void **state)
{
    (void)state;
    struct core_experiment_spec one = five;
    one.task_count = 1;
    one.allow_failure = true;
    struct world world;
    world_begin(&world, &one, 1);
    assert_true(cancel_one(&world, 0));
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    world_end(&world);
}

static void test_what_depends_on_a_cancelled_task_is_skipped(void **state)
{
    (void)state;
    static const uint32_t on[] = {0};
    struct core_experiment_spec two[] = {
        {.task_count = 1, .needs = {.cpu_milli = 1000}},
        {.task_count = 1, .needs = {.cpu_milli = 1000}, .depends_on = on, .depends_count = 1},
    };
    struct world world;
    world_begin(&world, two, 2);
    assert_true(cancel_one(&world, 0));
    assert_int_equal(state_of(&world, 1, 0), TASK_SKIPPED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    world_end(&world);
}

static void test_cancelling_a_member_cancels_its_gang(void **state)
{
    (void)state;
    struct core_experiment_spec gangs = {.task_count = 4, .needs = {.cpu_milli = 1000}, .gang = 2};
    struct world world;
    world_begin(&world, &gangs, 1);
    join_slots(&world, 0, 2);
    assert_true(cancel_one(&world, 1));
    assert_int_equal(effect_count(&world, EFFECT_KILL), 2);
    assert_int_equal(state_of(&world, 0, 0), TASK_CANCELLED);
    assert_int_equal(state_of(&world, 0, 2), TASK_QUEUED);
    assert_true(retry_one(&world, 0, 0));
    assert_int_equal(fact_count(&world, FACT_RETRIED), 2);
    world_end(&world);
}

static void test_a_retry_runs_all_that_failed_with_all_its_retries(void **state)
{
    (void)state;
    struct core_experiment_spec two = five;
    two.task_count = 2;
    two.retries = 0;
    struct world world;
    world_begin(&world, &two, 1);
    join_slots(&world, 0, 2);
    struct core_attempt a = started(&world, 0);
    struct core_attempt b = started(&world, 1);
    report(&world, &a, OUT_EXITED, 0);
    report(&world, &b, OUT_EXITED, 7);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    core_out_clear(&world.out);
    assert_int_equal(core_retry(world.core, 1, world.now_ms, &world.out), 1);
    core_verify(world.core);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_RUNNING);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(started(&world, 0).task, 1);
    assert_int_equal(started(&world, 0).attempt, 2);
    assert_int_equal(view_of(&world, 1).failures, 0);
    struct core_attempt again = started(&world, 0);
    report(&world, &b, OUT_EXITED, 0); /* the old attempt says something else now */
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    report(&world, &again, OUT_EXITED, 0);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    core_out_clear(&world.out);
    assert_int_equal(core_retry(world.core, 1, world.now_ms, &world.out), 0);
    assert_int_equal(world.out.fact_count, 0);
    world_end(&world);
}

static void test_a_cancelled_workflow_of_a_million_goes_on_with_one_fact(void **state)
{
    (void)state;
    struct core_experiment_spec many = {.task_count = 1000000, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &many, 1);
    join_slots(&world, 0, 2);
    core_cancel(world.core, 1, world.now_ms, &world.out);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_CANCELLED);
    core_out_clear(&world.out);
    assert_int_equal(core_retry(world.core, 1, world.now_ms, &world.out), 1000000);
    assert_int_equal(fact_count(&world, FACT_REOPENED), 1);
    assert_in_range(world.out.fact_count, 1, 3);
    struct core_experiment_view view;
    core_experiment_view(world.core, 1, 0, &view);
    assert_in_range(view.retrying, 0, 2); /* the rest is fresh, not queued one by one */
    world_end(&world);
}

static const uint32_t on_first[] = {0};
static const uint32_t on_second[] = {1};
static const struct core_experiment_spec chain[] = {
    {.task_count = 2, .needs = {.cpu_milli = 1000}},
    {.task_count = 2, .needs = {.cpu_milli = 1000}, .depends_on = on_first, .depends_count = 1},
    {.task_count = 1, .needs = {.cpu_milli = 1000}, .depends_on = on_second, .depends_count = 1},
};

/* The chain, with a failure in its first link. */
static void break_chain(struct world *world)
{
    world_begin(world, chain, 3);
    join_slots(world, 0, 4);
    struct core_attempt a = started(world, 0);
    struct core_attempt b = started(world, 1);
    report(world, &a, OUT_EXITED, 0);
    report(world, &b, OUT_EXITED, 1);
    assert_int_equal(core_workflow_state(world->core, 1), WORKFLOW_FAILED);
    assert_int_equal(state_of(world, 2, 0), TASK_SKIPPED);
}

static void test_one_task_tried_again_gives_hope_to_what_was_skipped(void **state)
{
    (void)state;
    struct world world;
    break_chain(&world);
    assert_false(retry_one(&world, 1, 0)); /* what it needs has failed */
    assert_false(retry_one(&world, 0, 0)); /* has succeeded */
    assert_true(retry_one(&world, 0, 1));
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(state_of(&world, 1, 0), TASK_WAITING);
    assert_int_equal(state_of(&world, 2, 0), TASK_WAITING);
    finish_all(&world);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_SUCCEEDED);
    world_end(&world);
}

static void test_a_retry_that_fails_again_skips_again(void **state)
{
    (void)state;
    struct world world;
    break_chain(&world);
    core_out_clear(&world.out);
    assert_int_equal(core_retry(world.core, 1, world.now_ms, &world.out), 4);
    struct core_attempt again = started(&world, 0);
    report(&world, &again, OUT_EXITED, 1);
    assert_int_equal(state_of(&world, 2, 0), TASK_SKIPPED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    world_end(&world);
}

static void test_tasks_that_are_no_tasks_are_refused(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &five, 1);
    core_out_clear(&world.out);
    assert_false(core_cancel_task(world.core, 0, 0, 0, 1, &world.out));
    assert_false(core_cancel_task(world.core, 2, 0, 0, 1, &world.out));
    assert_false(core_retry_task(world.core, 1, 9, 0, 1, &world.out));
    assert_false(core_retry_task(world.core, 1, 0, UINT64_MAX, 1, &world.out));
    assert_int_equal(world.out.fact_count, 0);
    world_end(&world);
}

/* --- snapshots ---------------------------------------------------------------------------------
 */

static void test_a_snapshot_keeps_what_people_did(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &five, 1);
    assert_true(cancel_one(&world, 4));
    join_slots(&world, 0, 2);
    struct core_attempt second = started(&world, 1);
    assert_true(cancel_one(&world, 0));
    assert_true(retry_one(&world, 0, 0));
    struct core_result good = {.outcome = OUT_EXITED, .has_output = true};
    core_task_ended(world.core, 0, &second, &good, world.now_ms, &world.out);
    struct str snapshot = {0};
    core_snapshot_write(world.core, &snapshot);
    struct core *later = core_create();
    for (uint32_t w = 1; w <= 3; w++) { /* more workflows than when it was taken */
        struct core_workflow_spec spec = {.experiments = &five, .experiment_count = 1};
        core_define(later, w, &spec);
    }
    assert_int_equal(core_snapshot_read(later, str_text(&snapshot), snapshot.size, NULL), ERR_OK);
    core_verify(later);
    for (uint64_t t = 0; t < 5; t++) {
        struct core_task_view view;
        core_task_view(later, 1, 0, t, &view);
        assert_int_equal(view.state, state_of(&world, 0, t));
        assert_int_equal(view.attempt, view_of(&world, t).attempt);
        assert_int_equal(view.has_output, t == 1);
    }
    assert_false(core_is_submitted(later, 2));
    core_destroy(later);
    struct core *fewer = core_create();
    assert_int_equal(core_snapshot_read(fewer, str_text(&snapshot), snapshot.size, NULL),
                     ERR_CORRUPT);
    core_destroy(fewer);
    str_release(&snapshot);
    world_end(&world);
}

static void add_number(struct str *out, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(number >> (8 * i));
        str_add_bytes(out, &byte, 1);
    }
}

/* Written by hand as version 1 laid it out: two tasks of five were tried, the second waits. */
static void test_a_snapshot_of_the_first_version_is_read(void **state)
{
    (void)state;
    struct str old = {0};
    uint64_t head[] = {0x44524f56, 1, 4, 1, 1, 1, WORKFLOW_RUNNING, 1};
    uint64_t experiment[] = {5, 2, 0, 2, 1000, 1, 7000, 1};
    for (size_t i = 0; i < 8; i++) {
        add_number(&old, head[i], 8);
    }
    for (size_t i = 0; i < 8; i++) {
        add_number(&old, experiment[i], 8);
    }
    for (uint64_t t = 0; t < 2; t++) {
        add_number(&old, 5000, 8);
        add_number(&old, 10, 4);
        add_number(&old, 0, 4);
        add_number(&old, 1, 4);
        add_number(&old, 1, 2);
        add_number(&old, t, 2);
        add_number(&old, 0, 2);
        add_number(&old, t == 0 ? TASK_SUCCEEDED : TASK_QUEUED, 1);
        add_number(&old, OUT_EXITED, 1);
        add_number(&old, t, 1);
        add_number(&old, 0, 1);
    }
    struct core_workflow_spec spec = {.experiments = &five, .experiment_count = 1};
    struct world world = {.core = core_create(), .now_ms = 6000};
    core_define(world.core, 1, &spec);
    assert_int_equal(core_snapshot_read(world.core, str_text(&old), old.size, NULL), ERR_OK);
    core_verify(world.core);
    assert_int_equal(core_last_fact(world.core), 4);
    core_begin_term(world.core, CORE_NODES_AWAY, world.now_ms, &world.out);
    assert_int_equal(core_next_due_ms(world.core), 7000);
    join_slots(&world, 0, 1);
    assert_int_equal(started(&world, 0).task, 2);
    assert_int_equal(state_of(&world, 0, 0), TASK_SUCCEEDED);
    str_release(&old);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_task_is_cancelled_whatever_it_does),
        cmocka_unit_test(test_a_cancelled_task_need_not_spoil_what_allows_failure),
        cmocka_unit_test(test_what_depends_on_a_cancelled_task_is_skipped),
        cmocka_unit_test(test_cancelling_a_member_cancels_its_gang),
        cmocka_unit_test(test_a_retry_runs_all_that_failed_with_all_its_retries),
        cmocka_unit_test(test_a_cancelled_workflow_of_a_million_goes_on_with_one_fact),
        cmocka_unit_test(test_one_task_tried_again_gives_hope_to_what_was_skipped),
        cmocka_unit_test(test_a_retry_that_fails_again_skips_again),
        cmocka_unit_test(test_tasks_that_are_no_tasks_are_refused),
        cmocka_unit_test(test_a_snapshot_keeps_what_people_did),
        cmocka_unit_test(test_a_snapshot_of_the_first_version_is_read),
    };
    return cmocka_run_group_tests_name("core_command", tests, NULL, NULL);
}
