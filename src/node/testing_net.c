#include "node/testing_net.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum { PATIENCE_MS = 10000 };

/* --- up and down ----------------------------------------------------------------------------- */

static void hear_node(void *context, enum node_event event, const char *text)
{
    struct testing_net *net = context;
    assert_non_null(text);
    atomic_fetch_add(event == NODE_JOINED ? &net->joined_count
                     : event == NODE_LOST ? &net->lost_count
                                          : &net->back_count,
                     1);
}

static void *run_node(void *context)
{
    struct testing *testing = context;
    testing->returned = node_run(&testing->options, &testing->err);
    return NULL;
}

static void open_master(struct testing *testing)
{
    struct testing_net *net = testing->net;
    struct err err = {0};
    testing->context = zmq_ctx_new();
    net->guard = door_guard_start(testing->context);
    enum err_code code =
        door_bind(testing->context, "127.0.0.1", &net->port, &net->keys, &testing->socket, &err);
    if (code != ERR_OK) {
        fail_msg("%s", err.text);
    }
    net->session = 0;
    net->sender.route_size = 0;
}

static void close_master(struct testing *testing)
{
    zmq_close(testing->socket);
    door_guard_stop(testing->net->guard);
    zmq_ctx_term(testing->context);
}

static void make_keys(struct testing *testing)
{
    AUTO_STR struct str file = {0};
    str_addf(&file, "%s/master.key", testing->work);
    assert_int_equal(door_keys_load(str_text(&file), &testing->net->keys, NULL), ERR_OK);
    str_clear(&file);
    str_addf(&file, "%s/node.key", testing->work);
    assert_int_equal(door_keys_load(str_text(&file), &testing->net->join.keys, NULL), ERR_OK);
}

void testing_net_open(struct testing *testing, struct testing_net *net)
{
    testing->net = net;
    snprintf(testing->work, sizeof testing->work, "/tmp/drover-node-test-XXXXXX");
    assert_non_null(mkdtemp(testing->work));
    make_keys(testing);
    net->heartbeat_ms = net->heartbeat_ms ? net->heartbeat_ms : 50;
    net->lease_ms = net->lease_ms ? net->lease_ms : 200;
    open_master(testing);
    net->frame = door_frame_create();
    net->node_context = zmq_ctx_new();
    struct door_url *url = &net->join.url;
    snprintf(url->host, sizeof url->host, "127.0.0.1");
    url->port = net->port;
    memcpy(url->server_key, net->keys.public_key, sizeof url->server_key);
    snprintf(url->secret, sizeof url->secret, "0123abcd");
    net->join.url_file = net->url_file;
    static const char *const labels[] = {"zone=a", "fast"};
    testing->options = (struct node_options){
        .keep_fd = -1,
        .work_folder = testing->work,
        .name = "here",
        .capacity = {.cpu_milli = 2000, .memory_bytes = UINT64_C(1) << 40},
        .zmq_context = net->node_context,
        .join = &net->join,
        .labels = labels,
        .label_count = 2,
        .price_micro_hour = 1234,
        .no_share = net->no_share,
        .grace_ms = net->grace_ms,
        .notice_file = net->notice_file,
        .signal_fd = net->signal_fd,
        .tell = hear_node,
        .tell_context = net,
    };
    if (!net->in_child) {
        assert_int_equal(pthread_create(&testing->thread, NULL, run_node, testing), 0);
        return;
    }
    net->child = fork();
    assert_true(net->child >= 0);
    if (net->child == 0) { /* with a context of its own: the other's threads are not here */
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing */
        testing->options.zmq_context = zmq_ctx_new();
        run_node(testing);
        _exit((int)testing->returned);
    }
}

enum err_code testing_net_join(struct testing *testing)
{
    int status = 0;
    if (testing->net->in_child) {
        assert_int_equal(waitpid(testing->net->child, &status, 0), testing->net->child);
        assert_true(WIFEXITED(status));
        testing->returned = (enum err_code)WEXITSTATUS(status);
    } else {
        pthread_join(testing->thread, NULL);
    }
    testing->has_asked = true;
    testing->has_stopped = true;
    testing->has_joined = true;
    return testing->returned;
}

void testing_net_close(struct testing *testing)
{
    struct testing_net *net = testing->net;
    net->is_mute = false;
    if (!testing->has_asked) {
        while (net->session == 0) {
            testing_receive(testing, PATIENCE_MS);
        }
        testing_stop(testing, 0);
    }
    while (!testing->has_stopped) {
        testing_receive(testing, PATIENCE_MS);
    }
    if (!testing->has_joined) {
        assert_int_equal(testing_net_join(testing), ERR_OK);
    }
    assert_false(testing_exists(testing, "slots"));
    zmq_ctx_term(net->node_context);
    door_frame_destroy(net->frame);
    close_master(testing);
    assert_int_equal(io_remove_tree(testing->work, NULL), ERR_OK);
    free(net);
}

void testing_net_restart(struct testing *testing)
{
    close_master(testing);
    open_master(testing); /* on the same port */
}

/* --- sending --------------------------------------------------------------------------------- */

void testing_net_tell_bytes(struct testing *testing, const void *bytes, size_t size)
{
    struct testing_net *net = testing->net;
    /* The connection may be gone; then the node will say so itself. */
    (void)!door_send(testing->socket, net->sender.route, net->sender.route_size, bytes, size, NULL);
}

