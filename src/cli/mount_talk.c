#include "cli/mount_talk.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/jread.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/volume_ref.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { STATS_MAX = 16 << 10, SAID_MAX = 64 << 10 };

static const char SOCKET_PREFIX[] = "drover-mount-";

enum err_code mount_talk_log_path(struct str *out, struct err *err)
{
    enum err_code code = volume_state_path(out, err);
    if (code == ERR_OK) {
        code = io_make_dirs(str_text(out), err);
    }
    str_add(out, "/mount.log");
    return code;
}

/* The socket cannot be reached from another network namespace, though its process, whose number is
 * in the name, is there. Then that is all one can say. */
static ssize_t say_elsewhere(const char *name, char *text, size_t room)
{
    char path[64];
    struct stat theirs;
    struct stat ours;
    const char *number = strncmp(name, SOCKET_PREFIX, strlen(SOCKET_PREFIX)) == 0
                             ? name + strlen(SOCKET_PREFIX)
                             : "0";
    long pid = strtol(number, NULL, 10);
    snprintf(path, sizeof path, "/proc/%ld/ns/net", pid);
    if (pid <= 0 || stat(path, &theirs) != 0 || stat("/proc/self/ns/net", &ours) != 0 ||
        theirs.st_ino == ours.st_ino) {
        errno = ENOTCONN; /* its process is gone */
        return -1;
    }
    return snprintf(text, room, "{\"pid\":%ld,\"elsewhere\":1}", pid);
}

/* A mount that the kernel shows by itself (src/mount/shown.h) is asked on a socket. Returns as
 * getxattr does. */
static ssize_t ask_socket(const char *folder, char *text, size_t room)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* its name is behind a NUL */
    struct statfs of;
    size_t size = 0;
    ssize_t named =
        getxattr(folder, "user.drover.socket", address.sun_path + 1, sizeof address.sun_path - 1);
    if (named <= 0 || statfs(folder, &of) != 0 || of.f_type != EROFS_SUPER_MAGIC_V1) {
        errno = ENODATA;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)named);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, length) != 0) {
        return say_elsewhere(address.sun_path + 1, text, room);
    }
    ssize_t got = 0;
    while (size < room && (got = read(fd, text + size, room - size)) > 0) {
        size += (size_t)got;
    }
    return got < 0 ? -1 : (ssize_t)size;
}

/* The child. Nothing but system calls: other threads of the parent may have held locks. */
static _Noreturn void ask(const char *folder, int out)
{
    char text[STATS_MAX];
    ssize_t size = getxattr(folder, "user.drover.stats", text, sizeof text);
    if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) {
        size = ask_socket(folder, text, sizeof text);
    }
    int why = size < 0 ? errno : 0;
    struct iovec parts[] = {{&why, sizeof why}, {text, size < 0 ? 0 : (size_t)size}};
    (void)!writev(out, parts, 2);
    _exit(0);
}

/* What the child has written, up to its end; ETIMEDOUT: it has not ended in time. */
static int hear(int in, int wait_ms, struct str *out)
{
    char piece[4096];
    int64_t deadline_ms = clock_mono_ms() + wait_ms;
    for (;;) {
        int64_t left_ms = deadline_ms - clock_mono_ms();
        struct pollfd poll_fd = {.fd = in, .events = POLLIN};
        int ready = left_ms > 0 ? poll(&poll_fd, 1, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return ETIMEDOUT;
        }
        ssize_t got = read(in, piece, sizeof piece);
        if (got <= 0) {
            return got < 0 ? errno : 0;
        }
        str_add_bytes(out, piece, (size_t)got);
    }
}

/* A child that waits for a request which a stopped process has taken cannot even be killed; then it
 * ends when that process goes on, and nobody waits for it. */
static void dismiss(pid_t child)
{
    enum { TRIES = 50 };
    kill(child, SIGKILL);
    for (int i = 0; i < TRIES && waitpid(child, NULL, WNOHANG) == 0; i++) {
        (void)poll(NULL, 0, 2);
    }
}

/* 0 and what the mount says of itself, or an errno value; ETIMEDOUT: it does not answer. */
static int read_stats(const char *folder, int wait_ms, struct jread *doc)
{
    AUTO_STR struct str said = {0};
    int ends[2];
    int why = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    pid_t child = fork();
    if (child == 0) {
        ask(folder, ends[1]);
    }
    close(ends[1]);
    int failed = child < 0 ? EAGAIN : hear(ends[0], wait_ms, &said);
    close(ends[0]);
    if (child > 0) {
        dismiss(child);
    }
    if (failed) {
        return failed;
    }
    if (said.size < sizeof why) {
        return EIO;
    }
    memcpy(&why, said.text, sizeof why);
    if (why == 0 && jread_parse(doc, said.text + sizeof why, said.size - sizeof why, NULL)) {
        why = ENODATA; /* another file system may have an attribute of that name */
    }
    return why;
}

static bool is_dead(int why)
{
    return why == ENOTCONN || why == ECONNABORTED;
}

struct mount_talk mount_talk_look(const char *folder, int wait_ms)
{
    struct jread doc = {0};
    struct mount_talk look = {0};
    int why = read_stats(folder, wait_ms, &doc);
    if (why == 0) {
        look.pid = (int)jread_u64(doc.root, "pid", 0);
        look.has_failed = jread_u64(doc.root, "failed", 0) != 0;
    }
    look.state = why == ETIMEDOUT ? MOUNT_TALK_SILENT
                 : is_dead(why)   ? MOUNT_TALK_DEAD
                 : look.pid > 0   ? MOUNT_TALK_LIVES
                                  : MOUNT_TALK_NONE;
    jread_release(&doc);
    return look;
}

