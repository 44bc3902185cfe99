/* Uploads: logs written where they belong, trees built beside and moved into place when whole. */
#include "master/depot_internal.h"

#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct flow_place *flow_of(const struct worker *worker, const struct load *load)
{
    const struct flow_place *flow = depot_flow_find(worker, load->id.workflow);
    return flow && load->id.experiment < flow->count ? flow : NULL;
}

static bool is_log(const struct load *load)
{
    return load->kind == DROVER__BULK_KIND__BULK_KIND_LOG;
}

static bool is_checkpoint(const struct load *load)
{
    return load->kind == DROVER__BULK_KIND__BULK_KIND_CHECKPOINT;
}

/* --- answers --------------------------------------------------------------------------------- */

static void say_go(struct worker *worker, const struct load *load)
{
    Drover__FromDepot message;
    depot_say_begin(load, &message);
    message.go = true;
    message.taken = load->have;
    depot_say(worker, load->peer, &message);
}

static void say_taken(struct worker *worker, const struct load *load)
{
    Drover__FromDepot message;
    depot_say_begin(load, &message);
    message.taken = load->have;
    depot_say(worker, load->peer, &message);
}

static void say_whole(struct worker *worker, struct load *load)
{
    Drover__FromDepot message;
    depot_say_begin(load, &message);
    message.whole = true;
    depot_say(worker, load->peer, &message);
    if (load->staging) {
        depot_trash_take(worker, load->staging);
    }
    depot_load_free(worker, load);
}

static void say_done(struct worker *worker, const struct peer *peer, uint64_t ticket, uint64_t tree)
{
    Drover__FromDepot message;
    Drover__BulkTree put;
    drover__from_depot__init(&message);
    drover__bulk_tree__init(&put);
    put.id = tree;
    message.ticket = ticket;
    message.done = true;
    message.tree = tree != 0 ? &put : NULL;
    depot_say(worker, peer, &message);
}

static void refuse(struct worker *worker, struct load *load, enum err_code code, const char *why)
{
    depot_say_no(worker, load->peer, load->ticket, code, why);
    if (load->staging) {
        depot_trash_take(worker, load->staging);
    }
    depot_load_free(worker, load);
}

/* The disk is full or failing: the node keeps what it has, and comes again. */
static void make_wait(struct worker *worker, struct load *load, const struct err *err)
{
    depot_worker_trouble(worker, err->text);
    load->is_waiting = true;
    depot_say_wait(worker, load->peer, load->ticket, WAIT_FULL_MS);
}

static void finish(struct worker *worker, struct load *load, uint64_t tree)
{
    struct peer *peer = load->peer;
    peer->done[peer->done_next++ % DONE_MAX] = load->ticket;
    worker->counts.uploads++;
    depot_worker_recovered(worker);
    say_done(worker, peer, load->ticket, tree);
    depot_load_free(worker, load);
}

/* --- opening --------------------------------------------------------------------------------- */

/* Logs are opened for each piece: thousands may grow at a time, more than files can be open. */
static enum err_code open_log_file(const struct load *load, int flags, int *fd, struct err *err)
{
    flags |= O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    *fd = open(load->log_file, flags, 0644);
    struct stat stat;
    if (*fd < 0 || fstat(*fd, &stat) != 0) {
        return err_errno(err, errno, "%s", load->log_file);
    }
    return S_ISREG(stat.st_mode) ? ERR_OK : err_set(err, ERR_IO, "%s: is no file", load->log_file);
}

static enum err_code open_log(struct load *load, const struct flow_place *flow, struct err *err)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str folder = {0};
    depot_flow_add_log(&path, flow, &load->id);
    const char *slash = strrchr(str_text(&path), '/');
    str_add_bytes(&folder, path.text, (size_t)(slash - path.text));
    enum err_code code = io_make_dirs(str_text(&folder), err);
    if (code != ERR_OK) {
        return code;
    }
    free(load->log_file);
    load->log_file = str_take(&path);
    AUTO_CLOSE int fd = -1;
    code = open_log_file(load, O_CREAT, &fd, err);
    struct stat stat;
    if (code != ERR_OK || fstat(fd, &stat) != 0) {
        return code != ERR_OK ? code : err_errno(err, errno, "%s", load->log_file);
    }
    /* The node knows what we have said to have. Anything else is of another attempt by this number,
     * which an earlier master may have begun and not lived to record. */
    load->have = load->put_have <= (uint64_t)stat.st_size ? load->put_have : 0;
    if (load->have == 0 && ftruncate(fd, 0) != 0) {
        return err_errno(err, errno, "%s", load->log_file);
    }
    return ERR_OK;
}

/* STAGING/boot says in which life of this machine it was written: what was acknowledged before a
 * power cut may not be there. */
