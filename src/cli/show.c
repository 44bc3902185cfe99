#include "cli/show.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "master/place.h"
#include "recipe/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORKFLOW = 1,
    LIVE_REFRESH_MS = 100,
    PLAIN_REFRESH_MS = 10000,
    JSON_REFRESH_MS = 200, /* how long a line may wait in the buffer */
    FAILURES_SHOWN = 20,
    BUFFER_BYTES = 1 << 15,
    READER_LOOK_MS = 200, /* between looks at the signals while nobody reads */
};

struct show {
    enum show_kind kind;
    uint32_t slots;
    struct master_observer observer;
    struct view_row *rows;
    size_t row_count;
    uint64_t failures;
    int lines_drawn;
    bool out_gone; /* nobody reads any more: work goes on in silence */
    struct str buffer;
    /* the rate: finished tasks, smoothed over the last few seconds */
    uint64_t done_before;
    int64_t done_at_ms;
    double rate;
};

static bool is_asked_to_stop(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            sigismember(&pending, SIGHUP) == 1);
}

/* Waits for the reader; false: there is none, or we are asked to stop and it takes nothing. The
 * signals are blocked and read by the loop that called us, so they can only be seen as pending. */
static bool wait_for_reader(void)
{
    struct pollfd file = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (poll(&file, 1, READER_LOOK_MS) <= 0) {
        if (is_asked_to_stop()) {
            return false;
        }
    }
    return (file.revents & POLLNVAL) == 0;
}

/* Unlike cli_write, a reader that has gone does not end the run. */
static void emit_text(struct show *show, const struct str *text)
{
    const char *at = str_text(text);
    size_t left = text->size;
    while (left > 0 && !show->out_gone) {
        /* a pipe that is ready takes this much without blocking */
        ssize_t wrote = -1;
        if (wait_for_reader()) {
            wrote = write(STDOUT_FILENO, at, left < PIPE_BUF ? left : PIPE_BUF);
            if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) {
                continue;
            }
        }
        if (wrote < 0) {
            show->out_gone = true;
            return;
        }
        at += wrote;
        left -= (size_t)wrote;
    }
}

static void flush_buffer(struct show *show)
{
    emit_text(show, &show->buffer);
    str_clear(&show->buffer);
}

/* --- numbers -------------------------------------------------------------------------------------
 */

/* Of a search as many as it may have trials, until more is known. */
static uint64_t tasks_of(const struct experiment *experiment,
                         const struct core_experiment_view *view)
{
    uint64_t trials = experiment->search ? experiment->search->trials * experiment->gang : 0;
    return !view->closed && !view->ended && trials > view->tasks ? trials : view->tasks;
}

static void gather_rows(struct show *show, const struct server *server)
{
    const struct recipe *recipe = server_session(server)->flow->recipe;
    if (!show->rows) {
        show->rows = mem_array(recipe->experiment_count, sizeof *show->rows);
        show->row_count = recipe->experiment_count;
    }
    uint64_t done = 0;
    for (size_t i = 0; i < show->row_count; i++) {
        uint32_t number = recipe_order(recipe)[i];
        struct core_experiment_view from;
        core_experiment_view(server_core(server), WORKFLOW, number, &from);
        show->rows[i] = (struct view_row){.name = recipe->experiments[number].name,
                                          .tasks = tasks_of(&recipe->experiments[number], &from),
                                          .succeeded = from.succeeded,
                                          .failed = from.failed,
                                          .other = from.cancelled + from.skipped,
                                          .running = from.assigned + from.running,
                                          .retrying = from.retrying,
                                          .ready = from.ready,
                                          .ended = from.ended};
        done += from.succeeded + from.failed;
    }
    int64_t now_ms = server_elapsed_ms(server);
    int64_t passed_ms = now_ms - show->done_at_ms;
    if (show->done_at_ms == 0) {
        show->done_before = done;
        show->done_at_ms = now_ms > 0 ? now_ms : 1;
    } else if (passed_ms >= 200) {
        double now_rate = (double)(done - show->done_before) * 1000.0 / (double)passed_ms;
        double weight = (double)passed_ms / ((double)passed_ms + 4000.0);
        show->rate = show->rate > 0 ? show->rate * (1 - weight) + now_rate * weight : now_rate;
        show->done_before = done;
        show->done_at_ms = now_ms;
    }
}

