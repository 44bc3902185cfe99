/* spec.h - a recipe as the core sees it. Pure. */
#ifndef MASTER_SPEC_H
#define MASTER_SPEC_H

#include "core/core.h"
#include "recipe/recipe.h"

/* Fills out[0..experiment_count). With ignore_hardware every task needs one slot and no more. */
void spec_fill(const struct recipe *recipe, bool ignore_hardware, struct core_experiment_spec *out);

/* Defines it as workflow `number`. */
void spec_define(struct core *core, uint32_t number, const struct recipe *recipe, uint64_t seed,
                 bool ignore_hardware);

#endif
