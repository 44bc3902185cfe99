/* tree.h - a volume's files for programs that can wait: paths, listings, walks.
 *
 * Each call runs the engine's operation until it no longer needs anything from the store. POSIX's
 * refusals become errors: ENOENT is ERR_NOT_FOUND, EEXIST ERR_EXISTS, the rest ERR_INVALID or
 * ERR_IO with the path and the system's words in the text. Paths begin with '/'; "." and empty
 * parts are passed over, ".." is refused, and symbolic links are never followed.
 */
#ifndef DATA_TREE_H
#define DATA_TREE_H

#include "base/err.h"
#include "base/str.h"
#include "volume/reader.h"
#include "volume/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree {
    struct volume *volume;
    struct engine *engine;
    struct reader *reader;
};

/* After ERR_AGAIN: waits for what is missing. False: the volume is in trouble for good. */
bool tree_wait(struct tree *tree, struct err *err);
/* Lets the volume work on what is due; waits while too much is on its way to the store. */
void tree_breathe(struct tree *tree);

MUST_USE enum err_code tree_lookup(struct tree *tree, uint64_t folder, const char *name,
                                   struct engine_attr *out, struct err *err);
MUST_USE enum err_code tree_find(struct tree *tree, const char *path, struct engine_attr *out,
                                 struct err *err);
/* The folder a path lies in, and its last name (borrowed from path's end in *name, which the caller
 * frees). ERR_INVALID: the path is the root. */
MUST_USE enum err_code tree_parent(struct tree *tree, const char *path, struct engine_attr *folder,
                                   char **name, struct err *err);
MUST_USE enum err_code tree_make(struct tree *tree, const struct engine_caller *caller,
                                 const struct engine_make *make, struct engine_attr *out,
                                 struct err *err);
/* Makes the folders of a path that are missing. ERR_INVALID: a part of it is not a folder. */
MUST_USE enum err_code tree_make_folders(struct tree *tree, const struct engine_caller *caller,
                                         const char *path, struct engine_attr *out,
                                         struct err *err);
MUST_USE enum err_code tree_readlink(struct tree *tree, uint64_t inode, struct str *out,
                                     struct err *err);

/* All entries of a folder at once. */
struct tree_entry {
    char *name;
    struct engine_attr attr;
};
struct tree_entries {
    struct tree_entry *items;
    size_t count, cap;
};
MUST_USE enum err_code tree_list(struct tree *tree, uint64_t folder, struct tree_entries *out,
                                 struct err *err);
void tree_entries_release(struct tree_entries *entries);

/* Everything at and below a path, folders before what is in them, names in byte order. path is that
 * of the entry; each returning anything but ERR_OK ends the walk with it. */
typedef enum err_code (*tree_walk_fn)(void *context, const char *path,
                                      const struct engine_attr *attr, struct err *err);
MUST_USE enum err_code tree_walk(struct tree *tree, const char *path,
                                 const struct engine_attr *attr, tree_walk_fn each, void *context,
                                 struct err *err);

/* The paths that a pattern (of *, ? and [...], each within one name) means, in order; a path
 * without a pattern is itself, whether or not it is there. ERR_NOT_FOUND: a pattern that nothing
 * matches. */
struct tree_paths {
    char **items;
    size_t count, cap;
};
MUST_USE enum err_code tree_glob(struct tree *tree, const char *pattern, struct tree_paths *out,
                                 struct err *err);
void tree_paths_release(struct tree_paths *paths);

/* Removes a path; a folder only with all it holds if `recursive`. */
MUST_USE enum err_code tree_remove(struct tree *tree, const struct engine_caller *caller,
                                   const char *path, bool recursive, struct err *err);
MUST_USE enum err_code tree_rename(struct tree *tree, const struct engine_caller *caller,
                                   const char *from, const char *to, struct err *err);

/* The file's bytes in order, given piece by piece, checked against their checksums; a hole comes as
 * one piece whose bytes are NULL. each returning anything but ERR_OK ends it. */
typedef enum err_code (*tree_bytes_fn)(void *context, uint64_t offset, const void *bytes,
                                       size_t size, struct err *err);
MUST_USE enum err_code tree_read(struct tree *tree, const struct engine_attr *attr,
                                 tree_bytes_fn each, void *context, struct err *err);

#endif
