/* What a node does when tasks, or whoever kills its processes, do not play along. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/testing.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum {
    EXITED = DROVER__OUTCOME__OUTCOME_EXITED,
    KILLED = DROVER__OUTCOME__OUTCOME_KILLED,
    OUTPUT_MISSING = DROVER__OUTCOME__OUTCOME_OUTPUT_MISSING,
    SLOT_LOST = DROVER__OUTCOME__OUTCOME_SLOT_LOST,
};

/* A second fork, a new session, no open files, no TERM: what daemons do to get away. */
#define DAEMON                                                                                     \
    "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon.new; mv daemon.new daemon; while :; do "  \
    "sleep 0.01; done' < /dev/null > /dev/null 2>&1 &) ; "                                         \
    "while ! test -e daemon; do sleep 0.01; done; "

static int open_node(void **state)
{
    struct testing *testing = mem_alloc(sizeof *testing);
    testing_open(testing, 2);
    *state = testing;
    return 0;
}

static int close_node(void **state)
{
    testing_close(*state);
    free(*state);
    return 0;
}

/* The slots work, each with an empty output folder of its own that can be written to. */
static void assert_usable(struct testing *testing)
{
    for (int i = 0; i < 3; i++) {
        const struct testing_result *result = testing_do(
            testing, &(struct testing_order){
                         .script = "ls -A $DROVER_OUTPUT; stat -c %A $DROVER_OUTPUT | cut -c 1-4"});
        assert_int_equal(result->outcome, EXITED);
        assert_int_equal(result->code, 0);
        AUTO_FREE char *log = testing_log(testing, testing->order_count - 1);
        assert_string_equal(log, "drwx\n");
    }
}

static void test_a_daemon_does_not_outlive_its_task(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.script = DAEMON "echo main"});
    assert_int_equal(result->outcome, EXITED);
    assert_int_equal(result->code, 0);
    assert_false(testing_is_alive(testing_wait_pid(testing, "daemon")));
    assert_usable(testing);
}

static void test_a_daemon_dies_with_a_killed_task(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(testing, &(struct testing_order){.script = DAEMON "sleep 60"});
    pid_t daemon = testing_wait_pid(testing, "daemon");
    testing_kill(testing, task, 100);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
    assert_false(testing_is_alive(daemon));
}

static void test_leftovers_that_keep_forking_are_gone_too(void **state)
{
    struct testing *testing = *state;
    /* Each one starts its successor in a new session and leaves: a moving target. */
    const struct testing_result *result = testing_do(
        testing, &(struct testing_order){
                     .script = "cat > run.sh <<'E'\n"
                               "echo $$ >> pids\n"
                               "sleep 0.002\n"
                               "setsid sh run.sh &\n"
                               "E\n"
                               "for i in 1 2 3 4 5 6 7 8; do setsid sh run.sh & done; sleep 0.2"});
    assert_int_equal(result->outcome, EXITED);
    AUTO_FREE char *before = testing_read(testing, "pids");
    usleep(100000);
    AUTO_FREE char *after = testing_read(testing, "pids");
    assert_non_null(before);
    assert_string_equal(before, after); /* nobody is left to write */
    assert_usable(testing);
}

static void test_leftovers_that_stopped_themselves_are_gone_too(void **state)
{
    struct testing *testing = *state;
    testing_do(testing, &(struct testing_order){
                            .script = "setsid sh -c 'echo $$ > stopped; kill -STOP $$' & while ! "
                                      "test -s stopped; do sleep 0.01; done; sleep 0.05"});
    assert_false(testing_is_alive(testing_wait_pid(testing, "stopped")));
}

/* In a child: a node with a running task that has a daemon. Never returns. */
static void be_victim(const char *work)
{
    static struct testing testing;
    testing_open(&testing, 1);
    AUTO_STR struct str script = {0};
    str_addf(&script, "cd %s; %s echo $$ > main; sleep 60", work, DAEMON);
    testing_send(&testing, &(struct testing_order){.script = str_text(&script)});
    AUTO_STR struct str name = {0};
    str_addf(&name, "%s/victim", work);
    (void)!io_replace_file(str_text(&name), testing.work, strlen(testing.work), 0600, NULL);
    for (;;) {
        pause();
    }
}

