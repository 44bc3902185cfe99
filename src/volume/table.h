/* table.h - the newest changes of a map, sorted, in memory.
 *
 * A B-tree that only grows: a deleted key stays as a tombstone, because it must hide what lies
 * below the table. Keys and values are copied into an arena; a value that still fits its old place
 * is replaced there, else the old place is lost until the table is destroyed (and counted). The
 * same calls give the same tree. Pure code; one thread owns a table.
 */
#ifndef VOLUME_TABLE_H
#define VOLUME_TABLE_H

#include "volume/map.h"

#include <stdbool.h>
#include <stddef.h>

struct table;
struct table_node;

struct table *table_create(void);
void table_destroy(struct table *table); /* NULL does nothing */

/* value.bytes NULL: the key is deleted. Keys and values within map.h's limits. */
void table_put(struct table *table, struct map_slice key, struct map_slice value);
/* True: the table knows of the key; value->bytes NULL: as deleted. */
bool table_get(const struct table *table, struct map_slice key, struct map_slice *value);
size_t table_count(const struct table *table); /* keys, deleted ones included */
size_t table_bytes(const struct table *table); /* memory, about */

/* A place in the table, valid until the next table_put. */
struct table_cursor {
    const struct table_node *leaf;
    size_t index;
};
/* To the first key that is not below `key`. */
void table_seek(const struct table *table, struct map_slice key, struct table_cursor *cursor);
/* What is at the cursor; false: it is behind the last key. */
bool table_cursor_get(const struct table_cursor *cursor, struct map_slice *key,
                      struct map_slice *value);
void table_cursor_next(struct table_cursor *cursor);

#endif
