/* server.h - the owner's end: sessions of mounts, and what they ask of the volume.
 *
 * A session belongs to a mount, known by the key of its connection. Each ask has a number. Changes
 * of one mount are carried out once, in the order of their numbers, whatever is repeated: answers
 * are kept until the mount says that it has them, and the number of a mount's last change is stored
 * with the change (engine_service_put), so that it is recognised by the next owner too.
 *
 * After a restart the owner waits, for a lease at most, until every mount that had a session is
 * back and has said again what was answered but not stored; that is carried out in the order in
 * which it was first answered, and inodes get the numbers they had. Then others are served. So
 * what a living mount was told stays true although the owner died. What a file holds that was
 * removed while it was open is not kept over the owner's death.
 *
 * A mount that says nothing for the time of the lease has lapsed: its opens and locks are dropped,
 * and new files that it never closed are removed. When it comes back it is told so. Its packs are
 * let be and its last answers kept for ten minutes more.
 *
 * Answers carry grants: what the mount may go on believing without asking, by inode; for a folder
 * also the names in it. A change that touches such an inode is carried out, and answered, only when
 * every other mount that was granted it has been told to forget it and has said that it has, or has
 * lapsed. A mount counts its lease from when it sent the last message that the owner had heard
 * before it sent the oldest Forget not yet carried out (MetaAnswer.clock_ms), which is never later
 * than the owner counts it; so nothing that is believed is older than the last change answered.
 * An inode that was recalled is granted to nobody for a fifth of the lease: what several mounts
 * change in turn is asked for each time.
 *
 * One thread owns a server. Nothing here blocks but orders (gc, snapshots), creation and the end
 * of recovery. The volume is borrowed.
 */
#ifndef META_SERVER_H
#define META_SERVER_H

#include "base/err.h"
#include "volume/volume.h"
#include "wire/door.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { META_LEASE_MS = 10 * 1000, META_HEARTBEAT_MS = 1000, META_GRANTS_MAX = 1 << 20 };

struct meta_server;

struct meta_server_options { /* all of it is borrowed for the server's life */
    const char *secret;
    const char *url, *endpoint, *region, *addressing; /* of the store, for mounts; or NULL */
    int64_t lease_ms;                                 /* 0: META_LEASE_MS */
    size_t grants_max; /* inodes granted to one mount; 0: META_GRANTS_MAX; four times it to all */
    /* False: it could not be sent; the mount will ask again. */
    bool (*send)(void *context, const struct door_sender *to, const void *bytes, size_t size);
    void (*tell)(void *context, const char *line); /* what people should know; or NULL */
    void *context;
};

/* Blocking. now_ms: of the clock that never goes back, here and below. */
MUST_USE enum err_code meta_server_create(struct volume *volume,
                                          const struct meta_server_options *options, int64_t now_ms,
                                          struct meta_server **out, struct err *err);
void meta_server_destroy(struct meta_server *server); /* the volume stays */

void meta_server_take(struct meta_server *server, const struct door_sender *from, const void *bytes,
                      size_t size, int64_t now_ms);
/* After volume_run, and every 100 ms or so: answers what could not be answered yet, drops who has
 * lapsed. */
void meta_server_turn(struct meta_server *server, int64_t now_ms);

struct meta_server_counts {
    uint64_t sessions, lapsed, opens, locks, parked;
    uint64_t answers; /* kept, in case they were lost */
    uint64_t asks, changes, repeated;
    uint64_t grants, recalls; /* now; ever */
    bool recovering;
};
void meta_server_counts(const struct meta_server *server, struct meta_server_counts *out);

#endif
