/* gate.c - nodes over the network: sessions, heartbeats, and who is believed.
 *
 * A node is its CURVE key. Each Hello begins a new session over the connection it came by; whatever
 * comes by another connection, or with another session, is dropped and answered with `who`, and the
 * node says Hello again with all it holds. So a message that was lost on the way, in either
 * direction, is made good by the next Hello.
 */
#include "master/server_state.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum {
    HEARTBEAT_MS = 1000, /* at most; and */
    HEARTBEATS = 4,      /* at least, in a lease */
    READ_MAX = 1000,     /* messages, and */
    READ_MS = 50,        /* time, before others get a turn */
    STRANGER_BYTES_MAX = 64 << 10,
    HOLDING_MAX = 1 << 16, /* attempts that one node can have */
    REPORTS_MAX = 1 << 13, /* of a kind, in one message */
};

static void tell_node(struct server *server, const struct herd_node *node, const char *what)
{
    struct server_event event = {
        .kind = "node", .node = node->number, .text = what, .at_ms = server_now_ms(server)};
    server_tell(server, &event);
}

static void answer(struct server *server, const struct door_sender *sender,
                   const Drover__ToNode *message)
{
    /* a peer that has gone again, or does not read, gets nothing */
    (void)!door_send_to_node(server->gate.socket, sender->route, sender->route_size, message, NULL);
}

static void answer_bye(struct server *server, const struct door_sender *sender, const char *reason,
                       bool again)
{
    Drover__Bye bye = DROVER__BYE__INIT;
    bye.reason = (char *)reason;
    bye.again = again;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.bye = &bye;
    answer(server, sender, &message);
}

/* --- to a node ---------------------------------------------------------------------------------
 */

void gate_send(struct server *server, uint32_t number, Drover__ToNode *message)
{
    struct herd_node *node = herd_at(&server->herd, number);
    if (!node || node->session == 0) {
        return; /* its next Hello tells what it has; what it lacks is assigned anew */
    }
    message->session = node->session;
    if (door_send_to_node(server->gate.socket, node->route, node->route_size, message, NULL) !=
        ERR_OK) {
        node->session = 0; /* something is lost: the next thing it says is answered with `who` */
    }
}

static void send_welcome(struct server *server, const struct herd_node *node)
{
    Drover__Welcome welcome = DROVER__WELCOME__INIT;
    welcome.session = node->session;
    welcome.node = node->number;
    welcome.name = node->name;
    int64_t heartbeat_ms = server->gate.lease_ms / HEARTBEATS;
    welcome.heartbeat_ms = heartbeat_ms < HEARTBEAT_MS ? (uint32_t)heartbeat_ms : HEARTBEAT_MS;
    welcome.lease_ms = (uint32_t)server->gate.lease_ms;
    welcome.bulk_port = server->depot ? depot_port(server->depot) : 0;
    welcome.folder = (ProtobufCBinaryData){.len = strlen(server->session->folder),
                                           .data = (uint8_t *)server->session->folder};
    welcome.probe = (ProtobufCBinaryData){.len = strlen(server->gate.probe),
                                          .data = (uint8_t *)server->gate.probe};
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.welcome = &welcome;
    message.session = node->session;
    (void)!door_send_to_node(server->gate.socket, node->route, node->route_size, &message, NULL);
}

/* --- Hello -------------------------------------------------------------------------------------
 */

static void take_labels(struct herd_node *node, const Drover__Hello *hello)
{
    for (size_t i = 0; i < node->label_count; i++) {
        free(node->labels[i]);
    }
    node->label_count = 0;
    for (size_t i = 0; i < hello->n_labels && node->label_count < HERD_LABELS_MAX - 1; i++) {
        if (strncmp(hello->labels[i], "node=", 5) != 0) { /* nobody may pose as another */
            node->labels[node->label_count++] = mem_strdup(hello->labels[i]);
        }
    }
    struct str own = {0};
    str_addf(&own, "node=%s", node->name);
    node->labels[node->label_count++] = str_take(&own);
}

