#include "base/io.h"
#include "base/mem.h"
#include "recipe/files.h"
#include "recipe/glob.h"
#include "recipe/plan.h"
#include "recipe/recipe_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/files_test.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static void touch(const char *name)
{
    struct str path = {0};
    str_addf(&path, "%s/%s", folder, name);
    char *slash = strrchr(path.text, '/');
    *slash = '\0';
    assert_int_equal(io_make_dirs(path.text, NULL), ERR_OK);
    *slash = '/';
    int fd = open(path.text, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    str_release(&path);
}

static void link_to(const char *target, const char *name)
{
    struct str path = {0};
    str_addf(&path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path.text), 0);
    str_release(&path);
}

static void expect_glob(const char *pattern, const char *expected)
{
    struct glob_list list = {0};
    struct err err = {0};
    assert_int_equal(glob_add(folder, pattern, &list, &err), ERR_OK);
    glob_list_sort(&list);
    struct str out = {0};
    for (size_t i = 0; i < list.count; i++) {
        assert_memory_equal(list.names[i], folder, strlen(folder));
        str_addf(&out, "%s ", list.names[i] + strlen(folder) + 1);
    }
    if (strcmp(str_text(&out), expected) != 0) {
        fail_msg("%s gave '%s', not '%s'", pattern, str_text(&out), expected);
    }
    str_release(&out);
    glob_list_release(&list);
}

static void test_one_part_matches_as_in_a_shell(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *name;
        bool matches;
    } cases[] = {
        {"*", "a", true},           {"*", "", true},
        {"*", ".a", false},         {".*", ".a", true},
        {"\\.a", ".a", true},       {"?a", ".a", false},
        {"a*b", "ab", true},        {"a*b", "axxb", true},
        {"a*b", "axxc", false},     {"a?c", "abc", true},
        {"a?c", "aéc", true},       {"a??c", "aéc", false},
        {"[a-c]x", "bx", true},     {"[!a-c]x", "bx", false},
        {"[!a-c]x", "dx", true},    {"[]x]", "]", true},
        {"[a-]", "-", true},        {"[é-ü]", "ö", true},
        {"[a", "[a", true},         {"[a", "a", false},
        {"\\*", "*", true},         {"\\*", "a", false},
        {"a\\", "a\\", true},       {"*.jpg", "x.jpg", true},
        {"*.jpg", "x.jpeg", false}, {"*a*a*a*", "banana", true},
        {"", "a", false},           {"*\xff", "a\xff", true},
        {"[.]a", ".a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (glob_match(cases[i].pattern, cases[i].name) != cases[i].matches) {
            fail_msg("%s against %s", cases[i].pattern, cases[i].name);
        }
    }
    char pattern[200] = {0};
    char name[256] = {0};
    for (size_t i = 0; i < 60; i++) {
        memcpy(pattern + 2 * i, "*a", 2);
    }
    pattern[120] = 'b';
    memset(name, 'a', 255);
    clock_t start = clock();
    for (int i = 0; i < 100; i++) {
        assert_false(glob_match(pattern, name));
    }
    assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
}

static void test_patterns_find_files_at_any_depth(void **state)
{
    (void)state;
    touch("b.txt");
    touch("a.txt");
    touch("a.md");
    touch(".hidden.txt");
    touch("d/c.txt");
    touch("d/e/f.txt");
    touch("d/e/.x/g.txt");
    touch("sp ace/h.txt");
    expect_glob("*.txt", "a.txt b.txt ");
    expect_glob("a.txt", "a.txt ");
    expect_glob("./a.txt", "a.txt ");
    expect_glob("a.{txt,md}", "a.md a.txt ");
    expect_glob("{a,d/{c,e/f}}.txt", "a.txt d/c.txt d/e/f.txt ");
    expect_glob("{a}.txt", "");
    expect_glob("**/*.txt", "a.txt b.txt d/c.txt d/e/f.txt sp ace/h.txt ");
    expect_glob("**", "a.md a.txt b.txt d/c.txt d/e/f.txt sp ace/h.txt ");
    expect_glob("d/**/f.txt", "d/e/f.txt ");
    expect_glob("**/**/e/**/*.txt", "d/e/f.txt ");
    expect_glob("*/*.txt", "d/c.txt sp ace/h.txt ");
    expect_glob("d/e/.x/*", "d/e/.x/g.txt ");
    expect_glob("d", "");
    expect_glob("d/", "");
    expect_glob("nowhere/*", "");
    expect_glob("a.txt/*", "");
    expect_glob("", "");
    struct str absolute = {0};
    str_addf(&absolute, "%s/d/*.txt", folder);
    expect_glob(str_text(&absolute), "d/c.txt ");
    str_release(&absolute);
}

