#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "master/api.h"
#include "master/api_fake.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define RECIPE                                                                                     \
    "name: demo\n"                                                                                 \
    "experiments:\n"                                                                               \
    "  a:\n"                                                                                       \
    "    command: echo {{x}}\n"                                                                    \
    "    parameters: {x: {values: 0..24}}\n"                                                       \
    "  b:\n"                                                                                       \
    "    depends_on: [a]\n"                                                                        \
    "    command: echo {{y}}\n"                                                                    \
    "    parameters: {y: {values: 0..4}}\n"

static const struct fake_reply *post(struct fake *fake, const char *path, const char *query,
                                     const char *body)
{
    return fake_ask(
        fake, &(struct fake_request){.method = "POST", .path = path, .query = query, .body = body});
}

static void submit(struct fake *fake, const char *recipe)
{
    assert_int_equal(post(fake, API_BASE "/workflows", "", recipe)->status, 201);
}

static void assert_has(const struct fake_reply *reply, const char *text)
{
    if (!strstr(reply->body, text)) {
        fail_msg("no %s in: %s", text, reply->body);
    }
}

static void assert_lacks(const struct fake_reply *reply, const char *text)
{
    if (strstr(reply->body, text)) {
        fail_msg("%s in: %s", text, reply->body);
    }
}

static void assert_problem(const struct fake_reply *reply, int status)
{
    if (reply->status != status) {
        fail_msg("%d instead of %d: %s", reply->status, status, reply->body);
    }
    assert_string_equal(reply->type, "application/problem+json");
    assert_has(reply, "\"detail\":\"");
}

/* --- the door -------------------------------------------------------------------------------- */

