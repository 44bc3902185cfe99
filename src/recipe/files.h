/* files.h - `files:` parameters: globs to lists, lists to manifests. The I/O part of the recipe. */
#ifndef RECIPE_FILES_H
#define RECIPE_FILES_H

#include "base/err.h"
#include "recipe/recipe.h"

/* The absolute folder that a recipe's relative paths start from: where the file is, or the current
 * folder when it has no place of its own (a pipe: `drover run <(...)`, /dev/stdin). free(). */
char *recipe_folder_of(const char *file);

/* Expands every files: glob below `folder` (the recipe's; see glob.h for patterns), sorted
 * bytewise, repeats dropped, and binds the number of batches, so that task counts are final. A glob
 * that matches nothing, a file name with a newline and a grid that is now too large are diagnoses
 * (ERR_INVALID, and nothing was written); other errors are the file system's.
 *
 * With write_to set (the state folder), manifests are written to
 * WRITE_TO/manifests/EXPERIMENT.PARAM/B, one absolute file name per line, then their number to
 * `count` beside them, atomically: a folder without it is written again from the start. A later
 * call for the same state (resume) finds `count`, uses what is there and does not glob again.
 * Without write_to nothing is written and values read "manifests/EXPERIMENT.PARAM/B". */
MUST_USE enum err_code files_expand(struct recipe *recipe, const char *folder, const char *write_to,
                                    struct diag_list *diags, struct err *err);

#endif