static void make_view(struct show *show, const struct server *server, struct view *view)
{
    gather_rows(show, server);
    int width = 0;
    int height = 0;
    screen_size(&width, &height);
    const char *no_colour = getenv("NO_COLOR");
    *view = (struct view){.rows = show->rows,
                          .row_count = show->row_count,
                          .title = server_session(server)->flow->id,
                          .elapsed_ms = server_elapsed_ms(server),
                          .rate = show->rate,
                          .stopping = server_is_stopping(server),
                          .width = width,
                          .height = height,
                          .colour = !no_colour || no_colour[0] == '\0',
                          .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
}

/* --- live
 * ------------------------------------------------------------------------------------------ */

static void erase_view(struct show *show, struct str *out)
{
    if (show->lines_drawn > 0) {
        str_addf(out, "\033[%dA\r\033[J", show->lines_drawn);
        show->lines_drawn = 0;
    }
}

static void live_refresh(void *context, const struct server *server)
{
    struct show *show = context;
    struct view view;
    AUTO_STR struct str out = {0};
    make_view(show, server, &view);
    erase_view(show, &out);
    show->lines_drawn = view_draw(&out, &view);
    emit_text(show, &out);
}

/* --- lines
 * ----------------------------------------------------------------------------------------- */

/* A line above the live view, or just a line. */
static void say_line(struct show *show, const struct str *line)
{
    AUTO_STR struct str out = {0};
    if (show->kind == SHOW_LIVE) {
        erase_view(show, &out);
    }
    str_add_bytes(&out, str_text(line), line->size);
    str_add_char(&out, '\n');
    emit_text(show, &out);
}

static void text_begun(void *context, const struct server *server)
{
    struct show *show = context;
    const struct session *session = server_session(server);
    gather_rows(show, server);
    uint64_t tasks = 0;
    uint64_t done = 0;
    for (size_t i = 0; i < show->row_count; i++) {
        tasks += show->rows[i].tasks;
        done += show->rows[i].succeeded + show->rows[i].failed + show->rows[i].other;
    }
    AUTO_STR struct str line = {0};
    str_addf(&line, "%s: %zu experiment%s, %" PRIu64 " task%s, %" PRIu32 " slot%s, seed %" PRIu64,
             session->flow->id, show->row_count, show->row_count == 1 ? "" : "s", tasks,
             tasks == 1 ? "" : "s", show->slots, show->slots == 1 ? "" : "s", session->flow->seed);
    if (session->resumed) {
        str_addf(&line, "; resumed, %" PRIu64 " done before", done);
    }
    say_line(show, &line);
}

static void text_note(void *context, const char *text)
{
    AUTO_STR struct str line = {0};
    str_addf(&line, "note: %s", text);
    say_line(context, &line);
}

static void text_task(void *context, const struct server *server,
                      const struct master_task_event *event)
{
    struct show *show = context;
    if (event->state == TASK_SUCCEEDED || event->state == TASK_RUNNING ||
        (event->outcome == OUT_KILLED && !event->final)) {
        return;
    }
    show->failures++;
    if (show->failures > FAILURES_SHOWN) {
        return;
    }
    const struct session *session = server_session(server);
    const char *name = session->flow->recipe->experiments[event->experiment].name;
    AUTO_STR struct str line = {0};
    str_addf(&line, "%s/%" PRIu64 ": ", name, event->task);
    cli_add_outcome(&line, event->outcome, event->code, event->detail);
    str_addf(&line, " (attempt %" PRIu32 "%s)  ", event->attempt,
             event->final ? "" : ", will try again");
    place_add_log(&line, session->folder, name, event->task, event->attempt);
    if (show->failures == FAILURES_SHOWN) {
        str_add(&line, "\nfurther failures are not shown here: drover tasks --failed");
        summary_add_where(&line, session);
    }
    say_line(show, &line);
}

static void text_experiment(void *context, const struct server *server, uint32_t experiment,
                            const struct core_experiment_view *view)
{
    struct show *show = context;
    if (show->kind == SHOW_LIVE) {
        return; /* the view shows it */
    }
    const struct session *session = server_session(server);
    AUTO_STR struct str line = {0};
    const struct experiment *recipe = &session->flow->recipe->experiments[experiment];
    str_addf(&line, "%s: ", recipe->name);
    if (!view->ended && recipe->search) {
        str_addf(&line, "begins, a search of at most %" PRIu64 " trial%s", recipe->search->trials,
                 recipe->search->trials == 1 ? "" : "s");
    } else if (!view->ended) {
        str_addf(&line, "begins, %" PRIu64 " task%s", view->tasks, view->tasks == 1 ? "" : "s");
    } else if (view->skipped > 0) {
        str_add(&line, "skipped, what it depends on failed");
    } else {
        str_addf(&line, "ended, %" PRIu64 " succeeded", view->succeeded);
        if (view->failed > 0) {
            str_addf(&line, ", %" PRIu64 " failed", view->failed);
        }
        if (view->cancelled > 0) {
            str_addf(&line, ", %" PRIu64 " cancelled", view->cancelled);
        }
    }
    say_line(show, &line);
}

static void plain_refresh(void *context, const struct server *server)
{
    struct show *show = context;
    struct view view;
    make_view(show, server, &view);
    if (view.elapsed_ms < PLAIN_REFRESH_MS / 2) {
        return;
    }
    AUTO_STR struct str line = {0};
    for (size_t i = 0; i < show->row_count; i++) {
        const struct view_row *row = &show->rows[i];
        if (row->ready && !row->ended) {
            str_addf(&line, "%s%s %" PRIu64 "/%" PRIu64 " done, %" PRIu64 " running",
                     line.size ? "; " : "", row->name, row->succeeded + row->failed + row->other,
                     row->tasks, row->running);
        }
    }
    if (line.size == 0) {
        return;
    }
    int64_t eta_ms = view_eta_ms(&view);
    if (eta_ms >= 0) {
        str_add(&line, ", about ");
        clock_add_duration(&line, eta_ms);
        str_add(&line, " left");
    }
    say_line(show, &line);
}

/* --- JSON
 * ------------------------------------------------------------------------------------------ */

static void json_begin_line(struct show *show, struct json *json, const char *event)
{
    *json = (struct json){.out = &show->buffer};
    json_object(json);
    json_key(json, "event");
    json_text(json, event);
}

static void json_end_line(struct show *show, struct json *json)
{
    json_end(json);
    str_add_char(&show->buffer, '\n');
    if (show->buffer.size > BUFFER_BYTES) {
        flush_buffer(show);
    }
}

static void json_begun(void *context, const struct server *server)
{
    struct show *show = context;
    const struct session *session = server_session(server);
    gather_rows(show, server);
    uint64_t tasks = 0;
    for (size_t i = 0; i < show->row_count; i++) {
        tasks += show->rows[i].tasks;
    }
    struct json json;
    json_begin_line(show, &json, "begin");
    json_key(&json, "id");
    json_text(&json, session->flow->id);
    json_key(&json, "state_folder");
    json_text(&json, session->folder);
    json_key(&json, "seed");
    json_u64(&json, session->flow->seed);
    json_key(&json, "resumed");
    json_bool(&json, session->resumed);
    json_key(&json, "experiments");
    json_u64(&json, show->row_count);
    json_key(&json, "tasks");
    json_u64(&json, tasks);
    json_end_line(show, &json);
    flush_buffer(show);
}

static void json_note(void *context, const char *text)
{
    struct json json;
    json_begin_line(context, &json, "note");
    json_key(&json, "text");
    json_text(&json, text);
    json_end_line(context, &json);
    flush_buffer(context);
}

static void json_task(void *context, const struct server *server,
                      const struct master_task_event *event)
{
    struct show *show = context;
    const struct session *session = server_session(server);
    struct json json;
    json_begin_line(show, &json, "task");
    json_key(&json, "experiment");
    json_text(&json, session->flow->recipe->experiments[event->experiment].name);
    json_key(&json, "task");
    json_u64(&json, event->task);
    json_key(&json, "state");
    json_text(&json, cli_task_state(event->state));
    json_key(&json, "attempt");
    json_u64(&json, event->attempt);
    cli_json_time(&json, "started_at", event->started_ms);
    if (event->state != TASK_RUNNING) {
        json_key(&json, "outcome");
        json_text(&json, cli_outcome_name(event->outcome));
        json_key(&json, "exit_code");
        if (event->outcome == OUT_EXITED) {
            json_u64(&json, event->code);
        } else {
            json_null(&json);
        }
        if (event->outcome == OUT_SIGNALLED) {
            json_key(&json, "signal");
            json_u64(&json, event->code);
        }
        json_key(&json, "duration_s");
        json_double(&json, (double)event->duration_us / 1e6);
        json_key(&json, "cpu_s");
        json_double(&json, (double)event->cpu_us / 1e6);
        json_key(&json, "peak_rss_bytes");
        json_u64(&json, event->peak_rss_bytes);
        if (event->detail[0]) {
            json_key(&json, "detail");
            json_text(&json, event->detail);
        }
    }
    json_end_line(show, &json);
}

static void json_experiment(void *context, const struct server *server, uint32_t experiment,
                            const struct core_experiment_view *view)
{
    struct show *show = context;
    struct json json;
    json_begin_line(show, &json, "experiment");
    json_key(&json, "experiment");
    json_text(&json, server_session(server)->flow->recipe->experiments[experiment].name);
    json_key(&json, "ended");
    json_bool(&json, view->ended);
    summary_add_counts(&json, view);
    json_end_line(show, &json);
}

static void json_refresh(void *context, const struct server *server)
{
    (void)server;
    flush_buffer(context);
}

/* --- quiet
 * ------------------------------------------------------------------------------------------ */

static void quiet_begun(void *context, const struct server *server)
{
    gather_rows(context, server);
}

static void quiet_note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "drover: %s\n", text);
}

