/* child.h - our own program as a child that dies with us. Private to src/master. */
#ifndef MASTER_CHILD_H
#define MASTER_CHILD_H

#include <sys/types.h>

/* Starts it with these arguments (the first is its name, NULL behind the last) in a process group
 * of its own, what it says going to the end of the log; when the thread that calls this ends, it
 * gets `death_signal`. -1: errno says why. */
pid_t child_start(const char *const *arguments, const char *log, int death_signal);

#endif
