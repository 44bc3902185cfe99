#include "master/webhook.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum { PATIENCE_MS = 10 * 1000, HELD_MAX = 64, SEEN_MAX = 64, PAUSE_MS = 10, TIMEOUT_MS = 400 };

/* A small HTTP server in a thread: the answers in turn, the last one for ever. NULL: none at all.
 */
struct receiver {
    const char *const *answers;
    size_t answer_count;
    bool endless; /* goes on sending after the answer */
    uint16_t port;
    int listener;
    int wake[2];
    pthread_t thread;
    /* Read after receiver_stop. */
    struct str seen[SEEN_MAX];
    size_t seen_count;
    int held[HELD_MAX];
    size_t held_count;
};

static void read_request(int fd, struct str *out)
{
    size_t wanted = SIZE_MAX;
    char bytes[4096];
    while (out->size < wanted) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got <= 0) {
            return;
        }
        str_add_bytes(out, bytes, (size_t)got);
        const char *end = strstr(out->text, "\r\n\r\n");
        const char *length = strstr(out->text, "Content-Length: ");
        if (end && length) {
            wanted = (size_t)(end + 4 - out->text) + strtoul(length + 16, NULL, 10);
        }
    }
}

static void serve_one(struct receiver *receiver, int fd)
{
    size_t last = receiver->answer_count - 1;
    size_t number = receiver->seen_count < last ? receiver->seen_count : last;
    const char *answer = receiver->answers[number];
    struct str request = {0};
    read_request(fd, &request);
    if (receiver->seen_count < SEEN_MAX) {
        receiver->seen[receiver->seen_count] = request;
    } else {
        str_release(&request);
    }
    receiver->seen_count++;
    if (!answer && receiver->held_count < HELD_MAX) {
        receiver->held[receiver->held_count++] = fd;
        return;
    }
    if (answer) {
        (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    }
    static const char zeros[64 * 1024];
    while (receiver->endless && send(fd, zeros, sizeof zeros, MSG_NOSIGNAL) > 0) {
    }
    close(fd);
}

static void *receiver_main(void *argument)
{
    struct receiver *receiver = argument;
    for (;;) {
        struct pollfd polls[] = {{.fd = receiver->wake[0], .events = POLLIN},
                                 {.fd = receiver->listener, .events = POLLIN}};
        poll(polls, 2, -1);
        if (polls[0].revents) {
            return NULL;
        }
        int fd = accept(receiver->listener, NULL, NULL);
        if (fd >= 0) {
            serve_one(receiver, fd);
        }
    }
}

static void receiver_start(struct receiver *receiver, const char *const *answers, size_t count)
{
    receiver->answers = answers;
    receiver->answer_count = count;
    receiver->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    assert_int_equal(bind(receiver->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(receiver->listener, 64), 0);
    assert_int_equal(getsockname(receiver->listener, (struct sockaddr *)&address, &size), 0);
    receiver->port = ntohs(address.sin_port);
    assert_int_equal(pipe(receiver->wake), 0);
    assert_int_equal(pthread_create(&receiver->thread, NULL, receiver_main, receiver), 0);
}

static void receiver_stop(struct receiver *receiver)
{
    close(receiver->wake[1]);
    pthread_join(receiver->thread, NULL);
    close(receiver->wake[0]);
    close(receiver->listener);
    for (size_t i = 0; i < receiver->held_count; i++) {
        close(receiver->held[i]);
    }
}

static void receiver_release(struct receiver *receiver)
{
    for (size_t i = 0; i < receiver->seen_count && i < SEEN_MAX; i++) {
        str_release(&receiver->seen[i]);
    }
}

#define OK_ANSWER "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
#define BAD_ANSWER "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops"

static const char *const good_answers[] = {OK_ANSWER};
static const char *const bad_answers[] = {BAD_ANSWER};
static const char *const no_answers[] = {NULL};

static bool post(struct webhook *webhook, uint16_t port, const char *path, const char *secret_file)
{
    char url[100];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)port, path);
    struct webhook_call call = {.url = url,
                                .secret_file = secret_file,
                                .id = "w-1",
                                .state = "failed",
                                .tasks = 12,
                                .succeeded = 11,
                                .failed = 1,
                                .finished_unix_ms = 0};
    return webhook_post(webhook, &call);
}

