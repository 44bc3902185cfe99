#include "cli/trial_show.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_COLUMNS_MAX = 28, BAR_COLUMNS = 40, RAW_DIGITS_MAX = 9 };

void trial_show_number(struct str *out, double number)
{
    if (isfinite(number)) {
        str_addf(out, "%.6g", number);
    } else {
        str_add_char(out, '-');
    }
}

void trial_show_param(struct str *out, const struct jnode *value)
{
    if (!value) {
        str_add_char(out, '-');
    } else if (value->kind == JREAD_TEXT) {
        jread_add_clean(out, value->text);
    } else if (value->kind == JREAD_NUMBER && value->raw_size > RAW_DIGITS_MAX &&
               strpbrk(value->raw, ".eE")) {
        trial_show_number(out, trial_number(value));
    } else {
        AUTO_STR struct str raw = {0};
        jread_add(&raw, value);
        jread_add_clean(out, str_text(&raw));
    }
}

/* --- heading -----------------------------------------------------------------------------------
 */

static void add_goals(struct str *out, const struct trial_search *search)
{
    for (size_t i = 0; i < search->goal_count; i++) {
        str_addf(out, "%s%s ", i > 0 ? ", " : "", search->maximize[i] ? "maximize" : "minimize");
        jread_add_clean(out, search->metrics[i]);
    }
}

static void add_algorithm(struct str *out, const struct jnode *node)
{
    const char *why = jread_text(node, "why", "");
    str_add(out, "; ");
    jread_add_clean(out, why[0] ? why : jread_text(node, "algorithm", "?"));
}

static void add_count(struct str *out, size_t count, const char *what)
{
    if (count > 0) {
        str_addf(out, ", %zu %s", count, what);
    }
}

static size_t count_lost(const struct trial_search *search)
{
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++) {
        count += !search->trials[i].rated && !search->trials[i].open;
    }
    return count;
}

void trial_show_heading(struct str *out, const struct trial_set *set,
                        const struct trial_search *search)
{
    const char *closed = jread_text(search->node, "closed", "");
    uint64_t planned = jread_u64(search->node, "trials", 0);
    uint64_t warm = jread_u64(search->node, "warm", 0);
    jread_add_clean(out, set->workflow);
    str_add_char(out, '/');
    jread_add_clean(out, search->experiment);
    str_add(out, ": ");
    add_goals(out, search);
    add_algorithm(out, search->node);
    str_addf(out, "\n%zu", search->count);
    if (planned > 0) {
        str_addf(out, " of %" PRIu64, planned);
    }
    str_addf(out, " trials; %zu with a value", search->rated);
    add_count(out, search->open, "under way");
    add_count(out, count_lost(search), "without one");
    if (warm > 0) {
        str_addf(out, "; %" PRIu64 " of earlier workflows were known", warm);
    }
    if (closed[0]) {
        str_add(out, "; over: ");
        jread_add_clean(out, closed);
    }
    str_add_char(out, '\n');
}

/* --- table -------------------------------------------------------------------------------------
 */

/* Cells by row and column; the first row is the heading. */
struct grid {
    struct str cells;
    size_t *ends; /* of each cell in `cells` */
    size_t count;
    size_t cap;
    size_t columns;
    int *widths;
    bool *left; /* aligned so: words */
};

static void grid_end_cell(struct grid *grid)
{
    size_t column = grid->count % grid->columns;
    size_t start = grid->count > 0 ? grid->ends[grid->count - 1] : 0;
    int width = view_width(str_text(&grid->cells) + start, grid->cells.size - start);
    if (width > CELL_COLUMNS_MAX) {
        /* characters are cut off at their end, so that no UTF-8 is torn */
        while (width >= CELL_COLUMNS_MAX) {
            do {
                grid->cells.size--;
            } while (((unsigned char)grid->cells.text[grid->cells.size] & 0xc0) == 0x80);
            width--;
        }
        grid->cells.text[grid->cells.size] = '\0';
        str_add_char(&grid->cells, '~');
        width++;
    }
    grid->widths[column] = width > grid->widths[column] ? width : grid->widths[column];
    VEC_PUSH(grid->ends, grid->count, grid->cap) = grid->cells.size;
}

static void grid_add(struct grid *grid, const char *text)
{
    jread_add_clean(&grid->cells, text);
    grid_end_cell(grid);
}

static void grid_add_u64(struct grid *grid, const struct jnode *node)
{
    trial_show_param(&grid->cells, node && node->kind != JREAD_NULL ? node : NULL);
    grid_end_cell(grid);
}

