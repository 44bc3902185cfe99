/* Uploads: logs that grow, and trees in pieces. A piece stays ours until the master says that it
 * has it; until then we know where it began and can cut it again. */
#include "node/bulk_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void clear_flights(struct actor *actor, struct transfer *transfer)
{
    CHECK(actor->in_flight >= transfer->in_flight);
    actor->in_flight -= transfer->in_flight;
    transfer->in_flight = 0;
    transfer->flight_first = 0;
    transfer->flight_count = 0;
}

void bulk_up_reset(struct actor *actor, struct transfer *transfer)
{
    clear_flights(actor, transfer);
    treesend_destroy(transfer->send);
    transfer->send = NULL;
    transfer->next = 0;
    transfer->taken = 0;
    transfer->is_cut = false;
    transfer->was_put = false;
}

static bool open_tree(struct actor *actor, struct transfer *transfer)
{
    int fd = open(transfer->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        struct err err;
        err_errno(&err, errno, "%s", transfer->folder);
        bulk_actor_end(actor, transfer, &err, NULL);
        return false;
    }
    transfer->send = treesend_create(fd, NULL, NULL);
    if (transfer->kind == ORDER_WATCH && transfer->watch.sending_from != 0) {
        treesend_set_keep(transfer->send, bulk_watch_keeps, transfer);
    }
    return true;
}

/* From the first piece on, under a ticket that the master has not heard of. */
static void restart(struct actor *actor, struct transfer *transfer)
{
    bulk_up_reset(actor, transfer);
    transfer->wire = ++actor->next_wire;
    if (transfer->kind == ORDER_LOG || open_tree(actor, transfer)) {
        bulk_up_ask(actor, transfer, false);
    }
}

