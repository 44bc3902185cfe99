#include "cli/plot_boxes.h"

#include "base/mem.h"

#include <stdlib.h>

enum { RINGS = 4 };

void plot_boxes_release(struct plot_boxes *boxes)
{
    free(boxes->taken);
    boxes->taken = NULL;
    boxes->count = boxes->cap = 0;
}

void plot_boxes_take(struct plot_boxes *boxes, struct plot_box box)
{
    VEC_PUSH(boxes->taken, boxes->count, boxes->cap) = box;
}

bool plot_boxes_overlap(struct plot_box a, struct plot_box b)
{
    return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

static bool is_free(const struct plot_boxes *boxes, struct plot_box box)
{
    const struct plot_box *frame = &boxes->frame;
    if (box.x < frame->x || box.y < frame->y || box.x + box.w > frame->x + frame->w ||
        box.y + box.h > frame->y + frame->h) {
        return false;
    }
    for (size_t i = 0; i < boxes->count; i++) {
        if (plot_boxes_overlap(box, boxes->taken[i])) {
            return false;
        }
    }
    return true;
}

bool plot_boxes_place(struct plot_boxes *boxes, double x, double y, double gap,
                      struct plot_box *label)
{
    double w = label->w;
    double h = label->h;
    for (int ring = 0; ring < RINGS; ring++) {
        double away = gap + ring * 0.75 * h;
        double shift = ring * 0.75 * h;
        struct plot_box tries[] = {
            {x + away, y - h / 2 - shift, w, h}, {x - away - w, y - h / 2 - shift, w, h},
            {x - w / 2, y - away - h, w, h},     {x - w / 2, y + away, w, h},
            {x + away, y - h / 2 + shift, w, h}, {x - away - w, y - h / 2 + shift, w, h},
            {x + away, y - away - h, w, h},      {x - away - w, y - away - h, w, h},
            {x + away, y + away, w, h},          {x - away - w, y + away, w, h},
        };
        for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
            if (is_free(boxes, tries[i])) {
                *label = tries[i];
                plot_boxes_take(boxes, tries[i]);
                return true;
            }
        }
    }
    return false;
}
