/* drover data put and get; drover volume export. */
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

void data_note(void *context, const struct copy_counts *counts, const char *path, const char *why)
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

void data_print_counts(const struct copy_counts *counts, const char *verb, int64_t ms, bool as_json)
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
    struct copy copy = {.tree = data_tree(&open), .note = data_note, .context = &progress};
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
        data_print_counts(&copy.counts, "stored", clock_mono_ms() - began_ms, arguments->as_json);
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
    struct copy copy = {.tree = data_tree(&open), .note = data_note, .context = &progress};
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
        data_print_counts(&copy.counts, "fetched", clock_mono_ms() - began_ms, arguments->as_json);
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
