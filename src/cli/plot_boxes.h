/* plot_boxes.h - finding room for labels: rectangles that must not overlap. Pure. */
#ifndef CLI_PLOT_BOXES_H
#define CLI_PLOT_BOXES_H

#include <stdbool.h>
#include <stddef.h>

struct plot_box {
    double x; /* left */
    double y; /* top; y grows downward */
    double w;
    double h;
};

struct plot_boxes {
    struct plot_box frame; /* labels stay inside */
    struct plot_box *taken;
    size_t count;
    size_t cap;
};

void plot_boxes_release(struct plot_boxes *boxes);
void plot_boxes_take(struct plot_boxes *boxes, struct plot_box box);
bool plot_boxes_overlap(struct plot_box a, struct plot_box b);

/* Room for a label of w x h near (x, y), `gap` away at least: tries beside, above and below,
 * then farther out. Takes it and returns true, or false if there is none near enough. */
bool plot_boxes_place(struct plot_boxes *boxes, double x, double y, double gap,
                      struct plot_box *label);

#endif
