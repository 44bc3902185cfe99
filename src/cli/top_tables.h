/* top_tables.h - the two tables of `drover top`. Each begins with a blank line and a heading. */
#ifndef CLI_TOP_TABLES_H
#define CLI_TOP_TABLES_H

#include "cli/top_parts.h"

/* The rows that are shown; if there are more, a last line says how many. */
struct top_window {
    size_t first;
    size_t rows;
};

void top_tables_flows(struct parts *parts, const struct top *top, const struct top_window *window);
void top_tables_nodes(struct parts *parts, const struct top *top, const struct top_window *window,
                      enum top_order order);

#endif
