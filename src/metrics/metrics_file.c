#include "metrics/metrics_file.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "metrics/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };
_Static_assert(READ_BYTES >= 2 * BLOCK_BYTES_MAX, "a block must fit beside what is left of one");

struct metrics_file {
    int fd;
    char *path;
    struct metrics *summary;
    uint64_t lost;
    struct block block;
};

/* --- reading --------------------------------------------------------------------------------- */

/* The blocks in bytes; what is behind the last one and may be the beginning of another is left. */
static size_t send_blocks(const uint8_t *bytes, size_t size, const struct metric_sink *sink)
{
    size_t at = 0;
    const uint8_t *found = NULL;
    size_t found_size = 0;
    while (block_next(bytes, size, &at, &found, &found_size)) {
        /* A block that its checksum vouches for and that does not read is from another version. */
        (void)block_read(found, found_size, sink);
    }
    return at;
}

static enum err_code read_blocks(int fd, const char *path, uint64_t *offset,
                                 const struct metric_sink *sink, struct err *err)
{
    AUTO_FREE uint8_t *bytes = mem_alloc(READ_BYTES);
    size_t kept = 0;
    while (*offset + kept < METRICS_FILE_BYTES_MAX) {
        ssize_t got = pread(fd, bytes + kept, READ_BYTES - kept, (off_t)(*offset + kept));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_errno(err, errno, "%s", path);
        }
        if (got == 0) {
            break;
        }
        size_t size = kept + (size_t)got;
        size_t done = send_blocks(bytes, size, sink);
        *offset += done;
        kept = size - done;
        CHECK(kept < BLOCK_BYTES_MAX);
        memmove(bytes, bytes + done, kept);
    }
    return ERR_OK;
}

static int open_regular(const char *path, int flags, struct err *err)
{
    struct stat about;
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) {
        err_errno(err, errno, "%s", path);
        return -1;
    }
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(fd);
        err_set(err, ERR_CORRUPT, "%s: not a regular file", path);
        return -1;
    }
    return fd;
}

enum err_code metrics_file_read(const char *path, uint64_t *offset, const struct metric_sink *sink,
                                struct err *err)
{
    struct err own = {0};
    AUTO_CLOSE int fd = open_regular(path, O_RDONLY, &own);
    if (fd < 0) {
        return err_set(err, own.code, "%s", own.text);
    }
    return read_blocks(fd, path, offset, sink, err);
}

/* --- writing --------------------------------------------------------------------------------- */

enum err_code metrics_file_open(const char *path, struct metrics_file **out, struct err *err)
{
    struct err own = {0};
    uint64_t offset = 0;
    int fd = open_regular(path, O_RDWR | O_CREAT | O_APPEND, &own);
    if (fd < 0) {
        return err_set(err, own.code, "%s", own.text);
    }
    struct metrics_file *file = mem_alloc(sizeof *file);
    file->fd = fd;
    file->path = mem_strdup(path);
    file->summary = metrics_create();
    block_start(&file->block);
    struct metric_sink sink = metrics_sink(file->summary);
    enum err_code code = read_blocks(fd, path, &offset, &sink, err);
    if (code != ERR_OK) {
        metrics_file_close(file);
        return code;
    }
    *out = file;
    return ERR_OK;
}

void metrics_file_close(struct metrics_file *file)
{
    if (!file) {
        return;
    }
    close(file->fd);
    metrics_destroy(file->summary);
    free(file->path);
    free(file);
}

enum err_code metrics_file_flush(struct metrics_file *file, struct err *err)
{
    struct stat before;
    struct err own = {0};
    if (file->block.point_count == 0) {
        return ERR_OK;
    }
    size_t size = block_seal(&file->block);
    bool is_known = fstat(file->fd, &before) == 0;
    enum err_code code = io_write_all(file->fd, file->block.bytes, size, &own);
    if (code != ERR_OK) {
        /* Half a block does no harm, but takes room where there is none. */
        if (is_known && ftruncate(file->fd, before.st_size) != 0) {
            own.code = code;
        }
        return err_set(err, code, "%s: %s", file->path, own.text);
    }
    block_start(&file->block);
    return ERR_OK;
}

enum err_code metrics_file_add(struct metrics_file *file, const struct metric *metric,
                               struct err *err)
{
    const struct metric_summary *known = metrics_find(file->summary, metric->name);
    uint64_t index = known ? known->count : 0;
    if (!metrics_add(file->summary, metric) || !metric_is_kept(index)) {
        return ERR_OK;
    }
    if (block_add(&file->block, metric)) {
        return ERR_OK;
    }
    enum err_code code = metrics_file_flush(file, err);
    if (code != ERR_OK || !block_add(&file->block, metric)) {
        file->lost++;
    }
    return code;
}

const struct metrics *metrics_file_summary(const struct metrics_file *file)
{
    return file->summary;
}

uint64_t metrics_file_lost(const struct metrics_file *file)
{
    return file->lost;
}
