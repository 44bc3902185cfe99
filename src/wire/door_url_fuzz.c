/* Any text as a join URL: refused, or one that is written and read again as the same. */
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "wire/door.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = mem_strndup((const char *)data, size);
    struct err err = {0};
    struct door_url url;
    if (door_url_parse(text, &url, &err) != ERR_OK) {
        CHECK(err.text[0]);
        return 0;
    }
    AUTO_STR struct str written = {0};
    door_url_add(&written, &url);
    struct door_url again;
    CHECK(door_url_parse(str_text(&written), &again, &err) == ERR_OK);
    CHECK(memcmp(&url, &again, sizeof url) == 0);
    return 0;
}
