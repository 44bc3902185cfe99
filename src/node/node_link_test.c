/* What a node on the network does when its master, or the way there, comes and goes. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "node/testing_net.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum {
    EXITED = DROVER__OUTCOME__OUTCOME_EXITED,
    NOT_STARTED = DROVER__OUTCOME__OUTCOME_NOT_STARTED,
    KILLED = DROVER__OUTCOME__OUTCOME_KILLED,
    PATIENCE_MS = 10000,
};

static struct testing *open_with(struct testing_net net)
{
    struct testing *testing = mem_alloc(sizeof *testing);
    testing_net_open(testing, mem_dup(&net, sizeof net));
    return testing;
}

static struct testing *open_joined(struct testing_net net)
{
    struct testing *testing = open_with(net);
    testing_net_wait_hello(testing, 1);
    return testing;
}

static void close_all(struct testing *testing)
{
    testing_net_close(testing);
    free(testing);
}

/* Until the node has been heard in its session: then it has taken the Welcome. */
static void wait_joined(struct testing *testing)
{
    uint32_t before = testing->net->heartbeat_count;
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (testing->net->heartbeat_count == before) {
        assert_true(clock_mono_ms() < until_ms);
        testing_receive(testing, PATIENCE_MS);
    }
}

static void test_a_node_joins_works_and_leaves(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.script = "echo hello"});
    assert_int_equal(result->outcome, EXITED);
    assert_string_equal(result->log, "hello\n");
    assert_int_equal(result->log_size, 6);
    assert_string_equal(testing->net->secret, "0123abcd");
    assert_int_equal(testing->net->joined_count, 1);
    assert_int_equal(testing->net->lost_count, 0);
    assert_int_equal(testing->net->hello_count, 1);
    close_all(testing);
}

static void test_silence_of_the_node_is_filled_with_heartbeats(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.heartbeat_ms = 20});
    for (int i = 0; i < 5; i++) {
        wait_joined(testing);
    }
    assert_int_equal(testing->net->hello_count, 1);
    close_all(testing);
}

static void test_a_silent_master_is_looked_for_on_a_new_connection(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){0});
    wait_joined(testing);
    uint64_t task = testing_send(testing, &(struct testing_order){.script = "sleep 0.6"});
    testing_wait_started(testing, task);
    testing->net->is_mute = true;
    testing_net_wait_hello(testing, 3); /* twice on a new connection */
    assert_int_equal(testing->net->route_count, 3);
    assert_int_equal(testing->net->lost_count, 1); /* told once */
    assert_true(testing_net_holds(testing->net, task, false));
    testing->net->is_mute = false;
    testing_net_wait_hello(testing, 4);
    assert_int_equal(testing_wait(testing, task)->outcome, EXITED); /* nothing was killed */
    assert_int_equal(testing->results[task].code, 0);
    assert_int_equal(testing->net->back_count, 1);
    close_all(testing);
}

static void test_who_is_answered_with_hello_on_the_same_connection(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    wait_joined(testing);
    uint64_t task = testing_send(testing, &(struct testing_order){.argv = {"sleep", "60"}});
    testing_wait_started(testing, task);
    testing->net->session = 0; /* forgotten: the next heartbeat is answered with who */
    testing->results[task].has_started = false;
    testing_net_wait_hello(testing, 2);
    assert_int_equal(testing->net->route_count, 1);
    assert_true(testing_net_holds(testing->net, task, false));
    testing_wait_started(testing, task); /* that is told again as well */
    assert_int_equal(testing->net->lost_count, 0);
    testing_kill(testing, task, 0);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
    close_all(testing);
}

static void test_what_was_not_settled_is_told_again_and_then_forgotten(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    for (uint64_t task = 0; task < 3; task++) {
        testing_do(testing, &(struct testing_order){.script = "echo x"});
    }
    testing_settle(testing, 1, true);
    testing->net->session = 0;
    testing_net_wait_hello(testing, 2);
    assert_true(testing_net_holds(testing->net, 0, true));
    assert_true(testing_net_holds(testing->net, 2, true));
    while (testing->results[2].ended_count < 2) {
        testing_receive(testing, PATIENCE_MS);
    }
    assert_int_equal(testing->results[0].ended_count, 2); /* in order */
    assert_string_equal(testing->results[0].log, "x\n");
    testing_settle(testing, 0, true);
    testing_settle(testing, 2, false);
    wait_joined(testing);
    testing->net->session = 0;
    testing_net_wait_hello(testing, 3);
    assert_int_equal(testing->net->holding_count, 0);
    assert_int_equal(testing->results[0].ended_count, 2);
    close_all(testing);
}