static void test_nothing_outlives_an_agent_killed_with_9(void **state)
{
    (void)state;
    char work[] = "/tmp/drover-node-test-XXXXXX";
    assert_non_null(mkdtemp(work));
    pid_t victim = fork();
    assert_true(victim >= 0);
    if (victim == 0) {
        be_victim(work);
    }
    struct testing elsewhere = {0};
    snprintf(elsewhere.work, sizeof elsewhere.work, "%s", work);
    pid_t main_process = testing_wait_pid(&elsewhere, "main");
    pid_t daemon = testing_wait_pid(&elsewhere, "daemon");
    pid_t slot = testing_find_slot(victim);
    assert_true(slot > 0);
    assert_true(testing_is_alive(main_process));
    assert_true(testing_is_alive(daemon));
    kill(victim, SIGKILL);
    int64_t begin_ms = clock_mono_ms();
    assert_true(testing_is_gone_within(main_process, 1000));
    assert_true(testing_is_gone_within(daemon, 1000));
    assert_true(testing_is_gone_within(slot, 1000));
    assert_true(clock_mono_ms() - begin_ms < 1000);
    waitpid(victim, NULL, 0);
    waitpid(slot, NULL, 0); /* came to us if we are a subreaper by now */
    AUTO_FREE char *victims_work = testing_read(&elsewhere, "victim");
    assert_int_equal(io_remove_tree(victims_work, NULL), ERR_OK);
    assert_int_equal(io_remove_tree(work, NULL), ERR_OK);
}

static void test_a_lost_slot_is_reported_and_replaced(void **state)
{
    struct testing *testing = *state;
    uint64_t other = testing_send(testing, &(struct testing_order){.argv = {"sleep", "1"}});
    testing_wait_started(testing, other); /* in the first slot, and not to be disturbed */
    pid_t other_slot = testing_find_slot(getpid());
    uint64_t task =
        testing_send(testing, &(struct testing_order){.script = DAEMON "touch $DROVER_OUTPUT/x; "
                                                                       "sh -c 'echo $PPID > main'; "
                                                                       "sleep 60"});
    pid_t main_process = testing_wait_pid(testing, "main");
    pid_t daemon = testing_wait_pid(testing, "daemon");
    char path[64];
    AUTO_STR struct str status = {0};
    snprintf(path, sizeof path, "/proc/%d/status", (int)main_process);
    assert_int_equal(io_read_file(path, 1 << 16, &status, NULL), ERR_OK);
    const char *parent = strstr(str_text(&status), "PPid:");
    assert_non_null(parent);
    pid_t slot = (pid_t)strtol(parent + 5, NULL, 10);
    assert_int_not_equal(slot, other_slot);
    kill(slot, SIGKILL);
    assert_int_equal(testing_wait(testing, task)->outcome, SLOT_LOST);
    assert_false(testing_is_alive(main_process));
    assert_false(testing_is_alive(daemon));
    assert_usable(testing);
    assert_int_equal(testing_wait(testing, other)->outcome, EXITED);
    assert_int_equal(testing->results[other].code, 0);
}

static void test_a_slot_lost_while_idle_is_replaced(void **state)
{
    struct testing *testing = *state;
    testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}});
    kill(testing_find_slot(getpid()), SIGKILL);
    usleep(50000);
    assert_usable(testing);
}

static void test_a_slot_cannot_be_talked_into_leaving(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result = testing_do(
        testing,
        &(struct testing_order){.script = "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; "
                                          "sleep 0.05; echo fine"});
    assert_int_equal(result->outcome, EXITED);
    assert_int_equal(result->code, 0);
    assert_usable(testing);
}

static uint64_t high_water_bytes(pid_t pid)
{
    char path[64];
    AUTO_STR struct str text = {0};
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    assert_int_equal(io_read_file(path, 1 << 16, &text, NULL), ERR_OK);
    const char *at = strstr(str_text(&text), "VmHWM:");
    assert_non_null(at);
    return strtoull(at + 6, NULL, 10) * 1024;
}

static uint64_t file_bytes(const struct testing *testing, const char *name)
{
    AUTO_STR struct str path = {0};
    struct stat stat;
    str_addf(&path, "%s/%s", testing->work, name);
    assert_int_equal(lstat(str_text(&path), &stat), 0);
    return (uint64_t)stat.st_size;
}

