/* The XML reader, and what is read with it. */
#include "object/object_s3_reply.h"
#include "object/object_s3_xml.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "path=text" of each element, and "!" if the document is bad. */
static void read_all(const char *text, struct str *out)
{
    struct s3_xml xml;
    s3_xml_init(&xml, text, strlen(text));
    str_add(out, "");
    while (s3_xml_next(&xml)) {
        str_addf(out, "%s=%s|", xml.path.text, xml.text.text);
    }
    str_add(out, xml.bad ? "!" : "");
    assert_false(s3_xml_next(&xml)); /* over is over */
    s3_xml_release(&xml);
}

static void expect_xml(const char *text, const char *expected)
{
    AUTO_STR struct str seen = {0};
    read_all(text, &seen);
    assert_string_equal(seen.text, expected);
}

static void test_elements_are_told_at_their_end(void **state)
{
    (void)state;
    expect_xml("<a/>", "a=|");
    expect_xml(
        "<?xml version='1.0'?>\n<!-- hello --><a x=\"1\" y='>'>\n <b>1</b><b> 2 </b>\n</a>\n",
        "a/b=1|a/b= 2 |a=|");
    expect_xml("<a><b><c>deep</c></b><c>flat</c></a>", "a/b/c=deep|a/b=|a/c=flat|a=|");
    expect_xml("<ns:a><x-1.y/></ns:a >", "ns:a/x-1.y=|ns:a=|");
    expect_xml("<a>one<!-- two -->three</a>", "a=onethree|");
}

static void test_entities_become_characters(void **state)
{
    (void)state;
    expect_xml("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;&#x1F600;</a>",
               "a=<>&\"'AB\xc3\xa9\xf0\x9f\x98\x80|");
    expect_xml("<a>&#1;&#xd;</a>", "a=\x01\r|"); /* not XML 1.0, and yet what servers send */
}

static void test_what_is_not_sound_is_refused(void **state)
{
    (void)state;
    const char *deep =
        "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a></a></a></a></a></a></a></a>"
        "</a></a></a></a></a></a></a></a></a></a>";
    const char *const texts[] = {"",
                                 " ",
                                 "a",
                                 "<",
                                 "<a",
                                 "<a>",
                                 "<a></b>",
                                 "<a></a",
                                 "<a/><b/>",
                                 "<a/>x",
                                 "x<a/>",
                                 "</a>",
                                 "<a b></a>",
                                 "<a b=1/>",
                                 "<a b=\"1/>",
                                 "<a b=\"1\"c=\"2\"/>x",
                                 "<1/>",
                                 "<a>&no;</a>",
                                 "<a>&amp</a>",
                                 "<a>&#0;</a>",
                                 "<a>&#xd800;</a>",
                                 "<a>&#x110000;</a>",
                                 "<a>&#;</a>",
                                 "<a>&#12a;</a>",
                                 "<!DOCTYPE a><a/>",
                                 "<a><![CDATA[x]]></a>",
                                 "<a>x<b/></a>",
                                 "<a><b/>x</a>",
                                 "<!-- <a/>",
                                 "<?xml <a/>",
                                 deep};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        AUTO_STR struct str seen = {0};
        read_all(texts[i], &seen);
        assert_int_equal(seen.text[seen.size - 1], '!');
    }
    struct s3_xml xml;
    s3_xml_init(&xml, "<a>\0</a>", 8);
    assert_false(s3_xml_next(&xml));
    assert_true(xml.bad);
    s3_xml_release(&xml);
}

static void test_what_is_escaped_reads_back(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    AUTO_STR struct str seen = {0};
    str_add(&text, "<k>");
    s3_xml_add_escaped(&text, "a&b<c>\"d'\x01\n]]>");
    str_add(&text, "</k>");
    read_all(text.text, &seen);
    assert_string_equal(seen.text, "k=a&b<c>\"d'\x01\n]]>|");
}

static struct str of(const char *text)
{
    return (struct str){.text = (char *)(uintptr_t)text, .size = strlen(text)};
}

static void test_errors_are_read(void **state)
{
    (void)state;
    struct str text = of("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>The\nkey"
                         "</Message><Key>a</Key><RequestId>1</RequestId></Error>");
    struct s3_fault fault;
    assert_true(s3_reply_fault(&text, &fault));
    assert_string_equal(fault.code, "NoSuchKey");
    assert_string_equal(fault.message, "The key");
    text = of("<html><body>Bad gateway</body></html>");
    assert_false(s3_reply_fault(&text, &fault));
    text = of("");
    assert_false(s3_reply_fault(&text, &fault));
}

#define ITEM(key, size) "<Contents><Key>" key "</Key><Size>" size "</Size></Contents>"
#define PAGE(items, more)                                                                          \
    "<ListBucketResult><IsTruncated>" more "</IsTruncated>" items "</ListBucketResult>"

static void test_pages_lose_the_prefix(void **state)
{
    (void)state;
    struct str text = of(PAGE(ITEM("p/a", "0") ITEM("p/b&amp;c", "18446744073709551615"), "true"));
    struct object_call call = {.verb = OBJECT_LIST};
    assert_true(s3_reply_page(&text, "p/", &call));
    assert_int_equal(call.page_count, 2);
    assert_string_equal(call.page[0].key, "a");
    assert_string_equal(call.page[1].key, "b&c");
    assert_true(call.page[1].size == UINT64_MAX);
    assert_true(call.more);
    object_call_release(&call);
}