static void test_what_ended_while_nobody_listened_is_told_after_the_welcome(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){0});
    uint64_t first = testing_send(testing, &(struct testing_order){.script = "sleep 0.2; exit 3"});
    testing_wait_started(testing, first);
    testing->net->is_mute = true;
    testing_net_wait_hello(testing, 3);
    while (!testing_net_holds(testing->net, first, true)) {
        testing_receive(testing, PATIENCE_MS);
    }
    testing->net->is_mute = false;
    assert_int_equal(testing_wait(testing, first)->code, 3);
    assert_int_equal(testing->results[first].ended_count, 1);
    close_all(testing);
}

static void test_a_restarted_master_finds_its_tasks_running(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 2000});
    uint64_t task = testing_send(testing, &(struct testing_order){.script = "sleep 1; exit 7"});
    testing_wait_started(testing, task);
    testing_net_restart(testing);
    testing_net_wait_hello(testing, 2);
    assert_true(testing_net_holds(testing->net, task, false));
    assert_int_equal(testing_wait(testing, task)->code, 7);
    close_all(testing);
}

static void test_messages_of_other_sessions_are_ignored(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    wait_joined(testing);
    uint64_t task = testing_send(testing, &(struct testing_order){.script = "sleep 0.3"});
    Drover__Stop stop = DROVER__STOP__INIT;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.stop = &stop;
    testing_net_tell_in(testing, testing->net->session - 1, &message);
    testing_net_tell_in(testing, 0, &message);
    testing_net_tell_in(testing, UINT64_MAX, &message);
    assert_int_equal(testing_wait(testing, task)->outcome, EXITED);
    assert_int_equal(testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}})->code, 0);
    close_all(testing);
}

static void test_words_of_another_session_do_not_count_as_life(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){0});
    wait_joined(testing);
    testing->net->is_mute = true;
    while (testing->net->hello_count < 2) {
        Drover__ToNode empty = DROVER__TO_NODE__INIT;
        testing_net_tell_in(testing, 7, &empty);
        testing_net_listen(testing, 20);
    }
    assert_int_equal(testing->net->route_count, 2);
    close_all(testing);
}

static void tell_bye(struct testing *testing, const char *reason, bool again)
{
    Drover__Bye bye = DROVER__BYE__INIT;
    bye.reason = (char *)(uintptr_t)reason;
    bye.again = again;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.bye = &bye;
    testing_net_tell_in(testing, 0, &message);
}

static void test_bye_ends_the_tasks_and_the_node(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000, .grace_ms = 50});
    testing_send(testing,
                 &(struct testing_order){.script = "echo $$ > pid; trap '' TERM; sleep 60 & wait; "
                                                   "sleep 60"});
    pid_t task = testing_wait_pid(testing, "pid");
    tell_bye(testing, "revoked by an admin", false);
    assert_int_equal(testing_net_join(testing), ERR_DENIED);
    assert_string_equal(testing->err.text, "revoked by an admin");
    assert_false(testing_is_alive(task));
    close_all(testing);
}

static void test_a_refused_node_reads_its_url_again_and_tries_later(void **state)
{
    (void)state;
    char file[] = "/tmp/drover-node-url-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    struct testing *testing = open_with((struct testing_net){.is_mute = true, .url_file = file});
    testing_net_wait_hello(testing, 1);
    assert_string_equal(testing->net->secret, "0123abcd"); /* the file holds nothing yet */
    struct door_url url = testing->net->join.url;
    door_make_secret(url.secret);
    AUTO_STR struct str text = {0};
    door_url_add(&text, &url);
    str_add_char(&text, '\n');
    assert_int_equal(io_replace_file(file, text.text, text.size, 0600, NULL), ERR_OK);
    tell_bye(testing, "the secret was changed", true);
    testing->net->is_mute = false;
    testing_net_wait_hello(testing, 2);
    assert_string_equal(testing->net->secret, url.secret);
    wait_joined(testing);
    assert_int_equal(testing->net->lost_count, 1);
    close_all(testing);
    unlink(file);
}

