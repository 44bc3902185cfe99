/* Writing to the disk cache: room for what comes, and what to do when there is none. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/cache_disk_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    QUIET_MS = 10000,      /* after a failure to write */
    LIMIT_BACK_MS = 60000, /* after the disk was full */
    SAVE_MS = 10000,
    SAVE_BYTES = 64 << 20,
    LATER_FROM = 256 << 10, /* less is written at once */
    LATER_MAX = 24 << 20,   /* waiting to be written; less than the memory cache holds */
};

/* -- room ------------------------------------------------------------------------------------- */

/* The next that is being written to this part of a container, from the *at-th job on; NULL: none.
 */
static struct cache_flight *next_flight(struct cache_disk *disk, const struct container *container,
                                        struct range range, size_t *at)
{
    size_t count = disk->writer ? cache_writer_jobs(disk->writer) : 0;
    while (*at < count) {
        struct cache_flight *flight =
            &disk->flights[(disk->flight_first + (*at)++) % CACHE_JOBS_MAX];
        if (flight->range.begin < range.end && range.begin < flight->range.end &&
            container_equal(&flight->container, container)) {
            return flight;
        }
    }
    return NULL;
}

void cache_file_spoil(struct cache_disk *disk, const struct cache_file *file, uint64_t begin,
                      uint64_t end)
{
    struct range range = {begin, end};
    struct cache_flight *flight = NULL;
    for (size_t at = 0; (flight = next_flight(disk, &file->container, range, &at));) {
        flight->spoiled = true;
    }
}

static bool punch(struct cache_disk *disk, struct cache_file *file, uint64_t begin, uint64_t end)
{
    cache_file_spoil(disk, file, begin, end);
    int fd = cache_file_open(disk, file, false);
    return fd >= 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
                                (off_t)(end - begin)) == 0;
}

/* What of the file lies in [begin, end) goes. */
static void cut(struct cache_disk *disk, struct cache_file *file, uint64_t begin, uint64_t end)
{
    uint64_t before = file->ranges.bytes;
    uint64_t last = before > 0 ? file->ranges.items[file->ranges.count - 1].end : 0;
    end = end < last ? end : last;
    if (begin < end && punch(disk, file, begin, end)) {
        cache_file_lacks(disk, file, begin, end);
        disk->evicted += before - file->ranges.bytes;
    }
}

/* Cuts everything further than a quarter of the limit from [begin, end); all of it if that is not
 * enough. */
static void cut_far(struct cache_disk *disk, struct cache_file *file, uint64_t begin, uint64_t end)
{
    uint64_t near = disk->limit / 4;
    uint64_t keep_begin = begin > near ? begin - near : 0;
    uint64_t keep_end = end + near;
    for (int pass = 0; pass < 2 && disk->bytes + (end - begin) > disk->limit; pass++) {
        cut(disk, file, 0, keep_begin);
        cut(disk, file, keep_end, UINT64_MAX);
        keep_begin = begin;
        keep_end = begin;
    }
}

static struct cache_file *pick_victim(struct cache_disk *disk, const struct cache_file *keep)
{
    struct cache_file *file = disk->oldest;
    while (file && (file == keep || container_equal(&file->container, &disk->reading))) {
        file = file->newer;
    }
    return file;
}

static bool make_room(struct cache_disk *disk, struct cache_file *file, uint64_t offset,
                      size_t size)
{
    size += disk->writer ? cache_writer_bytes(disk->writer) : 0;
    while (disk->bytes + size > disk->limit || disk->files.count > CACHE_FILES_MAX) {
        struct cache_file *victim = pick_victim(disk, file);
        if (!victim) {
            if (cache_file_open(disk, file, true) >= 0) {
                cut_far(disk, file, offset, offset + size);
            }
            break;
        }
        cache_file_remove(disk, victim);
    }
    return disk->bytes + size <= disk->limit;
}

/* -- trouble ---------------------------------------------------------------------------------- */

static void shrink(struct cache_disk *disk, int64_t now_ms)
{
    disk->limit = disk->bytes - disk->bytes / 8;
    disk->limit_back_ms = now_ms + LIMIT_BACK_MS;
    for (struct cache_file *victim = pick_victim(disk, NULL); victim && disk->bytes > disk->limit;
         victim = pick_victim(disk, NULL)) {
        cache_file_remove(disk, victim);
    }
}

static void note_trouble(struct cache_disk *disk, int why)
{
    int64_t now_ms = clock_mono_ms();
    if (why == ENOENT) { /* the folder was removed: what is in it cannot be named any more */
        cache_folder_detach(disk);
        if (cache_folder_attach(disk, NULL) == ERR_OK) {
            return;
        }
    }
    if (why == ENOSPC || why == EDQUOT) {
        shrink(disk, now_ms);
    }
    disk->quiet_until_ms = now_ms + QUIET_MS;
}

static bool may_write(struct cache_disk *disk)
{
    int64_t now_ms = clock_mono_ms();
    if (now_ms < disk->quiet_until_ms) {
        return false;
    }
    if (disk->limit < disk->limit_wanted && now_ms >= disk->limit_back_ms) {
        disk->limit = disk->limit_wanted;
    }
    if (disk->folder_fd < 0 && cache_folder_attach(disk, NULL) != ERR_OK) {
        disk->quiet_until_ms = now_ms + QUIET_MS;
        return false;
    }
    return true;
}

