#include "volume/cache_disk.h"

#include "base/clock.h"
#include "base/mem.h"
#include "volume/cache_disk_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const uint64_t LIMIT_DEFAULT = (uint64_t)10 << 30;

/* -- the list of files ------------------------------------------------------------------------ */

static void list_remove(struct cache_disk *disk, struct cache_file *file)
{
    *(file->newer ? &file->newer->older : &disk->newest) = file->older;
    *(file->older ? &file->older->newer : &disk->oldest) = file->newer;
    file->newer = file->older = NULL;
}

static void list_add_newest(struct cache_disk *disk, struct cache_file *file)
{
    file->older = disk->newest;
    *(disk->newest ? &disk->newest->newer : &disk->oldest) = file;
    disk->newest = file;
}

void cache_file_refresh(struct cache_disk *disk, struct cache_file *file)
{
    if (disk->newest != file) {
        list_remove(disk, file);
        list_add_newest(disk, file);
    }
}

struct cache_file *cache_file_add(struct cache_disk *disk, const struct container *container)
{
    struct cache_file *file = mem_alloc(sizeof *file);
    file->container = *container;
    file->fd = -1;
    file->id = ++disk->file_ids;
    container_map_put(&disk->files, container, file);
    list_add_newest(disk, file);
    disk->bytes += CACHE_FILE_BYTES;
    return file;
}

static void close_file(struct cache_disk *disk, struct cache_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
        disk->fd_count--;
    }
}

void cache_file_forget(struct cache_disk *disk, struct cache_file *file)
{
    close_file(disk, file);
    list_remove(disk, file);
    container_map_remove(&disk->files, &file->container);
    disk->bytes -= CACHE_FILE_BYTES + file->ranges.bytes;
    ranges_release(&file->ranges);
    free(file);
}

void cache_file_remove(struct cache_disk *disk, struct cache_file *file)
{
    char name[CONTAINER_NAME_MAX];
    cache_file_name(&file->container, name);
    unlinkat(disk->folder_fd, name, 0);
    disk->evicted += file->ranges.bytes;
    cache_file_forget(disk, file);
}

void cache_file_has(struct cache_disk *disk, struct cache_file *file, uint64_t begin, uint64_t end)
{
    disk->bytes -= file->ranges.bytes;
    ranges_add(&file->ranges, begin, end);
    disk->bytes += file->ranges.bytes;
}

void cache_file_lacks(struct cache_disk *disk, struct cache_file *file, uint64_t begin,
                      uint64_t end)
{
    disk->bytes -= file->ranges.bytes;
    ranges_remove(&file->ranges, begin, end);
    disk->bytes += file->ranges.bytes;
}

/* -- files ------------------------------------------------------------------------------------ */

int cache_file_open(struct cache_disk *disk, struct cache_file *file, bool create)
{
    if (file->fd >= 0) {
        return file->fd;
    }
    struct cache_file *victim = disk->fd_count < CACHE_FDS_MAX ? NULL : disk->oldest;
    while (victim && victim->fd < 0) {
        victim = victim->newer;
    }
    if (victim) {
        close_file(disk, victim);
    }
    char name[CONTAINER_NAME_MAX];
    cache_file_name(&file->container, name);
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0);
    file->fd = openat(disk->folder_fd, name, flags, 0600);
    disk->fd_count += file->fd >= 0;
    return file->fd;
}

static bool read_file(int fd, uint64_t offset, void *out, size_t size)
{
    uint8_t *at = out;
    while (size > 0) {
        ssize_t got = pread(fd, at, size, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

/* -- the cache -------------------------------------------------------------------------------- */

static uint64_t default_limit(const struct cache_disk *disk)
{
    struct statvfs info = {0};
    if (fstatvfs(disk->folder_fd, &info) != 0) {
        return LIMIT_DEFAULT;
    }
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize + disk->bytes;
    uint64_t share = free_bytes - free_bytes / 10;
    return share < LIMIT_DEFAULT ? share : LIMIT_DEFAULT;
}

enum err_code cache_disk_open(const char *folder, uint64_t limit, struct cache_disk **out,
                              struct err *err)
{
    struct cache_disk *disk = mem_alloc(sizeof *disk);
    disk->folder = mem_strdup(folder);
    disk->folder_fd = disk->lock_fd = -1;
    enum err_code code = cache_folder_attach(disk, err);
    if (code != ERR_OK) {
        free(disk->folder);
        free(disk);
        return code;
    }
    cache_folder_load(disk);
    disk->limit = disk->limit_wanted = limit ? limit : default_limit(disk);
    while (disk->oldest && disk->bytes > disk->limit) {
        cache_file_remove(disk, disk->oldest);
    }
    *out = disk;
    return ERR_OK;
}

void cache_disk_close(struct cache_disk *disk)
{
    if (disk) {
        cache_disk_settle(disk, true);
        cache_writer_destroy(disk->writer);
        cache_folder_save(disk);
        cache_folder_detach(disk);
        container_map_release(&disk->files);
        free(disk->folder);
        free(disk);
    }
}

void cache_disk_use(struct cache_disk *disk, const struct container *container)
{
    disk->reading = *container;
    struct cache_file *file = container_map_get(&disk->files, container);
    if (file) {
        cache_file_refresh(disk, file);
    }
}

uint64_t cache_disk_covered_to(const struct cache_disk *disk, const struct container *container,
                               uint64_t at)
{
    const struct cache_file *file = container_map_get(&disk->files, container);
    return file ? ranges_covered_to(&file->ranges, at) : at;
}

uint64_t cache_disk_next(const struct cache_disk *disk, const struct container *container,
                         uint64_t at)
{
    const struct cache_file *file = container_map_get(&disk->files, container);
    return file ? ranges_next(&file->ranges, at) : UINT64_MAX;
}

bool cache_disk_read(struct cache_disk *disk, const struct container *container, uint64_t offset,
                     void *out, size_t size)
{
    struct cache_file *file = container_map_get(&disk->files, container);
    if (!file || ranges_covered_to(&file->ranges, offset) < offset + size) {
        return false;
    }
    cache_file_refresh(disk, file);
    int fd = cache_file_open(disk, file, false);
    if (fd >= 0 && read_file(fd, offset, out, size)) {
        return true;
    }
    cache_file_remove(disk, file);
    return false;
}

void cache_disk_drop(struct cache_disk *disk, const struct container *container, uint64_t offset,
                     size_t size)
{
    struct cache_file *file = container_map_get(&disk->files, container);
    if (file) {
        cache_file_lacks(disk, file, offset, offset + size);
        cache_file_spoil(disk, file, offset, offset + size);
    }
}

uint64_t cache_disk_limit(const struct cache_disk *disk)
{
    return disk->limit;
}

uint64_t cache_disk_bytes(const struct cache_disk *disk)
{
    return disk->bytes;
}

uint64_t cache_disk_evicted(const struct cache_disk *disk)
{
    return disk->evicted;
}
