/* Reading, ordering and printing of trials, and the numbers that pictures are made of. */
#include "cli/trial_set.h"

#include "base/csv.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/trial_best.h"
#include "cli/trial_columns.h"
#include "cli/trial_compare.h"
#include "cli/trial_picture.h"
#include "cli/trial_show.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct sample {
    struct jread doc;
    struct trial_set set;
};

static void sample_read(struct sample *sample, const char *text)
{
    *sample = (struct sample){0};
    assert_int_equal(jread_parse(&sample->doc, text, strlen(text), NULL), ERR_OK);
    trial_set_read(sample->doc.root, &sample->set);
}

static void sample_release(struct sample *sample)
{
    trial_set_release(&sample->set);
    jread_release(&sample->doc);
}

#define SEARCH(goals, metrics)                                                                     \
    "{\"experiment\":\"train\",\"algorithm\":\"auto\",\"chosen\":\"gp\",\"why\":\"auto: gp\","     \
    "\"metrics\":" metrics ",\"goals\":" goals ",\"trials\":40,\"parameters\":["                   \
    "{\"name\":\"lr\",\"kind\":\"log\",\"low\":0.0001,\"high\":1},"                                \
    "{\"name\":\"act\",\"kind\":\"categorical\",\"values\":[\"tanh\",\"relu\"]}]}"
#define ONE SEARCH("[\"maximize\"]", "[\"accuracy\"]")
#define TWO SEARCH("[\"maximize\",\"minimize\"]", "[\"accuracy\",\"time\"]")
#define TRIAL(number, state, values, params)                                                       \
    "{\"experiment\":\"train\",\"trial\":" number ",\"state\":\"" state "\",\"values\":" values    \
    ",\"params\":" params "}"

static void assert_order(const struct trial_search *search, const char *expected)
{
    AUTO_STR struct str got = {0};
    for (size_t i = 0; i < search->count; i++) {
        str_addf(&got, "%s%" PRIu64 "%s", i > 0 ? " " : "", search->trials[i].number,
                 search->trials[i].best ? "*" : "");
    }
    assert_string_equal(str_text(&got), expected);
}

static void test_the_best_is_first_and_failures_are_last(void **state)
{
    (void)state;
    struct sample sample;
    sample_read(
        &sample,
        "{\"id\":\"w-1\",\"experiments\":[" ONE
        "],\"trials\":[" TRIAL("0", "failed", "[null]", "{}") "," TRIAL("1", "succeeded", "[0.5]", "{}") "," TRIAL(
            "2", "running", "[]",
            "{}") "," TRIAL("3", "stopped", "[0.9]",
                            "{}") "," TRIAL("4", "diverged", "[0.99]",
                                            "{}") "," TRIAL("5", "succeeded", "[0.9]",
                                                            "{}") "," TRIAL("6", "running", "[0.7]",
                                                                            "{}") "," TRIAL("7",
                                                                                            "queue"
                                                                                            "d",
                                                                                            "[]",
                                                                                            "{}") "]}");
    const struct trial_search *search = trial_set_find(&sample.set, "train");
    assert_non_null(search);
    assert_order(search, "3* 5 6 1 2 7 0 4");
    assert_int_equal(search->rated, 4);
    assert_int_equal(search->open, 3);
    assert_null(trial_set_find(&sample.set, "other"));
    sample_release(&sample);
}

static void test_with_two_metrics_the_front_is_first(void **state)
{
    (void)state;
    struct sample sample;
    sample_read(&sample,
                "{\"experiments\":[" TWO
                "],\"trials\":[" TRIAL("0", "succeeded", "[0.5,1]", "{}") "," TRIAL(
                    "1", "succeeded", "[0.9,9]",
                    "{}") "," TRIAL("2", "succeeded", "[0.8,9]",
                                    "{}") "," TRIAL("3", "succeeded", "[0.7,5]",
                                                    "{}") "," TRIAL("4", "succeeded", "[0.7,null]",
                                                                    "{}") "]}");
    assert_order(&sample.set.searches[0], "1* 3* 0* 2 4");
    sample_release(&sample);
}

