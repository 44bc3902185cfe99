/* cmd_show_logs.c - what a task printed; and searching what all of them printed. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/events.h"
#include "cli/look.h"
#include "cli/search.h"
#include "cli/task_name.h"
#include "master/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    SHOW_AGAIN = -1,
    REST_US = 200000,
    PIECE_BYTES = 4 << 20,
    PATIENCE_MS = 60000, /* for a server that went away while we follow */
};

/* --- from a folder -------------------------------------------------------------------------- */

static bool is_over(const struct look *look, const struct task_name *name, uint32_t number)
{
    struct session session;
    struct core_task_view task;
    if (look_read(look, name->run, &session) != EXIT_DONE) {
        return true;
    }
    core_task_view(session.core, session.flow->number, number, name->index, &task);
    bool over = task.state >= TASK_SUCCEEDED ||
                core_workflow_state(session.core, session.flow->number) != WORKFLOW_RUNNING ||
                !place_is_locked(session.folder);
    session_release(&session);
    return over;
}

static void write_bytes(const void *bytes, size_t size)
{
    AUTO_STR struct str text = {0};
    str_add_bytes(&text, bytes, size);
    cli_write(&text);
}

/* What rotation moved aside: the part before the newest. */
static void print_older(const char *path)
{
    AUTO_STR struct str older = {0};
    str_addf(&older, "%s.1", path);
    AUTO_CLOSE int fd = open(str_text(&older), O_RDONLY | O_CLOEXEC);
    char bytes[65536];
    ssize_t got = 0;
    while (fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0) {
        write_bytes(bytes, (size_t)got);
    }
}

static int print_log(const char *path, const struct look *look, const struct task_name *name,
                     uint32_t number)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return EXIT_DONE; /* it printed nothing */
    }
    if (fd < 0) {
        return cli_error(EXIT_WORK_FAILED, "%s: %s", path, strerror(errno));
    }
    print_older(path);
    bool over = !look->follow;
    for (;;) {
        char bytes[65536];
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got > 0) {
            write_bytes(bytes, (size_t)got);
        } else if (over || got < 0) {
            return EXIT_DONE;
        } else {
            usleep(REST_US);
            over = is_over(look, name, number);
        }
    }
}

static int tell_untried(const struct task_name *name, uint64_t attempt)
{
    return attempt > 0 ? cli_error(EXIT_USAGE, "task %s/%" PRIu64 " has had no attempt %" PRIu64,
                                   name->experiment, name->index, attempt)
                       : cli_error(EXIT_WORK_FAILED,
                                   "task %s/%" PRIu64 " has not been tried yet (-f waits for it)",
                                   name->experiment, name->index);
}

