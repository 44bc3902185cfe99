/* trials_parse.c - one line of trials.log, from bytes that may be anything. */
#include "base/jread.h"
#include "base/mem.h"
#include "master/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct parse {
    const struct jnode *root;
    struct arena *arena;
    const char *wrong; /* the first key that is missing or no good; NULL: none */
};

static void blame(struct parse *parse, const char *key)
{
    parse->wrong = parse->wrong ? parse->wrong : key;
}

static const char *text_of(struct parse *parse, const char *key)
{
    const struct jnode *node = jread_get(parse->root, key);
    if (!node || node->kind != JREAD_TEXT) {
        blame(parse, key);
        return "";
    }
    return arena_strdup(parse->arena, node->text);
}

static uint64_t number_of(struct parse *parse, const char *key, uint64_t most)
{
    uint64_t low = jread_u64(parse->root, key, 0);
    if (low != jread_u64(parse->root, key, 1) || low > most) { /* two fallbacks: it is not there */
        blame(parse, key);
        return 0;
    }
    return low;
}

/* A number that is finite, or NaN for null. */
static bool double_of(const struct jnode *node, double *out)
{
    if (!node || (node->kind != JREAD_NUMBER && node->kind != JREAD_NULL)) {
        return false;
    }
    *out = node->kind == JREAD_NULL ? (double)NAN : strtod(node->raw, NULL);
    return node->kind == JREAD_NULL || isfinite(*out);
}

static const struct jnode *list_of(struct parse *parse, const char *key, enum jread_kind kind,
                                   size_t most)
{
    const struct jnode *node = jread_get(parse->root, key);
    if (!node || node->kind != kind || node->count > most) {
        blame(parse, key);
        return NULL;
    }
    return node;
}

static void parse_search(struct parse *parse, struct trials_line *out)
{
    out->algorithm = text_of(parse, "algorithm");
    out->chosen = text_of(parse, "chosen");
    out->why = text_of(parse, "why");
    out->seed = number_of(parse, "seed", UINT64_MAX);
    const struct jnode *metrics = list_of(parse, "metrics", JREAD_ARRAY, TRIALS_GOALS_MAX);
    const struct jnode *goals = list_of(parse, "goals", JREAD_ARRAY, TRIALS_GOALS_MAX);
    if (!metrics || !goals || metrics->count != goals->count || metrics->count == 0) {
        blame(parse, "goals");
        return;
    }
    const struct jnode *goal = goals->first;
    for (const struct jnode *metric = metrics->first; metric; metric = metric->next) {
        bool known = metric->kind == JREAD_TEXT && goal->kind == JREAD_TEXT &&
                     (strcmp(goal->text, "maximize") == 0 || strcmp(goal->text, "minimize") == 0);
        if (!known) {
            blame(parse, "goals");
            return;
        }
        out->maximize[out->goal_count] = strcmp(goal->text, "maximize") == 0;
        out->goal_metrics[out->goal_count++] = arena_strdup(parse->arena, metric->text);
        goal = goal->next;
    }
}

static void parse_task(struct parse *parse, struct trials_line *out)
{
    out->task = number_of(parse, "task", UINT64_MAX);
    out->trial = number_of(parse, "trial", UINT64_MAX);
    out->rung = (uint32_t)number_of(parse, "rung", UINT32_MAX);
}

static void parse_point(struct parse *parse, struct trials_line *out)
{
    out->point = text_of(parse, "point");
    const struct jnode *params = list_of(parse, "params", JREAD_OBJECT, SIZE_MAX);
    AUTO_STR struct str text = {0};
    jread_add(&text, params);
    out->params = arena_strndup(parse->arena, str_text(&text), text.size);
}

static void parse_suggested(struct parse *parse, struct trials_line *out)
{
    parse_task(parse, out);
    const struct jnode *budget = jread_get(parse->root, "budget");
    out->has_budget = budget && budget->kind != JREAD_NULL;
    if (out->has_budget) {
        out->budget = number_of(parse, "budget", UINT64_MAX);
    }
    parse_point(parse, out);
}

