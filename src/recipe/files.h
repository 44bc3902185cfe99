/* files.h - `files:` parameters: globs to lists, lists to manifests. The I/O part of the recipe. */
#ifndef RECIPE_FILES_H
#define RECIPE_FILES_H

#include "base/err.h"
#include "recipe/recipe.h"

/* Expands every files: glob below `folder` (the recipe's), sorted bytewise, `**` for any depth, and
 * binds the number of batches, so that task counts are final. A glob that matches nothing and a
 * file name with a newline are diagnoses. With write_to set (the state folder), manifests are
 * written to WRITE_TO/manifests/EXPERIMENT.PARAM/B, one absolute file name per line, each
 * atomically; a later call for the same state (resume) uses what is there and does not glob again.
 * Without it nothing is written and values read "manifests/EXPERIMENT.PARAM/B". */
MUST_USE enum err_code files_expand(struct recipe *recipe, const char *folder, const char *write_to,
                                    struct diag_list *diags, struct err *err);

#endif
