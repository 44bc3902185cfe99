#include "cli/catalog_files.h"

#include "base/csv.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void catalog_files_add(struct catalog_files *files, const char *name)
{
    VEC_PUSH(files->names, files->count, files->cap) = name;
}

void catalog_files_release(struct catalog_files *files)
{
    free(files->names);
    *files = (struct catalog_files){0};
}

/* FOLDER/NAME.csv, if it is there. */
static bool try_folder(struct str *path, const char *folder, const char *name)
{
    str_clear(path);
    str_addf(path, "%s/%s.csv", folder, name);
    return access(str_text(path), R_OK) == 0;
}

static void find_file(const char *name, struct str *path)
{
    char folder[PATH_MAX + 40];
    str_add(path, name);
    if (access(name, F_OK) == 0 || strchr(name, '/')) {
        return;
    }
    const char *given = getenv("DROVER_CATALOG");
    if (given && try_folder(path, given, name)) {
        return;
    }
    char program[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = NULL;
    if (size > 0) {
        program[size] = '\0';
        slash = strrchr(program, '/');
    }
    static const char *const places[] = {"data/catalog", "../data/catalog", "../../data/catalog",
                                         "../share/drover/catalog"};
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        snprintf(folder, sizeof folder, "%.*s/%s", (int)(slash - program), program, places[i]);
        if (try_folder(path, folder, name)) {
            return;
        }
    }
    str_clear(path);
    str_add(path, name);
}

static int read_one(const char *name, struct catalog *catalog)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct err err = {0};
    find_file(name, &path);
    enum err_code code = io_read_file(str_text(&path), CSV_BYTES_MAX, &text, &err);
    if (code == ERR_OK) {
        /* Messages name what the user named; a catalog of ours by its name alone. */
        code = catalog_add_csv(catalog, name, str_text(&text), text.size, &err);
    }
    return code == ERR_OK ? EXIT_DONE : cli_error(EXIT_USAGE, "%s", err.text);
}

int catalog_files_read(const struct catalog_files *files, struct catalog *catalog)
{
    int code = files->count == 0 ? read_one("current", catalog) : EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < files->count; i++) {
        code = read_one(files->names[i], catalog);
    }
    return code;
}

int catalog_files_read_profile(const char *path, struct profile *profile)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    enum err_code code = io_read_file(path, CSV_BYTES_MAX, &text, &err);
    if (code == ERR_OK) {
        code = profile_add_csv(profile, path, str_text(&text), text.size, &err);
    }
    return code == ERR_OK ? EXIT_DONE : cli_error(EXIT_USAGE, "%s", err.text);
}
