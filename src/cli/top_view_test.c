#include "cli/top_view.h"

#include "base/mem.h"
#include "cli/screen.h"
#include "cli/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t now_ms = INT64_C(1800000000000);

static void parse(struct jread *doc, const char *text)
{
    assert_int_equal(jread_parse(doc, text, strlen(text), NULL), ERR_OK);
}

static void read_server(struct top *top, unsigned accepted, int64_t at_ms)
{
    char text[512];
    struct jread doc = {0};
    snprintf(text, sizeof text,
             "{\"version\":\"0.1.0\",\"began_at\":\"2027-01-15T07:00:00Z\",\"workflows\":7,"
             "\"trouble\":null,\"counts\":{\"accepted\":%u}}",
             accepted);
    parse(&doc, text);
    top_read_server(top, doc.root, "http://127.0.0.1:8080", at_ms);
    jread_release(&doc);
}

static void read_nodes(struct top *top, size_t count)
{
    AUTO_STR struct str text = {0};
    struct jread doc = {0};
    str_add(&text, "[");
    for (size_t i = 0; i < count; i++) {
        str_addf(&text,
                 "%s{\"name\":\"node-%zu\",\"state\":\"%s\",\"slots\":16,\"cpu\":16,\"tasks\":%zu,"
                 "\"memory_bytes\":68719476736,\"gpus\":%d,\"gpu\":\"h200\",\"price_hour\":0.5,"
                 "\"cost\":1.25,\"usage\":{\"cpu\":%.1f,\"memory_bytes\":%zu,\"net_in_bytes\":5000,"
                 "\"disk_read_bytes\":3000000,\"gpu\":%.2f}}",
                 i ? "," : "", i, i % 10 == 9 ? "suspect" : "here", i % 17, i % 2 ? 8 : 0,
                 (double)(i * 7 % 160) / 10, i * 1000000000 % 60000000000, (double)(i % 8));
    }
    str_add(&text, "]");
    parse(&doc, str_text(&text));
    top_read_nodes(top, doc.root);
    jread_release(&doc);
}

static void read_flows(struct top *top, size_t count, unsigned done)
{
    AUTO_STR struct str text = {0};
    struct jread doc = {0};
    str_add(&text, "[");
    for (size_t i = 0; i < count; i++) {
        str_addf(&text,
                 "%s{\"id\":\"sweep-of-learning-rates-%zu\",\"created_at\":"
                 "\"2027-01-15T07:59:00Z\",\"waiting_for\":%s,\"experiments\":["
                 "{\"name\":\"a\",\"tasks\":1000,\"succeeded\":%u,\"failed\":%zu,\"running\":64,"
                 "\"queued\":100},{\"name\":\"b\",\"tasks\":500,\"waiting\":500}]}",
                 i ? "," : "", i, i == 1 ? "\"3 nodes with a k80\"" : "null", done, i % 3);
    }
    str_add(&text, "]");
    parse(&doc, str_text(&text));
    top_read_flows(top, doc.root);
    jread_release(&doc);
}

static void make(struct top *top, size_t nodes, size_t flows)
{
    *top = (struct top){0};
    read_server(top, 1000, now_ms);
    read_nodes(top, nodes);
    read_flows(top, flows, 300);
}

/* Every line fits, and there are as many as were counted, and no more than fit. */
static void check_fits(const struct top *top, const struct top_screen *screen)
{
    AUTO_STR struct str out = {0};
    int lines = top_view_draw(&out, top, screen);
    int seen = 0;
    for (const char *at = str_text(&out); *at;) {
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        int width = view_width(at, (size_t)(end - at));
        if (width > (screen->width > 20 ? screen->width : 20)) {
            print_error("%d columns of %d: %.*s\n", width, screen->width, (int)(end - at), at);
            fail();
        }
        at = end + 1;
        seen++;
    }
    assert_int_equal(seen, lines);
    assert_true(screen->height == 0 || lines == screen->height);
    assert_true(screen->utf8 || !strpbrk(str_text(&out), "\x80\xe2\xc2"));
    assert_true(screen->colour || !strchr(str_text(&out), '\033'));
}

static void every_size_is_filled_and_not_exceeded(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 500};
    static const int widths[] = {1, 20, 40, 79, 80, 119, 120, 200, 500};
    static const int heights[] = {1, 2, 5, 10, 24, 60, 100};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            struct top top;
            make(&top, counts[i], counts[j]);
            for (int k = 0; k < 9 * 7 * 3 * 4; k++) {
                struct top_screen screen = {.width = widths[k % 9],
                                            .height = heights[k / 9 % 7],
                                            .focus = (enum top_focus)(k / 63 % 3),
                                            .colour = k / 189 % 2,
                                            .utf8 = k / 378 % 2,
                                            .scroll = (size_t)k,
                                            .silent_ms = k % 5 == 0 ? 3000 : 0};
                check_fits(&top, &screen);
            }
            top_release(&top);
        }
    }
}

