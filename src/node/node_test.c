/* What a node does with ordinary tasks: outcomes, logs, environment, outputs, resources. */
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
#include <unistd.h>

#include <cmocka.h>

enum {
    EXITED = DROVER__OUTCOME__OUTCOME_EXITED,
    SIGNALLED = DROVER__OUTCOME__OUTCOME_SIGNALLED,
    TIMEOUT = DROVER__OUTCOME__OUTCOME_TIMEOUT,
    NOT_STARTED = DROVER__OUTCOME__OUTCOME_NOT_STARTED,
    OUTPUT_MISSING = DROVER__OUTCOME__OUTCOME_OUTPUT_MISSING,
    KILLED = DROVER__OUTCOME__OUTCOME_KILLED,
};

#define TOKEN_OUTPUT WIRE_TOKEN_OUTPUT WIRE_TOKEN_BYTE

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

static void assert_log(const struct testing *testing, uint64_t task, const char *expected)
{
    AUTO_FREE char *log = testing_log(testing, task);
    assert_string_equal(log ? log : "", expected); /* what prints nothing has no file */
}

static void test_an_exit_code_is_reported(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *good = testing_do(testing, &(struct testing_order){
                                                                .argv = {"/bin/true"},
                                                            });
    assert_int_equal(good->outcome, EXITED);
    assert_int_equal(good->code, 0);
    assert_false(good->has_output);
    const struct testing_result *bad =
        testing_do(testing, &(struct testing_order){.script = "exit 42"});
    assert_int_equal(bad->outcome, EXITED);
    assert_int_equal(bad->code, 42);
    assert_false(testing_exists(testing, "logs/train/0/0.1.log")); /* nothing was printed */
}

static void test_a_signal_is_told_from_an_exit(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.script = "kill -SEGV $$"});
    assert_int_equal(result->outcome, SIGNALLED);
    assert_int_equal(result->code, SIGSEGV);
}

static void test_both_streams_are_in_the_log_and_input_is_empty(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result = testing_do(
        testing, &(struct testing_order){.script = "echo out; echo err >&2; cat; echo end"});
    assert_int_equal(result->outcome, EXITED);
    assert_log(testing, 0, "out\nerr\nend\n");
    assert_int_equal(result->log_bytes, 12);
    assert_int_equal(result->log_dropped_bytes, 0);
}

static void test_signals_and_files_of_a_task_are_as_at_login(void **state)
{
    struct testing *testing = *state;
    signal(SIGPIPE, SIG_IGN);
    testing_do(testing,
               &(struct testing_order){
                   /* bits of signals 32 and 33 are the C library's own: nobody can reset them */
                   .script = "sed -n '/^Sig[BI]/{s/[18]\\(.......\\)$/0\\1/;p}' /proc/self/status; "
                             "ls /proc/self/fd; ulimit -c"});
    signal(SIGPIPE, SIG_DFL);
    assert_log(testing, 0,
               "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
               "0\n1\n2\n3\n0\n"); /* 3 is of ls itself */
}

static void test_a_timeout_ends_the_whole_tree_politely(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){
                                .script = "trap 'echo bye; exit 0' TERM; sleep 60 & wait",
                                .timeout_ms = 150,
                                .grace_ms = 5000,
                            });
    assert_int_equal(result->outcome, TIMEOUT);
    assert_true(result->duration_us >= 150000);
    assert_true(result->duration_us < 3000000);
    assert_log(testing, 0, "bye\n");
}

static void test_a_task_that_ignores_term_is_killed_after_the_grace(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){
                                .script = "trap '' TERM; while :; do sleep 0.01; done",
                                .timeout_ms = 100,
                                .grace_ms = 200,
                            });
    assert_int_equal(result->outcome, TIMEOUT);
    assert_true(result->duration_us >= 300000);
    assert_true(result->duration_us < 3000000);
}

static void test_a_stopped_task_still_ends_at_its_timeout(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result = testing_do(
        testing,
        &(struct testing_order){.script = "kill -STOP $$", .timeout_ms = 100, .grace_ms = 5000});
    assert_int_equal(result->outcome, TIMEOUT);
    assert_true(result->duration_us < 3000000);
}

