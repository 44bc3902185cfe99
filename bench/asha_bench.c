/* asha_bench - asynchronous successive halving on recorded learning curves.
 *
 * Each CSV file in $DROVER_TEST_DATA/curves is one job: a configuration a row, then its validation
 * loss before training (v0) and after each epoch (v1, v2, ...). The aim is a loss within 1 % of the
 * best that any configuration has after the last epoch. Random search trains one configuration
 * after another to the end; ASHA takes them in the same order. Both are charged every epoch
 * begun until the aim is met, by one worker and by 16, over SEEDS random orders. Where ASHA ends
 * without having met it, it is charged a full random search on top.
 *
 * Two readings of "met": a fully trained configuration has such a loss (the line with a target),
 * or any epoch of any training has. Lines "bench NAME ours X UNIT, PEER Y UNIT, ratio R, target
 * T, pass|short".
 */
#include "base/csv.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "search/asha.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 50, WORKERS_MAX = 16, ETA = 3 };

static const double within = 1.01;
static const double target_ratio = 0.2;

struct curves {
    size_t count;
    size_t epochs;  /* of training: values 1 .. epochs of each */
    double *values; /* (epochs + 1) a curve; NaN where it diverged */
    double aim;
};

static double value_at(const struct curves *curves, uint32_t curve, size_t epoch)
{
    return curves->values[curve * (curves->epochs + 1) + epoch];
}

static bool read_curves(const char *folder, const char *name, struct curves *out)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct err err = {0};
    struct csv *csv = NULL;
    str_addf(&path, "%s/%s", folder, name);
    if (io_read_file(str_text(&path), CSV_BYTES_MAX, &text, &err) != ERR_OK ||
        csv_parse(name, str_text(&text), text.size, &csv, &err) != ERR_OK) {
        fprintf(stderr, "bench: %s\n", err.text);
        return false;
    }
    int first = csv_find_column(csv, "v0");
    if (first < 0) {
        csv_destroy(csv);
        return false;
    }
    size_t columns = csv_column_count(csv) - (size_t)first;
    *out = (struct curves){.count = csv_row_count(csv), .epochs = columns - 1};
    out->values = mem_array(out->count * columns, sizeof *out->values);
    double best = (double)INFINITY;
    for (size_t i = 0; i < out->count * columns; i++) {
        size_t column = (size_t)first + i % columns;
        if (csv_number(csv, i / columns, column, &out->values[i], NULL) != ERR_OK) {
            out->values[i] = (double)NAN;
        }
        if (i % columns == columns - 1) {
            best = fmin(best, out->values[i]);
        }
    }
    out->aim = best * within;
    csv_destroy(csv);
    return out->epochs > 0 && out->count > 0;
}

/* What one worker is doing. */
struct work {
    bool busy;
    uint32_t trial;
    uint32_t rung;
    size_t from; /* epochs done before */
    size_t to;
    double ends; /* in epochs since the search began */
};

struct race {
    const struct curves *curves;
    const uint32_t *order;
    bool any_epoch; /* the looser reading of "met" */
    int workers;
    double now;
    double charged; /* epochs */
    struct work slots[WORKERS_MAX];
};

static bool is_met(const struct race *race, const struct work *work)
{
    uint32_t curve = race->order[work->trial];
    size_t epochs = race->curves->epochs;
    for (size_t e = work->from + 1; e <= work->to; e++) {
        if ((e == epochs || race->any_epoch) &&
            value_at(race->curves, curve, e) <= race->curves->aim) {
            return true;
        }
    }
    return false;
}

static void begin(struct race *race, struct work *slot, struct asha_step step)
{
    *slot = (struct work){.busy = true,
                          .trial = step.trial,
                          .rung = step.rung,
                          .from = step.resource_from,
                          .to = step.resource,
                          .ends = race->now + (double)(step.resource - step.resource_from)};
    race->charged += (double)(slot->to - slot->from);
}

/* The work that ends first; the clock is put there. NULL: all are idle. */
static struct work *finish_one(struct race *race)
{
    struct work *first = NULL;
    for (int i = 0; i < race->workers; i++) {
        struct work *slot = &race->slots[i];
        if (slot->busy && (!first || slot->ends < first->ends)) {
            first = slot;
        }
    }
    if (first) {
        race->now = first->ends;
        first->busy = false;
    }
    return first;
}

