#include "cli/follow.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/screen.h"
#include "cli/standing.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 200,
    REST_MS = 500,
    PLAIN_MS = 10000,
    RATE_MS = 4000,
    STREAM_S = 2, /* without a byte: then the view and the time limit want a look */
};

struct follow {
    struct remote *remote; /* questions */
    struct remote stream;  /* the events */
    const struct follow_options *options;
    struct str id; /* once known: "newest" may mean another one later */
    struct events events;
    bool live;
    bool changed;     /* an event came since the last look */
    int64_t began_ms; /* by our clock */
    int64_t looked_ms;
    int64_t said_ms;
    int64_t silent_since_ms; /* nobody answers since then; 0: someone does */
    int lines_drawn;
    uint64_t done_before;
    double rate;
    bool ended;
    int exit_code;
};

bool follow_is_lively_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind && strcmp(kind, "dumb") != 0;
}

static void erase(struct follow *follow, struct str *out)
{
    if (follow->lines_drawn > 0) {
        str_addf(out, "\033[%dA\r\033[J", follow->lines_drawn);
        follow->lines_drawn = 0;
    }
}

static void measure_rate(struct follow *follow, uint64_t done, int64_t now_ms)
{
    int64_t passed_ms = now_ms - follow->looked_ms;
    if (follow->looked_ms > 0 && passed_ms > 0 && done >= follow->done_before) {
        double now_rate = (double)(done - follow->done_before) * 1000.0 / (double)passed_ms;
        double weight = (double)passed_ms / ((double)passed_ms + RATE_MS);
        follow->rate =
            follow->rate > 0 ? follow->rate * (1 - weight) + now_rate * weight : now_rate;
    }
    follow->done_before = done;
}

static int64_t elapsed_ms(const struct follow *follow, const struct jnode *status, int64_t now_ms)
{
    int64_t created_ms = standing_time_ms(jread_text(status, "created_at", ""));
    int64_t finished_ms = standing_time_ms(jread_text(status, "finished_at", ""));
    if (created_ms >= 0) {
        int64_t until_ms = finished_ms >= created_ms ? finished_ms : clock_unix_ms();
        return until_ms > created_ms ? until_ms - created_ms : 0;
    }
    return now_ms - follow->began_ms;
}

