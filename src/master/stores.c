#include "master/stores.h"

#include "base/jread.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 2000 };

static void release_place(struct store_place *place)
{
    free(place->name);
    free(place->store);
    free(place->endpoint);
    free(place->region);
    free(place->addressing);
}

void stores_release(struct stores *stores)
{
    for (size_t i = 0; i < stores->count; i++) {
        release_place(&stores->items[i]);
    }
    free(stores->items);
    *stores = (struct stores){0};
}

static bool is_clean(const char *text)
{
    size_t size = 0;
    for (; text[size]; size++) {
        if ((unsigned char)text[size] <= ' ' || text[size] == 0x7f) {
            return false;
        }
    }
    return size <= TEXT_BYTES_MAX;
}

static const char *trouble_of(const struct store_place *place)
{
    const char *addressing = place->addressing;
    if (!is_clean(place->name) || !is_clean(place->store) || !is_clean(place->endpoint) ||
        !is_clean(place->region)) {
        return "holds spaces, or is too long";
    }
    if (place->name[0] == '\0') {
        return "has no name";
    }
    if (strncmp(place->store, "file:///", 8) != 0 && strncmp(place->store, "s3://", 5) != 0) {
        return "has no address file:///... or s3://...";
    }
    if (place->endpoint[0] && strncmp(place->endpoint, "http://", 7) != 0 &&
        strncmp(place->endpoint, "https://", 8) != 0) {
        return "has an endpoint that is not http:// or https://";
    }
    if (addressing[0] && strcmp(addressing, "path") != 0 && strcmp(addressing, "virtual") != 0) {
        return "has an addressing other than path or virtual";
    }
    return NULL;
}

static enum err_code read_place(const struct jnode *node, struct store_place *out, struct err *err)
{
    *out = (struct store_place){.name = mem_strdup(jread_text(node, "name", "")),
                                .store = mem_strdup(jread_text(node, "store", "")),
                                .endpoint = mem_strdup(jread_text(node, "endpoint", "")),
                                .region = mem_strdup(jread_text(node, "region", "")),
                                .addressing = mem_strdup(jread_text(node, "addressing", ""))};
    const char *trouble = trouble_of(out);
    return trouble ? err_set(err, ERR_INVALID, "volumes: one of them %s", trouble) : ERR_OK;
}

static enum err_code read_list(const struct jnode *list, struct stores *out, struct err *err)
{
    if (!list || list->kind != JREAD_ARRAY || list->count > STORES_MAX) {
        return err_set(err, ERR_INVALID, "volumes: not a list of at most %d", (int)STORES_MAX);
    }
    out->items = mem_array(list->count, sizeof *out->items);
    enum err_code code = ERR_OK;
    for (const struct jnode *node = jread_first(list); node && code == ERR_OK; node = node->next) {
        code = read_place(node, &out->items[out->count++], err);
    }
    return code;
}

enum err_code stores_parse(const char *text, struct stores *out, struct err *err)
{
    struct jread doc = {0};
    size_t size = strlen(text);
    *out = (struct stores){0};
    if (size == 0) {
        return ERR_OK;
    }
    if (size > STORES_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "volumes: the list is too long");
    }
    enum err_code code = jread_parse(&doc, text, size, err);
    if (code == ERR_OK) {
        code = read_list(doc.root, out, err);
    }
    if (code != ERR_OK) {
        stores_release(out);
    }
    jread_release(&doc);
    return code;
}

static void add_member(struct json *json, const char *key, const char *value)
{
    if (value[0]) {
        json_key(json, key);
        json_text(json, value);
    }
}

void stores_add_json(const struct stores *stores, struct str *out)
{
    struct json json = {.out = out};
    if (stores->count == 0) {
        return;
    }
    json_array(&json);
    for (size_t i = 0; i < stores->count; i++) {
        const struct store_place *place = &stores->items[i];
        json_object(&json);
        add_member(&json, "name", place->name);
        add_member(&json, "store", place->store);
        add_member(&json, "endpoint", place->endpoint);
        add_member(&json, "region", place->region);
        add_member(&json, "addressing", place->addressing);
        json_end(&json);
    }
    json_end(&json);
}

const struct store_place *stores_find(const struct stores *stores, const char *name)
{
    for (size_t i = 0; i < stores->count; i++) {
        if (strcmp(stores->items[i].name, name) == 0) {
            return &stores->items[i];
        }
    }
    return NULL;
}

enum err_code stores_check(const struct stores *stores, const struct recipe *recipe,
                           struct diag_list *diags, struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct recipe_volumes *volumes = &recipe->experiments[e].volumes;
        for (size_t i = 0; i < volumes->count; i++) {
            const struct recipe_volume *volume = &volumes->items[i];
            if (volume->listed && !stores_find(stores, volume->listed)) {
                diag_add(diags, volume->line, volume->column,
                         "volume '%s': nothing says where '%.100s' is; drover submit sends that "
                         "along, or write its address (file:///..., s3://...)",
                         volume->name, volume->listed);
                code = err_set(err, ERR_INVALID, "a volume is not known");
            }
        }
    }
    return code;
}
