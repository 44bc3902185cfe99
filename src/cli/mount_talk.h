/* mount_talk.h - asking a mounted volume about itself, through attributes of its root. */
#ifndef CLI_MOUNT_TALK_H
#define CLI_MOUNT_TALK_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

/* Where mounts in the background write what goes wrong: STATE_HOME/drover/mount.log. Made. */
MUST_USE enum err_code mount_talk_log_path(struct str *out, struct err *err);

/* The process that serves the folder; 0: none of ours. */
int mount_talk_pid(const char *folder);
/* Its volume has failed for good: what was written last cannot be stored any more. */
bool mount_talk_has_failed(const char *folder);
int mount_talk_watch(int pid);           /* a descriptor for wait; -1: it is gone already */
int mount_talk_wait(int watch, int pid); /* until it has ended; the exit code of the command */

/* Prints what a mount has done; the exit code. */
int mount_talk_stats(const char *folder, bool as_json);

/* Tells the mount at folder to do something ("snapshot NAME", "gc", "compact", "checkpoint"); what
 * it answers is appended to out. */
MUST_USE enum err_code mount_talk_do(const char *folder, const char *order, struct str *out,
                                     struct err *err);

#endif
