/* What has to travel before and after an attempt, on a node that does not share the master's disk;
 * the test plays bulk.h. */
#include "base/io.h"
#include "base/mem.h"
#include "node/bulk_fake.h"
#include "node/testing_net.h"

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
    NOT_STARTED = DROVER__OUTCOME__OUTCOME_NOT_STARTED,
    OUTPUT_MISSING = DROVER__OUTCOME__OUTCOME_OUTPUT_MISSING,
    KILLED = DROVER__OUTCOME__OUTCOME_KILLED,
    PATIENCE_MS = 10000,
};

#define VERSION "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define TOKEN_CODE WIRE_TOKEN_CODE WIRE_TOKEN_BYTE
#define TOKEN_OUTPUTS WIRE_TOKEN_OUTPUTS WIRE_TOKEN_BYTE

static int open_node(void **state)
{
    struct testing *testing = mem_alloc(sizeof *testing);
    struct testing_net net = {.lease_ms = 5000, .bulk_port = 1, .grace_ms = 1000};
    bulk_fake_reset();
    testing_net_open(testing, mem_dup(&net, sizeof net));
    testing_net_wait_hello(testing, 1);
    *state = testing;
    return 0;
}

static int close_node(void **state)
{
    testing_net_close(*state);
    free(*state);
    return 0;
}

/* Until the node has been heard twice: it has taken what was sent to it before. */
static void settle_down(struct testing *testing)
{
    for (uint32_t until = testing->net->heartbeat_count + 2;
         testing->net->heartbeat_count < until;) {
        testing_receive(testing, PATIENCE_MS);
    }
}

static size_t count_below(const struct testing *testing, const char *name)
{
    AUTO_STR struct str command = {0};
    char text[64] = "";
    str_addf(&command, "find %s/%s -type f 2>/dev/null | wc -l", testing->work, name);
    FILE *pipe = popen(str_text(&command), "r");
    assert_non_null(pipe);
    assert_non_null(fgets(text, sizeof text, pipe));
    pclose(pipe);
    return (size_t)strtoul(text, NULL, 10);
}

static void test_code_is_fetched_once_and_nobody_behind_it_waits(void **state)
{
    struct testing *testing = *state;
    const struct testing_order order = {.argv = {"pwd"}, .workdir = TOKEN_CODE, .code = VERSION};
    struct bulk_fake_request asked;
    uint64_t first = testing_send(testing, &order);
    uint64_t second = testing_send(testing, &order);
    bulk_fake_wait("code", 0, &asked);
    assert_string_equal(asked.name, VERSION);
    assert_int_equal(testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}})->code, 0);
    assert_false(testing->results[first].has_ended);
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/code-folder", testing->work);
    assert_int_equal(io_make_dirs(str_text(&folder), NULL), ERR_OK);
    bulk_fake_end("code", 0, ERR_OK, str_text(&folder));
    str_add_char(&folder, '\n');
    assert_string_equal(testing_wait(testing, first)->log, str_text(&folder));
    assert_string_equal(testing_wait(testing, second)->log, str_text(&folder));
    assert_int_equal(testing_do(testing, &order)->code, 0);
    assert_int_equal(bulk_fake_count("code"), 1);
}

static void test_code_that_vanished_is_fetched_again(void **state)
{
    struct testing *testing = *state;
    const struct testing_order order = {.argv = {"/bin/true"}, .workdir = "/", .code = VERSION};
    struct bulk_fake_request asked;
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/code-folder", testing->work);
    assert_int_equal(io_make_dirs(str_text(&folder), NULL), ERR_OK);
    uint64_t task = testing_send(testing, &order);
    bulk_fake_wait("code", 0, &asked);
    bulk_fake_end("code", 0, ERR_OK, str_text(&folder));
    testing_wait(testing, task);
    assert_int_equal(rmdir(str_text(&folder)), 0);
    task = testing_send(testing, &order);
    bulk_fake_wait("code", 1, &asked);
    bulk_fake_end("code", 1, ERR_NOT_FOUND, NULL);
    const struct testing_result *result = testing_wait(testing, task);
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "the fake says not found");
}

