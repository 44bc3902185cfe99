#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "cli/code_ignore.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool ignores(const char *patterns, const char *path, bool is_folder)
{
    struct code_ignore *ignore = code_ignore_create();
    code_ignore_add(ignore, "", patterns, strlen(patterns));
    bool answer = code_ignore_matches(ignore, path, is_folder);
    code_ignore_destroy(ignore);
    return answer;
}

static void patterns_mean_what_git_says(void **state)
{
    (void)state;
    static const struct {
        const char *patterns;
        const char *path;
        bool is_folder;
        bool is_ignored;
    } cases[] = {
        {"*.o", "a.o", false, true},
        {"*.o", "deep/in/a.o", false, true},
        {"*.o", "a.oo", false, false},
        {"/a", "a", false, true},
        {"/a", "b/a", false, false},
        {"b/a", "b/a", false, true},
        {"b/a", "c/b/a", false, false},
        {"build/", "build", true, true},
        {"build/", "build", false, false},
        {"**/x", "x", false, true},
        {"**/x", "a/b/x", false, true},
        {"a/**/x", "a/x", false, true},
        {"a/**/x", "a/b/c/x", false, true},
        {"a/**/x", "ab/x", false, false},
        {"a/**", "a/b/c", false, true},
        {"a/**", "a", true, false},
        {"a/*", "a/b", false, true},
        {"a/*", "a/b/c", false, false},
        {"*.o\n!keep.o", "keep.o", false, false},
        {"!keep.o\n*.o", "keep.o", false, true},
        {"[a-c]x", "bx", false, true},
        {"[!a-c]x", "bx", false, false},
        {"[]x]y", "]y", false, true},
        {"[[:digit:]]x", "7x", false, true},
        {"[[:nope:]]x", "7x", false, false},
        {"[a", "[a", false, false},
        {"a?c", "abc", false, true},
        {"/a?c", "a/c", false, false},
        {"\\#a", "#a", false, true},
        {"#a", "#a", false, false},
        {"\\!a", "!a", false, true},
        {"a\\ ", "a ", false, true},
        {"a   ", "a", false, true},
        {"a\r", "a", false, true},
        {"a\\", "a\\", false, false},
        {"foo**/bar", "fooz/bar", false, true},
        {"\xEF\xBB\xBF*.o", "a.o", false, true},
        {"*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool answer = ignores(cases[i].patterns, cases[i].path, cases[i].is_folder);
        if (answer != cases[i].is_ignored) {
            print_message("%s: %s\n", cases[i].patterns, cases[i].path);
        }
        assert_int_equal(answer, cases[i].is_ignored);
    }
}

static void deeper_files_count_more_and_can_be_left(void **state)
{
    (void)state;
    struct code_ignore *ignore = code_ignore_create();
    code_ignore_add(ignore, "", "*.log\n", 6);
    size_t mark = code_ignore_mark(ignore);
    code_ignore_add(ignore, "sub", "!keep.log\n/top\n", 15);
    assert_false(code_ignore_matches(ignore, "sub/keep.log", false));
    assert_true(code_ignore_matches(ignore, "sub/other.log", false));
    assert_true(code_ignore_matches(ignore, "keep.log", false));
    assert_true(code_ignore_matches(ignore, "sub/top", false));
    assert_false(code_ignore_matches(ignore, "top", false));
    code_ignore_reset(ignore, mark);
    assert_true(code_ignore_matches(ignore, "sub/keep.log", false));
    code_ignore_destroy(ignore);
}

/* --- against git itself ---------------------------------------------------------------------- */

static const char *const parts[] = {"a", "b", "ab", "abc", "x.o", "a.b", "-", "A", "b]c", "ba"};

static void random_pattern(struct rng *rng, struct str *out)
{
    static const char *const pieces[] = {"a",           "b",   "c",     "*",    "?",    "**",
                                         "/",           "**/", "/**",   "[ab]", "[!a]", "[a-c]",
                                         ".o",          "\\a", "\\*",   "ab",   "x",    "*.o",
                                         "[[:alpha:]]", "-",   "[^b-]", "]",    "[",    "\\"};
    size_t count = sizeof pieces / sizeof pieces[0];
    if (rng_below(rng, 5) == 0) {
        str_add_char(out, '!');
    }
    if (rng_below(rng, 5) == 0) {
        str_add_char(out, '/');
    }
    uint64_t length = 1 + rng_below(rng, 5);
    for (uint64_t i = 0; i < length; i++) {
        str_add(out, pieces[rng_below(rng, count - (rng_below(rng, 8) ? 3 : 0))]);
    }
    if (rng_below(rng, 5) == 0) {
        str_add_char(out, '/');
    }
    str_add_char(out, '\n');
}

struct world {
    char folder[300];
    char *paths[200];
    bool is_folder[200];
    size_t count;
    struct str patterns[2]; /* at the top, and in "a" */
};

static void make_world(struct world *world, struct rng *rng)
{
    for (int i = 0; i < 2; i++) {
        uint64_t lines = 1 + rng_below(rng, 5);
        for (uint64_t k = 0; k < lines; k++) {
            random_pattern(rng, &world->patterns[i]);
        }
    }
    world->paths[0] = mem_strdup("a");
    world->is_folder[0] = true;
    world->count = 1;
    for (int i = 0; i < 60; i++) {
        AUTO_STR struct str path = {0};
        size_t above = (size_t)rng_below(rng, world->count);
        if (world->is_folder[above] && rng_below(rng, 3) > 0) {
            str_addf(&path, "%s/", world->paths[above]);
        }
        str_add(&path, parts[rng_below(rng, 10)]);
        bool is_there = false;
        for (size_t k = 0; k < world->count; k++) {
            is_there = is_there || strcmp(world->paths[k], str_text(&path)) == 0;
        }
        if (!is_there) {
            world->is_folder[world->count] = rng_below(rng, 3) == 0;
            world->paths[world->count++] = str_take(&path);
        }
    }
}

static void write_world(const struct world *world)
{
    AUTO_STR struct str path = {0};
    for (size_t i = 0; i < world->count; i++) {
        str_clear(&path);
        str_addf(&path, "%s/%s", world->folder, world->paths[i]);
        if (world->is_folder[i]) {
            assert_int_equal(mkdir(str_text(&path), 0755), 0);
        } else {
            assert_int_equal(io_replace_file(str_text(&path), "x", 1, 0644, NULL), ERR_OK);
        }
    }
    for (int i = 0; i < 2; i++) {
        str_clear(&path);
        str_addf(&path, "%s/%s.gitignore", world->folder, i == 1 ? "a/" : "");
        assert_int_equal(io_replace_file(str_text(&path), str_text(&world->patterns[i]),
                                         world->patterns[i].size, 0644, NULL),
                         ERR_OK);
    }
}

/* As a walk sees it: with a folder, all below it is gone. */
static bool we_ignore(struct code_ignore *ignore, const struct world *world, const char *path)
{
    AUTO_FREE char *copy = mem_strdup(path);
    for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool is_gone = code_ignore_matches(ignore, copy, true);
        *slash = '/';
        if (is_gone) {
            return true;
        }
    }
    bool is_folder = false;
    for (size_t i = 0; i < world->count; i++) {
        is_folder = is_folder || (world->is_folder[i] && strcmp(world->paths[i], path) == 0);
    }
    return code_ignore_matches(ignore, path, is_folder);
}

