/* volume_ref.h - volumes as the user names them, and opening them.
 *
 *     NAME[@SNAPSHOT][:/PATH]            of the user's list (drover volume create)
 *     file:///FOLDER[@SNAPSHOT][:/PATH]  by its store's address: no list is needed
 *     s3://BUCKET/PREFIX[@SNAPSHOT][:/PATH]
 *
 * The list is a folder of small files, XDG_DATA_HOME/drover/volumes/NAME.json, mode 0600. It holds
 * where a volume is, never a credential.
 */
#ifndef CLI_VOLUME_REF_H
#define CLI_VOLUME_REF_H

#include "base/err.h"
#include "base/str.h"
#include "object/object.h"
#include "volume/reader.h"
#include "volume/volume.h"

#include <stdbool.h>

struct volume_ref { /* zeroed is empty; all text is the ref's */
    char *name;     /* NULL: named by its address */
    char *url;
    char *snapshot; /* NULL: the present */
    char *path;     /* "/..." or NULL: none was given */
    char *endpoint, *region, *ca_file, *addressing, *profile;
};

/* ERR_INVALID: cannot be a volume. ERR_NOT_FOUND: no such name in the list. */
MUST_USE enum err_code volume_ref_parse(const char *text, struct volume_ref *out, struct err *err);
void volume_ref_release(struct volume_ref *ref);
bool volume_ref_looks_like_one(const char *text); /* NAME:/..., file://... or s3://... */

/* The list. */
MUST_USE enum err_code volume_ref_save(const struct volume_ref *ref, struct err *err);
MUST_USE enum err_code volume_ref_forget(const char *name, struct err *err);
MUST_USE enum err_code volume_ref_each(bool (*each)(void *context, const struct volume_ref *ref),
                                       void *context, struct err *err);

/* What a mount of it is called in the table of mounts: where it is, whatever its name. */
void volume_ref_add_label(struct str *out, const struct volume_ref *ref);

/* Its store, in a thread of its own. */
MUST_USE enum err_code volume_ref_store(const struct volume_ref *ref, bool create,
                                        struct object_store **out, struct err *err);

/* Where a volume's cache is: CACHE_HOME/drover/volumes/UUID. */
MUST_USE enum err_code volume_ref_cache(const struct volume_format *format, struct str *out,
                                        struct err *err);

struct volume_use { /* an open volume and what reads its data */
    struct volume *volume;
    struct reader *reader;
};
/* Where this user's volumes keep what only this machine needs. ERR_INVALID: HOME is not set. */
MUST_USE enum err_code volume_state_path(struct str *out, struct err *err);

/* Where this user's owners hold their locks, made if missing; below `state` if there is no such
 * place (NULL: none). False: nowhere. */
bool volume_locks_path(const char *state, struct str *out);

struct volume_use_options {
    bool writes;
    bool take_over;
    const char *owner;        /* for people, when it writes */
    const char *state;        /* for its lock if there is no HOME (a service's); NULL: none */
    const char *cache_folder; /* NULL: the volume's own; "": none */
    uint64_t cache_bytes;
};
MUST_USE enum err_code volume_use_open(const struct volume_ref *ref,
                                       const struct volume_use_options *options,
                                       struct volume_use *out, struct err *err);
enum err_code volume_use_close(struct volume_use *use, struct err *err);
/* Adds to the text why it could not be opened what a person can do about it. */
enum err_code volume_use_advise(const struct volume_ref *ref, enum err_code code, struct err *err);

/* The options every command that names a volume takes; see volume_ref_option. */
#define VOLUME_REF_OPTIONS                                                                         \
    {"endpoint", required_argument, NULL, 1001}, {"region", required_argument, NULL, 1002},        \
        {"ca-file", required_argument, NULL, 1003}, {"addressing", required_argument, NULL, 1004}, \
    {                                                                                              \
        "profile", required_argument, NULL, 1005                                                   \
    }
/* True: `option` is one of them, and is noted in `over`. */
bool volume_ref_option(struct volume_ref *over, int option, const char *value);
/* What was given on the command line wins over the list. */
void volume_ref_override(struct volume_ref *ref, const struct volume_ref *over);

/* The exit code for an error about a volume: 3 when its store cannot be reached, else 1; 2 for what
 * the user mistyped. */
int volume_ref_exit(enum err_code code);

#endif
