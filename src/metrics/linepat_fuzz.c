/* Any bytes as a pattern and, behind the first line's end, as the line it is held against. */
#include "base/check.h"
#include "base/mem.h"
#include "metrics/linepat.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct linepat *pattern = NULL;
    struct err err = {0};
    struct record record;
    const uint8_t *end = memchr(data, '\n', size);
    if (!end) {
        return 0;
    }
    char *text = mem_strndup((const char *)data, (size_t)(end - data));
    const char *line = (const char *)end + 1;
    size_t line_size = size - (size_t)(end - data) - 1;
    if (linepat_create("x", text, &pattern, &err) == ERR_OK) {
        record_clear(&record);
        bool matched = linepat_match(pattern, line, line_size, &record);
        CHECK(matched || record.count == 0);
        for (size_t i = 0; i < record.count; i++) {
            CHECK(metric_name_valid(record.items[i].name, strlen(record.items[i].name)));
        }
    } else {
        CHECK(err.code == ERR_INVALID);
        CHECK(err.text[0] != '\0');
    }
    linepat_destroy(pattern);
    free(text);
    return 0;
}
