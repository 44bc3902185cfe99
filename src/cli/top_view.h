/* top_view.h - how `drover top` looks: numbers and the size of a screen in, text out. Pure. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "base/str.h"
#include "cli/top.h"

enum top_focus { TOP_BOTH, TOP_NODES, TOP_FLOWS };

struct top_screen {
    int width;  /* columns; at least 20 are assumed */
    int height; /* lines; 0: as many as there is to say, and nothing about keys */
    bool colour;
    bool utf8;
    enum top_focus focus;
    enum top_order order; /* how the nodes are sorted: for the heading */
    size_t scroll;        /* rows of the focused table that are above the screen */
    int64_t silent_ms;    /* since the server last answered; 0: it does */
};

/* At most height lines, each ended by "\n" and cut to the width. Returns how many. */
int top_view_draw(struct str *out, const struct top *top, const struct top_screen *screen);

/* How far the focused table can be scrolled on this screen. */
size_t top_view_scroll_max(const struct top *top, const struct top_screen *screen);

/* The nodes that are on the screen: how many, from *first on. Their past is worth asking for. */
size_t top_view_nodes(const struct top *top, const struct top_screen *screen, size_t *first);

#endif
