/* drover advise --runs FILE --job J: which configuration to pay for next.
 *
 * FILE has a row a run: job, type, workers, and time_s or cost; completed (1 unless said; 0, no or
 * false for a run that failed); any further columns are parts of the configuration. Every
 * configuration that some job was run on can be chosen. Rows of J are its own runs, the others are
 * what is known of past jobs; where a job was run twice on one, the mean counts.
 */
#include "advise/choose.h"
#include "base/csv.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/advise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct config {
    const char *type;
    double workers;
    size_t row; /* the first that has it: where its further columns stand */
};

struct runs {
    struct advise *advise;
    const char *file;
    struct csv *csv;
    int job;
    int type;
    int workers;
    int time_s;
    int cost;
    int completed;
    int *extras; /* further columns */
    size_t extra_count;
    struct config *configs;
    size_t config_count;
    size_t config_cap;
    const char **jobs; /* the one asked for first */
    size_t job_count;
    size_t job_cap;
    double *costs; /* jobs * configs: NAN, INFINITY or the mean */
    double *counts;
    struct choose_config *machines;
    double *extra_values;
};

static int fault(const struct runs *runs, size_t row, const char *why)
{
    return cli_error(EXIT_USAGE, "%s:%d: %s", runs->file, csv_row_line(runs->csv, row), why);
}

static const char *field(const struct runs *runs, size_t row, int column)
{
    return column < 0 ? "" : csv_text(runs->csv, row, (size_t)column);
}

static int find_columns(struct runs *runs)
{
    static const char *const names[] = {"job", "type", "workers", "time_s", "cost", "completed"};
    int *const columns[] = {&runs->job,    &runs->type, &runs->workers,
                            &runs->time_s, &runs->cost, &runs->completed};
    for (size_t i = 0; i < 6; i++) {
        *columns[i] = csv_find_column(runs->csv, names[i]);
        if (*columns[i] < 0 && i < 3) {
            return cli_error(EXIT_USAGE, "%s:1: there is no column '%s'", runs->file, names[i]);
        }
    }
    if (runs->time_s < 0 && runs->cost < 0) {
        return cli_error(EXIT_USAGE, "%s:1: there is neither a column 'time_s' nor 'cost'",
                         runs->file);
    }
    runs->extras = mem_array(csv_column_count(runs->csv), sizeof *runs->extras);
    for (size_t c = 0; c < csv_column_count(runs->csv); c++) {
        bool known = false;
        for (size_t i = 0; i < 6; i++) {
            known = known || *columns[i] == (int)c;
        }
        if (!known && runs->extra_count < CHOOSE_EXTRA_MAX) {
            runs->extras[runs->extra_count++] = (int)c;
        }
    }
    return EXIT_DONE;
}

static bool same_config(const struct runs *runs, size_t a, size_t b)
{
    for (size_t i = 0; i < runs->extra_count; i++) {
        if (strcmp(field(runs, a, runs->extras[i]), field(runs, b, runs->extras[i])) != 0) {
            return false;
        }
    }
    return true;
}

static size_t find_config(struct runs *runs, size_t row, double workers)
{
    const char *type = field(runs, row, runs->type);
    for (size_t i = 0; i < runs->config_count; i++) {
        const struct config *config = &runs->configs[i];
        if (config->workers == workers && strcmp(config->type, type) == 0 &&
            same_config(runs, config->row, row)) {
            return i;
        }
    }
    VEC_PUSH(runs->configs, runs->config_count, runs->config_cap) =
        (struct config){.type = type, .workers = workers, .row = row};
    return runs->config_count - 1;
}

static size_t find_job(struct runs *runs, const char *name)
{
    for (size_t i = 0; i < runs->job_count; i++) {
        if (strcmp(runs->jobs[i], name) == 0) {
            return i;
        }
    }
    VEC_PUSH(runs->jobs, runs->job_count, runs->job_cap) = name;
    return runs->job_count - 1;
}

