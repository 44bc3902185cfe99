/* Who owns a volume: enough about a process to know later, on the same machine, that it is gone. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/volume_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { WORD_BYTES = 80 }; /* a byte may take three when it is written as JSON */

static void set_word(char out[VOLUME_WORD_MAX], const char *text)
{
    size_t size = strnlen(text, WORD_BYTES);
    memcpy(out, text, size);
    out[size] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* The 22nd field of /proc/PID/stat: when the process began; 0 for one that has ended and only waits
 * to be collected. False: there is no such process. */
static bool process_start(int64_t pid, uint64_t *start)
{
    char path[64];
    AUTO_STR struct str text = {0};
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (io_read_file(path, 4096, &text, NULL) != ERR_OK) {
        return false;
    }
    const char *at = strrchr(str_text(&text), ')'); /* the name may hold anything */
    bool has_ended = at != NULL && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0);
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return false;
    }
    *start = has_ended ? 0 : strtoull(at + 1, NULL, 10);
    return true;
}

static void read_words(struct volume_owner *out)
{
    char text[256] = "";
    AUTO_STR struct str boot = {0};
    if (gethostname(text, sizeof text - 1) == 0) {
        set_word(out->host, text);
    }
    if (io_read_file("/proc/sys/kernel/random/boot_id", 128, &boot, NULL) == ERR_OK) {
        set_word(out->boot, str_text(&boot));
    }
    ssize_t size = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    if (size > 0) {
        text[size] = '\0';
        set_word(out->space, text);
    }
}

void volume_owner_self(struct volume_owner *out, const char *who, int64_t now_unix_ms)
{
    *out = (struct volume_owner){.pid = getpid(), .since_unix_ms = now_unix_ms};
    set_word(out->who, who == NULL ? "" : who);
    read_words(out);
    (void)process_start(out->pid, &out->start);
    uint64_t words[2] = {rng_seed_from_system(), rng_seed_from_system()};
    memcpy(out->nonce, words, sizeof out->nonce);
}

/* A lock of an owner is a file named by its nonce: it goes with the process, however that ends, and
 * is there to be tried after a reboot or when a container was started again. */
static char *lock_path(const char *locks, const struct volume_owner *owner)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/", locks);
    for (size_t i = 0; i < sizeof owner->nonce; i++) {
        str_addf(&path, "%02x", owner->nonce[i]);
    }
    return mem_strdup(str_text(&path));
}

/* The number of the file: a copy has another. */
static bool write_itself(int fd)
{
    struct stat info = {0};
    return fstat(fd, &info) == 0 && dprintf(fd, "%llu\n", (unsigned long long)info.st_ino) > 0 &&
           fsync(fd) == 0;
}

void volume_lock_take(struct volume_lock *lock, const char *locks, const struct volume_owner *owner)
{
    volume_lock_release(lock, true);
    if (locks == NULL || io_make_dirs(locks, NULL) != ERR_OK) {
        return;
    }
    char *path = lock_path(locks, owner);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || !write_itself(fd)) {
        if (fd >= 0) {
            (void)unlink(path);
            close(fd);
        }
        free(path);
        return;
    }
    *lock = (struct volume_lock){fd, path};
}

void volume_lock_release(struct volume_lock *lock, bool has_left)
{
    if (lock->path == NULL) {
        return;
    }
    if (has_left) {
        (void)unlink(lock->path);
    }
    close(lock->fd);
    free(lock->path);
    *lock = (struct volume_lock){0};
}

void volume_lock_remove(const char *locks, const struct volume_owner *owner)
{
    char *path = lock_path(locks, owner);
    (void)unlink(path);
    free(path);
}

/* Where a lock is known to this machine alone, or a file may be a copy, it proves nothing. */
static bool is_local(int fd)
{
    static const unsigned long shared[] = {
        0x6969,     /* NFS */
        0x65735546, /* FUSE, virtiofs */
        0x01021997, /* 9p */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x517b,     /* SMB */
        0x00c36400, /* Ceph */
        0x0bd00bd0, /* Lustre */
        0x5346414f, /* AFS */
        0x6b414653, /* the kernel's AFS */
        0x19830326, /* BeeGFS */
        0x20030528, /* OrangeFS */
        0x01161970, /* GFS2 */
        0x7461636f, /* OCFS2 */
        0x47504653, /* GPFS */
    };
    struct statfs info = {0};
    if (fstatfs(fd, &info) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        if ((unsigned long)info.f_type == shared[i]) {
            return false;
        }
    }
    return true;
}

static bool names_itself(int fd)
{
    char text[32] = "";
    struct stat info = {0};
    return fstat(fd, &info) == 0 && pread(fd, text, sizeof text - 1, 0) > 0 &&
           strtoull(text, NULL, 10) == (unsigned long long)info.st_ino;
}

enum lock_state { LOCK_UNKNOWN, LOCK_HELD, LOCK_LEFT };

/* What its lock tells, if it is here. */
static enum lock_state look_at_lock(const struct volume_owner *owner, const char *locks)
{
    char *path = lock_path(locks, owner);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    free(path);
    if (fd < 0) {
        return LOCK_UNKNOWN;
    }
    enum lock_state state = LOCK_UNKNOWN;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        state = errno == EWOULDBLOCK ? LOCK_HELD : LOCK_UNKNOWN;
    } else if (is_local(fd) && names_itself(fd)) {
        state = LOCK_LEFT;
    }
    close(fd);
    return state;
}

bool volume_owner_is_gone(const struct volume_owner *owner, const char *locks)
{
    struct volume_owner here = {0};
    read_words(&here);
    if (here.host[0] == '\0' || strcmp(here.host, owner->host) != 0) {
        return false;
    }
    enum lock_state lock = locks != NULL ? look_at_lock(owner, locks) : LOCK_UNKNOWN;
    if (lock != LOCK_UNKNOWN) {
        return lock == LOCK_LEFT;
    }
    bool known = here.boot[0] != '\0' && here.space[0] != '\0' && owner->start != 0;
    if (!known || strcmp(here.boot, owner->boot) != 0 || strcmp(here.space, owner->space) != 0) {
        return false;
    }
    if (owner->pid <= 0 || owner->pid > INT32_MAX) {
        return false;
    }
    uint64_t start = 0; /* the number may be another process's by now */
    bool none = kill((pid_t)owner->pid, 0) != 0 && errno == ESRCH;
    return none || (process_start(owner->pid, &start) && start != owner->start);
}
