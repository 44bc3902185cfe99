#include "master/webhook.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "http/lib.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum {
    FLIGHTS_MAX = 16,            /* calls under way at a time */
    ANSWER_BYTES_MAX = 64 << 10, /* an answer that goes on is cut off; its status counts */
    SECRET_BYTES_MAX = 64 << 10,
};

/* What travels to the thread: this, then url, secret file, id and body, without NULs. */
struct post {
    bool is_stop;
    int64_t patience_ms; /* of a stop */
    uint32_t url_size;
    uint32_t file_size; /* 0: no secret */
    uint32_t id_size;
    uint32_t body_size;
    uint64_t tag;
    int64_t finished_unix_ms;
};

struct webhook {
    pthread_t thread;
    void *socket;
    void *thread_socket; /* the thread's from its start */
    int64_t pause_ms;
    int64_t timeout_ms;
    bool all_done; /* written by the thread before it ends, read after the join */
    _Atomic uint64_t sent;
    _Atomic uint64_t failed;
    _Atomic uint64_t dropped;
    _Atomic uint64_t waiting;
};

/* --- the thread ------------------------------------------------------------------------------- */

struct call {
    TAILQ_ENTRY(call) link;
    char *url;
    char *secret_file; /* or NULL */
    char *id;
    uint64_t tag;
    int64_t finished_unix_ms;
    char *body;
    size_t body_size;
    int tries;
    int64_t due_ms;
    CURL *easy; /* while it is under way */
    struct curl_slist *headers;
    size_t answer_bytes;
};
TAILQ_HEAD(call_list, call);

struct worker {
    struct webhook *webhook;
    void *socket;
    int socket_fd;
    const struct lib_curl *curl; /* NULL: not loaded yet */
    CURLM *multi;
    struct call_list waiting;
    struct call_list flying;
    size_t flying_count;
    struct rng jitter;
    bool stopping;
    int64_t give_up_ms;
};

static void call_destroy(struct call *call)
{
    free(call->url);
    free(call->secret_file);
    free(call->id);
    free(call->body);
    free(call);
}

/* The host and its port: what may be shown of a URL. */
static void add_host(struct str *out, const char *url)
{
    const char *mark = strstr(url, "://");
    const char *host = mark ? mark + 3 : url;
    str_add_bytes(out, host, strcspn(host, "/?#"));
}

static void call_end(struct worker *worker, struct call *call, bool is_sent, const char *why)
{
    struct webhook_news news = {.tag = call->tag, .finished_unix_ms = call->finished_unix_ms};
    if (!is_sent) {
        AUTO_STR struct str host = {0};
        add_host(&host, call->url);
        err_set(&news.why, ERR_IO, "webhook of workflow %.100s to %.100s: %.150s (%d tries)",
                call->id, str_text(&host), why, call->tries);
    }
    zmq_send(worker->socket, &news, sizeof news, ZMQ_DONTWAIT);
    atomic_fetch_add(is_sent ? &worker->webhook->sent : &worker->webhook->failed, 1);
    atomic_fetch_sub(&worker->webhook->waiting, 1);
    call_destroy(call);
}

/* Tries again later, or gives up. */
static void call_failed(struct worker *worker, struct call *call, const char *why)
{
    if (call->tries >= WEBHOOK_TRIES) {
        call_end(worker, call, false, why);
        return;
    }
    int64_t pause_ms = worker->webhook->pause_ms << (call->tries - 1);
    pause_ms -= (int64_t)rng_below(&worker->jitter, (uint64_t)pause_ms / 4 + 1);
    call->due_ms = clock_mono_ms() + pause_ms;
    TAILQ_INSERT_TAIL(&worker->waiting, call, link);
}

static size_t drop_bytes(char *bytes, size_t one, size_t size, void *argument)
{
    (void)bytes;
    (void)one;
    struct call *call = argument;
    call->answer_bytes += size;
    return call->answer_bytes > ANSWER_BYTES_MAX ? 0 : size;
}

