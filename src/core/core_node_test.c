/* Leases, suspects, adoption, drains, labels: what nodes may do to us. */
#include "core/core_world.h"

static const struct core_experiment_spec ten = {
    .task_count = 10, .needs = {.cpu_milli = 1000}, .crash_limit = 3};

static void test_a_silent_node_is_suspect_and_its_work_moves_when_there_is_room(void **state)
{
    (void)state;
    struct core_experiment_spec two = {.task_count = 2, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &two, 1);
    join_slots(&world, 0, 2);
    struct core_attempt first = started(&world, 0);
    assert_int_equal(core_next_due_ms(world.core), world.now_ms + LEASE_MS);
    pass(&world, LEASE_MS - 1);
    assert_int_equal(node_state(&world, 0), CORE_NODE_HERE);
    pass(&world, 1);
    assert_int_equal(node_state(&world, 0), CORE_NODE_SUSPECT);
    assert_int_equal(world.out.fact_count, 0); /* nobody could take it: it stays */
    assert_int_equal(state_of(&world, 0, 0), TASK_ASSIGNED);
    join_slots(&world, 1, 1);
    assert_int_equal(fact_count(&world, FACT_LOST), 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(effect(&world, EFFECT_START, 0)->node, 1);
    assert_int_equal(started(&world, 0).task, first.task);
    assert_int_equal(started(&world, 0).attempt, 2);
    assert_int_equal(effect(&world, EFFECT_KILL, 0)->node, 0); /* should it hear us */
    assert_int_equal(view_of(&world, 0).losses, 1);
    assert_int_equal(state_of(&world, 0, 1), TASK_ASSIGNED); /* the other waits for room */
    world_end(&world);
}

static void test_an_idle_node_takes_over_at_the_moment_of_the_lapse(void **state)
{
    (void)state;
    struct core_experiment_spec two[] = {
        {.task_count = 1, .needs = {.cpu_milli = 1000}},
        {.task_count = 1, .needs = {.cpu_milli = 64000}}, /* fits nowhere, and is asked for */
    };
    struct world world;
    world_begin(&world, two, 2);
    join_slots(&world, 0, 1);
    join_slots(&world, 1, 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    world.now_ms += LEASE_MS - 1;
    core_node_heard(world.core, 1, world.now_ms, &world.out);
    pass(&world, 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(effect(&world, EFFECT_START, 0)->node, 1);
    world_end(&world);
}

static void test_a_node_heard_in_time_has_lost_nothing(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 2);
    struct core_attempt id = started(&world, 0);
    pass(&world, LEASE_MS);
    assert_int_equal(node_state(&world, 0), CORE_NODE_SUSPECT);
    core_node_heard(world.core, 0, world.now_ms, &world.out);
    assert_int_equal(world.out.fact_count, 0);
    assert_int_equal(world.out.effect_count, 0);
    assert_int_equal(node_state(&world, 0), CORE_NODE_HERE);
    report(&world, &id, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    world_end(&world);
}

static void test_signs_of_life_keep_the_lease(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 1);
    join_slots(&world, 1, 1);
    for (int i = 0; i < 5; i++) {
        world.now_ms += LEASE_MS - 1;
        core_node_heard(world.core, 0, world.now_ms, &world.out);
        pass(&world, 0);
    }
    assert_int_equal(node_state(&world, 0), CORE_NODE_HERE);
    assert_int_equal(node_state(&world, 1), CORE_NODE_SUSPECT);
    world_end(&world);
}

static void test_a_suspect_result_counts_until_it_is_replaced(void **state)
{
    (void)state;
    struct world world;
    struct core_experiment_spec two = {.task_count = 2, .needs = {.cpu_milli = 1000}};
    world_begin(&world, &two, 1);
    join_slots(&world, 0, 2);
    struct core_attempt a = started(&world, 0);
    struct core_attempt b = started(&world, 1);
    pass(&world, LEASE_MS);
    report(&world, &a, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    join_slots(&world, 1, 1); /* takes over b */
    assert_int_equal(started(&world, 0).task, b.task);
    report(&world, &b, OUT_EXITED, 0);
    assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(world.out.fact_count, 0);
    world_end(&world);
}

static void test_suspects_go_before_fresh_tasks_and_a_cap_counts_them_once(void **state)
{
    (void)state;
    struct core_experiment_spec capped = {
        .task_count = 9, .needs = {.cpu_milli = 1000}, .workers = 2};
    struct world world;
    world_begin(&world, &capped, 1);
    join_slots(&world, 0, 2);
    pass(&world, LEASE_MS);
    join_slots(&world, 1, 8);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    assert_int_equal(started(&world, 0).task, 0);
    assert_int_equal(started(&world, 1).task, 1);
    struct core_experiment_view view;
    core_experiment_view(world.core, 1, 0, &view);
    assert_int_equal(view.assigned, 2);
    world_end(&world);
}

static void test_a_node_that_returns_too_late_is_told_to_stop(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 2);
    struct core_attempt old = started(&world, 0);
    pass(&world, LEASE_MS);
    join_slots(&world, 1, 1);
    core_out_clear(&world.out);
    core_node_heard(world.core, 0, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    assert_int_equal(effect(&world, EFFECT_KILL, 0)->node, 0);
    assert_memory_equal(&effect(&world, EFFECT_KILL, 0)->id, &old, sizeof old);
    world_end(&world);
}

static void test_a_task_that_silences_its_nodes_meets_the_crash_limit(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 3};
    struct world world;
    world_begin(&world, &one, 1);
    for (uint32_t node = 0; node < 4; node++) {
        assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_RUNNING);
        join_slots(&world, node, 1);
        pass(&world, LEASE_MS);
    }
    assert_int_equal(state_of(&world, 0, 0), TASK_FAILED);
    assert_int_equal(core_workflow_state(world.core, 1), WORKFLOW_FAILED);
    world_end(&world);
}

static void test_without_a_lease_silence_means_nothing(void **state)
{
    (void)state;
    struct core_workflow_spec spec = {.experiments = &ten, .experiment_count = 1};
    struct world world = {.core = core_create(), .now_ms = 1};
    core_define(world.core, 1, &spec);
    core_begin_term(world.core, CORE_NODES_GONE, 1, &world.out);
    core_submit(world.core, 1, 1, &world.out);
    join_slots(&world, 0, 1);
    assert_true(core_next_due_ms(world.core) == INT64_MAX);
    pass(&world, INT64_C(1) << 40);
    assert_int_equal(node_state(&world, 0), CORE_NODE_HERE);
    world_end(&world);
}

/* --- adoption ----------------------------------------------------------------------------------
 */

static void test_a_renewed_connection_keeps_what_is_held_and_moves_the_rest(void **state)
{
    (void)state;
    struct core_experiment_spec two = {
        .task_count = 2, .needs = {.cpu_milli = 1000}, .crash_limit = 1};
    struct world world;
    world_begin(&world, &two, 1);
    join_slots(&world, 0, 2);
    struct core_attempt kept = started(&world, 0);
    struct core_attempt gone = started(&world, 1); /* its Run message never arrived */
    join_with(&world, 0, &kept, 1);
    assert_int_equal(fact_count(&world, FACT_LOST), 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(started(&world, 0).task, gone.task);
    assert_int_equal(view_of(&world, gone.task).losses, 0); /* nobody is to blame */
    report(&world, &kept, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    world_end(&world);
}

static void test_a_node_that_still_holds_what_was_accepted_is_left_to_tell_again(void **state)
{
    (void)state;
    struct core_experiment_spec one = {.task_count = 1, .needs = {.cpu_milli = 1000}};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 1);
    struct core_attempt id = started(&world, 0);
    report(&world, &id, OUT_EXITED, 0); /* the word that it was settled is lost */
    join_with(&world, 0, &id, 1);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 0);
    report(&world, &id, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(world.out.fact_count, 0);
    join_with(&world, 1, &id, 1); /* another node cannot have it */
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    world_end(&world);
}

static void test_a_fresh_agent_has_killed_what_it_had(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 2};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 1);
    struct core_node_spec fresh = two_slots;
    fresh.fresh = true;
    core_node_join(world.core, 0, &fresh, world.now_ms, &world.out);
    assert_int_equal(view_of(&world, 0).losses, 1);
    core_node_join(world.core, 0, &fresh, world.now_ms, &world.out);
    assert_int_equal(state_of(&world, 0, 0), TASK_FAILED);
    world_end(&world);
}