static void test_a_kill_ends_a_running_and_a_waiting_task(void **state)
{
    struct testing *testing = *state;
    uint64_t running =
        testing_send(testing, &(struct testing_order){.argv = {"sleep", "60"}, .cpu_milli = 2000});
    uint64_t waiting = testing_send(testing, &(struct testing_order){.argv = {"sleep", "60"}});
    testing_wait_started(testing, running);
    testing_kill(testing, waiting, 1000);
    assert_int_equal(testing_wait(testing, waiting)->outcome, KILLED);
    testing_kill(testing, running, 1000);
    assert_int_equal(testing_wait(testing, running)->outcome, KILLED);
    assert_false(testing->results[waiting].has_started);
    testing_kill(testing, running, 1000); /* it is over: no effect */
}

static void test_a_second_kill_does_not_wait_for_the_first_ones_grace(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.script = "trap '' TERM; echo $$ > pid; while :; do "
                                                   "sleep 0.01; done"});
    testing_wait_pid(testing, "pid");
    testing_kill(testing, task, 60000);
    testing_kill(testing, task, 0);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
}

static void test_what_cannot_start_says_why(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.argv = {"/no/such/program"}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "/no/such/program: No such file or directory");
    result = testing_do(testing, &(struct testing_order){.argv = {"no-such-program"}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "no-such-program: no such program in PATH");
    result =
        testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}, .workdir = "/no/such"});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "workdir /no/such: No such file or directory");
    result = testing_do(testing, &(struct testing_order){.argv = {"/etc/passwd"}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "/etc/passwd: Permission denied");
    result = testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}, .gpus = 1});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "needs 1 GPUs, this node has 0");
}

static void test_a_command_too_large_is_refused_and_the_next_one_runs(void **state)
{
    struct testing *testing = *state;
    AUTO_STR struct str large = {0};
    str_add_repeat(&large, "x", 204800);
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.argv = {"/bin/echo", str_text(&large)}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "command and environment are larger than 192 KiB");
    str_clear(&large);
    str_add_repeat(&large, "x", 102400);
    result = testing_do(testing, &(struct testing_order){.argv = {"/bin/echo", str_text(&large)}});
    assert_int_equal(result->outcome, EXITED);
    assert_int_equal(result->log_bytes, 102401);
    result = testing_do(testing, &(struct testing_order){.argv = {"/bin/true", str_text(&large),
                                                                  str_text(&large) + 12288}});
    assert_int_equal(result->outcome, EXITED); /* just below the limit */
}

static void test_the_environment_is_exactly_what_was_said(void **state)
{
    struct testing *testing = *state;
    testing_do(testing,
               &(struct testing_order){
                   .argv = {"env"},
                   .env = {"A=1", "LANG=xx", "A=2", "EMPTY=", "FOLDER=" TOKEN_OUTPUT "/sub"},
               });
    AUTO_STR struct str expected = {0};
    str_addf(&expected,
             "PATH=%s\nHOME=%s\nLANG=xx\nA=2\nEMPTY=\nFOLDER=%s/slots/0/output/sub\n"
             "DROVER_OUTPUT=%s/slots/0/output\n",
             getenv("PATH"), getenv("HOME"), testing->work, testing->work);
    assert_log(testing, 0, str_text(&expected));
}

static void test_inheriting_passes_everything_on(void **state)
{
    struct testing *testing = *state;
    setenv("DROVER_TEST_OWN", "kept", 1);
    testing_do(testing,
               &(struct testing_order){.script = "echo $DROVER_TEST_OWN", .inherit_env = true});
    testing_do(testing, &(struct testing_order){.script = "echo $DROVER_TEST_OWN"});
    unsetenv("DROVER_TEST_OWN");
    assert_log(testing, 0, "kept\n");
    assert_log(testing, 1, "\n");
}

static void test_a_secret_is_a_variable_and_never_an_argument(void **state)
{
    struct testing *testing = *state;
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/token", testing->work);
    assert_int_equal(io_replace_file(str_text(&path), "s3cret\n", 7, 0600, NULL), ERR_OK);
    struct testing_order order = {
        .script = "echo \"<$TOKEN>\"; tr '\\0' ' ' < /proc/$$/cmdline | grep -c 's3cre[t]'",
        .secret_name = "TOKEN",
        .secret_file = str_text(&path),
    };
    testing_do(testing, &order);
    assert_log(testing, 0, "<s3cret>\n0\n");
    order.secret_file = "/no/such/secret";
    const struct testing_result *result = testing_do(testing, &order);
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "secret TOKEN: cannot be read: No such file or directory");
}

