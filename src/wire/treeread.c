#include "wire/treeread.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "wire/bulk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct level {
    int fd;
    char **names;
    size_t count;
    size_t next;
    size_t path_size; /* of the path that leads here, with its slash */
};

struct treeread {
    int root;
    treeread_top_fn open_top;
    void *context;
    struct level *levels;
    size_t depth;
    size_t level_cap;
    struct str path;
    struct str seek; /* what is left to skip to; empty: nothing */
    bool is_begun;
    bool is_seeking;
    uint64_t seen;
    int file; /* of the last entry, or -1 */
    enum treeread_type type;
};

struct treeread *treeread_create(int folder_fd, treeread_top_fn open_top, void *context)
{
    CHECK(folder_fd >= 0);
    struct treeread *reader = mem_alloc(sizeof *reader);
    reader->root = folder_fd;
    reader->open_top = open_top;
    reader->context = context;
    reader->file = -1;
    return reader;
}

static void close_file(struct treeread *reader)
{
    if (reader->file >= 0) {
        close(reader->file);
        reader->file = -1;
    }
}

static void leave_level(struct treeread *reader)
{
    struct level *level = &reader->levels[--reader->depth];
    for (size_t i = 0; i < level->count; i++) {
        free(level->names[i]);
    }
    free(level->names);
    close(level->fd);
}

static void start_over(struct treeread *reader)
{
    while (reader->depth > 0) {
        leave_level(reader);
    }
    close_file(reader);
    str_clear(&reader->path);
    reader->is_begun = false;
    reader->is_seeking = false;
    reader->seen = 0;
}

void treeread_destroy(struct treeread *reader)
{
    if (reader) {
        start_over(reader);
        close(reader->root);
        free(reader->levels);
        str_release(&reader->path);
        str_release(&reader->seek);
        free(reader);
    }
}

