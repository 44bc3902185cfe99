#include "base/mem.h"
#include "cli/advise.h"

#include <string.h>

static bool listed(const char *list, const char *type)
{
    char name[200];
    for (const char *at = list; *at;) {
        size_t size = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(size < 199 ? size : 199), at);
        if (catalog_match(name, type)) {
            return true;
        }
        at += size + (at[size] == ',');
    }
    return false;
}

size_t advise_rows(const struct advise *advise, const char *types, bool workers,
                   const struct catalog_row ***out)
{
    size_t count = 0;
    const struct catalog_row **rows = mem_array(advise->catalog.count, sizeof *rows);
    for (size_t i = 0; i < advise->catalog.count; i++) {
        const struct catalog_row *row = &advise->catalog.rows[i];
        bool good = types ? listed(types, row->type) : workers || row->gpus == 0;
        if (good && (!workers || require_met(&advise->require, row))) {
            rows[count++] = row;
        }
    }
    *out = rows;
    return count;
}

int advise_check_currency(const struct catalog_row *const *rows, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(rows[i]->currency, rows[0]->currency) != 0) {
            return cli_error(EXIT_USAGE,
                             "mixed currencies: %s is priced in %s, %s in %s (--require 'currency "
                             "= %s')",
                             rows[0]->place, rows[0]->currency, rows[i]->place, rows[i]->currency,
                             rows[0]->currency);
        }
    }
    return EXIT_DONE;
}

const char *advise_algorithm_name(enum advise_algorithm algorithm)
{
    static const char *const names[] = {
        [ADVISE_COST] = "cost",       [ADVISE_TIME] = "time",     [ADVISE_SCALA] = "scala",
        [ADVISE_SCALA_M] = "scala-m", [ADVISE_PARETO] = "pareto", [ADVISE_BEST] = "best",
    };
    return names[algorithm];
}
