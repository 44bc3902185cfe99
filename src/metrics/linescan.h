/* linescan.h - the metrics in one line of a log, with nothing said about what it looks like.
 *
 * Recognised (lines.h lists examples): pairs of a name and a number with "=", ":" or a blank
 * between them, and counters of progress (epoch 3/10, step 100, [12], 3:). A line counts only if
 * some name in it is a metric's (words.h) or is wanted; then, if a counter says how far training
 * is, its other pairs are metrics as well. Names come out in lower case, with the data they are of
 * before them: "Validation Loss: 0.3" is val_loss. A percentage is a hundredth: 91.2% is 0.912.
 * One pass, then one over at most RECORD_ITEMS_MAX pairs. Pure.
 */
#ifndef METRICS_LINESCAN_H
#define METRICS_LINESCAN_H

#include "metrics/record.h"

enum { LINESCAN_WANTED_MAX = 16 };

struct linescan_wanted {
    size_t count;
    char names[LINESCAN_WANTED_MAX][METRIC_NAME_MAX + 1];
};

struct linescan_line {
    bool only_counter; /* no metric, and nothing besides a counter: "Epoch 3/10" */
    bool is_partial;   /* a progress bar that is not full: a better one follows */
};

/* Whether the user asked for a metric of this name; ignoring case. */
bool linescan_is_wanted(const struct linescan_wanted *wanted, const char *name, size_t size);

/* The line has no line breaks and no escape sequences. record, empty before, has what was found;
 * its count is 0 if the line has no metrics. */
void linescan_read(const char *text, size_t size, const struct linescan_wanted *wanted,
                   struct record *record, struct linescan_line *line);

#endif
