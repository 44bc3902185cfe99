/* catalog.h - the machines one can rent or owns: what they have, what they cost, who says so.
 *
 * A catalog is read from CSV files with these columns (any order; a * may be left out or empty):
 *     provider,region,type,vcpus,memory_gib,gpu*,gpus*,network_mbps*,price_hour,spot_hour*,
 *     billing_s*,date,source,
 *     gpu_memory_gib*      of one GPU
 *     billing_min_s*       the least that is billed
 *     free_hours*          not billed at the beginning (a free tier)
 *     currency*            three letters, USD unless said
 *     purchase*,lifetime_h*,power_w*,kwh_price*    of a machine one owns: price_hour may then be
 *                          empty and is purchase / lifetime_h + power_w / 1000 * kwh_price
 * A row is known by provider, region, type and currency. Files merge: of two rows with one key the
 * newer date counts; the same date with other facts is an error that names both places. Rows are
 * kept sorted by key, so the order of the files does not matter. Pure; the catalog owns all text.
 */
#ifndef ADVISE_CATALOG_H
#define ADVISE_CATALOG_H

#include "advise/money.h"
#include "base/arena.h"

struct catalog_row {
    const char *provider;
    const char *region;
    const char *type;
    const char *gpu; /* "" if it has none */
    const char *date;
    const char *source;
    const char *place; /* "FILE:LINE" */
    char currency[MONEY_CURRENCY_SIZE];
    uint32_t gpus;
    double vcpus;
    double memory_gib;
    double gpu_memory_gib; /* of one GPU; 0: not known */
    double network_mbps;   /* 0: not known */
    int64_t price_hour_micro;
    int64_t spot_hour_micro; /* CATALOG_NO_SPOT: not offered */
    struct money_billing billing;
    int64_t purchase_micro; /* 0: rented */
    double lifetime_h;
    double power_w;
    int64_t kwh_micro;
};

enum { CATALOG_NO_SPOT = -1 };

struct catalog {
    struct catalog_row *rows;
    size_t count;
    size_t cap;
    struct arena arena;
};

void catalog_release(struct catalog *catalog);

/* Merges the rows of one file into the catalog. ERR_INVALID with "FILE:LINE: why"; the catalog is
 * then to be released (rows of this file may be in it). */
MUST_USE enum err_code catalog_add_csv(struct catalog *catalog, const char *file, const char *text,
                                       size_t size, struct err *err);

/* The rows as CSV, in catalog order, every column that some row needs. */
void catalog_write_csv(const struct catalog *catalog, struct str *out);

/* Keeps the rows that `keep` says yes to. */
void catalog_filter(struct catalog *catalog,
                    bool (*keep)(const struct catalog_row *row, const void *context),
                    const void *context);

/* Is text matched by a pattern in which * stands for anything? Letters' case does not count. */
bool catalog_match(const char *pattern, const char *text);

#endif
