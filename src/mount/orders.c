/* Orders to a mount: what only the owner of a volume may do, asked for by setting an attribute of
 * the root. The answer is read from another. */
#include "mount/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_MAX = 512 };

static enum err_code order_gc(struct mount *mount, bool dry_run, struct err *err)
{
    struct volume_gc_report report = {0};
    enum err_code code = volume_gc(mount->volume, dry_run, &report, err);
    if (code == ERR_OK) {
        str_addf(&mount->said,
                 "{\"objects\":%llu,\"bytes\":%llu,\"packs_kept\":%llu,\"bytes_kept\":%llu,"
                 "\"dead_bytes_kept\":%llu}",
                 (unsigned long long)report.objects, (unsigned long long)report.bytes,
                 (unsigned long long)report.packs_kept, (unsigned long long)report.bytes_kept,
                 (unsigned long long)report.dead_bytes_kept);
    }
    return code;
}

static enum err_code carry_out(struct mount *mount, const char *order, struct err *err)
{
    static const char take[] = "snapshot ";
    static const char drop[] = "snapshot-delete ";
    if (strncmp(order, take, sizeof take - 1) == 0) {
        return volume_snapshot(mount->volume, order + sizeof take - 1, err);
    }
    if (strncmp(order, drop, sizeof drop - 1) == 0) {
        return volume_snapshot_delete(mount->volume, order + sizeof drop - 1, err);
    }
    if (strcmp(order, "gc") == 0 || strcmp(order, "gc-dry-run") == 0) {
        return order_gc(mount, order[2] != '\0', err);
    }
    if (strcmp(order, "compact") == 0) {
        return volume_compact(mount->volume, 0, err);
    }
    if (strcmp(order, "checkpoint") == 0) {
        return volume_checkpoint(mount->volume, err);
    }
    if (strcmp(order, "sync") == 0) {
        return volume_sync(mount->volume, err);
    }
    return err_set(err, ERR_UNSUPPORTED, "%s: no such order", order);
}

int orders_take(struct mount *mount, const struct request *request)
{
    char order[ORDER_MAX];
    struct err err = {0};

    str_clear(&mount->said);
    if (request->caller.uid != 0 && request->caller.uid != mount->uid) {
        return EPERM;
    }
    if (mount->read_only) {
        return EROFS;
    }
    if (request->size == 0 || request->size >= sizeof order) {
        return EINVAL;
    }
    memcpy(order, request->data, request->size);
    order[request->size] = '\0';
    enum err_code code = carry_out(mount, order, &err);
    if (code == ERR_OK) {
        return 0;
    }
    str_clear(&mount->said);
    str_add(&mount->said, err.text);
    return code == ERR_EXISTS      ? EEXIST
           : code == ERR_NOT_FOUND ? ENOENT
           : code == ERR_INVALID   ? EINVAL
                                   : EIO;
}