static void test_the_first_start_makes_a_token_that_restarts_keep(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    struct stat info;
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/admin.token", fake->folder);
    assert_int_equal(stat(str_text(&path), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    AUTO_FREE char *token = mem_strdup(fake_admin_token(fake));
    assert_int_equal(strlen(token), TOKEN_CHARS);
    assert_null(strstr(str_text(&fake->tokens_document), token));
    fake_restart(fake);
    assert_string_equal(fake_admin_token(fake), token);
    assert_int_equal(fake_get(fake, API_BASE "/server", "")->status, 200);

    assert_int_equal(unlink(str_text(&path)), 0);
    fake_restart(fake);
    assert_string_not_equal(fake_admin_token(fake), token);
    assert_int_equal(fake_get(fake, API_BASE "/server", "")->status, 200);
    assert_problem(
        fake_ask(fake, &(struct fake_request){"GET", API_BASE "/server", .token = token}), 401);
    fake_destroy(fake);
}

static void test_requests_need_a_token_that_may(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    assert_int_equal(fake_ask(fake, &(struct fake_request){"GET", "/healthz", .token = ""})->status,
                     200);
    assert_int_equal(
        fake_ask(fake, &(struct fake_request){"GET", API_BASE "/openapi.json", .token = ""})
            ->status,
        200);
    for (size_t i = 0; i < api_route_count; i++) {
        if (api_routes[i].role == TOKEN_NONE) {
            continue;
        }
        AUTO_STR struct str path = {0};
        for (const char *at = api_routes[i].pattern; *at; at++) {
            str_add_char(&path, *at == '{' || *at == '}' ? 'x' : *at);
        }
        struct fake_request request = {api_routes[i].method, str_text(&path), .token = ""};
        assert_problem(fake_ask(fake, &request), 401);
        request.token = "drv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert_problem(fake_ask(fake, &request), 401);
    }
    fake_destroy(fake);
}

/* The token in the answer of POST /tokens. */
static char *token_of(const struct fake_reply *reply)
{
    const char *at = strstr(reply->body, "\"token\":\"");
    assert_non_null(at);
    return mem_strndup(at + 9, TOKEN_CHARS);
}

static void test_a_role_is_a_bound(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake, RECIPE);
    AUTO_FREE char *reader =
        token_of(post(fake, API_BASE "/tokens", "", "{\"name\":\"ro\",\"role\":\"reader\"}"));
    AUTO_FREE char *user = token_of(post(fake, API_BASE "/tokens", "", "{name: u, role: user}"));
    struct fake_request request = {"GET", API_BASE "/workflows/newest", .token = reader};
    assert_int_equal(fake_ask(fake, &request)->status, 200);
    request = (struct fake_request){"POST", API_BASE "/workflows/newest/cancel", .token = reader};
    assert_problem(fake_ask(fake, &request), 403);
    request.token = user;
    assert_int_equal(fake_ask(fake, &request)->status, 200);
    request = (struct fake_request){"GET", API_BASE "/tokens", .token = user};
    assert_problem(fake_ask(fake, &request), 403);
    request = (struct fake_request){"POST", API_BASE "/nodes/ant/revoke", .token = user};
    assert_problem(fake_ask(fake, &request), 403);
    fake_restart(fake);
    request = (struct fake_request){"GET", API_BASE "/workflows/newest", .token = reader};
    assert_int_equal(fake_ask(fake, &request)->status, 200);
    fake_destroy(fake);
}

static void test_tokens_are_made_listed_and_removed(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    assert_problem(post(fake, API_BASE "/tokens", "", ""), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "[1, 2]"), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "{name: x}"), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "{name: x, role: god}"), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "{name: x, role: [user]}"), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "{name: a/b, role: user}"), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "{name: x, role: user, more: 1}"), 422);
    assert_problem(post(fake, API_BASE "/tokens", "", "{name: admin, role: user}"), 409);
    AUTO_FREE char *second = token_of(post(fake, API_BASE "/tokens", "", "{name: x, role: admin}"));
    const struct fake_reply *list = fake_get(fake, API_BASE "/tokens", "limit=1");
    assert_has(list, "\"next\":\"admin\"");
    assert_lacks(list, "drv_");
    list = fake_get(fake, API_BASE "/tokens", "limit=1&after=admin");
    assert_has(list, "\"name\":\"x\"");
    assert_has(list, "\"next\":null");

    struct fake_request request = {"DELETE", API_BASE "/tokens/admin", .token = second};
    assert_int_equal(fake_ask(fake, &request)->status, 200);
    assert_problem(fake_ask(fake, &request), 404);
    assert_string_equal(fake_admin_token(fake), "");
    request.path = API_BASE "/tokens/x";
    assert_problem(fake_ask(fake, &request), 409); /* the last of its kind */
    fake_restart(fake);
    assert_string_equal(fake_admin_token(fake), ""); /* removed on purpose */
    assert_problem(fake_ask(fake, &request), 409);
    fake_destroy(fake);
}

static void test_strange_paths_and_queries_are_refused(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake, RECIPE);
    assert_problem(fake_get(fake, "/", ""), 404);
    assert_problem(fake_get(fake, API_BASE, ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/1/tasks/a", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/1/tasks/a/1/log/more", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/7", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/1/tasks/a/25", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/1/tasks/c/0", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/workflows/1/tasks/a/-1", ""), 404);
    const struct fake_reply *reply =
        fake_ask(fake, &(struct fake_request){"DELETE", API_BASE "/workflows"});
    assert_problem(reply, 405);
    assert_has(reply, "POST, GET");
    assert_string_equal(reply->location, "POST, GET");
    static const char *const bad[] = {
        "x=1",
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=1x",
        "limit=",
        "limit=1&limit=2",
        "state=asleep",
        "after=x",
        "after=1.",
        "after=9.0",
        "after=0.x",
        "failed=maybe",
        "state=%zz",
        "state=%",
        "state=%2",
        "a%00b=1",
        "limit=99999999999999999999999",
        "failed=1&state=queued",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_problem(fake_get(fake, API_BASE "/workflows/1/tasks", bad[i]), 400);
    }
    assert_int_equal(fake_get(fake, API_BASE "/workflows/1/tasks", "&&state=qu%65ued&")->status,
                     200);
    assert_problem(fake_get(fake, API_BASE "/usage", "node=ant&from=yesterday"), 400);
    assert_problem(fake_get(fake, API_BASE "/usage", "task=1/a/0&node=ant"), 400);
    assert_problem(fake_get(fake, API_BASE "/usage", "task=1"), 400);
    assert_problem(fake_get(fake, API_BASE "/usage", "task=1/a/99"), 404);
    assert_int_equal(
        fake_get(fake, API_BASE "/usage", "task=1/a/0&from=2026-11-15T09:35:56.5Z&step=60")->status,
        200);
    fake_destroy(fake);
}

