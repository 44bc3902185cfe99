/* What a mount knows: sets of inodes and the table of answers, against plain models. */
#include "base/rng.h"
#include "meta/inodes.h"
#include "meta/known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INODES = 300, STEPS = 20000, NAMES = 20, FOLDERS = 8 };

static uint64_t seed_of(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    return seed;
}

static uint64_t number_of(uint64_t inode) /* near and far */
{
    return inode | (inode % 3) << 50;
}

static void test_a_set_is_a_set(void **state)
{
    (void)state;
    struct rng rng = {seed_of()};
    struct inodes set = {0};
    bool model[INODES + 1] = {false};
    size_t count = 0;
    for (int i = 0; i < STEPS; i++) {
        uint64_t inode = 1 + rng_below(&rng, INODES);
        uint64_t number = number_of(inode);
        if (rng_below(&rng, 2)) {
            count += !model[inode];
            model[inode] = true;
            inodes_add(&set, number);
        } else {
            assert_int_equal(inodes_remove(&set, number), model[inode]);
            count -= model[inode];
            model[inode] = false;
        }
        assert_int_equal(set.count, count);
        uint64_t other = 1 + rng_below(&rng, INODES);
        assert_int_equal(inodes_have(&set, number_of(other)), model[other]);
    }
    inodes_release(&set);
}

static ProtobufCBinaryData name_of(uint64_t number, char out[16])
{
    snprintf(out, 16, "n%llu", (unsigned long long)number);
    return meta_text(out);
}

struct model {
    bool has_attr[FOLDERS + 1];
    uint64_t size[FOLDERS + 1];
    uint64_t floor[FOLDERS + 1];
    bool has_name[FOLDERS + 1][NAMES], has_answer[FOLDERS + 1];
    uint64_t child[FOLDERS + 1][NAMES];
};

static void model_forget(struct model *model, uint64_t inode, bool names_too)
{
    model->has_attr[inode] = model->has_answer[inode] = false;
    for (size_t i = 0; names_too && i < NAMES; i++) {
        model->has_name[inode][i] = false;
    }
}

static void random_step(struct known *known, struct model *model, struct rng *rng, uint64_t now)
{
    char text[16];
    uint64_t inode = 1 + rng_below(rng, FOLDERS);
    uint64_t number = rng_below(rng, NAMES);
    uint64_t tide = now - (rng_below(rng, 4) ? 0 : rng_below(rng, 30)); /* some come late */
    bool is_news = tide >= model->floor[inode];
    ProtobufCBinaryData name = name_of(number, text);
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = DROVER__META_VERB__META_VERB_XATTR_GET;
    op.inode = inode;
    op.name = meta_text("user.x");
    switch (rng_below(rng, 6)) {
    case 0: {
        struct engine_attr attr = {.inode = inode, .size = now};
        known_set_attr(known, tide, &attr);
        model->has_attr[inode] = model->has_attr[inode] || is_news;
        model->size[inode] = is_news ? now : model->size[inode];
        break;
    }
    case 1:
    case 2:
        known_set_name(known, tide, inode, &name, now % 3 ? now : 0);
        if (is_news) {
            model->has_name[inode][number] = true;
            model->child[inode][number] = now % 3 ? now : 0;
        }
        break;
    case 3:
        known_set_answer(known, tide, &op, "answer", 6);
        model->has_answer[inode] = model->has_answer[inode] || is_news;
        break;
    case 4:
        known_drop_name(known, inode, &name);
        model->has_name[inode][number] = false;
        break;
    default: {
        bool all = rng_below(rng, 2);
        (all ? known_forget : known_change)(known, inode, now);
        model_forget(model, inode, all);
        model->floor[inode] = now;
    }
    }
}

static void compare(struct known *known, const struct model *model)
{
    char text[16];
    for (uint64_t inode = 1; inode <= FOLDERS; inode++) {
        Drover__MetaOp op = DROVER__META_OP__INIT;
        const void *bytes = NULL;
        size_t size = 0;
        const struct engine_attr *attr = known_attr(known, inode);
        assert_int_equal(attr != NULL, model->has_attr[inode]);
        assert_true(attr == NULL || attr->size == model->size[inode]);
        op.verb = DROVER__META_VERB__META_VERB_XATTR_GET;
        op.inode = inode;
        op.name = meta_text("user.x");
        assert_int_equal(known_answer(known, &op, &bytes, &size), model->has_answer[inode]);
        for (uint64_t i = 0; i < NAMES; i++) {
            uint64_t child = 0;
            ProtobufCBinaryData name = name_of(i, text);
            bool has = known_name(known, inode, &name, &child);
            assert_int_equal(has, model->has_name[inode][i]);
            assert_true(!has || child == model->child[inode][i]);
        }
    }
}

static void test_what_was_said_last_is_known(void **state)
{
    (void)state;
    struct rng rng = {seed_of()};
    struct model model = {0};
    struct known *known = known_create(1 << 20);
    for (uint64_t now = 100; now < 3000; now++) {
        random_step(known, &model, &rng, now);
        compare(known, &model);
    }
    known_begin(known, 5000);
    assert_int_equal(known_bytes(known), 0);
    struct engine_attr attr = {.inode = 1};
    known_set_attr(known, 4999, &attr);
    assert_null(known_attr(known, 1));
    known_set_attr(known, 5000, &attr);
    assert_non_null(known_attr(known, 1));
    known_change(known, 1, 5005);
    assert_true(known_is_overtaken(known, 1, 5004));
    assert_false(known_is_overtaken(known, 1, 5005));
    assert_false(known_is_overtaken(known, 2, 5004));
    known_begin(known, UINT64_MAX);
    known_set_attr(known, UINT64_MAX, &attr);
    assert_null(known_attr(known, 1));
    known_destroy(known);
}

static void test_what_was_used_longest_ago_is_let_go(void **state)
{
    (void)state;
    struct known *known = known_create(10000);
    for (uint64_t i = 1; i <= 1000; i++) {
        struct engine_attr attr = {.inode = i};
        known_set_attr(known, i, &attr);
        assert_non_null(known_attr(known, 1)); /* used all the time */
        assert_true(known_bytes(known) <= 10000);
    }
    assert_null(known_attr(known, 2));
    assert_non_null(known_attr(known, 1000));
    known_destroy(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_set_is_a_set),
        cmocka_unit_test(test_what_was_said_last_is_known),
        cmocka_unit_test(test_what_was_used_longest_ago_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
