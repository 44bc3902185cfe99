#include "master/depot.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "master/depot_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

struct depot {
    pthread_t thread;
    void *socket; /* the owner's end */
    uint16_t port;
    struct depot_counts counts;
    struct box *box; /* what the last event points to */
};

void depot_post_free(struct post *post)
{
    if (post) {
        for (size_t i = 0; i < post->text_count; i++) {
            free(post->texts[i]);
        }
        if (post->request.release) {
            post->request.release(post->request.owner);
        }
        free(post->texts);
        free(post->text);
        free(post);
    }
}

void depot_box_free(struct box *box)
{
    if (box) {
        for (size_t i = 0; i < sizeof box->texts / sizeof box->texts[0]; i++) {
            free(box->texts[i]);
        }
        free(box);
    }
}

/* --- the owner's side ------------------------------------------------------------------------ */

static void send_pointer(void *socket, void *pointer)
{
    while (zmq_send(socket, &pointer, sizeof pointer, 0) < 0 && zmq_errno() == EINTR) {
    }
}

static void *receive_pointer(void *socket)
{
    void *pointer = NULL;
    int size = 0;
    do {
        size = zmq_recv(socket, &pointer, sizeof pointer, ZMQ_DONTWAIT);
    } while (size < 0 && zmq_errno() == EINTR);
    return size == (int)sizeof pointer ? pointer : NULL;
}

static struct post *make_post(enum post_kind kind, uint64_t number, const char *text)
{
    struct post *post = mem_alloc(sizeof *post);
    post->kind = kind;
    post->number = number;
    post->text = mem_strdup(text ? text : "");
    return post;
}

static void set_texts(struct post *post, const char *const *texts, size_t count)
{
    post->texts = mem_array(count + 1, sizeof *post->texts);
    post->text_count = count;
    for (size_t i = 0; i < count; i++) {
        post->texts[i] = mem_strdup(texts[i]);
    }
}

void depot_flow(struct depot *depot, const struct depot_flow *flow)
{
    CHECK(flow->folder[0] == '/');
    struct post *post = make_post(POST_FLOW, flow->number, flow->folder);
    set_texts(post, flow->experiments, flow->experiment_count);
    send_pointer(depot->socket, post);
}

void depot_end_flow(struct depot *depot, uint32_t number)
{
    send_pointer(depot->socket, make_post(POST_END_FLOW, number, NULL));
}

void depot_answer(struct depot *depot, uint64_t question, enum err_code verdict, const char *why,
                  uint64_t log_limit_bytes, uint64_t checkpoint)
{
    struct post *post = make_post(POST_ANSWER, question, why);
    post->verdict = verdict;
    post->log_limit_bytes = log_limit_bytes;
    post->checkpoint = checkpoint;
    send_pointer(depot->socket, post);
}

void depot_forget_node(struct depot *depot, const char *key)
{
    send_pointer(depot->socket, make_post(POST_FORGET, 0, key));
}

void depot_welcome_node(struct depot *depot, const char *key)
{
    send_pointer(depot->socket, make_post(POST_WELCOME, 0, key));
}

void depot_post_http(struct depot *depot, const struct depot_request *request)
{
    struct post *post = make_post(POST_HTTP, request->id, NULL);
    post->request = *request;
    send_pointer(depot->socket, post);
}

void depot_keep_code(struct depot *depot, const char *const *versions, size_t count)
{
    struct post *post = make_post(POST_KEEP, 0, NULL);
    set_texts(post, versions, count);
    send_pointer(depot->socket, post);
}

bool depot_has_code(const char *state_folder, const char *version)
{
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/code", state_folder);
    return code_has_version(str_text(&folder), version);
}

void *depot_socket(const struct depot *depot)
{
    return depot->socket;
}

uint16_t depot_port(const struct depot *depot)
{
    return depot->port;
}

void depot_counts(const struct depot *depot, struct depot_counts *out)
{
    *out = depot->counts;
}

bool depot_next(struct depot *depot, struct depot_event *out)
{
    for (;;) {
        depot_box_free(depot->box);
        depot->box = receive_pointer(depot->socket);
        if (!depot->box) {
            return false;
        }
        if (!depot->box->is_counts) {
            *out = depot->box->event;
            return true;
        }
        depot->counts = depot->box->counts;
    }
}