static void test_times_are_read_as_they_are_written(void **state)
{
    (void)state;
    int64_t ms = 0;
    for (int64_t want = 0; want < 4000000000000; want += 98765432101) {
        AUTO_STR struct str text = {0};
        clock_add_rfc3339(&text, want);
        assert_true(api_read_time(str_text(&text), &ms));
        assert_int_equal(ms, want);
    }
    assert_true(api_read_time("2026-11-15T09:35:56Z", &ms));
    assert_false(api_read_time("2026-11-15T09:35:56", &ms));
    assert_false(api_read_time("2026-11-15", &ms));
    assert_false(api_read_time("", &ms));
}

/* --- workflows and tasks --------------------------------------------------------------------- */

static void test_a_recipe_is_taken_once_for_a_key(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    struct fake_request request = {"POST",
                                   API_BASE "/workflows",
                                   .query = "seed=18446744073709551615&set=a.retries%3D2",
                                   .body = RECIPE,
                                   .content_type = "text/yaml; charset=utf-8",
                                   .key = "k1"};
    const struct fake_reply *reply = fake_ask(fake, &request);
    assert_int_equal(reply->status, 201);
    assert_string_equal(reply->location, API_BASE "/workflows/demo-1");
    assert_has(reply, "{\"id\":\"demo-1\",\"number\":1,\"state\":\"running\",\"tasks\":30,");
    assert_has(reply, "{\"name\":\"b\",\"tasks\":5}");
    assert_has(fake_ask(fake, &request), "\"demo-1\"");
    assert_int_equal(server_flow_count(fake->server), 1);
    assert_has(fake_get(fake, API_BASE "/workflows/demo-1", ""), "\"seed\":18446744073709551615");
    assert_has(fake_get(fake, API_BASE "/workflows/1", ""), "\"owner\":\"admin\"");
    request.body = "experiments: {a: {command: 'true'}}";
    request.query = "";
    assert_problem(fake_ask(fake, &request), 409);
    request.key = "k2";
    request.body = "{\"experiments\": {\"a\": {\"command\": \"true\"}}}";
    request.content_type = "application/json";
    assert_int_equal(fake_ask(fake, &request)->status, 201);

    AUTO_STR struct str text = {0};
    reply = fake_get(fake, API_BASE "/workflows/1/recipe", "");
    assert_int_equal(io_read_file(reply->file, 10000, &text, NULL), ERR_OK);
    assert_string_equal(str_text(&text), RECIPE);
    fake_destroy(fake);
}

static void test_mistakes_in_a_recipe_come_with_their_places(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    const struct fake_reply *reply =
        post(fake, API_BASE "/workflows", "file=r.yaml", "experiments:\n  a:\n    comand: x\n");
    assert_problem(reply, 422);
    assert_has(reply, "\"errors\":[{\"file\":\"r.yaml\",\"line\":3,\"column\":5,\"message\":\"");
    assert_problem(post(fake, API_BASE "/workflows", "", ""), 422);
    assert_problem(post(fake, API_BASE "/workflows", "folder=here", RECIPE), 400);
    assert_problem(
        fake_ask(fake, &(struct fake_request){"POST", API_BASE "/workflows", .body = RECIPE,
                                              .content_type = "image/png"}),
        415);
    char key[300];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    assert_problem(fake_ask(fake, &(struct fake_request){"POST", API_BASE "/workflows",
                                                         .body = RECIPE, .key = key}),
                   400);
    assert_int_equal(server_flow_count(fake->server), 0);
    assert_problem(fake_get(fake, API_BASE "/workflows/newest", ""), 404);
    fake_destroy(fake);
}

