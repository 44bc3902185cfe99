/* trial_csv.c - trials for programs: CSV and JSON lines. */
#include "base/json.h"
#include "base/mem.h"
#include "cli/trial_show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { METRICS_MAX = 1000 };

void trial_show_csv_field(struct str *out, const char *text)
{
    size_t size = strlen(text);
    bool plain = strcspn(text, ",\"\r\n") == size && text[0] != ' ' && text[0] != '#' &&
                 (size == 0 || text[size - 1] != ' ');
    if (plain) {
        str_add(out, text);
        return;
    }
    str_add_char(out, '"');
    for (; *text; text++) {
        str_add(out, *text == '"' ? "\"" : "");
        str_add_char(out, *text);
    }
    str_add_char(out, '"');
}

/* A value as it was answered, without the quotes of a text; nothing for null. */
static void add_value(struct str *out, const struct jnode *value)
{
    AUTO_STR struct str text = {0};
    if (value && value->kind == JREAD_TEXT) {
        str_add(&text, value->text);
    } else if (value && value->kind != JREAD_NULL) {
        jread_add(&text, value);
    }
    str_add_char(out, ',');
    trial_show_csv_field(out, str_text(&text));
}

static void add_name(struct str *out, const char *prefix, const char *name)
{
    AUTO_STR struct str text = {0};
    str_add(&text, prefix);
    str_add(&text, name);
    str_add_char(out, ',');
    trial_show_csv_field(out, str_text(&text));
}

struct names {
    const char **items;
    size_t count;
    size_t cap;
};

/* Every metric that some trial has. */
static void find_metrics(const struct trial_search *search, struct names *out)
{
    for (size_t i = 0; i < search->count; i++) {
        const struct jnode *metric = jread_first(jread_get(search->trials[i].node, "metrics"));
        for (; metric && metric->key; metric = metric->next) {
            size_t at = 0;
            while (at < out->count && strcmp(out->items[at], metric->key) != 0) {
                at++;
            }
            if (at == out->count && out->count < METRICS_MAX) {
                VEC_PUSH(out->items, out->count, out->cap) = metric->key;
            }
        }
    }
}

static void add_heading(struct str *out, const struct trial_search *search,
                        const struct names *metrics)
{
    str_add(out, "experiment,trial,state,best");
    for (size_t i = 0; i < search->goal_count; i++) {
        if (search->goal_count == 1) {
            str_add(out, ",value");
        } else {
            add_name(out, "value.", search->metrics[i]);
        }
    }
    str_add(out, ",rung,budget,task,step,reason");
    for (size_t i = 0; i < search->column_count; i++) {
        add_name(out, "params.", search->columns[i].name);
    }
    for (size_t i = 0; i < metrics->count; i++) {
        add_name(out, "metrics.", metrics->items[i]);
    }
    str_add(out, "\n");
}

static void add_row(struct str *out, const struct trial_search *search, const struct trial *trial,
                    const struct names *metrics)
{
    static const char *const keys[] = {"rung", "budget", "task", "step", "reason"};
    trial_show_csv_field(out, search->experiment);
    str_addf(out, ",%" PRIu64 ",", trial->number);
    trial_show_csv_field(out, trial->state);
    str_add(out, trial->best ? ",true" : ",false");
    const struct jnode *value = jread_first(jread_get(trial->node, "values"));
    for (size_t i = 0; i < search->goal_count; i++) {
        add_value(out, value);
        value = value ? value->next : NULL;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        add_value(out, jread_get(trial->node, keys[i]));
    }
    for (size_t i = 0; i < search->column_count; i++) {
        add_value(out, trial_param(trial, search->columns[i].name));
    }
    for (size_t i = 0; i < metrics->count; i++) {
        add_value(out, jread_get(jread_get(trial->node, "metrics"), metrics->items[i]));
    }
    str_add(out, "\n");
}

void trial_show_csv(struct str *out, const struct trial_search *search, size_t limit)
{
    struct names metrics = {0};
    find_metrics(search, &metrics);
    add_heading(out, search, &metrics);
    for (size_t i = 0; i < search->count && i < limit; i++) {
        add_row(out, search, &search->trials[i], &metrics);
    }
    free(metrics.items);
}

void trial_show_json(struct str *out, const struct trial_search *search, size_t limit)
{
    for (size_t i = 0; i < search->count && i < limit; i++) {
        const struct trial *trial = &search->trials[i];
        AUTO_STR struct str value = {0};
        struct json json = {.out = out};
        json_object(&json);
        const struct jnode *item = jread_first(trial->node);
        for (; item && item->key; item = item->next) {
            if (strcmp(item->key, "best") != 0) {
                str_clear(&value);
                jread_add(&value, item);
                json_key(&json, item->key);
                json_raw(&json, str_text(&value), value.size);
            }
        }
        json_key(&json, "best");
        json_bool(&json, trial->best);
        json_end(&json);
        str_add_char(out, '\n');
    }
}
