/* The machine will be taken away, or somebody wants it for himself: a signal or a file says so, and
 * the master is told. */
#include "base/clock.h"
#include "base/mem.h"
#include "node/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { LOOK_MS = 1000, LAST_PATIENCE_MS = 1000 };

static void give(struct agent *agent, const char *reason)
{
    struct notice *notice = &agent->notice;
    notice->is_given = true;
    notice->is_unsent = true;
    notice->until_ms = clock_mono_ms() + agent->options->grace_ms;
    snprintf(notice->reason, sizeof notice->reason, "%s", reason);
    for (char *at = notice->reason; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = ' ';
        }
    }
}

/* The first signal is polite, with all its grace; the second one is not. */
static void leave(struct agent *agent, const char *reason)
{
    agent->notice.signals++;
    if (agent->notice.signals > 1) {
        agent_stop(agent, 0, LAST_PATIENCE_MS);
        return;
    }
    give(agent, reason);
    agent_stop(agent, agent->options->grace_ms, AGENT_STOP_PATIENCE_MS);
}

static void take_signals(struct agent *agent)
{
    struct signalfd_siginfo info;
    int fd = notice_fd(agent);
    while (fd >= 0 && read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1) {
            give(agent, "a notice by signal");
        } else {
            leave(agent, info.ssi_signo == SIGINT ? "interrupted" : "terminated");
        }
    }
}

/* Its first line is the reason. */
static void look_at_file(struct agent *agent)
{
    struct notice *notice = &agent->notice;
    AUTO_CLOSE int fd =
        open(agent->options->notice_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool was_there = notice->file_is_there;
    notice->file_is_there = fd >= 0 || errno == EACCES;
    if (!notice->file_is_there || was_there) {
        return;
    }
    char text[sizeof notice->reason];
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    give(agent, text[0] ? text : "a notice by file");
}

void notice_turn(struct agent *agent)
{
    take_signals(agent);
    int64_t now_ms = clock_mono_ms();
    if (agent->options->notice_file && now_ms >= agent->notice.look_at_ms) {
        agent->notice.look_at_ms = now_ms + LOOK_MS;
        look_at_file(agent);
    }
}

enum err_code notice_send(struct agent *agent, struct err *err)
{
    struct notice *notice = &agent->notice;
    if (!notice->is_unsent || agent->link.state != LINK_JOINED) {
        return ERR_OK;
    }
    int64_t left_ms = notice->until_ms - clock_mono_ms();
    Drover__Notice told = DROVER__NOTICE__INIT;
    told.grace_ms = left_ms > 0 ? left_ms : 0;
    told.reason = notice->reason;
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.notice = &told;
    notice->is_unsent = false; /* the next Welcome makes it so again */
    enum err_code code = link_send(agent, &message, err);
    return code == ERR_AGAIN ? ERR_OK : code;
}

int64_t notice_wake_ms(const struct agent *agent)
{
    return agent->options->notice_file ? agent->notice.look_at_ms : INT64_MAX;
}

int notice_fd(const struct agent *agent)
{
    return agent->options->signal_fd > 0 ? agent->options->signal_fd : -1;
}