/* The machine of a type; where there are several regions, the cheapest. */
static const struct catalog_row *machine_of(const struct runs *runs, const char *type)
{
    const struct catalog *catalog = &runs->advise->catalog;
    const struct catalog_row *best = NULL;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct catalog_row *row = &catalog->rows[i];
        if (strcmp(row->type, type) == 0 && require_met(&runs->advise->require, row) &&
            (!best || row->price_hour_micro < best->price_hour_micro)) {
            best = row;
        }
    }
    return best;
}

/* Jobs and configurations: how large the table is. */
static int read_keys(struct runs *runs)
{
    struct err err = {0};
    (void)find_job(runs, runs->advise->job);
    for (size_t row = 0; row < csv_row_count(runs->csv); row++) {
        double workers = 0;
        if (csv_number(runs->csv, row, (size_t)runs->workers, &workers, &err) != ERR_OK) {
            return cli_error(EXIT_USAGE, "%s", err.text);
        }
        if (!(workers > 0 && workers <= 1e6)) {
            return fault(runs, row, "workers must be from 1 to 1000000");
        }
        if (!field(runs, row, runs->type)[0] || !field(runs, row, runs->job)[0]) {
            return fault(runs, row, "job or type is empty");
        }
        (void)find_job(runs, field(runs, row, runs->job));
        (void)find_config(runs, row, workers);
        if (runs->config_count > CHOOSE_CONFIGS_MAX) {
            return fault(runs, row, "more configurations than can be chosen from (2000)");
        }
    }
    return EXIT_DONE;
}

static int make_machines(struct runs *runs)
{
    runs->machines = mem_array(runs->config_count, sizeof *runs->machines);
    runs->extra_values = mem_array(runs->config_count * (runs->extra_count + 1), sizeof(double));
    for (size_t i = 0; i < runs->config_count; i++) {
        const struct config *config = &runs->configs[i];
        const struct catalog_row *row = machine_of(runs, config->type);
        if (!row || row->price_hour_micro <= 0) {
            return cli_error(EXIT_USAGE,
                             "%s:%d: type '%.60s' is not in the catalog, or is free (--catalog "
                             "FILE)",
                             runs->file, csv_row_line(runs->csv, config->row), config->type);
        }
        double *extra = runs->extra_values + i * runs->extra_count;
        for (size_t e = 0; e < runs->extra_count; e++) {
            /* Words become numbers by their order among the words: equal stays equal. */
            const char *text = field(runs, config->row, runs->extras[e]);
            if (csv_number(runs->csv, config->row, (size_t)runs->extras[e], &extra[e], NULL) !=
                ERR_OK) {
                extra[e] = 0;
                for (size_t j = 0; j < i; j++) {
                    const char *other = field(runs, runs->configs[j].row, runs->extras[e]);
                    extra[e] += strcmp(other, text) != 0;
                    if (strcmp(other, text) == 0) {
                        extra[e] = runs->extra_values[j * runs->extra_count + e];
                        break;
                    }
                }
            }
        }
        runs->machines[i] =
            (struct choose_config){.nodes = config->workers,
                                   .vcpus = row->vcpus,
                                   .memory_gib = row->memory_gib,
                                   .gpus = row->gpus,
                                   .hourly = config->workers * money_units(row->price_hour_micro),
                                   .extra = extra};
    }
    return EXIT_DONE;
}

static bool has_failed(const struct runs *runs, size_t row)
{
    const char *text = field(runs, row, runs->completed);
    return strcmp(text, "0") == 0 || strcasecmp(text, "no") == 0 || strcasecmp(text, "false") == 0;
}

