#include "data/tree.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES_MAX = 1 << 16 };

bool tree_wait(struct tree *tree, struct err *err)
{
    uint64_t seen = volume_progress(tree->volume) + reader_progress(tree->reader);
    volume_want(tree->volume);
    for (;;) {
        volume_run(tree->volume, 50);
        volume_tick(tree->volume, clock_mono_ms());
        enum err_code trouble = volume_trouble(tree->volume, err);
        if (trouble != ERR_OK && trouble != ERR_AGAIN) {
            return false;
        }
        if (volume_progress(tree->volume) + reader_progress(tree->reader) != seen) {
            return true;
        }
    }
}

void tree_breathe(struct tree *tree)
{
    volume_run(tree->volume, 0);
    volume_tick(tree->volume, clock_mono_ms());
    while (volume_is_congested(tree->volume)) {
        enum err_code trouble = volume_trouble(tree->volume, NULL);
        if (trouble != ERR_OK && trouble != ERR_AGAIN) {
            return;
        }
        volume_run(tree->volume, 50);
        volume_tick(tree->volume, clock_mono_ms());
    }
}

/* What the engine refused, in words. */
static enum err_code refused(enum err_code code, int posix, const char *what, struct err *err)
{
    if (code != ERR_INVALID || posix == 0) {
        return code;
    }
    enum err_code known = err_errno(err, posix, "%s", what);
    if (known == ERR_IO) {
        err->code = ERR_INVALID;
        return ERR_INVALID;
    }
    return known;
}

