#include "master/session.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/fields.h"
#include "master/place.h"
#include "master/spec.h"
#include "recipe/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECIPE_BYTES_MAX = YAML_BYTES_MAX, LOCK_WAIT_MS = 3000, ATTEMPT_TRIES = 100 };

static const char document_name[] = "workflow/1";

/* --- the recipe ------------------------------------------------------------------------------ */

struct source { /* where a recipe's text comes from */
    struct str text;
    char *file;
    char *folder;
    char *sets; /* one --set a line */
};

static void source_release(struct source *source)
{
    str_release(&source->text);
    free(source->file);
    free(source->folder);
    free(source->sets);
}

static enum err_code source_from_file(const struct session_options *options, struct source *out,
                                      struct err *err)
{
    enum err_code code = io_read_file(options->recipe_file, RECIPE_BYTES_MAX, &out->text, err);
    if (code != ERR_OK) {
        return err_set(err, ERR_INVALID, "%s", err ? err->text : "cannot read the recipe");
    }
    out->folder = recipe_folder_of(options->recipe_file);
    out->file = mem_strdup(options->recipe_file);
    struct str sets = {0};
    for (size_t i = 0; i < options->set_count; i++) {
        if (strchr(options->sets[i], '\n')) {
            str_release(&sets);
            return err_set(err, ERR_INVALID, "--set: a line break in '%s'", options->sets[i]);
        }
        str_addf(&sets, "%s\n", options->sets[i]);
    }
    out->sets = str_take(&sets);
    return ERR_OK;
}

static struct recipe *parse_source(const struct source *source, struct diag_list *diags)
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

/* --- can this machine do it ------------------------------------------------------------------ */

/* Whether this machine can ever run it all, asked of a core that is then thrown away. */
static enum err_code check_needs(const struct session *session, const struct core_resources *node,
                                 struct err *err)
{
    struct core *core = core_create();
    struct core_out out = {0};
    AUTO_STR struct str lack = {0};
    spec_define(core, session->recipe, 0, session->ignore_hardware);
    core_node_join(core, 0, node, 0, &out);
    int unmet = core_unmet_need(core, 1, &lack);
    core_out_release(&out);
    core_destroy(core);
    if (unmet < 0) {
        return ERR_OK;
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "experiment '%s' needs %s; --ignore-hardware runs it anyway",
                   session->recipe->experiments[unmet].name, str_text(&lack));
}

static enum err_code check_images(const struct session *session, struct err *err)
{
    for (size_t e = 0; e < session->recipe->experiment_count; e++) {
        const struct experiment *experiment = &session->recipe->experiments[e];
        if (experiment->image && !session->no_containers) {
            return err_set(err, ERR_UNSUPPORTED,
                           "experiment '%s' asks for image '%s', but there is no container "
                           "runtime here that drover can use; --no-containers runs it in this "
                           "machine's environment",
                           experiment->name, experiment->image);
        }
    }
    return ERR_OK;
}

void session_add_secret_path(const struct session *session, const struct env_entry *secret,
                             struct str *out)
{
    if (secret->file[0] != '/') {
        str_addf(out, "%s/", session->recipe_folder);
    }
    str_add(out, secret->file);
}

static enum err_code check_secrets(const struct session *session, struct err *err)
{
    for (size_t e = 0; e < session->recipe->experiment_count; e++) {
        const struct experiment *experiment = &session->recipe->experiments[e];
        for (size_t i = 0; i < experiment->secret_count; i++) {
            const struct env_entry *secret = &experiment->secrets[i];
            AUTO_STR struct str path = {0};
            session_add_secret_path(session, secret, &path);
            if (access(str_text(&path), R_OK) != 0) {
                return err_set(err, ERR_INVALID, "secret %s of experiment '%s': %s: %s",
                               secret->name, experiment->name, str_text(&path), strerror(errno));
            }
        }
    }
    return ERR_OK;
}

static enum err_code check_machine(const struct session *session, const struct core_resources *node,
                                   struct err *err)
{
    enum err_code code = check_images(session, err);
    if (code == ERR_OK) {
        code = check_secrets(session, err);
    }
    return code == ERR_OK ? check_needs(session, node, err) : code;
}

/* --- the log --------------------------------------------------------------------------------- */

struct replay {
    struct core *core;
    struct err *err;
    enum err_code code;
};

static bool replay_batch(void *context, uint64_t first, uint32_t count, const void *bytes,
                         size_t size)
{
    struct replay *replay = context;
    const uint8_t *at = bytes;
    if (first != core_last_fact(replay->core) + 1) {
        replay->code = err_set(replay->err, ERR_CORRUPT, "the log has a gap before fact %llu",
                               (unsigned long long)first);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct fact fact;
        size_t used = 0;
        replay->code = fact_decode(at, size, &fact, &used, replay->err);
        if (replay->code == ERR_OK) {
            replay->code = core_apply(replay->core, &fact, replay->err);
        }
        if (replay->code != ERR_OK) {
            return false;
        }
        at += used;
        size -= used;
    }
    return true;
}