/* Adds the file's content without one line break at its end. A secret that others put a fifo or a
 * device in the place of must not stop the thread. */
static enum err_code read_secret(const char *file, struct str *out, struct err *err)
{
    struct stat facts;
    if (stat(file, &facts) != 0) {
        return err_errno(err, errno, "its secret");
    }
    if (!S_ISREG(facts.st_mode)) {
        return err_set(err, ERR_INVALID, "its secret is not a plain file");
    }
    if (io_read_file(file, SECRET_BYTES_MAX, out, NULL) != ERR_OK) {
        return err_set(err, ERR_IO, "its secret cannot be read");
    }
    if (out->size > 0 && out->text[out->size - 1] == '\n') {
        out->size--;
    }
    return out->size > 0 ? ERR_OK : err_set(err, ERR_INVALID, "its secret is empty");
}

static enum err_code sign(const struct call *call, char header[128], struct err *err)
{
    AUTO_STR struct str secret = {0};
    enum err_code code = read_secret(call->secret_file, &secret, err);
    if (code == ERR_OK) {
        uint8_t digest[SHA256_BYTES];
        char hex[SHA256_HEX_CHARS + 1];
        hmac_sha256(secret.text, secret.size, call->body, call->body_size, digest);
        sha256_hex(digest, hex);
        snprintf(header, 128, "X-Drover-Signature: sha256=%s", hex);
    }
    if (secret.text) {
        explicit_bzero(secret.text, secret.cap);
    }
    return code;
}

static void add_header(struct worker *worker, struct call *call, const char *header)
{
    call->headers = worker->curl->curl_slist_append(call->headers, header);
    CHECK(call->headers);
}

static bool set_options(struct worker *worker, struct call *call)
{
    __typeof__(worker->curl->curl_easy_setopt) set = worker->curl->curl_easy_setopt;
    CURL *easy = call->easy;
    bool good = set(easy, CURLOPT_URL, call->url) == CURLE_OK &&
                set(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    set(easy, CURLOPT_PRIVATE, call);
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDS, call->body);
    set(easy, CURLOPT_POSTFIELDSIZE, (long)call->body_size);
    set(easy, CURLOPT_HTTPHEADER, call->headers);
    set(easy, CURLOPT_USERAGENT, "drover/" DROVER_VERSION);
    set(easy, CURLOPT_FOLLOWLOCATION, 0L);
    set(easy, CURLOPT_TIMEOUT_MS, (long)worker->webhook->timeout_ms);
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_FORBID_REUSE, 1L);
    set(easy, CURLOPT_WRITEFUNCTION, drop_bytes);
    set(easy, CURLOPT_WRITEDATA, call);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A name server that does not answer must not hold the thread when the call's time is over. */
    set(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    return good;
}

static void call_land(struct worker *worker, struct call *call)
{
    worker->curl->curl_multi_remove_handle(worker->multi, call->easy);
    worker->curl->curl_easy_cleanup(call->easy);
    worker->curl->curl_slist_free_all(call->headers);
    call->easy = NULL;
    call->headers = NULL;
    TAILQ_REMOVE(&worker->flying, call, link);
    worker->flying_count--;
}

static void call_start(struct worker *worker, struct call *call)
{
    char signature[128] = "";
    struct err err = {0};
    call->tries++;
    if (call->secret_file && sign(call, signature, &err) != ERR_OK) {
        call_failed(worker, call, err.text); /* never unsigned */
        return;
    }
    call->easy = worker->curl->curl_easy_init();
    CHECK(call->easy);
    call->answer_bytes = 0;
    add_header(worker, call, "Content-Type: application/json");
    add_header(worker, call, "Expect:");
    if (signature[0] != '\0') {
        add_header(worker, call, signature);
    }
    TAILQ_INSERT_TAIL(&worker->flying, call, link);
    worker->flying_count++;
    if (!set_options(worker, call) ||
        worker->curl->curl_multi_add_handle(worker->multi, call->easy) != CURLM_OK) {
        call_land(worker, call);
        call_failed(worker, call, "libcurl does not take it");
    }
}

