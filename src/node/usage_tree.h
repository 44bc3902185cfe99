/* usage_tree.h - which processes belong to which slot, and what they have used. Private to usage.
 *
 * One pass over /proc serves all slots. A process belongs to the slot whose reaper is the nearest
 * of its ancestors that is one. Who belongs to nobody is remembered, and looked at again only after
 * some passes (a number may pass to another process); so a busy machine costs little more than
 * the list of its processes.
 */
#ifndef NODE_USAGE_TREE_H
#define NODE_USAGE_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { USAGE_NO_GROUP = -1 };

struct usage_tree;

struct usage_totals {
    uint64_t cpu_us;
    uint64_t memory_bytes;
    uint64_t read_bytes;
    uint64_t write_bytes;
};

struct usage_tree *usage_tree_create(const char *proc); /* "/proc" */
void usage_tree_destroy(struct usage_tree *tree);

/* Group i is reapers[i] and what is below it; out[i] is what it has used so far (memory: uses now).
 * 0 in reapers stands for nobody. */
void usage_tree_pass(struct usage_tree *tree, const pid_t *reapers, size_t count,
                     struct usage_totals *out);

/* Of the last pass: the process's group, or USAGE_NO_GROUP. */
int usage_tree_group(const struct usage_tree *tree, pid_t pid);

/* Of the last pass: how many processes were looked at; for tests and measurements. */
size_t usage_tree_looked_at(const struct usage_tree *tree);

/* Reads a file below a folder into text, NUL-terminated and cut to size - 1; "" if it cannot. */
void usage_read_at(int folder, const char *path, char *text, size_t size);

#endif
