/* store_conformance.h - what every driver of store.h must do, as tests that run over any of them.
 *
 * For tests only. A driver is described once; conformance_run puts it through the whole suite. The
 * helpers below are a caller as store.h wants it: it asks again after ERR_IO and ERR_QUOTA and
 * takes ERR_EXISTS for the answer to a question it has asked before.
 */
#ifndef STORE_STORE_CONFORMANCE_H
#define STORE_STORE_CONFORMANCE_H

#include "base/str.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct conformance_driver {
    const char *name;
    struct store *(*open)(struct conformance_driver *driver); /* the same store if `reopens` */
    bool reopens;        /* what was written is there after close and open */
    bool is_faulty;      /* calls may fail or lose their reply */
    int random_steps;    /* of the test against the model */
    uint64_t seed;       /* of the faults and of the random test */
    char folder[64];     /* for the files of one test; made and removed by the suite */
    struct store *store; /* the one under test */
};

/* Runs the suite; returns the number of failed tests. */
int conformance_run(struct conformance_driver *driver);

/* A new folder under $TMPDIR or /tmp, and its removal with all it holds. */
void conformance_folder_make(char *folder, size_t size);
void conformance_folder_remove(const char *folder);
char *conformance_path(const char *folder, const char *name); /* the caller frees it */

/* Asking until there is an answer. */
enum err_code conformance_append(struct store *store, uint64_t first, uint32_t count,
                                 const struct str *bytes);
uint64_t conformance_last(struct store *store);
enum err_code conformance_replay(struct store *store, uint64_t after, store_replay_fn fn,
                                 void *context);

/* Bytes that only (seed, size) determine, appended to out. */
void conformance_fill(struct str *out, uint64_t seed, size_t size);

#endif
