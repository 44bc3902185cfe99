#include "cli/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct view_row rows[] = {
    {.name = "prepare", .tasks = 100, .succeeded = 100, .ready = true, .ended = true},
    {.name = "train-with-a-very-long-name-indeed",
     .tasks = 1000,
     .succeeded = 400,
     .failed = 7,
     .running = 2,
     .retrying = 3,
     .ready = true},
    {.name = "infer", .tasks = 300},
};

static void test_a_view_shows_bars_counts_and_the_time_left(void **state)
{
    (void)state;
    struct view view = {.rows = rows,
                        .row_count = 3,
                        .title = "mnist-1",
                        .elapsed_ms = 65000,
                        .rate = 10,
                        .width = 100,
                        .height = 24};
    struct str out = {0};
    assert_int_equal(view_draw(&out, &view), 4);
    assert_non_null(strstr(str_text(&out), "##############################"));
    assert_non_null(strstr(str_text(&out), "407/1000"));
    assert_non_null(strstr(str_text(&out), "2 running  3 to retry  7 failed"));
    assert_non_null(strstr(str_text(&out), "0/300  waiting"));
    assert_non_null(strstr(str_text(&out), "mnist-1  1m05s  10 tasks/s  about 1m29s left"));
    assert_null(strstr(str_text(&out), "\033"));
    str_release(&out);
}

static void test_no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    for (int colour = 0; colour < 2; colour++) {
        for (int width = 1; width < 140; width++) {
            struct view view = {.rows = rows,
                                .row_count = 3,
                                .title = "mnist-1",
                                .elapsed_ms = 65000,
                                .rate = 10,
                                .width = width,
                                .height = 24,
                                .colour = colour,
                                .utf8 = colour};
            struct str out = {0};
            view_draw(&out, &view);
            const char *line = str_text(&out);
            for (const char *end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
                assert_in_range(view_width(line, (size_t)(end - line)), 0, width);
                line = end + 1;
            }
            assert_string_equal(line, "");
            str_release(&out);
        }
    }
}

static void test_a_low_terminal_shows_what_is_at_work(void **state)
{
    (void)state;
    struct view_row many[50];
    for (int i = 0; i < 50; i++) {
        many[i] = (struct view_row){
            .name = i == 30 ? "busy" : "idle", .tasks = 10, .running = i == 30, .ready = i == 30};
    }
    for (int height = 4; height < 40; height++) {
        struct view view = {
            .rows = many, .row_count = 50, .title = "t", .width = 80, .height = height};
        struct str out = {0};
        int lines = view_draw(&out, &view);
        assert_in_range(lines, 1, height);
        assert_non_null(strstr(str_text(&out), "busy"));
        assert_non_null(strstr(str_text(&out), "more experiments"));
        str_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_view_shows_bars_counts_and_the_time_left),
        cmocka_unit_test(test_no_line_is_wider_than_the_terminal),
        cmocka_unit_test(test_a_low_terminal_shows_what_is_at_work),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
