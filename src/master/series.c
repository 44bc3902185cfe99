#include "master/series.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/series_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WAIT_MS = 60 * 1000,   /* no sample waits longer in memory, but for the next line */
    WRITES_PER_TICK = 500, /* of those that have waited too long */
    FIRST_LIMIT_BYTES = 96,
    FOLDER_TASKS = 1000,
};

struct series *series_open(const struct series_options *options)
{
    struct series *series = mem_alloc(sizeof *series);
    series->folder = mem_strdup(options->folder);
    series->raw_ms = options->raw_ms > 0 ? options->raw_ms : SERIES_DAY_MS;
    series->keep_ms = options->keep_ms > 0 ? options->keep_ms : (int64_t)30 * SERIES_DAY_MS;
    series->bytes_max = options->bytes_max > 0 ? options->bytes_max : (uint64_t)4 << 30;
    TAILQ_INIT(&series->order);
    series_scan_days(series);
    return series;
}

/* --- the table ------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct series_who *who)
{
    uint64_t high = (uint64_t)who->workflow << 32 | who->experiment;
    return rng_mix(high, who->task, who->node);
}

static bool is_same(const struct series_who *a, const struct series_who *b)
{
    return a->workflow == b->workflow && a->experiment == b->experiment && a->task == b->task &&
           a->node == b->node;
}

/* A task is the same wherever it runs, and a node has no task. */
static struct series_who tidy(const struct series_who *who)
{
    if (who->workflow == 0) {
        return (struct series_who){.node = who->node};
    }
    return (struct series_who){
        .workflow = who->workflow, .experiment = who->experiment, .task = who->task};
}

struct series_live *series_find(struct series *series, const struct series_who *given)
{
    struct series_who who = tidy(given);
    struct series_live *live = NULL;
    LIST_FOREACH(live, &series->buckets[hash_of(&who) % SERIES_BUCKETS], in_bucket)
    {
        if (is_same(&live->who, &who)) {
            return live;
        }
    }
    return NULL;
}

static struct series_live *add_live(struct series *series, const struct series_who *given)
{
    struct series_who who = tidy(given);
    uint64_t hash = hash_of(&who);
    struct series_live *live = mem_alloc(sizeof *live);
    live->who = who;
    /* Nodes that joined together shall not all write in the same moment for ever after. */
    live->limit = (uint16_t)(FIRST_LIMIT_BYTES + hash % (SERIES_BUILD_BYTES - FIRST_LIMIT_BYTES));
    LIST_INSERT_HEAD(&series->buckets[hash % SERIES_BUCKETS], live, in_bucket);
    TAILQ_INSERT_TAIL(&series->order, live, in_order);
    series->counts.live++;
    return live;
}

void series_drop_live(struct series *series, struct series_live *live)
{
    LIST_REMOVE(live, in_bucket);
    TAILQ_REMOVE(&series->order, live, in_order);
    CHECK(TAILQ_FIRST(&series->order) != live); /* also tells the analyzer so */
    series->counts.live--;
    free(live);
}

/* --- writing --------------------------------------------------------------------------------- */

void series_path(const struct series *series, const struct series_who *who, int32_t day,
                 struct str *out)
{
    str_clear(out);
    if (who->workflow == 0) {
        str_addf(out, "%s/%d/nodes/%u", series->folder, day, who->node);
        return;
    }
    str_addf(out, "%s/%d/tasks/%u/%u/%llu/%llu", series->folder, day, who->workflow,
             who->experiment, (unsigned long long)(who->task / FOLDER_TASKS),
             (unsigned long long)who->task);
}

static int open_for_append(const char *path)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
    int fd = open(path, flags, 0600);
    if (fd >= 0 || errno != ENOENT) {
        return fd;
    }
    AUTO_FREE char *folder = mem_strdup(path);
    *strrchr(folder, '/') = '\0';
    return io_make_dirs(folder, NULL) == ERR_OK ? open(path, flags, 0600) : -1;
}

/* A block is there whole or, as far as we can see to it, not at all. */
static bool append(const char *path, const void *bytes, size_t size)
{
    AUTO_CLOSE int fd = open_for_append(path);
    if (fd < 0) {
        return false;
    }
    ssize_t written = write(fd, bytes, size);
    if (written == (ssize_t)size) {
        return true;
    }
    struct stat stat;
    if (written > 0 && fstat(fd, &stat) == 0 && stat.st_size >= written) {
        /* If this fails too, readers step over the torn block. */
        (void)!ftruncate(fd, stat.st_size - written);
    }
    return false;
}

