#include "volume/table.h"

#include "base/arena.h"
#include "base/mem.h"
#include "volume/block.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    FANOUT = 32,
    DEPTH_MAX = 24, /* more keys than memory can hold */
};

struct entry {
    uint32_t value_size; /* or UINT32_MAX: deleted */
    uint32_t value_room;
    uint32_t key_size;
    uint8_t bytes[]; /* the key, then the value */
};

/* A leaf's entries are the table's; an inner node's are the least that each child may hold. All
 * keys of a node begin with the same `skip` bytes, and heads[] are the eight bytes behind them as a
 * number, zeros behind the key's end: nearly every comparison is one of two numbers, with no key
 * fetched from memory. */
struct table_node {
    uint32_t count;
    uint32_t skip;
    struct table_node *next; /* leaves: the one to the right */
    uint64_t heads[FANOUT];
    struct entry *entries[FANOUT];
};

struct inner {
    struct table_node node;
    struct table_node *children[FANOUT];
};

struct table {
    struct arena arena;
    struct table_node *root;
    struct table_node *first; /* the leaf with the least keys */
    unsigned depth;           /* of inner nodes above the leaves */
    size_t count;
    size_t node_bytes;
};

/* The way from the root to a leaf. */
struct path {
    struct inner *inner[DEPTH_MAX];
    size_t index[DEPTH_MAX];
};

static struct map_slice entry_key(const struct entry *entry)
{
    return (struct map_slice){entry->bytes, entry->key_size};
}

static struct map_slice entry_value(const struct entry *entry)
{
    if (entry->value_size == UINT32_MAX) {
        return (struct map_slice){NULL, 0};
    }
    return (struct map_slice){entry->bytes + entry->key_size, entry->value_size};
}

static uint64_t head_of(struct map_slice key, size_t skip)
{
    uint64_t head = 0;
    if (key.size >= skip + 8) {
        memcpy(&head, key.bytes + skip, 8);
    } else if (key.size > skip) {
        memcpy(&head, key.bytes + skip, key.size - skip);
    }
    return be64toh(head);
}

static struct table_node *leaf_create(struct table *table)
{
    table->node_bytes += sizeof(struct table_node);
    return mem_alloc(sizeof(struct table_node));
}

static struct inner *inner_create(struct table *table)
{
    CHECK(table->depth < DEPTH_MAX);
    table->node_bytes += sizeof(struct inner);
    return mem_alloc(sizeof(struct inner));
}

struct table *table_create(void)
{
    struct table *table = mem_alloc(sizeof *table);
    table->root = leaf_create(table);
    table->first = table->root;
    return table;
}

static void node_destroy(struct table_node *node, unsigned depth)
{
    if (depth > 0) {
        struct inner *inner = (struct inner *)node;
        for (size_t i = 0; i < node->count; i++) {
            node_destroy(inner->children[i], depth - 1);
        }
    }
    free(node);
}

void table_destroy(struct table *table)
{
    if (table) {
        node_destroy(table->root, table->depth);
        arena_release(&table->arena);
        free(table);
    }
}

/* Searching. ----------------------------------------------------------------------------------- */

/* The first of heads that is not below head. */
static size_t heads_bound(const uint64_t *heads, size_t count, uint64_t head)
{
    size_t low = 0;
    while (count > 0) {
        size_t half = count / 2;
        bool below = heads[low + half] < head;
        low = below ? low + half + 1 : low;
        count = below ? count - half - 1 : half;
    }
    return low;
}

