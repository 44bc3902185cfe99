/* stores.h - where the volumes are that a recipe knows by name.
 *
 * Names are those of whoever submitted the recipe (drover volume create); he sends their addresses
 * along, and they are recorded with the workflow. No credentials: nodes have their own.
 *
 * As text: [{"name":..,"store":"s3://..","endpoint":..,"region":..,"addressing":..}, ...], the last
 * three only where they are needed.
 */
#ifndef MASTER_STORES_H
#define MASTER_STORES_H

#include "base/err.h"
#include "base/str.h"
#include "recipe/diag.h"
#include "recipe/recipe.h"

#include <stddef.h>

enum { STORES_MAX = 1000, STORES_BYTES_MAX = 1 << 20 };

struct store_place { /* all text is its own; what is not given is "" */
    char *name;
    char *store;
    char *endpoint;
    char *region;
    char *addressing;
};

struct stores { /* zeroed is empty */
    struct store_place *items;
    size_t count;
};

/* "" is an empty list. ERR_INVALID: not such a list; *out stays empty. */
MUST_USE enum err_code stores_parse(const char *text, struct stores *out, struct err *err);
void stores_add_json(const struct stores *stores, struct str *out);
void stores_release(struct stores *stores);
const struct store_place *stores_find(const struct stores *stores, const char *name); /* or NULL */

/* A diagnosis for each volume of the recipe whose name has no address. ERR_INVALID: there are some.
 */
MUST_USE enum err_code stores_check(const struct stores *stores, const struct recipe *recipe,
                                    struct diag_list *diags, struct err *err);

#endif