static void take_hello(struct server *server, struct herd_node *node, const Drover__Hello *hello)
{
    int64_t now_ms = server_now_ms(server);
    node->capacity = (struct core_resources){.cpu_milli = hello->cpu_milli,
                                             .gpus = hello->gpus,
                                             .memory_bytes = hello->memory_bytes,
                                             .disk_bytes = hello->disk_bytes};
    snprintf(node->capacity.gpu_kind, sizeof node->capacity.gpu_kind, "%s", hello->gpu_kind);
    take_labels(node, hello);
    free(node->version);
    node->version = mem_strdup(hello->version);
    node->price_micro_hour = hello->price_micro_hour;
    node->pid = hello->pid;
    node->joined_ms = node->joined_ms ? node->joined_ms : now_ms;
    node->heard_ms = now_ms;
    node->here_since_ms = node->here_since_ms ? node->here_since_ms : now_ms;
    node->state = HERD_HERE;
    node->suspect = false;
}

static void join_core(struct server *server, struct herd_node *node, const Drover__Hello *hello,
                      bool fresh)
{
    AUTO_FREE struct core_attempt *held = mem_array(hello->n_holding + 1, sizeof *held);
    for (size_t i = 0; i < hello->n_holding; i++) {
        const Drover__Attempt *id = hello->holding[i]->id;
        held[i] = (struct core_attempt){.workflow = id->workflow,
                                        .experiment = id->experiment,
                                        .task = id->task,
                                        .attempt = id->attempt,
                                        .term = id->term};
    }
    struct core_node_spec spec = {
        .capacity = node->capacity,
        .labels = {.items = (const char *const *)node->labels, .count = node->label_count},
        .held = held,
        .held_count = hello->n_holding,
        .fresh = fresh};
    int64_t now_ms = server_now_ms(server);
    if (node->drain != CORE_DRAIN_OFF) { /* before, or it would be given work to take away again */
        core_node_drain(server->core, node->number, node->drain, now_ms, &server->out);
    }
    core_node_join(server->core, node->number, &spec, now_ms, &server->out);
    if (fresh) {
        core_node_drain(server->core, node->number, node->drain, now_ms, &server->out);
    }
    server_carry(server, NULL);
}

/* An agent whose place another took does not come back: a boot is drawn once in a life. If it does,
 * two agents have one key, a copied folder most likely, and would take turns for ever. */
static bool is_former(const struct herd_node *node, const char *boot)
{
    for (size_t i = 0; i < HERD_FORMER_BOOTS; i++) {
        if (node->former_boots[i] && strcmp(node->former_boots[i], boot) == 0) {
            return true;
        }
    }
    return false;
}

/* True: it is another agent than the one we knew. */
static bool take_boot(struct herd_node *node, const char *boot)
{
    if (strcmp(node->boot, boot) == 0) {
        return false;
    }
    bool fresh = node->boot[0] != '\0';
    if (fresh) {
        free(node->former_boots[HERD_FORMER_BOOTS - 1]);
        memmove(node->former_boots + 1, node->former_boots,
                (HERD_FORMER_BOOTS - 1) * sizeof *node->former_boots);
        node->former_boots[0] = node->boot;
    } else {
        free(node->boot);
    }
    node->boot = mem_strdup(boot);
    return fresh;
}

static void on_hello(struct server *server, const struct door_sender *sender,
                     const Drover__Hello *hello)
{
    struct err err = {0};
    if (wire_check_protocol(hello, &err) != ERR_OK) {
        server->counts.denied++;
        answer_bye(server, sender, err.text, false);
        return;
    }
    struct herd_node *node = gate_admit(server, sender->key, hello, &err);
    if (node && is_former(node, hello->boot)) {
        err_set(&err, ERR_DENIED,
                "another agent with the same node.key has joined; remove the file here to join "
                "as a node of its own");
        node = NULL;
    }
    if (!node) {
        server->counts.denied++;
        answer_bye(server, sender, err.text, false);
        return;
    }
    /* what was meant for the session that ends now is not for the one that begins */
    carry_send(&server->carrier, node->number);
    bool was_here = node->state == HERD_HERE && !node->suspect;
    bool fresh = take_boot(node, hello->boot);
    if (fresh) { /* an agent begun anew is not drained by what was said to the old one */
        server->gate.has_news = server->gate.has_news || node->drain != CORE_DRAIN_OFF;
        node->drain = CORE_DRAIN_OFF;
    }
    take_hello(server, node, hello);
    node->session = rng_seed_from_system() | 1;
    memcpy(node->route, sender->route, sender->route_size);
    node->route_size = sender->route_size;
    send_welcome(server, node);
    join_core(server, node, hello, fresh);
    if (server->depot) {
        depot_welcome_node(server->depot, node->key);
    }
    if (!was_here || fresh) {
        tell_node(server, node, "joined");
    }
}

