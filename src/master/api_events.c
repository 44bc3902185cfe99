/* api_events.c - the event stream: the last events in a ring, and a place in it for each stream.
 *
 * A task's event is kept as numbers and made into text when somebody wants it, once for all streams
 * that are up to date; so a server that nobody watches pays next to nothing. An id is
 * (term << 40) + n: it grows by one, and one from before a restart is known to be old. */
#include "base/mem.h"
#include "master/api.h"
#include "master/api_cost.h"
#include "master/status_json.h"
#include "master/words.h"

#include <inttypes.h>
#include <string.h>

enum {
    TERM_SHIFT = 40,
    TEXT_MAX = 400,         /* of a detail or note; the rest is cut */
    PIECE_BYTES = 64 << 10, /* pushed at once */
    KEEP_ALIVE_MS = 15000,
    BEHIND_MS = 100,         /* between two looks at a stream that is behind */
    BURST_BYTES = 512 << 10, /* well below HTTP_STREAM_BYTES_MAX */
    BYTES_PER_MS = 2000,
};

enum event_kind { EVENT_TASK, EVENT_EXPERIMENT, EVENT_WORKFLOW, EVENT_NODE, EVENT_NOTE };

static const char *const kind_names[] = {"task", "experiment", "workflow", "node", "note"};

struct event {
    enum event_kind kind;
    uint32_t workflow;
    uint32_t experiment;
    uint32_t attempt;
    uint32_t node;
    uint32_t code;
    enum core_task_state state;
    enum core_outcome outcome;
    uint64_t task;
    int64_t at_ms;
    char *text; /* detail or note; of experiments and workflows the whole data; or NULL */
};

struct stream {
    uint64_t id;       /* the request's */
    uint32_t workflow; /* 0: all */
    uint64_t next;     /* number of the first event it has not got */
    struct api_budget budget;
    int64_t pushed_ms;
};

struct api_events {
    struct server *server;
    struct event *items; /* number n is at (n - 1) % API_EVENTS_MAX */
    size_t count;
    size_t cap;
    uint64_t last; /* number of the newest */
    struct stream streams[API_STREAMS_MAX];
    size_t stream_count;
    struct str scratch;
};

void api_budget_fill(struct api_budget *budget, int64_t now_ms)
{
    if (budget->at_ms == 0 || now_ms - budget->at_ms > BURST_BYTES / BYTES_PER_MS) {
        budget->bytes = BURST_BYTES;
    } else {
        budget->bytes += (now_ms - budget->at_ms) * BYTES_PER_MS;
        budget->bytes = budget->bytes > BURST_BYTES ? BURST_BYTES : budget->bytes;
    }
    budget->at_ms = now_ms;
}

struct api_events *api_events_create(struct server *server)
{
    struct api_events *events = mem_alloc(sizeof *events);
    events->server = server;
    return events;
}

void api_events_destroy(struct api_events *events)
{
    if (events) {
        for (size_t i = 0; i < events->count; i++) {
            free(events->items[i].text);
        }
        free(events->items);
        str_release(&events->scratch);
        free(events);
    }
}

size_t api_events_stream_count(const struct api_events *events)
{
    return events->stream_count;
}

/* The first number still in the ring. */
static uint64_t first_of(const struct api_events *events)
{
    return events->last - events->count + 1;
}

static uint64_t id_of(const struct api_events *events, uint64_t number)
{
    return ((uint64_t)core_term(server_core(events->server)) << TERM_SHIFT) + number;
}

uint64_t api_events_last_id(const struct api_events *events)
{
    return id_of(events, events->last);
}

/* --- text ------------------------------------------------------------------------------------ */

static void add_workflow(struct json *json, const struct server *server, uint32_t number)
{
    const struct flow *flow = number ? server_flow(server, number) : NULL;
    json_key(json, "workflow");
    if (flow) {
        json_text(json, flow->id);
    } else {
        json_null(json);
    }
}

static void add_experiment_name(struct json *json, const struct server *server,
                                const struct event *event)
{
    const struct flow *flow = server_flow(server, event->workflow);
    if (flow && event->experiment < flow->recipe->experiment_count) {
        json_key(json, "experiment");
        json_text(json, flow->recipe->experiments[event->experiment].name);
    }
}

