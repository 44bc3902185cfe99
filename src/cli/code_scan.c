#include "cli/code_scan.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/code_ignore.h"
#include "wire/bulk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    IGNORE_BYTES_MAX = 1 << 20,
    INDEX_BYTES_MAX = 64 << 20,
    DEPTH_MAX = BULK_PATH_DEPTH_MAX,
    RACE_NS = 50 * 1000 * 1000, /* file times are that coarse at most */
};

#define INDEX_HEADER "drover-index 1 "

/* --- the index ------------------------------------------------------------------------------- */

struct known {
    const char *path; /* in the text, escaped as in a manifest */
    size_t path_size;
    uint64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    const char *hashes;
    size_t hashes_size;
};

struct index {
    struct str text;
    struct known *items; /* sorted by path */
    size_t count;
    size_t cap;
};

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_known(const void *a, const void *b)
{
    const struct known *left = a;
    const struct known *right = b;
    return compare_bytes(left->path, left->path_size, right->path, right->path_size);
}

/* "SIZE MTIME CTIME INODE HASHES PATH" */
static bool parse_known(const char *line, size_t size, struct known *out)
{
    const char *words[6];
    size_t sizes[6];
    size_t count = 0;
    const char *end = line + size;
    while (count < 6 && line < end) {
        const char *space = count < 5 ? memchr(line, ' ', (size_t)(end - line)) : NULL;
        const char *stop = space ? space : end;
        words[count] = line;
        sizes[count++] = (size_t)(stop - line);
        line = stop + 1;
    }
    if (count < 6 || sizes[5] == 0) {
        return false;
    }
    *out = (struct known){.size = strtoull(words[0], NULL, 10),
                          .mtime_ns = strtoll(words[1], NULL, 10),
                          .ctime_ns = strtoll(words[2], NULL, 10),
                          .inode = strtoull(words[3], NULL, 10),
                          .hashes = words[4],
                          .hashes_size = sizes[4],
                          .path = words[5],
                          .path_size = sizes[5]};
    return true;
}

/* One that cannot be read, or not in part, only costs time. */
static void index_load(struct index *index, const char *file)
{
    if (!file || io_read_file(file, INDEX_BYTES_MAX, &index->text, NULL) != ERR_OK ||
        strncmp(str_text(&index->text), INDEX_HEADER, strlen(INDEX_HEADER)) != 0) {
        str_clear(&index->text);
        return;
    }
    const char *at = memchr(index->text.text, '\n', index->text.size);
    const char *end = index->text.text + index->text.size;
    while (at && ++at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct known known;
        if (stop && parse_known(at, (size_t)(stop - at), &known)) {
            VEC_PUSH(index->items, index->count, index->cap) = known;
        }
        at = stop;
    }
    if (index->count > 1) {
        qsort(index->items, index->count, sizeof *index->items, compare_known);
    }
}

static void index_release(struct index *index)
{
    str_release(&index->text);
    free(index->items);
}

void code_scan_server(const char *index_file, struct str *out)
{
    struct index index = {0};
    if (io_read_file(index_file, INDEX_BYTES_MAX, &index.text, NULL) == ERR_OK &&
        strncmp(str_text(&index.text), INDEX_HEADER, strlen(INDEX_HEADER)) == 0) {
        const char *server = index.text.text + strlen(INDEX_HEADER);
        str_add_bytes(out, server, strcspn(server, "\n"));
    }
    index_release(&index);
}

static void add_escaped(struct str *out, const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        if (*c == '\n' || *c == '%') {
            str_addf(out, "%%%02X", (unsigned)(unsigned char)*c);
        } else {
            str_add_char(out, *c);
        }
    }
}

static const struct known *index_find(const struct index *index, const char *path, struct str *room)
{
    str_clear(room);
    add_escaped(room, path);
    struct known wanted = {.path = str_text(room), .path_size = room->size};
    return index->count == 0
               ? NULL
               : bsearch(&wanted, index->items, index->count, sizeof *index->items, compare_known);
}

/* --- hashing --------------------------------------------------------------------------------- */

enum err_code code_scan_hash(int fd, uint64_t size, uint8_t (*chunks)[SHA256_BYTES], void *buffer,
                             bool *is_changed, struct err *err)
{
    *is_changed = false;
    uint64_t offset = 0;
    for (size_t i = 0; offset < size; i++) {
        size_t wanted =
            size - offset < CODE_CHUNK_BYTES ? (size_t)(size - offset) : CODE_CHUNK_BYTES;
        size_t got = 0;
        while (got < wanted) {
            ssize_t count = pread(fd, (char *)buffer + got, wanted - got, (off_t)(offset + got));
            if (count < 0 && errno != EINTR) {
                return err_errno(err, errno, "reading");
            }
            if (count == 0) {
                *is_changed = true;
                return ERR_OK;
            }
            got += count > 0 ? (size_t)count : 0;
        }
        sha256_of(buffer, wanted, chunks[i]);
        offset += wanted;
    }
    return ERR_OK;
}

