#include "master/trials_book.h"

#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a trial is, or would be put. Most are looked for at the end, where new ones come. */
static size_t place_of(const struct book_search *search, uint64_t trial)
{
    size_t low = 0;
    size_t high = search->count;
    if (high > 0 && search->trials[high - 1].trial < trial) {
        return high;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->trials[middle].trial < trial) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct book_trial *book_find(const struct book_search *search, uint64_t trial)
{
    size_t place = place_of(search, trial);
    bool found = place < search->count && search->trials[place].trial == trial;
    return found ? &search->trials[place] : NULL;
}

static struct book_trial *find_or_add(struct book_search *search, uint64_t trial)
{
    size_t place = place_of(search, trial);
    if (place < search->count && search->trials[place].trial == trial) {
        return &search->trials[place];
    }
    VEC_PUSH(search->trials, search->count, search->cap) = (struct book_trial){0};
    memmove(&search->trials[place + 1], &search->trials[place],
            (search->count - 1 - place) * sizeof *search->trials);
    search->trials[place] = (struct book_trial){.trial = trial, .params = "{}", .metrics = "{}"};
    return &search->trials[place];
}

static void take_search(struct arena *arena, struct book_search *search,
                        const struct trials_line *line)
{
    snprintf(search->algorithm, sizeof search->algorithm, "%s", line->algorithm);
    snprintf(search->chosen, sizeof search->chosen, "%s", line->chosen);
    search->why = arena_strdup(arena, line->why);
    search->seed = line->seed;
    search->begun = true;
}

static void take_suggested(struct arena *arena, struct book_search *search,
                           const struct trials_line *line)
{
    struct book_trial *trial = find_or_add(search, line->trial);
    if (!trial->point) {
        trial->params = arena_strdup(arena, line->params);
        trial->point = arena_strdup(arena, line->point);
        trial->suggested_ms = line->at_ms;
    }
    trial->task = line->task;
    trial->rung = line->rung;
    trial->has_budget = line->has_budget;
    trial->budget = line->budget;
    trial->ended = false;
}

static char *metrics_json(struct arena *arena, const struct trials_line *line)
{
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    json_object(&json);
    for (size_t i = 0; i < line->metric_count; i++) {
        json_key(&json, line->metrics[i].name);
        json_double(&json, line->metrics[i].value);
    }
    json_end(&json);
    return arena_strndup(arena, str_text(&text), text.size);
}

static enum err_code take_result(struct arena *arena, struct book_search *search,
                                 const struct trials_line *line, struct err *err)
{
    if (!book_find(search, line->trial)) {
        return err_set(err, ERR_CORRUPT, "a result of trial %" PRIu64 ", which was not suggested",
                       line->trial);
    }
    struct book_trial *trial = find_or_add(search, line->trial);
    trial->ended = trial->ended || line->task == trial->task;
    trial->has_result = true;
    trial->state = line->state;
    trial->result_task = line->task;
    trial->value_count = line->value_count;
    memcpy(trial->values, line->values, sizeof trial->values);
    trial->metrics = metrics_json(arena, line);
    trial->reason = line->reason ? arena_strdup(arena, line->reason) : NULL;
    trial->has_step = line->has_step;
    trial->step = line->step;
    trial->finished_ms = line->at_ms;
    return ERR_OK;
}

enum err_code book_take(struct arena *arena, struct book_search *search,
                        const struct trials_line *line, struct err *err)
{
    switch (line->kind) {
    case TRIALS_SEARCH:
        take_search(arena, search, line);
        break;
    case TRIALS_SUGGESTED:
        take_suggested(arena, search, line);
        break;
    case TRIALS_RESULT:
        return take_result(arena, search, line, err);
    case TRIALS_STOP:
        search->closed = arena_strdup(arena, line->why);
        break;
    case TRIALS_WARM:
        search->warm++;
        break;
    }
    return ERR_OK;
}

static enum err_code take(void *owner, const struct trials_line *line, struct err *err)
{
    struct book *book = owner;
    for (size_t e = 0; e < book->recipe->experiment_count; e++) {
        const struct experiment *experiment = &book->recipe->experiments[e];
        if (experiment->search && strcmp(experiment->name, line->experiment) == 0) {
            return book_take(&book->arena, &book->searches[e], line, err);
        }
    }
    return err_set(err, ERR_CORRUPT, "the recipe has no search '%.64s'", line->experiment);
}

enum err_code book_read(struct book *book, const struct recipe *recipe, const char *flow_folder,
                        struct err *err)
{
    *book = (struct book){.recipe = recipe};
    book->searches = mem_array(recipe->experiment_count, sizeof *book->searches);
    return trials_read(flow_folder, take, book, err);
}

void book_release(struct book *book)
{
    for (size_t e = 0; book->searches && e < book->recipe->experiment_count; e++) {
        free(book->searches[e].trials);
    }
    free(book->searches);
    arena_release(&book->arena);
    *book = (struct book){0};
}
