/* webhook: at the top: whom to tell when the workflow is over. */
#include "recipe/recipe_build.h"

#include <string.h>

enum { URL_BYTES_MAX = 2000 };

/* http or https, a host, and nothing that could end a line or a word. Credentials before an @ would
 * be a secret in the recipe. */
static const char *url_trouble(const char *url)
{
    const char *host = NULL;
    if (strncmp(url, "http://", 7) == 0) {
        host = url + 7;
    } else if (strncmp(url, "https://", 8) == 0) {
        host = url + 8;
    } else {
        return "must begin with http:// or https://";
    }
    size_t size = 0;
    for (; url[size]; size++) {
        if (url[size] <= ' ' || url[size] > '~') {
            return "must be printable ASCII without spaces";
        }
    }
    size_t authority = strcspn(host, "/?#");
    if (size > URL_BYTES_MAX) {
        return "is longer than 2000 bytes";
    }
    if (memchr(host, '@', authority)) {
        return "must not hold a user's name or password";
    }
    return authority == 0 || host[0] == ':' ? "has no host" : NULL;
}

static void read_url(struct build *build, struct recipe_webhook *webhook, const struct ynode *node)
{
    const char *url = build_text(build, node, "the url of a webhook");
    const char *trouble = url ? url_trouble(url) : NULL;
    if (trouble) {
        diag_add(build->diags, node->line, node->column, "the url of a webhook %s", trouble);
    }
    webhook->url = url;
}

static void read_state(struct build *build, struct recipe_webhook *webhook,
                       const struct ynode *node)
{
    static const char *const states[] = {"succeeded", "failed", "cancelled"};
    const char *text = build_text(build, node, "on");
    if (!text) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(text, states[i]) == 0) {
            webhook->on |= 1U << i;
            return;
        }
    }
    const char *hint = build_hint(build, text, states, 3);
    diag_add(build->diags, node->line, node->column,
             "on must be succeeded, failed or cancelled, not '%.60s'%s%s%s", text,
             hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
}

static void read_on(struct build *build, struct recipe_webhook *webhook, const struct ynode *node)
{
    webhook->on = 0;
    if (node->kind != YNODE_SEQUENCE) {
        read_state(build, webhook, node);
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        read_state(build, webhook, node->items[i]);
    }
    if (node->count == 0) {
        diag_add(build->diags, node->line, node->column,
                 "on names no state; it is succeeded, failed or cancelled, or a list of them");
    }
}

static void read_secret(struct build *build, struct recipe_webhook *webhook,
                        const struct ynode *node)
{
    webhook->secret_file = build_text(build, node, "the file of a secret");
    if (webhook->secret_file && strstr(webhook->secret_file, "{{")) {
        diag_add(build->diags, node->line, node->column,
                 "{{...}} is not allowed in the path of a secret");
    }
}

static void read_pair(struct build *build, struct recipe_webhook *webhook, const struct ynode *key,
                      const struct ynode *value)
{
    static const char *const keys[] = {"url", "on", "secret"};
    if (strcmp(key->text, "url") == 0) {
        read_url(build, webhook, value);
    } else if (strcmp(key->text, "on") == 0) {
        read_on(build, webhook, value);
    } else if (strcmp(key->text, "secret") == 0) {
        read_secret(build, webhook, value);
    } else {
        const char *hint = build_hint(build, key->text, keys, 3);
        diag_add(build->diags, key->line, key->column, "unknown key '%.60s'%s%s%s", key->text,
                 hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
    }
}

static void read_webhook(struct build *build, struct recipe_webhook *webhook,
                         const struct ynode *node)
{
    webhook->on = RECIPE_WEBHOOK_SUCCEEDED | RECIPE_WEBHOOK_FAILED | RECIPE_WEBHOOK_CANCELLED;
    if (node->kind != YNODE_MAPPING) {
        read_url(build, webhook, node);
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        read_pair(build, webhook, node->keys[i], node->items[i]);
    }
    if (!yaml_get(node, "url")) {
        diag_add(build->diags, node->line, node->column, "a webhook needs a url:");
    }
}

void build_webhooks(struct build *build, struct recipe *recipe, const struct ynode *node)
{
    if (!node) {
        return;
    }
    bool is_list = node->kind == YNODE_SEQUENCE;
    size_t count = is_list ? node->count : 1;
    if (count > RECIPE_WEBHOOKS_MAX) {
        diag_add(build->diags, node->line, node->column, "more than %d webhooks",
                 RECIPE_WEBHOOKS_MAX);
        return;
    }
    recipe->webhooks = arena_alloc(build->arena, count * sizeof *recipe->webhooks);
    recipe->webhook_count = count;
    for (size_t i = 0; i < count; i++) {
        read_webhook(build, &recipe->webhooks[i], is_list ? node->items[i] : node);
    }
}
