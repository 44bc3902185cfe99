#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "http/http.h"
#include "master/master.h"
#include "master/place.h"
#include "master/server.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADDRESS_BYTES = 256 };

struct serve_options {
    const char *state;
    char host[ADDRESS_BYTES];
    char wire_host[ADDRESS_BYTES]; /* "": the same */
    struct master_serve serve;
    bool power_durable;
    bool quiet;
    bool as_json;
};

static const struct option options[] = {
    {"state", required_argument, NULL, 'd'},
    {"listen", required_argument, NULL, 'l'},
    {"wire", required_argument, NULL, 'w'},
    {"public-host", required_argument, NULL, 'P'},
    {"certificate", required_argument, NULL, 'c'},
    {"key", required_argument, NULL, 'k'},
    {"lease", required_argument, NULL, 'L'},
    {"durable", required_argument, NULL, 'D'},
    {"json", no_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT" or ":PORT". What is not there is left alone. */
static bool parse_address(const char *text, char host_out[ADDRESS_BYTES], uint16_t *port_out,
                          bool *port_given)
{
    const char *host = text;
    const char *end = text + strlen(text);
    const char *colon = strrchr(text, ':');
    if (text[0] == '[') {
        host = text + 1;
        end = strchr(text, ']');
        if (!end) {
            return false;
        }
        colon = end[1] == ':' ? end + 1 : NULL;
    } else if (colon) {
        end = colon;
    }
    if (colon) {
        uint64_t port = 0;
        if (!cli_parse_u64(colon + 1, UINT16_MAX, &port)) {
            return false;
        }
        *port_out = (uint16_t)port;
        *port_given = true;
    }
    size_t size = (size_t)(end - host);
    if (size >= ADDRESS_BYTES) {
        return false;
    }
    if (size > 0) {
        memcpy(host_out, host, size);
        host_out[size] = '\0';
    }
    return true;
}

static int parse_number(const char *option, uint64_t max, uint64_t *out)
{
    return cli_parse_u64(optarg, max, out)
               ? -1
               : cli_usage_error(&cmd_serve, "%s takes a number up to %llu", option,
                                 (unsigned long long)max);
}

static int parse_option(struct serve_options *out, int option, char **argv)
{
    uint64_t number = 0;
    bool given = false;
    int code = -1;
    switch (option) {
    case 'd':
        out->state = optarg;
        return -1;
    case 'l':
        return parse_address(optarg, out->host, &out->serve.http_port, &out->serve.http_port_given)
                   ? -1
                   : cli_usage_error(&cmd_serve, "--listen takes HOST:PORT, not '%s'", optarg);
    case 'w':
        return parse_address(optarg, out->wire_host, &out->serve.wire_port, &given)
                   ? -1
                   : cli_usage_error(&cmd_serve, "--wire takes HOST:PORT, not '%s'", optarg);
    case 'L':
        code = parse_number("--lease", UINT64_C(3600) * 1000, &number);
        out->serve.lease_ms = (int64_t)number;
        return code >= 0 || number >= 500
                   ? code
                   : cli_usage_error(&cmd_serve, "--lease: at least 500 ms, please");
    case 'P':
        out->serve.public_host = optarg;
        return -1;
    case 'c':
        out->serve.certificate_file = optarg;
        return -1;
    case 'k':
        out->serve.key_file = optarg;
        return -1;
    case 'D':
        out->power_durable = strcmp(optarg, "power") == 0;
        return out->power_durable || strcmp(optarg, "process") == 0
                   ? -1
                   : cli_usage_error(&cmd_serve, "--durable takes process or power");
    case 'j':
        out->as_json = true;
        return -1;
    case 'q':
        out->quiet = true;
        return -1;
    default:
        return cli_bad_option(&cmd_serve, option, argv);
    }
}

/* --- what it says --------------------------------------------------------------------------------
 */

static void say(const struct serve_options *serve, const char *key, const char *text)
{
    if (serve->quiet) {
        return;
    }
    AUTO_STR struct str out = {0};
    AUTO_STR struct str time = {0};
    clock_add_rfc3339(&time, clock_unix_ms());
    if (serve->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "at");
        json_text(&json, str_text(&time));
        json_key(&json, key);
        json_text(&json, text);
        json_end(&json);
    } else {
        str_addf(&out, "%.19sZ %s", str_text(&time), text);
    }
    str_add_char(&out, '\n');
    cli_write(&out);
}

static void on_begun(void *context, const struct server *server)
{
    (void)context, (void)server;
}

static void on_note(void *context, const char *text)
{
    say(context, "note", text);
}

static void on_task(void *context, const struct server *server,
                    const struct master_task_event *event)
{
    (void)context, (void)server, (void)event;
}

static void on_experiment(void *context, const struct server *server, uint32_t experiment,
                          const struct core_experiment_view *view)
{
    (void)context, (void)server, (void)experiment, (void)view;
}

static void on_serving(void *context, const struct server *server)
{
    AUTO_STR struct str text = {0};
    const struct serve_options *serve = context;
    str_addf(&text, "serving at %s; state in %s", http_url(server_http(server)),
             server_folder(server));
    say(serve, "url", str_text(&text));
    if (!serve->as_json) {
        str_clear(&text);
        str_addf(&text, "nodes join with: drover node --join @%s/join.url", server_folder(server));
        say(serve, "note", str_text(&text));
    }
}

/* --- running -------------------------------------------------------------------------------------
 */

static int serve(struct serve_options *serve)
{
    struct session session;
    struct err err = {0};
    AUTO_STR struct str place = {0};
    if (!serve->state && place_server_folder(&place, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    enum err_code code =
        session_serve(serve->state ? serve->state : str_text(&place), NULL, &session, &err);
    if (code != ERR_OK) {
        return cli_error(code == ERR_INVALID ? EXIT_USAGE : EXIT_WORK_FAILED, "%s", err.text);
    }
    struct master_observer observer = {.context = serve,
                                       .begun = on_begun,
                                       .note = on_note,
                                       .task = on_task,
                                       .experiment = on_experiment,
                                       .serving = on_serving};
    struct master_options master = {.session = &session,
                                    .power_durable = serve->power_durable,
                                    .serve = &serve->serve,
                                    .observer = &observer};
    enum master_end end = master_run(&master, &err);
    session_release(&session);
    bool is_usage = err.code == ERR_DENIED || err.code == ERR_INVALID; /* --listen, --certificate */
    return end == MASTER_BROKEN
               ? cli_error(is_usage ? EXIT_USAGE : EXIT_WORK_FAILED, "%s", err.text)
               : EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct serve_options options_given = {.host = "127.0.0.1"};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        int code = parse_option(&options_given, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    if (optind != argc) {
        return cli_usage_error(&cmd_serve, "it takes no argument '%s'", argv[optind]);
    }
    if (!options_given.serve.certificate_file != !options_given.serve.key_file) {
        return cli_usage_error(&cmd_serve, "--certificate and --key go together");
    }
    options_given.serve.host = options_given.host;
    options_given.serve.wire_host =
        options_given.wire_host[0] ? options_given.wire_host : options_given.host;
    options_given.serve.with_http = true;
    return serve(&options_given);
}

const struct cli_command cmd_serve = {
    .name = "serve",
    .arguments = "[--state DIR] [--listen HOST:PORT] [options]",
    .summary = "be the master: take workflows over HTTP, and nodes that join",
    .help =
        "  --state DIR          where everything is kept (default: ~/.local/share/drover/server);\n"
        "                       it writes api.url, admin.token and join.url there\n"
        "  --listen HOST:PORT   for HTTP (default: 127.0.0.1, and a\n"
        "                       port that is kept over restarts). Elsewhere than on loopback it\n"
        "                       needs a certificate\n"
        "  --certificate FILE   PEM, for HTTPS\n"
        "  --key FILE           its key\n"
        "  --wire HOST:PORT     for nodes; always encrypted (default: the host of --listen, and a\n"
        "                       port that is kept over restarts)\n"
        "  --public-host HOST   how nodes reach this machine, if not by the host of --wire\n"
        "  --lease MS           how long a silent node is believed in (default: 4000)\n"
        "  --durable=power      sync logs and outputs before a result counts\n"
        "  --json               notes as JSON, one a line\n"
        "  --quiet              say nothing\n\n"
        "Stop it with TERM or ^C: nodes and their tasks go on, and are taken up again when it is\n"
        "started anew.\n\n"
        "  drover serve --state /srv/drover &\n"
        "  drover node --join @/srv/drover/join.url &\n"
        "  drover submit recipe.yaml --state /srv/drover\n",
    .run = run,
};
