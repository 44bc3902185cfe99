/* drover profile -- COMMAND: a short run, measured. */
#include "advise/profile.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile_metrics.h"
#include "cli/profile_store.h"
#include "cli/profile_watch.h"
#include "node/tree.h"
#include "recipe/units.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 200, LINE_MAX_BYTES = 4096, END_GRACE_MS = 5000 };

struct measure {
    const char *server; /* a shell line, or NULL */
    char **command;
    double warmup_s;
    double time_s;
    bool quiet;
    pid_t worker;
    int output; /* of the worker */
    char line[LINE_MAX_BYTES];
    size_t line_size;
    struct profile_watch watch;
    struct profile_metrics metrics;
    double seconds; /* measured */
    double gpu_sum;
    double gpu_looks;
    bool measuring;
    bool silent; /* it closed its output */
    bool ended;  /* the command ended by itself */
    int status;
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
    (void)signal;
    stopped = 1;
}

/* In the child: its own session, so that a signal to us is ours to pass on. */
static _Noreturn void become(char **command, int output)
{
    (void)setsid();
    if (output >= 0) {
        (void)dup2(output, STDOUT_FILENO);
        (void)dup2(output, STDERR_FILENO);
    }
    execvp(command[0], command);
    fprintf(stderr, "drover: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

static int start(struct measure *measure)
{
    int pipes[2];
    /* Whatever the command leaves behind becomes our child, and is ended. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(stdout);
    fflush(stderr);
    if (measure->server) {
        pid_t server = fork();
        if (server == 0) {
            char shell[] = "/bin/sh";
            char option[] = "-c";
            char *line = mem_strdup(measure->server);
            become((char *[]){shell, option, line, NULL}, -1);
        }
    }
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return cli_error(EXIT_WORK_FAILED, "pipe: %s", strerror(errno));
    }
    measure->worker = fork();
    if (measure->worker == 0) {
        become(measure->command, pipes[1]);
    }
    (void)close(pipes[1]);
    measure->output = pipes[0];
    if (measure->worker < 0) {
        return cli_error(EXIT_WORK_FAILED, "fork: %s", strerror(errno));
    }
    measure->watch.root = measure->worker;
    return EXIT_DONE;
}

static void take_bytes(struct measure *measure, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool end = bytes[i] == '\n' || bytes[i] == '\r'; /* progress bars only return */
        if (!end && measure->line_size < sizeof measure->line - 1) {
            measure->line[measure->line_size++] = bytes[i] ? bytes[i] : ' ';
        }
        if (end) {
            measure->line[measure->line_size] = '\0';
            measure->line_size = 0;
            if (measure->measuring) {
                profile_metrics_line(&measure->metrics, measure->line, clock_mono_ms());
            }
        }
    }
    if (!measure->quiet) {
        (void)fwrite(bytes, 1, size, stderr);
    }
}

/* Waits up to wait_ms for output. false: there will be none. */
static bool read_output(struct measure *measure, int wait_ms)
{
    char bytes[8192];
    struct pollfd poll_fd = {.fd = measure->output, .events = POLLIN};
    if (poll(&poll_fd, 1, wait_ms) <= 0) {
        return true;
    }
    ssize_t size = read(measure->output, bytes, sizeof bytes);
    if (size > 0) {
        take_bytes(measure, bytes, (size_t)size);
    }
    return size > 0 || (size < 0 && errno == EINTR);
}

static void look(struct measure *measure)
{
    profile_watch_look(&measure->watch);
    double percent = profile_gpu_percent();
    if (measure->measuring && percent >= 0) {
        measure->gpu_sum += percent;
        measure->gpu_looks++;
    }
}

static void watch_for(struct measure *measure, double seconds)
{
    int64_t until_ms = clock_mono_ms() + (int64_t)(seconds * 1000);
    int64_t look_ms = 0;
    while (!stopped && !measure->ended && clock_mono_ms() < until_ms) {
        int64_t now_ms = clock_mono_ms();
        if (now_ms >= look_ms) {
            look(measure);
            look_ms = now_ms + LOOK_EVERY_MS;
        }
        int64_t wait_ms = look_ms < until_ms ? look_ms - now_ms : until_ms - now_ms;
        wait_ms = wait_ms > 0 ? wait_ms : 1;
        if (measure->silent) {
            (void)poll(NULL, 0, (int)(wait_ms < 20 ? wait_ms : 20));
        } else {
            measure->silent = !read_output(measure, (int)wait_ms);
        }
        measure->ended = waitpid(measure->worker, &measure->status, WNOHANG) == measure->worker;
    }
}

/* What it wrote before it ended. */
static void read_rest(struct measure *measure)
{
    struct pollfd poll_fd = {.fd = measure->output, .events = POLLIN};
    while (measure->ended && !measure->silent && poll(&poll_fd, 1, 0) > 0) {
        measure->silent = !read_output(measure, 0);
    }
}

static int measure_run(struct measure *measure)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    int code = start(measure);
    if (code != EXIT_DONE) {
        return code;
    }
    watch_for(measure, measure->warmup_s);
    measure->measuring = true;
    profile_watch_begin(&measure->watch);
    int64_t begun_ms = clock_mono_ms();
    watch_for(measure, measure->time_s);
    look(measure);
    read_rest(measure);
    measure->seconds = (double)(clock_mono_ms() - begun_ms) / 1000;
    int64_t cpu_us = 0;
    (void)tree_signal(SIGTERM, NULL);
    int64_t until_ms = clock_mono_ms() + 500; /* time to leave in good order */
    while (clock_mono_ms() < until_ms && waitpid(-1, NULL, WNOHANG) >= 0) {
        (void)poll(NULL, 0, 20);
    }
    (void)tree_kill(NULL, END_GRACE_MS, &cpu_us);
    (void)close(measure->output);
    if (stopped) {
        return cli_error(EXIT_WORK_FAILED, "interrupted: nothing is kept");
    }
    return EXIT_DONE;
}

