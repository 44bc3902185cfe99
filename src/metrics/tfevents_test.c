/* Event files made here, field by field as TensorFlow and PyTorch write them. */
#include "metrics/tfevents.h"

#include "base/io.h"
#include "base/rng.h"
#include "metrics/crc32c.h"
#include "metrics/metrics_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- writing --------------------------------------------------------------------------------- */

static void put_fixed(struct str *out, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        str_add_char(out, (char)(bits >> 8 * i));
    }
}

static void put_varint(struct str *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        str_add_char(out, (char)(value | 0x80));
    }
    str_add_char(out, (char)value);
}

static void put_key(struct str *out, unsigned number, unsigned wire)
{
    put_varint(out, number << 3 | wire);
}

static void put_bytes(struct str *out, unsigned number, const char *bytes, size_t size)
{
    put_key(out, number, 2);
    put_varint(out, size);
    str_add_bytes(out, bytes, size);
}

static void put_text(struct str *out, unsigned number, const char *text)
{
    put_bytes(out, number, text, strlen(text));
}

static void put_double(struct str *out, unsigned number, double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, number, 1);
    put_fixed(out, bits, 8);
}

static void put_float(struct str *out, unsigned number, float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, number, 5);
    put_fixed(out, bits, 4);
}

static void put_record(struct str *out, const struct str *event)
{
    AUTO_STR struct str length = {0};
    put_fixed(&length, event->size, 8);
    str_add_bytes(out, length.text, length.size);
    put_fixed(out, crc32c_masked(crc32c(0, length.text, length.size)), 4);
    str_add_bytes(out, str_text(event), event->size);
    put_fixed(out, crc32c_masked(crc32c(0, str_text(event), event->size)), 4);
}

/* An event with one summary value, whose other fields are in `value`. */
static void put_event(struct str *out, double seconds, int64_t step, const struct str *value)
{
    AUTO_STR struct str summary = {0};
    AUTO_STR struct str event = {0};
    put_bytes(&summary, 1, str_text(value), value->size);
    put_double(&event, 1, seconds);
    if (step != 0) { /* zeros are left out */
        put_key(&event, 2, 0);
        put_varint(&event, (uint64_t)step);
    }
    put_bytes(&event, 5, str_text(&summary), summary.size);
    put_record(out, &event);
}

static void put_simple(struct str *out, const char *tag, int64_t step, float number)
{
    AUTO_STR struct str value = {0};
    put_text(&value, 1, tag);
    put_float(&value, 2, number);
    put_event(out, 1700000000.5, step, &value);
}

static void put_tensor(struct str *out, const char *tag, int64_t step, const struct str *tensor)
{
    AUTO_STR struct str value = {0};
    AUTO_STR struct str metadata = {0};
    AUTO_STR struct str plugin = {0};
    put_text(&plugin, 1, "scalars");
    put_bytes(&metadata, 1, str_text(&plugin), plugin.size);
    put_text(&value, 1, tag);
    put_bytes(&value, 8, str_text(tensor), tensor->size);
    put_bytes(&value, 9, str_text(&metadata), metadata.size);
    put_event(out, 1700000000.5, step, &value);
}

static void put_version(struct str *out)
{
    AUTO_STR struct str event = {0};
    put_double(&event, 1, 1700000000.0);
    put_text(&event, 3, "brain.Event:2");
    put_record(out, &event);
}

/* --- reading --------------------------------------------------------------------------------- */

static enum err_code read_bytes(const struct str *file, struct str *out,
                                struct tfevents_counts *counts, struct err *err)
{
    struct metric_sink sink = testing_timed_sink(out);
    struct tfevents *events = tfevents_create();
    enum err_code code = tfevents_feed(events, str_text(file), file->size, 7, &sink, err);
    *counts = tfevents_counts(events);
    tfevents_destroy(events);
    return code;
}

static void expect(const struct str *file, const char *expected)
{
    AUTO_STR struct str out = {0};
    struct tfevents_counts counts;
    struct err err = {0};
    assert_int_equal(read_bytes(file, &out, &counts, &err), ERR_OK);
    assert_string_equal(str_text(&out), expected);
    assert_int_equal(counts.damaged, 0);
}

static void the_checksum_is_the_one_of_the_standard(void **state)
{
    (void)state;
    /* RFC 3720, B.4, and the first bytes of every event file. */
    static const char zeros[32] = {0};
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c_plain(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, zeros, sizeof zeros), 0x8A9136AA);
    AUTO_STR struct str file = {0};
    put_version(&file);
    assert_memory_equal(file.text, "\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12);
    struct rng rng = {.state = 5};
    for (size_t size = 0; size < 100; size++) {
        char bytes[100];
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (char)rng_next(&rng);
        }
        size_t cut = rng_below(&rng, size + 1);
        uint32_t whole = crc32c_plain(0, bytes, size);
        assert_int_equal(crc32c(0, bytes, size), whole);
        assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, size - cut), whole);
    }
}

