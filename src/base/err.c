#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void check_failed(const char *file, int line, const char *function, const char *condition)
{
    fprintf(stderr, "drover: internal error at %s:%d in %s: %s does not hold\n", file, line,
            function, condition);
    abort();
}

enum err_code err_set(struct err *err, enum err_code code, const char *format, ...)
{
    if (err) {
        char text[sizeof err->text]; /* the arguments may be err's own text */
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        memcpy(err->text, text, sizeof text);
        err->code = code;
    }
    return code;
}

static enum err_code code_of_errno(int errno_value)
{
    switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
        return ERR_QUOTA;
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case EEXIST:
        return ERR_EXISTS;
    case EAGAIN:
    case EINTR:
        return ERR_AGAIN;
    default:
        return ERR_IO;
    }
}

enum err_code err_errno(struct err *err, int errno_value, const char *format, ...)
{
    enum err_code code = code_of_errno(errno_value);
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        char reason[128];
        snprintf(err->text + used, sizeof err->text - used, ": %s",
                 strerror_r(errno_value, reason, sizeof reason));
        err->code = code;
    }
    return code;
}

const char *err_name(enum err_code code)
{
    static const char *const names[] = {
        [ERR_OK] = "ok",
        [ERR_AGAIN] = "try again",
        [ERR_QUOTA] = "no room",
        [ERR_STALE] = "stale",
        [ERR_EXISTS] = "exists",
        [ERR_NOT_FOUND] = "not found",
        [ERR_DENIED] = "denied",
        [ERR_CORRUPT] = "corrupt",
        [ERR_TIMEOUT] = "timeout",
        [ERR_CANCELLED] = "cancelled",
        [ERR_RANGE] = "out of range",
        [ERR_INVALID] = "invalid",
        [ERR_UNSUPPORTED] = "unsupported",
        [ERR_IO] = "i/o error",
    };
    return names[code];
}
