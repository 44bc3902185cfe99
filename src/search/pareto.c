#include "search/pareto.h"

#include "base/check.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys are values with the sign that makes lower better. */
struct item {
    uint64_t trial;
    double keys[PARETO_GOALS_MAX];
};

struct pareto {
    size_t goal_count;
    size_t front_max;
    double signs[PARETO_GOALS_MAX];
    bool any;                      /* finite results so far */
    double best[PARETO_GOALS_MAX]; /* keys, of all of them */
    double worst[PARETO_GOALS_MAX];
    struct item *items; /* the front, in the order of compare() */
    size_t count;
    size_t cap;
};

struct pareto *pareto_create(const bool *maximize, size_t goal_count, size_t front_max)
{
    CHECK(goal_count >= 1 && goal_count <= PARETO_GOALS_MAX);
    struct pareto *pareto = mem_alloc(sizeof *pareto);
    pareto->goal_count = goal_count;
    pareto->front_max = front_max > 0 ? front_max : PARETO_FRONT_MAX;
    for (size_t g = 0; g < goal_count; g++) {
        pareto->signs[g] = maximize[g] ? -1 : 1;
    }
    return pareto;
}

void pareto_destroy(struct pareto *pareto)
{
    if (pareto) {
        free(pareto->items);
        free(pareto);
    }
}

size_t pareto_count(const struct pareto *pareto)
{
    return pareto->count;
}

struct pareto_point pareto_at(const struct pareto *pareto, size_t index)
{
    CHECK(index < pareto->count);
    const struct item *item = &pareto->items[index];
    struct pareto_point point = {.trial = item->trial};
    for (size_t g = 0; g < pareto->goal_count; g++) {
        point.values[g] = pareto->signs[g] * item->keys[g];
    }
    return point;
}

static bool read_keys(const struct pareto *pareto, const double *values, struct item *item)
{
    for (size_t g = 0; g < pareto->goal_count; g++) {
        if (!isfinite(values[g])) {
            return false;
        }
        item->keys[g] = pareto->signs[g] * values[g];
    }
    return true;
}

static void widen_range(struct pareto *pareto, const struct item *item)
{
    for (size_t g = 0; g < pareto->goal_count; g++) {
        double key = item->keys[g];
        pareto->best[g] = pareto->any ? fmin(pareto->best[g], key) : key;
        pareto->worst[g] = pareto->any ? fmax(pareto->worst[g], key) : key;
    }
    pareto->any = true;
}

struct relation {
    bool a_better; /* in some goal */
    bool b_better;
};

static struct relation relate(const struct pareto *pareto, const struct item *a,
                              const struct item *b)
{
    struct relation relation = {0};
    for (size_t g = 0; g < pareto->goal_count; g++) {
        relation.a_better = relation.a_better || a->keys[g] < b->keys[g];
        relation.b_better = relation.b_better || b->keys[g] < a->keys[g];
    }
    return relation;
}

static bool comes_before(const struct pareto *pareto, const struct item *a, const struct item *b)
{
    for (size_t g = 0; g < pareto->goal_count; g++) {
        if (a->keys[g] != b->keys[g]) {
            return a->keys[g] < b->keys[g];
        }
    }
    return a->trial < b->trial;
}

static void drop_dominated(struct pareto *pareto, const struct item *item)
{
    size_t kept = 0;
    for (size_t i = 0; i < pareto->count; i++) {
        struct relation relation = relate(pareto, item, &pareto->items[i]);
        if (!(relation.a_better && !relation.b_better)) {
            pareto->items[kept++] = pareto->items[i];
        }
    }
    pareto->count = kept;
}

static void insert(struct pareto *pareto, const struct item *item)
{
    VEC_PUSH(pareto->items, pareto->count, pareto->cap) = *item;
    size_t at = pareto->count - 1;
    for (; at > 0 && comes_before(pareto, item, &pareto->items[at - 1]); at--) {
        pareto->items[at] = pareto->items[at - 1];
    }
    pareto->items[at] = *item;
}

