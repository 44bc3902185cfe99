/* Sessions, orders of events and restarts, step by step against the real loop. */
#include "base/clock.h"
#include "base/io.h"
#include "master/gate_testing.h"
#include "master/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char one_task[] = "experiments:\n  one:\n    command: echo hello\n";
static const char two_tasks[] =
    "experiments:\n  one:\n    parameters: { i: 0..1 }\n    command: echo {{i}}\n";
static const char fragile_task[] = "experiments:\n  one:\n    retries: 0\n    command: echo\n";

static struct scene scene;
static struct agent_double ann;
static struct agent_double ben;

static int open_scene(void **state)
{
    (void)state;
    scene_open(&scene, 0);
    agent_open(&scene, &ann, "ann");
    agent_open(&scene, &ben, "ben");
    return 0;
}

static int open_impatient_scene(void **state)
{
    (void)state;
    scene_open(&scene, 600);
    agent_open(&scene, &ann, "ann");
    agent_open(&scene, &ben, "ben");
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    agent_close(&ann);
    agent_close(&ben);
    scene_close(&scene);
    return 0;
}

static const struct herd_node *herd_node_of(const struct agent_double *agent)
{
    return herd_find_key(&scene.server.herd, agent->keys.public_key);
}

/* --- sessions -----------------------------------------------------------------------------------
 */

static void a_node_with_the_secret_joins_and_is_given_work(void **state)
{
    (void)state;
    scene_submit(&scene, one_task, "");
    agent_join(&ann);
    assert_string_equal(ann.called, "ann");
    Drover__Attempt id = agent_hear_run(&ann);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, &id));
    assert_int_equal(scene_task(&scene, 0), TASK_SUCCEEDED);
}

static void a_wrong_secret_is_sent_away_and_leaves_nothing(void **state)
{
    (void)state;
    size_t before = scene.server.herd.count;
    struct gate_secret right = scene.server.gate.secrets[0];
    memset(scene.server.gate.secrets[0].text, '0', DOOR_SECRET_CHARS);
    agent_hello(&ann);
    scene.server.gate.secrets[0] = right;
    Drover__ToNode *message = agent_hear(&ann);
    assert_non_null(message->bye);
    assert_false(message->bye->again);
    wire_free_to_node(message);
    assert_int_equal(scene.server.herd.count, before);
    assert_int_equal(scene.server.counts.denied, 1);
}

static void expect_who(struct agent_double *agent)
{
    Drover__ToNode *message = agent_hear(agent);
    assert_true(message->who);
    wire_free_to_node(message);
}

static void what_is_of_no_session_or_an_old_one_is_answered_with_who(void **state)
{
    (void)state;
    scene_submit(&scene, one_task, "");
    Drover__ToMaster nothing = DROVER__TO_MASTER__INIT;
    agent_say(&ann, &nothing, 17);
    expect_who(&ann);
    agent_join(&ann);
    Drover__Attempt id = agent_hear_run(&ann);
    uint64_t current = ann.session;
    ann.session ^= 2;
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    expect_who(&ann);
    assert_int_equal(scene_task(&scene, 0), TASK_ASSIGNED);
    ann.session = current;
    agent_connect(&ann); /* the right session by another connection */
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    expect_who(&ann);
    assert_int_equal(scene_task(&scene, 0), TASK_ASSIGNED);
    assert_int_equal(scene.server.counts.strangers, 3);
}

static void hold(struct agent_double *agent, Drover__Holding *item, Drover__Attempt *id)
{
    static Drover__Holding *pointers[1];
    drover__holding__init(item);
    item->id = id;
    pointers[0] = item;
    agent->holding = pointers;
    agent->holding_count = 1;
}

static void a_restarted_master_adopts_what_its_node_holds(void **state)
{
    (void)state;
    scene_submit(&scene, one_task, "");
    agent_join(&ann);
    Drover__Attempt id = agent_hear_run(&ann);
    scene_crash(&scene);
    scene_restart(&scene);
    Drover__Holding item;
    hold(&ann, &item, &id);
    agent_connect(&ann);
    agent_join(&ann);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, &id));
}

static void a_result_told_again_is_accepted_again_even_after_a_restart(void **state)
{
    (void)state;
    scene_submit(&scene, one_task, "");
    agent_join(&ann);
    Drover__Attempt id = agent_hear_run(&ann);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, &id));
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, &id)); /* a refusal would make it drop the output */
    scene_crash(&scene);
    scene_restart(&scene);
    Drover__Holding item;
    hold(&ann, &item, &id);
    agent_connect(&ann);
    agent_join(&ann);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, &id));
}

