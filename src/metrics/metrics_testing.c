#include "metrics/metrics_testing.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>

static void add_point(struct str *out, const struct metric *metric)
{
    if (out->size > 0) {
        str_add_char(out, ' ');
    }
    str_add(out, metric->name);
    if (metric->has_step) {
        str_add_char(out, '@');
        str_add_double(out, metric->step);
    }
    str_add_char(out, '=');
    if (isfinite(metric->value)) {
        str_add_double(out, metric->value);
    } else {
        str_add(out, isnan(metric->value) ? "nan" : metric->value > 0 ? "inf" : "-inf");
    }
}

static void take(void *owner, const struct metric *metric)
{
    add_point(owner, metric);
}

static void take_timed(void *owner, const struct metric *metric)
{
    add_point(owner, metric);
    str_add_char(owner, '~');
    str_add_i64(owner, metric->at_ms);
}

struct metric_sink testing_sink(struct str *out)
{
    return (struct metric_sink){.take = take, .owner = out};
}

struct metric_sink testing_timed_sink(struct str *out)
{
    return (struct metric_sink){.take = take_timed, .owner = out};
}

void testing_folder(struct str *out)
{
    const char *base = getenv("TMPDIR");
    str_clear(out);
    str_addf(out, "%s/drover-metrics-XXXXXX", base ? base : "/tmp");
    CHECK(mkdtemp(out->text) != NULL);
}
