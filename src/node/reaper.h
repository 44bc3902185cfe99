/* reaper.h - the process of one slot: runs one task at a time and outlives everything it started.
 *
 * The agent forks it and talks to it over a SOCK_SEQPACKET socket pair. It is a subreaper in its
 * own session, so whatever a task starts stays below it; since it has one task at a time, every
 * descendant it has is that task's. A task's end is reported when its main process has ended, all
 * other descendants have been killed and waited for, and what it printed is in its log. When the
 * agent's end of the socket is closed, by purpose or by death, everything is killed and it leaves.
 *
 * Agent to reaper: a struct reaper_run followed by its strings, only when the last task's end was
 * reported; or a struct reaper_kill at any time. Reaper to agent: a struct reaper_ended for each
 * run. Both ends are the same program, so the structs are sent as they are.
 *
 * It runs in a fork of a program with threads: everything in here, tree.c and capture.c is
 * async-signal-safe and lives in static memory.
 */
#ifndef NODE_REAPER_H
#define NODE_REAPER_H

#include <stdint.h>

enum {
    REAPER_PACKET_BYTES_MAX = 192 * 1024,
    REAPER_STRINGS_MAX = 8192, /* arguments and variables */
};

enum reaper_request { REAPER_RUN = 1, REAPER_KILL = 2 };

/* Followed by argument_count + variable_count + 3 strings, each with its NUL: the program's path,
 * the folder to start in, the log file, the arguments, the environment. */
struct reaper_run {
    uint32_t request;
    uint32_t argument_count;
    uint32_t variable_count;
    uint64_t serial;
    int64_t timeout_ms; /* 0: none */
    int64_t grace_ms;   /* between TERM and KILL after the timeout */
    uint64_t log_limit_bytes;
};

/* Ends the task with that serial, if it still runs: TERM, and KILL after the grace. Given twice,
 * the earlier KILL counts. */
struct reaper_kill {
    uint32_t request;
    uint64_t serial;
    int64_t grace_ms;
};

enum reaper_how {
    REAPER_EXITED = 1,  /* code: exit status */
    REAPER_SIGNALLED,   /* code: signal */
    REAPER_TIMEOUT,     /* ended by us after its time */
    REAPER_KILLED,      /* ended by us at the agent's wish */
    REAPER_NO_PROCESS,  /* code: errno of vfork */
    REAPER_NO_FOLDER,   /* code: errno of chdir */
    REAPER_NO_PROGRAM,  /* code: errno of execve */
    REAPER_BAD_REQUEST, /* a run that made no sense */
};

struct reaper_ended {
    uint64_t serial;
    uint32_t how; /* enum reaper_how */
    uint32_t code;
    int64_t started_unix_ms;
    int64_t duration_us;
    int64_t cpu_us;
    uint64_t peak_rss_bytes; /* 0: less than this process's own, which hides it */
    uint64_t log_bytes;
    uint64_t log_dropped_bytes;
    uint32_t log_missing; /* 1: the log file could not be made */
};

/* What the agent prepares before the fork. All are closed in the reaper except as it needs them. */
struct reaper_files {
    int control;      /* the reaper's end */
    int null;         /* /dev/null */
    int pipe_read;    /* non-blocking */
    int pipe_write;   /* what tasks print to */
    int cgroup_procs; /* joined at the start; -1: none */
    int keep;         /* held open, but not by tasks, until all is gone; -1: none */
};

/* Lets this process open as many files as it may: each slot takes some, and a slot that finds no
 * room for its own dies. Tasks get the limit as it was. Call it once, before the first fork. */
void reaper_raise_file_limit(void);

/* The life of the reaper; call it right after the fork with all signals blocked. */
_Noreturn void reaper_main(const struct reaper_files *files);

#endif
