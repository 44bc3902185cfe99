/* The actor's thread: takes orders from the owner and words from the master, looks at what grows or
 * changes, and sends pieces in turn. */
#include "base/clock.h"
#include "base/mem.h"
#include "node/bulk_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

/* --- the actor's tools ----------------------------------------------------------------------- */

static void say_event(struct actor *actor, const struct bulk_event *event)
{
    zmq_send(actor->orders, event, sizeof *event, 0);
    uint64_t one = 1;
    while (write(actor->event_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void bulk_actor_end(struct actor *actor, struct transfer *transfer, const struct err *err,
                    const char *folder)
{
    if (transfer->is_over) {
        return;
    }
    struct bulk_event event = {.ticket = transfer->ticket};
    if (err) {
        event.err = *err;
    }
    snprintf(event.folder, sizeof event.folder, "%s", folder ? folder : "");
    transfer->is_over = true;
    say_event(actor, &event);
}

void bulk_actor_begin_message(struct actor *actor, const struct transfer *transfer,
                              Drover__ToDepot *message)
{
    drover__to_depot__init(message);
    message->protocol = BULK_PROTOCOL;
    message->boot = actor->boot;
    message->ticket = transfer->wire;
}

bool bulk_actor_send(struct actor *actor, const Drover__ToDepot *message)
{
    return actor->dealer && bulk_send_to_depot(actor->dealer, message, NULL) == ERR_OK;
}

void bulk_actor_expect(struct actor *actor, struct transfer *transfer, bool is_repeated)
{
    int64_t longer_ms = transfer->patience_ms * 2;
    if (!is_repeated || transfer->patience_ms == 0) {
        longer_ms = PATIENCE_MS;
    }
    transfer->patience_ms = longer_ms < PATIENCE_MAX_MS ? longer_ms : PATIENCE_MAX_MS;
    transfer->ask_ms = actor->now_ms + transfer->patience_ms;
}

struct known *bulk_actor_find_known(struct actor *actor, const char *folder)
{
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        if (actor->known[i].folder && strcmp(actor->known[i].folder, folder) == 0) {
            return &actor->known[i];
        }
    }
    return NULL;
}

static void release_known(struct known *known)
{
    free(known->folder);
    bulk_scan_release(&known->scan);
    *known = (struct known){0};
}

void bulk_actor_forget_known(struct actor *actor, const char *folder)
{
    struct known *known = bulk_actor_find_known(actor, folder);
    if (known) {
        release_known(known);
    }
}

void bulk_actor_set_known(struct actor *actor, const char *folder, uint64_t tree, struct scan *scan)
{
    struct known *known = bulk_actor_find_known(actor, folder);
    if (!known) {
        known = &actor->known[actor->known_next++ % KNOWN_MAX];
    }
    release_known(known);
    known->folder = mem_strdup(folder);
    known->tree = tree;
    if (scan) {
        known->scan = *scan;
        *scan = (struct scan){0};
    }
}

static bool is_upload(const struct transfer *transfer)
{
    return transfer->kind == ORDER_LOG || transfer->kind == ORDER_OUTPUT ||
           transfer->kind == ORDER_WATCH;
}

static void ask(struct actor *actor, struct transfer *transfer, bool is_repeated)
{
    if (is_upload(transfer)) {
        bulk_up_ask(actor, transfer, is_repeated);
    } else {
        bulk_down_ask(actor, transfer, is_repeated);
    }
}

static void free_transfer(struct actor *actor, struct transfer *transfer)
{
    bulk_up_reset(actor, transfer);
    for (size_t i = 0; i < FLIGHTS_MAX; i++) {
        str_release(&transfer->flights[i].path);
    }
    if (transfer->log_fd >= 0) {
        close(transfer->log_fd);
    }
    bulk_scan_release(&transfer->watch.sent);
    bulk_scan_release(&transfer->watch.sending);
    treewrite_close(transfer->write);
    bulk_code_release(transfer->code);
    str_release(&transfer->place);
    free(transfer->part_folder);
    free(transfer->folder);
    free(transfer->name);
    free(transfer);
}

/* --- orders ---------------------------------------------------------------------------------- */

static struct transfer *find_ticket(struct actor *actor, uint64_t ticket)
{
    for (size_t i = 0; i < actor->count; i++) {
        if (actor->transfers[i]->ticket == ticket && !actor->transfers[i]->is_over) {
            return actor->transfers[i];
        }
    }
    return NULL;
}

static void begin(struct actor *actor, const struct order *order)
{
    struct transfer *transfer = mem_alloc(sizeof *transfer);
    transfer->kind = order->kind;
    transfer->ticket = order->ticket;
    transfer->id = order->id;
    /* two fetches of one version go one after the other, as two into one folder do */
    transfer->folder = mem_strdup(order->kind == ORDER_GET_CODE ? order->name : order->folder);
    transfer->name = mem_strdup(order->name);
    transfer->log_fd = -1;
    VEC_PUSH(actor->transfers, actor->count, actor->cap) = transfer;
    if (order->kind == ORDER_WATCH) {
        bulk_watch_start(actor, transfer);
    } else if (is_upload(transfer)) {
        bulk_up_start(actor, transfer);
    } else {
        bulk_down_start(actor, transfer);
    }
}

static void drop(struct actor *actor, struct transfer *transfer)
{
    if (transfer->wire != 0) {
        Drover__ToDepot message;
        bulk_actor_begin_message(actor, transfer, &message);
        message.drop = true;
        bulk_actor_send(actor, &message);
    }
    struct err err = {.code = ERR_CANCELLED, .text = "dropped"};
    bulk_actor_end(actor, transfer, &err, NULL);
}

static void keep_versions(struct actor *actor, const struct order *order, size_t size)
{
    CHECK(size == sizeof *order + order->count * sizeof *actor->kept);
    free(actor->kept);
    actor->kept = mem_array(order->count + 1, sizeof *actor->kept);
    memcpy(actor->kept, order + 1, size - sizeof *order);
    actor->kept_count = order->count;
}

void bulk_actor_reopen(struct actor *actor)
{
    if (actor->dealer) {
        zmq_close(actor->dealer);
    }
    actor->dealer = NULL;
    actor->heard_ms = actor->now_ms; /* of the new one nothing can have been heard yet */
    struct door_address master = {actor->host, actor->port, actor->server_key};
    if (door_connect(actor->context, &master, &actor->keys, &actor->dealer, NULL) != ERR_OK) {
        return; /* tried again with the next silence */
    }
    for (size_t i = 0; i < actor->count; i++) {
        struct transfer *transfer = actor->transfers[i];
        if (transfer->state != STATE_IDLE && transfer->state != STATE_WAITING &&
            !transfer->is_over) {
            ask(actor, transfer, true);
        }
    }
}

static void heed_ticket(struct actor *actor, const struct order *order)
{
    struct transfer *transfer = find_ticket(actor, order->ticket);
    if (!transfer) {
        return; /* it was done already */
    }
    if (order->kind == ORDER_DROP) {
        drop(actor, transfer);
    } else if (order->kind == ORDER_FINISH) {
        transfer->is_finishing = true;
        transfer->look_ms = 0;
        transfer->watch.look_ms = 0;
    } else {
        transfer->watch.hurries = true;
        transfer->watch.look_ms = 0;
    }
}

static void heed(struct actor *actor, const struct order *order, size_t size)
{
    switch (order->kind) {
    case ORDER_LOG:
    case ORDER_OUTPUT:
    case ORDER_WATCH:
    case ORDER_GET_CHECKPOINT:
    case ORDER_GET_OUTPUTS:
    case ORDER_GET_CODE:
        begin(actor, order);
        break;
    case ORDER_HURRY:
    case ORDER_FINISH:
    case ORDER_DROP:
        heed_ticket(actor, order);
        break;
    case ORDER_KEEP:
        keep_versions(actor, order, size);
        break;
    case ORDER_RECONNECT:
        actor->port = order->port;
        bulk_actor_reopen(actor);
        break;
    case ORDER_STOP:
        actor->is_stopping = true;
        break;
    }
}

static void take_orders(struct actor *actor)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (!actor->is_stopping && zmq_msg_recv(&message, actor->orders, ZMQ_DONTWAIT) >= 0) {
        CHECK(zmq_msg_size(&message) >= sizeof(struct order));
        AUTO_FREE struct order *order =
            mem_dup(zmq_msg_data(&message), zmq_msg_size(&message)); /* aligned */
        heed(actor, order, zmq_msg_size(&message));
    }
    if (!actor->is_stopping && zmq_errno() == ETERM) {
        actor->is_stopping = true;
    }
    zmq_msg_close(&message);
}

/* --- the master's words ---------------------------------------------------------------------- */

static struct transfer *find_wire(struct actor *actor, uint64_t wire)
{
    for (size_t i = 0; i < actor->count; i++) {
        if (actor->transfers[i]->wire == wire && !actor->transfers[i]->is_over) {
            return actor->transfers[i];
        }
    }
    return NULL;
}

static void hear(struct actor *actor, struct transfer *transfer, const Drover__FromDepot *message)
{
    if (message->no) {
        struct err err;
        err_set(&err, message->no->code, "the master refuses: %s", message->no->reason);
        bulk_actor_end(actor, transfer, &err, NULL);
        return;
    }
    if (message->wait_ms > 0) {
        int64_t wait_ms = message->wait_ms < PATIENCE_MAX_MS ? message->wait_ms : PATIENCE_MAX_MS;
        transfer->state = STATE_WAITING;
        transfer->wait_until_ms = actor->now_ms + wait_ms;
        return;
    }
    if (message->unknown) {
        /* each piece under way is answered so; the first answer is enough */
        if (transfer->state != STATE_ASKING && transfer->state != STATE_WAITING) {
            ask(actor, transfer, false);
        }
        return;
    }
    if (is_upload(transfer)) {
        bulk_up_hear(actor, transfer, message);
    } else {
        bulk_down_hear(actor, transfer, message);
    }
}

static void take_messages(struct actor *actor)
{
    /* in turn with orders and looks: what comes without end must not shut them out */
    for (int i = 0; i < 64 && actor->dealer; i++) {
        Drover__FromDepot *message = NULL;
        enum err_code code = bulk_receive_from_depot(actor->dealer, &message, NULL);
        if (code == ERR_INVALID) {
            continue;
        }
        if (code != ERR_OK) {
            actor->is_stopping = actor->is_stopping || code == ERR_CANCELLED;
            return;
        }
        actor->heard_ms = actor->now_ms;
        struct transfer *transfer = find_wire(actor, message->ticket);
        if (transfer) {
            hear(actor, transfer, message);
        }
        bulk_free_from_depot(message);
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

static bool expects(const struct transfer *transfer)
{
    switch (transfer->state) {
    case STATE_ASKING:
    case STATE_ENDING:
        return true;
    case STATE_FLOWING:
        return !is_upload(transfer) || transfer->flight_count > 0 ||
               transfer->next > transfer->taken;
    case STATE_IDLE:
    case STATE_WAITING:
        return false;
    }
    return false;
}

static void look_at(struct actor *actor, struct transfer *transfer)
{
    if (transfer->state == STATE_WAITING && actor->now_ms >= transfer->wait_until_ms) {
        ask(actor, transfer, true);
    } else if (expects(transfer) && actor->now_ms >= transfer->ask_ms) {
        ask(actor, transfer, true);
    } else if (transfer->kind == ORDER_LOG) {
        bulk_up_look_at_log(actor, transfer);
    } else if (transfer->state == STATE_IDLE && transfer->kind == ORDER_WATCH) {
        bulk_watch_turn(actor, transfer);
    } else if (transfer->state == STATE_IDLE && !is_upload(transfer)) {
        bulk_down_start(actor, transfer); /* what it waited for may be over */
    }
}

static void look(struct actor *actor)
{
    bool expects_some = false;
    for (size_t i = 0; i < actor->count; i++) {
        struct transfer *transfer = actor->transfers[i];
        if (!transfer->is_over) {
            look_at(actor, transfer);
            expects_some = expects_some || expects(transfer);
        }
    }
    if (!expects_some) {
        actor->heard_ms = actor->now_ms;
    } else if (actor->now_ms - actor->heard_ms > SILENCE_MS) {
        bulk_actor_reopen(actor);
    }
}

/* Pieces in turn, one of each transfer, as long as there is credit. */
static void send_pieces(struct actor *actor)
{
    size_t idle = 0;
    while (actor->count > 0 && idle < actor->count && actor->in_flight < BULK_CREDIT_BYTES) {
        struct transfer *transfer = actor->transfers[actor->turn++ % actor->count];
        bool sent = !transfer->is_over && is_upload(transfer) && bulk_up_send_one(actor, transfer);
        idle = sent ? 0 : idle + 1;
    }
}

static void sweep(struct actor *actor)
{
    size_t kept = 0;
    for (size_t i = 0; i < actor->count; i++) {
        struct transfer *transfer = actor->transfers[i];
        if (transfer->is_over) {
            free_transfer(actor, transfer);
        } else {
            actor->transfers[kept++] = transfer;
        }
    }
    actor->count = kept;
}

static int64_t next_deadline(const struct transfer *transfer)
{
    int64_t deadline = INT64_MAX;
    if (transfer->state == STATE_WAITING) {
        deadline = transfer->wait_until_ms;
    } else if (expects(transfer)) {
        deadline = transfer->ask_ms;
    }
    if (transfer->kind == ORDER_LOG && transfer->look_ms < deadline) {
        deadline = transfer->look_ms;
    }
    if (transfer->state == STATE_IDLE && transfer->kind == ORDER_WATCH) {
        deadline = transfer->watch.look_ms;
    } else if (transfer->state == STATE_IDLE && !is_upload(transfer)) {
        deadline = clock_mono_ms() + BLOCKED_MS;
    }
    return deadline;
}

static long sleep_ms(const struct actor *actor)
{
    int64_t deadline = INT64_MAX;
    for (size_t i = 0; i < actor->count; i++) {
        int64_t one = next_deadline(actor->transfers[i]);
        deadline = one < deadline ? one : deadline;
    }
    if (deadline == INT64_MAX) {
        return -1;
    }
    int64_t left_ms = deadline - clock_mono_ms();
    return left_ms < 0 ? 0 : (long)(left_ms < SILENCE_MS ? left_ms : SILENCE_MS);
}

void bulk_actor_release(struct actor *actor)
{
    for (size_t i = 0; i < actor->count; i++) {
        free_transfer(actor, actor->transfers[i]);
    }
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        release_known(&actor->known[i]);
    }
    if (actor->dealer) {
        zmq_close(actor->dealer);
    }
    if (actor->orders) {
        zmq_close(actor->orders);
    }
    bulk_pool_close(actor->pool);
    door_keys_wipe(&actor->keys);
    free(actor->transfers);
    free(actor->kept);
    free(actor->work);
    free(actor);
}

void *bulk_actor_thread(void *argument)
{
    struct actor *actor = argument;
    while (!actor->is_stopping) {
        zmq_pollitem_t items[] = {{.socket = actor->orders, .events = ZMQ_POLLIN},
                                  {.socket = actor->dealer, .events = ZMQ_POLLIN}};
        zmq_poll(items, actor->dealer ? 2 : 1, sleep_ms(actor));
        actor->now_ms = clock_mono_ms();
        take_orders(actor);
        take_messages(actor);
        look(actor);
        send_pieces(actor);
        sweep(actor);
    }
    bulk_actor_release(actor);
    return NULL;
}
