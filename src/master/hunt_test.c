/* Hunts against a core and a folder, with nodes that are played here: nothing runs, time does not
 * matter, and a crash is a core as the store has it and hunts that begin anew. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/hunt_internal.h"
#include "master/place.h"
#include "master/spec.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* What the store would have. */
struct durable {
    struct str snapshot;
    uint64_t fact;
};

struct world {
    char folder[64];
    struct server server;
    struct session session;
    struct flow flow;
    struct flow *flows[1];
    struct master_options options;
    struct master_observer observer;
    struct durable durable;
    struct str notes;
};

static void hear_note(void *context, const char *text)
{
    struct world *world = context;
    str_addf(&world->notes, "%s\n", text);
}

static void ignore_send(void *context, uint32_t node, Drover__ToNode *message)
{
    (void)context;
    (void)node;
    (void)message;
}

static void ignore_task(void *context, uint32_t node, const struct master_task_event *event)
{
    (void)node;
    hunts_wake(context, event->workflow);
}

static void ignore_experiment(void *context, const struct core_attempt *about,
                              const struct core_experiment_view *view)
{
    (void)context;
    (void)about;
    (void)view;
}

static void ignore_workflow(void *context, uint32_t workflow)
{
    (void)context;
    (void)workflow;
}

static void ignore_lost(void *context, const struct fact *fact)
{
    (void)context;
    (void)fact;
}

static const struct carrier_ops ignoring = {.send = ignore_send,
                                            .task = ignore_task,
                                            .experiment = ignore_experiment,
                                            .workflow = ignore_workflow,
                                            .lost = ignore_lost};

/* --- the world ---------------------------------------------------------------------------------
 */

/* Everything so far is durable. */
static void commit(struct world *world)
{
    str_clear(&world->durable.snapshot);
    core_snapshot_write(world->server.core, &world->durable.snapshot);
    world->durable.fact = core_last_fact(world->server.core);
    carry_durable(&world->server.carrier, world->durable.fact);
}

static void join(struct world *world)
{
    struct server *server = &world->server;
    core_node_join(server->core, 0,
                   &(struct core_node_spec){.capacity = {.cpu_milli = 4000}, .fresh = true},
                   server_now_ms(server), &server->out);
    server_carry(server, NULL);
}

static void begin(struct world *world)
{
    struct server *server = &world->server;
    server->core = core_create();
    world->session.core = server->core;
    spec_define(server->core, 1, world->flow.recipe, 7, true);
    if (world->durable.snapshot.size > 0) {
        assert_int_equal(core_snapshot_read(server->core, world->durable.snapshot.text,
                                            world->durable.snapshot.size, NULL),
                         ERR_OK);
    }
    server->carrier = (struct carrier){.ops = &ignoring,
                                       .context = server,
                                       .session = &world->session,
                                       .core = server->core,
                                       .durable = world->durable.fact};
    carrier_init(&server->carrier);
    core_begin_term(server->core, CORE_NODES_GONE, server_now_ms(server), &server->out);
    if (!core_is_submitted(server->core, 1)) {
        core_submit(server->core, 1, server_now_ms(server), &server->out);
    }
    server_carry(server, NULL);
    join(world);
    commit(world);
}