/* --- starts and Hellos that cross
 * ------------------------------------------------------------------
 */

/* All Runs that come within a while. */
static size_t count_runs(struct agent_double *agent, uint32_t *attempt)
{
    size_t count = 0;
    int64_t until_ms = clock_mono_ms() + 300;
    while (clock_mono_ms() < until_ms) {
        Drover__ToNode *message = NULL;
        scene_turn(&scene, 0);
        while (wire_receive_to_node(agent->socket, &message, NULL) == ERR_OK) {
            count += message->n_run;
            *attempt = message->n_run ? message->run[0]->id->attempt : *attempt;
            wire_free_to_node(message);
        }
    }
    return count;
}

/* Lets the Hello arrive without a turn of the loop. */
static void read_one_more(void)
{
    uint64_t session = herd_node_of(&ann)->session;
    int64_t until_ms = clock_mono_ms() + 5000;
    while (herd_node_of(&ann)->session == session && clock_mono_ms() < until_ms) {
        gate_read(&scene.server);
        usleep(1000);
    }
    assert_true(herd_node_of(&ann)->session != session);
}

static void a_start_that_waits_for_the_log_dies_with_its_attempt(void **state)
{
    (void)state;
    uint32_t attempt = 0;
    agent_join(&ann);
    scene_submit(&scene, one_task, ""); /* assigned; the start waits for the log */
    agent_hello(&ann);                  /* which holds nothing */
    read_one_more();
    assert_int_equal(count_runs(&ann, &attempt), 1);
    assert_int_equal(attempt, 2);
}

static void a_start_for_one_session_is_not_sent_in_the_next(void **state)
{
    (void)state;
    uint32_t attempt = 0;
    agent_join(&ann);
    scene_submit(&scene, one_task, "");
    carry_flush(&scene.server.carrier);
    int64_t until_ms = clock_mono_ms() + 5000;
    while (scene.server.carrier.durable < scene.server.carrier.posted &&
           clock_mono_ms() < until_ms) {
        server_read_keeper(&scene.server); /* the start is in its bag */
        usleep(1000);
    }
    agent_hello(&ann);
    uint64_t old_session = herd_node_of(&ann)->session;
    read_one_more();
    size_t count = 0;
    until_ms = clock_mono_ms() + 300;
    while (clock_mono_ms() < until_ms) {
        Drover__ToNode *message = NULL;
        scene_turn(&scene, 0);
        while (wire_receive_to_node(ann.socket, &message, NULL) == ERR_OK) {
            bool is_new = message->session != old_session;
            count += is_new ? message->n_run : 0;
            attempt = is_new && message->n_run ? message->run[0]->id->attempt : attempt;
            wire_free_to_node(message);
        }
    }
    assert_int_equal(count, 1);
    assert_int_equal(attempt, 2);
}

static void a_start_that_waits_is_sent_though_its_task_was_cancelled(void **state)
{
    (void)state;
    uint64_t after = 0;
    agent_join(&ann);
    scene_submit(&scene, one_task, "");
    assert_true(server_cancel_task(&scene.server, 1, 0, 0, &after));
    Drover__ToNode *message = agent_hear(&ann); /* or its room would stay taken for ever */
    assert_int_equal(message->n_run, 1);
    assert_int_equal(message->n_kill, 1);
    Drover__Attempt id = *message->run[0]->id;
    wire_free_to_node(message);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_KILLED);
    assert_false(agent_hear_settled(&ann, &id));
    struct core_node_view view;
    core_node_view(scene.server.core, ann.number, &view);
    assert_int_equal(view.attempts, 0);
}

/* --- draining, leaving, coming back
 * ---------------------------------------------------------------
 */

static void a_drained_agent_that_begins_anew_is_given_work(void **state)
{
    (void)state;
    agent_join(&ann);
    server_drain(&scene.server, ann.number, CORE_DRAIN_HARD);
    scene_submit(&scene, one_task, "");
    agent_hear_nothing(&ann, 100);
    snprintf(ann.boot, sizeof ann.boot, "another");
    agent_join(&ann);
    (void)agent_hear_run(&ann);
}

