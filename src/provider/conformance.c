#include "provider/conformance.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum { PATIENCE_MS = 5000 };

static void start(struct provider *provider, const char *name)
{
    struct err err = {0};
    struct provider_spec spec = {.name = name,
                                 .join_file = "/nonexistent/join.url",
                                 .slots = 2,
                                 .labels = {"zone=a", "fast"},
                                 .label_count = 2,
                                 .price = "0.5"};
    enum err_code code = provider_start(provider, &spec, &err);
    if (code != ERR_OK) {
        fail_msg("start %s: %s", name, err.text);
    }
}

static bool is_alive(struct provider *provider, const char *name)
{
    struct provider_list list = {0};
    assert_int_equal(provider_list(provider, &list, NULL), ERR_OK);
    const struct provider_node *node = provider_find(&list, name);
    bool alive = node && node->alive;
    provider_list_release(&list);
    return alive;
}

static bool is_listed(struct provider *provider, const char *name)
{
    struct provider_list list = {0};
    assert_int_equal(provider_list(provider, &list, NULL), ERR_OK);
    bool listed = provider_find(&list, name) != NULL;
    provider_list_release(&list);
    return listed;
}

static void wait_dead(struct provider *provider, const char *name)
{
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (is_alive(provider, name) && clock_mono_ms() < until_ms) {
        usleep(5000);
    }
    assert_false(is_alive(provider, name));
}

static void check_life(struct provider *provider)
{
    struct err err = {0};
    assert_false(is_listed(provider, "a-1"));
    start(provider, "a-1");
    start(provider, "a-10");
    start(provider, "a-2");
    assert_true(is_alive(provider, "a-1") && is_alive(provider, "a-2"));

    /* in the order of their numbers */
    struct provider_list list = {0};
    assert_int_equal(provider_list(provider, &list, NULL), ERR_OK);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.nodes[0].name, "a-1");
    assert_string_equal(list.nodes[1].name, "a-2");
    assert_string_equal(list.nodes[2].name, "a-10");
    assert_true(list.nodes[0].place[0] != '\0');
    provider_list_release(&list);

    /* a name is taken as long as its node lives */
    struct provider_spec again = {.name = "a-1", .join_file = "/nonexistent/join.url"};
    assert_int_equal(provider_start(provider, &again, &err), ERR_EXISTS);
    assert_int_equal(provider_stop(provider, "a-1", PROVIDER_ASK, &err), ERR_OK);
    wait_dead(provider, "a-1");
    assert_true(is_listed(provider, "a-1"));
    start(provider, "a-1");
    assert_true(is_alive(provider, "a-1"));
}

static void check_refusals(struct provider *provider)
{
    /* the last one is a letter longer than is allowed */
    static const char *const bad[] = {
        "",
        ".",
        "../x",
        "a/b",
        "-x",
        "a b",
        "n123456789n123456789n123456789n123456789n123456789n123456789n123",
    };
    struct err err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct provider_spec spec = {.name = bad[i], .join_file = "/nonexistent"};
        assert_int_equal(provider_start(provider, &spec, &err), ERR_INVALID);
        assert_int_equal(provider_stop(provider, bad[i], PROVIDER_KILL, &err), ERR_NOT_FOUND);
    }
    assert_int_equal(provider_stop(provider, "nobody", PROVIDER_ASK, &err), ERR_NOT_FOUND);
}

static void check_crash(struct provider *provider, const struct conformance_driver *driver)
{
    struct err err = {0};
    start(provider, "c-1");
    driver->crash(provider, "c-1");
    wait_dead(provider, "c-1");
    assert_true(is_listed(provider, "c-1"));
    /* stopping what is not alive forgets it */
    assert_int_equal(provider_stop(provider, "c-1", PROVIDER_ASK, &err), ERR_OK);
    assert_false(is_listed(provider, "c-1"));
    assert_int_equal(provider_stop(provider, "c-1", PROVIDER_ASK, &err), ERR_NOT_FOUND);
}

static void check_stop_all(struct provider *provider, const struct conformance_driver *driver)
{
    static const char *const names[] = {"a-1", "a-2", "a-10", "deaf-1", "nobody"};
    struct err err = {0};
    start(provider, "deaf-1");
    driver->settle("deaf-1");
    assert_int_equal(provider_stop(provider, "deaf-1", PROVIDER_ASK, &err), ERR_OK);
    usleep(50000);
    assert_true(is_alive(provider, "deaf-1"));
    assert_int_equal(provider_stop_all(provider, names, 5, 300, &err), ERR_OK);
    struct provider_list list = {0};
    assert_int_equal(provider_list(provider, &list, NULL), ERR_OK);
    assert_int_equal(list.count, 0);
    provider_list_release(&list);
}

void conformance_run(const struct conformance_driver *driver)
{
    struct provider *provider = driver->create();
    check_life(provider);
    check_refusals(provider);
    check_crash(provider, driver);
    check_stop_all(provider, driver);
    provider_destroy(provider);
}
