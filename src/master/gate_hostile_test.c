/* Nodes that lie, flood and send nonsense: refused and counted, and nothing else notices. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/gate_testing.h"

#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

static const char one_task[] = "experiments:\n  one:\n    command: echo hello\n";
static const char many_tasks[] = "experiments:\n  one:\n    parameters: { i: 0..9 }\n    retries: "
                                 "100\n    command: echo {{i}}\n";

static struct scene scene;
static struct agent_double ann;
static struct agent_double liar;

static int open_scene(void **state)
{
    (void)state;
    scene_open(&scene, 0);
    agent_open(&scene, &ann, "ann");
    agent_open(&scene, &liar, "liar");
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    agent_close(&ann);
    agent_close(&liar);
    scene_close(&scene);
    return 0;
}

/* Ann is given her task, and it is hers until she says otherwise. */
static Drover__Attempt give_ann_the_task(void)
{
    scene_submit(&scene, one_task, "");
    agent_join(&ann);
    return agent_hear_run(&ann);
}

static void expect_ann_finishes(const Drover__Attempt *id)
{
    agent_end(&ann, id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_true(agent_hear_settled(&ann, id));
}

static void nobody_ends_the_task_of_another(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    agent_join(&liar);
    agent_end(&liar, &id, DROVER__OUTCOME__OUTCOME_EXITED);
    assert_false(agent_hear_settled(&liar, &id));
    agent_end(&liar, &id, DROVER__OUTCOME__OUTCOME_TIMEOUT);
    assert_false(agent_hear_settled(&liar, &id));
    assert_int_equal(scene_task(&scene, 0), TASK_ASSIGNED);
    expect_ann_finishes(&id);
}

static void claiming_the_attempt_of_another_takes_nothing_from_it(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    Drover__Holding item = DROVER__HOLDING__INIT;
    Drover__Holding *items[] = {&item};
    item.id = &id;
    liar.holding = items;
    liar.holding_count = 1;
    agent_join(&liar);
    Drover__ToNode *message = agent_hear(&liar);
    assert_int_equal(message->n_kill, 1);
    wire_free_to_node(message);
    expect_ann_finishes(&id);
}

static void an_output_that_is_not_there_is_not_accepted(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    Drover__Ended ended = DROVER__ENDED__INIT;
    Drover__Ended *all[] = {&ended};
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    ended.id = &id;
    ended.outcome = DROVER__OUTCOME__OUTCOME_EXITED;
    ended.has_output = true;
    message.ended = all;
    message.n_ended = 1;
    agent_say(&ann, &message, ann.session);
    assert_false(agent_hear_settled(&ann, &id));
    assert_int_not_equal(scene_task(&scene, 0), TASK_SUCCEEDED);
}

static void a_detail_cannot_talk_to_the_terminal(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    Drover__Ended ended = DROVER__ENDED__INIT;
    Drover__Ended *all[] = {&ended};
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    ended.id = &id;
    ended.outcome = DROVER__OUTCOME__OUTCOME_NOT_STARTED;
    ended.detail = (char *)"bad\033]0;owned\007\nnews";
    message.ended = all;
    message.n_ended = 1;
    agent_say(&ann, &message, ann.session);
    (void)agent_hear_settled(&ann, &id);
    scene_turn(&scene, 20);
    assert_string_equal(scene.detail, "bad?]0;owned??news");
}

/* A Hello that holds `count` times the same. */
static void hello_with_holdings(size_t count)
{
    Drover__Attempt id = DROVER__ATTEMPT__INIT;
    Drover__Holding item = DROVER__HOLDING__INIT;
    item.id = &id;
    id.workflow = UINT32_MAX;
    id.task = UINT64_MAX;
    AUTO_FREE Drover__Holding **items = mem_array(count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        items[i] = &item;
    }
    liar.holding = items;
    liar.holding_count = count;
    agent_hello(&liar);
    liar.holding = NULL;
    liar.holding_count = 0;
}

static void what_a_node_holds_has_a_bound(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    agent_join(&liar);
    hello_with_holdings(100000);
    scene_turn(&scene, 300);
    assert_int_equal(scene.server.counts.bad_messages, 1);
    size_t kills = 0;
    hello_with_holdings(60000); /* too many kills for one message */
    while (kills < 60000) {
        Drover__ToNode *message = agent_hear(&liar);
        kills += message->n_kill;
        wire_free_to_node(message);
    }
    assert_int_equal(kills, 60000);
    expect_ann_finishes(&id);
}

static void nonsense_is_counted_and_costs_nobody(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    agent_join(&liar);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(zmq_send(liar.socket, "\xff\xff\xff", 3, ZMQ_DONTWAIT), 3);
        zmq_send(liar.socket, "part", 4, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        zmq_send(liar.socket, "of two", 6, ZMQ_DONTWAIT);
    }
    int64_t until_ms = clock_mono_ms() + 5000;
    while (scene.server.counts.bad_messages < 200 && clock_mono_ms() < until_ms) {
        scene_turn(&scene, 0);
    }
    assert_int_equal(scene.server.counts.bad_messages, 200);
    expect_ann_finishes(&id);
}

static void a_stranger_gets_no_long_hearing(void **state)
{
    (void)state;
    Drover__Attempt id = give_ann_the_task();
    enum { SIZE = 1 << 20 };
    AUTO_FREE char *long_words = mem_alloc(SIZE);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(zmq_send(liar.socket, long_words, SIZE, 0), SIZE);
    }
    hello_with_holdings(20000);
    int64_t until_ms = clock_mono_ms() + 5000;
    while (scene.server.counts.bad_messages < 21 && clock_mono_ms() < until_ms) {
        scene_turn(&scene, 0);
    }
    assert_int_equal(scene.server.counts.bad_messages, 21);
    assert_null(herd_find_key(&scene.server.herd, liar.keys.public_key));
    expect_ann_finishes(&id);
}

