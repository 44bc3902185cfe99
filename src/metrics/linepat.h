/* linepat.h - a user's pattern for the lines that hold metrics: the line with its numbers left out.
 *
 *     accuracy={value} step={step}
 *     epoch {epoch}: loss={loss} * accuracy={accuracy}
 *     [{name}] {value}%
 *
 * In braces stands what is to be read: {value} is the metric that the pattern is for, {step} and
 * {epoch} are where it was measured, {name} is a word that names the metric of {value}, any other
 * name is a metric of that name. Blanks match one or more blanks, * matches anything, \ takes the
 * next character as it is. All else must stand in the line, letter for letter. A pattern may match
 * anywhere in a line, but where it begins with a letter or digit it begins a word: loss= is not in
 * val_loss=. The leftmost match counts, once a line.
 *
 * A number is as in number.h. If a % follows it in the line and not in the pattern, it is a
 * hundredth of it. A letter or digit may follow only where the pattern has it.
 *
 * Matching takes time linear in the line: pieces between * are found from left to right, and never
 * looked for again. A pattern is constant once made; any thread may match with it.
 */
#ifndef METRICS_LINEPAT_H
#define METRICS_LINEPAT_H

#include "base/err.h"
#include "metrics/record.h"

enum { LINEPAT_TEXT_MAX = 512 };

struct linepat;

/* `name`: the metric that {value} means; NULL where the pattern names its metrics itself.
 * ERR_INVALID with the character (from 1) and the trouble: "character 7: ...". */
MUST_USE enum err_code linepat_create(const char *name, const char *text, struct linepat **out,
                                      struct err *err);
void linepat_destroy(struct linepat *pattern); /* NULL does nothing */

/* Adds to record what the line holds. False: it does not match; record is unchanged. */
bool linepat_match(const struct linepat *pattern, const char *line, size_t size,
                   struct record *record);

#endif
