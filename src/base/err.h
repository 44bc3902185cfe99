/* err.h - the one error value.
 *
 * A function that can fail returns an err_code and takes `struct err *err` last. err may be NULL;
 * it is filled only on failure, and holds its text in place, so reporting never allocates. Codes
 * are few and chosen by what the caller will do about it; the text is for people: it names the
 * thing, then the trouble, in lower case and without a full stop.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/check.h"

#include <stdarg.h>

enum err_code {
    ERR_OK = 0,
    ERR_AGAIN,       /* nothing wrong, not now: try again later */
    ERR_QUOTA,       /* a limit or a full disk: frees up only when someone acts */
    ERR_STALE,       /* the caller's view is out of date; its work is refused */
    ERR_EXISTS,      /* it is there already */
    ERR_NOT_FOUND,   /* it is not there */
    ERR_DENIED,      /* not allowed, or someone else holds it */
    ERR_CORRUPT,     /* bytes that should be ours are damaged */
    ERR_TIMEOUT,     /* took too long */
    ERR_CANCELLED,   /* asked to stop */
    ERR_RANGE,       /* a number out of its range */
    ERR_INVALID,     /* input that does not mean anything: tell the user, exit 2 */
    ERR_UNSUPPORTED, /* this driver or machine cannot do it */
    ERR_IO,          /* the operating system said no */
};

struct err {
    enum err_code code;
    char text[480];
};

/* Fills err (unless NULL) and returns code, so that `return err_set(...)` reads well. */
enum err_code err_set(struct err *err, enum err_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* The same, with ": " and the text of errno_value appended; the code is chosen from it
 * (ENOSPC, EDQUOT → QUOTA; ENOENT → NOT_FOUND; EACCES, EPERM → DENIED; EEXIST → EXISTS; else IO).
 */
enum err_code err_errno(struct err *err, int errno_value, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* A short lower-case name of the code: "not found". */
const char *err_name(enum err_code code);

#endif
