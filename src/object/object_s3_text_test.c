/* Where an S3 store and its keys are found: files, environment, JSON, endpoints. */
#include "object/object_s3_config.h"
#include "object/object_s3_text.h"

#include "base/io.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char home[128];

static struct str of(const char *text)
{
    return (struct str){.text = (char *)(uintptr_t)text, .size = strlen(text)};
}

static void expect_ini(const char *text, const char *section, const char *key, const char *expected)
{
    struct str file = of(text);
    AUTO_STR struct str value = {0};
    assert_int_equal(s3_ini_find(&file, section, key, &value), expected != NULL);
    assert_string_equal(str_text(&value), expected ? expected : "");
}

static void test_values_are_found_in_their_section(void **state)
{
    (void)state;
    const char *text =
        "region = nowhere\n[default]\n# region = commented\nregion=us-west-2\r\n"
        "s3 =\n  addressing_style = path\n  max_queue_size = 5\n\n"
        "[ profile  \"dev\" ]\nRegion = eu-central-1 \n;x\naddressing_style = not set "
        "off\n[profile dev2]\nregion = a\nregion = b=c\n";
    expect_ini(text, "default", "region", "us-west-2");
    expect_ini(text, "default", "s3.addressing_style", "path");
    expect_ini(text, "default", "addressing_style", NULL);
    expect_ini(text, "profile dev", "region", "eu-central-1");
    expect_ini(text, "profile dev", "s3.addressing_style", NULL);
    expect_ini(text, "profile dev2", "region", "b=c");
    expect_ini(text, "profile de", "region", NULL);
    expect_ini("[a", "a", "b", NULL);
    expect_ini("[a]\nb", "a", "b", NULL);
    expect_ini("[a]\nb=", "a", "b", NULL);
    expect_ini("[a]\nb=c", "a", "b", "c");
}

static void expect_json(const char *text, const char *expected)
{
    struct str json = of(text);
    AUTO_STR struct str value = {0};
    assert_int_equal(s3_json_find(&json, "k", &value), expected != NULL);
    assert_string_equal(str_text(&value), expected ? expected : "");
}

static void test_json_gives_its_text_members(void **state)
{
    (void)state;
    expect_json("{\"k\":\"v\"}", "v");
    expect_json(
        " { \"a\" : [1, -2.5e3, {\"k\":\"inner\"}, []], \"b\":{}, \"k\" : \"\\u0041\\n\\\"\" } ",
        "A\n\"");
    expect_json("{\"a\":null,\"k\":\"x\",\"b\":true}", "x");
    expect_json("{\"k\":1}", NULL);
    expect_json("{}", NULL);
    expect_json("", NULL);
    expect_json("{\"k\":\"v\"", NULL); /* cut off */
    expect_json("{\"k\":\"v\"}x", NULL);
    expect_json("{\"k\":\"v\",}", NULL);
    expect_json("{\"k\" \"v\"}", NULL);
    expect_json("{\"k\":\"\\u0000\"}", NULL);
    expect_json("{\"a\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]],\"k\":\"v\"}",
                NULL); /* too deep */
}

static void test_times_are_in_utc(void **state)
{
    (void)state;
    int64_t unix_ms = 0;
    assert_true(s3_time_parse("2015-08-30T12:36:00Z", &unix_ms));
    assert_true(unix_ms == 1440938160000);
    assert_true(s3_time_parse("2015-08-30T12:36:00.123Z", &unix_ms));
    assert_false(s3_time_parse("2015-08-30", &unix_ms));
    assert_false(s3_time_parse("soon", &unix_ms));
}

/* -- keys -------------------------------------------------------------------------------------- */

static void write_home(const char *name, const char *text)
{
    AUTO_STR struct str path = {0};
    struct err err = {0};
    str_addf(&path, "%s/.aws/%s", home, name);
    assert_int_equal(io_replace_file(path.text, text, strlen(text), 0600, &err), ERR_OK);
}

static enum err_code load(const char *profile_name, struct s3_credentials *out, struct err *err)
{
    struct s3_profile profile;
    assert_int_equal(s3_profile_load(&profile, profile_name, err), ERR_OK);
    enum err_code code = s3_credentials_load(out, &profile, profile_name != NULL, err);
    s3_profile_release(&profile);
    return code;
}

