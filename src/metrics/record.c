#include "metrics/record.h"

#include <math.h>
#include <string.h>
#include <strings.h>

void record_clear(struct record *record)
{
    record->count = 0;
    record->step = 0;
    record->epoch = 0;
    record->time_ms = 0;
    record->has_step = false;
    record->has_epoch = false;
    record->has_time = false;
}

static bool is_one_of(const char *name, size_t size, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == size && strncasecmp(name, words[i], size) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_step(const char *name, size_t size)
{
    static const char *const words[] = {"step", "_step",       "iteration",
                                        "iter", "global_step", "trainer/global_step"};
    return is_one_of(name, size, words, sizeof words / sizeof words[0]);
}

static bool is_time(const char *name, size_t size)
{
    static const char *const words[] = {"time", "ts", "timestamp", "_timestamp", "wall_time"};
    return is_one_of(name, size, words, sizeof words / sizeof words[0]);
}

/* Seconds since 1970 from 2001 to 5138, or milliseconds of the same. */
static bool unix_ms(double value, int64_t *out)
{
    bool seconds = value >= 1e9 && value < 1e11;
    if (!seconds && !(value >= 1e12 && value < 1e14)) {
        return false;
    }
    *out = (int64_t)(seconds ? value * 1000 : value);
    return true;
}

bool record_add_metric(struct record *record, const char *name, size_t size, double value)
{
    if (!metric_name_valid(name, size)) {
        return false;
    }
    for (size_t i = 0; i < record->count; i++) {
        struct record_item *item = &record->items[i];
        if (memcmp(item->name, name, size) == 0 && item->name[size] == '\0') {
            item->value = value;
            return true;
        }
    }
    if (record->count == RECORD_ITEMS_MAX) {
        return false;
    }
    struct record_item *item = &record->items[record->count++];
    memset(item->name, 0, sizeof item->name);
    memcpy(item->name, name, size);
    item->value = value;
    return true;
}

bool record_add(struct record *record, const char *name, size_t size, double value)
{
    if (is_step(name, size)) {
        if (!record->has_step && isfinite(value)) {
            record->has_step = true;
            record->step = value;
        }
        return isfinite(value);
    }
    if (is_one_of(name, size, &(const char *){"epoch"}, 1)) {
        if (isfinite(value)) {
            record->has_epoch = true;
            record->epoch = value;
        }
        return isfinite(value);
    }
    int64_t time_ms = 0;
    if (is_time(name, size) && unix_ms(value, &time_ms)) {
        record->has_time = true;
        record->time_ms = time_ms;
        return true;
    }
    return record_add_metric(record, name, size, value);
}

static bool step_of(const struct record *record, double *out)
{
    *out = record->has_step ? record->step : record->has_epoch ? record->epoch : 0;
    return record->has_step || record->has_epoch;
}

bool record_same_step(const struct record *one, const struct record *other)
{
    double a = 0;
    double b = 0;
    bool has_a = step_of(one, &a);
    bool has_b = step_of(other, &b);
    return has_a == has_b && !(a < b) && !(b < a);
}

void record_send(const struct record *record, const struct metric_sink *sink, int64_t at_ms)
{
    struct metric metric = {.at_ms = record->has_time ? record->time_ms : at_ms};
    metric.has_step = step_of(record, &metric.step);
    if (record->has_epoch) {
        metric.name = "epoch";
        metric.value = record->epoch;
        metric_send(sink, &metric);
    }
    for (size_t i = 0; i < record->count; i++) {
        metric.name = record->items[i].name;
        metric.value = record->items[i].value;
        metric_send(sink, &metric);
    }
}
