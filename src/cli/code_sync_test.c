/* From a working folder to nodes, all of it but HTTP itself: client_call is played here, and hands
 * requests straight to the depot. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/code_scan.h"
#include "cli/code_sync.h"
#include "master/depot_testing.h"
#include "node/bulk_pool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct client {
    struct pair *pair;
    const char *touch_file; /* appended to before the next pack arrives, once */
    int calls;
};

enum err_code client_call(struct client *client, const struct client_request *request,
                          struct client_answer *answer, struct err *err)
{
    (void)err;
    const char *prefix = "/api/v1";
    assert_int_equal(strncmp(request->path, prefix, strlen(prefix)), 0);
    client->calls++;
    if (client->touch_file && strstr(request->path, "missing")) {
        testing_write(client->touch_file, "other bytes", 11);
        client->touch_file = NULL;
    }
    *answer = (struct client_answer){0};
    answer->status = pair_http(client->pair, request->method, request->path + strlen(prefix),
                               request->body, request->body_size);
    str_add_bytes(&answer->body, str_text(&client->pair->http_body), client->pair->http_body.size);
    return ERR_OK;
}

void client_answer_release(struct client_answer *answer)
{
    str_release(&answer->body);
}

struct stage {
    struct pair pair;
    struct client client;
    char source[700];
    char index[700];
};

static void open_stage(struct stage *stage, bool is_shared)
{
    pair_open(&stage->pair, "sync");
    pair_start_depot(&stage->pair);
    pair_start_bulk(&stage->pair, is_shared);
    stage->client = (struct client){.pair = &stage->pair};
    snprintf(stage->source, sizeof stage->source, "%s/source", stage->pair.folder);
    snprintf(stage->index, sizeof stage->index, "%s/index", stage->pair.folder);
}

static void sync_folder(struct stage *stage, struct code_sync_result *result)
{
    struct err err = {0};
    struct code_sync_options options = {.folder = stage->source, .index_file = stage->index};
    enum err_code code = code_sync_with(&stage->client, &options, result, &err);
    if (code != ERR_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(code, ERR_OK);
}

static void fetch(struct stage *stage, const char *version, char *folder, size_t size)
{
    struct bulk_event event;
    assert_true(pair_wait(&stage->pair, bulk_fetch_code(stage->pair.bulk, version), 30000, &event));
    if (event.err.code != ERR_OK) {
        print_message("%s\n", event.err.text);
    }
    assert_int_equal(event.err.code, ERR_OK);
    snprintf(folder, size, "%s", event.folder);
}

static void add_file(const struct stage *stage, const char *name, const char *text)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", stage->source, name);
    testing_write(str_text(&path), text, strlen(text));
}

/* Older than the time within which the index trusts nothing. */
static void let_age(void)
{
    usleep(120000);
}

static void check_working_folders_arrive(bool is_shared)
{
    uint64_t seed = rng_seed_from_system() % 1000000;
    print_message("seed %" PRIu64 "\n", seed);
    struct rng rng = {seed};
    struct stage stage;
    struct code_sync_result first;
    struct code_sync_result again;
    struct code_sync_result third;
    char folder[4096];
    open_stage(&stage, is_shared);
    testing_make_tree(stage.source, &rng, 250, 200000);
    let_age();
    sync_folder(&stage, &first);
    fetch(&stage, first.version, folder, sizeof folder);
    testing_assert_same_code(stage.source, folder);
    assert_true((strncmp(folder, stage.pair.state, strlen(stage.pair.state)) == 0) == is_shared);

    sync_folder(&stage, &again);
    assert_string_equal(again.version, first.version);
    assert_true(again.sent_count == 0 && again.hashed_count == 0);

    add_file(&stage, "edited.py", "print('hello')\n");
    sync_folder(&stage, &third);
    assert_string_not_equal(third.version, first.version);
    assert_true(third.sent_count == 1 && third.hashed_count == 1);
    fetch(&stage, third.version, folder, sizeof folder);
    testing_assert_same_code(stage.source, folder);
    pair_close(&stage.pair);
}

static void random_working_folders_arrive_on_remote_nodes(void **state)
{
    (void)state;
    check_working_folders_arrive(false);
}

