/* advise.h - what the parts of `drover advise` share: the request, and one function a part. */
#ifndef CLI_ADVISE_H
#define CLI_ADVISE_H

#include "advise/catalog.h"
#include "advise/profile.h"
#include "advise/rank.h"
#include "advise/require.h"
#include "advise/spot.h"
#include "cli/catalog_files.h"
#include "cli/cli.h"

enum advise_algorithm {
    ADVISE_COST,
    ADVISE_TIME,
    ADVISE_SCALA,
    ADVISE_SCALA_M,
    ADVISE_PARETO,
    ADVISE_BEST,
};

struct advise {
    enum advise_algorithm algorithm;
    bool algorithm_given;
    struct catalog_files catalogs;
    struct catalog catalog;
    struct profile profile;
    struct require require;
    const char *worker_types; /* names with * for anything, with commas between; NULL: all */
    const char *ps_types;
    double ps_mbps;            /* 0: as the catalog says */
    int64_t budget_hour_micro; /* -1: none */
    int64_t budget_total_micro;
    uint64_t max_workers; /* 0: none */
    uint64_t servers;     /* 0: as many as serve best */
    double deadline_s;
    double p;
    double batch;
    double examples; /* 0: not said */
    enum profile_mode mode;
    enum rank_goal goal;
    bool spot;
    double loss_rate_hour;
    bool loss_rate_given;
    struct spot_record trace; /* of the files of --spot-trace */
    size_t trace_count;
    double save_s;
    double restart_s;
    double setup_s;
    double profile_s;
    const char *runs_file;
    const char *job;
    const char *engines_file;
    uint64_t seed;
    uint64_t limit;
    bool as_json;
};

/* Rows of the catalog that match the list of names (NULL: all) and the requirements; in *out, which
 * is the caller's to free. workers: machines for work; else servers, which need no GPU and are not
 * asked for the requirements. */
size_t advise_rows(const struct advise *advise, const char *types, bool workers,
                   const struct catalog_row ***out);

/* EXIT_USAGE with a message unless all rows have one currency. */
int advise_check_currency(const struct catalog_row *const *rows, size_t count);

const char *advise_algorithm_name(enum advise_algorithm algorithm);

int advise_rules(struct advise *advise);   /* cost, time, scala, scala-m */
int advise_ranking(struct advise *advise); /* pareto, best */
int advise_runs(struct advise *advise);    /* best, from a table of runs */
int advise_engines(const struct advise *advise);

/* Adds a file of --spot-trace to what is known of losses. */
int advise_read_trace(struct advise *advise, const char *file);

/* Takes the loss rate from all of them, and says so. */
int advise_use_traces(struct advise *advise);

#endif
