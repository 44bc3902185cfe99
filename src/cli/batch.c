#include "cli/batch.h"

#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXEC_PRIORITY = 100, NAME_MAX_BYTES = 64 };

/* Text as a value that a reader of YAML takes, too: it refuses the bytes DEL and C1, marks of byte
 * order and non-characters unless they are escaped. */
static void add_text(struct json *json, const char *text, size_t size)
{
    struct str value = {0};
    str_add_char(&value, '"');
    for (size_t at = 0; at < size;) {
        size_t length = json_utf8_length(text + at, size - at);
        CHECK(length > 0); /* checked when it was read */
        const unsigned char *b = (const unsigned char *)text + at;
        bool c1 = length == 2 && b[0] == 0xc2 && b[1] < 0xa0;
        bool mark = length == 3 && b[0] == 0xef &&
                    ((b[1] == 0xbb && b[2] == 0xbf) || (b[1] == 0xbf && b[2] >= 0xbe));
        if (b[0] < 0x20 || b[0] == 0x7f) {
            str_addf(&value, "\\u%04x", (unsigned)b[0]);
        } else if (c1) {
            str_addf(&value, "\\u00%02x", (unsigned)b[1]);
        } else if (mark) {
            str_addf(&value, "\\u%04x", (b[0] & 0xfu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu));
        } else {
            str_add(&value, b[0] == '"' || b[0] == '\\' ? "\\" : "");
            str_add_bytes(&value, text + at, length);
        }
        at += length;
    }
    str_add_char(&value, '"');
    json_raw(json, str_text(&value), value.size);
    str_release(&value);
}

/* Bytes that are not UTF-8 cannot be in a recipe. */
static void add_argument(struct json *json, const char *argument)
{
    AUTO_STR struct str text = {0};
    size_t size = strlen(argument);
    for (size_t at = 0; at < size;) {
        size_t length = json_utf8_length(argument + at, size - at);
        if (length == 0) {
            str_add(&text, "\xef\xbf\xbd");
            at++;
            continue;
        }
        bool opens = strncmp(argument + at, "{{", 2) == 0;
        str_add(&text, opens ? "{{{{" : "");
        str_add_bytes(&text, argument + at, opens ? 0 : length);
        at += opens ? 2 : length;
    }
    add_text(json, str_text(&text), text.size);
}

static void add_timeout(struct json *json, int64_t timeout_ms)
{
    if (timeout_ms > 0) {
        char text[32];
        snprintf(text, sizeof text, "%" PRId64 "ms", timeout_ms);
        json_key(json, "timeout");
        json_text(json, text);
    }
}

static void begin_recipe(struct json *json, const char *name)
{
    json_object(json);
    json_key(json, "name");
    json_text(json, name);
}

/* --- exec ----------------------------------------------------------------------------------- */

static bool is_experiment_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t size = strspn(name, letters);
    return size > 0 && name[size] == '\0' && name[0] != '-' && size <= NAME_MAX_BYTES;
}

/* The node's own name where every node has one that will do. */
void batch_exec_name(struct str *out, const struct batch_exec *exec, size_t i)
{
    bool fine = true;
    for (size_t n = 0; n < exec->node_count && fine; n++) {
        fine = is_experiment_name(exec->nodes[n]);
    }
    if (fine) {
        str_add(out, exec->nodes[i]);
    } else {
        str_addf(out, "node-%zu", i + 1);
    }
}

static void add_exec_experiment(struct json *json, const struct batch_exec *exec, const char *node)
{
    AUTO_STR struct str label = {0};
    str_addf(&label, "node=%s", node);
    json_object(json);
    json_key(json, "hardware");
    json_object(json);
    json_key(json, "cpu"); /* the least there is: beside whatever leaves a little room */
    json_double(json, 0.001);
    json_key(json, "labels");
    json_array(json);
    json_text(json, str_text(&label));
    json_end(json);
    json_end(json);
    json_key(json, "crash_limit"); /* it can only run there: lost is lost */
    json_u64(json, 1);
    add_timeout(json, exec->timeout_ms);
    json_key(json, "exec");
    json_array(json);
    for (size_t i = 0; i < exec->argc; i++) {
        add_argument(json, exec->argv[i]);
    }
    json_end(json);
    json_end(json);
}

void batch_exec_recipe(struct str *out, const struct batch_exec *exec)
{
    CHECK(exec->node_count > 0 && exec->node_count <= BATCH_NODES_MAX);
    struct json json = {.out = out};
    begin_recipe(&json, "exec");
    json_key(&json, "priority");
    json_u64(&json, EXEC_PRIORITY);
    json_key(&json, "experiments");
    json_object(&json);
    for (size_t i = 0; i < exec->node_count; i++) {
        AUTO_STR struct str name = {0};
        batch_exec_name(&name, exec, i);
        json_key(&json, str_text(&name));
        add_exec_experiment(&json, exec, exec->nodes[i]);
    }
    json_end(&json);
    json_end(&json);
}

