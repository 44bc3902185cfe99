#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/trials.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/trials-test.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static struct trials_line suggestion(uint64_t task)
{
    return (struct trials_line){.kind = TRIALS_SUGGESTED,
                                .experiment = "train",
                                .at_ms = 1700000000000,
                                .task = task,
                                .trial = task,
                                .has_budget = true,
                                .budget = 3,
                                .params = "{\"lr\":0.01,\"act\":\"re\\\"lu\"}",
                                .point = "0.01 1"};
}

static void write_raw(const char *text)
{
    AUTO_STR struct str path = {0};
    trials_add_path(&path, folder);
    AUTO_CLOSE int fd = open(str_text(&path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text), NULL), ERR_OK);
}

struct seen {
    size_t count;
    uint64_t last_task;
    enum err_code answer;
};

static enum err_code see(void *owner, const struct trials_line *line, struct err *err)
{
    struct seen *seen = owner;
    seen->count++;
    seen->last_task = line->task;
    return seen->answer == ERR_OK ? ERR_OK : err_set(err, seen->answer, "no such thing");
}

static void every_kind_of_line_reads_back_the_same(void **state)
{
    (void)state;
    struct trials_metric metrics[] = {{"loss", 0.1}, {"val/acc \"x\"", (double)NAN}};
    const struct trials_line lines[] = {
        {.kind = TRIALS_SEARCH,
         .experiment = "train",
         .algorithm = "auto",
         .chosen = "gp",
         .why = "few trials",
         .goal_metrics = {"accuracy", "cost"},
         .maximize = {true, false},
         .goal_count = 2,
         .seed = UINT64_MAX},
        suggestion(7),
        {.kind = TRIALS_RESULT,
         .experiment = "train",
         .task = 7,
         .trial = 3,
         .rung = 2,
         .state = TRIALS_DIVERGED,
         .values = {(double)NAN, 1.0 / 3.0},
         .value_count = 2,
         .metrics = metrics,
         .metric_count = 2,
         .reason = "nan",
         .has_step = true,
         .step = 27},
        {.kind = TRIALS_STOP, .experiment = "train", .why = "target 0.99 reached"},
        {.kind = TRIALS_WARM,
         .experiment = "train",
         .from = "mnist-2",
         .trial = 17,
         .state = TRIALS_FAILED,
         .values = {(double)NAN, 1.0 / 3.0},
         .value_count = 2,
         .params = "{\"lr\":0.01}",
         .point = "0.01 -"},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        AUTO_STR struct str once = {0};
        AUTO_STR struct str twice = {0};
        struct trials_line again;
        struct err err = {0};
        trials_add_line(&once, &lines[i]);
        enum err_code code = trials_parse(once.text, once.size - 1, &arena, &again, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(code, ERR_OK);
        assert_int_equal(again.kind, lines[i].kind);
        trials_add_line(&twice, &again);
        assert_string_equal(str_text(&once), str_text(&twice));
    }
    arena_release(&arena);
}

static void doubles_come_back_bit_for_bit(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct arena arena = {0};
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = rng_mix(seed, i, 0);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        AUTO_STR struct str text = {0};
        struct trials_line line = {.kind = TRIALS_RESULT,
                                   .experiment = "e",
                                   .values = {value},
                                   .value_count = 1,
                                   .has_step = true,
                                   .step = value};
        struct trials_line again;
        trials_add_line(&text, &line);
        assert_int_equal(trials_parse(text.text, text.size - 1, &arena, &again, NULL), ERR_OK);
        assert_memory_equal(&again.values[0], &value, sizeof value);
        assert_memory_equal(&again.step, &value, sizeof value);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void lines_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"v\":2,\"kind\":\"stop\",\"experiment\":\"a\",\"at\":1,\"why\":\"x\"}",
        "{\"v\":1,\"kind\":\"strop\",\"experiment\":\"a\",\"at\":1,\"why\":\"x\"}",
        "{\"v\":1,\"kind\":\"stop\",\"experiment\":\"\",\"at\":1,\"why\":\"x\"}",
        "{\"v\":1,\"kind\":\"stop\",\"experiment\":\"a\",\"at\":-1,\"why\":\"x\"}",
        "{\"v\":1,\"kind\":\"stop\",\"experiment\":\"a\",\"at\":1,\"why\":7}",
        "{\"v\":1,\"kind\":\"search\",\"experiment\":\"a\",\"at\":1,\"algorithm\":\"tpe\","
        "\"chosen\":\"tpe\",\"why\":\"\",\"metrics\":[],\"goals\":[],\"seed\":1}",
        "{\"v\":1,\"kind\":\"search\",\"experiment\":\"a\",\"at\":1,\"algorithm\":\"tpe\","
        "\"chosen\":\"tpe\",\"why\":\"\",\"metrics\":[\"m\"],\"goals\":[\"maximise\"],\"seed\":1}",
        "{\"v\":1,\"kind\":\"suggested\",\"experiment\":\"a\",\"at\":1,\"task\":0,\"trial\":0,"
        "\"rung\":0,\"budget\":null,\"params\":[],\"point\":\"\"}",
        "{\"v\":1,\"kind\":\"suggested\",\"experiment\":\"a\",\"at\":1,\"task\":0,\"trial\":0,"
        "\"rung\":4294967296,\"budget\":null,\"params\":{},\"point\":\"\"}",
        "{\"v\":1,\"kind\":\"result\",\"experiment\":\"a\",\"at\":1,\"task\":0,\"trial\":0,"
        "\"rung\":0,\"state\":\"succeeded\",\"values\":[null],\"metrics\":{},\"reason\":null,"
        "\"step\":null}",
        "{\"v\":1,\"kind\":\"result\",\"experiment\":\"a\",\"at\":1,\"task\":0,\"trial\":0,"
        "\"rung\":0,\"state\":\"failed\",\"values\":[1e999],\"metrics\":{},\"reason\":null,"
        "\"step\":null}",
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct trials_line line;
        struct err err = {0};
        assert_int_equal(trials_parse(bad[i], strlen(bad[i]), &arena, &line, &err), ERR_CORRUPT);
        assert_true(err.text[0] != '\0');
    }
    arena_release(&arena);
}

