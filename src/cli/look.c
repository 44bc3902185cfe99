#include "cli/look.h"

#include "base/mem.h"
#include "cli/standing.h"
#include "master/place.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
    {"state", required_argument, NULL, 'd'},
    {"json", no_argument, NULL, 'j'},
    {"failed", no_argument, NULL, 'F'},
    {"experiment", required_argument, NULL, 'e'},
    {"follow", no_argument, NULL, 'f'},
    {"grep", required_argument, NULL, 'g'},
    {"regex", no_argument, NULL, 'x'},
    {"limit", required_argument, NULL, 'n'},
    {"attempt", required_argument, NULL, 'A'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* Which of them a command takes. */
static bool takes(const struct cli_command *command, int option)
{
    if (command == &cmd_tasks) {
        return strchr("djFe", option) != NULL;
    }
    return strchr(command == &cmd_logs ? "djefgxnA" : "dj", option) != NULL;
}

static int refuse(const struct cli_command *command, int option)
{
    const struct option *named = options;
    while (named->val != option) {
        named++;
    }
    return cli_usage_error(command, "unknown option --%s", named->name);
}

int look_parse(const struct cli_command *command, struct look *look, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hfe:", options, NULL)) != -1) {
        if (option == ':' || option == '?' || option == 'h') {
            return cli_bad_option(command, option, argv);
        }
        if (!takes(command, option)) {
            return refuse(command, option);
        }
        switch (option) {
        case 'd':
            look->state = optarg;
            break;
        case 'j':
            look->as_json = true;
            break;
        case 'F':
            look->failed_only = true;
            break;
        case 'e':
            look->experiment = optarg;
            break;
        case 'f':
            look->follow = true;
            break;
        case 'g':
            look->grep = optarg;
            break;
        case 'x':
            look->regex = true;
            break;
        case 'A':
            if (!cli_parse_u64(optarg, UINT32_MAX, &look->attempt) || look->attempt == 0) {
                return cli_usage_error(command, "--attempt takes a number above 0");
            }
            break;
        default:
            if (!cli_parse_u64(optarg, 1000000000, &look->limit) || look->limit == 0) {
                return cli_usage_error(command, "--limit takes a number above 0");
            }
        }
    }
    if (argc - optind > 1 || (command == &cmd_list && argc > optind)) {
        return cli_usage_error(command,
                               command == &cmd_list ? "it takes no name" : "one name, please");
    }
    look->run = optind < argc ? argv[optind] : NULL;
    return -1;
}

/* In the default place a name may also be one of the runs there. */
static bool is_run(const char *run)
{
    AUTO_STR struct str folder = {0};
    return place_find_run(run, &folder, NULL) == ERR_OK;
}

/* When the newest run of the default place was begun; 0: there is none. */
static int64_t newest_run_ms(void)
{
    AUTO_STR struct str folder = {0};
    struct session session;
    int64_t created_ms = 0;
    if (place_find_run(NULL, &folder, NULL) == ERR_OK &&
        session_read(str_text(&folder), &session, NULL) == ERR_OK) {
        created_ms = session.flow ? session.flow->created_ms : 0;
        session_release(&session);
    }
    return created_ms;
}

int look_for_server(const struct look *look, const char *run, struct remote *remote, bool *found)
{
    AUTO_STR struct str path = {0};
    struct jread answer = {0};
    int status = 0;
    int code = remote_look(look->state, remote, found);
    if (code != EXIT_DONE || !*found || !remote->defaulted || !is_run(run)) {
        return code;
    }
    remote_add_workflow(&path, run);
    remote->quiet = true;
    code = remote_get(remote, str_text(&path), &answer, &status);
    remote->quiet = false;
    int64_t created_ms = standing_time_ms(jread_text(answer.root, "created_at", ""));
    *found = status != 404 && (run || created_ms < 0 || created_ms >= newest_run_ms());
    jread_release(&answer);
    if (code == EXIT_UNREACHABLE) {
        remote_tell(remote);
        return code;
    }
    return EXIT_DONE;
}

/* The folder of a server that is down, in the default place, if it has the workflow. */
static bool read_default_server(const char *run, struct session *session)
{
    AUTO_STR struct str folder = {0};
    bool strange = false;
    if (remote_default_folder(&folder, NULL) != ERR_OK ||
        !place_has_state(str_text(&folder), &strange) ||
        session_read(str_text(&folder), session, NULL) != ERR_OK) {
        return false;
    }
    bool has_it = session_select(session, run);
    if (!has_it) {
        session_release(session);
    }
    return has_it;
}

int look_read(const struct look *look, const char *run, struct session *session)
{
    if (!look->state && read_default_server(run, session)) {
        if (run || session->flow->created_ms >= newest_run_ms()) {
            return EXIT_DONE;
        }
        session_release(session);
    }
    int code = cli_read_session(look->state, run, session);
    if (code != EXIT_DONE) {
        return code;
    }
    /* a run has one workflow, whatever its folder is called; a server's folder has many */
    bool is_servers =
        session->flow_count != 1 || strcmp(session->flows[0]->folder, session->folder) != 0;
    if (is_servers && !session_select(session, run)) {
        session_release(session);
        return run ? cli_error(EXIT_USAGE, "there is no workflow '%s' in %s", run, look->state)
                   : cli_error(EXIT_USAGE, "%s holds no workflow yet", look->state);
    }
    return EXIT_DONE;
}

int look_experiment(const struct session *session, const char *name)
{
    for (size_t i = 0; i < session->flow->recipe->experiment_count; i++) {
        if (strcmp(session->flow->recipe->experiments[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}
