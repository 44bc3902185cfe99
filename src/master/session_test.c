#include "base/io.h"
#include "base/mem.h"
#include "master/outputs.h"
#include "master/place.h"
#include "master/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static const struct core_resources machine = {
    .cpu_milli = 2000, .memory_bytes = 8000000000, .disk_bytes = 8000000000};

static const char recipe_text[] = "seed: 5\n"
                                  "experiments:\n"
                                  "  one:\n"
                                  "    parameters: { i: 0..3 }\n"
                                  "    command: echo {{i}}\n";

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/session_test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void write_recipe(const char *text)
{
    assert_int_equal(io_replace_file(in_folder("r.yaml"), text, strlen(text), 0644, NULL), ERR_OK);
}

static enum err_code open_state(struct session *session, struct str *difference, struct err *err)
{
    struct diag_list diags = {0};
    struct session_options options = {.recipe_file = in_folder("r.yaml"),
                                      .state = in_folder("state"),
                                      .node = &machine,
                                      .difference = difference};
    enum err_code code = session_open(&options, session, &diags, err);
    diag_release(&diags);
    return code;
}

/* Assigns and accepts task 0 and keeps that in the log. */
static void log_one_result(struct session *session, uint32_t *attempt)
{
    struct core_out out = {0};
    core_begin_term(session->core, CORE_NODES_GONE, 1000, &out);
    core_submit(session->core, 1, 1000, &out);
    core_node_join(session->core, 0, &(struct core_node_spec){.capacity = machine}, 1000, &out);
    struct core_attempt id = {0};
    for (size_t i = 0; i < out.effect_count && id.workflow == 0; i++) {
        if (out.effects[i].kind == EFFECT_START) {
            id = out.effects[i].id;
        }
    }
    struct core_result result = {.outcome = OUT_EXITED, .has_output = true};
    core_task_ended(session->core, 0, &id, &result, 1000, &out);
    struct str bytes = {0};
    for (size_t i = 0; i < out.fact_count; i++) {
        uint8_t fact[FACT_BYTES_MAX];
        str_add_bytes(&bytes, fact, fact_encode(&out.facts[i], fact));
    }
    assert_int_equal(session->store->ops->append(session->store, 1, (uint32_t)out.fact_count,
                                                 str_text(&bytes), bytes.size, NULL),
                     ERR_OK);
    *attempt = id.attempt;
    str_release(&bytes);
    core_out_release(&out);
}

static void test_a_session_is_made_and_resumed(void **state)
{
    (void)state;
    struct session session;
    struct err err = {0};
    uint32_t attempt = 0;
    write_recipe(recipe_text);
    assert_int_equal(open_state(&session, NULL, &err), ERR_OK);
    assert_false(session.resumed);
    assert_int_equal(session.flow->seed, 5);
    assert_string_equal(session.flow->id, "r");
    log_one_result(&session, &attempt);
    session_release(&session);

    assert_int_equal(open_state(&session, NULL, &err), ERR_OK);
    assert_true(session.resumed);
    struct core_task_view task;
    core_task_view(session.core, 1, 0, 0, &task);
    assert_int_equal(task.state, TASK_SUCCEEDED);
    struct session reader;
    assert_int_equal(session_read(in_folder("state"), &reader, &err), ERR_OK);
    core_task_view(reader.core, 1, 0, 0, &task);
    assert_int_equal(task.state, TASK_SUCCEEDED);
    session_release(&reader);
    session_release(&session);
}

static void test_a_changed_recipe_is_refused_with_the_difference(void **state)
{
    (void)state;
    struct session session;
    struct err err = {0};
    struct str difference = {0};
    write_recipe(recipe_text);
    assert_int_equal(open_state(&session, NULL, &err), ERR_OK);
    session_release(&session);
    write_recipe("# only a comment and another order\nexperiments:\n  one:\n"
                 "    command: 'echo {{i}}'\n    parameters:\n      i: 0..3\nseed: 5\n");
    assert_int_equal(open_state(&session, &difference, &err), ERR_OK);
    session_release(&session);
    write_recipe("seed: 6\nexperiments:\n  one:\n    parameters: { i: 0..3 }\n"
                 "    command: echo {{i}}\n");
    assert_int_equal(open_state(&session, &difference, &err), ERR_INVALID);
    assert_non_null(strstr(str_text(&difference), "- seed: 5"));
    assert_non_null(strstr(str_text(&difference), "+ seed: 6"));
    str_release(&difference);
}