/* A status is an answer, even where the body after it was cut off. */
static void call_answered(struct worker *worker, struct call *call, CURLcode result)
{
    long status = 0;
    worker->curl->curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    bool is_whole = result == CURLE_OK ||
                    (result == CURLE_WRITE_ERROR && call->answer_bytes > ANSWER_BYTES_MAX);
    call_land(worker, call);
    char why[64];
    if (is_whole && status >= 200 && status <= 299) {
        call_end(worker, call, true, NULL);
    } else if (is_whole) {
        snprintf(why, sizeof why, "answered with status %ld", status);
        call_failed(worker, call, why);
    } else {
        call_failed(worker, call, worker->curl->curl_easy_strerror(result));
    }
}

static char *take_text(const char **at, uint32_t size)
{
    char *text = mem_strndup(*at, size);
    *at += size;
    return text;
}

static void take_post(struct worker *worker, const struct post *post)
{
    if (post->is_stop) {
        worker->stopping = true;
        worker->give_up_ms = clock_mono_ms() + post->patience_ms;
        return;
    }
    const char *at = (const char *)(post + 1);
    struct call *call = mem_alloc(sizeof *call);
    call->url = take_text(&at, post->url_size);
    call->secret_file = post->file_size > 0 ? take_text(&at, post->file_size) : NULL;
    call->id = take_text(&at, post->id_size);
    call->tag = post->tag;
    call->finished_unix_ms = post->finished_unix_ms;
    call->body_size = post->body_size;
    call->body = take_text(&at, post->body_size);
    TAILQ_INSERT_TAIL(&worker->waiting, call, link);
}

static void take_posts(struct worker *worker)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    for (;;) {
        int size = zmq_msg_recv(&message, worker->socket, ZMQ_DONTWAIT);
        if (size < 0 && zmq_errno() == EINTR) {
            continue;
        }
        if (size < 0) {
            break;
        }
        CHECK((size_t)size >= sizeof(struct post));
        take_post(worker, zmq_msg_data(&message));
    }
    zmq_msg_close(&message);
}

static void fail_all(struct worker *worker, const char *why)
{
    struct call *call = NULL;
    while ((call = TAILQ_FIRST(&worker->waiting)) != NULL) {
        TAILQ_REMOVE(&worker->waiting, call, link);
        call_end(worker, call, false, why);
    }
}

/* Everything that is due, as far as there is room. */
static void start_due(struct worker *worker)
{
    if (TAILQ_EMPTY(&worker->waiting)) {
        return;
    }
    struct err err = {0};
    if (!worker->curl && lib_load_curl(&worker->curl, &err) != ERR_OK) {
        fail_all(worker, err.text);
        return;
    }
    if (!worker->multi) {
        worker->multi = worker->curl->curl_multi_init();
        CHECK(worker->multi);
    }
    int64_t now_ms = clock_mono_ms();
    struct call *next = NULL;
    for (struct call *call = TAILQ_FIRST(&worker->waiting); call; call = next) {
        next = TAILQ_NEXT(call, link);
        if (worker->flying_count >= FLIGHTS_MAX) {
            break;
        }
        if (call->due_ms <= now_ms) {
            TAILQ_REMOVE(&worker->waiting, call, link);
            call_start(worker, call);
        }
    }
}

