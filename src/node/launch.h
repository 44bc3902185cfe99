/* launch.h - from a Run message to the packet its slot's reaper understands.
 *
 * Here the tokens for the node's folders are replaced, the environment is put together, secrets
 * are read and the program is looked up in the task's own PATH. Everything that can be wrong with
 * a command is said here in words for the user; the text never holds a secret.
 *
 * The environment, later ones winning over earlier ones: PATH, HOME and LANG of the agent (or all
 * of its variables with inherit_env), Run.env, DROVER_OUTPUT, DROVER_CHECKPOINT,
 * CUDA_VISIBLE_DEVICES, secrets.
 */
#ifndef NODE_LAUNCH_H
#define NODE_LAUNCH_H

#include "base/err.h"
#include "base/str.h"
#include "wire/wire.h"

#include <limits.h>
#include <stdint.h>

enum { LAUNCH_SECRET_BYTES_MAX = 64 * 1024, LAUNCH_LOOKUPS = 8 };

/* Programs found lately, so that a PATH is not walked for every task. Zeroed is empty. */
struct launch_lookup {
    char *name;
    char *path_variable;
    char *program;
};

struct launcher {
    struct launch_lookup lookups[LAUNCH_LOOKUPS];
    unsigned next_lookup;
    struct str packet; /* what launch_build made */
    struct str strings;
    struct str scratch;
    size_t *offsets; /* of the variables in strings */
};

struct launch_volume {
    const char *name;
    const char *folder;
};

/* Where this attempt runs. */
struct launch_place {
    uint64_t serial;
    const char *nonce; /* of the tokens; NULL: none */
    const char *output;
    const char *local;      /* the slot's own folder */
    const char *checkpoint; /* NULL: none; the next two as well */
    const char *code;
    const char *inputs; /* holds a folder for each experiment */
    const struct launch_volume *volumes;
    size_t volume_count;
    const char *log;
    const char *gpus; /* CUDA_VISIBLE_DEVICES; NULL: leave it alone */
};

/* Fills launcher->packet. An error's text is for Ended.detail. */
MUST_USE enum err_code launch_build(struct launcher *launcher, const Drover__Run *run,
                                    const struct launch_place *place, struct err *err);

/* Wipes the packet if the run had secrets; call it when the packet is sent. */
void launch_forget(struct launcher *launcher, const Drover__Run *run);

void launch_release(struct launcher *launcher); /* NULL or zeroed: does nothing */

/* Appends the bytes with the tokens replaced. ERR_INVALID: a NUL byte, or the token of a folder
 * that the attempt does not have. */
MUST_USE enum err_code launch_expand(struct str *out, const ProtobufCBinaryData *bytes,
                                     const struct launch_place *place, struct err *err);

#endif