void bulk_up_start(struct actor *actor, struct transfer *transfer)
{
    if (transfer->kind != ORDER_LOG) {
        restart(actor, transfer);
        return;
    }
    transfer->wire = ++actor->next_wire;
    transfer->log_fd = open(transfer->folder, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (transfer->log_fd < 0) {
        struct err err;
        err_errno(&err, errno, "%s", transfer->folder);
        bulk_actor_end(actor, transfer, &err, NULL);
    }
}

/* --- cutting --------------------------------------------------------------------------------- */

static void add_flight(struct actor *actor, struct transfer *transfer, size_t size)
{
    struct flight *flight =
        &transfer->flights[(transfer->flight_first + transfer->flight_count++) % FLIGHTS_MAX];
    flight->number = transfer->next;
    flight->size = size;
    transfer->in_flight += size;
    actor->in_flight += size;
}

/* What is sent has changed under our hands, or cannot be read. */
static void cannot_cut(struct actor *actor, struct transfer *transfer, struct err *err)
{
    if (transfer->kind != ORDER_WATCH) {
        err->code = err->code == ERR_AGAIN ? ERR_IO : err->code;
        bulk_actor_end(actor, transfer, err, NULL);
        return;
    }
    if (err->code == ERR_QUOTA) {
        bulk_actor_end(actor, transfer, err, NULL);
        return;
    }
    Drover__ToDepot message;
    bulk_actor_begin_message(actor, transfer, &message);
    message.drop = true;
    bulk_actor_send(actor, &message);
    bulk_up_reset(actor, transfer);
    transfer->wire = 0;
    transfer->state = STATE_IDLE;
    transfer->watch.has_seen = false;
    transfer->watch.look_ms = actor->now_ms + WATCH_HURRY_MS;
}

/* Cuts the piece `next` into message. False: there is none (now). */
static bool cut_tree(struct actor *actor, struct transfer *transfer, Drover__BulkPiece *piece)
{
    if (transfer->flight_count >= FLIGHTS_MAX || transfer->is_cut) {
        return false;
    }
    size_t slot = (transfer->flight_first + transfer->flight_count) % FLIGHTS_MAX;
    struct flight *flight = &transfer->flights[slot];
    treesend_place(transfer->send, &flight->path, &flight->offset);
    size_t size = 0;
    struct err err = {0};
    enum err_code code = treesend_next(transfer->send, piece, &size, &err);
    if (code == ERR_NOT_FOUND) {
        transfer->is_cut = true;
        return false;
    }
    if (code != ERR_OK) {
        cannot_cut(actor, transfer, &err);
        return false;
    }
    piece->number = transfer->next;
    add_flight(actor, transfer, size);
    transfer->next++;
    transfer->is_cut = piece->last;
    return true;
}

/* The room for a log's piece: one, since pieces are packed at once. */
struct log_piece {
    Drover__BulkPart part;
    Drover__BulkPart *parts[1];
    uint8_t bytes[BULK_PIECE_BYTES];
};

static bool cut_log(struct actor *actor, struct transfer *transfer, Drover__BulkPiece *piece,
                    struct log_piece *room)
{
    ssize_t size = pread(transfer->log_fd, room->bytes, sizeof room->bytes, (off_t)transfer->next);
    if (size <= 0) {
        return false;
    }
    drover__bulk_part__init(&room->part);
    room->part.type = DROVER__BULK_TYPE__BULK_TYPE_FILE;
    room->part.offset = transfer->next;
    room->part.data.data = room->bytes;
    room->part.data.len = (size_t)size;
    room->parts[0] = &room->part;
    piece->n_part = 1;
    piece->part = room->parts;
    piece->number = transfer->next;
    transfer->next += (uint64_t)size;
    transfer->in_flight += (size_t)size;
    actor->in_flight += (size_t)size;
    return true;
}

static bool cut(struct actor *actor, struct transfer *transfer, Drover__BulkPiece *piece,
                struct log_piece *room)
{
    return transfer->kind == ORDER_LOG ? cut_log(actor, transfer, piece, room)
                                       : cut_tree(actor, transfer, piece);
}

static uint64_t log_size(const struct transfer *transfer)
{
    struct stat stat;
    return fstat(transfer->log_fd, &stat) == 0 ? (uint64_t)stat.st_size : transfer->next;
}

/* True if everything was cut and the end may be said. */
static bool is_at_end(struct actor *actor, struct transfer *transfer)
{
    if (transfer->is_over) {
        return false;
    }
    if (transfer->kind == ORDER_LOG) {
        return transfer->is_finishing && transfer->next >= log_size(transfer);
    }
    if (!transfer->is_cut) {
        return false;
    }
    if (transfer->kind == ORDER_WATCH && !bulk_watch_is_unchanged(transfer)) {
        struct err err = {.code = ERR_AGAIN};
        cannot_cut(actor, transfer, &err);
        return false;
    }
    return true;
}

/* --- saying ---------------------------------------------------------------------------------- */

static Drover__BulkKind put_kind(const struct transfer *transfer)
{
    if (transfer->kind == ORDER_LOG) {
        return DROVER__BULK_KIND__BULK_KIND_LOG;
    }
    return transfer->kind == ORDER_OUTPUT ? DROVER__BULK_KIND__BULK_KIND_OUTPUT
                                          : DROVER__BULK_KIND__BULK_KIND_CHECKPOINT;
}

/* The first time, what fits into one piece goes along, so that a small output costs one way there
 * and back. */
void bulk_up_ask(struct actor *actor, struct transfer *transfer, bool is_repeated)
{
    Drover__ToDepot message;
    Drover__BulkPut put;
    Drover__BulkPiece piece;
    Drover__Attempt id;
    bulk_actor_begin_message(actor, transfer, &message);
    drover__bulk_put__init(&put);
    drover__bulk_piece__init(&piece);
    bulk_attempt_to(&id, &transfer->id);
    put.kind = put_kind(transfer);
    put.id = &id;
    put.before = transfer->kind == ORDER_WATCH ? transfer->watch.sending_from : 0;
    put.have = transfer->taken;
    message.put = &put;
    AUTO_FREE struct log_piece *room = NULL;
    if (!transfer->was_put) {
        room = mem_alloc(sizeof *room);
        transfer->was_put = true;
        if (cut(actor, transfer, &piece, room)) {
            message.piece = &piece;
        }
        if (transfer->is_over || transfer->wire == 0) {
            return; /* it could not be cut */
        }
        message.end = is_at_end(actor, transfer);
        message.count = transfer->next;
        if (transfer->wire == 0) {
            return;
        }
    }
    transfer->state = STATE_ASKING;
    bulk_actor_expect(actor, transfer, is_repeated);
    bulk_actor_send(actor, &message);
}

static void say_end(struct actor *actor, struct transfer *transfer)
{
    Drover__ToDepot message;
    bulk_actor_begin_message(actor, transfer, &message);
    message.end = true;
    message.count = transfer->next;
    transfer->state = STATE_ENDING;
    bulk_actor_expect(actor, transfer, false);
    bulk_actor_send(actor, &message);
}

bool bulk_up_send_one(struct actor *actor, struct transfer *transfer)
{
    if (transfer->state != STATE_FLOWING) {
        return false;
    }
    Drover__ToDepot message;
    Drover__BulkPiece piece;
    drover__bulk_piece__init(&piece);
    bool is_log = transfer->kind == ORDER_LOG;
    AUTO_FREE struct log_piece *room = is_log ? mem_alloc(sizeof *room) : NULL;
    bool was_quiet = transfer->in_flight == 0 && transfer->flight_count == 0;
    if (cut(actor, transfer, &piece, room)) {
        bulk_actor_begin_message(actor, transfer, &message);
        message.piece = &piece;
        if (was_quiet) {
            bulk_actor_expect(actor, transfer, false);
        }
        if (!bulk_actor_send(actor, &message)) {
            transfer->state = STATE_ASKING; /* the answer says from where to cut again */
        }
        return true;
    }
    if (!transfer->is_over && transfer->state == STATE_FLOWING && is_at_end(actor, transfer)) {
        say_end(actor, transfer);
    }
    return false;
}

/* A log is read when it may have grown, not each time round. */
void bulk_up_look_at_log(struct actor *actor, struct transfer *transfer)
{
    if (actor->now_ms < transfer->look_ms) {
        return;
    }
    transfer->look_ms = actor->now_ms + LOG_LOOK_MS;
    bool has_more = log_size(transfer) > transfer->next;
    if (transfer->state == STATE_IDLE && transfer->is_finishing && !has_more &&
        !transfer->was_put) {
        bulk_actor_end(actor, transfer, NULL, NULL); /* nothing was ever printed */
    } else if (transfer->state == STATE_IDLE && has_more && !transfer->was_put) {
        bulk_up_ask(actor, transfer, false);
    } else if (transfer->state == STATE_IDLE && (has_more || transfer->is_finishing)) {
        transfer->state = STATE_FLOWING;
    }
}

/* --- hearing --------------------------------------------------------------------------------- */

static void take_ack(struct actor *actor, struct transfer *transfer, uint64_t taken)
{
    if (taken <= transfer->taken || taken > transfer->next) {
        return;
    }
    size_t size = 0;
    if (transfer->kind == ORDER_LOG) {
        size = (size_t)(taken - transfer->taken);
    }
    while (transfer->flight_count > 0 && transfer->flights[transfer->flight_first].number < taken) {
        size += transfer->flights[transfer->flight_first].size;
        transfer->flight_first = (transfer->flight_first + 1) % FLIGHTS_MAX;
        transfer->flight_count--;
    }
    CHECK(size <= transfer->in_flight);
    transfer->in_flight -= size;
    actor->in_flight -= size;
    transfer->taken = taken;
}

static const struct flight *find_flight(const struct transfer *transfer, uint64_t number)
{
    for (size_t i = 0; i < transfer->flight_count; i++) {
        const struct flight *flight =
            &transfer->flights[(transfer->flight_first + i) % FLIGHTS_MAX];
        if (flight->number == number) {
            return flight;
        }
    }
    return NULL;
}

/* The master has `taken` pieces, whatever we have sent: goes on from there. */
static void go_on(struct actor *actor, struct transfer *transfer, uint64_t taken)
{
    transfer->state = STATE_FLOWING;
    if (transfer->kind == ORDER_LOG) {
        transfer->next = taken <= transfer->next ? taken : transfer->next;
    } else if (taken != transfer->next) {
        const struct flight *flight = find_flight(transfer, taken);
        if (!flight && taken != 0) {
            restart(actor, transfer);
            return;
        }
        treesend_seek(transfer->send, flight ? str_text(&flight->path) : "",
                      flight ? flight->offset : 0);
        transfer->next = taken;
        transfer->is_cut = false;
    }
    clear_flights(actor, transfer);
    transfer->taken = transfer->next;
}

void bulk_up_hear(struct actor *actor, struct transfer *transfer, const Drover__FromDepot *message)
{
    bulk_actor_expect(actor, transfer, false);
    if (message->done) {
        if (transfer->kind == ORDER_WATCH) {
            bulk_watch_done(actor, transfer, message->tree ? message->tree->id : 0);
        } else {
            bulk_actor_end(actor, transfer, NULL, NULL);
        }
    } else if (message->whole && transfer->kind == ORDER_WATCH) {
        bulk_watch_send_whole(actor, transfer);
    } else if (message->go) {
        go_on(actor, transfer, message->taken);
    } else {
        take_ack(actor, transfer, message->taken);
        if (transfer->state == STATE_ASKING) {
            transfer->state = STATE_FLOWING;
        }
        if (transfer->kind == ORDER_LOG && transfer->state == STATE_FLOWING &&
            transfer->taken == transfer->next && !transfer->is_finishing) {
            transfer->state = STATE_IDLE; /* until it grows */
        }
    }
}