static void land_finished(struct worker *worker)
{
    int left = 0;
    CURLMsg *message = NULL;
    if (!worker->multi) {
        return;
    }
    worker->curl->curl_multi_perform(worker->multi, &left);
    while ((message = worker->curl->curl_multi_info_read(worker->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            struct call *call = NULL;
            CURLcode result = message->data.result;
            worker->curl->curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
            call_answered(worker, call, result);
        }
    }
}

/* How long nothing can happen by itself; -1: for ever. */
static int64_t time_left(const struct worker *worker)
{
    int64_t due_ms = worker->stopping ? worker->give_up_ms : INT64_MAX;
    const struct call *call = NULL;
    TAILQ_FOREACH(call, &worker->waiting, link)
    {
        if (worker->flying_count < FLIGHTS_MAX && call->due_ms < due_ms) {
            due_ms = call->due_ms;
        }
    }
    if (due_ms == INT64_MAX) {
        return -1;
    }
    int64_t left_ms = due_ms - clock_mono_ms();
    return left_ms > 0 ? left_ms : 0;
}

/* Until a post comes, an answer does, or something is due. */
static void wait_for_events(struct worker *worker)
{
    int64_t left_ms = time_left(worker);
    if (worker->flying_count == 0) {
        zmq_pollitem_t item = {.socket = worker->socket, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, left_ms);
        return;
    }
    /* The descriptor tells of changes only, and one that was seen is not told again. */
    int events = 0;
    size_t size = sizeof events;
    CHECK(zmq_getsockopt(worker->socket, ZMQ_EVENTS, &events, &size) == 0);
    if (events & ZMQ_POLLIN) {
        return;
    }
    struct curl_waitfd extra = {.fd = worker->socket_fd, .events = CURL_WAIT_POLLIN};
    int limit_ms = left_ms < 0 || left_ms > 1000 ? 1000 : (int)left_ms;
    worker->curl->curl_multi_poll(worker->multi, &extra, 1, limit_ms, NULL);
}

static void worker_end(struct worker *worker)
{
    struct call *call = NULL;
    worker->webhook->all_done = TAILQ_EMPTY(&worker->waiting) && worker->flying_count == 0;
    while ((call = TAILQ_FIRST(&worker->flying)) != NULL) {
        call_land(worker, call);
        TAILQ_INSERT_TAIL(&worker->waiting, call, link);
    }
    fail_all(worker, "the server stops");
    if (worker->multi) {
        worker->curl->curl_multi_cleanup(worker->multi);
    }
    zmq_close(worker->socket);
}

static void *worker_main(void *argument)
{
    struct webhook *webhook = argument;
    struct worker worker = {.webhook = webhook,
                            .socket = webhook->thread_socket,
                            .jitter = {.state = rng_seed_from_system()}};
    size_t size = sizeof worker.socket_fd;
    CHECK(zmq_getsockopt(worker.socket, ZMQ_FD, &worker.socket_fd, &size) == 0);
    TAILQ_INIT(&worker.waiting);
    TAILQ_INIT(&worker.flying);
    for (;;) {
        take_posts(&worker);
        start_due(&worker);
        land_finished(&worker);
        bool is_idle = TAILQ_EMPTY(&worker.waiting) && worker.flying_count == 0;
        if (worker.stopping && (is_idle || clock_mono_ms() >= worker.give_up_ms)) {
            break;
        }
        wait_for_events(&worker);
    }
    worker_end(&worker);
    return NULL;
}

/* --- the master's side ------------------------------------------------------------------------ */

static void *open_socket(void *zmq_context)
{
    void *socket = zmq_socket(zmq_context, ZMQ_PAIR);
    CHECK(socket);
    int none = 0;
    CHECK(zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none) == 0);
    CHECK(zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none) == 0);
    CHECK(zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none) == 0);
    return socket;
}

