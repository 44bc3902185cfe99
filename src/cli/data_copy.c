/* drover data put, get and import; drover volume export. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/progress.h"
#include "data/copy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void on_note(void *context, const struct copy_counts *counts, const char *path,
                    const char *why)
{
    struct progress *progress = context;
    if (why) {
        progress_end(progress);
        fprintf(stderr, "drover: %s: passed over: %s\n", path, why);
    }
    progress->items = counts->files + counts->same;
    progress->bytes = counts->bytes + counts->same_bytes;
    progress_show(progress);
}

static void print_counts(const struct copy_counts *counts, const char *verb, int64_t ms,
                         bool as_json)
{
    AUTO_STR struct str out = {0};
    if (as_json) {
        str_addf(&out,
                 "{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"unchanged\":%" PRIu64
                 ",\"folders\":%" PRIu64 ",\"links\":%" PRIu64 ",\"passed_over\":%" PRIu64
                 ",\"seconds\":%.3f}\n",
                 counts->files, counts->bytes, counts->same, counts->folders, counts->links,
                 counts->odd, (double)ms / 1000);
    } else {
        str_addf(&out, "%s %" PRIu64 " file%s, ", verb, counts->files,
                 counts->files == 1 ? "" : "s");
        progress_add_bytes(&out, counts->bytes);
        str_add(&out, " in ");
        clock_add_duration(&out, ms);
        if (counts->same) {
            str_addf(&out, "; %" PRIu64 " unchanged", counts->same);
        }
        str_add_char(&out, '\n');
    }
    cli_write(&out);
}

int data_verb_put(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open;
    struct progress progress;
    struct err err = {0};
    uint64_t files = 0;
    uint64_t bytes = 0;
    if (count < 2) {
        return cli_usage_error(&cmd_data, "put needs a SOURCE and a VOLUME:/PATH");
    }
    int exit_code = data_open(words[count - 1], &arguments->over, true, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    for (int i = 0; i < count - 1; i++) {
        uint64_t more_files;
        uint64_t more_bytes;
        copy_measure(words[i], &more_files, &more_bytes);
        files += more_files;
        bytes += more_bytes;
    }
    const char *path = open.ref.path ? open.ref.path : "/";
    struct copy copy = {.tree = data_tree(&open), .note = on_note, .context = &progress};
    int64_t began_ms = clock_mono_ms();
    progress_begin(&progress, "storing", files, bytes);
    enum err_code code = ERR_OK;
    for (int i = 0; i < count - 1 && code == ERR_OK; i++) {
        AUTO_STR struct str into = {0};
        str_add(&into, path);
        if (count > 2) { /* several: each under its own name */
            AUTO_FREE char *name = mem_strdup(words[i]);
            for (size_t size = strlen(name); size > 1 && name[size - 1] == '/'; size--) {
                name[size - 1] = '\0';
            }
            const char *slash = strrchr(name, '/');
            str_addf(&into, "/%s", slash ? slash + 1 : name);
        }
        code = copy_put(&copy, words[i], str_text(&into), &err);
    }
    enum err_code synced = volume_sync(open.use.volume, code == ERR_OK ? &err : NULL);
    progress_end(&progress);
    code = code == ERR_OK ? synced : code;
    if (code == ERR_OK) {
        print_counts(&copy.counts, "stored", clock_mono_ms() - began_ms, arguments->as_json);
    } else {
        exit_code = cli_error(volume_ref_exit(code),
                              "%s (%" PRIu64 " files were stored; the same "
                              "command goes on where this one stopped)",
                              err.text, copy.counts.files);
    }
    return data_close(&open, exit_code);
}

static enum err_code add_size(void *context, const char *path, const struct engine_attr *attr,
                              struct err *err)
{
    (void)path;
    (void)err;
    struct progress *progress = context;
    if (S_ISREG(attr->mode)) {
        progress->items_all++;
        progress->bytes_all += attr->size;
    }
    return ERR_OK;
}

static enum err_code get_paths(struct copy *copy, const struct tree_paths *paths,
                               const char *target, struct progress *progress, struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < paths->count && code == ERR_OK; i++) {
        struct engine_attr attr;
        code = tree_find(&copy->tree, paths->items[i], &attr, err);
        if (code == ERR_OK) {
            code = tree_walk(&copy->tree, paths->items[i], &attr, add_size, progress, err);
        }
    }
    for (size_t i = 0; i < paths->count && code == ERR_OK; i++) {
        AUTO_STR struct str into = {0};
        str_add(&into, target);
        if (paths->count > 1) {
            str_addf(&into, "/%s", strrchr(paths->items[i], '/') + 1);
        }
        code = copy_get(copy, paths->items[i], str_text(&into), err);
    }
    return code;
}

