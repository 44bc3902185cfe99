/* Volumes of tasks: against a program that mounts nothing and says what a mount would. */
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
#include <unistd.h>

#include <cmocka.h>

enum {
    EXITED = DROVER__OUTCOME__OUTCOME_EXITED,
    NOT_STARTED = DROVER__OUTCOME__OUTCOME_NOT_STARTED,
    OUTPUT_MISSING = DROVER__OUTCOME__OUTCOME_OUTPUT_MISSING,
    KILLED = DROVER__OUTCOME__OUTCOME_KILLED,
};

#define DATA WIRE_TOKEN_VOLUME "data" WIRE_TOKEN_BYTE

/* PROGRAM mount --foreground --for-node [OPTION...] -- VOLUME FOLDER; what is written to `mounts`
 * is one line for each. */
static const char program_text[] = "#!/bin/sh\n"
                                   "for folder; do volume=$before; before=$folder; done\n"
                                   "work=${folder%/volumes/*}\n"
                                   "echo \"$$ $*\" >>\"$work/mounts\"\n"
                                   "case $volume in\n"
                                   "*bad*) echo 'drover: there is no such bucket' >&2; exit 1 ;;\n"
                                   "*mute*) ;;\n"
                                   "*other*) echo 'ready /proc' ;;\n"
                                   "*) echo ready ;;\n"
                                   "esac\n"
                                   "exec sleep 1000\n";

struct scene {
    struct testing testing;
    char program[32];
};

static int open_scene(void **state)
{
    struct scene *scene = mem_alloc(sizeof *scene);
    snprintf(scene->program, sizeof scene->program, "/tmp/drover-mount-XXXXXX");
    int fd = mkstemp(scene->program);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, program_text, sizeof program_text - 1, NULL), ERR_OK);
    assert_int_equal(fchmod(fd, 0755), 0);
    close(fd);
    scene->testing.program = scene->program;
    testing_open(&scene->testing, 2);
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    testing_close(&scene->testing);
    unlink(scene->program);
    free(scene);
    return 0;
}

static size_t count_mounts(const struct testing *testing)
{
    AUTO_FREE char *text = testing_read(testing, "mounts");
    size_t count = 0;
    for (const char *at = text; at && (at = strchr(at, '\n')) != NULL; at++) {
        count++;
    }
    return count;
}

static void test_tasks_share_a_mount_and_see_its_folder(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    struct testing_order order = {.script = "echo " DATA " $PLACE",
                                  .env = {"PLACE=" DATA "/x"},
                                  .volumes = {"data=s3://bucket/p@v1"}};
    uint64_t first = testing_send(testing, &order);
    uint64_t second = testing_send(testing, &order);
    assert_int_equal(testing_wait(testing, first)->outcome, EXITED);
    assert_int_equal(testing_wait(testing, second)->outcome, EXITED);
    AUTO_STR struct str expected = {0};
    AUTO_FREE char *log = testing_log(testing, second);
    str_addf(&expected, "%s/volumes/1 %s/volumes/1/x\n", testing->work, testing->work);
    assert_string_equal(log, str_text(&expected));
    AUTO_FREE char *mounts = testing_read(testing, "mounts");
    assert_int_equal(count_mounts(testing), 1);
    assert_non_null(strstr(mounts, " mount --foreground --for-node -- s3://bucket/p@v1 "));
    pid_t pid = (pid_t)strtol(mounts, NULL, 10);
    assert_true(testing_is_alive(pid));
    testing_stop(testing, 0);
    while (!testing->has_stopped) {
        testing_receive(testing, 5000);
    }
    assert_false(testing_is_alive(pid)); /* nothing is left once `stopped` was said */
    assert_false(testing_exists(testing, "volumes"));
}