static void quiet_task(void *context, const struct server *server,
                       const struct master_task_event *event)
{
    (void)context, (void)server, (void)event;
}

static void quiet_experiment(void *context, const struct server *server, uint32_t experiment,
                             const struct core_experiment_view *view)
{
    (void)context, (void)server, (void)experiment, (void)view;
}

/* --- making and ending
 * -------------------------------------------------------------------------------- */

struct show *show_create(enum show_kind kind, uint32_t slots)
{
    static const struct master_observer faces[] = {
        [SHOW_PLAIN] = {.refresh_ms = PLAIN_REFRESH_MS,
                        .begun = text_begun,
                        .note = text_note,
                        .task = text_task,
                        .experiment = text_experiment,
                        .refresh = plain_refresh},
        [SHOW_LIVE] = {.refresh_ms = LIVE_REFRESH_MS,
                       .begun = text_begun,
                       .note = text_note,
                       .task = text_task,
                       .experiment = text_experiment,
                       .refresh = live_refresh},
        [SHOW_JSON] = {.refresh_ms = JSON_REFRESH_MS,
                       .begun = json_begun,
                       .note = json_note,
                       .task = json_task,
                       .experiment = json_experiment,
                       .refresh = json_refresh},
        [SHOW_QUIET] = {.begun = quiet_begun,
                        .note = quiet_note,
                        .task = quiet_task,
                        .experiment = quiet_experiment},
    };
    setlocale(LC_CTYPE, "");
    struct show *show = mem_alloc(sizeof *show);
    show->kind = kind;
    show->slots = slots;
    show->observer = faces[kind];
    show->observer.context = show;
    return show;
}

const struct master_observer *show_observer(const struct show *show)
{
    return &show->observer;
}

void show_end(struct show *show, const struct session *session, enum master_end end,
              int64_t elapsed_ms)
{
    AUTO_STR struct str out = {0};
    if (show->kind == SHOW_JSON) {
        flush_buffer(show);
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "event");
        json_text(&json, "end");
        summary_add_json(&json, session);
        json_key(&json, "elapsed_s");
        json_double(&json, (double)elapsed_ms / 1000.0);
        json_key(&json, "stopped");
        json_bool(&json, end == MASTER_STOPPED);
        json_end(&json);
        str_add_char(&out, '\n');
    } else if (show->kind != SHOW_QUIET) {
        summary_add_text(&out, session, end == MASTER_STOPPED, elapsed_ms);
    }
    emit_text(show, &out);
}

void show_destroy(struct show *show)
{
    free(show->rows);
    str_release(&show->buffer);
    free(show);
}