static void test_the_environment_comes_before_the_files(void **state)
{
    (void)state;
    write_home("credentials", "[default]\naws_access_key_id = filekey\naws_secret_access_key = "
                              "filesecret\n[dev]\naws_access_key_id = devkey\n"
                              "aws_secret_access_key = devsecret\naws_session_token = devtoken\n");
    struct s3_credentials keys = {0};
    struct err err = {0};
    assert_int_equal(load(NULL, &keys, &err), ERR_OK);
    assert_int_equal(keys.source, S3_SOURCE_PROFILE);
    assert_string_equal(keys.access_key.text, "filekey");
    assert_string_equal(keys.secret_key.text, "filesecret");
    assert_string_equal(str_text(&keys.token), "");
    s3_credentials_release(&keys);

    setenv("AWS_ACCESS_KEY_ID", "envkey", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "envsecret", 1);
    setenv("AWS_SESSION_TOKEN", "envtoken", 1);
    assert_int_equal(load(NULL, &keys, &err), ERR_OK);
    assert_int_equal(keys.source, S3_SOURCE_ENVIRONMENT);
    assert_string_equal(keys.access_key.text, "envkey");
    assert_string_equal(keys.token.text, "envtoken");
    s3_credentials_release(&keys);

    assert_int_equal(load("dev", &keys, &err), ERR_OK); /* asked for by name */
    assert_string_equal(keys.access_key.text, "devkey");
    assert_string_equal(keys.token.text, "devtoken");
    s3_credentials_release(&keys);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_SESSION_TOKEN");

    setenv("AWS_PROFILE", "dev", 1);
    assert_int_equal(load(NULL, &keys, &err), ERR_OK);
    assert_string_equal(keys.secret_key.text, "devsecret");
    s3_credentials_release(&keys);
    unsetenv("AWS_PROFILE");
}

static void test_unusable_keys_are_refused_without_being_told(void **state)
{
    (void)state;
    write_home("credentials", "[half]\naws_access_key_id = AKSECRET\n[odd]\naws_access_key_id = "
                              "AK\x01SECRET\naws_secret_access_key = SECRET\n");
    write_home("config", "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nregion = eu-west-1\n");
    struct s3_credentials keys = {0};
    struct err err = {0};
    static const char *const names[] = {"half", "odd", "role", "nobody"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(load(names[i], &keys, &err), ERR_DENIED);
        assert_non_null(strstr(err.text, names[i]));
        assert_null(strstr(err.text, "SECRET"));
    }
    assert_int_equal(load(NULL, &keys, &err), ERR_OK); /* nothing there is not a failure yet */
    assert_int_equal(keys.source, S3_SOURCE_NONE);
}

static void test_metadata_is_read(void **state)
{
    (void)state;
    struct s3_credentials keys = {0};
    struct err err = {0};
    struct str json = of("{\"Code\":\"Success\",\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"SK\","
                         "\"Token\":\"T\",\"Expiration\":\"2015-08-30T12:36:00Z\"}");
    assert_int_equal(s3_credentials_parse(&keys, &json, &err), ERR_OK);
    assert_string_equal(keys.token.text, "T");
    assert_true(keys.expires_ms == 1440938160000);
    s3_credentials_release(&keys);
    json = of("{\"Code\":\"Failed\"}");
    assert_int_equal(s3_credentials_parse(&keys, &json, &err), ERR_DENIED);
    json = of("{\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"SK\",\"Expiration\":\"soon\"}");
    assert_int_equal(s3_credentials_parse(&keys, &json, &err), ERR_DENIED);
}

/* -- places ------------------------------------------------------------------------------------ */

struct place {
    const char *bucket;
    const char *prefix;
    struct object_options options;
    const char *origin, *host, *path, *full_prefix;
};

static enum err_code configure(struct s3_config *config, const char *bucket, const char *prefix,
                               const struct object_options *options)
{
    struct s3_profile profile;
    struct err err = {0};
    assert_int_equal(s3_profile_load(&profile, NULL, &err), ERR_OK);
    enum err_code code = s3_config_init(config, bucket, prefix, options, &profile, &err);
    s3_profile_release(&profile);
    return code;
}

