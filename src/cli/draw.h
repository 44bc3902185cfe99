/* draw.h - the advisor's pictures: what they show, made into plots (plot.h).
 *
 * Each function appends the SVG document to `svg` or the terminal drawing to `text`, whichever is
 * not NULL.
 */
#ifndef CLI_DRAW_H
#define CLI_DRAW_H

#include "advise/costtab.h"
#include "advise/stabilise.h"
#include "cli/plot.h"

struct draw_target {
    struct str *svg;
    struct str *text;
    struct plot_terminal terminal;
};

/* Learning curves, one colour a type and batch, with the stabilisation point of each group that has
 * one marked; groups are in the set's order. */
void draw_curves(const struct draw_target *target, const struct curve_set *set,
                 const struct stabilise_group *groups, const char *metric);

/* One set-up of a cost-against-time map. */
struct draw_setup {
    double time_s;
    double cost; /* units of money */
    const char *name;
    const char *kind; /* set-ups of one kind share a colour: the type; may be "" */
    bool on_front;
};

/* Every set-up as a labelled point, the Pareto front as a line. */
void draw_cost_map(const struct draw_target *target, const struct draw_setup *setups, size_t count,
                   const char *currency);

/* Throughput against engines as measured, with the fitted curve and its knee (0: none). */
struct draw_engines {
    const double *engines;
    const double *throughput;
    size_t count;
    const double *fit_engines;
    const double *fit_throughput;
    size_t fit_count;
    double knee;
    const char *unit; /* "epochs/min" */
};

void draw_engines(const struct draw_target *target, const struct draw_engines *engines);

#endif
