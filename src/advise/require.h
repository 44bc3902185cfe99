/* require.h - which machines will do: "vcpus >= 4, gpu = k80, region = eu-*".
 *
 * Clauses are separated by commas or "and"; all must hold. The fields are provider, region, type,
 * gpu, currency, date (text: = and != with * for anything; dates also by order) and vcpus,
 * memory_gib, gpus, gpu_memory_gib, network_mbps, price_hour, spot_hour (numbers: = != < <= > >=).
 * memory_gib, gpu_memory_gib and network_mbps may also be written memory, gpu_memory, network. A
 * number that a row does not know meets no clause. Pure; a requirement owns its text.
 */
#ifndef ADVISE_REQUIRE_H
#define ADVISE_REQUIRE_H

#include "advise/catalog.h"

enum { REQUIRE_CLAUSES_MAX = 32, REQUIRE_TEXT_MAX = 120 };

struct require_clause {
    uint8_t field;
    uint8_t relation;
    double number;
    char text[REQUIRE_TEXT_MAX + 1];
};

struct require {
    size_t count;
    struct require_clause clauses[REQUIRE_CLAUSES_MAX];
};

/* Adds the clauses of text to those there are. ERR_INVALID says which clause is wrong and why;
 * `require` is then unchanged. */
MUST_USE enum err_code require_parse(struct require *require, const char *text, struct err *err);

bool require_met(const struct require *require, const struct catalog_row *row);

/* The same, as catalog_filter takes it. */
bool require_keeps(const struct catalog_row *row, const void *require);

#endif
