#include "base/mem.h"
#include "wire/bulk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void paths_stay_below_their_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool is_safe;
    } cases[] = {{"a", true},       {"a/b", true},     {"..a", true},    {"a..", true},
                 {".hidden", true}, {"", false},       {"/a", false},    {"a/", false},
                 {"a//b", false},   {"..", false},     {".", false},     {"../a", false},
                 {"a/..", false},   {"a/../b", false}, {"a/./b", false}, {"./a", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(bulk_path_is_safe(cases[i].path, strlen(cases[i].path)), cases[i].is_safe);
    }
    assert_false(bulk_path_is_safe("a\0b", 3));
    char text[BULK_PATH_BYTES_MAX + 2];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = i % 100 == 99 ? '/' : 'a';
    }
    assert_true(bulk_path_is_safe(text, 2999));
    assert_false(bulk_path_is_safe(text, BULK_PATH_BYTES_MAX + 1));
    memset(text, 'a', sizeof text);
    assert_true(bulk_path_is_safe(text, 255));
    assert_false(bulk_path_is_safe(text, 256));
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = i % 2 ? '/' : 'a';
    }
    assert_true(bulk_path_is_safe(text, 2 * BULK_PATH_DEPTH_MAX - 1));
    assert_false(bulk_path_is_safe(text, 2 * BULK_PATH_DEPTH_MAX + 1));
}

static enum err_code parse(const Drover__ToDepot *message)
{
    AUTO_FREE uint8_t *bytes = mem_alloc(drover__to_depot__get_packed_size(message));
    size_t size = drover__to_depot__pack(message, bytes);
    Drover__ToDepot *parsed = NULL;
    enum err_code code = bulk_parse_to_depot(bytes, size, &parsed, NULL);
    bulk_free_to_depot(parsed);
    return code;
}

static void messages_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    Drover__ToDepot message = DROVER__TO_DEPOT__INIT;
    Drover__BulkPut put = DROVER__BULK_PUT__INIT;
    Drover__BulkGet get = DROVER__BULK_GET__INIT;
    Drover__Attempt id = DROVER__ATTEMPT__INIT;
    assert_int_equal(parse(&message), ERR_INVALID);
    message.protocol = BULK_PROTOCOL;
    assert_int_equal(parse(&message), ERR_INVALID);
    message.ticket = 1;
    assert_int_equal(parse(&message), ERR_OK);
    message.put = &put;
    assert_int_equal(parse(&message), ERR_INVALID);
    put.kind = DROVER__BULK_KIND__BULK_KIND_OUTPUT;
    assert_int_equal(parse(&message), ERR_INVALID);
    put.id = &id;
    assert_int_equal(parse(&message), ERR_OK);
    put.kind = DROVER__BULK_KIND__BULK_KIND_OBJECTS;
    assert_int_equal(parse(&message), ERR_INVALID);
    message.put = NULL;
    message.get = &get;
    get.kind = DROVER__BULK_KIND__BULK_KIND_INPUTS;
    get.id = &id;
    get.name = (char[]){"../x"};
    assert_int_equal(parse(&message), ERR_INVALID);
    get.name = (char[]){"x"};
    assert_int_equal(parse(&message), ERR_OK);
    get.kind = DROVER__BULK_KIND__BULK_KIND_MANIFEST;
    assert_int_equal(parse(&message), ERR_INVALID);
    get.kind = DROVER__BULK_KIND__BULK_KIND_OBJECTS;
    get.hashes.data = (uint8_t[32]){0};
    get.hashes.len = 31;
    assert_int_equal(parse(&message), ERR_INVALID);
    get.hashes.len = 32;
    assert_int_equal(parse(&message), ERR_OK);
    get.path.data = (uint8_t *)(char[]){"../a"};
    get.path.len = 4;
    assert_int_equal(parse(&message), ERR_INVALID);
}

static enum err_code parse_part(Drover__BulkPart *part)
{
    Drover__ToDepot message = DROVER__TO_DEPOT__INIT;
    Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
    Drover__BulkPart *parts[] = {part, part};
    message.protocol = BULK_PROTOCOL;
    message.ticket = 1;
    message.piece = &piece;
    piece.part = parts;
    piece.n_part = 2;
    return parse(&message);
}

static void parts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    Drover__BulkPart part = DROVER__BULK_PART__INIT;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.path.data = (uint8_t *)(char[]){"a"};
    part.path.len = 1;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.type = DROVER__BULK_TYPE__BULK_TYPE_FILE;
    assert_int_equal(parse_part(&part), ERR_OK);
    part.data.data = (uint8_t *)(char[]){"xyz"};
    part.data.len = 3;
    assert_int_equal(parse_part(&part), ERR_INVALID); /* more than its size */
    part.size = 10;
    part.offset = 8;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.offset = 7;
    assert_int_equal(parse_part(&part), ERR_OK);
    part.offset = UINT64_MAX - 1;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.offset = 0;
    part.keep = true;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.keep = false;
    part.mode = 010000;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.mode = 0;
    part.type = DROVER__BULK_TYPE__BULK_TYPE_LINK;
    assert_int_equal(parse_part(&part), ERR_OK);
    part.data.len = 0;
    assert_int_equal(parse_part(&part), ERR_INVALID);
    part.type = 9;
    assert_int_equal(parse_part(&part), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_stay_below_their_folder),
        cmocka_unit_test(messages_that_mean_nothing_are_refused),
        cmocka_unit_test(parts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
