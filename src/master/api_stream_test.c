/* Events, logs that are followed, and searches. */
#include "base/io.h"
#include "base/mem.h"
#include "master/api.h"
#include "master/api_fake.h"
#include "master/place.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RECIPE                                                                                     \
    "name: demo\nexperiments: {a: {command: 'echo {{x}}', parameters: {x: {values: 0..24}}}}\n"
#define ONE_TASK "name: one\nexperiments: {a: {command: 'true', retries: 1, backoff: 1s}}\n"

static void submit_recipe(struct fake *fake, const char *recipe)
{
    const struct fake_reply *reply =
        fake_ask(fake, &(struct fake_request){"POST", API_BASE "/workflows", .body = recipe});
    if (reply->status != 201) {
        fail_msg("%s", reply->body);
    }
}

static void submit(struct fake *fake)
{
    submit_recipe(fake, RECIPE);
}

static uint64_t open_events(struct fake *fake, const char *query, const char *last)
{
    const struct fake_reply *reply = fake_ask(
        fake, &(struct fake_request){"GET", API_BASE "/events", query, .last_event_id = last});
    assert_int_equal(reply->status, 200);
    assert_true(reply->stream);
    assert_string_equal(reply->type, "text/event-stream");
    return reply->id;
}

static const char *pushed(const struct fake *fake, uint64_t id)
{
    return str_text(&fake_find(fake, id)->pushed);
}

/* A plain loop: strstr under a sanitizer looks at the whole rest each time. */
static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    size_t size = strlen(what);
    for (; *text; text++) {
        count += *text == *what && strncmp(text, what, size) == 0;
    }
    return count;
}

static void assert_has(const char *text, const char *what)
{
    if (!text || !strstr(text, what)) {
        fail_msg("no %s in: %s", what, text ? text : "nothing");
    }
}

static void tell(struct fake *fake, const char *kind, uint32_t workflow, const char *text)
{
    struct server_event event = {
        .kind = kind, .workflow = workflow, .node = 1, .text = text, .at_ms = 1700000000000};
    fake_tell(fake, &event);
}

static void send_closed(struct fake *fake, uint64_t id)
{
    struct http_request *request = mem_alloc(sizeof *request);
    *request = (struct http_request){.id = id, .method = "CLOSED", .path = "", .query = ""};
    api_answer(fake->api, request);
}

/* --- events ---------------------------------------------------------------------------------- */

static void test_streams_get_what_happens_as_it_happens(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    submit(fake);
    uint64_t all = open_events(fake, "", "");
    uint64_t second = open_events(fake, "workflow=2", "");
    fake_work(fake, 1, 3);
    assert_has(pushed(fake, all),
               "event: task\ndata: {\"workflow\":\"demo-1\",\"experiment\":\"a\",\"task\":0,"
               "\"state\":\"");
    assert_has(pushed(fake, all), "\"exit_code\":3,\"reason\":\"exit 3\",\"at\":\"2023-");
    tell(fake, "node", 0, "away");
    tell(fake, "note", 0, "a \"note\"\nof two lines");
    tell(fake, "experiment", 2, NULL);
    tell(fake, "workflow", 2, NULL);
    for (int i = 0; i < 2; i++) {
        const char *text = pushed(fake, i ? second : all);
        assert_has(text, "event: node\ndata: {\"node\":\"ant\",\"number\":1,\"state\":\"away\"");
        assert_has(text, "\"text\":\"a \\\"note\\\"\\nof two lines\"");
        assert_has(text, "event: experiment\ndata: {\"workflow\":\"demo-2\",\"experiment\":\"a\","
                         "\"ended\":false,\"tasks\":25");
        assert_has(text, "event: workflow\ndata: {\"workflow\":\"demo-2\",\"state\":\"running\"");
    }
    assert_null(strstr(pushed(fake, second), "demo-1"));
    assert_int_equal(count_of(pushed(fake, all), "\ndata: "), 5);
    send_closed(fake, all);
    size_t before = fake_find(fake, all)->pushed.size;
    tell(fake, "note", 0, "later");
    assert_int_equal(fake_find(fake, all)->pushed.size, before);
    assert_has(pushed(fake, second), "later");
    fake_destroy(fake);
}

