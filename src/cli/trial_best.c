#include "cli/trial_best.h"

#include "base/json.h"
#include "cli/trial_show.h"
#include "cli/view.h"
#include "recipe/plan.h"
#include "recipe/shell_quote.h"

#include <inttypes.h>
#include <string.h>

/* One command of a script, which others follow, as a part of one line; false: it cannot be. */
static bool add_part(struct str *out, const char *text, size_t size)
{
    while (size > 0 && strchr(" \t\n", text[size - 1])) {
        size--;
    }
    bool good = size > 0 && !memchr(text, '\n', size) && !memchr(text, '#', size) &&
                !strchr("&;|\\", text[size - 1]);
    str_add_bytes(out, text, size);
    return good;
}

/* A script of several commands, each run if the one before was good, as "a && b". False: it is not
 * as simple as that. One command alone is as it is. */
static bool add_script(struct str *out, const char *script)
{
    const char *guard = strstr(script, PLAN_LINE_GUARD);
    if (!guard) {
        str_add(out, script);
        while (out->size > 0 && out->text[out->size - 1] == '\n') {
            out->text[--out->size] = '\0';
        }
        return true;
    }
    bool good = true;
    while (good && guard) {
        good = add_part(out, script, (size_t)(guard - script));
        str_add(out, " && ");
        script = guard + strlen(PLAN_LINE_GUARD);
        guard = strstr(script, PLAN_LINE_GUARD);
    }
    return good && add_part(out, script, strlen(script));
}

void trial_best_command(struct str *out, const struct jnode *command)
{
    const struct jnode *first = jread_first(command);
    bool is_script = command && command->count == 3 && strcmp(first->text, "/bin/sh") == 0 &&
                     strcmp(first->next->text, "-c") == 0;
    AUTO_STR struct str line = {0};
    if (is_script && add_script(&line, first->next->next->text)) {
        str_add_bytes(out, str_text(&line), line.size);
        return;
    }
    for (const struct jnode *word = first; word; word = word->next) {
        str_add(out, word != first ? " " : "");
        shell_quote(out, SHELL_QUOTE_PLAIN_WORD, word->text, strlen(word->text));
    }
}

/* Line breaks stay: what is copied must be what is run. */
static void add_clean_lines(struct str *out, const char *text)
{
    while (*text) {
        size_t size = strcspn(text, "\n");
        AUTO_STR struct str line = {0};
        str_add_bytes(&line, text, size);
        jread_add_clean(out, str_text(&line));
        text += size;
        if (*text) {
            str_add_char(out, *text++);
        }
    }
}

static void add_values(struct str *out, const struct trial_search *search,
                       const struct trial *trial)
{
    for (size_t i = 0; i < search->goal_count; i++) {
        str_add(out, i > 0 ? ", " : "");
        jread_add_clean(out, search->metrics[i]);
        str_add_char(out, ' ');
        trial_show_number(out, trial->values[i]);
    }
}

/* "  name      value", the names padded to one width. */
static void add_pair(struct str *out, const char *name, int columns, const char *value)
{
    AUTO_STR struct str clean = {0};
    jread_add_clean(&clean, name);
    int width = view_width(str_text(&clean), clean.size);
    str_add(out, "  ");
    str_add_bytes(out, str_text(&clean), clean.size);
    str_add_repeat(out, " ", (size_t)(columns > width ? columns - width : 0) + 2);
    jread_add_clean(out, value);
    str_add_char(out, '\n');
}

static void add_params(struct str *out, const struct trial_search *search,
                       const struct trial *trial)
{
    int columns = 0;
    for (size_t i = 0; i < search->column_count; i++) {
        int width = view_width(search->columns[i].name, strlen(search->columns[i].name));
        columns = width > columns ? width : columns;
    }
    for (size_t i = 0; i < search->column_count; i++) {
        const struct jnode *value = trial_param(trial, search->columns[i].name);
        AUTO_STR struct str text = {0};
        if (value && value->kind == JREAD_TEXT) {
            str_add(&text, value->text);
        } else if (value) {
            jread_add(&text, value);
        }
        if (value) {
            add_pair(out, search->columns[i].name, columns, str_text(&text));
        }
    }
}

void trial_best_text(struct str *out, const struct trial_search *search, const struct trial *trial,
                     const struct jnode *plan)
{
    AUTO_STR struct str command = {0};
    str_addf(out, "trial %" PRIu64 ": ", trial->number);
    add_values(out, search, trial);
    if (trial->open) {
        str_add(out, " so far; it still runs");
    }
    str_add_char(out, '\n');
    add_params(out, search, trial);
    str_add(out, "task        ");
    jread_add_clean(out, jread_text(plan, "id", "?"));
    str_add(out, "\nfolder      ");
    jread_add_clean(out, jread_text(plan, "workdir", "?"));
    str_add(out, "\noutput      ");
    jread_add_clean(out, jread_text(plan, "output", "none"));
    str_add(out, "\ncheckpoint  ");
    jread_add_clean(out, jread_text(plan, "checkpoint", "none"));
    str_add(out, "\ncommand:\n");
    trial_best_command(&command, jread_get(plan, "command"));
    add_clean_lines(out, str_text(&command));
    str_add_char(out, '\n');
}

static void add_raw(struct json *json, const struct jnode *object, const char *key)
{
    AUTO_STR struct str text = {0};
    jread_add(&text, jread_get(object, key));
    json_key(json, key);
    json_raw(json, str_text(&text), text.size);
}

void trial_best_json(struct str *out, const struct trial_search *search, const struct trial *trial,
                     const struct jnode *plan)
{
    static const char *const of_trial[] = {"state",  "params", "metrics", "value",
                                           "values", "rung",   "budget",  "step"};
    static const char *const of_plan[] = {"task", "command", "workdir",
                                          "env",  "output",  "checkpoint"};
    AUTO_STR struct str command = {0};
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "experiment");
    json_text(&json, search->experiment);
    json_key(&json, "trial");
    json_u64(&json, trial->number);
    for (size_t i = 0; i < sizeof of_trial / sizeof of_trial[0]; i++) {
        add_raw(&json, trial->node, of_trial[i]);
    }
    for (size_t i = 0; i < sizeof of_plan / sizeof of_plan[0]; i++) {
        add_raw(&json, plan, of_plan[i]);
    }
    trial_best_command(&command, jread_get(plan, "command"));
    json_key(&json, "command_line");
    json_text(&json, str_text(&command));
    json_end(&json);
    str_add_char(out, '\n');
}
