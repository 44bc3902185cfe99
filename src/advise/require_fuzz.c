/* Any text: requirements or a reason. */
#include "advise/require.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = mem_strndup((const char *)bytes, size);
    struct require require = {0};
    struct err err = {0};
    struct catalog_row row = {.provider = "aws",
                              .region = "eu-west-1",
                              .type = "p2.xlarge",
                              .gpu = "K80",
                              .date = "2019",
                              .currency = "USD",
                              .gpus = 1,
                              .vcpus = 4,
                              .memory_gib = 61};
    if (require_parse(&require, text, &err) == ERR_OK) {
        (void)require_met(&require, &row);
    } else {
        CHECK(require.count == 0);
        CHECK(err.text[0]);
    }
    free(text);
    return 0;
}