static void simple_values_are_read(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    put_version(&file);
    put_simple(&file, "Loss/train", 0, 0.5F);
    put_simple(&file, "Loss/train", 300, -0.25F);
    put_simple(&file, "x", -1, __builtin_nanf(""));
    put_simple(&file, "bad\ntag", 1, 1);
    expect(&file, "Loss/train@0=0.5~1700000000500 Loss/train@300=-0.25~1700000000500 "
                  "x@-1=nan~1700000000500");
}

/* dtype, the field with the number, and the number as the field has it */
static void put_scalar(struct str *file, unsigned dtype, unsigned field, uint64_t number)
{
    AUTO_STR struct str tensor = {0};
    put_key(&tensor, 1, 0);
    put_varint(&tensor, dtype);
    put_bytes(&tensor, 2, "", 0); /* the shape of a scalar is empty */
    if (field == 5 || field == 6) {
        AUTO_STR struct str packed = {0};
        put_fixed(&packed, number, field == 5 ? 4 : 8);
        put_bytes(&tensor, field, packed.text, packed.size);
    } else if (field == 4) {
        AUTO_STR struct str content = {0};
        put_fixed(&content, number,
                  dtype == 19 || dtype == 14 ? 2
                  : dtype == 2 || dtype == 9 ? 8
                                             : 4);
        put_bytes(&tensor, 4, content.text, content.size);
    } else {
        put_key(&tensor, field, 0);
        put_varint(&tensor, number);
    }
    put_tensor(file, "t", 1, &tensor);
}

static void tensors_of_one_number_are_read(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    AUTO_STR struct str out = {0};
    struct tfevents_counts counts;
    put_scalar(&file, 1, 5, 0x3FC00000);            /* float_val 1.5 */
    put_scalar(&file, 1, 4, 0x40200000);            /* tensor_content 2.5f */
    put_scalar(&file, 2, 6, 0x400C000000000000);    /* double_val 3.5 */
    put_scalar(&file, 2, 4, 0x4012000000000000);    /* tensor_content 4.5 */
    put_scalar(&file, 3, 7, (uint64_t)(int64_t)-5); /* int_val */
    put_scalar(&file, 9, 10, 6);                    /* int64_val */
    put_scalar(&file, 9, 4, (uint64_t)-7);
    put_scalar(&file, 19, 13, 0x4800); /* half 8 */
    put_scalar(&file, 19, 4, 0x3800);  /* half 0.5 */
    put_scalar(&file, 14, 4, 0x4110);  /* bfloat16 9 */
    put_scalar(&file, 7, 5, 0);        /* a string: not a number */
    put_scalar(&file, 1, 6, 0);        /* not where a float's number stands */
    assert_int_equal(read_bytes(&file, &out, &counts, NULL), ERR_OK);
    assert_string_equal(
        str_text(&out),
        "t@1=1.5~1700000000500 t@1=2.5~1700000000500 t@1=3.5~1700000000500 t@1=4.5~1700000000500 "
        "t@1=-5~1700000000500 t@1=6~1700000000500 t@1=-7~1700000000500 t@1=8~1700000000500 "
        "t@1=0.5~1700000000500 t@1=9~1700000000500");
}

static void tensors_of_many_numbers_are_not(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    AUTO_STR struct str tensor = {0};
    AUTO_STR struct str shape = {0};
    put_bytes(&shape, 2, "\x08\x02", 2);
    put_key(&tensor, 1, 0);
    put_varint(&tensor, 1);
    put_bytes(&tensor, 2, shape.text, shape.size);
    put_bytes(&tensor, 5, "\0\0\0\0\0\0\0\0", 8);
    put_tensor(&file, "t", 1, &tensor);
    /* Two numbers that are the same are written once. */
    str_clear(&tensor);
    put_key(&tensor, 1, 0);
    put_varint(&tensor, 1);
    put_bytes(&tensor, 2, shape.text, shape.size);
    put_bytes(&tensor, 5, "\0\0\0\0", 4);
    put_tensor(&file, "t", 2, &tensor);
    expect(&file, "");
}

static void a_torn_tail_waits(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    AUTO_STR struct str out = {0};
    struct metric_sink sink = testing_sink(&out);
    struct err err = {0};
    put_simple(&file, "a", 1, 1);
    struct tfevents *events = tfevents_create();
    for (size_t i = 0; i < file.size; i++) {
        assert_string_equal(str_text(&out), "");
        assert_int_equal(tfevents_feed(events, file.text + i, 1, 0, &sink, &err), ERR_OK);
    }
    assert_string_equal(str_text(&out), "a@1=1");
    tfevents_destroy(events);
}

static void damaged_events_are_passed_over(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    AUTO_STR struct str out = {0};
    struct tfevents_counts counts;
    put_simple(&file, "a", 1, 1);
    size_t second = file.size;
    put_simple(&file, "b", 2, 2);
    put_simple(&file, "c", 3, 3);
    file.text[second + 20] ^= 1;
    AUTO_STR struct str junk = {0};
    str_add(&junk, "\x0A\xFF\xFF");
    put_record(&file, &junk);
    AUTO_STR struct str empty = {0};
    put_record(&file, &empty);
    assert_int_equal(read_bytes(&file, &out, &counts, NULL), ERR_OK);
    assert_string_equal(str_text(&out), "a@1=1~1700000000500 c@3=3~1700000000500");
    assert_int_equal(counts.damaged, 2);
    assert_int_equal(counts.records, 5);
}

