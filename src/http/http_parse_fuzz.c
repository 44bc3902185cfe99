/* Arbitrary request targets, queries and Authorization headers: what is accepted keeps the promises
 * of http_parse.h, and what is refused leaves nothing behind. */
#include "http/http_parse.h"

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *target)
{
    AUTO_STR struct str path = {0};
    if (http_parse_path(target, &path)) {
        CHECK(path.size == 0);
        return;
    }
    const char *text = str_text(&path);
    CHECK(strlen(text) == path.size);
    CHECK(text[0] == '/');
    CHECK(!strstr(text, "//"));
    CHECK(path.size == 1 || text[path.size - 1] != '/');
    for (const char *part = text; *part != '\0';) {
        part += 1;
        size_t length = strcspn(part, "/");
        CHECK(!(length == 1 && part[0] == '.'));
        CHECK(!(length == 2 && part[0] == '.' && part[1] == '.'));
        part += length;
    }
    for (size_t i = 0; i < path.size;) {
        size_t length = json_utf8_length(text + i, path.size - i);
        CHECK(length > 0);
        CHECK((unsigned char)text[i] >= 0x20);
        i += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strndup((const char *)data, size);
    check_path(text);

    char value[32];
    const char *query = http_parse_query(text);
    for (unsigned index = 0; index < 3; index++) {
        bool found = http_parse_value(query, "set", index, value, sizeof value);
        CHECK(found || value[0] == '\0');
        CHECK(memchr(value, '\0', sizeof value));
    }
    http_parse_value(query, "", 0, value, 1);

    size_t length = 0;
    const char *token = http_parse_bearer(text, &length);
    CHECK(strlen(token) >= length);
    http_parse_method(text);
    free(text);
    return 0;
}