static void test_a_stream_goes_on_where_it_was_left(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    for (int i = 0; i < 10; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        tell(fake, "note", 0, text);
    }
    uint64_t zero = (uint64_t)core_term(server_core(fake->server)) << 40;
    for (uint64_t after = 0; after <= 10; after++) {
        char id[32];
        snprintf(id, sizeof id, "%" PRIu64, zero + after);
        uint64_t by_header = open_events(fake, "", id);
        char query[64];
        snprintf(query, sizeof query, "last_event_id=%s", id);
        uint64_t by_query = open_events(fake, query, "");
        assert_int_equal(count_of(pushed(fake, by_header), "event: note"), 10 - after);
        assert_string_equal(pushed(fake, by_header), pushed(fake, by_query));
        assert_null(strstr(pushed(fake, by_header), "reset"));
    }
    assert_has(fake_get(fake, API_BASE "/server", "")->body, "\"last_event_id\":\"");
    fake_destroy(fake);
}

static void test_a_stream_that_missed_events_is_told_so(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    uint64_t zero = (uint64_t)core_term(server_core(fake->server)) << 40;
    tell(fake, "note", 0, "first");
    char of_old_life[32];
    snprintf(of_old_life, sizeof of_old_life, "%" PRIu64, zero + 1);
    for (int i = 0; i < API_EVENTS_MAX; i++) {
        tell(fake, "note", 0, "x");
    }
    const char *const lost[] = {of_old_life,           "0", "17", "x", "99999999999999999999",
                                "18446744073709551615"};
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        /* the first is only just remembered: number 1 is gone, number 2 is what comes next */
        uint64_t id = open_events(fake, "", lost[i]);
        assert_int_equal(count_of(pushed(fake, id), "event: reset"), i == 0 ? 0 : 1);
        tell(fake, "note", 0, "new");
        for (int t = 0; t < 100; t++) {
            fake_pass_ms(fake, 300);
        }
        assert_has(pushed(fake, id), "new");
    }
    fake_forget(fake);
    fake_restart(fake);
    uint64_t id = open_events(fake, "", of_old_life);
    assert_has(pushed(fake, id), "event: reset");
    fake_destroy(fake);
}

static void test_a_stream_is_never_sent_more_than_it_can_hold(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    uint64_t id = open_events(fake, "", "");
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 15000; i++) { /* about 7 MB, in no time at all */
        tell(fake, "note", 0, text);
    }
    assert_true(fake_find(fake, id)->pushed.size < HTTP_STREAM_BYTES_MAX);
    size_t seen = count_of(pushed(fake, id), "event: note");
    for (int i = 0; i < 1000 && seen < 15000; i++) {
        size_t before = fake_find(fake, id)->pushed.size;
        assert_true(api_next_due_ms(fake->api) != INT64_MAX);
        fake_pass_ms(fake, 100);
        assert_true(fake_find(fake, id)->pushed.size - before < HTTP_STREAM_BYTES_MAX);
        seen += count_of(pushed(fake, id) + before, "event: note");
    }
    assert_int_equal(seen, 15000);
    assert_int_equal(api_next_due_ms(fake->api), INT64_MAX);
    for (int i = 0; i < API_EVENTS_MAX * 2; i++) {
        tell(fake, "note", 0, text);
    }
    fake_pass_ms(fake, 1000);
    assert_int_equal(count_of(pushed(fake, id), "event: reset"), 1);
    fake_destroy(fake);
}

static void test_quiet_streams_are_kept_alive_and_bounded_in_number(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    uint64_t first = open_events(fake, "", "");
    size_t before = fake_find(fake, first)->pushed.size;
    fake_pass_ms(fake, 14000);
    assert_int_equal(fake_find(fake, first)->pushed.size, before);
    fake_pass_ms(fake, 1000);
    assert_has(pushed(fake, first) + before, ": \n\n");
    for (int i = 1; i < API_STREAMS_MAX; i++) {
        open_events(fake, "", "");
    }
    struct fake_request request = {"GET", API_BASE "/events"};
    assert_int_equal(fake_ask(fake, &request)->status, 503);
    send_closed(fake, first);
    assert_int_equal(fake_ask(fake, &request)->status, 200);
    fake_destroy(fake);
}

/* --- logs ------------------------------------------------------------------------------------ */

