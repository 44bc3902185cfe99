#include "advise/money.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "master/place.h"
#include "node/node.h"
#include "recipe/units.h"
#include "wire/door.h"
#include "wire/wire.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

enum {
    SLOTS_MAX = 1024,
    GRACE_MS = 30 * 1000,
    URL_BYTES_MAX = 4096,
    WORK_BYTES_MAX = 1024,   /* names of workflows, experiments and tasks come after it */
    LOCK_WAIT_MS = 3 * 1000, /* the tasks of one that was killed hold it until they are gone */
};

struct node_command {
    struct node_join join;
    const char *labels[WIRE_LABELS_MAX];
    size_t label_count;
    char name[WIRE_NAME_BYTES_MAX + 1];
    const char *work; /* as given, or NULL */
    struct str work_folder;
    uint64_t slots; /* 0: one for each CPU */
    int64_t price_micro_hour;
    int64_t grace_ms;
    const char *notice_file;
    bool has_join;
    bool no_share;
    bool quiet;
    struct node_capacity capacity;
};

static const struct option options[] = {
    {"join", required_argument, NULL, 'J'},  {"slots", required_argument, NULL, 'n'},
    {"name", required_argument, NULL, 'N'},  {"work", required_argument, NULL, 'w'},
    {"label", required_argument, NULL, 'l'}, {"price", required_argument, NULL, 'p'},
    {"grace", required_argument, NULL, 'g'}, {"notice-file", required_argument, NULL, 'f'},
    {"no-share", no_argument, NULL, 'S'},    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},        {0},
};

/* --- reading the options ---------------------------------------------------------------------- */

/* A URL holds a secret, and what stands on a command line everybody on the machine can read. */
static int take_join(struct node_command *node, char *text)
{
    AUTO_STR struct str url = {0};
    struct err err = {0};
    enum err_code code = ERR_OK;
    if (text[0] == '@') {
        node->join.url_file = text + 1;
        code = io_read_file(text + 1, URL_BYTES_MAX, &url, &err);
        if (code == ERR_OK && url.size > 0) {
            url.text[strcspn(url.text, "\r\n")] = '\0';
        }
    } else {
        str_add(&url, text);
        memset(text, '*', strlen(text));
    }
    if (code == ERR_OK) {
        code = door_url_parse(str_text(&url), &node->join.url, &err);
    }
    if (url.text) {
        explicit_bzero(url.text, url.cap);
    }
    node->has_join = true;
    return code == ERR_OK ? -1 : cli_error(EXIT_USAGE, "--join: %s", err.text);
}

static int take_label(struct node_command *node, const char *label)
{
    if (!wire_label_is_valid(label) || node->label_count == WIRE_LABELS_MAX) {
        return cli_usage_error(&cmd_node,
                               "--label takes a word or K=V of up to %d characters, at most %d "
                               "times",
                               (int)WIRE_LABEL_BYTES_MAX, (int)WIRE_LABELS_MAX);
    }
    node->labels[node->label_count++] = label;
    return -1;
}

static int take_name(struct node_command *node, const char *name)
{
    bool good =
        name[0] != '\0' && name[0] != '.' && !strchr(name, '/') && strlen(name) < sizeof node->name;
    for (const char *at = name; *at; at++) {
        good = good && (unsigned char)*at > ' ' && *at != 0x7f;
    }
    if (!good) {
        return cli_usage_error(&cmd_node, "--name takes a name that a folder could have");
    }
    snprintf(node->name, sizeof node->name, "%s", name);
    return -1;
}

static int take_number(struct node_command *node, int option)
{
    if (option == 'n' && (!cli_parse_u64(optarg, SLOTS_MAX, &node->slots) || node->slots == 0)) {
        return cli_usage_error(&cmd_node, "--slots takes a number from 1 to %d", SLOTS_MAX);
    }
    if (option == 'p' && money_parse(optarg, &node->price_micro_hour, NULL) != ERR_OK) {
        return cli_usage_error(&cmd_node, "--price takes an amount for an hour, such as 0.35");
    }
    if (option == 'g' && !units_duration(optarg, &node->grace_ms)) {
        return cli_usage_error(&cmd_node, "--grace takes a time, such as 30s or 2m");
    }
    return -1;
}

static int parse_option(struct node_command *node, int option, char **argv)
{
    switch (option) {
    case 'J':
        return take_join(node, optarg);
    case 'N':
        return take_name(node, optarg);
    case 'l':
        return take_label(node, optarg);
    case 'n':
    case 'p':
    case 'g':
        return take_number(node, option);
    case 'w':
        node->work = optarg;
        return -1;
    case 'f':
        node->notice_file = optarg;
        return -1;
    case 'S':
        node->no_share = true;
        return -1;
    case 'q':
        node->quiet = true;
        return -1;
    default:
        return cli_bad_option(&cmd_node, option, argv);
    }
}

