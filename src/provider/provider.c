#include "provider/provider.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 20, KILL_PATIENCE_MS = 5000 };

void provider_list_release(struct provider_list *list)
{
    free(list->nodes);
    *list = (struct provider_list){0};
}

bool provider_name_is_good(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t size = strspn(name, letters);
    return size > 0 && size <= PROVIDER_NAME_MAX && name[size] == '\0' && name[0] != '.' &&
           name[0] != '-';
}

enum err_code provider_start(struct provider *provider, const struct provider_spec *spec,
                             struct err *err)
{
    if (!provider_name_is_good(spec->name)) {
        return err_set(err, ERR_INVALID,
                       "'%.80s' cannot be a node's name: up to %d letters, digits, '.', '_', '-'",
                       spec->name, PROVIDER_NAME_MAX);
    }
    return provider->ops->start(provider, spec, err);
}

static int compare_nodes(const void *left, const void *right)
{
    const struct provider_node *a = left;
    const struct provider_node *b = right;
    return strverscmp(a->name, b->name);
}

enum err_code provider_list(struct provider *provider, struct provider_list *out, struct err *err)
{
    enum err_code code = provider->ops->list(provider, out, err);
    if (code == ERR_OK && out->count > 1) {
        qsort(out->nodes, out->count, sizeof *out->nodes, compare_nodes);
    }
    return code;
}

enum err_code provider_stop(struct provider *provider, const char *name, enum provider_stop how,
                            struct err *err)
{
    if (!provider_name_is_good(name)) {
        return err_set(err, ERR_NOT_FOUND, "there is no node '%.80s'", name);
    }
    return provider->ops->stop(provider, name, how, err);
}

void provider_destroy(struct provider *provider)
{
    if (provider) {
        provider->ops->destroy(provider);
    }
}

const struct provider_node *provider_find(const struct provider_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->nodes[i].name, name) == 0) {
            return &list->nodes[i];
        }
    }
    return NULL;
}

/* --- stopping several ----------------------------------------------------------------------- */

static enum err_code tell(struct provider *provider, const char *const *names, size_t count,
                          enum provider_stop how, struct err *err)
{
    struct provider_list list = {0};
    enum err_code code = provider_list(provider, &list, err);
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        const struct provider_node *node = provider_find(&list, names[i]);
        if (node && node->alive) {
            code = provider_stop(provider, names[i], how, err);
            code = code == ERR_NOT_FOUND ? ERR_OK : code;
        }
    }
    provider_list_release(&list);
    return code;
}

/* The first that is still alive, or NULL; waits for it to be none. */
static enum err_code wait_gone(struct provider *provider, const char *const *names, size_t count,
                               int64_t patience_ms, const char **left, struct err *err)
{
    int64_t until_ms = clock_mono_ms() + patience_ms;
    struct provider_list list = {0};
    enum err_code code = ERR_OK;
    for (;;) {
        *left = NULL;
        code = provider_list(provider, &list, err);
        for (size_t i = 0; i < count && code == ERR_OK && !*left; i++) {
            const struct provider_node *node = provider_find(&list, names[i]);
            *left = node && node->alive ? names[i] : NULL;
        }
        if (code != ERR_OK || !*left || clock_mono_ms() >= until_ms) {
            break;
        }
        usleep(LOOK_MS * 1000);
    }
    provider_list_release(&list);
    return code;
}

static enum err_code forget(struct provider *provider, const char *const *names, size_t count,
                            struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        enum err_code code = provider_stop(provider, names[i], PROVIDER_ASK, err);
        if (code != ERR_OK && code != ERR_NOT_FOUND) {
            return code;
        }
    }
    return ERR_OK;
}

enum err_code provider_stop_all(struct provider *provider, const char *const *names, size_t count,
                                int64_t patience_ms, struct err *err)
{
    const char *left = NULL;
    enum err_code code = tell(provider, names, count, PROVIDER_ASK, err);
    if (code == ERR_OK) {
        code = wait_gone(provider, names, count, patience_ms, &left, err);
    }
    if (code == ERR_OK && left) {
        code = tell(provider, names, count, PROVIDER_KILL, err);
    }
    if (code == ERR_OK && left) {
        code = wait_gone(provider, names, count, KILL_PATIENCE_MS, &left, err);
    }
    if (code == ERR_OK && left) {
        code = err_set(err, ERR_TIMEOUT, "node %s does not go, even killed", left);
    }
    return code == ERR_OK ? forget(provider, names, count, err) : code;
}
