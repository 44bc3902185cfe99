/* api_workflows.c - submitting workflows, looking at them, ending and repeating them. */
#include "base/io.h"
#include "base/mem.h"
#include "master/api.h"
#include "master/status_json.h"
#include "master/words.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { KEY_MAX = 255 };

static void add_recipe_path(struct str *out, const struct flow *flow)
{
    str_addf(out, "%s/recipe.yaml", flow->folder);
}

/* --- submit ---------------------------------------------------------------------------------- */

/* "text/yaml; charset=utf-8" is text/yaml. A form is what curl says of any body unless told. */
static bool is_recipe_type(const char *type)
{
    static const char *const types[] = {"text/yaml",
                                        "application/yaml",
                                        "text/x-yaml",
                                        "application/x-yaml",
                                        "application/json",
                                        "text/plain",
                                        "application/x-www-form-urlencoded"};
    size_t size = strcspn(type, "; \t");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i]) == size && strncasecmp(types[i], type, size) == 0) {
            return true;
        }
    }
    return size == 0;
}

/* False: it was answered. */
static bool check_submit(struct api_call *call)
{
    const char *key = call->request->idempotency_key;
    const char *folder = api_text(call, "folder");
    if (!is_recipe_type(call->request->content_type)) {
        api_fail(call, 415, "a recipe is application/yaml or application/json, not %.80s",
                 call->request->content_type);
        return false;
    }
    if (strlen(key) > KEY_MAX) {
        api_fail(call, 400, "Idempotency-Key: at most %d bytes", KEY_MAX);
        return false;
    }
    if (folder[0] && folder[0] != '/') {
        api_fail(call, 400, "folder: it must be absolute");
        return false;
    }
    return true;
}

/* The list of set= in the order given, in the call's arena. */
static size_t gather_sets(struct api_call *call, const char *const **out)
{
    const char **sets = arena_alloc(&call->arena, (call->query_count + 1) * sizeof *sets);
    size_t count = 0;
    for (size_t i = 0; i < call->query_count; i++) {
        if (strcmp(call->query[i].key, "set") == 0) {
            sets[count++] = call->query[i].value;
        }
    }
    *out = sets;
    return count;
}

static void fail_submit(struct api_call *call, enum err_code code, const struct err *err,
                        const struct diag_list *diags)
{
    int status = code == ERR_EXISTS        ? 409
                 : code == ERR_INVALID     ? 422
                 : code == ERR_UNSUPPORTED ? 422
                 : code == ERR_NOT_FOUND   ? 422
                 : code == ERR_QUOTA       ? 507
                 : code == ERR_AGAIN       ? 503
                                           : 500;
    AUTO_STR struct str body = {0};
    api_problem_json(&body, status, err->text, diags);
    struct http_reply reply = {
        .status = status,
        .content_type = "application/problem+json",
        .body = str_text(&body),
        .body_size = body.size,
        .retry_after_s = status == 503 ? 1 : 0,
    };
    api_reply(call, &reply, 0);
}

/* Of a search, how many are meant to be tried. */
static uint64_t tasks_of(const struct experiment *experiment)
{
    return experiment->search ? experiment->search->trials : experiment->task_count;
}

static void add_submitted(struct json *json, const struct core *core, const struct flow *flow)
{
    uint64_t tasks = 0;
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        tasks += tasks_of(&flow->recipe->experiments[e]);
    }
    json_object(json);
    json_key(json, "id");
    json_text(json, flow->id);
    json_key(json, "number");
    json_u64(json, flow->number);
    json_key(json, "state");
    json_text(json, words_workflow_state(core_workflow_state(core, flow->number)));
    json_key(json, "tasks");
    json_u64(json, tasks);
    json_key(json, "experiments");
    json_array(json);
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        json_object(json);
        json_key(json, "name");
        json_text(json, flow->recipe->experiments[e].name);
        json_key(json, "tasks");
        json_u64(json, tasks_of(&flow->recipe->experiments[e]));
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

/* The text as it came, for people to read again; the facts do not need it. */
static void keep_recipe(const struct flow *flow, const struct http_request *request)
{
    AUTO_STR struct str path = {0};
    add_recipe_path(&path, flow);
    if (access(str_text(&path), F_OK) != 0 && io_make_dirs(flow->folder, NULL) == ERR_OK &&
        io_replace_file(str_text(&path), request->body, request->body_size, 0600, NULL) != ERR_OK) {
        return; /* GET .../recipe will say that it is not there */
    }
}

void api_submit(struct api_call *call)
{
    if (!check_submit(call)) {
        return;
    }
    uint64_t seed = api_number(call, "seed", 0);
    const char *file = api_text(call, "file");
    struct server_submit submit = {
        .recipe = call->request->body_size ? call->request->body : "",
        .recipe_size = call->request->body_size,
        .file = file[0] ? file : "recipe.yaml",
        .folder = api_text(call, "folder"),
        .code = api_text(call, "code"),
        .seed = api_has(call, "seed") ? &seed : NULL,
        .key = call->request->idempotency_key,
        .owner = call->token->name,
        .ignore_hardware = api_flag(call, "ignore_hardware"),
        .no_containers = api_flag(call, "no_containers"),
    };
    submit.set_count = gather_sets(call, &submit.sets);
    struct diag_list diags = {.file = submit.file};
    struct err err = {0};
    uint32_t number = 0;
    uint64_t after = 0;
    enum err_code code = server_submit(call->server, &submit, &number, &after, &diags, &err);
    if (code != ERR_OK) {
        fail_submit(call, code, &err, &diags);
        diag_release(&diags);
        return;
    }
    diag_release(&diags);
    const struct flow *flow = server_flow(call->server, number);
    AUTO_STR struct str body = {0};
    AUTO_STR struct str location = {0};
    struct json json = {.out = &body};
    keep_recipe(flow, call->request);
    add_submitted(&json, server_core(call->server), flow);
    str_addf(&location, API_BASE "/workflows/%s", flow->id);
    struct http_reply reply = {
        .status = call->route->status,
        .content_type = "application/json",
        .body = str_text(&body),
        .body_size = body.size,
        .location = str_text(&location),
    };
    api_reply(call, &reply, after);
}