static void test_strange_answers_are_read_as_far_as_they_make_sense(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "null", "[]", "{\"experiments\":3,\"trials\":[1,2]}",
        "{\"experiments\":[1,null,{}],\"trials\":[{\"params\":[1]},{\"values\":{\"a\":1}}]}",
        "{\"experiments\":[{\"metrics\":[1,2,3,4,5,6,7,8,9,10],\"parameters\":[3,{},[]]}],"
        "\"trials\":[{\"trial\":-1,\"params\":{\"a\":[1,{}]},\"metrics\":[1]},3]}"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct sample sample;
        AUTO_STR struct str out = {0};
        sample_read(&sample, answers[i]);
        for (size_t s = 0; s < sample.set.count; s++) {
            const struct trial_search *search = &sample.set.searches[s];
            struct importance found;
            struct err err;
            trial_show_heading(&out, &sample.set, search);
            trial_show_table(&out, search, 10);
            trial_show_csv(&out, search, 10);
            trial_show_json(&out, search, 10);
            assert_int_equal(trial_picture_importance(search, 0, &found, &err), ERR_INVALID);
            for (int p = 0; p < TRIAL_PICTURE_COUNT; p++) {
                (void)!trial_picture_svg(search, (enum trial_picture)p, 0, &out, &err);
            }
            trial_picture_term(search, 0, &(struct plot_terminal){.width = 60}, &out);
        }
        sample_release(&sample);
    }
}

/* --- text --------------------------------------------------------------------------------------
 */

static void test_the_table_has_what_there_is(void **state)
{
    (void)state;
    struct sample sample;
    AUTO_STR struct str out = {0};
    sample_read(
        &sample,
        "{\"id\":\"w-1\",\"experiments\":[" ONE "],\"trials\":[" TRIAL(
            "0", "succeeded", "[0.912345678]",
            "{\"lr\":0.012345678901234567,\"act\":\"relu\"}") ","
                                                              "{\"experiment\":\"train\",\"trial\":"
                                                              "11,\"state\":\"failed\",\"values\":"
                                                              "[null],\"rung\":1,\"budget\":3,"
                                                              "\"reason\":\"exit 1\",\"params\":"
                                                              "{\"lr\":1e-3,\"act\":\"\\u001b[31m "
                                                              "and a very long value indeed\"}}]}");
    trial_show_heading(&out, &sample.set, &sample.set.searches[0]);
    trial_show_table(&out, &sample.set.searches[0], SIZE_MAX);
    assert_string_equal(
        str_text(&out),
        "w-1/train: maximize accuracy; auto: gp\n"
        "2 of 40 trials; 1 with a value, 1 without one\n"
        "trial  state      accuracy  rung  budget         lr                           act  why\n"
        "    0  succeeded  0.912346     -       -  0.0123457                          relu\n"
        "   11  failed            -     1       3       1e-3  ?[31m and a very long value~  exit "
        "1\n");
    sample_release(&sample);
}

static void test_csv_reads_back_as_it_was(void **state)
{
    (void)state;
    struct sample sample;
    AUTO_STR struct str out = {0};
    struct csv *csv = NULL;
    struct err err;
    sample_read(&sample,
                "{\"experiments\":[" ONE "],\"trials\":[{\"experiment\":\"train\",\"trial\":"
                "7,\"state\":\"succeeded\",\"values\":[0.1234567890123456789],\"rung\":0,"
                "\"budget\":null,\"task\":7,\"step\":27,\"reason\":null,\"params\":{\"lr\":"
                "1e-3,\"act\":\"a,\\\"b\\\"\\nc\"},\"metrics\":{\"accuracy\":0.1,\"loss, "
                "mean\":2}}]}");
    trial_show_csv(&out, &sample.set.searches[0], SIZE_MAX);
    assert_int_equal(csv_parse("x", str_text(&out), out.size, &csv, &err), ERR_OK);
    assert_int_equal(csv_row_count(csv), 1);
    static const char *const expected[][2] = {{"experiment", "train"},
                                              {"trial", "7"},
                                              {"state", "succeeded"},
                                              {"best", "true"},
                                              {"value", "0.1234567890123456789"},
                                              {"rung", "0"},
                                              {"budget", ""},
                                              {"task", "7"},
                                              {"step", "27"},
                                              {"reason", ""},
                                              {"params.lr", "1e-3"},
                                              {"params.act", "a,\"b\"\nc"},
                                              {"metrics.accuracy", "0.1"},
                                              {"metrics.loss, mean", "2"}};
    assert_int_equal(csv_column_count(csv), sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_string_equal(csv_column_name(csv, i), expected[i][0]);
        assert_string_equal(csv_text(csv, 0, i), expected[i][1]);
    }
    csv_destroy(csv);
    sample_release(&sample);
}

