/* trial_svg.h - the pieces that the pictures of trials are made of (trial_plots.h).
 *
 * One SVG document that needs nothing else, in the look of plot.h: light, dark
 * (prefers-color-scheme) and in print. Text of any bytes comes out well-formed. Everything appends
 * to a str; coordinates are pixels, y downward. Pure.
 */
#ifndef CLI_TRIAL_SVG_H
#define CLI_TRIAL_SVG_H

#include "base/str.h"
#include "cli/plot.h"
#include "cli/plot_boxes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRIAL_SVG_FONT = 13,
    TRIAL_SVG_SMALL = 11,
    TRIAL_SVG_TOP = 62, /* below title and subtitle */
    TRIAL_SVG_RAMP = 7, /* colours v0 (faint) .. v6 (strong), for worse .. better */
    TRIAL_SVG_MARGIN = 16,
};

void trial_svg_begin(struct str *out, double width, double height, const char *title,
                     const char *subtitle);
void trial_svg_end(struct str *out);

struct trial_text {
    double x;
    double y;
    const char *anchor; /* "start", "middle", "end" */
    const char *class;  /* more than "t": "s" is small, "h" bold, "k" has a halo; "" for none */
    double room;        /* cut with an ellipsis to fit; 0: whole */
};

void trial_svg_text(struct str *out, const struct trial_text *where, const char *text);
double trial_svg_text_width(const char *text, int font); /* what the widest usual font needs */

/* A frame with two axes. Ticks that would touch one another are left out. */
struct trial_panel {
    struct plot_box frame;
    struct plot_scale x;
    struct plot_scale y;
    const char *const *x_names; /* NULL: numbers; else the names of x = 0, 1, 2 ... */
    size_t x_name_count;
    const char *x_label;
    const char
        *y_label; /* NULL: y has neither label nor numbers (those of the panel beside hold) */
    bool small;
};

void trial_panel_draw(struct str *out, const struct trial_panel *panel);
double trial_panel_x(const struct trial_panel *panel, double value);
double trial_panel_y(const struct trial_panel *panel, double value); /* kept inside the frame */

/* Many dots as one path. Those within a pixel or two of one already there are left out, so that a
 * picture of a million trials stays small. */
struct trial_dots {
    struct str path;
    uint8_t *seen;
    size_t columns;
    size_t rows;
    struct plot_box frame;
};

void trial_dots_init(struct trial_dots *dots, const struct plot_box *frame);
void trial_dots_add(struct trial_dots *dots, double x, double y);
void trial_dots_finish(struct trial_dots *dots, struct str *out, const char *class); /* releases */

/* A mark of its own: "cross", "ring", "up" or "down". */
void trial_svg_mark(struct str *out, const char *shape, const char *class, double x, double y);

/* Samples with their meaning, in one row from (x, y); those with a NULL text are passed over. */
struct trial_key {
    const char *shape; /* "dot", "line", "box", or one of trial_svg_mark */
    const char *class;
    const char *text;
};

void trial_svg_legend(struct str *out, const struct trial_key *keys, size_t count, double x,
                      double y);

#endif
