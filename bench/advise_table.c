#include "bench/advise_table.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXTRA = 2 };

struct row {
    const char *job;
    const char *group;
    const char *config;
    const char *type;
    struct choose_config machine;
    double extra[EXTRA];
    double cost;
};

static size_t find(char **names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return count;
}

/* The table of costs keeps its shape as jobs and configurations are added. */
static void grow(struct table *table, size_t jobs, size_t configs)
{
    double *cost = mem_array(jobs * configs, sizeof *cost);
    for (size_t i = 0; i < jobs * configs; i++) {
        cost[i] = (double)NAN;
    }
    for (size_t j = 0; j < table->job_count; j++) {
        for (size_t c = 0; c < table->config_count; c++) {
            cost[j * configs + c] = table->cost[j * table->config_count + c];
        }
    }
    free(table->cost);
    table->cost = cost;
}

static void add_row(struct table *table, const struct row *row)
{
    size_t job = find(table->jobs, table->job_count, row->job);
    size_t config = find(table->config_names, table->config_count, row->config);
    bool new_job = job == table->job_count;
    bool new_config = config == table->config_count;
    if (new_job || new_config) {
        grow(table, table->job_count + new_job, table->config_count + new_config);
    }
    if (new_job) {
        table->jobs = mem_resize(table->jobs, job + 1, sizeof *table->jobs);
        table->groups = mem_resize(table->groups, job + 1, sizeof *table->groups);
        table->jobs[job] = mem_strdup(row->job);
        table->groups[job] = mem_strdup(row->group);
        table->job_count++;
    }
    if (new_config) {
        size_t count = config + 1;
        table->configs = mem_resize(table->configs, count, sizeof *table->configs);
        table->config_names = mem_resize(table->config_names, count, sizeof *table->config_names);
        table->types = mem_resize(table->types, count, sizeof *table->types);
        table->configs[config] = row->machine;
        table->configs[config].extra = mem_dup(row->extra, sizeof row->extra);
        table->config_names[config] = mem_strdup(row->config);
        table->types[config] = mem_strdup(row->type);
        table->config_count++;
    }
    table->cost[job * table->config_count + config] = row->cost;
}

static double number(const struct csv *csv, size_t row, const char *column)
{
    double value = (double)NAN;
    int at = csv_find_column(csv, column);
    if (at < 0 || csv_number(csv, row, (size_t)at, &value, NULL) != ERR_OK) {
        return (double)NAN;
    }
    return value;
}

static const char *text(const struct csv *csv, size_t row, const char *column)
{
    int at = csv_find_column(csv, column);
    return at < 0 ? "" : csv_text(csv, row, (size_t)at);
}

/* Any region's: one price list for all. */
static const struct catalog_row *machine_of(const struct catalog *catalog, const char *type)
{
    for (size_t i = 0; i < catalog->count; i++) {
        if (strcmp(catalog->rows[i].type, type) == 0 &&
            strcmp(catalog->rows[i].region, "us-east-1") == 0) {
            return &catalog->rows[i];
        }
    }
    return NULL;
}

static void add_many(struct table *table, const struct csv *csv, const struct catalog *catalog)
{
    for (size_t i = 0; i < csv_row_count(csv); i++) {
        char job[300];
        char group[200];
        char config[200];
        const char *type = text(csv, i, "vm");
        const struct catalog_row *machine = machine_of(catalog, type);
        double nodes = number(csv, i, "nodes");
        double elapsed_s = number(csv, i, "elapsed_s");
        if (!machine || !(nodes > 0)) {
            fprintf(stderr, "bench: %s is not in the catalog, left out\n", type);
            continue;
        }
        snprintf(group, sizeof group, "%s/%s", text(csv, i, "workload"), text(csv, i, "framework"));
        snprintf(job, sizeof job, "%s/%s", group, text(csv, i, "datasize"));
        snprintf(config, sizeof config, "%s*%g", type, nodes);
        double hourly = nodes * money_units(machine->price_hour_micro);
        bool worked = number(csv, i, "completed") > 0 && elapsed_s > 0;
        add_row(table,
                &(struct row){.job = job,
                              .group = group,
                              .config = config,
                              .type = type,
                              .machine = {.nodes = nodes,
                                          .vcpus = machine->vcpus,
                                          .memory_gib = machine->memory_gib,
                                          .gpus = machine->gpus,
                                          .hourly = hourly},
                              .cost = worked ? elapsed_s / 3600 * hourly : (double)INFINITY});
    }
}

static void add_one(struct table *table, const struct csv *csv)
{
    for (size_t i = 0; i < csv_row_count(csv); i++) {
        char config[200];
        const char *type = text(csv, i, "vm_name");
        double nodes = number(csv, i, "num_machines");
        double hourly = nodes * number(csv, i, "vm_cost");
        snprintf(config, sizeof config, "%s*%g+%s%s%s", type, nodes, text(csv, i, "disk_name"),
                 text(csv, i, "disk_count"), text(csv, i, "disk_speed"));
        add_row(table, &(struct row){.job = text(csv, i, "exp_name"),
                                     .group = text(csv, i, "exp_name"),
                                     .config = config,
                                     .type = type,
                                     .machine = {.nodes = nodes,
                                                 .vcpus = number(csv, i, "cpu_count"),
                                                 .memory_gib = number(csv, i, "ram"),
                                                 .hourly = hourly},
                                     .extra = {strcmp(text(csv, i, "disk_name"), "ebs") == 0,
                                               strcmp(text(csv, i, "vm_speed"), "fast") == 0},
                                     .cost = number(csv, i, "time") / 3600 * hourly});
    }
}

bool table_add(struct table *table, const struct csv *csv, const struct catalog *catalog)
{
    if (csv_find_column(csv, "elapsed_s") >= 0 && csv_find_column(csv, "workload") >= 0) {
        add_many(table, csv, catalog);
        return true;
    }
    if (csv_find_column(csv, "num_machines") >= 0 && csv_find_column(csv, "vm_cost") >= 0) {
        add_one(table, csv);
        table->extra_count = EXTRA;
        return true;
    }
    return false;
}

void table_release(struct table *table)
{
    for (size_t i = 0; i < table->job_count; i++) {
        free(table->jobs[i]);
        free(table->groups[i]);
    }
    for (size_t i = 0; i < table->config_count; i++) {
        free((void *)(uintptr_t)table->configs[i].extra);
        free(table->config_names[i]);
        free(table->types[i]);
    }
    free(table->jobs);
    free(table->groups);
    free(table->configs);
    free(table->config_names);
    free(table->types);
    free(table->cost);
    *table = (struct table){0};
}

double table_cost(const struct table *table, size_t job, size_t config)
{
    return table->cost[job * table->config_count + config];
}

double *table_past(const struct table *table, size_t job, bool strict, size_t *past_count)
{
    size_t configs = table->config_count;
    double *past = mem_array(table->job_count * configs, sizeof *past);
    *past_count = 0;
    for (size_t j = 0; j < table->job_count; j++) {
        if (j == job || (strict && strcmp(table->groups[j], table->groups[job]) == 0)) {
            continue;
        }
        memcpy(past + *past_count * configs, table->cost + j * configs, configs * sizeof *past);
        (*past_count)++;
    }
    return past;
}