static int read_log(const struct look *look, const struct task_name *name)
{
    struct session session;
    int code = look_read(look, name->run, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    int number = look_experiment(&session, name->experiment);
    if (number < 0 || name->index >= session.flow->recipe->experiments[number].task_count) {
        session_release(&session);
        return cli_error(EXIT_USAGE, "there is no task %s/%" PRIu64, name->experiment, name->index);
    }
    struct core_task_view task;
    core_task_view(session.core, session.flow->number, (uint32_t)number, name->index, &task);
    AUTO_STR struct str path = {0};
    bool is_tried = look->attempt <= task.attempt;
    place_add_log(&path, session.flow->folder, name->experiment, name->index,
                  look->attempt > 0 ? (uint32_t)look->attempt : task.attempt);
    bool may_begin = task.state < TASK_SUCCEEDED && place_is_locked(session.folder);
    session_release(&session);
    bool has_begun = task.attempt > 0 && access(str_text(&path), F_OK) == 0;
    if (!has_begun && look->follow && may_begin) {
        usleep(REST_US);
        return SHOW_AGAIN;
    }
    if (task.attempt == 0 || !is_tried) {
        return tell_untried(name, look->attempt);
    }
    return print_log(str_text(&path), look, name, (uint32_t)number);
}

/* --- from a server -------------------------------------------------------------------------- */

static int print_pieces(struct remote *remote, const char *log, uint64_t attempt, bool older)
{
    uint64_t offset = 0;
    for (;;) {
        AUTO_STR struct str path = {0};
        AUTO_STR struct str piece = {0};
        str_addf(&path, "%s?offset=%" PRIu64 "&size=%d&attempt=%" PRIu64 "%s", log, offset,
                 PIECE_BYTES, attempt, older ? "&older=1" : "");
        int code = remote_get_bytes(remote, str_text(&path), &piece, NULL);
        if (code != EXIT_DONE) {
            return code;
        }
        cli_write(&piece);
        offset += piece.size;
        if (piece.size < PIECE_BYTES) {
            return EXIT_DONE;
        }
    }
}

static int ask_log(struct remote *remote, const struct look *look, const struct task_name *name,
                   const char *task_path)
{
    AUTO_STR struct str log = {0};
    struct jread task = {0};
    int code = remote_get(remote, task_path, &task, NULL);
    uint64_t attempt = jread_u64(task.root, "attempt", 0);
    jread_release(&task);
    if (code != EXIT_DONE) {
        return code;
    }
    if (attempt == 0 || look->attempt > attempt) {
        return tell_untried(name, look->attempt);
    }
    attempt = look->attempt > 0 ? look->attempt : attempt;
    str_addf(&log, "%s/log", task_path);
    code = print_pieces(remote, str_text(&log), attempt, true);
    return code == EXIT_DONE ? print_pieces(remote, str_text(&log), attempt, false) : code;
}

struct following {
    struct events events;
    int64_t heard_ms;
    bool ended;
};

static bool on_event(void *context, const char *kind, const char *data)
{
    struct following *following = context;
    struct jread piece = {0};
    if (strcmp(kind, "end") == 0) {
        following->ended = true;
        return false;
    }
    if (strcmp(kind, "log") == 0 && jread_parse(&piece, data, strlen(data), NULL) == ERR_OK &&
        piece.root->kind == JREAD_TEXT) {
        write_bytes(piece.root->text, strlen(piece.root->text));
    }
    jread_release(&piece);
    return true;
}

static bool on_bytes(void *context, const void *bytes, size_t size)
{
    struct following *following = context;
    following->heard_ms = clock_mono_ms();
    return events_feed(&following->events, bytes, size);
}

/* Until the task is over; a stream that is cut off is taken up where it was. */
static int follow_log(struct remote *remote, const char *task_path)
{
    AUTO_STR struct str path = {0};
    struct following following = {.heard_ms = clock_mono_ms()};
    struct jread task = {0};
    int status = 0;
    following.events = (struct events){.fn = on_event, .context = &following};
    /* whether there is such a task is better told by an answer than by a stream */
    int code = remote_get(remote, task_path, &task, NULL);
    jread_release(&task);
    str_addf(&path, "%s/log", task_path);
    while (code == EXIT_DONE && !following.ended) {
        struct err err = {0};
        events_reset(&following.events);
        enum err_code failed =
            client_stream(remote->client, str_text(&path), str_text(&following.events.last_id),
                          on_bytes, &following, &status, &err);
        if (following.ended) {
            break;
        }
        if (status >= 400) {
            code = cli_error(status < 500 ? EXIT_USAGE : EXIT_WORK_FAILED, "the server answered %d",
                             status);
        } else if (clock_mono_ms() - following.heard_ms > PATIENCE_MS) {
            code = cli_error(EXIT_UNREACHABLE, "%s",
                             failed == ERR_OK ? "the stream ends again and again" : err.text);
        } else {
            usleep(REST_US);
        }
    }
    events_release(&following.events);
    return code;
}

/* --- both ----------------------------------------------------------------------------------- */

static int show_log(const struct look *look, const struct task_name *name)
{
    struct remote remote = {0};
    bool found = false;
    int code = look_for_server(look, name->run, &remote, &found);
    if (code == EXIT_DONE && found) {
        AUTO_STR struct str path = {0};
        remote_add_workflow(&path, name->run);
        task_name_add_path(&path, name);
        code = look->follow ? follow_log(&remote, str_text(&path))
                            : ask_log(&remote, look, name, str_text(&path));
    } else if (code == EXIT_DONE) {
        do {
            code = read_log(look, name);
        } while (code == SHOW_AGAIN);
    }
    remote_close(&remote);
    return code;
}

static int run(int argc, char **argv)
{
    struct look look = {0};
    struct task_name name = {0};
    int code = look_parse(&cmd_logs, &look, argc, argv);
    if (code >= 0) {
        return code;
    }
    if (look.attempt > 0 && (look.grep || look.follow)) {
        return cli_usage_error(&cmd_logs, "--attempt goes with a task, and not with -f");
    }
    if (look.grep) {
        return look.follow || !look.grep[0]
                   ? cli_usage_error(&cmd_logs, "--grep takes a text, and no -f")
                   : search_logs(&look);
    }
    if (look.regex || look.limit > 0 || look.experiment || look.as_json) {
        return cli_usage_error(&cmd_logs,
                               "--regex, --limit, --experiment and --json go with --grep TEXT");
    }
    if (!look.run || !task_name_parse(look.run, &name)) {
        code = cli_usage_error(&cmd_logs, "which task? EXPERIMENT/INDEX, as drover tasks shows it");
    } else {
        code = show_log(&look, &name);
    }
    task_name_release(&name);
    return code;
}

const struct cli_command cmd_logs = {
    .name = "logs",
    .arguments = "[W/]EXPERIMENT/INDEX [-f] | [W] --grep TEXT [--state DIR]",
    .summary = "what the newest attempt of a task printed; -f follows it; --grep searches them all",
    .help =
        "  --state DIR          in this folder: a run's, or a server's\n"
        "  -f, --follow         wait for the task to begin and print until it is over\n"
        "  --attempt N          of an earlier attempt\n"
        "  --grep TEXT          lines of any task's logs, earlier attempts too, that hold TEXT:\n"
        "                       EXPERIMENT/INDEX.ATTEMPT:LINE: text; exit 1 if there is none\n"
        "  --regex              TEXT is an extended regular expression\n"
        "  -e, --experiment E   search only this experiment\n"
        "  --limit N            stop after N lines\n"
        "  --json               one object a line: experiment, task, attempt, line, text\n\n"
        "Examples:\n"
        "  drover logs -f mnist-3/train/17\n"
        "  drover logs mnist-3 --grep 'out of memory' --limit 20\n",
    .run = run,
};
