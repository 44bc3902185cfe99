/* submit.h - handing a recipe to a server: for submit, exec and map. */
#ifndef CLI_SUBMIT_H
#define CLI_SUBMIT_H

#include "cli/remote.h"

enum { SUBMIT_KEY_MAX = 200 };

struct submit {
    const char *recipe; /* YAML or JSON */
    size_t recipe_size;
    const char *file;   /* its name, for messages */
    const char *folder; /* absolute: where the commands run */
    bool sync;          /* send the folder, and run in the copy */
    bool say_sync;      /* and tell on standard error what travelled */
    const char *const *sets;
    size_t set_count;
    const uint64_t *seed;
    const char *volumes; /* where those are that the recipe knows by name; NULL: none is */
    const char *key;     /* NULL: one is drawn, so that a repeated request cannot submit twice */
    bool no_containers;
    bool ignore_hardware;
};

/* EXIT_DONE and the server's answer {id, number, state, tasks, experiments}, or has printed why
 * not. A server that does not answer is asked again a few times, with the same key. */
int submit_send(struct remote *remote, const struct submit *submit, struct jread *answer);

/* One line on standard error if no node can run a part of it now. */
void submit_note_waiting(struct remote *remote, const char *id);

/* Where exec and map run their commands: `wish` if given, else the current folder if the server is
 * on this machine, else "/". The caller frees it. */
char *submit_workdir(const struct remote *remote, const char *wish);

/* --- without a server ------------------------------------------------------------------------- */

/* The path of the request; code: the version of the synced folder, or "". */
void submit_add_path(struct str *path, const struct submit *submit, const char *code);

#endif