/* Follows "next" to the end; returns the number of items, counted by a text in them. */
static size_t count_pages(struct fake *fake, const char *path, const char *query, const char *text,
                          size_t *pages)
{
    size_t count = 0;
    AUTO_STR struct str whole = {0};
    str_add(&whole, query);
    for (*pages = 1;; (*pages)++) {
        const struct fake_reply *reply = fake_get(fake, path, str_text(&whole));
        assert_int_equal(reply->status, 200);
        for (const char *at = reply->body; (at = strstr(at, text)) != NULL; at++) {
            count++;
        }
        const char *next = strstr(reply->body, "\"next\":\"");
        if (!next) {
            assert_has(reply, "\"next\":null");
            return count;
        }
        next += 8;
        str_clear(&whole);
        str_addf(&whole, "%s&after=%.*s", query, (int)strcspn(next, "\""), next);
        fake_forget(fake);
    }
}

static void test_pages_hold_each_item_once(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    size_t pages = 0;
    for (int i = 0; i < 7; i++) {
        submit(fake, RECIPE);
    }
    assert_int_equal(count_pages(fake, API_BASE "/workflows", "limit=3", "\"id\":", &pages), 7);
    assert_int_equal(pages, 3);
    assert_int_equal(
        count_pages(fake, API_BASE "/workflows", "limit=3&state=failed", "\"id\":", &pages), 0);
    assert_has(fake_get(fake, API_BASE "/workflows", "limit=1"), "[{\"id\":\"demo-7\"");
    assert_int_equal(count_pages(fake, API_BASE "/workflows/2/tasks", "limit=7", "\"id\":", &pages),
                     30);
    assert_int_equal(pages, 5);
    assert_int_equal(count_pages(fake, API_BASE "/workflows/2/tasks", "limit=10&experiment=b",
                                 "\"id\":", &pages),
                     5);
    assert_int_equal(count_pages(fake, API_BASE "/workflows/2/tasks", "limit=10&state=waiting",
                                 "\"state\":\"waiting\"", &pages),
                     5);
    assert_problem(fake_get(fake, API_BASE "/workflows/2/tasks", "experiment=c"), 404);
    assert_int_equal(count_pages(fake, API_BASE "/nodes", "limit=1", "\"name\":", &pages), 3);
    fake_destroy(fake);
}

static void test_a_task_tells_all_about_itself(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake, RECIPE);
    assert_int_equal(fake_work(fake, 1, 3), 1);
    const struct fake_reply *reply = fake_get(fake, API_BASE "/workflows/demo-1/tasks/a/0", "");
    assert_has(reply, "{\"id\":\"demo-1/a/0\",\"experiment\":\"a\",\"task\":0,"
                      "\"state\":\"failed\",\"attempt\":1,\"node\":\"");
    assert_has(reply, "\"exit_code\":3,\"reason\":\"exit 3\",\"started_at\":\"2023-");
    assert_has(reply, "\"params\":{\"x\":");
    reply = fake_get(fake, API_BASE "/workflows/demo-1/tasks/b/0", "");
    assert_has(reply, "\"state\":\"waiting\",\"attempt\":0,\"node\":null,\"exit_code\":null,"
                      "\"reason\":null,\"started_at\":null,\"finished_at\":null");
    reply = fake_get(fake, API_BASE "/workflows/1/tasks/a/0/log", "stream=system");
    assert_has(reply, "last end: exit 3");
    reply = fake_get(fake, API_BASE "/workflows/1/tasks", "failed=1");
    assert_has(reply, "\"task\":0");
    assert_lacks(reply, "\"task\":1");
    fake_destroy(fake);
}