static bool staging_is_ours(const struct worker *worker, const struct load *load)
{
    AUTO_STR struct str file = {0};
    AUTO_STR struct str text = {0};
    str_addf(&file, "%s/boot", load->staging);
    return io_read_file(str_text(&file), 4096, &text, NULL) == ERR_OK &&
           strcmp(str_text(&text), worker->boot_id) == 0;
}

static enum err_code make_staging(struct worker *worker, struct load *load, const char *tree,
                                  struct err *err)
{
    depot_trash_take(worker, load->staging);
    load->have = 0;
    AUTO_STR struct str file = {0};
    str_addf(&file, "%s/boot", load->staging);
    enum err_code code = io_make_dirs(tree, err);
    if (code == ERR_OK) {
        code =
            io_replace_file(str_text(&file), worker->boot_id, strlen(worker->boot_id), 0600, err);
    }
    return code;
}

static enum err_code open_tree(struct worker *worker, struct load *load,
                               const struct flow_place *flow, struct err *err)
{
    AUTO_STR struct str staging = {0};
    AUTO_STR struct str tree = {0};
    AUTO_STR struct str place = {0};
    depot_flow_add_staging(&staging, flow, load->peer, load->ticket);
    str_addf(&tree, "%s/tree", str_text(&staging));
    free(load->staging);
    load->staging = str_take(&staging);
    if (is_checkpoint(load)) {
        depot_flow_add_checkpoint(&place, flow, load);
        treewrite_mend(str_text(&place));
        if (load->before != 0 && depot_tree_id(str_text(&place)) != load->before) {
            return err_set(err, ERR_STALE, "the checkpoint before is not here");
        }
    }
    load->have = load->put_have;
    enum err_code code = ERR_OK;
    if (load->put_have == 0 || !staging_is_ours(worker, load)) {
        code = make_staging(worker, load, str_text(&tree), err);
    }
    if (code == ERR_OK) {
        code = treewrite_open(str_text(&tree), &load->write, err);
    }
    if (code == ERR_OK && load->before != 0) {
        treewrite_set_base(load->write, str_text(&place));
    }
    return code;
}

/* --- committing ------------------------------------------------------------------------------ */

static void move_into_place(struct worker *worker, struct load *load, const char *place)
{
    struct err err = {0};
    AUTO_STR struct str tree = {0};
    str_addf(&tree, "%s/tree", load->staging);
    treewrite_close(load->write);
    load->write = NULL;
    if (treewrite_replace(str_text(&tree), place, &err) != ERR_OK) {
        load->state = LOAD_OPEN;
        make_wait(worker, load, &err);
        return;
    }
    depot_trash_take(worker, load->staging);
    finish(worker, load, is_checkpoint(load) ? depot_tree_id(place) : 0);
}

/* Whose the checkpoint in place is. */
static struct bulk_attempt read_stamp(const char *place, uint64_t task)
{
    AUTO_STR struct str file = {0};
    AUTO_STR struct str text = {0};
    struct bulk_attempt stamp = {.task = task};
    str_addf(&file, "%s.stamp", place);
    if (io_read_file(str_text(&file), 256, &text, NULL) == ERR_OK &&
        sscanf(str_text(&text), "%" SCNu32 " %" SCNu32 " %" SCNu64, &stamp.attempt, &stamp.term,
               &stamp.task) < 2) {
        stamp = (struct bulk_attempt){.task = task};
    }
    return stamp;
}

/* Among the tasks of a trial the later one is a later rung. */
static bool is_newer(const struct bulk_attempt *a, const struct bulk_attempt *b)
{
    if (a->task != b->task) {
        return a->task > b->task;
    }
    return a->attempt > b->attempt || (a->attempt == b->attempt && a->term > b->term);
}

static enum err_code write_stamp(const char *place, const struct bulk_attempt *id, struct err *err)
{
    AUTO_STR struct str file = {0};
    char text[64];
    int size = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " %" PRIu64 "\n", id->attempt,
                        id->term, id->task);
    str_addf(&file, "%s.stamp", place);
    return io_replace_file(str_text(&file), text, (size_t)size, 0644, err);
}

/* The stamp is written first: a crash after it makes an older attempt's upload refused, which it is
 * anyway; a crash before it leaves everything as it was. */