/* --- the thread ------------------------------------------------------------------------------ */

void depot_worker_tell(struct worker *worker, struct box *box)
{
    struct depot_event *event = &box->event;
    event->key = event->key ? event->key : "";
    event->name = event->name ? event->name : "";
    event->content_type = event->content_type ? event->content_type : "";
    event->body = event->body ? event->body : "";
    event->text = event->text ? event->text : "";
    send_pointer(worker->owner, box);
}

void depot_worker_ask(struct worker *worker, struct load *load, enum depot_ask ask)
{
    struct box *box = mem_alloc(sizeof *box);
    box->texts[0] = mem_strdup(load->peer->key);
    box->texts[1] = mem_strdup(load->name ? load->name : "");
    box->event.kind = DEPOT_QUESTION;
    box->event.number = ++worker->next_question;
    box->event.ask = ask;
    box->event.key = box->texts[0];
    box->event.name = box->texts[1];
    if (ask != DEPOT_READ_CODE) {
        box->event.id = load->id;
    }
    load->question = box->event.number;
    depot_worker_tell(worker, box);
}

void depot_worker_trouble(struct worker *worker, const char *text)
{
    worker->trouble_ms = worker->now_ms;
    if (!worker->in_trouble) {
        worker->in_trouble = true;
        struct box *box = mem_alloc(sizeof *box);
        box->event.kind = DEPOT_TROUBLE;
        box->texts[0] = mem_strdup(text);
        box->event.text = box->texts[0];
        depot_worker_tell(worker, box);
    }
}

void depot_worker_recovered(struct worker *worker)
{
    /* one write that fits between two that do not is no recovery */
    if (worker->in_trouble && worker->now_ms - worker->trouble_ms > 2 * (int64_t)WAIT_FULL_MS) {
        worker->in_trouble = false;
        struct box *box = mem_alloc(sizeof *box);
        box->event.kind = DEPOT_RECOVERED;
        depot_worker_tell(worker, box);
    }
}

static void take_answer(struct worker *worker, const struct post *post)
{
    struct load *load = depot_load_by_question(worker, post->number);
    if (!load) {
        return; /* dropped meanwhile */
    }
    load->question = 0;
    load->heard_ms = worker->now_ms;
    load->peer->is_known = load->peer->is_known || post->verdict == ERR_OK;
    load->checkpoint = post->verdict == ERR_OK ? post->checkpoint : load->checkpoint;
    if (post->verdict != ERR_OK && post->verdict != ERR_AGAIN) {
        worker->counts.refused++;
        depot_say_no(worker, load->peer, load->ticket, post->verdict, post->text);
        depot_load_free(worker, load);
    } else if (load->is_up) {
        depot_up_answered(worker, load, post);
    } else {
        depot_down_answered(worker, load, post);
    }
}

static void forget(struct worker *worker, const char *key)
{
    struct peer *peer = depot_peer_find(worker, key, true);
    depot_peer_drop_loads(worker, peer);
    peer->is_denied = true;
}

/* Takes the post over. */
static void take_post(struct worker *worker, struct post *post)
{
    struct peer *peer = NULL;
    switch (post->kind) {
    case POST_FLOW:
        depot_flow_set(worker, post);
        break;
    case POST_END_FLOW:
        depot_flow_end(worker, (uint32_t)post->number);
        break;
    case POST_ANSWER:
        take_answer(worker, post);
        break;
    case POST_FORGET:
        forget(worker, post->text);
        break;
    case POST_WELCOME:
        peer = depot_peer_find(worker, post->text, false);
        if (peer) {
            peer->is_denied = false;
        }
        break;
    case POST_HTTP:
        depot_code_answer(worker, &post->request);
        break;
    case POST_KEEP:
        code_prune(worker->code, (const char *const *)post->texts, post->text_count,
                   INT64_C(24) * 60 * 60 * 1000);
        break;
    case POST_STOP:
        worker->is_stopping = true;
        break;
    }
    depot_post_free(post);
}