static void test_a_volume_that_cannot_be_mounted_is_the_tasks_reason(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    const struct testing_result *result = testing_do(
        testing, &(struct testing_order){.argv = {"/bin/true"}, .volumes = {"data=s3://bad@v1"}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_string_equal(result->detail, "volume s3://bad@v1: there is no such bucket");
    result = testing_do(
        testing, &(struct testing_order){.argv = {"/bin/true"}, .volumes = {"data=s3://bad@v1"}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_int_equal(count_mounts(testing), 2); /* it was tried anew */
    result = testing_do(testing, &(struct testing_order){.argv = {"/bin/true"}});
    assert_int_equal(result->outcome, EXITED);
}

static void test_a_success_that_cannot_be_stored_is_none(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    const struct testing_result *result = testing_do(
        testing, &(struct testing_order){.script = "echo " DATA, .volumes = {"data=s3://other"}});
    assert_int_equal(result->outcome, OUTPUT_MISSING);
    assert_memory_equal(result->detail, "volume s3://other: it cannot be stored", 38);
    AUTO_FREE char *log = testing_log(testing, 0);
    assert_string_equal(log, "/proc\n"); /* where it was mounted already */
    result = testing_do(
        testing, &(struct testing_order){.script = "exit 3", .volumes = {"data=s3://other"}});
    assert_int_equal(result->outcome, EXITED); /* what went wrong first is told */
    assert_int_equal(result->code, 3);
}

static void test_a_checkpoint_that_no_folder_can_be_made_for_does_not_start(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    const struct testing_result *result =
        testing_do(testing, &(struct testing_order){.argv = {"/bin/true"},
                                                    .checkpoint = true,
                                                    .checkpoint_volume = "data",
                                                    .volumes = {"data=s3://other"}});
    assert_int_equal(result->outcome, NOT_STARTED);
    assert_memory_equal(result->detail, "volume s3://other: a folder cannot be made in it", 48);
}

static void test_a_task_that_waits_for_a_mount_can_be_killed(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    uint64_t task = testing_send(
        testing, &(struct testing_order){.argv = {"/bin/true"}, .volumes = {"data=s3://mute@v"}});
    uint64_t other = testing_send(testing, &(struct testing_order){.argv = {"/bin/true"}});
    assert_int_equal(testing_wait(testing, other)->outcome, EXITED); /* it holds up nobody */
    testing_kill(testing, task, 0);
    assert_int_equal(testing_wait(testing, task)->outcome, KILLED);
}

static void test_a_mount_that_dies_is_begun_anew_for_the_next_task(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    struct testing_order order = {.argv = {"/bin/true"}, .volumes = {"data=s3://fine@v"}};
    assert_int_equal(testing_do(testing, &order)->outcome, EXITED);
    AUTO_FREE char *mounts = testing_read(testing, "mounts");
    pid_t pid = (pid_t)strtol(mounts, NULL, 10);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(testing_is_gone_within(pid, 5000));
    int64_t until_ms = clock_mono_ms() + 5000;
    while (count_mounts(testing) < 2 && clock_mono_ms() < until_ms) {
        assert_int_equal(testing_do(testing, &order)->outcome, EXITED);
    }
    assert_int_equal(count_mounts(testing), 2);
}

static void test_slots_that_die_leave_mounts_alone(void **state)
{
    struct testing *testing = &((struct scene *)*state)->testing;
    struct testing_order order = {.script = "kill -KILL $PPID; sleep 10",
                                  .volumes = {"data=s3://fine@v"}};
    (void)testing_do(testing, &order);
    AUTO_FREE char *mounts = testing_read(testing, "mounts");
    assert_true(testing_is_alive((pid_t)strtol(mounts, NULL, 10)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tasks_share_a_mount_and_see_its_folder, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(test_a_volume_that_cannot_be_mounted_is_the_tasks_reason,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_success_that_cannot_be_stored_is_none, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(
            test_a_checkpoint_that_no_folder_can_be_made_for_does_not_start, open_scene,
            close_scene),
        cmocka_unit_test_setup_teardown(test_a_task_that_waits_for_a_mount_can_be_killed,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_mount_that_dies_is_begun_anew_for_the_next_task,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_slots_that_die_leave_mounts_alone, open_scene,
                                        close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