static double run_random(struct race race)
{
    uint32_t next = 0;
    for (;;) {
        for (int i = 0; i < race.workers && next < race.curves->count; i++) {
            if (!race.slots[i].busy) {
                begin(&race, &race.slots[i],
                      (struct asha_step){.trial = next++, .resource = race.curves->epochs});
            }
        }
        const struct work *done = finish_one(&race);
        if (!done || is_met(&race, done)) {
            return race.charged;
        }
    }
}

static double run_asha(struct race race, uint32_t brackets, int *missed)
{
    struct asha *asha = NULL;
    struct asha_options options = {.min = 1,
                                   .max = race.curves->epochs,
                                   .eta = ETA,
                                   .brackets = brackets,
                                   .trials_max = (uint32_t)race.curves->count};
    CHECK(asha_create(&options, &asha, NULL) == ERR_OK);
    for (;;) {
        for (int i = 0; i < race.workers; i++) {
            struct asha_step step = asha_next(asha);
            if (race.slots[i].busy || (step.action != ASHA_START && step.action != ASHA_PROMOTE)) {
                continue;
            }
            CHECK(asha_begin(asha, step.trial, step.rung, NULL) == ERR_OK);
            begin(&race, &race.slots[i], step);
        }
        const struct work *done = finish_one(&race);
        if (!done) {
            ++*missed;
            race.charged += run_random((struct race){.curves = race.curves,
                                                     .order = race.order,
                                                     .any_epoch = race.any_epoch,
                                                     .workers = race.workers});
            break;
        }
        if (is_met(&race, done)) {
            break;
        }
        double value = value_at(race.curves, race.order[done->trial], done->to);
        CHECK(asha_report(asha, done->trial, done->rung, value, NULL) == ERR_OK);
    }
    asha_destroy(asha);
    return race.charged;
}

static void shuffle(uint32_t *order, size_t count, uint64_t seed)
{
    struct rng rng = {.state = seed};
    for (size_t i = 0; i < count; i++) {
        size_t k = (size_t)rng_below(&rng, i + 1);
        order[i] = order[k];
        order[k] = (uint32_t)i;
    }
}

static void bench_race(const char *name, const struct curves *curves, int workers, bool any_epoch,
                       uint32_t brackets)
{
    uint32_t *order = mem_array(curves->count, sizeof *order);
    double ours = 0;
    double random = 0;
    int missed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        shuffle(order, curves->count, seed);
        struct race race = {
            .curves = curves, .order = order, .any_epoch = any_epoch, .workers = workers};
        ours += run_asha(race, brackets, &missed) / SEEDS;
        random += run_random(race) / SEEDS;
    }
    free(order);
    double ratio = ours / random;
    const char *met = any_epoch ? "-any-epoch" : "";
    const char *ladders = brackets > 1 ? "-hyperband" : "";
    printf("bench asha-%s%s%s-workers-%d ours %.0f epochs, random %.0f epochs, ratio %.3f, "
           "target <=%g, %s\n",
           name, met, ladders, workers, ours, random, ratio, target_ratio,
           ratio <= target_ratio ? "pass" : "short");
    if (missed > 0) {
        printf("bench asha-%s%s%s-workers-%d: the aim was missed with %d of %d orders\n", name, met,
               ladders, workers, missed, SEEDS);
    }
}

static bool is_csv(const char *name)
{
    size_t size = strlen(name);
    return size > 4 && strcmp(name + size - 4, ".csv") == 0;
}

static void bench_file(const char *folder, const char *file)
{
    struct curves curves = {0};
    if (!read_curves(folder, file, &curves)) {
        printf("bench asha: %s holds no curves (columns v0, v1, ...), left out\n", file);
    } else {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "_."), file);
        bench_race(name, &curves, 1, false, 1);
        bench_race(name, &curves, 16, false, 1);
        bench_race(name, &curves, 16, true, 1);
        bench_race(name, &curves, 16, false, 3);
    }
    free(curves.values);
}

int main(void)
{
    const char *data = getenv("DROVER_TEST_DATA");
    struct dirent **names = NULL;
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/curves", data ? data : "");
    int count = data ? scandir(str_text(&folder), &names, NULL, alphasort) : -1;
    if (count < 0) {
        puts("bench asha: no curves in $DROVER_TEST_DATA/curves, left out");
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (is_csv(names[i]->d_name)) {
            bench_file(str_text(&folder), names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
    return 0;
}