/* Takes the message over. */
static void take_message(struct worker *worker, struct peer *peer, Drover__ToDepot *message,
                         size_t size)
{
    struct load *load = depot_load_find(peer, message->ticket);
    if (load) {
        load->heard_ms = worker->now_ms;
    }
    if (message->drop) {
        if (load && load->staging) {
            depot_trash_take(worker, load->staging);
        }
        depot_load_free(worker, load);
        bulk_free_to_depot(message);
    } else if (message->put) {
        depot_up_put(worker, peer, message, size);
    } else if (message->get) {
        depot_down_get(worker, peer, message, size);
    } else if (load && load->is_up) {
        depot_up_go_on(worker, load, message);
    } else if (load) {
        depot_down_taken(worker, load, message);
        bulk_free_to_depot(message);
    } else {
        /* an acknowledgement of what is over needs no answer */
        if (message->piece || message->end) {
            depot_say_unknown(worker, peer, message->ticket);
        }
        bulk_free_to_depot(message);
    }
}

/* False: none waits. */
static bool receive_one(struct worker *worker)
{
    struct door_sender sender;
    const void *bytes = NULL;
    size_t size = 0;
    enum err_code code = door_receive(worker->router, worker->frame, &sender, &bytes, &size, NULL);
    if (code == ERR_INVALID) {
        worker->counts.bad++;
        return true;
    }
    if (code != ERR_OK) {
        return false;
    }
    Drover__ToDepot *message = NULL;
    if (bulk_parse_to_depot(bytes, size, &message, NULL) != ERR_OK) {
        worker->counts.bad++;
        return true;
    }
    struct peer *peer = depot_peer_find(worker, sender.key, worker->peer_count < PEERS_MAX);
    if (!peer) {
        worker->counts.bad++;
        bulk_free_to_depot(message);
        return true;
    }
    peer->route = sender;
    peer->heard_ms = worker->now_ms;
    if (peer->is_denied) {
        depot_say_no(worker, peer, message->ticket, ERR_DENIED, "this node was sent away");
        bulk_free_to_depot(message);
        return true;
    }
    if (peer->boot != message->boot) {
        depot_peer_drop_loads(worker, peer);
        peer->boot = message->boot;
        peer->done_next = 0;
        memset(peer->done, 0, sizeof peer->done);
        depot_flow_clear_boots(worker, peer);
    }
    take_message(worker, peer, message, size);
    return true;
}

static void tick(struct worker *worker)
{
    if (worker->now_ms - worker->ticked_ms < TICK_MS) {
        return;
    }
    worker->ticked_ms = worker->now_ms;
    depot_peer_expire(worker);
    worker->counts.peers = worker->peer_count;
    if (memcmp(&worker->counts, &worker->told, sizeof worker->told) != 0) {
        worker->told = worker->counts;
        struct box *box = mem_alloc(sizeof *box);
        box->is_counts = true;
        box->counts = worker->counts;
        send_pointer(worker->owner, box);
    }
}

static void release_worker(struct worker *worker)
{
    depot_peer_free_all(worker);
    depot_flow_release(worker);
    depot_unpack_release(worker);
    for (size_t i = 0; i < worker->trash_count; i++) {
        free(worker->trash[i]); /* the rest is found by its age */
    }
    free(worker->trash);
    code_close(worker->code);
    bulk_pool_close(worker->here);
    door_frame_destroy(worker->frame);
    if (worker->router) {
        zmq_close(worker->router);
    }
    if (worker->owner) {
        struct post *post = NULL;
        while ((post = receive_pointer(worker->owner))) {
            depot_post_free(post);
        }
        zmq_close(worker->owner);
    }
    free(worker->state_folder);
    free(worker);
}

