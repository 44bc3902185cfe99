#include "cli/collect.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/task_name.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE_TASKS = 500,
    FIRST_REST_MS = 5,
    REST_MAX_MS = 400,
    PATIENCE_MS = 60000,
    PIECE_BYTES = 1 << 20,
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void collect_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGINT, &action, NULL) == 0);
    CHECK(sigaction(SIGTERM, &action, NULL) == 0);
}

bool collect_is_interrupted(void)
{
    return interrupted != 0;
}

/* Asks without printing; a server that is away for less than a minute is no error yet: *away. */
static int ask(struct collect *collect, const char *path, struct jread *answer, bool *away)
{
    struct remote *remote = collect->remote;
    *away = false;
    remote->quiet = true;
    int code = remote_get(remote, path, answer, NULL);
    remote->quiet = false;
    int64_t now_ms = clock_mono_ms();
    if (code == EXIT_UNREACHABLE) {
        if (collect->silent_since_ms == 0) {
            collect->silent_since_ms = now_ms;
            fprintf(stderr, "drover: the server does not answer; still trying\n");
        }
        *away = now_ms - collect->silent_since_ms < PATIENCE_MS;
    } else {
        collect->silent_since_ms = 0;
    }
    if (code != EXIT_DONE && !*away) {
        remote_tell(remote);
    }
    return code;
}