static void write_log(struct fake *fake, uint64_t task, uint32_t attempt, const char *text,
                      size_t size)
{
    AUTO_STR struct str path = {0};
    const struct flow *flow = server_flow(fake->server, 1);
    place_add_log(&path, flow->folder, "a", task, attempt);
    AUTO_FREE char *folder = mem_strndup(str_text(&path), path.size);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(io_make_dirs(folder, NULL), ERR_OK);
    FILE *file = fopen(str_text(&path), "ae");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_text(struct fake *fake, uint64_t task, uint32_t attempt, const char *text)
{
    write_log(fake, task, attempt, text, strlen(text));
}

static const struct fake_reply *follow(struct fake *fake, const char *path, const char *query,
                                       const char *last)
{
    return fake_ask(fake, &(struct fake_request){.method = "GET",
                                                 .path = path,
                                                 .query = query,
                                                 .accept = "text/event-stream",
                                                 .last_event_id = last});
}

static void test_a_log_is_a_piece_of_a_file(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    const struct fake_reply *reply =
        fake_get(fake, API_BASE "/workflows/1/tasks/a/1/log", "offset=5&size=7");
    assert_int_equal(reply->status, 200);
    assert_string_equal(strrchr(reply->file, '/'), "/1.1.log");
    assert_int_equal(reply->file_offset, 5);
    assert_int_equal(reply->file_size, 7);
    reply = fake_get(fake, API_BASE "/workflows/1/tasks/a/1/log", "older=1");
    assert_string_equal(strrchr(reply->file, '/'), "/1.1.log.1");
    assert_int_equal(reply->file_size, API_LOG_BYTES_MAX);
    assert_int_equal(fake_get(fake, API_BASE "/workflows/1/tasks/a/1/log", "attempt=2")->status,
                     404);
    assert_int_equal(fake_get(fake, API_BASE "/workflows/1/tasks/a/24/log", "")->status, 404);
    assert_int_equal(fake_get(fake, API_BASE "/workflows/1/tasks/a/1/log", "size=67108865")->status,
                     400);
    fake_destroy(fake);
}

static void test_a_log_is_followed_over_attempts_to_the_end(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit_recipe(fake, ONE_TASK);
    uint64_t id = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "")->id;
    fake_pass_ms(fake, 200);
    assert_string_equal(pushed(fake, id), "");
    write_text(fake, 0, 1, "one\n\xc3"); /* half a character */
    fake_pass_ms(fake, 200);
    assert_string_equal(pushed(fake, id), "id: 1.4\nevent: log\ndata: \"one\\n\"\n\n");
    write_text(fake, 0, 1, "\xa4!");
    fake_pass_ms(fake, 200);
    assert_has(pushed(fake, id), "id: 1.7\nevent: log\ndata: \"\xc3\xa4!\"\n\n");
    write_text(fake, 0, 1, "\xff\xc3");
    fake_work(fake, 1, 1); /* it fails, and is tried again a little later */
    fake_pass_ms(fake, 10000);
    fake_pass_ms(fake, 200);
    const char *bad_byte = "\xef\xbf\xbd";
    AUTO_STR struct str want = {0};
    str_addf(&want, "data: \"%s\"", bad_byte);
    assert_has(pushed(fake, id), str_text(&want));
    assert_has(pushed(fake, id), "id: 2.0\nevent: attempt\ndata: {\"attempt\":2}\n\n");
    write_text(fake, 0, 2, "two");
    assert_false(fake_find(fake, id)->closed);
    fake_work(fake, 1, 0);
    assert_true(fake_find(fake, id)->closed);
    assert_has(pushed(fake, id), "id: 2.3\nevent: log\ndata: \"two\"\n\nevent: end\n");

    /* one attempt alone */
    const struct fake_reply *reply =
        follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "attempt=1", "");
    assert_true(reply->closed);
    assert_null(strstr(str_text(&reply->pushed), "two"));
    fake_destroy(fake);
}

static void test_a_followed_log_ends_when_its_task_does(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    uint64_t id = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "")->id;
    write_text(fake, 0, 1, "hello\n");
    fake_work(fake, 1, 0);
    const struct fake_reply *reply = fake_find(fake, id);
    assert_true(reply->closed);
    assert_string_equal(pushed(fake, id), "id: 1.6\nevent: log\ndata: \"hello\\n\"\n\n"
                                          "event: end\ndata: {\"state\":\"succeeded\","
                                          "\"attempt\":1}\n\n");
    reply = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "1.4");
    assert_has(str_text(&reply->pushed), "data: \"o\\n\"");
    assert_true(reply->closed);
    reply = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "offset=2", "");
    assert_has(str_text(&reply->pushed), "data: \"llo\\n\"");
    reply = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "1.400"); /* another file */
    assert_has(str_text(&reply->pushed), "data: \"hello\\n\"");
    assert_int_equal(follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "x.y")->status, 400);
    assert_int_equal(follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "2.0")->status, 404);
    assert_int_equal(api_next_due_ms(fake->api), INT64_MAX);
    fake_destroy(fake);
}

