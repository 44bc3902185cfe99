/* Samples back from disk and memory, as they are or averaged. */
#include "base/io.h"
#include "base/mem.h"
#include "master/series_internal.h"

enum { RAW_PER_MINUTE = 30 };

/* Takes rows in order of time and gives points. */
struct reading {
    int64_t from_ms;
    int64_t to_ms;
    int64_t step_ms;
    struct series_point *out;
    size_t max;
    size_t count;

    int64_t last_ms; /* of the rows so far; earlier ones are not wanted any more */
    int64_t step_at_ms;
    uint64_t weight;
    double sums[SERIES_COLUMNS];
};

static struct series_point point_of(int64_t at_ms, const double *values)
{
    uint64_t whole[SERIES_COLUMNS];
    for (int i = 0; i < SERIES_COLUMNS; i++) {
        whole[i] = values[i] < 0x1p64 ? (uint64_t)values[i] : UINT64_MAX;
    }
    return (struct series_point){
        .at_ms = at_ms,
        .cpu_milli = (uint32_t)(whole[0] < UINT32_MAX ? whole[0] : UINT32_MAX),
        .memory_bytes = whole[1],
        .disk_read_bytes = whole[2],
        .disk_write_bytes = whole[3],
        .net_in_bytes = whole[4],
        .net_out_bytes = whole[5],
        .gpu_milli = (uint32_t)(whole[6] < UINT32_MAX ? whole[6] : UINT32_MAX),
        .gpu_memory_bytes = whole[7],
    };
}

static void end_step(struct reading *reading)
{
    if (reading->weight > 0 && reading->count < reading->max) {
        double means[SERIES_COLUMNS];
        for (int i = 0; i < SERIES_COLUMNS; i++) {
            means[i] = reading->sums[i] / (double)reading->weight;
        }
        reading->out[reading->count++] = point_of(reading->step_at_ms, means);
    }
    reading->weight = 0;
}

static void take_row(struct reading *reading, const struct series_row *row, uint64_t weight)
{
    if (row->at_ms < reading->from_ms || row->at_ms >= reading->to_ms ||
        row->at_ms <= reading->last_ms) {
        return;
    }
    reading->last_ms = row->at_ms;
    int64_t at_ms = row->at_ms;
    if (reading->step_ms > 0) {
        at_ms -= (at_ms - reading->from_ms) % reading->step_ms;
    }
    if (reading->weight > 0 && at_ms != reading->step_at_ms) {
        end_step(reading);
    }
    if (reading->weight == 0) {
        for (int i = 0; i < SERIES_COLUMNS; i++) {
            reading->sums[i] = 0;
        }
        reading->step_at_ms = at_ms;
    }
    for (int i = 0; i < SERIES_COLUMNS; i++) {
        reading->sums[i] += (double)row->values[i] * (double)weight;
    }
    reading->weight += weight;
}

static void take_blocks(struct reading *reading, const uint8_t *bytes, size_t size)
{
    struct series_block block;
    for (size_t at = 0;
         reading->count < reading->max && series_block_next(bytes, size, &at, &block);) {
        if (block.last_ms < reading->from_ms || block.first_ms >= reading->to_ms) {
            continue;
        }
        struct series_cursor cursor = {0};
        struct series_row row;
        while (series_block_row(&block, &cursor, &row)) {
            take_row(reading, &row, block.is_average ? RAW_PER_MINUTE : 1);
        }
    }
}

enum err_code series_read(struct series *series, const struct series_who *who,
                          const struct series_span *span, struct series_point *out, size_t *count,
                          struct err *err)
{
    *count = 0;
    int64_t from_ms = span->from_ms > 0 ? span->from_ms : 0;
    if (span->to_ms < from_ms || span->step_ms < 0 ||
        (span->step_ms > 0 && (span->to_ms - from_ms) / span->step_ms > SERIES_POINTS_MAX)) {
        return err_set(err, ERR_RANGE, "from, to and step make no sense, or too many points");
    }
    struct reading reading = {.from_ms = from_ms,
                              .to_ms = span->to_ms,
                              .step_ms = span->step_ms,
                              .out = out,
                              .max = span->max,
                              .last_ms = -1};
    AUTO_STR struct str bytes = {0};
    for (size_t i = 0; i < series->day_count; i++) {
        int64_t day_ms = (int64_t)series->days[i].day * SERIES_DAY_MS;
        if (day_ms >= span->to_ms || day_ms + SERIES_DAY_MS <= from_ms) {
            continue;
        }
        str_clear(&bytes);
        series_path(series, who, series->days[i].day, &series->path);
        enum err_code code =
            io_read_file(str_text(&series->path), SERIES_FILE_BYTES_MAX, &bytes, err);
        if (code != ERR_OK && code != ERR_NOT_FOUND) {
            return code;
        }
        take_blocks(&reading, (const uint8_t *)str_text(&bytes), bytes.size);
    }
    struct series_live *live = series_find(series, who);
    if (live && live->build.rows > 0) {
        size_t size = series_build_seal(&live->build, false);
        take_blocks(&reading, live->build.bytes, size);
    }
    end_step(&reading);
    *count = reading.count;
    return ERR_OK;
}
