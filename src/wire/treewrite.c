#include "wire/treewrite.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "wire/bulk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct treewrite {
    int root;
    int base;          /* -1: none */
    struct str parent; /* path of the folder in parent_fd */
    int parent_fd;     /* -1: none is kept open */
    struct str file;   /* path of the file in file_fd */
    int file_fd;
};

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

enum err_code treewrite_open(const char *folder, struct treewrite **out, struct err *err)
{
    int root = open(folder, FOLDER_FLAGS);
    if (root < 0) {
        return err_errno(err, errno, "%s", folder);
    }
    struct treewrite *writer = mem_alloc(sizeof *writer);
    *writer = (struct treewrite){.root = root, .base = -1, .parent_fd = -1, .file_fd = -1};
    *out = writer;
    return ERR_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void treewrite_close(struct treewrite *writer)
{
    if (writer) {
        close_fd(&writer->file_fd);
        close_fd(&writer->parent_fd);
        close_fd(&writer->base);
        close_fd(&writer->root);
        str_release(&writer->parent);
        str_release(&writer->file);
        free(writer);
    }
}

void treewrite_set_base(struct treewrite *writer, const char *folder)
{
    close_fd(&writer->base);
    writer->base = folder ? open(folder, FOLDER_FLAGS) : -1;
}

static enum err_code trouble(struct err *err, int why, const char *path)
{
    if (why == ELOOP || why == ENOTDIR || why == EISDIR || why == EEXIST || why == ENOENT ||
        why == ENAMETOOLONG) {
        return err_set(err, ERR_INVALID, "%.200s: does not fit with what came before", path);
    }
    return err_errno(err, why, "%.200s", path);
}

/* Opens the folder of a path step by step below root; *name is its last part. -1: errno. */
static int open_parent(int root, char *path, char **name)
{
    int fd = fcntl(root, F_DUPFD_CLOEXEC, 0);
    char *part = path;
    for (char *slash = strchr(part, '/'); fd >= 0 && slash; slash = strchr(part, '/')) {
        *slash = '\0';
        int next = openat(fd, part, FOLDER_FLAGS);
        int why = errno;
        *slash = '/';
        close(fd);
        errno = why;
        fd = next;
        part = slash + 1;
    }
    *name = part;
    return fd;
}

/* The folder that holds path, kept open, since neighbours come after each other. */
static int find_parent(struct treewrite *writer, char *path, char **name)
{
    char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    if (writer->parent_fd >= 0 && writer->parent.size == size &&
        memcmp(str_text(&writer->parent), path, size) == 0) {
        return writer->parent_fd;
    }
    close_fd(&writer->parent_fd);
    writer->parent_fd = open_parent(writer->root, path, name);
    str_clear(&writer->parent);
    str_add_bytes(&writer->parent, path, size);
    return writer->parent_fd;
}

static enum err_code write_folder(int parent, const char *name, const Drover__BulkPart *part,
                                  const char *path, struct err *err)
{
    mode_t mode = (mode_t)((part->mode & 0755) | 0700);
    if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
        return trouble(err, errno, path);
    }
    AUTO_CLOSE int fd = openat(parent, name, FOLDER_FLAGS);
    if (fd < 0 || fchmod(fd, mode) != 0) {
        return trouble(err, errno, path);
    }
    return ERR_OK;
}

