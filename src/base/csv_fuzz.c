/* Any bytes: parsed within bounds or refused with a reason, and every field can be read. */
#include "base/csv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct csv *csv = NULL;
    struct err err = {0};
    if (csv_parse("fuzz", (const char *)bytes, size, &csv, &err) != ERR_OK) {
        CHECK(err.text[0]);
        return 0;
    }
    size_t total = 0;
    for (size_t row = 0; row < csv_row_count(csv); row++) {
        CHECK(csv_row_line(csv, row) > 0);
        for (size_t column = 0; column < csv_column_count(csv); column++) {
            double number = 0;
            total += strlen(csv_text(csv, row, column));
            if (csv_number(csv, row, column, &number, &err) == ERR_OK) {
                CHECK(number == number);
            }
        }
    }
    CHECK(total <= size);
    csv_destroy(csv);
    return 0;
}
