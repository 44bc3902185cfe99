/* space.h - the parameters of an experiment and the pure function from a task's number to its
 * arguments.
 *
 * Discrete parameters (values, files) span a grid of P combinations, P up to 2^63, that is never
 * built: combination c is unranked on demand. Parameters of one `zip:` group move together and
 * count once. A parameter whose `when:` does not hold is absent, and P counts distinct
 * combinations, so absent parameters do not multiply it. Continuous parameters (range) are drawn
 * for each task by a counter-based generator.
 *
 * Sampled (n given): task i takes combination perm_e(i mod P), where perm_e is a random permutation
 * of [0, P) keyed by (key, e = i / P) that needs O(1) memory; so among n tasks each combination
 * appears floor(n/P) or ceil(n/P) times, in random order. Not sampled: task i is combination i, the
 * last parameter varying fastest. The same (space, key, i) gives the same bits on every machine.
 */
#ifndef RECIPE_SPACE_H
#define RECIPE_SPACE_H

#include "base/arena.h"
#include "base/err.h"
#include "recipe/diag.h"
#include "recipe/value.h"
#include "recipe/yaml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct space; /* lives in the arena it was parsed into */

/* Reads `parameters:` (a mapping, or NULL for none) and `zip:` (a list of names, a list of lists of
 * names, or NULL). Returns NULL with diagnoses on error. */
struct space *space_parse(struct arena *arena, const struct ynode *parameters,
                          const struct ynode *zip, struct diag_list *diags);

size_t space_param_count(const struct space *space);
const char *space_param_name(const struct space *space, size_t param);
bool space_has_continuous(const struct space *space, const char **name); /* name of the first */

/* P, the number of distinct combinations of the discrete parameters (1 if there are none). Files
 * parameters must be bound first. ERR_RANGE when it is over 2^63. */
MUST_USE enum err_code space_grid_size(const struct space *space, uint64_t *out, struct err *err);

/* A parameter `files: GLOB` with `batch: N` (default 1). The pattern(s) and batch for the caller to
 * expand; then space_bind_files says how many batches there are and where their manifests will be:
 * batch b's value is "FOLDER/B" with B in decimal. */
bool space_files(const struct space *space, size_t param, const char *const **patterns,
                 size_t *pattern_count, uint64_t *batch);
void space_bind_files(struct space *space, size_t param, uint64_t batch_count, const char *folder);

/* Fills out[0..param_count) with task `index`'s arguments; text lives in the scratch arena or the
 * space. `key` is the experiment's seed. `sampled` as above; index < P when not sampled. */
void space_draw(const struct space *space, uint64_t key, bool sampled, uint64_t index,
                struct value *out, struct arena *scratch);

#endif
