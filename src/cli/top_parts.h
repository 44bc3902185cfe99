/* top_parts.h - the small parts of a screen: lines that are cut, meters, bars, sparklines. Pure. */
#ifndef CLI_TOP_PARTS_H
#define CLI_TOP_PARTS_H

#include "base/str.h"
#include "cli/top.h"

enum { PARTS_WIDE = 120 }; /* columns from which on there is more to see */

enum parts_colour { PARTS_BOLD, PARTS_DIM, PARTS_RED, PARTS_GREEN, PARTS_YELLOW };

struct parts {
    struct str *out;
    size_t start; /* of the line being made */
    int lines;    /* ended so far */
    int width;
    int height; /* lines beyond it are dropped; 0: no limit */
    bool colour;
    bool utf8;
};

void parts_addf(struct parts *parts, const char *format, ...) PRINTF_LIKE(2, 3);
void parts_paint(struct parts *parts, enum parts_colour colour, const char *text);
void parts_begin(struct parts *parts, enum parts_colour colour); /* until parts_finish */
void parts_finish(struct parts *parts);
/* Exactly so many columns: cut, or filled up with blanks. */
void parts_pad(struct parts *parts, const char *text, int columns);
/* At the right end of the line, if there is room for it. */
void parts_right(struct parts *parts, const char *text);
void parts_heading(struct parts *parts, const char *text); /* a whole line */
void parts_end_line(struct parts *parts);

/* part / whole, from 0 to 9.99; 0 of nothing. */
double parts_share(double part, double whole);

/* How full something is: green, yellow, red. Exactly so many columns. */
void parts_meter(struct parts *parts, double share, int columns);

struct parts_progress {
    uint64_t total;
    uint64_t good;
    uint64_t bad;
    uint64_t other;
    uint64_t busy;
};
/* Exactly so many columns; whatever there is any of is seen. */
void parts_progress(struct parts *parts, const struct parts_progress *progress, int columns);

/* The newest values, the newest on the right. At most so many columns. */
void parts_spark(struct parts *parts, const struct top_history *history, int columns);

#endif
