/* output.h - the folders tasks write their results to.
 *
 * Each slot has one, WORK/slots/N/output, used by one task after another as long as they leave it
 * empty, which is the common case and costs no more than a look. A folder that holds something is
 * moved whole: to where it is kept, or to the trash, which one child process at a time removes.
 * Tasks are not trusted with it: it may be gone, or be a file or a link when they end; links are
 * never followed.
 *
 * Used by the agent's thread only.
 */
#ifndef NODE_OUTPUT_H
#define NODE_OUTPUT_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct trash {
    const char *work; /* borrowed */
    uint64_t next;    /* name of the next thing thrown away */
    bool has_some;    /* in WORK/slots/trash */
    pid_t remover;    /* 0: none runs */
};

/* Makes WORK/slots anew; what was there is thrown away. */
MUST_USE enum err_code trash_open(struct trash *trash, const char *work, struct err *err);
/* Moves path there. A path that is not there is fine; false: it could not be moved. */
bool trash_take(struct trash *trash, const char *path);
/* Starts or waits for the child that empties the trash, without blocking. True while it runs. */
bool trash_turn(struct trash *trash);
/* Removes WORK/slots with all that is in it. */
void trash_close(struct trash *trash);

struct output {
    char path[PATH_MAX]; /* absolute; "" before output_open */
    int fd;              /* the folder */
    uint64_t device;
    uint64_t inode;
    uint32_t mode;
    uint32_t generation; /* names the next folder if this one cannot be moved away */
    uint32_t slot;
};

MUST_USE enum err_code output_open(struct output *output, const char *work, uint32_t slot,
                                   struct err *err);
void output_close(struct output *output);

enum output_state { OUTPUT_EMPTY, OUTPUT_FILLED, OUTPUT_SPOILT };

/* What the task left. SPOILT: it is no folder any more; there is nothing to keep. One that the task
 * removed and made again is as good as ours. */
enum output_state output_look(struct output *output);

/* Whether the name exists below the folder. ERR_INVALID: absolute, or leads out of it.
 * ERR_NOT_FOUND: it is not there. */
MUST_USE enum err_code output_has(const struct output *output, const char *name, struct err *err);

/* Moves the folder to kept_path (over what is there, which goes to the trash) and makes a new one.
 */
MUST_USE enum err_code output_keep(struct output *output, struct trash *trash,
                                   const char *kept_path, struct err *err);

/* Makes the folder an empty one again, whatever it has become. */
MUST_USE enum err_code output_empty(struct output *output, struct trash *trash, struct err *err);

#endif