/* --- map: which line goes where ------------------------------------------------------------- */

static enum err_code check_line(const struct batch_line *line, size_t number, struct err *err)
{
    if (line->size > BATCH_LINE_BYTES_MAX) {
        return err_set(err, ERR_INVALID,
                       "line %zu is longer than %d bytes; put the input into a file and map its "
                       "name",
                       number, BATCH_LINE_BYTES_MAX);
    }
    for (size_t at = 0; at < line->size;) {
        size_t length = json_utf8_length(line->text + at, line->size - at);
        if (length == 0 || line->text[at] == '\0') {
            return err_set(err, ERR_INVALID, "line %zu is not UTF-8 text", number);
        }
        at += length;
    }
    return ERR_OK;
}

static enum err_code cut_lines(struct batch_map *map, const char *text, size_t size,
                               struct err *err)
{
    size_t cap = 0;
    size_t number = 0;
    size_t in_recipe = 0;
    size_t recipe_bytes = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        struct batch_line line = {.text = text + at,
                                  .size = end ? (size_t)(end - text) - at : size - at};
        at += line.size + 1;
        number++;
        enum err_code code = check_line(&line, number, err);
        if (code != ERR_OK) {
            return code;
        }
        if (line.size == 0) {
            continue;
        }
        if (map->count == BATCH_LINES_MAX) {
            return err_set(err, ERR_INVALID, "more than %d inputs", BATCH_LINES_MAX);
        }
        /* quoting may double it */
        size_t bytes = 2 * line.size + 8;
        if (in_recipe == BATCH_INPUTS_MAX || recipe_bytes + bytes > BATCH_INPUT_BYTES_MAX) {
            map->recipe_count++;
            in_recipe = 0;
            recipe_bytes = 0;
        }
        line.recipe = map->recipe_count;
        in_recipe++;
        recipe_bytes += bytes;
        VEC_PUSH(map->lines, map->count, cap) = line;
    }
    map->recipe_count += map->count > 0 ? 1 : 0;
    return ERR_OK;
}

/* By recipe, text, then place: equal texts of a recipe stand together, in their order. */
static int compare_lines(const void *left, const void *right)
{
    const struct batch_line *a = *(struct batch_line *const *)left;
    const struct batch_line *b = *(struct batch_line *const *)right;
    if (a->recipe != b->recipe) {
        return a->recipe < b->recipe ? -1 : 1;
    }
    size_t common = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->text, b->text, common);
    if (order == 0 && a->size != b->size) {
        order = a->size < b->size ? -1 : 1;
    }
    return order ? order : (a > b) - (a < b);
}

/* Lines of one text, in order: how many there are says which experiment they are in. */
struct run {
    struct batch_line **lines;
    uint32_t count;
};

/* By recipe, count, then where the text comes first. */
static int compare_runs(const void *left, const void *right)
{
    const struct run *a = left;
    const struct run *b = right;
    if (a->lines[0]->recipe != b->lines[0]->recipe) {
        return a->lines[0]->recipe < b->lines[0]->recipe ? -1 : 1;
    }
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    return (a->lines[0] > b->lines[0]) - (a->lines[0] < b->lines[0]);
}

