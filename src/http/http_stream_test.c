/* Event streams, from the server's side and the client's. */
#include "http/test_app.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

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

static void get(const struct app *app, const char *path)
{
    AUTO_STR struct str request = {0};
    AUTO_STR struct str response = {0};
    str_addf(&request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    raw_exchange(app, str_text(&request), &response);
    assert_int_equal(raw_status(&response), 200);
}

/* Waits for the owner to have been told of as many closed streams. */
static struct app_counts wait_for_closed(const struct app *app, unsigned long closed)
{
    struct app_counts counts = app_counts(app);
    for (int i = 0; i < 500 && counts.closed < closed; i++) {
        usleep(10000);
        counts = app_counts(app);
    }
    assert_int_equal(counts.closed, closed);
    return counts;
}

struct reading {
    const struct app *app;
    struct str seen;
    bool stop_at_two;
};

static bool on_event(void *context, const void *bytes, size_t size)
{
    struct reading *reading = context;
    str_add_bytes(&reading->seen, bytes, size);
    const char *seen = str_text(&reading->seen);
    if (strcmp(seen, "data: one\n\n") == 0) { /* each comes as it is pushed */
        get(reading->app, "/push?text=data:%20two%0A%0A");
    } else if (strcmp(seen, "data: one\n\ndata: two\n\n") == 0) {
        get(reading->app, "/end");
        return !reading->stop_at_two;
    }
    return true;
}

static void *push_first(void *cls)
{
    struct reading *reading = cls;
    while (app_counts(reading->app).streams == 0) {
        usleep(5000);
    }
    get(reading->app, "/push?text=data:%20one%0A%0A");
    return NULL;
}

static void a_stream_brings_what_is_pushed_until_it_is_closed(void **state)
{
    for (int stop_at_two = 0; stop_at_two < 2; stop_at_two++) {
        struct reading reading = {.app = *state, .stop_at_two = stop_at_two == 1};
        unsigned long closed = app_counts(*state).closed;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, push_first, &reading), 0);
        struct client *client = open_client(*state);
        int status = 0;
        struct err err;
        enum err_code code =
            client_stream(client, "/stream", "", on_event, &reading, &status, &err);
        assert_int_equal(code, stop_at_two == 1 ? ERR_CANCELLED : ERR_OK);
        assert_int_equal(status, 200);
        assert_string_equal(str_text(&reading.seen), "data: one\n\ndata: two\n\n");
        pthread_join(thread, NULL);
        struct app_counts counts = wait_for_closed(*state, closed + 1);
        assert_int_equal(counts.streams, 0);
        client_close(client);
        str_release(&reading.seen);
    }
}

static bool gather(void *context, const void *bytes, size_t size)
{
    str_add_bytes(context, bytes, size);
    return true;
}

static void last_event_id_and_accept_are_passed_on(void **state)
{
    struct client *client = open_client(*state);
    AUTO_STR struct str seen = {0};
    int status = 0;
    assert_int_equal(client_stream(client, "/info", "17", gather, &seen, &status, NULL), ERR_OK);
    assert_non_null(strstr(str_text(&seen), "accept=text/event-stream\nlast_event_id=17\n"));
    str_clear(&seen);
    assert_int_equal(client_stream(client, "/info", NULL, gather, &seen, &status, NULL), ERR_OK);
    assert_non_null(strstr(str_text(&seen), "accept=*/*\nlast_event_id=\n"));
    str_clear(&seen);
    assert_int_equal(client_stream(client, "/nosuch", "", gather, &seen, &status, NULL), ERR_OK);
    assert_int_equal(status, 404);
    assert_non_null(strstr(str_text(&seen), "Not Found"));
    client_close(client);
}

static void the_owner_is_told_when_the_reader_of_a_silent_stream_leaves(void **state)
{
    unsigned long closed = app_counts(*state).closed;
    int fd = raw_connect(*state);
    raw_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    AUTO_STR struct str head = {0};
    assert_true(raw_response(fd, &head));
    assert_non_null(strstr(str_text(&head), "text/event-stream"));
    assert_int_equal(app_counts(*state).streams, 1);
    close(fd);
    wait_for_closed(*state, closed + 1);
    get(*state, "/push?text=nobody"); /* is ignored */
    get(*state, "/end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_brings_what_is_pushed_until_it_is_closed),
        cmocka_unit_test(last_event_id_and_accept_are_passed_on),
        cmocka_unit_test(the_owner_is_told_when_the_reader_of_a_silent_stream_leaves),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
