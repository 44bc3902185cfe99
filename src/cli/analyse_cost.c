/* drover analyse cost */
#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/analyse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The prices given, then for the types left the cheapest of the catalogs. */
struct price_list {
    struct costtab_price *items;
    size_t count;
    size_t cap;
};

static bool has_price(const struct price_list *list, const char *type)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].type, type) == 0) {
            return true;
        }
    }
    return false;
}

static const struct catalog_row *cheapest_of(const struct catalog *catalog, const char *type,
                                             const char *currency)
{
    const struct catalog_row *found = NULL;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct catalog_row *row = &catalog->rows[i];
        if (strcmp(row->type, type) == 0 && strcmp(row->currency, currency) == 0 &&
            (!found || row->price_hour_micro < found->price_hour_micro)) {
            found = row;
        }
    }
    return found;
}

static void add_catalog_prices(struct price_list *list, const struct curve_set *set,
                               const struct catalog *catalog, const char *currency)
{
    for (size_t i = 0; i < set->count; i++) {
        const char *type = set->runs[i].type;
        const struct catalog_row *row =
            has_price(list, type) ? NULL : cheapest_of(catalog, type, currency);
        if (row) {
            VEC_PUSH(list->items, list->count, list->cap) = (struct costtab_price){
                .type = type, .price_hour_micro = row->price_hour_micro, .billing = row->billing};
        }
    }
}

static void add_mean(struct json *json, const char *key, const char *deviation_key,
                     const struct costtab_mean *mean)
{
    json_key(json, key), json_double(json, mean->mean);
    json_key(json, deviation_key), json_double(json, mean->deviation);
}

static void add_row_json(const struct costtab *table, size_t index, const char *currency,
                         struct str *out)
{
    const struct costtab_row *row = &table->rows[index];
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "type"), json_text(&json, row->type);
    json_key(&json, "batch"), json_double(&json, row->batch);
    json_key(&json, "step"), json_double(&json, row->step);
    json_key(&json, "runs"), json_u64(&json, row->runs);
    json_key(&json, "runs_short"), json_u64(&json, row->runs_short);
    add_mean(&json, "time_s", "time_deviation_s", &row->time_s);
    json_key(&json, "speedup"), json_double(&json, row->speedup);
    add_mean(&json, "metric", "metric_deviation", &row->metric);
    add_mean(&json, "cost", "cost_deviation", &row->cost);
    json_key(&json, "currency"), json_text(&json, currency);
    json_key(&json, "saving"), json_double(&json, row->saving);
    json_key(&json, "pareto"), json_bool(&json, row->on_front);
    json_key(&json, "meets_target"), json_bool(&json, row->meets_target);
    json_key(&json, "cheapest"), json_bool(&json, table->cheapest == (int)index);
    json_key(&json, "fastest"), json_bool(&json, table->fastest == (int)index);
    json_key(&json, "best"), json_bool(&json, table->best == (int)index);
    json_key(&json, "baseline"), json_bool(&json, table->baseline == (int)index);
    json_end(&json);
    str_add_char(out, '\n');
}

static void add_row_line(const struct costtab_row *row, double unit_s, struct str *out)
{
    analyse_add_number(out, 6, row->batch);
    str_addf(out, "  %-16.16s", row->type[0] ? row->type : "-");
    analyse_add_number(out, 9, row->step);
    str_addf(out, " %4zu", row->runs);
    str_addf(out, "  %8.3f ± %-8.2g", row->time_s.mean / unit_s, row->time_s.deviation / unit_s);
    if (isnan(row->speedup)) {
        str_addf(out, "%8s", "-");
    } else {
        str_addf(out, "%8.2f", row->speedup);
    }
    str_addf(out, "  %9.5g ± %-8.2g", row->metric.mean, row->metric.deviation);
    str_addf(out, "%9.4f ± %-7.2g", row->cost.mean, row->cost.deviation);
    str_addf(out, "%s%s\n", row->on_front ? " pareto" : "",
             row->meets_target ? "" : " below target");
}

static void add_choice(const char *what, const struct costtab *table, int index,
                       const struct analyse *analyse, struct str *out)
{
    if (index < 0) {
        str_addf(out, "%-16s none reaches the target\n", what);
        return;
    }
    const struct costtab_row *row = &table->rows[index];
    str_addf(out, "%-16s %s", what, row->type[0] ? row->type : "-");
    if (!isnan(row->batch)) {
        str_addf(out, ", batch %g", row->batch);
    }
    str_addf(out, ": %.4f %s, %.3f h", row->cost.mean, analyse->currency,
             row->time_s.mean / MONEY_HOUR_S);
    if (index != table->baseline && !isnan(row->saving)) {
        str_addf(out, ", %.0f %% %s than %s", 100 * fabs(row->saving),
                 row->saving >= 0 ? "cheaper" : "dearer", table->rows[table->baseline].type);
    }
    str_add_char(out, '\n');
}