static void test_inputs_are_where_the_token_says(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(testing, &(struct testing_order){
                                              .argv = {"/bin/echo", TOKEN_OUTPUTS "/prepare"},
                                              .inputs = {"prepare", "other"},
                                          });
    struct bulk_fake_request asked;
    bulk_fake_wait("outputs", 0, &asked);
    assert_string_equal(asked.name, "prepare");
    bulk_fake_end("outputs", 0, ERR_OK, asked.path);
    settle_down(testing);
    assert_false(testing->results[task].has_ended);
    AUTO_STR struct str expected = {0};
    str_addf(&expected, "%s\n", asked.path);
    bulk_fake_wait("outputs", 1, &asked);
    assert_string_equal(asked.name, "other");
    bulk_fake_end("outputs", 1, ERR_OK, asked.path);
    assert_string_equal(testing_wait(testing, task)->log, str_text(&expected));
}

static void test_a_kill_ends_what_is_still_fetching(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(testing, &(struct testing_order){
                                              .argv = {"/bin/true"},
                                              .inputs = {"prepare"},
                                              .code = VERSION,
                                              .checkpoint = true,
                                          });
    struct bulk_fake_request asked;
    bulk_fake_wait("old checkpoint", 0, &asked);
    testing_kill(testing, task, 0);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
    bulk_fake_wait("old checkpoint", 0, &asked);
    assert_true(asked.is_dropped);
    bulk_fake_end("outputs", 0, ERR_OK, "/"); /* nobody waits for these now */
    bulk_fake_end("code", 0, ERR_OK, "/");
    testing_settle(testing, task, false);
    assert_int_equal(testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}})->code, 0);
}

static void test_a_stale_attempt_is_thrown_away(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.argv = {"/bin/true"}, .inputs = {"prepare"}});
    struct bulk_fake_request asked;
    bulk_fake_wait("outputs", 0, &asked);
    bulk_fake_end("outputs", 0, ERR_STALE, NULL);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
}

static void test_an_output_is_on_the_master_before_its_end_is_told(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.script = "echo model > $DROVER_OUTPUT/m; echo done",
                                         .cpu_milli = 2000});
    struct bulk_fake_request asked;
    bulk_fake_wait("output", 0, &asked);
    assert_int_equal(asked.task, task);
    /* Its room is free though nothing was told. */
    assert_int_equal(
        testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}, .cpu_milli = 2000})
            ->code,
        0);
    assert_false(testing->results[task].has_ended);
    testing->net->session = 0;
    testing_net_wait_hello(testing, 2);
    assert_true(testing_net_holds(testing->net, task, false));
    AUTO_STR struct str file = {0};
    str_addf(&file, "%s/m", asked.path);
    assert_int_equal(access(str_text(&file), R_OK), 0);
    bulk_fake_end("output", 0, ERR_OK, NULL);
    const struct testing_result *result = testing_wait(testing, task);
    assert_true(result->has_output);
    assert_string_equal(result->log, "done\n");
    testing_settle(testing, task, true);
    settle_down(testing);
    assert_int_equal(access(asked.path, F_OK), -1); /* the master has it */
}

static void test_an_output_that_cannot_be_sent_is_no_success(void **state)
{
    struct testing *testing = *state;
    uint64_t task =
        testing_send(testing, &(struct testing_order){.script = "echo x > $DROVER_OUTPUT/m"});
    struct bulk_fake_request asked;
    bulk_fake_wait("output", 0, &asked);
    bulk_fake_end("output", 0, ERR_QUOTA, NULL);
    const struct testing_result *result = testing_wait(testing, task);
    assert_int_equal(result->outcome, OUTPUT_MISSING);
    assert_false(result->has_output);
    testing_settle(testing, task, false);
    settle_down(testing);
    assert_int_equal(access(asked.path, F_OK), -1);
}