static void test_a_flood_of_output_is_capped_in_memory_and_on_disk(void **state)
{
    struct testing *testing = *state;
    testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}});
    pid_t slot = testing_find_slot(getpid());
    uint64_t before = high_water_bytes(slot);
    const uint64_t flood = UINT64_C(200) * 1000 * 1000;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){
                                .script = "head -c 200000000 /dev/zero; echo last line",
                                .log_limit_bytes = 1 << 20,
                            });
    assert_int_equal(result->code, 0);
    assert_int_equal(result->log_bytes, flood + 10);
    assert_true(high_water_bytes(slot) - before < 8 << 20);
    uint64_t kept =
        file_bytes(testing, "logs/train/0/1.1.log") + file_bytes(testing, "logs/train/0/1.1.log.1");
    assert_true(kept <= 1 << 20);
    assert_int_equal(kept + result->log_dropped_bytes, result->log_bytes);
    AUTO_STR struct str path = {0}; /* the end is what is kept */
    AUTO_STR struct str text = {0};
    str_addf(&path, "%s/logs/train/0/1.1.log", testing->work);
    assert_int_equal(io_read_file(str_text(&path), 1 << 20, &text, NULL), ERR_OK);
    assert_memory_equal(text.text + text.size - 10, "last line\n", 10);
}

static void test_a_flood_does_not_hide_the_end_of_the_task(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.script = "(setsid yes &); sleep 0.1",
                                                    .log_limit_bytes = 1 << 16});
    assert_int_equal(result->outcome, EXITED);
    assert_true(result->duration_us < 3000000);
    assert_usable(testing);
}

static void test_a_task_cannot_spoil_the_log_of_the_next_one(void **state)
{
    struct testing *testing = *state;
    /* Sets O_NONBLOCK on the open file that all tasks of the slot share. */
    testing_do(testing, &(struct testing_order){.script = "dd if=/dev/null oflag=nonblock"});
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.script = "head -c 20000000 /dev/zero"});
    assert_int_equal(result->code, 0);
    assert_int_equal(result->log_bytes, 20000000);
}

static void test_a_log_folder_that_vanishes_costs_only_the_log(void **state)
{
    struct testing *testing = *state;
    testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}});
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.script = "rm -rf logs; echo lost"});
    assert_int_equal(result->outcome, EXITED);
    assert_int_equal(result->log_dropped_bytes, 5);
    assert_usable(testing);
}

static void test_a_hostile_output_folder_is_replaced_and_never_followed(void **state)
{
    struct testing *testing = *state;
    static const char *const attacks[] = {
        "rm -rf $DROVER_OUTPUT",
        "rmdir $DROVER_OUTPUT; echo file > $DROVER_OUTPUT",
        "rmdir $DROVER_OUTPUT; ln -s $PWD/precious $DROVER_OUTPUT",
        "mv $DROVER_OUTPUT moved-$$; mkdir $DROVER_OUTPUT; echo x > $DROVER_OUTPUT/x",
        "rm -rf slots",
        "ln -s $PWD/precious $DROVER_OUTPUT/link; mkdir $DROVER_OUTPUT/folder",
        "chmod 0 $DROVER_OUTPUT",
        "mkdir -p $DROVER_OUTPUT/a; chmod 0 $DROVER_OUTPUT/a $DROVER_OUTPUT",
        "rm -rf $DROVER_OUTPUT/..; ln -s $PWD/precious ${DROVER_OUTPUT%/output}",
    };
    testing_do(testing,
               &(struct testing_order){.script = "mkdir precious; echo gold > precious/file"});
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        for (int exit_code = 0; exit_code < 2; exit_code++) {
            AUTO_STR struct str script = {0};
            str_addf(&script, "%s; exit %d", attacks[i], exit_code);
            const struct testing_result *result =
                testing_do(testing, &(struct testing_order){.script = str_text(&script)});
            assert_int_equal(result->outcome, EXITED);
            assert_usable(testing);
            AUTO_FREE char *gold = testing_read(testing, "precious/file");
            assert_non_null(gold);
            assert_string_equal(gold, "gold\n");
        }
    }
}

static void test_a_replaced_output_folder_keeps_no_promise(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result = testing_do(
        testing,
        &(struct testing_order){.script = "rmdir $DROVER_OUTPUT; ln -s /etc $DROVER_OUTPUT",
                                .outputs = {"passwd"}});
    assert_int_equal(result->outcome, OUTPUT_MISSING);
    assert_false(result->has_output);
    assert_usable(testing);
}

static void test_an_output_folder_made_again_is_kept(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result = testing_do(
        testing, &(struct testing_order){.script = "rm -rf $DROVER_OUTPUT; mkdir $DROVER_OUTPUT; "
                                                   "echo result > $DROVER_OUTPUT/x",
                                         .outputs = {"x"}});
    assert_int_equal(result->outcome, EXITED);
    assert_true(result->has_output);
    AUTO_FREE char *kept = testing_read(testing, "attempts/train/0/0.1/x");
    assert_non_null(kept);
    assert_string_equal(kept, "result\n");
    assert_usable(testing);
}

