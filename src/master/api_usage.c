/* api_usage.c - what a node or a task used over time. */
#include "base/mem.h"
#include "master/api.h"
#include "master/series.h"
#include "master/words.h"

#include <string.h>

enum { POINTS_MAX = 10000, HOUR_MS = 3600 * 1000 };

/* "W/EXPERIMENT/INDEX" into the call's captures, for api_find_task. */
static bool split_task(struct api_call *call, const char *text)
{
    const char *first = strchr(text, '/');
    const char *last = strrchr(text, '/');
    if (!first || first == last || first == text) {
        return false;
    }
    call->captures[0] = arena_strndup(&call->arena, text, (size_t)(first - text));
    call->captures[1] = arena_strndup(&call->arena, first + 1, (size_t)(last - first - 1));
    call->captures[2] = last + 1;
    return true;
}

/* False: answered. */
static bool read_who(struct api_call *call, struct series_who *who)
{
    const char *node = api_text(call, "node");
    const char *task = api_text(call, "task");
    if ((node[0] == '\0') == (task[0] == '\0')) {
        api_fail(call, 400, "either node or task is needed");
        return false;
    }
    if (node[0]) {
        call->captures[0] = node;
        const struct herd_node *found = api_find_node(call);
        who->node = found ? found->number : 0;
        return found != NULL;
    }
    struct api_task found;
    if (!split_task(call, task)) {
        api_fail(call, 400, "task: WORKFLOW/EXPERIMENT/INDEX is needed");
        return false;
    }
    if (!api_find_task(call, &found)) {
        return false;
    }
    who->workflow = found.flow->number;
    who->experiment = found.experiment;
    who->task = found.index;
    return true;
}

static void add_point(struct json *json, const struct series_point *point)
{
    const struct {
        const char *key;
        uint64_t number;
    } numbers[] = {
        {"memory_bytes", point->memory_bytes},
        {"disk_read_bytes", point->disk_read_bytes},
        {"disk_write_bytes", point->disk_write_bytes},
        {"net_in_bytes", point->net_in_bytes},
        {"net_out_bytes", point->net_out_bytes},
        {"gpu_memory_bytes", point->gpu_memory_bytes},
    };
    json_object(json);
    words_json_time(json, "at", point->at_ms);
    json_key(json, "cpu");
    json_double(json, (double)point->cpu_milli / 1000.0);
    json_key(json, "gpu");
    json_double(json, (double)point->gpu_milli / 1000.0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_key(json, numbers[i].key);
        json_u64(json, numbers[i].number);
    }
    json_end(json);
}

void api_get_usage(struct api_call *call)
{
    struct series_who who = {0};
    if (!read_who(call, &who)) {
        return;
    }
    int64_t to_ms = api_time(call, "to", server_now_ms(call->server) + 1);
    int64_t from_ms = api_time(call, "from", to_ms - HOUR_MS);
    int64_t step_ms = (int64_t)api_number(call, "step", 0) * 1000;
    struct series *series = server_series(call->server);
    AUTO_FREE struct series_point *points = mem_array(POINTS_MAX, sizeof *points);
    size_t count = 0;
    struct err err = {0};
    struct series_span span = {
        .from_ms = from_ms, .to_ms = to_ms, .step_ms = step_ms, .max = POINTS_MAX};
    enum err_code code = series ? series_read(series, &who, &span, points, &count, &err) : ERR_OK;
    if (code != ERR_OK) {
        api_fail(call, code == ERR_RANGE ? 400 : 500, "%s", err.text);
        return;
    }
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    json_object(&json);
    json_key(&json, "items");
    json_array(&json);
    for (size_t i = 0; i < count; i++) {
        add_point(&json, &points[i]);
    }
    json_end(&json);
    json_key(&json, "complete"); /* false: ask again from the last point on */
    json_bool(&json, count < POINTS_MAX);
    json_end(&json);
    api_reply_json(call, &body, 0);
}
