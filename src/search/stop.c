#include "search/stop.h"

#include <math.h>

void stop_init(struct stop *stop, const struct stop_options *options)
{
    CHECK(!options->has_target || isfinite(options->target));
    CHECK(options->cost_micro >= 0 && options->time_ms >= 0);
    CHECK(isfinite(options->least_gain) && options->least_gain >= 0);
    *stop = (struct stop){.options = *options};
}

static void set_reason(struct stop *stop, enum stop_reason reason)
{
    if (stop->reason == STOP_NOT_YET) {
        stop->reason = reason;
    }
}

static void count_result(struct stop *stop, bool better)
{
    stop->results++;
    stop->since_better = better ? 0 : stop->since_better + 1;
    if (stop->options.patience > 0 && stop->since_better >= stop->options.patience) {
        set_reason(stop, STOP_PATIENCE);
    }
}

void stop_begun(struct stop *stop)
{
    stop->begun++;
}

void stop_result(struct stop *stop, uint64_t trial, double value)
{
    double sign = stop->options.maximize ? -1 : 1;
    if (!isfinite(value)) {
        stop->failed++;
        count_result(stop, false);
        return;
    }
    bool first = !stop->has_best;
    if (first || sign * value < sign * stop->best) {
        stop->has_best = true;
        stop->best = value;
        stop->best_trial = trial;
    }
    bool better = first || sign * stop->bar - sign * value > stop->options.least_gain;
    stop->bar = better ? value : stop->bar;
    if (stop->options.has_target && sign * value <= sign * stop->options.target) {
        set_reason(stop, STOP_TARGET);
    }
    count_result(stop, better);
}

void stop_front(struct stop *stop, bool moved)
{
    CHECK(!stop->options.has_target);
    count_result(stop, moved);
}

void stop_exhausted(struct stop *stop)
{
    set_reason(stop, STOP_EXHAUSTED);
}

enum stop_reason stop_ask(struct stop *stop, int64_t spent_micro, int64_t elapsed_ms)
{
    const struct stop_options *options = &stop->options;
    if (stop->reason != STOP_NOT_YET) {
        return stop->reason;
    }
    stop->spent_micro = spent_micro;
    stop->elapsed_ms = elapsed_ms;
    if (options->cost_micro > 0 && spent_micro >= options->cost_micro) {
        stop->reason = STOP_COST;
    } else if (options->time_ms > 0 && elapsed_ms >= options->time_ms) {
        stop->reason = STOP_TIME;
    } else if (options->trials > 0 && stop->begun >= options->trials) {
        stop->reason = STOP_TRIALS;
    }
    return stop->reason;
}

bool stop_ends_running(enum stop_reason reason)
{
    switch (reason) {
    case STOP_TARGET:
    case STOP_COST:
    case STOP_TIME:
        return true;
    case STOP_NOT_YET:
    case STOP_PATIENCE:
    case STOP_TRIALS:
    case STOP_EXHAUSTED:
        break;
    }
    return false;
}

const char *stop_reason_name(enum stop_reason reason)
{
    switch (reason) {
    case STOP_NOT_YET:
        break;
    case STOP_TARGET:
        return "target";
    case STOP_PATIENCE:
        return "patience";
    case STOP_COST:
        return "cost";
    case STOP_TIME:
        return "time";
    case STOP_TRIALS:
        return "trials";
    case STOP_EXHAUSTED:
        return "exhausted";
    }
    return "";
}

/* Cents, or more decimals where the limit has them. */
static void add_money(struct str *out, int64_t micro, const char *currency)
{
    int decimals = micro % 10000 == 0 ? 2 : 6;
    str_addf(out, "%.*f%s%s", decimals, (double)micro / 1e6, currency ? " " : "",
             currency ? currency : "");
}

static void add_duration(struct str *out, int64_t ms)
{
    int64_t s = ms / 1000;
    if (s >= 3600) {
        str_addf(out, "%lldh%02lldm", (long long)(s / 3600), (long long)(s / 60 % 60));
    } else if (s >= 60) {
        str_addf(out, "%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
    } else {
        str_addf(out, "%.1fs", (double)ms / 1000);
    }
}

static void add_best(struct str *out, const struct stop *stop)
{
    if (!stop->has_best) {
        str_add(out,
                stop->results > 0 && stop->failed == stop->results ? "; every trial failed" : "");
        return;
    }
    str_add(out, "; the best is ");
    str_add_double(out, stop->best);
    str_add(out, ", of trial ");
    str_add_u64(out, stop->best_trial);
}

void stop_why(const struct stop *stop, struct str *out)
{
    const struct stop_options *options = &stop->options;
    switch (stop->reason) {
    case STOP_NOT_YET:
        str_add(out, "not over yet");
        break;
    case STOP_TARGET:
        str_add(out, "the target of ");
        str_add_double(out, options->target);
        str_add(out, " is reached");
        break;
    case STOP_PATIENCE:
        str_add(out, "no better value in ");
        str_add_u64(out, stop->since_better < options->patience ? options->patience
                                                                : stop->since_better);
        str_add(out, " results");
        break;
    case STOP_COST:
        str_add(out, "the budget is spent: ");
        add_money(out, stop->spent_micro, options->currency);
        str_add(out, " of ");
        add_money(out, options->cost_micro, options->currency);
        break;
    case STOP_TIME:
        str_add(out, "the time is up: ");
        add_duration(out, stop->elapsed_ms);
        str_add(out, " of ");
        add_duration(out, options->time_ms);
        break;
    case STOP_TRIALS:
        str_add(out, "all ");
        str_add_u64(out, options->trials);
        str_add(out, " trials have begun");
        break;
    case STOP_EXHAUSTED:
        str_add(out, "every combination has been tried");
        break;
    }
    add_best(out, stop);
}
