/* Any bytes as an AWS file, as JSON and as a time. What an AWS file says is found again in a file
 * that says only that. */
#include "base/check.h"
#include "base/mem.h"
#include "object/object_s3_credentials.h"
#include "object/object_s3_text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *copy = mem_dup(data, size);
    const struct str text = {.text = copy, .size = size};
    AUTO_STR struct str value = {0};
    if (s3_ini_find(&text, "profile x", "region", &value)) {
        CHECK(value.size > 0);
        CHECK(s3_ini_has(&text, "profile x"));
        AUTO_STR struct str file = {0};
        AUTO_STR struct str again = {0};
        str_add(&file, "[profile x]\nregion=");
        str_add_bytes(&file, value.text, value.size);
        CHECK(s3_ini_find(&file, "profile x", "region", &again));
        CHECK(strcmp(again.text, value.text) == 0);
    }
    str_clear(&value);
    s3_ini_find(&text, "default", "s3.addressing_style", &value);

    struct s3_credentials credentials = {0};
    struct err err = {0};
    if (s3_credentials_parse(&credentials, &text, &err) == ERR_OK) {
        CHECK(credentials.access_key.size > 0);
        CHECK(credentials.secret_key.size > 0);
    } else {
        CHECK(err.text[0]);
    }
    s3_credentials_release(&credentials);
    AUTO_FREE char *line = mem_strndup(copy, size);
    int64_t unix_ms = 0;
    if (s3_time_parse(line, &unix_ms)) {
        CHECK(unix_ms > 0);
    }
    return 0;
}
