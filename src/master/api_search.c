/* api_search.c - looking for a text in the logs of a workflow.
 *
 * A search does a bounded amount of work (bytes, time, lines found) and then answers with where to
 * go on. The work is done in slices between other things of the loop, a slice of one search at a
 * time, so that nothing waits for it. */
#include "base/clock.h"
#include "base/mem.h"
#include "master/api.h"
#include "master/pattern.h"
#include "master/place.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    SLICE_US = 8000,
    WORK_US = 200 * 1000, /* of one call in all */
    WORK_BYTES = 64 << 20,
    BUFFER_BYTES = 128 << 10, /* a line that is longer counts as several pieces of one line */
    SHOWN_BYTES = 1000,       /* of a line */
};

/* The place of the next byte to be looked at. */
struct place {
    size_t order; /* in recipe_order */
    uint64_t task;
    uint32_t attempt;
    uint64_t offset;
    uint64_t line; /* from 1 */
};

struct search {
    uint64_t id; /* the request's */
    uint32_t workflow;
    char *experiment; /* "": all */
    struct pattern *pattern;
    struct place at;
    struct api_page page;
    int fd; /* the file of `at`, or -1 */
    int64_t used_us;
    uint64_t used_bytes;
};

struct api_searches {
    struct server *server;
    struct search *items[API_SEARCHES_MAX];
    size_t count;
    size_t turn;
    char buffer[BUFFER_BYTES];
};

struct api_searches *api_searches_create(struct server *server)
{
    struct api_searches *searches = mem_alloc(sizeof *searches);
    searches->server = server;
    return searches;
}

static void search_free(struct search *search)
{
    if (search->fd >= 0) {
        close(search->fd);
    }
    str_release(&search->page.body);
    free(search->experiment);
    pattern_destroy(search->pattern);
    free(search);
}

void api_searches_destroy(struct api_searches *searches)
{
    if (searches) {
        for (size_t i = 0; i < searches->count; i++) {
            search_free(searches->items[i]);
        }
        free(searches);
    }
}

/* --- lines ----------------------------------------------------------------------------------- */

static void add_line(struct search *search, const struct flow *flow,
                     const struct pattern_line *found)
{
    struct json *json = &search->page.json;
    uint32_t experiment = recipe_order(flow->recipe)[search->at.order];
    const char *line = found->begin;
    size_t size = (size_t)(found->end - line);
    size_t before = (size_t)(found->found - line);
    if (size > SHOWN_BYTES) { /* what was found must be in what is shown */
        size_t skip = before > SHOWN_BYTES / 2 ? before - SHOWN_BYTES / 2 : 0;
        skip = skip > size - SHOWN_BYTES ? size - SHOWN_BYTES : skip;
        line += skip;
        size = SHOWN_BYTES;
    }
    json_object(json);
    json_key(json, "experiment");
    json_text(json, flow->recipe->experiments[experiment].name);
    json_key(json, "task");
    json_u64(json, search->at.task);
    json_key(json, "attempt");
    json_u64(json, search->at.attempt);
    json_key(json, "line");
    json_u64(json, search->at.line);
    json_key(json, "text");
    json_bytes(json, line, size);
    json_end(json);
    search->page.count++;
}

/* Bytes up to and with the last newline; of a line as long as the whole piece, or the last of the
 * file, all of them. */
static size_t whole_lines(const char *piece, size_t size, bool is_end)
{
    const char *last = memrchr(piece, '\n', size);
    return is_end || !last ? size : (size_t)(last - piece) + 1;
}

static void count_lines(struct search *search, const char *from, const char *to)
{
    while (from < to && (from = memchr(from, '\n', (size_t)(to - from))) != NULL) {
        search->at.line++;
        from++;
    }
}

/* Looks at the lines of piece[0..size), from one that matches to the next, until the page is full.
 */
static void scan_lines(struct search *search, const struct flow *flow, const char *piece,
                       size_t size)
{
    const char *at = piece;
    const char *end = piece + size;
    while (at < end && !api_page_is_full(&search->page)) {
        struct pattern_line line;
        if (!pattern_next(search->pattern, at, (size_t)(end - at), &line)) {
            count_lines(search, at, end);
            at = end;
            break;
        }
        count_lines(search, at, line.begin);
        add_line(search, flow, &line);
        search->at.line += line.end < end ? 1 : 0;
        at = line.end < end ? line.end + 1 : end;
    }
    search->at.offset += (uint64_t)(at - piece);
}

/* --- files ----------------------------------------------------------------------------------- */

static void next_file(struct search *search)
{
    if (search->fd >= 0) {
        close(search->fd);
        search->fd = -1;
    }
    search->at.attempt++;
    search->at.offset = 0;
    search->at.line = 1;
}

