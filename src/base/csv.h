/* csv.h - reading CSV text (RFC 4180) with the line each field stood on.
 *
 * The first record names the columns. Quoted fields may hold commas, quotes ("") and line breaks.
 * A byte-order mark is skipped, CRLF and LF both end a record, blank lines are passed over, `#`
 * begins a comment line. Bounded whatever the input: CSV_BYTES_MAX of text, CSV_COLUMNS_MAX
 * columns. Every record must have as many fields as there are columns. Pure; the table owns copies
 * of everything.
 */
#ifndef BASE_CSV_H
#define BASE_CSV_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSV_BYTES_MAX = 256 << 20, CSV_COLUMNS_MAX = 1000 };

struct csv;

/* ERR_INVALID with "FILE:LINE: why"; `file` is for messages alone. */
MUST_USE enum err_code csv_parse(const char *file, const char *text, size_t size, struct csv **out,
                                 struct err *err);
void csv_destroy(struct csv *csv);

size_t csv_row_count(const struct csv *csv);
size_t csv_column_count(const struct csv *csv);
const char *csv_column_name(const struct csv *csv, size_t column);
int csv_find_column(const struct csv *csv, const char *name); /* ignoring case; -1: none */
int csv_row_line(const struct csv *csv, size_t row);          /* from 1, for messages */
const char *csv_text(const struct csv *csv, size_t row, size_t column); /* trimmed; "" if empty */

/* A finite number, or ERR_INVALID "FILE:LINE: COLUMN: 'x' is not a number" (also for NaN,
 * infinities and 1e400). An empty field: ERR_NOT_FOUND. */
MUST_USE enum err_code csv_number(const struct csv *csv, size_t row, size_t column, double *out,
                                  struct err *err);

#endif
