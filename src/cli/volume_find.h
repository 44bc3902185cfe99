/* volume_find.h - where the volumes of a recipe are, for those who run or submit it. */
#ifndef CLI_VOLUME_FIND_H
#define CLI_VOLUME_FIND_H

#include "base/err.h"
#include "base/str.h"
#include "recipe/diag.h"
#include "recipe/recipe.h"

/* Appends the addresses of the volumes that the recipe knows by a name of the user's list, as
 * master/stores.h has them, without any credential. A name that is not in the list gets a
 * diagnosis. ERR_INVALID: there was one. */
MUST_USE enum err_code volume_find(const struct recipe *recipe, struct str *stores,
                                   struct diag_list *diags, struct err *err);

/* The same, and looks from here whether each volume and snapshot is there. */
MUST_USE enum err_code volume_find_and_reach(const struct recipe *recipe, struct str *stores,
                                             struct diag_list *diags, struct err *err);

/* Says on standard error what each volume of the recipe is, as far as it is known here. A recipe is
 * good also where its volumes are not known, so nothing is refused. */
void volume_find_show(const struct recipe *recipe);

#endif
