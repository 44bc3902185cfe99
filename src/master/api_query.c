/* api_query.c - what stands after the question mark: split, decoded, and held to the route's
 * parameters, so that no function of a route sees a value that is not of its type. */
#include "master/api.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Decodes text[0..size) into the arena; NULL: badly encoded, or a NUL. */
static const char *decode(struct arena *arena, const char *text, size_t size)
{
    char *out = arena_alloc(arena, size + 1);
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (c == '%') {
            int high = i + 2 < size ? str_hex_digit(text[i + 1]) : -1;
            int low = i + 2 < size ? str_hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0) {
                return NULL;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        out[used++] = c;
    }
    return out;
}

bool api_read_query(struct api_call *call, const char *query, struct err *err)
{
    size_t cap = 1;
    for (const char *at = query; *at; at++) {
        cap += *at == '&';
    }
    if (cap > API_QUERY_MAX) {
        err_set(err, ERR_INVALID, "too many parameters in the query");
        return false;
    }
    call->query = arena_alloc(&call->arena, cap * sizeof *call->query);
    while (*query) {
        size_t size = strcspn(query, "&");
        size_t key_size = strcspn(query, "=&");
        struct api_pair pair = {
            .key = decode(&call->arena, query, key_size),
            .value = key_size < size
                         ? decode(&call->arena, query + key_size + 1, size - key_size - 1)
                         : "",
        };
        if (!pair.key || !pair.value) {
            err_set(err, ERR_INVALID, "the query is badly encoded");
            return false;
        }
        if (size > 0) {
            call->query[call->query_count++] = pair;
        }
        query += size + (query[size] == '&');
    }
    return true;
}

bool api_read_u64(const char *text, uint64_t *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

bool api_read_time(const char *text, int64_t *unix_ms)
{
    struct tm when = {0};
    const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &when);
    int64_t ms = 0;
    if (!at || when.tm_year < 0 || when.tm_year > 8000) {
        return false;
    }
    if (*at == '.') {
        int64_t unit = 100;
        for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10) {
            ms += (*at - '0') * unit;
        }
    }
    if (strcmp(at, "Z") != 0) {
        return false;
    }
    *unix_ms = (int64_t)timegm(&when) * 1000 + ms;
    return true;
}

static bool is_one_of(const char *words, const char *value)
{
    size_t size = strlen(value);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == size && memcmp(at, value, size) == 0) {
            return true;
        }
        at += word;
    }
    return false;
}

static bool has_type(const struct api_param *param, const char *value, struct err *err)
{
    uint64_t number = 0;
    int64_t ms = 0;
    switch (param->type) {
    case API_TEXT:
        return true;
    case API_NUMBER:
        if (api_read_u64(value, &number) && number >= param->least && number <= param->most) {
            return true;
        }
        err_set(err, ERR_INVALID, "%s: a number from %" PRIu64 " to %" PRIu64 " is needed",
                param->name, param->least, param->most);
        return false;
    case API_FLAG:
        if (value[0] == '\0' || is_one_of("0 1 true false", value)) {
            return true;
        }
        err_set(err, ERR_INVALID, "%s: 1 or 0 is needed", param->name);
        return false;
    case API_WORD:
        if (is_one_of(param->words, value)) {
            return true;
        }
        err_set(err, ERR_INVALID, "%s: one of these is needed: %s", param->name, param->words);
        return false;
    case API_TIME:
        if (api_read_time(value, &ms)) {
            return true;
        }
        err_set(err, ERR_INVALID, "%s: a time like 2026-11-15T09:35:56Z is needed", param->name);
        return false;
    }
    return false;
}

static const struct api_param *find_param(const struct api_route *route, const char *name)
{
    for (size_t i = 0; route->params && route->params[i]; i++) {
        if (strcmp(route->params[i]->name, name) == 0) {
            return route->params[i];
        }
    }
    return NULL;
}

bool api_check_query(const struct api_call *call, struct err *err)
{
    for (size_t i = 0; i < call->query_count; i++) {
        const struct api_param *param = find_param(call->route, call->query[i].key);
        if (!param) {
            err_set(err, ERR_INVALID, "there is no parameter '%.64s' here", call->query[i].key);
            return false;
        }
        for (size_t j = 0; !param->repeats && j < i; j++) {
            if (strcmp(call->query[j].key, param->name) == 0) {
                err_set(err, ERR_INVALID, "%s: given twice", param->name);
                return false;
            }
        }
        if (!has_type(param, call->query[i].value, err)) {
            return false;
        }
    }
    return true;
}

static const char *find_value(const struct api_call *call, const char *name)
{
    for (size_t i = 0; i < call->query_count; i++) {
        if (strcmp(call->query[i].key, name) == 0) {
            return call->query[i].value;
        }
    }
    return NULL;
}

bool api_has(const struct api_call *call, const char *name)
{
    return find_value(call, name) != NULL;
}

const char *api_text(const struct api_call *call, const char *name)
{
    const char *value = find_value(call, name);
    return value ? value : "";
}

uint64_t api_number(const struct api_call *call, const char *name, uint64_t otherwise)
{
    const char *value = find_value(call, name);
    uint64_t number = 0;
    return value && api_read_u64(value, &number) ? number : otherwise;
}

bool api_flag(const struct api_call *call, const char *name)
{
    const char *value = find_value(call, name);
    return value && strcmp(value, "0") != 0 && strcmp(value, "false") != 0;
}

int64_t api_time(const struct api_call *call, const char *name, int64_t otherwise)
{
    const char *value = find_value(call, name);
    int64_t ms = 0;
    return value && api_read_time(value, &ms) ? ms : otherwise;
}