static int read_costs(struct runs *runs)
{
    struct err err = {0};
    size_t cells = runs->job_count * runs->config_count;
    runs->costs = mem_array(cells, sizeof *runs->costs);
    runs->counts = mem_array(cells, sizeof *runs->counts);
    for (size_t i = 0; i < cells; i++) {
        runs->costs[i] = (double)NAN;
    }
    for (size_t row = 0; row < csv_row_count(runs->csv); row++) {
        double workers = 0;
        double value = 0;
        (void)!csv_number(runs->csv, row, (size_t)runs->workers, &workers, &err);
        size_t config = find_config(runs, row, workers);
        size_t cell = find_job(runs, field(runs, row, runs->job)) * runs->config_count + config;
        bool by_cost = runs->cost >= 0 && field(runs, row, runs->cost)[0];
        int column = by_cost ? runs->cost : runs->time_s;
        if (has_failed(runs, row)) {
            runs->costs[cell] = (double)INFINITY;
            continue;
        }
        if (column < 0 || csv_number(runs->csv, row, (size_t)column, &value, &err) != ERR_OK) {
            return cli_error(EXIT_USAGE, "%s", column < 0 ? "a run says nothing" : err.text);
        }
        if (!(value > 0 && value < 1e15)) {
            return fault(runs, row, by_cost ? "cost must be above 0" : "time_s must be above 0");
        }
        double cost = by_cost ? value : value / 3600 * runs->machines[config].hourly;
        if (!isinf(runs->costs[cell])) {
            double before = runs->counts[cell] > 0 ? runs->costs[cell] : 0;
            double count = ++runs->counts[cell];
            runs->costs[cell] = before + (cost - before) / count;
        }
    }
    return EXIT_DONE;
}

/* ---- the answer ------------------------------------------------------------------------------ */

struct line {
    size_t config;
    int tier; /* the best paid, the next to run, other paid, the rest */
    double cost;
};

static int compare_lines(const void *left, const void *right)
{
    const struct line *a = left;
    const struct line *b = right;
    if (a->tier != b->tier) {
        return a->tier < b->tier ? -1 : 1;
    }
    if (a->cost != b->cost) {
        return a->cost < b->cost ? -1 : 1;
    }
    return a->config < b->config ? -1 : a->config > b->config;
}

static void line_json(const struct runs *runs, size_t config, size_t place,
                      const struct choose_estimate *estimate, const char *role, struct str *out)
{
    struct json json = {.out = out};
    double hourly = runs->machines[config].hourly;
    json_object(&json);
    json_key(&json, "algorithm"), json_text(&json, "best");
    json_key(&json, "job"), json_text(&json, runs->advise->job);
    json_key(&json, "rank"), json_u64(&json, place);
    json_key(&json, "role"), json_text(&json, role);
    json_key(&json, "worker_type"), json_text(&json, runs->configs[config].type);
    json_key(&json, "workers"), json_double(&json, runs->configs[config].workers);
    for (size_t e = 0; e < runs->extra_count; e++) {
        json_key(&json, csv_column_name(runs->csv, (size_t)runs->extras[e]));
        json_text(&json, field(runs, runs->configs[config].row, runs->extras[e]));
    }
    json_key(&json, "hourly_cost"), json_double(&json, hourly);
    json_key(&json, "time_s"), json_double(&json, estimate->cost / hourly * 3600);
    json_key(&json, "cost"), json_double(&json, estimate->cost);
    json_key(&json, "cost_low"), json_double(&json, estimate->low);
    json_key(&json, "cost_high"), json_double(&json, estimate->high);
    json_key(&json, "feasible"), json_double(&json, estimate->feasible);
    json_end(&json);
    str_add_char(out, '\n');
}

static void line_text(const struct runs *runs, size_t config, size_t place,
                      const struct choose_estimate *estimate, const char *role, struct str *out)
{
    double hourly = runs->machines[config].hourly;
    str_addf(out, "%3zu  %-6s %5g x %-22s", place, role, runs->configs[config].workers,
             runs->configs[config].type);
    if (isinf(estimate->cost)) {
        str_add(out, "  failed");
    } else {
        str_addf(out, "  %9.3f", estimate->cost);
        if (estimate->low < estimate->high) {
            str_addf(out, " (%.3f-%.3f)", estimate->low, estimate->high);
        }
        str_addf(out, "  %.0f s", estimate->cost / hourly * 3600);
    }
    for (size_t e = 0; e < runs->extra_count; e++) {
        str_addf(out, "  %s=%s", csv_column_name(runs->csv, (size_t)runs->extras[e]),
                 field(runs, runs->configs[config].row, runs->extras[e]));
    }
    str_add_char(out, '\n');
}

