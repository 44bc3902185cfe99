#include "base/csv.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct csv *parse(const char *text)
{
    struct csv *csv = NULL;
    struct err err = {0};
    if (csv_parse("f.csv", text, strlen(text), &csv, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    return csv;
}

static void refuse(const char *text, size_t size, const char *why)
{
    struct csv *csv = NULL;
    struct err err = {0};
    assert_int_equal(csv_parse("f.csv", text, size, &csv, &err), ERR_INVALID);
    assert_string_equal(err.text, why);
    assert_null(csv);
}

static void test_fields_are_trimmed_and_know_their_lines(void **state)
{
    (void)state;
    struct csv *csv =
        parse("\xef\xbb\xbf# who\r\n\r\na, B ,\"c d\"\r\n1, 2 ,3\r\n\n# x\n,\"\", y z ");
    assert_int_equal(csv_column_count(csv), 3);
    assert_int_equal(csv_row_count(csv), 2);
    assert_string_equal(csv_column_name(csv, 2), "c d");
    assert_int_equal(csv_find_column(csv, "b"), 1);
    assert_int_equal(csv_find_column(csv, "nope"), -1);
    assert_string_equal(csv_text(csv, 0, 1), "2");
    assert_string_equal(csv_text(csv, 1, 0), "");
    assert_string_equal(csv_text(csv, 1, 1), "");
    assert_string_equal(csv_text(csv, 1, 2), "y z");
    assert_int_equal(csv_row_line(csv, 0), 4);
    assert_int_equal(csv_row_line(csv, 1), 7);
    csv_destroy(csv);
}

static void test_quoted_fields_hold_commas_quotes_and_line_breaks(void **state)
{
    (void)state;
    struct csv *csv = parse("a,b\n\"x,\"\"y\"\"\",\"1\n2\" \nlast,\"#\"\n");
    assert_string_equal(csv_text(csv, 0, 0), "x,\"y\"");
    assert_string_equal(csv_text(csv, 0, 1), "1\n2");
    assert_int_equal(csv_row_line(csv, 1), 4);
    assert_string_equal(csv_text(csv, 1, 1), "#");
    csv_destroy(csv);
}

static void test_what_is_not_csv_is_refused_with_its_line(void **state)
{
    (void)state;
    refuse("", 0, "f.csv:1: no line that names the columns");
    refuse("# only\n\n", 8, "f.csv:1: no line that names the columns");
    refuse("a,b\n1\n", 6, "f.csv:2: 1 fields where there are 2 columns");
    refuse("a,b\n1,2,3", 9, "f.csv:2: 3 fields where there are 2 columns");
    refuse("a\n\n\"x", 5, "f.csv:3: a quote is never closed");
    refuse("a\n\"x\"y\n", 7, "f.csv:2: text after a closing quote");
    refuse("a\nx\"y\"\n", 7, "f.csv:2: a quote inside a field (write \"a \"\"quoted\"\" word\")");
    refuse("a,A\n", 4, "f.csv:1: column 'A' is named twice");
    refuse("a\n\0\n", 4, "f.csv:2: a zero byte: this is not CSV text");
    AUTO_STR struct str wide = {0};
    str_add_repeat(&wide, ",", CSV_COLUMNS_MAX);
    refuse(str_text(&wide), wide.size, "f.csv:1: more than 1000 columns");
}

static void test_only_finite_numbers_are_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"nan", "inf", "-inf", "1e400", "0x10", "1,5x",
                                      "e",   "-",   "1 2",  "1e",    "."};
    struct csv *csv = parse("n\n1.5\n-2e3\n\"\"\n+.5\n");
    struct err err = {0};
    double number = 0;
    assert_int_equal(csv_number(csv, 0, 0, &number, &err), ERR_OK);
    assert_true(number == 1.5);
    assert_int_equal(csv_number(csv, 1, 0, &number, &err), ERR_OK);
    assert_true(number == -2000);
    assert_int_equal(csv_number(csv, 2, 0, &number, &err), ERR_NOT_FOUND);
    assert_int_equal(csv_number(csv, 3, 0, &number, &err), ERR_OK);
    assert_true(number == .5);
    csv_destroy(csv);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "n\n\"%s\"\n", bad[i]);
        csv = parse(text);
        assert_int_equal(csv_number(csv, 0, 0, &number, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "f.csv:2: n: '"));
        csv_destroy(csv);
    }
}

enum { ROWS_MAX = 6, COLUMNS_MAX = 5, CELL_MAX = 6 };

/* One field in quotes, of letters that need care; blanks at its ends would be trimmed. */
static void write_cell(struct rng *rng, struct str *text, char cell[CELL_MAX + 1])
{
    static const char letters[] = "ab,\"\n#1 ";
    size_t size = rng_below(rng, CELL_MAX);
    str_add_char(text, '"');
    for (size_t i = 0; i < size; i++) {
        char letter = letters[rng_below(rng, sizeof letters - 1)];
        bool edge = i == 0 || i + 1 == size;
        cell[i] = edge && letter == ' ' ? 'z' : letter;
        str_add(text, cell[i] == '"' ? "\"" : "");
        str_add_char(text, cell[i]);
    }
    str_add_char(text, '"');
}

/* Random tables, written with more quotes than needed, come back as they were. */
static void test_random_tables_come_back_as_written(void **state)
{
    (void)state;
    struct rng rng = {.state = 20260815};
    printf("seed %llu\n", (unsigned long long)rng.state);
    for (int round = 0; round < 300; round++) {
        size_t columns = 1 + rng_below(&rng, COLUMNS_MAX);
        size_t rows = rng_below(&rng, ROWS_MAX);
        AUTO_STR struct str text = {0};
        char cells[ROWS_MAX * COLUMNS_MAX][CELL_MAX + 1] = {0};
        for (size_t c = 0; c < columns; c++) {
            str_addf(&text, "%sname%zu", c ? "," : "", c);
        }
        str_add(&text, rng_below(&rng, 2) ? "\r\n" : "\n");
        for (size_t i = 0; i < rows * columns; i++) {
            write_cell(&rng, &text, cells[i]);
            str_add_char(&text, (i + 1) % columns ? ',' : '\n');
        }
        struct csv *csv = parse(str_text(&text));
        assert_int_equal(csv_row_count(csv), rows);
        for (size_t i = 0; i < rows * columns; i++) {
            assert_string_equal(csv_text(csv, i / columns, i % columns), cells[i]);
        }
        csv_destroy(csv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_trimmed_and_know_their_lines),
        cmocka_unit_test(test_quoted_fields_hold_commas_quotes_and_line_breaks),
        cmocka_unit_test(test_what_is_not_csv_is_refused_with_its_line),
        cmocka_unit_test(test_only_finite_numbers_are_numbers),
        cmocka_unit_test(test_random_tables_come_back_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
