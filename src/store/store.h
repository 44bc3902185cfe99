/* store.h - the durable log of facts: append, replay, snapshot, and a few documents.
 *
 * A store holds one growing sequence of opaque records, numbered from 1, in batches; a batch is
 * appended whole or not at all, and is durable when append returns. A snapshot stands for all
 * records up to its number; records it covers may be forgotten. Documents are small named blobs
 * (the recipe, the options) written once or replaced whole.
 *
 * Three drivers under one conformance suite: sqlite (the real one), memory, and faulty, which wraps
 * another and delays, fails, or loses the reply of calls by seed. A lost reply is settled by the
 * caller asking again: append of a batch that is already there, byte for byte, says ERR_EXISTS.
 *
 * Calls block; in the program an actor thread owns the store. One thread at a time.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

/* Called for each batch in order: its first record's number, how many, and its bytes. Stop early by
 * returning false. The bytes are borrowed for the call, which must not use the store. */
typedef bool (*store_replay_fn)(void *context, uint64_t first, uint32_t count, const void *bytes,
                                size_t size);

struct store_ops {
    /* Appends `count` (at least 1) records encoded in `bytes`; `first` must be last + 1.
     * ERR_EXISTS: this very batch is there already (first, count and bytes agree).
     * ERR_STALE: first is not last + 1 and it is not that case; another writer has been here, or
     * the batch is one that a snapshot has made us forget.
     * ERR_QUOTA: no room on the disk; ask again later. ERR_IO: ask again. Nothing was appended.
     * ERR_RANGE: more bytes than the driver takes at once (sqlite: about 1 GB), here and in the
     * other writes. ERR_DENIED: the store was opened with STORE_READ. */
    enum err_code (*append)(struct store *store, uint64_t first, uint32_t count, const void *bytes,
                            size_t size, struct err *err);
    /* The number of the last record, 0 if none. */
    enum err_code (*last)(struct store *store, uint64_t *out, struct err *err);
    /* Replays batches with first > after. ERR_CORRUPT: a batch's checksum does not hold, or batches
     * are missing between the snapshot and the last one; fn has seen only sound ones before it. */
    enum err_code (*replay)(struct store *store, uint64_t after, store_replay_fn fn, void *context,
                            struct err *err);
    /* Replaces the snapshot; `upto` must be <= last (else ERR_RANGE) and >= the old one's (else
     * ERR_STALE). Batches wholly covered are forgotten. All or nothing; asking again is harmless.
     */
    enum err_code (*snapshot_put)(struct store *store, uint64_t upto, const void *bytes,
                                  size_t size, struct err *err);
    /* ERR_NOT_FOUND: there is none. Appends its bytes to out (on failure out is unchanged). */
    enum err_code (*snapshot_get)(struct store *store, uint64_t *upto, struct str *out,
                                  struct err *err);
    /* Documents. put replaces. get appends to out, ERR_NOT_FOUND if missing. */
    enum err_code (*doc_put)(struct store *store, const char *name, const void *bytes, size_t size,
                             struct err *err);
    enum err_code (*doc_get)(struct store *store, const char *name, struct str *out,
                             struct err *err);
    void (*close)(struct store *store); /* frees the store; NULL does nothing */
};

struct store {
    const struct store_ops *ops;
};

enum store_access { STORE_WRITE, STORE_READ };

/* Opens or (STORE_WRITE) creates PATH, mode 0600. The file's version is checked: ERR_UNSUPPORTED
 * names both versions; ERR_CORRUPT: not a drover store, or a damaged one; ERR_NOT_FOUND: STORE_READ
 * and no store (yet) in the file; ERR_DENIED: no right to read or write it.
 * Any number of readers, in this or other processes, may be there beside one writer. A read-only
 * folder can be read from, unless the last writer was killed and its log is still to be merged. */
MUST_USE enum err_code store_sqlite_open(const char *path, enum store_access access,
                                         struct store **out, struct err *err);
struct store *store_memory_create(void);

struct store_faults {
    uint64_t seed;
    double fail;       /* share of calls, reads too, that fail with ERR_IO and do nothing */
    double full;       /* share that fail with ERR_QUOTA and do nothing */
    double lost_reply; /* share of writes that happen but answer ERR_IO */
    int64_t delay_us;  /* the longest delay before a call */
};
/* Takes ownership of inner. The shares add up to at most 1. The fate of the n-th call depends on
 * the seed and n alone. */
struct store *store_faulty_create(struct store *inner, const struct store_faults *faults);

#endif
