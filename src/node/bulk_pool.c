#include "node/bulk_pool.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "wire/bulk.h"
#include "wire/treewrite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_TIME_S = 1000000000, /* of every file; any later write changes it */
    NAME_CHARS = SHA256_HEX_CHARS + 1,
    VERSIONS_MAX = 1000,
};

struct bulk_pool {
    char *folder;
    int fd;      /* of folder */
    int objects; /* and of what is in it */
    int tmp;
    bool has_shard[256]; /* objects/AB was made */
};

static int open_folder(int parent, const char *name)
{
    if (mkdirat(parent, name, 0755) != 0 && errno != EEXIST) {
        return -1;
    }
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

enum err_code bulk_pool_open(const char *folder, struct bulk_pool **out, struct err *err)
{
    enum err_code code = io_make_dirs(folder, err);
    AUTO_STR struct str tmp = {0};
    str_addf(&tmp, "%s/tmp", folder);
    if (code == ERR_OK) {
        code = io_remove_tree(str_text(&tmp), err);
    }
    if (code != ERR_OK) {
        return code;
    }
    struct bulk_pool *pool = mem_alloc(sizeof *pool);
    pool->folder = mem_strdup(folder);
    pool->objects = -1;
    pool->tmp = -1;
    pool->fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool->fd >= 0) {
        pool->objects = open_folder(pool->fd, "objects");
        pool->tmp = open_folder(pool->fd, "tmp");
    }
    if (pool->fd < 0 || pool->objects < 0 || pool->tmp < 0) {
        code = err_errno(err, errno, "%s", folder);
        bulk_pool_close(pool);
        return code;
    }
    *out = pool;
    return ERR_OK;
}

void bulk_pool_close(struct bulk_pool *pool)
{
    if (pool) {
        mem_auto_close(&pool->fd);
        mem_auto_close(&pool->objects);
        mem_auto_close(&pool->tmp);
        free(pool->folder);
        free(pool);
    }
}

void bulk_pool_add_path(const struct bulk_pool *pool, struct str *out, const char *version)
{
    str_addf(out, "%s/%s", pool->folder, version);
}

/* "AB/ID" or "AB/IDx"; the part after the slash names it in tmp. */
static void name_object(const struct manifest_entry *file, char out[NAME_CHARS + 4])
{
    uint8_t id[SHA256_BYTES];
    char hex[SHA256_HEX_CHARS + 1];
    manifest_file_id(file, id);
    sha256_hex(id, hex);
    snprintf(out, NAME_CHARS + 4, "%.2s/%s%s", hex, hex, file->is_executable ? "x" : "");
}

static bool is_intact(const struct stat *stat, const struct manifest_entry *file)
{
    return S_ISREG(stat->st_mode) && (uint64_t)stat->st_size == file->size &&
           stat->st_mtim.tv_sec == FILE_TIME_S && stat->st_mtim.tv_nsec == 0 &&
           (stat->st_mode & 0777) == (file->is_executable ? 0555 : 0444);
}