static void test_any_csv_field_reads_back(void **state)
{
    (void)state;
    struct rng rng = {.state = 4};
    print_message("seed %" PRIu64 "\n", rng.state);
    for (int round = 0; round < 2000; round++) {
        static const char letters[] = "ab,\"\n #;'";
        char text[8] = "";
        size_t size = 1 + (size_t)rng_below(&rng, 6);
        for (size_t i = 0; i < size; i++) {
            text[i] = letters[rng_below(&rng, sizeof letters - 1)];
        }
        text[0] = text[0] == ' ' || text[0] == '\n' ? 'x' : text[0]; /* the reader trims */
        text[size - 1] = text[size - 1] == ' ' || text[size - 1] == '\n' ? 'y' : text[size - 1];
        AUTO_STR struct str out = {0};
        struct csv *csv = NULL;
        struct err err;
        str_add(&out, "a,b\n");
        trial_show_csv_field(&out, text);
        str_add(&out, ",1\n");
        if (csv_parse("x", str_text(&out), out.size, &csv, &err) != ERR_OK) {
            fail_msg("%s: %s", err.text, str_text(&out));
        }
        assert_string_equal(csv_text(csv, 0, 0), text);
        csv_destroy(csv);
    }
}

static void test_json_lines_are_the_answer_and_say_which_is_best(void **state)
{
    (void)state;
    struct sample sample;
    AUTO_STR struct str out = {0};
    sample_read(&sample, "{\"experiments\":[" ONE "],\"trials\":[" TRIAL(
                             "0", "succeeded", "[0.10000000000000001]",
                             "{}") "," TRIAL("1", "succeeded", "[3]", "{\"a\":\"\\u00e9\"}") "]}");
    trial_show_json(&out, &sample.set.searches[0], SIZE_MAX);
    assert_string_equal(
        str_text(&out),
        "{\"experiment\":\"train\",\"trial\":1,\"state\":\"succeeded\",\"values\":[3],"
        "\"params\":{\"a\":\"\\u00e9\"},\"best\":true}\n"
        "{\"experiment\":\"train\",\"trial\":0,\"state\":\"succeeded\",\"values\":"
        "[0.10000000000000001],\"params\":{},\"best\":false}\n");
    sample_release(&sample);
}

/* --- columns -----------------------------------------------------------------------------------
 */

