#include "node/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HALF_BYTES_MIN = 4096 };

static int open_new(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

void capture_begin(struct capture *capture, const char *path, uint64_t limit_bytes)
{
    size_t size = strlen(path);
    memcpy(capture->path, path, size + 1);
    memcpy(capture->older_path, path, size);
    memcpy(capture->older_path + size, ".1", 3);
    capture->half_bytes = limit_bytes / 2 > HALF_BYTES_MIN ? limit_bytes / 2 : HALF_BYTES_MIN;
    if (limit_bytes == 0) {
        capture->half_bytes = UINT64_MAX;
    }
    capture->file_bytes = 0;
    capture->older_bytes = 0;
    capture->total_bytes = 0;
    capture->dropped_bytes = 0;
    capture->fd = -1;
    capture->is_missing = false;
    unlink(path); /* of an attempt before a crash */
    unlink(capture->older_path);
}

static void rotate(struct capture *capture)
{
    if (rename(capture->path, capture->older_path) != 0) {
        /* The folder is gone or not ours any more: begin again in the same file. */
        if (ftruncate(capture->fd, 0) == 0) {
            lseek(capture->fd, 0, SEEK_SET);
            capture->dropped_bytes += capture->file_bytes;
            capture->file_bytes = 0;
        }
        return;
    }
    capture->dropped_bytes += capture->older_bytes;
    capture->older_bytes = capture->file_bytes;
    capture->file_bytes = 0;
    close(capture->fd);
    capture->fd = open_new(capture->path);
}

/* Writes some of the bytes; 0 if it cannot. */
static size_t write_some(struct capture *capture, const char *bytes, size_t size)
{
    if (capture->file_bytes >= capture->half_bytes) {
        rotate(capture);
    }
    uint64_t room = capture->half_bytes - capture->file_bytes;
    if (capture->fd < 0 || capture->file_bytes >= capture->half_bytes) {
        return 0;
    }
    ssize_t wrote = 0;
    do {
        wrote = write(capture->fd, bytes, size < room ? size : (size_t)room);
    } while (wrote < 0 && errno == EINTR);
    return wrote > 0 ? (size_t)wrote : 0;
}

void capture_add(struct capture *capture, const char *bytes, size_t size)
{
    if (capture->fd < 0 && capture->total_bytes == 0) {
        capture->fd = open_new(capture->path);
        capture->is_missing = capture->fd < 0;
    }
    capture->total_bytes += size;
    while (size > 0) {
        size_t wrote = write_some(capture, bytes, size);
        if (wrote == 0) {
            capture->dropped_bytes += size;
            return;
        }
        capture->file_bytes += wrote;
        bytes += wrote;
        size -= wrote;
    }
}

void capture_end(struct capture *capture)
{
    if (capture->fd >= 0) {
        close(capture->fd);
        capture->fd = -1;
    }
}