/* The first of the node's keys that is not below key; *same: it is key. */
static size_t node_search(const struct table_node *node, struct map_slice key, bool *same)
{
    *same = false;
    if (node->count == 0) {
        return 0;
    }
    struct map_slice prefix = {node->entries[0]->bytes, node->skip};
    struct map_slice begin = {key.bytes, key.size < node->skip ? key.size : node->skip};
    int order = key_compare(begin, prefix);
    if (order) {
        return order < 0 ? 0 : node->count;
    }
    uint64_t head = head_of(key, node->skip);
    size_t low = heads_bound(node->heads, node->count, head);
    size_t high = low;
    while (high < node->count && node->heads[high] == head) {
        high++;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        order = key_compare(entry_key(node->entries[middle]), key);
        if (order == 0) {
            *same = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The leaf that key belongs in. */
static struct table_node *find_leaf(const struct table *table, struct map_slice key,
                                    struct path *path)
{
    struct table_node *node = table->root;
    for (unsigned depth = 0; depth < table->depth; depth++) {
        struct inner *inner = (struct inner *)node;
        bool same = false;
        size_t index = node_search(node, key, &same);
        index = same || index == 0 ? index : index - 1;
        if (path) {
            path->inner[depth] = inner;
            path->index[depth] = index;
        }
        node = inner->children[index];
    }
    return node;
}

bool table_get(const struct table *table, struct map_slice key, struct map_slice *value)
{
    const struct table_node *leaf = find_leaf(table, key, NULL);
    bool same = false;
    size_t index = node_search(leaf, key, &same);
    if (same) {
        *value = entry_value(leaf->entries[index]);
    }
    return same;
}

/* Changing. ------------------------------------------------------------------------------------ */

static void node_refresh(struct table_node *node)
{
    if (node->count == 0) {
        return;
    }
    struct map_slice first = entry_key(node->entries[0]);
    struct map_slice last = entry_key(node->entries[node->count - 1]);
    node->skip = (uint32_t)key_common(first, last);
    for (size_t i = 0; i < node->count; i++) {
        node->heads[i] = head_of(entry_key(node->entries[i]), node->skip);
    }
}

static void node_insert(struct table_node *node, size_t index, struct entry *entry)
{
    size_t behind = node->count - index;
    memmove(node->entries + index + 1, node->entries + index, behind * sizeof *node->entries);
    memmove(node->heads + index + 1, node->heads + index, behind * sizeof *node->heads);
    node->entries[index] = entry;
    node->count++;
    bool within = index > 0 && behind > 0; /* then it begins as the others do */
    struct map_slice key = entry_key(entry);
    if (!within && (node->count == 1 ||
                    key_common(key, entry_key(node->entries[index ? 0 : 1])) < node->skip)) {
        node_refresh(node);
    } else if (node->count == 2) {
        node_refresh(node); /* a lone key is all prefix; from here on prefixes only shrink */
    } else {
        node->heads[index] = head_of(key, node->skip);
    }
}

static void inner_insert(struct inner *inner, size_t index, struct entry *least,
                         struct table_node *child)
{
    size_t behind = inner->node.count - index;
    memmove(inner->children + index + 1, inner->children + index, behind * sizeof *inner->children);
    inner->children[index] = child;
    node_insert(&inner->node, index, least);
}

/* Where to split a full node that gets an entry at index: in the middle; but one that is appended
 * to stays full, since keys often come in rising order. */
static size_t split_point(size_t index)
{
    return index == FANOUT ? FANOUT : FANOUT / 2;
}

static void move_entries(struct table_node *from, struct table_node *to, size_t at)
{
    to->count = from->count - (uint32_t)at;
    memcpy(to->entries, from->entries + at, to->count * sizeof *to->entries);
    from->count = (uint32_t)at;
    node_refresh(from);
    node_refresh(to);
}

static struct inner *inner_split(struct table *table, struct inner *inner, size_t index,
                                 struct entry *least, struct table_node *child)
{
    size_t at = split_point(index);
    struct inner *right = inner_create(table);
    memcpy(right->children, inner->children + at, (FANOUT - at) * sizeof *right->children);
    move_entries(&inner->node, &right->node, at);
    if (index > at || at == FANOUT) {
        inner_insert(right, index - at, least, child);
    } else {
        inner_insert(inner, index, least, child);
    }
    return right;
}

/* Makes child, which lies right of what the path leads to, known to the nodes above. */
static void add_child(struct table *table, const struct path *path, struct entry *least,
                      struct table_node *child)
{
    for (unsigned depth = table->depth; depth-- > 0;) {
        struct inner *inner = path->inner[depth];
        size_t index = path->index[depth] + 1;
        if (inner->node.count < FANOUT) {
            inner_insert(inner, index, least, child);
            return;
        }
        child = &inner_split(table, inner, index, least, child)->node;
        least = child->entries[0];
    }
    struct inner *root = inner_create(table);
    inner_insert(root, 0, table->root->entries[0], table->root);
    inner_insert(root, 1, least, child);
    table->root = &root->node;
    table->depth++;
}

/* The entry is the least of all: the first of each node on the way to it. */
static void lower_least(struct table *table, const struct path *path, struct entry *entry)
{
    for (unsigned depth = 0; depth < table->depth; depth++) {
        path->inner[depth]->node.entries[0] = entry;
        node_refresh(&path->inner[depth]->node);
    }
}

static void insert(struct table *table, const struct path *path, struct table_node *leaf,
                   size_t index, struct entry *entry)
{
    if (leaf->count < FANOUT) {
        node_insert(leaf, index, entry);
        return;
    }
    size_t at = split_point(index);
    struct table_node *right = leaf_create(table);
    move_entries(leaf, right, at);
    right->next = leaf->next;
    leaf->next = right;
    if (index > at || at == FANOUT) {
        node_insert(right, index - at, entry);
    } else {
        node_insert(leaf, index, entry);
    }
    add_child(table, path, right->entries[0], right);
}

static void entry_set(struct entry *entry, struct map_slice value)
{
    entry->value_size = value.bytes ? (uint32_t)value.size : UINT32_MAX;
    if (value.bytes && value.size) {
        memcpy(entry->bytes + entry->key_size, value.bytes, value.size);
    }
}

static struct entry *entry_create(struct table *table, struct map_slice key, struct map_slice value)
{
    struct entry *entry = arena_alloc(&table->arena, sizeof *entry + key.size + value.size);
    entry->key_size = (uint32_t)key.size;
    entry->value_room = (uint32_t)value.size;
    if (key.size) {
        memcpy(entry->bytes, key.bytes, key.size);
    }
    entry_set(entry, value);
    return entry;
}

void table_put(struct table *table, struct map_slice key, struct map_slice value)
{
    CHECK(key.size <= MAP_KEY_MAX);
    CHECK(value.size <= MAP_VALUE_MAX);
    struct path path;
    struct table_node *leaf = find_leaf(table, key, &path);
    bool same = false;
    size_t index = node_search(leaf, key, &same);
    if (!same) {
        struct entry *entry = entry_create(table, key, value);
        if (index == 0 && leaf == table->first) {
            lower_least(table, &path, entry);
        }
        insert(table, &path, leaf, index, entry);
        table->count++;
    } else if (value.size <= leaf->entries[index]->value_room) {
        entry_set(leaf->entries[index], value);
    } else {
        leaf->entries[index] = entry_create(table, key, value);
    }
}

size_t table_count(const struct table *table)
{
    return table->count;
}

size_t table_bytes(const struct table *table)
{
    return table->arena.used_bytes + table->node_bytes;
}

/* Going through it. ---------------------------------------------------------------------------- */

void table_seek(const struct table *table, struct map_slice key, struct table_cursor *cursor)
{
    cursor->leaf = find_leaf(table, key, NULL);
    bool same = false;
    cursor->index = node_search(cursor->leaf, key, &same);
    if (cursor->index == cursor->leaf->count) {
        cursor->leaf = cursor->leaf->next;
        cursor->index = 0;
    }
}

bool table_cursor_get(const struct table_cursor *cursor, struct map_slice *key,
                      struct map_slice *value)
{
    if (!cursor->leaf || cursor->index == cursor->leaf->count) {
        return false;
    }
    const struct entry *entry = cursor->leaf->entries[cursor->index];
    *key = entry_key(entry);
    *value = entry_value(entry);
    return true;
}

void table_cursor_next(struct table_cursor *cursor)
{
    if (cursor->leaf && ++cursor->index == cursor->leaf->count) {
        cursor->leaf = cursor->leaf->next;
        cursor->index = 0;
    }
}
