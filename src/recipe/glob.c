#include "recipe/glob.h"

#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The parts of one pattern after its literal beginning. A set of parts is a bit mask: part i is in
 * it when the entries of this folder are to be matched against part i. So each folder is read once,
 * however many ways there are to reach it. */
struct walk {
    char *parts[GLOB_PARTS_MAX];
    size_t count;
    struct glob_list *list;
    struct str path; /* of the folder being read */
    struct err *err;
};

static bool is_any_depth(const char *part)
{
    return strcmp(part, "**") == 0;
}

static bool is_literal(const char *part)
{
    return !strpbrk(part, "*?[\\");
}

/* ** may stand for no folder at all, so the part after it is tried as well. */
static uint64_t close_over(const struct walk *walk, uint64_t set)
{
    for (size_t i = 0; i + 1 < walk->count; i++) {
        if ((set >> i & 1) && is_any_depth(walk->parts[i])) {
            set |= UINT64_C(1) << (i + 1);
        }
    }
    return set;
}

enum entry_kind { ENTRY_OTHER, ENTRY_FILE, ENTRY_FOLDER, ENTRY_FOLDER_LINK };

static enum entry_kind kind_by_stat(const char *path)
{
    struct stat st;
    struct stat target;
    if (lstat(path, &st) != 0 || stat(path, &target) != 0) {
        return ENTRY_OTHER; /* gone meanwhile, or a link to nothing */
    }
    if (S_ISDIR(target.st_mode)) {
        return S_ISLNK(st.st_mode) ? ENTRY_FOLDER_LINK : ENTRY_FOLDER;
    }
    return S_ISREG(target.st_mode) ? ENTRY_FILE : ENTRY_OTHER;
}

static enum entry_kind kind_of(const struct dirent *entry, const char *path)
{
    switch (entry->d_type) {
    case DT_REG:
        return ENTRY_FILE;
    case DT_DIR:
        return ENTRY_FOLDER;
    case DT_LNK:
    case DT_UNKNOWN:
        return kind_by_stat(path);
    default:
        return ENTRY_OTHER;
    }
}

/* What an entry of this name leads to: parts for its own entries, and whether it is a match. */
struct step {
    uint64_t through_name;
    uint64_t through_depth; /* by **, which follows no links */
    bool matches;
};

static struct step step_by(const struct walk *walk, uint64_t set, const char *name)
{
    struct step step = {0};
    for (size_t i = 0; i < walk->count; i++) {
        if (!(set >> i & 1)) {
            continue;
        }
        if (is_any_depth(walk->parts[i])) {
            step.through_depth |= name[0] != '.' ? UINT64_C(1) << i : 0;
        } else if (glob_match(walk->parts[i], name)) {
            if (i + 1 == walk->count) {
                step.matches = true;
            } else {
                step.through_name |= UINT64_C(1) << (i + 1);
            }
        }
    }
    return step;
}

static enum err_code walk_folder(struct walk *walk, uint64_t set);

static enum err_code visit(struct walk *walk, const struct dirent *entry, const struct step *step)
{
    enum entry_kind kind = kind_of(entry, walk->path.text);
    if (kind == ENTRY_FILE && step->matches) {
        if (walk->list->count == GLOB_FILES_MAX) {
            return err_set(walk->err, ERR_QUOTA, "more than %d files", GLOB_FILES_MAX);
        }
        VEC_PUSH(walk->list->names, walk->list->count, walk->list->cap) =
            mem_strndup(walk->path.text, walk->path.size);
    }
    uint64_t next = kind == ENTRY_FOLDER_LINK ? step->through_name
                    : kind == ENTRY_FOLDER    ? step->through_name | step->through_depth
                                              : 0;
    return next ? walk_folder(walk, next) : ERR_OK;
}

static enum err_code read_entries(struct walk *walk, DIR *dir, uint64_t set)
{
    size_t folder_size = walk->path.size;
    enum err_code code = ERR_OK;
    while (code == ERR_OK) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            return errno ? err_errno(walk->err, errno, "%s", walk->path.text) : ERR_OK;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        struct step step = step_by(walk, set, entry->d_name);
        if (!step.matches && !step.through_name && !step.through_depth) {
            continue;
        }
        if (walk->path.text[folder_size - 1] != '/') {
            str_add_char(&walk->path, '/');
        }
        str_add(&walk->path, entry->d_name);
        code = visit(walk, entry, &step);
        walk->path.size = folder_size;
        walk->path.text[folder_size] = '\0';
    }
    return code;
}

/* Recursion ends: the kernel takes no path longer than PATH_MAX. */
static enum err_code walk_folder(struct walk *walk, uint64_t set)
{
    DIR *dir = opendir(walk->path.text);
    if (!dir) {
        bool absent = errno == ENOENT || errno == ENOTDIR;
        return absent ? ERR_OK : err_errno(walk->err, errno, "%s", walk->path.text);
    }
    enum err_code code = read_entries(walk, dir, close_over(walk, set));
    closedir(dir);
    return code;
}

