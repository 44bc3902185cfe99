/* depot_testing.h - a depot and a node's bulk actor in one process, over real encrypted sockets,
 * and random trees to send between them. For tests alone. */
#ifndef MASTER_DEPOT_TESTING_H
#define MASTER_DEPOT_TESTING_H

#include "base/rng.h"
#include "base/str.h"
#include "master/depot.h"
#include "node/bulk.h"

struct pair {
    char folder[512]; /* of all the test's files; removed at the end */
    char state[600];
    char flow[600]; /* folder of workflow 1 */
    char work[600]; /* of the node */
    void *master_context;
    void *node_context;
    struct door_guard *guard;
    struct door_keys master_keys;
    struct door_keys node_keys;
    uint16_t port;
    struct depot *depot;
    struct bulk *bulk;
    uint64_t output_bytes_max;

    /* what the loop answers */
    enum err_code verdict;
    uint64_t log_limit_bytes;
    uint64_t checkpoint; /* 0: the task's */
    uint64_t questions;
    bool in_trouble;
    int troubles;
    struct depot_event http; /* the last reply; the body is copied to http_body */
    struct str http_body;
    bool has_http;
};

void pair_open(struct pair *pair, const char *name);
void pair_close(struct pair *pair);
void pair_start_depot(struct pair *pair);
void pair_stop_depot(struct pair *pair);
void pair_start_bulk(struct pair *pair, bool is_shared);
void pair_stop_bulk(struct pair *pair);

/* Answers what the depot asks for up to wait_ms, or until the event for the ticket comes: true. */
bool pair_wait(struct pair *pair, uint64_t ticket, int64_t wait_ms, struct bulk_event *event);
/* The same with all the time in the world; the request must succeed. */
void pair_expect_done(struct pair *pair, uint64_t ticket);
/* Gives the request to the depot and waits for the reply: its status. */
int pair_http(struct pair *pair, const char *method, const char *path, const void *body,
              size_t size);

/* A random tree: folders, files of 0 to max_bytes, links. */
void testing_make_tree(const char *folder, struct rng *rng, int entries, size_t max_bytes);
void testing_write(const char *path, const void *bytes, size_t size);
/* Everything in both folders is the same: paths, types, modes, times, contents, targets. */
void testing_assert_same(const char *a, const char *b);
/* The same but for times, and modes only in whether they can be run. */
void testing_assert_same_code(const char *a, const char *b);

#endif
