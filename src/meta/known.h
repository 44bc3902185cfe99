/* known.h - what a mount knows of the volume without asking: answers that the owner has promised to
 * tell of before they become untrue (server.h).
 *
 * Everything known belongs to an inode: its attributes, for a folder also names in it (absent ones
 * too), and whole answers about it (listings, extended attributes, targets of links). The owner
 * says what is to be forgotten by inode.
 *
 * Answers and Forgets carry the owner's tide, which only grows. What was answered before the inode
 * was last forgotten or changed is not taken in, in whatever order they come.
 *
 * Bounded: the inodes used longest ago are let go. One owner; pure code, no clock. Whether the
 * lease still holds is asked elsewhere (link.h).
 */
#ifndef META_KNOWN_H
#define META_KNOWN_H

#include "meta/message.h"

struct known;

struct known *known_create(size_t bytes_max);
void known_destroy(struct known *known);

/* Forgets everything; what was answered before `tide` is not taken in. UINT64_MAX: nothing is. */
void known_begin(struct known *known, uint64_t tide);
void known_forget(struct known *known, uint64_t inode, uint64_t tide);
/* We have changed it ourselves: its attributes and answers about it go, names in it stay. */
void known_change(struct known *known, uint64_t inode, uint64_t tide);
/* We have changed it after this was answered; of changes long ago that is not known. */
bool known_is_overtaken(const struct known *known, uint64_t inode, uint64_t tide);
void known_drop_name(struct known *known, uint64_t folder, const ProtobufCBinaryData *name);

void known_set_attr(struct known *known, uint64_t tide, const struct engine_attr *attr);
/* inode 0: there is no such name. */
void known_set_name(struct known *known, uint64_t tide, uint64_t folder,
                    const ProtobufCBinaryData *name, uint64_t inode);
void known_set_answer(struct known *known, uint64_t tide, const Drover__MetaOp *op,
                      const void *bytes, size_t size);

/* NULL, false: not known. Pointers are good until the next call that changes something. */
const struct engine_attr *known_attr(struct known *known, uint64_t inode);
bool known_name(struct known *known, uint64_t folder, const ProtobufCBinaryData *name,
                uint64_t *inode);
bool known_answer(struct known *known, const Drover__MetaOp *op, const void **bytes, size_t *size);
size_t known_bytes(const struct known *known); /* that it takes, about */

#endif