static void test_a_node_that_lies_about_what_it_holds_changes_nothing(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 2);
    struct core_attempt of_zero = started(&world, 0);
    struct core_attempt lies[] = {
        of_zero,
        of_zero,
        {.workflow = 0},
        {.workflow = 7, .experiment = 1, .task = 1},
        {.workflow = 1, .experiment = UINT32_MAX},
        {.workflow = 1, .task = UINT64_MAX, .attempt = 1, .term = 1},
        {.workflow = 1, .task = 9, .attempt = 1, .term = 1},
        {.workflow = 1, .task = 0, .attempt = UINT32_MAX, .term = UINT32_MAX},
    };
    size_t count = sizeof lies / sizeof lies[0];
    join_with(&world, 1, lies, count);
    assert_int_equal(effect_count(&world, EFFECT_KILL), count);
    assert_int_equal(fact_count(&world, FACT_LOST), 0);
    for (size_t i = 0; i < count; i++) {
        report_from(&world, 1, &lies[i], OUT_EXITED, 0);
        assert_false(effect(&world, EFFECT_SETTLED, 0)->accepted);
        assert_int_equal(world.out.fact_count, 0);
    }
    report_from(&world, 99, &of_zero, OUT_EXITED, 0);
    assert_int_equal(world.out.fact_count, 0);
    report(&world, &of_zero, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    world_end(&world);
}