static bool run(const char *format, const char *folder)
{
    AUTO_STR struct str command = {0};
    str_addf(&command, "cd '%s' && %s", folder, format);
    return system(str_text(&command)) == 0;
}

/* What git ignores, "\npath\n...". */
static void ask_git(const struct world *world, struct str *out)
{
    AUTO_STR struct str list = {0};
    AUTO_STR struct str file = {0};
    for (size_t i = 0; i < world->count; i++) {
        str_addf(&list, "%s", world->paths[i]);
        str_add_bytes(&list, "", 1);
    }
    str_addf(&file, "%s/.git/list", world->folder);
    assert_int_equal(io_replace_file(str_text(&file), list.text, list.size, 0644, NULL), ERR_OK);
    run("git check-ignore --no-index -z --stdin < .git/list > .git/answer 2>/dev/null",
        world->folder);
    str_clear(&file);
    str_addf(&file, "%s/.git/answer", world->folder);
    assert_int_equal(io_read_file(str_text(&file), 1 << 20, out, NULL), ERR_OK);
}

static bool git_ignores(const struct str *answer, const char *path)
{
    for (size_t at = 0; at < answer->size; at += strlen(answer->text + at) + 1) {
        if (strcmp(answer->text + at, path) == 0) {
            return true;
        }
    }
    return false;
}

