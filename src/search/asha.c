#include "search/asha.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* A trial that reported in a rung. */
struct entry {
    double key; /* lower is better; infinity for a failure */
    uint32_t trial;
    bool promoted;
    bool in_top; /* among the best count / eta */
};

/* Entries, by index, as a binary heap. */
struct heap {
    uint32_t *items;
    size_t count;
    size_t cap;
    bool worst_first;
};

/* The best count / eta entries are in `top`, all others in `rest`, so that a new value moves at
 * most one across. The best one not promoted may go on if it is in the top. */
struct rung {
    struct entry *entries;
    size_t count;
    size_t cap;
    struct heap top;   /* worst first */
    struct heap rest;  /* best first */
    struct heap ready; /* best first: neither promoted nor failed */
};

enum trial_state { TRIAL_RUNNING, TRIAL_REPORTED, TRIAL_FAILED };

struct trial {
    uint32_t entry; /* of its latest report, in its rung */
    uint8_t bracket;
    uint8_t rung;
    uint8_t state; /* enum trial_state */
};

struct asha {
    struct asha_options options;
    uint64_t resources[ASHA_RUNGS_MAX];
    uint32_t rung_count;
    uint32_t bracket_counts[ASHA_RUNGS_MAX]; /* trials begun */
    double bracket_shares[ASHA_RUNGS_MAX];
    bool closed;
    struct asha_counts counts;
    struct trial *trials; /* counts.begun of them */
    size_t trial_cap;
    struct rung *rungs; /* brackets * rung_count; rung r of bracket b at b * rung_count + r */
};

static bool is_better(const struct rung *rung, uint32_t a, uint32_t b)
{
    const struct entry *left = &rung->entries[a];
    const struct entry *right = &rung->entries[b];
    if (left->key != right->key) {
        return left->key < right->key;
    }
    return left->trial < right->trial;
}

static bool comes_first(const struct rung *rung, const struct heap *heap, size_t i, size_t k)
{
    return heap->worst_first ? is_better(rung, heap->items[k], heap->items[i])
                             : is_better(rung, heap->items[i], heap->items[k]);
}

static void swap_items(struct heap *heap, size_t i, size_t k)
{
    uint32_t item = heap->items[i];
    heap->items[i] = heap->items[k];
    heap->items[k] = item;
}