static void draw(struct str *out, const struct top *top, int width, int height)
{
    struct top_screen screen = {.width = width, .height = height};
    str_clear(out);
    top_view_draw(out, top, &screen);
}

static void a_small_screen_shows_the_essential(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    make(&top, 3, 2);
    top_sort(&top, TOP_BY_NAME);
    draw(&out, &top, 80, 24);
    const char *text = str_text(&out);
    assert_non_null(strstr(text, "drover top  http://127.0.0.1:8080  up 1h00m"));
    assert_non_null(strstr(text, "128 running  1200 queued  600 done  1 failed"));
    assert_non_null(strstr(text, "3 here"));
    assert_non_null(strstr(text, "cost 3.75, 1.50/h"));
    assert_non_null(strstr(text, "sweep-of-learning-rates-1 "));
    assert_non_null(strstr(text, "300/1500"));
    assert_non_null(strstr(text, "node-1"));
    assert_non_null(strstr(text, "q quit"));
    top_release(&top);
}

static void a_large_screen_shows_more(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    make(&top, 12, 3);
    for (int i = 0; i < 50; i++) {
        top_history_add(&top.cpu, (double)(i % 10) / 10);
        top_history_add(&top.nodes[0].history, (double)(i % 10) / 10);
    }
    draw(&out, &top, 200, 60);
    const char *text = str_text(&out);
    assert_non_null(strstr(text, "version 0.1.0"));
    assert_non_null(strstr(text, "NET/S"));
    assert_non_null(strstr(text, "PRICE/H"));
    assert_non_null(strstr(text, "3 nodes with a k80"));
    assert_non_null(strstr(text, "all processors"));
    top_release(&top);
}

static void nothing_at_all_says_what_to_do(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    make(&top, 0, 0);
    draw(&out, &top, 80, 24);
    assert_non_null(strstr(str_text(&out), "no workflow is running"));
    assert_non_null(strstr(str_text(&out), "no node has joined"));
    assert_null(strstr(str_text(&out), "cost"));
    top_release(&top);
}

static void many_nodes_can_be_scrolled_to_the_last(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    make(&top, 500, 40);
    top_sort(&top, TOP_BY_NAME);
    struct top_screen screen = {.width = 80, .height = 24};
    top_view_draw(&out, &top, &screen);
    assert_non_null(strstr(str_text(&out), "... and "));
    assert_non_null(strstr(str_text(&out), "node-0 "));
    screen.scroll = top_view_scroll_max(&top, &screen);
    assert_true(screen.scroll > 400);
    str_clear(&out);
    top_view_draw(&out, &top, &screen);
    assert_non_null(strstr(str_text(&out), " 0 below"));
    assert_non_null(strstr(str_text(&out), "node-499")); /* suspect: behind those that are here */
    size_t first = 0;
    size_t rows = top_view_nodes(&top, &screen, &first);
    assert_int_equal(first + rows, 500);
    screen.focus = TOP_FLOWS;
    assert_int_equal(top_view_nodes(&top, &screen, &first), 0);
    top_release(&top);
}

static void plain_text_has_every_row(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    make(&top, 500, 40);
    draw(&out, &top, 100, 0);
    assert_non_null(strstr(str_text(&out), "node-123 "));
    assert_null(strstr(str_text(&out), "more"));
    assert_null(strstr(str_text(&out), "q quit"));
    top_release(&top);
}

static void trouble_is_seen(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    make(&top, 1, 1);
    free(top.trouble);
    top.trouble = mem_strdup("the disk is full");
    struct top_screen screen = {.width = 80, .height = 24, .silent_ms = 5000};
    top_view_draw(&out, &top, &screen);
    assert_non_null(strstr(str_text(&out), "no answer for 5.0s: the disk is full"));
    top_release(&top);
}

static void rates_come_from_two_looks(void **state)
{
    (void)state;
    struct top before;
    struct top top = {0};
    make(&before, 3, 2);
    top_history_add(&before.nodes[1].history, 0.25);
    int64_t average_ms = top_eta_ms(&before, &before.flows[0]);
    assert_int_equal(average_ms, 240000); /* 300 of 1500 in a minute */
    read_server(&top, 1500, now_ms + 2000);
    read_nodes(&top, 3);
    read_flows(&top, 2, 400);
    assert_true(top.rate < 0);
    top_merge(&top, &before);
    assert_float_equal(top.rate, 250, 0.01);
    assert_float_equal(top.flows[0].rate, 50, 0.01);
    assert_int_equal(top_eta_ms(&top, &top.flows[0]), 22000);
    assert_int_equal(top.nodes[1].history.count, 2);
    assert_float_equal(top_history_get(&top.nodes[1].history, 1), 0.25, 0.001);
    assert_int_equal(top.cpu.count, 1);
    assert_null(before.nodes);
    top_release(&top);
}