enum err_code tree_lookup(struct tree *tree, uint64_t folder, const char *name,
                          struct engine_attr *out, struct err *err)
{
    struct err local = {0};
    int posix = 0;
    enum err_code code;
    err = err ? err : &local;
    while ((code = engine_lookup(tree->engine, folder, name, out, &posix, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    return refused(code, posix, name, err);
}

/* The next part of a path: false at its end. */
static bool next_part(const char **path, char part[ENGINE_NAME_MAX + 1], enum err_code *code,
                      struct err *err)
{
    for (;;) {
        const char *from = *path + strspn(*path, "/");
        size_t size = strcspn(from, "/");
        *path = from + size;
        if (size == 0) {
            *code = ERR_OK;
            return false;
        }
        if (size > ENGINE_NAME_MAX) {
            *code = err_set(err, ERR_INVALID, "%.40s...: a name is too long", from);
            return false;
        }
        memcpy(part, from, size);
        part[size] = '\0';
        if (strcmp(part, "..") == 0) {
            *code = err_set(err, ERR_INVALID, "'..' is not taken in a volume's path");
            return false;
        }
        if (strcmp(part, ".") != 0) {
            return true;
        }
    }
}

static enum err_code root_attr(struct tree *tree, struct engine_attr *out, struct err *err)
{
    int posix = 0;
    enum err_code code;
    while ((code = engine_getattr(tree->engine, ENGINE_ROOT, out, &posix, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    return refused(code, posix, "/", err);
}

enum err_code tree_find(struct tree *tree, const char *path, struct engine_attr *out,
                        struct err *err)
{
    struct err local = {0};
    char part[ENGINE_NAME_MAX + 1];
    const char *rest = path;
    err = err ? err : &local;
    enum err_code code = root_attr(tree, out, err);
    while (code == ERR_OK && next_part(&rest, part, &code, err)) {
        code = tree_lookup(tree, out->inode, part, out, err);
    }
    if (code == ERR_NOT_FOUND) {
        return err_set(err, code, "%s: no such file or folder in the volume", path);
    }
    return code;
}

enum err_code tree_parent(struct tree *tree, const char *path, struct engine_attr *folder,
                          char **name, struct err *err)
{
    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/') {
        size--;
    }
    size_t from = size;
    while (from > 0 && path[from - 1] != '/') {
        from--;
    }
    if (size == from) {
        return err_set(err, ERR_INVALID, "%s: the volume's root stays: name something in it", path);
    }
    AUTO_FREE char *above = mem_strndup(path, from);
    AUTO_FREE char *last = mem_strndup(path + from, size - from);
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || strlen(last) > ENGINE_NAME_MAX) {
        return err_set(err, ERR_INVALID, "%s: not a name that a file can have", path);
    }
    enum err_code code = tree_find(tree, above, folder, err);
    if (code == ERR_OK && !S_ISDIR(folder->mode)) {
        code = err_set(err, ERR_INVALID, "%s: not a folder", above);
    }
    if (code == ERR_OK) {
        *name = last;
        last = NULL;
    }
    return code;
}

enum err_code tree_make(struct tree *tree, const struct engine_caller *caller,
                        const struct engine_make *make, struct engine_attr *out, struct err *err)
{
    int posix = 0;
    enum err_code code;
    while ((code = engine_make(tree->engine, caller, make, out, &posix, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    return refused(code, posix, make->name, err);
}

enum err_code tree_make_folders(struct tree *tree, const struct engine_caller *caller,
                                const char *path, struct engine_attr *out, struct err *err)
{
    char part[ENGINE_NAME_MAX + 1];
    const char *rest = path;
    enum err_code code = root_attr(tree, out, err);
    while (code == ERR_OK && next_part(&rest, part, &code, err)) {
        uint64_t above = out->inode;
        code = tree_lookup(tree, above, part, out, err);
        if (code == ERR_NOT_FOUND) {
            struct engine_make make = {.folder = above, .name = part, .mode = S_IFDIR | 0755};
            code = tree_make(tree, caller, &make, out, err);
        } else if (code == ERR_OK && !S_ISDIR(out->mode)) {
            code = err_set(err, ERR_INVALID, "%s: '%s' is not a folder", path, part);
        }
    }
    return code;
}

enum err_code tree_readlink(struct tree *tree, uint64_t inode, struct str *out, struct err *err)
{
    int posix = 0;
    enum err_code code;
    while ((code = engine_readlink(tree->engine, inode, out, &posix, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    return refused(code, posix, "symbolic link", err);
}

static bool keep_entry(void *context, const struct engine_entry *entry)
{
    struct tree_entries *entries = context;
    VEC_PUSH(entries->items, entries->count, entries->cap) =
        (struct tree_entry){mem_strdup(entry->name), *entry->attr};
    return true;
}

enum err_code tree_list(struct tree *tree, uint64_t folder, struct tree_entries *out,
                        struct err *err)
{
    struct tree_entries entries = {0};
    int posix = 0;
    enum err_code code;
    do {
        const char *after = entries.count ? entries.items[entries.count - 1].name : NULL;
        struct engine_listing listing = {.folder = folder, .after = after, .plus = true};
        code = engine_list(tree->engine, &listing, keep_entry, &entries, &posix, err);
    } while (code == ERR_AGAIN && tree_wait(tree, err));
    if (code != ERR_OK) {
        tree_entries_release(&entries);
        return refused(code, posix, "folder", err);
    }
    *out = entries;
    return ERR_OK;
}

void tree_entries_release(struct tree_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        free(entries->items[i].name);
    }
    free(entries->items);
    *entries = (struct tree_entries){0};
}

static enum err_code walk_below(struct tree *tree, struct str *path, uint64_t folder,
                                tree_walk_fn each, void *context, struct err *err)
{
    struct tree_entries entries;
    enum err_code code = tree_list(tree, folder, &entries, err);
    if (code != ERR_OK) {
        return code;
    }
    size_t base = path->size;
    for (size_t i = 0; i < entries.count && code == ERR_OK; i++) {
        const struct tree_entry *entry = &entries.items[i];
        if (base == 0 || path->text[base - 1] != '/') {
            str_add_char(path, '/');
        }
        str_add(path, entry->name);
        if (path->size > PATH_BYTES_MAX) {
            code = err_set(err, ERR_INVALID, "%.60s...: folders too deep to walk", path->text);
            break;
        }
        code = each(context, str_text(path), &entry->attr, err);
        if (code == ERR_OK && S_ISDIR(entry->attr.mode)) {
            code = walk_below(tree, path, entry->attr.inode, each, context, err);
        }
        path->size = base;
        path->text[base] = '\0';
    }
    tree_entries_release(&entries);
    return code;
}

enum err_code tree_walk(struct tree *tree, const char *path, const struct engine_attr *attr,
                        tree_walk_fn each, void *context, struct err *err)
{
    AUTO_STR struct str at = {0};
    str_add(&at, path);
    enum err_code code = each(context, path, attr, err);
    if (code == ERR_OK && S_ISDIR(attr->mode)) {
        code = walk_below(tree, &at, attr->inode, each, context, err);
    }
    return code;
}

static enum err_code remove_one(struct tree *tree, const struct engine_caller *caller,
                                uint64_t folder, const char *name, bool is_folder, struct err *err)
{
    struct engine_remove remove = {.folder = folder, .name = name, .is_folder = is_folder};
    int posix = 0;
    enum err_code code;
    while ((code = engine_remove(tree->engine, caller, &remove, &posix, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    tree_breathe(tree);
    return refused(code, posix, name, err);
}

static enum err_code empty_folder(struct tree *tree, const struct engine_caller *caller,
                                  uint64_t folder, struct err *err)
{
    struct tree_entries entries = {0};
    enum err_code code = tree_list(tree, folder, &entries, err);
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < entries.count && code == ERR_OK; i++) {
        const struct tree_entry *entry = &entries.items[i];
        bool is_folder = S_ISDIR(entry->attr.mode);
        if (is_folder) {
            code = empty_folder(tree, caller, entry->attr.inode, err);
        }
        if (code == ERR_OK) {
            code = remove_one(tree, caller, folder, entry->name, is_folder, err);
        }
    }
    tree_entries_release(&entries);
    return code;
}

enum err_code tree_remove(struct tree *tree, const struct engine_caller *caller, const char *path,
                          bool recursive, struct err *err)
{
    struct engine_attr folder;
    struct engine_attr attr;
    AUTO_FREE char *name = NULL;
    enum err_code code = tree_parent(tree, path, &folder, &name, err);
    if (code == ERR_OK) {
        code = tree_find(tree, path, &attr, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    bool is_folder = S_ISDIR(attr.mode);
    if (is_folder && !recursive) {
        return err_set(err, ERR_INVALID, "%s: is a folder (say --recursive)", path);
    }
    if (is_folder) {
        code = empty_folder(tree, caller, attr.inode, err);
    }
    return code == ERR_OK ? remove_one(tree, caller, folder.inode, name, is_folder, err) : code;
}

enum err_code tree_rename(struct tree *tree, const struct engine_caller *caller, const char *from,
                          const char *to, struct err *err)
{
    struct engine_attr old_folder;
    struct engine_attr new_folder;
    AUTO_FREE char *old_name = NULL;
    AUTO_FREE char *new_name = NULL;
    enum err_code code = tree_parent(tree, from, &old_folder, &old_name, err);
    if (code == ERR_OK) {
        code = tree_parent(tree, to, &new_folder, &new_name, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    struct engine_rename rename = {.from = old_folder.inode,
                                   .to = new_folder.inode,
                                   .old_name = old_name,
                                   .new_name = new_name};
    int posix = 0;
    while ((code = engine_rename(tree->engine, caller, &rename, &posix, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    if (code == ERR_INVALID && posix == EINVAL) {
        return err_set(err, ERR_INVALID, "%s: a folder cannot be moved into itself", from);
    }
    return refused(code, posix, from, err);
}
