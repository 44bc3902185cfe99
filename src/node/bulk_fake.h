/* bulk_fake.h - a stand-in for bulk.c in tests: remembers what was asked, and the test says how
 * each request ends. Called from the test's thread; the agent's calls bulk.h. */
#ifndef NODE_BULK_FAKE_H
#define NODE_BULK_FAKE_H

#include "node/bulk.h"

enum { BULK_FAKE_MAX = 256 };

struct bulk_fake_request {
    char what[32];  /* "code", "outputs", "old checkpoint", "log", "output", "checkpoint" */
    char name[256]; /* version or experiment */
    char path[4096];
    uint64_t task;
    bool is_finished;
    bool is_hurried;
    bool is_dropped;
    bool is_over; /* its event was given */
};

void bulk_fake_reset(void);
/* Waits (ten seconds, then aborts) for the nth request of that kind, from 0, and copies it. */
void bulk_fake_wait(const char *what, size_t nth, struct bulk_fake_request *out);
/* The same, until bulk_finish was called on it. */
void bulk_fake_wait_finished(const char *what, size_t nth, struct bulk_fake_request *out);
size_t bulk_fake_count(const char *what);
void bulk_fake_end(const char *what, size_t nth, enum err_code code, const char *folder);

#endif
