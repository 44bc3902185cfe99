/* PUT into a directory: a temporary file, synced; then a link or a rename; then its folder, synced.
 */
#include "base/io.h"
#include "base/mem.h"
#include "object/object_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    PLACE_TRIES = 100, /* each time someone else has just removed the folder */
    NS_STEP = 100,     /* the finest that network file systems keep */
};

struct put {
    struct object_call *call;
    int fd; /* of the temporary file; -1: the call has failed */
    char tmp[24];
    struct directory_folder *folder; /* to be synced before the answer */
};

/* -- folders ---------------------------------------------------------------------------------- */

static void forget_folder(struct directory_folder *folder)
{
    if (folder->path) {
        free(folder->path);
        close(folder->fd);
    }
    *folder = (struct directory_folder){.fd = -1};
}

static void forget_folders(struct directory *directory, bool only_failed)
{
    for (size_t i = 0; i < DIRECTORY_FOLDERS_MAX; i++) {
        struct directory_folder *folder = &directory->folders[i];
        if (!only_failed || folder->sync_errno) {
            forget_folder(folder);
        }
    }
}

/* The folder `name` of parent, made if need be; -1: errno says why. Whoever made it, its entry is
 * durable afterwards. */
static int enter_folder(int parent, const char *name)
{
    int fd = -1;
    for (int i = 0; i < PLACE_TRIES && fd < 0; i++) {
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno != ENOENT || (mkdirat(parent, name, 0700) != 0 && errno != EEXIST))) {
            return -1;
        }
    }
    if (fd >= 0 && fsync(parent) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static int open_folder(const struct directory *directory, const char *path)
{
    AUTO_FREE char *copy = mem_strdup(path);
    int fd = fcntl(directory->root, F_DUPFD_CLOEXEC, 0);
    char *rest = NULL;
    for (char *name = strtok_r(copy, "/", &rest); name && fd >= 0;
         name = strtok_r(NULL, "/", &rest)) {
        int next = enter_folder(fd, name);
        int why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    return fd;
}

/* NULL: errno says why. */
static struct directory_folder *find_folder(struct directory *directory, const char *path)
{
    struct directory_folder *oldest = NULL;
    for (size_t i = 0; i < DIRECTORY_FOLDERS_MAX; i++) {
        struct directory_folder *folder = &directory->folders[i];
        if (folder->path && strcmp(folder->path, path) == 0) {
            folder->used = ++directory->clock;
            return folder;
        }
        if (!folder->is_dirty && (!oldest || folder->used < oldest->used)) {
            oldest = folder;
        }
    }
    CHECK(oldest); /* a group has no more calls than there are folders */
    int fd = open_folder(directory, path);
    if (fd < 0) {
        return NULL;
    }
    forget_folder(oldest);
    *oldest =
        (struct directory_folder){.path = mem_strdup(path), .fd = fd, .used = ++directory->clock};
    return oldest;
}

/* -- the temporary file ----------------------------------------------------------------------- */

/* Two objects one after the other may get the same inode, and a coarse clock the same time: the
 * etag lives on a time of our own, later than any we gave. */
static struct timespec next_time(struct directory *directory)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    ns -= ns % NS_STEP;
    if (ns <= directory->newest_ns) {
        ns = directory->newest_ns + NS_STEP;
    }
    directory->newest_ns = ns;
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = ns % 1000000000};
}

static enum err_code write_tmp(struct directory *directory, struct put *put)
{
    struct object_call *call = put->call;
    struct err why = {0};
    enum err_code code =
        io_write_all(put->fd, call->data_size ? call->data : "", call->data_size, &why);
    if (code != ERR_OK) {
        return object_call_fail(call, code == ERR_QUOTA ? code : ERR_IO, "%s", why.text);
    }
    struct timespec time = next_time(directory);
    struct timespec times[2] = {time, time};
    struct stat st;
    if (futimens(put->fd, times) != 0 || fstat(put->fd, &st) != 0) {
        return directory_fail(call, errno, "setting the time");
    }
    if (st.st_mtim.tv_sec != time.tv_sec || st.st_mtim.tv_nsec != time.tv_nsec) {
        return object_call_fail(call, ERR_UNSUPPORTED,
                                "this file system keeps no exact times, and etags need them");
    }
    directory_set_etag(call->etag, &st);
    return ERR_OK;
}

static void drop_tmp(struct directory *directory, struct put *put)
{
    if (put->fd >= 0) {
        unlinkat(directory->tmp, put->tmp, 0); /* a rename has taken it away already */
        close(put->fd);
        put->fd = -1;
    }
}

