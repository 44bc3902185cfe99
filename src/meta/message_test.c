/* Messages: what goes in comes out, and what makes no sense is refused. */
#include "meta/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Drover__MetaOp *through(const Drover__MetaOp *op)
{
    Drover__MetaOp *out = NULL;
    size_t size = drover__meta_op__get_packed_size(op);
    uint8_t *bytes = malloc(size + 1);
    (void)drover__meta_op__pack(op, bytes);
    enum err_code code = meta_parse_op(bytes, size, &out, NULL);
    free(bytes);
    return code == ERR_OK ? out : NULL;
}

static void refused(const Drover__MetaOp *op)
{
    assert_null(through(op));
}

static void taken(const Drover__MetaOp *op)
{
    Drover__MetaOp *out = through(op);
    assert_non_null(out);
    meta_free_op(out);
}

static void test_attributes_and_extents_come_back_as_they_went(void **state)
{
    (void)state;
    struct engine_attr attr = {.inode = 1,
                               .mode = 2,
                               .uid = 3,
                               .gid = 4,
                               .nlink = 5,
                               .rdev = 6,
                               .generation = 7,
                               .size = 8,
                               .stored = 9,
                               .atime_ns = -10,
                               .mtime_ns = 11,
                               .ctime_ns = -12,
                               .parent = 13};
    struct engine_attr back;
    Drover__MetaAttr message;
    meta_attr_to(&attr, &message);
    meta_attr_from(&message, &back);
    assert_memory_equal(&attr, &back, sizeof attr);
    struct extent extent = {.file_offset = 1,
                            .size = 2,
                            .container = {CONTAINER_PACK, 3, 4, 5},
                            .offset = 6,
                            .stored_size = 7,
                            .codec = 1,
                            .checksum = 8,
                            .skip = 9,
                            .whole = 11};
    struct extent again;
    Drover__MetaExtent piece;
    meta_extent_to(&extent, &piece);
    meta_extent_from(&piece, &again);
    assert_true(container_equal(&extent.container, &again.container));
    assert_int_equal(extent.checksum, again.checksum);
    assert_int_equal(extent.skip, again.skip);
    assert_int_equal(extent.whole, again.whole);
}

static void test_unknown_verbs_are_refused(void **state)
{
    (void)state;
    for (int verb = 0; verb < 40; verb++) {
        Drover__MetaOp op = DROVER__META_OP__INIT;
        Drover__MetaAttr set = DROVER__META_ATTR__INIT;
        Drover__MetaLock lock = DROVER__META_LOCK__INIT;
        bool is_known = (verb >= 1 && verb <= 13) || (verb >= 20 && verb <= 26);
        op.verb = (Drover__MetaVerb)verb;
        op.set = &set;
        op.lock = &lock;
        op.size = 1;
        op.data = meta_text("x");
        if (is_known) {
            taken(&op);
        } else {
            refused(&op);
        }
    }
}

static void test_names_with_nul_or_too_long_are_refused(void **state)
{
    (void)state;
    Drover__MetaOp op = DROVER__META_OP__INIT;
    char name[5000];
    memset(name, 'x', sizeof name);
    op.verb = DROVER__META_VERB__META_VERB_LOOKUP;
    op.name = meta_bytes(name, ENGINE_TARGET_MAX);
    taken(&op);
    op.name = meta_bytes(name, ENGINE_TARGET_MAX + 1);
    refused(&op);
    op.name = meta_bytes("a\0b", 3);
    refused(&op);
}

static void test_extents_out_of_order_or_out_of_their_pack_are_refused(void **state)
{
    (void)state;
    Drover__MetaOp op = DROVER__META_OP__INIT;
    Drover__MetaExtent a = DROVER__META_EXTENT__INIT;
    Drover__MetaExtent b = DROVER__META_EXTENT__INIT;
    Drover__MetaExtent *both[] = {&a, &b};
    op.verb = DROVER__META_VERB__META_VERB_WRITE;
    op.extent = both;
    op.n_extent = 2;
    a.size = 10;
    b.size = 10;
    b.file_offset = 10;
    taken(&op);
    b.file_offset = 9;
    refused(&op);
    b.file_offset = 10;
    b.kind = CONTAINER_PACK;
    refused(&op);
    b.whole = b.stored_size = 12;
    b.skip = 2;
    taken(&op);
    b.skip = 3;
    refused(&op);
    b.skip = 2;
    b.kind = CONTAINER_LOG;
    refused(&op);
    b.kind = CONTAINER_RUN;
    refused(&op);
    b.kind = 0;
    b.data = meta_text("0123456789");
    taken(&op);
    b.data = meta_text("012345678");
    refused(&op);
    a.size = 0;
    refused(&op);
}

static void test_a_message_of_any_bytes_is_refused_or_taken_without_harm(void **state)
{
    (void)state;
    Drover__MetaAsk *ask = NULL;
    Drover__MetaAnswer *answer = NULL;
    assert_int_equal(meta_parse_ask("\xff\xff\xff", 3, &ask, NULL), ERR_INVALID);
    assert_int_equal(meta_parse_answer("\x08", 1, &answer, NULL), ERR_INVALID);
    assert_int_equal(meta_parse_ask("", 0, &ask, NULL), ERR_OK);
    meta_free_ask(ask);
    meta_free_ask(NULL);
    meta_free_answer(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes_and_extents_come_back_as_they_went),
        cmocka_unit_test(test_unknown_verbs_are_refused),
        cmocka_unit_test(test_names_with_nul_or_too_long_are_refused),
        cmocka_unit_test(test_extents_out_of_order_or_out_of_their_pack_are_refused),
        cmocka_unit_test(test_a_message_of_any_bytes_is_refused_or_taken_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
