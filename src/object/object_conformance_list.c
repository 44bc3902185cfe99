/* The conformance suite: keys and lists. */
#include "base/mem.h"
#include "object/object_conformance.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each object holds its own key. */
static void put_all(struct conformance *test, const struct conformance_keys *keys)
{
    struct object_call *calls = mem_array(keys->count, sizeof *calls);
    for (size_t i = 0; i < keys->count; i++) {
        calls[i] = (struct object_call){.verb = OBJECT_PUT,
                                        .key = keys->keys[i],
                                        .data = keys->keys[i],
                                        .data_size = strlen(keys->keys[i])};
    }
    conformance_do_all(test, calls, keys->count);
    for (size_t i = 0; i < keys->count; i++) {
        assert_int_equal(calls[i].code, ERR_OK);
    }
    free(calls);
}

/* Lists, and compares with what of the sorted keys should come. */
static void assert_list(struct conformance *test, const struct conformance_keys *keys,
                        const char *prefix, const char *after, size_t max)
{
    struct conformance_keys found = {0};
    struct object_call question = {.verb = OBJECT_LIST, .key = prefix, .after = after, .max = max};
    conformance_list(test, &question, &found);
    size_t at = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const char *key = keys->keys[i];
        if ((prefix && strncmp(key, prefix, strlen(prefix)) != 0) ||
            (after && strcmp(key, after) <= 0)) {
            continue;
        }
        assert_true(at < found.count);
        assert_string_equal(found.keys[at], key);
        at++;
    }
    assert_int_equal(at, found.count);
    conformance_keys_release(&found);
}

static size_t longest_part(const char *key)
{
    size_t longest = 0;
    for (const char *part = key; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t size = strcspn(part, "/");
        longest = size > longest ? size : longest;
    }
    return longest;
}

bool conformance_is_below(const char *key, const char *folder)
{
    size_t size = strlen(folder);
    return strncmp(key, folder, size) == 0 && key[size] == '/';
}

/* Only those that such a server takes. */
static void keep_paths(struct conformance_keys *keys)
{
    struct conformance_keys left = {0};
    for (size_t i = 0; i < keys->count; i++) {
        bool is_path = longest_part(keys->keys[i]) <= NAME_MAX;
        for (size_t j = 0; j < keys->count && is_path; j++) {
            is_path = !conformance_is_below(keys->keys[j], keys->keys[i]);
        }
        if (is_path) {
            VEC_PUSH(left.keys, left.count, left.cap) = mem_strdup(keys->keys[i]);
        }
    }
    conformance_keys_release(keys);
    *keys = left;
}

static void add_key(struct conformance_keys *keys, char c, size_t count, const char *tail)
{
    struct str key = {0};
    for (size_t i = 0; i < count; i++) {
        str_add_char(&key, c);
    }
    str_add(&key, tail);
    VEC_PUSH(keys->keys, keys->count, keys->cap) = str_take(&key);
}

static void make_odd_keys(struct conformance_keys *keys)
{
    static const char *const plain[] = {
        "a",         "a/b",     "a/b/c", "a-",    "a-/x",   "a.",     "a./x", "a+",    "a0",
        "a=",        "a@",      "a_",    "aa",    "A",      "A/b",    "@",    "=",     "+",
        "-",         "_",       "-/-",   "...",   "....",   ".a",     "a..b", "a/...", "a/.b",
        "b/..c/...", "c/+/=/@", "1+1=2", "a/b@c", "z/lock", "z/tmp/1"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        add_key(keys, 'x', 0, plain[i]);
    }
    /* Around the sizes of a file's name, and as long as a key may be. */
    static const size_t sizes[] = {199, 200, 201, 254, 255, 256, 400, 401, 600, 899, 900};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        add_key(keys, 'x', sizes[i], "");
    }
    static const char *const tails[] = {".", "..", "...", "/a", "/.a", "-", "-/a", "/-", "./a"};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        add_key(keys, 'x', 200, tails[i]);
        add_key(keys, 'y', 199, tails[i]);
        add_key(keys, '.', 400, tails[i]);
    }
    struct str deep = {0};
    str_add_repeat(&deep, "d/", OBJECT_KEY_MAX / 2 - 1);
    str_add(&deep, "d");
    VEC_PUSH(keys->keys, keys->count, keys->cap) = str_take(&deep);
    qsort(keys->keys, keys->count, sizeof keys->keys[0], compare);
}

