#include "master/code.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_CHARS = SHA256_HEX_CHARS + 3 }; /* "AB/HASH" */

struct code {
    char *folder;
    int objects;
    int versions;
    int tmp;
    bool has_shard[256];
};

static int open_folder(const char *folder, const char *name)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", folder, name);
    if (io_make_dirs(str_text(&path), NULL) != ERR_OK) {
        return -1;
    }
    return open(str_text(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

enum err_code code_open(const char *folder, struct code **out, struct err *err)
{
    AUTO_STR struct str tmp = {0};
    str_addf(&tmp, "%s/tmp", folder);
    enum err_code result = io_remove_tree(str_text(&tmp), err);
    if (result != ERR_OK) {
        return result;
    }
    struct code *code = mem_alloc(sizeof *code);
    code->folder = mem_strdup(folder);
    code->objects = open_folder(folder, "objects");
    code->versions = open_folder(folder, "versions");
    code->tmp = open_folder(folder, "tmp");
    if (code->objects < 0 || code->versions < 0 || code->tmp < 0) {
        result = err_errno(err, errno, "%s", folder);
        code_close(code);
        return result;
    }
    *out = code;
    return ERR_OK;
}

void code_close(struct code *code)
{
    if (code) {
        mem_auto_close(&code->objects);
        mem_auto_close(&code->versions);
        mem_auto_close(&code->tmp);
        free(code->folder);
        free(code);
    }
}

static void name_object(const uint8_t hash[SHA256_BYTES], char out[NAME_CHARS + 1])
{
    char hex[SHA256_HEX_CHARS + 1];
    sha256_hex(hash, hex);
    snprintf(out, NAME_CHARS + 1, "%.2s/%s", hex, hex);
}

bool code_has(struct code *code, const uint8_t hash[SHA256_BYTES])
{
    char name[NAME_CHARS + 1];
    name_object(hash, name);
    return faccessat(code->objects, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static enum err_code store(struct code *code, const char *tmp_name, int folder, const char *name,
                           const struct str *bytes, struct err *err)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    AUTO_CLOSE int fd = openat(code->tmp, tmp_name, flags, 0444);
    enum err_code result = fd < 0 ? err_errno(err, errno, "%s/tmp", code->folder)
                                  : io_write_all(fd, bytes->text, bytes->size, err);
    if (result == ERR_OK && renameat(code->tmp, tmp_name, folder, name) != 0) {
        result = err_errno(err, errno, "%s/%s", code->folder, name);
    }
    if (result != ERR_OK) {
        unlinkat(code->tmp, tmp_name, 0);
    }
    return result;
}

enum err_code code_put(struct code *code, const uint8_t hash[SHA256_BYTES], const void *bytes,
                       size_t size, struct err *err)
{
    uint8_t actual[SHA256_BYTES];
    if (size == 0 || size > CODE_CHUNK_BYTES) {
        return err_set(err, ERR_INVALID, "an object has 1 to %d bytes", CODE_CHUNK_BYTES);
    }
    sha256_of(bytes, size, actual);
    char name[NAME_CHARS + 1];
    name_object(hash, name);
    if (memcmp(actual, hash, SHA256_BYTES) != 0) {
        return err_set(err, ERR_INVALID, "object %.12s...: its bytes have another hash", name + 3);
    }
    if (code_has(code, hash)) {
        return ERR_OK;
    }
    char shard[3] = {name[0], name[1], '\0'};
    if (!code->has_shard[hash[0]] && mkdirat(code->objects, shard, 0755) != 0 && errno != EEXIST) {
        return err_errno(err, errno, "%s/objects", code->folder);
    }
    code->has_shard[hash[0]] = true;
    struct str view = {.text = (char *)(uintptr_t)bytes, .size = size};
    return store(code, name + 3, code->objects, name, &view, err);
}

enum err_code code_open_object(struct code *code, const uint8_t hash[SHA256_BYTES], int *fd,
                               size_t *size, struct err *err)
{
    char name[NAME_CHARS + 1];
    struct stat stat;
    name_object(hash, name);
    *fd = openat(code->objects, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &stat) != 0 || stat.st_size > CODE_CHUNK_BYTES) {
        mem_auto_close(fd);
        *fd = -1;
        return err_set(err, ERR_NOT_FOUND, "object %s is not in the store", name + 3);
    }
    *size = (size_t)stat.st_size;
    return ERR_OK;
}

/* --- versions -------------------------------------------------------------------------------- */

static void list_missing(struct code *code, const struct manifest *manifest, struct str *missing)
{
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        for (size_t k = 0; k < entry->chunk_count; k++) {
            if (!code_has(code, entry->chunks[k])) {
                char hex[SHA256_HEX_CHARS + 1];
                sha256_hex(entry->chunks[k], hex);
                str_addf(missing, "%s\n", hex);
            }
        }
    }
}

enum err_code code_put_version(struct code *code, const char *text, size_t size,
                               struct manifest **out, struct str *missing, struct err *err)
{
    struct manifest *manifest = NULL;
    enum err_code result = manifest_parse(text, size, &manifest, err);
    if (result != ERR_OK) {
        return result;
    }
    list_missing(code, manifest, missing);
    if (missing->size > 0) {
        manifest_destroy(manifest);
        return err_set(err, ERR_NOT_FOUND, "objects of this version are missing");
    }
    char version[SHA256_HEX_CHARS + 1];
    manifest_version(text, size, version);
    struct str view = {.text = (char *)(uintptr_t)text, .size = size};
    result = store(code, version, code->versions, version, &view, err);
    if (result != ERR_OK) {
        manifest_destroy(manifest);
        return result;
    }
    *out = manifest;
    return ERR_OK;
}

static bool is_version(const char *name)
{
    uint8_t ignored[SHA256_BYTES];
    return manifest_parse_hash(name, strlen(name), ignored);
}

enum err_code code_get_version(struct code *code, const char *version, struct str *text,
                               struct err *err)
{
    if (!is_version(version)) {
        return err_set(err, ERR_NOT_FOUND, "no version of code is called that");
    }
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/versions/%s", code->folder, version);
    enum err_code result = io_read_file(str_text(&path), MANIFEST_BYTES_MAX, text, err);
    char hash[SHA256_HEX_CHARS + 1];
    manifest_version(str_text(text), text->size, hash);
    if (result == ERR_OK && strcmp(hash, version) != 0) {
        return err_set(err, ERR_CORRUPT, "%s: damaged", str_text(&path));
    }
    return result;
}

bool code_has_version(const char *folder, const char *version)
{
    AUTO_STR struct str path = {0};
    struct stat stat;
    str_addf(&path, "%s/versions/%s", folder, version);
    return is_version(version) && lstat(str_text(&path), &stat) == 0 && S_ISREG(stat.st_mode);
}

/* --- pruning --------------------------------------------------------------------------------- */

struct hashes {
    uint8_t (*items)[SHA256_BYTES];
    size_t count;
    size_t cap;
};

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, SHA256_BYTES);
}