static void test_a_checkpoint_folder_outlives_the_attempt(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){
                                .script = "echo 7 > $DROVER_CHECKPOINT/step; exit 1",
                                .checkpoint = true,
                            });
    assert_int_equal(result->outcome, EXITED);
    AUTO_FREE char *step = testing_read(testing, "checkpoints/train/0/0/step");
    assert_non_null(step);
    assert_string_equal(step, "7\n");
}

static void test_tasks_of_one_trial_share_a_checkpoint(void **state)
{
    struct testing *testing = *state;
    struct testing_order order = {.script = "echo rung >> $DROVER_CHECKPOINT/steps",
                                  .checkpoint = true,
                                  .checkpoint_name = "4321"};
    testing_do(testing, &order);
    testing_do(testing, &order);
    AUTO_FREE char *steps = testing_read(testing, "checkpoints/train/4/4321/steps");
    assert_non_null(steps);
    assert_string_equal(steps, "rung\nrung\n");
    assert_false(testing_exists(testing, "checkpoints/train/0"));
}

static void test_outputs_are_kept_only_of_success(void **state)
{
    struct testing *testing = *state;
    struct testing_order order = {.script = "echo model > $DROVER_OUTPUT/m", .outputs = {"m"}};
    assert_true(testing_do(testing, &order)->has_output);
    AUTO_FREE char *kept = testing_read(testing, "attempts/train/0/0.1/m");
    assert_non_null(kept);
    assert_string_equal(kept, "model\n");

    order.script = "mkdir -p $DROVER_OUTPUT/a/b; echo x > $DROVER_OUTPUT/a/b/c; exit 1";
    const struct testing_result *failed = testing_do(testing, &order);
    assert_int_equal(failed->outcome, EXITED);
    assert_false(failed->has_output);
    assert_false(testing_exists(testing, "attempts/train/0/1.1"));

    order.script = "ls -A $DROVER_OUTPUT"; /* the next one begins with an empty folder */
    order.outputs[0] = NULL;
    testing_do(testing, &order);
    assert_log(testing, 2, "");
}

static void test_a_promised_output_must_be_there(void **state)
{
    struct testing *testing = *state;
    struct testing_order order = {.script = "echo x > $DROVER_OUTPUT/other", .outputs = {"m"}};
    const struct testing_result *result = testing_do(testing, &order);
    assert_int_equal(result->outcome, OUTPUT_MISSING);
    assert_string_equal(result->detail, "m: promised under outputs and not there");
    assert_false(result->has_output);
    static const char *const bad[] = {"../output/other", "/etc/passwd", "a/../../x", "link/passwd"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        order.script = "echo x > $DROVER_OUTPUT/other; ln -s /etc $DROVER_OUTPUT/link";
        order.outputs[0] = bad[i];
        assert_int_equal(testing_do(testing, &order)->outcome, OUTPUT_MISSING);
    }
    order.outputs[0] = TOKEN_OUTPUT "/other";
    assert_int_equal(testing_do(testing, &order)->outcome, EXITED);
}

static void test_a_refused_result_loses_its_output(void **state)
{
    struct testing *testing = *state;
    const struct testing_order order = {.script = "echo x > $DROVER_OUTPUT/m"};
    testing_do(testing, &order);
    testing_do(testing, &order);
    testing_settle(testing, 0, false);
    testing_settle(testing, 1, true);
    testing_do(testing, &order); /* by then both have been heard */
    assert_false(testing_exists(testing, "attempts/train/0/0.1"));
    assert_true(testing_exists(testing, "attempts/train/0/1.1"));
}

static void test_only_long_tasks_are_reported_as_started(void **state)
{
    struct testing *testing = *state;
    testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}});
    testing_do(testing, &(struct testing_order){.argv = {"sleep", "0.3"}});
    assert_false(testing->results[0].has_started);
    assert_true(testing->results[1].has_started);
}

/* Each task waits for a file that only the next one could write, and so finds out whether they run
 * at the same time. */
static void assert_runs_alone(struct testing *testing, struct testing_order order)
{
    order.script = "sleep 0.2; echo done > first";
    uint64_t first = testing_send(testing, &order);
    order.script = "test -e first";
    uint64_t second = testing_send(testing, &order);
    testing_wait(testing, first);
    assert_int_equal(testing_wait(testing, second)->code, 0);
}

