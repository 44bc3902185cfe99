/* cmd_down.c - down and clusters: ending and listing what `drover up` started. */
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/cluster.h"
#include "master/place.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { STOP_PATIENCE_MS = 20000 };

struct down_options {
    const char *state;
    bool server; /* end it, too */
    bool now;
    bool as_json;
};

/* What runs on them moves to other nodes at once, rather than after a lease. */
static void drain(const struct cluster *cluster, const struct provider_list *list)
{
    struct remote remote = {0};
    struct jread answer = {0};
    bool found = false;
    if (!remote_is_served(cluster->state) ||
        remote_look(cluster->state, &remote, &found) != EXIT_DONE || !found) {
        remote_close(&remote);
        return;
    }
    remote.quiet = true; /* a courtesy: they are stopped in any case */
    if (remote_get(&remote, "/api/v1/nodes?limit=1000", &answer, NULL) == EXIT_DONE) {
        const struct jnode *items = jread_get(answer.root, "items");
        for (size_t i = 0; i < list->count; i++) {
            const char *name = cluster_find_joined(items, cluster_pid_of(&list->nodes[i]), NULL);
            struct jread drained = {0};
            AUTO_STR struct str path = {0};
            str_add(&path, "/api/v1/nodes/");
            client_add_encoded(&path, name ? name : "");
            str_add(&path, "/drain?mode=hard");
            if (name) {
                (void)remote_post(&remote, str_text(&path), &drained, NULL);
            }
            jread_release(&drained);
        }
    }
    jread_release(&answer);
    remote_close(&remote);
}

/* The nodes meant: those named, or all. EXIT_USAGE for a name that is none. */
static int choose(const struct provider_list *all, char **names, size_t count,
                  struct provider_list *out)
{
    for (size_t i = 0; i < (count > 0 ? count : all->count); i++) {
        const struct provider_node *node =
            count > 0 ? provider_find(all, names[i]) : &all->nodes[i];
        if (!node) {
            return cli_error(EXIT_USAGE, "drover up started no node '%s' here (drover clusters)",
                             names[i]);
        }
        VEC_PUSH(out->nodes, out->count, out->cap) = *node;
    }
    return EXIT_DONE;
}

static enum err_code stop_nodes(struct cluster *cluster, const struct down_options *down,
                                const struct provider_list *chosen, struct err *err)
{
    AUTO_FREE const char **names = mem_array(chosen->count, sizeof *names);
    for (size_t i = 0; i < chosen->count; i++) {
        names[i] = chosen->nodes[i].name;
    }
    if (!down->now) {
        drain(cluster, chosen);
    }
    return provider_stop_all(cluster->nodes, names, chosen->count, down->now ? 0 : STOP_PATIENCE_MS,
                             err);
}

static int stop_server(struct cluster *cluster, struct err *err)
{
    pid_t pid = 0;
    if (!place_is_locked(cluster->state)) {
        return EXIT_DONE;
    }
    if (!cluster_owns_server(cluster, &pid)) {
        return cli_error(EXIT_WORK_FAILED,
                         "the server in %s was not started by drover up: end it where it runs",
                         cluster->state);
    }
    return cluster_stop_server(cluster, err) == ERR_OK
               ? EXIT_DONE
               : cli_error(EXIT_WORK_FAILED, "%s", err->text);
}

static void print_down(const struct down_options *down, const struct cluster *cluster,
                       const struct provider_list *chosen)
{
    AUTO_STR struct str out = {0};
    if (down->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "state_folder");
        json_text(&json, cluster->state);
        json_key(&json, "server_running");
        json_bool(&json, place_is_locked(cluster->state));
        json_key(&json, "nodes");
        json_array(&json);
        for (size_t i = 0; i < chosen->count; i++) {
            json_text(&json, chosen->nodes[i].name);
        }
        json_end(&json);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        str_addf(&out, "%zu node%s ended%s\n", chosen->count, chosen->count == 1 ? "" : "s",
                 down->server                      ? ", and the server"
                 : place_is_locked(cluster->state) ? "; the server goes on (--server ends it, too)"
                                                   : "");
    }
    cli_write(&out);
}