static void random_working_folders_arrive_on_shared_disks(void **state)
{
    (void)state;
    check_working_folders_arrive(true);
}

static void of_a_large_file_only_the_changed_chunk_travels(void **state)
{
    (void)state;
    struct stage stage;
    struct code_sync_result result;
    char folder[4096];
    open_stage(&stage, false);
    struct rng rng = {3};
    size_t size = 3 * (size_t)CODE_CHUNK_BYTES + 1000;
    AUTO_FREE char *bytes = mem_alloc(size);
    for (size_t i = 0; i < size; i += 4096) {
        bytes[i] = (char)rng_next(&rng);
    }
    assert_int_equal(io_make_dirs(stage.source, NULL), ERR_OK);
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/large", stage.source);
    testing_write(str_text(&path), bytes, size);
    sync_folder(&stage, &result);
    assert_true(result.sent_bytes == size);
    fetch(&stage, result.version, folder, sizeof folder);
    testing_assert_same_code(stage.source, folder);
    struct depot_counts before;
    struct depot_counts after;
    assert_false(pair_wait(&stage.pair, 0, 1300, NULL));
    depot_counts(stage.pair.depot, &before);
    bytes[size - 1]++;
    testing_write(str_text(&path), bytes, size);
    sync_folder(&stage, &result);
    assert_true(result.sent_bytes == 1000);
    fetch(&stage, result.version, folder, sizeof folder);
    testing_assert_same_code(stage.source, folder);
    assert_false(pair_wait(&stage.pair, 0, 1300, NULL));
    depot_counts(stage.pair.depot, &after);
    assert_true(after.bytes_out - before.bytes_out < 3000);
    pair_close(&stage.pair);
}

static void ignored_files_stay_behind(void **state)
{
    (void)state;
    struct stage stage;
    struct code_sync_result result;
    char folder[4096];
    open_stage(&stage, false);
    AUTO_STR struct str sub = {0};
    str_addf(&sub, "%s/.git/objects", stage.source);
    assert_int_equal(io_make_dirs(str_text(&sub), NULL), ERR_OK);
    str_clear(&sub);
    str_addf(&sub, "%s/data", stage.source);
    assert_int_equal(io_make_dirs(str_text(&sub), NULL), ERR_OK);
    add_file(&stage, ".gitignore", "*.o\ndata/*\n");
    add_file(&stage, ".droverignore", "!data/small\n*.secret\n");
    add_file(&stage, "a.o", "object");
    add_file(&stage, "a.c", "source");
    add_file(&stage, "key.secret", "secret");
    add_file(&stage, "data/big", "big");
    add_file(&stage, "data/small", "small");
    add_file(&stage, ".git/HEAD", "ref");
    sync_folder(&stage, &result);
    fetch(&stage, result.version, folder, sizeof folder);
    assert_true(result.file_count == 4);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(access("a.c", F_OK), 0);
    assert_int_equal(access("data/small", F_OK), 0);
    assert_int_not_equal(access("a.o", F_OK), 0);
    assert_int_not_equal(access("key.secret", F_OK), 0);
    assert_int_not_equal(access("data/big", F_OK), 0);
    assert_int_not_equal(access(".git", F_OK), 0);
    assert_int_equal(chdir("/"), 0);
    pair_close(&stage.pair);
}

static void what_a_task_spoilt_is_mended(void **state)
{
    (void)state;
    struct stage stage;
    struct code_sync_result result;
    char folder[4096];
    open_stage(&stage, false);
    struct rng rng = {8};
    testing_make_tree(stage.source, &rng, 30, 2000);
    add_file(&stage, "one.py", "one");
    add_file(&stage, "two.py", "two");
    add_file(&stage, "three.py", "three");
    sync_folder(&stage, &result);
    fetch(&stage, result.version, folder, sizeof folder);
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/one.py", folder);
    assert_int_equal(chmod(str_text(&path), 0644), 0);
    testing_write(str_text(&path), "ONE", 3); /* into the file that the pool has, too */
    str_clear(&path);
    str_addf(&path, "%s/two.py", folder);
    assert_int_equal(unlink(str_text(&path)), 0);
    assert_int_equal(mkdir(str_text(&path), 0755), 0);
    str_clear(&path);
    str_addf(&path, "%s/three.py", folder);
    assert_int_equal(unlink(str_text(&path)), 0);
    fetch(&stage, result.version, folder, sizeof folder);
    testing_assert_same_code(stage.source, folder);
    pair_close(&stage.pair);
}

