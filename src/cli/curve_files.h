/* curve_files.h - reading learning curves from CSV and JSON files.
 *
 * CSV: a heading and one point a row. JSON: an array of objects or one object a line, one point
 * each; only plain members count. Columns (members) are found by name, ignoring case: run, step,
 * time, metric, type and batch, or the usual other names of them; a struct curve_columns says
 * otherwise. Only step and metric must be there. With `wide`, a CSV row is a whole curve: columns
 * PREFIX0, PREFIX1, ... hold the metric at steps 0, 1, ...
 */
#ifndef CLI_CURVE_FILES_H
#define CLI_CURVE_FILES_H

#include "advise/curve.h"

enum { CURVE_FILE_BYTES_MAX = 256 << 20 };

enum curve_role { ROLE_RUN, ROLE_STEP, ROLE_TIME, ROLE_METRIC, ROLE_TYPE, ROLE_BATCH, ROLE_COUNT };

struct curve_columns {
    const char *names[ROLE_COUNT]; /* NULL: the usual ones */
    const char *wide;              /* NULL: one point a row */
    double time_unit_s;            /* what the time column counts; 0: seconds */
    bool skip_bad;                 /* pass over points whose numbers are not finite */
};

struct curve_counts {
    size_t skipped;  /* points passed over: empty metric, or bad ones where that is allowed */
    char metric[64]; /* the name of the metric's column */
};

/* Adds what the file holds to the set. ERR_INVALID: "FILE:LINE: why", or a column is missing (the
 * text lists those there are); the set may then hold part of it. ERR_NOT_FOUND, ERR_IO,
 * ERR_QUOTA: the file itself. */
MUST_USE enum err_code curve_files_read(const char *path, const struct curve_columns *columns,
                                        struct curve_set *set, struct curve_counts *counts,
                                        struct err *err);

/* A file's bytes; `file` is for messages alone. */
struct curve_text {
    const char *file;
    const char *text;
    size_t size;
};

/* The same from memory; it is JSON if its first character (blanks aside) is [ or {. */
MUST_USE enum err_code curve_files_parse(const struct curve_text *input,
                                         const struct curve_columns *columns, struct curve_set *set,
                                         struct curve_counts *counts, struct err *err);

#endif
