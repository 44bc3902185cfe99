/* Signatures against the examples that AWS publishes: the Signature Version 4 test suite and the
 * header-based examples of the S3 manual. */
#include "object/object_s3_sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct s3_signer suite_signer = {
    .access_key = "AKIDEXAMPLE",
    .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    .region = "us-east-1",
    .service = "service",
};

static const struct s3_signer manual_signer = {
    .access_key = "AKIAIOSFODNN7EXAMPLE",
    .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    .region = "us-east-1",
    .service = "s3",
};

static void expect_signature(const struct s3_signable *request, const struct s3_signer *signer,
                             const char *stamp, const char *signature)
{
    AUTO_STR struct str out = {0};
    s3_sign(&out, request, signer, stamp);
    const char *found = strstr(out.text, ",Signature=");
    assert_non_null(found);
    assert_string_equal(found + strlen(",Signature="), signature);
}

static void suite_case(const char *method, const char *path, const char *query,
                       const char *signature)
{
    const struct s3_header headers[] = {{"host", "example.amazonaws.com"},
                                        {"x-amz-date", "20150830T123600Z"}};
    const struct s3_signable request = {method, path, query, headers, 2, EMPTY_HASH};
    expect_signature(&request, &suite_signer, "20150830T123600Z", signature);
}

static void test_the_cases_of_the_suite_are_signed_as_published(void **state)
{
    (void)state;
    suite_case("GET", "/", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    suite_case("POST", "/", "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
    suite_case("GET", "/", "Param1=value1&Param2=value2",
               "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
    suite_case("GET", "/%E1%88%B4", "",
               "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
    suite_case("GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "",
               "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
}

static void test_a_session_token_is_signed_as_published(void **state)
{
    (void)state;
    const struct s3_header headers[] = {
        {"host", "example.amazonaws.com"},
        {"x-amz-date", "20150830T123600Z"},
        {"x-amz-security-token",
         "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxf"
         "pSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPk"
         "yQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBA"
         "z+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="}};
    const struct s3_signable request = {"POST", "/", "", headers, 3, EMPTY_HASH};
    expect_signature(&request, &suite_signer, "20150830T123600Z",
                     "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

static void test_values_are_trimmed_before_they_are_signed(void **state)
{
    (void)state;
    const struct s3_header headers[] = {{"host", "example.amazonaws.com"},
                                        {"my-header1", " value1"},
                                        {"my-header2", " \"a   b   c\""},
                                        {"x-amz-date", "20150830T123600Z"}};
    const struct s3_signable request = {"GET", "/", "", headers, 4, EMPTY_HASH};
    expect_signature(&request, &suite_signer, "20150830T123600Z",
                     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
}

static void test_the_ranged_get_of_the_manual_is_signed_as_published(void **state)
{
    (void)state;
    const struct s3_header headers[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                        {"range", "bytes=0-9"},
                                        {"x-amz-content-sha256", EMPTY_HASH},
                                        {"x-amz-date", "20130524T000000Z"}};
    const struct s3_signable request = {"GET", "/test.txt", "", headers, 4, EMPTY_HASH};
    AUTO_STR struct str out = {0};
    s3_sign(&out, &request, &manual_signer, "20130524T000000Z");
    assert_string_equal(
        out.text,
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void test_the_put_of_the_manual_is_signed_as_published(void **state)
{
    (void)state;
    AUTO_STR struct str path = {0};
    s3_add_encoded(&path, "/test$file.text", true);
    assert_string_equal(path.text, "/test%24file.text");
    const char *hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    const struct s3_header headers[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                        {"host", "examplebucket.s3.amazonaws.com"},
                                        {"x-amz-content-sha256", hash},
                                        {"x-amz-date", "20130524T000000Z"},
                                        {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
    const struct s3_signable request = {"PUT", path.text, "", headers, 5, hash};
    expect_signature(&request, &manual_signer, "20130524T000000Z",
                     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void test_the_queries_of_the_manual_are_signed_as_published(void **state)
{
    (void)state;
    const struct s3_header headers[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                        {"x-amz-content-sha256", EMPTY_HASH},
                                        {"x-amz-date", "20130524T000000Z"}};
    AUTO_STR struct str query = {0};
    s3_add_query(&query, "max-keys", "2");
    s3_add_query(&query, "prefix", "J");
    const struct s3_signable list = {"GET", "/", query.text, headers, 3, EMPTY_HASH};
    expect_signature(&list, &manual_signer, "20130524T000000Z",
                     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    str_clear(&query);
    s3_add_query(&query, "lifecycle", "");
    const struct s3_signable rules = {"GET", "/", query.text, headers, 3, EMPTY_HASH};
    expect_signature(&rules, &manual_signer, "20130524T000000Z",
                     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

static void test_every_odd_byte_is_encoded(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    s3_add_encoded(&out, "a/b c+d@e=\x01\xff~", true);
    assert_string_equal(out.text, "a/b%20c%2Bd%40e%3D%01%FF~");
    str_clear(&out);
    s3_add_encoded(&out, "a/b", false);
    assert_string_equal(out.text, "a%2Fb");
}

static void test_stamps_are_in_utc(void **state)
{
    (void)state;
    char stamp[S3_STAMP_CHARS + 1];
    s3_stamp(stamp, 1440938160999);
    assert_string_equal(stamp, "20150830T123600Z");
}

static void test_base64_is_padded(void **state)
{
    (void)state;
    const char *expected[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t size = 0; size < 7; size++) {
        AUTO_STR struct str out = {0};
        s3_add_base64(&out, (const uint8_t *)"foobar", size);
        assert_string_equal(str_text(&out), expected[size]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cases_of_the_suite_are_signed_as_published),
        cmocka_unit_test(test_a_session_token_is_signed_as_published),
        cmocka_unit_test(test_values_are_trimmed_before_they_are_signed),
        cmocka_unit_test(test_the_ranged_get_of_the_manual_is_signed_as_published),
        cmocka_unit_test(test_the_put_of_the_manual_is_signed_as_published),
        cmocka_unit_test(test_the_queries_of_the_manual_are_signed_as_published),
        cmocka_unit_test(test_every_odd_byte_is_encoded),
        cmocka_unit_test(test_stamps_are_in_utc),
        cmocka_unit_test(test_base64_is_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
