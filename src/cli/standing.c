#include "cli/standing.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t standing_time_ms(const char *text)
{
    struct tm when = {0};
    int used = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &when.tm_year, &when.tm_mon, &when.tm_mday,
               &when.tm_hour, &when.tm_min, &when.tm_sec, &used) != 6 ||
        used != 19) {
        return -1;
    }
    int64_t ms = 0;
    if (text[used] == '.') {
        int64_t unit = 100;
        for (used++; text[used] >= '0' && text[used] <= '9'; used++, unit /= 10) {
            ms += (text[used] - '0') * unit;
        }
    }
    if (strcmp(text + used, "Z") != 0) {
        return -1;
    }
    when.tm_year -= 1900;
    when.tm_mon -= 1;
    return (int64_t)timegm(&when) * 1000 + ms;
}

void standing_read(const struct jnode *status, struct standing *out)
{
    *out = (struct standing){.id = jread_text(status, "id", "?"),
                             .state = jread_text(status, "state", "unknown")};
    const struct jnode *list = jread_get(status, "experiments");
    out->rows = mem_array(list ? list->count : 0, sizeof *out->rows);
    for (const struct jnode *item = jread_first(list); item; item = item->next) {
        struct view_row row = {
            .name = jread_text(item, "name", "?"),
            .tasks = jread_u64(item, "tasks", 0),
            .succeeded = jread_u64(item, "succeeded", 0),
            .failed = jread_u64(item, "failed", 0),
            .other = jread_u64(item, "cancelled", 0) + jread_u64(item, "skipped", 0),
            .running = jread_u64(item, "running", 0),
            .retrying = jread_u64(item, "retrying", 0),
        };
        uint64_t done = row.succeeded + row.failed + row.other;
        row.tasks = row.tasks < done ? done : row.tasks; /* the view divides by it */
        row.ended = done == row.tasks;
        row.ready = row.ended || done > 0 || row.running > 0 || row.retrying > 0 ||
                    jread_u64(item, "queued", 0) > 0 || jread_u64(item, "attempts", 0) > 0;
        out->rows[out->row_count++] = row;
        out->tasks += row.tasks;
        out->succeeded += row.succeeded;
        out->done += done;
    }
    out->good = strcmp(out->state, "succeeded") == 0;
    out->ended =
        out->good || strcmp(out->state, "failed") == 0 || strcmp(out->state, "cancelled") == 0;
}

void standing_release(struct standing *standing)
{
    free(standing->rows);
    *standing = (struct standing){0};
}

void standing_add_line(struct str *out, const struct jnode *status)
{
    struct standing standing;
    standing_read(status, &standing);
    AUTO_STR struct str id = {0};
    AUTO_STR struct str created = {0};
    jread_add_clean(&id, standing.id);
    jread_add_clean(&created, jread_text(status, "created_at", ""));
    str_addf(out, "%-24s %-10.20s %10" PRIu64 " of %-10" PRIu64 " %.19s%s\n", str_text(&id),
             standing.state, standing.succeeded, standing.tasks, str_text(&created),
             created.size > 0 ? "Z" : "");
    standing_release(&standing);
}

static void add_table(struct str *out, const struct jnode *status, bool ended)
{
    const struct jnode *list = jread_get(status, "experiments");
    int columns = (int)strlen("experiment");
    for (const struct jnode *item = jread_first(list); item; item = item->next) {
        int size = (int)strnlen(jread_text(item, "name", "?"), 200);
        columns = size > columns ? size : columns;
    }
    str_addf(out, "\n%-*s %9s %10s %8s%s %9s %9s\n", columns, "experiment", "tasks", "succeeded",
             "failed", ended ? "" : "   running", "not done", "attempts");
    for (const struct jnode *item = jread_first(list); item; item = item->next) {
        uint64_t tasks = jread_u64(item, "tasks", 0);
        uint64_t succeeded = jread_u64(item, "succeeded", 0);
        uint64_t failed = jread_u64(item, "failed", 0);
        AUTO_STR struct str name = {0};
        jread_add_clean(&name, jread_text(item, "name", "?"));
        str_addf(out, "%-*s %9" PRIu64 " %10" PRIu64 " %8" PRIu64, columns, str_text(&name), tasks,
                 succeeded, failed);
        if (!ended) {
            str_addf(out, " %9" PRIu64, jread_u64(item, "running", 0));
        }
        str_addf(out, " %9" PRIu64 " %9" PRIu64 "\n",
                 tasks > succeeded + failed ? tasks - succeeded - failed : 0,
                 jread_u64(item, "attempts", 0));
    }
}