static size_t compare_with_git(uint64_t seed, const char *base)
{
    struct rng rng = {seed};
    struct world world = {0};
    snprintf(world.folder, sizeof world.folder, "%s/w", base);
    make_world(&world, &rng);
    assert_int_equal(mkdir(world.folder, 0755), 0);
    write_world(&world);
    assert_true(run("git init -q . && rm -f .git/info/exclude", world.folder));
    AUTO_STR struct str answer = {0};
    ask_git(&world, &answer);
    struct code_ignore *ignore = code_ignore_create();
    code_ignore_add(ignore, "", str_text(&world.patterns[0]), world.patterns[0].size);
    code_ignore_add(ignore, "a", str_text(&world.patterns[1]), world.patterns[1].size);
    size_t ignored = 0;
    for (size_t i = 0; i < world.count; i++) {
        bool ours = we_ignore(ignore, &world, world.paths[i]);
        bool theirs = git_ignores(&answer, world.paths[i]);
        ignored += theirs;
        if (ours != theirs) {
            print_message("seed %" PRIu64
                          ", %s: git says %d\n--- .gitignore\n%s--- a/.gitignore\n%s",
                          seed, world.paths[i], (int)theirs, str_text(&world.patterns[0]),
                          str_text(&world.patterns[1]));
        }
        assert_int_equal(ours, theirs);
    }
    for (size_t i = 0; i < world.count; i++) {
        free(world.paths[i]);
    }
    code_ignore_destroy(ignore);
    str_release(&world.patterns[0]);
    str_release(&world.patterns[1]);
    assert_int_equal(io_remove_tree(world.folder, NULL), ERR_OK);
    return ignored;
}

static void random_patterns_match_what_git_matches(void **state)
{
    (void)state;
    if (system("git --version > /dev/null 2>&1") != 0) {
        print_message("git is not here: skipped\n");
        skip();
    }
    setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
    setenv("GIT_CONFIG_SYSTEM", "/dev/null", 1);
    unsetenv("GIT_DIR");
    const char *tmp = getenv("TMPDIR");
    char base[200];
    snprintf(base, sizeof base, "%s/drover-ignore-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(base));
    const char *wanted = getenv("IGNORE_SEED");
    uint64_t seed = wanted ? strtoull(wanted, NULL, 10) : rng_seed_from_system() % 1000000000;
    print_message("seed %" PRIu64 "\n", seed);
    int64_t until_ms = clock_mono_ms() + 2000;
    size_t ignored = 0;
    for (int i = 0; i < (wanted ? 1 : 60) && clock_mono_ms() < until_ms; i++) {
        ignored += compare_with_git(seed + (uint64_t)i, base);
    }
    print_message("%zu paths were ignored\n", ignored);
    assert_int_equal(io_remove_tree(base, NULL), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_mean_what_git_says),
        cmocka_unit_test(deeper_files_count_more_and_can_be_left),
        cmocka_unit_test(random_patterns_match_what_git_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