static void a_drained_node_stays_drained_over_a_restart_of_the_master(void **state)
{
    (void)state;
    agent_join(&ann);
    server_drain(&scene.server, ann.number, CORE_DRAIN_SOFT);
    scene_submit(&scene, one_task, "");
    scene_turn(&scene, 50);
    scene_crash(&scene);
    scene_restart(&scene);
    agent_connect(&ann);
    agent_join(&ann);
    agent_hear_nothing(&ann, 200);
    server_drain(&scene.server, ann.number, CORE_DRAIN_OFF);
    (void)agent_hear_run(&ann);
}

static void of_two_agents_with_one_key_the_older_is_sent_away(void **state)
{
    (void)state;
    scene_submit(&scene, one_task, "");
    agent_join(&ann);
    (void)agent_hear_run(&ann);
    struct agent_double twin = ann;
    twin.socket = NULL;
    snprintf(twin.boot, sizeof twin.boot, "twin");
    agent_connect(&twin);
    agent_join(&twin); /* the attempt of the first is lost */
    Drover__Attempt id = agent_hear_run(&twin);
    agent_hello(&ann);
    Drover__ToNode *message = agent_hear(&ann);
    assert_true(message->bye && !message->bye->again);
    wire_free_to_node(message);
    agent_end(&twin, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&twin, &id));
    agent_close(&twin);
}

static void a_name_given_away_is_not_had_by_two(void **state)
{
    (void)state;
    agent_join(&ann);
    Drover__ToMaster stopped = DROVER__TO_MASTER__INIT;
    stopped.stopped = true;
    agent_say(&ann, &stopped, ann.session);
    scene_turn(&scene, 100);
    assert_int_equal(herd_node_of(&ann)->state, HERD_LEFT);
    snprintf(ben.name, sizeof ben.name, "ann");
    agent_join(&ben);
    assert_string_equal(ben.called, "ann");
    agent_join(&ann);
    assert_string_equal(ann.called, "ann-2");
}

static void a_name_of_blanks_does_not_keep_the_master_from_starting(void **state)
{
    (void)state;
    snprintf(ann.name, sizeof ann.name, "  ");
    snprintf(ben.name, sizeof ben.name, " a b ");
    agent_join(&ann);
    agent_join(&ben);
    scene_turn(&scene, 50);
    scene_crash(&scene);
    scene_restart(&scene);
    assert_string_equal(herd_node_of(&ann)->name, "  ");
    assert_string_equal(herd_node_of(&ben)->name, " a b ");
}

static void revoking_cuts_a_node_at_once_and_for_good(void **state)
{
    (void)state;
    uint64_t after = 0;
    scene_submit(&scene, one_task, "");
    agent_join(&ann);
    Drover__Attempt id = agent_hear_run(&ann);
    server_revoke(&scene.server, ann.number, &after);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    Drover__ToNode *message = agent_hear(&ann);
    assert_non_null(message->bye);
    wire_free_to_node(message);
    agent_join(&ben);
    (void)agent_hear_run(&ben); /* it moved at once */
    scene_crash(&scene);
    scene_restart(&scene);
    agent_connect(&ann);
    agent_hello(&ann); /* it may not have heard: it is told again, and gets nothing else */
    message = agent_hear(&ann);
    assert_non_null(message->bye);
    assert_false(message->bye->again);
    assert_null(message->welcome);
    wire_free_to_node(message);
    agent_hear_nothing(&ann, 300);
    assert_int_equal(herd_node_of(&ann)->state, HERD_REVOKED);
}

static void a_master_that_was_away_does_not_take_its_nodes_for_silent(void **state)
{
    (void)state;
    agent_join(&ann);
    struct core_node_view view;
    core_node_view(scene.server.core, ann.number, &view);
    assert_int_equal(view.state, CORE_NODE_HERE);
    sleep(1); /* frozen; what nodes say waits, or is still on its way */
    server_turn(&scene.server, 0);
    core_node_view(scene.server.core, ann.number, &view);
    assert_int_equal(view.state, CORE_NODE_HERE);
    scene_turn(&scene, 800);
    core_node_view(scene.server.core, ann.number, &view);
    assert_int_equal(view.state, CORE_NODE_SUSPECT);
}

/* --- submitting ----------------------------------------------------------------------------------
 */