void treeread_seek(struct treeread *reader, const char *path)
{
    start_over(reader);
    str_clear(&reader->seek);
    if (path && path[0] != '\0') {
        str_add(&reader->seek, path);
        reader->is_seeking = true;
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum err_code read_names(struct treeread *reader, struct level *level, struct err *err)
{
    int copy = fcntl(level->fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        int why = errno;
        if (copy >= 0) {
            close(copy);
        }
        return err_errno(err, why, "%s", str_text(&reader->path));
    }
    rewinddir(dir);
    size_t cap = 0;
    errno = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        VEC_PUSH(level->names, level->count, cap) = mem_strdup(name);
        if (level->count + reader->seen > BULK_ENTRIES_MAX) {
            closedir(dir);
            return err_set(err, ERR_QUOTA, "%s: too many files", str_text(&reader->path));
        }
        errno = 0;
    }
    int why = errno;
    closedir(dir);
    if (why != 0) {
        return err_errno(err, why, "%s", str_text(&reader->path));
    }
    if (level->count > 1) {
        qsort(level->names, level->count, sizeof *level->names, compare_names);
    }
    return ERR_OK;
}

/* Where the seeked path goes through this level: its first name is skipped to. *enters: there is
 * more of it below that name, which itself was passed already. */
static void skip_names(struct treeread *reader, struct level *level, bool *enters)
{
    *enters = false;
    if (!reader->is_seeking) {
        return;
    }
    const char *rest = str_text(&reader->seek) + level->path_size;
    size_t size = strcspn(rest, "/");
    while (level->next < level->count) {
        const char *name = level->names[level->next];
        int order = strncmp(name, rest, size);
        if (order > 0 || (order == 0 && name[size] != '\0')) {
            break; /* past it: what was sought is gone */
        }
        if (order == 0) {
            *enters = rest[size] == '/';
            break;
        }
        level->next++;
    }
    reader->is_seeking = *enters;
}

static enum err_code enter(struct treeread *reader, int fd, struct err *err)
{
    if (reader->depth >= BULK_PATH_DEPTH_MAX) {
        close(fd);
        return err_set(err, ERR_QUOTA, "%s: folders too deep", str_text(&reader->path));
    }
    if (reader->path.size > 0) {
        str_add_char(&reader->path, '/');
    }
    struct level *level = &VEC_PUSH(reader->levels, reader->depth, reader->level_cap);
    *level = (struct level){.fd = fd, .path_size = reader->path.size};
    return read_names(reader, level, err);
}

static int open_folder(struct treeread *reader, const struct level *level, const char *name)
{
    if (reader->depth == 1 && reader->open_top) {
        return reader->open_top(reader->context, name);
    }
    return openat(level->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static enum err_code went_away(struct treeread *reader, int why, struct err *err)
{
    if (why == ENOENT || why == ELOOP || why == ENOTDIR) {
        return err_set(err, ERR_AGAIN, "%s: changed while it was read", str_text(&reader->path));
    }
    return err_errno(err, why, "%s", str_text(&reader->path));
}

static void set_path(struct treeread *reader, const struct level *level, const char *name)
{
    reader->path.size = level->path_size;
    if (level->path_size > 0) {
        reader->path.text[level->path_size - 1] = '/'; /* see treeread_next */
    }
    str_add(&reader->path, name);
}

static void describe(struct treeread *reader, const struct stat *stat, struct treeread_entry *out)
{
    *out = (struct treeread_entry){.path = str_text(&reader->path),
                                   .path_size = reader->path.size,
                                   .type = reader->type,
                                   .mode = (uint32_t)stat->st_mode & 07777,
                                   .size = S_ISREG(stat->st_mode) ? (uint64_t)stat->st_size : 0,
                                   .mtime_ns = (int64_t)stat->st_mtim.tv_sec * 1000000000 +
                                               stat->st_mtim.tv_nsec,
                                   .inode = stat->st_ino};
}

/* Looks at the next name of the level. ERR_UNSUPPORTED: it is of no kind that we send. */
static enum err_code look(struct treeread *reader, const struct level *level, const char *name,
                          struct treeread_entry *out, struct err *err)
{
    struct stat stat;
    if (fstatat(level->fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return went_away(reader, errno, err);
    }
    bool is_top = reader->depth == 1 && reader->open_top;
    if (S_ISDIR(stat.st_mode) || (is_top && S_ISLNK(stat.st_mode))) {
        reader->type = TREEREAD_FOLDER;
        stat.st_mode = is_top ? (S_IFDIR | 0755) : stat.st_mode;
    } else if (is_top) {
        return ERR_UNSUPPORTED;
    } else if (S_ISREG(stat.st_mode)) {
        reader->type = TREEREAD_FILE;
    } else if (S_ISLNK(stat.st_mode)) {
        reader->type = TREEREAD_LINK;
    } else {
        return ERR_UNSUPPORTED;
    }
    if (!bulk_path_is_safe(reader->path.text, reader->path.size)) {
        return err_set(err, ERR_QUOTA, "%.200s...: the path is too long or too deep",
                       str_text(&reader->path));
    }
    describe(reader, &stat, out);
    return ERR_OK;
}

/* Takes one name. ERR_UNSUPPORTED: nothing came of it, go on. */
static enum err_code take_name(struct treeread *reader, struct treeread_entry *out, struct err *err)
{
    struct level *level = &reader->levels[reader->depth - 1];
    bool enters = false;
    skip_names(reader, level, &enters);
    if (level->next >= level->count) {
        leave_level(reader);
        return ERR_UNSUPPORTED;
    }
    const char *name = level->names[level->next++];
    set_path(reader, level, name);
    enum err_code code = look(reader, level, name, out, err);
    if (code != ERR_OK) {
        return code;
    }
    if (reader->type != TREEREAD_FOLDER) {
        /* one that was a folder when it was sought is not the one that was passed */
        reader->is_seeking = false;
        return ERR_OK;
    }
    int fd = open_folder(reader, level, name);
    if (fd < 0) {
        return reader->depth == 1 && reader->open_top ? ERR_UNSUPPORTED
                                                      : went_away(reader, errno, err);
    }
    size_t path_size = reader->path.size;
    code = enter(reader, fd, err);
    if (code != ERR_OK) {
        return code;
    }
    out->path = str_text(&reader->path);
    out->path_size = path_size;
    return enters ? ERR_UNSUPPORTED : ERR_OK;
}

enum err_code treeread_next(struct treeread *reader, struct treeread_entry *out, struct err *err)
{
    close_file(reader);
    if (!reader->is_begun) {
        reader->is_begun = true;
        int fd = openat(reader->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
            return err_errno(err, errno, "the folder");
        }
        enum err_code code = enter(reader, fd, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    while (reader->depth > 0) {
        enum err_code code = take_name(reader, out, err);
        if (code == ERR_UNSUPPORTED) {
            continue;
        }
        if (code == ERR_OK && ++reader->seen > BULK_ENTRIES_MAX) {
            return err_set(err, ERR_QUOTA, "more than %d files and folders", BULK_ENTRIES_MAX);
        }
        if (code == ERR_OK && out->type == TREEREAD_FOLDER) {
            /* the caller sees the folder's own path; the slash stays for what is below */
            reader->path.text[out->path_size] = '\0';
        }
        return code;
    }
    return err_set(err, ERR_NOT_FOUND, "that was all");
}

/* The level that the last entry is in. */
static int parent_fd(const struct treeread *reader)
{
    return reader->levels[reader->depth - 1].fd;
}

static const char *last_name(const struct treeread *reader)
{
    const struct level *level = &reader->levels[reader->depth - 1];
    return level->names[level->next - 1];
}

static enum err_code open_file(struct treeread *reader, struct err *err)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    reader->file = openat(parent_fd(reader), last_name(reader), flags);
    if (reader->file < 0) {
        return went_away(reader, errno, err);
    }
    struct stat stat;
    if (fstat(reader->file, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        close_file(reader);
        return err_set(err, ERR_AGAIN, "%s: changed while it was read", str_text(&reader->path));
    }
    return ERR_OK;
}

static enum err_code read_link(struct treeread *reader, void *bytes, size_t size, size_t *got,
                               struct err *err)
{
    ssize_t length = readlinkat(parent_fd(reader), last_name(reader), bytes, size);
    if (length <= 0) {
        return went_away(reader, length == 0 ? ENOENT : errno, err);
    }
    *got = (size_t)length;
    return ERR_OK;
}

enum err_code treeread_bytes(struct treeread *reader, uint64_t offset, void *bytes, size_t size,
                             size_t *got, struct err *err)
{
    CHECK(reader->depth > 0);
    CHECK(reader->type != TREEREAD_FOLDER);
    *got = 0;
    if (reader->type == TREEREAD_LINK) {
        return read_link(reader, bytes, size, got, err);
    }
    if (reader->file < 0) {
        enum err_code code = open_file(reader, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    while (*got < size) {
        ssize_t count =
            pread(reader->file, (char *)bytes + *got, size - *got, (off_t)(offset + *got));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return err_errno(err, errno, "%s", str_text(&reader->path));
        }
        if (count == 0) {
            break;
        }
        *got += (size_t)count;
    }
    return ERR_OK;
}

uint64_t treeread_hash(const struct treeread_entry *entry)
{
    uint64_t facts[] = {entry->type, entry->mode, entry->size, (uint64_t)entry->mtime_ns,
                        entry->inode};
    if (entry->type == TREEREAD_FOLDER) { /* its own times say nothing that its entries do not */
        facts[3] = 0;
    }
    return rng_hash_bytes(rng_hash_bytes(1, entry->path, entry->path_size), facts, sizeof facts);
}