/* --- everything else ---------------------------------------------------------------------------
 */

static void leave(struct server *server, struct herd_node *node, enum herd_state state)
{
    int64_t now_ms = server_now_ms(server);
    if (node->here_since_ms) {
        node->here_ms += now_ms - node->here_since_ms;
        node->here_since_ms = 0;
    }
    node->state = state;
    node->session = 0;
    node->suspect = false;
    core_node_lost(server->core, node->number, true, now_ms, &server->out);
    server_carry(server, NULL);
    tell_node(server, node, state == HERD_LEFT ? "left" : "revoked");
}

static void on_notice(struct server *server, struct herd_node *node, const Drover__Notice *notice)
{
    if (node->drain == CORE_DRAIN_HARD) {
        return; /* it is said again with every session */
    }
    server_note(server, "node %s will be taken away (%s): its tasks move", node->name,
                notice->reason[0] ? notice->reason : "a notice");
    server_drain(server, node->number, CORE_DRAIN_HARD);
}

static bool is_heartbeat(const Drover__ToMaster *message)
{
    return message->n_started + message->n_ended == 0 && !message->stopped && !message->notice;
}

/* What it said could not be kept. It tries again after a little while, with a Hello and all that
 * was not settled; its tasks go on. */
static void send_away_for_now(struct server *server, struct herd_node *node)
{
    Drover__Bye bye = DROVER__BYE__INIT;
    bye.reason = (char *)"the server cannot keep what this node reports; it will be asked again";
    bye.again = true;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.bye = &bye;
    gate_send(server, node->number, &message);
    node->session = 0;
}

static void take_message(struct server *server, struct herd_node *node,
                         const Drover__ToMaster *message)
{
    int64_t now_ms = server_now_ms(server);
    node->heard_ms = now_ms;
    if (node->suspect) {
        node->suspect = false;
        tell_node(server, node, "back");
    }
    core_node_heard(server->core, node->number, now_ms, &server->out);
    server_carry(server, NULL);
    if (!reports_take(server, node, message)) {
        send_away_for_now(server, node);
        return;
    }
    if (message->notice) {
        on_notice(server, node, message->notice);
    }
    if (message->stopped) {
        leave(server, node, HERD_LEFT);
    } else if (is_heartbeat(message)) {
        Drover__ToNode nothing = DROVER__TO_NODE__INIT;
        gate_send(server, node->number, &nothing);
    }
}

static void on_message(struct server *server, const struct door_sender *sender,
                       const Drover__ToMaster *message)
{
    if (message->hello) {
        on_hello(server, sender, message->hello);
        return;
    }
    struct herd_node *node = herd_find_key(&server->herd, sender->key);
    bool is_known = node && node->state != HERD_REVOKED && node->session != 0 &&
                    node->session == message->session && node->route_size == sender->route_size &&
                    memcmp(node->route, sender->route, sender->route_size) == 0;
    if (!is_known) {
        server->counts.strangers++;
        Drover__ToNode who = DROVER__TO_NODE__INIT;
        who.who = true;
        answer(server, sender, &who);
        return;
    }
    take_message(server, node, message);
}

/* Who has not joined has little to say, and no claim on the time that reading more would take. */
static bool is_too_long(const struct server *server, const struct door_sender *sender, size_t size)
{
    return size > STRANGER_BYTES_MAX && !herd_find_key(&server->herd, sender->key);
}