static void what_was_appended_is_read_in_order(void **state)
{
    (void)state;
    struct seen seen = {0};
    assert_int_equal(trials_read(folder, see, &seen, NULL), ERR_OK); /* no file yet */
    assert_int_equal(seen.count, 0);
    struct trials_log *log = NULL;
    assert_int_equal(trials_open(folder, &log, NULL), ERR_OK);
    for (uint64_t task = 0; task < 3000;) {
        AUTO_STR struct str lines = {0};
        for (int i = 0; i < 30; i++) {
            struct trials_line line = suggestion(task++);
            trials_add_line(&lines, &line);
        }
        assert_int_equal(trials_append(log, &lines, NULL), ERR_OK);
    }
    trials_close(log);
    assert_int_equal(trials_read(folder, see, &seen, NULL), ERR_OK);
    assert_int_equal(seen.count, 3000);
    assert_int_equal(seen.last_task, 2999);
}

static void a_half_written_last_line_is_left_out_and_then_cut_off(void **state)
{
    (void)state;
    AUTO_STR struct str whole = {0};
    struct trials_line line = suggestion(0);
    trials_add_line(&whole, &line);
    for (size_t cut_at = 1; cut_at < whole.size; cut_at += 7) {
        AUTO_STR struct str path = {0};
        trials_add_path(&path, folder);
        unlink(str_text(&path));
        AUTO_FREE char *half = mem_strndup(whole.text, cut_at);
        write_raw(whole.text);
        write_raw(half);
        struct seen seen = {0};
        assert_int_equal(trials_read(folder, see, &seen, NULL), ERR_OK);
        assert_int_equal(seen.count, 1);
        struct trials_log *log = NULL;
        assert_int_equal(trials_open(folder, &log, NULL), ERR_OK);
        assert_int_equal(trials_append(log, &whole, NULL), ERR_OK);
        trials_close(log);
        seen = (struct seen){0};
        assert_int_equal(trials_read(folder, see, &seen, NULL), ERR_OK);
        assert_int_equal(seen.count, 2);
    }
}

static void a_damaged_line_is_named_by_its_number(void **state)
{
    (void)state;
    AUTO_STR struct str whole = {0};
    struct trials_line line = suggestion(0);
    trials_add_line(&whole, &line);
    write_raw(whole.text);
    write_raw("garbage\n");
    write_raw(whole.text);
    struct seen seen = {0};
    struct err err = {0};
    assert_int_equal(trials_read(folder, see, &seen, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(seen.count, 1);

    seen = (struct seen){.answer = ERR_CORRUPT};
    assert_int_equal(trials_read(folder, see, &seen, &err), ERR_CORRUPT);
    assert_string_equal(err.text, "trials.log: line 1: no such thing");
}

/* A disk that is full in the middle of a line, played by a limit on the size of files. */
static void what_could_not_be_written_whole_does_not_count(void **state)
{
    (void)state;
    AUTO_STR struct str whole = {0};
    struct trials_line line = suggestion(0);
    trials_add_line(&whole, &line);
    struct trials_log *log = NULL;
    assert_int_equal(trials_open(folder, &log, NULL), ERR_OK);
    assert_int_equal(trials_append(log, &whole, NULL), ERR_OK);
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    struct rlimit small = {.rlim_cur = whole.size + 20, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    struct err err = {0};
    assert_int_not_equal(trials_append(log, &whole, &err), ERR_OK);
    setrlimit(RLIMIT_FSIZE, &before);
    struct seen seen = {0};
    assert_int_equal(trials_read(folder, see, &seen, NULL), ERR_OK);
    assert_int_equal(seen.count, 1);
    assert_int_equal(trials_append(log, &whole, NULL), ERR_OK);
    trials_close(log);
    seen = (struct seen){0};
    assert_int_equal(trials_read(folder, see, &seen, NULL), ERR_OK);
    assert_int_equal(seen.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_line_reads_back_the_same),
        cmocka_unit_test(doubles_come_back_bit_for_bit),
        cmocka_unit_test(lines_that_make_no_sense_are_refused),
        cmocka_unit_test_setup_teardown(what_was_appended_is_read_in_order, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_half_written_last_line_is_left_out_and_then_cut_off,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_damaged_line_is_named_by_its_number, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_could_not_be_written_whole_does_not_count, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
