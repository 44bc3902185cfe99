#include "provider/daemon.h"

#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4096, BOOT_CHARS = 36 };

/* What a pid file holds: "PID BEGAN BOOT\n". */
struct identity {
    long pid;
    unsigned long long began; /* clock ticks since the boot */
    char boot[BOOT_CHARS + 1];
};

static void read_boot(char out[BOOT_CHARS + 1])
{
    AUTO_STR struct str text = {0};
    out[0] = '\0';
    if (io_read_file("/proc/sys/kernel/random/boot_id", FILE_BYTES_MAX, &text, NULL) == ERR_OK) {
        snprintf(out, BOOT_CHARS + 1, "%.*s", BOOT_CHARS, str_text(&text));
    }
}

/* When the process began, and its state; false: there is none of that number. */
static bool read_stat(long pid, unsigned long long *began, char *state)
{
    AUTO_STR struct str text = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (io_read_file(path, FILE_BYTES_MAX, &text, NULL) != ERR_OK) {
        return false;
    }
    /* the name, in parentheses, may hold anything; what counts comes after the last one */
    const char *rest = strrchr(str_text(&text), ')');
    return rest &&
           sscanf(
               rest + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               state, began) == 2;
}

static bool read_identity(const char *file, struct identity *out)
{
    AUTO_STR struct str text = {0};
    return io_read_file(file, FILE_BYTES_MAX, &text, NULL) == ERR_OK &&
           sscanf(str_text(&text), "%ld %llu %36s", &out->pid, &out->began, out->boot) == 3 &&
           out->pid > 1;
}

static bool is_same_process(const struct identity *identity)
{
    char boot[BOOT_CHARS + 1];
    unsigned long long began = 0;
    char state = 0;
    read_boot(boot);
    if (strcmp(boot, identity->boot) != 0 || !read_stat(identity->pid, &began, &state) ||
        began != identity->began) {
        return false;
    }
    if (state == 'Z' || state == 'X') {
        waitpid((pid_t)identity->pid, NULL, WNOHANG); /* a corpse: ours to bury, if it is ours */
        return false;
    }
    return true;
}

bool daemon_is_alive(const char *pid_file, pid_t *pid)
{
    struct identity identity = {0};
    bool alive = read_identity(pid_file, &identity) && is_same_process(&identity);
    *pid = alive ? (pid_t)identity.pid : 0;
    return alive;
}

enum err_code daemon_signal(const char *pid_file, int signal_number, struct err *err)
{
    struct identity identity = {0};
    if (!read_identity(pid_file, &identity)) {
        return err_set(err, ERR_NOT_FOUND, "%s: names no process", pid_file);
    }
    AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, (pid_t)identity.pid, 0);
    /* looked at after it was opened: from here on the descriptor cannot mean another process */
    if (fd < 0 || !is_same_process(&identity)) {
        return err_set(err, ERR_NOT_FOUND, "%s: process %ld is gone", pid_file, identity.pid);
    }
    if (syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0) != 0) {
        return err_errno(err, errno, "process %ld", identity.pid);
    }
    return ERR_OK;
}

/* --- starting ------------------------------------------------------------------------------- */

/* Everything the child needs, made before the fork: after it only system calls are safe. */
struct child {
    const char *program;
    char *const *argv;
    char **environment;
    const char *folder;
    int log_fd;
    int null_fd;
    int gate_fd; /* reads one byte when the pid file is there */
    pid_t parent;
    bool tied;
};

static char **make_environment(void)
{
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    char **made = mem_array(count + 1, sizeof *made);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "DROVER_TOKEN=", 13) != 0) {
            made[kept++] = environ[i];
        }
    }
    return made;
}

static void reset_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &plain, NULL); /* those that cannot be set say so, and no harm done */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct child *child)
{
    char byte = 0;
    setsid();
    reset_signals();
    if (child->tied) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != child->parent) {
            _exit(127); /* it went before we were tied to it */
        }
    }
    if (dup2(child->null_fd, STDIN_FILENO) < 0 || dup2(child->log_fd, STDOUT_FILENO) < 0 ||
        dup2(child->log_fd, STDERR_FILENO) < 0 || chdir(child->folder) != 0) {
        _exit(127);
    }
    ssize_t got = 0;
    do {
        got = read(child->gate_fd, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 1) {
        syscall(SYS_close_range, 3U, ~0U, 0U);
        execve(child->program, child->argv, child->environment);
    }
    _exit(127);
}

static enum err_code write_identity(const char *file, pid_t pid, struct err *err)
{
    struct identity identity = {.pid = pid};
    AUTO_STR struct str text = {0};
    read_boot(identity.boot);
    char state = 0;
    if (!read_stat(pid, &identity.began, &state)) {
        return err_set(err, ERR_IO, "process %ld is gone already", (long)pid);
    }
    str_addf(&text, "%ld %llu %s\n", identity.pid, identity.began, identity.boot);
    return io_replace_file(file, str_text(&text), text.size, 0600, err);
}

/* Opens the gate once the process can be found again; otherwise it goes by itself. */
static enum err_code let_go(const struct daemon_options *options, pid_t pid, int gate,
                            struct err *err)
{
    enum err_code code = write_identity(options->pid_file, pid, err);
    if (code == ERR_OK) {
        code = io_write_all(gate, "g", 1, err);
    }
    close(gate);
    if (code != ERR_OK) {
        waitpid(pid, NULL, 0);
        unlink(options->pid_file);
    }
    return code;
}

enum err_code daemon_start(const struct daemon_options *options, pid_t *pid, struct err *err)
{
    if (daemon_is_alive(options->pid_file, pid)) {
        return err_set(err, ERR_EXISTS, "%s: process %ld runs already", options->pid_file,
                       (long)*pid);
    }
    AUTO_CLOSE int log_fd =
        open(options->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        return err_errno(err, errno, "%s", options->log_file);
    }
    AUTO_CLOSE int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int gate[2];
    if (null_fd < 0 || pipe2(gate, O_CLOEXEC) != 0) {
        return err_errno(err, errno, "starting a process");
    }
    AUTO_FREE char **environment = make_environment();
    struct child child = {.program = options->program ? options->program : "/proc/self/exe",
                          .argv = options->argv,
                          .environment = environment,
                          .folder = options->folder,
                          .log_fd = log_fd,
                          .null_fd = null_fd,
                          .gate_fd = gate[0],
                          .parent = getpid(),
                          .tied = options->tied};
    *pid = fork();
    if (*pid == 0) {
        close(gate[1]);
        become(&child);
    }
    int failed = errno;
    close(gate[0]);
    if (*pid < 0) {
        close(gate[1]);
        return err_errno(err, failed, "starting a process");
    }
    return let_go(options, *pid, gate[1], err);
}
