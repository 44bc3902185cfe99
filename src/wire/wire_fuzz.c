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
            CHECK(run->id && (run->message_only || (run->n_argv > 0 && run->argv[0].data)));
            CHECK(run->experiment_name[0] != '.' && !strchr(run->experiment_name, '/'));
            CHECK(run->workflow_id[0] != '.' && !strchr(run->workflow_id, '/'));
            CHECK(!strchr(run->code, '/') && !strchr(run->code, '.'));
            for (size_t k = 0; k < run->n_inputs; k++) {
                CHECK(run->inputs[k][0] != '.' && !strchr(run->inputs[k], '/'));
            }
        }
        if (to_node->welcome) {
            CHECK(to_node->welcome->session != 0 && to_node->welcome->name[0]);
            CHECK(to_node->welcome->lease_ms > to_node->welcome->heartbeat_ms);
        }
    }
    wire_free_to_node(to_node);

    Drover__ToMaster *to_master = NULL;
    if (wire_parse_to_master(data, size, &to_master, &err) == ERR_OK) {
        if (to_master->hello && wire_check_protocol(to_master->hello, &err) == ERR_OK) {
            CHECK(to_master->hello->name[0] && !strchr(to_master->hello->name, '/'));
            CHECK(to_master->hello->n_labels <= WIRE_LABELS_MAX);
        } else if (to_master->hello) {
            CHECK(!to_master->hello->name[0] && to_master->n_ended == 0);
        }
        for (size_t i = 0; i < to_master->n_ended; i++) {
            CHECK(to_master->ended[i]->id && to_master->ended[i]->log.len <= WIRE_LOG_BYTES_MAX);
        }
    }
    wire_free_to_master(to_master);
    return 0;
}