static void add_task_data(struct json *json, const struct server *server, const struct event *event)
{
    const char *node = api_node_name(server, event->node);
    add_experiment_name(json, server, event);
    json_key(json, "task");
    json_u64(json, event->task);
    json_key(json, "state");
    json_text(json, words_task_state(event->state));
    json_key(json, "attempt");
    json_u64(json, event->attempt);
    json_key(json, "node");
    if (node && event->attempt > 0) {
        json_text(json, node);
    } else {
        json_null(json);
    }
    json_key(json, "outcome");
    json_text(json, words_outcome(event->outcome));
    json_key(json, "exit_code");
    if (event->outcome == OUT_EXITED) {
        json_u64(json, event->code);
    } else {
        json_null(json);
    }
    AUTO_STR struct str reason = {0};
    words_add_outcome(&reason, event->outcome, event->code, event->text);
    json_key(json, "reason");
    if (reason.size > 0) {
        json_text(json, str_text(&reason));
    } else {
        json_null(json);
    }
}

static void add_data(struct str *out, const struct server *server, const struct event *event)
{
    struct json json = {.out = out};
    const char *node = event->kind == EVENT_NODE ? api_node_name(server, event->node) : NULL;
    json_object(&json);
    if (event->kind != EVENT_NODE) {
        add_workflow(&json, server, event->workflow);
    }
    switch (event->kind) {
    case EVENT_TASK:
        add_task_data(&json, server, event);
        break;
    case EVENT_EXPERIMENT: {
        struct core_experiment_view view = {0};
        core_experiment_view(server_core(server), event->workflow, event->experiment, &view);
        add_experiment_name(&json, server, event);
        json_key(&json, "ended");
        json_bool(&json, view.ended);
        status_json_add_counts(&json, &view);
        break;
    }
    case EVENT_WORKFLOW:
        json_key(&json, "state");
        json_text(&json,
                  words_workflow_state(core_workflow_state(server_core(server), event->workflow)));
        break;
    case EVENT_NODE:
        json_key(&json, "node");
        json_text(&json, node ? node : "");
        json_key(&json, "number");
        json_u64(&json, event->node);
        json_key(&json, "state");
        json_text(&json, event->text ? event->text : "");
        break;
    case EVENT_NOTE:
        json_key(&json, "text");
        json_text(&json, event->text ? event->text : "");
        break;
    }
    words_json_time(&json, "at", event->at_ms);
    json_end(&json);
}

static void add_event(struct str *out, const struct api_events *events, uint64_t number)
{
    const struct event *event = &events->items[(number - 1) % API_EVENTS_MAX];
    str_addf(out, "id: %" PRIu64 "\nevent: %s\ndata: ", id_of(events, number),
             kind_names[event->kind]);
    if (event->kind == EVENT_EXPERIMENT || event->kind == EVENT_WORKFLOW) {
        str_add(out, event->text);
    } else {
        add_data(out, events->server, event);
    }
    str_add(out, "\n\n");
}

/* --- streams --------------------------------------------------------------------------------- */

static void push(struct api_events *events, struct stream *stream, const struct str *text)
{
    int64_t now_ms = server_now_ms(events->server);
    http_push(server_http(events->server), stream->id, str_text(text), text->size);
    stream->budget.bytes -= (int64_t)text->size;
    stream->pushed_ms = now_ms;
}

static bool wants(const struct api_events *events, const struct stream *stream, uint64_t number)
{
    uint32_t workflow = events->items[(number - 1) % API_EVENTS_MAX].workflow;
    return stream->workflow == 0 || workflow == 0 || workflow == stream->workflow;
}

/* It cannot be told what it missed: it is told that, and where it is now. */
static void push_reset(struct api_events *events, struct stream *stream)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "id: %" PRIu64 "\nevent: reset\ndata: {}\n\n", id_of(events, events->last));
    stream->next = events->last + 1;
    push(events, stream, &text);
}

/* Sends what the stream has missed, as far as its budget goes. */
static void catch_up(struct api_events *events, struct stream *stream)
{
    api_budget_fill(&stream->budget, server_now_ms(events->server));
    if (stream->next < first_of(events)) {
        push_reset(events, stream);
    }
    while (stream->next <= events->last && stream->budget.bytes > 0) {
        AUTO_STR struct str piece = {0};
        while (stream->next <= events->last && piece.size < PIECE_BYTES) {
            if (wants(events, stream, stream->next)) {
                add_event(&piece, events, stream->next);
            }
            stream->next++;
        }
        if (piece.size > 0) {
            push(events, stream, &piece);
        }
    }
}

/* The newest event to all that have had the one before; others are caught up by the clock. */
static void push_newest(struct api_events *events)
{
    struct str *text = &events->scratch;
    str_clear(text);
    for (size_t i = 0; i < events->stream_count; i++) {
        struct stream *stream = &events->streams[i];
        if (stream->next != events->last) {
            continue;
        }
        if (!wants(events, stream, events->last)) {
            stream->next++;
            continue;
        }
        api_budget_fill(&stream->budget, server_now_ms(events->server));
        if (stream->budget.bytes > 0) {
            if (text->size == 0) {
                add_event(text, events, events->last);
            }
            push(events, stream, text);
            stream->next++;
        }
    }
}

