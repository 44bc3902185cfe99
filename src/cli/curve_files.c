#include "cli/curve_files.h"

#include "base/csv.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/curve_record.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAMES_MAX = 8, RUN_NAME_SIZE = 32 };

static const char *const usual_names[ROLE_COUNT][NAMES_MAX] = {
    [ROLE_RUN] = {"run", "run_id", "trial", "repeat", "seed"},
    [ROLE_STEP] = {"step", "global_step", "iteration", "epoch", "steps"},
    [ROLE_TIME] = {"time", "time_s", "elapsed_s", "elapsed", "seconds"},
    [ROLE_METRIC] = {"metric", "value", "accuracy", "val_accuracy", "acc", "loss", "val_loss"},
    [ROLE_TYPE] = {"type", "instance_type", "worker_type", "machine", "vm_flavor"},
    [ROLE_BATCH] = {"batch", "batch_size"},
};

static const char *const role_names[ROLE_COUNT] = {"run",    "step", "time",
                                                   "metric", "type", "batch"};

/* A point as text; NULL: no such column. */
struct record {
    const char *text[ROLE_COUNT];
    int line;
};

struct reading {
    const char *file;
    const struct curve_columns *columns;
    struct curve_set *set;
    struct curve_counts *counts;
};

static bool is_name(const struct curve_columns *columns, enum curve_role role, const char *name,
                    size_t rank)
{
    const char *wanted = columns->names[role];
    if (wanted) {
        return rank == 0 && strcasecmp(wanted, name) == 0;
    }
    return rank < NAMES_MAX && usual_names[role][rank] &&
           strcasecmp(usual_names[role][rank], name) == 0;
}

/* A finite number, or ERR_INVALID. */
static enum err_code read_number(const struct reading *reading, const struct record *record,
                                 enum curve_role role, double *out, struct err *err)
{
    const char *text = record->text[role];
    char *end = NULL;
    bool plain =
        text[0] == '-' || text[0] == '.' || text[0] == '+' || isdigit((unsigned char)text[0]);
    *out = strtod(text, &end);
    if (!plain || *end != '\0' || !isfinite(*out) || strpbrk(text, "xX")) {
        return err_set(err, ERR_INVALID, "%s:%d: %s: '%.40s' is not a finite number", reading->file,
                       record->line, role_names[role], text);
    }
    return ERR_OK;
}

static bool is_empty(const struct record *record, enum curve_role role)
{
    return !record->text[role] || record->text[role][0] == '\0';
}

static enum err_code add_record(const struct reading *reading, const struct record *record,
                                struct err *err)
{
    struct curve_key key = {.run = is_empty(record, ROLE_RUN) ? "1" : record->text[ROLE_RUN],
                            .type = is_empty(record, ROLE_TYPE) ? "" : record->text[ROLE_TYPE],
                            .batch = NAN};
    struct curve_point point = {.time_s = NAN};
    enum err_code code = ERR_OK;
    if (is_empty(record, ROLE_STEP)) {
        return err_set(err, ERR_INVALID, "%s:%d: step is missing", reading->file, record->line);
    }
    if (is_empty(record, ROLE_METRIC)) {
        reading->counts->skipped++; /* many logs report some metrics only now and then */
        return ERR_OK;
    }
    code = read_number(reading, record, ROLE_STEP, &point.step, err);
    if (code == ERR_OK) {
        code = read_number(reading, record, ROLE_METRIC, &point.metric, err);
    }
    if (code == ERR_OK && !is_empty(record, ROLE_TIME)) {
        code = read_number(reading, record, ROLE_TIME, &point.time_s, err);
        point.time_s *= reading->columns->time_unit_s > 0 ? reading->columns->time_unit_s : 1;
    }
    if (code == ERR_OK && !is_empty(record, ROLE_BATCH)) {
        code = read_number(reading, record, ROLE_BATCH, &key.batch, err);
    }
    if (code == ERR_OK) {
        struct err why;
        code = curve_set_add(reading->set, &key, &point, &why);
        if (code != ERR_OK) {
            code = err_set(err, ERR_INVALID, "%s:%d: %s", reading->file, record->line, why.text);
        }
    }
    if (code != ERR_OK && reading->columns->skip_bad) {
        reading->counts->skipped++;
        return ERR_OK;
    }
    return code;
}

