/* The S3 driver against a real server, which tests/object_s3.sh starts and names in the
 * environment: DROVER_TEST_S3         its endpoint, http://localhost:PORT DROVER_TEST_S3_BUCKET  an
 * empty bucket DROVER_TEST_S3_FAULTS  "reset=URL truncate=URL ...": endpoints of
 * tests/object_proxy.py and the usual AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Skipped without
 * them. */
#include "base/clock.h"
#include "base/mem.h"
#include "object/object_conformance.h"
#include "object/object_s3_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LARGE_BYTES = 11 << 20, PART_BYTES = 5 << 20 };

static const char *endpoint;
static const char *bucket;

/* The endpoint with this fault. */
static char *fault_url(const char *name)
{
    const char *faults = getenv("DROVER_TEST_S3_FAULTS");
    AUTO_STR struct str sought = {0};
    str_addf(&sought, "%s=", name);
    const char *at = strstr(faults ? faults : "", sought.text);
    if (!at) {
        skip();
        return NULL;
    }
    at += sought.size;
    return mem_strndup(at, strcspn(at, " "));
}

static struct object_store *open_with(const char *prefix, const struct object_options *options)
{
    struct object_store *store = NULL;
    struct err err = {0};
    if (object_s3_open(bucket, prefix, options, &store, &err) != ERR_OK) {
        print_error("%s\n", err.text);
    }
    assert_non_null(store);
    return store;
}

static struct object_store *open_fault(const char *name)
{
    AUTO_FREE char *url = fault_url(name);
    struct object_options options = {.endpoint = url, .timeout_ms = 1000, .part_bytes = PART_BYTES};
    return open_with("faults", &options);
}

/* -- the suite --------------------------------------------------------------------------------- */

static struct object_store *open_plain(void)
{
    struct object_options options = {.endpoint = endpoint, .part_bytes = PART_BYTES};
    return open_with("plain/deep", &options);
}

/* Also where the network is good: servers answer 409 or 500 to some of those who race for a key. */
static struct object_store *with_retries(struct object_store *inner, uint64_t seed)
{
    struct object_patience patience = {.seed = seed, .first_ms = 1, .longest_ms = 8, .tries = 30};
    return object_retry_create(inner, &patience);
}

static struct object_store *open_by_path(struct object_conformance *driver)
{
    return with_retries(open_plain(), driver->seed);
}

static struct object_store *open_by_host(struct object_conformance *driver)
{
    struct object_options options = {.endpoint = endpoint, .addressing = "virtual"};
    return with_retries(open_with("", &options), driver->seed);
}

static struct object_store *open_faulty(struct object_conformance *driver)
{
    (void)driver;
    return open_fault("random");
}

static struct object_store *open_faulty_with_retries(struct object_conformance *driver)
{
    return with_retries(open_fault("random"), driver->seed);
}

static int run_suites(void)
{
    bool is_tree = getenv("DROVER_TEST_S3_TREE") != NULL;
    struct object_conformance by_path = {
        .name = "S3", .open = open_by_path, .is_tree = is_tree, .seed = 1};
    struct object_conformance by_host = {.name = "S3, the bucket in the host's name",
                                         .open = open_by_host,
                                         .large_bytes = LARGE_BYTES,
                                         .many_keys = 1001,
                                         .random_steps = 200,
                                         .is_tree = is_tree,
                                         .seed = 2};
    struct object_conformance faulty = {.name = "S3 behind a bad network",
                                        .open = open_faulty,
                                        .is_faulty = true,
                                        .large_bytes = LARGE_BYTES,
                                        .many_keys = 1001,
                                        .random_steps = 300,
                                        .is_tree = is_tree,
                                        .seed = 3};
    struct object_conformance retrying = faulty;
    retrying.name = "S3 with retries behind a bad network";
    retrying.open = open_faulty_with_retries;
    int failed = object_conformance_run(&by_path) + object_conformance_run(&by_host);
    if (getenv("DROVER_TEST_S3_FAULTS")) {
        failed += object_conformance_run(&faulty) + object_conformance_run(&retrying);
    }
    return failed;
}

/* -- what is refused --------------------------------------------------------------------------- */

