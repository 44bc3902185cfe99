/* engine_internal.h - what the engine's own files share.
 *
 * An operation is one engine_change: change_begin, then reading (change_node, change_find, gather),
 * deciding, and noting what is to change; change_apply at the end carries it all out and cannot
 * fail. Whatever returns before that has had no effect.
 */
#ifndef VOLUME_ENGINE_INTERNAL_H
#define VOLUME_ENGINE_INTERNAL_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "volume/engine.h"
#include "volume/engine_codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct engine;

/* The pending set: the latest value of each key changed since it was last taken. ----------------
 */

struct pending_entry {
    uint8_t *key;   /* in the arena, as is the value */
    uint8_t *value; /* NULL: deleted */
    uint32_t key_size;
    uint32_t value_size;
    uint32_t value_room;
    uint32_t hash;
    bool fresh;  /* changed since the last take */
    bool covers; /* a deletion that no commit has had lies under this value */
};

struct pending {
    struct pending_entry *entries;
    size_t count, cap;
    uint32_t *slots; /* index of an entry + 1; a power of two of them */
    size_t slot_count;
    struct arena arena;
    size_t kept_bytes; /* of what the last take left */
    bool dirty;        /* something that may be taken has changed */
};

/* The entry is valid until the next one is set. */
struct pending_entry *pending_set(struct pending *pending, struct map_slice key,
                                  struct map_slice value);
const struct pending_entry *pending_find(const struct pending *pending, struct map_slice key);
/* A key that is pending counts as changed since the last take. */
void pending_freshen(struct pending *pending, struct map_slice key);
void pending_release(struct pending *pending);
/* A container's record as it is without the bytes that only held files keep alive; returns its
 * size, 0 if there are none of those, or it is another kind of key. */
size_t pending_without_held(const struct engine *engine, const struct pending_entry *entry,
                            uint8_t value[CODEC_CONTAINER_MAX]);

/* New files that are left out of commits for now. */
struct hold_share {
    struct container container;
    uint64_t bytes; /* that the held file keeps alive in it */
};
struct hold {
    uint64_t inode, folder;
    struct hold_share *shares;
    size_t count, cap;
};
struct holds {
    struct hold *items; /* by inode */
    size_t count, cap;
    uint64_t releases;
};

struct hold *holds_find(const struct holds *holds, uint64_t inode); /* NULL: not held */
void hold_account(struct hold *hold, const struct container *container, int64_t bytes);
uint64_t holds_share(const struct holds *holds, const struct container *container); /* of all */
void holds_release(struct holds *holds);
/* Is this a key of a held file, or its name? */
bool holds_have(const struct holds *holds, const struct pending_entry *entry);

/* One operation. ------------------------------------------------------------------------------- */

struct extent_list {
    struct extent *items;
    size_t count, cap;
};

struct change_node {
    struct engine_node node;
    bool is_dirty;
    bool is_gone;
};

struct change_op { /* places in the change's bytes */
    size_t key, key_size;
    size_t value, value_size;
    bool is_put;
};

struct change_container {
    struct engine_container record;
    int64_t delta;
    bool is_young;
};

enum { CHANGE_NODES_MAX = 6 };

struct engine_change {
    struct change_node nodes[CHANGE_NODES_MAX];
    size_t node_count;
    struct str bytes;
    struct change_op *ops;
    size_t op_count, op_cap;
    struct change_container *containers;
    size_t container_count, container_cap;
    uint64_t content; /* the inode whose extents change; 0: none */
    uint64_t next_inode;
    uint64_t files, size_bytes; /* differences, modulo 2^64 */
    uint64_t released[4];
    size_t released_count;
};

/* A long list of extents that an operation has gathered when it has to wait for a block: when it is
 * called again it goes on from here. */
struct gather_rest {
    uint64_t inode, from, to; /* what was asked; inode 0: nothing */
    uint64_t next;            /* where to go on */
    bool is_whole;            /* nowhere: all is there */
    struct extent_list list;
};

struct engine {
    struct map *map;
    struct engine_counters counters;
    struct engine_counters committed; /* as last taken */
    uint64_t young_inode;             /* inodes from here on are in no commit yet */
    uint64_t seq;
    struct pending pending;
    struct holds holds;
    struct engine_container *young; /* containers that are referred to but not added yet */
    size_t young_count, young_cap;
    struct engine_change change;
    struct gather_rest rest;
    size_t rest_min; /* shorter lists are gathered anew */
    struct gather_rest
        latest; /* what the latest gathering of a whole list was (without the list) */
    struct gather_rest tail_asked;
    struct extent_list touched, tail, result, kin; /* scratch of engine_data.c */
};