static void *worker_thread(void *argument)
{
    struct worker *worker = argument;
    bool has_more = false;
    while (!worker->is_stopping) {
        zmq_pollitem_t items[] = {{.socket = worker->owner, .events = ZMQ_POLLIN},
                                  {.socket = worker->router, .events = ZMQ_POLLIN}};
        bool is_busy = has_more || worker->trash_count > 0;
        if (zmq_poll(items, 2, is_busy ? 0 : TICK_MS) < 0 && zmq_errno() == ETERM) {
            break;
        }
        worker->now_ms = clock_mono_ms();
        struct post *post = NULL;
        while (!worker->is_stopping && (post = receive_pointer(worker->owner))) {
            take_post(worker, post);
        }
        /* libzmq takes from its peers in turn: none can shut the others out */
        for (int i = 0; i < 64 && receive_one(worker); i++) {
        }
        has_more = depot_down_pump(worker);
        has_more = depot_unpack_turn(worker) || has_more;
        depot_trash_turn(worker);
        tick(worker);
    }
    release_worker(worker);
    return NULL;
}

/* --- starting and stopping ------------------------------------------------------------------- */

static void *make_pair(void *context, const char *endpoint, bool binds)
{
    void *socket = zmq_socket(context, ZMQ_PAIR);
    int zero = 0;
    int forever = -1; /* what was said last can still be taken */
    if (!socket) {
        return NULL;
    }
    zmq_setsockopt(socket, ZMQ_SNDHWM, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_LINGER, &forever, sizeof forever);
    int failed = binds ? zmq_bind(socket, endpoint) : zmq_connect(socket, endpoint);
    if (failed != 0) {
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

static void read_boot_id(struct worker *worker)
{
    AUTO_STR struct str text = {0};
    if (io_read_file("/proc/sys/kernel/random/boot_id", 4096, &text, NULL) == ERR_OK) {
        snprintf(worker->boot_id, sizeof worker->boot_id, "%.36s", str_text(&text));
    }
}

static enum err_code open_worker(struct worker *worker, const struct depot_options *options,
                                 uint16_t *port, struct err *err)
{
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/code", options->state_folder);
    enum err_code code = code_open(str_text(&folder), &worker->code, err);
    if (code != ERR_OK) {
        return code;
    }
    *port = options->port;
    code =
        bulk_bind(options->zmq_context, options->host, port, options->keys, &worker->router, err);
    if (code == ERR_EXISTS && options->port_is_wish) {
        *port = 0;
        code = bulk_bind(options->zmq_context, options->host, port, options->keys, &worker->router,
                         err);
    }
    return code;
}

enum err_code depot_start(const struct depot_options *options, struct depot **out, struct err *err)
{
    CHECK(options->state_folder[0] == '/');
    struct depot *depot = mem_alloc(sizeof *depot);
    struct worker *worker = mem_alloc(sizeof *worker);
    worker->context = options->zmq_context;
    worker->state_folder = mem_strdup(options->state_folder);
    worker->output_bytes_max =
        options->output_bytes_max ? options->output_bytes_max : UINT64_C(1) << 40;
    worker->frame = door_frame_create();
    worker->now_ms = clock_mono_ms();
    read_boot_id(worker);
    enum err_code code = open_worker(worker, options, &depot->port, err);
    char
        endpoint[80]; /* of this one alone: another that lay at this address may still be closing */
    snprintf(endpoint, sizeof endpoint, "inproc://depot-%p-%lld", (void *)depot,
             (long long)clock_mono_us());
    if (code == ERR_OK) {
        depot->socket = make_pair(options->zmq_context, endpoint, true);
        worker->owner = depot->socket ? make_pair(options->zmq_context, endpoint, false) : NULL;
        if (!worker->owner || thread_start(&depot->thread, worker_thread, worker) != 0) {
            code = err_set(err, ERR_IO, "cannot start the thread for large transfers");
        }
    }
    if (code != ERR_OK) {
        release_worker(worker);
        if (depot->socket) {
            zmq_close(depot->socket);
        }
        free(depot);
        return code;
    }
    *out = depot;
    return ERR_OK;
}

void depot_stop(struct depot *depot)
{
    if (depot) {
        send_pointer(depot->socket, make_post(POST_STOP, 0, NULL));
        pthread_join(depot->thread, NULL);
        struct box *box = NULL;
        while ((box = receive_pointer(depot->socket))) {
            depot_box_free(box);
        }
        depot_box_free(depot->box);
        zmq_close(depot->socket);
        free(depot);
    }
}
