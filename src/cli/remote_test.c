/* The parts of the commands that need no server: problems, tables, paths, names, searches. */
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/nodes_table.h"
#include "cli/search.h"
#include "cli/standing.h"
#include "cli/submit.h"
#include "cli/task_name.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

/* Commands that cli.c and look.c name. */
const struct cli_command cmd_list, cmd_logs, cmd_tasks;

static void test_a_problem_becomes_a_line_and_an_exit_code(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *body;
        int exit_code;
        const char *text;
    } cases[] = {
        {404, "{\"detail\":\"there is no workflow x\"}", 2, "drover: there is no workflow x\n"},
        {400, "{\"title\":\"Bad Request\"}", 2, "drover: Bad Request\n"},
        {500, "{\"detail\":\"oops\"}", 1, "drover: oops\n"},
        {503, "", 1,
         "drover: the server answered 503 with something that is not JSON; is it a drover "
         "server?\n"},
        {418, "{}", 2, "drover: the server answered 418\n"},
        {429, "{\"detail\":\"too many\"}", 1, "drover: too many\n"},
        {422,
         "{\"detail\":\"x\",\"errors\":[{\"file\":\"a.yaml\",\"line\":3,\"column\":5,\"message\":"
         "\"bad\"},{\"file\":\"a.yaml\",\"line\":0,\"column\":0,\"message\":\"worse\"}]}",
         2, "a.yaml:3:5: bad\na.yaml: worse\n"},
        {422, "{\"detail\":\"\\u001b[31mred\",\"errors\":[]}", 2, "drover: ?[31mred\n"},
        {422, "{\"errors\":7}", 2, "drover: the server answered 422\n"},
        {502, "<html>", 1,
         "drover: the server answered 502 with something that is not JSON; is it a drover "
         "server?\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str out = {0};
        assert_int_equal(
            explain_problem(cases[i].status, cases[i].body, strlen(cases[i].body), &out),
            cases[i].exit_code);
        assert_string_equal(str_text(&out), cases[i].text);
        str_release(&out);
    }
    struct str out = {0};
    assert_int_equal(explain_problem(401, "{\"detail\":\"no\"}", 15, &out), 2);
    assert_non_null(strstr(str_text(&out), "DROVER_TOKEN"));
    str_release(&out);
}

static void test_times_are_read_to_the_millisecond(void **state)
{
    (void)state;
    assert_true(standing_time_ms("1970-01-01T00:00:00Z") == 0);
    assert_true(standing_time_ms("1970-01-01T00:00:01.250Z") == 1250);
    assert_true(standing_time_ms("2026-11-15T09:35:56.123456Z") == 1794735356123);
    static const char *const wrong[] = {"",
                                        "now",
                                        "2026-11-15",
                                        "2026-11-15T09:35:56",
                                        "2026-11-15T09:35:56+01:00",
                                        "2026-11-15T9:35:56Z"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(standing_time_ms(wrong[i]) == -1);
    }
}

static const char status_text[] =
    "{\"id\":\"m-3\",\"state\":\"running\",\"state_folder\":\"/srv/m-3\",\"created_at\":"
    "\"2026-11-15T09:35:56.123Z\",\"waiting_for\":\"gpu k80\",\"experiments\":["
    "{\"name\":\"prepare\",\"tasks\":4,\"succeeded\":4,\"failed\":0,\"running\":0,\"attempts\":4},"
    "{\"name\":\"train\",\"tasks\":10,\"succeeded\":2,\"failed\":1,\"cancelled\":1,\"running\":3,"
    "\"queued\":3,\"attempts\":7}]}";

static void test_a_status_is_summed_up(void **state)
{
    (void)state;
    struct jread doc = {0};
    struct standing standing;
    assert_int_equal(jread_parse(&doc, status_text, strlen(status_text), NULL), ERR_OK);
    standing_read(doc.root, &standing);
    assert_int_equal(standing.row_count, 2);
    assert_int_equal(standing.tasks, 14);
    assert_int_equal(standing.succeeded, 6);
    assert_int_equal(standing.done, 8);
    assert_false(standing.ended);
    assert_true(standing.rows[0].ended && !standing.rows[1].ended && standing.rows[1].ready);
    standing_release(&standing);

    struct str out = {0};
    standing_add_line(&out, doc.root);
    assert_string_equal(str_text(&out), "m-3                      running             6 of 14      "
                                        "   2026-11-15T09:35:56Z\n");
    str_clear(&out);
    standing_add_text(&out, doc.root, NULL, 1500, NULL);
    assert_non_null(strstr(str_text(&out), "waiting for: gpu k80"));
    assert_non_null(strstr(str_text(&out),
                           "running: 6 of 14 tasks succeeded in 1.5s; state and logs in /srv/m-3"));
    assert_int_equal(standing_name_columns(doc.root), 9); /* prepare/3 */
    str_release(&out);
    jread_release(&doc);
}

