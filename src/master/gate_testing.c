#include "master/gate_testing.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum { PATIENCE_MS = 8000 };

/* --- the server --------------------------------------------------------------------------------
 */

static void on_begun(void *context, const struct server *server)
{
    (void)context;
    (void)server;
}

static void on_note(void *context, const char *text)
{
    struct scene *scene = context;
    scene->notes++;
    snprintf(scene->note, sizeof scene->note, "%s", text);
}

static void on_task(void *context, const struct server *server,
                    const struct master_task_event *event)
{
    (void)server;
    struct scene *scene = context;
    snprintf(scene->detail, sizeof scene->detail, "%s", event->detail);
}

static void on_experiment(void *context, const struct server *server, uint32_t experiment,
                          const struct core_experiment_view *view)
{
    (void)context;
    (void)server;
    (void)experiment;
    (void)view;
}

void scene_restart(struct scene *scene)
{
    char state[80];
    struct err err = {0};
    snprintf(state, sizeof state, "%s/state", scene->folder);
    if (session_serve(state, NULL, &scene->session, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    scene->server = (struct server){
        .options = &scene->options, .session = &scene->session, .core = scene->session.core};
    if (server_open(&scene->server, &err) != ERR_OK || scene->server.broken) {
        fail_msg("%s%s", err.text, scene->server.err.text);
    }
    assert_true(server_begin(&scene->server));
    assert_true(serve_announce(&scene->server));
    scene->is_open = true;
}

void scene_open(struct scene *scene, int64_t lease_ms)
{
    *scene = (struct scene){.context = zmq_ctx_new()};
    snprintf(scene->folder, sizeof scene->folder, "/tmp/gate_test.XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    scene->serve = (struct master_serve){.host = "127.0.0.1", .lease_ms = lease_ms};
    scene->observer = (struct master_observer){.context = scene,
                                               .begun = on_begun,
                                               .note = on_note,
                                               .task = on_task,
                                               .experiment = on_experiment};
    scene->options = (struct master_options){
        .session = &scene->session, .serve = &scene->serve, .observer = &scene->observer};
    scene_restart(scene);
}

static void end_server(struct scene *scene)
{
    if (scene->is_open) {
        server_close(&scene->server);
        session_release(&scene->session);
        scene->is_open = false;
    }
}

void scene_crash(struct scene *scene)
{
    scene->server.carrier.fact_count = 0;
    str_clear(&scene->server.carrier.facts);
    end_server(scene);
}

void scene_close(struct scene *scene)
{
    end_server(scene);
    zmq_ctx_term(scene->context);
    assert_int_equal(io_remove_tree(scene->folder, NULL), ERR_OK);
}

void scene_turn(struct scene *scene, int64_t for_ms)
{
    int64_t until_ms = clock_mono_ms() + for_ms;
    do {
        server_turn(&scene->server, 2);
        core_verify(scene->server.core);
    } while (clock_mono_ms() < until_ms);
}

uint32_t scene_submit(struct scene *scene, const char *recipe, const char *key)
{
    struct diag_list diags = {0};
    struct err err = {0};
    uint32_t number = 0;
    uint64_t after = 0;
    struct server_submit submit = {.recipe = recipe,
                                   .recipe_size = strlen(recipe),
                                   .file = "r.yaml",
                                   .folder = scene->folder,
                                   .code = "",
                                   .key = key,
                                   .owner = ""};
    if (server_submit(&scene->server, &submit, &number, &after, &diags, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    diag_release(&diags);
    return number;
}

enum core_task_state scene_task(const struct scene *scene, uint64_t task)
{
    struct core_task_view view;
    core_task_view(scene->server.core, 1, 0, task, &view);
    return view.state;
}

/* --- agents ------------------------------------------------------------------------------------
 */

void agent_connect(struct agent_double *agent)
{
    const struct gate *gate = &agent->scene->server.gate;
    struct err err = {0};
    if (agent->socket) {
        zmq_close(agent->socket);
    }
    struct door_address master = {"127.0.0.1", gate->port, gate->keys.public_key};
    if (door_connect(agent->scene->context, &master, &agent->keys, &agent->socket, &err) !=
        ERR_OK) {
        fail_msg("%s", err.text);
    }
}

void agent_open(struct scene *scene, struct agent_double *agent, const char *name)
{
    static unsigned boots;
    *agent = (struct agent_double){.scene = scene, .cpu_milli = 1000};
    snprintf(agent->name, sizeof agent->name, "%s", name);
    snprintf(agent->boot, sizeof agent->boot, "boot%u", ++boots);
    assert_int_equal(zmq_curve_keypair(agent->keys.public_key, agent->keys.secret_key), 0);
    agent_connect(agent);
}

void agent_close(struct agent_double *agent)
{
    zmq_close(agent->socket);
    agent->socket = NULL;
}

void agent_say(struct agent_double *agent, Drover__ToMaster *message, uint64_t session)
{
    message->session = session;
    assert_int_equal(wire_send_to_master(agent->socket, message, NULL), ERR_OK);
}

void agent_hello(struct agent_double *agent)
{
    char *labels[] = {(char *)"fast"};
    Drover__Hello hello = DROVER__HELLO__INIT;
    hello.protocol = WIRE_PROTOCOL;
    hello.name = agent->name;
    hello.boot = agent->boot;
    hello.cpu_milli = agent->cpu_milli;
    hello.memory_bytes = 1 << 30;
    hello.disk_bytes = 1 << 30;
    hello.version = (char *)"test";
    hello.join_secret = agent->scene->server.gate.secrets[0].text;
    hello.labels = labels;
    hello.n_labels = 1;
    hello.holding = agent->holding;
    hello.n_holding = agent->holding_count;
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.hello = &hello;
    agent_say(agent, &message, 0);
}

static bool is_empty(const Drover__ToNode *message)
{
    return message->n_run + message->n_kill + message->n_settled == 0 && !message->stop &&
           !message->welcome && !message->who && !message->bye;
}

static Drover__ToNode *hear_within(struct agent_double *agent, int64_t wait_ms)
{
    int64_t until_ms = clock_mono_ms() + wait_ms;
    while (clock_mono_ms() < until_ms) {
        Drover__ToNode *message = NULL;
        scene_turn(agent->scene, 0);
        while (wire_receive_to_node(agent->socket, &message, NULL) == ERR_OK) {
            if (!is_empty(message)) {
                return message;
            }
            wire_free_to_node(message);
        }
    }
    return NULL;
}

Drover__ToNode *agent_hear(struct agent_double *agent)
{
    Drover__ToNode *message = hear_within(agent, PATIENCE_MS);
    assert_non_null(message);
    return message;
}

void agent_hear_nothing(struct agent_double *agent, int64_t for_ms)
{
    assert_null(hear_within(agent, for_ms));
}

void agent_join(struct agent_double *agent)
{
    agent_hello(agent);
    Drover__ToNode *message = agent_hear(agent);
    if (message->bye) {
        fail_msg("%s", message->bye->reason);
    }
    assert_non_null(message->welcome);
    agent->session = message->welcome->session;
    agent->number = message->welcome->node;
    snprintf(agent->called, sizeof agent->called, "%s", message->welcome->name);
    wire_free_to_node(message);
}

Drover__Attempt agent_hear_run(struct agent_double *agent)
{
    Drover__ToNode *message = agent_hear(agent);
    assert_int_equal(message->n_run, 1);
    assert_true(message->session == agent->session);
    Drover__Attempt id = *message->run[0]->id;
    wire_free_to_node(message);
    return id;
}

void agent_end(struct agent_double *agent, const Drover__Attempt *id, Drover__Outcome outcome)
{
    Drover__Attempt copy = *id;
    Drover__Ended ended = DROVER__ENDED__INIT;
    ended.id = &copy;
    ended.outcome = outcome;
    Drover__Ended *all[] = {&ended};
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.ended = all;
    message.n_ended = 1;
    agent_say(agent, &message, agent->session);
}

bool agent_hear_settled(struct agent_double *agent, const Drover__Attempt *id)
{
    for (;;) {
        Drover__ToNode *message = agent_hear(agent);
        for (size_t i = 0; i < message->n_settled; i++) {
            if (wire_attempt_equal(message->settled[i]->id, id)) {
                bool accepted = message->settled[i]->accepted;
                wire_free_to_node(message);
                return accepted;
            }
        }
        wire_free_to_node(message);
    }
}
