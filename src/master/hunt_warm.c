/* hunt_warm.c - what earlier workflows tried, for a search that begins.
 *
 * Each trial is a line of this workflow's own log before the first suggestion, so that a replay
 * needs no other workflow. The line that says that the search has begun comes after them: after a
 * crash in between, those that are there already are passed over. */
#include "master/hunt_internal.h"

#include "base/mem.h"
#include "master/place.h"
#include "master/warm.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_MAX = 100000 };

static enum search_status status_of(enum trials_state state)
{
    switch (state) {
    case TRIALS_SUCCEEDED:
        return SEARCH_FINISHED;
    case TRIALS_STOPPED:
        return SEARCH_PRUNED;
    case TRIALS_FAILED:
        return SEARCH_FAILED;
    case TRIALS_DIVERGED:
        return SEARCH_DIVERGED;
    case TRIALS_CANCELLED:
        break;
    }
    return SEARCH_GONE;
}

static enum trials_state state_of(enum search_status status)
{
    switch (status) {
    case SEARCH_FINISHED:
        return TRIALS_SUCCEEDED;
    case SEARCH_PRUNED:
        return TRIALS_STOPPED;
    case SEARCH_FAILED:
        return TRIALS_FAILED;
    case SEARCH_DIVERGED:
        return TRIALS_DIVERGED;
    case SEARCH_GONE:
        break;
    }
    return TRIALS_CANCELLED;
}

static bool all_finite(const struct trials_line *line)
{
    for (size_t i = 0; i < line->value_count; i++) {
        if (!isfinite(line->values[i])) {
            return false;
        }
    }
    return line->value_count > 0;
}

enum err_code hunt_apply_warm(struct hunt *hunt, const struct trials_line *line, struct err *err)
{
    struct search_value values[SEARCH_PARAMS_MAX];
    struct search_trial trial = {.number = hunt->warm_count, .values = values};
    struct err why = {0};
    if (hunt->book->leg_count > 0 || line->value_count != hunt->experiment->search->goal_count) {
        return err_set(err, ERR_CORRUPT,
                       "a trial of %.80s, which comes too late or has not one value for each "
                       "metric",
                       line->from);
    }
    bool counts = line->state == TRIALS_SUCCEEDED || line->state == TRIALS_STOPPED;
    enum err_code code = search_space_read_text(hunt->book->space, line->point, values, &why);
    if (code == ERR_OK) {
        code = search_suggested(hunt->search, &trial, &why);
    }
    if (code == ERR_OK) {
        hunt->warm_count++;
        code = search_tell(hunt->search, trial.number, status_of(line->state),
                           counts && all_finite(line) ? line->values : NULL, &why);
    }
    return code == ERR_OK ? ERR_OK
                          : err_set(err, ERR_CORRUPT, "trial %llu of %.80s: %.300s",
                                    (unsigned long long)line->trial, line->from, why.text);
}

/* --- reading them ------------------------------------------------------------------------------
 */

/* Lines that are not written yet. Reading them is quick, telling a model is not. */
struct hunt_warm {
    struct arena arena;
    struct trials_line *lines;
    size_t count;
    size_t cap;
    size_t next;
};

struct reading {
    struct hunt *hunt;
    const char *from;
    uint64_t passed; /* those that were there before a crash: so many are left to be passed over */
    uint64_t full;   /* more than WARM_MAX */
};

static enum err_code take(void *owner, const struct warm_trial *trial, struct err *err)
{
    struct reading *reading = owner;
    struct hunt *hunt = reading->hunt;
    struct hunt_warm *warm = hunt->warm;
    AUTO_STR struct str point = {0};
    (void)err;
    if (reading->passed > 0 || hunt->warm_count + warm->count >= WARM_MAX) {
        reading->full += reading->passed == 0;
        reading->passed -= reading->passed > 0;
        return ERR_OK;
    }
    search_space_add_text(hunt->book->space, trial->values, &point);
    struct trials_line line = {.kind = TRIALS_WARM,
                               .experiment = hunt->experiment->name,
                               .from = reading->from,
                               .trial = trial->trial,
                               .state = state_of(trial->status),
                               .value_count = hunt->experiment->search->goal_count,
                               .params = arena_strdup(&warm->arena, trial->params),
                               .point = arena_strndup(&warm->arena, str_text(&point), point.size)};
    for (size_t i = 0; i < line.value_count; i++) {
        line.values[i] = trial->results ? trial->results[i] : (double)NAN;
    }
    VEC_PUSH(warm->lines, warm->count, warm->cap) = line;
    return ERR_OK;
}

