#include "master/keeper.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum {
    GATHER_BYTES_MAX = 1 << 20,
    BURST_COMMITS = 8,
    BURST_GAP_MS = 10,
    PAUSE_FIRST_MS = 20,
    PAUSE_MAX_MS = 1000
};

enum post_kind { POST_FACTS, POST_SNAPSHOT, POST_DOCUMENT, POST_STOP };

/* What travels to the keeper, followed by its bytes. */
struct post {
    enum post_kind kind;
    uint32_t count;
    uint64_t first; /* SNAPSHOT: upto; DOCUMENT: bytes of the name; STOP: patience in ms */
};

struct keeper {
    pthread_t thread;
    void *socket; /* the master's end */
    void *context;
    struct store *store;
    int sync_fd;
    bool all_durable; /* written by the thread before it ends, read after the join */
};

/* --- the thread ------------------------------------------------------------------------------ */

struct worker {
    struct keeper *keeper;
    void *socket;
    struct rng jitter;
    struct str batch;
    uint64_t batch_first;
    uint32_t batch_count;
    int64_t committed_ms; /* when the last commit ended */
    int burst;            /* commits that followed each other quickly */
    int64_t give_up_ms;   /* after STOP: no retry beyond this; else INT64_MAX */
    bool in_trouble;
    bool stopping;
    bool failed;
    zmq_msg_t *held; /* posts that came while the store was in trouble, in their order */
    size_t held_head;
    size_t held_count;
    size_t held_cap;
};

static void tell(struct worker *worker, const struct keeper_news *news)
{
    zmq_send(worker->socket, news, sizeof *news, 0);
}

static bool may_retry(struct worker *worker, enum err_code code)
{
    bool passing = code == ERR_IO || code == ERR_QUOTA || code == ERR_AGAIN || code == ERR_TIMEOUT;
    return passing && clock_mono_ms() < worker->give_up_ms;
}

/* Keeps what comes for later, but heeds a STOP at once, whatever stands before it. */
static void hold_post(struct worker *worker)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, worker->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
        return;
    }
    const struct post *post = zmq_msg_data(&message);
    if (post->kind == POST_STOP) {
        worker->stopping = true;
        worker->give_up_ms = clock_mono_ms() + (int64_t)post->first;
        zmq_msg_close(&message);
        return;
    }
    VEC_PUSH(worker->held, worker->held_count, worker->held_cap) = message;
}

/* Watches for STOP while the store is in trouble. */
static void pause_and_watch(struct worker *worker, int64_t pause_ms)
{
    int64_t until_ms = clock_mono_ms() + pause_ms;
    bool was_stopping = worker->stopping;
    int64_t left_ms = pause_ms;
    while (left_ms > 0 && worker->stopping == was_stopping) {
        zmq_pollitem_t item = {.socket = worker->socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, left_ms) > 0) {
            hold_post(worker);
        }
        left_ms = until_ms - clock_mono_ms();
    }
}

typedef enum err_code (*attempt_fn)(struct worker *worker, const void *argument, struct err *err);

/* Runs fn until it succeeds or there is no point any more; says so once each way. */
static bool persist(struct worker *worker, attempt_fn fn, const void *argument)
{
    int64_t pause_ms = PAUSE_FIRST_MS;
    for (;;) {
        struct keeper_news news = {.kind = KEEPER_TROUBLE};
        enum err_code code = fn(worker, argument, &news.err);
        if (code == ERR_OK) {
            if (worker->in_trouble) {
                worker->in_trouble = false;
                tell(worker, &(struct keeper_news){.kind = KEEPER_RECOVERED});
            }
            return true;
        }
        if (!may_retry(worker, code)) {
            news.kind = KEEPER_FATAL;
            tell(worker, &news);
            worker->failed = true;
            return false;
        }
        /* one failure that the next try mends is not worth a word */
        if (!worker->in_trouble && pause_ms > 4 * (int64_t)PAUSE_FIRST_MS) {
            worker->in_trouble = true;
            tell(worker, &news);
        }
        int64_t spread = (int64_t)rng_below(&worker->jitter, (uint64_t)pause_ms / 2 + 1);
        pause_and_watch(worker, pause_ms / 2 + spread);
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
    }
}