static void test_a_message_that_makes_no_sense_costs_only_the_connection(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    uint64_t task = testing_send(testing, &(struct testing_order){.script = "sleep 0.5; exit 9"});
    testing_wait_started(testing, task);
    Drover__ToNode bad = DROVER__TO_NODE__INIT;
    Drover__Kill kill_nobody = DROVER__KILL__INIT; /* no id */
    Drover__Kill *kills[] = {&kill_nobody};
    bad.n_kill = 1;
    bad.kill = kills;
    testing_net_tell(testing, &bad);
    testing_net_wait_hello(testing, 2);
    testing_net_tell_bytes(testing, "\xff\xff\xff\xff", 4);
    testing_net_wait_hello(testing, 3);
    assert_int_equal(testing->net->route_count, 3);
    assert_int_equal(testing_wait(testing, task)->code, 9);
    close_all(testing);
}

static void test_a_run_that_is_sent_twice_runs_once(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    const struct testing_order order = {.script = "echo x >> twice; sleep 0.2"};
    uint64_t task = testing_send(testing, &order);
    testing->order_count--;
    assert_int_equal(testing_send(testing, &order), task);
    testing_wait(testing, task);
    testing->order_count--;
    testing_send(testing, &order); /* it has ended, and is not settled */
    wait_joined(testing);
    wait_joined(testing);
    AUTO_FREE char *text = testing_read(testing, "twice");
    assert_string_equal(text, "x\n");
    assert_int_equal(testing->results[task].ended_count, 1);
    close_all(testing);
}

static void test_a_frozen_node_forgets_what_waited_for_it(void **state)
{
    (void)state;
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 300, .in_child = true});
    uint64_t running = testing_send(testing, &(struct testing_order){.script = "sleep 1; exit 5"});
    testing_wait_started(testing, running);
    int status = 0;
    kill(testing->net->child, SIGSTOP);
    waitpid(testing->net->child, &status, WUNTRACED); /* until it has really stopped */
    assert_true(WIFSTOPPED(status));
    uint64_t stale = testing_send(testing, &(struct testing_order){.script = "touch stale"});
    testing_net_listen(testing, 400); /* longer than the lease */
    uint32_t hellos = testing->net->hello_count;
    kill(testing->net->child, SIGCONT);
    testing_net_wait_hello(testing, hellos + 1);
    assert_int_equal(testing->net->route_count, 2);
    assert_true(testing_net_holds(testing->net, running, false));
    assert_false(testing_net_holds(testing->net, stale, false));
    assert_false(testing_net_holds(testing->net, stale, true));
    assert_int_equal(testing_wait(testing, running)->code, 5);
    assert_false(testing_exists(testing, "stale"));
    close_all(testing);
}

static void test_a_thousand_messages_need_no_process(void **state)
{
    (void)state;
    enum { MESSAGES = 1000, IN_FLIGHT = 64 };
    struct testing *testing = open_joined((struct testing_net){.lease_ms = 5000});
    for (uint64_t task = 0; task < MESSAGES; task++) {
        while (testing->order_count < task + IN_FLIGHT && testing->order_count < MESSAGES) {
            testing_send(testing, &(struct testing_order){.message_only = true});
        }
        const struct testing_result *result = testing_wait(testing, task);
        assert_int_equal(result->outcome, EXITED);
        assert_int_equal(result->code, 0);
        testing_settle(testing, task, true);
    }
    assert_int_equal(testing_find_slot(getpid()), 0);
    close_all(testing);
}

static void write_probe(const char *folder, const char *text)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/probe", folder);
    assert_int_equal(io_replace_file(str_text(&path), text, strlen(text), 0600, NULL), ERR_OK);
}

static void do_shared(const char *folder, bool no_share, const char *probe, bool is_shared)
{
    struct testing *testing = open_joined((struct testing_net){
        .lease_ms = 5000, .folder = folder, .probe = probe, .no_share = no_share});
    AUTO_STR struct str root = {0};
    str_addf(&root, "%s/workflows/flow-1", folder);
    const struct testing_result *result = testing_do(
        testing, &(struct testing_order){.script = "echo hello", .root = str_text(&root)});
    assert_int_equal(result->outcome, EXITED);
    assert_string_equal(result->log, is_shared ? "" : "hello\n");
    str_add(&root, "/logs/train/0/0.1.log");
    assert_int_equal(access(str_text(&root), F_OK), is_shared ? 0 : -1);
    close_all(testing);
}

