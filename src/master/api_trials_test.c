/* The trials of a workflow as its log says, through the API. */
#include "base/io.h"
#include "base/jread.h"
#include "base/mem.h"
#include "master/api.h"
#include "master/api_fake.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RECIPE                                                                                     \
    "name: demo\n"                                                                                 \
    "experiments:\n"                                                                               \
    "  plain: {command: 'echo {{index}}'}\n"                                                       \
    "  t:\n"                                                                                       \
    "    parameters:\n"                                                                            \
    "      lr: {range: 1e-3..1, sampling: log}\n"                                                  \
    "      act: [relu, tanh, 3]\n"                                                                 \
    "      n: {range: 1-9, sampling: integer, when: act == relu}\n"                                \
    "      noise: {mean: 0, sd: 1, sampling: normal}\n"                                            \
    "      a: [1, 2]\n"                                                                            \
    "      b: [3, 4]\n"                                                                            \
    "    zip: [a, b]\n"                                                                            \
    "    search:\n"                                                                                \
    "      metric: acc\n"                                                                          \
    "      goal: maximize\n"                                                                       \
    "      trials: 30\n"                                                                           \
    "      early_stop: {algorithm: asha, resource: epoch, min: 1, max: 9}\n"                       \
    "    command: echo {{lr}}\n"

#define HEAD "{\"v\":1,\"experiment\":\"t\",\"at\":1700000000000,"
#define BEGUN                                                                                      \
    HEAD "\"kind\":\"search\",\"algorithm\":\"auto\",\"chosen\":\"gp\",\"why\":\"few\","           \
         "\"metrics\":[\"acc\"],\"goals\":[\"maximize\"],\"seed\":18446744073709551615}\n"
#define SUGGESTED(task, trial, rung, budget)                                                       \
    HEAD "\"kind\":\"suggested\",\"task\":" task ",\"trial\":" trial ",\"rung\":" rung             \
         ",\"budget\":" budget ",\"params\":{\"lr\":0.1},\"point\":\"0.1\"}\n"
#define RESULT(task, trial, rung, state, value)                                                    \
    HEAD "\"kind\":\"result\",\"task\":" task ",\"trial\":" trial ",\"rung\":" rung                \
         ",\"state\":\"" state "\",\"values\":[" value "],\"metrics\":{\"acc\":" value             \
         "},\"reason\":null,\"step\":1}\n"

static void write_log(struct fake *fake, const char *text)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/workflows/demo-1", fake->folder);
    assert_int_equal(io_make_dirs(str_text(&path), NULL), ERR_OK);
    str_add(&path, "/trials.log");
    assert_int_equal(io_replace_file(str_text(&path), text, strlen(text), 0600, NULL), ERR_OK);
}

static struct fake *begin(const char *log)
{
    struct fake *fake = fake_create();
    struct fake_request request = {
        .method = "POST", .path = API_BASE "/workflows", .query = "", .body = RECIPE};
    assert_int_equal(fake_ask(fake, &request)->status, 201);
    write_log(fake, log);
    return fake;
}

static const struct jnode *ask(struct fake *fake, const char *query, struct jread *out)
{
    const struct fake_reply *reply = fake_get(fake, API_BASE "/workflows/demo-1/trials", query);
    if (reply->status != 200) {
        fail_msg("%d: %s", reply->status, reply->body);
    }
    assert_int_equal(jread_parse(out, reply->body, reply->body_size, NULL), ERR_OK);
    return out->root;
}

static void assert_json(const struct jnode *node, const char *expected)
{
    AUTO_STR struct str text = {0};
    jread_add(&text, node);
    assert_string_equal(str_text(&text), expected);
}

static void test_a_trial_is_its_newest_rung_with_the_last_values(void **state)
{
    (void)state;
    struct fake *fake =
        begin(BEGUN SUGGESTED("0", "0", "0", "1") SUGGESTED("1", "1", "0", "1")
                  RESULT("1", "1", "0", "succeeded", "0.5") RESULT("0", "0", "0", "failed", "null")
                      SUGGESTED("2", "1", "1", "3"));
    struct jread doc = {0};
    const struct jnode *trials = jread_get(ask(fake, "", &doc), "trials");
    assert_int_equal(trials->count, 2);
    const struct jnode *first = trials->first;
    assert_string_equal(jread_text(first, "state", ""), "failed");
    assert_json(jread_get(first, "values"), "[null]");
    assert_json(jread_get(first, "value_task"), "0");
    const struct jnode *second = first->next;
    assert_string_equal(jread_text(second, "state", ""), "queued");
    assert_json(jread_get(second, "value"), "0.5");
    assert_json(jread_get(second, "rung"), "1");
    assert_json(jread_get(second, "budget"), "3");
    assert_json(jread_get(second, "task"), "2");
    assert_json(jread_get(second, "value_task"), "1");
    assert_json(jread_get(second, "finished_at"), "null");
    assert_json(jread_get(second, "metrics"), "{\"acc\":0.5}");
    jread_release(&doc);
    fake_destroy(fake);
}

