/* The directory driver: opening, its loop, and what only reads or deletes. */
#include "object/object_directory.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    SLICE_MS = 10,                  /* of run; then the caller's loop has its turn */
    GROUP_BYTES = 32 * 1024 * 1024, /* a group of PUTs is closed when it has so many */
    READ_STEP = 1024 * 1024 * 1024, /* of one pread */
};

enum err_code directory_fail(struct object_call *call, int errno_value, const char *what)
{
    enum err_code code = ERR_IO;
    switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
        code = ERR_QUOTA;
        break;
    case EACCES:
    case EPERM:
    case EROFS:
        code = ERR_DENIED;
        break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case EINTR:
        code = ERR_AGAIN;
        break;
    default:
        break;
    }
    char text[128];
    return object_call_fail(call, code, "%s: %s", what, strerror_r(errno_value, text, sizeof text));
}

void directory_set_etag(char etag[OBJECT_ETAG_MAX], const struct stat *st)
{
    snprintf(etag, OBJECT_ETAG_MAX, "%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%09ld",
             (uint64_t)st->st_ino, (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
             (long)st->st_mtim.tv_nsec);
}

/* -- GET and HEAD ----------------------------------------------------------------------------- */

static enum err_code read_body(struct object_call *call, int fd, uint64_t size)
{
    struct str *body = &call->body;
    while (body->size < size) {
        size_t left = (size_t)size - body->size;
        ssize_t got = pread(fd, body->text + body->size, left < READ_STEP ? left : READ_STEP,
                            (off_t)(call->offset + body->size));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return directory_fail(call, errno, "reading it");
        }
        if (got == 0) {
            return object_call_fail(call, ERR_CORRUPT, "the file was cut short");
        }
        body->size += (size_t)got;
    }
    body->text[body->size] = '\0';
    return ERR_OK;
}

static void get_from(struct object_call *call, int fd)
{
    struct stat st;
    uint64_t size = 0;
    if (fstat(fd, &st) != 0) {
        directory_fail(call, errno, "looking at it");
    } else if (!S_ISREG(st.st_mode)) {
        object_call_fail(call, ERR_NOT_FOUND, "no such object, but something else there");
    } else if (call->verb == OBJECT_HEAD ||
               (object_call_range(call, (uint64_t)st.st_size, &size) &&
                object_call_reserve(call, size) && read_body(call, fd, size) == ERR_OK)) {
        call->object_size = (uint64_t)st.st_size;
        directory_set_etag(call->etag, &st);
    }
    if (call->code != ERR_OK) {
        str_release(&call->body);
    }
}

static void directory_get(struct directory *directory, struct object_call *call)
{
    AUTO_STR struct str path = {0};
    directory_add_path(&path, call->key);
    /* Not waiting for a writer, should it be a pipe. */
    AUTO_CLOSE int fd = openat(directory->root, str_text(&path),
                               O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        get_from(call, fd);
    } else if (errno == ENOENT || errno == ENOTDIR) {
        object_call_fail(call, ERR_NOT_FOUND, "no such object");
    } else {
        directory_fail(call, errno, "opening it");
    }
}

/* -- DELETE ----------------------------------------------------------------------------------- */

/* Makes deletes in the folder durable, then removes it and those above it that are empty now. */
static enum err_code leave_folder(struct directory *directory, struct str *path,
                                  struct object_call *call)
{
    AUTO_CLOSE int fd = openat(directory->root, path->size ? str_text(path) : ".",
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR) {
        return directory_fail(call, errno, "opening its folder");
    }
    if (fd >= 0 && fsync(fd) != 0) {
        return directory_fail(call, errno, "syncing its folder");
    }
    while (fd >= 0 && path->size > 0 &&
           unlinkat(directory->root, str_text(path), AT_REMOVEDIR) == 0) {
        path->text[path->size - 1] = '\0'; /* the slash */
        const char *slash = strrchr(path->text, '/');
        path->size = slash ? (size_t)(slash + 1 - path->text) : 0;
        path->text[path->size] = '\0';
    }
    return ERR_OK;
}

static enum err_code delete_one(struct directory *directory, const char *path,
                                struct object_call *call)
{
    enum err_code code = directory_lock(directory, LOCK_SH, call);
    if (code != ERR_OK) {
        return code;
    }
    if (unlinkat(directory->root, path, 0) != 0 && errno != ENOENT && errno != ENOTDIR) {
        code = directory_fail(call, errno, "deleting it");
    }
    directory_unlock(directory);
    return code;
}

void directory_delete(struct directory *directory, struct object_call *call)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str folder = {0}; /* of the key before */
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < call->key_count && code == ERR_OK; i++) {
        str_clear(&path);
        directory_add_path(&path, call->keys[i]);
        const char *slash = strrchr(path.text, '/');
        size_t folder_size = slash ? (size_t)(slash + 1 - path.text) : 0;
        if (i > 0 && (folder_size != folder.size ||
                      memcmp(path.text, str_text(&folder), folder_size) != 0)) {
            code = leave_folder(directory, &folder, call);
        }
        str_clear(&folder);
        str_add_bytes(&folder, path.text, folder_size);
        if (code == ERR_OK) {
            code = delete_one(directory, str_text(&path), call);
        }
    }
    if (code == ERR_OK && call->key_count > 0) {
        (void)leave_folder(directory, &folder, call);
    }
}