static void test_a_log_that_is_moved_aside_is_followed_on(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    uint64_t id = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "")->id;
    write_text(fake, 0, 1, "first\n");
    fake_pass_ms(fake, 200);
    AUTO_STR struct str path = {0};
    AUTO_STR struct str older = {0};
    place_add_log(&path, server_flow(fake->server, 1)->folder, "a", 0, 1);
    str_addf(&older, "%s.1", str_text(&path));
    write_text(fake, 0, 1, "second\n");
    assert_int_equal(rename(str_text(&path), str_text(&older)), 0);
    write_text(fake, 0, 1, "third\n");
    fake_pass_ms(fake, 200);
    assert_has(pushed(fake, id), "\"first\\n\"");
    assert_has(pushed(fake, id), "\"second\\n\"");
    assert_has(pushed(fake, id), "id: 1.6\nevent: log\ndata: \"third\\n\"");
    send_closed(fake, id);
    assert_int_equal(api_next_due_ms(fake->api), INT64_MAX);
    fake_destroy(fake);
}

static void test_a_huge_log_is_sent_at_a_readers_pace(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    AUTO_FREE char *line = mem_alloc(1 << 20);
    memset(line, 'y', 1 << 20);
    for (int i = 0; i < 8; i++) {
        write_log(fake, 0, 1, line, 1 << 20);
    }
    uint64_t id = follow(fake, API_BASE "/workflows/1/tasks/a/0/log", "", "")->id;
    size_t size = fake_find(fake, id)->pushed.size;
    assert_true(size < HTTP_STREAM_BYTES_MAX);
    for (int i = 0; i < 200 && size < 8 << 20; i++) {
        fake_pass_ms(fake, 200);
        assert_true(fake_find(fake, id)->pushed.size - size < HTTP_STREAM_BYTES_MAX);
        size = fake_find(fake, id)->pushed.size;
    }
    assert_true(size > 8 << 20);
    assert_has(pushed(fake, id), "id: 1.8388608\n");
    fake_destroy(fake);
}

/* --- searches -------------------------------------------------------------------------------- */

static void test_lines_are_found_with_their_places(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    write_text(fake, 0, 1, "alpha\nbeta needle\ngamma\nneedle again");
    write_text(fake, 2, 1, "\n\nneedle\n");
    const struct fake_reply *reply =
        fake_get(fake, API_BASE "/workflows/1/logs/search", "text=needle");
    assert_string_equal(
        reply->body,
        "{\"items\":[{\"experiment\":\"a\",\"task\":0,\"attempt\":1,\"line\":2,\"text\":\"beta "
        "needle\"},{\"experiment\":\"a\",\"task\":0,\"attempt\":1,\"line\":4,\"text\":\"needle "
        "again\"},{\"experiment\":\"a\",\"task\":2,\"attempt\":1,\"line\":3,\"text\":\"needle\"}],"
        "\"next\":null,\"complete\":true}");
    reply = fake_get(fake, API_BASE "/workflows/1/logs/search", "text=%5Eneed.*n$&regex=1");
    assert_string_equal(reply->body,
                        "{\"items\":[{\"experiment\":\"a\",\"task\":0,\"attempt\":1,\"line\":4,"
                        "\"text\":\"needle again\"}],\"next\":null,\"complete\":true}");
    assert_int_equal(fake_get(fake, API_BASE "/workflows/1/logs/search", "text=(&regex=1")->status,
                     400);
    reply = fake_get(fake, API_BASE "/workflows/1/logs/search", "text=hay");
    assert_string_equal(reply->body, "{\"items\":[],\"next\":null,\"complete\":true}");
    assert_int_equal(fake_get(fake, API_BASE "/workflows/1/logs/search", "")->status, 400);
    static const char *const bad[] = {"x",         "0.0.1.0",   "0.0.1.0.1.",
                                      "9.0.1.0.1", "0.0.0.0.1", "0.0.-1.0.1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char query[64];
        snprintf(query, sizeof query, "text=x&after=%s", bad[i]);
        assert_int_equal(fake_get(fake, API_BASE "/workflows/1/logs/search", query)->status, 400);
    }
    fake_destroy(fake);
}

