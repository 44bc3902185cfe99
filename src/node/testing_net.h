/* testing_net.h - a master on the network, for tests of what a node does with its connection.
 *
 * testing_net_open makes a CURVE ROUTER and a node that joins it. By itself this master answers
 * every Hello with a Welcome and every heartbeat with an empty message, and knows only the newest
 * session and connection; a test can take each of these over. Everything of testing.h works with
 * it.
 */
#ifndef NODE_TESTING_NET_H
#define NODE_TESTING_NET_H

#include "node/testing.h"
#include "wire/door.h"

#include <stdatomic.h>

enum { TESTING_NET_HOLDING_MAX = 64 };

struct testing_net {
    /* Set before testing_net_open, or changed by the test at any time. */
    bool is_mute;          /* answers nothing at all */
    bool refuses_sessions; /* answers Hello, and `who` to everything else */
    uint32_t heartbeat_ms; /* 0: 50 */
    uint32_t lease_ms;     /* 0: 200 */
    uint32_t bulk_port;
    const char *folder; /* of Welcome; NULL: none */
    const char *probe;
    bool no_share;
    int64_t grace_ms;
    const char *notice_file;
    int signal_fd;
    const char *url_file;
    bool in_child; /* the node is a process of its own, `child`, not a thread */

    /* What was seen. */
    uint32_t hello_count;
    uint32_t route_count; /* connections that said Hello */
    uint32_t heartbeat_count;
    uint32_t wrong_count; /* messages of another session or connection */
    uint32_t usage_count;
    char boot[64];
    char secret[DOOR_SECRET_CHARS + 1];        /* of the last Hello */
    uint64_t holding[TESTING_NET_HOLDING_MAX]; /* tasks, of the last Hello */
    bool holding_ended[TESTING_NET_HOLDING_MAX];
    size_t holding_count;
    bool has_notice;
    int64_t notice_grace_ms;
    char notice_reason[256];
    _Atomic int joined_count; /* told by the node, in its thread */
    _Atomic int lost_count;
    _Atomic int back_count;

    /* Its own. */
    uint64_t session;
    uint16_t port;
    struct door_keys keys;
    struct door_guard *guard;
    struct door_frame *frame;
    struct door_sender sender; /* of the newest Hello */
    void *node_context;
    struct node_join join;
    pid_t child;
};

void testing_net_open(struct testing *testing, struct testing_net *net);
/* Ends the node with Stop if it has not ended yet, and takes everything down. */
void testing_net_close(struct testing *testing);
/* When the node has ended or will end by itself. */
enum err_code testing_net_join(struct testing *testing);

/* As if the master had been killed and started again: another socket, nothing remembered. */
void testing_net_restart(struct testing *testing);

void testing_net_tell(struct testing *testing, Drover__ToNode *message); /* in the session */
void testing_net_tell_in(struct testing *testing, uint64_t session, Drover__ToNode *message);
void testing_net_tell_bytes(struct testing *testing, const void *bytes, size_t size);
void testing_net_receive(struct testing *testing);

/* Takes messages until there were so many Hellos. */
void testing_net_wait_hello(struct testing *testing, uint32_t count);
/* Takes messages for that long. */
void testing_net_listen(struct testing *testing, int64_t ms);
bool testing_net_holds(const struct testing_net *net, uint64_t task, bool ended);

#endif