static void expect_counts(struct webhook *webhook, uint64_t sent, uint64_t failed)
{
    struct webhook_counts counts = {0};
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    do {
        webhook_count(webhook, &counts);
        usleep(5000);
    } while ((counts.sent < sent || counts.failed < failed) && clock_mono_ms() < until_ms);
    assert_int_equal(counts.sent, sent);
    assert_int_equal(counts.failed, failed);
}

static void a_call_arrives_signed(void **state)
{
    (void)state;
    char file[] = "/tmp/webhook-test-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "key\n", 4), 4);
    close(fd);
    void *context = zmq_ctx_new();
    struct receiver receiver = {0};
    receiver_start(&receiver, good_answers, 1);
    struct webhook *webhook = webhook_start(context);
    assert_true(post(webhook, receiver.port, "/hook?a=1", file));
    expect_counts(webhook, 1, 0);
    assert_true(webhook_stop(webhook, 0));
    receiver_stop(&receiver);
    unlink(file);

    assert_int_equal(receiver.seen_count, 1);
    const char *request = receiver.seen[0].text;
    const char *body = strstr(request, "\r\n\r\n") + 4;
    assert_string_equal(body, "{\"event\":\"workflow\",\"id\":\"w-1\",\"state\":\"failed\","
                              "\"tasks\":12,\"succeeded\":11,\"failed\":1,"
                              "\"finished_at\":\"1970-01-01T00:00:00.000Z\"}");
    assert_int_equal(strncmp(request, "POST /hook?a=1 HTTP/1.1\r\n", 25), 0);
    assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
    uint8_t digest[SHA256_BYTES];
    char header[128] = "\r\nX-Drover-Signature: sha256=";
    hmac_sha256("key", 3, body, strlen(body), digest);
    sha256_hex(digest, header + strlen(header));
    assert_non_null(strstr(request, header));
    receiver_release(&receiver);
    zmq_ctx_term(context);
}

static void a_receiver_that_recovers_is_told(void **state)
{
    (void)state;
    static const char *const answers[] = {BAD_ANSWER, BAD_ANSWER, OK_ANSWER};
    void *context = zmq_ctx_new();
    struct receiver receiver = {0};
    receiver_start(&receiver, answers, 3);
    struct webhook *webhook = webhook_start_with(context, PAUSE_MS, TIMEOUT_MS);
    assert_true(post(webhook, receiver.port, "/", NULL));
    assert_true(webhook_stop(webhook, PATIENCE_MS)); /* which waits for it */
    receiver_stop(&receiver);
    assert_int_equal(receiver.seen_count, 3);
    assert_null(strstr(receiver.seen[0].text, "X-Drover-Signature"));
    receiver_release(&receiver);
    zmq_ctx_term(context);
}

static void a_receiver_that_does_not_is_given_up(void **state)
{
    (void)state;
    static const char *const redirects[] = {
        "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"};
    const char *const *scripts[] = {bad_answers, redirects};
    for (size_t i = 0; i < 2; i++) {
        void *context = zmq_ctx_new();
        struct receiver receiver = {0};
        struct webhook_news news = {0};
        receiver_start(&receiver, scripts[i], 1);
        struct webhook *webhook = webhook_start_with(context, PAUSE_MS, TIMEOUT_MS);
        assert_false(webhook_read(webhook, &news));
        assert_true(post(webhook, receiver.port, "/se-cret", NULL));
        expect_counts(webhook, 0, 1);
        assert_true(webhook_read(webhook, &news));
        assert_int_equal(news.why.code, ERR_IO);
        assert_non_null(strstr(news.why.text, "webhook of workflow w-1 to 127.0.0.1:"));
        assert_non_null(strstr(news.why.text, i == 0 ? "status 500 (5 tries)" : "status 302"));
        assert_null(strstr(news.why.text, "se-cret"));
        assert_true(webhook_stop(webhook, 0));
        receiver_stop(&receiver);
        assert_int_equal(receiver.seen_count, WEBHOOK_TRIES);
        assert_null(strstr(receiver.seen[1].text, "elsewhere"));
        receiver_release(&receiver);
        zmq_ctx_term(context);
    }
}