/* -- the loop --------------------------------------------------------------------------------- */

static void carry_out(struct directory *directory, struct object_call *call)
{
    switch (call->verb) {
    case OBJECT_GET:
    case OBJECT_HEAD:
        directory_get(directory, call);
        break;
    case OBJECT_PUT:
        directory_put(directory, &call, 1);
        break;
    case OBJECT_DELETE:
        directory_delete(directory, call);
        break;
    case OBJECT_LIST:
        directory_list(directory, call);
        break;
    }
}

/* As many PUTs as stand at the head of the line, together. */
static size_t run_puts(struct directory *directory)
{
    struct object_call *group[DIRECTORY_GROUP_MAX];
    size_t count = 0;
    size_t bytes = 0;
    while (count < DIRECTORY_GROUP_MAX && bytes < GROUP_BYTES && directory->line.first &&
           directory->line.first->verb == OBJECT_PUT) {
        group[count] = object_line_take(&directory->line);
        bytes += group[count]->data_size;
        count++;
    }
    directory_put(directory, group, count);
    for (size_t i = 0; i < count; i++) {
        object_stats_count(&directory->stats, group[i]);
        group[i]->done(group[i]);
    }
    return count;
}

static void directory_start(struct object_store *store, struct object_call *call)
{
    object_line_add(&((struct directory *)store)->line, call);
}

/* Nothing is ever waited for: a call that is in line can be carried out. */
static size_t directory_run(struct object_store *store, int wait_ms)
{
    (void)wait_ms;
    struct directory *directory = (struct directory *)store;
    int64_t until_ms = clock_mono_ms() + SLICE_MS;
    size_t count = 0;
    do {
        if (directory->line.first && directory->line.first->verb == OBJECT_PUT) {
            count += run_puts(directory);
            continue;
        }
        struct object_call *call = object_line_take(&directory->line);
        if (!call) {
            break;
        }
        if (object_call_judge(call)) {
            carry_out(directory, call);
            object_stats_count(&directory->stats, call);
        }
        call->done(call);
        count++;
    } while (count < OBJECT_IN_FLIGHT_MAX && clock_mono_ms() < until_ms);
    return count;
}

static int directory_fd(struct object_store *store)
{
    return ((struct directory *)store)->line.fd;
}

static void directory_stats(const struct object_store *store, struct object_stats *out)
{
    *out = ((const struct directory *)store)->stats;
}

static void directory_close(struct object_store *store)
{
    struct directory *directory = (struct directory *)store;
    object_line_cancel(&directory->line);
    object_line_release(&directory->line);
    directory_tmp_remove(directory);
    directory_close_folders(directory);
    if (directory->lock >= 0) {
        close(directory->lock);
    }
    close(directory->root);
    free(directory);
}

static const struct object_ops ops = {
    .start = directory_start,
    .run = directory_run,
    .fd = directory_fd,
    .stats = directory_stats,
    .close = directory_close,
};

/* -- opening ---------------------------------------------------------------------------------- */

/* Syncs what the folder lies in, up to the top; parents that may not be read are others' to care
 * for. */
static void sync_parents(const char *folder)
{
    AUTO_FREE char *path = mem_strdup(folder);
    for (char *slash = NULL; (slash = strrchr(path, '/'));) {
        *slash = '\0';
        AUTO_CLOSE int fd = open(path[0] ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            (void)fsync(fd);
        }
    }
}

static enum err_code create_folder(const char *folder, struct err *err)
{
    enum err_code code = io_make_dirs(folder, err);
    if (code == ERR_OK && chmod(folder, 0700) != 0) {
        code = err_errno(err, errno, "%s", folder);
    }
    if (code == ERR_OK) {
        sync_parents(folder);
    }
    return code;
}

enum err_code object_directory_open(const char *folder, bool create, struct object_store **out,
                                    struct err *err)
{
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 && errno == ENOENT && create) {
        enum err_code code = create_folder(folder, err);
        if (code != ERR_OK) {
            return code;
        }
        root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (root < 0) {
        return err_errno(err, errno, "%s", folder);
    }
    struct directory *directory = mem_alloc(sizeof *directory);
    directory->store.ops = &ops;
    directory->root = root;
    directory->lock = -1;
    directory->tmp = -1;
    for (size_t i = 0; i < DIRECTORY_FOLDERS_MAX; i++) {
        directory->folders[i].fd = -1;
    }
    enum err_code code = object_line_init(&directory->line, err);
    if (code != ERR_OK) {
        close(root);
        free(directory);
        return code;
    }
    directory_tmp_clean(root);
    *out = &directory->store;
    return ERR_OK;
}
