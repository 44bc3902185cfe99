/* Files into a volume. */
#include "base/clock.h"
#include "base/mem.h"
#include "data/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(struct copy *copy, const char *path, const char *why)
{
    if (copy->note) {
        copy->note(copy->context, &copy->counts, path, why);
    }
}

static struct engine_caller caller_of(uint32_t uid, uint32_t gid)
{
    return (struct engine_caller){uid, gid, clock_unix_ms() * 1000000};
}

/* One file's content. ----------------------------------------------------------------------------
 */

struct content {
    struct extent *extents;
    size_t count, cap;
    uint64_t size;
};

/* Fills the buffer unless the source ends first. */
static int64_t read_full(const struct copy_source *source, uint8_t *buffer, struct err *err)
{
    size_t have = 0;
    while (have < EXTENT_BYTES_MAX) {
        int64_t got = source->read(source->context, buffer + have, EXTENT_BYTES_MAX - have, err);
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    return (int64_t)have;
}

static enum err_code place_content(struct copy *copy, uint64_t inode,
                                   const struct copy_source *source, struct content *content,
                                   struct err *err)
{
    static _Thread_local uint8_t buffer[EXTENT_BYTES_MAX];
    for (;;) {
        int64_t got = read_full(source, buffer, err);
        if (got < 0) {
            return err->code;
        }
        if (got == 0) {
            return ERR_OK;
        }
        tree_breathe(&copy->tree);
        struct extent extent;
        volume_place(copy->tree.volume, inode, content->size, buffer, (size_t)got, false, &extent);
        VEC_PUSH(content->extents, content->count, content->cap) = extent;
        content->size += (uint64_t)got;
        copy->counts.bytes += (uint64_t)got;
        note(copy, NULL, NULL);
        if (got < EXTENT_BYTES_MAX) {
            return ERR_OK;
        }
    }
}

static enum err_code write_content(struct copy *copy, uint64_t inode,
                                   const struct copy_source *source, const struct content *content,
                                   struct err *err)
{
    struct engine_caller caller = caller_of(source->uid, source->gid);
    struct engine_write write = {.inode = inode,
                                 .size = content->size,
                                 .extents = content->extents,
                                 .count = content->count,
                                 .mtime_ns = source->mtime_ns};
    struct engine_attr attr;
    int posix = 0;
    enum err_code code;
    while ((code = engine_write(copy->tree.engine, &caller, &write, &attr, &posix, err)) ==
               ERR_AGAIN &&
           tree_wait(&copy->tree, err)) {
    }
    return code == ERR_INVALID && posix ? err_errno(err, posix, "writing to the volume") : code;
}

/* The inode to write to: the one there, or a new one that nobody sees before it is complete. */
static enum err_code take_inode(struct copy *copy, uint64_t folder, const char *name,
                                const struct copy_source *source, struct engine_attr *attr,
                                struct err *err)
{
    struct engine_caller caller = caller_of(source->uid, source->gid);
    enum err_code code = tree_lookup(&copy->tree, folder, name, attr, err);
    if (code == ERR_OK && !S_ISREG(attr->mode)) {
        return err_set(err, ERR_INVALID, "%s: there is something else of that name", name);
    }
    if (code != ERR_NOT_FOUND) {
        return code;
    }
    struct engine_make make = {
        .folder = folder, .name = name, .mode = S_IFREG | (source->mode & 07777)};
    code = tree_make(&copy->tree, &caller, &make, attr, err);
    if (code == ERR_OK) {
        engine_hold(copy->tree.engine, folder, attr->inode, false);
    }
    return code;
}

enum err_code copy_put_bytes(struct copy *copy, uint64_t folder, const char *name,
                             const struct copy_source *source, struct err *err)
{
    struct content content = {0};
    struct engine_attr attr;
    tree_breathe(&copy->tree); /* also where there are no bytes: metadata is bounded as well */
    enum err_code code = take_inode(copy, folder, name, source, &attr, err);
    if (code != ERR_OK) {
        return code;
    }
    code = place_content(copy, attr.inode, source, &content, err);
    if (code == ERR_OK) {
        code = write_content(copy, attr.inode, source, &content, err);
    }
    volume_written(copy->tree.volume, content.extents, content.count);
    engine_release(copy->tree.engine, attr.inode);
    free(content.extents);
    copy->counts.files += code == ERR_OK;
    return code;
}

/* Trees. -----------------------------------------------------------------------------------------
 */

static int64_t read_fd(void *context, void *buffer, size_t size, struct err *err)
{
    int fd = *(int *)context;
    ssize_t got;
    do {
        got = read(fd, buffer, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        (void)err_errno(err, errno, "reading");
    }
    return got;
}

struct item { /* something of this machine on its way */
    int folder_fd;
    const char *name; /* in folder_fd */
    const char *path; /* for people */
    struct stat stat;
};

static enum err_code put_file(struct copy *copy, const struct item *item, uint64_t folder,
                              const char *name, struct err *err)
{
    struct engine_attr attr;
    enum err_code code = tree_lookup(&copy->tree, folder, name, &attr, err);
    bool is_same = code == ERR_OK && S_ISREG(attr.mode) &&
                   attr.size == (uint64_t)item->stat.st_size &&
                   attr.mtime_ns == clock_ns_of(&item->stat.st_mtim);
    if (is_same) {
        copy->counts.same++;
        copy->counts.same_bytes += attr.size;
        return ERR_OK;
    }
    AUTO_CLOSE int fd = openat(item->folder_fd, item->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_errno(err, errno, "%s", item->path);
    }
    struct copy_source source = {.read = read_fd,
                                 .context = &fd,
                                 .mtime_ns = clock_ns_of(&item->stat.st_mtim),
                                 .mode = item->stat.st_mode & 07777,
                                 .uid = item->stat.st_uid,
                                 .gid = item->stat.st_gid};
    code = copy_put_bytes(copy, folder, name, &source, err);
    if (code != ERR_OK) {
        struct err why = *err;
        return err_set(err, code, "%s: %s", item->path, why.text);
    }
    note(copy, item->path, NULL);
    return ERR_OK;
}

static enum err_code put_link(struct copy *copy, const struct item *item, uint64_t folder,
                              const char *name, struct err *err)
{
    char target[ENGINE_TARGET_MAX + 1];
    ssize_t size = readlinkat(item->folder_fd, item->name, target, sizeof target);
    if (size < 0 || size == (ssize_t)sizeof target) {
        return err_errno(err, size < 0 ? errno : ENAMETOOLONG, "%s", item->path);
    }
    target[size] = '\0';
    AUTO_STR struct str known = {0};
    struct engine_caller caller = caller_of(item->stat.st_uid, item->stat.st_gid);
    struct engine_attr attr;
    enum err_code code = tree_lookup(&copy->tree, folder, name, &attr, err);
    if (code == ERR_OK && S_ISLNK(attr.mode) &&
        tree_readlink(&copy->tree, attr.inode, &known, err) == ERR_OK &&
        strcmp(str_text(&known), target) == 0) {
        copy->counts.same++;
        return ERR_OK;
    }
    if (code == ERR_OK) {
        return err_set(err, ERR_INVALID, "%s: there is something else of that name in the volume",
                       item->path);
    }
    struct engine_make make = {
        .folder = folder, .name = name, .mode = S_IFLNK | 0777, .target = target};
    code = code == ERR_NOT_FOUND ? tree_make(&copy->tree, &caller, &make, &attr, err) : code;
    copy->counts.links += code == ERR_OK;
    return code;
}

static enum err_code put_item(struct copy *copy, const struct item *item, uint64_t folder,
                              const char *name, struct err *err);

/* The contents of a folder of this machine into one of the volume, in byte order of names: the
 * order they are most likely read in again. */
static enum err_code put_contents(struct copy *copy, const struct item *item, uint64_t folder,
                                  struct err *err)
{
    AUTO_CLOSE int fd =
        openat(item->folder_fd, item->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct dirent **names = NULL;
    int count = fd < 0 ? -1 : scandirat(fd, ".", &names, NULL, alphasort);
    if (count < 0) {
        return err_errno(err, errno, "%s", item->path);
    }
    enum err_code code = ERR_OK;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (code == ERR_OK && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            AUTO_STR struct str path = {0};
            str_addf(&path, "%s/%s", item->path, name);
            struct item inner = {.folder_fd = fd, .name = name, .path = str_text(&path)};
            if (fstatat(fd, name, &inner.stat, AT_SYMLINK_NOFOLLOW) == 0) {
                code = put_item(copy, &inner, folder, name, err);
            } else if (errno != ENOENT) { /* gone meanwhile: as if it had never been */
                code = err_errno(err, errno, "%s", inner.path);
            }
        }
        free(names[i]);
    }
    free(names);
    return code;
}

static enum err_code put_folder(struct copy *copy, const struct item *item, uint64_t folder,
                                const char *name, struct err *err)
{
    struct engine_caller caller = caller_of(item->stat.st_uid, item->stat.st_gid);
    struct engine_make make = {
        .folder = folder, .name = name, .mode = S_IFDIR | (item->stat.st_mode & 07777)};
    struct engine_attr attr;
    enum err_code code = tree_lookup(&copy->tree, folder, name, &attr, err);
    if (code == ERR_NOT_FOUND) {
        code = tree_make(&copy->tree, &caller, &make, &attr, err);
        copy->counts.folders += code == ERR_OK;
    } else if (code == ERR_OK && !S_ISDIR(attr.mode)) {
        code = err_set(err, ERR_INVALID, "%s: in the volume that is not a folder", item->path);
    }
    return code == ERR_OK ? put_contents(copy, item, attr.inode, err) : code;
}

static enum err_code put_item(struct copy *copy, const struct item *item, uint64_t folder,
                              const char *name, struct err *err)
{
    switch (item->stat.st_mode & S_IFMT) {
    case S_IFREG:
        return put_file(copy, item, folder, name, err);
    case S_IFDIR:
        return put_folder(copy, item, folder, name, err);
    case S_IFLNK:
        return put_link(copy, item, folder, name, err);
    default:
        copy->counts.odd++;
        note(copy, item->path, "neither a file, a folder nor a symbolic link");
        return ERR_OK;
    }
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A file into `path`: a folder there takes it under its own name. */
static enum err_code put_one(struct copy *copy, const struct item *item, const char *path,
                             struct err *err)
{
    struct engine_caller caller = caller_of(getuid(), getgid());
    struct engine_attr attr;
    bool into = path[strlen(path) - 1] == '/';
    enum err_code code = tree_find(&copy->tree, path, &attr, err);
    if (code == ERR_OK && S_ISDIR(attr.mode)) {
        return put_item(copy, item, attr.inode, last_name(item->name), err);
    }
    if (into) {
        code = tree_make_folders(&copy->tree, &caller, path, &attr, err);
        return code == ERR_OK ? put_item(copy, item, attr.inode, last_name(item->name), err) : code;
    }
    AUTO_FREE char *above = mem_strndup(path, (size_t)(last_name(path) - path));
    code = tree_make_folders(&copy->tree, &caller, above, &attr, err);
    return code == ERR_OK ? put_item(copy, item, attr.inode, last_name(path), err) : code;
}

enum err_code copy_put(struct copy *copy, const char *source, const char *path, struct err *err)
{
    AUTO_FREE char *name = mem_strdup(source);
    for (size_t size = strlen(name); size > 1 && name[size - 1] == '/'; size--) {
        name[size - 1] = '\0';
    }
    struct item item = {.folder_fd = AT_FDCWD, .name = name, .path = name};
    if (stat(name, &item.stat) != 0) {
        return err_errno(err, errno, "%s", name);
    }
    if (!S_ISDIR(item.stat.st_mode)) {
        return put_one(copy, &item, path, err);
    }
    struct engine_caller caller = caller_of(getuid(), getgid());
    struct engine_attr attr;
    enum err_code code = tree_make_folders(&copy->tree, &caller, path, &attr, err);
    AUTO_FREE char *real = realpath(name, NULL); /* the source itself may be a link */
    item.name = real ? real : name;
    return code == ERR_OK ? put_contents(copy, &item, attr.inode, err) : code;
}

/* Measuring. -------------------------------------------------------------------------------------
 */

static void measure_below(int folder_fd, const char *name, uint64_t *files, uint64_t *bytes)
{
    struct stat stat;
    if (fstatat(folder_fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    if (S_ISREG(stat.st_mode)) {
        *files += 1;
        *bytes += (uint64_t)stat.st_size;
    }
    if (!S_ISDIR(stat.st_mode)) {
        return;
    }
    int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            measure_below(fd, entry->d_name, files, bytes);
        }
    }
    closedir(folder);
}

void copy_measure(const char *source, uint64_t *files, uint64_t *bytes)
{
    AUTO_FREE char *real = realpath(source, NULL);
    *files = 0;
    *bytes = 0;
    if (real) {
        measure_below(AT_FDCWD, real, files, bytes);
    }
}
