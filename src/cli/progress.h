/* progress.h - one line on the terminal while something long goes on; nothing where there is none.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *verb;              /* "copying" */
    uint64_t items, bytes;         /* so far */
    uint64_t items_all, bytes_all; /* 0: unknown */
    bool is_on;
    int64_t began_ms, shown_ms;
};

void progress_begin(struct progress *progress, const char *verb, uint64_t items_all,
                    uint64_t bytes_all);
void progress_show(struct progress *progress); /* at most ten times a second */
void progress_end(struct progress *progress);  /* takes the line away */

/* 1.2 GB */
struct str;
void progress_add_bytes(struct str *out, uint64_t bytes);

#endif