static void a_file_that_changes_meanwhile_is_read_again(void **state)
{
    (void)state;
    struct stage stage;
    struct code_sync_result result;
    char folder[4096];
    char file[800];
    open_stage(&stage, false);
    struct rng rng = {9};
    testing_make_tree(stage.source, &rng, 10, 2000);
    add_file(&stage, "moving", "first bytes");
    snprintf(file, sizeof file, "%s/moving", stage.source);
    stage.client.touch_file = file;
    sync_folder(&stage, &result);
    fetch(&stage, result.version, folder, sizeof folder);
    testing_assert_same_code(stage.source, folder);
    pair_close(&stage.pair);
}

static void an_unreadable_file_is_named(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("root reads everything: skipped\n");
        skip();
    }
    struct stage stage;
    open_stage(&stage, false);
    assert_int_equal(io_make_dirs(stage.source, NULL), ERR_OK);
    add_file(&stage, "closed", "x");
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/closed", stage.source);
    assert_int_equal(chmod(str_text(&path), 0), 0);
    struct err err = {0};
    struct code_sync_result result;
    struct code_sync_options options = {.folder = stage.source, .index_file = stage.index};
    assert_int_equal(code_sync_with(&stage.client, &options, &result, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "closed"));
    pair_close(&stage.pair);
}

static void the_store_refuses_what_is_wrong(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    struct pair *pair = &stage.pair;
    char path[200];
    const char *zeros = "0000000000000000000000000000000000000000000000000000000000000000";
    snprintf(path, sizeof path, "/code/objects/%s", zeros);
    assert_int_equal(pair_http(pair, "PUT", path, "abc", 3), 400);
    assert_int_equal(pair_http(pair, "PUT", "/code/objects/../../x", "abc", 3), 400);
    assert_int_equal(pair_http(pair, "POST", "/code/missing", "[1]", 3), 400);
    assert_int_equal(pair_http(pair, "POST", "/code/missing", "", 0), 400);
    assert_int_equal(pair_http(pair, "POST", "/code/missing", "[]", 2), 200);
    assert_int_equal(pair_http(pair, "POST", "/code/missing", " []", 3), 400);
    assert_int_equal(pair_http(pair, "PUT", "/code/pack", "abc", 3), 400);
    assert_int_equal(pair_http(pair, "POST", "/code/versions", "abc", 3), 400);
    AUTO_STR struct str text = {0};
    str_addf(&text, "drover-code 1\n644 3 %s x\n", zeros);
    assert_int_equal(pair_http(pair, "POST", "/code/versions", text.text, text.size), 409);
    assert_non_null(strstr(str_text(&pair->http_body), zeros));
    assert_int_equal(pair_http(pair, "GET", "/code/versions/x", "", 0), 404);
    assert_int_equal(pair_http(pair, "DELETE", "/code/missing", "", 0), 405);
    /* a version that was never stored */
    struct bulk_event event;
    assert_true(pair_wait(pair, bulk_fetch_code(pair->bulk, zeros), 10000, &event));
    assert_int_equal(event.err.code, ERR_NOT_FOUND);
    pair_close(pair);
}

