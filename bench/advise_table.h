/* advise_table.h - public tables of jobs x configurations, as the advisor's benchmark reads them.
 *
 * Two shapes are known by their columns: nodes,vm,workload,framework,datasize,completed,elapsed_s
 * (one file of many jobs; machines and prices from a catalog) and exp_name,num_machines,time,
 * vm_name,ram,cpu_count,vm_cost,disk_name,vm_speed (one file a job, with prices).
 */
#ifndef BENCH_ADVISE_TABLE_H
#define BENCH_ADVISE_TABLE_H

#include "advise/catalog.h"
#include "advise/choose.h"
#include "base/csv.h"

struct table {
    const char *name;
    size_t job_count;
    char **jobs;
    char **groups; /* the job without the size of its data */
    size_t config_count;
    struct choose_config *configs;
    char **config_names;
    char **types;
    size_t extra_count;
    double *cost; /* job_count * config_count; NAN: not run; INFINITY: failed */
};

/* Adds the file's rows. Returns false (and adds nothing) if it has neither shape. */
bool table_add(struct table *table, const struct csv *csv, const struct catalog *catalog);
void table_release(struct table *table);

double table_cost(const struct table *table, size_t job, size_t config);

/* The costs of the other jobs, row by row; strict: without those of the same group. */
double *table_past(const struct table *table, size_t job, bool strict, size_t *past_count);

#endif