static void a_notice_is_said_to_people_once(void **state)
{
    (void)state;
    agent_join(&liar);
    unsigned before = scene.notes;
    Drover__Notice notice = DROVER__NOTICE__INIT;
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.notice = &notice;
    for (int i = 0; i < 50; i++) {
        agent_say(&liar, &message, liar.session);
    }
    scene_turn(&scene, 200);
    assert_int_equal(scene.notes, before + 1);
}

static void end_with_log(const Drover__Attempt *which)
{
    Drover__Attempt id = *which;
    Drover__Ended ended = DROVER__ENDED__INIT;
    Drover__Ended *all[] = {&ended};
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    ended.id = &id;
    ended.outcome = DROVER__OUTCOME__OUTCOME_EXITED;
    ended.log = (ProtobufCBinaryData){.len = 5, .data = (uint8_t *)"hello"};
    message.ended = all;
    message.n_ended = 1;
    agent_say(&ann, &message, ann.session);
}

static void a_log_that_cannot_be_kept_is_asked_for_again_without_haste(void **state)
{
    (void)state;
    char logs[160];
    Drover__Attempt id = give_ann_the_task();
    Drover__Holding item = DROVER__HOLDING__INIT;
    Drover__Holding *items[] = {&item};
    item.id = &id;
    snprintf(logs, sizeof logs, "%s/state/workflows/r-1/logs", scene.folder);
    assert_int_equal(io_replace_file(logs, "", 0, 0600, NULL), ERR_OK); /* no folder any more */
    unsigned before = scene.notes;
    for (int i = 0; i < 3; i++) {
        end_with_log(&id);
        Drover__ToNode *message = agent_hear(&ann);
        assert_true(message->bye && message->bye->again);
        wire_free_to_node(message);
        ann.holding = items;
        ann.holding_count = 1;
        agent_join(&ann);
    }
    assert_int_equal(scene.notes, before + 1);
    assert_int_equal(scene_task(&scene, 0), TASK_ASSIGNED);
    assert_true(scene.server.paused);
    assert_int_equal(unlink(logs), 0);
    end_with_log(&id);
    assert_true(agent_hear_settled(&ann, &id));
    scene_turn(&scene, 20);
    assert_false(scene.server.paused);
}

