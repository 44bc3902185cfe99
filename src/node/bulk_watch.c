/* Checkpoints: looking at a folder, deciding when its state is worth sending, and what of it. */
#include "node/bulk_internal.h"

#include "base/mem.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

void bulk_scan_release(struct scan *scan)
{
    free(scan->hashes);
    *scan = (struct scan){0};
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

enum err_code bulk_watch_scan(const char *folder, struct scan *scan, struct err *err)
{
    scan->count = 0;
    scan->whole = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "%s", folder);
    }
    struct treeread *reader = treeread_create(fd, NULL, NULL);
    enum err_code code = ERR_OK;
    while (code == ERR_OK) {
        struct treeread_entry entry;
        code = treeread_next(reader, &entry, err);
        if (code == ERR_OK) {
            uint64_t hash = treeread_hash(&entry);
            VEC_PUSH(scan->hashes, scan->count, scan->cap) = hash;
            scan->whole = rng_mix(hash, scan->whole, 1);
        }
    }
    treeread_destroy(reader);
    if (code != ERR_NOT_FOUND) {
        return code;
    }
    if (scan->count > 1) {
        qsort(scan->hashes, scan->count, sizeof *scan->hashes, compare_hashes);
    }
    return ERR_OK;
}

bool bulk_watch_keeps(void *context, const struct treeread_entry *entry)
{
    const struct transfer *transfer = context;
    const struct scan *sent = &transfer->watch.sent;
    uint64_t hash = treeread_hash(entry);
    return sent->count > 0 &&
           bsearch(&hash, sent->hashes, sent->count, sizeof *sent->hashes, compare_hashes) != NULL;
}

bool bulk_watch_is_unchanged(struct transfer *transfer)
{
    struct scan now = {0};
    enum err_code code = bulk_watch_scan(transfer->folder, &now, NULL);
    bool is_same = code == ERR_OK && now.whole == transfer->watch.sending.whole;
    bulk_scan_release(&now);
    return is_same;
}

void bulk_watch_start(struct actor *actor, struct transfer *transfer)
{
    transfer->state = STATE_IDLE;
    transfer->watch.look_ms = actor->now_ms + WATCH_LOOK_MS;
    struct known *known = bulk_actor_find_known(actor, transfer->folder);
    if (known && known->tree != 0) {
        /* what was fetched need not be sent back */
        transfer->watch.sent = known->scan;
        transfer->watch.sent_tree = known->tree;
        transfer->watch.has_sent = true;
        known->scan = (struct scan){0};
        bulk_actor_forget_known(actor, transfer->folder);
    }
}

static void send_state(struct actor *actor, struct transfer *transfer, struct scan *scan)
{
    struct watch *watch = &transfer->watch;
    bulk_scan_release(&watch->sending);
    watch->sending = *scan;
    *scan = (struct scan){0};
    watch->sending_from = watch->sent_tree;
    watch->hurries = false;
    transfer->wire = 0;
    bulk_up_start(actor, transfer);
}

void bulk_watch_send_whole(struct actor *actor, struct transfer *transfer)
{
    transfer->watch.sending_from = 0;
    bulk_up_start(actor, transfer);
}

static int64_t gap_ms(const struct transfer *transfer)
{
    return transfer->watch.hurries || transfer->is_finishing ? WATCH_HURRY_MS : WATCH_STABLE_MS;
}

/* What was seen: is it old enough, and new to the master? */
static void judge(struct actor *actor, struct transfer *transfer, struct scan *scan)
{
    struct watch *watch = &transfer->watch;
    bool is_new = watch->has_sent ? scan->whole != watch->sent.whole : scan->count > 0;
    if (!watch->has_seen || scan->whole != watch->seen) {
        watch->seen = scan->whole;
        watch->has_seen = true;
        watch->seen_since_ms = actor->now_ms;
    }
    if (!is_new) {
        if (transfer->is_finishing) {
            bulk_actor_end(actor, transfer, NULL, NULL);
        }
        watch->hurries = false;
        watch->look_ms = actor->now_ms + WATCH_LOOK_MS;
    } else if (transfer->is_finishing || actor->now_ms - watch->seen_since_ms >= gap_ms(transfer)) {
        send_state(actor, transfer, scan);
    } else {
        watch->look_ms = actor->now_ms + gap_ms(transfer);
    }
}

void bulk_watch_turn(struct actor *actor, struct transfer *transfer)
{
    struct watch *watch = &transfer->watch;
    if (actor->now_ms < watch->look_ms) {
        return;
    }
    struct scan scan = {0};
    struct err err = {0};
    enum err_code code = bulk_watch_scan(transfer->folder, &scan, &err);
    if (code == ERR_OK) {
        judge(actor, transfer, &scan);
    } else if (code == ERR_AGAIN) {
        watch->look_ms = actor->now_ms + WATCH_HURRY_MS;
    } else if (code == ERR_QUOTA || transfer->is_finishing) {
        bulk_actor_end(actor, transfer, &err, NULL);
    } else {
        watch->look_ms = actor->now_ms + WATCH_LOOK_MS; /* it may come (again) */
    }
    bulk_scan_release(&scan);
}

void bulk_watch_done(struct actor *actor, struct transfer *transfer, uint64_t tree)
{
    struct watch *watch = &transfer->watch;
    bulk_scan_release(&watch->sent);
    watch->sent = watch->sending;
    watch->sending = (struct scan){0};
    watch->sent_tree = tree;
    watch->has_sent = true;
    bulk_up_reset(actor, transfer);
    transfer->wire = 0;
    transfer->state = STATE_IDLE;
    /* finishing: one more look finds it unchanged, and ends it */
    watch->look_ms = transfer->is_finishing ? actor->now_ms : actor->now_ms + WATCH_STABLE_MS;
}
