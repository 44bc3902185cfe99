#include "advise/catalog.h"

#include "base/csv.h"
#include "base/mem.h"
#include "base/suggest.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum column {
    COL_PROVIDER,
    COL_REGION,
    COL_TYPE,
    COL_VCPUS,
    COL_MEMORY,
    COL_GPU,
    COL_GPUS,
    COL_GPU_MEMORY,
    COL_NETWORK,
    COL_PRICE,
    COL_SPOT,
    COL_BILLING,
    COL_BILLING_MIN,
    COL_FREE,
    COL_CURRENCY,
    COL_PURCHASE,
    COL_LIFETIME,
    COL_POWER,
    COL_KWH,
    COL_DATE,
    COL_SOURCE,
    COL_COUNT
};

static const char *const column_names[COL_COUNT] = {
    [COL_PROVIDER] = "provider",
    [COL_REGION] = "region",
    [COL_TYPE] = "type",
    [COL_VCPUS] = "vcpus",
    [COL_MEMORY] = "memory_gib",
    [COL_GPU] = "gpu",
    [COL_GPUS] = "gpus",
    [COL_GPU_MEMORY] = "gpu_memory_gib",
    [COL_NETWORK] = "network_mbps",
    [COL_PRICE] = "price_hour",
    [COL_SPOT] = "spot_hour",
    [COL_BILLING] = "billing_s",
    [COL_BILLING_MIN] = "billing_min_s",
    [COL_FREE] = "free_hours",
    [COL_CURRENCY] = "currency",
    [COL_PURCHASE] = "purchase",
    [COL_LIFETIME] = "lifetime_h",
    [COL_POWER] = "power_w",
    [COL_KWH] = "kwh_price",
    [COL_DATE] = "date",
    [COL_SOURCE] = "source",
};

static const bool column_required[COL_COUNT] = {
    [COL_PROVIDER] = true, [COL_REGION] = true, [COL_TYPE] = true, [COL_VCPUS] = true,
    [COL_MEMORY] = true,   [COL_PRICE] = true,  [COL_DATE] = true, [COL_SOURCE] = true,
};

/* One file being read. */
struct source {
    struct catalog *catalog;
    const struct csv *csv;
    const char *file;
    int columns[COL_COUNT]; /* -1: not there */
    size_t row;
};

void catalog_release(struct catalog *catalog)
{
    if (catalog) {
        free(catalog->rows);
        arena_release(&catalog->arena);
        *catalog = (struct catalog){0};
    }
}

static const char *field(const struct source *source, enum column column)
{
    int at = source->columns[column];
    return at < 0 ? "" : csv_text(source->csv, source->row, (size_t)at);
}

static enum err_code fault(const struct source *source, enum column column, const char *why,
                           struct err *err)
{
    return err_set(err, ERR_INVALID, "%s:%d: %s: %s", source->file,
                   csv_row_line(source->csv, source->row), column_names[column], why);
}

/* A number from low to high; `missing` where the field is empty. */
static enum err_code read_number(const struct source *source, enum column column,
                                 const double limits[2], double *out, struct err *err)
{
    if (!field(source, column)[0]) {
        return ERR_OK;
    }
    double number = 0;
    enum err_code code =
        csv_number(source->csv, source->row, (size_t)source->columns[column], &number, err);
    if (code != ERR_OK) {
        return code;
    }
    if (number < limits[0] || number > limits[1]) {
        return err_set(err, ERR_INVALID, "%s:%d: %s: %g is not between %g and %g", source->file,
                       csv_row_line(source->csv, source->row), column_names[column], number,
                       limits[0], limits[1]);
    }
    *out = number;
    return ERR_OK;
}

static enum err_code read_money(const struct source *source, enum column column, int64_t *out,
                                struct err *err)
{
    struct err why = {0};
    const char *text = field(source, column);
    if (!text[0] || money_parse(text, out, &why) == ERR_OK) {
        return ERR_OK;
    }
    return fault(source, column, why.text, err);
}

static enum err_code read_name(const struct source *source, enum column column, const char **out,
                               struct err *err)
{
    const char *text = field(source, column);
    if (!text[0]) {
        return fault(source, column, "is empty", err);
    }
    if (strlen(text) > 200) {
        return fault(source, column, "is longer than 200 bytes", err);
    }
    *out = arena_strdup(&source->catalog->arena, text);
    return ERR_OK;
}

/* YYYY, YYYY-MM or YYYY-MM-DD: they sort as text. */
static bool is_date(const char *text)
{
    static const char form[] = "dddd-dd-dd";
    size_t size = strlen(text);
    if (size != 4 && size != 7 && size != 10) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (form[i] == 'd' ? !digit : text[i] != '-') {
            return false;
        }
    }
    int month = size >= 7 ? (text[5] - '0') * 10 + text[6] - '0' : 1;
    int day = size == 10 ? (text[8] - '0') * 10 + text[9] - '0' : 1;
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