static void a_herd_that_joins_at_once_is_saved_as_one(void **state)
{
    (void)state;
    enum { HERD = 40 };
    static struct agent_double agents[HERD];
    uint64_t before = scene.server.documents_posted;
    for (size_t i = 0; i < HERD; i++) {
        agent_open(&scene, &agents[i], "same");
        agent_hello(&agents[i]);
    }
    poll(NULL, 0, 1500); /* they are all at the door */
    scene_turn(&scene, 200);
    for (size_t i = 0; i < HERD; i++) {
        Drover__ToNode *message = agent_hear(&agents[i]);
        assert_non_null(message->welcome);
        wire_free_to_node(message);
    }
    assert_true(scene.server.documents_posted - before < HERD / 2);
    for (size_t i = 0; i < scene.server.herd.count; i++) {
        const char *name = scene.server.herd.nodes[i]->name;
        assert_ptr_equal(herd_find_name(&scene.server.herd, name), scene.server.herd.nodes[i]);
    }
    for (size_t i = 0; i < HERD; i++) {
        agent_close(&agents[i]);
    }
}

/* --- anything at all ----------------------------------------------------------------------------
 */

static struct rng dice;

static uint64_t odd_number(uint64_t near)
{
    switch (rng_below(&dice, 6)) {
    case 0:
        return UINT64_MAX;
    case 1:
        return rng_next(&dice);
    default:
        return rng_below(&dice, near);
    }
}

static void random_id(Drover__Attempt *id)
{
    drover__attempt__init(id);
    id->workflow = (uint32_t)odd_number(3);
    id->experiment = (uint32_t)odd_number(2);
    id->task = odd_number(12);
    id->attempt = (uint32_t)odd_number(4);
    id->term = (uint32_t)odd_number(4);
}

static void say_anything(struct agent_double *agent)
{
    Drover__Attempt ids[3];
    Drover__Started started = DROVER__STARTED__INIT;
    Drover__Ended ended = DROVER__ENDED__INIT;
    Drover__Usage usage = DROVER__USAGE__INIT;
    Drover__Started *all_started[] = {&started};
    Drover__Ended *all_ended[] = {&ended};
    Drover__Usage *all_usage[] = {&usage};
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    for (size_t i = 0; i < 3; i++) {
        random_id(&ids[i]);
    }
    started.id = &ids[0];
    started.started_unix_ms = (int64_t)odd_number(1000);
    ended.id = &ids[1];
    ended.outcome = (Drover__Outcome)(rng_below(&dice, 10));
    ended.code = (uint32_t)odd_number(3);
    ended.duration_us = (int64_t)odd_number(5000000);
    ended.has_output = rng_below(&dice, 3) == 0;
    ended.log.len = rng_below(&dice, 3) ? 0 : 3;
    ended.log.data = (uint8_t *)"log";
    usage.id = rng_below(&dice, 2) ? &ids[2] : NULL;
    usage.memory_bytes = odd_number(1 << 30);
    message.started = all_started;
    message.n_started = rng_below(&dice, 2);
    message.ended = all_ended;
    message.n_ended = rng_below(&dice, 2);
    message.usage = all_usage;
    message.n_usage = rng_below(&dice, 2);
    message.stopped = rng_below(&dice, 40) == 0;
    agent_say(agent, &message, agent->session);
}

/* Keeps up with the session, and drops the rest. */
static void listen(struct agent_double *agent)
{
    Drover__ToNode *message = NULL;
    while (wire_receive_to_node(agent->socket, &message, NULL) == ERR_OK) {
        agent->session = message->welcome ? message->welcome->session : agent->session;
        wire_free_to_node(message);
    }
}

