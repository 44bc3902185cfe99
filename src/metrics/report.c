#include "metrics/report.h"

#include "base/json.h"
#include "base/mem.h"
#include "metrics/number.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static bool is_given(const struct record *record, const char *name, size_t size)
{
    for (size_t i = 0; i < record->count; i++) {
        if (strlen(record->items[i].name) == size &&
            memcmp(record->items[i].name, name, size) == 0) {
            return true;
        }
    }
    return (record->has_step && size == 4 && memcmp(name, "step", 4) == 0) ||
           (record->has_epoch && size == 5 && memcmp(name, "epoch", 5) == 0);
}

static enum err_code add_counter(struct record *record, const char *name, size_t size, double value,
                                 struct err *err)
{
    if (!isfinite(value)) {
        return err_set(err, ERR_INVALID, "%.*s: not a finite number", (int)size, name);
    }
    record_add(record, name, size, value);
    return ERR_OK;
}

enum err_code report_add(struct record *record, const char *pair, struct err *err)
{
    const char *equals = strrchr(pair, '='); /* a name may hold one, a number does not */
    double value = 0;
    if (!equals || equals == pair) {
        return err_set(err, ERR_INVALID, "'%.100s' is not NAME=NUMBER", pair);
    }
    size_t size = (size_t)(equals - pair);
    if (!metric_name_valid(pair, size)) {
        return err_set(err, ERR_INVALID,
                       "'%.*s': a name has 1 to %d characters, none of them a control character",
                       (int)(size < 100 ? size : 100), pair, METRIC_NAME_MAX);
    }
    if (!number_parse(equals + 1, strlen(equals + 1), &value)) {
        return err_set(err, ERR_INVALID, "%.*s: '%.60s' is not a number", (int)size, pair,
                       equals + 1);
    }
    if (is_given(record, pair, size)) {
        return err_set(err, ERR_INVALID, "%.*s is given twice", (int)size, pair);
    }
    if ((size == 4 && memcmp(pair, "step", 4) == 0) ||
        (size == 5 && memcmp(pair, "epoch", 5) == 0)) {
        return add_counter(record, pair, size, value, err);
    }
    if (!record_add_metric(record, pair, size, value)) {
        return err_set(err, ERR_INVALID, "more than %d metrics at once", RECORD_ITEMS_MAX);
    }
    return ERR_OK;
}

static void add_number(struct json *json, double value)
{
    AUTO_STR struct str text = {0};
    if (isnan(value)) {
        str_add(&text, "NaN");
    } else if (isinf(value)) {
        str_add(&text, value > 0 ? "Infinity" : "-Infinity");
    } else {
        str_add_double(&text, value);
    }
    json_raw(json, str_text(&text), text.size);
}

void report_add_object(const struct record *record, int64_t at_ms, struct str *out)
{
    struct json json = {.out = out};
    json_object(&json);
    if (record->has_step) {
        json_key(&json, "step");
        add_number(&json, record->step);
    }
    if (record->has_epoch) {
        json_key(&json, "epoch");
        add_number(&json, record->epoch);
    }
    for (size_t i = 0; i < record->count; i++) {
        json_key(&json, record->items[i].name);
        add_number(&json, record->items[i].value);
    }
    json_key(&json, "time");
    add_number(&json, (double)at_ms / 1000);
    json_end(&json);
}

enum err_code report_append(const char *path, const char *line, size_t size, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        return err_errno(err, errno, "%s", path);
    }
    ssize_t wrote = 0;
    do {
        wrote = write(fd, line, size);
    } while (wrote < 0 && errno == EINTR);
    if (wrote < 0) {
        return err_errno(err, errno, "%s", path);
    }
    if ((size_t)wrote < size) {
        return err_set(err, ERR_QUOTA, "%s: no room for the whole line", path);
    }
    return ERR_OK;
}
