/* http_parse.h - the bytes of a request that we judge ourselves: its path, its query, its token.
 *
 * Pure, for any input; private to src/http. libmicrohttpd parses the rest of HTTP.
 */
#ifndef HTTP_HTTP_PARSE_H
#define HTTP_HTTP_PARSE_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends the decoded path of a request target ("/a/b?c" or "http://host/a/b?c"): it begins with a
 * slash, has no empty, "." or ".." parts, no slash at the end (unless it is all), no control
 * characters, and is UTF-8. Returns NULL, or why it is refused (then out is unchanged). */
const char *http_parse_path(const char *target, struct str *out);

/* What follows the first question mark, as it came; "" if nothing does. */
const char *http_parse_query(const char *target);

/* The index-th value (from 0) of key in a query of "key=value&...", decoded, NUL-terminated in out.
 * False: it is not there, does not fit, or is badly encoded; then out is "". */
bool http_parse_value(const char *query, const char *key, unsigned index, char *out, size_t size);

/* The token in the value of an Authorization header; its length in *length, 0 if there is none. */
const char *http_parse_bearer(const char *header, size_t *length);

/* Is it a method name we pass on: 1 to 16 capital letters. */
bool http_parse_method(const char *method);

#endif