static void test_pages_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        PAGE(ITEM("q/a", "1"), "false"),                  /* another prefix */
        PAGE(ITEM("p/b", "1") ITEM("p/a", "1"), "false"), /* out of order */
        PAGE(ITEM("p/a", "1") ITEM("p/a", "1"), "false"), /* twice */
        PAGE(ITEM("p/a", "-1"), "false"),                 /* no size */
        PAGE(ITEM("p/a", "18446744073709551616"), "false"),
        PAGE("<Contents><Key>p/a</Key></Contents>", "false"),
        PAGE("<Contents><Size>1</Size></Contents>", "false"),
        PAGE("", "true"), /* more, but from where on? */
        "<ListBucketResult>" ITEM("p/a", "1"),
        "<Other></Other>"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct str text = of(texts[i]);
        struct object_call call = {.verb = OBJECT_LIST};
        assert_false(s3_reply_page(&text, "p/", &call));
        assert_false(call.more);
        object_call_release(&call);
    }
    struct str text = of(PAGE(ITEM("p/a", "1"), "false"));
    struct object_call call = {.verb = OBJECT_LIST, .after = "a"};
    assert_false(s3_reply_page(&text, "p/", &call)); /* not behind what was asked */
    object_call_release(&call);
    call = (struct object_call){.verb = OBJECT_LIST, .max = 1};
    text = of(PAGE(ITEM("p/a", "1") ITEM("p/b", "1"), "false"));
    assert_false(s3_reply_page(&text, "p/", &call)); /* more than was asked */
    object_call_release(&call);
}

static void test_the_first_key_that_was_not_deleted_is_told(void **state)
{
    (void)state;
    struct s3_fault fault;
    struct str text = of("<DeleteResult xmlns=\"x\"/>");
    assert_true(s3_reply_deleted(&text, &fault));
    assert_string_equal(fault.code, "");
    text = of("<DeleteResult><Error><Key>a</Key><Code>NoSuchKey</Code></Error><Error><Code>"
              "AccessDenied</Code><Message>no</Message></Error><Error><Code>SlowDown</Code></Error>"
              "</DeleteResult>");
    assert_true(s3_reply_deleted(&text, &fault));
    assert_string_equal(fault.code, "AccessDenied");
    assert_string_equal(fault.message, "no");
    text = of("<DeleteResult><Error/></DeleteResult>");
    assert_true(s3_reply_deleted(&text, &fault));
    assert_string_equal(fault.code, "Unknown");
    text = of("<DeleteResult>");
    assert_false(s3_reply_deleted(&text, &fault));
}

static void test_uploads_have_ids_and_etags(void **state)
{
    (void)state;
    AUTO_STR struct str id = {0};
    char etag[OBJECT_ETAG_MAX];
    struct str text = of("<InitiateMultipartUploadResult><UploadId>2~x</UploadId>"
                         "</InitiateMultipartUploadResult>");
    assert_true(s3_reply_upload_id(&text, &id));
    assert_string_equal(id.text, "2~x");
    text = of("<InitiateMultipartUploadResult></InitiateMultipartUploadResult>");
    assert_false(s3_reply_upload_id(&text, &id));
    text = of("<CompleteMultipartUploadResult><ETag>&quot;ab-2&quot;</ETag>"
              "</CompleteMultipartUploadResult>");
    assert_true(s3_reply_completed(&text, etag));
    assert_string_equal(etag, "ab-2");
    text = of("<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>");
    assert_true(s3_reply_completed(&text, etag));
    assert_string_equal(etag, "");
    text = of("<Error><Code>InternalError</Code></Error>");
    assert_false(s3_reply_completed(&text, etag));
}

static void test_etags_lose_their_quotes(void **state)
{
    (void)state;
    char etag[OBJECT_ETAG_MAX];
    assert_true(s3_etag_copy(etag, " \"abc\" \r\n", 9));
    assert_string_equal(etag, "abc");
    assert_true(s3_etag_copy(etag, "abc", 3));
    assert_false(s3_etag_copy(etag, "", 0));
    assert_false(s3_etag_copy(etag, "\"\"", 2));
    assert_false(s3_etag_copy(etag, "a b", 3));
    char text[OBJECT_ETAG_MAX];
    memset(text, 'a', sizeof text);
    assert_false(s3_etag_copy(etag, text, sizeof text));
    assert_true(s3_etag_copy(etag, text, sizeof text - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_are_told_at_their_end),
        cmocka_unit_test(test_entities_become_characters),
        cmocka_unit_test(test_what_is_not_sound_is_refused),
        cmocka_unit_test(test_what_is_escaped_reads_back),
        cmocka_unit_test(test_errors_are_read),
        cmocka_unit_test(test_pages_lose_the_prefix),
        cmocka_unit_test(test_pages_that_make_no_sense_are_refused),
        cmocka_unit_test(test_the_first_key_that_was_not_deleted_is_told),
        cmocka_unit_test(test_uploads_have_ids_and_etags),
        cmocka_unit_test(test_etags_lose_their_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
