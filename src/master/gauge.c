#include "master/gauge.h"

#include "base/mem.h"
#include "metrics/lines.h"
#include "metrics/watch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 << 10 };

struct gauge {
    const struct experiment *experiment;
    struct metrics *metrics;
    struct metric_sink sink; /* take NULL: none */
    struct lines *lines;
    uint64_t offset;     /* in the log */
    struct watch *watch; /* of the folder being written, or NULL */
};

/* A pattern with {value} is for the one metric that is searched for. */
static const char *metric_of_patterns(const struct experiment *experiment)
{
    return experiment->search ? experiment->search->goals[0].metric : NULL;
}

bool gauge_check(const struct recipe *recipe, struct diag_list *diags)
{
    bool good = true;
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct experiment *experiment = &recipe->experiments[e];
        struct lines *lines = lines_create();
        for (size_t i = 0; i < experiment->metric_count; i++) {
            const struct metric_pattern *pattern = &experiment->metrics[i];
            struct err err = {0};
            if (lines_add_pattern(lines, metric_of_patterns(experiment), pattern->text, &err) !=
                ERR_OK) {
                diag_add(diags, pattern->line, pattern->column, "metrics: %s", err.text);
                good = false;
            }
        }
        lines_destroy(lines);
    }
    return good;
}

static struct lines *make_lines(const struct experiment *experiment)
{
    struct lines *lines = lines_create();
    for (size_t i = 0; i < experiment->metric_count; i++) {
        enum err_code code = lines_add_pattern(lines, metric_of_patterns(experiment),
                                               experiment->metrics[i].text, NULL);
        CHECK(code == ERR_OK); /* gauge_check saw it */
    }
    for (size_t i = 0; experiment->search && i < experiment->search->goal_count; i++) {
        lines_want(lines, experiment->search->goals[i].metric);
    }
    if (experiment->search && experiment->search->early.resource) {
        lines_want(lines, experiment->search->early.resource);
    }
    return lines;
}

struct gauge *gauge_create(const struct experiment *experiment, const struct metric_sink *sink)
{
    struct gauge *gauge = mem_alloc(sizeof *gauge);
    gauge->experiment = experiment;
    gauge->metrics = metrics_create();
    gauge->lines = make_lines(experiment);
    gauge->sink = sink ? *sink : (struct metric_sink){0};
    return gauge;
}

void gauge_destroy(struct gauge *gauge)
{
    if (gauge) {
        watch_destroy(gauge->watch);
        lines_destroy(gauge->lines);
        metrics_destroy(gauge->metrics);
        free(gauge);
    }
}

static void take(void *owner, const struct metric *metric)
{
    struct gauge *gauge = owner;
    if (metrics_add(gauge->metrics, metric) && gauge->sink.take) {
        gauge->sink.take(gauge->sink.owner, metric);
    }
}

bool gauge_read_log(struct gauge *gauge, const char *path, int64_t now_ms)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    AUTO_FREE char *piece = mem_resize(NULL, PIECE_BYTES, 1);
    ssize_t got = pread(fd, piece, PIECE_BYTES, (off_t)gauge->offset);
    if (got <= 0) {
        return false;
    }
    struct metric_sink sink = {.take = take, .owner = gauge};
    gauge->offset += (uint64_t)got;
    lines_feed(gauge->lines, piece, (size_t)got, now_ms, &sink);
    return got == PIECE_BYTES;
}

void gauge_end_log(struct gauge *gauge, int64_t now_ms)
{
    struct metric_sink sink = {.take = take, .owner = gauge};
    lines_end(gauge->lines, now_ms, &sink);
}

void gauge_next_log(struct gauge *gauge)
{
    lines_destroy(gauge->lines);
    gauge->lines = make_lines(gauge->experiment);
    gauge->offset = 0;
    watch_destroy(gauge->watch);
    gauge->watch = NULL;
}

void gauge_follow_folder(struct gauge *gauge, const char *folder, int64_t now_ms)
{
    if (gauge->watch || watch_create(folder, NULL, &gauge->watch, NULL) == ERR_OK) {
        struct metric_sink sink = {.take = take, .owner = gauge};
        (void)watch_poll(gauge->watch, now_ms, &sink); /* the rest next time */
    }
}

void gauge_read_folder(struct gauge *gauge, const char *folder, int64_t now_ms)
{
    struct watch *watch = NULL;
    if (watch_create(folder, NULL, &watch, NULL) == ERR_OK) {
        struct metric_sink sink = {.take = take, .owner = gauge};
        watch_end(watch, now_ms, &sink);
        watch_destroy(watch);
    }
}

const struct metrics *gauge_metrics(const struct gauge *gauge)
{
    return gauge->metrics;
}
