/* session.h - a workflow in its state folder: made, resumed, or only looked at.
 *
 * Opening for writing checks everything that can be wrong before anything is changed on disk; a new
 * folder is made last. Resuming replays the log into a core; a recipe that differs from the one
 * recorded is refused, with the difference.
 */
#ifndef MASTER_SESSION_H
#define MASTER_SESSION_H

#include "base/err.h"
#include "core/core.h"
#include "recipe/recipe.h"
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
    struct str *difference; /* gets the difference when the recipe is not the recorded one */
};

struct session {
    char *folder; /* absolute */
    char *id;     /* the workflow's: the folder's last part */
    char *recipe_folder;
    struct recipe *recipe;
    uint64_t seed;
    bool resumed;
    bool ignore_hardware;
    bool no_containers;
    int64_t created_ms;
    struct core *core;   /* workflow 1 defined and what is logged applied */
    struct store *store; /* the owner may take it (set to NULL) */
    int lock_fd;
};

/* ERR_INVALID: the recipe, an option or the difference is at fault (exit 2; diags may hold
 * positions). ERR_UNSUPPORTED: this machine cannot meet a need (exit 1). On error *out is empty. */
MUST_USE enum err_code session_open(const struct session_options *options, struct session *out,
                                    struct diag_list *diags, struct err *err);

/* Read-only, also while another process writes. */
MUST_USE enum err_code session_read(const char *folder, struct session *out, struct err *err);

/* Where a secret's file is: as the recipe names it, relative to its folder. */
void session_add_secret_path(const struct session *session, const struct env_entry *secret,
                             struct str *out);

void session_release(struct session *session);

#endif
