/* api_follow.c - logs that are followed over event streams.
 *
 * Each stream has the file open and a place in it. What is new is read in pieces, when the clock
 * says so or the task's state changes, and no faster than a reader may take it. A file that was
 * moved aside is read to its end before the new one is begun. */
#include "base/clock.h"
#include "base/mem.h"
#include "master/api_logs.h"
#include "master/place.h"
#include "master/words.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_MS = 200,
    PIECE_BYTES = 64 << 10,
    KEEP_ALIVE_MS = 15000,
    SLICE_US = 8000, /* of one tick, for all streams together */
};

struct follow {
    uint64_t id; /* the request's */
    uint32_t workflow;
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt; /* being read; 0: it has not been tried yet */
    bool stays;
    int fd; /* -1: the file is not there yet */
    uint64_t offset;
    struct api_budget budget;
    int64_t pushed_ms;
};

struct api_follows {
    struct server *server;
    struct follow items[API_STREAMS_MAX];
    size_t count;
    size_t turn; /* who is looked at first in the next tick */
    int64_t looked_ms;
    char piece[PIECE_BYTES];
};

struct api_follows *api_follows_create(struct server *server)
{
    struct api_follows *follows = mem_alloc(sizeof *follows);
    follows->server = server;
    return follows;
}

static void drop(struct api_follows *follows, size_t index)
{
    if (follows->items[index].fd >= 0) {
        close(follows->items[index].fd);
    }
    follows->items[index] = follows->items[--follows->count];
}

void api_follows_destroy(struct api_follows *follows)
{
    if (follows) {
        while (follows->count > 0) {
            drop(follows, 0);
        }
        free(follows);
    }
}

void api_follows_closed(struct api_follows *follows, uint64_t id)
{
    for (size_t i = 0; i < follows->count; i++) {
        if (follows->items[i].id == id) {
            drop(follows, i);
            return;
        }
    }
}

static void push(struct api_follows *follows, struct follow *follow, const struct str *text)
{
    http_push(server_http(follows->server), follow->id, str_text(text), text->size);
    follow->budget.bytes -= (int64_t)text->size;
    follow->pushed_ms = server_now_ms(follows->server);
}

static void add_path(struct str *out, const struct api_follows *follows,
                     const struct follow *follow)
{
    const struct flow *flow = server_flow(follows->server, follow->workflow);
    place_add_log(out, flow->folder, flow->recipe->experiments[follow->experiment].name,
                  follow->task, follow->attempt);
}

/* Opens the file, or the one that has taken its place; true if there is something new to read. */
static bool open_newer(struct api_follows *follows, struct follow *follow)
{
    AUTO_STR struct str path = {0};
    struct stat now = {0};
    struct stat held = {0};
    add_path(&path, follows, follow);
    if (follow->fd >= 0 && (stat(str_text(&path), &now) != 0 || fstat(follow->fd, &held) != 0 ||
                            (now.st_ino == held.st_ino && now.st_dev == held.st_dev))) {
        return false;
    }
    int fd = open(str_text(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    if (follow->fd >= 0) {
        close(follow->fd);
        follow->offset = 0;
    } else if (fstat(fd, &now) == 0 && (uint64_t)now.st_size < follow->offset) {
        follow->offset = 0; /* a new file, since that place was noted */
    }
    follow->fd = fd;
    return true;
}

/* Bytes of an unfinished character at the end, which wait for the rest of it. */
static size_t unfinished(const char *bytes, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char c = (unsigned char)bytes[size - back];
        if (c >= 0xc0) {
            size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            return whole > back ? back : 0;
        }
        if (c < 0x80) {
            return 0;
        }
    }
    return 0;
}

/* Sends one piece; false: there is nothing (more) in the file. */
static bool push_piece(struct api_follows *follows, struct follow *follow, bool is_last)
{
    ssize_t got = pread(follow->fd, follows->piece, sizeof follows->piece, (off_t)follow->offset);
    if (got <= 0) {
        return false;
    }
    size_t size = (size_t)got;
    size_t held = is_last && size < sizeof follows->piece ? 0 : unfinished(follows->piece, size);
    if (held == size) {
        return false;
    }
    size -= held;
    follow->offset += size;
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    str_addf(&text, "id: %" PRIu32 ".%" PRIu64 "\nevent: log\ndata: ", follow->attempt,
             follow->offset);
    json_bytes(&json, follows->piece, size);
    str_add(&text, "\n\n");
    push(follows, follow, &text);
    return true;
}

static void push_attempt(struct api_follows *follows, struct follow *follow)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "id: %" PRIu32 ".0\nevent: attempt\ndata: {\"attempt\":%" PRIu32 "}\n\n",
             follow->attempt, follow->attempt);
    push(follows, follow, &text);
}