static void parse_metrics(struct parse *parse, struct trials_line *out)
{
    const struct jnode *metrics = list_of(parse, "metrics", JREAD_OBJECT, TRIALS_METRICS_MAX);
    size_t count = metrics ? metrics->count : 0;
    struct trials_metric *list = arena_alloc(parse->arena, (count + 1) * sizeof *list);
    const struct jnode *node = metrics ? metrics->first : NULL;
    for (size_t i = 0; node; node = node->next) {
        list[i].name = arena_strdup(parse->arena, node->key);
        if (!double_of(node, &list[i++].value)) {
            blame(parse, "metrics");
        }
    }
    out->metrics = list;
    out->metric_count = count;
}

static void parse_state(struct parse *parse, struct trials_line *out)
{
    const char *state = text_of(parse, "state");
    for (int i = TRIALS_SUCCEEDED; i <= TRIALS_CANCELLED; i++) {
        if (strcmp(state, trials_state_name((enum trials_state)i)) == 0) {
            out->state = (enum trials_state)i;
            return;
        }
    }
    blame(parse, "state");
}

static void parse_values(struct parse *parse, struct trials_line *out)
{
    const struct jnode *values = list_of(parse, "values", JREAD_ARRAY, TRIALS_GOALS_MAX);
    for (const struct jnode *node = jread_first(values); node; node = node->next) {
        if (!double_of(node, &out->values[out->value_count++])) {
            blame(parse, "values");
        }
    }
    for (size_t i = 0; out->state == TRIALS_SUCCEEDED && i < out->value_count; i++) {
        if (isnan(out->values[i])) {
            blame(parse, "values");
        }
    }
}

static void parse_warm(struct parse *parse, struct trials_line *out)
{
    out->from = text_of(parse, "from");
    out->trial = number_of(parse, "trial", UINT64_MAX);
    parse_state(parse, out);
    parse_values(parse, out);
    parse_point(parse, out);
}

static void parse_result(struct parse *parse, struct trials_line *out)
{
    parse_task(parse, out);
    parse_state(parse, out);
    parse_metrics(parse, out);
    parse_values(parse, out);
    const struct jnode *reason = jread_get(parse->root, "reason");
    out->reason = reason && reason->kind != JREAD_NULL ? text_of(parse, "reason") : NULL;
    const struct jnode *step = jread_get(parse->root, "step");
    if (!double_of(step, &out->step)) {
        blame(parse, "step");
    }
    out->has_step = step && step->kind == JREAD_NUMBER;
    out->step = out->has_step ? out->step : 0;
}

static void parse_kind(struct parse *parse, struct trials_line *out)
{
    const char *kind = text_of(parse, "kind");
    if (strcmp(kind, "search") == 0) {
        out->kind = TRIALS_SEARCH;
        parse_search(parse, out);
    } else if (strcmp(kind, "suggested") == 0) {
        out->kind = TRIALS_SUGGESTED;
        parse_suggested(parse, out);
    } else if (strcmp(kind, "result") == 0) {
        out->kind = TRIALS_RESULT;
        parse_result(parse, out);
    } else if (strcmp(kind, "warm") == 0) {
        out->kind = TRIALS_WARM;
        parse_warm(parse, out);
    } else if (strcmp(kind, "stop") == 0) {
        out->kind = TRIALS_STOP;
        out->why = text_of(parse, "why");
    } else {
        blame(parse, "kind");
    }
}

enum err_code trials_parse(const char *text, size_t size, struct arena *arena,
                           struct trials_line *out, struct err *err)
{
    struct jread doc = {0};
    struct err why = {0};
    if (size > TRIALS_LINE_MAX || jread_parse(&doc, text, size, &why) != ERR_OK) {
        return err_set(err, ERR_CORRUPT, "%.300s", why.text[0] ? why.text : "it is too long");
    }
    struct parse parse = {.root = doc.root, .arena = arena};
    *out = (struct trials_line){0};
    if (number_of(&parse, "v", UINT64_MAX) != 1) {
        blame(&parse, "v");
    }
    out->experiment = text_of(&parse, "experiment");
    size_t name_size = strlen(out->experiment);
    if (name_size == 0 || name_size > TRIALS_EXPERIMENT_MAX) {
        blame(&parse, "experiment");
    }
    out->at_ms = (int64_t)number_of(&parse, "at", INT64_MAX);
    parse_kind(&parse, out);
    enum err_code code = ERR_OK;
    if (parse.wrong) {
        code = err_set(err, ERR_CORRUPT, "'%s' is missing or makes no sense", parse.wrong);
    }
    jread_release(&doc);
    return code;
}
