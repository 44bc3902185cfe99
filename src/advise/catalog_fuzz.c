/* Any bytes: a catalog or a reason; what is written of it reads back the same. */
#include "advise/catalog.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct catalog catalog = {0};
    struct catalog again = {0};
    struct err err = {0};
    AUTO_STR struct str one = {0};
    AUTO_STR struct str two = {0};
    if (catalog_add_csv(&catalog, "fuzz", (const char *)bytes, size, &err) != ERR_OK) {
        CHECK(strncmp(err.text, "fuzz:", 5) == 0);
    } else {
        for (size_t i = 0; i < catalog.count; i++) {
            CHECK(money_bill(catalog.rows[i].price_hour_micro, &catalog.rows[i].billing, 3,
                             12345) >= 0);
        }
        catalog_write_csv(&catalog, &one);
        CHECK(catalog_add_csv(&again, "again", str_text(&one), one.size, &err) == ERR_OK);
        catalog_write_csv(&again, &two);
        CHECK(strcmp(str_text(&one), str_text(&two)) == 0);
    }
    catalog_release(&catalog);
    catalog_release(&again);
    return 0;
}