int data_verb_get(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open;
    struct progress progress;
    struct err err = {0};
    struct tree_paths paths = {0};
    if (count != 2) {
        return cli_usage_error(&cmd_data, "get needs a VOLUME:/PATH and a TARGET");
    }
    int exit_code = data_open(words[0], &arguments->over, false, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    struct copy copy = {.tree = data_tree(&open), .note = on_note, .context = &progress};
    int64_t began_ms = clock_mono_ms();
    progress_begin(&progress, "fetching", 0, 0);
    enum err_code code = tree_glob(&copy.tree, open.ref.path ? open.ref.path : "/", &paths, &err);
    if (code == ERR_OK && paths.count > 1 && mkdir(words[1], 0777) != 0 && access(words[1], W_OK)) {
        code = err_set(&err, ERR_INVALID, "%s: not a folder that can be written to", words[1]);
    }
    if (code == ERR_OK) {
        code = get_paths(&copy, &paths, words[1], &progress, &err);
    }
    progress_end(&progress);
    tree_paths_release(&paths);
    if (code == ERR_OK) {
        print_counts(&copy.counts, "fetched", clock_mono_ms() - began_ms, arguments->as_json);
    } else {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    }
    return data_close(&open, exit_code);
}

int data_verb_export(const char *volume, const struct volume_ref *over, const char *folder)
{
    struct data_arguments arguments = {.over = *over};
    char *words[] = {(char *)volume, (char *)folder};
    return data_verb_get(&arguments, 2, words);
}

/* Import: the objects of a bucket become files. -------------------------------------------------
 */

struct import {
    struct copy copy;
    struct object_store *from;
    struct str keys;  /* with NULs between */
    struct str sizes; /* uint64_t each */
    const char *path;
    struct str body;
    size_t taken;
};

static bool note_key(void *context, const struct object_item *item)
{
    struct import *import = context;
    str_add_bytes(&import->keys, item->key, strlen(item->key) + 1);
    str_add_bytes(&import->sizes, &item->size, sizeof item->size);
    return true;
}

static int64_t read_body(void *context, void *buffer, size_t size, struct err *err)
{
    (void)err;
    struct import *import = context;
    size_t left = import->body.size - import->taken;
    size_t piece = left < size ? left : size;
    memcpy(buffer, import->body.text + import->taken, piece);
    import->taken += piece;
    return (int64_t)piece;
}

static enum err_code import_one(struct import *import, const char *key, uint64_t size,
                                struct err *err)
{
    struct engine_caller caller = {getuid(), getgid(), clock_unix_ms() * 1000000};
    struct engine_attr folder;
    struct engine_attr attr;
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", import->path, key);
    const char *slash = strrchr(str_text(&path), '/');
    AUTO_FREE char *above = mem_strndup(path.text, (size_t)(slash - path.text));
    if (slash[1] == '\0') {
        return ERR_OK; /* a folder's marker */
    }
    enum err_code code = tree_make_folders(&import->copy.tree, &caller, above, &folder, err);
    if (code == ERR_OK &&
        tree_lookup(&import->copy.tree, folder.inode, slash + 1, &attr, NULL) == ERR_OK &&
        attr.size == size) {
        import->copy.counts.same++;
        import->copy.counts.same_bytes += size;
        return ERR_OK;
    }
    str_clear(&import->body);
    import->taken = 0;
    if (code == ERR_OK) {
        code = object_get(import->from, key, &import->body, NULL, err);
    }
    struct copy_source source = {.read = read_body,
                                 .context = import,
                                 .mtime_ns = caller.now_ns,
                                 .mode = 0644,
                                 .uid = caller.uid,
                                 .gid = caller.gid};
    return code == ERR_OK ? copy_put_bytes(&import->copy, folder.inode, slash + 1, &source, err)
                          : code;
}

static enum err_code import_all(struct import *import, struct progress *progress, struct err *err)
{
    enum err_code code = object_each(import->from, "", note_key, import, err);
    const uint64_t *sizes = (const uint64_t *)(const void *)import->sizes.text;
    size_t count = import->sizes.size / sizeof(uint64_t);
    for (size_t i = 0; i < count; i++) {
        progress->bytes_all += sizes[i];
    }
    const char *key = import->keys.text;
    for (size_t i = 0; i < count && code == ERR_OK; i++, key += strlen(key) + 1) {
        code = import_one(import, key, sizes[i], err);
    }
    enum err_code synced = volume_sync(import->copy.tree.volume, code == ERR_OK ? err : NULL);
    return code == ERR_OK ? synced : code;
}

int data_verb_import(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open;
    struct progress progress;
    struct volume_ref from = {0};
    struct import import = {0};
    struct err err = {0};
    if (count != 2) {
        return cli_usage_error(&cmd_data, "import needs s3://BUCKET/PREFIX and a VOLUME:/PATH");
    }
    enum err_code code = volume_ref_parse(words[0], &from, &err);
    if (code == ERR_OK && from.name) {
        code = err_set(&err, ERR_INVALID, "%s: import takes s3://bucket/prefix or file:///folder",
                       words[0]);
    }
    int exit_code = code == ERR_OK ? data_open(words[1], &arguments->over, true, &open)
                                   : cli_error(EXIT_USAGE, "%s", err.text);
    if (exit_code != EXIT_DONE) {
        volume_ref_release(&from);
        return exit_code;
    }
    volume_ref_override(&from, &open.ref); /* the same endpoint, unless said otherwise */
    volume_ref_override(&from, &arguments->over);
    import.copy = (struct copy){.tree = data_tree(&open), .note = on_note, .context = &progress};
    import.path = open.ref.path && strcmp(open.ref.path, "/") != 0 ? open.ref.path : "";
    int64_t began_ms = clock_mono_ms();
    progress_begin(&progress, "importing", 0, 0);
    code = volume_ref_store(&from, false, &import.from, &err);
    if (code == ERR_OK) {
        code = import_all(&import, &progress, &err);
        object_close(import.from);
    }
    progress_end(&progress);
    if (code == ERR_OK) {
        print_counts(&import.copy.counts, "imported", clock_mono_ms() - began_ms,
                     arguments->as_json);
    } else {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    }
    str_release(&import.keys);
    str_release(&import.sizes);
    str_release(&import.body);
    volume_ref_release(&from);
    return data_close(&open, exit_code);
}
