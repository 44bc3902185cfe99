/* curve_record.h - one point as text, on its way from a file to a curve; between curve_files.c,
 * which knows columns, and curve_json.c, which knows JSON. */
#ifndef CLI_CURVE_RECORD_H
#define CLI_CURVE_RECORD_H

#include "base/arena.h"
#include "cli/curve_files.h"

/* A member of a JSON object that is a string, a number, true or false; null is "". */
struct json_member {
    const char *key;
    const char *value;
};

struct json_members {
    struct json_member *items;
    size_t count;
    size_t cap;
    int line; /* where the object began */
};

struct json_reader {
    const char *file;
    const char *text;
    size_t size;
    size_t at;
    int line;
    bool in_array;
    bool started;
};

/* The next object of an array or of a sequence of objects. *more is false at the end. Texts are
 * in the arena. ERR_INVALID: "FILE:LINE: why". */
MUST_USE enum err_code json_reader_next(struct json_reader *reader, struct arena *arena,
                                        struct json_members *members, bool *more, struct err *err);

#endif