static void test_a_shared_disk_is_found_out_by_its_probe(void **state)
{
    (void)state;
    char folder[] = "/tmp/drover-node-state-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_probe(folder, "secret words");
    do_shared(folder, true, "secret words", false);
    do_shared(folder, false, "other words", false);
    do_shared("/no/such/folder", false, "secret words", false);
    do_shared("/dev/shm", false, "secret words", false);
    do_shared(folder, false, "secret words", true);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

static void test_a_notice_is_told_by_file(void **state)
{
    (void)state;
    char file[] = "/tmp/drover-node-notice-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "spot\001ended\nmore\n", 16), 16);
    close(fd);
    struct testing *testing =
        open_joined((struct testing_net){.lease_ms = 5000, .grace_ms = 20000, .notice_file = file});
    while (!testing->net->has_notice) {
        testing_receive(testing, PATIENCE_MS);
    }
    assert_string_equal(testing->net->notice_reason, "spot ended");
    assert_true(testing->net->notice_grace_ms > 10000);
    assert_true(testing->net->notice_grace_ms <= 20000);
    testing->net->has_notice = false;
    testing->net->session = 0;
    testing_net_wait_hello(testing, 2); /* a master that forgot is told again */
    while (!testing->net->has_notice) {
        testing_receive(testing, PATIENCE_MS);
    }
    /* It stays, and works if asked to. */
    assert_int_equal(testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}})->code, 0);
    close_all(testing);
    unlink(file);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void test_a_signal_is_a_notice_and_another_one_ends_everything(void **state)
{
    (void)state;
    int fd = open_signals();
    struct testing *testing =
        open_joined((struct testing_net){.lease_ms = 5000, .grace_ms = 60000, .signal_fd = fd});
    kill(getpid(), SIGUSR1);
    while (!testing->net->has_notice) {
        testing_receive(testing, PATIENCE_MS);
    }
    testing->net->has_notice = false;
    uint64_t stubborn = testing_send(
        testing, &(struct testing_order){
                     .script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done"});
    uint64_t polite = testing_send(
        testing,
        &(struct testing_order){.script = "trap 'echo saved; exit 0' TERM; echo $$ > pid2; "
                                          "while :; do sleep 0.01; done"});
    testing_wait_pid(testing, "pid");
    testing_wait_pid(testing, "pid2");
    kill(getpid(), SIGTERM);
    assert_int_equal(testing_wait(testing, polite)->outcome, KILLED);
    assert_non_null(strstr(testing->results[polite].log, "saved\n"));
    assert_true(testing->net->has_notice);
    assert_false(testing->results[stubborn].has_ended);
    kill(getpid(), SIGINT);
    assert_int_equal(testing_wait(testing, stubborn)->outcome, KILLED);
    while (!testing->has_stopped) {
        testing_receive(testing, PATIENCE_MS);
    }
    assert_int_equal(testing_net_join(testing), ERR_OK);
    close_all(testing);
    close(fd);
}

static void test_a_node_without_a_master_leaves_at_a_signal(void **state)
{
    (void)state;
    int fd = open_signals();
    struct testing *testing = open_with((struct testing_net){.is_mute = true, .signal_fd = fd});
    kill(getpid(), SIGTERM);
    assert_int_equal(testing_net_join(testing), ERR_OK);
    close_all(testing);
    close(fd);
}

int main(void)
{
    setenv("HOME", "/", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_joins_works_and_leaves),
        cmocka_unit_test(test_silence_of_the_node_is_filled_with_heartbeats),
        cmocka_unit_test(test_a_silent_master_is_looked_for_on_a_new_connection),
        cmocka_unit_test(test_who_is_answered_with_hello_on_the_same_connection),
        cmocka_unit_test(test_what_was_not_settled_is_told_again_and_then_forgotten),
        cmocka_unit_test(test_what_ended_while_nobody_listened_is_told_after_the_welcome),
        cmocka_unit_test(test_a_restarted_master_finds_its_tasks_running),
        cmocka_unit_test(test_messages_of_other_sessions_are_ignored),
        cmocka_unit_test(test_words_of_another_session_do_not_count_as_life),
        cmocka_unit_test(test_bye_ends_the_tasks_and_the_node),
        cmocka_unit_test(test_a_refused_node_reads_its_url_again_and_tries_later),
        cmocka_unit_test(test_a_message_that_makes_no_sense_costs_only_the_connection),
        cmocka_unit_test(test_a_run_that_is_sent_twice_runs_once),
        cmocka_unit_test(test_a_frozen_node_forgets_what_waited_for_it),
        cmocka_unit_test(test_a_thousand_messages_need_no_process),
        cmocka_unit_test(test_a_shared_disk_is_found_out_by_its_probe),
        cmocka_unit_test(test_a_notice_is_told_by_file),
        cmocka_unit_test(test_a_signal_is_a_notice_and_another_one_ends_everything),
        cmocka_unit_test(test_a_node_without_a_master_leaves_at_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