/* --- looking --------------------------------------------------------------------------------- */

static bool is_any_here(const struct herd *herd)
{
    for (size_t i = 0; i < herd->count; i++) {
        if (herd->nodes[i] && herd->nodes[i]->state == HERD_HERE) {
            return true;
        }
    }
    return false;
}

static void add_status(struct json *json, const struct server *server, const struct flow *flow)
{
    const struct core *core = server_core(server);
    bool running = core_workflow_state(core, flow->number) == WORKFLOW_RUNNING;
    AUTO_STR struct str lack = {0};
    AUTO_STR struct str waiting = {0};
    int unmet = running ? core_unmet_need(core, flow->number, &lack) : -1;
    if (unmet >= 0 && !is_any_here(server_herd(server))) {
        str_add(&waiting, "a node to join (none is here)");
    } else if (unmet >= 0) {
        str_addf(&waiting, "%s needs %s", flow->recipe->experiments[unmet].name, str_text(&lack));
    }
    struct status_extra extra = {.active = running, .waiting_for = str_text(&waiting)};
    json_object(json);
    status_json_add(json, core, flow, &extra);
    json_end(json);
}

/* Newest first; the cursor is the number of the last one given. */
void api_list_workflows(struct api_call *call)
{
    const char *after = api_text(call, "after");
    const char *state = api_text(call, "state");
    uint64_t number = server_flow_count(call->server) + 1;
    uint64_t cursor = 0;
    if (after[0] && !api_read_u64(after, &cursor)) {
        api_fail(call, 400, "after: not a cursor of this list");
        return;
    }
    number = after[0] && cursor < number ? cursor : number;
    struct api_page page;
    api_page_begin(&page, call);
    uint64_t scanned = 0;
    while (number > 1 && !api_page_is_full(&page) && scanned++ < API_SCAN_MAX) {
        const struct flow *flow = server_flow(call->server, (uint32_t)--number);
        if (flow &&
            (!state[0] || strcmp(state, words_workflow_state(core_workflow_state(
                                            server_core(call->server), flow->number))) == 0)) {
            add_status(&page.json, call->server, flow);
            page.count++;
        }
    }
    char next[24] = "";
    if (number > 1) {
        snprintf(next, sizeof next, "%" PRIu64, number);
    }
    api_page_end(&page, call, next);
}

void api_get_workflow(struct api_call *call)
{
    const struct flow *flow = api_find_flow(call);
    if (flow) {
        AUTO_STR struct str body = {0};
        struct json json = {.out = &body};
        add_status(&json, call->server, flow);
        api_reply_json(call, &body, 0);
    }
}

void api_get_recipe(struct api_call *call)
{
    const struct flow *flow = api_find_flow(call);
    if (!flow) {
        return;
    }
    AUTO_STR struct str path = {0};
    add_recipe_path(&path, flow);
    if (access(str_text(&path), R_OK) != 0) {
        api_fail(call, 404, "the text of %s's recipe was not kept", flow->id);
        return;
    }
    struct http_reply reply = {
        .status = 200,
        .content_type = call->route->type,
        .file = str_text(&path),
        .file_size = UINT32_MAX,
    };
    api_reply(call, &reply, 0);
}

/* --- acting ---------------------------------------------------------------------------------- */

static void reply_changed(struct api_call *call, const struct flow *flow, uint64_t tasks,
                          uint64_t after)
{
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    json_object(&json);
    json_key(&json, "id");
    json_text(&json, flow->id);
    json_key(&json, "tasks");
    json_u64(&json, tasks);
    json_end(&json);
    api_reply_json(call, &body, after);
}

static uint64_t count_cancelled(const struct core *core, const struct flow *flow)
{
    uint64_t count = 0;
    for (uint32_t e = 0; e < flow->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(core, flow->number, e, &view);
        count += view.cancelled;
    }
    return count;
}

void api_cancel_workflow(struct api_call *call)
{
    const struct flow *flow = api_find_flow(call);
    if (flow) {
        const struct core *core = server_core(call->server);
        uint64_t before = count_cancelled(core, flow);
        uint64_t after = 0;
        server_cancel(call->server, flow->number, &after);
        reply_changed(call, flow, count_cancelled(core, flow) - before, after);
    }
}

void api_retry_workflow(struct api_call *call)
{
    const struct flow *flow = api_find_flow(call);
    if (flow) {
        uint64_t after = 0;
        uint64_t tasks = server_retry(call->server, flow->number, &after);
        reply_changed(call, flow, tasks, after);
    }
}
