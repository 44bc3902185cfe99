/* api.c - the door of the API: tokens, the matching of requests with routes, the clock. */
#include "master/api.h"

#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define FIRST_TOKEN "admin"

/* --- making ---------------------------------------------------------------------------------- */

uint64_t api_save_tokens(struct api *api)
{
    AUTO_STR struct str document = {0};
    tokens_write(&api->tokens, &document);
    server_put_document(api->server, "tokens", str_text(&document), document.size);
    return core_last_fact(server_core(api->server));
}

/* The file comes first: a crash in between leaves a token that nobody knows and that the next start
 * replaces, never a server whose administrator has none. */
static enum err_code make_admin(struct api *api, const char *path, struct err *err)
{
    char text[TOKEN_CHARS + 1];
    tokens_remove(&api->tokens, FIRST_TOKEN);
    enum err_code code =
        tokens_add(&api->tokens, FIRST_TOKEN, TOKEN_ADMIN, server_now_ms(api->server), text, err);
    if (code == ERR_OK) {
        AUTO_STR struct str line = {0};
        str_addf(&line, "%s\n", text);
        code = io_replace_file(path, str_text(&line), line.size, 0600, err);
        explicit_bzero(line.text, line.size);
        explicit_bzero(text, sizeof text);
    }
    if (code == ERR_OK) {
        api_save_tokens(api);
    }
    return code;
}

/* Whoever can remove admin.token owns the state folder; a restart then makes a new one. */
static enum err_code read_tokens(struct api *api, struct err *err)
{
    AUTO_STR struct str document = {0};
    AUTO_STR struct str path = {0};
    enum err_code code = server_get_document(api->server, "tokens", &document, err);
    if (code == ERR_OK) {
        code = tokens_read(&api->tokens, str_text(&document), document.size, err);
    }
    bool first = code == ERR_NOT_FOUND;
    if (code != ERR_OK && !first) {
        return code;
    }
    str_addf(&path, "%s/admin.token", server_folder(api->server));
    bool missing = access(str_text(&path), F_OK) != 0 && errno == ENOENT;
    if (first || (missing && tokens_find(&api->tokens, FIRST_TOKEN))) {
        return make_admin(api, str_text(&path), err);
    }
    return ERR_OK;
}

enum err_code api_create(struct server *server, struct api **out, struct err *err)
{
    struct api *api = mem_alloc(sizeof *api);
    api->server = server;
    api->events = api_events_create(server);
    api->follows = api_follows_create(server);
    api->searches = api_searches_create(server);
    enum err_code code = read_tokens(api, err);
    if (code != ERR_OK) {
        api_destroy(api);
        return code;
    }
    *out = api;
    return ERR_OK;
}

void api_destroy(struct api *api)
{
    if (api) {
        api_events_destroy(api->events);
        api_follows_destroy(api->follows);
        api_searches_destroy(api->searches);
        tokens_release(&api->tokens);
        str_release(&api->openapi);
        free(api);
    }
}

/* --- answering ------------------------------------------------------------------------------- */

bool api_match(const char *pattern, const char *path, struct arena *arena,
               const char *captures[API_CAPTURES_MAX])
{
    size_t count = 0;
    for (;;) {
        size_t want = strcspn(pattern + 1, "/") + 1; /* both begin with a slash */
        size_t got = path[0] == '/' ? strcspn(path + 1, "/") + 1 : 0;
        if (pattern[1] == '{') {
            if (got < 2) {
                return false;
            }
            CHECK(count < API_CAPTURES_MAX);
            captures[count++] = arena_strndup(arena, path + 1, got - 1);
        } else if (want != got || memcmp(pattern, path, want) != 0) {
            return false;
        }
        pattern += want;
        path += got;
        if (!*pattern || !*path) {
            return !*pattern && !*path;
        }
    }
}

/* The route, or NULL with the methods that the path has: "GET, POST", or "". */
static const struct api_route *find_route(struct api_call *call, char *methods, size_t size)
{
    methods[0] = '\0';
    for (size_t i = 0; i < api_route_count; i++) {
        const struct api_route *route = &api_routes[i];
        if (!api_match(route->pattern, call->request->path, &call->arena, call->captures)) {
            continue;
        }
        if (strcmp(route->method, call->request->method) == 0) {
            return route;
        }
        size_t used = strlen(methods);
        snprintf(methods + used, size - used, "%s%s", used ? ", " : "", route->method);
    }
    return NULL;
}

/* False: answered with 401 or 403. */
static bool is_allowed(struct api_call *call)
{
    if (call->route->role == TOKEN_NONE) {
        return true;
    }
    call->token = tokens_check(&call->api->tokens, call->request->token);
    if (!call->token) {
        call->api->denied++;
        api_fail(
            call, 401,
            call->request->token[0]
                ? "this token is not known here"
                : "a token is needed: Authorization: Bearer TOKEN (FOLDER/admin.token has one)");
        return false;
    }
    if (call->token->role < call->route->role) {
        call->api->denied++;
        api_fail(call, 403, "token '%s' has the role %s; %s is needed", call->token->name,
                 token_role_name(call->token->role), token_role_name(call->route->role));
        return false;
    }
    return true;
}

static void answer_call(struct api_call *call)
{
    char methods[64];
    struct err err = {0};
    call->route = find_route(call, methods, sizeof methods);
    if (!call->route && methods[0]) {
        api_fail_method(call, methods);
    } else if (!call->route) {
        api_fail(call, 404,
                 "there is nothing at %.200s; " API_BASE "/openapi.json says what there is",
                 call->request->path);
    } else if (is_allowed(call)) {
        if (api_read_query(call, call->request->query, &err) && api_check_query(call, &err)) {
            call->route->answer(call);
        } else {
            api_fail(call, 400, "%s", err.text);
        }
    }
    CHECK(call->answered);
}

void api_answer(struct api *api, struct http_request *request)
{
    if (strcmp(request->method, "CLOSED") == 0) {
        api_events_closed(api->events, request->id);
        api_follows_closed(api->follows, request->id);
        http_request_free(request);
        return;
    }
    struct api_call call = {.api = api, .server = api->server, .request = request};
    api->requests++;
    answer_call(&call);
    arena_release(&call.arena);
    if (call.request) {
        http_request_free(call.request);
    }
}

/* --- the clock ------------------------------------------------------------------------------- */

void api_event(struct api *api, const struct server_event *event)
{
    api_events_add(api->events, event);
    api_follows_event(api->follows, event);
}

void api_tick(struct api *api)
{
    int64_t now_ms = server_now_ms(api->server);
    api_events_tick(api->events, now_ms);
    api_follows_tick(api->follows, now_ms);
    api_searches_tick(api->searches);
}

int64_t api_next_due_ms(const struct api *api)
{
    int64_t due = api_events_due_ms(api->events);
    int64_t follows = api_follows_due_ms(api->follows);
    int64_t searches = api_searches_due_ms(api->searches);
    due = follows < due ? follows : due;
    return searches < due ? searches : due;
}
