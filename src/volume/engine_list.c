/* Listing folders.
 *
 * Entries come in batches: a stretch of names is copied out of the map, then their attributes are
 * looked up, since the map cannot be asked while it is being scanned. Files made together have
 * neighbouring inode numbers and are mostly listed together, so the attributes of a batch are read
 * by one scan where that reads little else; it also has the map fetch what comes next.
 */
#include "base/mem.h"
#include "volume/engine_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BATCH_FIRST = 32, /* about what a small reply to the kernel holds */
    BATCH_MAX = 256,
    DENSITY = 8,     /* a scan may read this many inodes for each one wanted */
    MISSES_MAX = 16, /* blocks asked for at once: fewer than the map's cache always holds */
};

struct batch_entry {
    char name[ENGINE_NAME_MAX + 1];
    uint64_t inode;
    uint32_t type;
    bool has_attr, has_xattrs;
    struct engine_attr attr;
};

struct batch {
    struct batch_entry entries[BATCH_MAX];
    uint16_t by_inode[BATCH_MAX];
    size_t count, limit;
    size_t next;  /* of by_inode, while attributes are scanned */
    bool is_full; /* there may be more names */
    bool is_bad;
};

static bool take_name(void *context, struct map_slice key, struct map_slice value)
{
    struct batch *batch = context;
    struct batch_entry *entry = &batch->entries[batch->count];
    size_t size = key.size - 9;
    if (key.size < 10 || size > ENGINE_NAME_MAX ||
        !codec_name_read(value, &entry->inode, &entry->type)) {
        batch->is_bad = true;
        return false;
    }
    memcpy(entry->name, key.bytes + 9, size);
    entry->name[size] = '\0';
    entry->has_attr = false;
    batch->count++;
    batch->is_full = batch->count == batch->limit;
    return !batch->is_full;
}

static enum err_code fill_batch(struct engine *engine, uint64_t folder, const char *after,
                                struct batch *batch, struct err *err)
{
    struct codec_key prefix;
    codec_key_inode(&prefix, 'D', folder);
    struct codec_key from;
    struct map_range range = {.prefix = slice_of_key(&prefix)};
    if (after) {
        codec_key_name(&from, folder, after, strlen(after));
        from.bytes[from.size++] = '\0';
        range.from = slice_of_key(&from);
    }
    batch->count = 0;
    batch->is_full = false;
    batch->is_bad = false;
    enum err_code code = map_scan(engine->map, &range, take_name, batch, err);
    if (batch->is_bad) {
        return err_set(err, ERR_CORRUPT, "folder %" PRIu64 ": an entry is damaged", folder);
    }
    return code;
}

/* Attributes. ---------------------------------------------------------------------------------- */

static int compare_inodes(const void *a, const void *b, void *context)
{
    const struct batch *batch = context;
    uint64_t left = batch->entries[*(const uint16_t *)a].inode;
    uint64_t right = batch->entries[*(const uint16_t *)b].inode;
    return left < right ? -1 : left > right;
}

static bool sort_by_inode(struct batch *batch)
{
    bool sorted = true;
    for (size_t i = 0; i < batch->count; i++) {
        batch->by_inode[i] = (uint16_t)i;
        sorted &= i == 0 || batch->entries[i - 1].inode <= batch->entries[i].inode;
    }
    if (!sorted) {
        qsort_r(batch->by_inode, batch->count, sizeof batch->by_inode[0], compare_inodes, batch);
    }
    uint64_t first = batch->entries[batch->by_inode[0]].inode;
    uint64_t last = batch->entries[batch->by_inode[batch->count - 1]].inode;
    return last - first < batch->count * DENSITY;
}

static void keep_attr(struct batch_entry *entry, const struct engine_node *node)
{
    entry->attr = node->attr;
    entry->has_xattrs = node->xattrs > 0;
    entry->has_attr = true;
}

static bool take_attr(void *context, struct map_slice key, struct map_slice value)
{
    struct batch *batch = context;
    uint64_t inode = 0;
    if (key.size != 9 || !codec_key_inode_read(key, &inode)) {
        batch->is_bad = true;
        return false;
    }
    while (batch->next < batch->count) {
        struct batch_entry *entry = &batch->entries[batch->by_inode[batch->next]];
        if (entry->inode > inode) {
            return true;
        }
        struct engine_node node;
        if (entry->inode == inode) {
            if (!codec_node_read(value, inode, &node)) {
                batch->is_bad = true;
                return false;
            }
            keep_attr(entry, &node);
        }
        batch->next++;
    }
    return false;
}

