/* drover meta: owns a volume and serves it to mounts on many machines. */
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/volume_ref.h"
#include "master/place.h"
#include "meta/dealer.h"
#include "meta/router.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 3000, LEASE_MS_MIN = 500, LEASE_MS_MAX = 600 * 1000 };

struct meta_arguments {
    struct volume_ref ref, over;
    char host[256];
    uint16_t port;
    bool port_given, take_over, quiet;
    const char *public_host;
    const char *state; /* as given, or NULL */
    int64_t lease_ms;
    struct str folder, url_file;
    struct door_keys keys;
    struct door_url url; /* as it was, and as it will be written */
};

static int parse_listen(struct meta_arguments *arguments, const char *text)
{
    const char *host = text;
    const char *colon = strrchr(text, ':');
    const char *end = colon;
    uint64_t port = 0;
    if (text[0] == '[') {
        host = text + 1;
        end = strchr(text, ']');
        colon = end && end[1] == ':' ? end + 1 : NULL;
    }
    if (!colon || !end || !cli_parse_u64(colon + 1, UINT16_MAX, &port) ||
        (size_t)(end - host) >= sizeof arguments->host) {
        return cli_usage_error(&cmd_meta, "--listen takes HOST:PORT, not '%s'", text);
    }
    memcpy(arguments->host, host, (size_t)(end - host));
    arguments->host[end - host] = '\0';
    arguments->port = (uint16_t)port;
    arguments->port_given = port != 0;
    return -1;
}

static int parse_lease(struct meta_arguments *arguments, const char *text)
{
    uint64_t number = 0;
    if (!cli_parse_u64(text, LEASE_MS_MAX, &number) || number < LEASE_MS_MIN) {
        return cli_usage_error(&cmd_meta, "--lease takes milliseconds, %d to %d", LEASE_MS_MIN,
                               LEASE_MS_MAX);
    }
    arguments->lease_ms = (int64_t)number;
    return -1;
}

static int parse_option(struct meta_arguments *arguments, int option, char **argv)
{
    switch (option) {
    case 'l':
        return parse_listen(arguments, optarg);
    case 'L':
        return parse_lease(arguments, optarg);
    case 'd':
        arguments->state = optarg;
        return -1;
    case 'P':
        arguments->public_host = optarg;
        return -1;
    case 't':
        arguments->take_over = true;
        return -1;
    case 'q':
        arguments->quiet = true;
        return -1;
    default:
        return volume_ref_option(&arguments->over, option, optarg)
                   ? -1
                   : cli_bad_option(&cmd_meta, option, argv);
    }
}