static void test_bad_input_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "experiments:\n  one:\n    comand: echo\n",
        "",
        "experiments: 3\n",
        "experiments:\n  one:\n    parameters: {f: {files: 'no/such/*'}}\n    command: cat {{f}}\n",
        "experiments:\n  one:\n    hardware: {gpu: k80}\n    command: echo\n",
        "experiments:\n  one:\n    image: ubuntu\n    command: echo\n",
        "experiments:\n  one:\n    secrets: {KEY: no/such/file}\n    command: echo\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct session session;
        struct err err = {0};
        write_recipe(bad[i]);
        enum err_code code = open_state(&session, NULL, &err);
        assert_true(code == ERR_INVALID || code == ERR_UNSUPPORTED);
        assert_int_equal(access(in_folder("state"), F_OK), -1);
    }
}

static void test_diagnoses_name_the_file_after_the_session_is_gone(void **state)
{
    (void)state;
    struct session session;
    struct err err = {0};
    struct diag_list diags = {0};
    struct session_options options = {
        .recipe_file = in_folder("r.yaml"), .state = in_folder("state"), .node = &machine};
    write_recipe("experiments:\n  one:\n    comand: echo\n");
    assert_int_equal(session_open(&options, &session, &diags, &err), ERR_INVALID);
    struct str text = {0};
    diag_print(&diags, &text);
    assert_int_equal(strncmp(str_text(&text), options.recipe_file, strlen(options.recipe_file)), 0);
    str_release(&text);
    diag_release(&diags);
}

static void test_another_seed_for_the_same_state_is_refused(void **state)
{
    (void)state;
    struct session session;
    struct err err = {0};
    struct diag_list diags = {0};
    uint64_t seed = 6;
    struct session_options options = {.recipe_file = in_folder("r.yaml"),
                                      .state = in_folder("state"),
                                      .node = &machine,
                                      .seed = &seed};
    write_recipe(recipe_text);
    assert_int_equal(session_open(&options, &session, &diags, &err), ERR_OK);
    assert_int_equal(session.flow->seed, 6);
    session_release(&session);
    seed = 7;
    assert_int_equal(session_open(&options, &session, &diags, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "begun with seed 6"));
}

static void test_one_writer_at_a_time(void **state)
{
    (void)state;
    struct session first;
    struct session second;
    struct err err = {0};
    write_recipe(recipe_text);
    assert_int_equal(open_state(&first, NULL, &err), ERR_OK);
    assert_int_equal(open_state(&second, NULL, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "in use by another drover"));
    session_release(&first);
}

static void test_a_strange_folder_is_not_touched(void **state)
{
    (void)state;
    struct session session;
    struct err err = {0};
    write_recipe(recipe_text);
    assert_int_equal(mkdir(in_folder("state"), 0755), 0);
    assert_int_equal(io_replace_file(in_folder("state/precious"), "x", 1, 0644, NULL), ERR_OK);
    assert_int_equal(open_state(&session, NULL, &err), ERR_INVALID);
    assert_int_equal(access(in_folder("state/lock"), F_OK), -1);
}

static void test_links_follow_the_facts(void **state)
{
    (void)state;
    struct session session;
    struct err err = {0};
    uint32_t attempt = 0;
    write_recipe(recipe_text);
    assert_int_equal(open_state(&session, NULL, &err), ERR_OK);
    log_one_result(&session, &attempt);
    session_release(&session);
    assert_int_equal(io_make_dirs(in_folder("state/attempts/one/0/0.1"), &err), ERR_OK);
    assert_int_equal(io_make_dirs(in_folder("state/attempts/one/0/0.7"), &err), ERR_OK);
    assert_int_equal(io_make_dirs(in_folder("state/attempts/one/0/2.1"), &err), ERR_OK);
    assert_int_equal(io_make_dirs(in_folder("state/outputs/one"), &err), ERR_OK);
    assert_int_equal(symlink("nowhere", in_folder("state/outputs/one/0")), 0);
    assert_int_equal(symlink("../../attempts/one/0/2.1", in_folder("state/outputs/one/2")), 0);
    assert_int_equal(open_state(&session, NULL, &err), ERR_OK);
    assert_int_equal(outputs_repair(session.core, session.flow, OUTPUTS_ALONE, &err), ERR_OK);
    session_release(&session);
    assert_int_equal(access(in_folder("state/outputs/one/0/."), F_OK), 0);
    assert_int_equal(access(in_folder("state/attempts/one/0/0.1"), F_OK), 0);
    assert_int_equal(access(in_folder("state/attempts/one/0/0.7"), F_OK), -1);
    assert_int_equal(access(in_folder("state/attempts/one/0/2.1"), F_OK), -1);
    struct stat st;
    assert_int_equal(lstat(in_folder("state/outputs/one/2"), &st), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_session_is_made_and_resumed, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_changed_recipe_is_refused_with_the_difference,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_bad_input_leaves_nothing_behind, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_diagnoses_name_the_file_after_the_session_is_gone,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_another_seed_for_the_same_state_is_refused,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_one_writer_at_a_time, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_strange_folder_is_not_touched, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_links_follow_the_facts, make_folder, remove_folder),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
