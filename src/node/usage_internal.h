/* usage_internal.h - the inside of usage.h, for its parts and its tests. */
#ifndef NODE_USAGE_INTERNAL_H
#define NODE_USAGE_INTERNAL_H

#include "node/nvml.h"
#include "node/usage.h"
#include "node/usage_tree.h"

/* Where things are read from; tests have their own. */
struct usage_places {
    const char *proc;
    const char *cgroup; /* the root of the hierarchy as this process sees it */
    const char *nvml;   /* the library; NULL: the usual one */
};
struct usage *usage_open_at(const struct usage_places *places);

/* A total that grows, and how fast. One that falls (a process was missed in this look, or has gone
 * without telling its parent) gives 0; if it is still lower next time, it starts from there. */
struct usage_counter {
    uint64_t last;
    bool was_low;
};
uint64_t usage_counter_rate(struct usage_counter *counter, uint64_t total, int64_t elapsed_us);

/* usage_gpu.c: adds what the GPUs do to the node's sample and to those of the slots, each being
 * group i of the tree's last pass. nvml may be NULL. */
void usage_add_gpus(struct nvml *nvml, const struct usage_tree *tree, Drover__Usage *node,
                    struct usage_slot *slots, size_t slot_count);

#endif
