#include "base/mem.h"
#include "provider/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake {
    struct provider provider;
    struct provider_list nodes;
};

static struct fake *fake_of(struct provider *provider)
{
    return (struct fake *)provider; /* it comes first */
}

static struct provider_node *find(struct fake *fake, const char *name)
{
    for (size_t i = 0; i < fake->nodes.count; i++) {
        if (strcmp(fake->nodes.nodes[i].name, name) == 0) {
            return &fake->nodes.nodes[i];
        }
    }
    return NULL;
}

static enum err_code fake_start(struct provider *provider, const struct provider_spec *spec,
                                struct err *err)
{
    struct fake *fake = fake_of(provider);
    struct provider_node *node = find(fake, spec->name);
    if (node && node->alive) {
        return err_set(err, ERR_EXISTS, "node %s runs already", spec->name);
    }
    if (!node) {
        struct provider_node made = {0};
        snprintf(made.name, sizeof made.name, "%s", spec->name);
        VEC_PUSH(fake->nodes.nodes, fake->nodes.count, fake->nodes.cap) = made;
        node = &fake->nodes.nodes[fake->nodes.count - 1];
    }
    snprintf(node->place, sizeof node->place, "in memory");
    node->alive = true;
    return ERR_OK;
}

static enum err_code fake_list(struct provider *provider, struct provider_list *out,
                               struct err *err)
{
    struct fake *fake = fake_of(provider);
    (void)err;
    out->count = 0;
    for (size_t i = 0; i < fake->nodes.count; i++) {
        VEC_PUSH(out->nodes, out->count, out->cap) = fake->nodes.nodes[i];
    }
    return ERR_OK;
}

static enum err_code fake_stop(struct provider *provider, const char *name, enum provider_stop how,
                               struct err *err)
{
    struct fake *fake = fake_of(provider);
    struct provider_node *node = find(fake, name);
    if (!node) {
        return err_set(err, ERR_NOT_FOUND, "there is no node '%s'", name);
    }
    if (!node->alive) {
        *node = fake->nodes.nodes[--fake->nodes.count];
    } else if (how == PROVIDER_KILL || strncmp(name, "deaf", 4) != 0) {
        node->alive = false;
    }
    return ERR_OK;
}

static void fake_destroy(struct provider *provider)
{
    struct fake *fake = fake_of(provider);
    provider_list_release(&fake->nodes);
    free(fake);
}

struct provider *provider_fake_create(void)
{
    static const struct provider_ops ops = {.kind = "fake",
                                            .start = fake_start,
                                            .list = fake_list,
                                            .stop = fake_stop,
                                            .destroy = fake_destroy};
    struct fake *fake = mem_alloc(sizeof *fake);
    fake->provider.ops = &ops;
    return &fake->provider;
}

void provider_fake_crash(struct provider *provider, const char *name)
{
    struct provider_node *node = find(fake_of(provider), name);
    CHECK(node);
    node->alive = false;
}
