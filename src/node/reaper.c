#include "node/reaper.h"

#include "base/clock.h"
#include "node/capture.h"
#include "node/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the reaper's files are. Tasks inherit 0, 1 and 2 as they are: no dup2 per task. */
enum { FD_NULL = 0, FD_OUT = 1, FD_ERR = 2, FD_CONTROL = 3, FD_PIPE = 4, FD_KEEP = 5 };

enum {
    CHUNK_BYTES = 64 * 1024,
    DRAIN_BYTES_MAX = 64 << 20, /* a pipe holds less, unless a stranger keeps writing */
    KILL_PATIENCE_MS = 100,     /* between looks at the agent while the unkillable linger */
};

static union {
    struct reaper_run run;
    struct reaper_kill kill;
    char bytes[REAPER_PACKET_BYTES_MAX];
} packet;
static char chunk[CHUNK_BYTES];
static char *argument_pointers[REAPER_STRINGS_MAX + 1];
static char *variable_pointers[REAPER_STRINGS_MAX + 1];
static struct capture capture;
static sigset_t only_child_signal; /* the mask while we sleep: all blocked but SIGCHLD */
static uint64_t own_rss_bytes;
static struct rlimit file_limit; /* as it was before reaper_raise_file_limit; 0: not raised */

static struct {
    pid_t pid; /* the main process; 0: it has ended */
    int status;
    int64_t started_us;
    int64_t timeout_at_us; /* INT64_MAX: never */
    int64_t kill_at_us;    /* INT64_MAX: not yet decided */
    int64_t grace_ms;
    bool has_killed;
    enum reaper_how reason; /* why we end it: REAPER_TIMEOUT, REAPER_KILLED; 0: we do not */
    struct reaper_ended ended;
} task;

/* Written by the child of vfork, which shares our memory until it execs. */
static volatile struct {
    enum reaper_how step;
    int error;
} failure;

static void on_child_signal(int signal)
{
    (void)signal; /* its only purpose is to end ppoll */
}

static int64_t cpu_us_of(const struct rusage *usage)
{
    return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 + usage->ru_utime.tv_usec +
           usage->ru_stime.tv_usec;
}

static _Noreturn void leave(void)
{
    int64_t cpu_us = 0;
    while (!tree_kill(NULL, 1000, &cpu_us)) {
    }
    _exit(0);
}

/* --- setting up ------------------------------------------------------------------------------ */

static void place_files(const struct reaper_files *files)
{
    /* First out of the way of the numbers they shall get. */
    int control = fcntl(files->control, F_DUPFD_CLOEXEC, 16);
    int null = fcntl(files->null, F_DUPFD_CLOEXEC, 16);
    int pipe_read = fcntl(files->pipe_read, F_DUPFD_CLOEXEC, 16);
    int pipe_write = fcntl(files->pipe_write, F_DUPFD_CLOEXEC, 16);
    int keep = files->keep < 0 ? -1 : fcntl(files->keep, F_DUPFD_CLOEXEC, 16);
    if (files->cgroup_procs >= 0 && write(files->cgroup_procs, "0", 1) != 1) {
        _exit(1);
    }
    if (dup2(null, FD_NULL) < 0 || dup2(pipe_write, FD_OUT) < 0 || dup2(pipe_write, FD_ERR) < 0 ||
        dup3(control, FD_CONTROL, O_CLOEXEC) < 0 || dup3(pipe_read, FD_PIPE, O_CLOEXEC) < 0 ||
        (keep >= 0 && dup3(keep, FD_KEEP, O_CLOEXEC) < 0) ||
        close_range(keep >= 0 ? FD_KEEP + 1 : FD_KEEP, ~0U, 0) != 0) {
        _exit(1);
    }
}

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal < NSIG; signal++) {
        sigaction(signal, &action, NULL); /* fails for KILL, STOP and the C library's own */
    }
    action.sa_handler = on_child_signal;
    sigaction(SIGCHLD, &action, NULL);
    sigfillset(&only_child_signal);
    sigdelset(&only_child_signal, SIGCHLD);
}

void reaper_raise_file_limit(void)
{
    struct rlimit limit;
    if (file_limit.rlim_max != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        file_limit = limit;
    }
}

static void set_up(const struct reaper_files *files)
{
    setsid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        _exit(1);
    }
    prctl(PR_SET_NAME, "drover-slot");
    reset_signals();
    place_files(files);
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core); /* inherited by every task */
    if (file_limit.rlim_max != 0) {
        setrlimit(RLIMIT_NOFILE, &file_limit);
    }
    if (chdir("/") != 0) {
        _exit(1);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    own_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
}

