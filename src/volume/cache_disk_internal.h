/* cache_disk_internal.h - what the files of the disk cache share. */
#ifndef VOLUME_CACHE_DISK_INTERNAL_H
#define VOLUME_CACHE_DISK_INTERNAL_H

#include "volume/cache_disk.h"
#include "volume/cache_writer.h"
#include "volume/container_map.h"
#include "volume/ranges.h"

struct cache_file {
    struct container container;
    struct ranges ranges;
    int fd;      /* -1: not open now */
    uint64_t id; /* of this one alone */
    struct cache_file *newer, *older;
};

enum {
    CACHE_FILE_BYTES = 4096, /* what a file costs besides its ranges */
    CACHE_FDS_MAX = 64,
    CACHE_FILES_MAX = 65536, /* a bound on memory, when containers are tiny */
};

struct cache_flight { /* what the writer is at, as the owner knows it */
    struct container container;
    uint64_t file; /* its id */
    struct range range;
    bool spoiled; /* some of it was taken out meanwhile, be it before or after it was written */
};

struct cache_disk {
    char *folder;
    int folder_fd, lock_fd;       /* -1: the folder is gone */
    uint64_t limit, limit_wanted; /* now, and when the disk is not full */
    uint64_t bytes, evicted;
    struct container_map files;
    struct cache_file *newest, *oldest;
    uint64_t file_ids;
    size_t fd_count;
    struct cache_writer *writer;                 /* NULL: nothing was written later yet */
    struct cache_flight flights[CACHE_JOBS_MAX]; /* a ring, in the order of the jobs */
    size_t flight_first;
    struct container reading; /* kind 0: none */
    int64_t quiet_until_ms;   /* nothing is written before */
    int64_t limit_back_ms;    /* when the limit becomes the wanted one again */
    int64_t saved_ms;
    uint64_t written_since_save;
};

void cache_file_name(const struct container *container, char out[CONTAINER_NAME_MAX]);
/* An empty one, the newest. */
struct cache_file *cache_file_add(struct cache_disk *disk, const struct container *container);
void cache_file_forget(struct cache_disk *disk, struct cache_file *file);  /* the file stays */
void cache_file_remove(struct cache_disk *disk, struct cache_file *file);  /* counted as evicted */
void cache_file_refresh(struct cache_disk *disk, struct cache_file *file); /* now the newest */
/* Its descriptor, or -1 with errno set. */
int cache_file_open(struct cache_disk *disk, struct cache_file *file, bool create);
/* Changes of ranges go through these, so that disk->bytes stays right. */
void cache_file_has(struct cache_disk *disk, struct cache_file *file, uint64_t begin, uint64_t end);
void cache_file_lacks(struct cache_disk *disk, struct cache_file *file, uint64_t begin,
                      uint64_t end);

/* What is being written to this part of it does not count. */
void cache_file_spoil(struct cache_disk *disk, const struct cache_file *file, uint64_t begin,
                      uint64_t end);

/* The folder: opening it, taking its lock; what its index names. */
MUST_USE enum err_code cache_folder_attach(struct cache_disk *disk, struct err *err);
void cache_folder_detach(struct cache_disk *disk); /* forgets every file */
void cache_folder_load(struct cache_disk *disk);
void cache_folder_save(struct cache_disk *disk);

#endif