/* ---- the command ----------------------------------------------------------------------------- */

struct request {
    struct measure measure;
    struct profile_record record;
    const char *code;
    const char *output;
    bool again;
    bool as_json;
};

static void print_record(const struct request *request, const char *path, const char *hash,
                         bool kept)
{
    const struct profile_record *record = &request->record;
    AUTO_STR struct str out = {0};
    if (!request->as_json) {
        str_addf(&out, "%s, batch %g: %.4g steps/s, %.4g examples/s, %.4g Mbit/s, %.2f cores",
                 record->type, record->batch, record->steps_per_s, record->examples_per_s,
                 record->bandwidth_mbps, record->cpu_cores);
        if (record->gpu_percent > 0) {
            str_addf(&out, ", GPU %.0f %%", record->gpu_percent);
        }
        str_addf(&out, "\nkept in %s\n", path);
        cli_write(&out);
        return;
    }
    struct json json = {.out = &out};
    json_object(&json);
    json_key(&json, "type"), json_text(&json, record->type);
    json_key(&json, "batch"), json_double(&json, record->batch);
    json_key(&json, "workers"), json_u64(&json, record->workers);
    if (!kept) {
        json_key(&json, "bandwidth_mbps"), json_double(&json, record->bandwidth_mbps);
        json_key(&json, "steps_per_s"), json_double(&json, record->steps_per_s);
        json_key(&json, "examples_per_s"), json_double(&json, record->examples_per_s);
        json_key(&json, "cpu_cores"), json_double(&json, record->cpu_cores);
        json_key(&json, "gpu_percent"), json_double(&json, record->gpu_percent);
        json_key(&json, "seconds"), json_double(&json, request->measure.seconds);
    }
    json_key(&json, "code"), json_text(&json, hash);
    json_key(&json, "file"), json_text(&json, path);
    json_key(&json, "measured"), json_bool(&json, !kept);
    json_end(&json);
    str_add_char(&out, '\n');
    cli_write(&out);
}

static void fill_record(struct request *request)
{
    struct measure *measure = &request->measure;
    struct profile_record *record = &request->record;
    uint64_t sent = 0;
    uint64_t received = 0;
    double seconds = measure->seconds > 0 ? measure->seconds : 1;
    profile_watch_bytes(&measure->watch, &sent, &received);
    /* A network card carries both directions at once: the busier one is what fills it. */
    record->bandwidth_mbps = (double)(sent > received ? sent : received) * 8 / 1e6 / seconds;
    record->cpu_cores = profile_watch_cpu_s(&measure->watch) / seconds;
    record->gpu_percent = measure->gpu_looks > 0 ? measure->gpu_sum / measure->gpu_looks : 0;
    record->steps_per_s = profile_metrics_steps_per_s(&measure->metrics);
    record->examples_per_s = profile_metrics_examples_per_s(&measure->metrics);
    if (record->examples_per_s <= 0) {
        record->examples_per_s = record->steps_per_s * record->batch;
    }
}

