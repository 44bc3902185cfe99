/* pick.h - asking a server for the nodes that a selector means. */
#ifndef CLI_PICK_H
#define CLI_PICK_H

#include "cli/remote.h"
#include "cli/selector.h"

struct picked {
    char **here; /* names of those that can take work, sorted: n2 comes before n10 */
    size_t here_count;
    size_t here_cap;
    char **away; /* names of the others that match, with their state: "gpu-1 is away" */
    size_t away_count;
    size_t away_cap;
};

/* Nodes that left for good or were revoked are not meant. EXIT_DONE, or has printed why not. */
int pick_nodes(struct remote *remote, const struct selector *selector, struct picked *out);
void picked_release(struct picked *picked);

#endif