void conformance_odd_keys_are_kept_apart_and_in_order(void **state)
{
    struct conformance *test = *state;
    struct conformance_keys keys = {0};
    make_odd_keys(&keys);
    if (test->driver->is_tree) {
        keep_paths(&keys);
    }
    put_all(test, &keys);
    AUTO_STR struct str body = {0};
    for (size_t i = 0; i < keys.count; i++) {
        assert_true(object_key_is_sound(keys.keys[i]));
        assert_int_equal(conformance_get(test, keys.keys[i], &body), ERR_OK);
        assert_string_equal(str_text(&body), keys.keys[i]);
    }
    assert_list(test, &keys, NULL, NULL, 0);
    for (size_t i = 0; i < keys.count; i++) {
        assert_list(test, &keys, keys.keys[i], NULL, 0);
        /* MinIO loses its place among such names. */
        assert_list(test, &keys, NULL, keys.keys[i], test->driver->is_tree ? 0 : 10);
    }
    conformance_delete_all(test);
    assert_list(test, &(struct conformance_keys){0}, NULL, NULL, 0);
    conformance_keys_release(&keys);
}

void conformance_lists_follow_prefix_after_and_max(void **state)
{
    struct conformance *test = *state;
    static const char *const texts[] = {"log/1",     "log/10",    "log/2",     "log-old",
                                        "log.txt",   "packs/a-1", "packs/a-2", "packs/b/1",
                                        "packs/b-1", "snap/x"};
    struct conformance_keys keys = {0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        add_key(&keys, 'x', 0, texts[i]);
    }
    qsort(keys.keys, keys.count, sizeof keys.keys[0], compare);
    put_all(test, &keys);
    static const char *const prefixes[] = {NULL,         "",      "l",       "log",
                                           "log/",       "log/1", "packs/b", "packs/b/",
                                           "packs/b/1/", "zzz",   "snap/x"};
    static const char *const afters[] = {NULL,      "",       "log/",    "log/1",
                                         "log/15",  "log0",   "packs/b", "packs/b/",
                                         "packs/c", "snap/x", "zzz"};
    /* MinIO takes a list of one for the question whether there is an object of that name. */
    const size_t maxima[] = {0, test->driver->is_tree ? 3 : 1, 2, 1000};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        for (size_t j = 0; j < sizeof afters / sizeof afters[0]; j++) {
            for (size_t k = 0; k < sizeof maxima / sizeof maxima[0]; k++) {
                assert_list(test, &keys, prefixes[i], afters[j], maxima[k]);
            }
        }
    }
    struct object_call list = {.verb = OBJECT_LIST, .key = "packs/b/"};
    assert_int_equal(conformance_do(test, &list), ERR_OK);
    assert_int_equal(list.page_count, 1);
    assert_int_equal(list.page[0].size, strlen("packs/b/1"));
    assert_false(list.more);
    object_call_release(&list);
    conformance_keys_release(&keys);
}

void conformance_many_keys_are_listed_page_by_page_and_deleted(void **state)
{
    struct conformance *test = *state;
    struct conformance_keys keys = {0};
    for (size_t i = 0; i < test->driver->many_keys; i++) {
        char key[64];
        bool is_deep = i % 500 == 7; /* a folder among many files */
        snprintf(key, sizeof key, "many/%08zx%s", i * 2654435761U % 4294967296U,
                 is_deep ? "/deep" : "");
        add_key(&keys, 'x', 0, key);
    }
    CHECK(keys.keys);
    qsort(keys.keys, keys.count, sizeof keys.keys[0], compare);
    put_all(test, &keys);
    assert_list(test, &keys, NULL, NULL, 0);
    assert_list(test, &keys, "many/", NULL, 999);
    assert_list(test, &keys, "many/8", NULL, 7);
    assert_list(test, &keys, "many/", keys.keys[keys.count / 2], 0);
    struct object_call list = {.verb = OBJECT_LIST, .key = "many/"};
    assert_int_equal(conformance_do(test, &list), ERR_OK);
    assert_int_equal(list.page_count, OBJECT_LIST_MAX);
    assert_true(list.more);
    object_call_release(&list);
    conformance_delete_all(test);
    assert_list(test, &(struct conformance_keys){0}, NULL, NULL, 0);
    conformance_keys_release(&keys);
}
