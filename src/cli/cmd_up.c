/* cmd_up.c - up: a server and nodes on this machine. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/cluster.h"
#include "cli/pages.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NODES_MAX = 1000,
    SLOTS_MAX = 1024,
    JOIN_PATIENCE_MS = 30000,
    LOOK_MS = 25,
};

struct up_options {
    const char *state;
    const char *prefix;
    uint64_t nodes;
    uint64_t slots;
    struct provider_spec spec; /* labels and price */
    bool as_json;
};

static const struct option options[] = {
    {"state", required_argument, NULL, 'd'}, {"on", required_argument, NULL, 'o'},
    {"nodes", required_argument, NULL, 'n'}, {"slots", required_argument, NULL, 's'},
    {"label", required_argument, NULL, 'l'}, {"price", required_argument, NULL, 'p'},
    {"name", required_argument, NULL, 'N'},  {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},        {0},
};

static int parse_option(struct up_options *up, int option, char **argv)
{
    switch (option) {
    case 'd':
        up->state = optarg;
        return -1;
    case 'o':
        return strcmp(optarg, "local") == 0
                   ? -1
                   : cli_usage_error(&cmd_up, "--on takes local; nodes elsewhere are started by "
                                              "hand: drover node --join @join.url");
    case 'n':
        return cli_parse_u64(optarg, NODES_MAX, &up->nodes) && up->nodes > 0
                   ? -1
                   : cli_usage_error(&cmd_up, "--nodes takes a number from 1 to %d", NODES_MAX);
    case 's':
        return cli_parse_u64(optarg, SLOTS_MAX, &up->slots) && up->slots > 0
                   ? -1
                   : cli_usage_error(&cmd_up, "--slots takes a number from 1 to %d", SLOTS_MAX);
    case 'l':
        if (up->spec.label_count == PROVIDER_LABELS_MAX) {
            return cli_usage_error(&cmd_up, "at most %d labels", PROVIDER_LABELS_MAX);
        }
        up->spec.labels[up->spec.label_count++] = optarg;
        return -1;
    case 'p':
        up->spec.price = optarg;
        return -1;
    case 'N':
        up->prefix = optarg;
        return provider_name_is_good(optarg) && strlen(optarg) < PROVIDER_NAME_MAX - 8
                   ? -1
                   : cli_usage_error(&cmd_up, "--name takes letters, digits, '.', '_' and '-'");
    case 'j':
        up->as_json = true;
        return -1;
    default:
        return cli_bad_option(&cmd_up, option, argv);
    }
}

