/* Any bytes as either message of the second connection: refused, or so valid that no path of it can
 * lead out of a folder, and packing it again gives something valid. */
#include "base/check.h"
#include "base/mem.h"
#include "wire/bulk.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_paths(const Drover__BulkPiece *piece)
{
    for (size_t i = 0; piece && i < piece->n_part; i++) {
        const ProtobufCBinaryData *path = &piece->part[i]->path;
        if (path->len == 0) {
            CHECK(piece->n_part == 1);
            continue;
        }
        AUTO_FREE char *text = mem_strndup((const char *)path->data, path->len);
        CHECK(strlen(text) == path->len);
        CHECK(text[0] != '/' && strcmp(text, "..") != 0 && strncmp(text, "../", 3) != 0);
        CHECK(!strstr(text, "/../") && !strstr(text, "//"));
        CHECK(path->len < 3 || strcmp(text + path->len - 3, "/..") != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    Drover__ToDepot *up = NULL;
    if (bulk_parse_to_depot(data, size, &up, &err) == ERR_OK) {
        check_paths(up->piece);
        AUTO_FREE uint8_t *packed = mem_alloc(drover__to_depot__get_packed_size(up));
        size_t packed_size = drover__to_depot__pack(up, packed);
        Drover__ToDepot *again = NULL;
        CHECK(packed_size > BULK_MESSAGE_BYTES_MAX ||
              bulk_parse_to_depot(packed, packed_size, &again, &err) == ERR_OK);
        bulk_free_to_depot(again);
    }
    bulk_free_to_depot(up);
    Drover__FromDepot *down = NULL;
    if (bulk_parse_from_depot(data, size, &down, &err) == ERR_OK) {
        check_paths(down->piece);
    }
    bulk_free_from_depot(down);
    return 0;
}