static void test_tasks_and_workflows_are_cancelled_and_tried_again(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake, RECIPE);
    assert_has(post(fake, API_BASE "/workflows/1/tasks/a/20/cancel", "", NULL),
               "{\"id\":\"demo-1/a/20\",\"tasks\":1}");
    assert_has(fake_get(fake, API_BASE "/workflows/1/tasks/a/20", ""), "\"state\":\"cancelled\"");
    assert_problem(post(fake, API_BASE "/workflows/1/tasks/a/20/cancel", "", NULL), 409);
    assert_has(post(fake, API_BASE "/workflows/1/tasks/a/20/retry", "", NULL), "\"tasks\":1");
    assert_has(fake_get(fake, API_BASE "/workflows/1/tasks/a/20", ""), "\"state\":\"queued\"");
    assert_problem(post(fake, API_BASE "/workflows/1/tasks/a/21/retry", "", NULL), 409);
    assert_has(post(fake, API_BASE "/workflows/1/cancel", "", NULL), "\"tasks\":30");
    assert_has(fake_get(fake, API_BASE "/workflows/1", ""), "\"state\":\"cancelled\"");
    assert_has(post(fake, API_BASE "/workflows/1/cancel", "", NULL), "\"tasks\":0");
    assert_has(post(fake, API_BASE "/workflows/1/retry", "", NULL), "\"tasks\":30");
    assert_has(fake_get(fake, API_BASE "/workflows/1", ""), "\"state\":\"running\"");
    fake_destroy(fake);
}

static void test_a_page_of_a_million_tasks_costs_what_it_shows(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake, "name: big\nexperiments: {a: {command: 'true', "
                 "parameters: {x: {values: 0..999999}}}}");
    int64_t began_us = clock_mono_us();
    assert_has(fake_get(fake, API_BASE "/workflows/1/tasks", "limit=100&after=0.999900"),
               "\"task\":999999,");
    const struct fake_reply *reply =
        fake_get(fake, API_BASE "/workflows/1/tasks", "limit=100&state=assigned&after=0.500000");
    assert_has(reply, "{\"items\":[],\"next\":\"0.520000\"}");
    reply = fake_get(fake, API_BASE "/workflows/1/tasks", "failed=1");
    assert_has(reply, "{\"items\":[],\"next\":null}"); /* none failed: nothing is looked at */
    int64_t took_us = clock_mono_us() - began_us;
    print_message("three pages: %" PRId64 " us\n", took_us);
    assert_true(took_us < 500000);
    size_t pages = 0;
    assert_int_equal(count_pages(fake, API_BASE "/workflows/1/tasks", "state=assigned",
                                 "\"state\":\"assigned\"", &pages),
                     8);
    assert_int_equal(pages, 50);
    fake_destroy(fake);
}

/* --- nodes, the server ----------------------------------------------------------------------- */

static void test_nodes_are_shown_drained_and_revoked(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    struct herd_node *node = fake_node(fake, 1);
    node->price_micro_hour = 2000000;
    node->here_ms = 1800000;
    fake_pass_ms(fake, 1800000);
    const struct fake_reply *reply = fake_get(fake, API_BASE "/nodes/ant", "");
    assert_has(reply, "\"state\":\"here\",\"slots\":4,\"cpu\":4");
    assert_has(reply, "\"price_hour\":2");
    assert_has(reply, "\"cost\":2");
    assert_has(reply, "\"labels\":[\"zone=a\"]");
    assert_has(reply, "\"usage\":null");
    assert_has(fake_get(fake, API_BASE "/nodes/2", ""), "\"name\":\"bee\"");
    assert_has(fake_get(fake, API_BASE "/nodes/0", ""), "\"state\":\"left\"");
    assert_problem(fake_get(fake, API_BASE "/nodes/3", ""), 404);
    assert_problem(fake_get(fake, API_BASE "/nodes/cow", ""), 404);
    assert_problem(post(fake, API_BASE "/nodes/ant/drain", "mode=gently", NULL), 400);
    assert_has(post(fake, API_BASE "/nodes/ant/drain", "", NULL), "\"state\":\"draining\"");
    assert_int_equal(node->drain, CORE_DRAIN_SOFT);
    post(fake, API_BASE "/nodes/ant/drain", "mode=hard", NULL);
    assert_int_equal(node->drain, CORE_DRAIN_HARD);
    assert_has(post(fake, API_BASE "/nodes/ant/drain", "mode=off", NULL), "\"state\":\"here\"");
    assert_has(post(fake, API_BASE "/nodes/ant/revoke", "", NULL), "\"state\":\"revoked\"");
    assert_has(post(fake, API_BASE "/nodes/ant/revoke", "", NULL), "\"state\":\"revoked\"");
    assert_problem(post(fake, API_BASE "/nodes/ant/drain", "", NULL), 409);
    node->key[0] = '\0';
    assert_problem(post(fake, API_BASE "/nodes/ant/revoke", "", NULL), 409);
    assert_has(post(fake, API_BASE "/join/rotate", "revoke=1", NULL),
               "{\"url\":\"drover://join/1\"");
    post(fake, API_BASE "/code/missing", "", "[]");
    assert_int_equal(fake->code_requests, 1);
    fake_destroy(fake);
}

