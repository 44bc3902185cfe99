/* link.h - the agent's connection to its master, and who they are to each other. Private to this
 * folder; used by the agent's thread.
 *
 * In one process (no node_options.join) it is a PAIR: always joined, session 0, never silent.
 *
 * Over the network the agent says Hello with all it holds; the master's Welcome begins a session,
 * and from then on both sides mark their messages with it. What is of another session is not ours
 * and is ignored. The connection is given up, and a new one begun with a Hello, when nothing was
 * heard for the time of the lease, when this process itself did not run for so long (what waits in
 * the socket is then of the past), when a message is not valid, or when sending would block. "Who"
 * says that the master does not know this connection: Hello again on the same one. So a message
 * that was lost on the way is made good by the Hello that follows, and everything unsettled is
 * reported again after each Welcome. The attempts know nothing of all this.
 *
 * Nothing here blocks. Intervals are of the clock that never jumps.
 */
#ifndef NODE_LINK_H
#define NODE_LINK_H

#include "base/rng.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;

enum link_state {
    LINK_AWAY,     /* no socket, until open_at_ms */
    LINK_GREETING, /* Hello was sent */
    LINK_JOINED,
};

struct link {
    void *socket; /* NULL while away */
    int fd;       /* readable when the socket may have something; -1 while away */
    enum link_state state;
    bool has_news; /* the socket must be asked: its descriptor tells of news only once, and sending
                      may take that away too */
    uint64_t session;
    uint32_t heartbeat_ms;
    uint32_t lease_ms;
    int64_t sent_ms;
    int64_t heard_ms;
    int64_t turned_ms; /* when link_turn was called last */
    int64_t open_at_ms;
    int64_t pause_ms; /* the next one after a refusal; grows */
    int64_t greet_ms; /* how long an answer to Hello may take; grows from the lease */
    bool was_joined;  /* once, at least */
    bool is_lost;     /* and that was told */
    bool is_over;     /* Bye was heard: there will be no other connection */
    struct rng rng;
    char boot[33];
    char note[512];   /* for Hello.notes, or "" */
    char reason[512]; /* of the Bye */
};

/* In one process: connects and says Hello. Otherwise it begins with the first link_turn. */
MUST_USE enum err_code link_open(struct agent *agent, const char *note, struct err *err);

/* What was sent last still gets a moment to go out. */
void link_close(struct link *link);

/* Connects, says Hello, sends a heartbeat, gives up: whatever is due. ERR_CANCELLED: the context
 * was terminated. */
MUST_USE enum err_code link_turn(struct agent *agent, struct err *err);
int64_t link_wake_ms(const struct agent *agent); /* when the next turn is due; INT64_MAX: never */

/* With the session. Over the network a failure costs the connection and is ERR_AGAIN: what was not
 * sent is to be reported after the next Welcome. */
MUST_USE enum err_code link_send(struct agent *agent, Drover__ToMaster *message, struct err *err);

/* The next message that is about our work (it is the caller's). ERR_AGAIN: none waits. */
MUST_USE enum err_code link_receive(struct agent *agent, Drover__ToNode **out, struct err *err);

#endif
