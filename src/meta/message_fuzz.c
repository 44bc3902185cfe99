/* Any bytes as each kind of message: refused, or taken and turned into what the engine takes. */
#include "meta/message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    Drover__MetaAsk *ask = NULL;
    Drover__MetaOp *op = NULL;
    Drover__MetaAnswer *answer = NULL;
    if (meta_parse_ask(bytes, size, &ask, NULL) == ERR_OK) {
        if (meta_parse_op(ask->op.data, ask->op.len, &op, NULL) == ERR_OK) {
            meta_free_op(op);
        }
        meta_free_ask(ask);
    }
    if (meta_parse_op(bytes, size, &op, NULL) == ERR_OK) {
        char name[META_NAME_BYTES];
        (void)meta_name(&op->name, name);
        for (size_t i = 0; i < op->n_extent; i++) {
            struct extent extent;
            meta_extent_from(op->extent[i], &extent);
        }
        meta_free_op(op);
    }
    if (meta_parse_answer(bytes, size, &answer, NULL) == ERR_OK) {
        struct engine_attr attr;
        if (answer->attr) {
            meta_attr_from(answer->attr, &attr);
        }
        meta_free_answer(answer);
    }
    return 0;
}
