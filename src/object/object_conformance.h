/* object_conformance.h - what every driver of object.h must do, as tests that run over any of them.
 *
 * For tests only. A driver is described once; object_conformance_run puts it through the whole
 * suite. The helpers below are a caller as object.h wants it: where replies may be lost, it asks
 * again, and settles "there is one already" by reading back what is there.
 */
#ifndef OBJECT_OBJECT_CONFORMANCE_H
#define OBJECT_OBJECT_CONFORMANCE_H

#include "object/object.h"

struct object_conformance {
    const char *name;
    /* A store on the same objects each time; the suite deletes whatever it finds there. Two may be
     * open at once. */
    struct object_store *(*open)(struct object_conformance *driver);
    bool is_faulty;     /* calls may fail for now, PUTs may happen without a reply, or twice */
    size_t large_bytes; /* of the largest object; 0: 68 MiB */
    size_t many_keys;   /* of the paging test, over 1000; 0: 2345 */
    int random_steps;   /* of the test against the model; 0: 2000 */
    bool is_tree;  /* its keys are paths: parts of up to 255 bytes, no object has others below */
    uint64_t seed; /* of the random test */
    void *context; /* for open */
};

/* Runs the suite; returns the number of failed tests. */
int object_conformance_run(struct object_conformance *driver);

/* One test's view. -------------------------------------------------------------------------------
 */

struct conformance {
    struct object_conformance *driver;
    struct object_store *store; /* the one under test */
};

/* One call from start to end; of a faulty driver, until there is an answer. */
enum err_code conformance_do(struct conformance *test, struct object_call *call);

/* The same for many at once: all are started, then all are waited for. Their done and context are
 * the suite's meanwhile. */
void conformance_do_all(struct conformance *test, struct object_call *calls, size_t count);

/* A PUT. Of a faulty driver ERR_OK also where the answer is that there is one already, and it is
 * ours; so the bytes have to be unlike any other's. */
enum err_code conformance_put(struct conformance *test, struct object_call *call);

/* Short forms. */
enum err_code conformance_put_text(struct conformance *test, const char *key, const char *text);
enum err_code conformance_get(struct conformance *test, const char *key, struct str *out);
void conformance_delete_all(struct conformance *test);

/* Every key from LIST, page after page of at most max, with prefix and behind after; freed by
 * conformance_keys_release. */
struct conformance_keys {
    char **keys;
    size_t count, cap;
};
void conformance_list(struct conformance *test, const struct object_call *question,
                      struct conformance_keys *out);
void conformance_keys_release(struct conformance_keys *keys);

/* Does `key` lie below `folder`? */
bool conformance_is_below(const char *key, const char *folder);

/* Bytes that only (seed, size) determine, appended to out. */
void conformance_fill(struct str *out, uint64_t seed, size_t size);

/* The tests, by file. *state is a struct conformance. */
#define CONFORMANCE_TESTS(X)                                                                       \
    X(an_object_comes_back_as_it_was_put)                                                          \
    X(a_body_comes_into_the_room_it_was_given)                                                     \
    X(a_put_replaces_the_whole_object)                                                             \
    X(what_is_missing_is_not_found)                                                                \
    X(an_empty_object_is_an_object)                                                                \
    X(a_large_object_comes_back_whole_and_in_ranges)                                               \
    X(ranges_are_cut_at_the_end)                                                                   \
    X(put_if_absent_writes_only_once)                                                              \
    X(put_if_match_wants_the_newest_etag)                                                          \
    X(quick_puts_have_different_etags)                                                             \
    X(delete_takes_many_keys_and_missing_ones)                                                     \
    X(unsound_keys_are_refused)                                                                    \
    X(odd_keys_are_kept_apart_and_in_order)                                                        \
    X(lists_follow_prefix_after_and_max)                                                           \
    X(many_keys_are_listed_page_by_page_and_deleted)                                               \
    X(requests_and_bytes_are_counted)                                                              \
    X(another_store_sees_the_same_objects)                                                         \
    X(many_calls_are_in_flight_at_once)                                                            \
    X(done_starts_further_calls)                                                                   \
    X(the_descriptor_tells_when_to_run)                                                            \
    X(one_of_many_puts_if_absent_wins)                                                             \
    X(one_of_many_puts_if_match_wins)                                                              \
    X(close_ends_every_call_once)                                                                  \
    X(random_calls_do_what_a_plain_model_does)
#define CONFORMANCE_DECLARE(name) void conformance_##name(void **state);
CONFORMANCE_TESTS(CONFORMANCE_DECLARE)

#endif
