/* drover advise --engines FILE: the knee of throughput against engines, for each server type. */
#include "advise/engines.h"
#include "base/csv.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/advise.h"

#include <stdlib.h>
#include <string.h>

struct series {
    const char *name;
    double *engines;
    double *speed;
    size_t count;
};

static void print_fit(const struct advise *advise, const struct series *series,
                      const struct engines_fit *fit, struct str *out)
{
    if (!advise->as_json) {
        str_addf(
            out,
            "%s%s%u engines (fitted throughput %.4g; the peak is %u with %.4g; median error of "
            "the fit %.1f %%)\n",
            series->name, series->name[0] ? ": " : "", fit->knee, fit->knee_speed, fit->peak,
            fit->peak_speed, 100 * fit->error);
        return;
    }
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "server"), json_text(&json, series->name);
    json_key(&json, "engines"), json_u64(&json, fit->knee);
    json_key(&json, "throughput"), json_double(&json, fit->knee_speed);
    json_key(&json, "peak_engines"), json_u64(&json, fit->peak);
    json_key(&json, "peak_throughput"), json_double(&json, fit->peak_speed);
    json_key(&json, "error"), json_double(&json, fit->error);
    json_key(&json, "fit"), json_array(&json);
    for (size_t i = 0; i < 3; i++) {
        json_double(&json, fit->terms[i]);
    }
    json_end(&json);
    json_end(&json);
    str_add_char(out, '\n');
}

static const char *name_of(const struct csv *csv, size_t row)
{
    int column = csv_find_column(csv, "server");
    column = column < 0 ? csv_find_column(csv, "type") : column;
    return column < 0 ? "" : csv_text(csv, row, (size_t)column);
}

/* All rows of one server, from `first` on. */
static enum err_code read_series(const struct csv *csv, size_t first, const int columns[2],
                                 struct series *series, struct err *err)
{
    series->name = name_of(csv, first);
    series->count = 0;
    for (size_t row = first; row < csv_row_count(csv); row++) {
        if (strcmp(name_of(csv, row), series->name) != 0) {
            continue;
        }
        enum err_code code =
            csv_number(csv, row, (size_t)columns[0], &series->engines[series->count], err);
        code = code ? code
                    : csv_number(csv, row, (size_t)columns[1], &series->speed[series->count], err);
        if (code != ERR_OK) {
            return code;
        }
        series->count++;
    }
    return ERR_OK;
}

static bool seen_before(const struct csv *csv, size_t row)
{
    for (size_t i = 0; i < row; i++) {
        if (strcmp(name_of(csv, i), name_of(csv, row)) == 0) {
            return true;
        }
    }
    return false;
}

static enum err_code fit_all(const struct advise *advise, const struct csv *csv,
                             const int columns[2], struct str *out, struct err *err)
{
    struct series series = {.engines = mem_array(csv_row_count(csv), sizeof(double)),
                            .speed = mem_array(csv_row_count(csv), sizeof(double))};
    enum err_code code = ERR_OK;
    for (size_t row = 0; code == ERR_OK && row < csv_row_count(csv); row++) {
        struct engines_fit fit;
        if (seen_before(csv, row)) {
            continue;
        }
        code = read_series(csv, row, columns, &series, err);
        code = code ? code : engines_fit(series.engines, series.speed, series.count, &fit, err);
        if (code == ERR_OK) {
            print_fit(advise, &series, &fit, out);
        }
    }
    free(series.engines);
    free(series.speed);
    return code;
}

int advise_engines(const struct advise *advise)
{
    AUTO_STR struct str text = {0};
    AUTO_STR struct str out = {0};
    struct err err = {0};
    struct csv *csv = NULL;
    const char *file = advise->engines_file;
    enum err_code code = io_read_file(file, CSV_BYTES_MAX, &text, &err);
    code = code ? code : csv_parse(file, str_text(&text), text.size, &csv, &err);
    if (code == ERR_OK) {
        int columns[2] = {csv_find_column(csv, "engines"), csv_find_column(csv, "throughput")};
        if (columns[0] < 0 || columns[1] < 0) {
            code = err_set(&err, ERR_INVALID, "%s:1: there is no column '%s'", file,
                           columns[0] < 0 ? "engines" : "throughput");
        } else if (csv_row_count(csv) == 0) {
            code = err_set(&err, ERR_INVALID, "%s: no throughput was measured", file);
        } else {
            code = fit_all(advise, csv, columns, &out, &err);
        }
    }
    csv_destroy(csv);
    if (code != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    cli_write(&out);
    return EXIT_DONE;
}