/* No more than any agent of ours has or says at once. */
static bool is_bounded(const Drover__ToMaster *message)
{
    return message->n_started <= REPORTS_MAX && message->n_ended <= REPORTS_MAX &&
           message->n_usage <= REPORTS_MAX &&
           (!message->hello || message->hello->n_holding <= HOLDING_MAX);
}

void gate_read(struct server *server)
{
    if (!server->gate.socket) {
        return;
    }
    int64_t until_ms = clock_mono_ms() + READ_MS;
    for (int i = 0; i < READ_MAX && clock_mono_ms() < until_ms; i++) {
        struct door_sender sender;
        const void *bytes = NULL;
        size_t size = 0;
        enum err_code code =
            door_receive(server->gate.socket, server->gate.frame, &sender, &bytes, &size, NULL);
        if (code == ERR_INVALID) {
            server->counts.bad_messages++;
            continue;
        }
        if (code != ERR_OK) {
            return;
        }
        Drover__ToMaster *message = NULL;
        if (is_too_long(server, &sender, size) ||
            wire_parse_to_master(bytes, size, &message, NULL) != ERR_OK) {
            server->counts.bad_messages++;
            continue;
        }
        if (is_bounded(message)) {
            on_message(server, &sender, message);
        } else {
            server->counts.bad_messages++;
        }
        wire_free_to_master(message);
    }
}

/* --- time passes -------------------------------------------------------------------------------
 */

void gate_tick(struct server *server)
{
    if (!server->gate.socket) {
        return;
    }
    for (size_t i = 0; i < server->herd.count; i++) {
        struct herd_node *node = server->herd.nodes[i];
        struct core_node_view view;
        if (node->state != HERD_HERE || node->suspect) {
            continue;
        }
        core_node_view(server->core, node->number, &view);
        if (view.state == CORE_NODE_SUSPECT) {
            node->suspect = true;
            tell_node(server, node, "suspect");
        }
    }
    gate_renew_secret(server);
}

void gate_forgive(struct server *server)
{
    for (size_t i = 0; i < server->herd.count; i++) {
        const struct herd_node *node = server->herd.nodes[i];
        struct core_node_view view;
        core_node_view(server->core, node->number, &view);
        if (node->state == HERD_HERE && view.state != CORE_NODE_SUSPECT) {
            core_node_heard(server->core, node->number, server_now_ms(server), &server->out);
        }
    }
    server_carry(server, NULL);
}

void gate_lost(struct server *server, struct herd_node *node)
{
    int64_t now_ms = server_now_ms(server);
    if (node->state != HERD_HERE) {
        return;
    }
    if (node->here_since_ms) {
        node->here_ms += now_ms - node->here_since_ms;
        node->here_since_ms = 0;
    }
    node->state = HERD_AWAY;
    node->session = 0;
    node->suspect = false;
    core_node_lost(server->core, node->number, false, now_ms, &server->out);
    server_carry(server, NULL);
    tell_node(server, node, "lost");
}

void gate_revoke(struct server *server, struct herd_node *node)
{
    Drover__Bye bye = DROVER__BYE__INIT;
    bye.reason = (char *)"this node was revoked";
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.bye = &bye;
    gate_send(server, node->number, &message);
    /* Its key may still shake hands, as any stranger's: one that did not hear this, or is started
     * again, is told when it says Hello. */
    if (server->depot) {
        depot_forget_node(server->depot, node->key);
    }
    leave(server, node, HERD_REVOKED);
    gate_put_nodes(server);
}

void gate_stop_nodes(struct server *server, int64_t grace_ms)
{
    for (size_t i = 0; i < server->herd.count; i++) {
        Drover__Stop stop = DROVER__STOP__INIT;
        stop.grace_ms = grace_ms;
        Drover__ToNode message = DROVER__TO_NODE__INIT;
        message.stop = &stop;
        gate_send(server, (uint32_t)i, &message);
    }
}

bool gate_has_nodes(const struct server *server)
{
    for (size_t i = 0; i < server->herd.count; i++) {
        const struct herd_node *node = server->herd.nodes[i];
        if (node->state == HERD_HERE && !node->suspect) { /* a silent one is not waited for */
            return true;
        }
    }
    return false;
}