static void test_cpus_and_memory_limit_what_runs_at_once(void **state)
{
    (void)state;
    struct testing *testing = mem_alloc(sizeof *testing);
    struct node_capacity capacity = {.cpu_milli = 4000, .memory_bytes = 1 << 30};
    testing_open_with(testing, &capacity);
    assert_runs_alone(testing, (struct testing_order){.cpu_milli = 2500});
    testing_do(testing, &(struct testing_order){.argv = {"rm", "first"}});
    assert_runs_alone(testing, (struct testing_order){.memory_bytes = 600 << 20});
    testing_close(testing);
    free(testing);
}

static void test_gpus_are_given_to_one_task_each(void **state)
{
    (void)state;
    struct testing *testing = mem_alloc(sizeof *testing);
    struct node_capacity capacity = {
        .cpu_milli = 8000, .memory_bytes = 1 << 30, .gpus = 3, .gpu_kind = "k80"};
    testing_open_with(testing, &capacity);
    struct testing_order order = {.script = "sleep 0.2; echo \"<$CUDA_VISIBLE_DEVICES>\""};
    order.gpus = 1;
    testing_send(testing, &order);
    order.gpus = 2;
    testing_send(testing, &order);
    order.gpus = 0;
    testing_send(testing, &order);
    order.gpus = 3; /* waits for all the others to go */
    testing_send(testing, &order);
    for (uint64_t task = 0; task < 4; task++) {
        testing_wait(testing, task);
    }
    assert_log(testing, 0, "<0>\n");
    assert_log(testing, 1, "<1,2>\n");
    assert_log(testing, 2, "<>\n");
    assert_log(testing, 3, "<0,1,2>\n");
    testing_close(testing);
    free(testing);
}

static void test_stop_ends_everything_and_says_so_last(void **state)
{
    (void)state;
    struct testing *testing = mem_alloc(sizeof *testing);
    testing_open(testing, 2);
    for (int i = 0; i < 4; i++) {
        testing_send(testing, &(struct testing_order){.script = "trap '' TERM; sleep 60; sleep 60",
                                                      .grace_ms = 60000});
    }
    testing_wait_started(testing, 1);
    int64_t begin_ms = clock_mono_ms();
    testing_stop(testing, 200);
    for (uint64_t task = 0; task < 4; task++) {
        assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
    }
    testing_close(testing);
    int64_t took_ms = clock_mono_ms() - begin_ms;
    assert_true(took_ms >= 200);
    assert_true(took_ms < 3000);
    free(testing);
}

static void test_a_node_says_once_when_memory_cannot_be_limited(void **state)
{
    struct testing *testing = *state;
    if (testing->note[0] != '\0') {
        assert_non_null(strstr(testing->note, "memory limits are not enforced"));
    }
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, open_node, close_node)

int main(void)
{
    setenv("HOME", "/", 0);
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_an_exit_code_is_reported),
        WITH_NODE(test_a_signal_is_told_from_an_exit),
        WITH_NODE(test_both_streams_are_in_the_log_and_input_is_empty),
        WITH_NODE(test_signals_and_files_of_a_task_are_as_at_login),
        WITH_NODE(test_a_timeout_ends_the_whole_tree_politely),
        WITH_NODE(test_a_task_that_ignores_term_is_killed_after_the_grace),
        WITH_NODE(test_a_stopped_task_still_ends_at_its_timeout),
        WITH_NODE(test_a_kill_ends_a_running_and_a_waiting_task),
        WITH_NODE(test_a_second_kill_does_not_wait_for_the_first_ones_grace),
        WITH_NODE(test_what_cannot_start_says_why),
        WITH_NODE(test_a_command_too_large_is_refused_and_the_next_one_runs),
        WITH_NODE(test_the_environment_is_exactly_what_was_said),
        WITH_NODE(test_inheriting_passes_everything_on),
        WITH_NODE(test_a_secret_is_a_variable_and_never_an_argument),
        WITH_NODE(test_a_checkpoint_folder_outlives_the_attempt),
        WITH_NODE(test_tasks_of_one_trial_share_a_checkpoint),
        WITH_NODE(test_outputs_are_kept_only_of_success),
        WITH_NODE(test_a_promised_output_must_be_there),
        WITH_NODE(test_a_refused_result_loses_its_output),
        WITH_NODE(test_only_long_tasks_are_reported_as_started),
        cmocka_unit_test(test_cpus_and_memory_limit_what_runs_at_once),
        cmocka_unit_test(test_gpus_are_given_to_one_task_each),
        cmocka_unit_test(test_stop_ends_everything_and_says_so_last),
        WITH_NODE(test_a_node_says_once_when_memory_cannot_be_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
