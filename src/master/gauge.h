/* gauge.h - the metrics of one task, from what it prints and what it leaves.
 *
 * Reads the log of an attempt as it grows, with the recipe's `metrics:` patterns or the usual forms
 * (metrics/lines.h), and the metrics.jsonl and TensorBoard files of its output folder
 * (metrics/watch.h): at the end, and while it runs where the folder can be seen from here.
 *
 * Shell code: reads files, a bounded piece at a time. One thread.
 */
#ifndef MASTER_GAUGE_H
#define MASTER_GAUGE_H

#include "metrics/metrics.h"
#include "recipe/recipe.h"

struct gauge;

/* Whether the recipe's patterns are such; adds what is wrong to diags with its place. */
bool gauge_check(const struct recipe *recipe, struct diag_list *diags);

/* The experiment passed gauge_check and must outlive it. `sink`, or NULL, gets every point as it is
 * read, after it is in the table of gauge_metrics. */
struct gauge *gauge_create(const struct experiment *experiment, const struct metric_sink *sink);
void gauge_destroy(struct gauge *gauge); /* NULL does nothing */

/* The next piece of the log, which may not be there yet. True: there is more. */
bool gauge_read_log(struct gauge *gauge, const char *path, int64_t now_ms);

/* The log is read and will not grow: a last line without its end counts. */
void gauge_end_log(struct gauge *gauge, int64_t now_ms);

/* Another log is next: of another attempt, or of the next task of a gang. */
void gauge_next_log(struct gauge *gauge);

/* What is new in the folder that the task writes to while it runs. It may be gone. */
void gauge_follow_folder(struct gauge *gauge, const char *folder, int64_t now_ms);

/* All that the output folder holds; one that is not there holds nothing. */
void gauge_read_folder(struct gauge *gauge, const char *folder, int64_t now_ms);

const struct metrics *gauge_metrics(const struct gauge *gauge);

#endif
