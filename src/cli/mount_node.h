/* mount_node.h - drover mount --for-node: a mount that serves the tasks of a node.
 *
 * It says "ready" on standard output once the folder can be used, or "ready FOLDER" where the
 * volume is mounted on this machine already: whoever asks is then served by that one, and this
 * process only stays to say when it is gone. It ends on TERM, like any mount.
 */
#ifndef CLI_MOUNT_NODE_H
#define CLI_MOUNT_NODE_H

#include "base/err.h"

#include <stdbool.h>

/* Opens the volume, serves it, and returns when it is over. */
typedef enum err_code (*mount_node_fn)(void *context, struct err *err);

/* Tries `serve`, which sets *is_ready when it says so; where another process owns the volume: on
 * this machine, uses its mount or waits for its end; elsewhere, gives up (ERR_DENIED, with what to
 * do). */
MUST_USE enum err_code mount_node_run(mount_node_fn serve, void *context, const bool *is_ready,
                                      struct err *err);

void mount_node_say_ready(const char *folder); /* NULL: where it was asked for */

#endif