/* --- the walk -------------------------------------------------------------------------------- */

struct walk {
    struct code_scan *scan;
    struct index index;
    struct code_ignore *ignore;
    struct str above; /* path from the repository's folder to ours, with a slash, or "" */
    struct str path;  /* of what is looked at, below our folder */
    struct str room;
    void *buffer; /* for hashing; NULL until needed */
    int64_t began_ns;
    struct err *err;
};

static int64_t time_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static bool reuse_hashes(struct walk *walk, struct code_scan_file *file,
                         uint8_t (*chunks)[SHA256_BYTES])
{
    const struct known *known = index_find(&walk->index, file->entry.path, &walk->room);
    size_t count = file->entry.chunk_count;
    if (!known || known->size != file->entry.size || known->mtime_ns != file->mtime_ns ||
        known->ctime_ns != file->ctime_ns || known->inode != file->inode ||
        known->hashes_size != count * (SHA256_HEX_CHARS + 1) - 1) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const char *hex = known->hashes + i * (SHA256_HEX_CHARS + 1);
        if (!manifest_parse_hash(hex, SHA256_HEX_CHARS, chunks[i])) {
            return false;
        }
    }
    return true;
}

static enum err_code hash_file(struct walk *walk, int folder, const char *name,
                               struct code_scan_file *file, uint8_t (*chunks)[SHA256_BYTES])
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    AUTO_CLOSE int fd = openat(folder, name, flags);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0) {
        return err_errno(walk->err, errno, "%s cannot be read", file->entry.path);
    }
    if (!walk->buffer) {
        walk->buffer = mem_alloc(CODE_CHUNK_BYTES);
    }
    bool is_changed = false;
    struct err err = {0};
    enum err_code code =
        code_scan_hash(fd, file->entry.size, chunks, walk->buffer, &is_changed, &err);
    if (code != ERR_OK) {
        return err_set(walk->err, ERR_DENIED, "%s cannot be read: %s", file->entry.path, err.text);
    }
    struct stat after;
    if (is_changed || fstat(fd, &after) != 0 || (uint64_t)after.st_size != file->entry.size ||
        time_ns(&after.st_mtim) != file->mtime_ns) {
        return err_set(walk->err, ERR_AGAIN, "%s changes while it is read", file->entry.path);
    }
    file->is_fresh = true;
    walk->scan->hashed_count++;
    return ERR_OK;
}

static enum err_code take_file(struct walk *walk, int folder, const char *name,
                               const struct stat *stat)
{
    struct code_scan *scan = walk->scan;
    struct code_scan_file file = {
        .entry = {.type = MANIFEST_FILE,
                  .is_executable = (stat->st_mode & 0100) != 0,
                  .size = (uint64_t)stat->st_size,
                  .path = arena_strdup(&scan->arena, str_text(&walk->path))},
        .mtime_ns = time_ns(&stat->st_mtim),
        .ctime_ns = time_ns(&stat->st_ctim),
        .inode = stat->st_ino};
    scan->bytes += file.entry.size;
    if (scan->bytes > (uint64_t)CODE_SCAN_BYTES_MAX) {
        return err_set(walk->err, ERR_QUOTA,
                       "the folder holds more than %" PRId64
                       " MB (at %s): name data and results in .droverignore",
                       CODE_SCAN_BYTES_MAX >> 20, file.entry.path);
    }
    file.entry.chunk_count = (size_t)((file.entry.size + CODE_CHUNK_BYTES - 1) / CODE_CHUNK_BYTES);
    if (file.entry.chunk_count > 0) {
        uint8_t(*chunks)[SHA256_BYTES] =
            arena_alloc(&scan->arena, file.entry.chunk_count * SHA256_BYTES);
        file.entry.chunks = (const uint8_t(*)[SHA256_BYTES])chunks;
        if (!reuse_hashes(walk, &file, chunks)) {
            enum err_code code = hash_file(walk, folder, name, &file, chunks);
            if (code != ERR_OK) {
                return code;
            }
        }
    }
    VEC_PUSH(scan->files, scan->count, scan->cap) = file;
    return ERR_OK;
}

