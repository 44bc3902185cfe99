#include "master/child.h"

#include "base/mem.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* In the child, between fork and exec: only what is safe there. */
static _Noreturn void become(const char *const *arguments, int log_fd, pid_t parent,
                             int death_signal)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* a ^C is for us alone */
    prctl(PR_SET_PDEATHSIG, death_signal);
    if (getppid() != parent) {
        _exit(1);
    }
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    execv("/proc/self/exe", (char *const *)arguments); /* they are not written to */
    _exit(127);
}

pid_t child_start(const char *const *arguments, const char *log, int death_signal)
{
    AUTO_CLOSE int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t parent = getpid();
    pid_t pid = log_fd < 0 ? -1 : fork();
    if (pid == 0) {
        become(arguments, log_fd, parent, death_signal);
    }
    return pid;
}
