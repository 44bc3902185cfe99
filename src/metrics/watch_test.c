#include "metrics/watch.h"

#include "base/io.h"
#include "metrics/crc32c.h"
#include "metrics/metrics_testing.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    struct str root;
    struct str output;
    struct str report;
    struct watch *watch;
    struct str seen;
    int64_t now_ms;
};

static int begin(void **state)
{
    static struct place place;
    struct err err = {0};
    place = (struct place){.now_ms = 1000};
    testing_folder(&place.root);
    str_addf(&place.output, "%s/output", str_text(&place.root));
    str_addf(&place.report, "%s/report", str_text(&place.root));
    assert_int_equal(mkdir(str_text(&place.output), 0700), 0);
    assert_int_equal(
        watch_create(str_text(&place.output), str_text(&place.report), &place.watch, &err), ERR_OK);
    *state = &place;
    return 0;
}

static int finish(void **state)
{
    struct place *place = *state;
    watch_destroy(place->watch);
    int failed = io_remove_tree(str_text(&place->root), NULL) != ERR_OK;
    str_release(&place->root);
    str_release(&place->output);
    str_release(&place->report);
    str_release(&place->seen);
    return failed;
}

/* Appends to a file below the root, making its folders. */
static void append(struct place *place, const char *name, const void *bytes, size_t size)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", str_text(&place->root), name);
    char *slash = strrchr(path.text, '/');
    *slash = '\0';
    assert_int_equal(io_make_dirs(path.text, NULL), ERR_OK);
    *slash = '/';
    int fd = open(path.text, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, bytes, size, NULL), ERR_OK);
    close(fd);
}

static void append_text(struct place *place, const char *name, const char *text)
{
    append(place, name, text, strlen(text));
}

/* A scalar "a" of value 1 at the step. */
static void append_event(struct place *place, const char *name, char step)
{
    uint8_t record[12 + 16 + 4] = {16};
    const uint8_t event[16] = {0x10, (uint8_t)step, 0x2A, 12,   0x0A, 10,   0x0A, 1,
                               'a',  0x15,          0,    0x00, 0x80, 0x3F, 0x38, 0};
    uint32_t head = crc32c_masked(crc32c(0, record, 8));
    uint32_t foot = crc32c_masked(crc32c(0, event, 16));
    memcpy(record + 8, &head, 4);
    memcpy(record + 12, event, 16);
    memcpy(record + 28, &foot, 4);
    append(place, name, record, sizeof record);
}

static void expect(struct place *place, const char *expected)
{
    struct metric_sink sink = testing_sink(&place->seen);
    place->now_ms += WATCH_SEARCH_MS;
    str_clear(&place->seen);
    while (watch_poll(place->watch, place->now_ms, &sink)) {
    }
    assert_string_equal(str_text(&place->seen), expected);
}

static void files_are_followed_as_they_grow(void **state)
{
    struct place *place = *state;
    expect(place, "");
    append_text(place, "output/metrics.jsonl", "{\"step\":1,\"loss\":0.5}\n{\"step\":2,");
    append_text(place, "report", "{\"x\":1}\n");
    expect(place, "x=1 loss@1=0.5");
    append_text(place, "output/metrics.jsonl", "\"loss\":0.25}\n");
    append_event(place, "output/logs/v0/events.out.tfevents.1.host", 3);
    expect(place, "loss@2=0.25 a@3=1");
    append_event(place, "output/logs/v0/events.out.tfevents.1.host", 4);
    append_event(place, "output/logs/validation/events.out.tfevents.1.host", 5);
    expect(place, "a@4=1 validation/a@5=1");
    expect(place, "");
    append_text(place, "report", "{\"x\":2}");
    expect(place, "");
    struct metric_sink sink = testing_sink(&place->seen);
    watch_end(place->watch, place->now_ms, &sink);
    assert_string_equal(str_text(&place->seen), "x=2");
}

static void what_is_not_ours_to_read_is_not_read(void **state)
{
    struct place *place = *state;
    AUTO_STR struct str link = {0};
    append_text(place, "secret.jsonl", "{\"secret\":1}\n");
    str_addf(&link, "%s/metrics.jsonl", str_text(&place->output));
    assert_int_equal(symlink("../secret.jsonl", str_text(&link)), 0);
    append_event(place, "elsewhere/events.out.tfevents.1", 1);
    str_clear(&link);
    str_addf(&link, "%s/logs", str_text(&place->output));
    assert_int_equal(symlink("../elsewhere", str_text(&link)), 0);
    str_clear(&link);
    str_addf(&link, "%s/events.out.tfevents.2", str_text(&place->output));
    assert_int_equal(mkfifo(str_text(&link), 0600), 0);
    append_text(place, "output/sub/metrics.jsonl", "{\"deep\":1}\n");
    append_event(place, "output/1/2/3/4/5/events.out.tfevents.1", 1);
    expect(place, "");
}