static struct world *world_create(const char *recipe)
{
    struct world *world = mem_alloc(sizeof *world);
    snprintf(world->folder, sizeof world->folder, "/tmp/hunt-test.XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    struct diag_list diags = {0};
    world->flow = (struct flow){.number = 1,
                                .id = mem_strdup("w"),
                                .folder = world->folder,
                                .recipe_folder = world->folder,
                                .code = mem_strdup(""),
                                .seed = 7};
    world->flow.recipe = recipe_parse("r.yaml", recipe, strlen(recipe), NULL, 0, &diags);
    if (!world->flow.recipe) {
        fail_msg("%s", diags.items[0].text);
    }
    ledger_attach(&world->flow);
    world->flows[0] = &world->flow;
    world->session = (struct session){
        .folder = world->folder, .flows = world->flows, .flow_count = 1, .flow = &world->flow};
    world->observer = (struct master_observer){.context = world, .note = hear_note};
    world->options.observer = &world->observer;
    world->server.options = &world->options;
    world->server.session = &world->session;
    world->server.began_unix_ms = 1700000000000;
    herd_add(&world->server.herd, "local", "");
    begin(world);
    return world;
}

static void forget_core(struct world *world)
{
    carrier_release(&world->server.carrier);
    core_destroy(world->server.core);
}

static void crash(struct world *world)
{
    world->server.broken = true; /* or they would write down what they still could */
    hunts_close(&world->server);
    world->server.broken = false;
    ledger_forget(world->flow.ledger);
    forget_core(world);
    begin(world);
}

static void world_destroy(struct world *world)
{
    hunts_close(&world->server);
    forget_core(world);
    core_out_release(&world->server.out);
    herd_release(&world->server.herd);
    ledger_destroy(world->flow.ledger);
    recipe_destroy(world->flow.recipe);
    free(world->flow.id);
    free(world->flow.code);
    str_release(&world->durable.snapshot);
    str_release(&world->notes);
    assert_int_equal(io_remove_tree(world->folder, NULL), ERR_OK);
    free(world);
}

/* Slices, until there is nothing to do at once: how fast this machine is must not matter. */
static void step(struct world *world)
{
    hunts_wake(&world->server, 1);
    for (int i = 0; i < 1000 && (i < 2 || hunts_wait_ms(&world->server) == 0); i++) {
        hunts_step(&world->server);
    }
}

static bool is_running(const struct world *world)
{
    return core_workflow_state(world->server.core, 1) == WORKFLOW_RUNNING;
}

/* --- tasks -------------------------------------------------------------------------------------
 */

/* The n-th (from 0) of the tasks that a node has, by number; UINT64_MAX: there are not so many. */
static uint64_t nth_live(const struct world *world, uint64_t n)
{
    struct core_experiment_view all;
    core_experiment_view(world->server.core, 1, 0, &all);
    for (uint64_t task = 0; task < all.tasks; task++) {
        struct core_task_view view;
        core_task_view(world->server.core, 1, 0, task, &view);
        if ((view.state == TASK_ASSIGNED || view.state == TASK_RUNNING) && n-- == 0) {
            return task;
        }
    }
    return UINT64_MAX;
}

static uint64_t live_count(const struct world *world)
{
    uint64_t count = 0;
    while (nth_live(world, count) != UINT64_MAX) {
        count++;
    }
    return count;
}

static void print(struct world *world, uint64_t task, uint32_t attempt, const char *text)
{
    AUTO_STR struct str path = {0};
    place_add_log(&path, world->folder, world->flow.recipe->experiments[0].name, task, attempt);
    AUTO_FREE char *folder = mem_strndup(path.text, (size_t)(strrchr(path.text, '/') - path.text));
    assert_int_equal(io_make_dirs(folder, NULL), ERR_OK);
    assert_int_equal(io_replace_file(str_text(&path), text, strlen(text), 0600, NULL), ERR_OK);
}

static void end_task(struct world *world, uint64_t task, const char *printed, uint32_t code)
{
    struct server *server = &world->server;
    struct core_task_view view;
    core_task_view(server->core, 1, 0, task, &view);
    struct core_attempt id = {
        .workflow = 1, .task = task, .attempt = view.attempt, .term = core_term(server->core)};
    struct core_result result = {.outcome = OUT_EXITED, .code = code, .duration_us = 1000};
    print(world, task, view.attempt, printed);
    core_task_ended(server->core, 0, &id, &result, server_now_ms(server), &server->out);
    server_carry(server, NULL);
}

/* What a task of these values prints; some fail, some diverge. */
static void play_task(struct world *world, uint64_t task)
{
    struct ledger_book *book = ledger_book(world->flow.ledger, 0);
    const struct ledger_leg *leg = &book->legs[task];
    const struct search_value *values = ledger_values(book, leg->trial);
    double x = values[0].number;
    AUTO_STR struct str text = {0};
    if (leg->trial % 11 == 5) {
        str_add(&text, "loss=nan\n");
    } else {
        str_add(&text, "epoch 1 loss=");
        str_add_double(&text, (x - 0.3) * (x - 0.3) / (1 + leg->rung));
        str_add(&text, "\n");
    }
    end_task(world, task, str_text(&text), leg->trial % 7 == 6);
}

/* The log without its times. */
static void add_story(const struct world *world, struct str *out)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    trials_add_path(&path, world->folder);
    assert_int_equal(io_read_file(str_text(&path), 64 << 20, &text, NULL), ERR_OK);
    for (const char *at = str_text(&text); *at;) {
        const char *mark = strstr(at, "\"at\":");
        if (!mark) {
            str_add(out, at);
            return;
        }
        str_add_bytes(out, at, (size_t)(mark - at));
        at = mark + strcspn(mark, ",");
    }
}

/* --- tests -------------------------------------------------------------------------------------
 */

static const char plain_recipe[] =
    "experiments:\n"
    "  train:\n"
    "    parameters: {x: {range: 0..1}, kind: [a, b]}\n"
    "    search: {metric: loss, goal: minimize, trials: 60, parallel: 3, algorithm: tpe}\n"
    "    command: run {{x}}\n";

