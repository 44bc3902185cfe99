#include "metrics/metrics.h"

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct entry {
    uint64_t hash;
    struct metric_summary summary;
};

struct metrics {
    struct entry *entries;
    size_t count;
    size_t cap;
    size_t expected; /* lines repeat their names in the same order: where the next one will be */
    uint64_t dropped;
};

void metric_send(const struct metric_sink *sink, const struct metric *metric)
{
    CHECK(metric_name_valid(metric->name, strlen(metric->name)));
    CHECK(isfinite(metric->step));
    sink->take(sink->owner, metric);
}

bool metric_name_valid(const char *name, size_t size)
{
    if (size == 0 || size > METRIC_NAME_MAX || name[0] == ' ' || name[size - 1] == ' ') {
        return false;
    }
    for (size_t at = 0; at < size;) {
        size_t length = json_utf8_length(name + at, size - at);
        unsigned char first = (unsigned char)name[at];
        bool is_c1 = first == 0xC2 && length == 2 && (unsigned char)name[at + 1] < 0xA0;
        if (length == 0 || first < 0x20 || first == 0x7F || is_c1) {
            return false;
        }
        at += length;
    }
    return true;
}

bool metric_is_kept(uint64_t index)
{
    enum { STAGE_BITS = 13 };
    if (index >> STAGE_BITS == 0) {
        return true;
    }
    unsigned stage = 63 - (unsigned)__builtin_clzll(index) - STAGE_BITS + 1;
    return (index & ((1ULL << stage) - 1)) == 0;
}

struct metrics *metrics_create(void)
{
    return mem_alloc(sizeof(struct metrics));
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics) {
        return;
    }
    for (size_t i = 0; i < metrics->count; i++) {
        free((char *)metrics->entries[i].summary.name);
    }
    free(metrics->entries);
    free(metrics);
}

static uint64_t hash_of(const char *name)
{
    return rng_hash_bytes(0x6d657472, name, strlen(name));
}

static bool is_named(const struct entry *entry, uint64_t hash, const char *name)
{
    return entry->hash == hash && strcmp(entry->summary.name, name) == 0;
}

static struct entry *find(const struct metrics *metrics, const char *name, uint64_t hash)
{
    size_t expected = metrics->expected;
    if (expected < metrics->count && is_named(&metrics->entries[expected], hash, name)) {
        return &metrics->entries[expected];
    }
    for (size_t i = 0; i < metrics->count; i++) {
        if (is_named(&metrics->entries[i], hash, name)) {
            return &metrics->entries[i];
        }
    }
    return NULL;
}

static void update(struct metric_summary *summary, const struct metric *metric)
{
    struct metric_value value = {.value = metric->value,
                                 .step = metric->has_step ? metric->step : 0,
                                 .at_ms = metric->at_ms,
                                 .has_step = metric->has_step};
    summary->count++;
    summary->last = value;
    if (isfinite(metric->value)) {
        bool is_first = summary->finite_count++ == 0;
        if (is_first || metric->value < summary->least.value) {
            summary->least = value;
        }
        if (is_first || metric->value > summary->greatest.value) {
            summary->greatest = value;
        }
    }
    if (metric->has_step && (!summary->has_step || metric->step > summary->newest_step)) {
        summary->newest_step = metric->step;
        summary->has_step = true;
    }
}

bool metrics_add(struct metrics *metrics, const struct metric *metric)
{
    uint64_t hash = hash_of(metric->name);
    struct entry *entry = find(metrics, metric->name, hash);
    if (!entry && metrics->count == METRICS_NAMES_MAX) {
        metrics->dropped++;
        return false;
    }
    if (!entry) {
        CHECK(metric_name_valid(metric->name, strlen(metric->name)));
        VEC_PUSH(metrics->entries, metrics->count, metrics->cap) =
            (struct entry){.hash = hash, .summary = {.name = mem_strdup(metric->name)}};
        entry = &metrics->entries[metrics->count - 1];
    }
    metrics->expected = (size_t)(entry - metrics->entries) + 1;
    if (metrics->expected == metrics->count) {
        metrics->expected = 0;
    }
    update(&entry->summary, metric);
    return true;
}

static void take(void *owner, const struct metric *metric)
{
    metrics_add(owner, metric);
}

struct metric_sink metrics_sink(struct metrics *metrics)
{
    return (struct metric_sink){.take = take, .owner = metrics};
}

size_t metrics_count(const struct metrics *metrics)
{
    return metrics->count;
}

uint64_t metrics_dropped(const struct metrics *metrics)
{
    return metrics->dropped;
}

const struct metric_summary *metrics_at(const struct metrics *metrics, size_t index)
{
    CHECK(index < metrics->count);
    return &metrics->entries[index].summary;
}

const struct metric_summary *metrics_find(const struct metrics *metrics, const char *name)
{
    const struct entry *entry = find(metrics, name, hash_of(name));
    return entry ? &entry->summary : NULL;
}

/* The name with or without a part of the data before it, ignoring case. */
static bool is_like(const char *known, const char *prefix, const char *name)
{
    size_t size = strlen(prefix);
    if (size > 0) {
        if (strncasecmp(known, prefix, size) != 0 || !known[size] ||
            !strchr("_/-. ", known[size])) {
            return false;
        }
        known += size + 1;
    }
    return strcasecmp(known, name) == 0;
}

const struct metric_summary *metrics_find_like(const struct metrics *metrics, const char *name)
{
    static const char *const prefixes[] = {"",     "val",  "valid", "validation",
                                           "test", "eval", "dev",   "train"};
    const struct metric_summary *exact = metrics_find(metrics, name);
    for (size_t p = 0; !exact && p < sizeof prefixes / sizeof prefixes[0]; p++) {
        for (size_t i = 0; !exact && i < metrics->count; i++) {
            const struct metric_summary *summary = &metrics->entries[i].summary;
            exact = is_like(summary->name, prefixes[p], name) ? summary : NULL;
        }
    }
    return exact;
}

const struct metric_value *metric_best(const struct metric_summary *summary, bool maximize)
{
    if (summary->finite_count == 0) {
        return NULL;
    }
    return maximize ? &summary->greatest : &summary->least;
}

bool metrics_progress(const struct metrics *metrics, const char *resource, double *out)
{
    const struct metric_summary *own = metrics_find(metrics, resource);
    bool known = own && own->finite_count > 0;
    if (known) {
        *out = own->greatest.value;
        return true;
    }
    for (size_t i = 0; i < metrics->count; i++) {
        const struct metric_summary *summary = &metrics->entries[i].summary;
        if (summary->has_step && (!known || summary->newest_step > *out)) {
            *out = summary->newest_step;
            known = true;
        }
    }
    return known;
}
