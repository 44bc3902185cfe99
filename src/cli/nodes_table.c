#include "cli/nodes_table.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/standing.h"
#include "cli/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10 };

static const char *const headings[COLUMNS] = {"NAME", "STATE", "SLOTS",  "BUSY",  "CPU%",
                                              "MEM",  "GPU",   "LABELS", "PRICE", "HEARD"};
static const bool to_the_right[COLUMNS] = {
    [2] = true, [3] = true, [4] = true, [5] = true, [8] = true, [9] = true};

void nodes_table_add_bytes(struct str *out, uint64_t bytes)
{
    static const char units[] = "KMGTPE";
    if (bytes < 1024) {
        str_addf(out, "%" PRIu64, bytes);
        return;
    }
    double number = (double)bytes / 1024;
    size_t unit = 0;
    while (number >= 1023.95 && unit < sizeof units - 2) {
        number /= 1024;
        unit++;
    }
    str_addf(out, number < 9.95 ? "%.1f%c" : "%.0f%c", number, units[unit]);
}

void nodes_table_add(struct nodes_table *table, const struct jnode *node)
{
    const char *state = jread_text(node, "state", "?");
    if (!table->all && (strcmp(state, "left") == 0 || strcmp(state, "revoked") == 0)) {
        table->hidden++;
        return;
    }
    VEC_PUSH(table->nodes, table->count, table->cap) = node;
    table->shown++;
}

static void add_cpu(struct str *out, const struct jnode *node)
{
    double cpus = jread_number(node, "cpu", 0);
    double used = jread_number(jread_get(node, "usage"), "cpu", -1);
    if (cpus > 0 && used >= 0) {
        str_addf(out, "%.0f", used * 100.0 / cpus);
    } else {
        str_add(out, "-");
    }
}

static void add_memory(struct str *out, const struct jnode *node)
{
    const struct jnode *usage = jread_get(node, "usage");
    if (jread_get(usage, "memory_bytes")) {
        nodes_table_add_bytes(out, jread_u64(usage, "memory_bytes", 0));
        str_add_char(out, '/');
    }
    nodes_table_add_bytes(out, jread_u64(node, "memory_bytes", 0));
}

static void add_gpus(struct str *out, const struct jnode *node)
{
    uint64_t count = jread_u64(node, "gpus", 0);
    if (count == 0) {
        str_add(out, "-");
        return;
    }
    str_addf(out, "%" PRIu64 "x ", count);
    jread_add_clean(out, jread_text(node, "gpu", "gpu"));
}

static void add_labels(struct str *out, const struct jnode *node)
{
    size_t start = out->size;
    for (const struct jnode *label = jread_first(jread_get(node, "labels")); label;
         label = label->next) {
        if (strncmp(label->text, "node=", 5) == 0) {
            continue; /* every node has it: its name */
        }
        str_add(out, out->size > start ? "," : "");
        jread_add_clean(out, label->text);
    }
    str_add(out, out->size > start ? "" : "-");
}

static void add_heard(struct str *out, const struct jnode *node, int64_t now_ms)
{
    int64_t heard_ms = standing_time_ms(jread_text(node, "heard_at", ""));
    if (heard_ms < 0) {
        str_add(out, "-");
    } else if (now_ms - heard_ms < 2000) {
        str_add(out, "now");
    } else {
        clock_add_duration(out, (now_ms - heard_ms) / 1000 * 1000);
    }
}

static void add_cell(struct str *out, const struct jnode *node, int column, int64_t now_ms)
{
    switch (column) {
    case 0:
        jread_add_clean(out, jread_text(node, "name", "?"));
        break;
    case 1:
        jread_add_clean(out, jread_text(node, "state", "?"));
        break;
    case 2:
        str_addf(out, "%" PRIu64, jread_u64(node, "slots", 0));
        break;
    case 3:
        str_addf(out, "%" PRIu64, jread_u64(node, "tasks", 0));
        break;
    case 4:
        add_cpu(out, node);
        break;
    case 5:
        add_memory(out, node);
        break;
    case 6:
        add_gpus(out, node);
        break;
    case 7:
        add_labels(out, node);
        break;
    case 8: {
        double price = jread_number(node, "price_hour", 0);
        str_addf(out, price > 0 ? "%.4g" : "-", price);
        break;
    }
    default:
        add_heard(out, node, now_ms);
    }
}

static int compare_nodes(const void *a, const void *b)
{
    return strverscmp(jread_text(*(const struct jnode *const *)a, "name", ""),
                      jread_text(*(const struct jnode *const *)b, "name", ""));
}

void nodes_table_print(struct nodes_table *table, struct str *out)
{
    int widths[COLUMNS];
    AUTO_STR struct str cell = {0};
    if (table->count > 1) {
        qsort(table->nodes, table->count, sizeof *table->nodes, compare_nodes);
    }
    for (int c = 0; c < COLUMNS; c++) {
        widths[c] = (int)strlen(headings[c]);
        for (size_t i = 0; i < table->count; i++) {
            str_clear(&cell);
            add_cell(&cell, table->nodes[i], c, table->now_ms);
            int width = view_width(str_text(&cell), cell.size);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (size_t i = 0; i <= table->count; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            str_clear(&cell);
            if (i == 0) {
                str_add(&cell, headings[c]);
            } else {
                add_cell(&cell, table->nodes[i - 1], c, table->now_ms);
            }
            size_t pad = (size_t)(widths[c] - view_width(str_text(&cell), cell.size));
            str_add_repeat(out, " ", to_the_right[c] ? pad : 0);
            str_add(out, str_text(&cell));
            str_add_repeat(out, " ", to_the_right[c] || c == COLUMNS - 1 ? 0 : pad);
            str_add(out, c == COLUMNS - 1 ? "\n" : "  ");
        }
    }
}

void nodes_table_release(struct nodes_table *table)
{
    free(table->nodes);
    *table = (struct nodes_table){0};
}
