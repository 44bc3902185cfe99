/* Tests of draft.h against a plain array of bytes. */
#include "base/mem.h"
#include "base/rng.h"
#include "mount/draft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SPACE = 3 * EXTENT_BYTES_MAX + 777, STEPS = 400 };

/* What a placed extent's bytes are, by the number in its container. */
struct shelf {
    uint8_t *bytes[STEPS * 8];
    size_t count;
};

struct model {
    uint8_t *base, *now; /* SPACE bytes each */
    uint64_t base_size, size;
    struct draft draft;
    struct shelf shelf;
};

/* Every byte of the file as the draft shows it, compared with the model. */
static void compare(struct model *model)
{
    struct draft *draft = &model->draft;
    uint8_t *seen = mem_alloc(SPACE);
    uint64_t memory = 0;
    uint64_t before = 0;

    assert_int_equal(draft->size, model->size);
    memcpy(seen, model->base, draft->base_end);
    for (size_t i = 0; i < draft->count; i++) {
        const struct draft_segment *s = &draft->segments[i];
        assert_true(s->size > 0 && s->offset >= before);
        before = s->offset + s->size;
        assert_true(before <= draft->size);
        if (s->kind == DRAFT_MEMORY) {
            assert_int_equal(s->offset / EXTENT_BYTES_MAX, (before - 1) / EXTENT_BYTES_MAX);
            memcpy(seen + s->offset, s->bytes, s->size);
            memory += s->size;
        } else if (s->kind == DRAFT_PLACED) {
            assert_int_equal(s->extent.file_offset, s->offset);
            assert_int_equal(s->extent.size, s->size);
            memcpy(seen + s->offset,
                   model->shelf.bytes[s->extent.container.number] + s->extent.skip, s->size);
        } else {
            memset(seen + s->offset, 0, s->size);
        }
    }
    assert_int_equal(memory, draft->memory_bytes);
    assert_memory_equal(seen, model->now, model->size);
    free(seen);
}

static void place(struct model *model, size_t index)
{
    struct draft_segment *segment = &model->draft.segments[index];
    if (segment->kind != DRAFT_MEMORY || model->shelf.count == (size_t)STEPS * 8) {
        return;
    }
    struct extent extent = {.file_offset = segment->offset,
                            .size = (uint32_t)segment->size,
                            .whole = (uint32_t)segment->size,
                            .container = {.kind = CONTAINER_PACK, .number = model->shelf.count}};
    model->shelf.bytes[model->shelf.count++] = mem_dup(segment->bytes, segment->size);
    draft_placed(&model->draft, index, &extent);
}

/* As engine_write would do it: extents over the base, then the size. */
static void flush(struct model *model)
{
    for (size_t i = 0; i < model->draft.count; i++) {
        place(model, i);
    }
    struct extent *extents;
    size_t count = draft_extents(&model->draft, &extents);
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        const struct extent *e = &extents[i];
        assert_true(e->file_offset >= before && e->size > 0);
        before = e->file_offset + e->size;
        if (e->container.kind == 0) {
            memset(model->base + e->file_offset, 0, e->size);
        } else {
            memcpy(model->base + e->file_offset, model->shelf.bytes[e->container.number] + e->skip,
                   e->size);
        }
    }
    free(extents);
    if (model->draft.size < SPACE) {
        memset(model->base + model->draft.size, 0, SPACE - model->draft.size);
    }
    model->base_size = model->draft.size;
    assert_int_equal(model->base_size, model->size);
    assert_memory_equal(model->base, model->now, model->size);
    draft_release(&model->draft);
    draft_init(&model->draft, model->base_size);
    assert_true(draft_is_clean(&model->draft));
}

static void step(struct model *model, struct rng *rng)
{
    static uint8_t noise[EXTENT_BYTES_MAX * 2];
    uint64_t offset =
        rng_below(rng, 4) ? rng_below(rng, SPACE) : rng_below(rng, 3) * EXTENT_BYTES_MAX;
    uint64_t most = rng_below(rng, 3) ? 5000 : sizeof noise;
    uint64_t size = 1 + rng_below(rng, most < SPACE - offset ? most : SPACE - offset);

    switch (rng_below(rng, 12)) {
    case 0:
        draft_truncate(&model->draft, offset);
        if (offset < model->size) {
            memset(model->now + offset, 0, model->size - offset);
        }
        model->size = offset;
        break;
    case 1:
        draft_punch(&model->draft, offset, size);
        if (offset < model->size) {
            memset(model->now + offset, 0,
                   size < model->size - offset ? size : model->size - offset);
        }
        break;
    case 2:
        if (model->draft.count > 0) {
            place(model, rng_below(rng, model->draft.count));
        }
        break;
    case 3:
        flush(model);
        break;
    case 4:
    case 5: /* append */
        offset = model->size;
        size = SPACE - offset < size ? SPACE - offset : size;
        /* fall through */
    default:
        for (uint64_t i = 0; i < size; i++) {
            noise[i] = (uint8_t)(1 + (rng->state >> 8) + i * 7);
        }
        (void)rng_next(rng);
        draft_write(&model->draft, offset, noise, size);
        memcpy(model->now + offset, noise, size);
        model->size = offset + size > model->size && size ? offset + size : model->size;
        break;
    }
}

static void test_a_draft_shows_what_a_plain_array_would(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    for (uint64_t round = 0; round < 12; round++) {
        struct rng rng = {seed + round};
        struct model model = {.base = mem_alloc(SPACE), .now = mem_alloc(SPACE)};
        draft_init(&model.draft, 0);
        for (int i = 0; i < STEPS; i++) {
            step(&model, &rng);
            if (i % 8 == 0 || i > STEPS - 20) {
                compare(&model);
            }
        }
        flush(&model);
        draft_release(&model.draft);
        for (size_t i = 0; i < model.shelf.count; i++) {
            free(model.shelf.bytes[i]);
        }
        free(model.base);
        free(model.now);
    }
}

static void test_a_file_cut_and_grown_hides_what_was_there(void **state)
{
    (void)state;
    struct draft draft;
    draft_init(&draft, 100);
    draft_truncate(&draft, 10);
    draft_truncate(&draft, 50);
    assert_false(draft_is_clean(&draft));
    struct extent *extents;
    assert_int_equal(draft_extents(&draft, &extents), 1);
    assert_int_equal(extents[0].file_offset, 10);
    assert_int_equal(extents[0].size, 40);
    assert_int_equal(extents[0].container.kind, 0);
    free(extents);
    draft_release(&draft);
}

static void test_many_small_appends_become_one_segment(void **state)
{
    (void)state;
    struct draft draft;
    draft_init(&draft, 0);
    for (int i = 0; i < 3000; i++) {
        draft_write(&draft, (uint64_t)i * 100,
                    "0123456789012345678901234567890123456789012345678901"
                    "234567890123456789012345678901234567890123456789",
                    100);
    }
    assert_int_equal(draft.count, 1);
    assert_int_equal(draft.size, 300000);
    draft_release(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_draft_shows_what_a_plain_array_would),
        cmocka_unit_test(test_a_file_cut_and_grown_hides_what_was_there),
        cmocka_unit_test(test_many_small_appends_become_one_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