static void make_view(const struct follow *follow, const struct standing *standing, int64_t passed,
                      struct view *view)
{
    int width = 0;
    int height = 0;
    screen_size(&width, &height);
    const char *no_colour = getenv("NO_COLOR");
    *view = (struct view){.rows = standing->rows,
                          .row_count = standing->row_count,
                          .title = standing->id,
                          .elapsed_ms = passed,
                          .rate = follow->rate,
                          .width = width,
                          .height = height,
                          .colour = !no_colour || no_colour[0] == '\0',
                          .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
}

static void show_plain(struct follow *follow, const struct standing *standing, int64_t now_ms)
{
    if (now_ms - follow->said_ms < PLAIN_MS) {
        return;
    }
    follow->said_ms = now_ms;
    AUTO_STR struct str out = {0};
    for (size_t i = 0; i < standing->row_count; i++) {
        const struct view_row *row = &standing->rows[i];
        if (row->ready && !row->ended) {
            str_addf(&out, "%s%s %" PRIu64 "/%" PRIu64 " done, %" PRIu64 " running",
                     out.size ? "; " : "", row->name, row->succeeded + row->failed + row->other,
                     row->tasks, row->running);
        }
    }
    if (out.size > 0) {
        str_add_char(&out, '\n');
        cli_write(&out);
    }
}

static void show(struct follow *follow, const struct standing *standing, const struct jnode *status,
                 int64_t now_ms)
{
    if (follow->options->as_json || follow->options->quiet) {
        return;
    }
    if (!follow->live) {
        show_plain(follow, standing, now_ms);
        return;
    }
    struct view view;
    AUTO_STR struct str out = {0};
    make_view(follow, standing, elapsed_ms(follow, status, now_ms), &view);
    erase(follow, &out);
    follow->lines_drawn = view_draw(&out, &view);
    cli_write(&out);
}

static void show_end(struct follow *follow, const struct jnode *status, int64_t now_ms)
{
    AUTO_STR struct str out = {0};
    struct jread failures = {0};
    if (follow->options->as_json) {
        jread_add(&out, status);
        str_add_char(&out, '\n');
    } else if (!follow->options->quiet) {
        AUTO_STR struct str path = {0};
        remote_add_workflow(&path, jread_text(status, "id", NULL));
        str_addf(&path, "/tasks?failed=1&limit=%d", STANDING_FAILURES_SHOWN + 1);
        /* the summary is worth having without them */
        (void)remote_get(follow->remote, str_text(&path), &failures, NULL);
        standing_add_text(&out, status, jread_get(failures.root, "items"),
                          elapsed_ms(follow, status, now_ms),
                          follow->remote->defaulted ? NULL : follow->remote->state);
    }
    cli_write(&out);
    jread_release(&failures);
}

/* Nobody answers: true while it is worth waiting. */
static bool is_patient(struct follow *follow, int64_t now_ms)
{
    if (follow->silent_since_ms == 0) {
        follow->silent_since_ms = now_ms;
        if (!follow->options->quiet) {
            fprintf(stderr, "drover: the server does not answer; still trying\n");
        }
        follow->lines_drawn = 0;
    }
    return now_ms - follow->silent_since_ms < FOLLOW_PATIENCE_MS;
}

/* Asks how it stands. Sets `ended` when there is nothing more to wait for. */
static void look(struct follow *follow)
{
    AUTO_STR struct str path = {0};
    struct jread answer = {0};
    remote_add_workflow(&path, follow->id.size > 0 ? str_text(&follow->id) : NULL);
    int64_t now_ms = clock_mono_ms();
    follow->changed = false;
    follow->remote->quiet = true;
    int code = remote_get(follow->remote, str_text(&path), &answer, NULL);
    follow->remote->quiet = false;
    if (code == EXIT_UNREACHABLE && is_patient(follow, now_ms)) {
        follow->looked_ms = now_ms;
        return;
    }
    if (code != EXIT_DONE) {
        remote_tell(follow->remote);
        follow->exit_code = code;
        follow->ended = true;
        return;
    }
    follow->silent_since_ms = 0;
    struct standing standing;
    standing_read(answer.root, &standing);
    if (follow->id.size == 0) {
        str_add(&follow->id, standing.id);
    }
    measure_rate(follow, standing.done, now_ms);
    follow->looked_ms = now_ms;
    follow->ended = standing.ended;
    if (!standing.ended || follow->live) {
        show(follow, &standing, answer.root, now_ms); /* the last view stays, above the summary */
    }
    if (standing.ended) {
        follow->exit_code = standing.good ? EXIT_DONE : EXIT_WORK_FAILED;
        show_end(follow, answer.root, now_ms);
    }
    standing_release(&standing);
    jread_release(&answer);
}

static bool is_time_up(const struct follow *follow)
{
    return follow->options->timeout_ms > 0 &&
           clock_mono_ms() - follow->began_ms >= follow->options->timeout_ms;
}

static bool on_event(void *context, const char *kind, const char *data)
{
    struct follow *follow = context;
    (void)data;
    follow->changed = true;
    if (strcmp(kind, "workflow") == 0) {
        follow->looked_ms = 0; /* its end is worth a look at once */
    }
    return true;
}

/* Also called for the stream's keep-alives, so that the view and the time limit move. */
static bool on_bytes(void *context, const void *bytes, size_t size)
{
    struct follow *follow = context;
    if (!events_feed(&follow->events, bytes, size)) {
        return false;
    }
    int64_t passed_ms = clock_mono_ms() - follow->looked_ms;
    if (passed_ms >= (follow->changed || follow->live ? LOOK_MS : PLAIN_MS / 2)) {
        look(follow);
    }
    return !follow->ended && !is_time_up(follow);
}

static void stream_once(struct follow *follow)
{
    AUTO_STR struct str path = {0};
    struct err err = {0};
    int status = 0;
    str_add(&path, "/api/v1/events");
    remote_add_query(&path, "workflow", str_text(&follow->id));
    events_reset(&follow->events);
    int64_t began_ms = clock_mono_ms();
    enum err_code code =
        client_stream(follow->stream.client, str_text(&path), str_text(&follow->events.last_id),
                      on_bytes, follow, &status, &err);
    if (code != ERR_CANCELLED && clock_mono_ms() - began_ms < REST_MS) {
        usleep(REST_MS * 1000); /* cut off: the next look says whether anybody is there */
    }
}

int follow_wait(struct remote *remote, const struct follow_options *options)
{
    struct follow follow = {.remote = remote,
                            .options = options,
                            .began_ms = clock_mono_ms(),
                            .said_ms = clock_mono_ms(),
                            .live = !options->as_json && follow_is_lively_terminal()};
    follow.events = (struct events){.fn = on_event, .context = &follow};
    setlocale(LC_CTYPE, "");
    if (options->workflow) {
        str_add(&follow.id, options->workflow);
    }
    int code = remote_again(remote, STREAM_S, &follow.stream);
    while (code == EXIT_DONE && !follow.ended && !is_time_up(&follow)) {
        look(&follow);
        if (!follow.ended && follow.id.size > 0) {
            stream_once(&follow);
        }
    }
    if (code == EXIT_DONE && !follow.ended) {
        AUTO_STR struct str waited = {0};
        clock_add_duration(&waited, options->timeout_ms);
        code =
            cli_error(EXIT_WORK_FAILED, "it has not ended after %s; it goes on", str_text(&waited));
    } else if (code == EXIT_DONE) {
        code = follow.exit_code;
    }
    events_release(&follow.events);
    str_release(&follow.id);
    remote_close(&follow.stream);
    return code;
}