static void test_impossible_numbers_in_a_report_cannot_spoil_the_log(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 4, .needs = {.cpu_milli = 1000}, .retries = 1, .crash_limit = 1};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 4);
    struct core_attempt id = started(&world, 0);
    struct core_attempt other = started(&world, 1);
    struct core_result result = {
        .outcome = OUT_EXITED, .started_ms = INT64_MIN, .duration_us = INT64_MIN};
    core_out_clear(&world.out);
    core_task_ended(world.core, 0, &id, &result, world.now_ms, &world.out);
    result = (struct core_result){.outcome = (enum core_outcome)12345, .code = UINT32_MAX};
    core_task_ended(world.core, 0, &other, &result, world.now_ms, &world.out);
    for (size_t i = 0; i < world.out.fact_count; i++) {
        uint8_t bytes[FACT_BYTES_MAX];
        struct fact back;
        size_t used = 0;
        size_t size = fact_encode(&world.out.facts[i], bytes);
        assert_int_equal(fact_decode(bytes, size, &back, &used, NULL), ERR_OK);
    }
    assert_int_equal(state_of(&world, 0, 0), TASK_SUCCEEDED);
    assert_int_equal(state_of(&world, 0, 1), TASK_FAILED); /* counted as a crash */
    world_end(&world);
}

/* The same workflow in a new core, as a master's successor finds it. */
static void restart(struct world *world, const struct core_experiment_spec *spec,
                    enum core_begin begin)
{
    struct core_workflow_spec workflow = {.experiments = spec, .experiment_count = 1};
    struct str snapshot = {0};
    core_snapshot_write(world->core, &snapshot);
    core_destroy(world->core);
    world->core = core_create();
    core_define(world->core, 1, &workflow);
    core_set_lease(world->core, LEASE_MS);
    assert_int_equal(core_snapshot_read(world->core, str_text(&snapshot), snapshot.size, NULL),
                     ERR_OK);
    str_release(&snapshot);
    core_out_clear(&world->out);
    core_begin_term(world->core, begin, world->now_ms, &world->out);
    core_verify(world->core);
}

static void test_a_restarted_master_adopts_what_runs(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 2);
    struct core_attempt a = started(&world, 0);
    struct core_attempt b = started(&world, 1);
    restart(&world, &ten, CORE_NODES_AWAY);
    assert_int_equal(fact_count(&world, FACT_LOST), 0);
    assert_int_equal(state_of(&world, 0, 0), TASK_ASSIGNED);
    assert_int_equal(node_state(&world, 0), CORE_NODE_UNKNOWN);
    join_slots(&world, 1, 1); /* has room, but what is away is not free */
    assert_int_equal(started(&world, 0).task, 2);
    struct core_attempt held[] = {a, b};
    join_with(&world, 0, held, 2);
    assert_int_equal(world.out.fact_count, 0);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 0);
    report(&world, &a, OUT_EXITED, 0); /* with its old term */
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(started(&world, 0).term, a.term + 1);
    world_end(&world);
}