bool bulk_pool_has(struct bulk_pool *pool, const struct manifest_entry *file)
{
    if (file->size == 0) {
        return true;
    }
    char name[NAME_CHARS + 4];
    name_object(file, name);
    struct stat stat;
    if (fstatat(pool->objects, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    if (!is_intact(&stat, file)) {
        unlinkat(pool->objects, name, 0);
        return false;
    }
    return true;
}

enum err_code bulk_pool_put(struct bulk_pool *pool, const struct manifest_entry *file, size_t chunk,
                            const void *bytes, struct err *err)
{
    char name[NAME_CHARS + 4];
    name_object(file, name);
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    AUTO_CLOSE int fd = openat(pool->tmp, name + 3, flags, 0600);
    if (fd < 0) {
        return err_errno(err, errno, "%s/tmp", pool->folder);
    }
    size_t size = manifest_chunk_size(file, chunk);
    size_t done = 0;
    while (done < size) {
        ssize_t count = pwrite(fd, (const char *)bytes + done, size - done,
                               (off_t)(chunk * (size_t)CODE_CHUNK_BYTES + done));
        if (count < 0 && errno != EINTR) {
            return err_errno(err, errno, "%s/tmp", pool->folder);
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return ERR_OK;
}

static bool seal(int fd, bool is_executable)
{
    struct timespec times[2] = {{.tv_sec = FILE_TIME_S}, {.tv_sec = FILE_TIME_S}};
    return fchmod(fd, is_executable ? 0555 : 0444) == 0 && futimens(fd, times) == 0;
}

enum err_code bulk_pool_finish(struct bulk_pool *pool, const struct manifest_entry *file,
                               struct err *err)
{
    char name[NAME_CHARS + 4];
    name_object(file, name);
    AUTO_CLOSE int fd = openat(pool->tmp, name + 3, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char shard[3] = {name[0], name[1], '\0'};
    unsigned long index = strtoul(shard, NULL, 16);
    if (!pool->has_shard[index] && mkdirat(pool->objects, shard, 0755) != 0 && errno != EEXIST) {
        return err_errno(err, errno, "%s/objects", pool->folder);
    }
    pool->has_shard[index] = true;
    if (fd < 0 || !seal(fd, file->is_executable) ||
        renameat(pool->tmp, name + 3, pool->objects, name) != 0) {
        return err_errno(err, errno, "%s/objects", pool->folder);
    }
    return ERR_OK;
}

void bulk_pool_read(struct bulk_pool *pool, const struct manifest_entry *file, size_t chunk,
                    void *bytes, size_t *size)
{
    *size = 0;
    if (file->size == 0 || !bulk_pool_has(pool, file)) {
        return;
    }
    char name[NAME_CHARS + 4];
    name_object(file, name);
    AUTO_CLOSE int fd = openat(pool->objects, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    size_t wanted = manifest_chunk_size(file, chunk);
    ssize_t count =
        fd < 0 ? -1 : pread(fd, bytes, wanted, (off_t)(chunk * (size_t)CODE_CHUNK_BYTES));
    *size = count == (ssize_t)wanted ? wanted : 0;
}

/* --- trees ----------------------------------------------------------------------------------- */

/* A tree being made or looked at; neighbours share a folder, which stays open. */
struct tree {
    struct bulk_pool *pool;
    int root;
    int parent;
    struct str parent_path;
    bool makes; /* missing folders */
};

static void tree_release(struct tree *tree)
{
    mem_auto_close(&tree->parent);
    mem_auto_close(&tree->root);
    str_release(&tree->parent_path);
}

static int step_into(const struct tree *tree, int fd, const char *name)
{
    int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && tree->makes) {
        if (errno == ENOTDIR || errno == ELOOP) {
            unlinkat(fd, name, 0); /* some task put it there */
        }
        next = open_folder(fd, name);
    }
    return next;
}

/* The folder that path is in; -1: it is not there, or errno. */
static int tree_parent(struct tree *tree, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    if (tree->parent >= 0 && tree->parent_path.size == size &&
        memcmp(str_text(&tree->parent_path), path, size) == 0) {
        return tree->parent;
    }
    mem_auto_close(&tree->parent);
    str_clear(&tree->parent_path);
    str_add_bytes(&tree->parent_path, path, size);
    AUTO_FREE char *copy = mem_strndup(path, size);
    int fd = fcntl(tree->root, F_DUPFD_CLOEXEC, 0);
    char *rest = copy;
    for (char *part = strsep(&rest, "/"); fd >= 0 && size > 0 && part; part = strsep(&rest, "/")) {
        int next = step_into(tree, fd, part);
        close(fd);
        fd = next;
    }
    tree->parent = fd;
    return fd;
}

static bool entry_is_good(struct tree *tree, const struct manifest_entry *entry)
{
    const char *name = NULL;
    int parent = tree_parent(tree, entry->path, &name);
    struct stat stat;
    if (parent < 0 || fstatat(parent, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    switch (entry->type) {
    case MANIFEST_FILE:
        return is_intact(&stat, entry);
    case MANIFEST_FOLDER:
        return S_ISDIR(stat.st_mode);
    case MANIFEST_LINK:
        break;
    }
    char target[BULK_LINK_BYTES_MAX + 1];
    ssize_t size = S_ISLNK(stat.st_mode) ? readlinkat(parent, name, target, sizeof target) : -1;
    return size == (ssize_t)strlen(entry->target) &&
           memcmp(target, entry->target, (size_t)size) == 0;
}

/* A file that has too many names already, or a pool on another device: another copy. */
static bool copy_object(struct tree *tree, const char *object, int parent, const char *name,
                        bool is_executable)
{
    AUTO_CLOSE int from = openat(tree->pool->objects, object, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    AUTO_CLOSE int to = from < 0 ? -1 : openat(parent, name, flags, 0600);
    ssize_t count = to < 0 ? -1 : 1;
    while (count > 0) {
        count = copy_file_range(from, NULL, to, NULL, CODE_CHUNK_BYTES, 0);
    }
    return count == 0 && seal(to, is_executable);
}

static bool make_file(struct tree *tree, const struct manifest_entry *entry, int parent,
                      const char *name)
{
    if (entry->size == 0) {
        int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        AUTO_CLOSE int fd = openat(parent, name, flags, 0600);
        return fd >= 0 && seal(fd, entry->is_executable);
    }
    char object[NAME_CHARS + 4];
    name_object(entry, object);
    if (linkat(tree->pool->objects, object, parent, name, 0) == 0) {
        return true;
    }
    return errno == EMLINK && copy_object(tree, object, parent, name, entry->is_executable);
}

static bool make_entry(struct tree *tree, const struct manifest_entry *entry)
{
    const char *name = NULL;
    int parent = tree_parent(tree, entry->path, &name);
    if (parent < 0) {
        return false;
    }
    switch (entry->type) {
    case MANIFEST_FILE:
        return make_file(tree, entry, parent, name);
    case MANIFEST_LINK:
        return symlinkat(entry->target, parent, name) == 0;
    case MANIFEST_FOLDER:
        return mkdirat(parent, name, 0755) == 0 || errno == EEXIST;
    }
    return false;
}

static void clear_entry(struct tree *tree, const struct manifest_entry *entry)
{
    const char *name = NULL;
    int parent = tree_parent(tree, entry->path, &name);
    if (parent >= 0 && unlinkat(parent, name, 0) != 0 && errno == EISDIR &&
        entry->type != MANIFEST_FOLDER) {
        AUTO_STR struct str path = {0};
        str_addf(&path, "/proc/self/fd/%d/%s", parent, name);
        if (io_remove_tree(str_text(&path), NULL) != ERR_OK) {
            return; /* making the entry fails, and says so */
        }
    }
}

static enum err_code fill_tree(struct bulk_pool *pool, const char *path, bool is_mended,
                               const struct manifest *manifest, struct err *err)
{
    struct tree tree = {.pool = pool, .parent = -1, .makes = true};
    tree.root = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum err_code code = tree.root >= 0 ? ERR_OK : err_errno(err, errno, "%s", path);
    for (size_t i = 0; i < manifest->count && code == ERR_OK; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        if (is_mended && entry_is_good(&tree, entry)) {
            continue;
        }
        if (is_mended) {
            clear_entry(&tree, entry);
        }
        if (!make_entry(&tree, entry)) {
            int why = errno;
            code = why == ENOENT ? err_set(err, ERR_AGAIN, "%s: has gone", entry->path)
                                 : err_errno(err, why, "%s", entry->path);
        }
    }
    tree_release(&tree);
    return code;
}

static void add_manifest(const struct bulk_pool *pool, struct str *out, const char *version)
{
    str_addf(out, "%s/%s.manifest", pool->folder, version);
}

static bool is_folder(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode);
}

enum err_code bulk_pool_unpack(struct bulk_pool *pool, const char *version, const struct str *text,
                               const struct manifest *manifest, struct err *err)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str tmp = {0};
    AUTO_STR struct str file = {0};
    bulk_pool_add_path(pool, &path, version);
    str_addf(&tmp, "%s/tmp/%s", pool->folder, version);
    add_manifest(pool, &file, version);
    enum err_code code = io_replace_file(str_text(&file), text->text, text->size, 0644, err);
    if (code != ERR_OK) {
        return code;
    }
    if (is_folder(str_text(&path))) {
        return fill_tree(pool, str_text(&path), true, manifest, err);
    }
    code = io_remove_tree(str_text(&tmp), err);
    if (code == ERR_OK) {
        code = io_make_dirs(str_text(&tmp), err);
    }
    if (code == ERR_OK) {
        code = fill_tree(pool, str_text(&tmp), false, manifest, err);
    }
    return code == ERR_OK ? treewrite_replace(str_text(&tmp), str_text(&path), err) : code;
}

enum err_code bulk_pool_manifest(struct bulk_pool *pool, const char *version, struct str *text,
                                 struct manifest **out, struct err *err)
{
    AUTO_STR struct str file = {0};
    add_manifest(pool, &file, version);
    str_clear(text);
    enum err_code code = io_read_file(str_text(&file), MANIFEST_BYTES_MAX, text, err);
    if (code != ERR_OK) {
        return code;
    }
    char hash[SHA256_HEX_CHARS + 1];
    manifest_version(text->text, text->size, hash);
    if (strcmp(hash, version) != 0 || manifest_parse(text->text, text->size, out, err) != ERR_OK) {
        return err_set(err, ERR_CORRUPT, "%s: damaged", str_text(&file));
    }
    return ERR_OK;
}

bool bulk_pool_check(struct bulk_pool *pool, const char *version)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    AUTO_STR struct str file = {0};
    bulk_pool_add_path(pool, &path, version);
    add_manifest(pool, &file, version);
    struct manifest *manifest = NULL;
    if (!is_folder(str_text(&path)) ||
        bulk_pool_manifest(pool, version, &text, &manifest, NULL) != ERR_OK || !manifest) {
        return false;
    }
    utimensat(AT_FDCWD, str_text(&file), NULL, 0);
    struct tree tree = {.pool = pool, .parent = -1};
    tree.root = open(str_text(&path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_good = tree.root >= 0;
    for (size_t i = 0; i < manifest->count && is_good; i++) {
        is_good = entry_is_good(&tree, &manifest->entries[i]);
    }
    tree_release(&tree);
    manifest_destroy(manifest);
    return is_good;
}

/* --- old versions ---------------------------------------------------------------------------- */

struct version {
    char name[SHA256_HEX_CHARS + 1];
    int64_t asked_ms;
};

static int compare_versions(const void *a, const void *b)
{
    const struct version *left = a;
    const struct version *right = b;
    return (left->asked_ms < right->asked_ms) - (left->asked_ms > right->asked_ms);
}

/* Newest first. */
static size_t list_versions(struct bulk_pool *pool, struct version *out, size_t max)
{
    DIR *dir = opendir(pool->folder);
    size_t count = 0;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && count < max;
         entry = readdir(dir)) {
        struct stat stat;
        const char *name = entry->d_name;
        if (strlen(name) != SHA256_HEX_CHARS + strlen(".manifest") ||
            strcmp(name + SHA256_HEX_CHARS, ".manifest") != 0 ||
            fstatat(pool->fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        snprintf(out[count].name, sizeof out[count].name, "%.*s", (int)SHA256_HEX_CHARS, name);
        out[count++].asked_ms =
            (int64_t)stat.st_mtim.tv_sec * 1000 + stat.st_mtim.tv_nsec / 1000000;
    }
    if (dir) {
        closedir(dir);
    }
    qsort(out, count, sizeof *out, compare_versions);
    return count;
}

size_t bulk_pool_list(struct bulk_pool *pool, char (*out)[SHA256_HEX_CHARS + 1], size_t max)
{
    AUTO_FREE struct version *versions = mem_array(VERSIONS_MAX, sizeof *versions);
    size_t count = list_versions(pool, versions, VERSIONS_MAX);
    count = count < max ? count : max;
    for (size_t i = 0; i < count; i++) {
        memcpy(out[i], versions[i].name, sizeof out[i]);
    }
    return count;
}

static bool is_kept(const char *name, char (*kept)[SHA256_HEX_CHARS + 1], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(kept[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The manifest goes last: what is left by a crash is found again. */
static void remove_version(struct bulk_pool *pool, const char *version)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str file = {0};
    bulk_pool_add_path(pool, &path, version);
    add_manifest(pool, &file, version);
    if (io_remove_tree(str_text(&path), NULL) == ERR_OK) {
        unlink(str_text(&file));
    }
}

/* A file with one name is in no tree. */
static void remove_unused(struct bulk_pool *pool)
{
    for (unsigned shard = 0; shard < 256; shard++) {
        char name[3];
        snprintf(name, sizeof name, "%02x", shard);
        int fd = openat(pool->objects, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
            struct stat stat;
            if (fstatat(fd, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(stat.st_mode) && stat.st_nlink == 1) {
                unlinkat(fd, entry->d_name, 0);
            }
        }
        if (dir) {
            closedir(dir);
        }
    }
}

void bulk_pool_expire(struct bulk_pool *pool, char (*kept)[SHA256_HEX_CHARS + 1], size_t kept_count,
                      size_t spare, int64_t age_ms)
{
    AUTO_FREE struct version *versions = mem_array(VERSIONS_MAX, sizeof *versions);
    size_t count = list_versions(pool, versions, VERSIONS_MAX);
    int64_t before_ms = clock_unix_ms() - age_ms;
    size_t unused = 0;
    bool has_removed = false;
    for (size_t i = 0; i < count; i++) {
        if (is_kept(versions[i].name, kept, kept_count)) {
            continue;
        }
        if (++unused > spare && versions[i].asked_ms <= before_ms) {
            remove_version(pool, versions[i].name);
            has_removed = true;
        }
    }
    if (has_removed) {
        remove_unused(pool);
    }
}
