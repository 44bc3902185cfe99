/* analyse.h - what the parts of `drover analyse` share. */
#ifndef CLI_ANALYSE_H
#define CLI_ANALYSE_H

#include "advise/costtab.h"
#include "advise/stabilise.h"
#include "cli/catalog_files.h"
#include "cli/cli.h"
#include "cli/curve_files.h"
#include "cli/draw.h"

/* What the command line asked for. */
struct analyse {
    const char *const *files;
    size_t file_count;
    struct curve_columns columns;
    struct stabilise_options stabilise;
    bool as_json;
    bool online;
    bool plot; /* in the terminal */
    const char *svg;
    /* cost */
    struct costtab_price *prices;
    size_t price_count;
    size_t price_cap;
    struct costtab_point *points;
    size_t point_count;
    size_t point_cap;
    struct catalog_files catalogs;
    bool has_target;
    double target;
    const char *baseline;
    const char *currency;
    /* own */
    int64_t kwh_micro;
    uint64_t jobs;
};

int analyse_stabilise(const struct analyse *analyse);
int analyse_cost(const struct analyse *analyse);
int analyse_own(const struct analyse *analyse);
int analyse_map(const struct analyse *analyse);

/* The curves of all files and what the detectors say of them. */
struct analysed {
    struct curve_set set;
    struct curve_counts counts;
    struct stabilise_result *results; /* of each run */
    struct stabilise_group *groups;   /* of each type and batch, in the set's order */
    size_t group_count;
};

/* EXIT_DONE, or has printed why not. Release in either case. */
int analyse_read(const struct analyse *analyse, struct analysed *out);
void analysed_release(struct analysed *analysed);

/* The one CSV file of own and map: EXIT_DONE, or has printed why not. */
struct csv;
int analyse_read_table(const struct analyse *analyse, struct csv **out);
/* Prints what is wrong with it, with the file's name in front, and returns EXIT_USAGE. */
int analyse_table_error(const struct analyse *analyse, const struct err *err);

/* What standard output can show. */
struct plot_terminal analyse_terminal(void);

/* Draws to the file --svg names and, with --plot, to `text`; a failure to write is printed. */
struct draw_target analyse_target(const struct analyse *analyse, struct str *svg, struct str *text);
int analyse_write_svg(const struct analyse *analyse, const struct str *svg);

/* "-" for what is not known; numbers as people write them (12,500 as 12500, 0.913). */
void analyse_add_number(struct str *out, int width, double number);

#endif