static void a_file_that_becomes_a_link_is_not_followed(void **state)
{
    struct place *place = *state;
    AUTO_STR struct str path = {0};
    AUTO_STR struct str folder = {0};
    append_text(place, "secret.jsonl", "{\"secret\":1}\n");
    append_event(place, "elsewhere/events.out.tfevents.1", 1);
    append_text(place, "output/metrics.jsonl", "{\"a\":1}\n");
    append_event(place, "output/logs/events.out.tfevents.1", 2);
    struct metric_sink sink = testing_sink(&place->seen);
    watch_poll(place->watch, place->now_ms, &sink);
    str_addf(&path, "%s/metrics.jsonl", str_text(&place->output));
    assert_int_equal(unlink(str_text(&path)), 0);
    assert_int_equal(symlink("../secret.jsonl", str_text(&path)), 0);
    str_addf(&folder, "%s/logs", str_text(&place->output));
    assert_int_equal(io_remove_tree(str_text(&folder), NULL), ERR_OK);
    assert_int_equal(symlink("../elsewhere", str_text(&folder)), 0);
    expect(place, "");
}

static void a_file_begun_anew_is_read_anew(void **state)
{
    struct place *place = *state;
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/metrics.jsonl", str_text(&place->output));
    append_text(place, "output/metrics.jsonl", "{\"a\":1}\n{\"a\":2}\n{\"a\":");
    expect(place, "a=1 a=2");
    assert_int_equal(truncate(str_text(&path), 0), 0);
    append_text(place, "output/metrics.jsonl", "{\"a\":3}\n");
    expect(place, "a=3");
    assert_int_equal(unlink(str_text(&path)), 0);
    expect(place, "");
    append_text(place, "output/other", "x"); /* so that the number of the file is not used again */
    append_text(place, "output/metrics.jsonl", "{\"a\":4}\n{\"a\":5}\n");
    expect(place, "a=4 a=5");
}

static void a_renamed_folder_is_followed(void **state)
{
    struct place *place = *state;
    AUTO_STR struct str moved = {0};
    append_text(place, "output/metrics.jsonl", "{\"a\":1}\n");
    expect(place, "a=1");
    str_addf(&moved, "%s/kept", str_text(&place->root));
    assert_int_equal(rename(str_text(&place->output), str_text(&moved)), 0);
    append_text(place, "kept/metrics.jsonl", "{\"a\":2}\n");
    expect(place, "a=2");
}

static void faults_are_told(void **state)
{
    struct place *place = *state;
    AUTO_STR struct str faults = {0};
    watch_add_faults(place->watch, &faults);
    assert_string_equal(str_text(&faults), "");
    append_text(place, "output/metrics.jsonl", "{\"a\":1}\noops\nmore\n");
    append_text(place, "output/events.out.tfevents.1", "this is no event file");
    expect(place, "a=1");
    watch_add_faults(place->watch, &faults);
    assert_non_null(
        strstr(str_text(&faults), "metrics.jsonl: line 2 is not a JSON object (2 such lines)\n"));
    assert_non_null(
        strstr(str_text(&faults), "events.out.tfevents.1: not an event file from byte 0 on"));
}

static void many_files_and_folders_do_no_harm(void **state)
{
    struct place *place = *state;
    for (int i = 0; i < WATCH_FILES_MAX + 20; i++) {
        char name[80];
        snprintf(name, sizeof name, "output/d%d/events.out.tfevents.%d", i, i);
        append_event(place, name, 1);
    }
    struct metric_sink sink = testing_sink(&place->seen);
    place->now_ms += WATCH_SEARCH_MS;
    assert_false(watch_poll(place->watch, place->now_ms, &sink));
    size_t points = 0;
    for (const char *at = str_text(&place->seen); (at = strstr(at, "a@1=1")) != NULL; at++) {
        points++;
    }
    assert_int_equal(points, WATCH_FILES_MAX - 1); /* the report is one of them */
}

static void a_large_file_is_read_in_turns(void **state)
{
    struct place *place = *state;
    AUTO_STR struct str text = {0};
    str_add_repeat(&text, " ", WATCH_BYTES_MAX + 10);
    str_add(&text, "\n{\"a\":1}\n");
    append(place, "report", text.text, text.size);
    struct metric_sink sink = testing_sink(&place->seen);
    assert_true(watch_poll(place->watch, place->now_ms, &sink));
    assert_string_equal(str_text(&place->seen), "");
    assert_false(watch_poll(place->watch, place->now_ms, &sink));
    assert_string_equal(str_text(&place->seen), "a=1");
}

static void a_missing_folder_is_an_error(void **state)
{
    (void)state;
    struct watch *watch = NULL;
    struct err err = {0};
    assert_int_equal(watch_create("/nowhere/at/all", NULL, &watch, &err), ERR_NOT_FOUND);
    assert_int_equal(watch_create(NULL, NULL, &watch, &err), ERR_OK);
    struct metric_sink sink = {0};
    assert_false(watch_poll(watch, 0, &sink));
    watch_destroy(watch);
    watch_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_followed_as_they_grow, begin, finish),
        cmocka_unit_test_setup_teardown(what_is_not_ours_to_read_is_not_read, begin, finish),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_a_link_is_not_followed, begin, finish),
        cmocka_unit_test_setup_teardown(a_file_begun_anew_is_read_anew, begin, finish),
        cmocka_unit_test_setup_teardown(a_renamed_folder_is_followed, begin, finish),
        cmocka_unit_test_setup_teardown(faults_are_told, begin, finish),
        cmocka_unit_test_setup_teardown(many_files_and_folders_do_no_harm, begin, finish),
        cmocka_unit_test_setup_teardown(a_large_file_is_read_in_turns, begin, finish),
        cmocka_unit_test(a_missing_folder_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
