#include "master/sweep.h"

#include "base/io.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FLOWS = 5, FILES = 300 };
static const int64_t day_ms = (int64_t)24 * 3600 * 1000;

struct fixture {
    char folder[64];
    char paths[FLOWS][PATH_MAX];
    int64_t ended_ms[FLOWS];
    int forgotten[FLOWS];
};

static void look(void *context, uint32_t number, struct sweep_flow *out)
{
    struct fixture *fixture = context;
    assert_in_range(number, 1, FLOWS);
    out->folder = fixture->paths[number - 1];
    out->ended_ms = fixture->ended_ms[number - 1];
}

static void forget(void *context, uint32_t number)
{
    struct fixture *fixture = context;
    fixture->forgotten[number - 1]++;
}

static void make_files(const struct fixture *fixture, int flow)
{
    static const char *const folders[] = {"logs/train/0", "attempts/train/0", "manifests"};
    for (int i = 0; i < FILES; i++) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof path, "%s/%s", fixture->paths[flow], folders[i % 3]);
        assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
        size_t size = strlen(path);
        snprintf(path + size, sizeof path - size, "/%d", i);
        assert_int_equal(io_replace_file(path, "x", 1, 0600, NULL), ERR_OK);
    }
}

static void make(struct fixture *fixture)
{
    *fixture = (struct fixture){.folder = "/tmp/drover-sweep-XXXXXX"};
    assert_non_null(mkdtemp(fixture->folder));
    for (int i = 0; i < FLOWS; i++) {
        snprintf(fixture->paths[i], sizeof fixture->paths[i], "%s/flow-%d", fixture->folder, i);
        make_files(fixture, i);
    }
}

static bool has(const struct fixture *fixture, int flow, const char *name)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", fixture->paths[flow], name);
    return access(path, F_OK) == 0;
}

static void old_workflows_lose_their_files_and_nothing_else(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    int64_t now_ms = 1000 * day_ms;
    const int64_t ended_ms[FLOWS] = {900 * day_ms, 0, 910 * day_ms, 999 * day_ms, 905 * day_ms};
    memcpy(fixture.ended_ms, ended_ms, sizeof ended_ms);
    struct retention_limits limits = {.keep_ms = 30 * day_ms, .keep_newest = 2};
    struct sweep_source source = {
        .context = &fixture, .count = FLOWS, .look = look, .forget = forget};
    struct sweep *sweep = sweep_create(&limits);
    for (int i = 0; i < 50; i++) {
        sweep_tick(sweep, &source, now_ms + (int64_t)i * 1000);
    }
    const bool gone[FLOWS] = {true, false, false, false, true};
    for (int i = 0; i < FLOWS; i++) {
        assert_int_equal(has(&fixture, i, "logs"), !gone[i]);
        assert_int_equal(has(&fixture, i, "attempts"), !gone[i]);
        assert_false(has(&fixture, i, "logs.removed"));
        assert_true(has(&fixture, i, "manifests/2"));
        assert_int_equal(fixture.forgotten[i], gone[i]);
    }
    /* Retried, it has files again, and loses them when it is old again. */
    fixture.ended_ms[0] = 0;
    make_files(&fixture, 0);
    sweep_tick(sweep, &source, now_ms + day_ms);
    assert_true(has(&fixture, 0, "logs"));
    fixture.ended_ms[0] = 901 * day_ms;
    for (int i = 0; i < 50; i++) {
        sweep_tick(sweep, &source, now_ms + 2 * day_ms + i);
    }
    assert_false(has(&fixture, 0, "logs"));
    assert_int_equal(fixture.forgotten[0], 2);
    sweep_destroy(sweep);
    assert_int_equal(io_remove_tree(fixture.folder, NULL), ERR_OK);
}

static void what_was_begun_before_a_restart_is_finished(void **state)
{
    (void)state;
    struct fixture fixture;
    make(&fixture);
    for (int i = 0; i < FLOWS; i++) {
        fixture.ended_ms[i] = (900 + i) * day_ms;
    }
    char from[PATH_MAX + 64];
    char to[PATH_MAX + 64];
    snprintf(from, sizeof from, "%s/logs", fixture.paths[0]);
    snprintf(to, sizeof to, "%s/logs%s", fixture.paths[0], RETENTION_SUFFIX);
    assert_int_equal(rename(from, to), 0);
    struct retention_limits limits = {.keep_ms = 30 * day_ms, .keep_newest = FLOWS - 1};
    struct sweep_source source = {
        .context = &fixture, .count = FLOWS, .look = look, .forget = forget};
    struct sweep *sweep = sweep_create(&limits);
    for (int i = 0; i < 20; i++) {
        sweep_tick(sweep, &source, 1000 * day_ms);
    }
    assert_false(has(&fixture, 0, "logs.removed"));
    assert_false(has(&fixture, 0, "attempts"));
    assert_true(has(&fixture, 1, "logs"));
    sweep_destroy(sweep);
    sweep_destroy(NULL);
    assert_int_equal(io_remove_tree(fixture.folder, NULL), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_workflows_lose_their_files_and_nothing_else),
        cmocka_unit_test(what_was_begun_before_a_restart_is_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
