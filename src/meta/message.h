/* message.h - what a mount and the owner of its volume say to each other, checked once.
 *
 * The schema is proto/meta.proto. What comes out of a meta_parse_* call has been validated: numbers
 * are in range, names and texts are of a possible length and hold no NUL, extents are ones that can
 * be stored, lists are bounded. Messages are one frame of at most META_MESSAGE_BYTES_MAX.
 * Messages parsed are the caller's, freed by meta_free_*. Pure code.
 */
#ifndef META_MESSAGE_H
#define META_MESSAGE_H

#include "base/err.h"
#include "base/str.h"
#include "meta.pb-c.h"
#include "volume/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    META_PROTOCOL = 4,
    META_ID_BYTES = 16,
    META_MESSAGE_BYTES_MAX = 4 << 20,
    META_WRITE_BYTES_MAX = 1 << 20, /* of data in one write */
    META_EXTENTS_MAX = 40000,       /* in one message: a file's first write of 40 GB */
    META_YOUNG_BYTES = 2 << 20,     /* in one answer, about */
    META_LIST_BYTES = 128 << 10,    /* of entries in one answer, about */
    META_OPEN_MAX = 200000,         /* files that a mount has open */
    META_LOCKS_MAX = 50000,
    META_ORDER_BYTES_MAX = 512,
    META_TOUCHED_MAX = 8, /* inodes of one change */
    META_FORGOT_MAX = 64, /* in one message */
};

/* ERR_INVALID is the only error. */
MUST_USE enum err_code meta_parse_ask(const void *bytes, size_t size, Drover__MetaAsk **out,
                                      struct err *err);
MUST_USE enum err_code meta_parse_op(const void *bytes, size_t size, Drover__MetaOp **out,
                                     struct err *err);
MUST_USE enum err_code meta_parse_answer(const void *bytes, size_t size, Drover__MetaAnswer **out,
                                         struct err *err);
void meta_free_ask(Drover__MetaAsk *ask); /* NULL does nothing */
void meta_free_op(Drover__MetaOp *op);
void meta_free_answer(Drover__MetaAnswer *answer);

#define META_FORGET_ALL UINT64_MAX /* instead of an inode */

bool meta_is_change(Drover__MetaVerb verb); /* of the volume: carried out once, in order */

/* Between messages and the engine's own. */
void meta_attr_to(const struct engine_attr *attr, Drover__MetaAttr *out);
void meta_attr_from(const Drover__MetaAttr *attr, struct engine_attr *out);
void meta_extent_to(const struct extent *extent, Drover__MetaExtent *out); /* no data */
void meta_extent_from(const Drover__MetaExtent *extent, struct extent *out);
/* Bytes of a message; protobuf-c's structs have no const, what is sent is not written to. */
ProtobufCBinaryData meta_bytes(const void *bytes, size_t size);
ProtobufCBinaryData meta_text(const char *text); /* NULL: none */
/* A name of a message, as text; "" if there is none. `out` is the caller's. */
enum { META_NAME_BYTES = 4096 };
const char *meta_name(const ProtobufCBinaryData *name, char out[META_NAME_BYTES]);

#endif
