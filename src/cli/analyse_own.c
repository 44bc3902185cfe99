/* drover analyse own: a table of machines, each bought or rented, and where buying breaks even. */
#include "advise/ownrent.h"
#include "base/csv.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/analyse.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HOURS_PER_YEAR = 8766 };

struct offer {
    const char *name;
    bool own;
    struct ownrent_own bought;
    struct ownrent_rent rented;
};

struct offers {
    struct offer *items;
    size_t count;
    size_t cap;
};

/* A column's number times `scale`, 0 if the column or the field is not there. */
static enum err_code read_scaled(const struct csv *csv, size_t row, const char *column,
                                 double scale, int64_t *out, struct err *err)
{
    int at = csv_find_column(csv, column);
    double number = 0;
    *out = 0;
    enum err_code code = at >= 0 ? csv_number(csv, row, (size_t)at, &number, err) : ERR_NOT_FOUND;
    if (code == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    if (code == ERR_OK && (number < 0 || number * scale > (double)MONEY_MICRO_MAX)) {
        return err_set(err, ERR_INVALID, "line %d: %s: %g is out of range", csv_row_line(csv, row),
                       column, number);
    }
    *out = code == ERR_OK ? llround(number * scale) : 0;
    return code;
}

struct field {
    const char *column;
    double scale;
    int64_t *out;
};

static enum err_code read_fields(const struct csv *csv, size_t row, const struct field *fields,
                                 size_t count, struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        code = read_scaled(csv, row, fields[i].column, fields[i].scale, fields[i].out, err);
    }
    return code;
}

static enum err_code read_offer(const struct csv *csv, size_t row, struct offer *offer,
                                struct err *err)
{
    int name = csv_find_column(csv, "name");
    int kind = csv_find_column(csv, "kind");
    *offer = (struct offer){.name = csv_text(csv, row, (size_t)name)};
    const char *is = csv_text(csv, row, (size_t)kind);
    offer->own = strcmp(is, "own") == 0;
    if (!offer->own && strcmp(is, "rent") != 0) {
        return err_set(err, ERR_INVALID, "line %d: kind '%.40s' is neither own nor rent",
                       csv_row_line(csv, row), is);
    }
    struct ownrent_own *bought = &offer->bought;
    struct ownrent_rent *rented = &offer->rented;
    const struct field own_fields[] = {
        {"price", MONEY_MICRO, &bought->price_micro},
        {"resale", MONEY_MICRO, &bought->resale_micro},
        {"lifetime_years", HOURS_PER_YEAR, &bought->lifetime_hours},
        {"watts", 1, &bought->watts},
        {"time_s", 1, &bought->job_s},
    };
    const struct field rent_fields[] = {
        {"price", MONEY_MICRO, &rented->price_hour_micro},
        {"machines", 1, &rented->machines},
        {"billing_s", 1, &rented->billing.granule_s},
        {"time_s", 1, &rented->job_s},
    };
    enum err_code code = offer->own ? read_fields(csv, row, own_fields, 5, err)
                                    : read_fields(csv, row, rent_fields, 4, err);
    rented->machines += rented->machines == 0 ? 1 : 0;
    rented->billing.granule_s += rented->billing.granule_s == 0 ? 1 : 0;
    return code;
}

static enum err_code read_offers(const struct csv *csv, struct offers *offers, struct err *err)
{
    static const char *const needed[] = {"name", "kind", "price", "time_s"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (csv_find_column(csv, needed[i]) < 0) {
            return err_set(err, ERR_INVALID, "no column '%s'", needed[i]);
        }
    }
    enum err_code code = ERR_OK;
    size_t owned = 0;
    for (size_t row = 0; row < csv_row_count(csv) && code == ERR_OK; row++) {
        struct offer offer;
        code = read_offer(csv, row, &offer, err);
        VEC_PUSH(offers->items, offers->count, offers->cap) = offer;
        owned += offer.own;
    }
    if (code == ERR_OK && (owned == 0 || owned == offers->count)) {
        code = err_set(err, ERR_INVALID, "there must be machines of both kinds, own and rent");
    }
    return code;
}

