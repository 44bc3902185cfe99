/* Any bytes: decode never reads past the end, and what it accepts encodes to the same meaning. */
#include "core/fact.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        struct fact fact;
        size_t used = 0;
        if (fact_decode(data + at, size - at, &fact, &used, NULL) != ERR_OK) {
            break;
        }
        uint8_t again[FACT_BYTES_MAX];
        size_t again_size = fact_encode(&fact, again);
        struct fact copy;
        size_t copy_used = 0;
        CHECK(fact_decode(again, again_size, &copy, &copy_used, NULL) == ERR_OK);
        CHECK(copy_used == again_size);
        CHECK(memcmp(&copy, &fact, sizeof fact) == 0);
        at += used;
    }
    return 0;
}
