/* manifest.h - what a version of the user's code consists of, as a text.
 *
 *     drover-code 1
 *     644 1234 HASH train.py
 *     755 9000000 HASH,HASH,HASH tools/convert
 *     link - ../data/small data
 *     dir - - empty
 *
 * One line for each file, link, and folder that holds nothing; sorted by path; a file's bytes are
 * the objects named by their SHA-256 in hex, CODE_CHUNK_BYTES each but the last ("-" for an empty
 * file). In paths and targets, bytes up to 0x20, 0x7f and the percent sign are written %XX. There
 * is one text for one tree, and the version is its SHA-256.
 */
#ifndef WIRE_MANIFEST_H
#define WIRE_MANIFEST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CODE_CHUNK_BYTES = 4 << 20,
    MANIFEST_BYTES_MAX = (8 << 20) - (64 << 10), /* fits an HTTP body */
    MANIFEST_ENTRIES_MAX = 100 * 1000,
};

enum manifest_type { MANIFEST_FILE, MANIFEST_LINK, MANIFEST_FOLDER };

struct manifest_entry {
    enum manifest_type type;
    bool is_executable;
    uint64_t size;
    const char *path;
    const char *target;                    /* of a link */
    const uint8_t (*chunks)[SHA256_BYTES]; /* of a file */
    size_t chunk_count;
};

struct manifest {
    struct manifest_entry *entries;
    size_t count;
    size_t cap;
    uint64_t file_bytes; /* of all files */
    size_t file_count;
    struct arena arena; /* of texts and hashes */
};

/* ERR_INVALID is the only error: the text names the line. *out is the caller's. A path in it names
 * something below the tree's folder, and no file or link stands where another entry needs a folder.
 */
MUST_USE enum err_code manifest_parse(const char *text, size_t size, struct manifest **out,
                                      struct err *err);
void manifest_destroy(struct manifest *manifest); /* NULL does nothing */

/* The text of entries that are sorted by path already. */
void manifest_begin(struct str *out);
void manifest_add(struct str *out, const struct manifest_entry *entry);

void manifest_version(const char *text, size_t size, char out[SHA256_HEX_CHARS + 1]);

/* Names a file's content: its only object, or the hash of their hashes. Not for empty files. */
void manifest_file_id(const struct manifest_entry *entry, uint8_t out[SHA256_BYTES]);

/* The size of chunk `index` of the file. */
size_t manifest_chunk_size(const struct manifest_entry *entry, size_t index);

/* 64 lower-case hex digits to bytes. */
bool manifest_parse_hash(const char *hex, size_t size, uint8_t out[SHA256_BYTES]);

#endif