static void add_json(const struct analyse *analyse, const struct offer *own,
                     const struct offer *rent, const struct ownrent_answer *answer, struct str *out)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "own"), json_text(&json, own->name);
    json_key(&json, "rent"), json_text(&json, rent->name);
    json_key(&json, "currency"), json_text(&json, analyse->currency);
    json_key(&json, "price"), json_double(&json, money_units(own->bought.price_micro));
    json_key(&json, "rent_job"), json_double(&json, money_units(answer->rent_job_micro));
    json_key(&json, "own_job"), json_double(&json, money_units(answer->own_job_micro));
    json_key(&json, "break_even_jobs");
    if (answer->break_even_jobs >= 0) {
        json_i64(&json, answer->break_even_jobs);
    } else {
        json_null(&json);
    }
    json_key(&json, "break_even_hours");
    json_double(&json, answer->break_even_jobs >= 0 ? answer->break_even_hours : (double)NAN);
    json_key(&json, "pays"), json_bool(&json, answer->pays);
    if (analyse->jobs > 0) {
        int64_t owned = 0;
        int64_t rented = 0;
        ownrent_totals(&own->bought, answer, (int64_t)analyse->jobs, &owned, &rented);
        json_key(&json, "own_total"), json_double(&json, money_units(owned));
        json_key(&json, "rent_total"), json_double(&json, money_units(rented));
    }
    json_end(&json);
    str_add_char(out, '\n');
}

static void add_money(struct str *out, int width, int64_t micro)
{
    str_addf(out, "%*.2f", width, money_units(micro));
}

static void add_line(const struct analyse *analyse, const struct offer *own,
                     const struct offer *rent, const struct ownrent_answer *answer, struct str *out)
{
    str_addf(out, "%-18.18s ", own->name);
    add_money(out, 10, own->bought.price_micro);
    str_addf(out, "  %-26.26s", rent->name);
    add_money(out, 10, answer->rent_job_micro);
    str_addf(out, "%10.3f", money_units(answer->own_job_micro));
    if (answer->break_even_jobs < 0) {
        str_addf(out, "%12s%12s", "never", "-");
    } else {
        str_addf(out, "%12" PRId64 "%12.0f", answer->break_even_jobs, answer->break_even_hours);
    }
    str_addf(out, "  %s",
             answer->pays                  ? "yes"
             : answer->break_even_jobs < 0 ? "no"
                                           : "not in its life");
    if (analyse->jobs > 0) {
        int64_t owned = 0;
        int64_t rented = 0;
        ownrent_totals(&own->bought, answer, (int64_t)analyse->jobs, &owned, &rented);
        str_addf(out, "  %" PRIu64 " jobs: own %.2f, rent %.2f", analyse->jobs, money_units(owned),
                 money_units(rented));
    }
    str_add_char(out, '\n');
}

static int show(const struct analyse *analyse, const struct offers *offers)
{
    AUTO_STR struct str out = {0};
    if (!analyse->as_json) {
        str_addf(&out, "%-18s %10s  %-26s%10s%10s%12s%12s  %s\n", "OWN", "PRICE", "RENT",
                 "RENT/JOB", "OWN/JOB", "EVEN AT", "HOURS", "PAYS");
    }
    for (size_t i = 0; i < offers->count; i++) {
        for (size_t k = 0; k < offers->count; k++) {
            const struct offer *own = &offers->items[i];
            const struct offer *rent = &offers->items[k];
            if (!own->own || rent->own) {
                continue;
            }
            struct ownrent_answer answer;
            struct err err;
            if (ownrent_compare(&own->bought, &rent->rented, analyse->kwh_micro, &answer, &err) !=
                ERR_OK) {
                return cli_error(EXIT_USAGE, "%s: %s, %s: %s", analyse->files[0], own->name,
                                 rent->name, err.text);
            }
            (analyse->as_json ? add_json : add_line)(analyse, own, rent, &answer, &out);
        }
    }
    cli_write(&out);
    return EXIT_DONE;
}

int analyse_own(const struct analyse *analyse)
{
    struct offers offers = {0};
    struct csv *csv = NULL;
    int code = analyse_read_table(analyse, &csv);
    struct err err;
    if (code == EXIT_DONE && read_offers(csv, &offers, &err) != ERR_OK) {
        code = analyse_table_error(analyse, &err);
    }
    if (code == EXIT_DONE) {
        code = show(analyse, &offers);
    }
    free(offers.items);
    csv_destroy(csv);
    return code;
}