static enum err_code load_core(struct store *store, struct core *core, struct err *err)
{
    AUTO_STR struct str snapshot = {0};
    uint64_t upto = 0;
    enum err_code code = store->ops->snapshot_get(store, &upto, &snapshot, err);
    if (code == ERR_OK) {
        code = core_snapshot_read(core, str_text(&snapshot), snapshot.size, err);
    } else if (code == ERR_NOT_FOUND) {
        code = ERR_OK;
    }
    if (code != ERR_OK) {
        return code;
    }
    struct replay replay = {.core = core, .err = err};
    code = store->ops->replay(store, upto, replay_batch, &replay, err);
    return code != ERR_OK ? code : replay.code;
}

/* --- making and resuming ---------------------------------------------------------------------- */

static void record(const struct session *session, const struct source *source, struct str *document)
{
    fields_add(document, "id", session->id, strlen(session->id));
    fields_add(document, "recipe", str_text(&source->text), source->text.size);
    fields_add(document, "file", source->file, strlen(source->file));
    fields_add(document, "folder", source->folder, strlen(source->folder));
    fields_add(document, "sets", source->sets, strlen(source->sets));
    fields_add(document, "flat", session->recipe->flat, strlen(session->recipe->flat));
    fields_add_u64(document, "seed", session->seed);
    fields_add_u64(document, "ignore_hardware", session->ignore_hardware);
    fields_add_u64(document, "no_containers", session->no_containers);
    fields_add_u64(document, "created_ms", (uint64_t)session->created_ms);
}

static bool source_from_record(const struct str *document, struct source *out)
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

/* Refuses a recipe that is not the recorded one. */
static enum err_code compare_recipes(const struct str *document, const struct recipe *recipe,
                                     const struct session *session, struct str *difference,
                                     struct err *err)
{
    AUTO_FREE char *flat = fields_get_text(document, "flat");
    if (!flat) {
        return err_set(err, ERR_CORRUPT, "%s: the recorded recipe is damaged", session->folder);
    }
    AUTO_STR struct str found = {0};
    yaml_difference(flat, recipe->flat, &found);
    if (found.size == 0) {
        return ERR_OK;
    }
    if (difference) {
        str_add(difference, str_text(&found));
    }
    return err_set(err, ERR_INVALID,
                   "the recipe differs from the one that %s was begun with; take another --state "
                   "for the new one, or undo the change",
                   session->folder);
}

static enum err_code open_store(const char *folder, enum store_access access,
                                const struct store_faults *faults, struct store **out,
                                struct err *err)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/drover.db", folder);
    enum err_code code = store_sqlite_open(str_text(&path), access, out, err);
    if (code == ERR_OK && faults) {
        *out = store_faulty_create(*out, faults);
    }
    return code;
}

/* Start-up calls are retried here, a bounded number of times; once running, the keeper retries. */
static enum err_code put_document(struct store *store, const struct str *document, struct err *err)
{
    enum err_code code = ERR_IO;
    for (int i = 0; i < ATTEMPT_TRIES && (code == ERR_IO || code == ERR_QUOTA); i++) {
        code = store->ops->doc_put(store, document_name, str_text(document), document->size, err);
    }
    return code;
}

static enum err_code get_document(struct store *store, struct str *document, struct err *err)
{
    enum err_code code = ERR_IO;
    for (int i = 0; i < ATTEMPT_TRIES && (code == ERR_IO || code == ERR_QUOTA); i++) {
        str_clear(document);
        code = store->ops->doc_get(store, document_name, document, err);
    }
    return code;
}

static enum err_code load_with_patience(struct session *session, struct err *err)
{
    enum err_code code = ERR_IO;
    for (int i = 0; i < ATTEMPT_TRIES && (code == ERR_IO || code == ERR_QUOTA); i++) {
        core_destroy(session->core);
        session->core = core_create();
        spec_define(session->core, session->recipe, session->seed, session->ignore_hardware);
        code = load_core(session->store, session->core, err);
    }
    return code;
}

static bool read_record(struct session *session, const struct str *document, struct source *source)
{
    uint64_t created_ms = 0;
    uint64_t ignore_hardware = 0;
    uint64_t no_containers = 0;
    session->id = fields_get_text(document, "id");
    if (!session->id || !source_from_record(document, source) ||
        !fields_get_u64(document, "seed", &session->seed) ||
        !fields_get_u64(document, "ignore_hardware", &ignore_hardware) ||
        !fields_get_u64(document, "no_containers", &no_containers) ||
        !fields_get_u64(document, "created_ms", &created_ms)) {
        return false;
    }
    session->created_ms = (int64_t)created_ms;
    session->ignore_hardware = session->ignore_hardware || ignore_hardware;
    session->no_containers = session->no_containers || no_containers;
    session->recipe_folder = mem_strdup(source->folder);
    return true;
}

