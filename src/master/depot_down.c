/* Downloads: checkpoints, outputs, manifests and objects in pieces, to peers in turn, each as far
 * as its credit goes. */
#include "master/depot_internal.h"

#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECES_AT_ONCE = 4 };

static bool is_tree(const struct load *load)
{
    return load->kind == DROVER__BULK_KIND__BULK_KIND_CHECKPOINT ||
           load->kind == DROVER__BULK_KIND__BULK_KIND_INPUTS;
}

static void clear_flights(struct load *load)
{
    load->peer->in_flight -= load->in_flight;
    load->in_flight = 0;
    load->next_piece = 0;
    load->taken = 0;
}

void depot_down_close(struct load *load)
{
    clear_flights(load);
    treesend_destroy(load->send);
    load->send = NULL;
    mem_auto_close(&load->top_fd);
    load->top_fd = -1;
    mem_auto_close(&load->object_fd);
    load->object_fd = -1;
    load->bytes_at = 0;
    load->object_at = 0;
    load->is_sent = false;
    load->is_stuck = false;
}

static void refuse(struct worker *worker, struct load *load, enum err_code code, const char *why)
{
    depot_say_no(worker, load->peer, load->ticket, code, why);
    depot_load_free(worker, load);
}

/* --- sources --------------------------------------------------------------------------------- */