static void the_busiest_node_comes_first(void **state)
{
    (void)state;
    struct top top;
    make(&top, 20, 0);
    for (int order = 0; order < TOP_ORDERS; order++) {
        top_sort(&top, (enum top_order)order);
        assert_true(top.nodes[0].is_here);
        assert_false(top.nodes[19].is_here);
        assert_false(top.nodes[18].is_here);
    }
    top_sort(&top, TOP_BY_TASKS);
    assert_string_equal(top.nodes[0].name, "node-16");
    top_sort(&top, TOP_BY_NAME);
    assert_string_equal(top.nodes[2].name, "node-2");
    top_release(&top);
}

static void those_that_left_still_cost(void **state)
{
    (void)state;
    struct top top = {0};
    struct jread doc = {0};
    struct top_sums sums;
    parse(&doc, "[{\"name\":\"a\",\"state\":\"left\",\"cost\":2.5},"
                "{\"name\":\"b\\u001b[2J\",\"state\":\"away\",\"cost\":null,\"usage\":null}]");
    top_read_nodes(&top, doc.root);
    jread_release(&doc);
    assert_int_equal(top.node_count, 1);
    assert_null(strchr(top.nodes[0].name, '\033'));
    top_sum(&top, &sums);
    assert_float_equal(sums.cost, 2.5, 0.001);
    assert_int_equal(sums.away, 1);
    assert_int_equal(sums.here, 0);
    top_release(&top);
}

static void the_past_of_a_node_is_read_from_its_series(void **state)
{
    (void)state;
    struct top_node node = {.cpu_total = 4};
    struct jread doc = {0};
    parse(&doc, "[{\"cpu\":1},{\"cpu\":2},{\"cpu\":40}]");
    top_history_add(&node.history, 0.5);
    top_read_past(&node, doc.root);
    jread_release(&doc);
    assert_int_equal(node.history.count, 3);
    assert_float_equal(top_history_get(&node.history, 2), 0.25, 0.001);
    assert_float_equal(top_history_get(&node.history, 0), 1, 0.001);
    top_read_past(&node, NULL); /* nothing there: what was seen stays */
    assert_int_equal(node.history.count, 3);
    assert_true(node.has_past);
}

static void json_is_one_line(void **state)
{
    (void)state;
    struct top top;
    AUTO_STR struct str out = {0};
    struct jread doc = {0};
    make(&top, 5, 2);
    top_add_json(&out, &top);
    assert_ptr_equal(strchr(str_text(&out), '\n'), str_text(&out) + out.size - 1);
    parse(&doc, str_text(&out));
    assert_int_equal(jread_get(doc.root, "nodes")->count, 5);
    assert_int_equal(jread_get(doc.root, "workflows")->count, 2);
    assert_int_equal(jread_u64(doc.root, "running", 0), 128);
    assert_int_equal(jread_get(doc.root, "tasks_per_s")->kind, JREAD_NULL);
    jread_release(&doc);
    top_release(&top);
}

static void keys_are_read_one_by_one(void **state)
{
    (void)state;
    const char typed[] = "s\033[B\033[5~q";
    const int keys[] = {'s', SCREEN_DOWN, SCREEN_PAGE_UP, 'q'};
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        size_t used = 0;
        assert_int_equal(screen_read_key(typed + at, strlen(typed) - at, &used), keys[i]);
        at += used;
    }
    assert_int_equal(at, strlen(typed));
    assert_int_equal(screen_read_key("", 0, &at), SCREEN_NOTHING);
    assert_int_equal(screen_read_key("\033", 1, &at), SCREEN_LEAVE);
    assert_int_equal(screen_read_key("\033[1;5D", 6, &at), SCREEN_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_filled_and_not_exceeded),
        cmocka_unit_test(a_small_screen_shows_the_essential),
        cmocka_unit_test(a_large_screen_shows_more),
        cmocka_unit_test(nothing_at_all_says_what_to_do),
        cmocka_unit_test(many_nodes_can_be_scrolled_to_the_last),
        cmocka_unit_test(plain_text_has_every_row),
        cmocka_unit_test(trouble_is_seen),
        cmocka_unit_test(rates_come_from_two_looks),
        cmocka_unit_test(the_busiest_node_comes_first),
        cmocka_unit_test(those_that_left_still_cost),
        cmocka_unit_test(the_past_of_a_node_is_read_from_its_series),
        cmocka_unit_test(json_is_one_line),
        cmocka_unit_test(keys_are_read_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