static void test_links_never_lead_in_circles(void **state)
{
    (void)state;
    touch("d/a.txt");
    link_to("..", "d/up");
    link_to(".", "self");
    link_to("a.txt", "d/link.txt");
    link_to("nothing", "d/dangling.txt");
    link_to("loop.txt", "d/loop.txt");
    expect_glob("**/*.txt", "d/a.txt d/link.txt ");
    expect_glob("self/d/*.txt", "self/d/a.txt self/d/link.txt ");
    expect_glob("*/**/a.txt", "d/a.txt self/d/a.txt ");
}

static void test_too_many_parts_or_braces_are_refused(void **state)
{
    (void)state;
    struct glob_list list = {0};
    struct err err = {0};
    struct str pattern = {0};
    str_add_repeat(&pattern, "*/", 100);
    str_add(&pattern, "*");
    assert_int_equal(glob_add(folder, str_text(&pattern), &list, &err), ERR_INVALID);
    str_clear(&pattern);
    str_add_repeat(&pattern, "{a,b}", 40);
    clock_t start = clock();
    assert_int_equal(glob_add(folder, str_text(&pattern), &list, &err), ERR_INVALID);
    assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
    str_release(&pattern);
    glob_list_release(&list);
}

static struct recipe *parse(const char *text)
{
    struct str out = {0};
    struct recipe *recipe = fixture_parse(text, NULL, 0, &out);
    assert_string_equal(str_text(&out), "");
    str_release(&out);
    return recipe;
}

static const char BATCHES[] = "experiments:\n"
                              "  prep:\n"
                              "    parameters: {list: {files: '*.txt', batch: 2}}\n"
                              "    exec: [cat, '{{list}}']\n";

static void expect_file(const char *name, const char *expected)
{
    struct str path = {0};
    struct str text = {0};
    str_addf(&path, "%s/%s", folder, name);
    assert_int_equal(io_read_file(path.text, 1 << 20, &text, NULL), ERR_OK);
    assert_string_equal(str_text(&text), expected);
    str_release(&path);
    str_release(&text);
}

