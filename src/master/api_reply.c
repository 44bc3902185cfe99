/* api_reply.c - answers: JSON, problems, pages; and finding what a path names. */
#include "base/mem.h"
#include "master/api.h"
#include "master/api_cost.h"

#include <stdarg.h>
#include <string.h>

void api_reply(struct api_call *call, const struct http_reply *reply, uint64_t after)
{
    CHECK(!call->answered);
    call->answered = true;
    server_reply(call->server, call->request->id, reply, after);
}

void api_later(struct api_call *call)
{
    CHECK(!call->answered);
    call->answered = true;
}

struct http_request *api_give_away(struct api_call *call)
{
    struct http_request *request = call->request;
    api_later(call);
    call->request = NULL;
    return request;
}

void api_reply_json(struct api_call *call, const struct str *body, uint64_t after)
{
    struct http_reply reply = {
        .status = call->route->status,
        .content_type = "application/json",
        .body = str_text(body),
        .body_size = body->size,
    };
    api_reply(call, &reply, after);
}

static void add_diags(struct json *json, const struct diag_list *diags)
{
    json_key(json, "errors");
    json_array(json);
    for (size_t i = 0; i < diags->count; i++) {
        const struct diag *diag = &diags->items[i];
        json_object(json);
        json_key(json, "file");
        json_text(json, diags->file ? diags->file : "");
        json_key(json, "line");
        json_i64(json, diag->line == DIAG_LINE_SET ? 0 : diag->line);
        json_key(json, "column");
        json_i64(json, diag->line == DIAG_LINE_SET ? 0 : diag->column);
        json_key(json, "message");
        json_text(json, diag->text);
        json_end(json);
    }
    json_end(json);
}

void api_problem_json(struct str *out, int status, const char *detail,
                      const struct diag_list *diags)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "type");
    json_text(&json, "about:blank");
    json_key(&json, "title");
    json_text(&json, http_title(status));
    json_key(&json, "status");
    json_i64(&json, status);
    json_key(&json, "detail");
    json_text(&json, detail);
    if (diags && diags->count > 0) {
        add_diags(&json, diags);
    }
    json_end(&json);
}

static void reply_problem(struct api_call *call, int status, const char *detail,
                          const char *location)
{
    AUTO_STR struct str body = {0};
    api_problem_json(&body, status, detail, NULL);
    struct http_reply reply = {
        .status = status,
        .content_type = "application/problem+json",
        .body = str_text(&body),
        .body_size = body.size,
        .location = location,
        .retry_after_s = status == 503 ? 1 : 0,
    };
    api_reply(call, &reply, 0);
}

void api_fail_method(struct api_call *call, const char *methods)
{
    char detail[128];
    snprintf(detail, sizeof detail, "%.16s is not possible here; %s is", call->request->method,
             methods);
    reply_problem(call, 405, detail, methods);
}

void api_fail(struct api_call *call, int status, const char *format, ...)
{
    char detail[512];
    va_list args;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    reply_problem(call, status, detail, NULL);
}

/* --- finding --------------------------------------------------------------------------------- */

const struct flow *api_find_flow(struct api_call *call)
{
    const char *name = call->captures[0];
    bool newest = strcmp(name, "newest") == 0;
    const struct flow *flow = server_find_flow(call->server, newest ? NULL : name);
    if (!flow) {
        api_fail(call, 404,
                 newest ? "there is no workflow yet%.0s" : "there is no workflow '%.80s'", name);
    }
    return flow;
}

bool api_find_task(struct api_call *call, struct api_task *out)
{
    out->flow = api_find_flow(call);
    if (!out->flow) {
        return false;
    }
    const struct recipe *recipe = out->flow->recipe;
    uint32_t e = 0;
    while (e < recipe->experiment_count &&
           strcmp(recipe->experiments[e].name, call->captures[1]) != 0) {
        e++;
    }
    struct core_experiment_view view = {0};
    if (e < recipe->experiment_count) {
        core_experiment_view(server_core(call->server), out->flow->number, e, &view);
    }
    if (e == recipe->experiment_count || !api_read_u64(call->captures[2], &out->index) ||
        out->index >= view.tasks) {
        api_fail(call, 404, "there is no task %s/%.80s/%.40s", out->flow->id, call->captures[1],
                 call->captures[2]);
        return false;
    }
    out->experiment = e;
    core_task_view(server_core(call->server), out->flow->number, e, out->index, &out->view);
    return true;
}

const struct herd_node *api_find_node(struct api_call *call)
{
    const struct herd *herd = server_herd(call->server);
    const struct herd_node *node = herd_find_name(herd, call->captures[0]);
    uint64_t number = 0;
    if (!node && api_read_u64(call->captures[0], &number) && number < herd->count) {
        node = herd->nodes[number];
    }
    if (!api_node_exists(node)) {
        node = NULL;
        api_fail(call, 404, "there is no node '%.80s'", call->captures[0]);
    }
    return node;
}

const char *api_node_name(const struct server *server, uint32_t number)
{
    const struct herd *herd = server_herd(server);
    return number < herd->count && herd->nodes[number] ? herd->nodes[number]->name : NULL;
}

/* --- pages ----------------------------------------------------------------------------------- */

void api_page_begin(struct api_page *page, const struct api_call *call)
{
    *page = (struct api_page){.limit = api_number(call, "limit", API_PAGE_DEFAULT)};
    page->json.out = &page->body;
    json_object(&page->json);
    json_key(&page->json, "items");
    json_array(&page->json);
}

bool api_page_is_full(const struct api_page *page)
{
    return page->count >= page->limit || page->body.size >= API_PAGE_BYTES;
}

void api_page_end(struct api_page *page, struct api_call *call, const char *next)
{
    json_end(&page->json);
    json_key(&page->json, "next");
    if (next[0]) {
        json_text(&page->json, next);
    } else {
        json_null(&page->json);
    }
    json_end(&page->json);
    api_reply_json(call, &page->body, 0);
    str_release(&page->body);
}