/* Where a workflow is kept: on a server its workflows, otherwise the runs of the default place. */
static bool find_folder(const struct hunt *hunt, const char *id, struct str *out)
{
    const struct session *session = hunt->server->session;
    for (size_t i = 0; i < session->flow_count; i++) {
        if (session->flows[i] != hunt->home->flow && strcmp(session->flows[i]->id, id) == 0) {
            str_add(out, session->flows[i]->folder);
            return true;
        }
    }
    return !hunt->home->flow->has_own_folder && place_find_run(id, out, NULL) == ERR_OK &&
           strcmp(str_text(out), hunt->home->flow->folder) != 0;
}

static void add_rest(struct str *out, uint64_t count, const char *what)
{
    if (count > 0) {
        str_addf(out, ", %" PRIu64 " %s", count, what);
    }
}

static void say(const struct reading *reading, const struct warm_counts *counts)
{
    AUTO_STR struct str rest = {0};
    add_rest(&rest, counts->open, "are not over");
    add_rest(&rest, counts->unlike, "lack its metrics");
    add_rest(&rest, reading->full, "are too many");
    if (counts->misfits > 0) {
        str_addf(&rest, ", %" PRIu64 " do not fit its parameters (trial %" PRIu64 ": %s)",
                 counts->misfits, counts->misfit_trial, counts->misfit);
    }
    server_note(reading->hunt->server, "%s%s: %" PRIu64 " trials of %s are known%s",
                counts->told > reading->full ? "" : "warning: ", reading->hunt->experiment->name,
                counts->told - reading->full, reading->from, str_text(&rest));
}

static void take_workflow(struct reading *reading, struct warm *warm)
{
    struct hunt *hunt = reading->hunt;
    AUTO_STR struct str folder = {0};
    struct warm_counts counts = {0};
    struct err err = {0};
    reading->full = 0;
    if (!find_folder(hunt, reading->from, &folder)) {
        server_note(hunt->server, "warning: %s: warm_start: there is no workflow '%s'",
                    hunt->experiment->name, reading->from);
        return;
    }
    struct warm_sink sink = {take, reading};
    if (warm_read(warm, hunt->experiment, str_text(&folder), &sink, &counts, &err) != ERR_OK) {
        server_note(hunt->server, "warning: %s: warm_start: %s: %s", hunt->experiment->name,
                    reading->from, err.text);
        return;
    }
    say(reading, &counts);
}

static void read_all(struct hunt *hunt)
{
    const struct search_spec *spec = hunt->experiment->search;
    struct warm *warm = warm_create(hunt->experiment);
    struct reading reading = {.hunt = hunt, .passed = hunt->warm_count};
    hunt->warm = mem_alloc(sizeof *hunt->warm);
    for (size_t i = 0; i < spec->warm_start_count; i++) {
        reading.from = spec->warm_starts[i];
        take_workflow(&reading, warm);
    }
    warm_destroy(warm);
}

static void empty(struct hunt_warm *warm)
{
    arena_release(&warm->arena);
    free(warm->lines);
    *warm = (struct hunt_warm){0};
}

bool hunt_take_warm(struct hunt *hunt)
{
    if (hunt->experiment->search->warm_start_count == 0) {
        return true;
    }
    if (!hunt->warm) {
        read_all(hunt);
    }
    struct hunt_warm *warm = hunt->warm;
    while (warm->next < warm->count) {
        struct trials_line *line = &warm->lines[warm->next++];
        line->at_ms = server_now_ms(hunt->server);
        enum err_code code = hunt_apply_warm(hunt, line, NULL);
        CHECK(code == ERR_OK); /* warm_fit found it in the space */
        trials_add_line(&hunt->home->pending, line);
        if (warm->next < warm->count && hunt_time_is_up(hunt)) {
            return false;
        }
    }
    empty(warm);
    return true;
}

void hunt_drop_warm(struct hunt *hunt)
{
    if (hunt->warm) {
        empty(hunt->warm);
        free(hunt->warm);
        hunt->warm = NULL;
    }
}