/* -1: go on; else the exit code. */
static int parse(struct meta_arguments *arguments, int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"state", required_argument, NULL, 'd'},
                                            {"public-host", required_argument, NULL, 'P'},
                                            {"lease", required_argument, NULL, 'L'},
                                            {"take-over", no_argument, NULL, 't'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            VOLUME_REF_OPTIONS,
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        int code = parse_option(arguments, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    if (argc - optind != 1) {
        return cli_usage_error(&cmd_meta, "needs a VOLUME");
    }
    struct err err;
    enum err_code code = volume_ref_parse(argv[optind], &arguments->ref, &err);
    if (code == ERR_OK && (arguments->ref.snapshot ||
                           (arguments->ref.path && strcmp(arguments->ref.path, "/") != 0))) {
        code = err_set(&err, ERR_INVALID, "%s: only a whole volume, as it is now, can be served",
                       argv[optind]);
    }
    if (code != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    volume_ref_override(&arguments->ref, &arguments->over);
    return -1;
}

/* The folder, its lock, the keys, and what the address was before. */
static enum err_code open_folder(struct meta_arguments *arguments,
                                 const struct volume_format *format, int *lock, struct err *err)
{
    AUTO_STR struct str path = {0};
    enum err_code code = ERR_OK;
    if (arguments->state) {
        str_add(&arguments->folder, arguments->state);
    } else {
        code = place_server_folder(&path, err);
        str_addf(&arguments->folder, "%s/../meta/", str_text(&path));
        for (size_t i = 0; i < sizeof format->uuid; i++) {
            str_addf(&arguments->folder, "%02x", format->uuid[i]);
        }
    }
    if (code == ERR_OK) {
        code = io_make_dirs(str_text(&arguments->folder), err);
    }
    if (code == ERR_OK) {
        code = place_lock(str_text(&arguments->folder), LOCK_WAIT_MS, lock, err);
    }
    str_clear(&path);
    str_addf(&path, "%s/meta.key", str_text(&arguments->folder));
    str_addf(&arguments->url_file, "%s/volume.url", str_text(&arguments->folder));
    if (code == ERR_OK) {
        code = door_keys_load(str_text(&path), &arguments->keys, err);
    }
    str_clear(&path);
    str_addf(&path, "@%s", str_text(&arguments->url_file));
    bool had_one = code == ERR_OK &&
                   meta_url_read(str_text(&path), &arguments->url, NULL) == ERR_OK &&
                   arguments->url.secret[0] != '\0' &&
                   strcmp(arguments->url.server_key, arguments->keys.public_key) == 0;
    if (!had_one) {
        arguments->url.port = 0;
        door_make_secret(arguments->url.secret);
    }
    return code;
}

static bool is_everywhere(const char *host)
{
    return host[0] == '\0' || strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0 ||
           strcmp(host, "::") == 0;
}

static enum err_code on_ready(void *context, uint16_t port, struct err *err)
{
    struct meta_arguments *arguments = context;
    struct door_url *url = &arguments->url;
    AUTO_STR struct str text = {0};
    if (arguments->public_host) {
        snprintf(url->host, sizeof url->host, "%s", arguments->public_host);
    } else if (is_everywhere(arguments->host)) {
        gethostname(url->host, sizeof url->host - 1);
    } else {
        snprintf(url->host, sizeof url->host, "%s", arguments->host);
    }
    url->port = port;
    memcpy(url->server_key, arguments->keys.public_key, sizeof url->server_key);
    door_url_add(&text, url);
    str_add_char(&text, '\n');
    enum err_code code =
        io_replace_file(str_text(&arguments->url_file), text.text, text.size, 0600, err);
    explicit_bzero(text.text, text.cap);
    if (code == ERR_OK && !arguments->quiet) {
        printf("serving at %s:%u; mount it with: drover mount @%s FOLDER\n", url->host,
               (unsigned)port, str_text(&arguments->url_file));
        fflush(stdout);
    }
    return code;
}

/* Blocked before there is any other thread, and read by the loop. */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum err_code serve(struct meta_arguments *arguments, struct volume *volume, int signal_fd,
                           struct err *err)
{
    int lock = -1;
    enum err_code code = open_folder(arguments, volume_format(volume), &lock, err);
    if (code != ERR_OK) {
        return code;
    }
    struct meta_router_options options = {
        .host = arguments->host,
        .port = arguments->port_given ? arguments->port : arguments->url.port,
        .keys = &arguments->keys,
        .server = {.secret = arguments->url.secret,
                   .url = arguments->ref.url,
                   .endpoint = arguments->ref.endpoint,
                   .region = arguments->ref.region,
                   .addressing = arguments->ref.addressing,
                   .lease_ms = arguments->lease_ms},
        .ready = on_ready,
        .context = arguments,
        .signal_fd = signal_fd,
        .quiet = arguments->quiet,
    };
    code = meta_router_run(volume, &options, err);
    if (code == ERR_EXISTS && !arguments->port_given && options.port != 0) {
        options.port = 0; /* someone else has taken the port that it had */
        code = meta_router_run(volume, &options, err);
    }
    close(lock);
    return code;
}

static int own_and_serve(struct meta_arguments *arguments)
{
    struct err err = {0};
    struct volume_use use;
    struct volume_use_options how = {.writes = true,
                                     .take_over = arguments->take_over,
                                     .owner = "served by drover meta",
                                     .state = arguments->state,
                                     .cache_folder = ""};
    int signal_fd = open_signals();
    enum err_code code = volume_use_open(&arguments->ref, &how, &use, &err);
    if (code != ERR_OK) {
        code = volume_use_advise(&arguments->ref, code, &err);
        return cli_error(volume_ref_exit(code), "%s", err.text);
    }
    code = serve(arguments, use.volume, signal_fd, &err);
    struct err closing = {0};
    enum err_code closed = volume_use_close(&use, &closing);
    if (code == ERR_OK && closed != ERR_OK) {
        code = err_set(&err, closed, "%s", closing.text);
    }
    return code == ERR_OK ? EXIT_DONE : cli_error(volume_ref_exit(code), "%s", err.text);
}

static int run(int argc, char **argv)
{
    struct meta_arguments arguments = {.host = "127.0.0.1"};
    int exit_code = parse(&arguments, argc, argv);
    if (exit_code < 0) {
        exit_code = own_and_serve(&arguments);
    }
    door_keys_wipe(&arguments.keys);
    explicit_bzero(&arguments.url, sizeof arguments.url);
    str_release(&arguments.folder);
    str_release(&arguments.url_file);
    volume_ref_release(&arguments.ref);
    volume_ref_release(&arguments.over);
    return exit_code;
}

const struct cli_command cmd_meta = {
    .name = "meta",
    .arguments = "VOLUME [options]",
    .summary = "own a volume and serve it to mounts on many machines",
    .help =
        "Writes the address for drover mount @FILE to DIR/volume.url, and stays. Whoever can read\n"
        "that file can use the volume. Mounts need the store's credentials of their own: they "
        "read\n"
        "it directly, and store large files there themselves.\n\n"
        "  --listen HOST:PORT   where (default: 127.0.0.1, at a port that is kept over restarts)\n"
        "  --public-host HOST   what mounts call this machine (default: HOST, or its name)\n"
        "  --state DIR          its key and volume.url (default: ~/.local/share/drover/meta/...)\n"
        "  --lease MS           how long a silent mount keeps its files and locks (default: "
        "10000)\n"
        "  --take-over          even if another machine seems to own the volume\n"
        "  --quiet              say nothing\n"
        "  --endpoint URL, --region R, --ca-file FILE, --addressing path|virtual, --profile P\n"
        "                       of an S3 store\n\n"
        "If it dies, mounts wait; started again, it goes on where it was, and nothing that a "
        "living\n"
        "mount has closed is lost. Ctrl-C or SIGTERM stores everything and ends it.\n",
    .run = run,
};