static void add_failures(struct str *out, const char *id, const struct jnode *failures,
                         const char *where)
{
    size_t shown = 0;
    for (const struct jnode *task = jread_first(failures); task; task = task->next) {
        if (shown == STANDING_FAILURES_SHOWN) {
            str_addf(out, "        and more: drover tasks %s --failed%s\n", id, where);
            return;
        }
        AUTO_STR struct str name = {0};
        AUTO_STR struct str reason = {0};
        jread_add_clean(&name, jread_text(task, "experiment", "?"));
        str_addf(&name, "/%" PRIu64, jread_u64(task, "task", 0));
        jread_add_clean(&reason, jread_text(task, "reason", "failed"));
        uint64_t attempts = jread_u64(task, "attempt", 0);
        str_addf(out, "%sfailed: %s, %s after %" PRIu64 " attempt%s\n        drover logs %s/%s%s\n",
                 shown == 0 ? "\n" : "", str_text(&name), str_text(&reason), attempts,
                 attempts == 1 ? "" : "s", id, str_text(&name), where);
        shown++;
    }
}

void standing_add_text(struct str *out, const struct jnode *status, const struct jnode *failures,
                       int64_t elapsed_ms, const char *state)
{
    struct standing standing;
    standing_read(status, &standing);
    AUTO_STR struct str id = {0};
    AUTO_STR struct str where = {0};
    jread_add_clean(&id, standing.id);
    if (state) {
        str_addf(&where, " --state %s", state);
    }
    add_table(out, status, standing.ended);
    add_failures(out, str_text(&id), failures, str_text(&where));
    const char *waiting = jread_text(status, "waiting_for", "");
    if (waiting[0] && !standing.ended) {
        str_add(out, "\nwaiting for: ");
        jread_add_clean(out, waiting);
        str_add_char(out, '\n');
    }
    str_addf(out, "\n%.20s: %" PRIu64 " of %" PRIu64 " tasks succeeded", standing.state,
             standing.succeeded, standing.tasks);
    if (elapsed_ms >= 0) {
        str_add(out, " in ");
        clock_add_duration(out, elapsed_ms);
    }
    str_add(out, "; state and logs in ");
    jread_add_clean(out, jread_text(status, "state_folder", "the server's folder"));
    str_add_char(out, '\n');
    standing_release(&standing);
}

int standing_name_columns(const struct jnode *status)
{
    int columns = 4;
    const struct jnode *list = jread_get(status, "experiments");
    for (const struct jnode *item = jread_first(list); item; item = item->next) {
        uint64_t tasks = jread_u64(item, "tasks", 1);
        int size = snprintf(NULL, 0, "%.200s/%" PRIu64, jread_text(item, "name", "?"),
                            tasks > 0 ? tasks - 1 : 0);
        columns = size > columns ? size : columns;
    }
    return columns;
}

void standing_add_task(struct str *out, const struct jnode *task, int name_columns)
{
    AUTO_STR struct str name = {0};
    AUTO_STR struct str duration = {0};
    AUTO_STR struct str reason = {0};
    AUTO_STR struct str node = {0};
    jread_add_clean(&name, jread_text(task, "experiment", "?"));
    str_addf(&name, "/%" PRIu64, jread_u64(task, "task", 0));
    int64_t began_ms = standing_time_ms(jread_text(task, "started_at", ""));
    int64_t ended_ms = standing_time_ms(jread_text(task, "finished_at", ""));
    if (began_ms >= 0 && ended_ms >= began_ms) {
        clock_add_duration(&duration, ended_ms - began_ms);
    }
    jread_add_clean(&reason, jread_text(task, "reason", ""));
    jread_add_clean(&node, jread_text(task, "node", "-"));
    str_addf(out, "%-*s %-10.20s %3" PRIu64 " %9s  %-12s %-20s ", name_columns, str_text(&name),
             jread_text(task, "state", "?"), jread_u64(task, "attempt", 0), str_text(&duration),
             str_text(&node), str_text(&reason));
    AUTO_STR struct str params = {0};
    jread_add(&params, jread_get(task, "params"));
    jread_add_clean(out, str_text(&params));
    str_add_char(out, '\n');
}