void testing_net_tell_in(struct testing *testing, uint64_t session, Drover__ToNode *message)
{
    message->session = session;
    size_t size = drover__to_node__get_packed_size(message);
    AUTO_FREE uint8_t *bytes = mem_alloc(size);
    drover__to_node__pack(message, bytes);
    testing_net_tell_bytes(testing, bytes, size);
}

void testing_net_tell(struct testing *testing, Drover__ToNode *message)
{
    testing_net_tell_in(testing, testing->net->session, message);
}

static void say_who(struct testing *testing, const struct door_sender *to)
{
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.who = true;
    (void)!door_send_to_node(testing->socket, to->route, to->route_size, &message, NULL);
}

static void welcome(struct testing *testing)
{
    static uint64_t sessions = 1000;
    struct testing_net *net = testing->net;
    Drover__Welcome answer = DROVER__WELCOME__INIT;
    answer.session = ++sessions;
    answer.node = 1;
    static char name[] = "here-2";
    answer.name = name;
    answer.heartbeat_ms = net->heartbeat_ms;
    answer.lease_ms = net->lease_ms;
    answer.bulk_port = net->bulk_port;
    if (net->folder) {
        answer.folder.data = (uint8_t *)(uintptr_t)net->folder;
        answer.folder.len = strlen(net->folder);
        answer.probe.data = (uint8_t *)(uintptr_t)net->probe;
        answer.probe.len = strlen(net->probe);
    }
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.welcome = &answer;
    net->session = answer.session;
    testing_net_tell(testing, &message);
}

/* --- receiving ------------------------------------------------------------------------------- */

static bool same_route(const struct door_sender *a, const struct door_sender *b)
{
    return a->route_size == b->route_size && memcmp(a->route, b->route, a->route_size) == 0;
}

static void take_hello(struct testing *testing, const struct door_sender *sender,
                       const Drover__Hello *hello)
{
    struct testing_net *net = testing->net;
    assert_string_equal(sender->key, net->join.keys.public_key);
    assert_int_equal(hello->protocol, WIRE_PROTOCOL);
    assert_string_equal(hello->name, "here");
    assert_int_equal(hello->n_labels, 2);
    assert_int_equal(hello->price_micro_hour, 1234);
    assert_int_equal(hello->pid, net->in_child ? net->child : getpid());
    assert_true(net->boot[0] == '\0' || strcmp(net->boot, hello->boot) == 0);
    snprintf(net->boot, sizeof net->boot, "%s", hello->boot);
    snprintf(net->secret, sizeof net->secret, "%s", hello->join_secret);
    net->holding_count = 0;
    for (size_t i = 0; i < hello->n_holding; i++) {
        assert_true(i < TESTING_NET_HOLDING_MAX);
        net->holding[net->holding_count] = hello->holding[i]->id->task;
        net->holding_ended[net->holding_count++] = hello->holding[i]->ended;
    }
    net->route_count += !same_route(sender, &net->sender);
    net->sender = *sender;
    net->hello_count++;
    net->session = 0;
    if (!net->is_mute) {
        welcome(testing);
    }
}

static void take_session(struct testing *testing, const Drover__ToMaster *message)
{
    struct testing_net *net = testing->net;
    net->usage_count += (uint32_t)message->n_usage;
    if (message->notice) {
        net->has_notice = true;
        net->notice_grace_ms = message->notice->grace_ms;
        snprintf(net->notice_reason, sizeof net->notice_reason, "%s", message->notice->reason);
    }
    testing_take(testing, message);
    bool is_empty = message->n_started + message->n_ended + message->n_usage == 0 &&
                    !message->notice && !message->stopped;
    net->heartbeat_count += is_empty;
    if (is_empty && !net->is_mute) {
        Drover__ToNode answer = DROVER__TO_NODE__INIT;
        testing_net_tell(testing, &answer);
    }
}

void testing_net_receive(struct testing *testing)
{
    struct testing_net *net = testing->net;
    struct door_sender sender;
    const void *bytes = NULL;
    size_t size = 0;
    struct err err = {0};
    enum err_code code = door_receive(testing->socket, net->frame, &sender, &bytes, &size, &err);
    if (code == ERR_AGAIN) {
        return;
    }
    assert_int_equal(code, ERR_OK);
    Drover__ToMaster *message = NULL;
    if (wire_parse_to_master(bytes, size, &message, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    if (message->hello) {
        take_hello(testing, &sender, message->hello);
    } else if (message->session == net->session && same_route(&sender, &net->sender) &&
               !net->refuses_sessions) {
        take_session(testing, message);
    } else {
        net->wrong_count++;
        if (!net->is_mute) {
            say_who(testing, &sender);
        }
    }
    wire_free_to_master(message);
}

void testing_net_wait_hello(struct testing *testing, uint32_t count)
{
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (testing->net->hello_count < count) {
        int64_t left_ms = until_ms - clock_mono_ms();
        testing_receive(testing, left_ms > 0 ? left_ms : 0);
    }
}

void testing_net_listen(struct testing *testing, int64_t ms)
{
    zmq_pollitem_t item = {.socket = testing->socket, .events = ZMQ_POLLIN};
    for (int64_t until_ms = clock_mono_ms() + ms; clock_mono_ms() < until_ms;) {
        if (zmq_poll(&item, 1, (long)(until_ms - clock_mono_ms())) > 0) {
            testing_net_receive(testing);
        }
    }
}

bool testing_net_holds(const struct testing_net *net, uint64_t task, bool ended)
{
    for (size_t i = 0; i < net->holding_count; i++) {
        if (net->holding[i] == task) {
            return net->holding_ended[i] == ended;
        }
    }
    return false;
}
