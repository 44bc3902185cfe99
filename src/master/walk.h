/* walk.h - going through a tree of files a little at a time.
 *
 * Files come as they are found; a folder comes when everything in it has been. Links are files and
 * never followed. What is deeper than WALK_DEPTH_MAX is given as WALK_DEEP and not entered, so that
 * no tree needs more files open than that. Entries may be removed between two calls; others that
 * appear meanwhile may or may not be seen.
 */
#ifndef MASTER_WALK_H
#define MASTER_WALK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { WALK_DEPTH_MAX = 24 };

enum walk_kind {
    WALK_FILE,   /* anything but a folder */
    WALK_FOLDER, /* after all that is in it */
    WALK_DEEP,   /* a folder that is not entered for its depth */
    WALK_CLOSED, /* a folder that cannot be read */
};

struct walk_entry {
    enum walk_kind kind;
    int folder;       /* a descriptor of the folder that it is in; */
    const char *name; /* both valid until the next call */
    size_t depth;     /* 1: directly in the root */
};

struct walk;

/* With `force`, folders that their owner may not read or write are made so. */
MUST_USE enum err_code walk_open(const char *path, bool force, struct walk **out, struct err *err);
bool walk_next(struct walk *walk, struct walk_entry *out); /* false: that was all */
int walk_root(const struct walk *walk); /* a descriptor; valid until walk_next was false */
void walk_close(struct walk *walk);     /* NULL does nothing */

#endif