/* Page after page; the lines found are added up. */
static uint64_t search_all(struct fake *fake, const char *text, unsigned limit, uint64_t *line_sum)
{
    uint64_t found = 0;
    char after[128] = "";
    *line_sum = 0;
    for (int i = 0; i < 10000; i++) {
        AUTO_STR struct str query = {0};
        str_addf(&query, "text=%s&limit=%u%s%s", text, limit, after[0] ? "&after=" : "", after);
        const char *body =
            fake_get(fake, API_BASE "/workflows/1/logs/search", str_text(&query))->body;
        for (const char *at = body; (at = strstr(at, "\"line\":")) != NULL; at++) {
            *line_sum += strtoull(at + 7, NULL, 10);
            found++;
        }
        const char *next = strstr(body, "\"next\":\"");
        if (!next) {
            assert_has(body, "\"complete\":true");
            return found;
        }
        snprintf(after, sizeof after, "%.*s", (int)strcspn(next + 8, "\""), next + 8);
        fake_forget(fake);
    }
    fail_msg("it never ends");
    return 0;
}

static void test_pages_of_a_search_find_each_line_once(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    AUTO_STR struct str log = {0};
    uint64_t want = 0;
    uint64_t want_sum = 0;
    for (uint64_t line = 1; log.size < 1 << 20; line++) { /* many pieces of a file */
        bool hit = line % 97 == 0;
        str_addf(&log, "%" PRIu64 " %.*s%s\n", line, (int)(line % 60),
                 "------------------------------------------------------------",
                 hit ? " needle, needle" : "");
        want += hit;
        want_sum += hit ? line : 0;
    }
    write_log(fake, 0, 1, log.text, log.size);
    for (unsigned limit = 1; limit <= 1000; limit = limit * 7 + 1) {
        uint64_t sum = 0;
        assert_int_equal(search_all(fake, "needle", limit, &sum), want);
        assert_int_equal(sum, want_sum);
        assert_int_equal(search_all(fake, "ne*d.e&regex=1", limit, &sum), want);
        assert_int_equal(sum, want_sum);
    }
    fake_destroy(fake);
}

static void test_a_line_without_an_end_is_no_trouble(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    AUTO_FREE char *line = mem_alloc(1 << 20);
    memset(line, 'y', 1 << 20);
    memcpy(line + 700000, "needle", 6);
    write_log(fake, 0, 1, line, 1 << 20);
    write_text(fake, 0, 1, "\nneedle\n");
    uint64_t sum = 0;
    assert_int_equal(search_all(fake, "needle", 100, &sum), 2);
    assert_int_equal(sum, 1 + 2);
    const struct fake_reply *reply =
        fake_get(fake, API_BASE "/workflows/1/logs/search", "text=needle");
    assert_has(reply->body, "yyyneedleyyy");
    assert_true(reply->body_size < 3000);
    fake_destroy(fake);
}

static void test_there_is_a_limit_of_searches(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake);
    for (int i = 0; i <= API_SEARCHES_MAX; i++) {
        struct http_request *request = mem_alloc(sizeof *request);
        *request = (struct http_request){.id = 1000 + (uint64_t)i,
                                         .method = "GET",
                                         .path = API_BASE "/workflows/1/logs/search",
                                         .query = "text=x",
                                         .token = fake_admin_token(fake),
                                         .last_event_id = "",
                                         .accept = ""};
        api_answer(fake->api, request);
    }
    assert_int_equal(fake_find(fake, 1000 + API_SEARCHES_MAX)->status, 503);
    assert_null(fake_find(fake, 1000));
    for (int i = 0; i < API_SEARCHES_MAX; i++) {
        fake_pass_ms(fake, 1);
    }
    for (uint64_t i = 0; i < API_SEARCHES_MAX; i++) {
        assert_int_equal(fake_find(fake, 1000 + i)->status, 200);
    }
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_get_what_happens_as_it_happens),
        cmocka_unit_test(test_a_stream_goes_on_where_it_was_left),
        cmocka_unit_test(test_a_stream_that_missed_events_is_told_so),
        cmocka_unit_test(test_a_stream_is_never_sent_more_than_it_can_hold),
        cmocka_unit_test(test_quiet_streams_are_kept_alive_and_bounded_in_number),
        cmocka_unit_test(test_a_log_is_a_piece_of_a_file),
        cmocka_unit_test(test_a_log_is_followed_over_attempts_to_the_end),
        cmocka_unit_test(test_a_followed_log_ends_when_its_task_does),
        cmocka_unit_test(test_a_log_that_is_moved_aside_is_followed_on),
        cmocka_unit_test(test_a_huge_log_is_sent_at_a_readers_pace),
        cmocka_unit_test(test_lines_are_found_with_their_places),
        cmocka_unit_test(test_pages_of_a_search_find_each_line_once),
        cmocka_unit_test(test_a_line_without_an_end_is_no_trouble),
        cmocka_unit_test(test_there_is_a_limit_of_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
