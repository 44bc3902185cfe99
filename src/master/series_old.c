/* What becomes of samples with age: days are measured, thinned and removed, a little in each tick.
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "master/series_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TICK_US = 5000, UNLINKS_PER_STEP = 50, DAY_DIGITS_MAX = 7 };

#define MARKER "thin" /* in the folder of a day that has been thinned */

/* --- the days -------------------------------------------------------------------------------- */

struct series_day *series_note_day(struct series *series, int32_t day, uint64_t bytes)
{
    size_t at = series->day_count;
    while (at > 0 && series->days[at - 1].day >= day) {
        at--;
    }
    if (at == series->day_count || series->days[at].day != day) {
        VEC_PUSH(series->days, series->day_count, series->day_cap) = (struct series_day){0};
        memmove(&series->days[at + 1], &series->days[at],
                (series->day_count - 1 - at) * sizeof *series->days);
        series->days[at] = (struct series_day){.day = day, .is_measured = true};
    }
    series->days[at].bytes += bytes;
    return &series->days[at];
}

static struct series_day *find_day(struct series *series, int32_t day)
{
    for (size_t i = 0; i < series->day_count; i++) {
        if (series->days[i].day == day) {
            return &series->days[i];
        }
    }
    return NULL;
}

static void day_path(const struct series *series, int32_t day, const char *rest, struct str *out)
{
    str_clear(out);
    str_addf(out, "%s/%d%s", series->folder, day, rest);
}

static bool is_number(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && strspn(name, "0123456789") == size;
}

static void doom(struct series *series, const char *path)
{
    VEC_PUSH(series->doomed, series->doomed_count, series->doomed_cap) = mem_strdup(path);
}

void series_scan_days(struct series *series)
{
    DIR *dir = opendir(series->folder);
    for (const struct dirent *entry = NULL; dir && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name;
        const char *end = strstr(name, RETENTION_SUFFIX);
        str_clear(&series->path);
        str_addf(&series->path, "%s/%s", series->folder, name);
        if (end && strcmp(end, RETENTION_SUFFIX) == 0) {
            doom(series, str_text(&series->path));
        } else if (is_number(name) && strlen(name) <= DAY_DIGITS_MAX) {
            struct series_day *day = series_note_day(series, (int32_t)strtol(name, NULL, 10), 0);
            day->is_measured = false;
            str_add(&series->path, "/" MARKER);
            day->is_thin = access(str_text(&series->path), F_OK) == 0;
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* --- choosing what to do --------------------------------------------------------------------- */

static bool begin_removal(struct series *series)
{
    while (series->doomed_count > 0 && series->job == SERIES_IDLE) {
        AUTO_FREE char *path = series->doomed[--series->doomed_count];
        if (removal_open(path, &series->removal, NULL) == ERR_OK) {
            series->job = SERIES_REMOVE;
        }
    }
    return series->job == SERIES_REMOVE;
}

/* The oldest day goes if it is too old, or if all together take too much and it is not the only
 * one. */
static bool doom_oldest_day(struct series *series, int64_t now_ms)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < series->day_count; i++) {
        bytes += series->days[i].bytes;
    }
    if (series->day_count == 0) {
        return false;
    }
    int32_t day = series->days[0].day;
    bool is_old = ((int64_t)day + 1) * SERIES_DAY_MS + series->keep_ms <= now_ms;
    bool is_much = bytes > series->bytes_max && series->day_count > 1;
    if (!is_old && !is_much) {
        return false;
    }
    day_path(series, day, "", &series->path);
    doom(series, str_text(&series->path));
    series->day_count--;
    memmove(&series->days[0], &series->days[1], series->day_count * sizeof *series->days);
    return true;
}

static bool begin_walk(struct series *series, struct series_day *day, enum series_job job)
{
    day_path(series, day->day, "", &series->path);
    if (walk_open(str_text(&series->path), false, &series->walk, NULL) != ERR_OK) {
        day->is_measured = true; /* it cannot be read: nothing to do with it but remove it */
        day->is_thin = true;
        return false;
    }
    series->job = job;
    series->job_day = day->day;
    series->job_bytes = 0;
    return true;
}

static bool begin_job(struct series *series, int64_t now_ms)
{
    while (doom_oldest_day(series, now_ms)) {
    }
    if (begin_removal(series)) {
        return true;
    }
    for (size_t i = 0; i < series->day_count; i++) {
        struct series_day *day = &series->days[i];
        bool is_old = ((int64_t)day->day + 1) * SERIES_DAY_MS + series->raw_ms <= now_ms;
        bool shall_thin = is_old && !day->is_thin;
        if ((shall_thin || !day->is_measured) &&
            begin_walk(series, day, shall_thin ? SERIES_THIN : SERIES_MEASURE)) {
            return true;
        }
    }
    return false;
}

/* --- doing it -------------------------------------------------------------------------------- */

static void visit_file(struct series *series, const struct walk_entry *entry)
{
    struct stat stat;
    uint64_t bytes = 0;
    size_t size = strlen(entry->name);
    if (entry->kind != WALK_FILE) {
        return;
    }
    if (entry->name[size - 1] == '~') { /* left from a thinning that was cut short */
        unlinkat(entry->folder, entry->name, 0);
        return;
    }
    if (series->job == SERIES_THIN && is_number(entry->name)) {
        if (series_thin_file(entry->folder, entry->name, &bytes, NULL) == ERR_OK) {
            series->job_bytes += bytes;
            return;
        }
    }
    if (fstatat(entry->folder, entry->name, &stat, AT_SYMLINK_NOFOLLOW) == 0) {
        series->job_bytes += (uint64_t)stat.st_size;
    }
}

static void end_walk(struct series *series)
{
    struct series_day *day = find_day(series, series->job_day);
    walk_close(series->walk);
    series->walk = NULL;
    if (!day) {
        return; /* removed meanwhile */
    }
    day->bytes = series->job_bytes;
    day->is_measured = true;
    if (series->job == SERIES_THIN) {
        day->is_thin = true; /* tried once in this life, whatever came of the marker */
        day_path(series, day->day, "/" MARKER, &series->path);
        int fd = open(str_text(&series->path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        mem_auto_close(&fd);
    }
}

/* One file, or a few unlinks. */
static void step_job(struct series *series)
{
    struct walk_entry entry;
    if (series->job == SERIES_REMOVE) {
        if (removal_step(series->removal, UNLINKS_PER_STEP, NULL) != ERR_AGAIN) {
            removal_close(series->removal);
            series->removal = NULL;
            series->job = SERIES_IDLE;
        }
    } else if (walk_next(series->walk, &entry)) {
        visit_file(series, &entry);
    } else {
        end_walk(series);
        series->job = SERIES_IDLE;
    }
}

void series_old_tick(struct series *series, int64_t now_ms)
{
    int64_t until_us = clock_mono_us() + TICK_US;
    do {
        if (series->job == SERIES_IDLE && !begin_job(series, now_ms)) {
            return;
        }
        step_job(series);
    } while (clock_mono_us() < until_us);
}

void series_old_close(struct series *series)
{
    walk_close(series->walk);
    removal_close(series->removal);
    for (size_t i = 0; i < series->doomed_count; i++) {
        free(series->doomed[i]);
    }
    free(series->doomed);
    free(series->days);
}