struct webhook *webhook_start_with(void *zmq_context, int64_t pause_ms, int64_t timeout_ms)
{
    CHECK(pause_ms > 0 && pause_ms <= INT64_MAX >> WEBHOOK_TRIES);
    CHECK(timeout_ms > 0 && timeout_ms <= INT32_MAX);
    struct webhook *webhook = mem_alloc(sizeof *webhook);
    char address[80]; /* of this one alone: another that lay there may still be closing */
    webhook->pause_ms = pause_ms;
    webhook->timeout_ms = timeout_ms;
    snprintf(address, sizeof address, "inproc://webhook-%p-%lld", (void *)webhook,
             (long long)clock_mono_us());
    /* Posts are bounded by webhook->waiting; news must not be lost, and are as many as posts. */
    webhook->socket = open_socket(zmq_context);
    webhook->thread_socket = open_socket(zmq_context);
    CHECK(zmq_bind(webhook->socket, address) == 0);
    CHECK(zmq_connect(webhook->thread_socket, address) == 0);
    CHECK(pthread_create(&webhook->thread, NULL, worker_main, webhook) == 0);
    return webhook;
}

struct webhook *webhook_start(void *zmq_context)
{
    return webhook_start_with(zmq_context, WEBHOOK_PAUSE_MS, WEBHOOK_TIMEOUT_MS);
}

static void write_body(const struct webhook_call *call, struct str *out)
{
    AUTO_STR struct str finished = {0};
    clock_add_rfc3339(&finished, call->finished_unix_ms);
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "event"), json_text(&json, "workflow");
    json_key(&json, "id"), json_text(&json, call->id);
    json_key(&json, "state"), json_text(&json, call->state);
    json_key(&json, "tasks"), json_u64(&json, call->tasks);
    json_key(&json, "succeeded"), json_u64(&json, call->succeeded);
    json_key(&json, "failed"), json_u64(&json, call->failed);
    json_key(&json, "finished_at"), json_text(&json, str_text(&finished));
    if (call->page) {
        json_key(&json, "url"), json_text(&json, call->page);
    }
    json_end(&json);
}

bool webhook_post(struct webhook *webhook, const struct webhook_call *call)
{
    if (atomic_load(&webhook->waiting) >= WEBHOOK_QUEUE_MAX) {
        atomic_fetch_add(&webhook->dropped, 1);
        return false;
    }
    AUTO_STR struct str body = {0};
    write_body(call, &body);
    const char *file = call->secret_file ? call->secret_file : "";
    struct post post = {.url_size = (uint32_t)strlen(call->url),
                        .file_size = (uint32_t)strlen(file),
                        .id_size = (uint32_t)strlen(call->id),
                        .body_size = (uint32_t)body.size,
                        .tag = call->tag,
                        .finished_unix_ms = call->finished_unix_ms};
    AUTO_STR struct str message = {0};
    str_add_bytes(&message, &post, sizeof post);
    str_add(&message, call->url);
    str_add(&message, file);
    str_add(&message, call->id);
    str_add_bytes(&message, body.text, body.size);
    atomic_fetch_add(&webhook->waiting, 1); /* before the thread can take it away again */
    CHECK(zmq_send(webhook->socket, message.text, message.size, 0) >= 0);
    return true;
}

void webhook_count(const struct webhook *webhook, struct webhook_counts *out)
{
    out->sent = atomic_load(&webhook->sent);
    out->failed = atomic_load(&webhook->failed);
    out->dropped = atomic_load(&webhook->dropped);
    out->waiting = atomic_load(&webhook->waiting);
}

bool webhook_read(struct webhook *webhook, struct webhook_news *out)
{
    return zmq_recv(webhook->socket, out, sizeof *out, ZMQ_DONTWAIT) == (int)sizeof *out;
}

bool webhook_stop(struct webhook *webhook, int patience_ms)
{
    if (!webhook) {
        return true;
    }
    struct post post = {.is_stop = true, .patience_ms = patience_ms};
    CHECK(zmq_send(webhook->socket, &post, sizeof post, 0) >= 0);
    CHECK(pthread_join(webhook->thread, NULL) == 0);
    bool all_done = webhook->all_done;
    zmq_close(webhook->socket);
    free(webhook);
    return all_done;
}
