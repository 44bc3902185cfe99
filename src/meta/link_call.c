/* What one ask is about. */
#include "meta/link_internal.h"

static uint64_t mix(uint64_t key, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        key = (key ^ at[i]) * 0x100000001B3U;
    }
    return key;
}

static uint64_t mix_u64(uint64_t key, uint64_t number)
{
    return mix(key, &number, sizeof number);
}

static uint64_t name_key(uint64_t folder, const ProtobufCBinaryData *name)
{
    return mix(mix_u64(0xCBF29CE484222325U, folder), name->data, name->len) | 1;
}

uint64_t meta_key_of(const Drover__MetaOp *op)
{
    uint64_t key = mix_u64(0xCBF29CE484222325U, (uint64_t)op->verb);
    key = mix_u64(mix_u64(key, op->inode), op->folder);
    key = mix(mix_u64(key, op->name.len), op->name.data, op->name.len);
    key = mix(mix_u64(key, op->new_name.len), op->new_name.data, op->new_name.len);
    return mix_u64(mix_u64(key, op->offset), op->flags);
}

void call_describe(struct meta_call *call, const Drover__MetaOp *op)
{
    call->verb = op->verb;
    call->inode = op->inode;
    call->folder = op->folder;
    call->flags = op->flags;
    call->key = meta_key_of(op);
    call->pack_min = UINT64_MAX;
    for (size_t i = 0; i < op->n_pack; i++) {
        uint64_t number = op->pack[i]->number;
        call->pack_min = number < call->pack_min ? number : call->pack_min;
    }
    if (op->verb == DROVER__META_VERB__META_VERB_MAKE ||
        op->verb == DROVER__META_VERB__META_VERB_REMOVE ||
        op->verb == DROVER__META_VERB__META_VERB_RENAME) {
        call->name_key = name_key(op->inode, &op->name);
    }
    if (op->lock) {
        call->lock_owner = op->lock->owner;
        call->lock_type = op->lock->type;
    }
}

const Drover__MetaAnswer *meta_call_answer(const struct meta_call *call)
{
    return call->answer;
}

uint64_t meta_call_key(const struct meta_call *call)
{
    return call->key;
}