static enum err_code read_names(const struct source *source, struct catalog_row *row,
                                struct err *err)
{
    enum err_code code = read_name(source, COL_PROVIDER, &row->provider, err);
    code = code ? code : read_name(source, COL_REGION, &row->region, err);
    code = code ? code : read_name(source, COL_TYPE, &row->type, err);
    code = code ? code : read_name(source, COL_DATE, &row->date, err);
    code = code ? code : read_name(source, COL_SOURCE, &row->source, err);
    if (code != ERR_OK) {
        return code;
    }
    if (!is_date(row->date)) {
        return fault(source, COL_DATE, "is not YYYY, YYYY-MM or YYYY-MM-DD", err);
    }
    row->gpu = arena_strdup(&source->catalog->arena, field(source, COL_GPU));
    const char *currency = field(source, COL_CURRENCY);
    currency = currency[0] ? currency : "USD";
    if (!money_is_currency(currency)) {
        return fault(source, COL_CURRENCY, "is not three capital letters", err);
    }
    memcpy(row->currency, currency, sizeof row->currency);
    return ERR_OK;
}

static enum err_code read_machine(const struct source *source, struct catalog_row *row,
                                  struct err *err)
{
    static const double cores[] = {0.01, 1e6};
    static const double gib[] = {0.01, 1e7};
    static const double count[] = {0, 1e5};
    static const double mbps[] = {0, 1e8};
    double gpus = 0;
    enum err_code code = read_number(source, COL_VCPUS, cores, &row->vcpus, err);
    code = code ? code : read_number(source, COL_MEMORY, gib, &row->memory_gib, err);
    code = code ? code : read_number(source, COL_GPUS, count, &gpus, err);
    code = code ? code : read_number(source, COL_GPU_MEMORY, gib, &row->gpu_memory_gib, err);
    code = code ? code : read_number(source, COL_NETWORK, mbps, &row->network_mbps, err);
    if (code != ERR_OK) {
        return code;
    }
    row->gpus = (uint32_t)gpus;
    if (row->vcpus <= 0) {
        return fault(source, COL_VCPUS, "is empty", err);
    }
    if (row->memory_gib <= 0) {
        return fault(source, COL_MEMORY, "is empty", err);
    }
    if ((double)row->gpus != gpus) {
        return fault(source, COL_GPUS, "is not a whole number", err);
    }
    if (row->gpu[0] && row->gpus == 0 && field(source, COL_GPUS)[0]) {
        return fault(source, COL_GPUS, "is 0, but gpu names a kind", err);
    }
    if (!row->gpu[0] && row->gpus > 0) {
        return fault(source, COL_GPU, "is empty, but gpus counts some", err);
    }
    row->gpus = row->gpu[0] && row->gpus == 0 ? 1 : row->gpus;
    return ERR_OK;
}

/* What an hour of an owned machine costs while it lasts. */
static enum err_code price_owned(const struct source *source, struct catalog_row *row,
                                 struct err *err)
{
    if (field(source, COL_PRICE)[0]) {
        return ERR_OK;
    }
    if (row->purchase_micro == 0 || row->lifetime_h <= 0) {
        return fault(source, COL_PRICE, "is empty, and there is no purchase with its lifetime_h",
                     err);
    }
    double hour = (double)row->purchase_micro / row->lifetime_h +
                  row->power_w / 1000 * (double)row->kwh_micro;
    row->price_hour_micro = money_of_units(hour / MONEY_MICRO);
    return ERR_OK;
}

static enum err_code read_prices(const struct source *source, struct catalog_row *row,
                                 struct err *err)
{
    static const double granule[] = {1, 31 * 86400};
    static const double seconds[] = {0, 366 * 86400};
    static const double hours[] = {0, 1e7};
    static const double watts[] = {0, 1e7};
    double granule_s = 1;
    double minimum_s = 0;
    double free_hours = 0;
    row->spot_hour_micro = CATALOG_NO_SPOT;
    enum err_code code = read_money(source, COL_PRICE, &row->price_hour_micro, err);
    code = code ? code : read_money(source, COL_SPOT, &row->spot_hour_micro, err);
    code = code ? code : read_money(source, COL_PURCHASE, &row->purchase_micro, err);
    code = code ? code : read_money(source, COL_KWH, &row->kwh_micro, err);
    code = code ? code : read_number(source, COL_BILLING, granule, &granule_s, err);
    code = code ? code : read_number(source, COL_BILLING_MIN, seconds, &minimum_s, err);
    code = code ? code : read_number(source, COL_FREE, hours, &free_hours, err);
    code = code ? code : read_number(source, COL_LIFETIME, hours, &row->lifetime_h, err);
    code = code ? code : read_number(source, COL_POWER, watts, &row->power_w, err);
    code = code ? code : price_owned(source, row, err);
    row->billing = (struct money_billing){.granule_s = (int64_t)granule_s,
                                          .minimum_s = (int64_t)minimum_s,
                                          .free_s = (int64_t)(free_hours * MONEY_HOUR_S)};
    return code;
}

static int compare_keys(const struct catalog_row *a, const struct catalog_row *b)
{
    int order = strcmp(a->provider, b->provider);
    order = order ? order : strcmp(a->region, b->region);
    order = order ? order : strcmp(a->type, b->type);
    return order ? order : strcmp(a->currency, b->currency);
}

