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
 * last parameter varying fastest (but parameters that conditions of discrete ones mention, and what
 * is zipped with them, vary slowest). The same (space, key, i) gives the same bits on every
 * machine. A draw depends on the key, the task and the parameter's name, so adding or removing
 * other parameters does not change it.
 *
 * `parameters:` maps names ([A-Za-z_][A-Za-z0-9_-]*) to one of these forms:
 *
 *   batch: [64, 128, "x y", true]     values, used in commands exactly as written (1e-3 stays 1e-3)
 *   batch: {values: [64, 128]}        the same; listing a value twice is an error
 *     ordered: true                   neighbours are alike, for a search; without it, numbers that
 *                                     go up (or down) are
 *   lr: 0.1                           one value
 *   shard: 0..99                      whole numbers, both ends included; also {values: 0..99}
 *   x: 0..1 step 0.1                  exact decimals: 0, 0.1, 0.2 ... 1; the upper end is left out
 *                                     if no step meets it
 *   x: 10..0 step -2                  counting down needs a step below 0
 *
 *   lr: {range: 0.1-0.3}              a draw for each task; also 0.1..0.3 and [0.1, 0.3]; bounds
 *                                     may be negative and have exponents: -1--0.5, 1e-5-1e-1
 *     sampling: uniform               the default
 *     sampling: log                   uniform in the logarithm; the range must lie above 0
 *     sampling: integer               uniform over the whole numbers from low to high
 *     sampling: normal                cut off at the bounds (no redrawing); mean: is the middle of
 *                                     the range and sd: a sixth of its width unless given. With
 *                                     mean: and sd:, range: may be left out: no bounds
 *     step: S                         draws are low + k*S, exact decimals as above, never beyond
 *                                     high; log and normal draws go to the nearest such number.
 *                                     Also as text: range: 0..1 step 0.1
 *     integer: true                   whole numbers with any sampling; the same as step: 1
 *
 *   doc: {files: "data/x*.txt"}       globs, or a list of them; sorted and cut into batches
 *     batch: N                        files in one batch (default 1)
 *
 *   when: CONDITION                   in any mapping form; see expr.h. Conditions may mention
 *                                     parameters written before or after, but not in a circle, and
 *                                     not files. Only continuous parameters may depend on
 *                                     continuous ones.
 *
 * `zip: [a, b]`, or `zip: [[a, b], [c, d]]` for several groups: discrete parameters with equally
 * many values that move together. A member that is absent leaves the others moving.
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

enum {
    SPACE_PARAMS_MAX = 256, /* parameters in one space */
    SPACE_NAME_MAX = 64,    /* bytes of a parameter's name */
};

struct space; /* lives in the arena it was parsed into; read-only once files are bound */

/* Reads `parameters:` (a mapping, or NULL for none) and `zip:` (a list of names, a list of lists of
 * names, or NULL). Nothing in the result points into the YAML tree. Returns NULL with diagnoses on
 * error. */
struct space *space_parse(struct arena *arena, const struct ynode *parameters,
                          const struct ynode *zip, struct diag_list *diags);

size_t space_param_count(const struct space *space);
const char *space_param_name(const struct space *space, size_t param);
bool space_has_continuous(const struct space *space, const char **name); /* name of the first */

/* P, the number of distinct combinations of the discrete parameters (1 if there are none). Files
 * parameters must be bound first. ERR_RANGE when it is over 2^63; ERR_INVALID when files that are
 * zipped came to another number of batches than their group has values. */
MUST_USE enum err_code space_grid_size(const struct space *space, uint64_t *out, struct err *err);

/* A parameter `files: GLOB` with `batch: N` (default 1). The pattern(s) and batch for the caller to
 * expand; then space_bind_files says how many batches there are and where their manifests will be:
 * batch b's value is "FOLDER/B" with B in decimal. No batches at all make P 0. May be called
 * again. */
bool space_files(const struct space *space, size_t param, const char *const **patterns,
                 size_t *pattern_count, uint64_t *batch);
void space_bind_files(struct space *space, size_t param, uint64_t batch_count, const char *folder);

/* Fills out[0..param_count) with task `index`'s arguments; text lives in the scratch arena or the
 * space. `key` is the experiment's seed. `sampled` as above; index < P when not sampled. The grid
 * size must be known to be good. */
void space_draw(const struct space *space, uint64_t key, bool sampled, uint64_t index,
                struct value *out, struct arena *scratch);

#endif
