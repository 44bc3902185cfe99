#include "advise/profile.h"

#include "base/csv.h"
#include "base/mem.h"
#include "base/suggest.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum column {
    COL_TYPE,
    COL_BATCH,
    COL_WORKERS,
    COL_BANDWIDTH,
    COL_STEPS,
    COL_EXAMPLES,
    COL_MODE,
    COL_SERVERS,
    COL_SERVER_MBPS,
    COL_COUNT
};

static const char *const column_names[COL_COUNT] = {
    "type",           "batch", "workers", "bandwidth_mbps", "steps_per_s",
    "examples_per_s", "mode",  "servers", "server_mbps"};

struct source {
    const char *file;
    const struct csv *csv;
    int columns[COL_COUNT];
    size_t row;
};

static const char *const mode_names[] = {"", "sync", "async", "allreduce"};

const char *profile_mode_name(enum profile_mode mode)
{
    return mode_names[mode];
}

enum profile_mode profile_mode_of(const char *name)
{
    for (int i = PROFILE_SYNC; i <= PROFILE_ALLREDUCE; i++) {
        if (strcasecmp(name, mode_names[i]) == 0) {
            return (enum profile_mode)i;
        }
    }
    return PROFILE_MODE_UNKNOWN;
}

void profile_release(struct profile *profile)
{
    if (profile) {
        free(profile->runs);
        arena_release(&profile->arena);
        *profile = (struct profile){0};
    }
}

static const char *field(const struct source *source, enum column column)
{
    int at = source->columns[column];
    return at < 0 ? "" : csv_text(source->csv, source->row, (size_t)at);
}

/* A number above 0 and at most max; *out stays where the field is empty. */
static enum err_code read_number(const struct source *source, enum column column, double max,
                                 double *out, struct err *err)
{
    if (!field(source, column)[0]) {
        return ERR_OK;
    }
    double number = 0;
    enum err_code code =
        csv_number(source->csv, source->row, (size_t)source->columns[column], &number, err);
    if (code == ERR_OK && !(number > 0 && number <= max)) {
        return err_set(err, ERR_INVALID, "%s:%d: %s: %g is not above 0 and at most %g",
                       source->file, csv_row_line(source->csv, source->row), column_names[column],
                       number, max);
    }
    *out = code == ERR_OK ? number : *out;
    return code;
}

static enum err_code read_count(const struct source *source, enum column column, uint32_t *out,
                                struct err *err)
{
    double number = 0;
    if (strcmp(field(source, column), "0") == 0 && column == COL_SERVERS) {
        *out = 0;
        return ERR_OK;
    }
    enum err_code code = read_number(source, column, 1e6, &number, err);
    if (code == ERR_OK && number > 0 && (double)(uint32_t)number != number) {
        return err_set(err, ERR_INVALID, "%s:%d: %s: %g is not a whole number", source->file,
                       csv_row_line(source->csv, source->row), column_names[column], number);
    }
    *out = number > 0 ? (uint32_t)number : *out;
    return code;
}

static enum err_code read_run(const struct source *source, struct profile_run *run, struct err *err)
{
    run->line = csv_row_line(source->csv, source->row);
    run->servers = 1;
    enum err_code code = read_count(source, COL_WORKERS, &run->workers, err);
    code = code ? code : read_count(source, COL_SERVERS, &run->servers, err);
    code = code ? code : read_number(source, COL_BATCH, 1e12, &run->batch, err);
    code = code ? code : read_number(source, COL_BANDWIDTH, 1e8, &run->bandwidth_mbps, err);
    code = code ? code : read_number(source, COL_STEPS, 1e12, &run->steps_per_s, err);
    code = code ? code : read_number(source, COL_EXAMPLES, 1e15, &run->examples_per_s, err);
    code = code ? code : read_number(source, COL_SERVER_MBPS, 1e8, &run->server_mbps, err);
    if (code != ERR_OK) {
        return code;
    }
    const char *mode = field(source, COL_MODE);
    run->mode = profile_mode_of(mode);
    if (mode[0] && run->mode == PROFILE_MODE_UNKNOWN) {
        return err_set(err, ERR_INVALID, "%s:%d: mode: '%.40s' is not sync, async or allreduce",
                       source->file, run->line, mode);
    }
    if (!field(source, COL_TYPE)[0] || run->workers == 0) {
        return err_set(err, ERR_INVALID, "%s:%d: %s is empty", source->file, run->line,
                       run->workers ? "type" : "workers");
    }
    /* Without the mode, a step of several workers may be one batch or as many as workers. */
    bool told = run->mode != PROFILE_MODE_UNKNOWN || run->workers == 1;
    double step = run->batch * (run->mode == PROFILE_ASYNC ? 1 : run->workers);
    if (told && step > 0 && run->steps_per_s <= 0) {
        run->steps_per_s = run->examples_per_s / step;
    }
    if (told && step > 0 && run->examples_per_s <= 0) {
        run->examples_per_s = run->steps_per_s * step;
    }
    return ERR_OK;
}

static enum err_code find_columns(struct source *source, struct err *err)
{
    for (int i = 0; i < COL_COUNT; i++) {
        source->columns[i] = csv_find_column(source->csv, column_names[i]);
    }
    if (source->columns[COL_TYPE] < 0 || source->columns[COL_WORKERS] < 0) {
        return err_set(err, ERR_INVALID, "%s:1: there is no column '%s'", source->file,
                       column_names[source->columns[COL_TYPE] < 0 ? COL_TYPE : COL_WORKERS]);
    }
    for (size_t i = 0; i < csv_column_count(source->csv); i++) {
        const char *name = csv_column_name(source->csv, i);
        const char *near = suggest_nearest(name, column_names, COL_COUNT);
        if (near && strcasecmp(near, name) != 0) {
            return err_set(err, ERR_INVALID, "%s:1: unknown column '%.60s' (did you mean '%s'?)",
                           source->file, name, near);
        }
    }
    return ERR_OK;
}

enum err_code profile_add_csv(struct profile *profile, const char *file, const char *text,
                              size_t size, struct err *err)
{
    struct csv *csv = NULL;
    enum err_code code = csv_parse(file, text, size, &csv, err);
    if (code != ERR_OK) {
        return code;
    }
    struct source source = {.file = file, .csv = csv};
    code = find_columns(&source, err);
    for (; code == ERR_OK && source.row < csv_row_count(csv); source.row++) {
        struct profile_run run = {0};
        code = read_run(&source, &run, err);
        if (code == ERR_OK) {
            run.type = arena_strdup(&profile->arena, field(&source, COL_TYPE));
            VEC_PUSH(profile->runs, profile->count, profile->cap) = run;
        }
    }
    csv_destroy(csv);
    return code;
}

double profile_bandwidth(const struct profile *profile, const char *type, double batch)
{
    uint32_t fewest = UINT32_MAX;
    double sum = 0;
    double count = 0;
    double seen = 0; /* the batch of the runs looked at, where none is asked for */
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_run *run = &profile->runs[i];
        if (run->bandwidth_mbps <= 0 || strcmp(run->type, type) != 0 ||
            (batch > 0 && run->batch > 0 && run->batch != batch)) {
            continue;
        }
        if (batch <= 0 && seen > 0 && run->batch > 0 && run->batch != seen) {
            return 0;
        }
        seen = run->batch > 0 ? run->batch : seen;
        if (run->workers < fewest) {
            fewest = run->workers;
            sum = count = 0;
        }
        if (run->workers == fewest) {
            sum += run->bandwidth_mbps;
            count++;
        }
    }
    return count > 0 ? sum / count : 0;
}