static void commit_checkpoint(struct worker *worker, struct load *load)
{
    const struct flow_place *flow = flow_of(worker, load);
    if (!flow) {
        refuse(worker, load, ERR_STALE, "the workflow has ended");
        return;
    }
    AUTO_STR struct str place = {0};
    depot_flow_add_checkpoint(&place, flow, load);
    struct bulk_attempt stamp = read_stamp(str_text(&place), load->id.task);
    if (is_newer(&stamp, &load->id)) {
        refuse(worker, load, ERR_STALE, "a newer attempt has left a checkpoint");
        return;
    }
    if (load->before != 0 && depot_tree_id(str_text(&place)) != load->before) {
        say_whole(worker, load);
        return;
    }
    struct err err = {0};
    AUTO_STR struct str folder = {0};
    const char *slash = strrchr(str_text(&place), '/');
    str_add_bytes(&folder, place.text, (size_t)(slash - place.text));
    if (io_make_dirs(str_text(&folder), &err) != ERR_OK ||
        write_stamp(str_text(&place), &load->id, &err) != ERR_OK) {
        load->state = LOAD_OPEN;
        make_wait(worker, load, &err);
        return;
    }
    move_into_place(worker, load, str_text(&place));
}

static void commit(struct worker *worker, struct load *load)
{
    const struct flow_place *flow = flow_of(worker, load);
    if (!flow) {
        refuse(worker, load, ERR_STALE, "the workflow has ended");
        return;
    }
    if (is_log(load)) {
        struct err err = {0};
        if (truncate(load->log_file, (off_t)load->have) != 0) {
            err_errno(&err, errno, "%s", load->log_file);
            make_wait(worker, load, &err);
            return;
        }
        finish(worker, load, 0);
    } else if (is_checkpoint(load)) {
        load->state = LOAD_COMMITTING;
        depot_worker_ask(worker, load, DEPOT_WRITE_CHECKPOINT);
    } else {
        AUTO_STR struct str place = {0};
        depot_flow_add_attempt(&place, flow, &load->id);
        move_into_place(worker, load, str_text(&place));
    }
}

/* --- pieces ---------------------------------------------------------------------------------- */

static enum err_code write_log(struct load *load, const Drover__BulkPiece *piece, struct err *err)
{
    const Drover__BulkPart *part = piece->n_part == 1 ? piece->part[0] : NULL;
    if (!part || part->path.len != 0 || part->offset != load->have) {
        return err_set(err, ERR_INVALID, "no piece of a log");
    }
    if (load->log_limit_bytes > 0 &&
        load->have + part->data.len > load->log_limit_bytes + LOG_SLACK_BYTES) {
        return err_set(err, ERR_RANGE, "the log is longer than it may be");
    }
    AUTO_CLOSE int fd = -1;
    enum err_code code = open_log_file(load, 0, &fd, err);
    if (code != ERR_OK) {
        return code;
    }
    size_t done = 0;
    while (done < part->data.len) {
        ssize_t count =
            pwrite(fd, part->data.data + done, part->data.len - done, (off_t)(part->offset + done));
        if (count < 0 && errno != EINTR) {
            return err_errno(err, errno, "%s", load->log_file);
        }
        done += count > 0 ? (size_t)count : 0;
    }
    load->have += part->data.len;
    return ERR_OK;
}