static void print_lines(const struct runs *runs, const struct choose *choose, size_t next,
                        double saving, const struct choose_estimate *estimates)
{
    AUTO_STR struct str out = {0};
    size_t best = choose_best(choose);
    struct line *lines = mem_array(runs->config_count, sizeof *lines);
    for (size_t i = 0; i < runs->config_count; i++) {
        bool paid = !isnan(runs->costs[i]);
        lines[i] = (struct line){.config = i, .cost = estimates[i].cost};
        lines[i].tier = i == best ? 0 : i == next ? 1 : paid ? 2 : 3;
    }
    qsort(lines, runs->config_count, sizeof *lines, compare_lines);
    if (!runs->advise->as_json) {
        str_addf(&out,
                 "%zu configurations, %zu other jobs; cost with the interval that holds 80 %%\n",
                 runs->config_count, runs->job_count - 1);
    }
    for (size_t i = 0; i < runs->config_count && i < runs->advise->limit; i++) {
        static const char *const roles[] = {"best", "next", "paid", "-"};
        const struct choose_estimate *estimate = &estimates[lines[i].config];
        if (runs->advise->as_json) {
            line_json(runs, lines[i].config, i + 1, estimate, roles[lines[i].tier], &out);
        } else {
            line_text(runs, lines[i].config, i + 1, estimate, roles[lines[i].tier], &out);
        }
    }
    if (!runs->advise->as_json && next < runs->config_count && best < runs->config_count) {
        str_addf(&out, "the next run is expected to save %.1f %% of the bill of each later one\n",
                 100 * saving);
    }
    cli_write(&out);
    free(lines);
}

static int choose_among(struct runs *runs)
{
    struct choose_problem problem = {.configs = runs->machines,
                                     .config_count = runs->config_count,
                                     .extra_count = runs->extra_count,
                                     .past = runs->costs + runs->config_count,
                                     .past_count = runs->job_count - 1,
                                     .deadline_s = runs->advise->deadline_s,
                                     .seed = runs->advise->seed};
    struct choose *choose = NULL;
    struct err err = {0};
    if (choose_create(&problem, &choose, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s: %s", runs->file, err.text);
    }
    for (size_t i = 0; i < runs->config_count; i++) {
        if (!isnan(runs->costs[i])) {
            choose_observe(choose, i, runs->costs[i]);
        }
    }
    struct choose_estimate *estimates = mem_array(runs->config_count, sizeof *estimates);
    double saving = 0;
    size_t next = choose_next(choose, &saving);
    choose_estimate(choose, estimates);
    print_lines(runs, choose, next, saving, estimates);
    free(estimates);
    choose_destroy(choose);
    return EXIT_DONE;
}

int advise_runs(struct advise *advise)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    struct runs runs = {.advise = advise, .file = advise->runs_file};
    if (!advise->job) {
        return cli_usage_error(&cmd_advise, "--runs needs --job: for which job?");
    }
    enum err_code code = io_read_file(runs.file, CSV_BYTES_MAX, &text, &err);
    code = code ? code : csv_parse(runs.file, str_text(&text), text.size, &runs.csv, &err);
    if (code != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    int exit_code = find_columns(&runs);
    exit_code = exit_code == EXIT_DONE ? read_keys(&runs) : exit_code;
    exit_code = exit_code == EXIT_DONE ? make_machines(&runs) : exit_code;
    exit_code = exit_code == EXIT_DONE ? read_costs(&runs) : exit_code;
    exit_code = exit_code == EXIT_DONE ? choose_among(&runs) : exit_code;
    csv_destroy(runs.csv);
    free(runs.extras);
    free(runs.configs);
    free(runs.jobs);
    free(runs.costs);
    free(runs.counts);
    free(runs.machines);
    free(runs.extra_values);
    return exit_code;
}
