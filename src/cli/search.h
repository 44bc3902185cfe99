/* search.h - finding lines in the logs of a workflow: `drover logs W --grep`. */
#ifndef CLI_SEARCH_H
#define CLI_SEARCH_H

#include "cli/look.h"

/* Prints the lines found; EXIT_WORK_FAILED if there are none. */
int search_logs(const struct look *look);

/* --- the search in one file, pure but for reading it -------------------------------------------
 */

struct search_hit {
    const char *experiment;
    uint64_t task;
    uint32_t attempt;
    uint64_t line; /* from 1 */
    const char *text;
    size_t size;
};

/* Returns false to stop. */
typedef bool (*search_fn)(void *context, const struct search_hit *hit);

struct search_pattern;
/* ERR_INVALID: not a regular expression. */
MUST_USE enum err_code search_pattern_create(const char *text, bool regex,
                                             struct search_pattern **out, struct err *err);
void search_pattern_destroy(struct search_pattern *pattern);

enum { SEARCH_LINE_BYTES_MAX = 64 << 10 };

/* Calls fn for each line of the file that matches, with a hit like `of` and the line's number (the
 * first is after *lines; *lines is moved on). Longer lines are looked at in pieces of
 * SEARCH_LINE_BYTES_MAX. A missing file has no lines. False: fn wanted to stop. */
bool search_file(const char *path, const struct search_pattern *pattern, struct search_hit of,
                 uint64_t *lines, search_fn fn, void *context);

#endif
