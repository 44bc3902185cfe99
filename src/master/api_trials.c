/* api_trials.c - the searches of a workflow and their trials, and what a task runs. */
#include "master/api.h"
#include "master/trials_json.h"

#include <string.h>

static bool has_experiment(const struct flow *flow, const char *name)
{
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        if (strcmp(flow->recipe->experiments[e].name, name) == 0) {
            return true;
        }
    }
    return false;
}

void api_list_trials(struct api_call *call)
{
    const struct flow *flow = api_find_flow(call);
    const char *experiment = api_text(call, "experiment");
    AUTO_STR struct str body = {0};
    struct err err = {0};
    if (!flow) {
        return;
    }
    if (experiment[0] && !has_experiment(flow, experiment)) {
        api_fail(call, 404, "%s has no experiment '%.80s'", flow->id, experiment);
        return;
    }
    struct trials_json_options options = {.experiment = experiment[0] ? experiment : NULL,
                                          .bytes_max = TRIALS_JSON_SERVED_MAX};
    enum err_code code = trials_json_write(flow, server_core(call->server), &options, &body, &err);
    if (code == ERR_OK) {
        api_reply_json(call, &body, 0);
    } else {
        api_fail(call, code == ERR_QUOTA ? 503 : 500, "%s", err.text);
    }
}

void api_get_plan(struct api_call *call)
{
    struct api_task task;
    AUTO_STR struct str body = {0};
    struct err err = {0};
    if (!api_find_task(call, &task)) {
        return;
    }
    if (trials_json_plan(task.flow, task.experiment, task.index, &body, &err) == ERR_OK) {
        api_reply_json(call, &body, 0);
    } else {
        api_fail(call, 404, "%s", err.text);
    }
}