/* The recorded workflow: recipe, seed, task counts (manifests are there) and log. */
static enum err_code restore(struct session *session, const struct str *document, struct err *err)
{
    struct source source = {0};
    struct diag_list diags = {.file = "the recorded recipe"};
    enum err_code code = ERR_OK;
    if (!read_record(session, document, &source)) {
        code =
            err_set(err, ERR_CORRUPT, "%s: the record of the workflow is damaged", session->folder);
    }
    if (code == ERR_OK) {
        session->recipe = parse_source(&source, &diags);
        if (!session->recipe) {
            code = err_set(err, ERR_CORRUPT, "%s: the recorded recipe no longer reads: %s",
                           session->folder, diags.count ? diags.items[0].text : "?");
        }
    }
    if (code == ERR_OK) {
        code = files_expand(session->recipe, source.folder, session->folder, &diags, err);
    }
    if (code == ERR_OK) {
        code = load_with_patience(session, err);
    }
    diag_release(&diags);
    source_release(&source);
    return code;
}

/* The first writing on disk; everything was checked before. */
static enum err_code make_new(struct session *session, const struct source *source,
                              struct diag_list *diags, struct err *err)
{
    enum err_code code = files_expand(session->recipe, source->folder, session->folder, diags, err);
    if (code != ERR_OK) {
        return code;
    }
    session->created_ms = clock_unix_ms();
    AUTO_STR struct str document = {0};
    record(session, source, &document);
    code = put_document(session->store, &document, err);
    if (code == ERR_OK) {
        session->core = core_create();
        spec_define(session->core, session->recipe, session->seed, session->ignore_hardware);
    }
    return code;
}

/* --- the steps of opening ----------------------------------------------------------------------
 */

static enum err_code choose_folder(const struct session_options *options, struct session *session,
                                   bool *exists, struct err *err)
{
    AUTO_STR struct str folder = {0};
    bool strange = false;
    int why = 0;
    *exists = false;
    if (options->resume) {
        enum err_code code = place_find_run(options->resume, &folder, err);
        if (code != ERR_OK) {
            return err_set(err, ERR_INVALID, "%s", err ? err->text : "no such run");
        }
    } else if (options->state) {
        AUTO_FREE char *cwd = getcwd(NULL, 0);
        if (options->state[0] != '/') {
            str_addf(&folder, "%s/", cwd ? cwd : "");
        }
        str_add(&folder, options->state);
    }
    if (folder.size > 0) {
        *exists = place_has_state(str_text(&folder), &strange);
        why = errno;
        session->folder = str_take(&folder);
    }
    /* tasks see paths below it inside quotes of either kind */
    if (session->folder && strpbrk(session->folder, "'\"\\$`\n")) {
        return err_set(err, ERR_INVALID,
                       "%s: the path of a state folder cannot hold quotes, $, ` or \\",
                       session->folder);
    }
    if (strange && why != 0) {
        return err_errno(err, why, "%s", session->folder);
    }
    if (strange) {
        return err_set(err, ERR_INVALID,
                       "%s is not empty and holds no drover state: give a folder of its own",
                       session->folder);
    }
    if (options->resume && !*exists) {
        return err_set(err, ERR_INVALID, "run '%s' holds no state to resume", options->resume);
    }
    return ERR_OK;
}

static enum err_code open_existing(const struct session_options *options, struct session *session,
                                   const struct recipe *given, const char *given_folder,
                                   struct err *err)
{
    enum err_code code = place_lock(session->folder, LOCK_WAIT_MS, &session->lock_fd, err);
    if (code == ERR_OK) {
        code = open_store(session->folder, STORE_WRITE, options->faults, &session->store, err);
    }
    AUTO_STR struct str document = {0};
    if (code == ERR_OK) {
        code = get_document(session->store, &document, err);
    }
    if (code == ERR_OK && given) {
        code = compare_recipes(&document, given, session, options->difference, err);
    }
    if (code == ERR_OK) {
        session->resumed = true;
        code = restore(session, &document, err);
    }
    if (code == ERR_OK && options->seed && *options->seed != session->seed) {
        code = err_set(err, ERR_INVALID,
                       "%s was begun with seed %llu; take another --state for another seed",
                       session->folder, (unsigned long long)session->seed);
    }
    if (code == ERR_OK && given_folder) { /* the recipe may have moved with its folder */
        free(session->recipe_folder);
        session->recipe_folder = mem_strdup(given_folder);
    }
    return code == ERR_OK ? check_machine(session, options->node, err) : code;
}

