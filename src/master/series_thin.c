/* A file of samples made into one of averages over a minute. */
#include "base/io.h"
#include "base/mem.h"
#include "master/series_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct thinning {
    struct str out;
    struct series_build build;
    int64_t last_ms; /* of the rows given out; -1: none */

    int64_t minute_ms; /* the minute that is being summed up */
    uint64_t count;    /* its samples so far */
    double sums[SERIES_COLUMNS];
};

static void end_block(struct thinning *thinning)
{
    if (thinning->build.rows > 0) {
        size_t size = series_build_seal(&thinning->build, true);
        str_add_bytes(&thinning->out, thinning->build.bytes, size);
        thinning->build = (struct series_build){0};
    }
}

static void give_row(struct thinning *thinning, const struct series_row *row)
{
    if (row->at_ms <= thinning->last_ms) {
        return; /* it cannot be, unless the clock was set back */
    }
    thinning->last_ms = row->at_ms;
    if (!series_build_add(&thinning->build, row)) {
        end_block(thinning);
        CHECK(series_build_add(&thinning->build, row));
    }
}

static void end_minute(struct thinning *thinning)
{
    if (thinning->count == 0) {
        return;
    }
    struct series_row row = {.at_ms = thinning->minute_ms};
    for (int i = 0; i < SERIES_COLUMNS; i++) {
        double mean = thinning->sums[i] / (double)thinning->count;
        row.values[i] = mean < 0x1p64 ? (uint64_t)mean : UINT64_MAX;
    }
    give_row(thinning, &row);
    thinning->count = 0;
}

static void take_sample(struct thinning *thinning, const struct series_row *row)
{
    int64_t minute_ms = row->at_ms - row->at_ms % SERIES_MINUTE_MS;
    if (thinning->count > 0 && minute_ms != thinning->minute_ms) {
        end_minute(thinning);
    }
    if (thinning->count == 0) {
        memset(thinning->sums, 0, sizeof thinning->sums);
        thinning->minute_ms = minute_ms;
    }
    for (int i = 0; i < SERIES_COLUMNS; i++) {
        thinning->sums[i] += (double)row->values[i];
    }
    thinning->count++;
}

/* Returns whether there was anything to thin. */
static bool thin(struct thinning *thinning, const uint8_t *bytes, size_t size)
{
    bool has_samples = false;
    struct series_block block;
    for (size_t at = 0; series_block_next(bytes, size, &at, &block);) {
        struct series_cursor cursor = {0};
        struct series_row row;
        while (series_block_row(&block, &cursor, &row)) {
            if (row.at_ms % SERIES_TIME_UNIT_MS != 0) {
                continue; /* not written by us */
            }
            if (block.is_average) {
                end_minute(thinning);
                give_row(thinning, &row);
            } else {
                take_sample(thinning, &row);
                has_samples = true;
            }
        }
    }
    end_minute(thinning);
    end_block(thinning);
    return has_samples;
}

static enum err_code read_at(int folder, const char *name, struct str *out, struct err *err)
{
    AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_errno(err, errno, "%s", name);
    }
    char piece[65536];
    ssize_t got = 0;
    while ((got = read(fd, piece, sizeof piece)) > 0 && out->size < SERIES_FILE_BYTES_MAX) {
        str_add_bytes(out, piece, (size_t)got);
    }
    return got < 0 ? err_errno(err, errno, "%s", name) : ERR_OK;
}

static enum err_code replace_at(int folder, const char *name, const struct str *bytes,
                                struct err *err)
{
    char other[NAME_MAX];
    snprintf(other, sizeof other, "%.200s~", name);
    AUTO_CLOSE int fd =
        openat(folder, other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_errno(err, errno, "%s", other);
    }
    enum err_code code = io_write_all(fd, str_text(bytes), bytes->size, err);
    if (code == ERR_OK && renameat(folder, other, folder, name) != 0) {
        code = err_errno(err, errno, "%s", name);
    }
    if (code != ERR_OK) {
        unlinkat(folder, other, 0);
    }
    return code;
}

enum err_code series_thin_file(int folder, const char *name, uint64_t *bytes, struct err *err)
{
    AUTO_STR struct str before = {0};
    struct thinning thinning = {.last_ms = -1};
    enum err_code code = read_at(folder, name, &before, err);
    *bytes = before.size;
    if (code == ERR_OK && thin(&thinning, (const uint8_t *)str_text(&before), before.size)) {
        code = replace_at(folder, name, &thinning.out, err);
        *bytes = code == ERR_OK ? thinning.out.size : before.size;
    }
    str_release(&thinning.out);
    return code;
}
