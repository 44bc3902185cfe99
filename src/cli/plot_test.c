#include "cli/plot.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/draw.h"
#include "cli/plot_boxes.h"
#include "cli/view.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_ticks(double low, double high, bool log, const char *expected)
{
    struct plot_scale scale;
    plot_scale_init(&scale, low, high, log, 6);
    AUTO_STR struct str got = {0};
    for (size_t i = 0; i < scale.tick_count; i++) {
        str_addf(&got, "%s%s", i > 0 ? " " : "", scale.ticks[i].text);
    }
    assert_string_equal(str_text(&got), expected);
}

static void test_ticks_are_round_numbers(void **state)
{
    (void)state;
    check_ticks(0, 1, false, "0 0.2 0.4 0.6 0.8 1.0");
    check_ticks(-0.1, 0.31, false, "-0.1 0 0.1 0.2 0.3");
    check_ticks(0, 60000, false, "0 10k 20k 30k 40k 50k 60k");
    check_ticks(0, 2500000, false, "0 500k 1000k 1500k 2000k 2500k");
    check_ticks(0.6931, 0.6933, false, "0.69310 0.69315 0.69320 0.69325 0.69330");
    check_ticks(1, 1000, true, "1 10 100 1000");
    check_ticks(1, 30, true, "1 2 5 10 20");
    check_ticks(3, 3, false, "2.85 2.90 2.95 3.00 3.05 3.10 3.15");
    check_ticks(0, 0, false, "-1.0 -0.5 0 0.5 1.0");
}

static void test_ticks_of_any_range_lie_inside_it(void **state)
{
    (void)state;
    struct rng rng = {.state = 17};
    print_message("seed %" PRIu64 "\n", rng.state);
    for (int round = 0; round < 20000; round++) {
        double size = pow(10, 200 * rng_unit(&rng) - 100);
        double low = (rng_unit(&rng) - 0.5) * size;
        double high = low + (rng_below(&rng, 3) ? rng_unit(&rng) * size : fabs(low) * 1e-15);
        struct plot_scale scale;
        plot_scale_init(&scale, low, high, rng_below(&rng, 2), 2 + (size_t)rng_below(&rng, 12));
        assert_true(scale.tick_count >= 1 && scale.tick_count <= PLOT_TICKS_MAX);
        for (size_t i = 0; i < scale.tick_count; i++) {
            double place = plot_scale_place(&scale, scale.ticks[i].value);
            assert_true(place > -1e-6 && place < 1 + 1e-6);
        }
    }
}

static void test_labels_never_overlap(void **state)
{
    (void)state;
    struct rng rng = {.state = 5};
    print_message("seed %" PRIu64 "\n", rng.state);
    size_t placed = 0;
    for (int round = 0; round < 50; round++) {
        struct plot_boxes boxes = {.frame = {0, 0, 700, 400}};
        for (int i = 0; i < 60; i++) {
            struct plot_box label = {.w = 20 + 100 * rng_unit(&rng), .h = 16};
            placed +=
                plot_boxes_place(&boxes, 700 * rng_unit(&rng), 400 * rng_unit(&rng), 8, &label);
        }
        for (size_t i = 0; i < boxes.count; i++) {
            for (size_t k = 0; k < i; k++) {
                assert_false(plot_boxes_overlap(boxes.taken[i], boxes.taken[k]));
            }
        }
        plot_boxes_release(&boxes);
    }
    assert_true(placed > 2000);
}

