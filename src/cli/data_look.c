/* drover data ls, stat, du, verify; drover volume show. */
#include "base/clock.h"
#include "base/jread.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/progress.h"
#include "data/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOW_WAIT_MS = 1000 };

static const char *kind_of(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "folder";
    case S_IFLNK:
        return "link";
    default:
        return "other";
    }
}

static void add_mode(struct str *out, uint32_t mode)
{
    static const char letters[] = "rwxrwxrwx";
    str_add_char(out, S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '-');
    for (int i = 0; i < 9; i++) {
        str_add_char(out, mode & (0400U >> i) ? letters[i] : '-');
    }
}

static void add_json(struct tree *tree, struct str *out, const char *path,
                     const struct engine_attr *attr)
{
    struct json json = {.out = out};
    AUTO_STR struct str time = {0};
    clock_add_rfc3339(&time, attr->mtime_ns / 1000000);
    json_object(&json);
    json_key(&json, "path");
    json_text(&json, path);
    json_key(&json, "type");
    json_text(&json, kind_of(attr->mode));
    json_key(&json, "size");
    json_u64(&json, attr->size);
    json_key(&json, "mode");
    json_u64(&json, attr->mode & 07777);
    json_key(&json, "uid");
    json_u64(&json, attr->uid);
    json_key(&json, "gid");
    json_u64(&json, attr->gid);
    json_key(&json, "links");
    json_u64(&json, attr->nlink);
    json_key(&json, "inode");
    json_u64(&json, attr->inode);
    json_key(&json, "mtime");
    json_text(&json, str_text(&time));
    if (S_ISLNK(attr->mode)) {
        AUTO_STR struct str target = {0};
        if (tree_readlink(tree, attr->inode, &target, NULL) == ERR_OK) {
            json_key(&json, "target");
            json_bytes(&json, str_text(&target), target.size);
        }
    }
    json_end(&json);
    str_add_char(out, '\n');
}

struct listing {
    struct data_arguments *arguments;
    struct tree tree;
    const char *root;
    bool skips_root;
};

static enum err_code list_entry(void *context, const char *path, const struct engine_attr *attr,
                                struct err *err)
{
    struct listing *listing = context;
    AUTO_STR struct str out = {0};
    (void)err;
    if (listing->skips_root && path == listing->root) {
        return ERR_OK;
    }
    if (listing->arguments->as_json) {
        add_json(&listing->tree, &out, path, attr);
        cli_write(&out);
        return ERR_OK;
    }
    if (listing->arguments->is_long) {
        AUTO_STR struct str time = {0};
        clock_add_rfc3339(&time, attr->mtime_ns / 1000000);
        add_mode(&out, attr->mode);
        str_addf(&out, " %5u %5u %12" PRIu64 " %.16s ", attr->uid, attr->gid, attr->size,
                 str_text(&time));
    }
    const char *shown = path;
    if (listing->skips_root && !listing->arguments->recursive) {
        const char *slash = strrchr(path, '/');
        shown = slash ? slash + 1 : path;
    }
    jread_add_clean(&out, shown);
    str_add(&out, S_ISDIR(attr->mode) ? "/\n" : "\n");
    cli_write(&out);
    return ERR_OK;
}

static enum err_code list_folder(struct listing *listing, const struct engine_attr *attr,
                                 struct err *err)
{
    struct tree_entries entries;
    enum err_code code = tree_list(&listing->tree, attr->inode, &entries, err);
    for (size_t i = 0; code == ERR_OK && i < entries.count; i++) {
        AUTO_STR struct str path = {0};
        bool at_root = strcmp(listing->root, "/") == 0;
        str_addf(&path, "%s/%s", at_root ? "" : listing->root, entries.items[i].name);
        code = list_entry(listing, str_text(&path), &entries.items[i].attr, err);
    }
    if (code == ERR_OK) {
        tree_entries_release(&entries);
    }
    return code;
}

typedef enum err_code (*path_fn)(struct data_arguments *arguments, struct tree *tree,
                                 const char *path, struct err *err);

