/* advise_bench [CATALOG] - the advisor on public measurements.
 *
 * Reads $DROVER_TEST_DATA/configurations; without it, says so and leaves those out. Prints tables
 * and lines "bench NAME ours X UNIT, PEER Y UNIT, ratio R, target T, pass|short".
 */
#include "advise/rank.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "bench/advise_forms.h"
#include "bench/advise_regret.h"
#include "bench/advise_speed.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static bool read_csv(const char *folder, const char *name, struct csv **csv)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct err err = {0};
    str_addf(&path, "%s/%s", folder, name);
    if (io_read_file(str_text(&path), CSV_BYTES_MAX, &text, &err) != ERR_OK ||
        csv_parse(name, str_text(&text), text.size, csv, &err) != ERR_OK) {
        fprintf(stderr, "bench: %s\n", err.text);
        return false;
    }
    return true;
}

static bool is_csv(const char *name)
{
    size_t size = strlen(name);
    return size > 4 && strcmp(name + size - 4, ".csv") == 0;
}

/* Files of one job each are one table; a file of many jobs is a table of its own. */
static int bench_regret(const char *folder, const struct catalog *catalog)
{
    struct dirent **names = NULL;
    struct table together = {.name = "single-job-files"};
    struct speed_errors speed = {0};
    int missed = 0;
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        struct csv *csv = NULL;
        struct table alone = {.name = names[i]->d_name};
        if (is_csv(names[i]->d_name) && read_csv(folder, names[i]->d_name, &csv)) {
            bool many = csv_find_column(csv, "workload") >= 0;
            if (speed_add(&speed, csv)) {
                csv_destroy(csv);
                continue;
            }
            if (table_add(many ? &alone : &together, csv, catalog) && many) {
                missed += regret_run(&alone);
            }
        }
        csv_destroy(csv);
        table_release(&alone);
    }
    if (together.job_count > 1) {
        missed += regret_run(&together);
    }
    table_release(&together);
    missed += speed_report(&speed);
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
    return missed;
}

enum { TYPES = 5000, SERVERS = 4, SIZES = 64, OFFERS = TYPES * SERVERS };

/* 5,000 worker rows, four server types, up to 64 workers: 1.28 million candidates. */
static void bench_ranking(void)
{
    static struct catalog_row workers[TYPES];
    static struct catalog_row servers[SERVERS];
    static struct rank_offer offers[OFFERS];
    static const struct profile_run runs[] = {{.type = "w",
                                               .workers = 1,
                                               .servers = 1,
                                               .batch = 64,
                                               .bandwidth_mbps = 100,
                                               .steps_per_s = 3,
                                               .mode = PROFILE_ASYNC},
                                              {.type = "w",
                                               .workers = 4,
                                               .servers = 1,
                                               .batch = 64,
                                               .bandwidth_mbps = 90,
                                               .steps_per_s = 10,
                                               .mode = PROFILE_ASYNC}};
    struct profile_run copies[2] = {runs[0], runs[1]};
    struct profile profile = {.runs = copies, .count = 2};
    struct model model;
    CHECK(model_fit(&profile, "w", PROFILE_ASYNC, 1000, &model, NULL) == ERR_OK);
    for (size_t i = 0; i < OFFERS; i++) {
        size_t type = i / SERVERS;
        size_t server = i % SERVERS;
        workers[type] = (struct catalog_row){
            .type = "w", .currency = "USD", .billing = {.granule_s = 1, .minimum_s = 60}};
        workers[type].price_hour_micro = 10000 + (int64_t)(type * 7919 % 20000) * 1000;
        servers[server] = (struct catalog_row){.type = "s", .billing = {.granule_s = 1}};
        servers[server].network_mbps = 500 * (double)(1 + 3 * server);
        servers[server].price_hour_micro = 100000 * (int64_t)(1 + server);
        offers[i] = (struct rank_offer){.worker = &workers[type],
                                        .server = &servers[server],
                                        .servers = 1,
                                        .model = &model,
                                        .scale = .1 + (double)(type * 104729 % 1000) / 100};
    }
    struct rank_request request = {.offers = offers,
                                   .offer_count = OFFERS,
                                   .workers_min = 1,
                                   .workers_max = SIZES,
                                   .examples = 1e8,
                                   .deadline_s = 86400};
    int64_t best_us = INT64_MAX;
    for (int round = 0; round < 5; round++) {
        struct rank_answer answer;
        int64_t begun_us = clock_mono_us();
        CHECK(rank(&request, &answer, NULL) == ERR_OK);
        int64_t took_us = clock_mono_us() - begun_us;
        best_us = took_us < best_us ? took_us : best_us;
        rank_release(&answer);
    }
    double ms = (double)best_us / 1000;
    printf("bench advise-ranking ours %.1f ms, limit 100 ms, ratio %.3f, target <=1, %s\n", ms,
           ms / 100, ms <= 100 ? "pass" : "short");
}

int main(int argc, char **argv)
{
    const char *data = getenv("DROVER_TEST_DATA");
    struct catalog catalog = {0};
    AUTO_STR struct str text = {0};
    AUTO_STR struct str folder = {0};
    struct err err = {0};
    const char *file = argc > 1 ? argv[1] : "data/catalog/current.csv";
    if (io_read_file(file, CSV_BYTES_MAX, &text, &err) != ERR_OK ||
        catalog_add_csv(&catalog, file, str_text(&text), text.size, &err) != ERR_OK) {
        fprintf(stderr, "bench: %s\n", err.text);
        return 2;
    }
    bench_ranking();
    forms_report();
    regret_families();
    if (data) {
        str_addf(&folder, "%s/configurations", data);
        (void)bench_regret(str_text(&folder), &catalog);
    } else {
        puts("bench advise: DROVER_TEST_DATA is not set, the measurements are left out");
    }
    catalog_release(&catalog);
    return 0;
}