static void test_a_wrong_secret_is_denied_and_not_told(void **state)
{
    (void)state;
    char *right = mem_strdup(getenv("AWS_SECRET_ACCESS_KEY"));
    setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret-value", 1);
    struct object_store *store = open_plain();
    setenv("AWS_SECRET_ACCESS_KEY", right, 1);
    free(right);
    struct err err = {0};
    struct str out = {0};
    assert_int_equal(object_get(store, "a", &out, NULL, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "SignatureDoesNotMatch"));
    assert_null(strstr(err.text, "wrong-secret-value"));
    assert_null(strstr(err.text, "Signature="));
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_DENIED);
    assert_int_equal(object_delete(store, "a", &err), ERR_DENIED);
    object_close(store);
}

static void test_an_unknown_access_key_is_denied(void **state)
{
    (void)state;
    char *right = mem_strdup(getenv("AWS_ACCESS_KEY_ID"));
    setenv("AWS_ACCESS_KEY_ID", "nobody", 1);
    struct object_store *store = open_plain();
    setenv("AWS_ACCESS_KEY_ID", right, 1);
    free(right);
    struct err err = {0};
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "InvalidAccessKeyId"));
    object_close(store);
}

static void test_a_bucket_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    struct object_options options = {.endpoint = endpoint};
    struct object_store *store = NULL;
    struct err err = {0};
    struct str out = {0};
    assert_int_equal(object_s3_open("no-such-bucket", "", &options, &store, &err), ERR_OK);
    assert_int_equal(object_get(store, "a", &out, NULL, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "NoSuchBucket"));
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_NOT_FOUND);
    assert_int_equal(object_delete(store, "a", &err), ERR_NOT_FOUND);
    object_close(store);
}

static void test_a_wrong_clock_is_named(void **state)
{
    (void)state;
    struct object_store *store = open_plain();
    struct err err = {0};
    object_s3_set_skew(store, (int64_t)3600 * 1000);
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "RequestTimeTooSkewed"));
    assert_non_null(strstr(err.text, "clock"));
    object_close(store);
}

static void test_only_a_trusted_certificate_will_do(void **state)
{
    (void)state;
    struct object_options options = {.endpoint = getenv("DROVER_TEST_S3_TLS"),
                                     .ca_file = getenv("DROVER_TEST_S3_CA")};
    if (!options.endpoint) {
        skip();
        return;
    }
    struct err err = {0};
    struct object_store *store = open_with("tls", &options);
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_OK);
    object_close(store);
    options.ca_file = NULL;
    store = open_with("tls", &options);
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_IO);
    assert_non_null(strstr(err.text, "certificate"));
    object_close(store);
}

static void test_a_port_where_nobody_listens_is_tried_again_later(void **state)
{
    (void)state;
    struct object_options options = {.endpoint = "http://127.0.0.1:1"};
    struct object_store *store = open_with("", &options);
    struct err err = {0};
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_AGAIN);
    object_close(store);
}

/* -- a bad network ----------------------------------------------------------------------------- */

static void put_good(const char *key, const void *data, size_t size)
{
    struct object_options options = {.endpoint = endpoint};
    struct object_store *store = open_with("faults", &options);
    struct err err = {0};
    assert_int_equal(object_put(store, key, data, size, &err), ERR_OK);
    object_close(store);
}

static void expect_get(const char *fault, enum err_code code)
{
    AUTO_STR struct str data = {0};
    conformance_fill(&data, 7, 300000);
    put_good("here", data.text, data.size);
    struct object_store *store = open_fault(fault);
    struct err err = {0};
    AUTO_STR struct str out = {0};
    str_add(&out, "kept");
    assert_int_equal(object_get(store, "here", &out, NULL, &err), code);
    assert_string_equal(out.text, "kept");
    assert_non_null(strstr(err.text, "here"));
    object_close(store);
}

static void test_a_reset_connection_is_tried_again_later(void **state)
{
    (void)state;
    expect_get("reset", ERR_AGAIN);
    expect_get("lost", ERR_AGAIN);
}

static void test_a_truncated_answer_is_none(void **state)
{
    (void)state;
    expect_get("truncate", ERR_AGAIN);
    struct object_store *store = open_fault("truncate");
    struct object_call call = {.verb = OBJECT_LIST};
    struct err err = {0};
    assert_int_equal(object_do(store, &call, &err), ERR_AGAIN);
    assert_int_equal(call.page_count, 0);
    object_call_release(&call);
    object_close(store);
}

