/* drover volume repair: says what is wrong with a volume's log and what repairing costs; with --yes
 * repairs it. */
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OWNER_TRIES = 5, OWNER_WAIT_US = 100000 };

static const char *name_of(const struct volume_ref *ref)
{
    return ref->name ? ref->name : ref->url;
}

static void add_json(struct str *out, const struct volume_repair_report *report, bool is_repaired)
{
    static const char *const states[] = {"whole", "missing", "damaged"};
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "log"), json_text(&json, states[report->log]);
    json_key(&json, "repaired"), json_bool(&json, is_repaired);
    if (report->log != VOLUME_LOG_WHOLE) {
        json_key(&json, "commit"), json_u64(&json, report->seq);
        json_key(&json, "why"), json_text(&json, report->why.text);
        json_key(&json, "kept_commit"), json_u64(&json, report->seq - 1);
        json_key(&json, "later_commits"), json_u64(&json, report->later);
        json_key(&json, "later_bytes"), json_u64(&json, report->later_bytes);
        json_key(&json, "owner");
        if (report->owner[0] != '\0') {
            json_text(&json, report->owner);
        } else {
            json_null(&json);
        }
    }
    if (is_repaired) {
        char folder[32];
        snprintf(folder, sizeof folder, "lost/%08" PRIx32, report->term);
        json_key(&json, "copies"), json_u64(&json, report->copies);
        json_key(&json, "copies_in"), json_text(&json, folder);
    }
    json_end(&json);
    str_add_char(out, '\n');
}

static void add_later(struct str *out, const struct volume_repair_report *report)
{
    str_addf(out, "%" PRIu64 " later commit%s", report->later, report->later == 1 ? "" : "s");
    if (report->later > 0) {
        str_add(out, " (");
        progress_add_bytes(out, report->later_bytes);
        str_add(out, " of log)");
    }
}

static void add_cost(struct str *out, const struct volume_ref *ref,
                     const struct volume_repair_report *report)
{
    const char *name = name_of(ref);
    str_addf(out, "%s: %s\n", name, report->why.text);
    str_addf(out,
             "Repairing goes back to commit %" PRIu64 ", the last before it: commit %" PRIu64
             " is lost, and ",
             report->seq - 1, report->seq);
    add_later(out, report);
    str_add(out, " would be cut off.\n"
                 "Log objects that are cut off are kept below lost/ in the store. Snapshots stay "
                 "as they are.\n");
    if (report->owner[0] != '\0') {
        str_addf(out,
                 "It has an owner: %s. If that one lives it still has everything: "
                 "drover data snapshot %s NAME, there, stores it anew, and nothing is lost.\n",
                 report->owner, name);
    }
    str_addf(out, "To repair it: drover volume repair %s --yes\n", name);
}

static void add_done(struct str *out, const struct volume_ref *ref,
                     const struct volume_repair_report *report)
{
    const char *name = name_of(ref);
    str_addf(out, "%s is repaired: it is as of commit %" PRIu64 "; ", name, report->seq - 1);
    add_later(out, report);
    str_addf(out,
             " cut off\n%" PRIu64 " log object%s kept in the store as lost/%08" PRIx32 "/log/...\n",
             report->copies, report->copies == 1 ? " is" : "s are", report->term);
    str_addf(out,
             "What was deleted or changed since then may be gone already: drover volume fsck %s "
             "tells\n",
             name);
}

static enum err_code repair(struct object_store *store, const struct volume_ref *ref,
                            const struct volume_options *options,
                            struct volume_repair_report *report, struct err *err)
{
    enum err_code code = volume_repair(store, options, report, err);
    for (int tries = 0; code == ERR_DENIED && tries < OWNER_TRIES; tries++) {
        usleep(OWNER_WAIT_US); /* an owner that was killed takes a moment to be gone */
        code = volume_repair(store, options, report, err);
    }
    if (code == ERR_DENIED && strstr(err->text, "has an owner")) {
        struct err was = *err;
        (void)err_set(err, code,
                      "%.300s (end it first; if that machine is gone for good: drover volume "
                      "repair %.100s --yes --take-over)",
                      was.text, name_of(ref));
    }
    return code;
}

static enum err_code look_and_repair(const struct volume_ref *ref, const struct data_repair *how,
                                     struct str *out, int *exit_code, struct err *err)
{
    AUTO_STR struct str locks = {0};
    struct volume_repair_report report = {0};
    struct object_store *store = NULL;
    bool has_locks = volume_locks_path(NULL, &locks);
    struct volume_options options = {.owner = "drover volume repair",
                                     .take_over = how->take_over,
                                     .locks = has_locks ? str_text(&locks) : NULL};
    enum err_code code = volume_ref_store(ref, false, &store, err);
    if (code != ERR_OK) {
        return volume_use_advise(ref, code, err);
    }
    code = volume_repair_look(store, &options, &report, err);
    bool is_wrong = code == ERR_OK && report.log != VOLUME_LOG_WHOLE;
    if (is_wrong && how->is_sure) {
        code = repair(store, ref, &options, &report, err);
    } else if (code == ERR_NOT_FOUND) {
        code = volume_use_advise(ref, code, err);
    }
    object_close(store);
    if (code != ERR_OK) {
        return code;
    }
    bool is_whole = report.log == VOLUME_LOG_WHOLE;
    if (how->as_json) {
        add_json(out, &report, is_wrong && how->is_sure && !is_whole);
    } else if (is_whole) {
        str_addf(out,
                 "%s: nothing to repair: its log is whole (drover volume fsck %s reads "
                 "everything)\n",
                 name_of(ref), name_of(ref));
    } else if (how->is_sure) {
        add_done(out, ref, &report);
    } else {
        add_cost(out, ref, &report);
    }
    *exit_code = is_whole || how->is_sure ? EXIT_DONE : EXIT_WORK_FAILED;
    return ERR_OK;
}

int data_verb_repair(const char *volume, const struct volume_ref *over,
                     const struct data_repair *how)
{
    struct volume_ref ref = {0};
    AUTO_STR struct str out = {0};
    struct err err = {0};
    int exit_code = EXIT_DONE;
    enum err_code code = volume_ref_parse(volume, &ref, &err);
    if (code == ERR_OK && (ref.snapshot || ref.path)) {
        code =
            err_set(&err, ERR_INVALID,
                    "%.300s: a volume is repaired as a whole, without @SNAPSHOT or :/PATH", volume);
    }
    if (code == ERR_OK) {
        volume_ref_override(&ref, over);
        code = look_and_repair(&ref, how, &out, &exit_code, &err);
    }
    if (code == ERR_OK) {
        cli_write(&out);
    } else {
        exit_code = cli_error(volume_ref_exit(code), "%s", err.text);
    }
    volume_ref_release(&ref);
    return exit_code;
}
