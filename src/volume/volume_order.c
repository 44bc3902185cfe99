/* Orders: what only the owner may do, asked for in words. */
#include "volume/volume.h"

#include <string.h>

static enum err_code order_gc(struct volume *volume, bool dry_run, struct str *said,
                              struct err *err)
{
    struct volume_gc_report report = {0};
    enum err_code code = volume_gc(volume, dry_run, &report, err);
    if (code == ERR_OK) {
        str_addf(said,
                 "{\"objects\":%llu,\"bytes\":%llu,\"packs_kept\":%llu,\"bytes_kept\":%llu,"
                 "\"dead_bytes_kept\":%llu}",
                 (unsigned long long)report.objects, (unsigned long long)report.bytes,
                 (unsigned long long)report.packs_kept, (unsigned long long)report.bytes_kept,
                 (unsigned long long)report.dead_bytes_kept);
    }
    return code;
}

enum err_code volume_order(struct volume *volume, const char *order, struct str *said,
                           struct err *err)
{
    static const char take[] = "snapshot ";
    static const char drop[] = "snapshot-delete ";
    if (strncmp(order, take, sizeof take - 1) == 0) {
        return volume_snapshot(volume, order + sizeof take - 1, err);
    }
    if (strncmp(order, drop, sizeof drop - 1) == 0) {
        return volume_snapshot_delete(volume, order + sizeof drop - 1, err);
    }
    if (strcmp(order, "gc") == 0 || strcmp(order, "gc-dry-run") == 0) {
        return order_gc(volume, order[2] != '\0', said, err);
    }
    if (strcmp(order, "compact") == 0) {
        return volume_compact(volume, 0, err);
    }
    if (strcmp(order, "checkpoint") == 0) {
        return volume_checkpoint(volume, err);
    }
    if (strcmp(order, "sync") == 0) {
        return volume_sync(volume, err);
    }
    return err_set(err, ERR_UNSUPPORTED, "%s: no such order", order);
}