static void expand(struct recipe *recipe, const char *write_to)
{
    struct diag_list diags = {0};
    struct err err = {0};
    if (files_expand(recipe, folder, write_to, &diags, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(diags.count, 0);
}

static void test_batches_become_manifests_and_resume_reads_them(void **state)
{
    (void)state;
    touch("c.txt");
    touch("a.txt");
    touch("b.txt");
    struct str to = {0};
    struct str first = {0};
    struct str last = {0};
    str_addf(&to, "%s/state", folder);
    str_addf(&first, "%s/a.txt\n%s/b.txt\n", folder, folder);
    str_addf(&last, "%s/c.txt\n", folder);
    for (int round = 0; round < 2; round++) { /* the second resumes */
        struct recipe *recipe = parse(BATCHES);
        expand(recipe, str_text(&to));
        assert_int_equal(recipe->experiments[0].task_count, 2);
        expect_file("state/manifests/prep.list/0", str_text(&first));
        expect_file("state/manifests/prep.list/1", str_text(&last));
        expect_file("state/manifests/prep.list/count", "2\n");
        struct plan_context context = {.recipe = recipe};
        struct arena arena = {0};
        struct plan_task task;
        plan_task(&context, 0, 1, 1, &arena, &task);
        assert_memory_equal(task.argv[1], folder, strlen(folder));
        assert_string_equal(task.argv[1] + strlen(folder), "/state/manifests/prep.list/1");
        arena_release(&arena);
        recipe_destroy(recipe);
        touch("later.txt");
    }
    str_addf(&to, "/manifests/prep.list/count"); /* a crash before the count: all is done again */
    assert_int_equal(unlink(to.text), 0);
    str_clear(&to);
    str_addf(&to, "%s/state", folder);
    struct recipe *recipe = parse(BATCHES);
    str_clear(&last);
    str_addf(&last, "%s/c.txt\n%s/later.txt\n", folder, folder);
    expand(recipe, str_text(&to));
    expect_file("state/manifests/prep.list/1", str_text(&last));
    recipe_destroy(recipe);
    str_release(&to);
    str_release(&first);
    str_release(&last);
}

static void test_without_a_state_nothing_is_written(void **state)
{
    (void)state;
    touch("a.txt");
    struct recipe *recipe = parse(BATCHES);
    expand(recipe, NULL);
    struct plan_context context = {.recipe = recipe};
    struct arena arena = {0};
    struct plan_task task;
    plan_task(&context, 0, 0, 1, &arena, &task);
    assert_string_equal(task.argv[1], "manifests/prep.list/0");
    struct str path = {0};
    str_addf(&path, "%s/manifests", folder);
    assert_int_equal(access(path.text, F_OK), -1);
    str_release(&path);
    arena_release(&arena);
    recipe_destroy(recipe);
}

static void expect_refusal(const char *text, const char *needle)
{
    struct recipe *recipe = parse(text);
    struct diag_list diags = {.file = "r.yaml"};
    struct err err = {0};
    struct str to = {0};
    struct str out = {0};
    str_addf(&to, "%s/state", folder);
    assert_int_equal(files_expand(recipe, folder, to.text, &diags, &err), ERR_INVALID);
    diag_print(&diags, &out);
    if (!strstr(str_text(&out), needle)) {
        fail_msg("'%s' is not in '%s'", needle, str_text(&out));
    }
    assert_int_equal(access(to.text, F_OK), -1);
    diag_release(&diags);
    str_release(&to);
    str_release(&out);
    recipe_destroy(recipe);
}

static void test_nothing_found_and_odd_names_are_told(void **state)
{
    (void)state;
    expect_refusal(BATCHES, "r.yaml:2:3: 'prep': no file matches '*.txt' below ");
    touch("a\nb.txt");
    expect_refusal(BATCHES, "holds a newline");
}

static void test_a_grid_that_files_make_too_large_is_refused(void **state)
{
    (void)state;
    touch("a.txt");
    touch("b.txt");
    expect_refusal("experiments:\n  e:\n    parameters:\n      f: {files: '*.txt'}\n"
                   "      x: {values: 0..9999}\n      y: {values: 0..9999}\n    command: x\n",
                   "the grid has 200000000 combinations");
}

static void test_gangs_that_files_do_not_fill_are_refused(void **state)
{
    (void)state;
    touch("a.txt");
    touch("b.txt");
    touch("c.txt");
    expect_refusal("experiments:\n  e:\n    parameters: {f: {files: '*.txt'}}\n    gang: 2\n"
                   "    command: x\n",
                   "r.yaml:4:11: gang: 2 does not divide the 3 tasks of 'e'");
}

static void test_a_damaged_count_is_not_believed(void **state)
{
    (void)state;
    touch("a.txt");
    touch("state/manifests/prep.list/x");
    struct str path = {0};
    str_addf(&path, "%s/state/manifests/prep.list/count", folder);
    assert_int_equal(io_replace_file(path.text, "-1\n", 3, 0600, NULL), ERR_OK);
    str_clear(&path);
    str_addf(&path, "%s/state", folder);
    struct recipe *recipe = parse(BATCHES);
    struct diag_list diags = {0};
    struct err err = {0};
    assert_int_equal(files_expand(recipe, folder, path.text, &diags, &err), ERR_CORRUPT);
    recipe_destroy(recipe);
    str_release(&path);
}

static void test_many_files_are_found_quickly(void **state)
{
    (void)state;
    enum { FOLDERS = 20, EACH = 200 };
    for (int i = 0; i < FOLDERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "data/%d/first.txt", i);
        touch(name);
        for (int j = 1; j < EACH; j++) {
            struct str path = {0};
            str_addf(&path, "%s/data/%d/%d.txt", folder, i, j);
            int fd = open(path.text, O_CREAT | O_WRONLY, 0600);
            assert_true(fd >= 0);
            close(fd);
            str_release(&path);
        }
    }
    struct recipe *recipe =
        parse("experiments:\n  e:\n    parameters: {f: {files: 'data/**/*.txt', batch: 10}}\n"
              "    command: cat {{f}}\n");
    struct str to = {0};
    str_addf(&to, "%s/state", folder);
    clock_t start = clock();
    expand(recipe, to.text);
    printf("%d files in %lld ms\n", FOLDERS * EACH,
           (long long)((clock() - start) * 1000 / CLOCKS_PER_SEC));
    assert_int_equal(recipe->experiments[0].task_count, FOLDERS * EACH / 10);
    assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
    recipe_destroy(recipe);
    str_release(&to);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_part_matches_as_in_a_shell),
        IN_FOLDER(test_patterns_find_files_at_any_depth),
        IN_FOLDER(test_links_never_lead_in_circles),
        IN_FOLDER(test_too_many_parts_or_braces_are_refused),
        IN_FOLDER(test_batches_become_manifests_and_resume_reads_them),
        IN_FOLDER(test_without_a_state_nothing_is_written),
        IN_FOLDER(test_nothing_found_and_odd_names_are_told),
        IN_FOLDER(test_a_grid_that_files_make_too_large_is_refused),
        IN_FOLDER(test_gangs_that_files_do_not_fill_are_refused),
        IN_FOLDER(test_a_damaged_count_is_not_believed),
        IN_FOLDER(test_many_files_are_found_quickly),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
