/* upload.h - what a mount packs and stores itself: the bytes of large files.
 *
 * As the owner's own packs (volume.h), under the name of this mount's writer. A pack is sealed when
 * it is full or when someone needs it stored, and uploaded; its bytes can be read from here until
 * it is stored. A file may refer to a pack only once it is stored. Puts that fail are tried again
 * for ever: what they would lose is somebody's data. The store is borrowed, and driven elsewhere.
 * One thread owns an upload.
 */
#ifndef META_UPLOAD_H
#define META_UPLOAD_H

#include "object/object.h"
#include "volume/container.h"
#include "volume/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct upload;

struct upload *upload_create(struct object_store *store, const struct volume_format *format);
/* Nothing is in flight any more. NULL does nothing. */
void upload_destroy(struct upload *upload);
/* Whose packs they are. Packs of another writer are forgotten as far as they are stored. */
void upload_set_writer(struct upload *upload, uint32_t writer, uint32_t term);

void upload_place(struct upload *upload, uint64_t inode, uint64_t file_offset, const void *data,
                  size_t size, struct extent *out);
/* The stored bytes of an extent that is not in the store yet; NULL: it is, or is unknown. */
const void *upload_young(const struct upload *upload, const struct extent *extent);
/* Is this pack stored? If not, that is begun. *size: of its data. False for packs never made here
 * or of another writer: *is_lost. */
bool upload_is_stored(struct upload *upload, const struct container *container, uint64_t *size,
                      bool *is_lost);
bool upload_is_idle(const struct upload *upload); /* nothing is in flight */
bool upload_is_congested(const struct upload *upload);
uint64_t upload_progress(const struct upload *upload);
uint64_t upload_next(const struct upload *upload); /* the number the next pack will have */
/* No file of the mount's refers to packs below this number any more. */
void upload_forget(struct upload *upload, uint64_t floor);
void upload_turn(struct upload *upload, int64_t now_ms); /* tries again what failed */
const char *upload_trouble(const struct upload *upload); /* what the store said last; NULL */

#endif