/* -1: go on; else the exit code. */
static int parse(struct node_command *node, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hn:", options, NULL)) != -1) {
        int code = parse_option(node, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    if (optind != argc) {
        return cli_usage_error(&cmd_node, "what is '%s'?", argv[optind]);
    }
    if (!node->has_join) {
        return cli_usage_error(&cmd_node, "which master? (--join @FILE)");
    }
    char host[HOST_NAME_MAX + 1] = "";
    if (node->name[0] == '\0') {
        gethostname(host, sizeof host - 1);
        return take_name(node, host[0] ? host : "node");
    }
    return -1;
}

/* --- the work folder -------------------------------------------------------------------------- */

/* XDG_DATA_HOME/drover/nodes/NAME, unless told otherwise. */
static int open_folder(struct node_command *node, int *lock)
{
    struct err err = {0};
    AUTO_STR struct str path = {0};
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    if (node->work) {
        str_add(&path, node->work);
    } else if (data && data[0] == '/') {
        str_addf(&path, "%s/drover/nodes/%s", data, node->name);
    } else if (home && home[0] == '/') {
        str_addf(&path, "%s/.local/share/drover/nodes/%s", home, node->name);
    } else {
        return cli_error(EXIT_USAGE, "there is no home folder to work in (--work DIR)");
    }
    enum err_code code = io_make_dirs(str_text(&path), &err);
    AUTO_FREE char *real = code == ERR_OK ? realpath(str_text(&path), NULL) : NULL;
    if (code == ERR_OK && (!real || strlen(real) > WORK_BYTES_MAX)) {
        code = real ? err_set(&err, ERR_RANGE, "%s: the path is too long", str_text(&path))
                    : err_errno(&err, errno, "%s", str_text(&path));
    }
    if (code != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    str_add(&node->work_folder, real);
    if (place_lock(real, LOCK_WAIT_MS, lock, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED,
                         "another node works here: %s (--name or --work gives this one a place of "
                         "its own)",
                         err.text);
    }
    str_clear(&path);
    str_addf(&path, "%s/node.key", real);
    if (door_keys_load(str_text(&path), &node->join.keys, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return -1;
}

/* --- running ---------------------------------------------------------------------------------- */

static void tell(void *context, enum node_event event, const char *text)
{
    const struct node_command *node = context;
    const struct door_url *url = &node->join.url;
    bool in_brackets = strchr(url->host, ':') != NULL;
    char place[sizeof url->host + 16];
    snprintf(place, sizeof place, "%s%s%s:%u", in_brackets ? "[" : "", url->host,
             in_brackets ? "]" : "", (unsigned)url->port);
    if (node->quiet) {
        return;
    }
    if (event == NODE_LOST) {
        printf("no connection to %s: %s; trying again\n", place, text);
    } else if (event == NODE_BACK) {
        printf("back as %s at %s\n", text, place);
    } else {
        printf("joined %s at %s: %u slot%s, %.3g GiB\n", text, place,
               node->capacity.cpu_milli / 1000, node->capacity.cpu_milli == 1000 ? "" : "s",
               (double)node->capacity.memory_bytes / (1 << 30));
    }
    fflush(stdout);
}

/* Blocked here, before there is any other thread, and read by the node's loop. */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int work(struct node_command *node, int lock)
{
    struct err err = {0};
    AUTO_CLOSE int signals = open_signals();
    void *context = zmq_ctx_new();
    CHECK(context);
    node_detect(str_text(&node->work_folder), (uint32_t)node->slots, &node->capacity);
    struct node_options node_options = {
        .work_folder = str_text(&node->work_folder),
        .name = node->name,
        .capacity = node->capacity,
        .zmq_context = context,
        .keep_fd = lock,
        .join = &node->join,
        .labels = node->labels,
        .label_count = node->label_count,
        .price_micro_hour = node->price_micro_hour,
        .no_share = node->no_share,
        .grace_ms = node->grace_ms,
        .notice_file = node->notice_file,
        .signal_fd = signals,
        .tell = tell,
        .tell_context = node,
    };
    enum err_code code = node_run(&node_options, &err);
    zmq_ctx_term(context);
    if (code == ERR_DENIED) {
        return cli_error(EXIT_WORK_FAILED, "the master says: %s", err.text);
    }
    return code == ERR_OK ? EXIT_DONE : cli_error(EXIT_WORK_FAILED, "%s", err.text);
}

static int run(int argc, char **argv)
{
    struct node_command node = {.grace_ms = GRACE_MS};
    AUTO_CLOSE int lock = -1;
    int code = parse(&node, argc, argv);
    if (code < 0) {
        code = open_folder(&node, &lock);
    }
    if (code < 0) {
        code = work(&node, lock);
    }
    door_keys_wipe(&node.join.keys);
    explicit_bzero(&node.join.url, sizeof node.join.url);
    str_release(&node.work_folder);
    return code;
}

const struct cli_command cmd_node = {
    .name = "node",
    .arguments = "--join @FILE|URL [options]",
    .summary = "run a master's tasks on this machine",
    .help =
        "  --join @FILE|URL   the master: the file that drover serve wrote (join.url), or what is\n"
        "                     in it; the file is read again when a connection has to be made anew\n"
        "  -n, --slots N      how many processors to offer (default: all)\n"
        "  --name NAME        what to be called (default: the name of this machine)\n"
        "  --work DIR         folder to work in, for one node alone (default:\n"
        "                     ~/.local/share/drover/nodes/NAME)\n"
        "  --label K=V        something recipes can ask for; may be given several times\n"
        "  --price X          what this machine costs in an hour\n"
        "  --grace TIME       between a notice and the end of this machine (default: 30s)\n"
        "  --notice-file F    when this file appears, the machine will be taken away: the master\n"
        "                     moves its tasks\n"
        "  --no-share         send files to the master even if its disk can be written from here\n"
        "  --quiet            print nothing but errors\n"
        "\n"
        "TERM or INT end the tasks within the grace, and then the node; a second one does so at\n"
        "once. USR1 is a notice, as --notice-file.\n",
    .run = run,
};
