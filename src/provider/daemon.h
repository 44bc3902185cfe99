/* daemon.h - a process of ours that outlives the command that started it, found again by a file.
 *
 * The file names the process by its number, when it began, and the boot it began in, so that a
 * number that belongs to someone else by now is never taken for it: signals go by a descriptor of
 * the process, checked after it was opened. The process begins its work only when the file is
 * there; if the command dies in between, so does it.
 */
#ifndef PROVIDER_DAEMON_H
#define PROVIDER_DAEMON_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct daemon_options {
    const char *program; /* NULL: this very program */
    char *const *argv;   /* NULL-terminated; argv[0] is for show */
    const char *pid_file;
    const char *log_file; /* standard output and error, appended; mode 0600 */
    const char *folder;   /* where it starts */
    bool tied;            /* gets TERM when the thread that started it ends */
};

/* Own session, standard input empty, no descriptor and no DROVER_TOKEN of ours, signals as new.
 * ERR_EXISTS: the file names a living process. On failure nothing runs. */
MUST_USE enum err_code daemon_start(const struct daemon_options *options, pid_t *pid,
                                    struct err *err);

/* True if the file names a process that lives (a zombie does not); *pid is its number. */
bool daemon_is_alive(const char *pid_file, pid_t *pid);

/* ERR_NOT_FOUND: it does not live. */
MUST_USE enum err_code daemon_signal(const char *pid_file, int signal_number, struct err *err);

#endif