static void nobody_there_and_no_secret_are_given_up(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct receiver receiver = {0};
    receiver_start(&receiver, good_answers, 1);
    struct webhook *webhook = webhook_start_with(context, PAUSE_MS, TIMEOUT_MS);
    assert_true(post(webhook, receiver.port, "/", "/no/such/secret"));
    assert_true(post(webhook, receiver.port, "/", "/dev/zero"));
    expect_counts(webhook, 0, 2);
    receiver_stop(&receiver);
    assert_int_equal(receiver.seen_count, 0); /* never unsigned */
    assert_true(post(webhook, receiver.port, "/", NULL));
    expect_counts(webhook, 0, 3);
    assert_true(webhook_stop(webhook, 0));
    zmq_ctx_term(context);
}

static void a_receiver_that_sleeps_does_not_hold_up_others(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct receiver asleep = {0};
    struct receiver awake = {0};
    receiver_start(&asleep, no_answers, 1);
    receiver_start(&awake, good_answers, 1);
    struct webhook *webhook = webhook_start_with(context, PAUSE_MS, PATIENCE_MS);
    int64_t began_ms = clock_mono_ms();
    for (int i = 0; i < 5; i++) {
        assert_true(post(webhook, asleep.port, "/", NULL));
    }
    assert_true(post(webhook, awake.port, "/", NULL));
    expect_counts(webhook, 1, 0);
    assert_false(webhook_stop(webhook, 100));
    assert_true(clock_mono_ms() - began_ms < PATIENCE_MS / 2);
    receiver_stop(&asleep);
    receiver_stop(&awake);
    assert_int_equal(awake.seen_count, 1);
    receiver_release(&asleep);
    receiver_release(&awake);
    zmq_ctx_term(context);
}

static void no_answer_in_time_is_none(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct receiver asleep = {0};
    receiver_start(&asleep, no_answers, 1);
    struct webhook *webhook = webhook_start_with(context, PAUSE_MS, 50);
    assert_true(post(webhook, asleep.port, "/", NULL));
    expect_counts(webhook, 0, 1);
    assert_true(webhook_stop(webhook, 0));
    receiver_stop(&asleep);
    assert_int_equal(asleep.seen_count, WEBHOOK_TRIES);
    receiver_release(&asleep);
    zmq_ctx_term(context);
}

static void an_answer_without_end_is_cut_off(void **state)
{
    (void)state;
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"};
    void *context = zmq_ctx_new();
    struct receiver receiver = {.endless = true};
    receiver_start(&receiver, answers, 1);
    struct webhook *webhook = webhook_start(context);
    assert_true(post(webhook, receiver.port, "/", NULL));
    expect_counts(webhook, 1, 0);
    assert_true(webhook_stop(webhook, 0));
    receiver_stop(&receiver);
    receiver_release(&receiver);
    zmq_ctx_term(context);
}

static void a_full_queue_drops_and_counts(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct receiver asleep = {0};
    receiver_start(&asleep, no_answers, 1);
    struct webhook *webhook = webhook_start(context);
    for (int i = 0; i < WEBHOOK_QUEUE_MAX; i++) {
        assert_true(post(webhook, asleep.port, "/", NULL));
    }
    assert_false(post(webhook, asleep.port, "/", NULL));
    struct webhook_counts counts = {0};
    webhook_count(webhook, &counts);
    assert_int_equal(counts.dropped, 1);
    assert_int_equal(counts.waiting, WEBHOOK_QUEUE_MAX);
    int64_t began_ms = clock_mono_ms();
    assert_false(webhook_stop(webhook, 0));
    assert_true(clock_mono_ms() - began_ms < 2000);
    receiver_stop(&asleep);
    receiver_release(&asleep);
    assert_true(webhook_stop(NULL, 0));
    zmq_ctx_term(context);
}

int main(void)
{
    setenv("no_proxy", "127.0.0.1", 1); /* whatever the proxy of this machine is */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_arrives_signed),
        cmocka_unit_test(a_receiver_that_recovers_is_told),
        cmocka_unit_test(a_receiver_that_does_not_is_given_up),
        cmocka_unit_test(nobody_there_and_no_secret_are_given_up),
        cmocka_unit_test(a_receiver_that_sleeps_does_not_hold_up_others),
        cmocka_unit_test(no_answer_in_time_is_none),
        cmocka_unit_test(an_answer_without_end_is_cut_off),
        cmocka_unit_test(a_full_queue_drops_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