static enum err_code try_append(struct worker *worker, const void *argument, struct err *err)
{
    (void)argument;
    struct store *store = worker->keeper->store;
    if (worker->keeper->sync_fd >= 0 && syncfs(worker->keeper->sync_fd) != 0) {
        return err_set(err, ERR_IO, "syncfs of the state folder failed");
    }
    enum err_code code = store->ops->append(store, worker->batch_first, worker->batch_count,
                                            str_text(&worker->batch), worker->batch.size, err);
    return code == ERR_EXISTS ? ERR_OK : code; /* the reply of an earlier try was lost */
}

static void commit_batch(struct worker *worker)
{
    if (worker->batch_count == 0 || worker->failed) {
        return;
    }
    if (persist(worker, try_append, NULL)) {
        tell(worker,
             &(struct keeper_news){.kind = KEEPER_DURABLE,
                                   .durable = worker->batch_first + worker->batch_count - 1});
        str_clear(&worker->batch);
        worker->batch_count = 0;
    }
    int64_t now_ms = clock_mono_ms();
    worker->burst = now_ms - worker->committed_ms < BURST_GAP_MS ? worker->burst + 1 : 0;
    worker->committed_ms = now_ms;
}

struct snapshot_post {
    uint64_t upto;
    const void *bytes;
    size_t size;
};

static enum err_code try_snapshot(struct worker *worker, const void *argument, struct err *err)
{
    const struct snapshot_post *snapshot = argument;
    struct store *store = worker->keeper->store;
    return store->ops->snapshot_put(store, snapshot->upto, snapshot->bytes, snapshot->size, err);
}

struct document_post {
    const char *name;
    const void *bytes;
    size_t size;
};

static enum err_code try_document(struct worker *worker, const void *argument, struct err *err)
{
    const struct document_post *document = argument;
    struct store *store = worker->keeper->store;
    return store->ops->doc_put(store, document->name, document->bytes, document->size, err);
}

static void put_document(struct worker *worker, const char *bytes, size_t name_size, size_t size)
{
    commit_batch(worker);
    struct document_post document = {
        .name = bytes, .bytes = bytes + name_size, .size = size - name_size};
    if (!worker->failed && persist(worker, try_document, &document)) {
        tell(worker, &(struct keeper_news){.kind = KEEPER_DOCUMENT});
    }
}

static void add_post(struct worker *worker, zmq_msg_t *message)
{
    const struct post *post = zmq_msg_data(message);
    const char *bytes = (const char *)(post + 1);
    size_t size = zmq_msg_size(message) - sizeof *post;
    switch (post->kind) {
    case POST_FACTS:
        if (worker->batch_count == 0) {
            worker->batch_first = post->first;
        }
        CHECK(post->first == worker->batch_first + worker->batch_count);
        worker->batch_count += post->count;
        str_add_bytes(&worker->batch, bytes, size);
        break;
    case POST_SNAPSHOT:
        commit_batch(worker);
        if (!worker->failed) {
            struct snapshot_post snapshot = {.upto = post->first, .bytes = bytes, .size = size};
            persist(worker, try_snapshot, &snapshot);
        }
        break;
    case POST_DOCUMENT:
        put_document(worker, bytes, (size_t)post->first, size);
        break;
    case POST_STOP:
        worker->stopping = true;
        worker->give_up_ms = clock_mono_ms() + (int64_t)post->first;
        break;
    }
}

/* Takes one post, waiting at most timeout_ms; false when none came. */
static bool take_post(struct worker *worker, int64_t timeout_ms)
{
    zmq_msg_t message;
    if (worker->held_head < worker->held_count) {
        message = worker->held[worker->held_head++];
    } else {
        worker->held_head = 0;
        worker->held_count = 0;
        zmq_pollitem_t item = {.socket = worker->socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, timeout_ms) <= 0) {
            return false;
        }
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, worker->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&message);
            return false;
        }
    }
    add_post(worker, &message);
    zmq_msg_close(&message);
    return true;
}

/* Gathers what comes within the linger time since the last commit, so that a busy master costs a
 * few hundred commits a second. The first of a burst are committed at once: a task that brings the
 * whole machine down soon after its start should find its assignment in the log. */
static void gather(struct worker *worker)
{
    int64_t linger_ms = worker->burst >= BURST_COMMITS ? KEEPER_LINGER_MS : 0;
    while (!worker->stopping && worker->batch.size < GATHER_BYTES_MAX) {
        int64_t wait_ms = worker->committed_ms + linger_ms - clock_mono_ms();
        if (!take_post(worker, wait_ms > 0 ? wait_ms : 0)) {
            break;
        }
    }
}

