/* standing.h - how a workflow of a server stands: the status object as numbers, table and view.
 * Pure: objects in, text out.
 */
#ifndef CLI_STANDING_H
#define CLI_STANDING_H

#include "base/jread.h"
#include "cli/view.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers of a status object; names point into it. */
struct standing {
    const char *id;
    const char *state; /* "running", "succeeded"... */
    struct view_row *rows;
    size_t row_count;
    uint64_t tasks;
    uint64_t succeeded;
    uint64_t done; /* succeeded, failed, cancelled or skipped */
    bool ended;
    bool good; /* succeeded */
};

void standing_read(const struct jnode *status, struct standing *out);
void standing_release(struct standing *standing);

/* The line of `drover list`. */
void standing_add_line(struct str *out, const struct jnode *status);

/* The table, the first failures (task objects of a list; NULL: none) and the last line.
 * elapsed_ms < 0: not known. state is the folder that the next command must name, or NULL. */
void standing_add_text(struct str *out, const struct jnode *status, const struct jnode *failures,
                       int64_t elapsed_ms, const char *state);

enum { STANDING_FAILURES_SHOWN = 5 };

/* The line of `drover tasks`, and its heading; name_columns is the width of EXPERIMENT/INDEX. */
void standing_add_task(struct str *out, const struct jnode *task, int name_columns);
/* The width that holds every name of these experiments. */
int standing_name_columns(const struct jnode *status);

/* RFC 3339 in UTC to unix milliseconds; -1: it is not one. */
int64_t standing_time_ms(const char *text);

#endif