static void test_places_become_hosts_and_paths(void **state)
{
    (void)state;
    write_home("config", "");
    static const struct place places[] = {
        {"bkt",
         "",
         {0},
         "https://bkt.s3.us-east-1.amazonaws.com",
         "bkt.s3.us-east-1.amazonaws.com",
         "",
         ""},
        {"bkt",
         "/a/b//",
         {.region = "eu-west-1", .addressing = "path"},
         "https://s3.eu-west-1.amazonaws.com",
         "s3.eu-west-1.amazonaws.com",
         "/bkt",
         "a/b/"},
        {"bkt",
         NULL,
         {.region = "cn-north-1"},
         "https://bkt.s3.cn-north-1.amazonaws.com.cn",
         "bkt.s3.cn-north-1.amazonaws.com.cn",
         "",
         ""},
        {"b.k.t",
         "",
         {0},
         "https://s3.us-east-1.amazonaws.com",
         "s3.us-east-1.amazonaws.com",
         "/b.k.t",
         ""},
        {"bkt",
         "a",
         {.endpoint = "http://127.0.0.1:7480/"},
         "http://127.0.0.1:7480",
         "127.0.0.1:7480",
         "/bkt",
         "a/"},
        {"bkt", "", {.endpoint = "http://[::1]:80"}, "http://[::1]", "[::1]", "/bkt", ""},
        {"bkt",
         "",
         {.endpoint = "https://h:443", .addressing = "virtual"},
         "https://bkt.h",
         "bkt.h",
         "",
         ""},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct s3_config config;
        const struct place *place = &places[i];
        assert_int_equal(configure(&config, place->bucket, place->prefix, &place->options), ERR_OK);
        assert_string_equal(config.origin, place->origin);
        assert_string_equal(config.host, place->host);
        assert_string_equal(config.path, place->path);
        assert_string_equal(config.prefix, place->full_prefix);
        s3_config_release(&config);
    }
}

static void test_places_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    static const struct object_options bad[] = {
        {.endpoint = "ftp://h"},      {.endpoint = "h:80"},
        {.endpoint = "http://"},      {.endpoint = "http://h/path"},
        {.endpoint = "http://u:p@h"}, {.endpoint = "http://h\r\nx: y"},
        {.addressing = "both"},       {.region = "us east"},
    };
    struct s3_config config;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(configure(&config, "bkt", "", &bad[i]), ERR_INVALID);
    }
    struct object_options none = {0};
    static const char *const buckets[] = {"", "a/b", "a b", "../x", "a?b"};
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
        assert_int_equal(configure(&config, buckets[i], "", &none), ERR_INVALID);
    }
}

static void test_the_profile_fills_what_is_left_open(void **state)
{
    (void)state;
    write_home("config", "[default]\nregion = ap-south-1\nendpoint_url = http://store:9000\n"
                         "ca_bundle = /ca.pem\ns3 =\n  addressing_style = virtual\n");
    struct s3_config config;
    struct object_options none = {0};
    assert_int_equal(configure(&config, "bkt", "", &none), ERR_OK);
    assert_string_equal(config.region, "ap-south-1");
    assert_string_equal(config.origin, "http://bkt.store:9000");
    assert_string_equal(config.ca_file, "/ca.pem");
    s3_config_release(&config);
    setenv("AWS_REGION", "eu-west-1", 1);
    struct object_options some = {.endpoint = "http://other", .addressing = "path"};
    assert_int_equal(configure(&config, "bkt", "", &some), ERR_OK);
    assert_string_equal(config.region, "eu-west-1");
    assert_string_equal(config.origin, "http://other");
    s3_config_release(&config);
    unsetenv("AWS_REGION");
    write_home("config", "");
}

static int make_home(void **state)
{
    (void)state;
    static const char *const variables[] = {"AWS_ACCESS_KEY_ID",
                                            "AWS_SECRET_ACCESS_KEY",
                                            "AWS_SESSION_TOKEN",
                                            "AWS_PROFILE",
                                            "AWS_REGION",
                                            "AWS_DEFAULT_REGION",
                                            "AWS_CA_BUNDLE",
                                            "AWS_ENDPOINT_URL",
                                            "AWS_ENDPOINT_URL_S3",
                                            "AWS_CONFIG_FILE",
                                            "AWS_SHARED_CREDENTIALS_FILE"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i]);
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(home, sizeof home, "%s/object-s3-text.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(home)) {
        return -1;
    }
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/.aws", home);
    setenv("HOME", home, 1);
    return io_make_dirs(folder.text, NULL) == ERR_OK ? 0 : -1;
}

static int remove_home(void **state)
{
    (void)state;
    return io_remove_tree(home, NULL) == ERR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_found_in_their_section),
        cmocka_unit_test(test_json_gives_its_text_members),
        cmocka_unit_test(test_times_are_in_utc),
        cmocka_unit_test(test_the_environment_comes_before_the_files),
        cmocka_unit_test(test_unusable_keys_are_refused_without_being_told),
        cmocka_unit_test(test_metadata_is_read),
        cmocka_unit_test(test_places_become_hosts_and_paths),
        cmocka_unit_test(test_places_that_mean_nothing_are_refused),
        cmocka_unit_test(test_the_profile_fills_what_is_left_open),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
