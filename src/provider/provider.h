/* provider.h - where nodes come from: something that can start `drover node` and stop it again.
 *
 * A provider only starts, lists and stops. Names are the caller's and unique for a provider. A node
 * that ended by itself stays in the list, as not alive, until it is stopped (which then only
 * forgets it). Calls block for a moment, never for the node to join or to leave: look with list
 * again.
 *
 * One thread uses a provider.
 */
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROVIDER_NAME_MAX = 63, PROVIDER_PLACE_MAX = 255, PROVIDER_LABELS_MAX = 32 };

/* One node to be. Texts are borrowed for the call. */
struct provider_spec {
    const char *name;      /* letters, digits, '.', '_', '-'; not beginning with '.' or '-' */
    const char *join_file; /* a file with the join URL; never the URL itself (argv is public) */
    uint32_t slots;        /* 0: as many as it has processors */
    const char *labels[PROVIDER_LABELS_MAX];
    size_t label_count;
    const char *price; /* of an hour, as the user wrote it; NULL: not known */
};

struct provider_node {
    char name[PROVIDER_NAME_MAX + 1];
    char place[PROVIDER_PLACE_MAX + 1]; /* for people: "pid 4711", an address */
    bool alive;
};

struct provider_list {
    struct provider_node *nodes; /* by name */
    size_t count;
    size_t cap;
};
void provider_list_release(struct provider_list *list);

enum provider_stop {
    PROVIDER_ASK,  /* end the tasks politely and leave */
    PROVIDER_KILL, /* be gone now */
};

struct provider {
    const struct provider_ops *ops;
};

struct provider_ops {
    const char *kind; /* "local" */
    /* ERR_EXISTS: a live node has that name. ERR_INVALID: a bad spec. On failure nothing runs. */
    enum err_code (*start)(struct provider *provider, const struct provider_spec *spec,
                           struct err *err);
    /* Replaces *out (which must be {0} or a list). */
    enum err_code (*list)(struct provider *provider, struct provider_list *out, struct err *err);
    /* Begins to stop a live node; forgets one that is not alive. ERR_NOT_FOUND: no such node. */
    enum err_code (*stop)(struct provider *provider, const char *name, enum provider_stop how,
                          struct err *err);
    void (*destroy)(struct provider *provider);
};

MUST_USE enum err_code provider_start(struct provider *provider, const struct provider_spec *spec,
                                      struct err *err);
MUST_USE enum err_code provider_list(struct provider *provider, struct provider_list *out,
                                     struct err *err);
MUST_USE enum err_code provider_stop(struct provider *provider, const char *name,
                                     enum provider_stop how, struct err *err);
void provider_destroy(struct provider *provider); /* NULL does nothing; the nodes go on */

/* The node of that name in a list, or NULL. */
const struct provider_node *provider_find(const struct provider_list *list, const char *name);

/* Asks these nodes to stop, kills those that have not gone after patience_ms, and forgets them all.
 * ERR_TIMEOUT: one would not go even so. */
MUST_USE enum err_code provider_stop_all(struct provider *provider, const char *const *names,
                                         size_t count, int64_t patience_ms, struct err *err);

bool provider_name_is_good(const char *name);

/* --- local: processes on this machine --------------------------------------------------------- */

struct provider_local_options {
    const char
        *folder; /* NAME.pid, NAME.log and the work folder NAME/ are in it; made if missing */
    const char *program; /* NULL: this very program (/proc/self/exe) */
    bool tied;           /* the nodes get TERM when the thread that started them ends */
};

MUST_USE enum err_code provider_local_create(const struct provider_local_options *options,
                                             struct provider **out, struct err *err);

/* --- fake: nodes in memory, for tests --------------------------------------------------------- */

/* Nodes whose names begin with "deaf" take no notice of PROVIDER_ASK. */
struct provider *provider_fake_create(void);
/* The node ends by itself. */
void provider_fake_crash(struct provider *provider, const char *name);

#endif