static void test_small_logs_travel_with_the_end_and_large_ones_before_it(void **state)
{
    struct testing *testing = *state;
    const struct testing_result *small =
        testing_do(testing, &(struct testing_order){.script = "head -c 65536 /dev/zero"});
    assert_int_equal(small->log_size, 65536);
    assert_int_equal(bulk_fake_count("log"), 0);
    uint64_t task =
        testing_send(testing, &(struct testing_order){.script = "head -c 65537 /dev/zero"});
    struct bulk_fake_request asked;
    bulk_fake_wait_finished("log", 0, &asked);
    assert_int_equal(asked.task, task);
    settle_down(testing);
    assert_false(testing->results[task].has_ended);
    bulk_fake_end("log", 0, ERR_OK, NULL);
    assert_int_equal(testing_wait(testing, task)->log_size, 0);
    assert_int_equal(testing->results[task].log_bytes, 65537);
    assert_int_equal(count_below(testing, "slots/logs"), 0);
}

static void test_a_log_is_followed_while_the_task_runs(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.script = "echo early; while ! test -e go; do sleep 0.01; "
                                                   "done; echo late"});
    struct bulk_fake_request asked;
    bulk_fake_wait("log", 0, &asked);
    assert_false(asked.is_finished);
    AUTO_STR struct str go = {0};
    str_addf(&go, "%s/go", testing->work);
    assert_int_equal(io_replace_file(str_text(&go), "", 0, 0600, NULL), ERR_OK);
    bulk_fake_wait_finished("log", 0, &asked);
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(asked.path, 100, &text, NULL), ERR_OK);
    assert_string_equal(str_text(&text), "early\nlate\n");
    bulk_fake_end("log", 0, ERR_OK, NULL);
    assert_int_equal(testing_wait(testing, task)->outcome, EXITED);
    assert_int_equal(count_below(testing, "slots/logs"), 0);
}

static void test_of_a_log_beyond_its_limit_the_end_is_sent(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.script = "head -c 150000 /dev/zero | tr '\\0' a; sleep "
                                                   "0.2; head -c 50000 /dev/zero | tr '\\0' b",
                                         .log_limit_bytes = 200000});
    struct bulk_fake_request asked;
    bulk_fake_wait_finished("log", 0, &asked);
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(asked.path, 1 << 20, &text, NULL), ERR_OK);
    assert_int_equal(text.size, 200000);
    assert_int_equal(text.text[149999], 'a');
    assert_int_equal(text.text[150000], 'b');
    bulk_fake_end("log", 0, ERR_OK, NULL);
    assert_int_equal(testing_wait(testing, task)->log_dropped_bytes, 0);
    assert_int_equal(count_below(testing, "slots/logs"), 0);
}

static void test_a_log_begun_anew_is_followed_again(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing,
        &(struct testing_order){.script = "head -c 90000 /dev/zero; while ! test -e go; do "
                                          "sleep 0.01; done; head -c 30000 /dev/zero; "
                                          "while ! test -e end; do sleep 0.01; done",
                                .log_limit_bytes = 200000});
    struct bulk_fake_request asked;
    AUTO_STR struct str file = {0};
    bulk_fake_wait("log", 0, &asked);
    str_addf(&file, "%s/go", testing->work);
    assert_int_equal(io_replace_file(str_text(&file), "", 0, 0600, NULL), ERR_OK);
    bulk_fake_wait("log", 1, &asked); /* the file of that name is another one now */
    str_clear(&file);
    str_addf(&file, "%s/end", testing->work);
    assert_int_equal(io_replace_file(str_text(&file), "", 0, 0600, NULL), ERR_OK);
    bulk_fake_wait_finished("log", 2, &asked);
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(asked.path, 1 << 20, &text, NULL), ERR_OK);
    assert_int_equal(text.size, 120000);
    bulk_fake_end("log", 2, ERR_OK, NULL);
    testing_wait(testing, task);
}

