/* The wrappers' own promises, and stores by URL. */
#include "base/check.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "object/object_driver.h"
#include "object/object_url.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS = 3000 };

/* -- faulty ----------------------------------------------------------------------------------- */

static void record_answers(uint64_t seed, enum err_code *answers)
{
    struct object_faults faults = {.seed = seed, .fail = 0.1, .lost_reply = 0.2, .repeated = 0.3};
    struct object_store *store = object_faulty_create(object_memory_open_alone(), &faults);
    for (int i = 0; i < CALLS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        answers[i] = object_put_if_absent(store, key, "x", 1, NULL);
    }
    object_close(store);
}

static void test_faults_follow_from_the_seed_and_come_in_their_shares(void **state)
{
    (void)state;
    static enum err_code first[CALLS];
    static enum err_code second[CALLS];
    static enum err_code other[CALLS];
    record_answers(1, first);
    record_answers(1, second);
    record_answers(2, other);
    assert_memory_equal(first, second, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    int again = 0;
    int exists = 0; /* where the PUT was repeated and the reply came */
    for (int i = 0; i < CALLS; i++) {
        again += first[i] == ERR_AGAIN;
        exists += first[i] == ERR_EXISTS;
    }
    assert_in_range(again, CALLS * 25 / 100, CALLS * 31 / 100);  /* 0.1 + 0.9 * 0.2 */
    assert_in_range(exists, CALLS * 18 / 100, CALLS * 25 / 100); /* 0.9 * 0.8 * 0.3 */
}

static void test_a_lost_reply_has_happened_and_a_failure_has_not(void **state)
{
    (void)state;
    struct object_shelf *shelf = object_shelf_create();
    struct object_store *plain = object_memory_open(shelf);
    struct object_faults loses = {.lost_reply = 1};
    struct object_faults fails = {.fail = 1};
    struct object_store *losing = object_faulty_create(object_memory_open(shelf), &loses);
    struct object_store *failing = object_faulty_create(object_memory_open(shelf), &fails);
    AUTO_STR struct str out = {0};
    assert_int_equal(object_put(losing, "a", "1", 1, NULL), ERR_AGAIN);
    assert_int_equal(object_get(plain, "a", &out, NULL, NULL), ERR_OK);
    assert_int_equal(object_put(failing, "b", "1", 1, NULL), ERR_AGAIN);
    assert_int_equal(object_get(plain, "b", &out, NULL, NULL), ERR_NOT_FOUND);
    assert_int_equal(object_delete(losing, "a", NULL), ERR_AGAIN);
    assert_int_equal(object_get(plain, "a", &out, NULL, NULL), ERR_NOT_FOUND);
    object_close(plain);
    object_close(losing);
    object_close(failing);
    object_shelf_destroy(shelf);
}

static void test_a_truncated_get_has_part_of_the_body(void **state)
{
    (void)state;
    struct object_faults faults = {.truncated = 1};
    struct object_store *store = object_faulty_create(object_memory_open_alone(), &faults);
    assert_int_equal(object_put(store, "a", "0123456789", 10, NULL), ERR_OK);
    struct object_call get = {.verb = OBJECT_GET, .key = "a"};
    assert_int_equal(object_do(store, &get, NULL), ERR_AGAIN);
    assert_true(get.body.size < 10);
    assert_memory_equal(str_text(&get.body), "0123456789", get.body.size);
    object_call_release(&get);
    object_close(store);
}

/* -- retry ------------------------------------------------------------------------------------ */

static void test_retry_gives_up_after_its_tries_and_says_so(void **state)
{
    (void)state;
    struct object_faults faults = {.fail = 1};
    struct object_patience patience = {.tries = 5, .first_ms = 1, .longest_ms = 2};
    struct object_store *store =
        object_retry_create(object_faulty_create(object_memory_open_alone(), &faults), &patience);
    struct err err = {0};
    int64_t before_ms = clock_mono_ms();
    assert_int_equal(object_put(store, "some/key", "1", 1, &err), ERR_AGAIN);
    assert_true(clock_mono_ms() - before_ms < 1000);
    assert_non_null(strstr(err.text, "some/key"));
    assert_non_null(strstr(err.text, "(tried 5 times)"));
    struct object_stats stats = {0};
    object_stats(store, &stats);
    assert_int_equal(stats.retries, 4);
    assert_int_equal(stats.puts, 0);
    object_close(store);
}

static void test_retry_leaves_other_failures_alone(void **state)
{
    (void)state;
    struct object_patience patience = {.first_ms = 1};
    struct object_store *store = object_retry_create(object_memory_open_alone(), &patience);
    struct err err = {0};
    AUTO_STR struct str out = {0};
    assert_int_equal(object_get(store, "none", &out, NULL, &err), ERR_NOT_FOUND);
    assert_null(strstr(err.text, "tried"));
    assert_int_equal(object_put_if_absent(store, "a", "1", 1, NULL), ERR_OK);
    assert_int_equal(object_put_if_absent(store, "a", "2", 1, NULL), ERR_EXISTS);
    struct object_stats stats = {0};
    object_stats(store, &stats);
    assert_int_equal(stats.retries, 0);
    object_close(store);
}

static void test_retry_asks_again_until_a_truncated_body_is_whole(void **state)
{
    (void)state;
    struct object_faults faults = {.seed = 7, .truncated = 0.7, .fail = 0.2};
    struct object_patience patience = {.tries = 100, .first_ms = 1, .longest_ms = 1};
    struct object_store *store =
        object_retry_create(object_faulty_create(object_memory_open_alone(), &faults), &patience);
    assert_int_equal(object_put(store, "a", "0123456789", 10, NULL), ERR_OK);
    for (int i = 0; i < 20; i++) {
        AUTO_STR struct str out = {0};
        assert_int_equal(object_get(store, "a", &out, NULL, NULL), ERR_OK);
        assert_string_equal(str_text(&out), "0123456789");
    }
    object_close(store);
}

struct closing {
    struct object_store *store;
    struct object_call calls[2];
    int ended;
};

static void on_closing(struct object_call *call)
{
    struct closing *closing = call->context;
    assert_int_equal(call->code, ERR_CANCELLED);
    if (closing->ended++ == 0) {
        closing->calls[1] = (struct object_call){
            .verb = OBJECT_HEAD, .key = "b", .done = on_closing, .context = closing};
        object_start(closing->store, &closing->calls[1]);
    }
}

static void test_close_ends_calls_between_two_tries_and_what_they_start(void **state)
{
    (void)state;
    struct object_faults faults = {.fail = 1};
    struct object_patience patience = {.seed = 1, .first_ms = 1000000, .longest_ms = 1000000};
    struct closing closing = {
        .store = object_retry_create(object_faulty_create(object_memory_open_alone(), &faults),
                                     &patience)};
    closing.calls[0] = (struct object_call){
        .verb = OBJECT_HEAD, .key = "a", .done = on_closing, .context = &closing};
    object_start(closing.store, &closing.calls[0]);
    assert_int_equal(object_run(closing.store, 20), 0);
    object_close(closing.store);
    assert_int_equal(closing.ended, 2);
}

static enum err_code open_failing(void *context, struct object_store **out, struct err *err)
{
    (void)context;
    (void)err;
    struct object_faults faults = {.fail = 1};
    struct object_patience patience = {.seed = 1, .first_ms = 1000000, .longest_ms = 1000000};
    *out =
        object_retry_create(object_faulty_create(object_memory_open_alone(), &faults), &patience);
    return ERR_OK;
}

static void test_close_ends_calls_between_two_tries_in_a_thread_too(void **state)
{
    (void)state;
    struct closing closing = {.ended = 1}; /* nothing more is started */
    assert_int_equal(object_threaded_open(open_failing, NULL, &closing.store, NULL), ERR_OK);
    closing.calls[0] = (struct object_call){
        .verb = OBJECT_HEAD, .key = "a", .done = on_closing, .context = &closing};
    object_start(closing.store, &closing.calls[0]);
    assert_int_equal(object_run(closing.store, 50), 0);
    object_close(closing.store);
    assert_int_equal(closing.ended, 2);
}

static bool is_readable(struct object_store *store)
{
    struct pollfd wait = {.fd = object_fd(store), .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

static void test_an_idle_store_wakes_nobody(void **state)
{
    (void)state;
    struct object_faults faults = {.seed = 3, .fail = 0.3, .delay_ms = 3};
    struct object_patience patience = {.first_ms = 2, .longest_ms = 2};
    struct object_store *store =
        object_retry_create(object_faulty_create(object_memory_open_alone(), &faults), &patience);
    assert_false(is_readable(store));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(object_put(store, "a", "1", 1, NULL), ERR_OK);
        assert_false(is_readable(store));
    }
    object_close(store);
}

/* -- URLs ------------------------------------------------------------------------------------- */

static void assert_url(const char *text, const char *place, const char *prefix)
{
    struct object_url url;
    struct err err = {0};
    assert_int_equal(object_url_parse(text, &url, &err), ERR_OK);
    assert_string_equal(str_text(&url.place), place);
    assert_string_equal(str_text(&url.prefix), prefix);
    object_url_release(&url);
}

static void test_urls_name_a_folder_a_bucket_or_memory(void **state)
{
    (void)state;
    assert_url("file:///srv/data", "/srv/data", "");
    assert_url("file:///srv/my%20data//", "/srv/my data", "");
    assert_url("s3://bucket", "bucket", "");
    assert_url("s3://bucket/", "bucket", "");
    assert_url("s3://my.bucket-1/some/prefix/", "my.bucket-1", "some/prefix");
    assert_url("memory://", "", "");
    assert_url("memory://test-1", "test-1", "");
}

static void test_urls_that_mean_nothing_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "folder",
                                        "/folder",
                                        "file:/folder",
                                        "file://folder",
                                        "file://",
                                        "file:///",
                                        "file:////",
                                        "file:///a%2",
                                        "file:///a%00b",
                                        "file:///%",
                                        "s3://",
                                        "s3:///prefix",
                                        "s3://ab",
                                        "s3://a b c",
                                        "s3://-abc",
                                        "s3://abc-",
                                        "s3://a..b",
                                        "s3://abc//",
                                        "s3://abc//x",
                                        "s3://abc/../x",
                                        "s3://abc/x//",
                                        "s3://abc/x y",
                                        "S3://abc",
                                        "http://host/x",
                                        "memory://a/b"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct object_url url;
        struct err err = {0};
        struct object_store *store = NULL;
        assert_int_equal(object_url_parse(texts[i], &url, &err), ERR_INVALID);
        assert_true(err.text[0] != '\0');
        assert_int_equal(object_open(texts[i], NULL, &store, &err), ERR_INVALID);
        assert_null(store);
    }
}

