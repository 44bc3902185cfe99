/* Any text as a store's URL: refused, or one that is written and read again as the same. */
#include "base/check.h"
#include "base/mem.h"
#include "object/object_url.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = mem_strndup((const char *)data, size);
    struct err err = {0};
    struct object_url url;
    if (object_url_parse(text, &url, &err) != ERR_OK) {
        CHECK(err.text[0]);
        CHECK(!url.place.text && !url.prefix.text);
        return 0;
    }
    AUTO_STR struct str written = {0};
    object_url_add(&written, &url);
    struct object_url again = {0};
    /* Written out, every byte may take three. */
    if (written.size <= OBJECT_URL_SIZE_MAX) {
        CHECK(object_url_parse(str_text(&written), &again, &err) == ERR_OK);
        CHECK(again.kind == url.kind);
        CHECK(strcmp(str_text(&again.place), str_text(&url.place)) == 0);
        CHECK(strcmp(str_text(&again.prefix), str_text(&url.prefix)) == 0);
    }
    object_url_release(&again);
    object_url_release(&url);
    return 0;
}