static enum err_code add_part(struct walk *walk, char *part)
{
    bool repeats = walk->count && is_any_depth(part) && is_any_depth(walk->parts[walk->count - 1]);
    if (strcmp(part, ".") == 0 || *part == '\0' || repeats) {
        return ERR_OK;
    }
    if (walk->count + 1 == GLOB_PARTS_MAX) {
        return err_set(walk->err, ERR_INVALID, "the pattern has more than %d parts",
                       GLOB_PARTS_MAX - 1);
    }
    walk->parts[walk->count++] = part;
    return ERR_OK;
}

/* Moves the literal beginning into the path: it needs no reading of folders, nor leave to. */
static void take_literal_start(struct walk *walk)
{
    size_t taken = 0;
    while (taken + 1 < walk->count && is_literal(walk->parts[taken])) {
        if (walk->path.text[walk->path.size - 1] != '/') {
            str_add_char(&walk->path, '/');
        }
        str_add(&walk->path, walk->parts[taken++]);
    }
    walk->count -= taken;
    memmove(walk->parts, walk->parts + taken, walk->count * sizeof walk->parts[0]);
}

/* One pattern without braces. */
static enum err_code add_plain(const char *folder, const char *pattern, struct glob_list *list,
                               struct err *err)
{
    static char any_name[] = "*";
    AUTO_FREE char *copy = mem_strdup(pattern);
    struct walk walk = {.list = list, .err = err};
    enum err_code code = ERR_OK;
    char *rest = copy;
    char *part = NULL;
    while (code == ERR_OK && (part = strsep(&rest, "/"))) {
        code = add_part(&walk, part);
    }
    size_t size = strlen(pattern);
    if (code != ERR_OK || walk.count == 0 || pattern[size - 1] == '/') {
        return code; /* what ends in / is a folder, never a file */
    }
    if (is_any_depth(walk.parts[walk.count - 1])) {
        walk.parts[walk.count++] = any_name;
    }
    str_add(&walk.path, pattern[0] == '/' ? "/" : folder);
    take_literal_start(&walk);
    code = walk_folder(&walk, 1);
    str_release(&walk.path);
    return code;
}

/* Finds the first {..,..}: its two braces. */
static bool find_braces(char *text, char **open, char **close)
{
    for (char *at = text; *at; at++) {
        at += *at == '\\' && at[1];
        if (*at != '{') {
            continue;
        }
        int depth = 1;
        bool comma = false;
        for (char *end = at + 1; *end; end++) {
            if (*end == '\\' && end[1]) {
                end++;
                continue;
            }
            depth += (*end == '{') - (*end == '}');
            comma |= *end == ',' && depth == 1;
            if (depth == 0 && comma) {
                *open = at;
                *close = end;
                return true;
            }
            if (depth == 0) {
                break;
            }
        }
    }
    return false;
}

/* Adds a copy of text for each alternative between the braces. */
static void add_alternatives(struct glob_list *out, const char *text, const char *open,
                             const char *close)
{
    const char *start = open + 1;
    int depth = 0;
    for (const char *at = start; at <= close; at++) {
        if (*at == '\\' && at < close) {
            at++;
            continue;
        }
        depth += (*at == '{') - (*at == '}');
        if (at != close && !(*at == ',' && depth == 0)) {
            continue;
        }
        struct str one = {0};
        str_add_bytes(&one, text, (size_t)(open - text));
        str_add_bytes(&one, start, (size_t)(at - start));
        str_add(&one, close + 1);
        VEC_PUSH(out->names, out->count, out->cap) = str_take(&one);
        start = at + 1;
    }
}

enum err_code glob_add(const char *folder, const char *pattern, struct glob_list *list,
                       struct err *err)
{
    CHECK(*folder);
    struct glob_list patterns = {0};
    VEC_PUSH(patterns.names, patterns.count, patterns.cap) = mem_strdup(pattern);
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < patterns.count && code == ERR_OK; i++) { /* the list grows meanwhile */
        char *open = NULL;
        char *close = NULL;
        if (patterns.count > GLOB_BRACES_MAX) {
            code = err_set(err, ERR_INVALID, "the pattern has more than %d alternatives",
                           GLOB_BRACES_MAX);
        } else if (find_braces(patterns.names[i], &open, &close)) {
            add_alternatives(&patterns, patterns.names[i], open, close);
        } else {
            code = add_plain(folder, patterns.names[i], list, err);
        }
    }
    glob_list_release(&patterns);
    return code;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void glob_list_sort(struct glob_list *list)
{
    if (list->count < 2) {
        return;
    }
    qsort(list->names, list->count, sizeof *list->names, compare_names);
    size_t kept = 1;
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->names[kept - 1], list->names[i]) == 0) {
            free(list->names[i]);
        } else {
            list->names[kept++] = list->names[i];
        }
    }
    list->count = kept;
}

void glob_list_release(struct glob_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    free(list->names);
    *list = (struct glob_list){0};
}