/* By key, the newest first. */
static int compare_rows(const void *left, const void *right)
{
    const struct catalog_row *a = left;
    const struct catalog_row *b = right;
    int order = compare_keys(a, b);
    order = order ? order : strcmp(b->date, a->date);
    return order ? order : strcmp(a->place, b->place);
}

static bool same_facts(const struct catalog_row *a, const struct catalog_row *b)
{
    return a->gpus == b->gpus && a->vcpus == b->vcpus && a->memory_gib == b->memory_gib &&
           a->gpu_memory_gib == b->gpu_memory_gib && a->network_mbps == b->network_mbps &&
           a->price_hour_micro == b->price_hour_micro && a->spot_hour_micro == b->spot_hour_micro &&
           strcmp(a->gpu, b->gpu) == 0 && a->billing.granule_s == b->billing.granule_s &&
           a->billing.minimum_s == b->billing.minimum_s && a->billing.free_s == b->billing.free_s;
}

/* Sorts, and drops the rows that a newer one replaces. */
static enum err_code settle(struct catalog *catalog, struct err *err)
{
    if (catalog->count == 0) {
        return ERR_OK;
    }
    qsort(catalog->rows, catalog->count, sizeof catalog->rows[0], compare_rows);
    size_t kept = 1;
    for (size_t i = 1; i < catalog->count; i++) {
        const struct catalog_row *row = &catalog->rows[i];
        const struct catalog_row *last = &catalog->rows[kept - 1];
        if (compare_keys(row, last) != 0) {
            catalog->rows[kept++] = *row;
        } else if (strcmp(row->date, last->date) == 0 && !same_facts(row, last)) {
            return err_set(err, ERR_INVALID,
                           "%s: %s %s %s says something else than %s of the same date", row->place,
                           row->provider, row->region, row->type, last->place);
        }
    }
    catalog->count = kept;
    return ERR_OK;
}

static enum err_code find_columns(struct source *source, struct err *err)
{
    for (int i = 0; i < COL_COUNT; i++) {
        source->columns[i] = csv_find_column(source->csv, column_names[i]);
        if (source->columns[i] < 0 && column_required[i]) {
            return err_set(err, ERR_INVALID, "%s:1: there is no column '%s'", source->file,
                           column_names[i]);
        }
    }
    /* A column of someone's own is fine; one that looks like ours misspelt would be lost. */
    for (size_t i = 0; i < csv_column_count(source->csv); i++) {
        const char *name = csv_column_name(source->csv, i);
        bool known = false;
        for (int c = 0; c < COL_COUNT; c++) {
            known = known || source->columns[c] == (int)i;
        }
        const char *near = known ? NULL : suggest_nearest(name, column_names, COL_COUNT);
        if (near) {
            return err_set(err, ERR_INVALID, "%s:1: unknown column '%.60s' (did you mean '%s'?)",
                           source->file, name, near);
        }
    }
    return ERR_OK;
}

static enum err_code add_row(struct source *source, struct err *err)
{
    struct catalog *catalog = source->catalog;
    struct catalog_row row = {
        .provider = "", .region = "", .type = "", .gpu = "", .date = "", .source = ""};
    enum err_code code = read_names(source, &row, err);
    code = code ? code : read_machine(source, &row, err);
    code = code ? code : read_prices(source, &row, err);
    if (code == ERR_OK) {
        char line[16];
        snprintf(line, sizeof line, ":%d", csv_row_line(source->csv, source->row));
        size_t size = strlen(source->file);
        char *place = arena_alloc(&catalog->arena, size + sizeof line);
        memcpy(place, source->file, size);
        memcpy(place + size, line, sizeof line);
        row.place = place;
        VEC_PUSH(catalog->rows, catalog->count, catalog->cap) = row;
    }
    return code;
}

enum err_code catalog_add_csv(struct catalog *catalog, const char *file, const char *text,
                              size_t size, struct err *err)
{
    struct csv *csv = NULL;
    enum err_code code = csv_parse(file, text, size, &csv, err);
    if (code != ERR_OK) {
        return code;
    }
    struct source source = {.catalog = catalog, .csv = csv, .file = file};
    code = find_columns(&source, err);
    for (; code == ERR_OK && source.row < csv_row_count(csv); source.row++) {
        code = add_row(&source, err);
    }
    csv_destroy(csv);
    return code == ERR_OK ? settle(catalog, err) : code;
}

void catalog_filter(struct catalog *catalog,
                    bool (*keep)(const struct catalog_row *row, const void *context),
                    const void *context)
{
    size_t kept = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        if (keep(&catalog->rows[i], context)) {
            catalog->rows[kept++] = catalog->rows[i];
        }
    }
    catalog->count = kept;
}

bool catalog_match(const char *pattern, const char *text)
{
    const char *star = NULL; /* where the last * stands, and what it has swallowed so far */
    const char *swallowed = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            swallowed = text;
        } else if (strncasecmp(pattern, text, 1) == 0) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++swallowed;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}
