/* A line of trials.log as a disk might give it back; what reads is written again and is the same.
 */
#include "master/trials.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct trials_line line;
    struct err err = {0};
    if (trials_parse((const char *)data, size, &arena, &line, &err) == ERR_OK) {
        AUTO_STR struct str once = {0};
        AUTO_STR struct str twice = {0};
        struct trials_line again;
        trials_add_line(&once, &line);
        CHECK(trials_parse(once.text, once.size - 1, &arena, &again, &err) == ERR_OK);
        trials_add_line(&twice, &again);
        CHECK(once.size == twice.size && memcmp(once.text, twice.text, once.size) == 0);
    } else {
        CHECK(err.code == ERR_CORRUPT);
    }
    arena_release(&arena);
    return 0;
}