static void grid_print(const struct grid *grid, struct str *out)
{
    size_t start = 0;
    for (size_t i = 0; i < grid->count; i++) {
        size_t column = i % grid->columns;
        const char *text = str_text(&grid->cells) + start;
        size_t size = grid->ends[i] - start;
        size_t padding = (size_t)(grid->widths[column] - view_width(text, size));
        bool last = column + 1 == grid->columns;
        str_add(out, column > 0 ? "  " : "");
        str_add_repeat(out, " ", grid->left[column] ? 0 : padding);
        str_add_bytes(out, text, size);
        str_add_repeat(out, " ", grid->left[column] && !last ? padding : 0);
        start = grid->ends[i];
        if (last) {
            while (out->size > 0 && out->text[out->size - 1] == ' ') {
                out->text[--out->size] = '\0';
            }
            str_add_char(out, '\n');
        }
    }
}

static void grid_release(struct grid *grid)
{
    str_release(&grid->cells);
    free(grid->ends);
    free(grid->widths);
    free(grid->left);
}

/* What a table of this search has besides metrics and parameters. */
struct table_parts {
    bool rungs;   /* more than one of them is in use */
    bool budgets; /* given */
    bool reasons;
    bool several; /* metrics: the front is marked */
};

static struct table_parts find_parts(const struct trial_search *search, size_t limit)
{
    struct table_parts parts = {.several = search->goal_count > 1};
    for (size_t i = 0; i < search->count && i < limit; i++) {
        const struct trial *trial = &search->trials[i];
        const struct jnode *budget = jread_get(trial->node, "budget");
        parts.rungs = parts.rungs || jread_u64(trial->node, "rung", 0) > 0;
        parts.budgets = parts.budgets || (budget && budget->kind == JREAD_NUMBER);
        parts.reasons = parts.reasons || trial->reason[0];
    }
    return parts;
}

static void grid_head(struct grid *grid, const struct trial_search *search,
                      const struct table_parts *parts)
{
    grid->columns = 2 + search->goal_count + parts->rungs + parts->budgets + search->column_count +
                    parts->reasons;
    grid->widths = mem_array(grid->columns, sizeof *grid->widths);
    grid->left = mem_array(grid->columns, sizeof *grid->left);
    grid->left[1] = true;
    grid->left[grid->columns - 1] = parts->reasons;
    grid_add(grid, "trial");
    grid_add(grid, "state");
    for (size_t i = 0; i < search->goal_count; i++) {
        grid_add(grid, search->metrics[i]);
    }
    if (parts->rungs) {
        grid_add(grid, "rung");
    }
    if (parts->budgets) {
        const char *resource = jread_text(search->node, "resource", "");
        grid_add(grid, resource[0] ? resource : "budget");
    }
    for (size_t i = 0; i < search->column_count; i++) {
        grid_add(grid, search->columns[i].name);
    }
    if (parts->reasons) {
        grid_add(grid, "why");
    }
}

static void grid_row(struct grid *grid, const struct trial_search *search,
                     const struct trial *trial, const struct table_parts *parts)
{
    str_addf(&grid->cells, "%s%" PRIu64, parts->several && trial->best ? "*" : "", trial->number);
    grid_end_cell(grid);
    grid_add(grid, trial->state);
    for (size_t i = 0; i < search->goal_count; i++) {
        trial_show_number(&grid->cells, trial->values[i]);
        grid_end_cell(grid);
    }
    if (parts->rungs) {
        grid_add_u64(grid, jread_get(trial->node, "rung"));
    }
    if (parts->budgets) {
        grid_add_u64(grid, jread_get(trial->node, "budget"));
    }
    for (size_t i = 0; i < search->column_count; i++) {
        trial_show_param(&grid->cells, trial_param(trial, search->columns[i].name));
        grid_end_cell(grid);
    }
    if (parts->reasons) {
        grid_add(grid, trial->reason);
    }
}

void trial_show_table(struct str *out, const struct trial_search *search, size_t limit)
{
    struct table_parts parts = find_parts(search, limit);
    struct grid grid = {0};
    grid_head(&grid, search, &parts);
    for (size_t i = 0; i < search->count && i < limit; i++) {
        grid_row(&grid, search, &search->trials[i], &parts);
    }
    grid_print(&grid, out);
    grid_release(&grid);
    if (parts.several && search->rated > 0) {
        str_add(out, "* no other trial is at least as good in every metric and better in one\n");
    }
}

/* --- importance --------------------------------------------------------------------------------
 */

