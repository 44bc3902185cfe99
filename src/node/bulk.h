/* bulk.h - everything large between this node and its master, on a connection of its own.
 *
 * An actor: a thread with its own CURVE DEALER to the master's depot, so that a checkpoint of ten
 * gigabytes never delays a heartbeat. Only nodes that do not share the master's disk send logs,
 * outputs and checkpoints by it; code is fetched by all.
 *
 * Each request gets a ticket and ends in exactly one event with that ticket (watches and follows:
 * after bulk_finish or bulk_drop). A request goes on through cut cables, restarts of the master and
 * full disks there, for as long as it takes, from what the other side says it has; it is done only
 * when the content lies on disk in its final place. It ends in failure only for a reason that does
 * not pass:
 *
 *   ERR_STALE      the master refuses: this attempt is not live (any more); throw the work away
 *   ERR_DENIED     the master refuses this node
 *   ERR_NOT_FOUND  there is none (no checkpoint yet, no such version, no such file here)
 *   ERR_QUOTA      too many or too large files, or the disk here is full
 *   ERR_CORRUPT    what the master sends does not fit together
 *   ERR_CANCELLED  bulk_drop
 *   ERR_IO         a file or folder here cannot be read or written
 *
 * Order: requests run side by side, in pieces of BULK_PIECE_BYTES in turn, so that a small one is
 * not held up by a large one. At most BULK_CREDIT_BYTES are under way unacknowledged.
 *
 * Links inside a folder travel as links and are never followed; sockets, pipes and devices are left
 * out. Modes travel as their rwx bits for the owner; times of outputs and checkpoints as they are.
 *
 * The owner is one thread (the agent's). It must be ready to take an event at any time, and calls
 * nothing here from a fork.
 */
#ifndef NODE_BULK_H
#define NODE_BULK_H

#include "wire/bulk.h"
#include "wire/door.h"

#include <stdbool.h>
#include <stdint.h>

struct bulk;

struct bulk_options {
    void *zmq_context;
    const char *host;       /* the master's, as in the join URL */
    uint16_t port;          /* Welcome.bulk_port */
    const char *server_key; /* Z85 */
    const struct door_keys *keys;
    const char *work_folder; /* absolute; code goes to WORK/code */
    bool is_shared; /* this node can write where the master's state is: code is unpacked once, by
                       the master, for all such nodes, and the folder named in the event is there */
};

/* Copies what it needs. ERR_IO: no thread, socket or folder to be had. */
MUST_USE enum err_code bulk_start(const struct bulk_options *options, struct bulk **out,
                                  struct err *err);

/* Ends the thread at once; what was not done is not done. NULL does nothing. */
void bulk_stop(struct bulk *bulk);

/* The master has moved (a new Welcome with another port): connects there, goes on with everything.
 * The same port again does nothing. */
void bulk_reconnect(struct bulk *bulk, uint16_t port);

/* --- what comes back ------------------------------------------------------------------------- */

struct bulk_event {
    uint64_t ticket;
    struct err err;    /* err.code == ERR_OK: done */
    char folder[4096]; /* of fetches: where it is now; else "" */
};

/* Readable (level-triggered, for poll) while events wait. */
int bulk_fd(const struct bulk *bulk);
bool bulk_next(struct bulk *bulk, struct bulk_event *out);

/* --- up -------------------------------------------------------------------------------------- */

/* Sends the log as it grows (looked at four times a second), from its beginning; the file is opened
 * at once. Worth calling for tasks that have run a second or printed more than
 * BULK_SMALL_LOG_BYTES; what is smaller at the end travels in Ended.log. Ends after bulk_finish,
 * once the master has every byte up to the file's size at that moment. */
uint64_t bulk_follow_log(struct bulk *bulk, const Drover__Attempt *id, const char *file);

/* Sends the folder of an ended attempt, which must not change any more, nor go away before the
 * event. Done: it is attempts/EXPERIMENT/K/INDEX.ATTEMPT of the workflow's folder on the master. */
uint64_t bulk_send_output(struct bulk *bulk, const Drover__Attempt *id, const char *folder);

/* Looks at the folder every second; when its files have stayed as they are for half a second and
 * differ from what the master has, sends those that changed. The master puts each state in place
 * whole. bulk_finish sends the last state, however young (call it when the task has ended, and
 * before its Ended is sent); the event says that the master has it. Files that change while they
 * are sent are looked at again; after bulk_finish, nobody may write there. */
uint64_t bulk_watch_checkpoint(struct bulk *bulk, const Drover__Attempt *id, const char *folder);

/* The task got a TERM: looks now, and sends as soon as two looks 100 ms apart agree. */
void bulk_hurry(struct bulk *bulk, uint64_t ticket);

/* Ends a follow or watch properly. */
void bulk_finish(struct bulk *bulk, uint64_t ticket);

/* Ends any request at once, with an event ERR_CANCELLED (unless it was done already). Nothing
 * half-sent stays on the master. */
void bulk_drop(struct bulk *bulk, uint64_t ticket);

/* --- down ------------------------------------------------------------------------------------ */

/* Fetches the task's newest checkpoint into folder, before the task starts. The folder is replaced
 * as a whole; its parents are made. ERR_NOT_FOUND: the master has none; the folder is not touched.
 */
uint64_t bulk_fetch_checkpoint(struct bulk *bulk, const Drover__Attempt *id, const char *folder);

/* Fetches the accepted outputs of an experiment that the attempt depends on into folder, as
 * FOLDER/INDEX/... . If the folder is there from an earlier fetch and the master's is still the
 * same, it stays, at the price of one question. An experiment without outputs gives an empty
 * folder. */
uint64_t bulk_fetch_outputs(struct bulk *bulk, const Drover__Attempt *id, const char *experiment,
                            const char *folder);

/* Makes the code of that version (64 hex digits) available: the event's folder is
 * WORK/code/VERSION, or where the master unpacked it if the disk is shared. Its files are read-only
 * and shared between versions: a file that some task wrote into nevertheless is fetched again. */
uint64_t bulk_fetch_code(struct bulk *bulk, const char *version);

/* The versions in use by tasks here now: others may be removed, once there are more than
 * BULK_OLD_VERSIONS of them and they have not been asked for in a day. Call it when it changed. */
void bulk_keep_code(struct bulk *bulk, const char *const *versions, size_t count);

#endif