static void test_answers_that_make_no_sense_still_make_a_table(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "null",
        "{\"experiments\":[1,{},{\"tasks\":0,\"succeeded\":5}]}",
        "{\"id\":7,\"state\":[],\"experiments\":{\"a\":1}}",
        "{\"experiments\":[{\"name\":\"\\n\\u001b[2J\",\"tasks\":18446744073709551615}]}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct jread doc = {0};
        struct str out = {0};
        assert_int_equal(jread_parse(&doc, texts[i], strlen(texts[i]), NULL), ERR_OK);
        standing_add_line(&out, doc.root);
        standing_add_text(&out, doc.root, doc.root, -1, "s");
        standing_add_task(&out, doc.root, 4);
        assert_null(strchr(str_text(&out), '\033'));
        str_release(&out);
        jread_release(&doc);
    }
}

static void test_nodes_line_up_by_name(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"name\":\"gpu-1\",\"state\":\"here\",\"slots\":8,\"tasks\":3,\"cpu\":8,"
        "\"memory_bytes\":34359738368,\"gpus\":2,\"gpu\":\"t4\",\"labels\":[\"node=gpu-1\","
        "\"zone=a\",\"fast\"],\"usage\":{\"cpu\":2.0,\"memory_bytes\":1610612736},"
        "\"price_hour\":0.35,\"heard_at\":\"1970-01-01T00:01:39.000Z\"},"
        "{\"name\":\"b\",\"state\":\"suspect\",\"slots\":12,\"tasks\":0,\"memory_bytes\":1024,"
        "\"heard_at\":\"1970-01-01T00:00:40.000Z\"},"
        "{\"name\":\"old\",\"state\":\"left\"}]";
    static const char expected[] =
        "NAME   STATE    SLOTS  BUSY  CPU%       MEM  GPU    LABELS       PRICE  HEARD\n"
        "b      suspect     12     0     -      1.0K  -      -                -  1m00s\n"
        "gpu-1  here         8     3    25  1.5G/32G  2x t4  zone=a,fast   0.35    now\n";
    struct jread doc = {0};
    struct str out = {0};
    struct nodes_table table = {.now_ms = 100000};
    assert_int_equal(jread_parse(&doc, text, strlen(text), NULL), ERR_OK);
    for (const struct jnode *node = jread_first(doc.root); node; node = node->next) {
        nodes_table_add(&table, node);
    }
    assert_int_equal(table.shown, 2);
    assert_int_equal(table.hidden, 1);
    nodes_table_print(&table, &out);
    assert_string_equal(str_text(&out), expected);
    nodes_table_release(&table);
    str_release(&out);
    jread_release(&doc);
}

static void test_sizes_are_short(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0"},          {1023, "1023"},       {1024, "1.0K"},     {10240, "10K"},
                 {1048575, "1.0M"}, {16655000000, "16G"}, {UINT64_MAX, "16E"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str out = {0};
        nodes_table_add_bytes(&out, cases[i].bytes);
        assert_string_equal(str_text(&out), cases[i].text);
        str_release(&out);
    }
}

static void test_a_submission_is_one_path(void **state)
{
    (void)state;
    static const char *const sets[] = {"lr=0.1", "a.b=x y&z"};
    uint64_t seed = UINT64_MAX;
    struct submit submit = {.file = "my recipe.yaml",
                            .folder = "/home/you/work",
                            .sets = sets,
                            .set_count = 2,
                            .seed = &seed,
                            .no_containers = true,
                            .ignore_hardware = true};
    struct str path = {0};
    submit_add_path(&path, &submit, "abc");
    assert_string_equal(str_text(&path),
                        "/api/v1/workflows?folder=%2Fhome%2Fyou%2Fwork&file=my%20recipe.yaml"
                        "&code=abc&seed=18446744073709551615&set=lr%3D0.1&set=a.b%3Dx%20y%26z"
                        "&no_containers=1&ignore_hardware=1");
    str_release(&path);
}