static int find_column(const struct csv *csv, const struct curve_columns *columns,
                       enum curve_role role)
{
    for (size_t rank = 0; rank < NAMES_MAX; rank++) {
        for (size_t c = 0; c < csv_column_count(csv); c++) {
            if (is_name(columns, role, csv_column_name(csv, c), rank)) {
                return (int)c;
            }
        }
    }
    return -1;
}

static void note_metric(const struct reading *reading, const char *name)
{
    snprintf(reading->counts->metric, sizeof reading->counts->metric, "%s", name);
}

static enum err_code missing(const struct reading *reading, enum curve_role role,
                             const struct str *there, struct err *err)
{
    const char *name = reading->columns->names[role];
    return err_set(err, ERR_INVALID, "%s: no column '%s' (there are: %.300s)", reading->file,
                   name ? name : role_names[role], str_text(there));
}

static enum err_code find_columns(const struct reading *reading, const struct csv *csv,
                                  int at[ROLE_COUNT], struct err *err)
{
    AUTO_STR struct str there = {0};
    for (size_t c = 0; c < csv_column_count(csv); c++) {
        str_addf(&there, "%s%s", c > 0 ? ", " : "", csv_column_name(csv, c));
    }
    for (enum curve_role role = 0; role < ROLE_COUNT; role++) {
        at[role] = find_column(csv, reading->columns, role);
        bool in_heading = reading->columns->wide && (role == ROLE_STEP || role == ROLE_METRIC);
        bool needed = role == ROLE_STEP || role == ROLE_METRIC || reading->columns->names[role];
        if (at[role] < 0 && needed && !in_heading) {
            return missing(reading, role, &there, err);
        }
    }
    int metric = at[ROLE_METRIC];
    note_metric(reading, metric >= 0 ? csv_column_name(csv, (size_t)metric) : "metric");
    return ERR_OK;
}

/* v12 with the prefix "v" is step "12"; NULL: not such a column. */
static const char *wide_step(const char *prefix, const char *name)
{
    size_t length = strlen(prefix);
    if (strncasecmp(prefix, name, length) != 0 || name[length] == '\0') {
        return NULL;
    }
    size_t digits = strspn(name + length, "0123456789");
    return name[length + digits] == '\0' ? name + length : NULL;
}

static enum err_code add_wide_row(const struct reading *reading, const struct csv *csv, size_t row,
                                  struct record *record, struct err *err)
{
    char name[RUN_NAME_SIZE];
    snprintf(name, sizeof name, "%zu", row + 1);
    if (!record->text[ROLE_RUN]) {
        record->text[ROLE_RUN] = name;
    }
    enum err_code code = ERR_OK;
    size_t found = 0;
    for (size_t c = 0; c < csv_column_count(csv) && code == ERR_OK; c++) {
        record->text[ROLE_STEP] = wide_step(reading->columns->wide, csv_column_name(csv, c));
        record->text[ROLE_METRIC] = csv_text(csv, row, c);
        if (record->text[ROLE_STEP]) {
            found++;
            code = add_record(reading, record, err);
        }
    }
    if (code == ERR_OK && found == 0) {
        code = err_set(err, ERR_INVALID, "%s: no columns %s0, %s1, ...", reading->file,
                       reading->columns->wide, reading->columns->wide);
    }
    return code;
}

