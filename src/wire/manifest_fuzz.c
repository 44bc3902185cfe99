/* Any bytes as a manifest: refused, or the one text of its tree. */
#include "base/check.h"
#include "wire/bulk.h"
#include "wire/manifest.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest *manifest = NULL;
    if (manifest_parse((const char *)data, size, &manifest, NULL) != ERR_OK) {
        return 0;
    }
    AUTO_STR struct str text = {0};
    manifest_begin(&text);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        CHECK(bulk_path_is_safe(entry->path, strlen(entry->path)));
        uint64_t sum = 0;
        for (size_t k = 0; k < entry->chunk_count; k++) {
            sum += manifest_chunk_size(entry, k);
        }
        CHECK(entry->type != MANIFEST_FILE || sum == entry->size);
        manifest_add(&text, entry);
    }
    CHECK(text.size == size && memcmp(text.text, data, size) == 0);
    manifest_destroy(manifest);
    return 0;
}
