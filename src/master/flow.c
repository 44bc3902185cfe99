#include "master/flow.h"

#include "base/io.h"
#include "base/mem.h"
#include "master/fields.h"
#include "master/ledger.h"
#include "recipe/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECIPE_BYTES_MAX = YAML_BYTES_MAX };

void flow_destroy(struct flow *flow)
{
    if (!flow) {
        return;
    }
    ledger_destroy(flow->ledger); /* it looks at the recipe */
    recipe_destroy(flow->recipe);
    free(flow->id);
    free(flow->folder);
    free(flow->recipe_folder);
    free(flow->code);
    free(flow->key);
    free(flow->owner);
    free(flow);
}

/* --- the recipe's text ----------------------------------------------------------------------- */

void flow_source_release(struct flow_source *source)
{
    str_release(&source->text);
    free(source->file);
    free(source->folder);
    free(source->sets);
    *source = (struct flow_source){0};
}

enum err_code flow_source_set(const char *const *sets, size_t set_count, struct flow_source *out,
                              struct err *err)
{
    struct str lines = {0};
    for (size_t i = 0; i < set_count; i++) {
        if (strchr(sets[i], '\n')) {
            str_release(&lines);
            return err_set(err, ERR_INVALID, "--set: a line break in '%s'", sets[i]);
        }
        str_addf(&lines, "%s\n", sets[i]);
    }
    free(out->sets);
    out->sets = str_take(&lines);
    return ERR_OK;
}

enum err_code flow_source_from_file(const char *file, const char *const *sets, size_t set_count,
                                    struct flow_source *out, struct err *err)
{
    enum err_code code = io_read_file(file, RECIPE_BYTES_MAX, &out->text, err);
    if (code != ERR_OK) {
        return err_set(err, ERR_INVALID, "%s", err ? err->text : "cannot read the recipe");
    }
    out->folder = recipe_folder_of(file);
    out->file = mem_strdup(file);
    return flow_source_set(sets, set_count, out, err);
}

struct recipe *flow_parse(const struct flow_source *source, struct diag_list *diags)
{
    AUTO_FREE char *copy = mem_strdup(source->sets);
    const char **sets = NULL;
    size_t count = 0;
    size_t cap = 0;
    for (char *at = copy; *at;) {
        char *end = strchr(at, '\n');
        CHECK(end);
        *end = '\0';
        VEC_PUSH(sets, count, cap) = at;
        at = end + 1;
    }
    diags->file = source->file;
    struct recipe *recipe =
        recipe_parse(source->file, str_text(&source->text), source->text.size, sets, count, diags);
    free(sets);
    return recipe;
}

/* --- the record ------------------------------------------------------------------------------ */

static void add_text(struct str *document, const char *name, const char *text)
{
    fields_add(document, name, text ? text : "", text ? strlen(text) : 0);
}

void flow_record(const struct flow *flow, const struct flow_source *source, struct str *document)
{
    add_text(document, "id", flow->id);
    fields_add(document, "recipe", str_text(&source->text), source->text.size);
    add_text(document, "file", source->file);
    add_text(document, "folder", source->folder);
    add_text(document, "sets", source->sets);
    add_text(document, "flat", flow->recipe->flat);
    fields_add_u64(document, "seed", flow->seed);
    fields_add_u64(document, "ignore_hardware", flow->ignore_hardware);
    fields_add_u64(document, "no_containers", flow->no_containers);
    fields_add_u64(document, "created_ms", (uint64_t)flow->created_ms);
    fields_add_u64(document, "own_folder", flow->has_own_folder);
    add_text(document, "code", flow->code);
    add_text(document, "key", flow->key);
    add_text(document, "owner", flow->owner);
}

static char *text_or_empty(const struct str *document, const char *name)
{
    char *text = fields_get_text(document, name);
    return text ? text : mem_strdup("");
}

static bool read_source(const struct str *document, struct flow_source *out)
{
    const char *bytes = NULL;
    size_t size = 0;
    if (!fields_get(document, "recipe", &bytes, &size)) {
        return false;
    }
    str_add_bytes(&out->text, bytes, size);
    out->file = fields_get_text(document, "file");
    out->folder = fields_get_text(document, "folder");
    out->sets = fields_get_text(document, "sets");
    return out->file && out->folder && out->sets;
}