static void versions_that_nobody_uses_go_after_a_day(void **state)
{
    (void)state;
    struct stage stage;
    struct code_sync_result result;
    char folder[4096];
    char newest[SHA256_HEX_CHARS + 1];
    open_stage(&stage, false);
    assert_int_equal(io_make_dirs(stage.source, NULL), ERR_OK);
    for (int i = 0; i < 4; i++) {
        char text[20];
        snprintf(text, sizeof text, "%d", i);
        add_file(&stage, "file", text);
        sync_folder(&stage, &result);
        fetch(&stage, result.version, folder, sizeof folder);
        memcpy(newest, result.version, sizeof newest);
        usleep(10000);
    }
    pair_stop_bulk(&stage.pair);
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/code", stage.pair.work);
    struct bulk_pool *pool = NULL;
    char versions[10][SHA256_HEX_CHARS + 1];
    assert_int_equal(bulk_pool_open(str_text(&path), &pool, NULL), ERR_OK);
    assert_int_equal(bulk_pool_list(pool, versions, 10), 4);
    bulk_pool_expire(pool, NULL, 0, 5, 0);
    assert_int_equal(bulk_pool_list(pool, versions, 10), 4);
    bulk_pool_expire(pool, NULL, 0, 0, INT64_C(24) * 3600 * 1000);
    assert_int_equal(bulk_pool_list(pool, versions, 10), 4);
    char kept[1][SHA256_HEX_CHARS + 1];
    memcpy(kept[0], versions[3], sizeof kept[0]);
    bulk_pool_expire(pool, kept, 1, 1, 0);
    assert_int_equal(bulk_pool_list(pool, versions, 10), 2);
    assert_string_equal(versions[0], newest);
    assert_string_equal(versions[1], kept[0]);
    assert_true(bulk_pool_check(pool, newest));
    assert_true(bulk_pool_check(pool, kept[0]));
    bulk_pool_close(pool);
    pair_close(&stage.pair);
}

static size_t number_from(const char *variable, size_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* The times are printed, not judged. CODE_SYNC_FILES=10000 CODE_SYNC_FILE_BYTES=50000 makes the
 * tree that counts. */
static void one_edited_file_of_many_is_there_soon(void **state)
{
    (void)state;
    struct stage stage;
    struct code_sync_result result;
    char folder[4096];
    size_t size = number_from("CODE_SYNC_FILE_BYTES", 300);
    size_t count = number_from("CODE_SYNC_FILES", 1000);
    AUTO_FREE char *bytes = mem_alloc(size + 100);
    open_stage(&stage, false);
    AUTO_STR struct str path = {0};
    for (size_t i = 0; i < count; i++) {
        str_clear(&path);
        str_addf(&path, "%s/folder%zu", stage.source, i / 100);
        if (i % 100 == 0) {
            assert_int_equal(io_make_dirs(str_text(&path), NULL), ERR_OK);
        }
        str_addf(&path, "/file%zu.py", i);
        snprintf(bytes, 100, "%zu", i);
        testing_write(str_text(&path), bytes, size);
    }
    let_age();
    int64_t began_us = clock_mono_us();
    sync_folder(&stage, &result);
    int64_t synced_us = clock_mono_us();
    fetch(&stage, result.version, folder, sizeof folder);
    print_message("all: sync %" PRId64 " ms, fetch %" PRId64 " ms\n", (synced_us - began_us) / 1000,
                  (clock_mono_us() - synced_us) / 1000);
    testing_write(str_text(&path), "edited", 6);
    began_us = clock_mono_us();
    sync_folder(&stage, &result);
    synced_us = clock_mono_us();
    fetch(&stage, result.version, folder, sizeof folder);
    print_message("one edited: sync %" PRId64 " ms, fetch %" PRId64 " ms\n",
                  (synced_us - began_us) / 1000, (clock_mono_us() - synced_us) / 1000);
    assert_true(result.sent_count == 1);
    struct code_scan *scan = NULL;
    began_us = clock_mono_us();
    assert_int_equal(code_scan_open(stage.source, stage.index, &scan, NULL), ERR_OK);
    print_message("look only: %" PRId64 " ms\n", (clock_mono_us() - began_us) / 1000);
    code_scan_close(scan);
    testing_assert_same_code(stage.source, folder);
    pair_close(&stage.pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_working_folders_arrive_on_remote_nodes),
        cmocka_unit_test(random_working_folders_arrive_on_shared_disks),
        cmocka_unit_test(of_a_large_file_only_the_changed_chunk_travels),
        cmocka_unit_test(ignored_files_stay_behind),
        cmocka_unit_test(what_a_task_spoilt_is_mended),
        cmocka_unit_test(a_file_that_changes_meanwhile_is_read_again),
        cmocka_unit_test(an_unreadable_file_is_named),
        cmocka_unit_test(the_store_refuses_what_is_wrong),
        cmocka_unit_test(versions_that_nobody_uses_go_after_a_day),
        cmocka_unit_test(one_edited_file_of_many_is_there_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
