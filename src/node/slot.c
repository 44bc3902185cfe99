#include "node/slot.h"

#include "base/clock.h"
#include "node/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SOCKET_BUFFER_BYTES = 2 * REAPER_PACKET_BYTES_MAX, /* a run and some kills always fit */
    BURY_PATIENCE_MS = 5000,
};

static void close_files(struct reaper_files *files, int agent_end)
{
    const int all[] = {files->control, files->null, files->pipe_read, files->pipe_write, agent_end};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] >= 0) {
            close(all[i]);
        }
    }
}

static bool open_files(struct reaper_files *files, int *agent_end)
{
    int sockets[2];
    int pipes[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return false;
    }
    files->control = sockets[0];
    *agent_end = sockets[1];
    int size = SOCKET_BUFFER_BYTES;
    setsockopt(*agent_end, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return false;
    }
    files->pipe_read = pipes[0];
    files->pipe_write = pipes[1];
    files->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return files->null >= 0 && fcntl(files->pipe_read, F_SETFL, O_NONBLOCK) == 0;
}

enum err_code slot_start(struct slot *slot, int cgroup_procs, int keep_fd, struct err *err)
{
    struct reaper_files files = {-1, -1, -1, -1, cgroup_procs, keep_fd};
    int agent_end = -1;
    if (!open_files(&files, &agent_end)) {
        int why = errno;
        close_files(&files, agent_end);
        return err_errno(err, why, "slot: cannot open its files");
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours may run in the child */
    /* Not fork: the handlers that libraries register for it may take locks, and we need none. */
    pid_t pid = _Fork();
    if (pid == 0) {
        reaper_main(&files);
    }
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close_files(&files, pid < 0 ? agent_end : -1);
    if (pid < 0) {
        return err_errno(err, why, "slot: cannot start its process");
    }
    slot->pid = pid;
    slot->control = agent_end;
    return ERR_OK;
}

void slot_run(struct slot *slot, const void *packet, size_t size)
{
    if (send(slot->control, packet, size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size) {
        kill(slot->pid, SIGKILL);
    }
}

void slot_kill(struct slot *slot, uint64_t serial, int64_t grace_ms)
{
    struct reaper_kill wish;
    memset(&wish, 0, sizeof wish); /* the padding too: it is sent */
    wish.request = REAPER_KILL;
    wish.serial = serial;
    wish.grace_ms = grace_ms;
    /* If it is gone that will be seen when we receive; if the socket is full it has enough. */
    (void)!send(slot->control, &wish, sizeof wish, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum err_code slot_receive(struct slot *slot, struct reaper_ended *out, struct err *err)
{
    ssize_t size = recv(slot->control, out, sizeof *out, MSG_DONTWAIT);
    if (size == (ssize_t)sizeof *out) {
        return ERR_OK;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return err_set(err, ERR_AGAIN, "slot: nothing has ended");
    }
    return err_set(err, ERR_IO, "slot: its process is gone");
}

void slot_dismiss(struct slot *slot)
{
    if (slot->control >= 0) {
        close(slot->control);
        slot->control = -1;
    }
}

void slot_wait(struct slot *slot, int64_t patience_ms)
{
    if (slot->pid <= 0) {
        return;
    }
    int fd = pidfd_open(slot->pid, 0);
    struct pollfd file = {.fd = fd, .events = POLLIN};
    int64_t until_ms = clock_mono_ms() + patience_ms;
    int64_t left_ms = patience_ms;
    while (fd >= 0 && left_ms > 0 && poll(&file, 1, (int)left_ms) < 0 && errno == EINTR) {
        left_ms = until_ms - clock_mono_ms();
    }
    if (fd >= 0) {
        close(fd);
    }
    if (waitpid(slot->pid, NULL, WNOHANG) == 0) {
        kill(slot->pid, SIGKILL); /* something below it is stuck in the kernel */
        waitpid(slot->pid, NULL, 0);
    }
    slot->pid = 0;
}

void slot_bury(struct slot *slot, const pid_t *others, size_t other_count)
{
    slot_dismiss(slot);
    if (slot->pid > 0) {
        kill(slot->pid, SIGKILL);
        waitpid(slot->pid, NULL, 0);
        slot->pid = 0;
    }
    /* Its children are ours now. None of them can be in our session: the reaper left it. */
    struct tree_spare spare = {.session = getsid(0), .pids = others, .count = other_count};
    int64_t cpu_us = 0;
    (void)tree_kill(&spare, BURY_PATIENCE_MS, &cpu_us);
}