static void a_submission_cut_off_after_its_record_is_made_good(void **state)
{
    (void)state;
    assert_int_equal(scene_submit(&scene, one_task, "key"), 1);
    scene_crash(&scene); /* its record was posted, its facts were not */
    scene_restart(&scene);
    assert_int_equal(scene.session.flow_count, 1);
    assert_int_equal(scene_submit(&scene, one_task, "key"), 1);
    agent_connect(&ann);
    agent_join(&ann);
    (void)agent_hear_run(&ann);
}

static void a_folder_that_a_crashed_submission_left_is_not_used(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/state/workflows/r-1/manifests/left", scene.folder);
    assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
    scene_submit(&scene, one_task, "");
    assert_string_equal(scene.session.flow->id, "r-1");
    assert_int_equal(access(path, F_OK), -1);
}

static void a_retry_makes_an_ended_workflow_live_again(void **state)
{
    (void)state;
    uint64_t after = 0;
    scene_submit(&scene, fragile_task, "");
    agent_join(&ann);
    Drover__Attempt id = agent_hear_run(&ann);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_TIMEOUT);
    (void)agent_hear_settled(&ann, &id);
    scene_turn(&scene, 20);
    assert_true(scene.session.flow->ended_ms > 0);
    assert_int_equal(server_retry(&scene.server, 1, &after), 1);
    assert_true(scene.session.flow->ended_ms == 0);
    id = agent_hear_run(&ann);
    agent_end(&ann, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, &id));
    scene_turn(&scene, 20);
    int64_t ended_ms = scene.session.flow->ended_ms;
    assert_true(ended_ms > 0);
    assert_int_equal(server_retry(&scene.server, 1, &after), 0);
    assert_true(scene.session.flow->ended_ms == ended_ms);
}

static void a_node_that_dies_costs_its_attempt_and_its_late_word_is_refused(void **state)
{
    (void)state;
    scene_submit(&scene, two_tasks, "");
    agent_join(&ann);
    Drover__Attempt late = agent_hear_run(&ann);
    struct herd_node *node = scene.server.herd.nodes[ann.number];
    gate_lost(&scene.server, node);
    agent_join(&ben);
    Drover__Attempt id = agent_hear_run(&ben);
    Drover__Holding item;
    hold(&ann, &item, &late);
    ann.cpu_milli = 0;
    agent_join(&ann);
    agent_end(&ann, &late, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_false(agent_hear_settled(&ann, &late));
    assert_int_equal(scene.server.counts.refused, 1);
    agent_end(&ben, &id, DROVER__OUTCOME__OUTCOME_SIGNALLED); /* a failure is not refused */
    agent_hear_settled(&ben, &id);
    assert_int_equal(scene.server.counts.refused, 1);
}

int main(void)
{
#define SCENE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        SCENE(a_node_with_the_secret_joins_and_is_given_work),
        SCENE(a_wrong_secret_is_sent_away_and_leaves_nothing),
        SCENE(what_is_of_no_session_or_an_old_one_is_answered_with_who),
        SCENE(a_restarted_master_adopts_what_its_node_holds),
        SCENE(a_result_told_again_is_accepted_again_even_after_a_restart),
        SCENE(a_start_that_waits_for_the_log_dies_with_its_attempt),
        SCENE(a_start_for_one_session_is_not_sent_in_the_next),
        SCENE(a_start_that_waits_is_sent_though_its_task_was_cancelled),
        SCENE(a_drained_agent_that_begins_anew_is_given_work),
        SCENE(a_drained_node_stays_drained_over_a_restart_of_the_master),
        SCENE(of_two_agents_with_one_key_the_older_is_sent_away),
        SCENE(a_name_given_away_is_not_had_by_two),
        SCENE(a_name_of_blanks_does_not_keep_the_master_from_starting),
        SCENE(revoking_cuts_a_node_at_once_and_for_good),
        cmocka_unit_test_setup_teardown(a_master_that_was_away_does_not_take_its_nodes_for_silent,
                                        open_impatient_scene, close_scene),
        SCENE(a_submission_cut_off_after_its_record_is_made_good),
        SCENE(a_folder_that_a_crashed_submission_left_is_not_used),
        SCENE(a_retry_makes_an_ended_workflow_live_again),
        SCENE(a_node_that_dies_costs_its_attempt_and_its_late_word_is_refused),
    };
#undef SCENE
    return cmocka_run_group_tests(tests, NULL, NULL);
}
