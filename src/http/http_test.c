/* The server and the client as they are meant to be used. */
#include "http/test_app.h"

#include "base/clock.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static int start(void **state)
{
    *state = app_start(&(struct http_options){0});
    return 0;
}

static int stop(void **state)
{
    app_stop(*state);
    return 0;
}

static struct client *open_client(const struct app *app)
{
    struct client *client = NULL;
    struct err err;
    assert_int_equal(client_open(app_url(app), "s3cret", 10, &client, &err), ERR_OK);
    return client;
}

static void call(struct client *client, const struct client_request *request,
                 struct client_answer *answer)
{
    struct err err = {0};
    if (client_call(client, request, answer, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
}

static void has(const struct client_answer *answer, const char *text)
{
    if (!strstr(str_text(&answer->body), text)) {
        fail_msg("no %s in: %s", text, str_text(&answer->body));
    }
}

/* --- requests and replies -------------------------------------------------------------------- */

static void a_request_reaches_the_owner_whole_and_its_reply_the_client(void **state)
{
    struct client *client = open_client(*state);
    struct client_answer answer;
    call(client,
         &(struct client_request){.method = "POST",
                                  .path = "/info?a=x%20y&b=1",
                                  .content_type = "text/yaml",
                                  .body = "abc",
                                  .body_size = 3,
                                  .idempotency_key = "key-1"},
         &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.content_type, "text/plain");
    has(&answer, "method=POST\npath=/info\nquery=a=x%20y&b=1\ntoken=s3cret\n");
    has(&answer, "content_type=text/yaml\n");
    has(&answer, "idempotency_key=key-1\npeer=127.0.0.1\nbody=3\na=x y\n");
    client_answer_release(&answer);

    call(client, &(struct client_request){.method = "DELETE", .path = "/info"}, &answer);
    has(&answer, "method=DELETE\n");
    has(&answer, "content_type=\n");
    client_answer_release(&answer);

    call(client, &(struct client_request){.method = "PROPFIND", .path = "/info"}, &answer);
    has(&answer, "method=PROPFIND\n");
    client_answer_release(&answer);
    client_close(client);
}

static void a_body_of_any_bytes_comes_back_as_it_was(void **state)
{
    struct client *client = open_client(*state);
    size_t size = 5 << 20;
    AUTO_FREE char *bytes = mem_alloc(size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(i * 7 + i / 251);
    }
    struct client_answer answer;
    call(client,
         &(struct client_request){.method = "PUT",
                                  .path = "/echo",
                                  .content_type = "application/x",
                                  .body = bytes,
                                  .body_size = size},
         &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.content_type, "application/x");
    assert_int_equal(answer.body.size, size);
    assert_memory_equal(answer.body.text, bytes, size);
    client_answer_release(&answer);
    client_close(client);
}

static void a_problem_is_told_as_json(void **state)
{
    struct client *client = open_client(*state);
    struct client_answer answer;
    call(client, &(struct client_request){.method = "GET", .path = "/no%22such"}, &answer);
    assert_int_equal(answer.status, 404);
    assert_string_equal(answer.content_type, "application/problem+json");
    has(&answer, "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
                 "\"detail\":\"there is no \\\"/no\\\"such\\\"\"}");
    client_answer_release(&answer);
    client_close(client);
}

static void headers_are_few_and_careful(void **state)
{
    AUTO_STR struct str response = {0};
    raw_exchange(*state, "GET /made HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\n\r\n", &response);
    const char *text = str_text(&response);
    assert_int_equal(raw_status(&response), 201);
    assert_non_null(strstr(text, "\r\nLocation: /made/1\r\n"));
    assert_non_null(strstr(text, "\r\nRetry-After: 3\r\n"));
    assert_non_null(strstr(text, "\r\nDate: "));
    assert_non_null(strstr(text, "\r\nCache-Control: no-store\r\n"));
    assert_non_null(strstr(text, "\r\nX-Content-Type-Options: nosniff\r\n"));
    assert_null(strcasestr(text, "\r\nServer:"));
    assert_null(strcasestr(text, "\r\nAccess-Control"));
}

static void head_and_options_are_answered(void **state)
{
    struct app *app = *state;
    AUTO_STR struct str response = {0};
    int fd = raw_connect(app);
    raw_send(fd, "HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_true(raw_until_closed(fd, &response));
    close(fd);
    assert_int_equal(raw_status(&response), 200);
    assert_non_null(strstr(str_text(&response), "\r\nContent-Length: 14\r\n"));
    assert_string_equal(strstr(str_text(&response), "\r\n\r\n"), "\r\n\r\n");

    str_clear(&response);
    fd = raw_connect(app); /* a stream without a body ends at once, and the owner is told */
    raw_send(fd, "HEAD /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_true(raw_until_closed(fd, &response));
    close(fd);
    assert_int_equal(raw_status(&response), 200);

    raw_exchange(app, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", &response);
    assert_int_equal(raw_status(&response), 204);
    assert_non_null(strstr(str_text(&response), "\r\nAllow: GET, HEAD,"));
}

static void a_thousand_requests_share_a_connection(void **state)
{
    struct app *app = *state;
    struct client *client = open_client(app);
    for (int i = 0; i < 1000; i++) {
        struct client_answer answer;
        call(client, &(struct client_request){.method = "GET", .path = "/hello"}, &answer);
        assert_int_equal(answer.status, 200);
        client_answer_release(&answer);
    }
    struct app_counts counts = app_counts(app);
    assert_true(counts.requests >= 1000);
    assert_in_range(counts.connections, 1, 2);
    client_close(client);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    int fd = raw_connect(*state);
    AUTO_STR struct str all = {0};
    for (int i = 0; i < 50; i++) {
        str_addf(&all, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n%04d", i);
    }
    raw_send(fd, str_text(&all));
    AUTO_STR struct str response = {0};
    for (int i = 0; i < 50; i++) {
        assert_true(raw_response(fd, &response));
        char expected[16];
        snprintf(expected, sizeof expected, "\r\n\r\n%04d", i);
        assert_string_equal(strstr(str_text(&response), "\r\n\r\n"), expected);
    }
    close(fd);
}

static void chunked_bodies_and_old_clients_are_understood(void **state)
{
    AUTO_STR struct str response = {0};
    raw_exchange(*state,
                 "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\n\r\n",
                 &response);
    assert_string_equal(strstr(str_text(&response), "\r\n\r\n"), "\r\n\r\nabcdefgh");

    int fd = raw_connect(*state);
    raw_send(fd, "GET /hello HTTP/1.0\r\n\r\n");
    shutdown(fd, SHUT_WR); /* as `nc -N` does */
    str_clear(&response);
    assert_true(raw_until_closed(fd, &response));
    assert_non_null(strstr(str_text(&response), "{\"hello\":true}"));
    close(fd);
}

static void two_hundred_connections_at_once_are_all_answered(void **state)
{
    struct app *app = *state;
    enum { MANY = 200 };
    int fds[MANY];
    for (int i = 0; i < MANY; i++) {
        fds[i] = raw_connect(app);
        raw_send(fds[i], "GET /big?size=100000 HTTP/1.1\r\nHost: x\r\n");
    }
    for (int i = MANY - 1; i >= 0; i--) {
        raw_send(fds[i], "\r\n");
    }
    AUTO_STR struct str response = {0};
    for (int i = 0; i < MANY; i++) {
        assert_true(raw_response(fds[i], &response));
        assert_int_equal(raw_status(&response), 200);
        close(fds[i]);
    }
}

/* --- files ----------------------------------------------------------------------------------- */

static void file_is(const struct app *app, const char *query, const char *expected)
{
    AUTO_STR struct str request = {0};
    AUTO_STR struct str response = {0};
    str_addf(&request, "GET /file?%s HTTP/1.1\r\nHost: x\r\n\r\n", query);
    raw_exchange(app, str_text(&request), &response);
    assert_int_equal(raw_status(&response), 200);
    assert_string_equal(strstr(str_text(&response), "\r\n\r\n") + 4, expected);
}

static void parts_of_files_are_sent(void **state)
{
    struct app *app = *state;
    char path[] = "/tmp/drover-http-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    char query[200];
    static const struct {
        const char *range;
        const char *expected;
    } cases[] = {
        {"offset=0&size=10", "0123456789"},
        {"offset=3&size=4", "3456"},
        {"offset=8&size=100", "89"},
        {"offset=10&size=5", ""},
        {"offset=99&size=5", ""},
        {"offset=0&size=0", ""},
        {"offset=0&size=18446744073709551615", "0123456789"},
        {"offset=18446744073709551615&size=18446744073709551615", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(query, sizeof query, "path=%s&%s", path, cases[i].range);
        file_is(app, query, cases[i].expected);
    }
    unlink(path);
    snprintf(query, sizeof query, "path=%s&size=5", path);
    file_is(app, query, "");
    file_is(app, "path=/tmp&size=5", "");

    /* a large one, by way of sendfile */
    assert_int_equal(ftruncate(fd, 50 << 20), 0);
    snprintf(query, sizeof query, "/file?path=/proc/%d/fd/%d&offset=5&size=%d", (int)getpid(), fd,
             50 << 20);
    struct client *client = open_client(app);
    struct client_answer answer;
    call(client, &(struct client_request){.method = "GET", .path = query}, &answer);
    assert_int_equal(answer.body.size, (50 << 20) - 5);
    client_answer_release(&answer);
    client_close(client);
    close(fd);
}

/* --- the client alone, and starting ---------------------------------------------------------- */

static void a_server_that_is_not_there_is_told_with_what_to_do(void **state)
{
    struct app *app = app_start(&(struct http_options){0});
    char url[100];
    snprintf(url, sizeof url, "%s/", app_url(app));
    app_stop(app);
    struct client *client = NULL;
    struct client_answer answer;
    struct err err;
    assert_int_equal(client_open(url, "t", 5, &client, &err), ERR_OK);
    struct client_request request = {.method = "GET", .path = "/hello"};
    assert_int_equal(client_call(client, &request, &answer, &err), ERR_IO);
    url[strlen(url) - 1] = '\0';
    char expected[300];
    snprintf(expected, sizeof expected,
             "cannot reach %s (connection refused); is `drover serve` running there?", url);
    assert_string_equal(err.text, expected);
    client_close(client);

    assert_int_equal(client_open("localhost:80", "t", 5, &client, &err), ERR_INVALID);
    assert_int_equal(client_open("http://", "t", 5, &client, &err), ERR_INVALID);
    assert_int_equal(client_open("http://example.com", "t", 5, &client, &err), ERR_DENIED);
    assert_int_equal(client_open("http://127.0.0.1.example.com", "t", 5, &client, &err),
                     ERR_DENIED);
    assert_int_equal(client_open("http://127.0.0.1@example.com", "t", 5, &client, &err),
                     ERR_DENIED);
    assert_int_equal(client_open("http://localhost:1", "two\nlines", 5, &client, &err),
                     ERR_INVALID);
    (void)state;
}

static void an_answer_that_does_not_come_ends_the_wait(void **state)
{
    struct client *client = NULL;
    struct client_answer answer;
    struct err err;
    assert_int_equal(client_open(app_url(*state), "t", 1, &client, &err), ERR_OK);
    struct client_request request = {.method = "GET", .path = "/never"};
    assert_int_equal(client_call(client, &request, &answer, &err), ERR_IO);
    assert_non_null(strstr(err.text, "no answer from http://127.0.0.1:"));
    client_close(client);
}

static void text_is_encoded_for_a_url(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    client_add_encoded(&out, "a-b_c.d~e f/g%h\xc3\xa4+=");
    assert_string_equal(str_text(&out), "a-b_c.d~e%20f%2Fg%25h%C3%A4%2B%3D");
}

static void taken_ports_and_unsafe_places_are_refused(void **state)
{
    struct app *app = *state;
    void *context = zmq_ctx_new();
    struct http *http = NULL;
    struct err err;
    struct http_options options = {
        .zmq_context = context, .host = "127.0.0.1", .port = (uint16_t)app_port(app)};
    assert_int_equal(http_start(&options, &http, &err), ERR_EXISTS);
    options.port_is_wish = true;
    assert_int_equal(http_start(&options, &http, &err), ERR_OK);
    assert_string_not_equal(http_url(http), app_url(app));
    http_stop(http);

    options.port = 0;
    options.host = "0.0.0.0";
    assert_int_equal(http_start(&options, &http, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "certificate"));
    options.host = "::";
    assert_int_equal(http_start(&options, &http, &err), ERR_DENIED);
    options.host = "203.0.113.7";
    assert_int_equal(http_start(&options, &http, &err), ERR_DENIED);
    options.host = "";
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    options.host = "no such host";
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    options.host = "127.0.0.1";
    options.certificate_file = "/nonexistent";
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    options.key_file = "/nonexistent";
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "/nonexistent"));
    zmq_ctx_term(context);
    http_stop(NULL);
}

static void it_also_listens_on_ipv6_and_on_names(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct http *http = NULL;
    struct err err;
    struct http_options options = {.zmq_context = context, .host = "[::1]"};
    if (http_start(&options, &http, &err) == ERR_OK) {
        assert_int_equal(strncmp(http_url(http), "http://[::1]:", 13), 0);
        http_stop(http);
    } else {
        print_message("no IPv6 here: %s\n", err.text);
    }
    options.host = "localhost";
    assert_int_equal(http_start(&options, &http, &err), ERR_OK);
    assert_int_equal(strncmp(http_url(http), "http://localhost:", 17), 0);
    http_stop(http);
    zmq_ctx_term(context);
}

static int64_t cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void an_idle_server_sleeps(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    struct http *http = NULL;
    struct err err;
    struct http_options options = {.zmq_context = context, .host = "127.0.0.1"};
    assert_int_equal(http_start(&options, &http, &err), ERR_OK);
    usleep(50000);
    struct rusage before;
    struct rusage after;
    int64_t cpu_before = cpu_us();
    getrusage(RUSAGE_SELF, &before);
    usleep(500000);
    getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 0, 5); /* this thread's own sleep is one */
    assert_in_range(cpu_us() - cpu_before, 0, 5000);
    http_stop(http);
    zmq_ctx_term(context);
}

static void stopping_answers_what_is_open(void **state)
{
    (void)state;
    struct app *app = app_start(&(struct http_options){0});
    enum { MANY = 20 };
    int asked[MANY];
    int fresh = raw_connect(app);
    int half = raw_connect(app);
    int stream = raw_connect(app);
    raw_send(half, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    raw_send(stream, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < MANY; i++) {
        asked[i] = raw_connect(app);
        raw_send(asked[i], "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    while (app_counts(app).requests < MANY + 2) {
        usleep(1000);
    }
    int64_t began_ms = clock_mono_ms();
    app_stop(app);
    assert_true(clock_mono_ms() - began_ms < 900);
    AUTO_STR struct str response = {0};
    for (int i = 0; i < MANY; i++) {
        assert_true(raw_response(asked[i], &response));
        assert_int_equal(raw_status(&response), 503);
        close(asked[i]);
    }
    str_clear(&response);
    assert_true(raw_until_closed(stream, &response));
    assert_non_null(strstr(str_text(&response), "\r\n\r\n0\r\n\r\n")); /* a proper end */
    assert_true(raw_until_closed(half, &response));
    assert_true(raw_until_closed(fresh, &response));
    close(stream);
    close(half);
    close(fresh);
}

static void stopping_does_not_wait_for_those_who_do_not_read(void **state)
{
    (void)state;
    struct app *app = app_start(&(struct http_options){0});
    int fds[10];
    for (int i = 0; i < 10; i++) {
        fds[i] = raw_connect(app);
        raw_send(fds[i], i < 5 ? "GET /big?size=20000000 HTTP/1.1\r\nHost: x\r\n\r\n"
                               : "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    AUTO_STR struct str response = {0};
    raw_exchange(app, "GET /flood?count=10 HTTP/1.1\r\nHost: x\r\n\r\n", &response);
    int64_t began_ms = clock_mono_ms();
    app_stop(app);
    assert_true(clock_mono_ms() - began_ms < 3000);
    for (int i = 0; i < 10; i++) {
        close(fds[i]);
    }
}

static void a_connection_that_is_not_used_is_closed_without_blame(void **state)
{
    (void)state;
    struct app *app = app_start(&(struct http_options){.patience_ms = 300});
    int fd = raw_connect(app);
    AUTO_STR struct str response = {0};
    for (int i = 0; i < 3; i++) { /* each request has its own time */
        raw_send(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_true(raw_response(fd, &response));
        usleep(150000);
    }
    assert_true(raw_until_closed(fd, &response));
    close(fd);
    assert_int_equal(app_counts(app).refused, 0);

    /* while the owner thinks, and a stream is silent, nobody is in a hurry */
    int never = raw_connect(app);
    int stream = raw_connect(app);
    raw_send(never, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_send(stream, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_response(stream, &response));
    usleep(700000);
    assert_int_equal(recv(never, (char[1]){0}, 1, MSG_DONTWAIT), -1);
    assert_int_equal(recv(stream, (char[1]){0}, 1, MSG_DONTWAIT), -1);
    assert_int_equal(app_counts(app).streams, 1);
    app_stop(app);
    close(never);
    close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_the_owner_whole_and_its_reply_the_client),
        cmocka_unit_test(a_body_of_any_bytes_comes_back_as_it_was),
        cmocka_unit_test(a_problem_is_told_as_json),
        cmocka_unit_test(headers_are_few_and_careful),
        cmocka_unit_test(head_and_options_are_answered),
        cmocka_unit_test(a_thousand_requests_share_a_connection),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(chunked_bodies_and_old_clients_are_understood),
        cmocka_unit_test(two_hundred_connections_at_once_are_all_answered),
        cmocka_unit_test(parts_of_files_are_sent),
        cmocka_unit_test(a_server_that_is_not_there_is_told_with_what_to_do),
        cmocka_unit_test(an_answer_that_does_not_come_ends_the_wait),
        cmocka_unit_test(text_is_encoded_for_a_url),
        cmocka_unit_test(taken_ports_and_unsafe_places_are_refused),
        cmocka_unit_test(it_also_listens_on_ipv6_and_on_names),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(an_idle_server_sleeps),
        cmocka_unit_test(stopping_answers_what_is_open),
        cmocka_unit_test(stopping_does_not_wait_for_those_who_do_not_read),
        cmocka_unit_test(a_connection_that_is_not_used_is_closed_without_blame),
    };
    return cmocka_run_group_tests(tests, start, stop) + cmocka_run_group_tests(alone, NULL, NULL);
}
