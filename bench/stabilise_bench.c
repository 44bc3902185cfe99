/* stabilise_bench [CURVES.csv...] - how well stabilisation points are found.
 *
 * Lines: NAME VALUE UNIT PEER PEER_VALUE. On synthetic families with a known answer: the median
 * error of the whole-curve detector in per cent of the steps. Online, there and on real curves
 * (CSV, columns v0, v1, ... hold a loss): the share of curves on which it fired with more than 3 %
 * of the gain still to come, and the share of curves with a plateau on which it fired. The peer is
 * patience, as early stopping is usually done: stop after 10 points without a new best.
 *
 * A real curve's gain is its first value less its best. What is to come after a stop is the best of
 * all less the best so far. It has a plateau if that falls to 3 % within the first 60 % of the
 * record, and if its gain is four times its noise: without that it has not learnt anything.
 */
#include "advise/series.h"
#include "advise/stabilise.h"
#include "advise/stabilise_families.h"
#include "base/csv.h"
#include "base/io.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVES = 200, NOISES = 4, PATIENCE = 10 };

static const double to_come_max = 0.03;

struct tally {
    size_t curves;
    size_t early;
    size_t warned; /* of those, after the first drop of a staircase */
    size_t plateaus;
    size_t fired; /* on those with a plateau */
};

/* The number of points after which no new best had come for PATIENCE points; 0: never. */
static size_t patience(const struct curve_point *points, size_t count, double sign)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        if (sign * points[i].metric > sign * points[best].metric) {
            best = i;
        } else if (i - best >= PATIENCE) {
            return i + 1;
        }
    }
    return 0;
}

static void print_tally(const char *name, const struct tally *ours, const struct tally *peer)
{
    double n = (double)ours->curves;
    double plateaus = (double)ours->plateaus;
    printf("%s-early %.1f %% patience-10 %.1f\n", name, 100 * (double)ours->early / n,
           100 * (double)peer->early / n);
    printf("%s-fired %.1f %% patience-10 %.1f\n", name, 100 * (double)ours->fired / plateaus,
           100 * (double)peer->fired / plateaus);
}

static void count_synthetic(struct tally *tally, const struct family_curve *curve, size_t stop)
{
    bool has_plateau = curve->truth < 0.6 * curve->length;
    tally->curves++;
    tally->plateaus += has_plateau;
    tally->fired += has_plateau && stop > 0;
    bool early = stop > 0 && family_left(curve, stop - 1) > to_come_max;
    tally->early += early;
    tally->warned += early && curve->points[stop - 1].step > curve->drop;
}

/* Staircases are counted apart: nobody can foresee the first drop of a learning rate. */
static void bench_synthetic(void)
{
    static const double noises[NOISES] = {0, 0.01, 0.02, 0.05};
    struct stabilise_options options = {.goal = STABILISE_MAXIMIZE};
    struct rng rng = {.state = 20};
    struct tally ours = {0};
    struct tally peer = {0};
    struct tally stairs = {0};
    struct tally peer_stairs = {0};
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        double errors[CURVES];
        for (size_t i = 0; i < CURVES; i++) {
            struct family_curve curve;
            family_draw(family, noises[i % NOISES], to_come_max, &rng, &curve);
            struct stabilise_result result;
            stabilise_whole(curve.points, curve.count, &options, &result);
            errors[i] = 100 * fabs(result.step - curve.truth) / curve.length;
            bool is_stairs = family == FAMILY_STAIRCASE;
            count_synthetic(is_stairs ? &stairs : &ours, &curve,
                            stabilise_replay(curve.points, curve.count, &options));
            count_synthetic(is_stairs ? &peer_stairs : &peer, &curve,
                            patience(curve.points, curve.count, 1));
            family_release(&curve);
        }
        printf("whole-%s %.2f %% limit 5\n", family_name(family), series_median(errors, CURVES));
    }
    print_tally("online-synthetic", &ours, &peer);
    print_tally("online-staircase", &stairs, &peer_stairs);
    printf("online-staircase-early-after-first-drop %.1f %% patience-10 %.1f\n",
           100 * (double)stairs.warned / (double)stairs.curves,
           100 * (double)peer_stairs.warned / (double)peer_stairs.curves);
}

struct real {
    const struct curve_point *points;
    size_t count;
    double best;
    double gain;
    bool has_plateau;
};

/* What is to come after so many points, as a share of the gain; 0 where there is none. */
static double left_after(const struct real *real, size_t count)
{
    double seen = real->points[0].metric;
    for (size_t i = 1; i < count; i++) {
        seen = fmin(seen, real->points[i].metric);
    }
    return real->gain > 0 ? (seen - real->best) / real->gain : 0;
}

static void describe(struct real *real)
{
    double *x = mem_array(real->count, sizeof *x);
    double *y = mem_array(real->count, sizeof *y);
    real->best = INFINITY;
    for (size_t i = 0; i < real->count; i++) {
        x[i] = real->points[i].step;
        y[i] = real->points[i].metric;
        real->best = fmin(real->best, y[i]);
    }
    real->gain = y[0] - real->best;
    real->has_plateau = real->gain > 4 * series_noise(x, y, real->count) &&
                        left_after(real, real->count * 6 / 10) <= to_come_max;
    free(x);
    free(y);
}

static void count_real(struct tally *tally, const struct real *real, size_t stop)
{
    tally->curves++;
    tally->plateaus += real->has_plateau;
    tally->fired += real->has_plateau && stop > 0;
    tally->early += stop > 0 && left_after(real, stop) > to_come_max;
}

/* A row as a curve; false if it diverged into what is not a number. */
static bool read_row(const struct csv *csv, size_t row, struct curve_point *points, size_t *count)
{
    *count = 0;
    for (size_t c = 0; c < csv_column_count(csv); c++) {
        const char *name = csv_column_name(csv, c);
        size_t digits = strspn(name + 1, "0123456789");
        if (name[0] != 'v' || digits == 0 || name[1 + digits] != '\0') {
            continue;
        }
        double value = 0;
        if (csv_number(csv, row, c, &value, NULL) != ERR_OK || fabs(value) > CURVE_VALUE_MAX) {
            return false;
        }
        points[*count] = (struct curve_point){.step = (double)*count, .metric = value};
        (*count)++;
    }
    return *count > 0;
}

static int bench_real(const char *path)
{
    AUTO_STR struct str text = {0};
    struct csv *csv = NULL;
    struct err err;
    if (io_read_file(path, CSV_BYTES_MAX, &text, &err) != ERR_OK ||
        csv_parse(path, str_text(&text), text.size, &csv, &err) != ERR_OK) {
        fprintf(stderr, "stabilise_bench: %s\n", err.text);
        return 1;
    }
    struct stabilise_options options = {.goal = STABILISE_MINIMIZE};
    struct curve_point *points = mem_array(csv_column_count(csv), sizeof *points);
    struct tally ours = {0};
    struct tally peer = {0};
    for (size_t row = 0; row < csv_row_count(csv); row++) {
        struct real real = {.points = points};
        if (read_row(csv, row, points, &real.count)) {
            describe(&real);
            count_real(&ours, &real, stabilise_replay(points, real.count, &options));
            count_real(&peer, &real, patience(points, real.count, -1));
        }
    }
    print_tally("online-real", &ours, &peer);
    free(points);
    csv_destroy(csv);
    return 0;
}

int main(int argc, char **argv)
{
    bench_synthetic();
    int code = 0;
    for (int i = 1; i < argc; i++) {
        code |= bench_real(argv[i]);
    }
    return code;
}