static int take_down(const struct down_options *down, struct cluster *cluster, char **names,
                     size_t count)
{
    struct provider_list all = {0};
    struct provider_list chosen = {0};
    struct err err = {0};
    if (provider_list(cluster->nodes, &all, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    int code = choose(&all, names, count, &chosen);
    if (code == EXIT_DONE && stop_nodes(cluster, down, &chosen, &err) != ERR_OK) {
        code = cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    if (code == EXIT_DONE && down->server) {
        code = stop_server(cluster, &err);
    }
    if (code == EXIT_DONE) {
        print_down(down, cluster, &chosen);
        cluster_tidy(cluster);
    }
    provider_list_release(&all);
    provider_list_release(&chosen);
    return code;
}

static int run_down(int argc, char **argv)
{
    static const struct option options[] = {
        {"state", required_argument, NULL, 'd'}, {"server", no_argument, NULL, 'S'},
        {"now", no_argument, NULL, 'n'},         {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {0}};
    struct down_options down = {0};
    struct cluster cluster = {0};
    struct err err = {0};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'd') {
            down.state = optarg;
        } else if (option == 'S') {
            down.server = true;
        } else if (option == 'n') {
            down.now = true;
        } else if (option == 'j') {
            down.as_json = true;
        } else {
            return cli_bad_option(&cmd_down, option, argv);
        }
    }
    if (cluster_open(down.state, false, &cluster, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s: nothing was started there (drover clusters)", err.text);
    }
    int code = take_down(&down, &cluster, argv + optind, (size_t)(argc - optind));
    cluster_close(&cluster);
    return code;
}

/* --- clusters ------------------------------------------------------------------------------- */

static void add_cluster_json(struct str *out, const char *state, const char *url,
                             const struct provider_list *list)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "state_folder");
    json_text(&json, state);
    json_key(&json, "provider");
    json_text(&json, "local");
    json_key(&json, "server");
    if (url[0]) {
        json_text(&json, url);
    } else {
        json_null(&json);
    }
    json_key(&json, "nodes");
    json_array(&json);
    for (size_t i = 0; i < list->count; i++) {
        json_object(&json);
        json_key(&json, "name");
        json_text(&json, list->nodes[i].name);
        json_key(&json, "alive");
        json_bool(&json, list->nodes[i].alive);
        json_key(&json, "pid");
        if (list->nodes[i].alive) {
            json_i64(&json, cluster_pid_of(&list->nodes[i]));
        } else {
            json_null(&json);
        }
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
    str_add_char(out, '\n');
}

static bool show_cluster(void *context, const char *state)
{
    const bool *as_json = context;
    struct cluster cluster = {0};
    struct provider_list list = {0};
    AUTO_STR struct str url = {0};
    AUTO_STR struct str file = {0};
    AUTO_STR struct str out = {0};
    if (cluster_open(state, false, &cluster, NULL) != ERR_OK) {
        return true;
    }
    size_t alive = 0;
    if (provider_list(cluster.nodes, &list, NULL) == ERR_OK) {
        for (size_t i = 0; i < list.count; i++) {
            alive += list.nodes[i].alive ? 1 : 0;
        }
    }
    str_addf(&file, "%s/api.url", state);
    if (!place_is_locked(state) || remote_read_line(str_text(&file), &url, NULL) != ERR_OK) {
        str_clear(&url);
    }
    if (*as_json) {
        add_cluster_json(&out, state, str_text(&url), &list);
    } else {
        str_addf(&out, "%-8s %-28s %3zu node%s  %s\n", "local",
                 url.size > 0 ? str_text(&url) : "(no server)", alive, alive == 1 ? " " : "s",
                 state);
    }
    cli_write(&out);
    provider_list_release(&list);
    cluster_close(&cluster);
    return true;
}

static int run_clusters(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool as_json = false;
    struct err err = {0};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option != 'j') {
            return cli_bad_option(&cmd_clusters, option, argv);
        }
        as_json = true;
    }
    if (optind != argc) {
        return cli_usage_error(&cmd_clusters, "it takes no name");
    }
    return cluster_each(show_cluster, &as_json, &err) == ERR_OK
               ? EXIT_DONE
               : cli_error(EXIT_WORK_FAILED, "%s", err.text);
}

const struct cli_command cmd_down = {
    .name = "down",
    .arguments = "[NAME...] [--server] [--now] [--state DIR] [--json]",
    .summary = "end nodes that drover up started, and their server if asked",
    .help = "  --server      end the server, too; its workflows are kept, and go on when it is\n"
            "                started again\n"
            "  --now         kill the nodes at once; without it their tasks are moved to other\n"
            "                nodes, get TERM and a moment to end\n"
            "  --state DIR   the server's folder (default: ~/.local/share/drover/server)\n"
            "  --json        one object: state_folder, server_running, nodes\n\n"
            "Without a NAME, all nodes that drover up started there are meant.\n\n"
            "Examples:\n"
            "  drover down local-3\n"
            "  drover down --server\n",
    .run = run_down,
};

const struct cli_command cmd_clusters = {
    .name = "clusters",
    .arguments = "[--json]",
    .summary = "what drover up started: servers, how many nodes, where",
    .help = "  --json   one object a cluster: state_folder, provider, server, nodes\n\n"
            "Examples:\n"
            "  drover clusters\n",
    .run = run_clusters,
};
