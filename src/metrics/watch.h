/* watch.h - the metrics that a task leaves in files, read as they grow.
 *
 * In the folder given it looks for metrics.jsonl (jsonl.h), and in it and below, WATCH_DEPTH_MAX
 * folders deep, for events.out.tfevents.* (tfevents.h). Event files in a folder called train, val,
 * validation, test or eval have its name before theirs, since Keras writes the same tags to each:
 * validation/epoch_loss. One file of JSON lines elsewhere, the one that DROVER_REPORT names, may be
 * given besides.
 *
 * The task owns these folders and may do anything to them: links are not followed, only regular
 * files are read, a file that shrank or was replaced is begun anew, at most WATCH_FILES_MAX files
 * are read, WATCH_BYTES_MAX of each in one call and WATCH_ENTRIES_MAX entries looked at. The folder
 * may be renamed meanwhile. No file stays open between calls. Shell code, blocking; one thread.
 */
#ifndef METRICS_WATCH_H
#define METRICS_WATCH_H

#include "base/err.h"
#include "base/str.h"
#include "metrics/metrics.h"

enum {
    WATCH_DEPTH_MAX = 4,
    WATCH_FILES_MAX = 32,
    WATCH_ENTRIES_MAX = 4096,
    WATCH_BYTES_MAX = 4 << 20,
    WATCH_SEARCH_MS = 1000, /* between two searches for new files */
};

struct watch;

/* `folder`: the task's output folder; `report`: the file that DROVER_REPORT names. Either may be
 * NULL; a report that is not there yet is looked for each time. Fails if the folder cannot be
 * opened. */
MUST_USE enum err_code watch_create(const char *folder, const char *report, struct watch **out,
                                    struct err *err);
void watch_destroy(struct watch *watch); /* NULL does nothing */

/* Reads what is new. True: there was more than may be read at once, call again. */
bool watch_poll(struct watch *watch, int64_t now_ms, const struct metric_sink *sink);

/* The task is over: searches once more, reads all that is left (within bounds) and takes last lines
 * without their ends. */
void watch_end(struct watch *watch, int64_t now_ms, const struct metric_sink *sink);

/* What could not be read, for people: one line each, "metrics.jsonl: line 3 is not a JSON object
 * (5 such lines)". Empty: nothing. */
void watch_add_faults(const struct watch *watch, struct str *out);

#endif
