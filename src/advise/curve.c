#include "advise/curve.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void curve_set_release(struct curve_set *set)
{
    if (!set) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        free(set->runs[i].run);
        free(set->runs[i].type);
        free(set->runs[i].points);
    }
    free(set->runs);
    free(set->slots);
    *set = (struct curve_set){0};
}

static enum err_code check_value(const char *name, double value, bool may_be_negative,
                                 struct err *err)
{
    if (!isfinite(value)) {
        return err_set(err, ERR_RANGE, "%s is not a finite number", name);
    }
    if (fabs(value) > CURVE_VALUE_MAX) {
        return err_set(err, ERR_RANGE, "%s %g is too large", name, value);
    }
    if (value < 0 && !may_be_negative) {
        return err_set(err, ERR_RANGE, "%s %g is negative", name, value);
    }
    return ERR_OK;
}

static enum err_code check_point(const struct curve_key *key, const struct curve_point *point,
                                 struct err *err)
{
    enum err_code code = check_value("step", point->step, false, err);
    if (code == ERR_OK) {
        code = check_value("metric", point->metric, true, err);
    }
    if (code == ERR_OK && !isnan(point->time_s)) {
        code = check_value("time", point->time_s, false, err);
    }
    if (code == ERR_OK && !isnan(key->batch)) {
        code = check_value("batch", key->batch, false, err);
    }
    return code;
}

static int compare_numbers(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return (isnan(a) ? 0 : 1) - (isnan(b) ? 0 : 1); /* the unknown ones first */
    }
    return (a > b) - (a < b);
}

static bool is_run(const struct curve *curve, const struct curve_key *key)
{
    return strcmp(curve->run, key->run) == 0 && strcmp(curve->type, key->type) == 0 &&
           compare_numbers(curve->batch, key->batch) == 0;
}

static uint64_t hash_key(const char *run, const char *type, double batch)
{
    double number = isnan(batch) ? -1 : batch + 0.0; /* -0 becomes 0 */
    uint64_t hash = rng_hash_bytes(0, run, strlen(run));
    hash = rng_hash_bytes(hash, type, strlen(type));
    return rng_hash_bytes(hash, &number, sizeof number);
}

/* Open addressing; a slot holds 1 + the index of a run. At most half of the slots are taken. */
static size_t find_slot(const struct curve_set *set, const struct curve_key *key)
{
    size_t slot = (size_t)hash_key(key->run, key->type, key->batch) & (set->slot_count - 1);
    while (set->slots[slot] != 0 && !is_run(&set->runs[set->slots[slot] - 1], key)) {
        slot = (slot + 1) & (set->slot_count - 1);
    }
    return slot;
}

static void grow_slots(struct curve_set *set)
{
    if (2 * (set->count + 1) <= set->slot_count) {
        return;
    }
    free(set->slots);
    while (set->slot_count < 2 * (set->count + 1)) {
        set->slot_count = set->slot_count > 0 ? 2 * set->slot_count : 16;
    }
    set->slots = mem_array(set->slot_count, sizeof *set->slots);
    for (size_t i = 0; i < set->count; i++) {
        const struct curve *curve = &set->runs[i];
        struct curve_key key = {.run = curve->run, .type = curve->type, .batch = curve->batch};
        set->slots[find_slot(set, &key)] = (uint32_t)(i + 1);
    }
}

static enum err_code find_or_add_run(struct curve_set *set, const struct curve_key *key,
                                     struct curve **out, struct err *err)
{
    grow_slots(set);
    size_t slot = find_slot(set, key);
    if (set->slots[slot] == 0) {
        if (set->count >= CURVE_RUNS_MAX) {
            return err_set(err, ERR_RANGE, "more than %d runs", CURVE_RUNS_MAX);
        }
        VEC_PUSH(set->runs, set->count, set->cap) = (struct curve){
            .run = mem_strdup(key->run), .type = mem_strdup(key->type), .batch = key->batch};
        set->slots[slot] = (uint32_t)set->count;
    }
    *out = &set->runs[set->slots[slot] - 1];
    return ERR_OK;
}

enum err_code curve_set_add(struct curve_set *set, const struct curve_key *key,
                            const struct curve_point *point, struct err *err)
{
    enum err_code code = check_point(key, point, err);
    if (code != ERR_OK) {
        return code;
    }
    if (set->point_count >= CURVE_POINTS_MAX) {
        return err_set(err, ERR_RANGE, "more than %d points", CURVE_POINTS_MAX);
    }
    struct curve *curve = NULL;
    code = find_or_add_run(set, key, &curve, err);
    if (code != ERR_OK) {
        return code;
    }
    CHECK(curve);
    VEC_PUSH(curve->points, curve->count, curve->cap) = *point;
    set->point_count++;
    return ERR_OK;
}

struct ordered_point {
    struct curve_point point;
    size_t order; /* in which it came: makes the sort stable */
};

static int compare_points(const void *left, const void *right)
{
    const struct ordered_point *a = left;
    const struct ordered_point *b = right;
    int by_step = compare_numbers(a->point.step, b->point.step);
    return by_step != 0 ? by_step : (a->order > b->order) - (a->order < b->order);
}

static void sort_points(struct curve *curve)
{
    struct ordered_point *sorted = mem_array(curve->count, sizeof *sorted);
    for (size_t i = 0; i < curve->count; i++) {
        sorted[i] = (struct ordered_point){.point = curve->points[i], .order = i};
    }
    qsort(sorted, curve->count, sizeof *sorted, compare_points);
    size_t kept = 0;
    for (size_t i = 0; i < curve->count; i++) {
        bool same = kept > 0 && curve->points[kept - 1].step == sorted[i].point.step;
        kept -= same ? 1 : 0;
        curve->points[kept++] = sorted[i].point;
    }
    curve->repeated += curve->count - kept;
    curve->count = kept;
    free(sorted);
}

static void finish_run(struct curve *curve)
{
    sort_points(curve);
    curve->has_time = curve->count > 0;
    for (size_t i = 0; i < curve->count; i++) {
        double time_s = curve->points[i].time_s;
        if (isnan(time_s) || (i > 0 && time_s < curve->points[i - 1].time_s)) {
            curve->has_time = false;
        }
    }
}

static int compare_groups(const struct curve *a, const struct curve *b)
{
    int by_type = strcmp(a->type, b->type);
    return by_type != 0 ? by_type : compare_numbers(a->batch, b->batch);
}

static int compare_runs(const void *left, const void *right)
{
    const struct curve *a = left;
    const struct curve *b = right;
    int by_group = compare_groups(a, b);
    return by_group != 0 ? by_group : strcmp(a->run, b->run);
}

void curve_set_finish(struct curve_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        finish_run(&set->runs[i]);
    }
    if (set->count > 1) {
        qsort(set->runs, set->count, sizeof *set->runs, compare_runs);
    }
    free(set->slots); /* their order is gone; a later add would make them anew */
    set->slots = NULL;
    set->slot_count = 0;
}

size_t curve_set_group_end(const struct curve_set *set, size_t first)
{
    CHECK(first < set->count);
    size_t end = first + 1;
    while (end < set->count && compare_groups(&set->runs[first], &set->runs[end]) == 0) {
        end++;
    }
    return end;
}

size_t curve_find(const struct curve *curve, double step)
{
    size_t low = 0;
    size_t high = curve->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (curve->points[middle].step < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
