/* treeread.h - a folder as a row of entries, in an order that is the same each time: depth first,
 * the names of one folder sorted by their bytes, a folder before what it holds.
 *
 * So a place in the row is a path, and reading can go on from one later, in another process too.
 * Memory is one listing for each level. Links are never followed; anything but files, folders and
 * links is left out. One thread owns a reader.
 */
#ifndef WIRE_TREEREAD_H
#define WIRE_TREEREAD_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum treeread_type { TREEREAD_FILE = 1, TREEREAD_FOLDER, TREEREAD_LINK };

struct treeread_entry {
    const char *path; /* below the folder; valid until the next call */
    size_t path_size;
    enum treeread_type type;
    uint32_t mode;
    uint64_t size; /* of a file */
    int64_t mtime_ns;
    uint64_t inode;
};

struct treeread;

/* Opens an entry of the topmost level as a folder, or gives -1 to have it left out: for folders of
 * links, whose targets only the caller can judge. NULL: entries are what they are. */
typedef int (*treeread_top_fn)(void *context, const char *name);

/* Takes folder_fd over. */
struct treeread *treeread_create(int folder_fd, treeread_top_fn open_top, void *context);
void treeread_destroy(struct treeread *reader); /* NULL does nothing */

/* From the start; the next entry is the first that is not before path (NULL: the very first). */
void treeread_seek(struct treeread *reader, const char *path);

/* ERR_NOT_FOUND: that was all. ERR_AGAIN: something went away while we looked. ERR_QUOTA: more
 * entries or levels than BULK_ENTRIES_MAX, BULK_PATH_DEPTH_MAX, or too long a path. ERR_IO,
 * ERR_DENIED: it cannot be read. */
MUST_USE enum err_code treeread_next(struct treeread *reader, struct treeread_entry *out,
                                     struct err *err);

/* Bytes of the file or the target of the link that came last; *got is less than size only at its
 * end. Errors as above. */
MUST_USE enum err_code treeread_bytes(struct treeread *reader, uint64_t offset, void *bytes,
                                      size_t size, size_t *got, struct err *err);

/* 64 bits of everything about the entry but its content. */
uint64_t treeread_hash(const struct treeread_entry *entry);

#endif
