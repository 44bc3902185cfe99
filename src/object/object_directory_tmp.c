/* The lock and the temporary files of a directory store: see object_directory.h. */
#include "object/object_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define TMP ",tmp"
#define LOCK ",lock"

enum {
    LOCK_WAIT_MS = 200, /* it is held for microseconds, unless its holder was stopped */
    TMP_TRIES = 10000,
};

/* -- the lock --------------------------------------------------------------------------------- */

enum err_code directory_lock(struct directory *directory, int how, struct object_call *call)
{
    if (directory->lock < 0) {
        directory->lock =
            openat(directory->root, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (directory->lock < 0) {
        return directory_fail(call, errno, "opening the store's lock");
    }
    for (int i = 0; flock(directory->lock, how | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return directory_fail(call, errno, "taking the store's lock");
        }
        if (i == LOCK_WAIT_MS) {
            return object_call_fail(call, ERR_AGAIN, "another process holds the store's lock");
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return ERR_OK;
}

void directory_unlock(struct directory *directory)
{
    CHECK(flock(directory->lock, LOCK_UN) == 0);
}

/* -- our folder of temporary files ------------------------------------------------------------ */

/* Makes ",tmp/PID-N" and locks it; -1: another N should be tried, or errno is not EEXIST. Between
 * making and locking it someone else may have taken it for litter. */
static int make_folder(int tmp, const char *name)
{
    if (mkdirat(tmp, name, 0700) != 0) {
        return -1;
    }
    int fd = openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    struct stat named;
    /* Where folders cannot be locked, nobody can lock ours to remove it either. */
    bool is_taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0 && !is_taken && fstat(fd, &st) == 0 &&
        fstatat(tmp, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == named.st_ino) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

enum err_code directory_tmp_prepare(struct directory *directory, struct object_call *call)
{
    if (directory->tmp >= 0) {
        return ERR_OK;
    }
    if (mkdirat(directory->root, TMP, 0700) != 0 && errno != EEXIST) {
        return directory_fail(call, errno, "making a folder for temporary files");
    }
    int tmp = openat(directory->root, TMP, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tmp < 0) {
        return directory_fail(call, errno, "opening the folder for temporary files");
    }
    int why = EEXIST;
    for (int i = 0; i < TMP_TRIES && directory->tmp < 0 && why == EEXIST; i++) {
        snprintf(directory->tmp_name, sizeof directory->tmp_name, "%ld-%d", (long)getpid(), i);
        directory->tmp = make_folder(tmp, directory->tmp_name);
        why = errno;
    }
    close(tmp);
    if (directory->tmp < 0) {
        return directory_fail(call, why, "making a folder for temporary files");
    }
    return ERR_OK;
}

/* -- removal ---------------------------------------------------------------------------------- */

static void visit(int folder, void (*each)(int folder, const char *name))
{
    int fd = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent *entry = NULL; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            each(folder, entry->d_name);
        }
    }
    closedir(dir);
}

static void remove_file(int folder, const char *name)
{
    unlinkat(folder, name, 0);
}

/* What cannot be removed now is left to the next one. */
static void remove_if_dead(int tmp, const char *name)
{
    int fd = openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        visit(fd, remove_file);
        unlinkat(tmp, name, AT_REMOVEDIR);
    }
    if (fd >= 0) {
        close(fd);
    }
}

void directory_tmp_clean(int root)
{
    int tmp = openat(root, TMP, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tmp >= 0) {
        visit(tmp, remove_if_dead);
        close(tmp);
    }
}

void directory_tmp_remove(struct directory *directory)
{
    if (directory->tmp < 0) {
        return;
    }
    visit(directory->tmp, remove_file);
    close(directory->tmp);
    directory->tmp = -1;
    char path[sizeof TMP + sizeof directory->tmp_name];
    snprintf(path, sizeof path, TMP "/%s", directory->tmp_name);
    unlinkat(directory->root, path, AT_REMOVEDIR);
}