static void add_table(const struct analyse *analyse, const struct costtab *table, struct str *out)
{
    double longest_s = 0;
    for (size_t i = 0; i < table->count; i++) {
        longest_s = fmax(longest_s, table->rows[i].time_s.mean);
    }
    bool hours = longest_s >= 600;
    str_addf(out, "%6s  %-16s%9s %4s  %-19s%8s  %-20s%-18s\n", "BATCH", "TYPE", "STEP", "RUNS",
             hours ? "TIME (h)" : "TIME (s)", "SPEEDUP", "METRIC", "COST");
    for (size_t i = 0; i < table->count; i++) {
        add_row_line(&table->rows[i], hours ? MONEY_HOUR_S : 1, out);
    }
    const struct costtab_row *baseline = &table->rows[table->baseline];
    str_addf(out, "\nspeed-up against %s; savings against %s%s", baseline->type, baseline->type,
             isnan(baseline->batch) ? "" : ", batch ");
    if (!isnan(baseline->batch)) {
        str_addf(out, "%g", baseline->batch);
    }
    str_add_char(out, '\n');
    add_choice("cheapest", table, table->cheapest, analyse, out);
    add_choice("fastest", table, table->fastest, analyse, out);
    add_choice("best trade-off", table, table->best, analyse, out);
    if (table->unstable_batches > 0) {
        str_addf(out, "%zu set-ups left out: their batch size is not yet stable\n",
                 table->unstable_batches);
    }
}

static void draw(const struct draw_target *target, const struct analyse *analyse,
                 const struct costtab *table)
{
    struct draw_setup *setups = mem_array(table->count, sizeof *setups);
    struct arena arena = {0};
    for (size_t i = 0; i < table->count; i++) {
        const struct costtab_row *row = &table->rows[i];
        AUTO_STR struct str name = {0};
        str_addf(&name, "%.60s", row->type);
        if (!isnan(row->batch)) {
            str_addf(&name, "%s%g", name.size > 0 ? ", " : "batch ", row->batch);
        }
        setups[i] = (struct draw_setup){.time_s = row->time_s.mean,
                                        .cost = row->cost.mean,
                                        .name = arena_strdup(&arena, str_text(&name)),
                                        .kind = row->type,
                                        .on_front = row->on_front};
    }
    draw_cost_map(target, setups, table->count, analyse->currency);
    arena_release(&arena);
    free(setups);
}

static int show(const struct analyse *analyse, const struct costtab *table)
{
    AUTO_STR struct str out = {0};
    AUTO_STR struct str svg = {0};
    if (analyse->as_json) {
        for (size_t i = 0; i < table->count; i++) {
            add_row_json(table, i, analyse->currency, &out);
        }
    } else {
        add_table(analyse, table, &out);
    }
    struct draw_target target = analyse_target(analyse, &svg, &out);
    if (target.text) {
        str_add_char(&out, '\n');
    }
    if (target.text || target.svg) {
        draw(&target, analyse, table);
    }
    cli_write(&out);
    return analyse_write_svg(analyse, &svg);
}

static int make_and_show(const struct analyse *analyse, const struct analysed *analysed,
                         const struct price_list *prices)
{
    struct costtab_options options = {.goal = analyse->stabilise.goal,
                                      .prices = prices->items,
                                      .price_count = prices->count,
                                      .points = analyse->points,
                                      .point_count = analyse->point_count,
                                      .has_target = analyse->has_target,
                                      .target = analyse->target,
                                      .baseline_type = analyse->baseline};
    struct costtab table;
    struct err err;
    enum err_code code = costtab_make(&analysed->set, analysed->results, &options, &table, &err);
    if (code != ERR_OK) {
        bool price = code == ERR_NOT_FOUND && !analyse->baseline;
        return cli_error(EXIT_USAGE, "%s%s", err.text,
                         price ? " (--price TYPE=AMOUNT or --catalog FILE)" : "");
    }
    int exit_code = show(analyse, &table);
    costtab_release(&table);
    return exit_code;
}

int analyse_cost(const struct analyse *analyse)
{
    struct analysed analysed;
    struct catalog catalog = {0};
    struct price_list prices = {0};
    int code = analyse_read(analyse, &analysed);
    if (code == EXIT_DONE && analyse->catalogs.count > 0) {
        code = catalog_files_read(&analyse->catalogs, &catalog);
    }
    if (code == EXIT_DONE) {
        for (size_t i = 0; i < analyse->price_count; i++) {
            VEC_PUSH(prices.items, prices.count, prices.cap) = analyse->prices[i];
        }
        add_catalog_prices(&prices, &analysed.set, &catalog, analyse->currency);
        code = make_and_show(analyse, &analysed, &prices);
    }
    free(prices.items);
    catalog_release(&catalog);
    analysed_release(&analysed);
    return code;
}
