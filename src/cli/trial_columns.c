#include "cli/trial_columns.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 64 }; /* values that a description lists */

/* A column while it is looked at. */
struct column {
    const struct trial_column *from;
    const char **words; /* of the trials: NULL where absent */
    bool numeric;       /* all that are there are numbers */
    const char **choices;
    size_t choice_count;
};

static const char *word_of(const struct jnode *value, struct arena *arena)
{
    if (value->kind == JREAD_TEXT) {
        return value->text;
    }
    if (value->kind != JREAD_ARRAY && value->kind != JREAD_OBJECT) {
        return value->raw;
    }
    AUTO_STR struct str text = {0};
    jread_add(&text, value);
    return arena_strdup(arena, str_text(&text));
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int by_number(const void *left, const void *right)
{
    double a = strtod(*(const char *const *)left, NULL);
    double b = strtod(*(const char *const *)right, NULL);
    return a != b ? (a > b) - (a < b) : by_text(left, right);
}

static size_t find(const struct column *column, const char *word)
{
    for (size_t i = 0; i < column->choice_count; i++) {
        if (strcmp(column->choices[i], word) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* The recipe's values first; then those that only trials have. */
static void find_choices(struct column *column, size_t trial_count, struct arena *arena)
{
    const struct jnode *listed = jread_get(column->from->about, "values");
    size_t most = trial_count + NAMED_MAX;
    const char **seen = mem_array(trial_count, sizeof *seen);
    size_t seen_count = 0;
    column->choices = arena_alloc(arena, most * sizeof *column->choices);
    for (const struct jnode *value = jread_first(listed); value && column->choice_count < NAMED_MAX;
         value = value->next) {
        column->choices[column->choice_count++] = word_of(value, arena);
    }
    size_t named = column->choice_count;
    for (size_t i = 0; i < trial_count; i++) {
        if (column->words[i] && (named == 0 || find(column, column->words[i]) == SIZE_MAX)) {
            seen[seen_count++] = column->words[i];
        }
    }
    qsort(seen, seen_count, sizeof *seen, column->numeric ? by_number : by_text);
    for (size_t i = 0; i < seen_count; i++) {
        if (i == 0 || strcmp(seen[i], seen[i - 1]) != 0) {
            column->choices[column->choice_count++] = seen[i];
        }
    }
    free(seen);
}

/* The index of each trial's word. Unlisted words are sorted, so that many of them cost little. */
static void fill_choices(const struct column *column, double *values, size_t stride,
                         size_t trial_count)
{
    bool listed = jread_first(jread_get(column->from->about, "values")) != NULL;
    for (size_t i = 0; i < trial_count; i++) {
        const char *word = column->words[i];
        values[i * stride] = (double)NAN;
        if (word && listed) {
            values[i * stride] = (double)find(column, word);
        } else if (word) {
            const char **at = bsearch(&word, column->choices, column->choice_count, sizeof word,
                                      column->numeric ? by_number : by_text);
            CHECK(at);
            values[i * stride] = (double)(at - column->choices);
        }
    }
}

static void describe(const struct column *column, struct trial_param *param,
                     struct importance_param *share)
{
    const struct jnode *about = column->from->about;
    const char *kind = jread_text(about, "kind", "");
    bool log = strcmp(kind, "log") == 0;
    *param =
        (struct trial_param){.name = column->from->name, .kind = log ? TRIAL_LOG : TRIAL_NUMBER};
    *share = (struct importance_param){.kind = log ? IMPORTANCE_LOG : IMPORTANCE_NUMBER,
                                       .low = jread_number(about, "low", 0),
                                       .high = jread_number(about, "high", 0),
                                       .step = jread_number(about, "step", 0)};
    if (column->choices) {
        bool ordered = strcmp(kind, "ordered") == 0 || (!about && column->numeric);
        param->kind = TRIAL_CATEGORY;
        param->choices = column->choices;
        param->choice_count = column->choice_count;
        *share = (struct importance_param){
            .kind = ordered ? IMPORTANCE_NUMBER : IMPORTANCE_CATEGORY,
            .high = column->choice_count > 0 ? (double)column->choice_count - 1 : 0,
            .step = 1};
    }
}

static bool is_range(const struct column *column)
{
    const char *kind = jread_text(column->from->about, "kind", "");
    if (!column->from->about) {
        return column->numeric;
    }
    return column->numeric && (strcmp(kind, "uniform") == 0 || strcmp(kind, "log") == 0 ||
                               strcmp(kind, "normal") == 0);
}

/* False: it has one value alone, or none. */
static bool read_column(struct column *column, const struct trial_search *search,
                        const size_t *rows, size_t row_count, struct arena *arena)
{
    bool varies = false;
    const char *first = NULL;
    bool absent = false;
    column->words = arena_alloc(arena, row_count * sizeof *column->words);
    column->numeric = true;
    for (size_t i = 0; i < row_count; i++) {
        const struct jnode *value = trial_param(&search->trials[rows[i]], column->from->name);
        absent = absent || !value;
        if (!value) {
            continue;
        }
        column->words[i] = word_of(value, arena);
        column->numeric = column->numeric && value->kind == JREAD_NUMBER;
        first = first ? first : column->words[i];
        varies = varies || strcmp(first, column->words[i]) != 0;
    }
    return first && (varies || absent);
}

static void fill_column(const struct column *column, struct trial_columns *out, double *values,
                        size_t stride)
{
    size_t at = out->table.param_count++;
    describe(column, (struct trial_param *)&out->table.params[at], &out->params[at]);
    if (column->choices) {
        fill_choices(column, values + at, stride, out->table.trial_count);
        return;
    }
    for (size_t i = 0; i < out->table.trial_count; i++) {
        values[i * stride + at] = column->words[i] ? strtod(column->words[i], NULL) : (double)NAN;
    }
}

/* Trials that are over, or have a value already; in order of their numbers. */
static size_t *find_rows(const struct trial_search *search, size_t *count)
{
    size_t *rows = trial_set_by_number(search);
    *count = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct trial *trial = &search->trials[rows[i]];
        if (trial->rated || !trial->open) {
            rows[(*count)++] = rows[i];
        }
    }
    return rows;
}

static void fill_results(const struct trial_search *search, size_t goal, const size_t *rows,
                         struct arena *arena, struct trial_table *table)
{
    double *objective = arena_alloc(arena, table->trial_count * sizeof *objective);
    uint64_t *numbers = arena_alloc(arena, table->trial_count * sizeof *numbers);
    for (size_t i = 0; i < table->trial_count; i++) {
        const struct trial *trial = &search->trials[rows[i]];
        objective[i] = trial->rated ? trial->values[goal] : (double)NAN;
        numbers[i] = trial->number;
    }
    table->objective = objective;
    table->numbers = numbers;
    table->metric = search->metrics[goal];
    table->maximize = search->maximize[goal];
}

/* Rows are as wide as there are columns that vary, which is known only at the end. */
static const double *pack(double *values, size_t stride, const struct trial_table *table)
{
    for (size_t i = 0; i < table->trial_count; i++) {
        memmove(values + i * table->param_count, values + i * stride,
                table->param_count * sizeof *values);
    }
    return values;
}

void trial_columns_make(const struct trial_search *search, size_t goal, struct arena *arena,
                        struct trial_columns *out)
{
    CHECK(goal < search->goal_count);
    size_t stride = search->column_count;
    size_t room = stride > 0 ? stride : 1;
    *out = (struct trial_columns){0};
    AUTO_FREE size_t *rows = find_rows(search, &out->table.trial_count);
    double *values = arena_alloc(arena, room * out->table.trial_count * sizeof *values);
    out->table.params = arena_alloc(arena, room * sizeof *out->table.params);
    out->params = arena_alloc(arena, room * sizeof *out->params);
    out->which = arena_alloc(arena, room * sizeof *out->which);
    fill_results(search, goal, rows, arena, &out->table);
    for (size_t i = 0; i < search->column_count; i++) {
        struct column column = {.from = &search->columns[i]};
        if (read_column(&column, search, rows, out->table.trial_count, arena)) {
            if (!is_range(&column)) {
                find_choices(&column, out->table.trial_count, arena);
            }
            out->which[out->table.param_count] = i;
            fill_column(&column, out, values, stride);
        }
    }
    out->table.values = pack(values, stride, &out->table);
}