static void a_damaged_length_ends_the_file(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    AUTO_STR struct str out = {0};
    struct tfevents_counts counts;
    struct err err = {0};
    put_simple(&file, "a", 1, 1);
    size_t second = file.size;
    put_simple(&file, "b", 2, 2);
    file.text[second] ^= 1;
    assert_int_equal(read_bytes(&file, &out, &counts, &err), ERR_CORRUPT);
    assert_string_equal(str_text(&out), "a@1=1~1700000000500");
    assert_non_null(strstr(err.text, "not an event file from byte"));
    struct str text = {.text = (char *)"hello, I am no event file", .size = 25};
    assert_int_equal(read_bytes(&text, &out, &counts, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.text, "from byte 0 on"));
}

static void large_events_are_passed_over(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    AUTO_STR struct str out = {0};
    AUTO_STR struct str large = {0};
    struct tfevents_counts counts;
    str_add_repeat(&large, "x", TFEVENTS_EVENT_MAX + 1);
    put_record(&file, &large);
    put_simple(&file, "a", 1, 1);
    assert_int_equal(read_bytes(&file, &out, &counts, NULL), ERR_OK);
    assert_string_equal(str_text(&out), "a@1=1~1700000000500");
    assert_int_equal(counts.large, 1);
}

static void pieces_make_no_difference(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 500; round++) {
        AUTO_STR struct str file = {0};
        AUTO_STR struct str whole = {0};
        AUTO_STR struct str cut = {0};
        struct tfevents_counts counts;
        put_version(&file);
        for (uint64_t i = rng_below(&rng, 20); i > 0; i--) {
            put_simple(&file, i % 2 ? "a" : "b", (int64_t)rng_below(&rng, 1000),
                       (float)rng_unit(&rng));
        }
        if (rng_below(&rng, 2) == 0) {
            file.text[rng_below(&rng, file.size)] ^= (char)(1 + rng_below(&rng, 255));
        }
        enum err_code expected = read_bytes(&file, &whole, &counts, NULL);
        enum err_code code = ERR_OK;
        struct metric_sink sink = testing_timed_sink(&cut);
        struct tfevents *events = tfevents_create();
        for (size_t at = 0; at < file.size;) {
            size_t size = 1 + rng_below(&rng, 30);
            size = size < file.size - at ? size : file.size - at;
            code = tfevents_feed(events, file.text + at, size, 7, &sink, NULL);
            at += size;
        }
        assert_int_equal(code, expected);
        assert_string_equal(str_text(&whole), str_text(&cut));
        tfevents_destroy(events);
    }
}

/* What we write here is what TensorBoard reads: otherwise the tests above prove little. */
static void tensorboard_reads_what_the_test_writes(void **state)
{
    (void)state;
    static const char script[] =
        "from tensorboard.backend.event_processing.event_file_loader import EventFileLoader as L; "
        "import sys; "
        "print(' '.join('%s@%d=%g' % (v.tag, e.step, v.simple_value or v.tensor.float_val[0]) "
        "for e in L(sys.argv[1]).Load() for v in e.summary.value))";
    if (system("python3 -c 'import tensorboard' 2>/dev/null") != 0) {
        print_message("python3-tensorboard is not installed\n");
        skip();
    }
    AUTO_STR struct str file = {0};
    AUTO_STR struct str command = {0};
    AUTO_STR struct str folder = {0};
    char seen[200] = {0};
    testing_folder(&folder);
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/events.out.tfevents.1", str_text(&folder));
    put_version(&file);
    put_simple(&file, "a", 1, 1.5F);
    put_scalar(&file, 1, 5, 0x3FC00000);
    assert_int_equal(io_replace_file(str_text(&path), file.text, file.size, 0666, NULL), ERR_OK);
    str_addf(&command, "python3 -c \"%s\" %s 2>/dev/null", script, str_text(&path));
    FILE *pipe = popen(str_text(&command), "r");
    assert_non_null(pipe);
    assert_non_null(fgets(seen, sizeof seen, pipe));
    pclose(pipe);
    assert_int_equal(io_remove_tree(str_text(&folder), NULL), ERR_OK);
    assert_string_equal(seen, "a@1=1.5 t@1=1.5\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_the_one_of_the_standard),
        cmocka_unit_test(simple_values_are_read),
        cmocka_unit_test(tensors_of_one_number_are_read),
        cmocka_unit_test(tensors_of_many_numbers_are_not),
        cmocka_unit_test(a_torn_tail_waits),
        cmocka_unit_test(damaged_events_are_passed_over),
        cmocka_unit_test(a_damaged_length_ends_the_file),
        cmocka_unit_test(large_events_are_passed_over),
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(tensorboard_reads_what_the_test_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
