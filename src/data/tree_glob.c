/* Patterns of paths in a volume. */
#include "base/mem.h"
#include "data/tree.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void tree_paths_release(struct tree_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->items[i]);
    }
    free(paths->items);
    *paths = (struct tree_paths){0};
}

static bool has_pattern(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (strchr("*?[", text[i])) {
            return true;
        }
    }
    return false;
}

/* `done` is a path without patterns; `rest` what is left, beginning behind a slash. */
static enum err_code expand(struct tree *tree, const char *done, const char *rest,
                            struct tree_paths *out, struct err *err)
{
    size_t size = strcspn(rest, "/");
    const char *behind = rest[size] ? rest + size + 1 : NULL;
    AUTO_FREE char *part = mem_strndup(rest, size);
    AUTO_STR struct str path = {0};

    if (!has_pattern(rest, strlen(rest))) {
        str_addf(&path, "%s/%s", done, rest);
        VEC_PUSH(out->items, out->count, out->cap) = str_take(&path);
        return ERR_OK;
    }
    if (!has_pattern(part, size)) {
        str_addf(&path, "%s/%s", done, part);
        CHECK(behind); /* the pattern is there */
        return expand(tree, str_text(&path), behind, out, err);
    }
    struct engine_attr folder;
    struct tree_entries entries;
    enum err_code code = tree_find(tree, done[0] ? done : "/", &folder, err);
    if (code == ERR_NOT_FOUND || (code == ERR_OK && !S_ISDIR(folder.mode))) {
        return ERR_OK; /* nothing matches there */
    }
    if (code == ERR_OK) {
        code = tree_list(tree, folder.inode, &entries, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < entries.count && code == ERR_OK; i++) {
        const char *name = entries.items[i].name;
        if (fnmatch(part, name, FNM_PERIOD) != 0) {
            continue;
        }
        str_clear(&path);
        str_addf(&path, "%s/%s", done, name);
        if (!behind) {
            VEC_PUSH(out->items, out->count, out->cap) = mem_strdup(str_text(&path));
        } else if (S_ISDIR(entries.items[i].attr.mode)) {
            code = expand(tree, str_text(&path), behind, out, err);
        }
    }
    tree_entries_release(&entries);
    return code;
}

enum err_code tree_glob(struct tree *tree, const char *pattern, struct tree_paths *out,
                        struct err *err)
{
    struct tree_paths paths = {0};
    enum err_code code = ERR_OK;

    if (!has_pattern(pattern, strlen(pattern))) {
        VEC_PUSH(paths.items, paths.count, paths.cap) = mem_strdup(pattern);
    } else {
        code = expand(tree, "", pattern + strspn(pattern, "/"), &paths, err);
        if (code == ERR_OK && paths.count == 0) {
            code = err_set(err, ERR_NOT_FOUND, "%s: nothing in the volume matches", pattern);
        }
    }
    if (code != ERR_OK) {
        tree_paths_release(&paths);
        return code;
    }
    *out = paths;
    return ERR_OK;
}