static enum err_code scan_attrs(struct engine *engine, struct batch *batch, struct err *err)
{
    struct codec_key from;
    codec_key_inode(&from, 'I', batch->entries[batch->by_inode[0]].inode);
    struct map_range range = {.prefix = {(const uint8_t *)"I", 1}, .from = slice_of_key(&from)};
    batch->next = 0;
    enum err_code code = map_scan(engine->map, &range, take_attr, batch, err);
    if (batch->is_bad) {
        return err_set(err, ERR_CORRUPT, "attributes are damaged");
    }
    return code;
}

static enum err_code get_attrs(struct engine *engine, struct batch *batch, struct err *err)
{
    enum err_code first = ERR_OK;
    int misses = 0;
    /* Going on behind one that is missing asks for all the blocks at once. */
    for (size_t i = 0; i < batch->count && misses < MISSES_MAX; i++) {
        struct batch_entry *entry = &batch->entries[i];
        struct engine_node node;
        enum err_code code = engine_read_node(engine, entry->inode, &node, err);
        if (code == ERR_OK) {
            keep_attr(entry, &node);
            continue;
        }
        misses++;
        if (first == ERR_OK) {
            first = code;
        }
        if (code != ERR_AGAIN) {
            break;
        }
    }
    return first == ERR_NOT_FOUND ? ERR_OK : first;
}

/* Hands out what is there in order; *more: `each` wants more. */
static enum err_code give(const struct batch *batch, const struct engine_listing *listing,
                          engine_each_fn each, void *context, bool *more)
{
    for (size_t i = 0; i < batch->count && *more; i++) {
        const struct batch_entry *from = &batch->entries[i];
        if (listing->plus && !from->has_attr) {
            return ERR_NOT_FOUND;
        }
        struct engine_entry entry = {.name = from->name,
                                     .inode = from->inode,
                                     .type = from->type,
                                     .attr = listing->plus ? &from->attr : NULL,
                                     .has_xattrs = listing->plus && from->has_xattrs};
        *more = each(context, &entry);
    }
    return ERR_OK;
}

static enum err_code list_batch(struct engine *engine, const struct engine_listing *listing,
                                struct batch *batch, struct err *err)
{
    if (!listing->plus || batch->count == 0) {
        return ERR_OK;
    }
    return sort_by_inode(batch) ? scan_attrs(engine, batch, err) : get_attrs(engine, batch, err);
}

static enum err_code check_folder(struct engine *engine, uint64_t folder, int *posix,
                                  struct err *err)
{
    struct engine_node node;
    enum err_code code = engine_read_node(engine, folder, &node, err);
    if (code == ERR_NOT_FOUND) {
        return engine_refuse(posix, ENOENT, err);
    }
    if (code == ERR_OK && !S_ISDIR(node.attr.mode)) {
        return engine_refuse(posix, ENOTDIR, err);
    }
    return code;
}

enum err_code engine_list(struct engine *engine, const struct engine_listing *listing,
                          engine_each_fn each, void *context, int *posix, struct err *err)
{
    *posix = 0;
    if (listing->after && strnlen(listing->after, ENGINE_NAME_MAX + 1) > ENGINE_NAME_MAX) {
        return engine_refuse(posix, ENAMETOOLONG, err);
    }
    enum err_code code = check_folder(engine, listing->folder, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    AUTO_FREE struct batch *batch = mem_resize(NULL, 1, sizeof *batch); /* large for a stack */
    batch->limit = BATCH_FIRST;
    char last[ENGINE_NAME_MAX + 1];
    const char *after = listing->after;
    for (bool more = true; more;) {
        code = fill_batch(engine, listing->folder, after, batch, err);
        if (code != ERR_OK && code != ERR_AGAIN) {
            return code;
        }
        enum err_code attr_code = list_batch(engine, listing, batch, err);
        if (attr_code != ERR_OK && attr_code != ERR_AGAIN) {
            return attr_code;
        }
        code = code == ERR_OK ? attr_code : code;
        enum err_code given = give(batch, listing, each, context, &more);
        if (given != ERR_OK && code == ERR_OK) {
            return err_set(err, ERR_CORRUPT, "folder %" PRIu64 ": an entry's inode is missing",
                           listing->folder);
        }
        if (!more || code != ERR_OK || !batch->is_full) {
            return more ? code : ERR_OK;
        }
        (void)snprintf(last, sizeof last, "%s", batch->entries[batch->count - 1].name);
        after = last;
        batch->limit = batch->limit * 2 < BATCH_MAX ? batch->limit * 2 : BATCH_MAX;
    }
    return ERR_OK;
}
