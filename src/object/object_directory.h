/* object_directory.h - the parts of the directory driver. For src/object alone.
 *
 * An object is a file below the root, of mode 0600, never changed once it is there. A key may be an
 * object and the beginning of others (a, a/b), and a part of a key longer than a file's name, so:
 *
 *   key              file                 why
 *   head             head
 *   packs/a-1        packs,/a-1           a folder's name ends with a comma, which no key has
 *   LONG...REST      LONG...^/REST        a part is cut after every PIECE bytes; ^: it goes on
 *   LONG...          LONG...^/^           a rest that is no file's name ("", ".", "..") follows a ^
 *
 * ",lock" and ",tmp" are ours. Under the lock, held alone, an object is compared and replaced; who
 * only replaces or deletes shares it. Each store that writes has a folder in ",tmp" and holds a
 * lock on it, so that the next one to open can tell the litter of the dead.
 *
 * All of it works inside run and blocks; object_threaded_open is for those who cannot wait.
 */
#ifndef OBJECT_OBJECT_DIRECTORY_H
#define OBJECT_OBJECT_DIRECTORY_H

#include "object/object_driver.h"

#include <sys/stat.h>

enum {
    DIRECTORY_PIECE = 200,      /* bytes of a part in one file name */
    DIRECTORY_GROUP_MAX = 32,   /* PUTs whose syncs are shared */
    DIRECTORY_FOLDERS_MAX = 32, /* kept open; as many as a group can need */
};

/* A folder that PUTs go to. Its own entry was made durable after it was opened, and a folder that
 * was removed takes no new entries: where a link into it succeeds, its way from the root is durable
 * whoever made it. */
struct directory_folder {
    char *path; /* from the root, "" or ending in '/'; NULL: free */
    int fd;
    uint64_t used;
    bool is_dirty; /* to be synced before the group is answered */
    int sync_errno;
};

struct directory {
    struct object_store store;
    struct object_line line;
    struct object_stats stats;
    int root;
    int lock; /* -1 until something is to be changed */
    int tmp;  /* our folder in ",tmp"; -1 until something is to be put */
    char tmp_name[48];
    uint64_t tmp_count;
    int64_t newest_ns; /* of the times of modification given out */
    uint64_t clock;    /* of folders' use */
    struct directory_folder folders[DIRECTORY_FOLDERS_MAX];
};

/* Names (pure). -------------------------------------------------------------------------------- */

void directory_add_path(struct str *out, const char *key);
/* Of a folder: key is its first size bytes, none or ending in '/'. */
void directory_add_folder_path(struct str *out, const char *key, size_t size);

/* What a file's name adds to the key of its folder: "x" (an object), "x/" (a folder) or PIECE bytes
 * (a folder where a part goes on). False: no name of ours; out is unchanged then. */
bool directory_add_fragment(struct str *out, const char *name);
bool directory_fragment_is_folder(const char *fragment);
void directory_add_name(struct str *out, const char *fragment); /* the way back */

/* The verbs. ----------------------------------------------------------------------------------- */

/* Carries out up to DIRECTORY_GROUP_MAX PUTs, with shared syncs; answers, but ends none. */
void directory_put(struct directory *directory, struct object_call *const *calls, size_t count);
void directory_close_folders(struct directory *directory);
void directory_delete(struct directory *directory, struct object_call *call);
void directory_list(struct directory *directory, struct object_call *call);

/* What they share. ----------------------------------------------------------------------------- */

/* Fails the call by errno: never with NOT_FOUND, EXISTS or STALE, which are for the verbs to say.
 */
enum err_code directory_fail(struct object_call *call, int errno_value, const char *what);
void directory_set_etag(char etag[OBJECT_ETAG_MAX], const struct stat *st);

/* how: LOCK_SH or LOCK_EX. Waits a little; then the call has failed with ERR_AGAIN. */
MUST_USE enum err_code directory_lock(struct directory *directory, int how,
                                      struct object_call *call);
void directory_unlock(struct directory *directory);

/* Temporary files. */
MUST_USE enum err_code directory_tmp_prepare(struct directory *directory, struct object_call *call);
void directory_tmp_remove(struct directory *directory); /* our folder, at the end */
void directory_tmp_clean(int root);                     /* what the dead have left */

#endif
