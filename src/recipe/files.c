#include "recipe/files.h"

#include "base/io.h"
#include "base/mem.h"
#include "recipe/glob.h"
#include "recipe/recipe_build.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *recipe_folder_of(const char *file)
{
    AUTO_FREE char *real = realpath(file, NULL);
    if (!real) {
        char *here = getcwd(NULL, 0);
        return here ? here : mem_strdup("/");
    }
    const char *slash = strrchr(real, '/');
    return mem_strndup(real, slash == real ? 1 : (size_t)(slash - real));
}

/* One files: parameter of one experiment. */
struct files {
    struct experiment *experiment;
    size_t param;
    uint64_t batch;
    uint64_t batch_count;
    struct str folder; /* of its manifests */
    struct glob_list list;
    bool is_there; /* the manifests were written before */
};

struct expansion {
    const char *folder;   /* of the recipe, absolute */
    const char *write_to; /* absolute, or NULL */
    struct diag_list *diags;
    struct files *items;
    size_t count;
    size_t cap;
};

static const char *name_of(const struct files *files)
{
    return space_param_name(files->experiment->space, files->param);
}

/* The count is written last, so where it is, all manifests are. */
static enum err_code read_count(struct files *files, struct err *err)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    str_addf(&path, "%s/count", str_text(&files->folder));
    struct err why = {0};
    enum err_code code = io_read_file(str_text(&path), 32, &text, &why);
    if (code == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    if (code != ERR_OK) {
        return err_set(err, code, "%s", why.text);
    }
    char *end = NULL;
    files->batch_count = strtoull(str_text(&text), &end, 10);
    if (files->batch_count == 0 || text.text[0] < '0' || text.text[0] > '9' ||
        strcmp(end, "\n") != 0) {
        return err_set(err, ERR_CORRUPT, "%s: is not a number", str_text(&path));
    }
    files->is_there = true;
    return ERR_OK;
}

static void check_list(const struct expansion *expansion, const struct files *files,
                       const char *first_pattern, size_t pattern_count)
{
    const struct experiment *experiment = files->experiment;
    if (files->list.count == 0) {
        diag_add(expansion->diags, experiment->line, experiment->column,
                 "'%s': no file matches '%.100s'%s below %.200s, so '%s' has no values",
                 experiment->name, first_pattern, pattern_count > 1 ? " and the others" : "",
                 expansion->folder, name_of(files));
        return;
    }
    for (size_t i = 0; i < files->list.count; i++) {
        if (strchr(files->list.names[i], '\n')) {
            diag_add(expansion->diags, experiment->line, experiment->column,
                     "'%s': the file name '%.200s' holds a newline, which a list of files cannot",
                     experiment->name, files->list.names[i]);
            return;
        }
    }
}

static enum err_code expand_globs(const struct expansion *expansion, struct files *files,
                                  struct err *err)
{
    const char *const *patterns = NULL;
    size_t pattern_count = 0;
    space_files(files->experiment->space, files->param, &patterns, &pattern_count, &files->batch);
    for (size_t i = 0; i < pattern_count; i++) {
        struct err why = {0};
        enum err_code code = glob_add(expansion->folder, patterns[i], &files->list, &why);
        if (code == ERR_INVALID || code == ERR_QUOTA) {
            diag_add(expansion->diags, files->experiment->line, files->experiment->column,
                     "'%s': files '%.100s': %s", files->experiment->name, patterns[i], why.text);
            return ERR_OK;
        }
        if (code != ERR_OK) {
            return err_set(err, code, "%s", why.text);
        }
    }
    glob_list_sort(&files->list);
    check_list(expansion, files, patterns[0], pattern_count);
    uint64_t count = files->list.count;
    files->batch_count = count / files->batch + (count % files->batch != 0);
    return ERR_OK;
}

static enum err_code find_files(struct expansion *expansion, struct experiment *experiment,
                                size_t param, struct err *err)
{
    VEC_PUSH(expansion->items, expansion->count, expansion->cap) =
        (struct files){.experiment = experiment, .param = param};
    struct files *files = &expansion->items[expansion->count - 1];
    if (expansion->write_to) {
        str_addf(&files->folder, "%s/", expansion->write_to);
    }
    str_addf(&files->folder, "manifests/%s.%s", experiment->name, name_of(files));
    enum err_code code = expansion->write_to ? read_count(files, err) : ERR_OK;
    if (code == ERR_OK && !files->is_there) {
        code = expand_globs(expansion, files, err);
    }
    return code;
}

