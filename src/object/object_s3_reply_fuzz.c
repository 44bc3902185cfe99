/* Any bytes as an answer of an S3 server: every reader comes to an end, and what one takes is
 * bounded and in order. */
#include "base/check.h"
#include "base/mem.h"
#include "object/object_s3_reply.h"
#include "object/object_s3_xml.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_page(const struct str *text)
{
    struct object_call call = {.verb = OBJECT_LIST, .max = 5};
    if (s3_reply_page(text, "p/", &call)) {
        CHECK(call.page_count <= 5);
        CHECK(!call.more || call.page_count > 0);
        for (size_t i = 1; i < call.page_count; i++) {
            CHECK(strcmp(call.page[i - 1].key, call.page[i].key) < 0);
        }
    } else {
        CHECK(!call.more);
    }
    object_call_release(&call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *copy =
        mem_dup(data, size); /* exactly as long, so that a step too far is seen */
    const struct str text = {.text = copy, .size = size};
    struct s3_fault fault;
    AUTO_STR struct str id = {0};
    char etag[OBJECT_ETAG_MAX];
    if (s3_reply_fault(&text, &fault)) {
        CHECK(strlen(fault.message) < sizeof fault.message);
    }
    if (s3_reply_deleted(&text, &fault)) {
        CHECK(strlen(fault.code) < sizeof fault.code);
    }
    if (s3_reply_upload_id(&text, &id)) {
        CHECK(id.size > 0);
    }
    if (s3_reply_completed(&text, etag)) {
        CHECK(strlen(etag) < OBJECT_ETAG_MAX);
    }
    check_page(&text);
    return 0;
}