enum pareto_change pareto_add(struct pareto *pareto, uint64_t trial, const double *values)
{
    struct item item = {.trial = trial};
    if (!read_keys(pareto, values, &item)) {
        return PARETO_FAILED;
    }
    widen_range(pareto, &item);
    enum pareto_change change = PARETO_MOVED;
    for (size_t i = 0; i < pareto->count; i++) {
        struct relation relation = relate(pareto, &pareto->items[i], &item);
        if (relation.b_better) {
            continue;
        }
        if (relation.a_better) {
            return PARETO_DOMINATED;
        }
        change = PARETO_EQUAL; /* and so it dominates nothing on the front */
        break;
    }
    if (change == PARETO_MOVED) {
        drop_dominated(pareto, &item);
    }
    if (pareto->count >= pareto->front_max) {
        return PARETO_FULL;
    }
    insert(pareto, &item);
    return change;
}

bool pareto_reference(const struct pareto *pareto, double *out)
{
    for (size_t g = 0; g < pareto->goal_count && pareto->any; g++) {
        double range = pareto->worst[g] - pareto->best[g];
        double margin = range > 0 ? 0.1 * range : fmax(0.1 * fabs(pareto->worst[g]), 1e-12);
        out[g] = pareto->signs[g] * (pareto->worst[g] + margin);
    }
    return pareto->any;
}

/* A staircase: keys 0 ascending, keys 1 descending; what lies between it and the reference. */
static double stair_area(const struct item *stairs, size_t count, const double *reference)
{
    double area = 0;
    for (size_t i = 0; i < count; i++) {
        double right = i + 1 < count ? stairs[i + 1].keys[0] : reference[0];
        area += (right - stairs[i].keys[0]) * (reference[1] - stairs[i].keys[1]);
    }
    return area;
}

/* Puts a point into the staircase unless it lies above it; drops the steps it makes needless. */
static size_t stair_add(struct item *stairs, size_t count, const struct item *item)
{
    size_t at = 0;
    while (at < count && stairs[at].keys[0] <= item->keys[0]) {
        at++;
    }
    if (at > 0 && stairs[at - 1].keys[1] <= item->keys[1]) {
        return count;
    }
    size_t to = at;
    while (to < count && stairs[to].keys[1] >= item->keys[1]) {
        to++;
    }
    memmove(stairs + at + 1, stairs + to, (count - to) * sizeof *stairs);
    stairs[at] = *item;
    return count - (to - at) + 1;
}

static int by_third(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;
    if (a->keys[2] != b->keys[2]) {
        return a->keys[2] < b->keys[2] ? -1 : 1;
    }
    return (a->trial > b->trial) - (a->trial < b->trial);
}

/* Slice by slice along the third goal: the area is that of the staircase of all points below. */
static double volume_of(struct item *items, size_t count, const double *reference)
{
    struct item *stairs = mem_array(count + 1, sizeof *stairs);
    size_t stair_count = 0;
    double volume = 0;
    qsort(items, count, sizeof *items, by_third);
    for (size_t i = 0; i < count; i++) {
        stair_count = stair_add(stairs, stair_count, &items[i]);
        double next = i + 1 < count ? items[i + 1].keys[2] : reference[2];
        if (next > items[i].keys[2]) {
            volume += stair_area(stairs, stair_count, reference) * (next - items[i].keys[2]);
        }
    }
    free(stairs);
    return volume;
}

static double area_of(const struct item *items, size_t count, const double *reference)
{
    struct item *stairs = mem_array(count + 1, sizeof *stairs);
    size_t stair_count = 0;
    for (size_t i = 0; i < count; i++) {
        stair_count = stair_add(stairs, stair_count, &items[i]);
    }
    double area = stair_area(stairs, stair_count, reference);
    free(stairs);
    return area;
}

double pareto_hypervolume(const struct pareto *pareto, const double *reference)
{
    if (pareto->goal_count > 3) {
        return (double)NAN;
    }
    double keys[3] = {0};
    for (size_t g = 0; g < pareto->goal_count; g++) {
        CHECK(isfinite(reference[g]));
        keys[g] = pareto->signs[g] * reference[g];
    }
    struct item *inside = mem_array(pareto->count + 1, sizeof *inside);
    size_t count = 0;
    for (size_t i = 0; i < pareto->count; i++) {
        bool better = true;
        for (size_t g = 0; g < pareto->goal_count; g++) {
            better = better && pareto->items[i].keys[g] < keys[g];
        }
        if (better) {
            inside[count++] = pareto->items[i];
        }
    }
    double result = 0;
    if (pareto->goal_count == 1) {
        result = count > 0 ? keys[0] - inside[0].keys[0] : 0;
    } else {
        result =
            pareto->goal_count == 2 ? area_of(inside, count, keys) : volume_of(inside, count, keys);
    }
    free(inside);
    return result;
}
