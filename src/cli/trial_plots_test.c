#include "cli/trial_plots.h"

#include "base/mem.h"
#include "base/rng.h"
#include "cli/plot_boxes.h"
#include "cli/trial_svg.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMS = 5, PICTURES = 6 };

static const char *const optimizers[] = {"sgd", "adam", "rmsprop", "a-rather-long-name"};
static const struct trial_param params[PARAMS] = {
    {.name = "learning_rate", .kind = TRIAL_LOG},
    {.name = "batch", .kind = TRIAL_NUMBER},
    {.name = "optimizer", .kind = TRIAL_CATEGORY, .choices = optimizers, .choice_count = 4},
    {.name = "momentum", .kind = TRIAL_NUMBER},
    {.name = "a_long_parameter_name_that_must_be_cut", .kind = TRIAL_NUMBER},
};

struct search {
    struct trial_table table;
    double *values;
    double *results;
    double *times;
    double *sizes;
    struct importance importance;
};

/* A search with a conditional parameter, failures and results far off. */
static void search_init(struct search *search, size_t count, uint64_t seed)
{
    struct rng rng = {.state = seed};
    search->values = mem_array(count * PARAMS, sizeof(double));
    search->results = mem_array(count, sizeof(double));
    search->times = mem_array(count, sizeof(double));
    search->sizes = mem_array(count, sizeof(double));
    for (size_t t = 0; t < count; t++) {
        double *x = search->values + t * PARAMS;
        x[0] = pow(10, -5 + 4 * rng_unit(&rng));
        x[1] = 16 * (1 + (double)rng_below(&rng, 16));
        x[2] = (double)rng_below(&rng, 4);
        x[3] = x[2] == 0 ? rng_unit(&rng) : (double)NAN;
        x[4] = rng_unit(&rng);
        double off = log10(x[0]) + 3;
        search->results[t] = 0.1 + 0.1 * off * off + 0.05 * x[2] + 0.02 * rng_unit(&rng);
        if (rng_below(&rng, 20) == 0) {
            search->results[t] = rng_below(&rng, 2) ? (double)NAN : 1000 * rng_unit(&rng);
        }
        search->times[t] = x[1] + 100 * rng_unit(&rng);
        search->sizes[t] = x[4] * 10;
    }
    search->table = (struct trial_table){.params = params,
                                         .param_count = PARAMS,
                                         .values = search->values,
                                         .objective = search->results,
                                         .trial_count = count,
                                         .metric = "loss"};
    search->importance = (struct importance){.main = {0.5, 0.01, 0.2, 0.001, 0.1},
                                             .pairs = {{0, 2, 0.1}, {1, 3, 0.02}},
                                             .pair_count = 2,
                                             .rest = 0.069,
                                             .fit = 0.9,
                                             .used = count};
}

static void search_release(struct search *search)
{
    free(search->values);
    free(search->results);
    free(search->times);
    free(search->sizes);
}

static void draw(const struct search *search, int picture, struct str *out)
{
    const struct trial_table *table = &search->table;
    const struct trial_goal goals[] = {{"loss", table->maximize, search->results},
                                       {"time (s)", false, search->times},
                                       {"size (MB)", true, search->sizes}};
    switch (picture) {
    case 0:
        trial_plot_history(table, out);
        break;
    case 1:
        trial_plot_parallel(table, out);
        break;
    case 2:
        trial_plot_slices(table, out);
        break;
    case 3:
        trial_plot_importance(table, &search->importance, out);
        break;
    default:
        trial_plot_pareto(goals, picture == 4 ? 2 : 3, NULL, table->trial_count, out);
        break;
    }
}

