/* Random reads, writes, cuts, maps and syncs of one file. */
#include "filetest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPACE = 6 << 20, PIECE_MAX = 300000 };

static uint8_t model[SPACE], seen[SPACE];
static uint64_t model_size;
static int fd = -1;
static const char *file_path, *other_path; /* the same file, or NULL */
static const char *here;                   /* of the two, what fd was opened by */

static void compare(const uint8_t *got, uint64_t offset, uint64_t size, long step)
{
    for (uint64_t i = 0; i < size; i++) {
        if (got[i] != model[offset + i]) {
            wrong("step %ld: byte %llu is %u, not %u", step, (unsigned long long)(offset + i),
                  got[i], model[offset + i]);
        }
    }
}

static void read_all(int from, uint8_t *to, uint64_t offset, uint64_t size)
{
    while (size > 0) {
        ssize_t got = pread(from, to, size, (off_t)offset);
        must(got > 0, "read");
        to += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
}

static void do_read(long step)
{
    if (model_size == 0) {
        return;
    }
    uint64_t offset = roll(model_size);
    uint64_t size = 1 + roll(PIECE_MAX);
    size = size < model_size - offset ? size : model_size - offset;
    read_all(fd, seen, offset, size);
    compare(seen, offset, size, step);
    must(pread(fd, seen, 100, (off_t)model_size) == 0, "read behind the end");
}

static void do_write(bool appends)
{
    uint64_t offset = appends ? model_size : roll(SPACE);
    uint64_t size = 1 + roll(roll(3) ? 9000 : PIECE_MAX);
    size = size < SPACE - offset ? size : SPACE - offset;
    for (uint64_t i = 0; i < size; i++) {
        model[offset + i] = (uint8_t)(1 + (roll_state() >> 7) + i * 13);
    }
    for (uint64_t done = 0; done < size;) {
        ssize_t put = pwrite(fd, model + offset + done, size - done, (off_t)(offset + done));
        must(put > 0, "write");
        done += (uint64_t)put;
    }
    model_size = offset + size > model_size ? offset + size : model_size;
}

static void do_truncate(void)
{
    uint64_t size = roll(SPACE);
    must(ftruncate(fd, (off_t)size) == 0, "truncate");
    if (size < model_size) {
        memset(model + size, 0, model_size - size);
    }
    model_size = size;
}

static void do_punch(void)
{
    uint64_t offset = roll(SPACE);
    uint64_t size = 1 + roll(PIECE_MAX);
    size = size < SPACE - offset ? size : SPACE - offset;
    bool grows = roll(2);
    int mode = grows ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (fallocate(fd, mode, (off_t)offset, (off_t)size) != 0) {
        must(errno == EOPNOTSUPP, "punch");
        return;
    }
    memset(model + offset, 0, size);
    model_size = grows && offset + size > model_size ? offset + size : model_size;
}

static void do_grow(void)
{
    uint64_t size = model_size + roll(SPACE - model_size + 1);
    if (size > 0 && fallocate(fd, 0, 0, (off_t)size) == 0) {
        model_size = size;
    }
}

/* Through a second handle, which writes where the file ends. */
static void do_append(void)
{
    uint64_t size = 1 + roll(9000);
    size = size < SPACE - model_size ? size : SPACE - model_size;
    int end = open(here, O_WRONLY | O_APPEND | O_CLOEXEC);
    must(end >= 0, "open to append");
    memset(model + model_size, (int)roll(256), size);
    must(write(end, model + model_size, size) == (ssize_t)size, "append");
    must(close(end) == 0, "close after appending");
    model_size += size;
}

static void do_empty(void)
{
    int empty = open(here, O_RDWR | O_TRUNC | O_CLOEXEC);
    must(empty >= 0, "open to empty");
    must(close(fd) == 0, "close");
    fd = empty;
    memset(model, 0, model_size);
    model_size = 0;
}

/* What is said to be a hole is zeros, and holes and data take turns up to the end. */
static void do_holes(long step)
{
    off_t at = 0;
    while ((uint64_t)at < model_size) {
        off_t data = lseek(fd, at, SEEK_DATA);
        must(data >= at || (data < 0 && errno == ENXIO), "seek to data");
        off_t end = data < 0 ? (off_t)model_size : data;
        for (off_t i = at; i < end; i++) {
            if (model[i] != 0) {
                wrong("step %ld: byte %lld is said to be in a hole", step, (long long)i);
            }
        }
        at = data < 0 ? end : lseek(fd, data, SEEK_HOLE);
        must(at > data || data < 0, "seek to a hole");
    }
}

static void do_map(bool writes, long step)
{
    if (model_size == 0) {
        return;
    }
    uint64_t offset = roll(model_size) & ~(uint64_t)4095;
    uint64_t size = 1 + roll(PIECE_MAX);
    size = size < model_size - offset ? size : model_size - offset;
    uint8_t *map =
        mmap(NULL, size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)offset);
    must(map != MAP_FAILED, "mmap");
    compare(map, offset, size, step);
    if (writes) {
        for (uint64_t i = 0; i < size; i += 1 + roll(50)) {
            map[i] = model[offset + i] = (uint8_t)roll(256);
        }
        must(msync(map, size, MS_SYNC) == 0, "msync");
    }
    must(munmap(map, size) == 0, "munmap");
}

static void do_reopen(void)
{
    must(close(fd) == 0, "close");
    here = other_path && roll(2) ? other_path : file_path;
    fd = open(here, O_RDWR | O_CLOEXEC);
    must(fd >= 0, "open");
}

int run_fsx(const char *path, const char *other, long steps)
{
    file_path = here = path;
    other_path = other;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    must(fd >= 0, path);
    for (long step = 0; step < steps; step++) {
        switch (roll(other ? 28 : 20)) {
        case 0:
            do_truncate();
            break;
        case 1:
            do_punch();
            break;
        case 2:
            do_map(false, step);
            break;
        case 3:
            do_map(true, step);
            break;
        case 4:
            must(fsync(fd) == 0, "fsync");
            break;
        case 5:
            do_reopen();
            break;
        case 6:
        case 7:
        case 8:
            do_read(step);
            break;
        case 9:
        case 10:
            do_write(true);
            break;
        case 11:
        case 12:
        case 13:
        case 14:
        case 15:
            do_write(false);
            break;
        case 16:
            do_append();
            break;
        case 17:
            do_holes(step);
            break;
        case 18:
            do_grow();
            break;
        case 19:
            if (roll(8) == 0) {
                do_empty();
            }
            break;
        default:
            do_reopen();
            break;
        }
        struct stat stat;
        must(fstat(fd, &stat) == 0, "stat");
        if ((uint64_t)stat.st_size != model_size) {
            wrong("step %ld: the size is %lld, not %llu", step, (long long)stat.st_size,
                  (unsigned long long)model_size);
        }
    }
    if (model_size > 0) {
        read_all(fd, seen, 0, model_size);
        compare(seen, 0, model_size, steps);
    }
    must(close(fd) == 0, "close");
    return 0;
}
