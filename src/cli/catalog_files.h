/* catalog_files.h - finding and reading catalogs and profiles for the commands that need them.
 *
 * A catalog is named by its file, or by the name of one that came with the program (current, owned,
 * papers-2015, papers-2018, papers-2019): looked for in $DROVER_CATALOG, beside the program
 * (data/catalog) and in ../share/drover/catalog. Without any name it is "current".
 */
#ifndef CLI_CATALOG_FILES_H
#define CLI_CATALOG_FILES_H

#include "advise/catalog.h"
#include "advise/profile.h"

#include <stddef.h>

struct catalog_files {
    const char **names; /* borrowed */
    size_t count;
    size_t cap;
};

void catalog_files_add(struct catalog_files *files, const char *name);
void catalog_files_release(struct catalog_files *files);

/* Prints what is wrong and returns the exit code, EXIT_DONE if nothing is. */
int catalog_files_read(const struct catalog_files *files, struct catalog *catalog);
int catalog_files_read_profile(const char *path, struct profile *profile);

#endif
