/* nodes_table.h - the nodes of a server as a table. Pure: node objects in, text out. */
#ifndef CLI_NODES_TABLE_H
#define CLI_NODES_TABLE_H

#include "base/jread.h"

#include <stdint.h>

struct nodes_table {
    int64_t now_ms; /* unix: HEARD is how long ago */
    bool all;       /* those that left or were revoked, too */
    size_t shown;
    size_t hidden;
    const struct jnode **nodes; /* borrowed */
    size_t count;
    size_t cap;
};

void nodes_table_add(struct nodes_table *table, const struct jnode *node);
/* By name: n2 comes before n10. NAME STATE SLOTS BUSY CPU% MEM GPU LABELS PRICE HEARD; columns as
 * wide as they need be. */
void nodes_table_print(struct nodes_table *table, struct str *out);
void nodes_table_release(struct nodes_table *table);

/* "512M", "15.6G": short, in units of 1024. */
void nodes_table_add_bytes(struct str *out, uint64_t bytes);

#endif