static int by_share(const void *left, const void *right)
{
    const struct importance_pair *a = left;
    const struct importance_pair *b = right;
    if (a->share != b->share) {
        return a->share > b->share ? -1 : 1;
    }
    return (a->a > b->a) - (a->a < b->a);
}

static size_t sort_mains(const struct trial_search *search, const struct importance *found,
                         struct importance_pair *out)
{
    size_t count = search->column_count;
    CHECK(count <= IMPORTANCE_PARAMS_MAX);
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct importance_pair){.a = i, .b = i, .share = found->main[i]};
    }
    qsort(out, count, sizeof *out, by_share);
    return count;
}

static void add_bar(struct str *out, const struct str *name, int columns, double share)
{
    size_t length = (size_t)(fmin(fmax(share, 0), 1) * BAR_COLUMNS + 0.5);
    int width = view_width(str_text(name), name->size);
    str_add(out, "  ");
    str_add_bytes(out, str_text(name), name->size);
    str_add_repeat(out, " ", (size_t)(columns > width ? columns - width : 0));
    str_addf(out, " %5.1f %%%s", 100 * share, length > 0 ? "  " : "");
    str_add_repeat(out, "#", length);
    str_add_char(out, '\n');
}

static void add_pair_name(struct str *out, const struct trial_search *search,
                          const struct importance_pair *pair)
{
    str_clear(out);
    jread_add_clean(out, search->columns[pair->a].name);
    if (pair->a != pair->b) {
        str_add(out, " x ");
        jread_add_clean(out, search->columns[pair->b].name);
    }
}

void trial_show_importance(struct str *out, const struct trial_search *search, size_t goal,
                           const struct importance *found)
{
    struct importance_pair mains[IMPORTANCE_PARAMS_MAX];
    AUTO_STR struct str name = {0};
    size_t count = sort_mains(search, found, mains);
    int columns = (int)strlen("everything else");
    for (int drawing = 0; drawing < 2; drawing++) {
        for (size_t i = 0; i < count + found->pair_count; i++) {
            const struct importance_pair *pair = i < count ? &mains[i] : &found->pairs[i - count];
            if (i >= count && pair->share < 0.001) {
                continue;
            }
            add_pair_name(&name, search, pair);
            int width = view_width(str_text(&name), name.size);
            columns = width > columns ? width : columns;
            if (drawing) {
                add_bar(out, &name, columns, pair->share);
            }
        }
        if (!drawing) {
            str_add(out, "share of the variation of ");
            jread_add_clean(out, search->metrics[goal]);
            str_addf(out, " that each parameter explains (fANOVA: a random forest on %zu trials)\n",
                     found->used);
        }
    }
    str_clear(&name);
    str_add(&name, "everything else");
    add_bar(out, &name, columns, found->rest);
    str_addf(out, "the forest foretells %.0f %% of the variance of trials it was not shown%s\n",
             100 * fmax(found->fit, 0),
             found->fit < IMPORTANCE_FIT_MIN ? ": too little to conclude anything" : "");
}

void trial_show_importance_json(struct str *out, const struct trial_search *search, size_t goal,
                                const struct importance *found)
{
    struct importance_pair mains[IMPORTANCE_PARAMS_MAX];
    size_t count = sort_mains(search, found, mains);
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "experiment"), json_text(&json, search->experiment);
    json_key(&json, "metric"), json_text(&json, search->metrics[goal]);
    json_key(&json, "method"), json_text(&json, "fanova");
    json_key(&json, "trials"), json_u64(&json, found->used);
    json_key(&json, "fit"), json_double(&json, found->fit);
    json_key(&json, "reliable"), json_bool(&json, found->fit >= IMPORTANCE_FIT_MIN);
    json_key(&json, "parameters");
    json_array(&json);
    for (size_t i = 0; i < count; i++) {
        json_object(&json);
        json_key(&json, "name"), json_text(&json, search->columns[mains[i].a].name);
        json_key(&json, "share"), json_double(&json, mains[i].share);
        json_end(&json);
    }
    json_end(&json);
    json_key(&json, "pairs");
    json_array(&json);
    for (size_t i = 0; i < found->pair_count; i++) {
        json_object(&json);
        json_key(&json, "names");
        json_array(&json);
        json_text(&json, search->columns[found->pairs[i].a].name);
        json_text(&json, search->columns[found->pairs[i].b].name);
        json_end(&json);
        json_key(&json, "share"), json_double(&json, found->pairs[i].share);
        json_end(&json);
    }
    json_end(&json);
    json_key(&json, "rest"), json_double(&json, found->rest);
    json_end(&json);
    str_add_char(out, '\n');
}