static enum err_code open_new(const struct session_options *options, struct session *session,
                              const struct source *source, struct diag_list *diags, struct err *err)
{
    enum err_code code = ERR_OK;
    if (!session->folder) {
        AUTO_STR struct str folder = {0};
        code = place_create_run(session->recipe->name, &folder, err);
        session->folder = str_take(&folder);
        const char *slash = strrchr(session->folder, '/');
        session->id = mem_strdup(slash ? slash + 1 : session->folder);
    } else {
        code = io_make_dirs(session->folder, err);
        session->id = mem_strdup(session->recipe->name);
    }
    if (code == ERR_OK && session->lock_fd < 0) {
        bool strange = false;
        code = place_lock(session->folder, LOCK_WAIT_MS, &session->lock_fd, err);
        if (code == ERR_OK && place_has_state(session->folder, &strange)) {
            /* it was empty when we looked; to write our record over the other's would give its
             * results another seed */
            code = err_set(err, ERR_EXISTS, "%s: another drover has just begun there",
                           session->folder);
        }
    }
    if (code == ERR_OK && !session->store) {
        code = open_store(session->folder, STORE_WRITE, options->faults, &session->store, err);
    }
    return code == ERR_OK ? make_new(session, source, diags, err) : code;
}

static enum err_code open_given(const struct session_options *options, struct session *session,
                                const struct source *source, bool exists, struct diag_list *diags,
                                struct err *err)
{
    struct recipe *recipe = parse_source(source, diags);
    diags->file = options->recipe_file; /* outlives the source */
    if (!recipe) {
        return err_set(err, ERR_INVALID, "%s: the recipe has mistakes", source->file);
    }
    enum err_code code =
        exists ? open_existing(options, session, recipe, source->folder, err) : ERR_NOT_FOUND;
    if (code != ERR_NOT_FOUND) {
        recipe_destroy(recipe);
        return code;
    }
    /* nothing there, or killed before anything was recorded */
    session->recipe = recipe;
    session->seed = options->seed      ? *options->seed
                    : recipe->has_seed ? recipe->seed
                                       : rng_seed_from_system() >> 11;
    session->recipe_folder = mem_strdup(source->folder);
    code = files_expand(recipe, source->folder, NULL, diags, err);
    if (code == ERR_OK) {
        code = check_machine(session, options->node, err);
    }
    return code == ERR_OK ? open_new(options, session, source, diags, err) : code;
}

static enum err_code open_from_source(const struct session_options *options,
                                      const struct source *source, struct session *out,
                                      struct diag_list *diags, struct err *err)
{
    *out = (struct session){.lock_fd = -1,
                            .ignore_hardware = options->ignore_hardware,
                            .no_containers = options->no_containers};
    bool exists = false;
    enum err_code code = choose_folder(options, out, &exists, err);
    if (code == ERR_OK) {
        code = options->recipe_file ? open_given(options, out, source, exists, diags, err)
                                    : open_existing(options, out, NULL, NULL, err);
    }
    if (code != ERR_OK) {
        session_release(out);
    }
    return code;
}

enum err_code session_open(const struct session_options *options, struct session *out,
                           struct diag_list *diags, struct err *err)
{
    *out = (struct session){.lock_fd = -1};
    struct source source = {0};
    enum err_code code = ERR_OK;
    if (options->recipe_file) {
        code = source_from_file(options, &source, err);
    }
    if (code == ERR_OK) {
        code = open_from_source(options, &source, out, diags, err);
    }
    /* lost the race for a new folder: what is there now is resumed */
    if (code == ERR_EXISTS && options->recipe_file) {
        diag_release(diags);
        code = open_from_source(options, &source, out, diags, err);
    }
    source_release(&source);
    return code;
}

enum err_code session_read(const char *folder, struct session *out, struct err *err)
{
    *out = (struct session){.lock_fd = -1, .folder = mem_strdup(folder), .resumed = true};
    AUTO_STR struct str document = {0};
    enum err_code code = open_store(folder, STORE_READ, NULL, &out->store, err);
    if (code == ERR_OK) {
        code = get_document(out->store, &document, err);
    }
    if (code == ERR_OK) {
        code = restore(out, &document, err);
    }
    if (code != ERR_OK) {
        session_release(out);
    }
    return code;
}

void session_release(struct session *session)
{
    if (session->store) {
        session->store->ops->close(session->store);
    }
    core_destroy(session->core);
    recipe_destroy(session->recipe);
    if (session->lock_fd >= 0) {
        close(session->lock_fd);
    }
    free(session->folder);
    free(session->id);
    free(session->recipe_folder);
    *session = (struct session){.lock_fd = -1};
}