static void test_overload_is_tried_again_later(void **state)
{
    (void)state;
    expect_get("unavailable", ERR_AGAIN);
    struct object_store *store = open_fault("unavailable");
    struct err err = {0};
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_AGAIN);
    assert_non_null(strstr(err.text, "SlowDown"));
    object_close(store);
}

static void test_silence_ends_after_the_timeout(void **state)
{
    (void)state;
    int64_t before_ms = clock_mono_ms();
    expect_get("stall", ERR_TIMEOUT);
    int64_t took_ms = clock_mono_ms() - before_ms;
    assert_in_range((uintmax_t)took_ms, 900, 6000);
}

static void test_bytes_damaged_on_the_way_are_not_stored(void **state)
{
    (void)state;
    put_good("kept", "before", 6);
    struct object_store *store = open_fault("damage");
    struct err err = {0};
    assert_int_equal(object_put(store, "kept", "after!", 6, &err), ERR_AGAIN);
    object_close(store);
    struct object_options options = {.endpoint = endpoint};
    store = open_with("faults", &options);
    AUTO_STR struct str out = {0};
    assert_int_equal(object_get(store, "kept", &out, NULL, &err), ERR_OK);
    assert_string_equal(out.text, "before");
    object_close(store);
}

static void test_an_etag_of_other_bytes_is_corruption(void **state)
{
    (void)state;
    struct object_store *store = open_fault("etag");
    struct err err = {0};
    assert_int_equal(object_put(store, "a", "x", 1, &err), ERR_CORRUPT);
    object_close(store);
}

/* -- uploads ----------------------------------------------------------------------------------- */

struct look {
    bool is_done;
    struct str text;
};

static void on_look(struct s3_request *request)
{
    struct look *look = request->call->context;
    assert_int_equal(request->exchange.status, 200);
    str_add(&look->text, str_text(&request->exchange.text));
    look->is_done = true;
    s3_request_destroy(request);
}

/* Whether the server has parts of uploads that are not complete. */
static bool has_uploads(void)
{
    struct object_store *store = open_plain();
    struct look look = {0};
    struct object_call call = {.verb = OBJECT_LIST, .context = &look};
    struct s3_request *request = s3_request_create((struct s3 *)store, &call, "GET", NULL);
    s3_add_query(&request->query, "uploads", "");
    request->done = on_look;
    s3_request_send(request);
    while (!look.is_done) {
        object_run(store, 100);
    }
    object_close(store);
    assert_non_null(strstr(look.text.text, "<ListMultipartUploadsResult"));
    bool any = strstr(look.text.text, "<Upload>");
    str_release(&look.text);
    return any;
}

static void on_cancelled(struct object_call *call)
{
    assert_int_equal(call->code, ERR_CANCELLED);
    ++*(int *)call->context;
}

static void test_an_upload_that_ends_early_leaves_no_parts(void **state)
{
    (void)state;
    AUTO_STR struct str data = {0};
    conformance_fill(&data, 1, (size_t)8 * PART_BYTES);
    int ended = 0;
    struct object_call call = {.verb = OBJECT_PUT,
                               .key = "large",
                               .data = data.text,
                               .data_size = data.size,
                               .done = on_cancelled,
                               .context = &ended};
    struct object_store *store = open_plain();
    struct object_stats stats = {0};
    object_start(store, &call);
    while (stats.bytes_out < PART_BYTES) { /* parts are on their way */
        object_run(store, 1);
        object_stats(store, &stats);
    }
    assert_true(has_uploads());
    object_close(store);
    assert_int_equal(ended, 1);
    assert_false(has_uploads());
}

static void test_an_upload_whose_part_fails_leaves_no_parts(void **state)
{
    (void)state;
    AUTO_STR struct str data = {0};
    conformance_fill(&data, 1, (size_t)4 * PART_BYTES);
    struct err err = {0};
    struct object_store *store = open_fault("damage"); /* bodies, so only parts */
    assert_int_equal(object_put(store, "large", data.text, data.size, &err), ERR_AGAIN);
    object_close(store);
    assert_false(has_uploads());
}

