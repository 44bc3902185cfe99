/* mount_talk.h - asking a mounted volume about itself, through attributes of its root. */
#ifndef CLI_MOUNT_TALK_H
#define CLI_MOUNT_TALK_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

/* Where mounts in the background write what goes wrong: STATE_HOME/drover/mount.log. Made. */
MUST_USE enum err_code mount_talk_log_path(struct str *out, struct err *err);

/* Whoever asks a mount whose process is stopped waits for as long as it is: so a child asks, and
 * after wait_ms it is left alone. A mount that carries out an order (gc) does not answer either. */
enum {
    MOUNT_TALK_LOOK_MS = 5000,   /* where an answer is good to have */
    MOUNT_TALK_ORDER_MS = 20000, /* where nothing can be done without one */
};
enum mount_talk_state {
    MOUNT_TALK_NONE,   /* nothing of ours is mounted there */
    MOUNT_TALK_LIVES,  /* pid and has_failed are valid */
    MOUNT_TALK_DEAD,   /* its process is gone */
    MOUNT_TALK_SILENT, /* it has not answered in time */
};
struct mount_talk {
    enum mount_talk_state state;
    int pid;         /* that serves the folder */
    bool has_failed; /* for good: what was written last cannot be stored any more */
};
struct mount_talk mount_talk_look(const char *folder, int wait_ms);
/* The process that serves the folder, asked for MOUNT_TALK_LOOK_MS at most; 0: none of ours, or
 * none that answers. */
int mount_talk_pid(const char *folder);
/* Say that it does not answer, or that nothing is there, and what to do; the exit code. */
int mount_talk_silent(const char *folder);
int mount_talk_dead(const char *folder); /* likewise: its process was killed */
int mount_talk_absent(const char *folder);
int mount_talk_watch(int pid);           /* a descriptor for wait; -1: it is gone already */
int mount_talk_wait(int watch, int pid); /* until it has ended; the exit code of the command */

/* Prints what a mount has done; the exit code. */
int mount_talk_stats(const char *folder, bool as_json);

/* Tells the mount at folder to do something ("snapshot NAME", "gc", "compact", "checkpoint"); what
 * it answers is appended to out. */
MUST_USE enum err_code mount_talk_do(const char *folder, const char *order, struct str *out,
                                     struct err *err);

#endif
