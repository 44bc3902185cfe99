/* tree.h - finding and ending all the processes below this one.
 *
 * A subreaper's descendants are exactly what its children, their children and so on are: nobody
 * can leave by a second fork or a new session. Processes that fork while we look are met by
 * stopping what was found, looking again until nothing new turns up, and only then killing.
 *
 * Async-signal-safe: static memory, no locks, so that it may run after a fork in a program with
 * threads. For the same reason only one thread of a process may use it. Needs /proc.
 */
#ifndef NODE_TREE_H
#define NODE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Children of this process that are left alone, and all below them: those of this session, and
 * those named. NULL leaves none. */
struct tree_spare {
    pid_t session;
    const pid_t *pids;
    size_t count;
};

/* Sends the signal to the process if its parent is still `parent`, or this process since that died.
 * A number read a moment ago may have passed to a stranger, who is not to be hit. */
void tree_signal_one(pid_t pid, pid_t parent, int signal);

/* False: look as on a kernel without the "children" files in /proc, which is slower. For tests. */
void tree_set_fast(bool fast);

/* Sends the signal to every descendant once. Returns how many there were, the dead ones not yet
 * waited for included. */
size_t tree_signal(int signal, const struct tree_spare *spare);

/* Kills and waits for every descendant. The CPU time of those waited for is added to *cpu_us.
 * False: some did not go within timeout_ms (a process inside the kernel cannot be killed). */
bool tree_kill(const struct tree_spare *spare, int64_t timeout_ms, int64_t *cpu_us);

#endif
