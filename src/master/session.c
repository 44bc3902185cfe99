#include "master/session.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/fields.h"
#include "master/hunt.h"
#include "master/ledger.h"
#include "master/place.h"
#include "master/spec.h"
#include "recipe/files.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 3000, ATTEMPT_TRIES = 100 };

/* --- can this machine do it ------------------------------------------------------------------ */

/* Whether this machine can ever run it all, asked of a core that is then thrown away. */
static enum err_code check_needs(const struct flow *flow, const struct core_resources *node,
                                 struct err *err)
{
    struct core *core = core_create();
    struct core_out out = {0};
    AUTO_STR struct str lack = {0};
    spec_define(core, 1, flow->recipe, 0, flow->ignore_hardware);
    core_node_join(core, 0, &(struct core_node_spec){.capacity = *node}, 0, &out);
    int unmet = core_unmet_need(core, 1, &lack);
    core_out_release(&out);
    core_destroy(core);
    if (unmet < 0) {
        return ERR_OK;
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "experiment '%s' needs %s; --ignore-hardware runs it anyway",
                   flow->recipe->experiments[unmet].name, str_text(&lack));
}

static enum err_code check_machine(const struct session *session, const struct core_resources *node,
                                   struct err *err)
{
    enum err_code code = flow_check(session->flow, err);
    return code == ERR_OK ? check_needs(session->flow, node, err) : code;
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
static enum err_code put_document(struct store *store, const char *name, const struct str *document,
                                  struct err *err)
{
    enum err_code code = ERR_IO;
    for (int i = 0; i < ATTEMPT_TRIES && (code == ERR_IO || code == ERR_QUOTA); i++) {
        code = store->ops->doc_put(store, name, str_text(document), document->size, err);
    }
    return code;
}

enum err_code session_get_document(struct session *session, const char *name, struct str *document,
                                   struct err *err)
{
    struct store *store = session->store;
    enum err_code code = ERR_IO;
    for (int i = 0; i < ATTEMPT_TRIES && (code == ERR_IO || code == ERR_QUOTA); i++) {
        str_clear(document);
        code = store->ops->doc_get(store, name, document, err);
    }
    return code;
}

static enum err_code load_with_patience(struct session *session, struct err *err)
{
    enum err_code code = ERR_IO;
    for (int i = 0; i < ATTEMPT_TRIES && (code == ERR_IO || code == ERR_QUOTA); i++) {
        core_destroy(session->core);
        session->core = core_create();
        for (size_t w = 0; w < session->flow_count; w++) {
            const struct flow *flow = session->flows[w];
            spec_define(session->core, flow->number, flow->recipe, flow->seed,
                        flow->ignore_hardware);
        }
        code = load_core(session->store, session->core, err);
    }
    return code;
}

void session_add_flow(struct session *session, struct flow *flow)
{
    CHECK(flow->number == session->flow_count + 1);
    ledger_attach(flow);
    VEC_PUSH(session->flows, session->flow_count, session->flow_cap) = flow;
    session->flow = flow;
}

void session_document_name(uint32_t number, char out[SESSION_NAME_BYTES])
{
    snprintf(out, SESSION_NAME_BYTES, "workflow/%" PRIu32, number);
}

/* Every recorded workflow: recipe, seed, task counts (manifests are there). ERR_NOT_FOUND: none. */
static enum err_code restore_flows(struct session *session, struct err *err)
{
    for (;;) {
        AUTO_STR struct str document = {0};
        char name[SESSION_NAME_BYTES];
        uint32_t number = (uint32_t)session->flow_count + 1;
        session_document_name(number, name);
        enum err_code code = session_get_document(session, name, &document, err);
        if (code == ERR_NOT_FOUND) {
            return number > 1 ? ERR_OK : ERR_NOT_FOUND;
        }
        struct flow *flow = NULL;
        if (code == ERR_OK) {
            code = flow_restore(&document, number, session->folder, &flow, err);
        }
        if (code != ERR_OK) {
            return code;
        }
        session_add_flow(session, flow);
    }
}

static void apply_options(struct session *session, const struct session_options *options)
{
    session->flow->ignore_hardware = session->flow->ignore_hardware || options->ignore_hardware;
    session->flow->no_containers = session->flow->no_containers || options->no_containers;
}

/* The first writing on disk; everything was checked before. */
static enum err_code make_new(struct session *session, const struct flow_source *source,
                              struct diag_list *diags, struct err *err)
{
    struct flow *flow = session->flow;
    enum err_code code = files_expand(flow->recipe, source->folder, session->folder, diags, err);
    if (code != ERR_OK) {
        return code;
    }
    flow->created_ms = clock_unix_ms();
    AUTO_STR struct str document = {0};
    char name[SESSION_NAME_BYTES];
    flow_record(flow, source, &document);
    session_document_name(flow->number, name);
    code = put_document(session->store, name, &document, err);
    if (code == ERR_OK) {
        session->core = core_create();
        spec_define(session->core, flow->number, flow->recipe, flow->seed, flow->ignore_hardware);
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

/* Nothing is known of the run's recipe but what was recorded. */
static enum err_code compare_recorded(struct session *session, const struct recipe *given,
                                      const struct session_options *options, struct err *err)
{
    AUTO_STR struct str document = {0};
    char name[SESSION_NAME_BYTES];
    session_document_name(1, name);
    enum err_code code = session_get_document(session, name, &document, err);
    return code == ERR_OK ? compare_recipes(&document, given, session, options->difference, err)
                          : code;
}

static enum err_code open_existing(const struct session_options *options, struct session *session,
                                   const struct recipe *given, const char *given_folder,
                                   struct err *err)
{
    enum err_code code = place_lock(session->folder, LOCK_WAIT_MS, &session->lock_fd, err);
    if (code == ERR_OK) {
        code = open_store(session->folder, STORE_WRITE, options->faults, &session->store, err);
    }
    if (code == ERR_OK && given) {
        code = compare_recorded(session, given, options, err);
    }
    if (code == ERR_OK) {
        session->resumed = true;
        code = restore_flows(session, err);
    }
    if (code == ERR_OK && (session->flow_count > 1 || session->flow->has_own_folder)) {
        code = err_set(err, ERR_INVALID,
                       "%s belongs to a server: drover serve --state %s, then drover submit",
                       session->folder, session->folder);
    }
    if (code == ERR_OK) {
        apply_options(session, options);
        code = load_with_patience(session, err);
    }
    if (code == ERR_OK) {
        code = ledger_load(session->flow->ledger, err);
    }
    if (code == ERR_OK && options->seed && *options->seed != session->flow->seed) {
        code = err_set(err, ERR_INVALID,
                       "%s was begun with seed %llu; take another --state for another seed",
                       session->folder, (unsigned long long)session->flow->seed);
    }
    if (code == ERR_OK && given_folder) { /* the recipe may have moved with its folder */
        free(session->flow->recipe_folder);
        session->flow->recipe_folder = mem_strdup(given_folder);
    }
    return code == ERR_OK ? check_machine(session, options->node, err) : code;
}

static enum err_code take_new_folder(struct session *session, struct err *err)
{
    bool strange = false;
    enum err_code code = place_lock(session->folder, LOCK_WAIT_MS, &session->lock_fd, err);
    if (code == ERR_OK && place_has_state(session->folder, &strange)) {
        /* it was empty when we looked; to write our record over the other's would give its
         * results another seed */
        code = err_set(err, ERR_EXISTS, "%s: another drover has just begun there", session->folder);
    }
    return code;
}

static enum err_code open_new(const struct session_options *options, struct session *session,
                              const struct flow_source *source, struct diag_list *diags,
                              struct err *err)
{
    struct flow *flow = session->flow;
    enum err_code code = ERR_OK;
    if (!session->folder) {
        AUTO_STR struct str folder = {0};
        code = place_create_run(flow->recipe->name, &folder, err);
        session->folder = str_take(&folder);
        const char *slash = strrchr(session->folder, '/');
        flow->id = mem_strdup(slash ? slash + 1 : session->folder);
    } else {
        code = io_make_dirs(session->folder, err);
        flow->id = mem_strdup(flow->recipe->name);
    }
    flow->folder = mem_strdup(session->folder);
    if (code == ERR_OK && session->lock_fd < 0) {
        code = take_new_folder(session, err);
    }
    if (code == ERR_OK && !session->store) {
        code = open_store(session->folder, STORE_WRITE, options->faults, &session->store, err);
    }
    return code == ERR_OK ? make_new(session, source, diags, err) : code;
}

static enum err_code open_given(const struct session_options *options, struct session *session,
                                const struct flow_source *source, bool exists,
                                struct diag_list *diags, struct err *err)
{
    struct recipe *recipe = flow_parse(source, diags);
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
    struct flow *flow = mem_alloc(sizeof *flow);
    *flow = (struct flow){.number = 1,
                          .recipe = recipe,
                          .recipe_folder = mem_strdup(source->folder),
                          .code = mem_strdup(""),
                          .key = mem_strdup(""),
                          .owner = mem_strdup(""),
                          .ignore_hardware = options->ignore_hardware,
                          .no_containers = options->no_containers};
    flow->seed = options->seed      ? *options->seed
                 : recipe->has_seed ? recipe->seed
                                    : rng_seed_from_system() >> 11;
    session_add_flow(session, flow);
    session->resumed = false;
    code = files_expand(recipe, source->folder, NULL, diags, err);
    if (code == ERR_OK) {
        code = hunt_check(recipe, flow->seed, diags, err);
    }
    if (code == ERR_OK) {
        code = check_machine(session, options->node, err);
    }
    return code == ERR_OK ? open_new(options, session, source, diags, err) : code;
}

static enum err_code open_from_source(const struct session_options *options,
                                      const struct flow_source *source, struct session *out,
                                      struct diag_list *diags, struct err *err)
{
    *out = (struct session){.lock_fd = -1};
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
    struct flow_source source = {0};
    enum err_code code = ERR_OK;
    if (options->recipe_file) {
        code = flow_source_from_file(options->recipe_file, options->sets, options->set_count,
                                     &source, err);
    }
    if (code == ERR_OK) {
        code = open_from_source(options, &source, out, diags, err);
    }
    /* lost the race for a new folder: what is there now is resumed */
    if (code == ERR_EXISTS && options->recipe_file) {
        diag_release(diags);
        code = open_from_source(options, &source, out, diags, err);
    }
    flow_source_release(&source);
    return code;
}

enum err_code session_serve(const char *state, const struct store_faults *faults,
                            struct session *out, struct err *err)
{
    *out = (struct session){.lock_fd = -1};
    bool exists = false;
    struct session_options options = {.state = state};
    enum err_code code = choose_folder(&options, out, &exists, err);
    if (code == ERR_OK) {
        code = io_make_dirs(out->folder, err);
    }
    if (code == ERR_OK) {
        code = place_lock(out->folder, LOCK_WAIT_MS, &out->lock_fd, err);
    }
    if (code == ERR_OK) {
        code = open_store(out->folder, STORE_WRITE, faults, &out->store, err);
    }
    if (code == ERR_OK) {
        code = restore_flows(out, err);
        code = code == ERR_NOT_FOUND ? ERR_OK : code;
    }
    if (code == ERR_OK && out->flow && !out->flow->has_own_folder) {
        code = err_set(err, ERR_INVALID,
                       "%s holds a run, not a server's state: give another --state", out->folder);
    }
    if (code == ERR_OK) {
        out->resumed = exists;
        code = load_with_patience(out, err);
    }
    if (code != ERR_OK) {
        session_release(out);
    }
    return code;
}

enum err_code session_read(const char *folder, struct session *out, struct err *err)
{
    *out = (struct session){.lock_fd = -1, .folder = mem_strdup(folder), .resumed = true};
    enum err_code code = open_store(folder, STORE_READ, NULL, &out->store, err);
    if (code == ERR_OK) {
        code = restore_flows(out, err);
    }
    if (code == ERR_OK) {
        code = load_with_patience(out, err);
    }
    for (size_t i = 0; i < out->flow_count && code == ERR_OK; i++) {
        code = ledger_load(out->flows[i]->ledger, err);
    }
    if (code != ERR_OK) {
        session_release(out);
    }
    return code;
}

bool session_select(struct session *session, const char *id)
{
    for (size_t i = session->flow_count; i-- > 0;) {
        if (!id || id[0] == '\0' || strcmp(session->flows[i]->id, id) == 0) {
            session->flow = session->flows[i];
            return true;
        }
    }
    return false;
}

void session_release(struct session *session)
{
    if (session->store) {
        session->store->ops->close(session->store);
    }
    core_destroy(session->core);
    for (size_t i = 0; i < session->flow_count; i++) {
        flow_destroy(session->flows[i]);
    }
    free(session->flows);
    if (session->lock_fd >= 0) {
        close(session->lock_fd);
    }
    free(session->folder);
    *session = (struct session){.lock_fd = -1};
}
