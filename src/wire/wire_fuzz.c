/* Any bytes as either message: refused, or so valid that every part can be used. */
#include "base/check.h"
#include "wire/wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    Drover__ToNode *to_node = NULL;
    if (wire_parse_to_node(data, size, &to_node, &err) == ERR_OK) {
        size_t packed_size = drover__to_node__get_packed_size(to_node);
        uint8_t *packed = malloc(packed_size + 1);
        CHECK(packed);
        CHECK(drover__to_node__pack(to_node, packed) == packed_size);
        free(packed);
        for (size_t i = 0; i < to_node->n_run; i++) {
            const Drover__Run *run = to_node->run[i];
            CHECK(run->id && run->n_argv > 0 && run->argv[0].data);
            CHECK(run->experiment_name[0] != '.' && !strchr(run->experiment_name, '/'));
        }
    }
    wire_free_to_node(to_node);

    Drover__ToMaster *to_master = NULL;
    if (wire_parse_to_master(data, size, &to_master, &err) == ERR_OK) {
        CHECK(!to_master->hello || to_master->hello->protocol == WIRE_PROTOCOL);
    }
    wire_free_to_master(to_master);
    return 0;
}