/* Tags open and close in order, and every & begins an entity: what a strict reader insists on. */
static void assert_well_formed(const char *svg)
{
    const char *stack[32] = {0};
    size_t lengths[32] = {0};
    size_t depth = 0;
    for (const char *at = svg; *at; at++) {
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        if (*at == '&') {
            assert_true(at[1] == '#');
        }
        if (*at != '<' || at[1] == '!') {
            continue;
        }
        const char *end = strchr(at, '>');
        assert_non_null(end);
        const char *name = at + 1 + (at[1] == '/');
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
        if (at[1] == '/') {
            assert_true(depth > 0);
            depth--;
            CHECK(stack[depth]);
            assert_true(lengths[depth] == length && memcmp(stack[depth], name, length) == 0);
        } else if (end[-1] != '/') {
            assert_true(depth < 32);
            stack[depth] = name;
            lengths[depth++] = length;
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

static const struct draw_setup hostile[] = {
    {.time_s = 100, .cost = 1, .name = "<script>&\"'", .kind = "]]>", .on_front = true},
    {.time_s = 100, .cost = 1, .name = "\xff\xfe\x01", .kind = "]]>"},
    {.time_s = 1e90, .cost = 1e9, .name = "\xef\xbf\xbf", .kind = ""},
};

static void test_hostile_names_make_a_well_formed_picture(void **state)
{
    (void)state;
    AUTO_STR struct str svg = {0};
    AUTO_STR struct str text = {0};
    struct draw_target target = {
        .svg = &svg, .text = &text, .terminal = {.width = 60, .height = 10}};
    draw_cost_map(&target, hostile, 3, "USD");
    assert_well_formed(str_text(&svg));
    assert_null(strstr(str_text(&svg), "<script>"));
    assert_null(strchr(str_text(&text), '\x01'));
}

static void test_a_picture_has_axes_with_units_and_a_legend(void **state)
{
    (void)state;
    static const double engines[] = {1, 2, 4, 8};
    static const double rate[] = {2, 3.8, 5.4, 5.6};
    struct draw_engines drawing = {.engines = engines,
                                   .throughput = rate,
                                   .count = 4,
                                   .fit_engines = engines,
                                   .fit_throughput = rate,
                                   .fit_count = 4,
                                   .knee = 4,
                                   .unit = "epochs/min"};
    AUTO_STR struct str svg = {0};
    AUTO_STR struct str again = {0};
    AUTO_STR struct str text = {0};
    struct draw_target target = {
        .svg = &svg, .text = &text, .terminal = {.width = 60, .height = 10}};
    draw_engines(&target, &drawing);
    assert_well_formed(str_text(&svg));
    static const char *const expected[] = {"engines per server (count)", "throughput (epochs/min)",
                                           "knee: 4 engines", "measured", "fitted"};
    for (size_t i = 0; i < 5; i++) {
        assert_non_null(strstr(str_text(&svg), expected[i]));
        assert_non_null(strstr(str_text(&text), expected[i]));
    }
    assert_non_null(strstr(str_text(&svg), "prefers-color-scheme:dark"));
    draw_engines(&(struct draw_target){.svg = &again}, &drawing);
    assert_string_equal(str_text(&svg), str_text(&again));
}

static void test_the_terminal_drawing_keeps_to_its_width_and_to_ascii(void **state)
{
    (void)state;
    struct plot_point points[100];
    for (size_t i = 0; i < 100; i++) {
        points[i] = (struct plot_point){.x = (double)i, .y = sqrt((double)i)};
    }
    struct plot_series series = {.name = "root", .line = true, .points = points, .count = 100};
    struct plot plot = {
        .title = "t", .x_label = "x (1)", .y_label = "y (1)", .series = &series, .series_count = 1};
    for (int utf8 = 0; utf8 < 2; utf8++) {
        AUTO_STR struct str out = {0};
        plot_term(&plot, &(struct plot_terminal){.width = 70, .height = 12, .utf8 = utf8}, &out);
        const char *line = str_text(&out);
        while (*line) {
            size_t size = strcspn(line, "\n");
            assert_true(view_width(line, size) <= 70);
            for (size_t i = 0; i < size && !utf8; i++) {
                assert_true((unsigned char)line[i] < 0x80);
            }
            line += size + (line[size] ? 1 : 0);
        }
    }
}

static void test_a_long_curve_becomes_a_short_picture(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    struct plot_point *points = mem_array(COUNT, sizeof *points);
    for (size_t i = 0; i < COUNT; i++) {
        points[i] = (struct plot_point){.x = (double)i, .y = (double)(i % 7)};
    }
    struct plot_series series = {.line = true, .points = points, .count = COUNT};
    struct plot plot = {
        .title = "t", .x_label = "x", .y_label = "y", .series = &series, .series_count = 1};
    AUTO_STR struct str svg = {0};
    plot_svg(&plot, &svg);
    assert_true(svg.size < 100000);
    free(points);
}

static void test_an_empty_plot_is_drawn_too(void **state)
{
    (void)state;
    struct plot plot = {.title = "nothing", .x_label = "x", .y_label = "y"};
    AUTO_STR struct str out = {0};
    plot_svg(&plot, &out);
    assert_well_formed(str_text(&out));
    str_clear(&out);
    plot_term(&plot, &(struct plot_terminal){0}, &out);
    assert_true(out.size > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks_are_round_numbers),
        cmocka_unit_test(test_ticks_of_any_range_lie_inside_it),
        cmocka_unit_test(test_labels_never_overlap),
        cmocka_unit_test(test_hostile_names_make_a_well_formed_picture),
        cmocka_unit_test(test_a_picture_has_axes_with_units_and_a_legend),
        cmocka_unit_test(test_the_terminal_drawing_keeps_to_its_width_and_to_ascii),
        cmocka_unit_test(test_a_long_curve_becomes_a_short_picture),
        cmocka_unit_test(test_an_empty_plot_is_drawn_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
