/* selector.h - which nodes are meant: "gpu-1,zone=a" is node gpu-1 and every node of zone a.
 *
 * A comma is "or". A term with '=' is a label, any other is a node's name or a label without a
 * value. `*` in a name stands for anything: "local-*". Pure.
 */
#ifndef CLI_SELECTOR_H
#define CLI_SELECTOR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { SELECTOR_TERMS_MAX = 1000 };

/* {0} is valid and means every node. */
struct selector {
    char *text; /* owned; the terms are in it */
    const char **terms;
    size_t count;
};

/* ERR_INVALID: an empty term, or too many. */
MUST_USE enum err_code selector_parse(const char *text, struct selector *out, struct err *err);
void selector_release(struct selector *selector);

bool selector_matches(const struct selector *selector, const char *name, const char *const *labels,
                      size_t label_count);

/* True if this very term names the node or one of its labels. */
bool selector_term_matches(const char *term, const char *name, const char *const *labels,
                           size_t label_count);

#endif
