/* Children that touch a mounted folder, so that the agent need not. */
#include "base/mem.h"
#include "node/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char order[] = "sync";

/* --- in the child: only what is safe in a signal handler, for the program may have threads -----
 */

static void say(int fd, const char *text)
{
    (void)!write(fd, text, strlen(text));
}

static void commit(int fd, const char *folder)
{
    char said[VOLUMES_SAID_MAX];
    if (setxattr(folder, "user.drover.do", order, sizeof order - 1, 0) == 0) {
        return;
    }
    const char *name = strerrorname_np(errno);
    ssize_t size = getxattr(folder, "user.drover.said", said, sizeof said - 1);
    if (size > 0) {
        said[size] = '\0';
        say(fd, said);
    } else {
        say(fd, "it cannot be stored: ");
        say(fd, name ? name : "an error");
    }
}

/* Only below `below`, the mounted folder. */
static void make_folders(int fd, char *path, size_t below)
{
    for (size_t i = below + 1;; i++) {
        char byte = path[i];
        if (byte != '/' && byte != '\0') {
            continue;
        }
        path[i] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            const char *name = strerrorname_np(errno);
            say(fd, "a folder cannot be made in it: ");
            say(fd, name ? name : "an error");
            return;
        }
        path[i] = byte;
        if (byte == '\0') {
            return;
        }
    }
}

/* --- in the agent ---------------------------------------------------------------------------- */

static pid_t start(int fd, struct volumes_place *place, char *folder)
{
    sigset_t all;
    sigset_t before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours may run in the child */
    pid_t pid = _Fork();
    if (pid == 0) {
        setsid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(fd, 1) < 0) {
            _exit(127);
        }
        close_range(2, ~0U, 0);
        if (folder) {
            make_folders(1, folder, strlen(place->folder));
        } else {
            commit(1, place->folder);
        }
        _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

enum err_code volumes_send(struct agent *agent, struct volumes_place *place, const char *folder,
                           uint64_t round, struct err *err)
{
    struct volumes *volumes = &agent->volumes;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return err_errno(err, errno, "volume %s: no pipe", place->shown);
    }
    AUTO_FREE char *path = folder ? mem_strdup(folder) : NULL;
    pid_t pid = start(ends[1], place, path);
    int why = errno;
    close(ends[1]);
    struct epoll_event event = {.events = EPOLLIN};
    if (pid < 0 || epoll_ctl(volumes->epoll, EPOLL_CTL_ADD, ends[0], &event) != 0) {
        why = pid < 0 ? why : errno;
        close(ends[0]);
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        return err_errno(err, why, "volume %s: no process", place->shown);
    }
    struct volumes_errand *errand = mem_alloc(sizeof *errand);
    *errand = (struct volumes_errand){
        .place = place, .is_commit = !folder, .round = round, .pid = pid, .fd = ends[0]};
    TAILQ_INSERT_TAIL(&volumes->errands, errand, link);
    volumes->errand_count++;
    return ERR_OK;
}

bool volumes_is_back(struct volumes_errand *errand, struct err *err)
{
    size_t room = sizeof errand->said - 1 - errand->said_size;
    char spare[64];
    ssize_t got = 0;
    while (errand->fd >= 0) {
        got = room > 0 ? read(errand->fd, errand->said + errand->said_size, room)
                       : read(errand->fd, spare, sizeof spare);
        if (got <= 0) {
            break;
        }
        errand->said_size += room > 0 ? (size_t)got : 0;
        room -= room > 0 ? (size_t)got : 0;
    }
    if (errand->fd >= 0 && got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (errand->fd >= 0) {
        close(errand->fd);
        errand->fd = -1;
    }
    int status = 0;
    if (waitpid(errand->pid, &status, WNOHANG) == 0) {
        return false; /* in a moment */
    }
    errand->pid = 0;
    *err = (struct err){0};
    if (errand->said_size > 0) {
        (void)!err_set(err, ERR_IO, "volume %s: %s", errand->place->shown, errand->said);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        (void)!err_set(err, ERR_IO, "volume %s: the process that looked after it was killed",
                       errand->place->shown);
    }
    return true;
}

void volumes_end_errand(struct agent *agent, struct volumes_errand *errand)
{
    if (errand->pid > 0) {
        kill(errand->pid, SIGKILL);
        waitpid(errand->pid, NULL, 0);
    }
    if (errand->fd >= 0) {
        close(errand->fd);
    }
    TAILQ_REMOVE(&agent->volumes.errands, errand, link);
    agent->volumes.errand_count--;
    free(errand);
}