/* -- writing ---------------------------------------------------------------------------------- */

/* The file to write to, with room for it; NULL: it is not to be written. */
static struct cache_file *begin_write(struct cache_disk *disk, const struct container *container,
                                      uint64_t offset, size_t size)
{
    if (size == 0 || !may_write(disk) || size + CACHE_FILE_BYTES > disk->limit) {
        return NULL;
    }
    struct cache_file *file = container_map_get(&disk->files, container);
    file = file ? file : cache_file_add(disk, container);
    cache_file_refresh(disk, file);
    if (make_room(disk, file, offset, size)) {
        return file;
    }
    if (file->ranges.count == 0) {
        cache_file_remove(disk, file);
    }
    return NULL;
}

/* It was written (why 0) or only in part, over what was there. */
static void end_write(struct cache_disk *disk, struct cache_file *file, struct range range, int why)
{
    if (why == 0) {
        cache_file_has(disk, file, range.begin, range.end);
        disk->written_since_save += range.end - range.begin;
    } else {
        cache_file_lacks(disk, file, range.begin, range.end);
        punch(disk, file, range.begin, range.end);
    }
    if (file->ranges.count == 0) {
        cache_file_remove(disk, file);
    }
    if (why != 0) {
        note_trouble(disk, why);
    }
    if (disk->written_since_save >= SAVE_BYTES && clock_mono_ms() - disk->saved_ms >= SAVE_MS) {
        cache_folder_save(disk);
    }
}

void cache_disk_write(struct cache_disk *disk, const struct container *container, uint64_t offset,
                      const void *bytes, size_t size)
{
    size_t at = 0;
    if (next_flight(disk, container, (struct range){offset, offset + size}, &at)) {
        cache_disk_settle(disk, true); /* or that would come to lie over this */
    }
    struct cache_file *file = begin_write(disk, container, offset, size);
    if (file) {
        int fd = cache_file_open(disk, file, true);
        int why = fd < 0 ? errno : cache_write_at(fd, offset, bytes, size);
        end_write(disk, file, (struct range){offset, offset + size}, why);
    }
}

/* -- later ------------------------------------------------------------------------------------ */

static bool can_wait(struct cache_disk *disk, size_t size)
{
    if (size < LATER_FROM) {
        return false;
    }
    if (!disk->writer) { /* only now: a program that forks later would leave the thread behind */
        disk->writer = cache_writer_create();
    }
    return disk->writer && cache_writer_jobs(disk->writer) < CACHE_JOBS_MAX &&
           cache_writer_bytes(disk->writer) + size <= LATER_MAX;
}

void cache_disk_keep(struct cache_disk *disk, const struct container *container, uint64_t offset,
                     struct cache_body *body, bool passing)
{
    size_t size = body->bytes.size;
    cache_disk_settle(disk, false);
    if (!can_wait(disk, size)) { /* a disk that is slower than the store is not waited for either:
                                  * the system takes it and writes it when it can */
        cache_disk_write(disk, container, offset, body->bytes.text, size);
        return;
    }
    struct cache_file *file = begin_write(disk, container, offset, size);
    if (!file) {
        return;
    }
    char name[CONTAINER_NAME_MAX];
    cache_file_name(container, name);
    int fd = openat(disk->folder_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        end_write(disk, file, (struct range){offset, offset + size}, errno);
        return;
    }
    struct cache_job *job = mem_alloc(sizeof *job);
    *job = (struct cache_job){.fd = fd, .offset = offset, .body = body, .direct = passing};
    size_t last = disk->flight_first + cache_writer_jobs(disk->writer);
    disk->flights[last % CACHE_JOBS_MAX] = (struct cache_flight){
        .container = *container, .file = file->id, .range = {offset, offset + size}};
    cache_body_hold(body);
    cache_writer_start(disk->writer, job);
}

/* Whatever of it is not known to be good. */
static void punch_gaps(struct cache_disk *disk, struct cache_file *file, struct range range)
{
    for (uint64_t at = range.begin; at < range.end;) {
        uint64_t next = ranges_next(&file->ranges, at);
        uint64_t end = next < range.end ? next : range.end;
        if (at < end) {
            punch(disk, file, at, end);
        }
        at = next < range.end ? ranges_covered_to(&file->ranges, next) : range.end;
    }
}

void cache_disk_settle(struct cache_disk *disk, bool wait)
{
    for (struct cache_job *job = NULL;
         disk->writer && (job = cache_writer_take(disk->writer, wait));) {
        const struct cache_flight flight = disk->flights[disk->flight_first++ % CACHE_JOBS_MAX];
        struct cache_file *file = container_map_get(&disk->files, &flight.container);
        bool is_same = file && file->id == flight.file; /* another does not have these bytes */
        if (is_same && !flight.spoiled) {
            end_write(disk, file, flight.range, job->failed);
        } else if (is_same) {
            punch_gaps(disk, file, flight.range); /* they are not counted */
        }
        cache_body_drop(job->body);
        free(job);
    }
}