static void heap_push(const struct rung *rung, struct heap *heap, uint32_t item)
{
    size_t at = heap->count;
    VEC_PUSH(heap->items, heap->count, heap->cap) = item;
    while (at > 0 && comes_first(rung, heap, at, (at - 1) / 2)) {
        swap_items(heap, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static uint32_t heap_pop(const struct rung *rung, struct heap *heap)
{
    CHECK(heap->count > 0);
    uint32_t first = heap->items[0];
    heap->items[0] = heap->items[--heap->count];
    for (size_t at = 0;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count) {
            return first;
        }
        if (child + 1 < heap->count && comes_first(rung, heap, child + 1, child)) {
            child++;
        }
        if (!comes_first(rung, heap, child, at)) {
            return first;
        }
        swap_items(heap, child, at);
        at = child;
    }
}

static void top_add(struct rung *rung, uint32_t item)
{
    rung->entries[item].in_top = true;
    heap_push(rung, &rung->top, item);
}

static uint32_t rung_add(struct rung *rung, uint32_t eta, uint32_t trial, double key)
{
    uint32_t item = (uint32_t)rung->count;
    VEC_PUSH(rung->entries, rung->count, rung->cap) = (struct entry){.key = key, .trial = trial};
    if (rung->top.count > 0 && is_better(rung, item, rung->top.items[0])) {
        uint32_t out = heap_pop(rung, &rung->top);
        rung->entries[out].in_top = false;
        heap_push(rung, &rung->rest, out);
        top_add(rung, item);
    } else {
        heap_push(rung, &rung->rest, item);
    }
    if (rung->count / eta > rung->top.count) {
        top_add(rung, heap_pop(rung, &rung->rest));
    }
    CHECK(rung->top.count == rung->count / eta);
    if (key < (double)INFINITY) {
        heap_push(rung, &rung->ready, item);
    }
    return item;
}

static enum err_code check_options(const struct asha_options *options, struct err *err)
{
    if (options->min < 1 || options->max < options->min || options->max > ASHA_RESOURCE_MAX) {
        return err_set(err, ERR_INVALID, "asha: must be 1 <= min <= max <= %" PRIu64,
                       ASHA_RESOURCE_MAX);
    }
    if (options->eta < 2 || options->eta > ASHA_ETA_MAX) {
        return err_set(err, ERR_INVALID, "asha: eta must be between 2 and %d", ASHA_ETA_MAX);
    }
    if (options->trials_max < 1 || options->trials_max > ASHA_TRIALS_MAX) {
        return err_set(err, ERR_INVALID, "asha: trials must be between 1 and %d", ASHA_TRIALS_MAX);
    }
    return ERR_OK;
}

static void lay_rungs(struct asha *asha)
{
    const struct asha_options *options = &asha->options;
    uint64_t resource = options->min;
    while (resource < options->max) {
        asha->resources[asha->rung_count++] = resource;
        if (resource > options->max / options->eta) {
            break;
        }
        resource *= options->eta;
    }
    uint32_t count = asha->rung_count;
    if (count > 1 &&
        (double)options->max / (double)asha->resources[count - 1] < sqrt((double)options->eta)) {
        asha->rung_count--;
    }
    CHECK(asha->rung_count < ASHA_RUNGS_MAX);
    asha->resources[asha->rung_count++] = options->max;
}

/* Hyperband's numbers of trials: bracket b has `halvings` rungs above its first. */
static void share_brackets(struct asha *asha)
{
    double rungs = asha->rung_count;
    for (uint32_t b = 0; b < asha->options.brackets; b++) {
        uint32_t halvings = asha->rung_count - 1 - b;
        double share = rungs / (halvings + 1.0);
        for (uint32_t i = 0; i < halvings; i++) {
            share *= asha->options.eta;
        }
        asha->bracket_shares[b] = share;
    }
}

enum err_code asha_create(const struct asha_options *options, struct asha **out, struct err *err)
{
    enum err_code code = check_options(options, err);
    if (code != ERR_OK) {
        return code;
    }
    struct asha *asha = mem_alloc(sizeof *asha);
    asha->options = *options;
    asha->options.brackets = options->brackets > 0 ? options->brackets : 1;
    lay_rungs(asha);
    if (asha->options.brackets > asha->rung_count) {
        code = err_set(err, ERR_INVALID,
                       "asha: %" PRIu32 " brackets are more than the %" PRIu32
                       " rungs from min to max",
                       asha->options.brackets, asha->rung_count);
        free(asha);
        return code;
    }
    share_brackets(asha);
    size_t rungs = (size_t)asha->options.brackets * asha->rung_count;
    asha->rungs = mem_array(rungs, sizeof *asha->rungs);
    for (size_t i = 0; i < rungs; i++) {
        asha->rungs[i].top.worst_first = true;
    }
    *out = asha;
    return ERR_OK;
}

void asha_destroy(struct asha *asha)
{
    if (!asha) {
        return;
    }
    for (size_t i = 0; i < (size_t)asha->options.brackets * asha->rung_count; i++) {
        free(asha->rungs[i].entries);
        free(asha->rungs[i].top.items);
        free(asha->rungs[i].rest.items);
        free(asha->rungs[i].ready.items);
    }
    free(asha->rungs);
    free(asha->trials);
    free(asha);
}

uint32_t asha_rung_count(const struct asha *asha)
{
    return asha->rung_count;
}

uint64_t asha_rung_resource(const struct asha *asha, uint32_t rung)
{
    CHECK(rung < asha->rung_count);
    return asha->resources[rung];
}

struct asha_counts asha_counts(const struct asha *asha)
{
    return asha->counts;
}

size_t asha_bytes(const struct asha *asha)
{
    size_t rungs = (size_t)asha->options.brackets * asha->rung_count;
    size_t bytes =
        sizeof *asha + asha->trial_cap * sizeof *asha->trials + rungs * sizeof *asha->rungs;
    for (size_t i = 0; i < rungs; i++) {
        const struct rung *rung = &asha->rungs[i];
        bytes += rung->cap * sizeof *rung->entries;
        bytes += (rung->top.cap + rung->rest.cap + rung->ready.cap) * sizeof *rung->top.items;
    }
    return bytes;
}

static struct rung *rung_of(const struct asha *asha, uint32_t bracket, uint32_t rung)
{
    return &asha->rungs[(size_t)bracket * asha->rung_count + rung];
}

/* The best that has not gone on from a rung below the last, of the highest rung that has one; with
 * `any`, whether it is in the top or not. NULL: none. */
static const struct entry *find_promotion(const struct asha *asha, bool any, uint32_t *from)
{
    for (uint32_t r = asha->rung_count - 1; r-- > 0;) {
        for (uint32_t b = 0; b < asha->options.brackets && b <= r; b++) {
            const struct rung *rung = rung_of(asha, b, r);
            if (rung->ready.count == 0) {
                continue;
            }
            const struct entry *best = &rung->entries[rung->ready.items[0]];
            if (any || best->in_top) {
                *from = r;
                return best;
            }
        }
    }
    return NULL;
}

static uint32_t pick_bracket(const struct asha *asha)
{
    uint32_t pick = 0;
    double least = (double)INFINITY;
    for (uint32_t b = 0; b < asha->options.brackets; b++) {
        double filled = (asha->bracket_counts[b] + 1.0) / asha->bracket_shares[b];
        if (filled < least) {
            least = filled;
            pick = b;
        }
    }
    return pick;
}

static struct asha_step promote(const struct asha *asha, const struct entry *entry, uint32_t from)
{
    return (struct asha_step){.action = ASHA_PROMOTE,
                              .trial = entry->trial,
                              .rung = from + 1,
                              .resource_from = asha->resources[from],
                              .resource = asha->resources[from + 1]};
}

struct asha_step asha_next(const struct asha *asha)
{
    uint32_t from = 0;
    const struct entry *entry = find_promotion(asha, false, &from);
    if (entry) {
        return promote(asha, entry, from);
    }
    if (!asha->closed && asha->counts.begun < asha->options.trials_max) {
        uint32_t rung = pick_bracket(asha);
        return (struct asha_step){.action = ASHA_START,
                                  .trial = asha->counts.begun,
                                  .rung = rung,
                                  .resource = asha->resources[rung]};
    }
    if (asha->counts.running > 0) {
        return (struct asha_step){.action = ASHA_WAIT};
    }
    entry = asha->counts.finished == 0 ? find_promotion(asha, true, &from) : NULL;
    return entry ? promote(asha, entry, from) : (struct asha_step){.action = ASHA_DONE};
}

static enum err_code begin_trial(struct asha *asha, uint32_t trial, uint32_t rung, struct err *err)
{
    if (trial > asha->counts.begun) {
        return err_set(err, ERR_RANGE, "trial %" PRIu32 ": the next new one is %" PRIu32, trial,
                       asha->counts.begun);
    }
    if (rung >= asha->options.brackets) {
        return err_set(err, ERR_RANGE, "trial %" PRIu32 ": cannot begin in rung %" PRIu32, trial,
                       rung);
    }
    if (asha->counts.begun == asha->options.trials_max) {
        return err_set(err, ERR_QUOTA, "trial %" PRIu32 ": only %" PRIu32 " were asked for", trial,
                       asha->options.trials_max);
    }
    size_t count = asha->counts.begun++;
    VEC_PUSH(asha->trials, count, asha->trial_cap) =
        (struct trial){.bracket = (uint8_t)rung, .rung = (uint8_t)rung, .state = TRIAL_RUNNING};
    asha->bracket_counts[rung]++;
    asha->counts.resource += asha->resources[rung];
    return ERR_OK;
}

static enum err_code begin_promoted(struct asha *asha, uint32_t number, uint32_t to,
                                    struct err *err)
{
    struct trial *trial = &asha->trials[number];
    if (trial->state != TRIAL_REPORTED || trial->rung + 1u != to) {
        return err_set(err, ERR_STALE, "trial %" PRIu32 ": cannot go on to rung %" PRIu32, number,
                       to);
    }
    struct rung *rung = rung_of(asha, trial->bracket, trial->rung);
    rung->entries[trial->entry].promoted = true;
    while (rung->ready.count > 0 && rung->entries[rung->ready.items[0]].promoted) {
        (void)heap_pop(rung, &rung->ready);
    }
    asha->counts.resource += asha->resources[to] - asha->resources[trial->rung];
    trial->rung = (uint8_t)to;
    trial->state = TRIAL_RUNNING;
    return ERR_OK;
}

enum err_code asha_begin(struct asha *asha, uint32_t trial, uint32_t rung, struct err *err)
{
    if (rung >= asha->rung_count) {
        return err_set(err, ERR_RANGE, "trial %" PRIu32 ": no rung %" PRIu32, trial, rung);
    }
    enum err_code code = trial < asha->counts.begun ? begin_promoted(asha, trial, rung, err)
                                                    : begin_trial(asha, trial, rung, err);
    asha->counts.running += code == ERR_OK;
    return code;
}

enum err_code asha_report(struct asha *asha, uint32_t trial, uint32_t rung, double value,
                          struct err *err)
{
    if (trial >= asha->counts.begun) {
        return err_set(err, ERR_RANGE, "no trial %" PRIu32, trial);
    }
    struct trial *who = &asha->trials[trial];
    if (who->state != TRIAL_RUNNING || who->rung != rung) {
        return err_set(err, ERR_STALE, "trial %" PRIu32 ": does not run in rung %" PRIu32, trial,
                       rung);
    }
    bool failed = !isfinite(value);
    double key = failed ? (double)INFINITY : asha->options.maximize ? -value : value;
    who->entry = rung_add(rung_of(asha, who->bracket, rung), asha->options.eta, trial, key);
    who->state = failed ? TRIAL_FAILED : TRIAL_REPORTED;
    asha->counts.running--;
    asha->counts.failed += failed;
    asha->counts.finished += !failed && rung + 1 == asha->rung_count;
    return ERR_OK;
}

void asha_close(struct asha *asha)
{
    asha->closed = true;
}