static enum event_kind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            return (enum event_kind)i;
        }
    }
    return EVENT_NOTE;
}

void api_events_add(struct api_events *events, const struct server_event *from)
{
    const char *text = from->text ? from->text : "";
    struct event event = {
        .kind = kind_of(from->kind),
        .workflow = from->workflow,
        .experiment = from->experiment,
        .attempt = from->attempt,
        .node = from->node,
        .code = from->code,
        .state = from->state,
        .outcome = from->outcome,
        .task = from->task,
        .at_ms = from->at_ms,
        .text = text[0] ? mem_strndup(text, strnlen(text, TEXT_MAX)) : NULL,
    };
    if (event.kind == EVENT_EXPERIMENT || event.kind == EVENT_WORKFLOW) {
        /* what they say is how things stand now, so it is written down now */
        struct str data = {0};
        add_data(&data, events->server, &event);
        free(event.text);
        event.text = str_take(&data);
    }
    if (events->count < API_EVENTS_MAX) {
        VEC_PUSH(events->items, events->count, events->cap) = event;
    } else {
        struct event *oldest = &events->items[events->last % API_EVENTS_MAX];
        free(oldest->text);
        *oldest = event;
    }
    events->last++;
    push_newest(events);
}

void api_events_tick(struct api_events *events, int64_t now_ms)
{
    static const char keep_alive[] = ": \n\n";
    for (size_t i = 0; i < events->stream_count; i++) {
        struct stream *stream = &events->streams[i];
        if (stream->next <= events->last) {
            catch_up(events, stream);
        }
        if (now_ms - stream->pushed_ms >= KEEP_ALIVE_MS) {
            http_push(server_http(events->server), stream->id, keep_alive, sizeof keep_alive - 1);
            stream->pushed_ms = now_ms;
        }
    }
}

int64_t api_events_due_ms(const struct api_events *events)
{
    for (size_t i = 0; i < events->stream_count; i++) {
        if (events->streams[i].next <= events->last) {
            return events->streams[i].budget.at_ms + BEHIND_MS;
        }
    }
    return INT64_MAX;
}

void api_events_closed(struct api_events *events, uint64_t id)
{
    for (size_t i = 0; i < events->stream_count; i++) {
        if (events->streams[i].id == id) {
            events->streams[i] = events->streams[--events->stream_count];
            return;
        }
    }
}

/* Where to go on: after `last`, an id; 0: it must be told that it missed something. */
static uint64_t next_after(const struct api_events *events, const char *last)
{
    uint64_t id = 0;
    uint64_t zero = id_of(events, 0);
    if (!api_read_u64(last, &id) || id < zero || id - zero > events->last) {
        return 0;
    }
    return id - zero + 1;
}

void api_get_events(struct api_call *call)
{
    struct api_events *events = call->api->events;
    const char *last = call->request->last_event_id[0] ? call->request->last_event_id
                                                       : api_text(call, "last_event_id");
    struct stream stream = {.id = call->request->id,
                            .next = events->last + 1,
                            .pushed_ms = server_now_ms(call->server)};
    if (events->stream_count >= API_STREAMS_MAX) {
        api_fail(call, 503, "there are %d event streams already", API_STREAMS_MAX);
        return;
    }
    if (api_text(call, "workflow")[0]) {
        call->captures[0] = api_text(call, "workflow");
        const struct flow *flow = api_find_flow(call);
        if (!flow) {
            return;
        }
        stream.workflow = flow->number;
    }
    struct http_reply reply = {.status = 200, .content_type = "text/event-stream", .stream = true};
    api_reply(call, &reply, 0);
    /* an id without data: whoever loses the stream before the first event can come back, too */
    AUTO_STR struct str greeting = {0};
    uint64_t next = last[0] ? next_after(events, last) : events->last + 1;
    if (next > 0) {
        str_addf(&greeting, "retry: 1000\nid: %" PRIu64 "\n\n", id_of(events, next - 1));
    } else {
        str_add(&greeting, "retry: 1000\n\n");
    }
    api_budget_fill(&stream.budget, server_now_ms(call->server));
    push(events, &stream, &greeting);
    if (next == 0) {
        push_reset(events, &stream);
    } else {
        stream.next = next;
    }
    events->streams[events->stream_count++] = stream;
    catch_up(events, &events->streams[events->stream_count - 1]);
}