int mount_talk_pid(const char *folder)
{
    return mount_talk_look(folder, MOUNT_TALK_LOOK_MS).pid;
}

int mount_talk_absent(const char *folder)
{
    return cli_error(EXIT_USAGE,
                     "%s: no drover volume is mounted there (findmnt -t fuse.drover,erofs lists "
                     "those that are)",
                     folder);
}

int mount_talk_dead(const char *folder)
{
    return cli_error(EXIT_USAGE, "%s: a mount that has died is there (drover unmount %s)", folder,
                     folder);
}

int mount_talk_silent(const char *folder)
{
    return cli_error(EXIT_WORK_FAILED,
                     "%s: the mount does not answer: it carries out an order (gc), or its process "
                     "is stopped (kill -CONT its pid; umount -l %s gives it up)",
                     folder, folder);
}

int mount_talk_watch(int pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int mount_talk_wait(int watch, int pid)
{
    if (watch < 0) {
        return EXIT_DONE;
    }
    struct pollfd poll_fd = {.fd = watch, .events = POLLIN};
    for (int waited_s = 0; poll(&poll_fd, 1, 1000) == 0; waited_s++) {
        if (waited_s % 10 == 4) {
            fprintf(stderr, "drover unmount: still storing what was written (process %d)\n", pid);
        }
    }
    close(watch);
    return EXIT_DONE;
}

struct stats_row {
    const char *what;
    const char *key;
    bool is_bytes;
};

static const struct stats_row rows[] = {
    {"requests", "requests", false},
    {"that had to wait", "parked", false},
    {"bytes read", "bytes_read", true},
    {"bytes written", "bytes_written", true},
    {"extents from memory", "hits_memory", false},
    {"extents from the disk cache", "hits_disk", false},
    {"extents fetched", "misses", false},
    {"bytes fetched", "fetched_bytes", true},
    {"disk cache", "cache_disk_bytes", true},
    {"memory cache", "cache_memory_bytes", true},
    {"not yet stored", "dirty_bytes", true},
    {"commits", "commits", false},
    {"packs written", "packs", false},
    {"store: reads", "store_gets", false},
    {"store: writes", "store_puts", false},
    {"store: lists", "store_lists", false},
    {"store: bytes in", "store_bytes_in", true},
    {"store: bytes out", "store_bytes_out", true},
    {"store: retries", "store_retries", false},
};

/* What the requests would cost on S3 Standard in us-east-1: 0.005 USD per 1,000 writes and lists,
 * 0.0004 per 1,000 reads. */
static double request_cost_usd(const struct jnode *stats)
{
    double writes = jread_number(stats, "store_puts", 0) + jread_number(stats, "store_lists", 0);
    double reads = jread_number(stats, "store_gets", 0) + jread_number(stats, "store_heads", 0);
    return writes * 0.005 / 1000 + reads * 0.0004 / 1000;
}

int mount_talk_stats(const char *folder, bool as_json)
{
    struct jread doc = {0};
    AUTO_STR struct str out = {0};
    int why = read_stats(folder, MOUNT_TALK_ORDER_MS, &doc);
    if (why) {
        return why == ETIMEDOUT ? mount_talk_silent(folder)
               : is_dead(why)   ? mount_talk_dead(folder)
                                : mount_talk_absent(folder);
    }
    if (jread_u64(doc.root, "elsewhere", 0)) {
        int pid = (int)jread_u64(doc.root, "pid", 0);
        jread_release(&doc);
        return cli_error(EXIT_WORK_FAILED,
                         "%s: process %d serves it from another network namespace: ask there "
                         "(nsenter -t %d -n)",
                         folder, pid, pid);
    }
    if (as_json) {
        jread_add(&out, doc.root);
        out.size--; /* the cost belongs in the same object */
        str_addf(&out, ",\"request_cost_usd\":%.6f}\n", request_cost_usd(doc.root));
    }
    for (size_t i = 0; !as_json && i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = jread_u64(doc.root, rows[i].key, 0);
        str_addf(&out, "%-28s ", rows[i].what);
        if (rows[i].is_bytes) {
            progress_add_bytes(&out, value);
        } else {
            str_add_u64(&out, value);
        }
        str_add_char(&out, '\n');
    }
    if (!as_json) {
        double read = jread_number(doc.root, "bytes_read", 0);
        if (read > 0) {
            str_addf(&out, "%-28s %.2f\n", "bytes fetched / bytes read",
                     jread_number(doc.root, "fetched_bytes", 0) / read);
        }
        str_addf(&out, "%-28s %.4f USD (at S3 Standard's price in us-east-1)\n", "requests cost",
                 request_cost_usd(doc.root));
    }
    cli_write(&out);
    jread_release(&doc);
    return EXIT_DONE;
}

enum err_code mount_talk_do(const char *folder, const char *order, struct str *out, struct err *err)
{
    int failed = setxattr(folder, "user.drover.do", order, strlen(order), 0) != 0 ? errno : 0;
    AUTO_FREE char *said = mem_alloc(SAID_MAX);
    ssize_t size = getxattr(folder, "user.drover.said", said, SAID_MAX - 1);
    if (failed) {
        return err_set(err,
                       failed == EEXIST   ? ERR_EXISTS
                       : failed == EINVAL ? ERR_INVALID
                       : failed == ENOENT ? ERR_NOT_FOUND
                                          : ERR_IO,
                       "%s", size > 0 ? said : strerror(failed));
    }
    if (size > 0) {
        str_add_bytes(out, said, (size_t)size);
    }
    return ERR_OK;
}