/* name, optional {key="value",...}, a number. */
static bool is_metric_line(const char *line, size_t size)
{
    size_t at = strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    if (line[at] == '{') {
        while (at < size && line[at] != '}') {
            bool is_escape = line[at] == '\\';
            at += is_escape ? 2 : 1;
        }
        at++;
    }
    if (at == 0 || at >= size || line[at] != ' ') {
        return false;
    }
    char *end = NULL;
    double value = strtod(line + at + 1, &end);
    return end == line + size && value == value;
}

static void test_metrics_are_what_prometheus_reads(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    submit(fake, RECIPE);
    submit(fake, RECIPE);
    post(fake, API_BASE "/workflows/2/cancel", "", NULL);
    struct herd_node *node = fake_node(fake, 1);
    free(node->name);
    node->name = mem_strdup("a\"n\\t\n");
    node->usage = (struct herd_usage){.at_ms = 5, .cpu_milli = 1500};
    const struct fake_reply *reply = fake_get(fake, "/metrics", "");
    assert_int_equal(reply->status, 200);
    assert_has(reply, "drover_tasks{workflow=\"demo-1\",experiment=\"b\",state=\"waiting\"} 5\n");
    assert_lacks(reply, "demo-2");
    assert_has(reply, "drover_workflows{state=\"cancelled\"} 1\n");
    assert_has(reply, "drover_nodes{state=\"here\"} 2\n");
    assert_has(reply, "drover_node_cpu{node=\"a\\\"n\\\\t\\n\"} 1.5\n");
    assert_has(reply, "drover_results_total{result=\"accepted\"} 5\n");
    assert_has(reply, "# TYPE process_cpu_seconds_total counter\n");
    for (const char *at = reply->body; *at; at += strcspn(at, "\n") + 1) {
        size_t size = strcspn(at, "\n");
        if (strncmp(at, "# HELP ", 7) != 0 && strncmp(at, "# TYPE ", 7) != 0 &&
            !is_metric_line(at, size)) {
            fail_msg("%.*s", (int)size, at);
        }
    }
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_start_makes_a_token_that_restarts_keep),
        cmocka_unit_test(test_requests_need_a_token_that_may),
        cmocka_unit_test(test_a_role_is_a_bound),
        cmocka_unit_test(test_tokens_are_made_listed_and_removed),
        cmocka_unit_test(test_strange_paths_and_queries_are_refused),
        cmocka_unit_test(test_times_are_read_as_they_are_written),
        cmocka_unit_test(test_a_recipe_is_taken_once_for_a_key),
        cmocka_unit_test(test_mistakes_in_a_recipe_come_with_their_places),
        cmocka_unit_test(test_pages_hold_each_item_once),
        cmocka_unit_test(test_a_task_tells_all_about_itself),
        cmocka_unit_test(test_tasks_and_workflows_are_cancelled_and_tried_again),
        cmocka_unit_test(test_a_page_of_a_million_tasks_costs_what_it_shows),
        cmocka_unit_test(test_nodes_are_shown_drained_and_revoked),
        cmocka_unit_test(test_metrics_are_what_prometheus_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
