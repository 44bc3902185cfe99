/* session.h - the workflows of a state folder: made, resumed, or only looked at.
 *
 * Opening for writing checks everything that can be wrong before anything is changed on disk; a new
 * folder is made last. Resuming replays the log into a core; a recipe that differs from the one
 * recorded is refused, with the difference.
 */
#ifndef MASTER_SESSION_H
#define MASTER_SESSION_H

#include "base/err.h"
#include "core/core.h"
#include "master/flow.h"
#include "store/store.h"

#include <stdbool.h>

struct session_options {
    const char *recipe_file; /* NULL: the recorded one (resume) */
    const char *const *sets;
    size_t set_count;
    const char *state;    /* --state DIR; NULL: the default place */
    const char *resume;   /* --resume W: a run in the default place */
    const uint64_t *seed; /* --seed; NULL: the recipe's, or drawn */
    bool ignore_hardware;
    bool no_containers;
    const struct core_resources *node; /* what this machine offers */
    const struct store_faults *faults; /* for tests; NULL: none */
    /* Appends where the volumes of a new run are (stores.h), with a diagnosis for what is wrong
     * with them. NULL: nobody knows. */
    enum err_code (*find_volumes)(const struct recipe *recipe, struct str *stores,
                                  struct diag_list *diags, struct err *err);
    struct str *difference; /* gets the difference when the recipe is not the recorded one */
};

struct session {
    char *folder;        /* absolute */
    struct flow **flows; /* workflow n is flows[n - 1]; they stay where they are */
    size_t flow_count;
    size_t flow_cap;
    struct flow *flow; /* the newest, or the one selected; a run's only one; NULL: none */
    bool resumed;
    struct core *core;   /* the flows defined and what is logged applied */
    struct store *store; /* the owner may take it (set to NULL) */
    int lock_fd;
};

/* ERR_INVALID: the recipe, an option or the difference is at fault (exit 2; diags may hold
 * positions). ERR_UNSUPPORTED: this machine cannot meet a need (exit 1). On error *out is empty. */
MUST_USE enum err_code session_open(const struct session_options *options, struct session *out,
                                    struct diag_list *diags, struct err *err);

/* Read-only, also while another process writes. */
MUST_USE enum err_code session_read(const char *folder, struct session *out, struct err *err);

/* Opens or makes the state of a server: any number of workflows, none to begin with. */
MUST_USE enum err_code session_serve(const char *state, const struct store_faults *faults,
                                     struct session *out, struct err *err);

/* Makes `flow` the workflow of that id, NULL or "" for the newest; false: there is none. */
bool session_select(struct session *session, const char *id);

/* Adds the next flow (its number says so); it is the session's from now on. */
void session_add_flow(struct session *session, struct flow *flow);

enum { SESSION_NAME_BYTES = 32 };
/* What the store calls a workflow's document. */
void session_document_name(uint32_t number, char out[SESSION_NAME_BYTES]);
/* While the session still has its store. */
MUST_USE enum err_code session_get_document(struct session *session, const char *name,
                                            struct str *document, struct err *err);

void session_release(struct session *session);

#endif