static void test_after_a_restart_nodes_have_one_lease_to_come_back(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 1);
    struct core_attempt a = started(&world, 0);
    restart(&world, &ten, CORE_NODES_AWAY);
    join_slots(&world, 1, 1);
    pass(&world, LEASE_MS - 1);
    core_node_heard(world.core, 1, world.now_ms, &world.out);
    assert_int_equal(view_of(&world, 0).attempt, 1);
    pass(&world, 1);
    report_from(&world, 1,
                &(struct core_attempt){.workflow = 1, .task = 1, .attempt = 1, .term = 2},
                OUT_EXITED, 0);
    assert_int_equal(started(&world, 0).task, 0); /* the slot that came free takes it over */
    assert_int_equal(started(&world, 0).attempt, 2);
    join_with(&world, 0, &a, 1);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    world_end(&world);
}

static void test_a_run_on_one_machine_loses_what_ran_with_its_master(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 2);
    restart(&world, &ten, CORE_NODES_GONE);
    assert_int_equal(fact_count(&world, FACT_LOST), 2);
    world_end(&world);
}

/* --- drains ------------------------------------------------------------------------------------
 */

static void test_a_soft_drain_lets_what_runs_end_and_sends_nothing_new(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 2);
    struct core_attempt a = started(&world, 0);
    core_out_clear(&world.out);
    core_node_drain(world.core, 0, CORE_DRAIN_SOFT, world.now_ms, &world.out);
    assert_int_equal(world.out.effect_count, 0);
    assert_int_equal(node_state(&world, 0), CORE_NODE_DRAINING);
    report(&world, &a, OUT_EXITED, 0);
    assert_true(effect(&world, EFFECT_SETTLED, 0)->accepted);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    core_out_clear(&world.out);
    core_node_drain(world.core, 0, CORE_DRAIN_OFF, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(node_state(&world, 0), CORE_NODE_HERE);
    world_end(&world);
}

static void test_a_hard_drain_moves_work_at_once_and_blames_nobody(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 1};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 2);
    struct core_attempt a = started(&world, 0);
    join_slots(&world, 1, 2);
    core_out_clear(&world.out);
    core_node_drain(world.core, 0, CORE_DRAIN_HARD, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    report(&world, &a, OUT_KILLED, 15);
    assert_int_equal(effect(&world, EFFECT_START, 0)->node, 1);
    assert_int_equal(view_of(&world, 0).losses, 0);
    assert_int_equal(node_state(&world, 0), CORE_NODE_DRAINING); /* empty, and still */
    world_end(&world);
}

static void test_a_drain_outlives_a_renewed_connection(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, &ten, 1);
    join_slots(&world, 0, 1);
    struct core_attempt a = started(&world, 0);
    core_node_drain(world.core, 0, CORE_DRAIN_HARD, world.now_ms, &world.out);
    join_with(&world, 0, &a, 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    assert_int_equal(effect_count(&world, EFFECT_KILL), 1); /* the first may not have arrived */
    world_end(&world);
}

static void test_a_drained_node_that_falls_silent_is_not_blamed(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 1};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 1);
    core_node_drain(world.core, 0, CORE_DRAIN_HARD, world.now_ms, &world.out);
    pass(&world, LEASE_MS);
    join_slots(&world, 1, 1);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(view_of(&world, 0).losses, 0);
    world_end(&world);
}

static void test_a_node_that_left_on_purpose_is_not_blamed(void **state)
{
    (void)state;
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .crash_limit = 1};
    struct world world;
    world_begin(&world, &one, 1);
    join_slots(&world, 0, 1);
    core_node_lost(world.core, 0, true, world.now_ms, &world.out);
    assert_int_equal(state_of(&world, 0, 0), TASK_QUEUED);
    assert_int_equal(node_state(&world, 0), CORE_NODE_UNKNOWN);
    world_end(&world);
}

/* --- labels ------------------------------------------------------------------------------------
 */

