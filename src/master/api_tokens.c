/* api_tokens.c - making, listing and removing tokens. */
#include "master/api.h"
#include "master/words.h"
#include "recipe/yaml.h"

#include <string.h>
#include <unistd.h>

enum { BODY_MAX = 4096 };

static void add_token(struct json *json, const struct token *token)
{
    json_key(json, "name");
    json_text(json, token->name);
    json_key(json, "role");
    json_text(json, token_role_name(token->role));
    words_json_time(json, "created_at", token->created_ms);
}

/* In the order made; the cursor is the name of the last one given. */
void api_list_tokens(struct api_call *call)
{
    const struct tokens *tokens = &call->api->tokens;
    const char *after = api_text(call, "after");
    size_t index = 0;
    if (after[0]) {
        const struct token *last = tokens_find(tokens, after);
        if (!last) {
            api_fail(call, 400, "after: not a cursor of this list, or the token is gone");
            return;
        }
        index = (size_t)(last - tokens->items) + 1;
    }
    struct api_page page;
    api_page_begin(&page, call);
    for (; index < tokens->count && !api_page_is_full(&page); index++) {
        json_object(&page.json);
        add_token(&page.json, &tokens->items[index]);
        json_end(&page.json);
        page.count++;
    }
    api_page_end(&page, call,
                 index < tokens->count && index > 0 ? tokens->items[index - 1].name : "");
}

/* {"name": ..., "role": ...}, in JSON or YAML. False: answered. */
static bool read_body(struct api_call *call, const char **name, enum token_role *role)
{
    struct diag_list diags = {.file = "body"};
    const struct http_request *request = call->request;
    const struct ynode *root =
        request->body_size == 0 || request->body_size > BODY_MAX
            ? NULL
            : yaml_parse(&call->arena, request->body, request->body_size, &diags);
    diag_release(&diags);
    const struct ynode *wish = root && root->kind == YNODE_MAPPING ? yaml_get(root, "name") : NULL;
    const struct ynode *may = wish ? yaml_get(root, "role") : NULL;
    if (!wish || !may || root->count != 2 || wish->kind != YNODE_SCALAR ||
        may->kind != YNODE_SCALAR) {
        api_fail(call, 422,
                 "the body must be {\"name\": NAME, \"role\": \"reader\", \"user\" or "
                 "\"admin\"}");
        return false;
    }
    if (!token_role_read(may->text, role)) {
        api_fail(call, 422, "role: reader, user or admin");
        return false;
    }
    *name = wish->text;
    return true;
}

void api_make_token(struct api_call *call)
{
    const char *name = NULL;
    enum token_role role = TOKEN_NONE;
    char text[TOKEN_CHARS + 1];
    struct err err = {0};
    if (!read_body(call, &name, &role)) {
        return;
    }
    enum err_code code =
        tokens_add(&call->api->tokens, name, role, server_now_ms(call->server), text, &err);
    if (code != ERR_OK) {
        api_fail(call, code == ERR_INVALID ? 422 : code == ERR_IO ? 500 : 409, "%s", err.text);
        return;
    }
    uint64_t after = api_save_tokens(call->api);
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    json_object(&json);
    add_token(&json, tokens_find(&call->api->tokens, name));
    json_key(&json, "token");
    json_text(&json, text);
    json_end(&json);
    api_reply_json(call, &body, after);
    explicit_bzero(text, sizeof text);
    explicit_bzero(body.text, body.size);
}

void api_remove_token(struct api_call *call)
{
    struct tokens *tokens = &call->api->tokens;
    const struct token *token = tokens_find(tokens, call->captures[0]);
    if (!token) {
        api_fail(call, 404, "there is no token '%.80s'", call->captures[0]);
        return;
    }
    if (token->role == TOKEN_ADMIN && tokens_count_role(tokens, TOKEN_ADMIN) == 1) {
        api_fail(call, 409, "'%s' is the last token with the role admin; make another first",
                 token->name);
        return;
    }
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    json_object(&json);
    add_token(&json, token);
    json_end(&json);
    if (strcmp(token->name, "admin") == 0) { /* the file would name a token that is none */
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s/admin.token", server_folder(call->server));
        unlink(str_text(&path));
    }
    tokens_remove(tokens, call->captures[0]);
    api_reply_json(call, &body, api_save_tokens(call->api));
}