static bool is_same_text(const struct batch_line *a, const struct batch_line *b)
{
    return a->recipe == b->recipe && a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* The grid of an experiment is texts times repeats, and the last parameter varies fastest. */
static void give_places(const struct run *runs, size_t run_count)
{
    uint64_t value = 0;
    for (size_t r = 0; r < run_count; r++) {
        bool begins = r == 0 || runs[r].count != runs[r - 1].count ||
                      runs[r].lines[0]->recipe != runs[r - 1].lines[0]->recipe;
        value = begins ? 0 : value + 1;
        for (uint32_t i = 0; i < runs[r].count; i++) {
            runs[r].lines[i]->experiment = runs[r].count;
            runs[r].lines[i]->index = value * runs[r].count + i;
        }
    }
}

enum err_code batch_map_split(struct batch_map *map, const char *text, size_t size, struct err *err)
{
    *map = (struct batch_map){0};
    enum err_code code = cut_lines(map, text, size, err);
    if (code != ERR_OK) {
        batch_map_release(map);
        return code;
    }
    AUTO_FREE struct batch_line **sorted = mem_array(map->count, sizeof *sorted);
    AUTO_FREE struct run *runs = mem_array(map->count, sizeof *runs);
    for (size_t i = 0; i < map->count; i++) {
        sorted[i] = &map->lines[i];
    }
    qsort(sorted, map->count, sizeof *sorted, compare_lines);
    size_t run_count = 0;
    for (size_t i = 0; i < map->count; i++) {
        if (i == 0 || !is_same_text(sorted[i - 1], sorted[i])) {
            runs[run_count++] = (struct run){.lines = &sorted[i]};
        }
        runs[run_count - 1].count++;
    }
    qsort(runs, run_count, sizeof *runs, compare_runs);
    give_places(runs, run_count);
    return ERR_OK;
}

void batch_map_release(struct batch_map *map)
{
    free(map->lines);
    *map = (struct batch_map){0};
}

/* --- map: the recipe ------------------------------------------------------------------------ */

void batch_map_command(struct str *out, const char *command)
{
    bool placed = false;
    for (const char *at = command; *at;) {
        if (strncmp(at, "{{", 2) == 0) {
            str_add(out, "{{{{");
            at += 2;
        } else if (strncmp(at, "{}", 2) == 0) {
            str_add(out, "{{input}}");
            at += 2;
            placed = true;
        } else {
            str_add_char(out, *at++);
        }
    }
    if (!placed) {
        str_add(out, " {{input}}");
    }
}

void batch_map_experiment(struct str *out, const struct batch_line *line)
{
    str_add(out, "map");
    if (line->experiment > 1) {
        str_addf(out, "-%" PRIu32, line->experiment);
    }
}

static int compare_places(const void *left, const void *right)
{
    const struct batch_line *a = *(struct batch_line *const *)left;
    const struct batch_line *b = *(struct batch_line *const *)right;
    if (a->experiment != b->experiment) {
        return a->experiment < b->experiment ? -1 : 1;
    }
    return (a->index > b->index) - (a->index < b->index);
}

static void add_map_settings(struct json *json, const struct batch_map_options *options)
{
    if (options->label || options->cpu > 0) {
        json_key(json, "hardware");
        json_object(json);
        if (options->cpu > 0) {
            json_key(json, "cpu");
            json_double(json, options->cpu);
        }
        if (options->label) {
            json_key(json, "labels");
            json_array(json);
            json_text(json, options->label);
            json_end(json);
        }
        json_end(json);
    }
    if (options->workers > 0) {
        json_key(json, "workers");
        json_u64(json, options->workers);
    }
    if (options->retries > 0) {
        json_key(json, "retries");
        json_u64(json, options->retries);
    }
    add_timeout(json, options->timeout_ms);
}

/* The experiment of lines[0..count), which are in the order of their index. */
static void add_map_experiment(struct json *json, struct batch_line *const *lines, size_t count,
                               const struct batch_map_options *options)
{
    uint32_t repeats = lines[0]->experiment;
    json_object(json);
    json_key(json, "command");
    AUTO_STR struct str command = {0};
    batch_map_command(&command, options->command);
    json_bytes(json, str_text(&command), command.size);
    add_map_settings(json, options);
    json_key(json, "parameters");
    json_object(json);
    json_key(json, "input");
    json_array(json);
    for (size_t i = 0; i < count; i += repeats) {
        add_text(json, lines[i]->text, lines[i]->size);
    }
    json_end(json);
    if (repeats > 1) {
        json_key(json, "again");
        json_array(json);
        for (uint32_t i = 1; i <= repeats; i++) {
            json_u64(json, i);
        }
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

void batch_map_recipe(struct str *out, const struct batch_map *map, uint32_t recipe,
                      const struct batch_map_options *options)
{
    size_t first = 0;
    while (first < map->count && map->lines[first].recipe != recipe) {
        first++;
    }
    size_t count = 0;
    while (first + count < map->count && map->lines[first + count].recipe == recipe) {
        count++;
    }
    CHECK(count > 0);
    AUTO_FREE struct batch_line **lines = mem_array(count, sizeof *lines);
    for (size_t i = 0; i < count; i++) {
        lines[i] = &map->lines[first + i];
    }
    qsort(lines, count, sizeof *lines, compare_places);

    struct json json = {.out = out};
    begin_recipe(&json, "map");
    json_key(&json, "experiments");
    json_object(&json);
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && lines[end]->experiment == lines[i]->experiment) {
            end++;
        }
        AUTO_STR struct str name = {0};
        batch_map_experiment(&name, lines[i]);
        json_key(&json, str_text(&name));
        add_map_experiment(&json, lines + i, end - i, options);
        i = end;
    }
    json_end(&json);
    json_end(&json);
}
