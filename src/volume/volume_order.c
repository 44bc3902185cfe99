/* Orders: what only the owner may do, in steps, so that it can go on with other work. */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err_code sync_step(struct volume_order *order)
{
    struct volume *volume = order->volume;
    if (order->step == 0) {
        order->until = volume_commit(volume);
        order->step = 1;
    }
    return volume->commit.durable >= order->until ? ERR_OK : ERR_AGAIN;
}

static enum err_code step(struct volume_order *order, struct err *err)
{
    switch (order->kind) {
    case ORDER_GC:
        return volume_gc_step(order, err);
    case ORDER_COMPACT:
        return volume_compact_step(order, err);
    case ORDER_CHECKPOINT:
        return volume_checkpoint_step(order);
    case ORDER_SNAPSHOT:
        return volume_snapshot_step(order, err);
    case ORDER_SNAPSHOT_DELETE:
        return volume_snapshot_delete_step(order, err);
    case ORDER_SYNC:
        return sync_step(order);
    }
    return ERR_OK;
}

static void let_go(struct volume_order *order)
{
    if (order->kind == ORDER_GC) {
        volume_gc_let_go(order);
    } else if (order->kind == ORDER_COMPACT) {
        volume_compact_let_go(order);
    } else if (order->kind == ORDER_SNAPSHOT) {
        volume_snapshot_let_go(order);
    }
}

static enum err_code go_on(struct volume_order *order, struct err *err)
{
    if (!volume_is_well(order->volume)) {
        return volume_trouble(order->volume, err);
    }
    enum err_code code = step(order, err);
    return code == ERR_AGAIN ? err_set(err, ERR_AGAIN, "not done yet") : code;
}

enum err_code volume_order_finish(struct volume_order *order, struct err *err)
{
    enum err_code code = ERR_AGAIN;
    CHECK(order->volume->role == VOLUME_OWNER);
    volume_advance(order->volume);
    while ((code = go_on(order, err)) == ERR_AGAIN) {
        volume_wait_once(order->volume);
    }
    let_go(order);
    return code;
}

/* In words. ------------------------------------------------------------------------------------ */

static const char take[] = "snapshot ";
static const char drop[] = "snapshot-delete ";

static bool read_words(const char *words, struct volume_order *out)
{
    static const struct {
        const char *words;
        struct volume_order order;
    } known[] = {{"gc", {.kind = ORDER_GC}},
                 {"gc-dry-run", {.kind = ORDER_GC, .dry_run = true}},
                 {"compact", {.kind = ORDER_COMPACT}},
                 {"checkpoint", {.kind = ORDER_CHECKPOINT}},
                 {"sync", {.kind = ORDER_SYNC}}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(words, known[i].words) == 0) {
            *out = known[i].order;
            return true;
        }
    }
    bool takes = strncmp(words, take, sizeof take - 1) == 0;
    bool drops = strncmp(words, drop, sizeof drop - 1) == 0;
    const char *name = words + (takes ? sizeof take : sizeof drop) - 1;
    if (!takes && !drops) {
        return false;
    }
    *out = (struct volume_order){.kind = takes ? ORDER_SNAPSHOT : ORDER_SNAPSHOT_DELETE};
    snprintf(out->name, sizeof out->name, "%s", name);
    return true;
}

enum err_code volume_order_begin(struct volume *volume, const char *words,
                                 struct volume_order **out, struct err *err)
{
    struct volume_order order;
    CHECK(volume->role == VOLUME_OWNER);
    if (!read_words(words, &order)) {
        return err_set(err, ERR_UNSUPPORTED, "%s: no such order", words);
    }
    order.volume = volume;
    *out = mem_dup(&order, sizeof order);
    return ERR_OK;
}

enum err_code volume_order_go_on(struct volume_order *order, struct str *said, struct err *err)
{
    enum err_code code = go_on(order, err);
    if (code == ERR_OK && order->kind == ORDER_GC) {
        const struct volume_gc_report *report = &order->report;
        str_addf(said,
                 "{\"objects\":%llu,\"bytes\":%llu,\"packs_kept\":%llu,\"bytes_kept\":%llu,"
                 "\"dead_bytes_kept\":%llu}",
                 (unsigned long long)report->objects, (unsigned long long)report->bytes,
                 (unsigned long long)report->packs_kept, (unsigned long long)report->bytes_kept,
                 (unsigned long long)report->dead_bytes_kept);
    }
    return code;
}

void volume_order_drop(struct volume_order *order)
{
    if (order != NULL) {
        let_go(order);
        free(order);
    }
}