/* --- starting a task ------------------------------------------------------------------------- */

/* In the child of vfork: no return, no memory of our own. */
static _Noreturn void become_task(const char *program, const char *folder, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* it died before it could be the parent whose death kills us */
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir(folder) != 0) {
        failure.step = REAPER_NO_FOLDER;
    } else {
        execve(program, argument_pointers, variable_pointers);
        failure.step = REAPER_NO_PROGRAM;
    }
    failure.error = errno;
    _exit(127);
}

static bool take_strings(size_t packet_size, const char **named)
{
    char *at = packet.bytes + sizeof packet.run;
    const char *end = packet.bytes + packet_size;
    size_t arguments = packet.run.argument_count;
    size_t variables = packet.run.variable_count;
    if (arguments == 0 || arguments > REAPER_STRINGS_MAX || variables > REAPER_STRINGS_MAX) {
        return false;
    }
    for (size_t i = 0; i < 3 + arguments + variables; i++) {
        size_t room = (size_t)(end - at);
        size_t size = strnlen(at, room);
        if (size == room) {
            return false;
        }
        if (i < 3) {
            named[i] = at;
        } else if (i < 3 + arguments) {
            argument_pointers[i - 3] = at;
        } else {
            variable_pointers[i - 3 - arguments] = at;
        }
        at += size + 1;
    }
    argument_pointers[arguments] = NULL;
    variable_pointers[variables] = NULL;
    return strlen(named[2]) < PATH_MAX;
}

static void report(void)
{
    task.ended.duration_us = clock_mono_us() - task.started_us;
    ssize_t sent = send(FD_CONTROL, &task.ended, sizeof task.ended, MSG_NOSIGNAL);
    if (sent != (ssize_t)sizeof task.ended) {
        leave();
    }
}

static void begin_task(size_t packet_size)
{
    const struct reaper_run *run = &packet.run;
    const char *named[3] = {"", "", ""};
    task.ended = (struct reaper_ended){.serial = run->serial, .how = REAPER_BAD_REQUEST};
    task.ended.started_unix_ms = clock_unix_ms();
    task.started_us = clock_mono_us();
    if (!take_strings(packet_size, named)) {
        report();
        return;
    }
    task.timeout_at_us = run->timeout_ms > 0 ? task.started_us + run->timeout_ms * 1000 : INT64_MAX;
    task.kill_at_us = INT64_MAX;
    task.grace_ms = run->grace_ms;
    task.has_killed = false;
    task.reason = 0;
    failure.step = 0;
    pid_t self = getpid();
    /* fork would copy the page tables of the agent's whole program for each task. */
    pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork)
    if (pid == 0) {
        become_task(named[0], named[1], self); // NOLINT(clang-analyzer-unix.Vfork): system calls
    }
    if (pid < 0) {
        task.ended.how = REAPER_NO_PROCESS;
        task.ended.code = (uint32_t)errno;
        report();
        return;
    }
    task.pid = pid;
    capture_begin(&capture, named[2], run->log_limit_bytes);
}

/* --- ending a task --------------------------------------------------------------------------- */

static void take_exit(pid_t pid, int status, const struct rusage *usage)
{
    task.ended.cpu_us += cpu_us_of(usage);
    if (pid != task.pid) {
        return; /* an orphan that came to us */
    }
    uint64_t rss_bytes = (uint64_t)usage->ru_maxrss * 1024;
    task.ended.peak_rss_bytes = rss_bytes > own_rss_bytes ? rss_bytes : 0;
    task.pid = 0;
    task.status = status;
}

/* True when no descendant is left. */
static bool reap(void)
{
    for (;;) {
        int status = 0;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0) {
            return pid < 0 && errno == ECHILD;
        }
        take_exit(pid, status, &usage);
    }
}

static void judge(void)
{
    struct reaper_ended *ended = &task.ended;
    if (failure.step != 0) {
        ended->how = failure.step;
        ended->code = (uint32_t)failure.error;
    } else if (task.reason != 0) {
        ended->how = task.reason;
    } else if (WIFEXITED(task.status)) {
        ended->how = REAPER_EXITED;
        ended->code = (uint32_t)WEXITSTATUS(task.status);
    } else {
        ended->how = REAPER_SIGNALLED;
        ended->code = (uint32_t)WTERMSIG(task.status);
    }
}

