/* keeper.h - the actor that owns the store: takes batches of facts, commits them in groups.
 *
 * The master posts batches and goes on; the keeper appends everything that has gathered in one
 * transaction, at most every KEEPER_LINGER_MS while much is coming, and answers with the number
 * of the last fact that is durable. It alone retries: a failing store is asked again with growing
 * pauses for as long as it takes, and the master is told once when trouble begins and once when it
 * ends, so that it can stop handing out work and say why. Nothing is ever dropped.
 *
 * keeper_* are called from the master's thread.
 */
#ifndef MASTER_KEEPER_H
#define MASTER_KEEPER_H

#include "base/err.h"
#include "store/store.h"

#include <stdbool.h>

enum { KEEPER_LINGER_MS = 5 };

struct keeper;

struct keeper_options {
    void *zmq_context;
    struct store *store; /* the keeper's from now on; closed by keeper_stop */
    int sync_fd;         /* --durable=power: a folder to syncfs before each commit; else -1 */
};

struct keeper *keeper_start(const struct keeper_options *options);

/* Posts `count` facts encoded in bytes, the first being number `first`. Copies. */
void keeper_post(struct keeper *keeper, uint64_t first, uint32_t count, const void *bytes,
                 size_t size);

/* Posts a snapshot that stands for all facts up to `upto`, which were posted before it. Copies. */
void keeper_post_snapshot(struct keeper *keeper, uint64_t upto, const void *bytes, size_t size);

/* Posts a document, which replaces the one of that name. It is durable before any fact posted after
 * it. Copies. */
void keeper_post_document(struct keeper *keeper, const char *name, const void *bytes, size_t size);

enum keeper_news_kind {
    KEEPER_DURABLE,
    KEEPER_DOCUMENT, /* one more of the documents posted is durable */
    KEEPER_TROUBLE,
    KEEPER_RECOVERED,
    KEEPER_FATAL
};

struct keeper_news {
    enum keeper_news_kind kind;
    uint64_t durable; /* DURABLE: every fact up to here */
    struct err err;   /* TROUBLE: why; FATAL: why no waiting will help */
};

/* The socket to poll for news, and the next piece of it (false: none). */
void *keeper_socket(struct keeper *keeper);
bool keeper_read(struct keeper *keeper, struct keeper_news *news);

/* Waits for news, at most timeout_ms (-1: for ever). */
bool keeper_wait(struct keeper *keeper, int timeout_ms, struct keeper_news *news);

/* Commits what was posted (unless the store fails for longer than patience_ms), closes the store
 * and frees the keeper. True: everything posted is durable. */
bool keeper_stop(struct keeper *keeper, int patience_ms);

#endif