static void test_a_search_says_what_it_is_and_what_its_space_is(void **state)
{
    (void)state;
    struct fake *fake =
        begin(BEGUN HEAD "\"kind\":\"warm\",\"from\":\"old-1\",\"trial\":3,\"state\":\"failed\","
                         "\"values\":[null],\"params\":{},\"point\":\"\"}\n" HEAD
                         "\"kind\":\"stop\",\"why\":\"enough\"}\n");
    struct jread doc = {0};
    const struct jnode *search = jread_first(jread_get(ask(fake, "", &doc), "experiments"));
    assert_string_equal(jread_text(search, "chosen", ""), "gp");
    assert_string_equal(jread_text(search, "resource", ""), "epoch");
    assert_string_equal(jread_text(search, "closed", ""), "enough");
    assert_json(jread_get(search, "warm"), "1");
    assert_json(jread_get(search, "seed"), "18446744073709551615");
    AUTO_STR struct str parameters = {0};
    for (const struct jnode *node = jread_first(jread_get(search, "parameters")); node;
         node = node->next) {
        jread_add(&parameters, node);
        str_add_char(&parameters, '\n');
    }
    assert_string_equal(
        str_text(&parameters),
        "{\"name\":\"lr\",\"kind\":\"log\",\"low\":0.001,\"high\":1,\"step\":null,\"values\":null}"
        "\n"
        "{\"name\":\"act\",\"kind\":\"categorical\",\"low\":null,\"high\":null,\"step\":null,"
        "\"values\":[\"relu\",\"tanh\",\"3\"]}\n"
        "{\"name\":\"n\",\"kind\":\"uniform\",\"low\":1,\"high\":9,\"step\":1,\"values\":null}\n"
        "{\"name\":\"noise\",\"kind\":\"normal\",\"low\":null,\"high\":null,\"step\":null,"
        "\"values\":null}\n");
    jread_release(&doc);
    fake_destroy(fake);
}

static void test_only_what_is_asked_for_is_answered(void **state)
{
    (void)state;
    struct fake *fake = begin("");
    struct jread doc = {0};
    assert_int_equal(jread_get(ask(fake, "experiment=t", &doc), "experiments")->count, 1);
    jread_release(&doc);
    assert_int_equal(jread_get(ask(fake, "experiment=plain", &doc), "experiments")->count, 0);
    jread_release(&doc);
    const char *path = API_BASE "/workflows/demo-1/trials";
    assert_int_equal(fake_get(fake, path, "experiment=x")->status, 404);
    assert_int_equal(fake_get(fake, path, "limit=3")->status, 400);
    assert_int_equal(fake_get(fake, API_BASE "/workflows/x/trials", "")->status, 404);
    fake_destroy(fake);
}

static void test_a_log_that_makes_no_sense_is_an_error(void **state)
{
    (void)state;
    static const char *const logs[] = {
        BEGUN "nonsense\n", BEGUN RESULT("0", "0", "0", "succeeded", "1"),
        "{\"v\":1,\"experiment\":\"gone\",\"at\":1,\"kind\":\"stop\",\"why\":\"x\"}\n"};
    struct fake *fake = begin("");
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        write_log(fake, logs[i]);
        const struct fake_reply *reply = fake_get(fake, API_BASE "/workflows/demo-1/trials", "");
        assert_int_equal(reply->status, 500);
        assert_non_null(strstr(reply->body, "trials.log: line "));
    }
    fake_destroy(fake);
}

static void test_trials_may_come_in_any_order(void **state)
{
    (void)state;
    AUTO_STR struct str log = {0};
    for (unsigned i = 0; i < 500; i++) {
        str_addf(&log, SUGGESTED("%u", "%u", "0", "1"), i, i * 7 % 500);
    }
    struct fake *fake = begin(str_text(&log));
    struct jread doc = {0};
    const struct jnode *trials = jread_get(ask(fake, "", &doc), "trials");
    uint64_t number = 0;
    for (const struct jnode *trial = jread_first(trials); trial; trial = trial->next) {
        assert_int_equal(jread_u64(trial, "trial", UINT64_MAX), number++);
    }
    assert_int_equal(number, 500);
    jread_release(&doc);
    fake_destroy(fake);
}

static void test_a_plan_is_what_the_task_runs(void **state)
{
    (void)state;
    struct fake *fake = begin("");
    const char *tasks = API_BASE "/workflows/demo-1/tasks";
    AUTO_STR struct str path = {0};
    struct jread doc = {0};
    str_addf(&path, "%s/plain/0/plan", tasks);
    const struct fake_reply *reply = fake_get(fake, str_text(&path), "");
    assert_int_equal(reply->status, 200);
    assert_int_equal(jread_parse(&doc, reply->body, reply->body_size, NULL), ERR_OK);
    assert_json(jread_get(doc.root, "command"), "[\"/bin/sh\",\"-c\",\"echo 0\"]");
    assert_json(jread_get(doc.root, "output"), "null");
    assert_string_equal(jread_text(jread_get(doc.root, "env"), "DROVER_TASK", ""),
                        "demo-1/plain/0");
    jread_release(&doc);
    str_clear(&path);
    str_addf(&path, "%s/t/0/plan", tasks); /* the search has not made it */
    assert_int_equal(fake_get(fake, str_text(&path), "")->status, 404);
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trial_is_its_newest_rung_with_the_last_values),
        cmocka_unit_test(test_a_search_says_what_it_is_and_what_its_space_is),
        cmocka_unit_test(test_only_what_is_asked_for_is_answered),
        cmocka_unit_test(test_a_log_that_makes_no_sense_is_an_error),
        cmocka_unit_test(test_trials_may_come_in_any_order),
        cmocka_unit_test(test_a_plan_is_what_the_task_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
