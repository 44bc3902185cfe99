/* code.h - the code store of the master: objects by their SHA-256, and versions made of them.
 *
 *     FOLDER/objects/AB/HASH     at most CODE_CHUNK_BYTES each
 *     FOLDER/versions/VERSION    a manifest (wire/manifest.h)
 *     FOLDER/tmp/
 *
 * An object appears whole, under the name that its bytes have; a version only when all its objects
 * are there. Blocking; one owner, the depot's thread. code_has_version may be called by anybody.
 */
#ifndef MASTER_CODE_H
#define MASTER_CODE_H

#include "base/err.h"
#include "wire/manifest.h"

#include <stdbool.h>
#include <stddef.h>

struct code;

MUST_USE enum err_code code_open(const char *folder, struct code **out, struct err *err);
void code_close(struct code *code); /* NULL does nothing */

bool code_has(struct code *code, const uint8_t hash[SHA256_BYTES]);

/* ERR_INVALID: the bytes have another hash, or are none or too many. ERR_QUOTA: the disk is full.
 */
MUST_USE enum err_code code_put(struct code *code, const uint8_t hash[SHA256_BYTES],
                                const void *bytes, size_t size, struct err *err);

/* Opens the object to read; *size is its size. ERR_NOT_FOUND. */
MUST_USE enum err_code code_open_object(struct code *code, const uint8_t hash[SHA256_BYTES],
                                        int *fd, size_t *size, struct err *err);

/* Stores a version. ERR_INVALID: it is no manifest. ERR_NOT_FOUND: objects are missing: their
 * hashes in hex, one a line, are added to missing. */
MUST_USE enum err_code code_put_version(struct code *code, const char *text, size_t size,
                                        struct manifest **out, struct str *missing,
                                        struct err *err);

/* The manifest's text. ERR_NOT_FOUND, ERR_CORRUPT. */
MUST_USE enum err_code code_get_version(struct code *code, const char *version, struct str *text,
                                        struct err *err);
bool code_has_version(const char *folder, const char *version);

/* Removes versions that are not among those kept and were stored more than age_ms ago, then the
 * objects of no version, if they are that old too. */
void code_prune(struct code *code, const char *const *kept, size_t count, int64_t age_ms);

#endif