/* Tags open and close in order, every & begins an entity, no number is NaN or infinite. */
static void assert_well_formed(const char *svg)
{
    const char *stack[32] = {0};
    size_t lengths[32] = {0};
    size_t depth = 0;
    for (const char *at = svg; *at; at++) {
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        assert_true(*at != '&' || at[1] == '#');
        if (*at != '<') {
            continue;
        }
        const char *end = strchr(at, '>');
        assert_non_null(end);
        CHECK(end);
        const char *name = at + 1 + (at[1] == '/');
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
        for (const char *in = at; in < end; in++) {
            assert_true(memcmp(in, "nan", 3) != 0 && memcmp(in, "inf", 3) != 0);
        }
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

static void assert_has(const struct str *svg, const char *text)
{
    if (!strstr(str_text(svg), text)) {
        print_message("no '%s' in the picture\n", text);
        assert_true(false);
    }
}

/* Every text that is not turned has a box of its own inside the picture. */
static void assert_texts_apart(const char *svg)
{
    struct plot_box boxes[512];
    size_t count = 0;
    double width = 0;
    double height = 0;
    assert_int_equal(
        sscanf(strstr(svg, "viewBox=\"0 0 "), "viewBox=\"0 0 %lf %lf", &width, &height), 2);
    for (const char *at = svg; (at = strstr(at, "<text class=\"t")) != NULL; at++) {
        if (at - svg > 5 && memcmp(at - 3, ")\">", 3) == 0) {
            continue;
        }
        double x = 0;
        double y = 0;
        char anchor[8] = "";
        char text[256] = "";
        const char *place = strstr(at, " x=\"");
        CHECK(place);
        if (sscanf(place, " x=\"%lf\" y=\"%lf\" text-anchor=\"%7[a-z]\">%255[^<]", &x, &y, anchor,
                   text) != 4 ||
            (x == 0 && y == 0)) {
            continue; /* empty, or turned */
        }
        bool small = memcmp(at + 14, " s", 2) == 0;
        int font = small ? TRIAL_SVG_SMALL : TRIAL_SVG_FONT;
        double w = 0.85 * trial_svg_text_width(text, font); /* it is a generous estimate */
        double left = x - (anchor[0] == 'e' ? w : anchor[0] == 'm' ? w / 2 : 0);
        struct plot_box box = {left, y - 0.75 * font, w, 0.9 * font};
        if (box.x < 0 || box.x + box.w > width || box.y < 0 || box.y + box.h > height) {
            print_message("'%s' leaves the picture\n", text);
            assert_true(false);
        }
        for (size_t i = 0; i < count; i++) {
            if (plot_boxes_overlap(box, boxes[i])) {
                print_message("'%s' at %g %g lies on another text\n", text, x, y);
                assert_true(false);
            }
        }
        assert_true(count < 512);
        boxes[count++] = box;
    }
    assert_true(count > 5);
}

static void test_pictures_are_whole_and_the_same_each_time(void **state)
{
    (void)state;
    struct search search;
    search_init(&search, 300, 1);
    for (int maximize = 0; maximize < 2; maximize++) {
        search.table.maximize = maximize;
        for (int picture = 0; picture < PICTURES; picture++) {
            AUTO_STR struct str svg = {0};
            AUTO_STR struct str again = {0};
            draw(&search, picture, &svg);
            draw(&search, picture, &again);
            assert_string_equal(str_text(&svg), str_text(&again));
            assert_well_formed(str_text(&svg));
            assert_texts_apart(str_text(&svg));
            assert_has(&svg, "prefers-color-scheme:dark");
            assert_has(&svg, "@media print");
            assert_has(&svg, "loss");
            assert_null(strstr(str_text(&svg), "http://www.w3.org/1999/xlink"));
        }
    }
    search_release(&search);
}

static void test_history_names_the_best_and_counts_failures(void **state)
{
    (void)state;
    struct search search;
    search_init(&search, 4, 1);
    memcpy(search.results, (double[]){0.5, (double)NAN, 0.25, 0.75}, 4 * sizeof(double));
    search.table.numbers = (uint64_t[]){10, 11, 12, 13};
    AUTO_STR struct str svg = {0};
    draw(&search, 0, &svg);
    assert_has(&svg, ">0.25, trial 12<");
    assert_has(&svg, ">failed (1)<");
    assert_has(&svg, ">best so far<");
    str_clear(&svg);
    search.table.maximize = true;
    draw(&search, 0, &svg);
    assert_has(&svg, ">0.75, trial 13<");
    search_release(&search);
}

static void test_every_parameter_has_its_axis_panel_and_bar(void **state)
{
    (void)state;
    struct search search;
    search_init(&search, 100, 2);
    for (int picture = 1; picture <= 3; picture++) {
        AUTO_STR struct str svg = {0};
        draw(&search, picture, &svg);
        for (size_t p = 0; p < PARAMS - 1; p++) {
            assert_has(&svg, params[p].name);
        }
        assert_has(&svg, "a_long_para");
    }
    AUTO_STR struct str svg = {0};
    draw(&search, 1, &svg);
    assert_has(&svg, ">absent<");
    assert_has(&svg, ">failed<");
    assert_has(&svg, ">rmsprop<");
    str_clear(&svg);
    draw(&search, 3, &svg);
    assert_has(&svg, "learning_rate \xc3\x97 optimizer");
    const char *first = strstr(str_text(&svg), ">learning_rate<");
    const char *second = strstr(str_text(&svg), ">optimizer<");
    assert_true(first && second && first < second); /* 50 % before 20 % */
    assert_has(&svg, ">50.0 %<");
    search.importance.fit = 0.1;
    str_clear(&svg);
    draw(&search, 3, &svg);
    assert_has(&svg, "too little to conclude from");
    search_release(&search);
}

static void test_the_front_is_marked_and_labelled(void **state)
{
    (void)state;
    static const double loss[] = {0.3, 0.2, 0.1, 0.25, (double)NAN};
    static const double time[] = {10, 20, 30, 40, 1};
    const struct trial_goal goals[] = {{"loss", false, loss}, {"time (s)", false, time}};
    AUTO_STR struct str svg = {0};
    trial_plot_pareto(goals, 2, (uint64_t[]){100, 101, 102, 103, 104}, 5, &svg);
    assert_has(&svg, "5 trials, 3 on the front, 1 failed");
    assert_has(&svg, ">100<");
    assert_has(&svg, ">101<");
    assert_has(&svg, ">102<");
    assert_null(strstr(str_text(&svg), ">103<"));
    assert_has(&svg, "time (s) (lower is better)");
}

static void test_empty_single_and_failed_searches_are_drawn_too(void **state)
{
    (void)state;
    for (size_t count = 0; count < 3; count++) {
        for (int failed = 0; failed < 2; failed++) {
            struct search search;
            search_init(&search, count, 3);
            for (size_t t = 0; t < count && failed; t++) {
                search.results[t] = (double)NAN;
            }
            for (int picture = 0; picture < PICTURES; picture++) {
                AUTO_STR struct str svg = {0};
                draw(&search, picture, &svg);
                assert_well_formed(str_text(&svg));
            }
            search_release(&search);
        }
    }
}

static void test_hostile_names_and_numbers_make_well_formed_pictures(void **state)
{
    (void)state;
    static const char *const choices[] = {"<script>", "\xff\xfe\x01", "&\"'", ""};
    static const struct trial_param odd_params[PARAMS] = {
        {.name = "]]>", .kind = TRIAL_LOG},
        {.name = "", .kind = TRIAL_NUMBER},
        {.name = "\xef\xbf\xbf", .kind = TRIAL_CATEGORY, .choices = choices, .choice_count = 4},
        {.name = "<svg>", .kind = TRIAL_CATEGORY},
        {.name = "\xc3", .kind = TRIAL_NUMBER},
    };
    static const double odd[] = {
        (double)NAN, (double)INFINITY, -(double)INFINITY, 0, 1e308, -1e308, 5e-324, 1};
    struct rng rng = {.state = 4};
    print_message("seed 4\n");
    for (int round = 0; round < 60; round++) {
        struct search search;
        search_init(&search, 1 + (size_t)rng_below(&rng, 40), rng_next(&rng));
        search.table.params = odd_params;
        search.table.metric = "<&>";
        search.table.maximize = rng_below(&rng, 2);
        for (size_t i = 0; i < search.table.trial_count * PARAMS; i++) {
            search.values[i] = rng_below(&rng, 2) ? odd[rng_below(&rng, 8)] : search.values[i];
        }
        for (size_t t = 0; t < search.table.trial_count; t++) {
            search.results[t] = rng_below(&rng, 2) ? odd[rng_below(&rng, 8)] : search.results[t];
            search.times[t] = rng_below(&rng, 4) ? search.times[t] : odd[rng_below(&rng, 8)];
        }
        for (int picture = 0; picture < PICTURES; picture++) {
            AUTO_STR struct str svg = {0};
            draw(&search, picture, &svg);
            assert_well_formed(str_text(&svg));
            assert_null(strstr(str_text(&svg), "<script>"));
        }
        search_release(&search);
    }
}

static void test_many_trials_and_parameters_make_small_pictures(void **state)
{
    (void)state;
    struct search search;
    search_init(&search, 100000, 5);
    for (int picture = 0; picture < PICTURES; picture++) {
        AUTO_STR struct str svg = {0};
        draw(&search, picture, &svg);
        print_message("picture %d: %zu bytes\n", picture, svg.size);
        assert_true(svg.size < 1500000);
    }
    search_release(&search);

    enum { MANY = 200 };
    struct trial_param *many = mem_array(MANY, sizeof *many);
    double *values = mem_array((size_t)MANY * 20, sizeof *values);
    double results[20];
    for (size_t p = 0; p < MANY; p++) {
        many[p] = (struct trial_param){.name = "parameter"};
    }
    for (size_t i = 0; i < (size_t)MANY * 20; i++) {
        values[i] = (double)(i % 77);
        results[i % 20] = (double)i;
    }
    struct trial_table table = {.params = many,
                                .param_count = MANY,
                                .values = values,
                                .objective = results,
                                .trial_count = 20,
                                .metric = "m"};
    AUTO_STR struct str svg = {0};
    trial_plot_parallel(&table, &svg);
    assert_has(&svg, "the first 32 of 200 parameters");
    trial_plot_slices(&table, &svg);
    assert_has(&svg, "the first 24 of 200 parameters");
    trial_plot_importance(&table, &(struct importance){.used = 20, .fit = 1}, &svg);
    assert_has(&svg, "24 of 200 parameters");
    free(many);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_are_whole_and_the_same_each_time),
        cmocka_unit_test(test_history_names_the_best_and_counts_failures),
        cmocka_unit_test(test_every_parameter_has_its_axis_panel_and_bar),
        cmocka_unit_test(test_the_front_is_marked_and_labelled),
        cmocka_unit_test(test_empty_single_and_failed_searches_are_drawn_too),
        cmocka_unit_test(test_hostile_names_and_numbers_make_well_formed_pictures),
        cmocka_unit_test(test_many_trials_and_parameters_make_small_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