static void test_columns_are_numbers_or_words_in_their_order(void **state)
{
    (void)state;
    struct sample sample;
    struct arena arena = {0};
    struct trial_columns columns;
    sample_read(
        &sample,
        "{\"experiments\":[" ONE "],\"trials\":[" TRIAL(
            "2", "failed", "[null]",
            "{\"lr\":0.1,\"act\":\"relu\",\"x\":\"10\",\"one\":1,\"n\":"
            "5}") "," TRIAL("0", "succeeded", "[1]",
                            "{\"lr\":0.2,\"act\":\"tanh\",\"x\":\"9\","
                            "\"one\":1,\"n\":7}") "," TRIAL("1", "running", "[]",
                                                            "{\"lr\":0."
                                                            "3}") "," TRIAL("3", "succeeded", "[2]",
                                                                            "{\"lr\":0.4,\"act\":"
                                                                            "\"relu\",\"one\":1,"
                                                                            "\"n\":6}") "]}");
    trial_columns_make(&sample.set.searches[0], 0, &arena, &columns);
    const struct trial_table *table = &columns.table;
    assert_int_equal(table->trial_count, 3);
    assert_int_equal(table->numbers[0], 0);
    assert_int_equal(table->numbers[1], 2);
    assert_int_equal(table->numbers[2], 3);
    assert_true(isnan(table->objective[1]));
    assert_int_equal(table->param_count, 4); /* `one` says nothing */
    assert_string_equal(table->params[0].name, "lr");
    assert_int_equal(table->params[0].kind, TRIAL_LOG);
    assert_true(columns.params[0].low == 0.0001);
    assert_int_equal(table->params[1].kind, TRIAL_CATEGORY);
    assert_string_equal(table->params[1].choices[0], "tanh");
    assert_string_equal(table->params[2].choices[0], "10");
    assert_int_equal(table->params[3].kind, TRIAL_NUMBER);
    const double expected[] = {0.2, 0, 1, 7, 0.1, 1, 0, 5, 0.4, 1, NAN, 6};
    for (size_t i = 0; i < 12; i++) {
        assert_true(table->values[i] == expected[i] ||
                    (isnan(expected[i]) && isnan(table->values[i])));
    }
    arena_release(&arena);
    sample_release(&sample);
}

static void test_importance_is_given_by_the_columns_of_the_search(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    AUTO_STR struct str out = {0};
    struct rng rng = {.state = 9};
    str_add(&text, "{\"experiments\":[" ONE "],\"trials\":[");
    for (int i = 0; i < 80; i++) {
        double x = rng_unit(&rng);
        str_addf(&text,
                 "%s{\"experiment\":\"train\",\"trial\":%d,\"state\":\"succeeded\",\"values\":[%g],"
                 "\"params\":{\"same\":1,\"lr\":%g,\"act\":\"%s\",\"z\":%g}}",
                 i > 0 ? "," : "", i, 10 * x, rng_unit(&rng), i % 2 ? "relu" : "tanh", x);
    }
    str_add(&text, "]}");
    struct sample sample;
    struct importance found;
    sample_read(&sample, str_text(&text));
    const struct trial_search *search = &sample.set.searches[0];
    assert_int_equal(trial_picture_importance(search, 0, &found, NULL), ERR_OK);
    assert_int_equal(search->column_count, 4);
    assert_string_equal(search->columns[3].name, "z");
    assert_true(found.main[3] > 0.8);
    assert_true(found.main[0] < 0.1);
    trial_show_importance(&out, search, 0, &found);
    assert_non_null(strstr(str_text(&out), "fANOVA"));
    assert_non_null(strstr(str_text(&out), "\n  z "));
    sample_release(&sample);
}

static void test_the_best_line_changes_where_a_better_one_came(void **state)
{
    (void)state;
    struct sample sample;
    struct arena arena = {0};
    struct plot_point *points = NULL;
    sample_read(
        &sample,
        "{\"experiments\":[" ONE "],\"trials\":[" TRIAL("0", "succeeded", "[1]", "{}") "," TRIAL(
            "1", "succeeded", "[0]",
            "{}") "," TRIAL("2", "succeeded", "[3]",
                            "{}") "," TRIAL("3", "failed", "[null]",
                                            "{}") "," TRIAL("4", "running", "[]", "{}") "]}");
    assert_int_equal(trial_picture_best_line(&sample.set.searches[0], 0, &arena, &points), 4);
    const double expected[][2] = {{1, 1}, {3, 1}, {3, 3}, {4, 3}};
    for (size_t i = 0; i < 4; i++) {
        assert_true(points[i].x == expected[i][0]);
        assert_true(points[i].y == expected[i][1]);
    }
    arena_release(&arena);
    sample_release(&sample);
}

/* --- best and compare --------------------------------------------------------------------------
 */