static void test_a_task_has_a_name(void **state)
{
    (void)state;
    struct task_name name = {0};
    assert_true(task_name_parse("train/17", &name));
    assert_null(name.run);
    assert_string_equal(name.experiment, "train");
    assert_int_equal(name.index, 17);
    struct str path = {0};
    task_name_add_path(&path, &name);
    assert_string_equal(str_text(&path), "/tasks/train/17");
    str_release(&path);
    task_name_release(&name);
    assert_true(task_name_parse("m-3/train/0", &name));
    assert_string_equal(name.run, "m-3");
    task_name_release(&name);
    static const char *const wrong[] = {"",
                                        "train",
                                        "train/",
                                        "/3",
                                        "train/x",
                                        "a/b/c/3",
                                        "//3",
                                        "train/-1",
                                        "w//3",
                                        "/train/3",
                                        "train/99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(task_name_parse(wrong[i], &name));
        task_name_release(&name);
    }
}

/* --- searching ------------------------------------------------------------------------------ */

static bool note_hit(void *context, const struct search_hit *hit)
{
    struct str *out = context;
    str_addf(out, "%u:", (unsigned)hit->line);
    str_add_bytes(out, hit->text, hit->size < 20 ? hit->size : 20);
    str_add_char(out, ';');
    return hit->line < 90000;
}

static void search(const struct str *content, const char *text, bool regex, struct str *out)
{
    char path[] = "/tmp/drover-search.XXXXXX";
    int fd = mkstemp(path);
    uint64_t lines = 0;
    struct search_pattern *pattern = NULL;
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, str_text(content), content->size, NULL), ERR_OK);
    close(fd);
    assert_int_equal(search_pattern_create(text, regex, &pattern, NULL), ERR_OK);
    search_file(path, pattern, (struct search_hit){0}, &lines, note_hit, out);
    search_pattern_destroy(pattern);
    unlink(path);
}

static void test_lines_are_found_with_their_numbers(void **state)
{
    (void)state;
    struct str content = {0};
    struct str out = {0};
    str_add(&content, "one\ntwo needle\n\nneedle\nlast needle");
    search(&content, "needle", false, &out);
    assert_string_equal(str_text(&out), "2:two needle;4:needle;5:last needle;");
    str_clear(&out);
    search(&content, "^(one|last)", true, &out);
    assert_string_equal(str_text(&out), "1:one;5:last needle;");
    str_clear(&out);
    search(&content, "ne.dle", false, &out);
    assert_string_equal(str_text(&out), "");
    str_release(&out);
    str_release(&content);
}

static void test_long_lines_and_many_of_them_are_searched_in_little_memory(void **state)
{
    (void)state;
    struct str content = {0};
    struct str out = {0};
    str_add_repeat(&content, "x", 200000);
    str_add(&content, "\n");
    for (int i = 0; i < 50000; i++) {
        str_addf(&content, i % 10000 == 0 ? "needle %d\n" : "hay %d\n", i);
    }
    search(&content, "needle", false, &out);
    assert_string_equal(str_text(&out), "2:needle 0;10002:needle 10000;20002:needle 20000;"
                                        "30002:needle 30000;40002:needle 40000;");
    str_release(&out);
    str_release(&content);
}

static void test_a_wrong_expression_is_refused(void **state)
{
    (void)state;
    struct search_pattern *pattern = NULL;
    struct err err = {0};
    assert_int_equal(search_pattern_create("(", true, &pattern, &err), ERR_INVALID);
    assert_int_equal(search_pattern_create("(", false, &pattern, &err), ERR_OK);
    search_pattern_destroy(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_problem_becomes_a_line_and_an_exit_code),
        cmocka_unit_test(test_times_are_read_to_the_millisecond),
        cmocka_unit_test(test_a_status_is_summed_up),
        cmocka_unit_test(test_answers_that_make_no_sense_still_make_a_table),
        cmocka_unit_test(test_nodes_line_up_by_name),
        cmocka_unit_test(test_sizes_are_short),
        cmocka_unit_test(test_a_submission_is_one_path),
        cmocka_unit_test(test_a_task_has_a_name),
        cmocka_unit_test(test_lines_are_found_with_their_numbers),
        cmocka_unit_test(test_long_lines_and_many_of_them_are_searched_in_little_memory),
        cmocka_unit_test(test_a_wrong_expression_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