/* One piece of one log. */
static void search_piece(struct api_searches *searches, struct search *search,
                         const struct flow *flow)
{
    uint32_t experiment = recipe_order(flow->recipe)[search->at.order];
    if (search->fd < 0) {
        AUTO_STR struct str path = {0};
        place_add_log(&path, flow->folder, flow->recipe->experiments[experiment].name,
                      search->at.task, search->at.attempt);
        search->fd = open(str_text(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (search->fd < 0) {
            next_file(search);
            return;
        }
    }
    size_t wanted = pattern_is_regex(search->pattern) ? PATTERN_PIECE_BYTES : BUFFER_BYTES;
    ssize_t got = pread(search->fd, searches->buffer, wanted, (off_t)search->at.offset);
    if (got <= 0) {
        next_file(search);
        return;
    }
    size_t size = (size_t)got;
    bool is_end = size < wanted;
    search->used_bytes += size;
    scan_lines(search, flow, searches->buffer, whole_lines(searches->buffer, size, is_end));
    if (is_end && !api_page_is_full(&search->page)) {
        next_file(search);
    }
}

/* Moves to the next log that may be there; false: that was the last. */
static bool step(struct api_searches *searches, struct search *search, const struct flow *flow)
{
    const struct recipe *recipe = flow->recipe;
    if (search->at.order >= recipe->experiment_count) {
        return false;
    }
    uint32_t number = recipe_order(recipe)[search->at.order];
    const struct experiment *experiment = &recipe->experiments[number];
    if (search->at.task >= experiment->task_count ||
        (search->experiment[0] && strcmp(search->experiment, experiment->name) != 0)) {
        search->at = (struct place){.order = search->at.order + 1, .attempt = 1, .line = 1};
        return true;
    }
    struct core_task_view view;
    core_task_view(server_core(searches->server), flow->number, number, search->at.task, &view);
    if (search->at.attempt > view.attempt) {
        search->at = (struct place){
            .order = search->at.order, .task = search->at.task + 1, .attempt = 1, .line = 1};
        return true;
    }
    search_piece(searches, search, flow);
    return true;
}

/* --- answering ------------------------------------------------------------------------------- */

static void reply(struct api_searches *searches, struct search *search, const struct flow *flow,
                  bool complete)
{
    struct json *json = &search->page.json;
    const struct place *at = &search->at;
    json_end(json);
    json_key(json, "next");
    if (complete) {
        json_null(json);
    } else {
        char next[128];
        snprintf(next, sizeof next, "%" PRIu32 ".%" PRIu64 ".%" PRIu32 ".%" PRIu64 ".%" PRIu64,
                 recipe_order(flow->recipe)[at->order], at->task, at->attempt, at->offset,
                 at->line);
        json_text(json, next);
    }
    json_key(json, "complete");
    json_bool(json, complete);
    json_end(json);
    struct http_reply answer = {
        .status = 200,
        .content_type = "application/json",
        .body = str_text(&search->page.body),
        .body_size = search->page.body.size,
    };
    server_reply(searches->server, search->id, &answer, 0);
}

/* A slice of work; true when the search was answered. */
static bool work(struct api_searches *searches, struct search *search)
{
    const struct flow *flow = server_flow(searches->server, search->workflow);
    int64_t began_us = clock_mono_us();
    bool more = flow != NULL;
    unsigned steps = 0;
    while (more && !api_page_is_full(&search->page) && search->used_bytes < WORK_BYTES) {
        more = step(searches, search, flow);
        bool costly = search->fd >= 0 || steps % 64 == 0; /* a clock is dearer than a short step */
        if (costly && clock_mono_us() - began_us >= SLICE_US) {
            break;
        }
        steps++;
    }
    search->used_us += clock_mono_us() - began_us;
    bool done = !more || api_page_is_full(&search->page) || search->used_bytes >= WORK_BYTES ||
                search->used_us >= WORK_US;
    if (done) {
        bool complete = !flow || search->at.order >= flow->recipe->experiment_count;
        reply(searches, search, flow, complete);
    }
    return done;
}

void api_searches_tick(struct api_searches *searches)
{
    if (searches->count > 0) {
        size_t i = searches->turn++ % searches->count;
        if (work(searches, searches->items[i])) {
            search_free(searches->items[i]);
            searches->items[i] = searches->items[--searches->count];
        }
    }
}

int64_t api_searches_due_ms(const struct api_searches *searches)
{
    return searches->count > 0 ? 0 : INT64_MAX;
}

/* EXPERIMENT.TASK.ATTEMPT.OFFSET.LINE */
static bool read_cursor(const char *text, const struct flow *flow, struct place *out)
{
    uint64_t parts[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        char *end = NULL;
        if (text[0] < '0' || text[0] > '9') {
            return false;
        }
        parts[i] = strtoull(text, &end, 10);
        if (*end != (i < 4 ? '.' : '\0')) {
            return false;
        }
        text = end + 1;
    }
    *out = (struct place){
        .task = parts[1], .attempt = (uint32_t)parts[2], .offset = parts[3], .line = parts[4]};
    while (out->order < flow->recipe->experiment_count &&
           recipe_order(flow->recipe)[out->order] != parts[0]) {
        out->order++;
    }
    return out->order < flow->recipe->experiment_count && parts[2] > 0 && parts[2] <= UINT32_MAX &&
           parts[3] <= INT64_MAX;
}

/* False: answered. */
static bool check_search(struct api_call *call, const struct flow *flow, struct place *at)
{
    const char *after = api_text(call, "after");
    *at = (struct place){.attempt = 1, .line = 1};
    if (after[0] && !read_cursor(after, flow, at)) {
        api_fail(call, 400, "after: not a cursor of this search");
        return false;
    }
    if (call->api->searches->count >= API_SEARCHES_MAX) {
        api_fail(call, 503, "%d searches are under way already", API_SEARCHES_MAX);
        return false;
    }
    return true;
}

void api_search_logs(struct api_call *call)
{
    struct api_searches *searches = call->api->searches;
    const struct flow *flow = api_find_flow(call);
    struct place at;
    if (!flow || !check_search(call, flow, &at)) {
        return;
    }
    struct pattern *pattern = NULL;
    struct err err = {0};
    if (pattern_create(api_text(call, "text"), api_flag(call, "regex"), &pattern, &err) != ERR_OK) {
        api_fail(call, 400, "text: %s", err.text);
        return;
    }
    struct search *search = mem_alloc(sizeof *search);
    search->fd = -1;
    search->id = call->request->id;
    search->workflow = flow->number;
    search->experiment = mem_strdup(api_text(call, "experiment"));
    search->pattern = pattern;
    search->at = at;
    api_page_begin(&search->page, call);
    api_later(call);
    searches->items[searches->count++] = search;
}