static void push_end(struct api_follows *follows, struct follow *follow,
                     const struct core_task_view *view)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "event: end\ndata: {\"state\":\"%s\",\"attempt\":%" PRIu32 "}\n\n",
             words_task_state(view->state), view->attempt);
    push(follows, follow, &text);
    http_close_stream(server_http(follows->server), follow->id);
}

/* Reads on; true when all that there will ever be has been sent. */
static bool read_on(struct api_follows *follows, struct follow *follow, int64_t until_us)
{
    struct core_task_view view;
    if (!server_flow(follows->server, follow->workflow)) { /* it was removed */
        http_close_stream(server_http(follows->server), follow->id);
        return true;
    }
    core_task_view(server_core(follows->server), follow->workflow, follow->experiment, follow->task,
                   &view);
    api_budget_fill(&follow->budget, server_now_ms(follows->server));
    while (follow->budget.bytes > 0 && clock_mono_us() < until_us) {
        bool newer = view.attempt > follow->attempt;
        bool over = newer || words_is_final(view.state);
        if (follow->fd >= 0 && push_piece(follows, follow, over)) {
            continue;
        }
        if (follow->attempt > 0 && open_newer(follows, follow)) {
            continue;
        }
        if (newer && !follow->stays) {
            if (follow->fd >= 0) {
                close(follow->fd);
            }
            follow->fd = -1;
            follow->offset = 0;
            follow->attempt = view.attempt;
            push_attempt(follows, follow);
            continue;
        }
        if (over) {
            push_end(follows, follow, &view);
        }
        return over;
    }
    return false;
}

void api_follow(struct api_call *call, const struct api_follow_start *start)
{
    struct api_follows *follows = call->api->follows;
    if (follows->count >= API_STREAMS_MAX) {
        api_fail(call, 503, "%d logs are being followed already", API_STREAMS_MAX);
        return;
    }
    struct follow follow = {
        .id = call->request->id,
        .workflow = start->task->flow->number,
        .experiment = start->task->experiment,
        .task = start->task->index,
        .attempt = start->attempt ? start->attempt : start->task->view.attempt,
        .stays = start->stays,
        .fd = -1,
        .offset = start->offset,
        .pushed_ms = server_now_ms(call->server),
    };
    struct http_reply reply = {.status = 200, .content_type = "text/event-stream", .stream = true};
    api_reply(call, &reply, 0);
    follows->items[follows->count++] = follow;
    if (read_on(follows, &follows->items[follows->count - 1], clock_mono_us() + SLICE_US)) {
        drop(follows, follows->count - 1);
    }
}

void api_follows_event(struct api_follows *follows, const struct server_event *event)
{
    if (follows->count == 0 || strcmp(event->kind, "task") != 0) {
        return;
    }
    int64_t until_us = clock_mono_us() + SLICE_US;
    for (size_t i = follows->count; i-- > 0;) {
        struct follow *follow = &follows->items[i];
        if (follow->workflow == event->workflow && follow->experiment == event->experiment &&
            follow->task == event->task && read_on(follows, follow, until_us)) {
            drop(follows, i);
        }
    }
}

void api_follows_tick(struct api_follows *follows, int64_t now_ms)
{
    static const char keep_alive[] = ": \n\n";
    if (follows->count == 0 || now_ms - follows->looked_ms < LOOK_MS / 2) {
        return;
    }
    int64_t until_us = clock_mono_us() + SLICE_US;
    follows->looked_ms = now_ms;
    follows->turn++;
    for (size_t n = follows->count; n-- > 0;) {
        size_t i = (n + follows->turn) % follows->count;
        struct follow *follow = &follows->items[i];
        if (read_on(follows, follow, until_us)) {
            drop(follows, i);
        } else if (now_ms - follow->pushed_ms >= KEEP_ALIVE_MS) {
            http_push(server_http(follows->server), follow->id, keep_alive, sizeof keep_alive - 1);
            follow->pushed_ms = now_ms;
        }
        if (follows->count == 0) {
            return;
        }
    }
}

int64_t api_follows_due_ms(const struct api_follows *follows)
{
    return follows->count > 0 ? follows->looked_ms + LOOK_MS : INT64_MAX;
}
