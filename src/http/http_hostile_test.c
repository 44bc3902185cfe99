/* Whoever connects, the server stays small and quick for everyone else. */
#include "http/test_app.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { BODY_MAX = 100000, MANY = 300 };

static int start(void **state)
{
    *state = app_start(&(struct http_options){.body_bytes_max = BODY_MAX});
    return 0;
}

static int stop(void **state)
{
    app_stop(*state);
    return 0;
}

static int status_of(const struct app *app, const char *request)
{
    AUTO_STR struct str response = {0};
    raw_exchange(app, request, &response);
    return raw_status(&response);
}

static void still_answers(const struct app *app)
{
    int64_t began_ms = clock_mono_ms();
    assert_int_equal(status_of(app, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    assert_true(clock_mono_ms() - began_ms < 3000); /* under a sanitizer, on a busy machine */
}

/* Only the connection that asks is left. */
static void all_others_go(const struct app *app)
{
    unsigned long connections = app_counts(app).connections;
    for (int i = 0; i < 300 && connections > 1; i++) {
        usleep(10000);
        connections = app_counts(app).connections;
    }
    assert_int_equal(connections, 1);
}

/* --- too large ------------------------------------------------------------------------------- */

static void a_body_is_refused_as_soon_as_its_length_is_known(void **state)
{
    unsigned long refused = app_counts(*state).refused;
    AUTO_STR struct str response = {0};
    raw_exchange(*state, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n",
                 &response);
    assert_int_equal(raw_status(&response), 413);
    assert_non_null(strstr(str_text(&response), "application/problem+json"));
    assert_int_equal(
        status_of(*state, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999\r\n"
                          "Expect: 100-continue\r\n\r\n"),
        413);
    assert_int_equal(status_of(*state, "POST /echo HTTP/1.1\r\nHost: x\r\n"
                                       "Content-Length: 99999999999999999999999999\r\n\r\n"),
                     413);
    assert_int_equal(app_counts(*state).refused, refused + 3);
}

static void a_body_without_a_length_is_refused_when_it_grows_too_large(void **state)
{
    for (size_t size = BODY_MAX - 1; size <= BODY_MAX + 1; size++) {
        AUTO_FREE char *bytes = mem_alloc(size + 1);
        memset(bytes, 'x', size);
        AUTO_STR struct str request = {0};
        str_addf(&request, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        str_addf(&request, "%zx\r\n%s\r\n0\r\n\r\n", size, bytes);
        assert_int_equal(status_of(*state, str_text(&request)), size > BODY_MAX ? 413 : 200);
    }
}

static void an_endless_body_is_cut_off(void **state)
{
    unsigned long refused = app_counts(*state).refused;
    int fd = raw_connect(*state);
    raw_send(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    char piece[10010];
    memset(piece, 'x', sizeof piece);
    memcpy(piece, "2710\r\n", 6);
    memcpy(piece + 10006, "\r\n", 2);
    int sent = 0;
    while (sent < 100000 && raw_try_send(fd, piece, 10008)) {
        sent++;
    }
    assert_in_range(sent, 1, 2000); /* what the kernel buffers beyond 2 * BODY_MAX */
    close(fd);
    assert_int_equal(app_counts(*state).refused, refused + 1);
    still_answers(*state);
}

static void a_gigabyte_of_header_is_cut_off_and_costs_no_memory(void **state)
{
    unsigned long refused = app_counts(*state).refused;
    long before_kb = app_rss_kb();
    size_t size = 1 << 20;
    AUTO_FREE char *piece = mem_alloc(size);
    memset(piece, 'h', size);
    const char *const beginnings[] = {"GET /hello HTTP/1.1\r\nHost: x\r\nX: ", "GET /", "",
                                      "GET /hello HTTP/1.1\r\nHost: x\r\nCookie: "};
    for (size_t i = 0; i < 4; i++) {
        int fd = raw_connect(*state);
        raw_send(fd, beginnings[i]);
        int sent = 0;
        while (sent < 1024 && raw_try_send(fd, piece, size)) {
            sent++;
        }
        assert_in_range(sent, 0, 20); /* what fits into the kernel's buffers */
        close(fd);
    }
    int fd = raw_connect(*state); /* many small ones */
    raw_send(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n");
    int count = 0;
    while (count < 1000000 && raw_try_send(fd, "a: b\r\n", 6)) {
        count++;
    }
    assert_in_range(count, 100, 999999);
    close(fd);
    assert_true(app_rss_kb() - before_kb < 8 << 10);
    assert_int_equal(app_counts(*state).refused, refused + 5);
    still_answers(*state);
}

/* --- malformed ------------------------------------------------------------------------------- */

static void tricky_paths_get_400(void **state)
{
    const char *const paths[] = {"/../etc/passwd", "/a/%2e%2e/b", "/%00", "/a%", "/%zz",
                                 "/%0d%0aX:y",     "hello",       "/%ff", "/..", "ftp://x/y"};
    AUTO_STR struct str request = {0};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        str_clear(&request);
        str_addf(&request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", paths[i]);
        assert_int_equal(status_of(*state, str_text(&request)), 400);
    }
    assert_int_equal(status_of(*state, "GET //./hello/ HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    assert_int_equal(status_of(*state, "GET http://x/hello HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
}

static void what_is_not_http_is_refused(void **state)
{
    const char *const requests[] = {
        "GET /hello HTTP/1.1\r\n\r\n", /* no host */
        "GET /hello HTTP/9.9\r\nHost: x\r\n\r\n",
        "GET /hello\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01\x01 \r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "get /hello HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        int fd = raw_connect(*state);
        raw_send(fd, requests[i]);
        shutdown(fd, SHUT_WR);
        AUTO_STR struct str response = {0};
        assert_true(raw_until_closed(fd, &response));
        int status = raw_status(&response);
        if (response.size > 0 && (status < 400 || status == 404)) {
            fail_msg("request %zu: %s", i, str_text(&response));
        }
        close(fd);
    }
    still_answers(*state);
}

/* Requests with a few bytes changed, or cut short: nothing is asked of the server but to go on
 * serving. */
static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    struct app *app = app_start(&(struct http_options){.patience_ms = 500});
    uint64_t seed = rng_seed_from_system();
    print_message("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int round = 0; round < 1500; round++) {
        char text[] = "POST /echo?a=%41&b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                      "Authorization: Bearer abc\r\nExpect: 100-continue\r\n\r\n"
                      "3\r\nabc\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
        size_t size = sizeof text - 1;
        for (uint64_t i = 1 + rng_below(&rng, 4); i > 0; i--) {
            text[rng_below(&rng, size)] = (char)rng_below(&rng, 256);
        }
        int fd = raw_connect(app);
        raw_try_send(fd, text, 1 + rng_below(&rng, size));
        if (rng_below(&rng, 2) == 0) {
            struct pollfd item = {.fd = fd, .events = POLLIN};
            shutdown(fd, SHUT_WR);
            poll(&item, 1, 2);
        }
        close(fd);
    }
    still_answers(app);
    all_others_go(app);
    app_stop(app);
}

/* --- too slow, too many ---------------------------------------------------------------------- */

/* A byte now and then keeps no one in. */
static bool was_cut(int fd, bool talks)
{
    if (talks && !raw_try_send(fd, "x", 1)) {
        return true;
    }
    return recv(fd, (char[1]){0}, 1, MSG_DONTWAIT) == 0;
}

static void slow_lorises_are_cut_off_while_others_are_served(void **state)
{
    (void)state;
    struct app *app = app_start(&(struct http_options){.patience_ms = 1500});
    int fds[MANY];
    for (int i = 0; i < MANY; i++) {
        fds[i] = raw_connect(app);
        if (i % 3 == 0) {
            raw_send(fds[i], "GET /hello HTTP/1.1\r\nHost: x\r\n");
        } else if (i % 3 == 1) {
            raw_send(fds[i], "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n");
        }
    }
    int64_t began_ms = clock_mono_ms();
    int64_t slowest_ms = 0;
    int open = MANY;
    while (open > 0 && clock_mono_ms() - began_ms < 8000) {
        for (int i = 0; i < MANY; i++) {
            if (fds[i] >= 0 && was_cut(fds[i], i % 3 < 2)) {
                close(fds[i]);
                fds[i] = -1;
                open--;
            }
        }
        int64_t before_ms = clock_mono_ms();
        still_answers(app);
        int64_t answer_ms = clock_mono_ms() - before_ms;
        slowest_ms = answer_ms > slowest_ms ? answer_ms : slowest_ms;
        usleep(50000);
    }
    int64_t took_ms = clock_mono_ms() - began_ms;
    print_message("all cut after %lld ms, slowest answer meanwhile %lld ms\n", (long long)took_ms,
                  (long long)slowest_ms);
    assert_int_equal(open, 0);
    assert_in_range(took_ms, 1000, 5000);
    assert_true(app_counts(app).refused >= MANY);
    app_stop(app);
}

static void those_who_wait_longest_make_room_for_new_ones(void **state)
{
    (void)state;
    struct app *app = app_start(&(struct http_options){.connections_max = 50});
    int fds[MANY];
    for (int i = 0; i < MANY; i++) {
        fds[i] = raw_connect(app);
    }
    still_answers(app);
    struct app_counts counts = app_counts(app);
    assert_in_range(counts.connections, 1, 60);
    assert_true(counts.refused >= MANY - 60);
    for (int i = 0; i < MANY; i++) {
        close(fds[i]);
    }

    /* those that are served are not put out; then it is the newcomers who have to go */
    for (int i = 0; i < 50; i++) {
        fds[i] = raw_connect(app);
        raw_send(fds[i], "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    usleep(100000);
    int fd = raw_connect(app);
    AUTO_STR struct str nothing = {0};
    assert_true(raw_until_closed(fd, &nothing));
    close(fd);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(recv(fds[i], (char[1]){0}, 1, MSG_DONTWAIT), -1);
        close(fds[i]);
    }
    app_stop(app);
}

static void a_reader_that_does_not_keep_up_is_cut_off(void **state)
{
    struct app *app = *state;
    struct app_counts before = app_counts(app);
    long before_kb = app_rss_kb();
    int fd = raw_connect(app);
    raw_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    AUTO_STR struct str response = {0};
    assert_true(raw_response(fd, &response));
    for (int i = 0; i < 10; i++) { /* 64 MiB in all */
        still_answers(app);
        raw_exchange(app, "GET /flood?count=100 HTTP/1.1\r\nHost: x\r\n\r\n", &response);
    }
    struct app_counts after = app_counts(app);
    for (int i = 0; i < 200 && after.closed == before.closed; i++) {
        usleep(10000);
        after = app_counts(app);
    }
    assert_int_equal(after.closed, before.closed + 1);
    assert_int_equal(after.streams, 0);
    assert_true(after.refused > before.refused);
    assert_true(app_rss_kb() - before_kb < 64 << 10);
    assert_true(raw_until_closed(fd, &response));
    close(fd);
}

/* While a stream is open, of which nobody knows when it ends. */
static void who_came_when_no_descriptor_was_left_is_served_later(void **state)
{
    enum { FILES = 256 };
    struct app *app = *state;
    struct rlimit before;
    struct rlimit few;
    AUTO_STR struct str response = {0};
    int stream = raw_connect(app);
    raw_send(stream, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_response(stream, &response));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = FILES;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int taken[FILES] = {0};
    size_t count = 0;
    int late = -1;
    bool is_served = true;
    for (int i = 0; i < 5 && is_served; i++) { /* by one that the server has just closed */
        if (late >= 0) {
            close(late);
        }
        for (int fd = dup(stream); fd >= 0; fd = dup(stream)) {
            taken[count++] = fd;
        }
        close(taken[--count]);
        late = raw_connect(app); /* that was the last one */
        raw_send(late, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        struct pollfd item = {.fd = late, .events = POLLIN};
        is_served = poll(&item, 1, 300) != 0;
    }
    assert_false(is_served);
    while (count > 0) {
        close(taken[--count]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(raw_response(late, &response));
    assert_int_equal(raw_status(&response), 200);
    close(late);
    still_answers(app);
    close(stream);
}

static void clients_that_leave_early_harm_nobody(void **state)
{
    struct app *app = *state;
    for (int i = 0; i < 200; i++) {
        int fd = raw_connect(app);
        raw_send(fd, i % 2 ? "GET /big?size=1000000 HTTP/1.1\r\nHost: x\r\n\r\n"
                           : "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        struct linger reset = {.l_onoff = 1};
        if (i % 4 < 2) {
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        close(fd);
    }
    still_answers(app);
    all_others_go(app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_refused_as_soon_as_its_length_is_known),
        cmocka_unit_test(a_body_without_a_length_is_refused_when_it_grows_too_large),
        cmocka_unit_test(an_endless_body_is_cut_off),
        cmocka_unit_test(a_gigabyte_of_header_is_cut_off_and_costs_no_memory),
        cmocka_unit_test(tricky_paths_get_400),
        cmocka_unit_test(what_is_not_http_is_refused),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(slow_lorises_are_cut_off_while_others_are_served),
        cmocka_unit_test(those_who_wait_longest_make_room_for_new_ones),
        cmocka_unit_test(a_reader_that_does_not_keep_up_is_cut_off),
        cmocka_unit_test(who_came_when_no_descriptor_was_left_is_served_later),
        cmocka_unit_test(clients_that_leave_early_harm_nobody),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