static enum err_code add_csv(const struct reading *reading, const struct csv *csv, struct err *err)
{
    int at[ROLE_COUNT] = {0};
    enum err_code code = find_columns(reading, csv, at, err);
    for (size_t row = 0; row < csv_row_count(csv) && code == ERR_OK; row++) {
        struct record record = {.line = csv_row_line(csv, row)};
        for (enum curve_role role = 0; role < ROLE_COUNT; role++) {
            record.text[role] = at[role] >= 0 ? csv_text(csv, row, (size_t)at[role]) : NULL;
        }
        code = reading->columns->wide ? add_wide_row(reading, csv, row, &record, err)
                                      : add_record(reading, &record, err);
    }
    return code;
}

static const struct json_member *find_member(const struct json_members *members,
                                             const struct curve_columns *columns,
                                             enum curve_role role)
{
    for (size_t rank = 0; rank < NAMES_MAX; rank++) {
        for (size_t i = 0; i < members->count; i++) {
            if (is_name(columns, role, members->items[i].key, rank)) {
                return &members->items[i];
            }
        }
    }
    return NULL;
}

static enum err_code add_members(const struct reading *reading, const struct json_members *members,
                                 struct err *err)
{
    struct record record = {.line = members->line};
    for (enum curve_role role = 0; role < ROLE_COUNT; role++) {
        const struct json_member *member = find_member(members, reading->columns, role);
        record.text[role] = member ? member->value : NULL;
        if (member && role == ROLE_METRIC) {
            note_metric(reading, member->key);
        }
    }
    if (record.text[ROLE_STEP] && record.text[ROLE_METRIC]) {
        return add_record(reading, &record, err);
    }
    AUTO_STR struct str there = {0};
    for (size_t i = 0; i < members->count; i++) {
        str_addf(&there, "%s%s", i > 0 ? ", " : "", members->items[i].key);
    }
    enum curve_role role = record.text[ROLE_STEP] ? ROLE_METRIC : ROLE_STEP;
    const char *name = reading->columns->names[role];
    return err_set(err, ERR_INVALID, "%s:%d: no member '%s' (there are: %.200s)", reading->file,
                   record.line, name ? name : role_names[role], str_text(&there));
}

static enum err_code add_json(const struct reading *reading, const char *text, size_t size,
                              struct err *err)
{
    struct json_reader reader = {.file = reading->file, .text = text, .size = size, .line = 1};
    struct json_members members = {0};
    struct arena arena = {0};
    enum err_code code = ERR_OK;
    bool more = true;
    while (more && code == ERR_OK) {
        arena_reset(&arena);
        code = json_reader_next(&reader, &arena, &members, &more, err);
        if (more && code == ERR_OK) {
            code = add_members(reading, &members, err);
        }
    }
    arena_release(&arena);
    free(members.items);
    return code;
}

enum err_code curve_files_parse(const struct curve_text *input, const struct curve_columns *columns,
                                struct curve_set *set, struct curve_counts *counts, struct err *err)
{
    const char *file = input->file;
    const char *text = input->text;
    size_t size = input->size;
    struct reading reading = {.file = file, .columns = columns, .set = set, .counts = counts};
    size_t start = 0;
    while (start < size && strchr(" \t\r\n", text[start]) && text[start]) {
        start++;
    }
    if (start < size && (text[start] == '[' || text[start] == '{')) {
        return columns->wide ? err_set(err, ERR_INVALID, "%s: a wide table must be CSV", file)
                             : add_json(&reading, text, size, err);
    }
    struct csv *csv = NULL;
    enum err_code code = csv_parse(file, text, size, &csv, err);
    if (code == ERR_OK) {
        code = add_csv(&reading, csv, err);
    }
    csv_destroy(csv);
    return code;
}

enum err_code curve_files_read(const char *path, const struct curve_columns *columns,
                               struct curve_set *set, struct curve_counts *counts, struct err *err)
{
    AUTO_STR struct str text = {0};
    enum err_code code = io_read_file(path, CURVE_FILE_BYTES_MAX, &text, err);
    if (code == ERR_OK) {
        struct curve_text input = {.file = path, .text = str_text(&text), .size = text.size};
        code = curve_files_parse(&input, columns, set, counts, err);
    }
    return code;
}