static enum err_code make_tmp(struct directory *directory, struct put *put)
{
    if (!object_call_judge(put->call)) {
        return put->call->code;
    }
    enum err_code code = directory_tmp_prepare(directory, put->call);
    if (code != ERR_OK) {
        return code;
    }
    snprintf(put->tmp, sizeof put->tmp, "%" PRIu64, directory->tmp_count++);
    put->fd = openat(directory->tmp, put->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (put->fd < 0) {
        return directory_fail(put->call, errno, "making a temporary file");
    }
    return write_tmp(directory, put);
}

/* -- into its place --------------------------------------------------------------------------- */

static enum err_code judge_match(const struct directory_folder *folder, const char *name,
                                 struct object_call *call)
{
    struct stat st;
    if (fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? object_call_fail(call, ERR_NOT_FOUND, "no such object")
                               : directory_fail(call, errno, "looking at what is there");
    }
    char etag[OBJECT_ETAG_MAX];
    directory_set_etag(etag, &st);
    if (strcmp(etag, call->match) != 0) {
        return object_call_fail(call, ERR_STALE, "the object has changed");
    }
    return ERR_OK;
}

/* ERR_OK with *vanished: the folder was removed under us. */
static enum err_code place_in(struct directory *directory, struct put *put, const char *name,
                              bool *vanished)
{
    struct object_call *call = put->call;
    int to = put->folder->fd;
    if (call->condition == OBJECT_IF_ABSENT) { /* alone in being judged by the kernel */
        if (linkat(directory->tmp, put->tmp, to, name, 0) == 0) {
            return ERR_OK;
        }
        *vanished = errno == ENOENT;
        return *vanished         ? ERR_OK
               : errno == EEXIST ? object_call_fail(call, ERR_EXISTS, "there is one already")
                                 : directory_fail(call, errno, "linking it into its place");
    }
    bool compares = call->condition == OBJECT_IF_MATCH;
    enum err_code code = directory_lock(directory, compares ? LOCK_EX : LOCK_SH, call);
    if (code != ERR_OK) {
        return code;
    }
    if (compares) {
        code = judge_match(put->folder, name, call);
    }
    if (code == ERR_OK && renameat(directory->tmp, put->tmp, to, name) != 0) {
        *vanished = errno == ENOENT;
        code = *vanished ? ERR_OK : directory_fail(call, errno, "renaming it into its place");
    }
    directory_unlock(directory);
    return code;
}

static enum err_code place(struct directory *directory, struct put *put)
{
    AUTO_STR struct str path = {0};
    directory_add_path(&path, put->call->key);
    const char *slash = strrchr(path.text, '/');
    size_t folder_size = slash ? (size_t)(slash + 1 - path.text) : 0;
    AUTO_FREE char *folder_path = mem_strndup(path.text, folder_size);
    struct stat st;
    if (put->call->condition == OBJECT_IF_MATCH &&
        fstatat(directory->root, path.text, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
        return object_call_fail(put->call, ERR_NOT_FOUND, "no such object"); /* makes no folder */
    }
    for (int i = 0; i < PLACE_TRIES; i++) {
        put->folder = find_folder(directory, folder_path);
        if (!put->folder) {
            return directory_fail(put->call, errno, "making its folder");
        }
        bool vanished = false;
        enum err_code code = place_in(directory, put, path.text + folder_size, &vanished);
        if (!vanished) {
            /* Also where one is there already: its owner may have died before the sync. */
            put->folder->is_dirty = code == ERR_OK || code == ERR_EXISTS || put->folder->is_dirty;
            return code;
        }
        /* A folder is removed when it is empty, so nothing that we put there needs its sync. */
        forget_folder(put->folder);
        put->folder = NULL;
    }
    return object_call_fail(put->call, ERR_AGAIN, "its folder or temporary file keeps vanishing");
}

static void sync_folders(struct directory *directory)
{
    for (size_t i = 0; i < DIRECTORY_FOLDERS_MAX; i++) {
        struct directory_folder *folder = &directory->folders[i];
        if (folder->is_dirty) {
            folder->sync_errno = fsync(folder->fd) == 0 ? 0 : errno;
            folder->is_dirty = false;
        }
    }
}

void directory_put(struct directory *directory, struct object_call *const *calls, size_t count)
{
    CHECK(count <= DIRECTORY_GROUP_MAX);
    struct put puts[DIRECTORY_GROUP_MAX];
    for (size_t i = 0; i < count; i++) {
        puts[i] = (struct put){.call = calls[i], .fd = -1};
        if (make_tmp(directory, &puts[i]) != ERR_OK) {
            drop_tmp(directory, &puts[i]);
        } else if (count > 1) { /* let the disk begin; only fsync is to be relied on */
            (void)sync_file_range(puts[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct put *put = &puts[i];
        if (put->fd >= 0 && fsync(put->fd) != 0) {
            directory_fail(put->call, errno, "syncing it");
        } else if (put->fd >= 0) {
            (void)place(directory, put);
        }
        drop_tmp(directory, put);
    }
    sync_folders(directory);
    for (size_t i = 0; i < count; i++) {
        struct put *put = &puts[i];
        if (put->folder && put->folder->sync_errno && put->call->code == ERR_OK) {
            directory_fail(put->call, put->folder->sync_errno, "syncing its folder");
        }
        if (put->call->code != ERR_OK) {
            put->call->etag[0] = '\0';
        }
    }
    forget_folders(directory, true);
}

void directory_close_folders(struct directory *directory)
{
    forget_folders(directory, false);
}