/* -- keys from metadata servers ---------------------------------------------------------------- */

/* Runs `test` with no keys in the environment but what metadata servers give. */
static void without_keys(void (*test)(const char *metadata))
{
    const char *metadata = getenv("DROVER_TEST_S3_METADATA");
    if (!metadata) {
        skip();
        return;
    }
    char *access_key = mem_strdup(getenv("AWS_ACCESS_KEY_ID"));
    char *secret_key = mem_strdup(getenv("AWS_SECRET_ACCESS_KEY"));
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    test(metadata);
    setenv("AWS_ACCESS_KEY_ID", access_key, 1);
    setenv("AWS_SECRET_ACCESS_KEY", secret_key, 1);
    free(access_key);
    free(secret_key);
}

static void use_instance(const char *metadata)
{
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata, 1);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    struct object_store *store = open_plain();
    struct err err = {0};
    /* The first keys are wrong; they are good for 400 s more. */
    assert_int_equal(object_put(store, "metadata", "x", 1, &err), ERR_DENIED);
    object_s3_set_skew(store, 395000);
    assert_int_equal(object_put(store, "metadata", "x", 1, &err), ERR_OK);
    assert_int_equal(object_put(store, "metadata", "y", 1, &err), ERR_OK);
    object_close(store);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
}

static void test_an_instance_renews_its_keys_before_they_expire(void **state)
{
    (void)state;
    without_keys(use_instance);
}

static void use_container(const char *metadata)
{
    AUTO_STR struct str url = {0};
    str_addf(&url, "%s/container", metadata);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.text, 1);
    struct object_options options = {.endpoint = endpoint};
    struct object_store *store = NULL;
    struct err err = {0};
    assert_int_equal(object_s3_open(bucket, "", &options, &store, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "401"));
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "open sesame", 1);
    store = open_plain();
    assert_int_equal(object_put(store, "metadata", "x", 1, &err), ERR_OK);
    object_close(store);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://far.example/keys", 1);
    assert_int_equal(object_s3_open(bucket, "", &options, &store, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "neither HTTPS"));
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
}

static void test_a_container_shows_its_token(void **state)
{
    (void)state;
    without_keys(use_container);
}

static void use_nothing(const char *metadata)
{
    (void)metadata;
    struct object_options options = {.endpoint = endpoint};
    struct object_store *store = NULL;
    struct err err = {0};
    assert_int_equal(object_s3_open(bucket, "", &options, &store, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "AWS_ACCESS_KEY_ID"));
}

static void test_without_any_keys_nothing_is_opened(void **state)
{
    (void)state;
    without_keys(use_nothing);
}

int main(void)
{
    endpoint = getenv("DROVER_TEST_S3");
    bucket = getenv("DROVER_TEST_S3_BUCKET");
    if (!endpoint || !bucket) {
        printf("skip - no S3 server: DROVER_TEST_S3 is not set (tests/object_s3.sh does that)\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_secret_is_denied_and_not_told),
        cmocka_unit_test(test_an_unknown_access_key_is_denied),
        cmocka_unit_test(test_a_bucket_that_is_not_there_is_not_found),
        cmocka_unit_test(test_a_wrong_clock_is_named),
        cmocka_unit_test(test_only_a_trusted_certificate_will_do),
        cmocka_unit_test(test_a_port_where_nobody_listens_is_tried_again_later),
        cmocka_unit_test(test_a_reset_connection_is_tried_again_later),
        cmocka_unit_test(test_a_truncated_answer_is_none),
        cmocka_unit_test(test_overload_is_tried_again_later),
        cmocka_unit_test(test_silence_ends_after_the_timeout),
        cmocka_unit_test(test_bytes_damaged_on_the_way_are_not_stored),
        cmocka_unit_test(test_an_etag_of_other_bytes_is_corruption),
        cmocka_unit_test(test_an_upload_that_ends_early_leaves_no_parts),
        cmocka_unit_test(test_an_upload_whose_part_fails_leaves_no_parts),
        cmocka_unit_test(test_an_instance_renews_its_keys_before_they_expire),
        cmocka_unit_test(test_a_container_shows_its_token),
        cmocka_unit_test(test_without_any_keys_nothing_is_opened),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + run_suites();
}