static void test_stores_are_opened_by_url(void **state)
{
    (void)state;
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/drover-open-XXXXXX");
    assert_non_null(mkdtemp(folder));
    AUTO_STR struct str url = {0};
    str_addf(&url, "file://%s/a%%20b", folder);
    struct object_store *store = NULL;
    struct err err = {0};
    assert_int_equal(object_open(str_text(&url), NULL, &store, &err), ERR_NOT_FOUND);
    struct object_options options = {.create = true};
    assert_int_equal(object_open(str_text(&url), &options, &store, &err), ERR_OK);
    assert_int_equal(object_put(store, "k", "v", 1, &err), ERR_OK);
    object_close(store);
    str_clear(&url);
    str_addf(&url, "%s/a b/k", folder);
    assert_int_equal(access(str_text(&url), F_OK), 0);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);

    AUTO_STR struct str out = {0};
    assert_int_equal(object_open("memory://x", NULL, &store, &err), ERR_OK);
    assert_int_equal(object_put(store, "k", "v", 1, &err), ERR_OK);
    object_close(store);
    assert_int_equal(object_open("memory://x", NULL, &store, &err), ERR_OK);
    assert_int_equal(object_get(store, "k", &out, NULL, &err), ERR_NOT_FOUND);
    object_close(store);
    options.addressing = "sideways";
    assert_int_equal(object_open("memory://x", &options, &store, &err), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_follow_from_the_seed_and_come_in_their_shares),
        cmocka_unit_test(test_a_lost_reply_has_happened_and_a_failure_has_not),
        cmocka_unit_test(test_a_truncated_get_has_part_of_the_body),
        cmocka_unit_test(test_retry_gives_up_after_its_tries_and_says_so),
        cmocka_unit_test(test_retry_leaves_other_failures_alone),
        cmocka_unit_test(test_retry_asks_again_until_a_truncated_body_is_whole),
        cmocka_unit_test(test_close_ends_calls_between_two_tries_and_what_they_start),
        cmocka_unit_test(test_close_ends_calls_between_two_tries_in_a_thread_too),
        cmocka_unit_test(test_an_idle_store_wakes_nobody),
        cmocka_unit_test(test_urls_name_a_folder_a_bucket_or_memory),
        cmocka_unit_test(test_urls_that_mean_nothing_are_refused_with_a_reason),
        cmocka_unit_test(test_stores_are_opened_by_url),
    };
    return cmocka_run_group_tests_name("object wrap", tests, NULL, NULL);
}