static void add_hashes(struct code *code, const char *version, struct hashes *used, bool *is_sure)
{
    AUTO_STR struct str text = {0};
    struct manifest *manifest = NULL;
    if (code_get_version(code, version, &text, NULL) != ERR_OK ||
        manifest_parse(text.text, text.size, &manifest, NULL) != ERR_OK) {
        *is_sure = false; /* what it uses is not known, so nothing is unused for sure */
        return;
    }
    for (size_t i = 0; i < manifest->count; i++) {
        for (size_t k = 0; k < manifest->entries[i].chunk_count; k++) {
            used->items = mem_grow(used->items, used->count, &used->cap, sizeof *used->items);
            memcpy(used->items[used->count++], manifest->entries[i].chunks[k], SHA256_BYTES);
        }
    }
    manifest_destroy(manifest);
}

static bool is_old(int folder, const char *name, int64_t before_ms)
{
    struct stat stat;
    return fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(stat.st_mode) &&
           (int64_t)stat.st_mtim.tv_sec * 1000 < before_ms;
}

static bool is_among(const char *name, const char *const *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(kept[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void prune_shard(struct code *code, unsigned shard, const struct hashes *used,
                        int64_t before_ms)
{
    char name[3];
    snprintf(name, sizeof name, "%02x", shard);
    int fd = openat(code->objects, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        uint8_t hash[SHA256_BYTES];
        bool is_object = manifest_parse_hash(entry->d_name, strlen(entry->d_name), hash);
        bool is_used = used->count > 0 && is_object &&
                       bsearch(hash, used->items, used->count, SHA256_BYTES, compare_hashes);
        if (is_object && !is_used && is_old(fd, entry->d_name, before_ms)) {
            unlinkat(fd, entry->d_name, 0);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

void code_prune(struct code *code, const char *const *kept, size_t count, int64_t age_ms)
{
    struct hashes used = {0};
    bool is_sure = true;
    int64_t before_ms = clock_unix_ms() - age_ms;
    int copy = fcntl(code->versions, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        mem_auto_close(&copy);
        return;
    }
    rewinddir(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!is_version(entry->d_name)) {
            continue;
        }
        if (!is_among(entry->d_name, kept, count) &&
            is_old(code->versions, entry->d_name, before_ms)) {
            unlinkat(code->versions, entry->d_name, 0);
        } else {
            add_hashes(code, entry->d_name, &used, &is_sure);
        }
    }
    closedir(dir);
    if (used.count > 1) {
        qsort(used.items, used.count, SHA256_BYTES, compare_hashes);
    }
    for (unsigned shard = 0; shard < 256 && is_sure; shard++) {
        prune_shard(code, shard, &used, before_ms);
    }
    free(used.items);
}
