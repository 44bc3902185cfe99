#include "advise/require.h"

#include "base/suggest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum relation { EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST };

enum field {
    F_PROVIDER,
    F_REGION,
    F_TYPE,
    F_GPU,
    F_CURRENCY,
    F_DATE,
    F_VCPUS, /* from here on numbers */
    F_MEMORY,
    F_GPUS,
    F_GPU_MEMORY,
    F_NETWORK,
    F_PRICE,
    F_SPOT,
    F_COUNT
};

static const char *const field_names[F_COUNT] = {
    "provider",   "region", "type",           "gpu",          "currency",   "date",     "vcpus",
    "memory_gib", "gpus",   "gpu_memory_gib", "network_mbps", "price_hour", "spot_hour"};

static const char *const short_names[F_COUNT] = {
    [F_MEMORY] = "memory",   [F_GPU_MEMORY] = "gpu_memory", [F_NETWORK] = "network",
    [F_VCPUS] = "cpu.count", [F_PRICE] = "price",           [F_SPOT] = "spot"};

static int find_field(const char *name)
{
    for (int i = 0; i < F_COUNT; i++) {
        if (strcasecmp(name, field_names[i]) == 0 ||
            (short_names[i] && strcasecmp(name, short_names[i]) == 0)) {
            return i;
        }
    }
    return -1;
}

static bool read_relation(const char **at, enum relation *out)
{
    static const struct {
        const char *sign;
        enum relation relation;
    } signs[] = {{">=", AT_LEAST}, {"<=", AT_MOST}, {"!=", UNEQUAL}, {"==", EQUAL},
                 {">", MORE},      {"<", LESS},     {"=", EQUAL}};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        size_t size = strlen(signs[i].sign);
        if (strncmp(*at, signs[i].sign, size) == 0) {
            *at += size;
            *out = signs[i].relation;
            return true;
        }
    }
    return false;
}

/* Copies text[0..size) without the blanks around it; false if it is empty or too long. */
static bool copy_word(char out[REQUIRE_TEXT_MAX + 1], const char *text, size_t size)
{
    while (size > 0 && (text[0] == ' ' || text[0] == '\t')) {
        text++;
        size--;
    }
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
        size--;
    }
    if (size == 0 || size > REQUIRE_TEXT_MAX) {
        return false;
    }
    memcpy(out, text, size);
    out[size] = '\0';
    return true;
}

static enum err_code check_value(struct require_clause *clause, const char *shown, struct err *err)
{
    bool is_text = clause->field < F_VCPUS;
    bool ordered = clause->relation != EQUAL && clause->relation != UNEQUAL;
    if (is_text && ordered && clause->field != F_DATE) {
        return err_set(err, ERR_INVALID, "requirement '%s': %s is text, use = or !=", shown,
                       field_names[clause->field]);
    }
    if (is_text) {
        return ERR_OK;
    }
    char *end = NULL;
    clause->number = strtod(clause->text, &end);
    if (end == clause->text || *end || !isfinite(clause->number)) {
        return err_set(err, ERR_INVALID, "requirement '%s': '%s' is not a number", shown,
                       clause->text);
    }
    return ERR_OK;
}

static enum err_code parse_clause(const char *text, size_t size, struct require_clause *clause,
                                  struct err *err)
{
    char shown[REQUIRE_TEXT_MAX + 1] = "";
    char name[REQUIRE_TEXT_MAX + 1] = "";
    if (!copy_word(shown, text, size)) {
        return err_set(err, ERR_INVALID, "requirement '%.80s': a clause is empty or too long",
                       text);
    }
    const char *at = shown + strcspn(shown, "<>=!");
    enum relation relation = EQUAL;
    bool named = copy_word(name, shown, (size_t)(at - shown));
    if (!named || !read_relation(&at, &relation) || !copy_word(clause->text, at, strlen(at))) {
        return err_set(err, ERR_INVALID, "requirement '%s': write FIELD >= VALUE", shown);
    }
    int field = find_field(name);
    if (field < 0) {
        const char *near = suggest_nearest(name, field_names, F_COUNT);
        return err_set(err, ERR_INVALID, "requirement '%s': no field '%s'%s%s%s", shown, name,
                       near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    clause->field = (uint8_t)field;
    clause->relation = (uint8_t)relation;
    return check_value(clause, shown, err);
}

/* The end of the clause that begins at text: a comma, " and " or the end. */
static size_t clause_size(const char *text, size_t *skip)
{
    size_t comma = strcspn(text, ",");
    const char *and = strcasestr(text, " and ");
    if (and&&(size_t)(and-text) < comma) {
        *skip = 5;
        return (size_t)(and-text);
    }
    *skip = text[comma] ? 1 : 0;
    return comma;
}

enum err_code require_parse(struct require *require, const char *text, struct err *err)
{
    size_t before = require->count;
    while (*text) {
        size_t skip = 0;
        size_t size = clause_size(text, &skip);
        if (require->count == REQUIRE_CLAUSES_MAX) {
            require->count = before;
            return err_set(err, ERR_INVALID, "more than %d requirements", REQUIRE_CLAUSES_MAX);
        }
        struct require_clause clause = {0};
        enum err_code code = parse_clause(text, size, &clause, err);
        if (code != ERR_OK) {
            require->count = before;
            return code;
        }
        require->clauses[require->count++] = clause;
        text += size + skip;
    }
    return ERR_OK;
}

static const char *text_field(const struct catalog_row *row, enum field field)
{
    const char *const texts[] = {row->provider, row->region,   row->type,
                                 row->gpu,      row->currency, row->date};
    CHECK(field < F_VCPUS);
    return texts[field];
}

/* Below 0: the row does not say. */
static double number_field(const struct catalog_row *row, enum field field)
{
    double spot = row->spot_hour_micro == CATALOG_NO_SPOT ? -1 : money_units(row->spot_hour_micro);
    const double numbers[F_COUNT] = {
        [F_VCPUS] = row->vcpus,
        [F_MEMORY] = row->memory_gib,
        [F_GPUS] = row->gpus,
        [F_GPU_MEMORY] = row->gpu_memory_gib > 0 ? row->gpu_memory_gib : -1,
        [F_NETWORK] = row->network_mbps > 0 ? row->network_mbps : -1,
        [F_PRICE] = money_units(row->price_hour_micro),
        [F_SPOT] = spot,
    };
    return numbers[field];
}

static bool holds(enum relation relation, int order)
{
    switch (relation) {
    case EQUAL:
        return order == 0;
    case UNEQUAL:
        return order != 0;
    case LESS:
        return order < 0;
    case AT_MOST:
        return order <= 0;
    case MORE:
        return order > 0;
    case AT_LEAST:
        return order >= 0;
    }
    return false;
}

static bool clause_met(const struct require_clause *clause, const struct catalog_row *row)
{
    enum relation relation = clause->relation;
    enum field field = clause->field;
    if (field == F_DATE && relation != EQUAL && relation != UNEQUAL) {
        return holds(relation, strcmp(row->date, clause->text));
    }
    if (field < F_VCPUS) {
        return holds(relation, !catalog_match(clause->text, text_field(row, field)));
    }
    double number = number_field(row, field);
    return number >= 0 && holds(relation, (number > clause->number) - (number < clause->number));
}

bool require_met(const struct require *require, const struct catalog_row *row)
{
    for (size_t i = 0; i < require->count; i++) {
        if (!clause_met(&require->clauses[i], row)) {
            return false;
        }
    }
    return true;
}

bool require_keeps(const struct catalog_row *row, const void *require)
{
    return require_met(require, row);
}
