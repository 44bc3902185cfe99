/* view.h - how progress looks: numbers in, text out. Pure; the terminal is the caller's. */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct view_row {
    const char *name;
    uint64_t tasks;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t other;   /* skipped or cancelled */
    uint64_t running; /* on a node */
    uint64_t retrying;
    bool ready;
    bool ended;
};

struct view {
    const struct view_row *rows;
    size_t row_count;
    const char *title; /* the workflow's id */
    int64_t elapsed_ms;
    double rate; /* tasks a second; 0: not known */
    bool stopping;
    int width;  /* columns; at least 40 are assumed */
    int height; /* lines; rows that do not fit are summed up */
    bool colour;
    bool utf8;
};

/* The whole view, each line ended by "\n" and cut to the width. Returns how many lines. */
int view_draw(struct str *out, const struct view *view);

/* Seconds left at this rate, or -1. */
int64_t view_eta_ms(const struct view *view);

/* Ends the line that begins at line_start, cut to so many columns; escape sequences stay whole. */
void view_end_line(struct str *out, size_t line_start, int columns, bool colour);

/* The width of text in terminal columns, escape sequences not counted (one a character). */
int view_width(const char *text, size_t size);

#endif
