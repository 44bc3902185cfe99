/* drover analyse map: set-ups with a time and a cost each, whatever they came from, as a map with
 * its Pareto front. */
#include "base/csv.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/analyse.h"

#include <math.h>
#include <stdlib.h>

struct map {
    struct draw_setup *setups;
    size_t count;
    size_t cap;
};

static enum err_code read_amount(const struct csv *csv, size_t row, int column, double *out,
                                 struct err *err)
{
    enum err_code code = csv_number(csv, row, (size_t)column, out, err);
    if (code == ERR_NOT_FOUND || (code == ERR_OK && (*out < 0 || *out > 1e15))) {
        return err_set(err, ERR_INVALID, "line %d: %s must be a number from 0 to 1e15",
                       csv_row_line(csv, row), csv_column_name(csv, (size_t)column));
    }
    return code;
}

static enum err_code read_setups(const struct analyse *analyse, const struct csv *csv,
                                 struct map *map, struct err *err)
{
    int name = csv_find_column(csv, "name");
    int time = csv_find_column(csv, "time");
    time = time >= 0 ? time : csv_find_column(csv, "time_s");
    int cost = csv_find_column(csv, "cost");
    int kind = csv_find_column(csv, "kind");
    if (name < 0 || time < 0 || cost < 0) {
        return err_set(err, ERR_INVALID, "no column '%s'",
                       name < 0   ? "name"
                       : time < 0 ? "time"
                                  : "cost");
    }
    double unit_s = analyse->columns.time_unit_s > 0 ? analyse->columns.time_unit_s : 1;
    enum err_code code = ERR_OK;
    for (size_t row = 0; row < csv_row_count(csv) && code == ERR_OK; row++) {
        struct draw_setup setup = {.name = csv_text(csv, row, (size_t)name),
                                   .kind = kind >= 0 ? csv_text(csv, row, (size_t)kind) : ""};
        code = read_amount(csv, row, time, &setup.time_s, err);
        setup.time_s *= unit_s;
        code = code == ERR_OK ? read_amount(csv, row, cost, &setup.cost, err) : code;
        VEC_PUSH(map->setups, map->count, map->cap) = setup;
    }
    if (code == ERR_OK && map->count == 0) {
        code = err_set(err, ERR_INVALID, "no set-ups");
    }
    return code;
}

static int by_time_then_cost(const void *left, const void *right)
{
    const struct draw_setup *a = left;
    const struct draw_setup *b = right;
    int by_time = (a->time_s > b->time_s) - (a->time_s < b->time_s);
    return by_time != 0 ? by_time : (a->cost > b->cost) - (a->cost < b->cost);
}

/* In order of time, a set-up is on the front if it is cheaper than all before it. */
static void find_front(struct map *map)
{
    CHECK(map->setups);
    qsort(map->setups, map->count, sizeof *map->setups, by_time_then_cost);
    double cheapest = INFINITY;
    for (size_t i = 0; i < map->count; i++) {
        map->setups[i].on_front = map->setups[i].cost < cheapest;
        cheapest = fmin(cheapest, map->setups[i].cost);
    }
}

static void add_json(const struct analyse *analyse, const struct draw_setup *setup, struct str *out)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "name"), json_text(&json, setup->name);
    json_key(&json, "kind"), json_text(&json, setup->kind);
    json_key(&json, "time_s"), json_double(&json, setup->time_s);
    json_key(&json, "cost"), json_double(&json, setup->cost);
    json_key(&json, "currency"), json_text(&json, analyse->currency);
    json_key(&json, "pareto"), json_bool(&json, setup->on_front);
    json_end(&json);
    str_add_char(out, '\n');
}

static int show(const struct analyse *analyse, const struct map *map)
{
    AUTO_STR struct str out = {0};
    AUTO_STR struct str svg = {0};
    if (!analyse->as_json) {
        str_addf(&out, "%-32s %12s %12s\n", "SET-UP", "TIME (h)", "COST");
    }
    for (size_t i = 0; i < map->count; i++) {
        const struct draw_setup *setup = &map->setups[i];
        if (analyse->as_json) {
            add_json(analyse, setup, &out);
        } else {
            str_addf(&out, "%-32.32s %12.3f %12.4f%s\n", setup->name, setup->time_s / MONEY_HOUR_S,
                     setup->cost, setup->on_front ? "  pareto" : "");
        }
    }
    struct draw_target target = analyse_target(analyse, &svg, &out);
    if (target.text) {
        str_add_char(&out, '\n');
    }
    if (target.text || target.svg) {
        draw_cost_map(&target, map->setups, map->count, analyse->currency);
    }
    cli_write(&out);
    return analyse_write_svg(analyse, &svg);
}

int analyse_map(const struct analyse *analyse)
{
    struct map map = {0};
    struct csv *csv = NULL;
    int code = analyse_read_table(analyse, &csv);
    struct err err;
    if (code == EXIT_DONE && read_setups(analyse, csv, &map, &err) != ERR_OK) {
        code = analyse_table_error(analyse, &err);
    }
    if (code == EXIT_DONE) {
        find_front(&map);
        code = show(analyse, &map);
    }
    free(map.setups);
    csv_destroy(csv);
    return code;
}
