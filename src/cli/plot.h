/* plot.h - small plots: numbers in, SVG or terminal text out.
 *
 * A plot has two axes with units in their labels, series of points (drawn as lines, points or both)
 * and vertical marks. Both drawings are made from the same structure and the same scales. Labels
 * are placed where they overlap nothing; one for which there is no room is left out of the picture,
 * never drawn over another. Everything is borrowed for the call. Pure: the same plot gives the same
 * bytes.
 */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum { PLOT_TICKS_MAX = 16, PLOT_TICK_SIZE = 24, PLOT_STYLES = 8 };

struct plot_point {
    double x;
    double y;
    const char *label; /* NULL: none */
};

struct plot_series {
    const char *name; /* in the legend; NULL: not there */
    unsigned style;   /* colour, dash and shape; counted modulo PLOT_STYLES */
    bool line;
    bool dots;
    bool faint;  /* drawn thin, behind the others */
    bool hollow; /* dots not filled */
    bool rings;  /* around points that another series draws */
    const struct plot_point *points;
    size_t count;
};

/* A vertical line, for "it happens here". */
struct plot_mark {
    double x;
    const char *label;
    unsigned style;
};

struct plot {
    const char *title;
    const char *x_label; /* with its unit: "time (h)" */
    const char *y_label;
    bool x_log; /* where all values are above 0 */
    bool y_log;
    bool x_from_zero;
    bool y_from_zero;
    const struct plot_series *series;
    size_t series_count;
    const struct plot_mark *marks;
    size_t mark_count;
};

struct plot_tick {
    double value;
    char text[PLOT_TICK_SIZE];
};

struct plot_scale {
    double low;
    double high; /* > low */
    bool log;
    struct plot_tick ticks[PLOT_TICKS_MAX];
    size_t tick_count;
};

/* A scale that holds low..high, with at most `wanted` ticks at round numbers (10k, 0.25, 5). */
void plot_scale_init(struct plot_scale *scale, double low, double high, bool log, size_t wanted);

/* Where a value lies: 0 at low, 1 at high. */
double plot_scale_place(const struct plot_scale *scale, double value);

/* The scales that hold all series and marks of a plot. */
void plot_scales(const struct plot *plot, size_t x_ticks, size_t y_ticks, struct plot_scale *x,
                 struct plot_scale *y);

/* One SVG document that needs nothing else: light, dark (prefers-color-scheme) and in print. */
void plot_svg(const struct plot *plot, struct str *out);

struct plot_terminal {
    int width;  /* columns; at least 40 are assumed */
    int height; /* lines of the drawing itself; at least 8 are assumed */
    bool utf8;  /* braille dots; else ASCII */
    bool colour;
};

void plot_term(const struct plot *plot, const struct plot_terminal *terminal, struct str *out);

#endif
