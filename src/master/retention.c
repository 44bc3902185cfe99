#include "master/retention.h"

#include "base/mem.h"
#include "master/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the decision ---------------------------------------------------------------------------- */

static const int64_t day_ms = (int64_t)24 * 3600 * 1000;

struct retention_limits retention_defaults(void)
{
    return (struct retention_limits){.keep_ms = RETENTION_KEEP_DAYS * day_ms,
                                     .keep_newest = RETENTION_KEEP_NEWEST};
}

/* Those that ended last come first; those that have not ended come before all. */
static int compare_newest(const void *left, const void *right)
{
    const struct retention_item *a = *(const struct retention_item *const *)left;
    const struct retention_item *b = *(const struct retention_item *const *)right;
    if ((a->ended_ms == 0) != (b->ended_ms == 0)) {
        return a->ended_ms == 0 ? -1 : 1;
    }
    if (a->ended_ms != b->ended_ms) {
        return a->ended_ms > b->ended_ms ? -1 : 1;
    }
    return (a->number < b->number) - (a->number > b->number);
}

size_t retention_choose(struct retention_item *items, size_t count,
                        const struct retention_limits *limits, int64_t now_ms)
{
    AUTO_FREE struct retention_item **order = mem_array(count, sizeof *order);
    uint64_t left_bytes = 0;
    size_t running = 0;
    for (size_t i = 0; i < count; i++) {
        items[i].chosen = false;
        order[i] = &items[i];
        running += items[i].ended_ms == 0;
    }
    qsort(order, count, sizeof *order, compare_newest);

    size_t chosen = 0;
    for (size_t i = 0; i < count; i++) {
        struct retention_item *item = order[i];
        bool is_new = i < running || i - running < limits->keep_newest;
        item->chosen = !is_new && now_ms - item->ended_ms > limits->keep_ms;
        chosen += item->chosen;
        left_bytes += item->chosen ? 0 : item->size_bytes;
    }
    for (size_t i = count; limits->bytes_max > 0 && i > running + 1; i--) {
        struct retention_item *item = order[i - 1];
        if (left_bytes <= limits->bytes_max) {
            break;
        }
        if (!item->chosen) {
            item->chosen = true;
            chosen++;
            left_bytes -= item->size_bytes;
        }
    }
    return chosen;
}

/* --- the removal ----------------------------------------------------------------------------- */

enum { NAMES_TRIED = 100 };

struct removal {
    char *path;
    struct walk *walk;     /* NULL: the next round begins */
    uint64_t count;        /* gone so far */
    uint64_t count_before; /* when this round began */
    uint64_t deep_count;   /* folders brought up */
    int trouble;           /* errno of what could not be removed in this round */
};

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    return size >= strlen(end) && strcmp(text + size - strlen(end), end) == 0;
}

/* A folder of that name may be left from before: then another number. */
static enum err_code rename_away(const char *path, char *out, size_t out_size, struct err *err)
{
    for (int i = 0; i < NAMES_TRIED; i++) {
        int size = i == 0 ? snprintf(out, out_size, "%s%s", path, RETENTION_SUFFIX)
                          : snprintf(out, out_size, "%s.%d%s", path, i, RETENTION_SUFFIX);
        if (size < 0 || (size_t)size >= out_size) {
            return err_set(err, ERR_RANGE, "%s: the path is too long", path);
        }
        if (rename(path, out) == 0) {
            return ERR_OK;
        }
        if (errno != ENOTEMPTY && errno != EEXIST) {
            break;
        }
    }
    return err_errno(err, errno, "%s: cannot be renamed", path);
}

enum err_code removal_open(const char *path, struct removal **out, struct err *err)
{
    char renamed[PATH_MAX];
    const char *now = path;
    struct stat stat;
    if (lstat(path, &stat) != 0) {
        return err_errno(err, errno, "%s", path);
    }
    if (!ends_with(path, RETENTION_SUFFIX)) {
        enum err_code code = rename_away(path, renamed, sizeof renamed, err);
        if (code != ERR_OK) {
            return code;
        }
        now = renamed;
    }
    struct removal *removal = mem_alloc(sizeof *removal);
    removal->path = mem_strdup(now);
    *out = removal;
    return ERR_OK;
}

void removal_close(struct removal *removal)
{
    if (removal) {
        walk_close(removal->walk);
        free(removal->path);
        free(removal);
    }
}

uint64_t removal_count(const struct removal *removal)
{
    return removal->count;
}

/* A very deep folder is brought up to the top, where the next round finds it. */
static void bring_up(struct removal *removal, const struct walk_entry *entry)
{
    char name[64];
    snprintf(name, sizeof name, ".deep-%llu", (unsigned long long)removal->deep_count++);
    if (renameat(entry->folder, entry->name, walk_root(removal->walk), name) == 0) {
        removal->count++; /* progress, though nothing is gone */
    } else if (errno != EEXIST && errno != ENOTEMPTY) {
        removal->trouble = errno;
    }
}

static void remove_entry(struct removal *removal, const struct walk_entry *entry)
{
    if (entry->kind == WALK_DEEP) {
        bring_up(removal, entry);
        return;
    }
    int flags = entry->kind == WALK_FILE ? 0 : AT_REMOVEDIR;
    if (unlinkat(entry->folder, entry->name, flags) == 0) {
        removal->count++;
    } else if (errno != ENOENT) {
        removal->trouble = errno;
    }
}

/* All entries were seen: is the folder empty, and if not, is another round worth it? */
static enum err_code end_round(struct removal *removal, struct err *err)
{
    walk_close(removal->walk);
    removal->walk = NULL;
    if (rmdir(removal->path) == 0 || errno == ENOENT) {
        removal->count++;
        return ERR_OK;
    }
    int reason = errno;
    bool has_progress = removal->count > removal->count_before;
    if (reason == ENOTEMPTY || reason == EEXIST) {
        reason = removal->trouble ? removal->trouble : reason;
        if (has_progress) {
            return ERR_AGAIN;
        }
    }
    return err_errno(err, reason, "%s: cannot be removed", removal->path);
}

static enum err_code begin_round(struct removal *removal, struct err *err)
{
    removal->count_before = removal->count;
    removal->trouble = 0;
    enum err_code code = walk_open(removal->path, true, &removal->walk, err);
    if (code != ERR_OK && unlink(removal->path) == 0) { /* it is no folder */
        removal->count++;
        return ERR_NOT_FOUND;
    }
    return code;
}

enum err_code removal_step(struct removal *removal, size_t max, struct err *err)
{
    CHECK(max > 0);
    if (!removal->walk) {
        enum err_code code = begin_round(removal, err);
        if (code != ERR_OK) {
            return code == ERR_NOT_FOUND ? ERR_OK : code;
        }
    }
    for (size_t i = 0; i < max; i++) {
        struct walk_entry entry;
        if (!walk_next(removal->walk, &entry)) {
            return end_round(removal, err);
        }
        remove_entry(removal, &entry);
    }
    return ERR_AGAIN;
}
