/* explain.h - what a server's refusal means, for people. Pure. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "base/str.h"

/* Of an HTTP status that is no success, and its body (application/problem+json, or anything at
 * all): the text (lines "FILE:LINE:COL: why" for a recipe with mistakes, else one line that begins
 * "drover: ") and the exit code: 2 the request is at fault, 1 the server. */
int explain_problem(int status, const char *body, size_t size, struct str *out);

#endif
