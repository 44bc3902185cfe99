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

static const char commit_order[] = "sync";
enum { EARLIER_MAX = 20 };
static const char attempt_attribute[] = "user.drover.attempt";

/* --- in the child: only what is safe in a signal handler, for the program may have threads -----
 */

static void say(int fd, const char *text)
{
    (void)!write(fd, text, strlen(text));
}

static void commit(int fd, const char *folder)
{
    char said[VOLUMES_SAID_MAX];
    if (setxattr(folder, "user.drover.do", commit_order, sizeof commit_order - 1, 0) == 0) {
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

/* rm knows how to do this well, and nothing here may allocate. */
static void remove_tree(const char *path)
{
    struct stat stat;
    if (lstat(path, &stat) != 0) {
        return;
    }
    pid_t pid = _Fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
}

/* The attempt that a kept folder is of; 0: there is none. */
static unsigned long kept_attempt(const char *path)
{
    char text[24];
    ssize_t size = getxattr(path, attempt_attribute, text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    return strtoul(text, NULL, 10);
}

enum { DIGITS_MAX = 16 };

/* The digits, with a NUL behind them; where they begin. */
static char *write_number(char text[DIGITS_MAX], uint32_t number)
{
    size_t at = DIGITS_MAX - 1;
    text[at] = '\0';
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return text + at;
}

static bool mark(const char *path, uint32_t attempt)
{
    char text[DIGITS_MAX];
    const char *digits = write_number(text, attempt);
    return setxattr(path, attempt_attribute, digits, strlen(digits), 0) == 0;
}

/* What earlier attempts had begun when they were lost: theirs no longer count. */
static void remove_earlier(const struct volumes_order *order)
{
    char path[PATH_MAX];
    char text[DIGITS_MAX];
    size_t size = (size_t)(strrchr(order->path, '.') + 1 - order->path);
    if (size + DIGITS_MAX > sizeof path) {
        return;
    }
    memcpy(path, order->path, size);
    uint32_t first = order->attempt > EARLIER_MAX ? order->attempt - EARLIER_MAX : 1;
    for (uint32_t attempt = first; attempt < order->attempt; attempt++) {
        const char *digits = write_number(text, attempt);
        memcpy(path + size, digits, strlen(digits) + 1);
        remove_tree(path);
    }
}

static bool has_promised(int fd, const struct volumes_order *order)
{
    struct err err = {0};
    struct output output = {.fd =
                                open(order->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (output.fd < 0) {
        say(fd, "the output folder was removed");
        return false;
    }
    for (const char *name = order->promised; *name; name += strlen(name) + 1) {
        if (output_has(&output, name, &err) != ERR_OK) {
            say(fd, err.text);
            return false;
        }
    }
    close(output.fd);
    return true;
}

/* What a later attempt has put there stays: this one will be refused. What an earlier one did was
 * refused, or its end was never heard of. */
static void keep(int fd, const struct volumes_order *order)
{
    char old[PATH_MAX];
    if (!has_promised(fd, order)) {
        remove_tree(order->path);
        return;
    }
    if (rmdir(order->path) == 0) {
        return; /* it was empty */
    }
    bool is_late = kept_attempt(order->to) > order->attempt;
    if (is_late || !mark(order->path, order->attempt) || strlen(order->path) + 2 > sizeof old) {
        say(fd, is_late ? "a later attempt has left its output already"
                        : "the output folder cannot be marked");
        remove_tree(order->path);
        return;
    }
    memcpy(old, order->path, strlen(order->path));
    memcpy(old + strlen(order->path), "~", 2);
    if (rename(order->to, old) != 0 && errno != ENOENT) {
        say(fd, "an earlier output cannot be moved away");
        return;
    }
    if (rename(order->path, order->to) != 0) {
        say(fd, "the output folder cannot be put in its place");
    }
    remove_tree(old);
}

static void carry_out(int fd, const struct volumes_order *order, const char *folder)
{
    switch (order->what) {
    case VOLUMES_COMMIT:
        commit(fd, folder);
        break;
    case VOLUMES_EMPTY:
        remove_earlier(order);
        remove_tree(order->path);
        make_folders(fd, order->path, strlen(folder));
        break;
    case VOLUMES_MAKE:
        make_folders(fd, order->path, strlen(folder));
        break;
    case VOLUMES_KEEP:
        keep(fd, order);
        break;
    case VOLUMES_DROP:
        remove_tree(order->path);
        break;
    case VOLUMES_UNDO:
        if (kept_attempt(order->path) == order->attempt) {
            remove_tree(order->path);
        }
        break;
    }
}

/* --- in the agent ---------------------------------------------------------------------------- */

static pid_t start(int fd, const struct volumes_place *place, const struct volumes_order *order)
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
        carry_out(1, order, place->folder);
        _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

enum err_code volumes_send(struct agent *agent, struct volumes_place *place,
                           const struct volumes_order *order, uint64_t round, struct err *err)
{
    struct volumes *volumes = &agent->volumes;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return err_errno(err, errno, "volume %s: no pipe", place->shown);
    }
    pid_t pid = start(ends[1], place, order);
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
        .place = place, .what = order->what, .round = round, .pid = pid, .fd = ends[0]};
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