static int parse(struct up_options *up, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        int code = parse_option(up, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    return optind == argc ? -1 : cli_usage_error(&cmd_up, "it takes no name; --name NAME?");
}

/* Starts the nodes under the first names that are free; their names are in *names. */
static enum err_code start_nodes(struct cluster *cluster, const struct up_options *up,
                                 struct provider_list *started, struct err *err)
{
    AUTO_STR struct str join = {0};
    struct provider_spec spec = up->spec;
    enum err_code code = ERR_OK;
    str_addf(&join, "%s/join.url", cluster->state);
    spec.join_file = str_text(&join);
    spec.slots = (uint32_t)up->slots;
    for (unsigned number = 1; started->count < up->nodes && code == ERR_OK; number++) {
        struct provider_node node = {0};
        snprintf(node.name, sizeof node.name, "%s-%u", up->prefix, number);
        spec.name = node.name;
        code = provider_start(cluster->nodes, &spec, err);
        if (code == ERR_OK) {
            VEC_PUSH(started->nodes, started->count, started->cap) = node;
        } else if (code == ERR_EXISTS) {
            code = ERR_OK;
        }
    }
    return code;
}

/* How many of them the server has welcomed; a dead one is an error. */
static int count_joined(struct cluster *cluster, struct remote *remote,
                        struct provider_list *started, size_t *joined)
{
    struct provider_list now = {0};
    struct jread answer = {0};
    struct err err = {0};
    *joined = 0;
    if (provider_list(cluster->nodes, &now, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    int code = remote_get(remote, "/api/v1/nodes?limit=1000", &answer, NULL);
    for (size_t i = 0; i < started->count && code == EXIT_DONE; i++) {
        const struct provider_node *node = provider_find(&now, started->nodes[i].name);
        if (!node || !node->alive) {
            AUTO_STR struct str tail = {0};
            AUTO_STR struct str log = {0};
            str_addf(&log, "%s/nodes/%s.log", cluster->state, started->nodes[i].name);
            cluster_add_tail(&tail, str_text(&log));
            code = cli_error(EXIT_WORK_FAILED, "node %s ended at once; its log %s ends: %s",
                             started->nodes[i].name, str_text(&log), str_text(&tail));
            break;
        }
        started->nodes[i] = *node;
        *joined +=
            cluster_find_joined(jread_get(answer.root, "items"), cluster_pid_of(node), "here") ? 1
                                                                                               : 0;
    }
    jread_release(&answer);
    provider_list_release(&now);
    return code;
}

static int wait_joined(struct cluster *cluster, struct remote *remote,
                       struct provider_list *started)
{
    int64_t until_ms = clock_mono_ms() + JOIN_PATIENCE_MS;
    for (;;) {
        size_t joined = 0;
        int code = count_joined(cluster, remote, started, &joined);
        if (code != EXIT_DONE || joined == started->count) {
            return code;
        }
        if (clock_mono_ms() >= until_ms) {
            return cli_error(EXIT_WORK_FAILED,
                             "%zu of %zu nodes have not joined; they go on trying, and their logs "
                             "are in %s/nodes",
                             started->count - joined, started->count, cluster->state);
        }
        usleep(LOOK_MS * 1000);
    }
}

static void print_up(const struct up_options *up, const struct cluster *cluster,
                     const struct remote *remote, const struct provider_list *started,
                     bool server_started)
{
    AUTO_STR struct str out = {0};
    if (up->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "state_folder");
        json_text(&json, cluster->state);
        json_key(&json, "server");
        json_text(&json, remote->url);
        json_key(&json, "server_started");
        json_bool(&json, server_started);
        json_key(&json, "nodes");
        json_array(&json);
        for (size_t i = 0; i < started->count; i++) {
            json_object(&json);
            json_key(&json, "name");
            json_text(&json, started->nodes[i].name);
            json_key(&json, "pid");
            json_i64(&json, cluster_pid_of(&started->nodes[i]));
            json_end(&json);
        }
        json_end(&json);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        str_addf(&out, "%s %s, %zu node%s joined\n",
                 server_started ? "started a server:" : "server", remote->url, started->count,
                 started->count == 1 ? "" : "s");
        str_addf(&out, "try: drover exec%s%s -- hostname\nend: drover down%s%s%s\n",
                 up->state ? " --state " : "", up->state ? up->state : "",
                 up->state ? " --state " : "", up->state ? up->state : "",
                 server_started ? " --server" : "");
    }
    cli_write(&out);
}

static int bring_up(const struct up_options *up, struct cluster *cluster)
{
    struct err err = {0};
    struct remote remote = {0};
    struct provider_list started = {0};
    bool server_started = false;
    if (cluster_serve(cluster, &server_started, &err) != ERR_OK) {
        return cli_error(EXIT_UNREACHABLE, "%s", err.text);
    }
    int code = remote_open(cluster->state, &remote);
    if (code == EXIT_DONE && start_nodes(cluster, up, &started, &err) != ERR_OK) {
        code = cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    if (code == EXIT_DONE) {
        code = wait_joined(cluster, &remote, &started);
    }
    if (code == EXIT_DONE) {
        print_up(up, cluster, &remote, &started, server_started);
    }
    provider_list_release(&started);
    remote_close(&remote);
    return code;
}

static int run_up(int argc, char **argv)
{
    struct up_options up = {.nodes = 1, .prefix = "local"};
    struct cluster cluster = {0};
    struct err err = {0};
    int code = parse(&up, argc, argv);
    if (code >= 0) {
        return code;
    }
    const char *elsewhere = getenv("DROVER_SERVER");
    if (!up.state && elsewhere && elsewhere[0]) {
        return cli_error(EXIT_USAGE, "DROVER_SERVER names a server, but local nodes join one of "
                                     "this machine: say which with --state DIR");
    }
    if (cluster_open(up.state, true, &cluster, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    code = bring_up(&up, &cluster);
    cluster_close(&cluster);
    return code;
}

const struct cli_command cmd_up = {
    .name = "up",
    .arguments = "[--on local] [--nodes N] [--slots N] [--label L]... [--state DIR] [--json]",
    .summary = "start nodes on this machine, and a server for them if there is none",
    .help = "  --on local     where: this machine, the only place so far\n"
            "  --nodes N      how many (default 1)\n"
            "  --slots N      of each node (default: the number of CPUs)\n"
            "  --label L      a word that recipes and exec can ask for, such as zone=a; repeat it\n"
            "  --price P      what a node costs an hour, for drover nodes\n"
            "  --name NAME    nodes are called NAME-1, NAME-2... (default: local)\n"
            "  --state DIR    the server's folder (default: ~/.local/share/drover/server)\n"
            "  --json         one object: state_folder, server, server_started, nodes\n\n"
            "The nodes are processes of their own: they stay when this command and its terminal\n"
            "go. Their logs are in DIR/nodes. drover down ends them.\n\n"
            "Examples:\n"
            "  drover up --nodes 4 --slots 2\n"
            "  drover up --state /srv/drover --nodes 2 --label zone=a --name a\n",
    .run = run_up,
};