static enum err_code find_all(struct expansion *expansion, struct recipe *recipe, struct err *err)
{
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        struct experiment *experiment = &recipe->experiments[e];
        for (size_t param = 0; param < space_param_count(experiment->space); param++) {
            const char *const *patterns = NULL;
            size_t pattern_count = 0;
            uint64_t batch = 0;
            if (!space_files(experiment->space, param, &patterns, &pattern_count, &batch)) {
                continue;
            }
            enum err_code code = find_files(expansion, experiment, param, err);
            if (code != ERR_OK) {
                return code;
            }
        }
    }
    return ERR_OK;
}

static void bind_all(struct expansion *expansion)
{
    for (size_t i = 0; i < expansion->count; i++) {
        struct files *files = &expansion->items[i];
        space_bind_files(files->experiment->space, files->param, files->batch_count,
                         str_text(&files->folder));
    }
    for (size_t i = 0; i < expansion->count; i++) {
        struct experiment *experiment = expansion->items[i].experiment;
        if (i == 0 || expansion->items[i - 1].experiment != experiment) {
            build_count_tasks(experiment, experiment->line, experiment->column, expansion->diags);
        }
    }
}

static enum err_code write_manifest(int folder_fd, const struct files *files, uint64_t batch,
                                    struct str *text, struct err *err)
{
    str_clear(text);
    uint64_t first = batch * files->batch;
    for (uint64_t i = first; i < files->list.count && i - first < files->batch; i++) {
        str_add(text, files->list.names[i]);
        str_add_char(text, '\n');
    }
    char name[24];
    snprintf(name, sizeof name, "%" PRIu64, batch);
    AUTO_CLOSE int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return err_errno(err, errno, "%s", name);
    }
    return io_write_all(fd, text->text, text->size, err);
}

static enum err_code write_batches(const struct files *files, struct err *err)
{
    const char *folder = str_text(&files->folder);
    AUTO_CLOSE int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0) {
        return err_errno(err, errno, "%s", folder);
    }
    AUTO_STR struct str text = {0};
    for (uint64_t batch = 0; batch < files->batch_count; batch++) {
        struct err why = {0};
        enum err_code code = write_manifest(folder_fd, files, batch, &text, &why);
        if (code != ERR_OK) {
            return err_set(err, code, "%s: %s", folder, why.text);
        }
    }
    return ERR_OK;
}

/* Whatever an interrupted run left is redone from the start. */
static enum err_code write_manifests(const struct files *files, struct err *err)
{
    const char *folder = str_text(&files->folder);
    enum err_code code = io_remove_tree(folder, err);
    if (code == ERR_OK) {
        code = io_make_dirs(folder, err);
    }
    if (code == ERR_OK) {
        code = write_batches(files, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    str_addf(&path, "%s/count", folder);
    str_addf(&text, "%" PRIu64 "\n", files->batch_count);
    return io_replace_file(str_text(&path), text.text, text.size, 0666, err);
}

/* All is known and checked before anything is written. */
static enum err_code expand(struct expansion *expansion, struct recipe *recipe, struct err *err)
{
    size_t wrong_before = expansion->diags->count + expansion->diags->dropped;
    enum err_code code = find_all(expansion, recipe, err);
    if (code == ERR_OK && expansion->diags->count + expansion->diags->dropped == wrong_before) {
        bind_all(expansion);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (expansion->diags->count + expansion->diags->dropped != wrong_before) {
        return err_set(err, ERR_INVALID, "the recipe's files: cannot be used");
    }
    for (size_t i = 0; expansion->write_to && i < expansion->count && code == ERR_OK; i++) {
        code = expansion->items[i].is_there ? ERR_OK : write_manifests(&expansion->items[i], err);
    }
    return code;
}

/* The path from the root, as a new string; links are kept. NULL with errno set on failure. */
static char *absolute(const char *path)
{
    if (path[0] == '/') {
        return mem_strdup(path);
    }
    AUTO_FREE char *here = getcwd(NULL, 0);
    if (!here) {
        return NULL;
    }
    struct str text = {0};
    str_add(&text, here);
    if (path[0] && strcmp(path, ".") != 0) {
        str_addf(&text, "%s%s", text.text[text.size - 1] == '/' ? "" : "/", path);
    }
    return str_take(&text);
}

enum err_code files_expand(struct recipe *recipe, const char *folder, const char *write_to,
                           struct diag_list *diags, struct err *err)
{
    AUTO_FREE char *from = absolute(folder);
    AUTO_FREE char *to = write_to ? absolute(write_to) : NULL;
    if (!from || (write_to && !to)) {
        return err_errno(err, errno, "the current folder");
    }
    struct expansion expansion = {.folder = from, .write_to = to, .diags = diags};
    enum err_code code = expand(&expansion, recipe, err);
    for (size_t i = 0; i < expansion.count; i++) {
        str_release(&expansion.items[i].folder);
        glob_list_release(&expansion.items[i].list);
    }
    free(expansion.items);
    return code;
}