static const char asha_recipe[] =
    "experiments:\n"
    "  train:\n"
    "    parameters: {x: {range: 0..1}}\n"
    "    search:\n"
    "      {metric: loss, goal: minimize, trials: 30, parallel: 3, algorithm: tpe,\n"
    "       early_stop: {algorithm: asha, min: 1, max: 9}}\n"
    "    command: run {{x}} {{budget}}\n";

static const char target_recipe[] =
    "experiments:\n"
    "  train:\n"
    "    parameters: {x: {values: 0..40}, y: {values: 1..3}}\n"
    "    search: {metric: loss, goal: minimize, trials: 90, parallel: 4, algorithm: tpe,\n"
    "             stop: {target: -1, patience: 25}}\n"
    "    command: run {{x}}\n";

static const char several_recipe[] =
    "experiments:\n"
    "  train:\n"
    "    parameters: {x: {range: 0..1}, y: {range: 0..1, when: x > 0.5}}\n"
    "    search: {metric: [loss, epoch], goal: [minimize, maximize], trials: 40, parallel: 2}\n"
    "    command: run {{x}}\n";

/* Tasks end in an order that follows from the seed alone. With crash_share the master dies now and
 * then: the hunts forget all, the core all that was not durable. */
static void hunt_to_the_end(struct world *world, uint64_t seed, double crash_share)
{
    struct rng luck = {.state = seed ^ 0x55};
    uint64_t ended = 0;
    while (is_running(world)) {
        step(world);
        if (rng_unit(&luck) < crash_share) {
            crash(world);
            continue;
        }
        uint64_t count = live_count(world);
        if (count > 0) {
            play_task(world, nth_live(world, rng_mix(seed, ended++, 0) % count));
        }
        commit(world);
        step(world);
        if (rng_unit(&luck) < crash_share) {
            crash(world);
        } else {
            commit(world);
        }
    }
}

static void a_search_with_crashes_is_the_same_as_one_without(void **state)
{
    (void)state;
    static const char *const recipes[] = {plain_recipe, asha_recipe, target_recipe, several_recipe};
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 8; i++, seed++) {
        AUTO_STR struct str quiet = {0};
        AUTO_STR struct str harried = {0};
        struct world *world = world_create(recipes[i % 4]);
        hunt_to_the_end(world, seed, 0);
        add_story(world, &quiet);
        world_destroy(world);
        world = world_create(recipes[i % 4]);
        hunt_to_the_end(world, seed, 0.2);
        add_story(world, &harried);
        world_destroy(world);
        assert_string_equal(str_text(&quiet), str_text(&harried));
    }
}

static void as_many_run_as_parallel_says(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    step(world);
    assert_int_equal(live_count(world), 3);
    play_task(world, 1);
    step(world);
    assert_int_equal(live_count(world), 2); /* its end is not durable yet */
    commit(world);
    step(world);
    assert_int_equal(live_count(world), 3);
    world_destroy(world);
}