/* outputs/EXPERIMENT/INDEX is a link ../../attempts/EXPERIMENT/K/INDEX.ATTEMPT, made by us. */
static int open_output(void *context, const char *name)
{
    const struct load *load = context;
    char target[BULK_PATH_BYTES_MAX + 1];
    const char *prefix = "../../";
    ssize_t size = readlinkat(load->top_fd, name, target, sizeof target - 1);
    if (size < 0) {
        int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        return openat(load->top_fd, name, flags);
    }
    target[size] = '\0';
    if (strncmp(target, "../../attempts/", strlen("../../attempts/")) != 0 ||
        !bulk_path_is_safe(target + strlen(prefix), (size_t)size - strlen(prefix))) {
        return -1;
    }
    char *rest = target + strlen(prefix);
    int fd = open(load->flow_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (char *part = strsep(&rest, "/"); fd >= 0 && part; part = strsep(&rest, "/")) {
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    return fd;
}

static enum err_code open_inputs(struct load *load, const struct flow_place *flow, struct str *path,
                                 struct err *err)
{
    str_addf(path, "%s/outputs/%s", flow->folder, load->name);
    enum err_code code = io_make_dirs(str_text(path), err); /* one without any has no folder yet */
    if (code != ERR_OK) {
        return code;
    }
    int fd = open(str_text(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "%s", str_text(path));
    }
    free(load->flow_folder);
    load->flow_folder = mem_strdup(flow->folder);
    load->top_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    load->send = treesend_create(fd, open_output, load);
    return ERR_OK;
}

static enum err_code open_checkpoint(struct load *load, const struct flow_place *flow,
                                     struct str *path, struct err *err)
{
    depot_flow_add_checkpoint(path, flow, load);
    treewrite_mend(str_text(path));
    int fd = open(str_text(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "there is no checkpoint")
                               : err_errno(err, errno, "%s", str_text(path));
    }
    load->send = treesend_create(fd, NULL, NULL);
    return ERR_OK;
}

static void say_tree(struct worker *worker, const struct load *load, uint64_t id, bool from_start)
{
    Drover__FromDepot message;
    Drover__BulkTree tree;
    depot_say_begin(load, &message);
    drover__bulk_tree__init(&tree);
    tree.id = id;
    tree.from_start = from_start;
    tree.round = load->round;
    message.tree = &tree;
    depot_say(worker, load->peer, &message);
}

static void say_same(struct worker *worker, struct load *load)
{
    Drover__FromDepot message;
    depot_say_begin(load, &message);
    message.done = true;
    depot_say(worker, load->peer, &message);
    worker->counts.downloads++;
    depot_load_free(worker, load);
}

static void open_tree(struct worker *worker, struct load *load, const Drover__BulkGet *get)
{
    const struct flow_place *flow = depot_flow_find(worker, load->id.workflow);
    AUTO_STR struct str path = {0};
    struct err err = {0};
    if (!flow || load->id.experiment >= flow->count) {
        refuse(worker, load, ERR_STALE, "the workflow has ended");
        return;
    }
    enum err_code code = load->kind == DROVER__BULK_KIND__BULK_KIND_INPUTS
                             ? open_inputs(load, flow, &path, &err)
                             : open_checkpoint(load, flow, &path, &err);
    if (code != ERR_OK) {
        refuse(worker, load, code, err.text);
        return;
    }
    uint64_t id = depot_tree_id(str_text(&path));
    bool is_same = id != 0 && get->tree == id;
    if (is_same && get->whole) {
        say_same(worker, load);
        return;
    }
    bool goes_on = is_same && get->path.len > 0;
    if (goes_on) {
        AUTO_FREE char *place = mem_strndup((const char *)get->path.data, get->path.len);
        treesend_seek(load->send, place, get->offset);
    }
    say_tree(worker, load, id, !goes_on);
}

static void open_source(struct worker *worker, struct load *load, const Drover__BulkGet *get)
{
    depot_down_close(load);
    load->round = get->round;
    if (is_tree(load)) {
        open_tree(worker, load, get);
        return;
    }
    str_clear(&load->bytes_out);
    if (load->kind == DROVER__BULK_KIND__BULK_KIND_OBJECTS) {
        str_add_bytes(&load->bytes_out, get->hashes.data, get->hashes.len);
        return;
    }
    if (load->kind == DROVER__BULK_KIND__BULK_KIND_UNPACK) {
        depot_unpack_want(worker, load);
        return;
    }
    struct err err = {0};
    enum err_code code = code_get_version(worker->code, load->name, &load->bytes_out, &err);
    if (code != ERR_OK) {
        refuse(worker, load, code, err.text);
    }
}

/* --- pieces ---------------------------------------------------------------------------------- */

/* The room of pieces that are not cut from a tree. */
struct room {
    Drover__BulkPart parts[BULK_PIECE_PARTS_MAX];
    Drover__BulkPart *pointers[BULK_PIECE_PARTS_MAX];
    char names[BULK_PIECE_PARTS_MAX][SHA256_HEX_CHARS + 1];
    uint8_t bytes[BULK_PIECE_BYTES];
};

static Drover__BulkPart *add_part(struct room *room, Drover__BulkPiece *piece, const char *name)
{
    size_t index = piece->n_part++;
    Drover__BulkPart *part = &room->parts[index];
    drover__bulk_part__init(part);
    snprintf(room->names[index], sizeof room->names[index], "%s", name);
    part->path.data = (uint8_t *)room->names[index];
    part->path.len = strlen(name);
    part->type = DROVER__BULK_TYPE__BULK_TYPE_FILE;
    part->mode = 0644;
    room->pointers[index] = part;
    piece->part = room->pointers;
    return part;
}

static enum err_code cut_manifest(struct load *load, struct room *room, Drover__BulkPiece *piece,
                                  size_t *size)
{
    size_t left = load->bytes_out.size - load->bytes_at;
    *size = left < BULK_PIECE_BYTES ? left : BULK_PIECE_BYTES;
    Drover__BulkPart *part = add_part(room, piece, "manifest");
    part->size = load->bytes_out.size;
    part->offset = load->bytes_at;
    part->data.data = (uint8_t *)load->bytes_out.text + load->bytes_at;
    part->data.len = *size;
    load->bytes_at += *size;
    piece->last = load->bytes_at == load->bytes_out.size;
    return ERR_OK;
}

/* Adds as much of the current object as fits. */
static enum err_code cut_object(struct worker *worker, struct load *load, struct room *room,
                                Drover__BulkPiece *piece, size_t *size, struct err *err)
{
    const uint8_t *hash = (const uint8_t *)load->bytes_out.text + load->bytes_at;
    if (load->object_fd < 0) {
        enum err_code code =
            code_open_object(worker->code, hash, &load->object_fd, &load->object_size, err);
        if (code != ERR_OK) {
            return code;
        }
        load->object_at = 0;
    }
    char hex[SHA256_HEX_CHARS + 1];
    sha256_hex(hash, hex);
    size_t left = load->object_size - load->object_at;
    size_t count = left < BULK_PIECE_BYTES - *size ? left : BULK_PIECE_BYTES - *size;
    ssize_t got = pread(load->object_fd, room->bytes + *size, count, (off_t)load->object_at);
    if (got != (ssize_t)count) {
        return err_set(err, ERR_IO, "object %s cannot be read", hex);
    }
    Drover__BulkPart *part = add_part(room, piece, hex);
    part->size = load->object_size;
    part->offset = load->object_at;
    part->data.data = room->bytes + *size;
    part->data.len = count;
    *size += count;
    load->object_at += count;
    if (load->object_at == load->object_size) {
        close(load->object_fd);
        load->object_fd = -1;
        load->bytes_at += SHA256_BYTES;
    }
    return ERR_OK;
}

static enum err_code cut_objects(struct worker *worker, struct load *load, struct room *room,
                                 Drover__BulkPiece *piece, size_t *size, struct err *err)
{
    enum err_code code = ERR_OK;
    *size = 0;
    while (code == ERR_OK && load->bytes_at < load->bytes_out.size && *size < BULK_PIECE_BYTES &&
           piece->n_part < BULK_PIECE_PARTS_MAX) {
        code = cut_object(worker, load, room, piece, size, err);
    }
    piece->last = load->bytes_at == load->bytes_out.size;
    return code;
}

static enum err_code cut(struct worker *worker, struct load *load, struct room *room,
                         Drover__BulkPiece *piece, size_t *size, struct err *err)
{
    if (load->kind == DROVER__BULK_KIND__BULK_KIND_MANIFEST) {
        return cut_manifest(load, room, piece, size);
    }
    if (load->kind == DROVER__BULK_KIND__BULK_KIND_OBJECTS) {
        return cut_objects(worker, load, room, piece, size, err);
    }
    enum err_code code = treesend_next(load->send, piece, size, err);
    if (code == ERR_NOT_FOUND) {
        piece->n_part = 0;
        piece->last = true;
        return ERR_OK;
    }
    return code;
}

/* Whether a piece can go out now. */
static bool may_send(const struct worker *worker, const struct load *load)
{
    size_t peers = worker->active_peers > 0 ? worker->active_peers : 1;
    size_t share = OUT_BYTES_MAX / peers;
    size_t window = share < BULK_CREDIT_BYTES ? share : BULK_CREDIT_BYTES;
    bool has_source = load->send || load->bytes_out.size > 0;
    return !load->is_up && load->state == LOAD_OPEN && has_source && !load->is_sent &&
           !load->is_stuck && load->kind != DROVER__BULK_KIND__BULK_KIND_UNPACK &&
           load->next_piece - load->taken < FLIGHTS_MAX &&
           (load->peer->in_flight == 0 || load->peer->in_flight + BULK_PIECE_BYTES <= window);
}

static void send_piece(struct worker *worker, struct load *load, struct room *room)
{
    Drover__FromDepot message;
    Drover__BulkPiece piece;
    struct err err = {0};
    size_t size = 0;
    depot_say_begin(load, &message);
    drover__bulk_piece__init(&piece);
    enum err_code code = cut(worker, load, room, &piece, &size, &err);
    if (code == ERR_AGAIN) { /* replaced while it was read: from the start, when asked again */
        load->is_stuck = true;
        depot_say_unknown(worker, load->peer, load->ticket);
        return;
    }
    if (code != ERR_OK) {
        refuse(worker, load, code, err.text);
        return;
    }
    piece.number = load->next_piece;
    piece.round = load->round;
    message.piece = &piece;
    if (!depot_say(worker, load->peer, &message)) {
        load->is_stuck = true; /* the connection is gone or stuffed: the node asks again */
        return;
    }
    load->flights[load->next_piece++ % FLIGHTS_MAX] = size;
    load->in_flight += size;
    load->peer->in_flight += size;
    load->is_sent = piece.last;
    worker->counts.bytes_out += size;
}

/* One piece of each of the peer's loads in turn. */
static bool pump_peer(struct worker *worker, struct peer *peer, struct room **room)
{
    bool has_sent = false;
    struct load *next = NULL;
    for (struct load *load = peer->loads; load; load = next) {
        next = load->next;
        if (may_send(worker, load)) {
            if (!*room) {
                *room = mem_alloc(sizeof **room);
            }
            send_piece(worker, load, *room);
            has_sent = true;
        }
    }
    return has_sent;
}

bool depot_down_pump(struct worker *worker)
{
    struct room *room = NULL;
    bool has_sent = worker->counts.open > 0;
    bool has_any = false;
    for (int i = 0; i < PIECES_AT_ONCE && has_sent; i++) {
        has_sent = false;
        for (size_t k = 0; k < PEER_BUCKETS; k++) {
            for (struct peer *peer = worker->peers[k]; peer; peer = peer->next) {
                has_sent = (peer->loads && pump_peer(worker, peer, &room)) || has_sent;
            }
        }
        has_any = has_any || has_sent;
    }
    free(room);
    return has_any;
}

/* --- beginning and ending -------------------------------------------------------------------- */

void depot_down_taken(struct worker *worker, struct load *load, const Drover__ToDepot *message)
{
    if (message->round != load->round || message->taken > load->next_piece) {
        return;
    }
    while (load->taken < message->taken) {
        size_t size = load->flights[load->taken++ % FLIGHTS_MAX];
        load->in_flight -= size;
        load->peer->in_flight -= size;
    }
    if (load->is_sent && load->taken == load->next_piece) {
        worker->counts.downloads++;
        depot_load_free(worker, load);
    }
}

static enum depot_ask ask_of(const struct load *load)
{
    if (load->kind == DROVER__BULK_KIND__BULK_KIND_CHECKPOINT) {
        return DEPOT_READ_CHECKPOINT;
    }
    return load->kind == DROVER__BULK_KIND__BULK_KIND_INPUTS ? DEPOT_READ_OUTPUTS : DEPOT_READ_CODE;
}

/* Takes the message over; what is asked for last is what counts. */
static void hold_or_wait(struct worker *worker, struct load *load, Drover__ToDepot *message,
                         size_t size)
{
    if (!depot_load_hold(worker, load, message, size)) {
        depot_say_wait(worker, load->peer, load->ticket, WAIT_FULL_MS);
        bulk_free_to_depot(message);
        depot_load_free(worker, load);
    } else if (load->question == 0) {
        depot_worker_ask(worker, load, ask_of(load));
    }
}

void depot_down_get(struct worker *worker, struct peer *peer, Drover__ToDepot *message, size_t size)
{
    struct load *load = depot_load_find(peer, message->ticket);
    if (load && !load->is_up && load->kind == message->get->kind) {
        if (load->state == LOAD_ASKED) {
            hold_or_wait(worker, load, message, size);
            return;
        }
        open_source(worker, load, message->get);
        bulk_free_to_depot(message);
        return;
    }
    if (load || peer->load_count >= LOADS_MAX) {
        depot_say_wait(worker, peer, message->ticket, WAIT_FULL_MS);
        bulk_free_to_depot(message);
        return;
    }
    load = depot_load_create(worker, peer, message);
    load->name = mem_strdup(message->get->name);
    hold_or_wait(worker, load, message, size);
}

void depot_down_answered(struct worker *worker, struct load *load, const struct post *post)
{
    if (post->verdict == ERR_AGAIN) {
        depot_say_wait(worker, load->peer, load->ticket, WAIT_SOON_MS);
        depot_load_free(worker, load);
        return;
    }
    Drover__ToDepot *held = load->held;
    CHECK(held);
    load->held = NULL;
    worker->held_bytes -= load->held_size;
    load->held_size = 0;
    load->state = LOAD_OPEN;
    open_source(worker, load, held->get);
    bulk_free_to_depot(held);
}
