#include "cli/profile_metrics.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum kind { COUNTER, STEP_RATE, EXAMPLE_RATE };

static const struct {
    const char *word;
    enum kind kind;
} words[] = {
    /* Longer ones first: "global_step/sec" also begins with "global_step". */
    {"global_step/sec", STEP_RATE},
    {"steps_per_second", STEP_RATE},
    {"steps_per_sec", STEP_RATE},
    {"steps_per_s", STEP_RATE},
    {"steps/sec", STEP_RATE},
    {"steps/s", STEP_RATE},
    {"it/s", STEP_RATE},
    {"examples_per_second", EXAMPLE_RATE},
    {"examples_per_sec", EXAMPLE_RATE},
    {"examples_per_s", EXAMPLE_RATE},
    {"samples_per_second", EXAMPLE_RATE},
    {"samples_per_s", EXAMPLE_RATE},
    {"examples/sec", EXAMPLE_RATE},
    {"examples/s", EXAMPLE_RATE},
    {"samples/sec", EXAMPLE_RATE},
    {"samples/s", EXAMPLE_RATE},
    {"images/sec", EXAMPLE_RATE},
    {"images/s", EXAMPLE_RATE},
    {"global_step", COUNTER},
    {"iteration", COUNTER},
    {"iter", COUNTER},
    {"step", COUNTER},
};

/* The number after a word: over blanks, quotes, colons, equals and brackets. */
static bool number_after(const char *at, double *out)
{
    at += strspn(at, " \t\"':=[#");
    if (!isdigit((unsigned char)*at) && *at != '.') {
        return false;
    }
    char *end = NULL;
    *out = strtod(at, &end);
    return end != at && isfinite(*out) && *out >= 0 && !isalpha((unsigned char)*end);
}

static bool begins_word(const char *line, const char *at)
{
    return at == line || (!isalnum((unsigned char)at[-1]) && at[-1] != '_' && at[-1] != '/');
}

static void take(struct profile_metrics *metrics, enum kind kind, double value, int64_t now_ms)
{
    switch (kind) {
    case STEP_RATE:
        metrics->step_rate_sum += value;
        metrics->step_rates++;
        break;
    case EXAMPLE_RATE:
        metrics->example_rate_sum += value;
        metrics->example_rates++;
        break;
    case COUNTER:
        if (!metrics->counting || value < metrics->last_step) { /* begun, or begun again */
            metrics->counting = true;
            metrics->first_step = value;
            metrics->first_ms = now_ms;
        }
        metrics->last_step = value;
        metrics->last_ms = now_ms;
        break;
    }
}

void profile_metrics_line(struct profile_metrics *metrics, const char *line, int64_t now_ms)
{
    bool counted = false;
    for (const char *at = line; *at; at++) {
        if (!isalpha((unsigned char)*at) || !begins_word(line, at)) {
            continue;
        }
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            size_t size = strlen(words[i].word);
            double value = 0;
            if (strncasecmp(at, words[i].word, size) != 0 || !number_after(at + size, &value)) {
                continue;
            }
            if (words[i].kind != COUNTER || !counted) {
                take(metrics, words[i].kind, value, now_ms);
            }
            counted = counted || words[i].kind == COUNTER;
            at += size - 1;
            break;
        }
    }
}

double profile_metrics_steps_per_s(const struct profile_metrics *metrics)
{
    double steps = metrics->last_step - metrics->first_step;
    double seconds = (double)(metrics->last_ms - metrics->first_ms) / 1000;
    if (metrics->counting && steps > 0 && seconds > 0) {
        return steps / seconds;
    }
    return metrics->step_rates > 0 ? metrics->step_rate_sum / metrics->step_rates : 0;
}

double profile_metrics_examples_per_s(const struct profile_metrics *metrics)
{
    return metrics->example_rates > 0 ? metrics->example_rate_sum / metrics->example_rates : 0;
}
