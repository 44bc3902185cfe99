#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/nodes_table.h"
#include "cli/pages.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct nodes_options {
    const char *state;
    bool as_json;
    bool all;
    bool now;
    bool off;
};

static int parse(struct nodes_options *nodes, int argc, char **argv)
{
    static const struct option options[] = {{"state", required_argument, NULL, 'd'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"all", no_argument, NULL, 'a'},
                                            {"now", no_argument, NULL, 'n'},
                                            {"off", no_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":ha", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            nodes->state = optarg;
            break;
        case 'j':
            nodes->as_json = true;
            break;
        case 'a':
            nodes->all = true;
            break;
        case 'n':
            nodes->now = true;
            break;
        case 'o':
            nodes->off = true;
            break;
        default:
            return cli_bad_option(&cmd_nodes, option, argv);
        }
    }
    return -1;
}

static void print_json(const struct jnode *items)
{
    AUTO_STR struct str out = {0};
    for (const struct jnode *node = jread_first(items); node; node = node->next) {
        jread_add(&out, node);
        str_add_char(&out, '\n');
    }
    cli_write(&out);
}

static void print_page(const struct nodes_options *nodes, const struct jnode *items)
{
    AUTO_STR struct str out = {0};
    struct nodes_table table = {.now_ms = clock_unix_ms(), .all = nodes->all};
    for (const struct jnode *node = jread_first(items); node; node = node->next) {
        nodes_table_add(&table, node);
    }
    if (table.shown > 0) {
        nodes_table_print(&table, &out);
    }
    cli_write(&out);
    if (table.hidden > 0) {
        fprintf(stderr, "%zu more left or were revoked: --all\n", table.hidden);
    } else if (table.shown == 0) {
        fprintf(stderr, "no node has joined: drover node --join @DIR/join.url on each machine, or "
                        "drover up --on local --nodes N\n");
    }
    nodes_table_release(&table);
}

static int list_nodes(const struct nodes_options *nodes, struct remote *remote)
{
    struct pages pages = {.path = "/api/v1/nodes?limit=1000"};
    const struct jnode *items = NULL;
    int code = EXIT_DONE;
    while ((code = pages_next(remote, &pages, &items)) == EXIT_DONE && items) {
        if (nodes->as_json) {
            print_json(items);
        } else {
            print_page(nodes, items); /* a page is a thousand: wide enough for one table */
        }
    }
    pages_release(&pages);
    return code;
}

static int change_node(const struct nodes_options *nodes, struct remote *remote, const char *verb,
                       const char *name)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str out = {0};
    struct jread answer = {0};
    str_add(&path, "/api/v1/nodes/");
    client_add_encoded(&path, name);
    str_addf(&path, "/%s", verb);
    bool drains = strcmp(verb, "drain") == 0;
    if (drains) {
        remote_add_query(&path, "mode", nodes->off ? "off" : nodes->now ? "hard" : "soft");
    }
    int code = remote_post(remote, str_text(&path), &answer, NULL);
    if (code == EXIT_DONE && nodes->as_json) {
        jread_add(&out, answer.root);
        str_add_char(&out, '\n');
    } else if (code == EXIT_DONE) {
        jread_add_clean(&out, jread_text(answer.root, "name", name));
        str_addf(&out, ": %s\n",
                 !drains      ? "revoked: it is cut off and cannot come back with its key"
                 : nodes->off ? "takes work again"
                 : nodes->now ? "draining: its tasks are ended and run elsewhere"
                              : "draining: nothing new goes there; what runs may end");
    }
    cli_write(&out);
    jread_release(&answer);
    return code;
}

static int run(int argc, char **argv)
{
    struct nodes_options nodes = {0};
    struct remote remote = {0};
    int code = parse(&nodes, argc, argv);
    if (code >= 0) {
        return code;
    }
    const char *verb = optind < argc ? argv[optind] : NULL;
    bool changes = verb && (strcmp(verb, "drain") == 0 || strcmp(verb, "revoke") == 0);
    if (verb && !changes) {
        return cli_usage_error(&cmd_nodes, "'%s' is not drain or revoke", verb);
    }
    if (changes && argc - optind != 2) {
        return cli_usage_error(&cmd_nodes, "%s which node? (drover nodes lists them)", verb);
    }
    if ((nodes.now || nodes.off) && !(verb && strcmp(verb, "drain") == 0)) {
        return cli_usage_error(&cmd_nodes, "--now and --off go with drain");
    }
    if (nodes.now && nodes.off) {
        return cli_usage_error(&cmd_nodes, "--now or --off, not both");
    }
    code = remote_open(nodes.state, &remote);
    if (code == EXIT_DONE) {
        code = changes ? change_node(&nodes, &remote, verb, argv[optind + 1])
                       : list_nodes(&nodes, &remote);
    }
    remote_close(&remote);
    return code;
}

const struct cli_command cmd_nodes = {
    .name = "nodes",
    .arguments = "[drain NAME [--now | --off] | revoke NAME] [--all] [--state DIR] [--json]",
    .summary = "the nodes of a server; empty one, or cut one off",
    .help =
        "  drain NAME     give it nothing new; what runs there may end\n"
        "    --now        end what runs there politely, and run it elsewhere\n"
        "    --off        let it take work again\n"
        "  revoke NAME    cut it off at once, for good: its key is refused from now on\n"
        "  -a, --all      also those that left or were revoked\n"
        "  --state DIR    the server of this folder\n"
        "  --json         one object a node\n\n"
        "NAME is a node's name or number. BUSY is how many tasks it has, CPU% how much of its\n"
        "processors is in use, MEM what is used and what there is, PRICE what it costs an hour,\n"
        "HEARD how long ago it last said something.\n\n"
        "Examples:\n"
        "  drover nodes\n"
        "  drover nodes drain gpu-2 --now\n",
    .run = run,
};