static void *keeper_thread(void *argument)
{
    struct keeper *keeper = argument;
    struct worker worker = {.keeper = keeper,
                            .give_up_ms = INT64_MAX,
                            .jitter = {.state = (uint64_t)(uintptr_t)keeper}};
    worker.socket = zmq_socket(keeper->context, ZMQ_PAIR);
    CHECK(worker.socket);
    int no_limit = 0;
    zmq_setsockopt(worker.socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    zmq_setsockopt(worker.socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    CHECK(zmq_connect(worker.socket, "inproc://keeper") == 0);
    while (!worker.stopping) {
        take_post(&worker, -1);
        gather(&worker);
        commit_batch(&worker);
    }
    while (take_post(&worker, 0)) {
    }
    commit_batch(&worker);
    keeper->all_durable = !worker.failed && worker.batch_count == 0;
    keeper->store->ops->close(keeper->store);
    str_release(&worker.batch);
    free(worker.held);
    int linger_ms = 0;
    zmq_setsockopt(worker.socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_close(worker.socket);
    return NULL;
}

/* --- the master's side ----------------------------------------------------------------------- */

struct keeper *keeper_start(const struct keeper_options *options)
{
    struct keeper *keeper = mem_alloc(sizeof *keeper);
    keeper->context = options->zmq_context;
    keeper->store = options->store;
    keeper->sync_fd = options->sync_fd;
    keeper->socket = zmq_socket(keeper->context, ZMQ_PAIR);
    CHECK(keeper->socket);
    /* unbounded here: the master bounds what is outstanding by pausing dispatch */
    int no_limit = 0;
    zmq_setsockopt(keeper->socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    zmq_setsockopt(keeper->socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    CHECK(zmq_bind(keeper->socket, "inproc://keeper") == 0);
    CHECK(pthread_create(&keeper->thread, NULL, keeper_thread, keeper) == 0);
    return keeper;
}

static void send_post(struct keeper *keeper, const struct post *post, const void *bytes,
                      size_t size)
{
    zmq_msg_t message;
    CHECK(zmq_msg_init_size(&message, sizeof *post + size) == 0);
    memcpy(zmq_msg_data(&message), post, sizeof *post);
    if (size > 0) {
        memcpy((char *)zmq_msg_data(&message) + sizeof *post, bytes, size);
    }
    CHECK(zmq_msg_send(&message, keeper->socket, 0) >= 0);
}

void keeper_post(struct keeper *keeper, uint64_t first, uint32_t count, const void *bytes,
                 size_t size)
{
    send_post(keeper, &(struct post){.kind = POST_FACTS, .first = first, .count = count}, bytes,
              size);
}

void keeper_post_snapshot(struct keeper *keeper, uint64_t upto, const void *bytes, size_t size)
{
    send_post(keeper, &(struct post){.kind = POST_SNAPSHOT, .first = upto}, bytes, size);
}

void keeper_post_document(struct keeper *keeper, const char *name, const void *bytes, size_t size)
{
    size_t name_size = strlen(name) + 1;
    struct str both = {0};
    str_add_bytes(&both, name, name_size);
    str_add_bytes(&both, bytes, size);
    send_post(keeper, &(struct post){.kind = POST_DOCUMENT, .first = name_size}, str_text(&both),
              both.size);
    str_release(&both);
}

void *keeper_socket(struct keeper *keeper)
{
    return keeper->socket;
}

bool keeper_read(struct keeper *keeper, struct keeper_news *news)
{
    return zmq_recv(keeper->socket, news, sizeof *news, ZMQ_DONTWAIT) == (int)sizeof *news;
}

bool keeper_wait(struct keeper *keeper, int timeout_ms, struct keeper_news *news)
{
    zmq_pollitem_t item = {.socket = keeper->socket, .events = ZMQ_POLLIN};
    return zmq_poll(&item, 1, timeout_ms) > 0 && keeper_read(keeper, news);
}

bool keeper_stop(struct keeper *keeper, int patience_ms)
{
    send_post(keeper, &(struct post){.kind = POST_STOP, .first = (uint64_t)patience_ms}, NULL, 0);
    CHECK(pthread_join(keeper->thread, NULL) == 0);
    zmq_close(keeper->socket);
    bool all_durable = keeper->all_durable;
    free(keeper);
    return all_durable;
}
