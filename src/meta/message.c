#include "meta/message.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 4096, ENTRIES_MAX = 20000, PACKS_MAX = 4096 };

void meta_free_ask(Drover__MetaAsk *ask)
{
    if (ask) {
        drover__meta_ask__free_unpacked(ask, NULL);
    }
}

void meta_free_op(Drover__MetaOp *op)
{
    if (op) {
        drover__meta_op__free_unpacked(op, NULL);
    }
}

void meta_free_answer(Drover__MetaAnswer *answer)
{
    if (answer) {
        drover__meta_answer__free_unpacked(answer, NULL);
    }
}

bool meta_is_change(Drover__MetaVerb verb)
{
    return verb >= DROVER__META_VERB__META_VERB_MAKE;
}

static bool verb_is_known(Drover__MetaVerb verb)
{
    return (verb >= DROVER__META_VERB__META_VERB_LOOKUP &&
            verb <= DROVER__META_VERB__META_VERB_ORDER) ||
           (verb >= DROVER__META_VERB__META_VERB_MAKE &&
            verb <= DROVER__META_VERB__META_VERB_XATTR_SET);
}

static bool text_fits(const char *text)
{
    return strnlen(text, TEXT_BYTES_MAX + 1) <= TEXT_BYTES_MAX;
}

static bool name_fits(const ProtobufCBinaryData *name, size_t max)
{
    return name->len <= max && (name->len == 0 || memchr(name->data, 0, name->len) == NULL);
}

/* Asked: a hole, data to be placed, or a part of a pack. Answered: a part of a pack or log object,
 * perhaps with its bytes. */
static bool extent_is_sound(const Drover__MetaExtent *extent, bool is_asked)
{
    if (extent->file_offset > INT64_MAX - (uint64_t)UINT32_MAX || extent->size == 0) {
        return false;
    }
    if (extent->kind == 0) {
        return is_asked && (extent->data.len == 0 ||
                            (extent->data.len == extent->size && extent->size <= EXTENT_BYTES_MAX));
    }
    bool is_container =
        extent->kind == CONTAINER_PACK || (!is_asked && extent->kind == CONTAINER_LOG);
    bool fits = extent->whole >= 1 && extent->whole <= EXTENT_BYTES_MAX &&
                extent->size <= extent->whole && extent->skip <= extent->whole - extent->size;
    bool stored = extent->stored_size >= 1 && extent->stored_size <= extent->whole &&
                  (extent->codec == EXTENT_ZSTD ||
                   (extent->codec == EXTENT_PLAIN && extent->stored_size == extent->whole));
    bool data = extent->data.len == 0 || (!is_asked && extent->data.len == extent->stored_size);
    return is_container && fits && stored && data && extent->offset <= (uint64_t)1 << 40;
}

static bool extents_are_sound(Drover__MetaExtent **extents, size_t count, bool are_asked)
{
    if (count > META_EXTENTS_MAX) {
        return false;
    }
    uint64_t end = 0;
    uint64_t data = 0;
    for (size_t i = 0; i < count; i++) {
        if (!extent_is_sound(extents[i], are_asked) || extents[i]->file_offset < end) {
            return false; /* they are in order and do not overlap */
        }
        end = extents[i]->file_offset + extents[i]->size;
        data += extents[i]->data.len;
    }
    return !are_asked || data <= META_WRITE_BYTES_MAX;
}

static bool locks_are_sound(Drover__MetaLock **locks, size_t count)
{
    for (size_t i = 0; i < count && count <= META_LOCKS_MAX; i++) {
        if (locks[i]->type == 0 || locks[i]->type > 2) {
            return false;
        }
    }
    return count <= META_LOCKS_MAX;
}

static bool hello_is_sound(const Drover__MetaHello *hello)
{
    return hello->mount.len == META_ID_BYTES && text_fits(hello->secret) && text_fits(hello->who) &&
           text_fits(hello->version) && hello->n_open <= META_OPEN_MAX &&
           locks_are_sound(hello->lock, hello->n_lock);
}

