/* volumes: at the top and in experiments: the folders of data that tasks see. */
#include "base/mem.h"
#include "recipe/recipe_build.h"

#include <string.h>

enum { PLACE_BYTES_MAX = 2000, LIST_NAME_MAX = 100, SNAPSHOT_MAX = 200 };

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool is_volume_name(const char *text)
{
    size_t size = strspn(text, LETTERS DIGITS "_-");
    return size > 0 && size <= RECIPE_NAME_MAX && text[size] == '\0' && text[0] != '-' &&
           !strchr(DIGITS, text[0]);
}

/* What drover volume create takes. */
static bool is_plain_word(const char *text, size_t max)
{
    size_t size = strspn(text, LETTERS DIGITS "._-");
    return size > 0 && size <= max && text[size] == '\0' && text[0] != '.' && text[0] != '-';
}

static bool is_address(const char *text)
{
    return strncmp(text, "file:///", 8) == 0 || strncmp(text, "s3://", 5) == 0;
}

static const char *place_trouble(const char *text)
{
    const char *scheme = strstr(text, "://");
    const char *from = scheme ? scheme + 3 : text;
    if (strlen(text) > PLACE_BYTES_MAX) {
        return "is longer than 2000 bytes";
    }
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f) {
            return "must not hold spaces";
        }
    }
    if (strstr(text, "{{")) {
        return "cannot be a template: it is the same for all tasks";
    }
    if (strstr(from, ":/")) {
        return "must be a whole volume, without :/PATH";
    }
    if (scheme && !is_address(text)) {
        return "must be NAME, file:///folder or s3://bucket/prefix, with @SNAPSHOT if wanted";
    }
    return NULL;
}

/* Takes "PLACE[@SNAPSHOT]" apart; what is wrong with it, or NULL. */
static const char *read_place(struct build *build, const char *text, struct recipe_volume *out)
{
    const char *trouble = place_trouble(text);
    if (trouble) {
        return trouble;
    }
    const char *at = strrchr(text, '@');
    const char *slash = strrchr(text, '/');
    bool has_snapshot = at && (!slash || at > slash);
    size_t size = has_snapshot ? (size_t)(at - text) : strlen(text);
    const char *place = arena_strndup(build->arena, text, size);
    out->snapshot = has_snapshot ? arena_strdup(build->arena, at + 1) : NULL;
    if (out->snapshot && !is_plain_word(out->snapshot, SNAPSHOT_MAX)) {
        return "has no good name of a snapshot after the @";
    }
    if (is_address(place)) {
        out->store = place;
        return NULL;
    }
    out->listed = place;
    return is_plain_word(place, LIST_NAME_MAX)
               ? NULL
               : "must be NAME, file:///folder or s3://bucket/prefix, with @SNAPSHOT if wanted";
}

static bool read_volume(struct build *build, const struct ynode *key, const struct ynode *value,
                        struct recipe_volume *out)
{
    *out = (struct recipe_volume){.name = key->text, .line = value->line, .column = value->column};
    if (!is_volume_name(key->text)) {
        diag_add(build->diags, key->line, key->column,
                 "a volume's name is at most %d letters, digits, _ and -, and begins with a letter "
                 "or _, unlike '%.60s'",
                 RECIPE_NAME_MAX, key->text);
        return false;
    }
    out->text = build_text(build, value, "a volume");
    const char *trouble = out->text ? read_place(build, out->text, out) : NULL;
    if (!trouble && out->snapshot && strcmp(key->text, RECIPE_CHECKPOINT_VOLUME) == 0) {
        trouble = "is a snapshot, and checkpoints are written to the volume of this name";
    }
    if (!trouble && out->snapshot && strcmp(key->text, RECIPE_OUTPUT_VOLUME) == 0) {
        trouble = "is a snapshot, and outputs are written to the volume of this name";
    }
    if (trouble) {
        diag_add(build->diags, value->line, value->column, "volume '%.60s': '%.60s' %s", key->text,
                 out->text, trouble);
    }
    return true; /* also what is wrong: templates that name it are not */
}

/* Where the names differ and the variables do not. */
static bool same_variable(const char *a, const char *b)
{
    AUTO_STR struct str first = {0};
    AUTO_STR struct str second = {0};
    recipe_volume_variable(a, &first);
    recipe_volume_variable(b, &second);
    return strcmp(str_text(&first), str_text(&second)) == 0;
}

static void check_variables(struct build *build, const struct recipe_volumes *volumes)
{
    for (size_t i = 0; i < volumes->count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct recipe_volume *volume = &volumes->items[i];
            if (same_variable(volume->name, volumes->items[j].name)) {
                diag_add(build->diags, volume->line, volume->column,
                         "volumes '%s' and '%s' would have the same environment variable",
                         volumes->items[j].name, volume->name);
            }
        }
    }
}

void build_volumes(struct build *build, const struct ynode *node, struct recipe_volumes *out)
{
    if (!node) {
        return;
    }
    if (node->kind != YNODE_MAPPING) {
        diag_add(build->diags, node->line, node->column,
                 "volumes must be a mapping such as {data: imagenet@v3, out: results}");
        return;
    }
    if (node->count > RECIPE_VOLUMES_MAX) {
        diag_add(build->diags, node->line, node->column, "more than %d volumes",
                 RECIPE_VOLUMES_MAX);
        return;
    }
    out->items = arena_alloc(build->arena, node->count * sizeof *out->items);
    for (size_t i = 0; i < node->count; i++) {
        struct recipe_volume *volume = &out->items[out->count];
        if (read_volume(build, node->keys[i], node->items[i], volume)) {
            out->count++;
        }
    }
    check_variables(build, out);
}

const struct recipe_volume *recipe_find_volume(const struct recipe_volumes *volumes,
                                               const char *name)
{
    for (size_t i = 0; i < volumes->count; i++) {
        if (strcmp(volumes->items[i].name, name) == 0) {
            return &volumes->items[i];
        }
    }
    return NULL;
}

void build_experiment_volumes(struct build *build, struct experiment *experiment,
                              const struct ynode *node)
{
    const struct recipe_volumes *shared = &build->shared_volumes;
    struct recipe_volumes own = {0};
    build_volumes(build, yaml_get(node, "volumes"), &own);
    size_t most = shared->count + own.count;
    struct recipe_volumes *volumes = &experiment->volumes;
    volumes->items = arena_alloc(build->arena, most * sizeof *volumes->items);
    for (size_t i = 0; i < shared->count; i++) {
        if (!recipe_find_volume(&own, shared->items[i].name)) {
            volumes->items[volumes->count++] = shared->items[i];
        }
    }
    for (size_t i = 0; i < own.count; i++) {
        volumes->items[volumes->count++] = own.items[i];
    }
    if (volumes->count > RECIPE_VOLUMES_MAX) {
        diag_add(build->diags, experiment->line, experiment->column,
                 "'%s' has more than %d volumes", experiment->name, RECIPE_VOLUMES_MAX);
    } else if (own.count > 0 && shared->count > 0) {
        check_variables(build, volumes);
    }
}

void recipe_volume_variable(const char *name, struct str *out)
{
    str_add(out, "DROVER_VOLUME_");
    for (; *name; name++) {
        bool is_small = *name >= 'a' && *name <= 'z';
        str_add_char(out, is_small ? (char)(*name - 'a' + 'A') : *name == '-' ? '_' : *name);
    }
}