static void test_a_command_is_what_one_would_type(void **state)
{
    (void)state;
#define GUARD "\\ncase $? in 0) ;; *) exit ;; esac\\n"
    static const char *const cases[][2] = {
        {"[\"/bin/sh\",\"-c\",\"python x.py --a 'b c'\"]", "python x.py --a 'b c'"},
        {"[\"/bin/sh\",\"-c\",\"a | b\\n\"]", "a | b"},
        {"[\"/bin/sh\",\"-c\",\"cd x\\n" GUARD "./y" GUARD "z\"]", "cd x && ./y && z"},
        {"[\"/bin/sh\",\"-c\",\"a # b" GUARD "c\"]",
         "/bin/sh -c 'a # b\ncase $? in 0) ;; *) exit ;; esac\nc'"},
        {"[\"bash\",\"-c\",\"a\"]", "bash -c a"},
        {"[\"a\",\"it's\",\"\",\"$x\"]", "a 'it'\\''s' '' '$x'"},
        {"[]", ""},
        {"3", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct jread doc = {0};
        AUTO_STR struct str out = {0};
        assert_int_equal(jread_parse(&doc, cases[i][0], strlen(cases[i][0]), NULL), ERR_OK);
        trial_best_command(&out, doc.root);
        assert_string_equal(str_text(&out), cases[i][1]);
        jread_release(&doc);
    }
}

static void test_searches_are_compared_after_as_many_trials(void **state)
{
    (void)state;
    struct sample a;
    struct sample b;
    struct trial_comparison comparison;
    AUTO_STR struct str out = {0};
    sample_read(&a,
                "{\"id\":\"a\",\"experiments\":[" ONE
                "],\"trials\":[" TRIAL("0", "succeeded", "[1]", "{}") "," TRIAL(
                    "1", "succeeded", "[4]", "{}") "," TRIAL("2", "succeeded", "[9]", "{}") "]}");
    sample_read(&b, "{\"id\":\"b\",\"experiments\":[" ONE
                    "],\"trials\":[" TRIAL("0", "failed", "[null]", "{}") "," TRIAL(
                        "1", "succeeded", "[5]", "{}") "," TRIAL("2", "running", "[]", "{}") "]}");
    const struct trial_entry entries[] = {{"a", &a.set.searches[0], 0},
                                          {"b", &b.set.searches[0], 0}};
    trial_compare(entries, 2, &comparison);
    assert_true(comparison.target == 5);
    assert_int_equal(comparison.outcomes[0].best_trial, 2);
    assert_int_equal(comparison.outcomes[0].reached, 3);
    assert_int_equal(comparison.outcomes[1].best_trial, 1);
    assert_int_equal(comparison.outcomes[1].reached, 2);
    assert_true(trial_compare_after(&comparison.outcomes[0], 2) == 4);
    assert_true(isnan(trial_compare_after(&comparison.outcomes[1], 1)));
    assert_true(trial_compare_after(&comparison.outcomes[1], 1000) == 5);
    trial_compare_json(&out, &comparison, (const char *const[]){"a", "b"});
    assert_non_null(strstr(str_text(&out), "\"reached\":2,\"curve\":[[2,5]]}\n"));
    assert_non_null(strstr(str_text(&out), "\"curve\":[[1,1],[2,4],[3,9]]}\n"));
    trial_compare_release(&comparison);
    sample_release(&a);
    sample_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_is_first_and_failures_are_last),
        cmocka_unit_test(test_with_two_metrics_the_front_is_first),
        cmocka_unit_test(test_strange_answers_are_read_as_far_as_they_make_sense),
        cmocka_unit_test(test_the_table_has_what_there_is),
        cmocka_unit_test(test_csv_reads_back_as_it_was),
        cmocka_unit_test(test_any_csv_field_reads_back),
        cmocka_unit_test(test_json_lines_are_the_answer_and_say_which_is_best),
        cmocka_unit_test(test_columns_are_numbers_or_words_in_their_order),
        cmocka_unit_test(test_importance_is_given_by_the_columns_of_the_search),
        cmocka_unit_test(test_the_best_line_changes_where_a_better_one_came),
        cmocka_unit_test(test_a_command_is_what_one_would_type),
        cmocka_unit_test(test_searches_are_compared_after_as_many_trials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