static enum err_code write_tree(struct worker *worker, struct load *load,
                                const Drover__BulkPiece *piece, struct err *err)
{
    for (size_t i = 0; i < piece->n_part; i++) {
        const Drover__BulkPart *part = piece->part[i];
        if (part->path.len == 0) {
            return err_set(err, ERR_INVALID, "a part without a path");
        }
        load->bytes += part->data.len;
        load->entries += part->offset == 0;
        if (load->bytes > worker->output_bytes_max || load->entries > BULK_ENTRIES_MAX) {
            return err_set(err, ERR_RANGE, "more files or bytes than may be sent");
        }
        enum err_code code = treewrite_part(load->write, part, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    load->have++;
    return ERR_OK;
}

/* False: the load is gone. */
static bool take_piece(struct worker *worker, struct load *load, const Drover__BulkPiece *piece)
{
    if (piece->number != load->have) {
        bool is_gap = piece->number > load->have;
        if (is_gap && load->told_go != load->have + 1) {
            load->told_go = load->have + 1; /* once: all that follows has the same gap */
            say_go(worker, load);
        }
        return true;
    }
    struct err err = {0};
    uint64_t bytes_before = load->bytes;
    uint64_t entries_before = load->entries;
    enum err_code code =
        is_log(load) ? write_log(load, piece, &err) : write_tree(worker, load, piece, &err);
    if (code == ERR_OK) {
        for (size_t i = 0; i < piece->n_part; i++) {
            worker->counts.bytes_in += piece->part[i]->data.len;
        }
        depot_worker_recovered(worker);
        return true;
    }
    load->bytes = bytes_before;
    load->entries = entries_before;
    if (code == ERR_STALE) {
        say_whole(worker, load);
        return false;
    }
    if (code == ERR_NOT_FOUND) { /* a log that somebody removed */
        refuse(worker, load, ERR_STALE, err.text);
        return false;
    }
    if (code == ERR_INVALID || code == ERR_RANGE) {
        worker->counts.bad++;
        refuse(worker, load, code == ERR_RANGE ? ERR_QUOTA : ERR_INVALID, err.text);
        return false;
    }
    make_wait(worker, load, &err);
    return true;
}

void depot_up_go_on(struct worker *worker, struct load *load, Drover__ToDepot *message)
{
    bool is_heeded = load->state == LOAD_OPEN && !load->is_waiting;
    bool is_there = is_heeded;
    if (is_heeded && message->piece) {
        uint64_t before = load->have;
        is_there = take_piece(worker, load, message->piece);
        if (is_there && !load->is_waiting && load->have != before && !message->end) {
            say_taken(worker, load);
        }
    }
    if (is_there && message->end && !load->is_waiting) {
        if (message->count == load->have) {
            commit(worker, load);
        } else {
            say_go(worker, load);
        }
    }
    bulk_free_to_depot(message);
}

/* --- beginning ------------------------------------------------------------------------------- */

static enum depot_ask ask_of(const struct load *load)
{
    if (is_log(load)) {
        return DEPOT_WRITE_LOG;
    }
    return is_checkpoint(load) ? DEPOT_WRITE_CHECKPOINT : DEPOT_WRITE_OUTPUT;
}

/* Put said again about what is under way: where are we? */
static void put_again(struct worker *worker, struct load *load)
{
    if (load->state == LOAD_OPEN) {
        load->is_waiting = false;
        load->told_go = 0;
        if (!is_log(load) && !load->write) { /* moving it into place failed */
            struct err err = {0};
            load->put_have = load->have;
            if (open_tree(worker, load, flow_of(worker, load), &err) != ERR_OK) {
                make_wait(worker, load, &err);
                return;
            }
        }
        say_go(worker, load);
    }
}

void depot_up_put(struct worker *worker, struct peer *peer, Drover__ToDepot *message, size_t size)
{
    struct load *load = depot_load_find(peer, message->ticket);
    if (load && load->is_up) {
        put_again(worker, load);
        bulk_free_to_depot(message);
        return;
    }
    if (load || peer->load_count >= LOADS_MAX) {
        depot_say_wait(worker, peer, message->ticket, WAIT_FULL_MS);
        bulk_free_to_depot(message);
        return;
    }
    load = depot_load_create(worker, peer, message);
    load->put_have = message->put->have;
    load->before = message->put->before;
    const struct flow_place *flow = flow_of(worker, load);
    if (depot_peer_was_done(peer, message->ticket)) {
        AUTO_STR struct str place = {0};
        if (flow && is_checkpoint(load)) {
            depot_flow_add_checkpoint(&place, flow, load);
        }
        say_done(worker, peer, message->ticket,
                 place.size > 0 ? depot_tree_id(str_text(&place)) : 0);
        depot_load_free(worker, load);
        bulk_free_to_depot(message);
        return;
    }
    /* A workflow that is not known here has ended, or its name is on its way: the loop knows. */
    if (!depot_load_hold(worker, load, message, size)) {
        bulk_free_to_depot(message);
    }
    depot_worker_ask(worker, load, ask_of(load));
}

static void open_load(struct worker *worker, struct load *load)
{
    const struct flow_place *flow = flow_of(worker, load);
    struct err err = {0};
    if (!flow) {
        refuse(worker, load, ERR_STALE, "the workflow has ended");
        return;
    }
    enum err_code code =
        is_log(load) ? open_log(load, flow, &err) : open_tree(worker, load, flow, &err);
    if (code == ERR_STALE) {
        say_whole(worker, load);
        return;
    }
    if (code != ERR_OK) {
        depot_worker_trouble(worker, err.text);
        depot_say_wait(worker, load->peer, load->ticket, WAIT_FULL_MS);
        depot_load_free(worker, load);
        return;
    }
    load->state = LOAD_OPEN;
    Drover__ToDepot *held = load->held;
    load->held = NULL;
    worker->held_bytes -= load->held_size;
    load->held_size = 0;
    if (held && (held->piece || held->end)) {
        depot_up_go_on(worker, load, held);
    } else {
        say_go(worker, load);
        bulk_free_to_depot(held);
    }
}

void depot_up_answered(struct worker *worker, struct load *load, const struct post *post)
{
    if (post->verdict == ERR_AGAIN) {
        depot_say_wait(worker, load->peer, load->ticket, WAIT_SOON_MS);
        if (load->state == LOAD_COMMITTING) {
            load->state = LOAD_OPEN;
            load->is_waiting = true;
        } else {
            depot_load_free(worker, load);
        }
        return;
    }
    if (load->state == LOAD_COMMITTING) {
        commit_checkpoint(worker, load);
        return;
    }
    load->log_limit_bytes = post->log_limit_bytes;
    open_load(worker, load);
}