static void test_a_node_must_have_every_label_asked_for(void **state)
{
    (void)state;
    const char *const asked[] = {"fast", "zone=a"};
    struct core_experiment_spec one = {
        .task_count = 4, .needs = {.cpu_milli = 1000}, .labels = {.items = asked, .count = 2}};
    const char *const some[] = {"zone=a", "node=x"};
    const char *const all[] = {"zone=a", "other", "fast", "fast"};
    struct world world;
    world_begin(&world, &one, 1);
    struct core_node_spec node = two_slots;
    core_node_join(world.core, 0, &node, world.now_ms, &world.out);
    node.labels = (struct core_labels){.items = some, .count = 2};
    core_node_join(world.core, 1, &node, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    struct str lack = {0};
    assert_int_equal(core_unmet_need(world.core, 1, &lack), 0);
    assert_string_equal(str_text(&lack), "a node with the label fast");
    str_release(&lack);
    node.labels = (struct core_labels){.items = all, .count = 4};
    core_node_join(world.core, 2, &node, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 2);
    assert_int_equal(effect(&world, EFFECT_START, 0)->node, 2);
    assert_int_equal(core_unmet_need(world.core, 1, NULL), -1);
    node.labels = (struct core_labels){0}; /* it has lost them: what it runs is not taken away */
    struct core_attempt held[] = {started(&world, 0), started(&world, 1)};
    node.held = held;
    node.held_count = 2;
    core_out_clear(&world.out);
    core_node_join(world.core, 2, &node, world.now_ms, &world.out);
    assert_int_equal(world.out.fact_count, 0);
    report_from(&world, 2, &held[0], OUT_EXITED, 0);
    assert_int_equal(effect_count(&world, EFFECT_START), 0);
    world_end(&world);
}

static void test_a_label_first_asked_for_later_is_known_of_nodes_already_here(void **state)
{
    (void)state;
    const char *const labels[] = {"node=7", "zone=b"};
    struct core_experiment_spec one = {
        .task_count = 1, .needs = {.cpu_milli = 1000}, .labels = {.items = labels, .count = 1}};
    struct core_workflow_spec spec = {.experiments = &one, .experiment_count = 1};
    struct world world;
    world_begin(&world, &ten, 1);
    struct core_node_spec node = two_slots;
    node.capacity.cpu_milli = 11000;
    node.labels = (struct core_labels){.items = labels, .count = 2};
    core_node_join(world.core, 7, &node, world.now_ms, &world.out);
    core_define(world.core, 2, &spec);
    core_out_clear(&world.out);
    core_submit(world.core, 2, world.now_ms, &world.out);
    assert_int_equal(effect_count(&world, EFFECT_START), 1);
    assert_int_equal(started(&world, 0).workflow, 2);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_node_is_suspect_and_its_work_moves_when_there_is_room),
        cmocka_unit_test(test_an_idle_node_takes_over_at_the_moment_of_the_lapse),
        cmocka_unit_test(test_a_node_heard_in_time_has_lost_nothing),
        cmocka_unit_test(test_signs_of_life_keep_the_lease),
        cmocka_unit_test(test_a_suspect_result_counts_until_it_is_replaced),
        cmocka_unit_test(test_suspects_go_before_fresh_tasks_and_a_cap_counts_them_once),
        cmocka_unit_test(test_a_node_that_returns_too_late_is_told_to_stop),
        cmocka_unit_test(test_a_task_that_silences_its_nodes_meets_the_crash_limit),
        cmocka_unit_test(test_without_a_lease_silence_means_nothing),
        cmocka_unit_test(test_a_renewed_connection_keeps_what_is_held_and_moves_the_rest),
        cmocka_unit_test(test_a_node_that_still_holds_what_was_accepted_is_left_to_tell_again),
        cmocka_unit_test(test_a_fresh_agent_has_killed_what_it_had),
        cmocka_unit_test(test_a_node_that_lies_about_what_it_holds_changes_nothing),
        cmocka_unit_test(test_impossible_numbers_in_a_report_cannot_spoil_the_log),
        cmocka_unit_test(test_a_restarted_master_adopts_what_runs),
        cmocka_unit_test(test_after_a_restart_nodes_have_one_lease_to_come_back),
        cmocka_unit_test(test_a_run_on_one_machine_loses_what_ran_with_its_master),
        cmocka_unit_test(test_a_soft_drain_lets_what_runs_end_and_sends_nothing_new),
        cmocka_unit_test(test_a_hard_drain_moves_work_at_once_and_blames_nobody),
        cmocka_unit_test(test_a_drain_outlives_a_renewed_connection),
        cmocka_unit_test(test_a_drained_node_that_falls_silent_is_not_blamed),
        cmocka_unit_test(test_a_node_that_left_on_purpose_is_not_blamed),
        cmocka_unit_test(test_a_node_must_have_every_label_asked_for),
        cmocka_unit_test(test_a_label_first_asked_for_later_is_known_of_nodes_already_here),
    };
    return cmocka_run_group_tests_name("core_node", tests, NULL, NULL);
}