enum err_code meta_parse_ask(const void *bytes, size_t size, Drover__MetaAsk **out, struct err *err)
{
    Drover__MetaAsk *ask =
        size <= META_MESSAGE_BYTES_MAX ? drover__meta_ask__unpack(NULL, size, bytes) : NULL;
    bool sound = ask && (!ask->hello || hello_is_sound(ask->hello)) &&
                 (ask->number == 0) == (ask->op.len == 0) && ask->number <= INT64_MAX &&
                 ask->n_forgot <= META_FORGOT_MAX;
    if (!sound) {
        meta_free_ask(ask);
        return err_set(err, ERR_INVALID, "a message from a mount makes no sense");
    }
    *out = ask;
    return ERR_OK;
}

static bool op_fields_fit(const Drover__MetaOp *op)
{
    return verb_is_known(op->verb) && name_fits(&op->name, ENGINE_TARGET_MAX) &&
           name_fits(&op->new_name, ENGINE_TARGET_MAX) && op->data.len <= ENGINE_XATTR_MAX &&
           op->n_pack <= PACKS_MAX && op->size <= INT64_MAX && op->offset <= INT64_MAX &&
           extents_are_sound(op->extent, op->n_extent, true);
}

static bool op_is_complete(const Drover__MetaOp *op)
{
    switch (op->verb) {
    case DROVER__META_VERB__META_VERB_SETATTR:
        return op->set != NULL && op->set->size <= INT64_MAX;
    case DROVER__META_VERB__META_VERB_LOCK:
        return op->lock != NULL && op->lock->type <= 2 && op->lock->inode == op->inode;
    case DROVER__META_VERB__META_VERB_ORDER:
        return op->data.len > 0 && op->data.len < META_ORDER_BYTES_MAX;
    case DROVER__META_VERB__META_VERB_EXTENTS:
        return op->size > 0;
    case DROVER__META_VERB__META_VERB_NONE:
        return false;
    case DROVER__META_VERB__META_VERB_LOOKUP:
    case DROVER__META_VERB__META_VERB_GETATTR:
    case DROVER__META_VERB__META_VERB_LIST:
    case DROVER__META_VERB__META_VERB_READLINK:
    case DROVER__META_VERB__META_VERB_XATTR_GET:
    case DROVER__META_VERB__META_VERB_XATTR_LIST:
    case DROVER__META_VERB__META_VERB_USAGE:
    case DROVER__META_VERB__META_VERB_OPEN:
    case DROVER__META_VERB__META_VERB_CLOSE:
    case DROVER__META_VERB__META_VERB_SYNC:
    case DROVER__META_VERB__META_VERB_MAKE:
    case DROVER__META_VERB__META_VERB_LINK:
    case DROVER__META_VERB__META_VERB_REMOVE:
    case DROVER__META_VERB__META_VERB_RENAME:
    case DROVER__META_VERB__META_VERB_WRITE:
    case DROVER__META_VERB__META_VERB_XATTR_SET:
    case _DROVER__META_VERB_IS_INT_SIZE:
        break;
    }
    return true;
}

enum err_code meta_parse_op(const void *bytes, size_t size, Drover__MetaOp **out, struct err *err)
{
    Drover__MetaOp *op =
        size <= META_MESSAGE_BYTES_MAX ? drover__meta_op__unpack(NULL, size, bytes) : NULL;
    if (!op || !op_fields_fit(op) || !op_is_complete(op)) {
        meta_free_op(op);
        return err_set(err, ERR_INVALID, "what a mount asks makes no sense");
    }
    *out = op;
    return ERR_OK;
}

static bool welcome_is_sound(const Drover__MetaWelcome *welcome)
{
    return welcome->uuid.len == META_ID_BYTES && welcome->lease_ms >= 100 &&
           welcome->lease_ms <= 3600 * 1000 && welcome->heartbeat_ms >= 10 &&
           welcome->heartbeat_ms <= welcome->lease_ms && welcome->writer > 0 &&
           text_fits(welcome->url) && text_fits(welcome->endpoint) && text_fits(welcome->region) &&
           text_fits(welcome->addressing) && locks_are_sound(welcome->lock, welcome->n_lock);
}

