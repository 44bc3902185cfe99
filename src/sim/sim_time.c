#include "base/detmath.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

/* A number with an optional unit of time; *end is where it stops. */
static bool read_seconds(const char *text, double *out, const char **end)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *stop = NULL;
    double number = strtod(text, &stop);
    if (stop == text || !(number >= 0 && number < 1e12)) {
        return false;
    }
    double factor = 1;
    size_t unit_size = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t size = strlen(units[i].unit);
        if (size > unit_size && strncmp(stop, units[i].unit, size) == 0) {
            factor = units[i].factor;
            unit_size = size;
        }
    }
    *out = number * factor;
    *end = stop + unit_size;
    return true;
}

static bool read_call(const char *text, const char *name, struct sim_time *out, bool two)
{
    size_t size = strlen(name);
    if (strncmp(text, name, size) != 0 || text[size] != '(') {
        return false;
    }
    const char *at = text + size + 1;
    if (!read_seconds(at, &out->a, &at)) {
        return false;
    }
    if (two) {
        at += strspn(at, " ");
        if (*at != ',') {
            return false;
        }
        at += 1 + strspn(at + 1, " ");
        if (!read_seconds(at, &out->b, &at)) {
            return false;
        }
    }
    return strcmp(at, ")") == 0;
}

enum err_code sim_time_parse(const char *text, struct sim_time *out, struct err *err)
{
    const char *end = NULL;
    *out = (struct sim_time){0};
    bool good = false;
    if (read_call(text, "uniform", out, true)) {
        out->kind = SIM_UNIFORM;
        good = out->a <= out->b;
    } else if (read_call(text, "exp", out, false)) {
        out->kind = SIM_EXPONENTIAL;
        good = true;
    } else if (read_call(text, "lognormal", out, true)) {
        out->kind = SIM_LOGNORMAL;
        good = out->b <= 10;
    } else if (read_seconds(text, &out->a, &end) && *end == '\0') {
        out->kind = SIM_FIXED;
        good = true;
    }
    if (!good) {
        return err_set(err, ERR_INVALID,
                       "'%.60s' is not a time: 60s, uniform(10s,90s), exp(60s) or "
                       "lognormal(60s,0.5)",
                       text);
    }
    return ERR_OK;
}

double sim_time_draw(const struct sim_time *time, struct rng *rng)
{
    switch (time->kind) {
    case SIM_FIXED:
        return time->a;
    case SIM_UNIFORM:
        return time->a + (time->b - time->a) * rng_unit(rng);
    case SIM_EXPONENTIAL:
        return -det_log(rng_open_unit_of(rng_next(rng))) * time->a;
    case SIM_LOGNORMAL:
        return time->a * det_exp(time->b * det_normal_quantile(rng_open_unit_of(rng_next(rng))));
    }
    return 0;
}