static void test_many_quick_tasks_leak_nothing(void **state)
{
    (void)state;
    enum { TASKS = 500 };
    struct testing *testing = mem_alloc(sizeof *testing);
    testing_open(testing, 2); /* what libraries open once is opened now */
    testing_close(testing);
    size_t files_before = testing_count_files();
    size_t children_before = testing_count_children();
    testing_open(testing, 2);
    for (int i = 0; i < TASKS; i++) {
        testing_send(testing, &(struct testing_order){.argv = {"/bin/true"}});
    }
    size_t files_early = 0;
    for (uint64_t task = 0; task < TASKS; task++) {
        assert_int_equal(testing_wait(testing, task)->outcome, EXITED);
        assert_int_equal(testing->results[task].code, 0);
        testing_settle(testing, task, true);
        files_early = task == 20 ? testing_count_files() : files_early;
    }
    assert_true(testing_count_files() <= files_early);
    assert_int_equal(testing_count_children(), children_before + 2);
    testing_close(testing);
    assert_int_equal(testing_count_files(), files_before);
    assert_int_equal(testing_count_children(), children_before);
    free(testing);
}

static void test_stale_slots_are_cleared_at_the_start(void **state)
{
    (void)state;
    struct testing testing = {.work = "/tmp/drover-node-test-XXXXXX"};
    assert_non_null(mkdtemp(testing.work));
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/slots/0/output/old", testing.work);
    assert_int_equal(io_make_dirs(str_text(&path), NULL), ERR_OK);
    testing_open(&testing, 1);
    assert_usable(&testing);
    testing_close(&testing);
}

static void test_a_terminated_context_kills_everything(void **state)
{
    (void)state;
    struct testing *testing = mem_alloc(sizeof *testing);
    testing_open(testing, 1);
    testing_send(testing, &(struct testing_order){.script = DAEMON "sleep 60"});
    pid_t daemon = testing_wait_pid(testing, "daemon");
    zmq_close(testing->socket);
    zmq_ctx_term(testing->context); /* returns when the node has closed its socket */
    pthread_join(testing->thread, NULL);
    assert_int_equal(testing->returned, ERR_CANCELLED);
    assert_false(testing_is_alive(daemon));
    assert_int_equal(io_remove_tree(testing->work, NULL), ERR_OK);
    free(testing);
}

static void test_a_work_folder_that_cannot_be_used_is_an_error(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct node_options options = {
        .keep_fd = -1,
        .work_folder = "/proc/self",
        .name = "here",
        .zmq_context = context,
        .endpoint = "inproc://node",
    };
    struct err err = {0};
    assert_int_not_equal(node_run(&options, &err), ERR_OK);
    assert_true(err.text[0] != '\0');
    zmq_ctx_term(context);
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, open_node, close_node)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_a_daemon_does_not_outlive_its_task),
        WITH_NODE(test_a_daemon_dies_with_a_killed_task),
        WITH_NODE(test_leftovers_that_keep_forking_are_gone_too),
        WITH_NODE(test_leftovers_that_stopped_themselves_are_gone_too),
        cmocka_unit_test(test_nothing_outlives_an_agent_killed_with_9),
        WITH_NODE(test_a_lost_slot_is_reported_and_replaced),
        WITH_NODE(test_a_slot_lost_while_idle_is_replaced),
        WITH_NODE(test_a_slot_cannot_be_talked_into_leaving),
        WITH_NODE(test_a_flood_of_output_is_capped_in_memory_and_on_disk),
        WITH_NODE(test_a_flood_does_not_hide_the_end_of_the_task),
        WITH_NODE(test_a_task_cannot_spoil_the_log_of_the_next_one),
        WITH_NODE(test_a_log_folder_that_vanishes_costs_only_the_log),
        WITH_NODE(test_a_hostile_output_folder_is_replaced_and_never_followed),
        WITH_NODE(test_a_replaced_output_folder_keeps_no_promise),
        WITH_NODE(test_an_output_folder_made_again_is_kept),
        cmocka_unit_test(test_many_quick_tasks_leak_nothing),
        cmocka_unit_test(test_stale_slots_are_cleared_at_the_start),
        cmocka_unit_test(test_a_terminated_context_kills_everything),
        cmocka_unit_test(test_a_work_folder_that_cannot_be_used_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
