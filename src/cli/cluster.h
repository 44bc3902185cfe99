/* cluster.h - what `drover up` made on this machine: a server and nodes, found again by down and
 * clusters.
 *
 *     DATA/drover/clusters/HASH/state       the path of the cluster's state folder
 *     DATA/drover/clusters/HASH/serve.pid   the server, if up started it (daemon.h)
 *     DATA/drover/clusters/HASH/serve.log
 *     STATE/nodes/NAME.pid, NAME.log, NAME/   its nodes (provider_local)
 */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include "cli/remote.h"
#include "provider/provider.h"

#include <stdbool.h>
#include <sys/types.h>

struct cluster {
    char *state;  /* absolute */
    char *record; /* DATA/drover/clusters/HASH */
    struct provider *nodes;
};

/* state NULL: the default place. With `make`, what is missing is made; else ERR_NOT_FOUND. */
MUST_USE enum err_code cluster_open(const char *state, bool make, struct cluster *out,
                                    struct err *err);
void cluster_close(struct cluster *cluster);

/* Starts `drover serve` if nobody serves the folder, and waits until it answers. *started: it was
 * not there before. ERR_IO with the end of its log if it does not come up. */
MUST_USE enum err_code cluster_serve(struct cluster *cluster, bool *started, struct err *err);

/* True if the server is one that up started; *pid is its process. */
bool cluster_owns_server(const struct cluster *cluster, pid_t *pid);
/* Asks it to end and waits. ERR_TIMEOUT. */
MUST_USE enum err_code cluster_stop_server(struct cluster *cluster, struct err *err);

/* Forgets a cluster that has neither nodes nor a server of ours left. */
void cluster_tidy(struct cluster *cluster);

/* The state folder of each cluster, in the order of their paths; those that are gone are not told.
 * Stops when fn returns false. */
typedef bool (*cluster_fn)(void *context, const char *state);
MUST_USE enum err_code cluster_each(cluster_fn fn, void *context, struct err *err);

/* The process of a local node; 0: it has none. */
long cluster_pid_of(const struct provider_node *node);
/* What the server calls the node of this process, if it is in this state (NULL: any). */
const char *cluster_find_joined(const struct jnode *items, long pid, const char *state);

/* The last lines of a file, for an error message. */
void cluster_add_tail(struct str *out, const char *file);

#endif