static size_t count_of(const struct str *text, const char *what)
{
    size_t count = 0;
    for (const char *at = str_text(text); (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

static void a_metric_that_never_comes_is_warned_of_once(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    while (is_running(world)) {
        step(world);
        if (live_count(world) > 0) {
            end_task(world, nth_live(world, 0), "epoch 1 accuracy=0.5 lr=0.1\n", 0);
        }
        commit(world);
    }
    AUTO_STR struct str story = {0};
    add_story(world, &story);
    assert_int_equal(count_of(&story, "\"state\":\"failed\""), 60);
    assert_int_equal(count_of(&world->notes, "no value of loss; seen: epoch, accuracy, lr"), 1);
    assert_int_equal(core_workflow_state(world->server.core, 1), WORKFLOW_SUCCEEDED);
    world_destroy(world);
}

static void a_task_that_is_cancelled_tells_nothing(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    step(world);
    assert_true(core_cancel_task(world->server.core, 1, 0, 1, server_now_ms(&world->server),
                                 &world->server.out));
    server_carry(&world->server, NULL);
    commit(world);
    step(world);
    AUTO_STR struct str story = {0};
    add_story(world, &story);
    assert_int_equal(count_of(&story, "\"state\":\"cancelled\""), 1);
    assert_int_equal(live_count(world), 3);
    world_destroy(world);
}

static void a_cancelled_search_goes_on_after_a_retry(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    struct server *server = &world->server;
    step(world);
    play_task(world, 0);
    commit(world);
    step(world);
    core_cancel(server->core, 1, server_now_ms(server), &server->out);
    server_carry(server, NULL);
    commit(world);
    step(world);
    assert_false(is_running(world));
    AUTO_STR struct str before = {0};
    add_story(world, &before);
    assert_int_equal(count_of(&before, "\"kind\":\"result\""), 1);
    crash(world);
    assert_true(core_retry(server->core, 1, server_now_ms(server), &server->out) > 0);
    server_carry(server, NULL);
    hunts_revive(server, 1);
    commit(world);
    hunt_to_the_end(world, 1, 0);
    AUTO_STR struct str after = {0};
    add_story(world, &after);
    assert_int_equal(count_of(&after, "\"kind\":\"suggested\""), 60);
    assert_int_equal(count_of(&after, "\"kind\":\"result\""), 60);
    world_destroy(world);
}

static void a_failed_task_that_is_tried_again_has_two_results(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    struct server *server = &world->server;
    step(world);
    end_task(world, 0, "", 1);
    commit(world);
    step(world);
    assert_true(core_retry_task(server->core, 1, 0, 0, server_now_ms(server), &server->out));
    server_carry(server, NULL);
    hunts_revive(server, 1);
    commit(world);
    step(world);
    while (nth_live(world, 0) != 0) { /* until a node has it */
        play_task(world, nth_live(world, 0));
        commit(world);
        step(world);
    }
    end_task(world, 0, "loss=0.25\n", 0);
    commit(world);
    step(world);
    AUTO_STR struct str story = {0};
    add_story(world, &story);
    assert_int_equal(count_of(&story, "\"task\":0,\"trial\":0,\"rung\":0,\"state\":\"failed\""), 1);
    assert_int_equal(count_of(&story, "\"state\":\"succeeded\",\"values\":[0.25]"), 1);
    crash(world); /* and both are read back */
    hunt_to_the_end(world, 1, 0);
    world_destroy(world);
}

/* A disk that is full, played by a limit on the size of files. */
static void while_the_record_cannot_be_written_nothing_is_tried(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    step(world);
    play_task(world, 0);
    commit(world);
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max});
    step(world);
    step(world);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(live_count(world), 2);
    assert_int_equal(count_of(&world->notes, "trials cannot be written"), 1);
    step(world);
    assert_int_equal(count_of(&world->notes, "trials can be written again"), 1);
    assert_int_equal(live_count(world), 3);
    hunt_to_the_end(world, 3, 0);
    AUTO_STR struct str story = {0};
    add_story(world, &story);
    assert_int_equal(count_of(&story, "\"kind\":\"result\""), 60);
    world_destroy(world);
}

static void what_runs_when_the_target_is_reached_is_ended(void **state)
{
    (void)state;
    struct world *world = world_create(target_recipe);
    step(world);
    assert_int_equal(live_count(world), 4);
    end_task(world, 2, "loss=-1\n", 0);
    commit(world);
    step(world);
    commit(world);
    step(world);
    commit(world);
    assert_int_equal(core_workflow_state(world->server.core, 1), WORKFLOW_SUCCEEDED);
    AUTO_STR struct str story = {0};
    add_story(world, &story);
    assert_int_equal(count_of(&story, "\"state\":\"stopped\""), 3);
    assert_int_equal(count_of(&story, "\"kind\":\"stop\""), 1);
    world_destroy(world);
}

static void a_log_that_lost_suggestions_is_refused(void **state)
{
    (void)state;
    struct world *world = world_create(plain_recipe);
    step(world);
    commit(world);
    AUTO_STR struct str path = {0};
    trials_add_path(&path, world->folder);
    hunts_close(&world->server);
    assert_int_equal(io_replace_file(str_text(&path), "", 0, 0600, NULL), ERR_OK);
    step(world);
    assert_non_null(strstr(str_text(&world->notes), "its search cannot go on: trials.log: has 0"));
    assert_int_equal(live_count(world), 3);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_with_crashes_is_the_same_as_one_without),
        cmocka_unit_test(as_many_run_as_parallel_says),
        cmocka_unit_test(a_metric_that_never_comes_is_warned_of_once),
        cmocka_unit_test(a_task_that_is_cancelled_tells_nothing),
        cmocka_unit_test(a_cancelled_search_goes_on_after_a_retry),
        cmocka_unit_test(a_failed_task_that_is_tried_again_has_two_results),
        cmocka_unit_test(while_the_record_cannot_be_written_nothing_is_tried),
        cmocka_unit_test(what_runs_when_the_target_is_reached_is_ended),
        cmocka_unit_test(a_log_that_lost_suggestions_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
