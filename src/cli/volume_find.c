#include "cli/volume_find.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "cli/volume_ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct finder {
    bool reaches;
    struct str *out;
    struct json json;
    struct diag_list *diags;
    const char **seen; /* what was looked at, as written */
    size_t seen_count;
    size_t seen_cap;
    const char **told; /* the names that are in `out` */
    size_t told_count;
    size_t told_cap;
    bool has_failed;
};

static bool is_in(const char *const *list, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* --- names that are not in the list ---------------------------------------------------------- */

struct name_list {
    char **items;
    size_t count;
    size_t cap;
};

static bool collect_name(void *context, const struct volume_ref *ref)
{
    struct name_list *names = context;
    VEC_PUSH(names->items, names->count, names->cap) = mem_strdup(ref->name);
    return true;
}

static void tell_trouble(struct finder *finder, const struct recipe_volume *volume,
                         bool is_unlisted, const struct err *err)
{
    struct name_list names = {0};
    if (is_unlisted) {
        (void)!volume_ref_each(collect_name, &names, NULL);
    }
    const char *hint =
        volume->listed
            ? suggest_nearest(volume->listed, (const char *const *)names.items, names.count)
            : NULL;
    diag_add(finder->diags, volume->line, volume->column, "volume '%s': %s%s%s%s", volume->name,
             err->text, hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
    finder->has_failed = true;
    for (size_t i = 0; i < names.count; i++) {
        free(names.items[i]);
    }
    free(names.items);
}

/* --- is it there? ---------------------------------------------------------------------------- */

struct snapshot_search {
    const char *name;
    bool is_found;
};

static bool is_it(void *context, const struct volume_snapshot_info *info)
{
    struct snapshot_search *search = context;
    search->is_found = strcmp(info->name, search->name) == 0;
    return !search->is_found;
}

static enum err_code reach(const struct volume_ref *ref, struct err *err)
{
    struct object_store *store = NULL;
    struct volume_format format;
    struct snapshot_search search = {.name = ref->snapshot};
    enum err_code code = volume_ref_store(ref, false, &store, err);
    if (code != ERR_OK) {
        return code;
    }
    code = volume_format_read(store, &format, err);
    if (code == ERR_OK && ref->snapshot) {
        code = volume_snapshots(store, is_it, &search, err);
        if (code == ERR_OK && !search.is_found) {
            code = err_set(err, ERR_NOT_FOUND, "%s has no snapshot '%s'", ref->url, ref->snapshot);
        }
    }
    object_close(store);
    return code;
}

/* --- the list -------------------------------------------------------------------------------- */

static void add_member(struct json *json, const char *key, const char *value)
{
    if (value) {
        json_key(json, key);
        json_text(json, value);
    }
}

static void add_place(struct finder *finder, const char *name, const struct volume_ref *ref)
{
    VEC_PUSH(finder->told, finder->told_count, finder->told_cap) = name;
    json_object(&finder->json);
    add_member(&finder->json, "name", name);
    add_member(&finder->json, "store", ref->url);
    add_member(&finder->json, "endpoint", ref->endpoint);
    add_member(&finder->json, "region", ref->region);
    add_member(&finder->json, "addressing", ref->addressing);
    json_end(&finder->json);
}

static void find_one(struct finder *finder, const struct recipe_volume *volume)
{
    struct volume_ref ref = {0};
    struct err err = {0};
    if (is_in(finder->seen, finder->seen_count, volume->text)) {
        return;
    }
    VEC_PUSH(finder->seen, finder->seen_count, finder->seen_cap) = volume->text;
    enum err_code code = volume_ref_parse(volume->text, &ref, &err);
    bool is_unlisted = volume->listed && code == ERR_NOT_FOUND;
    if (code == ERR_OK && finder->reaches) {
        code = reach(&ref, &err);
    }
    if (code != ERR_OK) {
        tell_trouble(finder, volume, is_unlisted, &err);
    } else if (volume->listed && !is_in(finder->told, finder->told_count, volume->listed)) {
        add_place(finder, volume->listed, &ref);
    }
    volume_ref_release(&ref);
}

static enum err_code find_all(const struct recipe *recipe, bool reaches, struct str *stores,
                              struct diag_list *diags, struct err *err)
{
    struct finder finder = {
        .reaches = reaches, .out = stores, .json = {.out = stores}, .diags = diags};
    json_array(&finder.json);
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct recipe_volumes *volumes = &recipe->experiments[e].volumes;
        for (size_t i = 0; i < volumes->count; i++) {
            find_one(&finder, &volumes->items[i]);
        }
    }
    json_end(&finder.json);
    if (finder.told_count == 0) {
        str_clear(stores);
    }
    free(finder.seen);
    free(finder.told);
    return finder.has_failed ? err_set(err, ERR_INVALID, "a volume is not there") : ERR_OK;
}

enum err_code volume_find(const struct recipe *recipe, struct str *stores, struct diag_list *diags,
                          struct err *err)
{
    return find_all(recipe, false, stores, diags, err);
}

enum err_code volume_find_and_reach(const struct recipe *recipe, struct str *stores,
                                    struct diag_list *diags, struct err *err)
{
    return find_all(recipe, true, stores, diags, err);
}

/* --- for people ------------------------------------------------------------------------------ */

static void show_one(const struct recipe_volume *volume, const char *experiment)
{
    struct volume_ref ref = {0};
    struct err err = {0};
    AUTO_STR struct str line = {0};
    str_addf(&line, "drover: volume '%s' of '%s' is %s", volume->name, experiment, volume->text);
    if (volume_ref_parse(volume->text, &ref, &err) != ERR_OK) {
        str_addf(&line, ", which is not known on this machine (drover volume list)");
    } else if (volume->listed) {
        str_addf(&line, " in %s", ref.url);
    }
    str_add(&line, volume->snapshot ? ", read-only" : "");
    fprintf(stderr, "%s\n", str_text(&line));
    volume_ref_release(&ref);
}

void volume_find_show(const struct recipe *recipe)
{
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct recipe_volumes *volumes = &recipe->experiments[e].volumes;
        for (size_t i = 0; i < volumes->count; i++) {
            show_one(&volumes->items[i], recipe->experiments[e].name);
        }
    }
}