static bool entries_are_sound(const Drover__MetaAnswer *answer)
{
    if (answer->n_entry > ENTRIES_MAX) {
        return false;
    }
    for (size_t i = 0; i < answer->n_entry; i++) {
        const Drover__MetaEntry *entry = answer->entry[i];
        if (entry->name.len == 0 || !name_fits(&entry->name, ENGINE_NAME_MAX) ||
            entry->inode == 0) {
            return false;
        }
    }
    return true;
}

enum err_code meta_parse_answer(const void *bytes, size_t size, Drover__MetaAnswer **out,
                                struct err *err)
{
    Drover__MetaAnswer *answer =
        size <= META_MESSAGE_BYTES_MAX ? drover__meta_answer__unpack(NULL, size, bytes) : NULL;
    bool sound = answer && answer->code <= ERR_IO && answer->posix < 4096 &&
                 text_fits(answer->text) && text_fits(answer->bye) && entries_are_sound(answer) &&
                 extents_are_sound(answer->extent, answer->n_extent, false) &&
                 (!answer->welcome || welcome_is_sound(answer->welcome)) &&
                 answer->n_touched <= META_TOUCHED_MAX;
    if (!sound) {
        meta_free_answer(answer);
        return err_set(err, ERR_INVALID, "a message from the owner makes no sense");
    }
    *out = answer;
    return ERR_OK;
}

void meta_attr_to(const struct engine_attr *attr, Drover__MetaAttr *out)
{
    drover__meta_attr__init(out);
    out->inode = attr->inode;
    out->mode = attr->mode;
    out->uid = attr->uid;
    out->gid = attr->gid;
    out->nlink = attr->nlink;
    out->rdev = attr->rdev;
    out->generation = attr->generation;
    out->size = attr->size;
    out->stored = attr->stored;
    out->atime_ns = attr->atime_ns;
    out->mtime_ns = attr->mtime_ns;
    out->ctime_ns = attr->ctime_ns;
    out->parent = attr->parent;
}

void meta_attr_from(const Drover__MetaAttr *attr, struct engine_attr *out)
{
    *out = (struct engine_attr){
        .inode = attr->inode,
        .mode = attr->mode,
        .uid = attr->uid,
        .gid = attr->gid,
        .nlink = attr->nlink,
        .rdev = attr->rdev,
        .generation = attr->generation,
        .size = attr->size,
        .stored = attr->stored,
        .atime_ns = attr->atime_ns,
        .mtime_ns = attr->mtime_ns,
        .ctime_ns = attr->ctime_ns,
        .parent = attr->parent,
    };
}

void meta_extent_to(const struct extent *extent, Drover__MetaExtent *out)
{
    drover__meta_extent__init(out);
    out->file_offset = extent->file_offset;
    out->size = extent->size;
    out->kind = extent->container.kind;
    out->writer = extent->container.writer;
    out->term = extent->container.term;
    out->number = extent->container.number;
    out->offset = extent->offset;
    out->stored_size = extent->stored_size;
    out->codec = extent->codec;
    out->checksum = extent->checksum;
    out->skip = extent->skip;
    out->whole = extent->whole;
}

void meta_extent_from(const Drover__MetaExtent *extent, struct extent *out)
{
    *out = (struct extent){
        .file_offset = extent->file_offset,
        .size = extent->size,
        .container = {(uint8_t)extent->kind, extent->writer, extent->term, extent->number},
        .offset = extent->offset,
        .stored_size = extent->stored_size,
        .codec = (uint8_t)extent->codec,
        .checksum = extent->checksum,
        .skip = extent->skip,
        .whole = extent->whole,
    };
}

ProtobufCBinaryData meta_bytes(const void *bytes, size_t size)
{
    return (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
}

ProtobufCBinaryData meta_text(const char *text)
{
    return meta_bytes(text, text ? strlen(text) : 0);
}

const char *meta_name(const ProtobufCBinaryData *name, char out[META_NAME_BYTES])
{
    size_t size = name->len < META_NAME_BYTES ? name->len : META_NAME_BYTES - 1;
    if (size > 0) {
        memcpy(out, name->data, size);
    }
    out[size] = '\0';
    return out;
}