/* Writes and empties the block in memory. `is_last`: nothing more is expected. */
static void write_block(struct series *series, struct series_live *live, bool is_last)
{
    struct series_build *build = &live->build;
    bool is_short = is_last && live->who.workflow != 0 && !live->has_file && build->rows < 2;
    if (build->rows > 0 && !is_short) {
        int32_t day = (int32_t)(build->first_ms / SERIES_DAY_MS);
        size_t size = series_build_seal(build, false);
        series_path(series, &live->who, day, &series->path);
        if (append(str_text(&series->path), build->bytes, size)) {
            live->has_file = true;
            series->counts.written_bytes += size;
            series_note_day(series, day, size);
        } else {
            series->counts.lost += build->rows;
        }
    }
    *build = (struct series_build){0};
    live->limit = UINT16_MAX;
}

static struct series_row row_of(int64_t at_ms, const Drover__Usage *usage)
{
    return (struct series_row){
        .at_ms = at_ms - at_ms % SERIES_TIME_UNIT_MS,
        .values = {usage->cpu_milli, usage->memory_bytes, usage->disk_read_bytes,
                   usage->disk_write_bytes, usage->net_in_bytes, usage->net_out_bytes,
                   usage->gpu_milli, usage->gpu_memory_bytes},
    };
}

void series_add(struct series *series, const struct series_who *who, int64_t at_ms,
                const Drover__Usage *usage)
{
    struct series_live *live = series_find(series, who);
    series->counts.samples++;
    if (at_ms < 0 || (!live && series->counts.live >= SERIES_LIVE_MAX)) {
        series->counts.dropped++;
        return;
    }
    if (!live) {
        live = add_live(series, who);
    }
    struct series_row row = row_of(at_ms, usage);
    struct series_build *build = &live->build;
    if (build->rows > 0 && row.at_ms <= build->last_ms) {
        series->counts.dropped++;
        return;
    }
    bool is_new_day =
        build->rows > 0 && row.at_ms / SERIES_DAY_MS != build->first_ms / SERIES_DAY_MS;
    if (is_new_day || !series_build_add(build, &row)) {
        write_block(series, live, false);
        CHECK(series_build_add(build, &row));
    }
    if (build->rows == 1) {
        live->since_ms = row.at_ms;
        TAILQ_REMOVE(&series->order, live, in_order);
        TAILQ_INSERT_TAIL(&series->order, live, in_order);
    }
    if (build->size > live->limit) {
        write_block(series, live, false);
    }
}

void series_end(struct series *series, const struct series_who *who)
{
    struct series_live *live = series_find(series, who);
    if (live) {
        write_block(series, live, true);
        series_drop_live(series, live);
    }
}

void series_tick(struct series *series, int64_t now_ms)
{
    for (int i = 0; i < WRITES_PER_TICK; i++) {
        struct series_live *live = TAILQ_FIRST(&series->order);
        if (!live || now_ms - live->since_ms < WAIT_MS) {
            break;
        }
        write_block(series, live, true);
        series_drop_live(series, live); /* if it goes on, it begins again */
    }
    series_old_tick(series, now_ms);
}

void series_forget(struct series *series, uint32_t workflow)
{
    CHECK(workflow > 0);
    struct series_live *live = TAILQ_FIRST(&series->order);
    while (live) {
        struct series_live *next = TAILQ_NEXT(live, in_order);
        if (live->who.workflow == workflow) {
            series_drop_live(series, live);
        }
        live = next;
    }
    for (size_t i = 0; i < series->day_count; i++) {
        struct str path = {0};
        str_addf(&path, "%s/%d/tasks/%u", series->folder, series->days[i].day, workflow);
        VEC_PUSH(series->doomed, series->doomed_count, series->doomed_cap) = str_take(&path);
    }
}

void series_counts(const struct series *series, struct series_counts *out)
{
    *out = series->counts;
}

void series_close(struct series *series)
{
    if (!series) {
        return;
    }
    for (struct series_live *live = NULL; (live = TAILQ_FIRST(&series->order)) != NULL;) {
        write_block(series, live, true);
        series_drop_live(series, live);
    }
    series_old_close(series);
    str_release(&series->path);
    free(series->folder);
    free(series);
}