static enum err_code take_link(struct walk *walk, int folder, const char *name)
{
    struct code_scan *scan = walk->scan;
    char target[BULK_LINK_BYTES_MAX + 1];
    ssize_t size = readlinkat(folder, name, target, sizeof target);
    if (size <= 0 || size > BULK_LINK_BYTES_MAX) {
        return err_set(walk->err, ERR_INVALID, "%s: the link cannot be read",
                       str_text(&walk->path));
    }
    VEC_PUSH(scan->files, scan->count, scan->cap) = (struct code_scan_file){
        .entry = {.type = MANIFEST_LINK,
                  .path = arena_strdup(&scan->arena, str_text(&walk->path)),
                  .target = arena_strndup(&scan->arena, target, (size_t)size)}};
    return ERR_OK;
}

static void read_patterns(struct walk *walk, int folder, const char *name, const char *base)
{
    AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) ||
        stat.st_size > IGNORE_BYTES_MAX) {
        return;
    }
    AUTO_FREE char *text = mem_alloc((size_t)stat.st_size + 1);
    ssize_t size = pread(fd, text, (size_t)stat.st_size, 0);
    if (size > 0) {
        code_ignore_add(walk->ignore, base, text, (size_t)size);
    }
}

/* The folder's path as the patterns see it, without a slash at the end. */
static void read_both(struct walk *walk, int folder)
{
    AUTO_STR struct str base = {0};
    str_addf(&base, "%s%s", str_text(&walk->above), str_text(&walk->path));
    if (walk->path.size == 0 && base.size > 0) {
        base.text[--base.size] = '\0';
    }
    read_patterns(walk, folder, ".gitignore", str_text(&base));
    read_patterns(walk, folder, ".droverignore", str_text(&base));
}

static bool is_ignored(struct walk *walk, bool is_folder)
{
    str_clear(&walk->room);
    str_addf(&walk->room, "%s%s", str_text(&walk->above), str_text(&walk->path));
    return code_ignore_matches(walk->ignore, str_text(&walk->room), is_folder);
}

static enum err_code walk_folder(struct walk *walk, int fd, int depth);

/* The state of a server or a run, or the work folder of a node: it has keys and tokens in it, and
 * changes all the time. */
static bool is_drovers_own(int fd)
{
    return faccessat(fd, "lock", F_OK, 0) == 0 &&
           (faccessat(fd, "drover.db", F_OK, 0) == 0 ||
            (faccessat(fd, "node.key", F_OK, 0) == 0 && faccessat(fd, "slots", F_OK, 0) == 0));
}

static enum err_code take_folder(struct walk *walk, int folder, const char *name, int depth)
{
    struct code_scan *scan = walk->scan;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(walk->err, errno, "%s cannot be read", str_text(&walk->path));
    }
    if (is_drovers_own(fd)) {
        close(fd);
        return ERR_OK;
    }
    size_t before = scan->count;
    enum err_code code = walk_folder(walk, fd, depth + 1);
    if (code == ERR_OK && scan->count == before) {
        VEC_PUSH(scan->files, scan->count, scan->cap) = (struct code_scan_file){
            .entry = {.type = MANIFEST_FOLDER,
                      .path = arena_strdup(&scan->arena, str_text(&walk->path))}};
    }
    return code;
}

static enum err_code take(struct walk *walk, int folder, const char *name, int depth)
{
    struct stat stat;
    if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? ERR_OK : err_errno(walk->err, errno, "%s", str_text(&walk->path));
    }
    bool is_folder = S_ISDIR(stat.st_mode);
    if (strcmp(name, ".git") == 0 || is_ignored(walk, is_folder) ||
        !(is_folder || S_ISREG(stat.st_mode) || S_ISLNK(stat.st_mode))) {
        return ERR_OK;
    }
    if (!bulk_path_is_safe(str_text(&walk->path), walk->path.size)) {
        return err_set(walk->err, ERR_INVALID, "%.200s...: the path is too long",
                       str_text(&walk->path));
    }
    if (walk->scan->count >= MANIFEST_ENTRIES_MAX) {
        return err_set(walk->err, ERR_QUOTA,
                       "the folder holds more than %d files (at %s): name data and results in "
                       ".droverignore",
                       MANIFEST_ENTRIES_MAX, str_text(&walk->path));
    }
    if (is_folder) {
        return take_folder(walk, folder, name, depth);
    }
    return S_ISREG(stat.st_mode) ? take_file(walk, folder, name, &stat)
                                 : take_link(walk, folder, name);
}

