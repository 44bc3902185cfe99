/* Any bytes as patterns and as a path: an answer, in time. */
#include "base/check.h"
#include "base/mem.h"
#include "cli/code_ignore.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
    size_t path_size = split ? (size_t)(split - data) : 0;
    AUTO_FREE char *path = mem_strndup((const char *)data, path_size);
    AUTO_FREE char *text =
        mem_strndup(split ? (const char *)split + 1 : "", split ? size - path_size - 1 : 0);
    struct code_ignore *ignore = code_ignore_create();
    code_ignore_add(ignore, "", text, strlen(text));
    size_t mark = code_ignore_mark(ignore);
    code_ignore_add(ignore, "a", text, strlen(text));
    bool as_file = code_ignore_matches(ignore, path, false);
    code_ignore_reset(ignore, mark);
    CHECK(code_ignore_mark(ignore) == mark);
    /* a folder is matched by all that matches a file, and more: but later lines may turn it round
     */
    (void)as_file;
    code_ignore_matches(ignore, path, true);
    code_ignore_destroy(ignore);
    return 0;
}