static void hello_with_anything(struct agent_double *agent)
{
    Drover__Attempt ids[4];
    Drover__Holding items[4];
    Drover__Holding *pointers[4];
    for (size_t i = 0; i < 4; i++) {
        random_id(&ids[i]);
        drover__holding__init(&items[i]);
        items[i].id = &ids[i];
        pointers[i] = &items[i];
    }
    agent->holding = pointers;
    agent->holding_count = rng_below(&dice, 5);
    agent->cpu_milli = (uint32_t)rng_below(&dice, 4000);
    if (rng_below(&dice, 8) == 0) {
        snprintf(agent->boot, sizeof agent->boot, "boot%" PRIu64, rng_next(&dice));
    }
    agent_hello(agent);
    agent->holding = NULL;
    agent->holding_count = 0;
}

static void act_at_random(void)
{
    uint64_t after = 0;
    switch (rng_below(&dice, 12)) {
    case 0:
        hello_with_anything(&liar);
        break;
    case 1:
        server_drain(&scene.server, (uint32_t)rng_below(&dice, scene.server.herd.count),
                     (enum core_drain)rng_below(&dice, 3));
        break;
    case 2:
        (void)server_retry_task(&scene.server, 1, 0, rng_below(&dice, 10), &after);
        break;
    case 3:
        (void)server_cancel_task(&scene.server, 1, 0, rng_below(&dice, 10), &after);
        break;
    case 4:
        if (rng_below(&dice, 10) == 0) {
            scene_turn(&scene, 30);
            scene_crash(&scene);
            scene_restart(&scene);
            agent_connect(&liar);
        }
        break;
    default:
        say_anything(&liar);
    }
}

/* Whatever one node says, in whatever order: the core's invariants hold (scene_turn looks), the
 * log can be read back, and another node is served. */
static void anything_at_all_leaves_the_server_sound(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    const char *given = getenv("SEED");
    seed = given ? strtoull(given, NULL, 10) : seed;
    print_message("seed %" PRIu64 "\n", seed);
    dice = (struct rng){.state = seed};
    scene_submit(&scene, many_tasks, "");
    agent_join(&liar);
    for (int i = 0; i < 1500; i++) {
        act_at_random();
        scene_turn(&scene, 0);
        listen(&liar);
    }
    agent_close(&liar);
    scene_turn(&scene, 50);
    scene_crash(&scene);
    scene_restart(&scene);
    agent_connect(&liar);
    scene_submit(&scene, one_task, "last");
    agent_connect(&ann);
    agent_join(&ann);
    while (core_workflow_state(scene.server.core, 1) == WORKFLOW_RUNNING ||
           core_workflow_state(scene.server.core, 2) == WORKFLOW_RUNNING) {
        Drover__ToNode *message = agent_hear(&ann);
        for (size_t i = 0; i < message->n_run; i++) {
            agent_end(&ann, message->run[i]->id, DROVER__OUTCOME__OUTCOME_EXITED);
        }
        wire_free_to_node(message);
    }
    assert_int_equal(core_workflow_state(scene.server.core, 2), WORKFLOW_SUCCEEDED);
}

int main(void)
{
#define SCENE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        SCENE(nobody_ends_the_task_of_another),
        SCENE(claiming_the_attempt_of_another_takes_nothing_from_it),
        SCENE(an_output_that_is_not_there_is_not_accepted),
        SCENE(a_detail_cannot_talk_to_the_terminal),
        SCENE(what_a_node_holds_has_a_bound),
        SCENE(nonsense_is_counted_and_costs_nobody),
        SCENE(a_stranger_gets_no_long_hearing),
        SCENE(a_notice_is_said_to_people_once),
        SCENE(a_log_that_cannot_be_kept_is_asked_for_again_without_haste),
        SCENE(a_herd_that_joins_at_once_is_saved_as_one),
        SCENE(anything_at_all_leaves_the_server_sound),
    };
#undef SCENE
    return cmocka_run_group_tests(tests, NULL, NULL);
}