/* Takes fd over. */
static enum err_code walk_folder(struct walk *walk, int fd, int depth)
{
    DIR *dir = depth < DEPTH_MAX ? fdopendir(fd) : NULL;
    if (!dir) {
        close(fd);
        return err_set(walk->err, ERR_INVALID, "%s: cannot be read, or too deep",
                       str_text(&walk->path));
    }
    size_t mark = code_ignore_mark(walk->ignore);
    size_t path_size = walk->path.size;
    enum err_code code = ERR_OK;
    read_both(walk, fd);
    for (struct dirent *entry = readdir(dir); entry && code == ERR_OK; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (path_size > 0) {
            str_add_char(&walk->path, '/');
        }
        str_add(&walk->path, entry->d_name);
        code = take(walk, fd, entry->d_name, depth);
        walk->path.size = path_size;
        if (walk->path.text) {
            walk->path.text[path_size] = '\0';
        }
    }
    code_ignore_reset(walk->ignore, mark);
    closedir(dir);
    return code;
}

/* The patterns of a repository count for its folders, too: those above ours, from its own down. */
static void read_above(struct walk *walk, const char *folder)
{
    AUTO_FREE char *real = realpath(folder, NULL);
    if (!real) {
        return;
    }
    size_t root_size = 0;
    for (size_t size = strlen(real); size > 0 && root_size == 0; size--) {
        if (real[size] != '/' && real[size] != '\0') {
            continue;
        }
        AUTO_STR struct str git = {0};
        str_add_bytes(&git, real, size);
        str_add(&git, "/.git");
        root_size = access(str_text(&git), F_OK) == 0 ? size : 0;
    }
    if (root_size == 0 || root_size == strlen(real)) {
        return; /* in no repository, or at its top */
    }
    str_addf(&walk->above, "%s/", real + root_size + 1);
    for (size_t size = root_size; size < strlen(real);) {
        AUTO_STR struct str path = {0};
        AUTO_STR struct str base = {0};
        str_add_bytes(&path, real, size);
        if (size > root_size) {
            str_add_bytes(&base, real + root_size + 1, size - root_size - 1);
        }
        AUTO_CLOSE int fd = open(str_text(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            read_patterns(walk, fd, ".gitignore", str_text(&base));
        }
        size += 1 + strcspn(real + size + 1, "/");
    }
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const struct code_scan_file *)a)->entry.path,
                  ((const struct code_scan_file *)b)->entry.path);
}

enum err_code code_scan_open(const char *folder, const char *index_file, struct code_scan **out,
                             struct err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "%s", folder);
    }
    struct code_scan *scan = mem_alloc(sizeof *scan);
    struct walk walk = {.scan = scan, .ignore = code_ignore_create(), .err = err};
    index_load(&walk.index, index_file);
    read_above(&walk, folder);
    enum err_code code = walk_folder(&walk, fd, 0);
    index_release(&walk.index);
    code_ignore_destroy(walk.ignore);
    str_release(&walk.above);
    str_release(&walk.path);
    str_release(&walk.room);
    free(walk.buffer);
    if (code != ERR_OK) {
        code_scan_close(scan);
        return code;
    }
    if (scan->count > 1) {
        qsort(scan->files, scan->count, sizeof *scan->files, compare_files);
    }
    *out = scan;
    return ERR_OK;
}

void code_scan_close(struct code_scan *scan)
{
    if (scan) {
        free(scan->files);
        arena_release(&scan->arena);
        free(scan);
    }
}

void code_scan_save(const struct code_scan *scan, const char *index_file, const char *server)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, INDEX_HEADER "%s\n", server);
    int64_t young_ns = clock_unix_ms() * 1000000 - RACE_NS;
    for (size_t i = 0; i < scan->count; i++) {
        const struct code_scan_file *file = &scan->files[i];
        if (file->entry.chunk_count == 0 || file->mtime_ns >= young_ns ||
            file->ctime_ns >= young_ns) {
            continue;
        }
        str_add_u64(&text, file->entry.size);
        str_add_char(&text, ' ');
        str_add_i64(&text, file->mtime_ns);
        str_add_char(&text, ' ');
        str_add_i64(&text, file->ctime_ns);
        str_add_char(&text, ' ');
        str_add_u64(&text, file->inode);
        for (size_t k = 0; k < file->entry.chunk_count; k++) {
            char hex[SHA256_HEX_CHARS + 1];
            sha256_hex(file->entry.chunks[k], hex);
            str_add_char(&text, k == 0 ? ' ' : ',');
            str_add_bytes(&text, hex, SHA256_HEX_CHARS);
        }
        str_add_char(&text, ' ');
        add_escaped(&text, file->entry.path);
        str_add_char(&text, '\n');
    }
    if (io_replace_file(index_file, text.text, text.size, 0600, NULL) != ERR_OK) {
        return; /* the next time takes longer, that is all */
    }
}