static void test_a_checkpoint_comes_before_and_goes_after(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing,
        &(struct testing_order){
            .script = "cat $DROVER_CHECKPOINT/step; trap 'echo 8 > $DROVER_CHECKPOINT/step; "
                      "exit 1' TERM; echo $$ > pid; while :; do sleep 0.01; done",
            .checkpoint = true});
    struct bulk_fake_request asked;
    AUTO_STR struct str step = {0};
    bulk_fake_wait("old checkpoint", 0, &asked);
    assert_int_equal(io_make_dirs(asked.path, NULL), ERR_OK);
    str_addf(&step, "%s/step", asked.path);
    assert_int_equal(io_replace_file(str_text(&step), "7\n", 2, 0600, NULL), ERR_OK);
    bulk_fake_end("old checkpoint", 0, ERR_OK, asked.path);
    testing_wait_pid(testing, "pid");
    testing_kill(testing, task, 5000);
    struct bulk_fake_request watched;
    bulk_fake_wait_finished("checkpoint", 0, &watched);
    assert_true(watched.is_hurried);
    assert_string_equal(watched.path, asked.path);
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(str_text(&step), 100, &text, NULL), ERR_OK);
    assert_string_equal(str_text(&text), "8\n");
    assert_false(testing->results[task].has_ended);
    bulk_fake_end("checkpoint", 0, ERR_OK, NULL);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
    testing_settle(testing, task, false);
    settle_down(testing);
    assert_int_equal(access(asked.path, F_OK), -1);
}

static void test_no_checkpoint_yet_is_an_empty_folder(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(testing, &(struct testing_order){
                                              .script = "ls -A $DROVER_CHECKPOINT; echo end",
                                              .checkpoint = true,
                                          });
    struct bulk_fake_request asked;
    bulk_fake_wait("old checkpoint", 0, &asked);
    bulk_fake_end("old checkpoint", 0, ERR_NOT_FOUND, NULL);
    bulk_fake_wait_finished("checkpoint", 0, &asked);
    bulk_fake_end("checkpoint", 0, ERR_OK, NULL);
    assert_string_equal(testing_wait(testing, task)->log, "end\n");
}

static void test_a_lost_slot_still_delivers_what_there_is(void **state)
{
    struct testing *testing = *state;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.script = "echo begun; echo $PPID > pid; sleep 60"});
    pid_t slot = testing_wait_pid(testing, "pid");
    usleep(50000); /* until the slot has written what it read */
    assert_int_equal(kill(slot, SIGKILL), 0);
    const struct testing_result *result = testing_wait(testing, task);
    assert_int_equal(result->outcome, DROVER__OUTCOME__OUTCOME_SLOT_LOST);
    assert_string_equal(result->log, "begun\n");
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, open_node, close_node)

int main(void)
{
    setenv("HOME", "/", 0);
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_code_is_fetched_once_and_nobody_behind_it_waits),
        WITH_NODE(test_code_that_vanished_is_fetched_again),
        WITH_NODE(test_inputs_are_where_the_token_says),
        WITH_NODE(test_a_kill_ends_what_is_still_fetching),
        WITH_NODE(test_a_stale_attempt_is_thrown_away),
        WITH_NODE(test_an_output_is_on_the_master_before_its_end_is_told),
        WITH_NODE(test_an_output_that_cannot_be_sent_is_no_success),
        WITH_NODE(test_small_logs_travel_with_the_end_and_large_ones_before_it),
        WITH_NODE(test_a_log_is_followed_while_the_task_runs),
        WITH_NODE(test_of_a_log_beyond_its_limit_the_end_is_sent),
        WITH_NODE(test_a_log_begun_anew_is_followed_again),
        WITH_NODE(test_a_checkpoint_comes_before_and_goes_after),
        WITH_NODE(test_no_checkpoint_yet_is_an_empty_folder),
        WITH_NODE(test_a_lost_slot_still_delivers_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