/* Opens the volume of words[0] and does something to each path that it means. */
static int each_path(struct data_arguments *arguments, const char *word, bool writes, path_fn fn)
{
    struct data_open open;
    struct err err = {0};
    struct tree_paths paths = {0};
    int exit_code = data_open(word, &arguments->over, writes, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    struct tree tree = data_tree(&open);
    enum err_code code = tree_glob(&tree, open.ref.path ? open.ref.path : "/", &paths, &err);
    for (size_t i = 0; i < paths.count && code == ERR_OK; i++) {
        code = fn(arguments, &tree, paths.items[i], &err);
    }
    if (writes && code == ERR_OK) {
        code = volume_sync(open.use.volume, &err);
    }
    tree_paths_release(&paths);
    if (code != ERR_OK) {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    }
    return data_close(&open, exit_code);
}

static int each_word(struct data_arguments *arguments, int count, char **words, const char *verb,
                     path_fn fn)
{
    int exit_code = EXIT_DONE;
    if (count < 1) {
        return cli_usage_error(&cmd_data, "%s needs a VOLUME:/PATH", verb);
    }
    for (int i = 0; i < count && exit_code == EXIT_DONE; i++) {
        exit_code = each_path(arguments, words[i], false, fn);
    }
    return exit_code;
}

static enum err_code ls_path(struct data_arguments *arguments, struct tree *tree, const char *path,
                             struct err *err)
{
    struct engine_attr attr;
    enum err_code code = tree_find(tree, path, &attr, err);
    struct listing listing = {
        .arguments = arguments, .tree = *tree, .root = path, .skips_root = S_ISDIR(attr.mode)};
    if (code != ERR_OK) {
        return code;
    }
    if (!S_ISDIR(attr.mode)) {
        return list_entry(&listing, path, &attr, err);
    }
    return arguments->recursive ? tree_walk(tree, path, &attr, list_entry, &listing, err)
                                : list_folder(&listing, &attr, err);
}

int data_verb_ls(struct data_arguments *arguments, int count, char **words)
{
    return each_word(arguments, count, words, "ls", ls_path);
}

static enum err_code stat_path(struct data_arguments *arguments, struct tree *tree,
                               const char *path, struct err *err)
{
    struct engine_attr attr;
    AUTO_STR struct str out = {0};
    enum err_code code = tree_find(tree, path, &attr, err);
    if (code != ERR_OK) {
        return code;
    }
    if (arguments->as_json) {
        add_json(tree, &out, path, &attr);
    } else {
        AUTO_STR struct str time = {0};
        clock_add_rfc3339(&time, attr.mtime_ns / 1000000);
        str_addf(&out,
                 "%s: %s, %" PRIu64 " bytes, mode %04o, owner %u:%u, inode %" PRIu64
                 ", %u link%s, changed %s\n",
                 path, kind_of(attr.mode), attr.size, attr.mode & 07777U, attr.uid, attr.gid,
                 attr.inode, attr.nlink, attr.nlink == 1 ? "" : "s", str_text(&time));
    }
    cli_write(&out);
    return ERR_OK;
}

int data_verb_stat(struct data_arguments *arguments, int count, char **words)
{
    return each_word(arguments, count, words, "stat", stat_path);
}

struct usage {
    uint64_t files, folders, bytes;
};

static enum err_code add_usage(void *context, const char *path, const struct engine_attr *attr,
                               struct err *err)
{
    struct usage *usage = context;
    (void)path;
    (void)err;
    usage->folders += S_ISDIR(attr->mode);
    usage->files += !S_ISDIR(attr->mode);
    usage->bytes += S_ISREG(attr->mode) ? attr->size : 0;
    return ERR_OK;
}

static enum err_code du_path(struct data_arguments *arguments, struct tree *tree, const char *path,
                             struct err *err)
{
    struct engine_attr attr;
    struct usage usage = {0};
    AUTO_STR struct str out = {0};
    enum err_code code = tree_find(tree, path, &attr, err);
    if (code == ERR_OK) {
        code = tree_walk(tree, path, &attr, add_usage, &usage, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (arguments->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "path");
        json_text(&json, path);
        json_key(&json, "files");
        json_u64(&json, usage.files);
        json_key(&json, "folders");
        json_u64(&json, usage.folders);
        json_key(&json, "bytes");
        json_u64(&json, usage.bytes);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        progress_add_bytes(&out, usage.bytes);
        str_addf(&out, " in %" PRIu64 " files and %" PRIu64 " folders  %s\n", usage.files,
                 usage.folders, path);
    }
    cli_write(&out);
    return ERR_OK;
}

int data_verb_du(struct data_arguments *arguments, int count, char **words)
{
    return each_word(arguments, count, words, "du", du_path);
}

/* Verify: every byte of every file is read and checked. -----------------------------------------
 */

struct verify {
    struct tree tree;
    struct progress progress;
    uint64_t damaged;
    bool as_json;
};

static enum err_code see_piece(void *context, uint64_t offset, const void *bytes, size_t size,
                               struct err *err)
{
    (void)offset;
    (void)bytes;
    (void)err;
    struct verify *verify = context;
    verify->progress.bytes += size;
    progress_show(&verify->progress);
    return ERR_OK;
}

static enum err_code verify_one(void *context, const char *path, const struct engine_attr *attr,
                                struct err *err)
{
    struct verify *verify = context;
    struct err why;
    verify->progress.items++;
    if (!S_ISREG(attr->mode)) {
        return ERR_OK;
    }
    enum err_code code = tree_read(&verify->tree, attr, see_piece, verify, &why);
    if (code == ERR_CORRUPT || code == ERR_NOT_FOUND || code == ERR_RANGE) {
        verify->damaged++;
        progress_end(&verify->progress);
        fprintf(stderr, "drover: %s: %s\n", path, why.text);
        return ERR_OK;
    }
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%s: %s", path, why.text);
}

int data_verb_verify(const char *volume, const struct volume_ref *over, bool as_json)
{
    struct data_open open;
    struct err err = {0};
    struct engine_attr attr;
    struct verify verify = {.as_json = as_json};
    int exit_code = data_open(volume, over, false, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    verify.tree = data_tree(&open);
    const char *path = open.ref.path ? open.ref.path : "/";
    struct engine_usage usage;
    engine_usage(verify.tree.engine, &usage);
    progress_begin(&verify.progress, "checking", usage.files, usage.bytes);
    enum err_code code = tree_find(&verify.tree, path, &attr, &err);
    if (code == ERR_OK) {
        code = tree_walk(&verify.tree, path, &attr, verify_one, &verify, &err);
    }
    progress_end(&verify.progress);
    if (code != ERR_OK) {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    } else if (as_json) {
        printf("{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"damaged\":%" PRIu64 "}\n",
               verify.progress.items, verify.progress.bytes, verify.damaged);
    } else {
        printf("%" PRIu64 " files and folders, %" PRIu64 " bytes: %s\n", verify.progress.items,
               verify.progress.bytes, verify.damaged ? "damage was found" : "all sound");
    }
    if (exit_code == EXIT_DONE && verify.damaged) {
        exit_code = EXIT_WORK_FAILED;
    }
    return data_close(&open, exit_code);
}

/* Show. ------------------------------------------------------------------------------------------
 */

struct shown {
    struct str *out;
    struct json *json; /* NULL: for people */
};

static bool show_snapshot(void *context, const struct volume_snapshot_info *info)
{
    struct shown *shown = context;
    AUTO_STR struct str time = {0};
    clock_add_rfc3339(&time, info->created_unix_ms);
    if (shown->json) {
        json_object(shown->json);
        json_key(shown->json, "name");
        json_text(shown->json, info->name);
        json_key(shown->json, "created_at");
        json_text(shown->json, str_text(&time));
        json_key(shown->json, "files");
        json_u64(shown->json, info->files);
        json_key(shown->json, "bytes");
        json_u64(shown->json, info->bytes);
        json_end(shown->json);
        return true;
    }
    str_addf(shown->out, "snapshot  %s  %.19s  %" PRIu64 " files, ", info->name, str_text(&time),
             info->files);
    progress_add_bytes(shown->out, info->bytes);
    str_add_char(shown->out, '\n');
    return true;
}

int data_verb_show(const char *volume, const struct volume_ref *over, bool as_json)
{
    struct data_open open;
    struct err err = {0};
    int exit_code = data_open(volume, over, false, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    AUTO_STR struct str out = {0};
    struct json json = {.out = &out};
    struct engine_usage usage;
    struct shown shown = {&out, as_json ? &json : NULL};
    const struct volume_format *format = volume_format(open.use.volume);
    engine_usage(volume_engine(open.use.volume), &usage);
    bool is_silent = false; /* has been said when it was opened */
    AUTO_FREE char *mounted = data_mounted_at(&open.ref, SHOW_WAIT_MS, &is_silent);
    if (as_json) {
        json_object(&json);
        json_key(&json, "store");
        json_text(&json, open.ref.url);
        json_key(&json, "files");
        json_u64(&json, usage.files);
        json_key(&json, "bytes");
        json_u64(&json, usage.bytes);
        json_key(&json, "pack_bytes");
        json_u64(&json, format->pack_bytes);
        json_key(&json, "zstd_level");
        json_i64(&json, format->zstd_level);
        json_key(&json, "snapshots");
        json_array(&json);
    } else {
        str_addf(&out, "store     %s\nfiles     %" PRIu64 "\nbytes     ", open.ref.url,
                 usage.files);
        progress_add_bytes(&out, usage.bytes);
        str_addf(&out, "\npacks of  %u MiB%s\n", format->pack_bytes >> 20,
                 format->zstd_level ? ", compressed" : "");
        if (mounted) {
            str_addf(&out, "mounted   %s%s\n", mounted, is_silent ? " (does not answer)" : "");
        }
    }
    enum err_code code =
        volume_snapshots(volume_store(open.use.volume), show_snapshot, &shown, &err);
    if (as_json) {
        json_end(&json);
        json_end(&json);
        str_add_char(&out, '\n');
    }
    if (code == ERR_OK) {
        cli_write(&out);
    } else {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    }
    return data_close(&open, exit_code);
}

/* Changing: rm and mv. ----------------------------------------------------------------------------
 */

static struct engine_caller self(void)
{
    return (struct engine_caller){getuid(), getgid(), clock_unix_ms() * 1000000};
}

static enum err_code rm_path(struct data_arguments *arguments, struct tree *tree, const char *path,
                             struct err *err)
{
    struct engine_caller caller = self();
    return tree_remove(tree, &caller, path, arguments->recursive, err);
}

int data_verb_rm(struct data_arguments *arguments, int count, char **words)
{
    int exit_code = EXIT_DONE;
    if (count < 1) {
        return cli_usage_error(&cmd_data, "rm needs a VOLUME:/PATH");
    }
    for (int i = 0; i < count && exit_code == EXIT_DONE; i++) {
        exit_code = each_path(arguments, words[i], true, rm_path);
    }
    return exit_code;
}

int data_verb_mv(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open = {0};
    struct volume_ref to = {0};
    struct err err = {0};
    if (count != 2) {
        return cli_usage_error(&cmd_data, "mv needs two VOLUME:/PATHs");
    }
    enum err_code code = ERR_OK;
    const char *target = words[1];
    if (target[0] != '/') {
        code = volume_ref_parse(words[1], &to, &err);
        target = to.path ? to.path : "/";
    }
    int exit_code = code == ERR_OK ? data_open(words[0], &arguments->over, true, &open)
                                   : cli_error(volume_ref_exit(code), "%s", err.text);
    if (exit_code != EXIT_DONE) {
        volume_ref_release(&to);
        return exit_code;
    }
    if (to.url && (!open.ref.url || strcmp(to.url, open.ref.url) != 0)) {
        code =
            err_set(&err, ERR_INVALID, "mv works within one volume; use get and put between two");
    }
    struct tree tree = data_tree(&open);
    struct engine_caller caller = self();
    struct engine_attr attr;
    AUTO_STR struct str into = {0};
    str_add(&into, target);
    if (code == ERR_OK && tree_find(&tree, target, &attr, NULL) == ERR_OK && S_ISDIR(attr.mode)) {
        const char *slash = strrchr(open.ref.path ? open.ref.path : "/", '/');
        str_addf(&into, "/%s", slash + 1); /* into the folder, as mv does */
    }
    if (code == ERR_OK) {
        code =
            tree_rename(&tree, &caller, open.ref.path ? open.ref.path : "/", str_text(&into), &err);
    }
    if (code == ERR_OK) {
        code = volume_sync(open.use.volume, &err);
    }
    volume_ref_release(&to);
    if (code != ERR_OK) {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    }
    return data_close(&open, exit_code);
}
