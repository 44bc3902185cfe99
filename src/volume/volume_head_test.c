/* The small JSON objects: what is written is read back, and nothing else is. */
#include "base/mem.h"
#include "base/rng.h"
#include "volume/pack.h"
#include "volume/volume_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

static struct map_run run_of(uint64_t number)
{
    return (struct map_run){
        .container = {.kind = CONTAINER_RUN, .term = 7, .number = number},
        .level = (uint32_t)(number % MAP_LEVELS),
        .size = number + 100,
        .index_offset = number,
        .index_checksum = UINT64_MAX - number,
        .keys = number * 3,
    };
}

static void make_head(struct volume_head *head, size_t runs, size_t snaps)
{
    *head = (struct volume_head){.term = UINT32_MAX, .change = UINT64_MAX, .owned = true};
    struct volume_owner *owner = &head->owner;
    snprintf(owner->who, sizeof owner->who, "quote \" slash \\ tab \t bell \a \xc3\xa9");
    snprintf(owner->host, sizeof owner->host, "host");
    owner->pid = 4711;
    owner->start = 99;
    owner->since_unix_ms = -5;
    memset(owner->nonce, 0xab, sizeof owner->nonce);
    head->view = (struct volume_view){.seq = 1234567890123456789u, .run_count = runs};
    head->view.runs = mem_array(runs, sizeof head->view.runs[0]);
    for (size_t i = 0; i < runs; i++) {
        head->view.runs[i] = run_of(i);
    }
    head->snap_count = snaps;
    head->snaps = mem_array(snaps, sizeof head->snaps[0]);
    for (size_t i = 0; i < snaps; i++) {
        struct volume_snap *snap = &head->snaps[i];
        *snap = (struct volume_snap){.info = {.seq = i, .files = i, .bytes = i}, .number = i};
        snprintf(snap->info.name, sizeof snap->info.name, "s%zu", i);
    }
}

static void test_a_head_is_read_back_as_it_was_written(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    AUTO_STR struct str again = {0};
    struct volume_head head;
    struct volume_head read = {0};
    struct err err = {0};
    make_head(&head, 100, 20);
    volume_head_encode(&head, &text);
    assert_int_equal(volume_head_decode(text.text, text.size, &read, &err), ERR_OK);
    assert_string_equal(read.owner.who, head.owner.who);
    assert_memory_equal(read.view.runs, head.view.runs, 100 * sizeof head.view.runs[0]);
    assert_true(read.view.seq == head.view.seq);
    assert_string_equal(read.snaps[19].info.name, "s19");
    volume_head_encode(&read, &again);
    assert_string_equal(again.text, text.text);
    volume_head_release(&head);
    volume_head_release(&read);
}

static void test_a_head_without_owner_runs_and_snapshots_is_one(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    struct volume_head head = {.term = 1};
    struct volume_head read = {.owned = true};
    volume_head_encode(&head, &text);
    assert_int_equal(volume_head_decode(text.text, text.size, &read, NULL), ERR_OK);
    assert_false(read.owned);
    assert_int_equal(read.view.run_count, 0);
    volume_head_release(&read);
}

static void test_no_changed_byte_and_no_cut_end_is_taken_for_a_head(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    struct volume_head head;
    struct volume_head read = {0};
    make_head(&head, 3, 2);
    volume_head_encode(&head, &text);
    for (size_t i = 0; i < text.size; i++) {
        char was = text.text[i];
        text.text[i] = (char)(was ^ 1);
        assert_int_equal(volume_head_decode(text.text, text.size, &read, NULL), ERR_CORRUPT);
        text.text[i] = was;
        assert_int_equal(volume_head_decode(text.text, i, &read, NULL), ERR_CORRUPT);
    }
    assert_int_equal(volume_view_decode(text.text, text.size, &read.view, NULL), ERR_CORRUPT);
    volume_head_release(&head);
}

static void test_formats_and_pins_are_read_back(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    struct volume_format format = {.pack_bytes = PACK_BYTES_MIN, .zstd_level = 3, .uuid = {1, 255}};
    struct volume_format read = {0};
    volume_format_encode(&format, &text);
    assert_int_equal(volume_format_decode(text.text, text.size, &read, NULL), ERR_OK);
    assert_memory_equal(read.uuid, format.uuid, sizeof read.uuid);
    assert_int_equal(read.zstd_level, 3);

    struct map_run run = run_of(5);
    struct volume_pin pin = {.precise = true,
                             .expires_unix_ms = 77,
                             .who = "me",
                             .view = {.seq = 9, .runs = &run, .run_count = 1}};
    struct volume_pin read_pin = {0};
    str_clear(&text);
    volume_pin_encode(&pin, &text);
    assert_int_equal(volume_pin_decode(text.text, text.size, &read_pin, NULL), ERR_OK);
    assert_true(read_pin.precise);
    assert_int_equal(read_pin.expires_unix_ms, 77);
    assert_true(volume_view_names(&read_pin.view, &run.container));
    volume_view_release(&read_pin.view);
}

static void test_a_newer_version_is_said_to_be_one(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    struct volume_format read;
    struct volume_format format = {.pack_bytes = PACK_BYTES_MIN};
    volume_format_encode(&format, &text);
    char *version = strstr(text.text, "\"version\":1");
    assert_non_null(version);
    version[strlen("\"version\":")] = '2';
    /* With the checksum put right, as a newer program would have written it. */
    char *sum = strstr(text.text, ",\"sum\":\"");
    assert_non_null(sum);
    char fixed[20];
    snprintf(fixed, sizeof fixed, "%016llx",
             (unsigned long long)XXH3_64bits(text.text, (size_t)(sum - text.text)));
    memcpy(sum + strlen(",\"sum\":\""), fixed, 16);
    assert_int_equal(volume_format_decode(text.text, text.size, &read, NULL), ERR_UNSUPPORTED);
}

static void test_snapshot_names_and_keys(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ".x", "-x", "a/b", "a b", "a@b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(volume_snapshot_name_is_sound(bad[i]));
    }
    char name[202];
    memset(name, 'x', sizeof name);
    name[201] = '\0';
    assert_false(volume_snapshot_name_is_sound(name));
    name[200] = '\0';
    assert_true(volume_snapshot_name_is_sound(name));

    struct volume_snap snap = {.term = 3, .number = 0xabc};
    struct volume_snap read = {0};
    char key[VOLUME_SNAP_KEY_MAX];
    memcpy(snap.info.name, name, sizeof snap.info.name);
    volume_snap_key(&snap, key);
    assert_true(object_key_is_sound(key));
    assert_true(volume_snap_key_parse(key, &read));
    assert_string_equal(read.info.name, name);
    assert_int_equal(read.term, 3);
    assert_int_equal(read.number, 0xabc);
    assert_false(volume_snap_key_parse("snap/x", &read));
    assert_false(volume_snap_key_parse("snap/@00000003-0000000000000abc", &read));
    assert_false(volume_snap_key_parse("snap/x@00000003-0000000000000abc0", &read));
    assert_false(volume_snap_key_parse("snap/.x@00000003-0000000000000abc", &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_head_is_read_back_as_it_was_written),
        cmocka_unit_test(test_a_head_without_owner_runs_and_snapshots_is_one),
        cmocka_unit_test(test_no_changed_byte_and_no_cut_end_is_taken_for_a_head),
        cmocka_unit_test(test_formats_and_pins_are_read_back),
        cmocka_unit_test(test_a_newer_version_is_said_to_be_one),
        cmocka_unit_test(test_snapshot_names_and_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
