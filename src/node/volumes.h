/* volumes.h - the volumes that tasks need, as folders of this machine. Private to this folder; used
 * by the agent's thread.
 *
 * A volume is mounted when the first attempt needs it, by a process of its own (`drover mount` of
 * our own program), serves all attempts here that need the same one, and is unmounted when nobody
 * has needed it for a while. A snapshot is read-only. A volume that can be written to is committed
 * before the end of an attempt that used it is told.
 *
 * Nothing in the agent's loop ever touches a mounted folder, which may take as long as its store:
 * commits are asked for, and folders in a volume made, by short-lived children (errands). An
 * attempt that waits for either is in agent->fetching or agent->delivering, with an item of haul.h.
 *
 * Mounts end with the agent, also when it is killed: the kernel sends them a TERM then, and they
 * store what was written. What is still mounted below WORK/volumes when an agent starts is
 * unmounted first.
 */
#ifndef NODE_VOLUMES_H
#define NODE_VOLUMES_H

#include "base/err.h"
#include "wire/wire.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct agent;
struct attempt;

enum {
    VOLUMES_MAX = 256, /* mounted at a time */
    VOLUMES_ERRANDS_MAX = 32,
    VOLUMES_PROCESSES_MAX = VOLUMES_MAX + VOLUMES_ERRANDS_MAX,
    VOLUMES_SAID_MAX = 512,
};

enum volumes_state {
    VOLUMES_MOUNTING,
    VOLUMES_READY,
    VOLUMES_LEAVING, /* told to unmount */
    VOLUMES_DEAD,    /* it ended by itself; `why` says why */
};

struct volumes_place {
    TAILQ_ENTRY(volumes_place) link;
    enum volumes_state state;
    char *key;    /* which volume, and how it is reached */
    char *shown;  /* the same for people */
    char *mount;  /* WORK/volumes/N */
    char *folder; /* where tasks find it: the same, or where it was mounted already */
    bool is_writable;
    uint32_t users;        /* attempts */
    int64_t idle_since_ms; /* while there are none */
    pid_t pid;             /* 0: it is gone */
    int fd;                /* what it says; -1: nothing more */
    char said[PATH_MAX + 16];
    size_t said_size;
    struct err why;
    uint64_t rounds; /* commits begun */
    bool is_committing;
};
TAILQ_HEAD(volumes_place_list, volumes_place);

enum volumes_what {
    VOLUMES_COMMIT,
    VOLUMES_MAKE,  /* a folder */
    VOLUMES_EMPTY, /* the same, with nothing in it; those of earlier attempts are removed */
    VOLUMES_KEEP,  /* renames a folder that holds something, over what an earlier attempt left */
    VOLUMES_DROP,  /* removes a folder and all that is in it */
    VOLUMES_UNDO,  /* the same with one that was kept, if it is still this attempt's */
};

struct volumes_order {
    enum volumes_what what;
    char *path;           /* in the volume, all but COMMIT */
    char *to;             /* KEEP */
    uint32_t attempt;     /* its number; of EMPTY and KEEP the end of the path */
    const char *promised; /* KEEP: names that must be in it, each with its NUL, then an empty one */
};

/* A child that does what may take long. It says nothing if all is well. */
struct volumes_errand {
    TAILQ_ENTRY(volumes_errand) link;
    struct volumes_place *place;
    enum volumes_what what;
    uint64_t round; /* of the items that wait for it */
    pid_t pid;
    int fd;
    char said[VOLUMES_SAID_MAX];
    size_t said_size;
};
TAILQ_HEAD(volumes_errand_list, volumes_errand);

struct volumes {
    struct volumes_place_list places;
    struct volumes_errand_list errands;
    uint32_t place_count;
    uint32_t errand_count;
    uint64_t next_name;   /* of a folder */
    uint64_t next_folder; /* to be made: names the errand */
    int epoll;            /* over all `fd`; 0: none yet */
};

void volumes_init(struct agent *agent);
/* Unmounts what an agent that was killed has left in WORK/volumes. */
void volumes_clean(const char *work);
/* Unmounts everything, which waits until all is stored, and frees all. The slots are gone. */
void volumes_close(struct agent *agent);

/* Sees to it that the volumes of the new attempt get mounted. */
MUST_USE enum err_code volumes_before(struct agent *agent, struct attempt *attempt,
                                      struct err *err);
/* It has run: orders the commits. */
void volumes_after(struct agent *agent, struct attempt *attempt);
/* Its result was refused: what was kept of it in a volume is thrown away. */
void volumes_refuse(struct agent *agent, struct attempt *attempt);
/* It needs them no more. */
void volumes_let_go(struct attempt *attempt);
/* Where a volume of an attempt is that may start. */
const char *volumes_folder(const struct attempt *attempt, const char *name);

/* Children that are to be left alone; their number. */
size_t volumes_processes(const struct agent *agent, pid_t out[VOLUMES_PROCESSES_MAX]);

/* --- the loop --- */

void volumes_turn(struct agent *agent);
int64_t volumes_wake_ms(const struct agent *agent);
int volumes_fd(const struct agent *agent); /* -1: none */

/* --- volumes_mount.c: the processes --- */

/* Which volume it is, for people or (with how it is reached) to compare. */
char *volumes_key(const Drover__Volume *volume, bool for_people);
/* Starts the mount of a new place. */
MUST_USE enum err_code volumes_mount(struct agent *agent, struct volumes_place *place,
                                     const Drover__Volume *volume, struct err *err);
/* Whether another node of this machine uses our mount: it holds a lock on the log then. */
bool volumes_is_shared(const struct volumes_place *place);
void volumes_unmount(struct volumes_place *place); /* begins it */
/* Collects the process if it has ended; true if there is none (any more). */
bool volumes_collect(struct volumes_place *place);
void volumes_read_why(struct volumes_place *place); /* into `why`, from what it logged */
void volumes_remove_place_files(const struct volumes_place *place);

/* --- volumes_errand.c --- */

MUST_USE enum err_code volumes_send(struct agent *agent, struct volumes_place *place,
                                    const struct volumes_order *order, uint64_t round,
                                    struct err *err);
/* True: it has ended; err says how. */
bool volumes_is_back(struct volumes_errand *errand, struct err *err);
void volumes_end_errand(struct agent *agent, struct volumes_errand *errand); /* frees it */

#endif
