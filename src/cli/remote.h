/* remote.h - finding the server and talking to it, for the commands that need one.
 *
 * The server is, in this order: the one whose folder --state names (DIR/api.url and
 * DIR/admin.token), the one of DROVER_SERVER and DROVER_TOKEN, the one that lives in the default
 * place (~/.local/share/drover/server). What goes wrong is printed here, once, with what to do
 * next; the functions return the exit code: 3 nobody answers, 2 the request is wrong (a recipe with
 * mistakes prints them as `drover check` does), 1 anything else.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "base/jread.h"
#include "http/client.h"

#include <stdbool.h>

struct remote {
    struct client *client;
    char *url;
    char *token;    /* never printed */
    char *state;    /* the folder it was found by, or NULL */
    bool defaulted; /* nobody named it: it lives in the default place */
    bool quiet;     /* keep what is wrong in `trouble` instead of printing it */
    struct str trouble;
};

/* The default folder of a server. ERR_NOT_FOUND: no home. */
MUST_USE enum err_code remote_default_folder(struct str *out, struct err *err);

/* True if a process serves this folder now and has said where. */
bool remote_is_served(const char *folder);

/* EXIT_DONE with a server that is there, or has printed why not. *out is {0} or has `quiet` set.
 * Close it in either case. */
int remote_open(const char *state, struct remote *out);

/* The same for commands that can also read a state folder: with *found false there is no server to
 * ask (the folder is an embedded run's, its server is down, or nobody named one and none lives in
 * the default place), and the exit code is EXIT_DONE. */
int remote_look(const char *state, struct remote *out, bool *found);

/* A second connection to the same server, for a stream beside the questions. */
int remote_again(const struct remote *from, int patience_s, struct remote *out);
void remote_close(struct remote *remote);

/* Asks and reads the answer. *status (may be NULL) is the HTTP status, also of refusals. */
int remote_call(struct remote *remote, const struct client_request *request, struct jread *answer,
                int *status);
int remote_get(struct remote *remote, const char *path, struct jread *answer, int *status);
int remote_post(struct remote *remote, const char *path, struct jread *answer, int *status);

/* Prints what `quiet` kept. */
void remote_tell(const struct remote *remote);

/* The bytes of an answer that is not JSON, appended to out. */
int remote_get_bytes(struct remote *remote, const char *path, struct str *out, int *status);

/* "/api/v1/workflows/W" and what follows; W NULL: the newest. */
void remote_add_workflow(struct str *path, const char *workflow);
/* " --state DIR" where the server was named so: what another command needs to find it. */
void remote_add_where(struct str *out, const char *state);
/* "?key=value" or "&key=value", encoded. */
void remote_add_query(struct str *path, const char *key, const char *value);

/* --- parts that need no server ---------------------------------------------------------------- */

/* The first line of a small file, without its end. */
MUST_USE enum err_code remote_read_line(const char *file, struct str *out, struct err *err);

#endif