static enum err_code write_link(int parent, const char *name, const Drover__BulkPart *part,
                                const char *path, struct err *err)
{
    AUTO_FREE char *target = mem_strndup((const char *)part->data.data, part->data.len);
    struct stat stat;
    if (fstatat(parent, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(stat.st_mode)) {
        unlinkat(parent, name, 0); /* it came before */
    }
    return symlinkat(target, parent, name) == 0 ? ERR_OK : trouble(err, errno, path);
}

static enum err_code keep_file(struct treewrite *writer, int parent, const char *name,
                               const Drover__BulkPart *part, char *path, struct err *err)
{
    char *base_name = NULL;
    AUTO_CLOSE int base = writer->base < 0 ? -1 : open_parent(writer->base, path, &base_name);
    struct stat stat;
    if (base < 0 || fstatat(base, base_name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(stat.st_mode) || (uint64_t)stat.st_size != part->size) {
        return err_set(err, ERR_STALE, "%.200s: is not in the checkpoint before", path);
    }
    struct stat there;
    if (fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        bool is_same = there.st_ino == stat.st_ino && there.st_dev == stat.st_dev;
        return is_same ? ERR_OK : trouble(err, EEXIST, path);
    }
    return linkat(base, base_name, parent, name, 0) == 0 ? ERR_OK : trouble(err, errno, path);
}

static enum err_code open_file(struct treewrite *writer, int parent, const char *name,
                               const char *path, struct err *err)
{
    if (writer->file_fd >= 0 && strcmp(str_text(&writer->file), path) == 0) {
        return ERR_OK;
    }
    close_fd(&writer->file_fd);
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    writer->file_fd = openat(parent, name, flags, 0600);
    if (writer->file_fd < 0) {
        return trouble(err, errno, path);
    }
    struct stat stat;
    if (fstat(writer->file_fd, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_nlink != 1) {
        close_fd(&writer->file_fd); /* one that was kept is another checkpoint's, too */
        return trouble(err, EEXIST, path);
    }
    str_clear(&writer->file);
    str_add(&writer->file, path);
    return ERR_OK;
}

static enum err_code write_bytes(int fd, const Drover__BulkPart *part, const char *path,
                                 struct err *err)
{
    size_t done = 0;
    while (done < part->data.len) {
        ssize_t count =
            pwrite(fd, part->data.data + done, part->data.len - done, (off_t)(part->offset + done));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return err_errno(err, errno, "%.200s", path);
        }
        done += (size_t)count;
    }
    return ERR_OK;
}

static enum err_code finish_file(int fd, const Drover__BulkPart *part, const char *path,
                                 struct err *err)
{
    int64_t seconds = part->mtime_ns / 1000000000;
    int64_t rest = part->mtime_ns % 1000000000;
    struct timespec time = {.tv_sec = rest < 0 ? seconds - 1 : seconds,
                            .tv_nsec = rest < 0 ? rest + 1000000000 : rest};
    struct timespec times[2] = {time, time};
    if (ftruncate(fd, (off_t)part->size) != 0 ||
        fchmod(fd, (mode_t)((part->mode & 0755) | 0600)) != 0 || futimens(fd, times) != 0) {
        return err_errno(err, errno, "%.200s", path);
    }
    return ERR_OK;
}

static enum err_code write_file(struct treewrite *writer, int parent, const char *name,
                                const Drover__BulkPart *part, char *path, struct err *err)
{
    enum err_code code = open_file(writer, parent, name, path, err);
    if (code == ERR_OK) {
        code = write_bytes(writer->file_fd, part, path, err);
    }
    if (code == ERR_OK && part->offset + part->data.len == part->size) {
        code = finish_file(writer->file_fd, part, path, err);
        close_fd(&writer->file_fd);
    }
    return code;
}

enum err_code treewrite_part(struct treewrite *writer, const Drover__BulkPart *part,
                             struct err *err)
{
    CHECK(part->path.len > 0);
    AUTO_FREE char *path = mem_strndup((const char *)part->path.data, part->path.len);
    char *name = NULL;
    int parent = find_parent(writer, path, &name);
    if (parent < 0) {
        return trouble(err, errno, path);
    }
    switch (part->type) {
    case DROVER__BULK_TYPE__BULK_TYPE_FOLDER:
        return write_folder(parent, name, part, path, err);
    case DROVER__BULK_TYPE__BULK_TYPE_LINK:
        return write_link(parent, name, part, path, err);
    case DROVER__BULK_TYPE__BULK_TYPE_FILE:
        return part->keep ? keep_file(writer, parent, name, part, path, err)
                          : write_file(writer, parent, name, part, path, err);
    case DROVER__BULK_TYPE__BULK_TYPE_NONE:
    case _DROVER__BULK_TYPE_IS_INT_SIZE:
    default:
        return err_set(err, ERR_INVALID, "%.200s: of no kind", path);
    }
}

/* --- whole trees ----------------------------------------------------------------------------- */

static enum err_code make_parents(const char *path, struct err *err)
{
    AUTO_FREE char *copy = mem_strdup(path);
    char *slash = strrchr(copy, '/');
    CHECK(slash);
    *slash = '\0';
    return io_make_dirs(copy, err);
}

static void add_old(struct str *out, const char *to)
{
    str_addf(out, "%s.old", to);
}

static enum err_code exchange_slowly(const char *from, const char *to, struct err *err)
{
    AUTO_STR struct str old = {0};
    add_old(&old, to);
    enum err_code code = io_remove_tree(str_text(&old), err);
    if (code != ERR_OK) {
        return code;
    }
    if (rename(to, str_text(&old)) != 0 || rename(from, to) != 0 ||
        rename(str_text(&old), from) != 0) {
        int why = errno;
        treewrite_mend(to);
        return err_errno(err, why, "%s", to);
    }
    return ERR_OK;
}

enum err_code treewrite_replace(const char *from, const char *to, struct err *err)
{
    enum err_code code = make_parents(to, err);
    if (code != ERR_OK) {
        return code;
    }
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        return ERR_OK;
    }
    if (errno == EEXIST) {
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
            return ERR_OK;
        }
        return errno == EINVAL || errno == EXDEV || errno == ENOSYS
                   ? exchange_slowly(from, to, err)
                   : err_errno(err, errno, "%s", to);
    }
    struct stat stat;
    if (errno == EINVAL || errno == ENOSYS) { /* no flags here at all */
        if (lstat(to, &stat) == 0) {
            return exchange_slowly(from, to, err);
        }
        if (rename(from, to) == 0) {
            return ERR_OK;
        }
    }
    return err_errno(err, errno, "%s", to);
}

void treewrite_mend(const char *to)
{
    AUTO_STR struct str old = {0};
    add_old(&old, to);
    struct stat stat;
    if (lstat(to, &stat) != 0 && errno == ENOENT) {
        rename(str_text(&old), to);
    }
}

static bool remove_at(int parent, const char *name, size_t *budget, int depth);

static bool remove_below(int fd, size_t *budget, int depth)
{
    DIR *dir = fdopendir(fd); /* takes fd over */
    if (!dir) {
        close(fd);
        return false;
    }
    bool all = true;
    for (struct dirent *entry = readdir(dir); entry && *budget > 0; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            all = remove_at(dirfd(dir), entry->d_name, budget, depth + 1) && all;
        }
    }
    closedir(dir);
    return all && *budget > 0;
}

static bool remove_at(int parent, const char *name, size_t *budget, int depth)
{
    if (unlinkat(parent, name, 0) == 0) {
        *budget -= *budget > 0;
        return true;
    }
    if (errno == ENOENT) {
        return true;
    }
    if ((errno != EISDIR && errno != EPERM) || depth > 2 * BULK_PATH_DEPTH_MAX) {
        *budget -= *budget > 0;
        return false;
    }
    int fd = openat(parent, name, FOLDER_FLAGS);
    if (fd < 0 || !remove_below(fd, budget, depth)) {
        *budget -= *budget > 0;
        return false;
    }
    *budget -= *budget > 0;
    return unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

bool treewrite_remove_some(const char *path, size_t *budget)
{
    return remove_at(AT_FDCWD, path, budget, 0);
}