static int measure_and_keep(struct request *request, const char *path, const char *hash)
{
    struct measure *measure = &request->measure;
    struct err err = {0};
    int code = measure_run(measure);
    if (code == EXIT_DONE && measure->ended && WIFEXITED(measure->status) &&
        WEXITSTATUS(measure->status) != 0) {
        code = cli_error(EXIT_WORK_FAILED, "the command failed (exit %d): nothing is kept",
                         WEXITSTATUS(measure->status));
    }
    if (code == EXIT_DONE) {
        fill_record(request);
        if (request->record.steps_per_s <= 0 && request->record.examples_per_s <= 0) {
            fprintf(stderr, "drover: the output named no steps (docs/advise.md says how)\n");
        }
        if (measure->watch.no_counters) {
            fprintf(stderr, "drover: the kernel's socket counters cannot be read here\n");
        }
        code = profile_store_put(path, &request->record, &err) == ERR_OK
                   ? EXIT_DONE
                   : cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    if (code == EXIT_DONE) {
        print_record(request, path, hash, false);
    }
    profile_watch_release(&measure->watch);
    return code;
}

static int act(struct request *request)
{
    AUTO_STR struct str hash = {0};
    AUTO_STR struct str path = {0};
    struct err err = {0};
    bool found = false;
    enum err_code code = profile_store_hash(request->measure.command, request->code, &hash, &err);
    code = code ? code : profile_store_path(request->output, str_text(&hash), &path, &err);
    code = code ? code : profile_store_has(str_text(&path), &request->record, &found, &err);
    if (code != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    if (!found || request->again) {
        return measure_and_keep(request, str_text(&path), str_text(&hash));
    }
    if (request->as_json) {
        print_record(request, str_text(&path), str_text(&hash), true);
    } else {
        printf("measured before: %s (--again measures anew)\n", str_text(&path));
    }
    return EXIT_DONE;
}

static bool read_time(double *out)
{
    int64_t ms = 0;
    bool good = units_duration(optarg, &ms);
    *out = (double)ms / 1000;
    return good;
}

static const struct option options[] = {{"type", required_argument, NULL, 't'},
                                        {"batch", required_argument, NULL, 'b'},
                                        {"time", required_argument, NULL, 'T'},
                                        {"warmup", required_argument, NULL, 'w'},
                                        {"server", required_argument, NULL, 's'},
                                        {"mode", required_argument, NULL, 'm'},
                                        {"code", required_argument, NULL, 'c'},
                                        {"output", required_argument, NULL, 'o'},
                                        {"again", no_argument, NULL, 'a'},
                                        {"quiet", no_argument, NULL, 'q'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static int bad_value(const char *option, const char *wanted)
{
    return cli_usage_error(&cmd_profile, "--%s takes %s", option, wanted);
}

/* What is measured. -2: not one of these options. */
static int read_subject(struct profile_record *record, int option)
{
    uint64_t batch = 0;
    switch (option) {
    case 't':
        record->type = optarg;
        return optarg[0] && !strpbrk(optarg, ",\"\n\r#")
                   ? EXIT_DONE
                   : bad_value("type", "a name without commas");
    case 'b':
        if (!cli_parse_u64(optarg, 1000000000, &batch) || batch == 0) {
            return bad_value("batch", "a number of examples");
        }
        record->batch = (double)batch;
        return EXIT_DONE;
    case 'm':
        record->mode = optarg;
        return profile_mode_of(optarg) != PROFILE_MODE_UNKNOWN
                   ? EXIT_DONE
                   : bad_value("mode", "sync, async or allreduce");
    default:
        return -2;
    }
}

/* How it is measured and kept. -1: help; -2: not an option of ours. */
static int read_manner(struct request *request, int option)
{
    switch (option) {
    case 'T':
        return read_time(&request->measure.time_s) ? EXIT_DONE : bad_value("time", "a time (60s)");
    case 'w':
        return read_time(&request->measure.warmup_s) ? EXIT_DONE
                                                     : bad_value("warmup", "a time (10s)");
    case 's':
        request->measure.server = optarg;
        return EXIT_DONE;
    case 'c':
        request->code = optarg;
        return EXIT_DONE;
    case 'o':
        request->output = optarg;
        return EXIT_DONE;
    case 'a':
        request->again = true;
        return EXIT_DONE;
    case 'q':
    case 'j':
        request->measure.quiet = true;
        request->as_json = request->as_json || option == 'j';
        return EXIT_DONE;
    default:
        return option == 'h' ? -1 : -2;
    }
}

static int read_options(struct request *request, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, "+:ho:q", options, NULL)) != -1) {
        int code = read_subject(&request->record, option);
        code = code == -2 ? read_manner(request, option) : code;
        if (code == -2) {
            return cli_bad_option(&cmd_profile, option, argv);
        }
        if (code != EXIT_DONE) {
            return code;
        }
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct request request = {.measure = {.warmup_s = 10, .time_s = 60},
                              .record = {.type = "local", .mode = "", .workers = 1}};
    int code = read_options(&request, argc, argv);
    if (code < 0) {
        cli_print_help(&cmd_profile, stdout);
        return EXIT_DONE;
    }
    if (code == EXIT_DONE && optind == argc) {
        return cli_usage_error(&cmd_profile, "run what? (after --)");
    }
    if (code != EXIT_DONE) {
        return code;
    }
    request.measure.command = argv + optind;
    return act(&request);
}

const struct cli_command cmd_profile = {
    .name = "profile",
    .arguments = "[--type T] [--batch B] [--server LINE] [options] -- COMMAND...",
    .summary = "run a command briefly and measure its speed and traffic",
    .help =
        "Runs COMMAND as the one worker (and LINE as its server), waits for the warm-up, measures\n"
        "for a while, ends them and keeps the result for drover advise. The same code, type and\n"
        "batch are measured once.\n\n"
        "  --type T        the machine type this is (local)\n"
        "  --batch B       examples a step\n"
        "  --mode M        sync, async or allreduce\n"
        "  --server LINE   a shell line to run beside it\n"
        "  --time TIME     how long to measure (60s)      --warmup TIME (10s)\n"
        "  --code PATH     files or folders that make the code what it is\n"
        "  -o, --output FILE   where to keep it           --again: measure anew\n"
        "  -q, --quiet     without the command's output   --json: one object\n",
    .run = run,
};
