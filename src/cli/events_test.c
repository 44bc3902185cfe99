#include "base/rng.h"
#include "cli/events.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static bool take(void *context, const char *kind, const char *data)
{
    struct str *out = context;
    str_addf(out, "<%s|%s>", kind, data);
    return strcmp(kind, "stop") != 0;
}

static const char stream[] = ": hello\n\n"
                             "event: task\nid: 7\ndata: {\"a\":1}\n\n"
                             "data: one\r\ndata:two\r\n\r\n"
                             "event: nothing\n\n"
                             "id: 8\n\n"
                             "data\n\n"
                             "unknown: x\rdata:  y\r\r";
static const char expected[] = "<task|{\"a\":1}><message|one\ntwo><message|><message| y>";

static void test_events_come_out_whole(void **state)
{
    (void)state;
    struct str out = {0};
    struct events events = {.fn = take, .context = &out};
    assert_true(events_feed(&events, stream, strlen(stream)));
    assert_string_equal(str_text(&out), expected);
    assert_string_equal(str_text(&events.last_id), "8");
    events_release(&events);
    str_release(&out);
}

static void test_where_the_pieces_end_does_not_matter(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int i = 0; i < 300; i++) {
        struct str out = {0};
        struct events events = {.fn = take, .context = &out};
        for (size_t at = 0; at < strlen(stream);) {
            size_t size = (size_t)rng_below(&rng, 6);
            size = size < strlen(stream) - at ? size : strlen(stream) - at;
            assert_true(events_feed(&events, stream + at, size));
            at += size;
        }
        assert_string_equal(str_text(&out), expected);
        events_release(&events);
        str_release(&out);
    }
}

static void test_a_new_connection_forgets_half_an_event_but_not_the_id(void **state)
{
    (void)state;
    static const char half[] = "id: 5\ndata: lost";
    static const char rest[] = "data: kept\n\n";
    struct str out = {0};
    struct events events = {.fn = take, .context = &out};
    assert_true(events_feed(&events, half, strlen(half)));
    events_reset(&events);
    assert_true(events_feed(&events, rest, strlen(rest)));
    assert_string_equal(str_text(&out), "<message|kept>");
    assert_string_equal(str_text(&events.last_id), "5");
    events_release(&events);
    str_release(&out);
}

static void test_the_callback_can_stop_it(void **state)
{
    (void)state;
    static const char text[] = "event: stop\ndata: x\n\nevent: more\ndata: y\n\n";
    struct str out = {0};
    struct events events = {.fn = take, .context = &out};
    assert_false(events_feed(&events, text, strlen(text)));
    assert_string_equal(str_text(&out), "<stop|x>");
    events_release(&events);
    str_release(&out);
}

static void test_an_event_without_end_is_given_up(void **state)
{
    (void)state;
    struct str out = {0};
    struct events events = {.fn = take, .context = &out};
    char piece[65536];
    memset(piece, 'x', sizeof piece);
    int fed = 0;
    while (events_feed(&events, piece, sizeof piece)) {
        assert_true(++fed < 1000);
    }
    assert_true(events.line.size <= EVENTS_BYTES_MAX + sizeof piece);
    events_release(&events);
    str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_out_whole),
        cmocka_unit_test(test_where_the_pieces_end_does_not_matter),
        cmocka_unit_test(test_a_new_connection_forgets_half_an_event_but_not_the_id),
        cmocka_unit_test(test_the_callback_can_stop_it),
        cmocka_unit_test(test_an_event_without_end_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
