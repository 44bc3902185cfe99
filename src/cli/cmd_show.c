/* cmd_show.c - list and status: looking at runs and workflows, also while they run. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/look.h"
#include "cli/pages.h"
#include "cli/standing.h"
#include "cli/summary.h"
#include "master/place.h"

#include <inttypes.h>
#include <string.h>

/* --- list ----------------------------------------------------------------------------------- */

static void print_flow(const struct look *look, struct session *session)
{
    AUTO_STR struct str out = {0};
    if (look->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        summary_add_json(&json, session);
        json_end(&json);
        str_add_char(&out, '\n');
        cli_write(&out);
        return;
    }
    uint64_t tasks = 0;
    uint64_t succeeded = 0;
    for (uint32_t e = 0; e < session->flow->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(session->core, session->flow->number, e, &view);
        tasks += view.tasks;
        succeeded += view.succeeded;
    }
    AUTO_STR struct str created = {0};
    clock_add_rfc3339(&created, session->flow->created_ms);
    str_addf(&out, "%-24s %-10s %10" PRIu64 " of %-10" PRIu64 " %.19sZ\n", session->flow->id,
             summary_state(session, false), succeeded, tasks, str_text(&created));
    cli_write(&out);
}

static bool list_run(void *context, const char *id, const char *folder)
{
    struct session session;
    struct err err = {0};
    if (session_read(folder, &session, &err) != ERR_OK) {
        fprintf(stderr, "drover: %s: %s\n", id, err.text);
        return true;
    }
    print_flow(context, &session);
    session_release(&session);
    return true;
}

/* A folder that nobody serves: its workflows, newest first. */
static int list_folder(const struct look *look, const char *folder)
{
    struct session session;
    struct look of_folder = *look;
    of_folder.state = folder;
    int code = cli_read_session(folder, NULL, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    for (size_t i = session.flow_count; i > 0; i--) {
        session.flow = session.flows[i - 1];
        print_flow(&of_folder, &session);
    }
    session_release(&session);
    return EXIT_DONE;
}

static int list_server(const struct look *look, struct remote *remote)
{
    struct pages pages = {.path = "/api/v1/workflows?limit=100"};
    const struct jnode *items = NULL;
    int code = EXIT_DONE;
    while ((code = pages_next(remote, &pages, &items)) == EXIT_DONE && items) {
        AUTO_STR struct str out = {0};
        for (const struct jnode *item = jread_first(items); item; item = item->next) {
            if (look->as_json) {
                jread_add(&out, item);
                str_add_char(&out, '\n');
            } else {
                standing_add_line(&out, item);
            }
        }
        cli_write(&out);
    }
    pages_release(&pages);
    return code;
}

/* The default place has runs, and maybe a server whose process is not there now. */
static int list_default(const struct look *look, bool served)
{
    AUTO_STR struct str folder = {0};
    struct err err = {0};
    bool strange = false;
    int code = EXIT_DONE;
    if (!served && remote_default_folder(&folder, NULL) == ERR_OK &&
        place_has_state(str_text(&folder), &strange)) {
        code = list_folder(look, str_text(&folder));
    }
    if (code == EXIT_DONE && place_each_run(list_run, (void *)look, &err) != ERR_OK) {
        code = cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return code;
}

static int run_list(int argc, char **argv)
{
    struct look look = {0};
    struct remote remote = {0};
    bool found = false;
    int code = look_parse(&cmd_list, &look, argc, argv);
    if (code >= 0) {
        return code;
    }
    code = remote_look(look.state, &remote, &found);
    if (code == EXIT_DONE && found) {
        code = list_server(&look, &remote);
    } else if (code == EXIT_DONE && look.state) {
        code = list_folder(&look, look.state);
    }
    if (code == EXIT_DONE && remote.defaulted) {
        code = list_default(&look, found);
    }
    remote_close(&remote);
    return code;
}

/* --- status --------------------------------------------------------------------------------- */

static int ask_status(const struct look *look, struct remote *remote)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str out = {0};
    struct jread status = {0};
    struct jread failures = {0};
    remote_add_workflow(&path, look->run);
    int code = remote_get(remote, str_text(&path), &status, NULL);
    if (code == EXIT_DONE && look->as_json) {
        jread_add(&out, status.root);
        str_add_char(&out, '\n');
    } else if (code == EXIT_DONE) {
        str_clear(&path);
        remote_add_workflow(&path, jread_text(status.root, "id", look->run));
        str_addf(&path, "/tasks?failed=1&limit=%d", STANDING_FAILURES_SHOWN + 1);
        code = remote_get(remote, str_text(&path), &failures, NULL);
        standing_add_text(&out, status.root, jread_get(failures.root, "items"), -1, look->state);
    }
    cli_write(&out);
    jread_release(&status);
    jread_release(&failures);
    return code;
}

static int read_status(const struct look *look)
{
    struct session session;
    AUTO_STR struct str out = {0};
    int code = look_read(look, look->run, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    if (look->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        summary_add_json(&json, &session);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        summary_add_text(&out, &session, false, -1);
    }
    cli_write(&out);
    session_release(&session);
    return EXIT_DONE;
}

static int run_status(int argc, char **argv)
{
    struct look look = {0};
    struct remote remote = {0};
    bool found = false;
    int code = look_parse(&cmd_status, &look, argc, argv);
    if (code >= 0) {
        return code;
    }
    code = look_for_server(&look, look.run, &remote, &found);
    if (code == EXIT_DONE) {
        code = found ? ask_status(&look, &remote) : read_status(&look);
    }
    remote_close(&remote);
    return code;
}

const struct cli_command cmd_list = {
    .name = "list",
    .arguments = "[--state DIR] [--json]",
    .summary = "the workflows of a server, and the runs in the default place, newest first",
    .help = "  --state DIR   the workflows of this folder: its server's, or read from it\n"
            "  --json        one object a workflow, as drover status --json\n\n"
            "Examples:\n"
            "  drover list\n"
            "  drover list --state /srv/drover --json\n",
    .run = run_list,
};

const struct cli_command cmd_status = {
    .name = "status",
    .arguments = "[W] [--state DIR] [--json]",
    .summary = "how a run or workflow stands, also while it runs (default: the newest)",
    .help = "  --state DIR   in this folder: a run's, or a server's\n"
            "  --json        one object: id, state, experiments with their counts\n\n"
            "Examples:\n"
            "  drover status\n"
            "  drover status mnist-3 --json\n",
    .run = run_status,
};