static bool read_record(const struct str *document, struct flow *flow, struct flow_source *source)
{
    uint64_t created_ms = 0;
    uint64_t ignore_hardware = 0;
    uint64_t no_containers = 0;
    uint64_t own_folder = 0;
    flow->id = fields_get_text(document, "id");
    if (!flow->id || !read_source(document, source) ||
        !fields_get_u64(document, "seed", &flow->seed) ||
        !fields_get_u64(document, "ignore_hardware", &ignore_hardware) ||
        !fields_get_u64(document, "no_containers", &no_containers) ||
        !fields_get_u64(document, "created_ms", &created_ms)) {
        return false;
    }
    (void)!fields_get_u64(document, "own_folder", &own_folder); /* older records have none */
    flow->created_ms = (int64_t)created_ms;
    flow->ignore_hardware = ignore_hardware != 0;
    flow->no_containers = no_containers != 0;
    flow->has_own_folder = own_folder != 0;
    flow->recipe_folder = mem_strdup(source->folder);
    flow->code = text_or_empty(document, "code");
    flow->key = text_or_empty(document, "key");
    flow->owner = text_or_empty(document, "owner");
    return true;
}

static enum err_code restore_recipe(struct flow *flow, const struct flow_source *source,
                                    const char *state_folder, struct err *err)
{
    struct diag_list diags = {.file = "the recorded recipe"};
    enum err_code code = ERR_OK;
    flow->recipe = flow_parse(source, &diags);
    if (!flow->recipe) {
        code = err_set(err, ERR_CORRUPT, "%s: the recorded recipe no longer reads: %s",
                       state_folder, diags.count ? diags.items[0].text : "?");
    } else {
        code = files_expand(flow->recipe, source->folder, flow->folder, &diags, err);
    }
    diag_release(&diags);
    return code;
}

enum err_code flow_restore(const struct str *document, uint32_t number, const char *state_folder,
                           struct flow **out, struct err *err)
{
    struct flow_source source = {0};
    struct flow *flow = mem_alloc(sizeof *flow);
    flow->number = number;
    enum err_code code = ERR_OK;
    if (!read_record(document, flow, &source)) {
        code = err_set(err, ERR_CORRUPT, "%s: the record of the workflow is damaged", state_folder);
    }
    if (code == ERR_OK) {
        struct str folder = {0};
        str_add(&folder, state_folder);
        if (flow->has_own_folder) {
            str_addf(&folder, "/workflows/%s", flow->id);
        }
        flow->folder = str_take(&folder);
        code = restore_recipe(flow, &source, state_folder, err);
    }
    flow_source_release(&source);
    if (code != ERR_OK) {
        flow_destroy(flow);
        flow = NULL;
    }
    *out = flow;
    return code;
}

/* --- what would make every task fail --------------------------------------------------------- */

void flow_add_secret_path(const struct flow *flow, const struct env_entry *secret, struct str *out)
{
    if (secret->file[0] != '/') {
        str_addf(out, "%s/", flow->recipe_folder);
    }
    str_add(out, secret->file);
}

static enum err_code check_images(const struct flow *flow, struct err *err)
{
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        const struct experiment *experiment = &flow->recipe->experiments[e];
        if (experiment->image && !flow->no_containers) {
            return err_set(err, ERR_UNSUPPORTED,
                           "experiment '%s' asks for image '%s', but there is no container "
                           "runtime here that drover can use; --no-containers runs it in the "
                           "machine's own environment",
                           experiment->name, experiment->image);
        }
    }
    return ERR_OK;
}

enum err_code flow_check(const struct flow *flow, struct err *err)
{
    enum err_code code = check_images(flow, err);
    for (size_t e = 0; e < flow->recipe->experiment_count && code == ERR_OK; e++) {
        const struct experiment *experiment = &flow->recipe->experiments[e];
        for (size_t i = 0; i < experiment->secret_count; i++) {
            const struct env_entry *secret = &experiment->secrets[i];
            AUTO_STR struct str path = {0};
            flow_add_secret_path(flow, secret, &path);
            if (access(str_text(&path), R_OK) != 0) {
                return err_set(err, ERR_INVALID, "secret %s of experiment '%s': %s: %s",
                               secret->name, experiment->name, str_text(&path), strerror(errno));
            }
        }
    }
    return code;
}
