/* report.h - what a task says to drover: one JSON object on a line, {"step":3,"accuracy":0.97}.
 *
 * The line goes to the file that DROVER_REPORT names, in one write that appends, so that several
 * processes may report at once; where there is no such file it is printed with "drover: " before
 * it, and lines.h finds it in the log. The Python module writes the same.
 */
#ifndef METRICS_REPORT_H
#define METRICS_REPORT_H

#include "base/err.h"
#include "base/str.h"
#include "metrics/record.h"

/* Adds "NAME=VALUE" to record: step and epoch as such, anything else as a metric. The value is a
 * number, also nan, inf and 12.5%. ERR_INVALID with what is wrong; also for a name given twice and
 * for more than RECORD_ITEMS_MAX. */
MUST_USE enum err_code report_add(struct record *record, const char *pair, struct err *err);

/* The object, without a line's end. NaN and infinities are written as Python writes them. */
void report_add_object(const struct record *record, int64_t at_ms, struct str *out);

/* Appends the line to the file `path`, creating it, in one write. */
MUST_USE enum err_code report_append(const char *path, const char *line, size_t size,
                                     struct err *err);

#endif