static bool read_pipe(size_t *got)
{
    ssize_t size = read(FD_PIPE, chunk, sizeof chunk);
    if (size <= 0) {
        return false;
    }
    capture_add(&capture, chunk, (size_t)size);
    *got += (size_t)size;
    return true;
}

/* If a leftover gave the pipe away, later tasks must not share it with a stranger. */
static void renew_pipe(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    dup2(ends[1], FD_OUT);
    dup2(ends[1], FD_ERR);
    dup3(ends[0], FD_PIPE, O_CLOEXEC);
    close(ends[0]);
    close(ends[1]);
}

static void finish_task(bool had_leftovers)
{
    size_t drained = 0;
    while (drained < DRAIN_BYTES_MAX && read_pipe(&drained)) {
    }
    if (had_leftovers || drained >= DRAIN_BYTES_MAX) {
        renew_pipe();
    } else {
        fcntl(FD_OUT, F_SETFL, 0); /* a task may have made it non-blocking for all who share it */
    }
    capture_end(&capture);
    task.ended.log_bytes = capture.total_bytes;
    task.ended.log_dropped_bytes = capture.dropped_bytes;
    task.ended.log_missing = capture.is_missing;
    judge();
    report();
}

/* TERM, with CONT so that a stopped one hears it; KILL when the grace is over. */
static void end_politely(enum reaper_how reason, int64_t grace_ms, int64_t now_us)
{
    int64_t kill_at_us = now_us + grace_ms * 1000;
    if (task.reason == 0) {
        task.reason = reason;
        if (grace_ms > 0) {
            tree_signal(SIGTERM, NULL);
            tree_signal(SIGCONT, NULL);
        }
    }
    if (kill_at_us < task.kill_at_us) {
        task.kill_at_us = kill_at_us;
    }
}

static void heed_clock(void)
{
    int64_t now_us = clock_mono_us();
    if (task.reason == 0 && now_us >= task.timeout_at_us) {
        end_politely(REAPER_TIMEOUT, task.grace_ms, now_us);
    }
    if (!task.has_killed && now_us >= task.kill_at_us) {
        task.has_killed = true;
        tree_signal(SIGKILL, NULL);
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

/* What the agent wants while a task runs. */
static void heed_agent(void)
{
    struct reaper_kill wish;
    ssize_t size = recv(FD_CONTROL, &wish, sizeof wish, MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        leave();
    }
    if (size == (ssize_t)sizeof wish && wish.request == REAPER_KILL &&
        wish.serial == task.ended.serial && task.pid > 0) {
        end_politely(REAPER_KILLED, wish.grace_ms, clock_mono_us());
    }
}

static void sleep_until_something(void)
{
    struct pollfd files[] = {{.fd = FD_CONTROL, .events = POLLIN},
                             {.fd = FD_PIPE, .events = POLLIN}};
    int64_t at_us = task.reason == 0 ? task.timeout_at_us : INT64_MAX;
    if (!task.has_killed && task.kill_at_us < at_us) {
        at_us = task.kill_at_us;
    }
    struct timespec timeout;
    struct timespec *until = NULL;
    if (at_us != INT64_MAX) {
        int64_t left_us = at_us - clock_mono_us();
        left_us = left_us > 0 ? left_us : 0;
        timeout =
            (struct timespec){.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
        until = &timeout;
    }
    int ready = ppoll(files, 2, until, &only_child_signal);
    if (ready > 0 && files[0].revents) {
        heed_agent();
    }
    if (ready > 0 && files[1].revents) {
        size_t got = 0;
        read_pipe(&got);
    }
    if (until) {
        heed_clock();
    }
}

/* Runs the begun task to its end, when nothing of it is left. */
static void see_task_through(void)
{
    bool none_left = false;
    while (task.pid > 0) {
        sleep_until_something();
        /* Not only when a signal ended the sleep: a flood of output would hold the signal back. */
        none_left = reap();
    }
    bool had_leftovers = !none_left;
    while (!none_left) {
        if (!tree_kill(NULL, KILL_PATIENCE_MS, &task.ended.cpu_us)) {
            heed_agent();
        }
        none_left = reap();
    }
    finish_task(had_leftovers);
}

_Noreturn void reaper_main(const struct reaper_files *files)
{
    set_up(files);
    for (;;) {
        ssize_t size = recv(FD_CONTROL, &packet, sizeof packet, 0);
        if (size == 0 || (size < 0 && errno != EINTR)) {
            leave();
        }
        if (size >= (ssize_t)sizeof packet.run && packet.run.request == REAPER_RUN) {
            begin_task((size_t)size);
            if (task.pid > 0) {
                see_task_through();
            }
        }
    }
}
