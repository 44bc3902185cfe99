/* The folder of a disk cache: its lock, its index, and what lies there that no one knows. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "volume/cache_disk_internal.h"
#include "volume/cache_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char INDEX_NAME[] = "index";
static const char INDEX_TEMPORARY[] = "index.new."; /* as io_replace_file names it */
static const char LOCK_NAME[] = "lock";

void cache_file_name(const struct container *container, char out[CONTAINER_NAME_MAX])
{
    container_name(container, out);
    char *slash = strchr(out, '/');
    CHECK(slash);
    *slash = '_';
}

static bool parse_file_name(const char *name, struct container *out)
{
    char text[CONTAINER_NAME_MAX];
    size_t size = strlen(name);
    if (size >= sizeof text) {
        return false;
    }
    memcpy(text, name, size + 1);
    char *line = strchr(text, '_');
    if (!line) {
        return false;
    }
    *line = '/';
    return container_parse(text, out);
}

static enum err_code make_folder(const char *folder, struct err *err)
{
    AUTO_FREE char *parent = mem_strdup(folder);
    size_t size = strlen(parent);
    while (size > 1 && parent[size - 1] == '/') {
        parent[--size] = '\0';
    }
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = '\0';
        enum err_code code = io_make_dirs(parent, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return err_errno(err, errno, "%s", folder);
    }
    return ERR_OK;
}

enum err_code cache_folder_attach(struct cache_disk *disk, struct err *err)
{
    enum err_code code = make_folder(disk->folder, err);
    if (code != ERR_OK) {
        return code;
    }
    int folder_fd = open(disk->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0) {
        return err_errno(err, errno, "%s", disk->folder);
    }
    int lock_fd = openat(folder_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_fd < 0) {
        code = err_errno(err, errno, "%s/%s", disk->folder, LOCK_NAME);
    } else if (flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
        code = err_set(err, ERR_AGAIN, "%s: the cache is in use by another process", disk->folder);
    }
    if (code != ERR_OK) {
        if (lock_fd >= 0) {
            close(lock_fd);
        }
        close(folder_fd);
        return code;
    }
    disk->folder_fd = folder_fd;
    disk->lock_fd = lock_fd;
    return ERR_OK;
}

void cache_folder_detach(struct cache_disk *disk)
{
    while (disk->oldest) {
        cache_file_forget(disk, disk->oldest);
    }
    if (disk->lock_fd >= 0) {
        close(disk->lock_fd);
    }
    if (disk->folder_fd >= 0) {
        close(disk->folder_fd);
    }
    disk->lock_fd = -1;
    disk->folder_fd = -1;
}

static void take_indexed(void *context, const struct container *container, struct ranges *ranges)
{
    struct cache_disk *disk = context;
    char name[CONTAINER_NAME_MAX];
    cache_file_name(container, name);
    struct stat info = {0};
    if (fstatat(disk->folder_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
        container_map_get(&disk->files, container)) {
        return;
    }
    ranges_remove(ranges, (uint64_t)info.st_size, UINT64_MAX);
    if (ranges->count == 0) {
        return;
    }
    struct cache_file *file = cache_file_add(disk, container);
    for (size_t i = 0; i < ranges->count; i++) {
        cache_file_has(disk, file, ranges->items[i].begin, ranges->items[i].end);
    }
}

/* Files of this kind that no index names are of no use: what is in them is not known. */
static void remove_strangers(struct cache_disk *disk)
{
    int fd = openat(disk->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        struct container container = {0};
        bool ours = parse_file_name(entry->d_name, &container) &&
                    !container_map_get(&disk->files, &container);
        bool left = strncmp(entry->d_name, INDEX_TEMPORARY, strlen(INDEX_TEMPORARY)) == 0;
        if (ours || left) {
            unlinkat(disk->folder_fd, entry->d_name, 0);
        }
    }
    closedir(list);
}

void cache_folder_load(struct cache_disk *disk)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", disk->folder, INDEX_NAME);
    AUTO_STR struct str bytes = {0};
    /* Without a sound index the folder is begun anew; that costs fetches, so it is no error. */
    bool sound = io_read_file(str_text(&path), CACHE_INDEX_BYTES_MAX, &bytes, NULL) == ERR_OK &&
                 cache_index_read(str_text(&bytes), bytes.size, take_indexed, disk, NULL) == ERR_OK;
    if (!sound) {
        unlinkat(disk->folder_fd, INDEX_NAME, 0);
    }
    remove_strangers(disk);
    disk->saved_ms = clock_mono_ms();
}

void cache_folder_save(struct cache_disk *disk)
{
    disk->saved_ms = clock_mono_ms();
    disk->written_since_save = 0;
    if (disk->folder_fd < 0) {
        return;
    }
    AUTO_STR struct str bytes = {0};
    cache_index_begin(&bytes);
    for (const struct cache_file *file = disk->oldest; file; file = file->newer) {
        cache_index_add(&bytes, &file->container, &file->ranges);
    }
    cache_index_end(&bytes);
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", disk->folder, INDEX_NAME);
    struct err err = {0};
    if (bytes.size > CACHE_INDEX_BYTES_MAX ||
        io_replace_file(str_text(&path), bytes.text, bytes.size, 0600, &err) != ERR_OK) {
        /* An old index would still be sound, but mostly wrong by the next start. */
        unlinkat(disk->folder_fd, INDEX_NAME, 0);
    }
}
