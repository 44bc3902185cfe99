/* glob.h - file names by pattern: * ? [a-z] [!a] {a,b} \x, and ** for any depth of folders.
 *
 * Matching takes time in proportion to pattern times name, whatever the pattern. A folder is read
 * once for each pattern. ** does not follow links to folders, a named part does, so there are no
 * endless walks. Names that begin with a dot match only where the pattern spells the dot.
 */
#ifndef RECIPE_GLOB_H
#define RECIPE_GLOB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { GLOB_PARTS_MAX = 63, GLOB_BRACES_MAX = 1000, GLOB_FILES_MAX = 10000000 };

/* File names; zeroed is empty. */
struct glob_list {
    char **names;
    size_t count;
    size_t cap;
};

/* Adds every regular file (or link to one) that matches, as "FOLDER/name", or by its own path when
 * the pattern begins with '/'. ERR_INVALID: a pattern with too many parts or braces. ERR_QUOTA:
 * more than GLOB_FILES_MAX files. Else what the system said about a folder that cannot be read. On
 * error some names may have been added. */
MUST_USE enum err_code glob_add(const char *folder, const char *pattern, struct glob_list *list,
                                struct err *err);

/* Sorts bytewise and drops repeats. */
void glob_list_sort(struct glob_list *list);
void glob_list_release(struct glob_list *list);

/* One part of a path against one part of a pattern, without braces. */
bool glob_match(const char *pattern, const char *name);

#endif