static bool is_final(const char *state)
{
    static const char *const states[] = {"succeeded", "failed", "cancelled", "skipped"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(state, states[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool take(const struct jnode *task, struct collected *out)
{
    const char *state = jread_text(task, "state", "");
    if (!is_final(state)) {
        return false;
    }
    collected_release(out);
    snprintf(out->state, sizeof out->state, "%s", state);
    out->good = strcmp(state, "succeeded") == 0;
    out->attempt = jread_u64(task, "attempt", 0);
    out->exit_code = jread_u64(task, "exit_code", UINT64_MAX);
    out->has_exit_code = out->exit_code != UINT64_MAX;
    jread_add_clean(&out->reason, jread_text(task, "reason", out->good ? "" : state));
    jread_add_clean(&out->node, jread_text(task, "node", ""));
    return true;
}

/* --- one at a time -------------------------------------------------------------------------- */

static int look_alone(struct collect *collect, const struct collect_task *task,
                      struct collected *out, bool *ready)
{
    AUTO_STR struct str path = {0};
    struct task_name name = {.experiment = task->experiment, .index = task->index};
    struct jread answer = {0};
    bool away = false;
    remote_add_workflow(&path, task->workflow);
    task_name_add_path(&path, &name);
    int code = ask(collect, str_text(&path), &answer, &away);
    *ready = code == EXIT_DONE && take(answer.root, out);
    jread_release(&answer);
    return away ? EXIT_DONE : code;
}

/* --- a page at a time ----------------------------------------------------------------------- */

static int fetch_page(struct collect *collect, const struct collect_task *task)
{
    AUTO_STR struct str path = {0};
    bool away = false;
    jread_release(&collect->page);
    remote_add_workflow(&path, task->workflow);
    str_add(&path, "/tasks");
    remote_add_query(&path, "experiment", task->experiment);
    str_addf(&path, "&limit=%d", PAGE_TASKS);
    if (collect->cursor.size > 0) {
        remote_add_query(&path, "after", str_text(&collect->cursor));
    }
    int code = ask(collect, str_text(&path), &collect->page, &away);
    str_clear(&collect->next);
    str_add(&collect->next, jread_text(collect->page.root, "next", ""));
    return away ? EXIT_DONE : code;
}

static void begin_pages(struct collect *collect, const struct collect_task *task)
{
    if (collect->paging && strcmp(str_text(&collect->workflow), task->workflow) == 0 &&
        strcmp(str_text(&collect->experiment), task->experiment) == 0) {
        return;
    }
    str_clear(&collect->workflow);
    str_add(&collect->workflow, task->workflow);
    str_clear(&collect->experiment);
    str_add(&collect->experiment, task->experiment);
    str_clear(&collect->cursor);
    jread_release(&collect->page);
    collect->paging = true;
}

/* The task in the page at hand; *passed: the page ends before it. */
static const struct jnode *find_in_page(const struct collect *collect, uint64_t index, bool *passed)
{
    *passed = false;
    const struct jnode *items = jread_get(collect->page.root, "items");
    for (const struct jnode *item = jread_first(items); item; item = item->next) {
        if (jread_u64(item, "task", UINT64_MAX) == index) {
            return item;
        }
    }
    *passed = collect->page.root != NULL && collect->next.size > 0;
    return NULL;
}

static int look_in_pages(struct collect *collect, const struct collect_task *task,
                         struct collected *out, bool *ready)
{
    begin_pages(collect, task);
    bool fresh = false;
    for (;;) {
        bool passed = false;
        const struct jnode *found = find_in_page(collect, task->index, &passed);
        *ready = found && take(found, out);
        if (*ready) {
            return EXIT_DONE;
        }
        if (passed) {
            str_clear(&collect->cursor);
            str_add(&collect->cursor, str_text(&collect->next));
        } else if (fresh) {
            return EXIT_DONE; /* not yet */
        }
        fresh = true;
        int code = fetch_page(collect, task);
        if (code != EXIT_DONE || !collect->page.root) {
            return code;
        }
    }
}

/* --- both ----------------------------------------------------------------------------------- */

int collect_wait(struct collect *collect, const struct collect_task *task, int64_t wait_ms,
                 struct collected *out, bool *ready)
{
    int64_t began_ms = clock_mono_ms();
    int64_t rest_ms = FIRST_REST_MS;
    *ready = false;
    for (;;) {
        int code = task->in_order ? look_in_pages(collect, task, out, ready)
                                  : look_alone(collect, task, out, ready);
        if (code != EXIT_DONE || *ready) {
            return code;
        }
        if (collect_is_interrupted()) {
            return EXIT_WORK_FAILED;
        }
        if (wait_ms >= 0 && clock_mono_ms() - began_ms >= wait_ms) {
            return EXIT_DONE;
        }
        usleep((useconds_t)rest_ms * 1000);
        rest_ms = rest_ms * 2 < REST_MAX_MS ? rest_ms * 2 : REST_MAX_MS;
    }
}

int collect_output(struct collect *collect, const struct collect_task *task,
                   const struct collected *of, struct str *out)
{
    struct task_name name = {.experiment = task->experiment, .index = task->index};
    uint64_t offset = 0;
    if (of->attempt == 0) {
        return EXIT_DONE; /* it never began */
    }
    for (;;) {
        AUTO_STR struct str path = {0};
        AUTO_STR struct str piece = {0};
        remote_add_workflow(&path, task->workflow);
        task_name_add_path(&path, &name);
        str_addf(&path, "/log?offset=%" PRIu64 "&size=%d&attempt=%" PRIu64, offset, PIECE_BYTES,
                 of->attempt);
        int code = remote_get_bytes(collect->remote, str_text(&path), &piece, NULL);
        if (code != EXIT_DONE) {
            return code;
        }
        offset += piece.size;
        if (out) {
            str_add_bytes(out, str_text(&piece), piece.size);
        } else {
            cli_write(&piece);
        }
        if (piece.size < PIECE_BYTES || (out && offset >= COLLECT_BYTES_MAX)) {
            return EXIT_DONE;
        }
    }
}

void collect_cancel(struct collect *collect, const char *workflow)
{
    AUTO_STR struct str path = {0};
    struct jread answer = {0};
    remote_add_workflow(&path, workflow);
    str_add(&path, "/cancel");
    collect->remote->quiet = true;
    (void)remote_post(collect->remote, str_text(&path), &answer, NULL);
    collect->remote->quiet = false;
    jread_release(&answer);
}

void collected_release(struct collected *collected)
{
    str_release(&collected->reason);
    str_release(&collected->node);
    *collected = (struct collected){0};
}

void collect_release(struct collect *collect)
{
    jread_release(&collect->page);
    str_release(&collect->workflow);
    str_release(&collect->experiment);
    str_release(&collect->cursor);
    str_release(&collect->next);
}
