#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/submit.h"
#include "cli/volume_find.h"
#include "recipe/files.h"
#include "recipe/yaml.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct submit_options {
    const char *state;
    const char *file;
    const char **sets;
    size_t set_count;
    size_t set_cap;
    const char *name;
    const char *key;
    uint64_t seed;
    bool has_seed;
    bool no_sync;
    bool wait;
    bool as_json;
    bool quiet;
    bool no_containers;
    bool ignore_hardware;
};

static const struct option options[] = {
    {"state", required_argument, NULL, 'd'},
    {"set", required_argument, NULL, 's'},
    {"seed", required_argument, NULL, 'S'},
    {"name", required_argument, NULL, 'n'},
    {"key", required_argument, NULL, 'k'},
    {"no-sync", no_argument, NULL, 'N'},
    {"wait", no_argument, NULL, 'w'},
    {"json", no_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},
    {"no-containers", no_argument, NULL, 'C'},
    {"ignore-hardware", no_argument, NULL, 'H'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int parse_option(struct submit_options *submit, int option, char **argv)
{
    switch (option) {
    case 'd':
        submit->state = optarg;
        return -1;
    case 's':
        VEC_PUSH(submit->sets, submit->set_count, submit->set_cap) = optarg;
        return -1;
    case 'S':
        submit->has_seed = cli_parse_u64(optarg, UINT64_MAX, &submit->seed);
        return submit->has_seed ? -1 : cli_usage_error(&cmd_submit, "--seed takes a number");
    case 'n':
        submit->name = optarg;
        return -1;
    case 'k':
        submit->key = optarg;
        return optarg[0] && strlen(optarg) <= SUBMIT_KEY_MAX
                   ? -1
                   : cli_usage_error(&cmd_submit, "--key takes 1 to %d characters", SUBMIT_KEY_MAX);
    case 'N':
        submit->no_sync = true;
        return -1;
    case 'w':
        submit->wait = true;
        return -1;
    case 'j':
        submit->as_json = true;
        return -1;
    case 'q':
        submit->quiet = true;
        return -1;
    case 'C':
        submit->no_containers = true;
        return -1;
    case 'H':
        submit->ignore_hardware = true;
        return -1;
    default:
        return cli_bad_option(&cmd_submit, option, argv);
    }
}

static int parse(struct submit_options *submit, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hq", options, NULL)) != -1) {
        int code = parse_option(submit, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    if (argc - optind != 1) {
        return cli_usage_error(&cmd_submit,
                               optind == argc ? "which recipe?" : "one recipe, please");
    }
    submit->file = argv[optind];
    return -1;
}

static void print_submitted(const struct submit_options *submit, struct remote *remote,
                            const struct jnode *answer)
{
    AUTO_STR struct str out = {0};
    AUTO_STR struct str id = {0};
    jread_add_clean(&id, jread_text(answer, "id", "?"));
    const struct jnode *experiments = jread_get(answer, "experiments");
    if (submit->as_json) {
        jread_add(&out, answer);
    } else if (submit->quiet) {
        str_add(&out, str_text(&id));
    } else {
        size_t count = experiments ? experiments->count : 0;
        uint64_t tasks = jread_u64(answer, "tasks", 0);
        str_addf(&out, "%s: %zu experiment%s, %" PRIu64 " task%s", str_text(&id), count,
                 count == 1 ? "" : "s", tasks, tasks == 1 ? "" : "s");
    }
    str_add_char(&out, '\n');
    if (!submit->as_json && !submit->quiet && !submit->wait) {
        str_addf(&out, "to watch it: drover wait %s", str_text(&id));
        remote_add_where(&out, submit->state);
        str_add_char(&out, '\n');
    }
    cli_write(&out);
    if (!submit->as_json && !submit->quiet) {
        submit_note_waiting(remote, jread_text(answer, "id", "?"));
    }
}

static int submit_and_wait(const struct submit_options *submit, struct remote *remote,
                           const struct submit *what)
{
    struct jread answer = {0};
    int code = submit_send(remote, what, &answer);
    if (code == EXIT_DONE) {
        print_submitted(submit, remote, answer.root);
    }
    if (code == EXIT_DONE && submit->wait) {
        struct follow_options follow = {.workflow = jread_text(answer.root, "id", NULL),
                                        .as_json = submit->as_json,
                                        .quiet = submit->quiet};
        code = follow_wait(remote, &follow);
    }
    jread_release(&answer);
    return code;
}

/* The server knows none of our names. What is wrong with the recipe is for it to say. */
static int find_volumes(const struct submit_options *submit, const struct str *text,
                        struct str *volumes)
{
    struct diag_list diags = {.file = submit->file};
    struct err err = {0};
    struct recipe *recipe = recipe_parse(submit->file, str_text(text), text->size, submit->sets,
                                         submit->set_count, &diags);
    int code = EXIT_DONE;
    if (recipe && volume_find(recipe, volumes, &diags, &err) != ERR_OK) {
        code = cli_session_error(ERR_INVALID, &diags, &err, NULL);
    }
    recipe_destroy(recipe);
    diag_release(&diags);
    return code;
}

static int send_recipe(struct submit_options *submit)
{
    AUTO_STR struct str volumes = {0};
    AUTO_STR struct str text = {0};
    AUTO_STR struct str name = {0};
    struct err err = {0};
    struct remote remote = {0};
    if (io_read_file(submit->file, YAML_BYTES_MAX, &text, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    if (submit->name) {
        str_addf(&name, "name=%s", submit->name);
        VEC_PUSH(submit->sets, submit->set_count, submit->set_cap) = str_text(&name);
    }
    int failed = find_volumes(submit, &text, &volumes);
    if (failed != EXIT_DONE) {
        return failed;
    }
    AUTO_FREE char *folder = recipe_folder_of(submit->file);
    AUTO_FREE char *real = realpath(folder, NULL);
    struct submit what = {.recipe = str_text(&text),
                          .recipe_size = text.size,
                          .file = submit->file,
                          .folder = real ? real : folder,
                          .sync = !submit->no_sync,
                          .say_sync = !submit->as_json && !submit->quiet,
                          .sets = submit->sets,
                          .set_count = submit->set_count,
                          .seed = submit->has_seed ? &submit->seed : NULL,
                          .volumes = str_text(&volumes),
                          .key = submit->key,
                          .no_containers = submit->no_containers,
                          .ignore_hardware = submit->ignore_hardware};
    int code = remote_open(submit->state, &remote);
    if (code == EXIT_DONE) {
        code = submit_and_wait(submit, &remote, &what);
    }
    remote_close(&remote);
    return code;
}

static int run(int argc, char **argv)
{
    struct submit_options submit = {0};
    int code = parse(&submit, argc, argv);
    if (code < 0) {
        code = send_recipe(&submit);
    }
    free(submit.sets);
    return code;
}

const struct cli_command cmd_submit = {
    .name = "submit",
    .arguments = "RECIPE [--set K=V]... [--wait] [--no-sync] [--key K] [--json]",
    .summary = "give a recipe to a server, with the folder it is in",
    .help =
        "  --state DIR        the server of this folder (else DROVER_SERVER and DROVER_TOKEN, "
        "else\n"
        "                     the one in the default place)\n"
        "  --set K=V          change the recipe before it is read, as for drover run\n"
        "  --seed S           instead of the recipe's seed\n"
        "  --name NAME        what the workflow is called, instead of the recipe's name\n"
        "  --no-sync          do not send the folder: commands run in it as the nodes see it\n"
        "  --key K            submitting again with the same key gives the same workflow, not a\n"
        "                     second one (default: drawn for each call)\n"
        "  --wait             wait for its end, as drover wait does\n"
        "  --json             the answer as an object: id, number, state, tasks, experiments\n"
        "  -q, --quiet        only the id\n"
        "  --no-containers    run image: experiments in the nodes' environment\n"
        "  --ignore-hardware  run whatever hardware: asks for\n\n"
        "The folder goes without what .gitignore and .droverignore name; only what changed\n"
        "travels.\n\n"
        "Examples:\n"
        "  drover submit train.yaml --wait\n"
        "  drover submit train.yaml --set train.samples=100 --state /srv/drover\n"
        "  id=$(drover submit train.yaml --quiet) && drover wait \"$id\"\n",
    .run = run,
};