void change_begin(struct engine *engine);
void change_apply(struct engine *engine);
/* The inode as this operation sees it: the same pointer each time, writable; set is_dirty by
 * change_touch. ERR_NOT_FOUND (no text), ERR_AGAIN, ERR_CORRUPT. */
MUST_USE enum err_code change_node(struct engine *engine, uint64_t inode, struct engine_node **out,
                                   struct err *err);
struct engine_node *change_new_node(struct engine *engine);
void change_touch(struct engine *engine, struct engine_node *node);
void change_drop_node(struct engine *engine, struct engine_node *node); /* deletes its 'I' */
void change_put(struct engine *engine, const struct codec_key *key, const void *value, size_t size);
void change_delete(struct engine *engine, struct map_slice key);
void change_release(struct engine *engine, uint64_t inode); /* from being held, if applied */

/* Short forms for operations: an errno to the caller, or damage of the map. */
static inline enum err_code engine_refuse(int *posix, int value, struct err *err)
{
    *posix = value;
    (void)err_set(err, ERR_INVALID, "%s", strerrordesc_np(value));
    return ERR_INVALID;
}
/* An inode that a caller names: ENOENT if there is none. */
MUST_USE enum err_code engine_named_node(struct engine *engine, uint64_t inode,
                                         struct engine_node **out, int *posix, struct err *err);
/* Likewise, and ENOTDIR if it is no folder. */
MUST_USE enum err_code engine_named_folder(struct engine *engine, uint64_t inode,
                                           struct engine_node **out, int *posix, struct err *err);
/* An inode that the map itself names: ERR_CORRUPT if there is none. */
MUST_USE enum err_code engine_linked_node(struct engine *engine, uint64_t inode,
                                          struct engine_node **out, struct err *err);
/* Reading without a change: nothing is kept. ERR_NOT_FOUND, ERR_AGAIN, ERR_CORRUPT. */
MUST_USE enum err_code engine_read_node(struct engine *engine, uint64_t inode,
                                        struct engine_node *out, struct err *err);
/* 0, or the errno of a name that cannot be. */
int engine_name_refusal(const char *name);
/* ERR_NOT_FOUND (no text), ERR_AGAIN, ERR_CORRUPT. */
MUST_USE enum err_code engine_find_name(struct engine *engine, uint64_t folder, const char *name,
                                        uint64_t *inode, uint32_t *type, struct err *err);
MUST_USE enum err_code engine_folder_is_empty(struct engine *engine, uint64_t folder, bool *empty,
                                              struct err *err);
/* A name of the inode has gone and node->attr.nlink has been lowered: at 0 it is freed, or made an
 * orphan if is_open says so. Part of a change. */
MUST_USE enum err_code engine_unlinked(struct engine *engine, struct engine_node *node,
                                       bool (*is_open)(void *context, uint64_t inode),
                                       void *context, struct err *err);

/* Contents: within a change. */
struct data_splice {
    const struct extent *extents;
    size_t count;
    uint64_t size; /* of the file afterwards */
};
MUST_USE enum err_code data_splice(struct engine *engine, struct engine_node *node,
                                   const struct data_splice *splice, struct err *err);
MUST_USE enum err_code data_free(struct engine *engine, struct engine_node *node, struct err *err);
/* Extents that overlap [from, to) are added to list, in order. */
MUST_USE enum err_code data_gather(struct engine *engine, const struct engine_node *node,
                                   uint64_t from, uint64_t to, struct extent_list *list,
                                   struct err *err);
/* The operation has to wait: what was asked of data_gather and gave this list is kept if it is
 * long. */
void data_keep(struct engine *engine, const struct gather_rest *asked, struct extent_list *list);
MUST_USE enum err_code xattr_free(struct engine *engine, const struct engine_node *node,
                                  struct err *err);
void engine_kill_priv(struct engine_node *node);

/* What a change of a file's extents means for containers: stored bytes that gain or lose their
 * last piece. Sorts `deltas`. */
struct container_delta {
    struct container container;
    int64_t bytes;
};
MUST_USE enum err_code containers_account(struct engine *engine, struct container_delta *deltas,
                                          size_t count, struct err *err);
int container_compare(const struct container *a, const struct container *b);

static inline struct map_slice slice_of_key(const struct codec_key *key)
{
    return (struct map_slice){key->bytes, key->size};
}

static inline uint64_t extent_end(const struct extent *extent)
{
    return extent->file_offset + extent->size;
}

#endif
