/* pages.h - a list of the API, page after page. */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include "cli/remote.h"

/* Begin with {.path = ...}, the list's path with its query but without `after`. */
struct pages {
    const char *path;
    struct jread page; /* the current one; items live until the next call */
    struct str next;
    bool begun;
    bool over; /* there is no further page */
};

/* The next page: EXIT_DONE and the items in *items (maybe none while more follow), NULL at the end;
 * or has printed why not. */
int pages_next(struct remote *remote, struct pages *pages, const struct jnode **items);
void pages_release(struct pages *pages);

#endif
