/* herd.h - the nodes a master knows: who they are, whether they are here, how to reach them.
 *
 * A node is its CURVE key; its number is given once and never reused, so that facts about it keep
 * their meaning. What must outlive the master (number, name, key, revoked, drained) is one
 * document, "nodes".
 */
#ifndef MASTER_HERD_H
#define MASTER_HERD_H

#include "core/core.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HERD_KEY_CHARS = 40,
    HERD_ROUTE_BYTES_MAX = 256,
    HERD_LABELS_MAX = 32,
    HERD_FORMER_BOOTS = 4
};

enum herd_state {
    HERD_AWAY, /* known, not connected (or its lease has lapsed: `suspect`) */
    HERD_HERE,
    HERD_LEFT, /* said goodbye */
    HERD_REVOKED,
};

/* The newest of what a node says it uses. */
struct herd_usage {
    int64_t at_ms; /* 0: nothing yet */
    uint32_t cpu_milli;
    uint64_t memory_bytes;
    uint64_t disk_read_bytes; /* per second */
    uint64_t disk_write_bytes;
    uint64_t net_in_bytes;
    uint64_t net_out_bytes;
    uint32_t gpu_milli;
    uint64_t gpu_memory_bytes;
};

struct herd_node {
    uint32_t number; /* its place in herd.nodes */
    enum herd_state state;
    bool suspect;
    enum core_drain drain;
    char *name;
    char key[HERD_KEY_CHARS + 1]; /* Z85; "" for the node in this process */
    char *boot;
    char *former_boots[HERD_FORMER_BOOTS]; /* newest first, or NULL */
    char *version;
    char *labels[HERD_LABELS_MAX];
    size_t label_count;
    struct core_resources capacity;
    int64_t price_micro_hour; /* 0: not known */
    uint32_t pid;
    int64_t joined_ms; /* first in this master's life */
    int64_t heard_ms;
    int64_t here_ms;       /* in all, before the current stay (for cost) */
    int64_t here_since_ms; /* 0: not here */
    uint64_t ended_count;  /* attempts whose end it reported */
    struct herd_usage usage;

    uint64_t session;                    /* 0: none */
    uint8_t route[HERD_ROUTE_BYTES_MAX]; /* the ROUTER's id of its connection */
    size_t route_size;
};

struct herd {
    struct herd_node **nodes;
    size_t count;
    size_t cap;
    uint32_t *index; /* by key: number + 1 */
    size_t index_size;
};

struct herd_node *herd_find_key(const struct herd *herd, const char *key);
struct herd_node *herd_find_name(const struct herd *herd, const char *name);

#endif
