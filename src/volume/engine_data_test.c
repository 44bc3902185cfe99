#include "base/mem.h"
#include "base/rng.h"
#include "volume/engine.h"
#include "volume/engine_codec.h"
#include "volume/engine_testmap.h"
#include "volume/logobj.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const struct engine_caller caller = {.uid = 1000, .gid = 100, .now_ns = 5000};

struct bed {
    struct testmap *testmap;
    struct engine *engine;
    uint64_t file;
};

static void bed_init(struct bed *bed)
{
    bed->testmap = testmap_create(1, 0);
    bed->engine = engine_create(testmap_map(bed->testmap));
    engine_set_seq(bed->engine, 3);
    engine_format(bed->engine, &caller, 0755);
    struct engine_make make = {.folder = ENGINE_ROOT, .name = "file", .mode = S_IFREG | 0644};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_make(bed->engine, &caller, &make, &attr, &posix, NULL), ERR_OK);
    bed->file = attr.inode;
}

static void bed_release(struct bed *bed)
{
    engine_destroy(bed->engine);
    testmap_destroy(bed->testmap);
}

/* size bytes of the file at file_offset, stored at `offset` of a pack, packed to a half. */
static struct extent extent_at(uint64_t file_offset, uint32_t size, uint64_t pack, uint64_t offset)
{
    return (struct extent){.file_offset = file_offset,
                           .size = size,
                           .container = {CONTAINER_PACK, 0, 1, pack},
                           .offset = offset,
                           .stored_size = size / 2,
                           .codec = EXTENT_ZSTD,
                           .checksum = offset,
                           .whole = size};
}

static struct extent hole_at(uint64_t file_offset, uint32_t size)
{
    return (struct extent){.file_offset = file_offset, .size = size};
}

static int write_extents(struct bed *bed, const struct extent *extents, size_t count, uint64_t size)
{
    struct engine_write write = {
        .inode = bed->file, .size = size, .extents = extents, .count = count};
    struct engine_attr attr;
    int posix = 0;
    enum err_code code = engine_write(bed->engine, &caller, &write, &attr, &posix, NULL);
    assert_int_equal(code, posix ? ERR_INVALID : ERR_OK);
    return posix;
}

static int write_one(struct bed *bed, struct extent extent, uint64_t size)
{
    return write_extents(bed, &extent, 1, size);
}

static bool add_text(void *context, const struct extent *extent)
{
    str_addf(context, "%llu+%u(%llu:%llu skip %u of %u) ", (unsigned long long)extent->file_offset,
             extent->size, (unsigned long long)extent->container.number,
             (unsigned long long)extent->offset, extent->skip, extent->whole);
    return true;
}

static void assert_extents(struct bed *bed, const char *wanted)
{
    AUTO_STR struct str text = {0};
    struct engine_span span = {bed->file, 0, UINT64_MAX};
    int posix = 0;
    assert_int_equal(engine_extents(bed->engine, &span, add_text, &text, &posix, NULL), ERR_OK);
    assert_string_equal(str_text(&text), wanted);
}

struct wanted_container {
    uint64_t number;
    struct engine_container found;
    bool is_found;
};

static bool find_container(void *context, const struct engine_container *container)
{
    struct wanted_container *wanted = context;
    if (container->container.number == wanted->number) {
        wanted->found = *container;
        wanted->is_found = true;
    }
    return true;
}

static struct engine_container container_of(struct bed *bed, uint64_t number)
{
    struct wanted_container wanted = {.number = number};
    assert_int_equal(engine_containers(bed->engine, find_container, &wanted, NULL), ERR_OK);
    assert_true(wanted.is_found);
    return wanted.found;
}

static void add_container(struct bed *bed, uint64_t number, uint64_t born)
{
    engine_container_add(bed->engine,
                         &(struct engine_container){.container = {CONTAINER_PACK, 0, 1, number},
                                                    .size = 1000,
                                                    .live = 999, /* not believed */
                                                    .born = born});
}

static bool count_key(void *context, struct map_slice key, struct map_slice value)
{
    (void)key;
    (void)value;
    ++*(size_t *)context;
    return true;
}

static size_t keys_of_kind(struct bed *bed, char kind)
{
    size_t count = 0;
    uint8_t prefix = (uint8_t)kind;
    struct map_range range = {.prefix = {&prefix, 1}};
    assert_int_equal(map_scan(testmap_map(bed->testmap), &range, count_key, &count, NULL), ERR_OK);
    return count;
}

/* Extents. ------------------------------------------------------------------------------------- */

static void test_the_pieces_of_an_overwritten_extent_count_once(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    assert_int_equal(write_one(&bed, extent_at(0, 1000, 1, 0), 1000), 0);
    add_container(&bed, 1, 3);
    assert_int_equal(container_of(&bed, 1).live, 500);
    assert_int_equal(write_one(&bed, extent_at(400, 200, 2, 0), 1000), 0);
    add_container(&bed, 2, 3);
    assert_extents(&bed, "0+400(1:0 skip 0 of 1000) 400+200(2:0 skip 0 of 200) "
                         "600+400(1:0 skip 600 of 1000) ");
    assert_int_equal(container_of(&bed, 1).live, 500);
    assert_int_equal(write_one(&bed, extent_at(0, 400, 2, 300), 1000), 0);
    assert_int_equal(container_of(&bed, 1).live, 500); /* the piece behind is left */
    engine_set_seq(bed.engine, 4);
    assert_int_equal(write_one(&bed, hole_at(550, 450), 1000), 0);
    assert_extents(&bed, "0+400(2:300 skip 0 of 400) 400+150(2:0 skip 0 of 200) ");
    assert_int_equal(container_of(&bed, 1).live, 0);
    assert_int_equal(container_of(&bed, 1).dead, 4);
    assert_int_equal(container_of(&bed, 1).born, 3);
    assert_int_equal(container_of(&bed, 2).live, 300);
    bed_release(&bed);
}

static void test_a_file_of_one_extent_has_it_in_its_inode(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    assert_int_equal(write_one(&bed, extent_at(0, 100, 1, 0), 100), 0);
    assert_int_equal(keys_of_kind(&bed, 'E'), 0);
    assert_int_equal(write_one(&bed, extent_at(100, 100, 1, 100), 200), 0);
    assert_int_equal(keys_of_kind(&bed, 'E'), 2);
    assert_int_equal(write_one(&bed, extent_at(150, 10, 1, 200), 200), 0);
    assert_int_equal(keys_of_kind(&bed, 'E'), 4);
    assert_int_equal(write_one(&bed, extent_at(0, 300, 1, 300), 300), 0);
    assert_int_equal(keys_of_kind(&bed, 'E'), 0);
    assert_extents(&bed, "0+300(1:300 skip 0 of 300) ");
    assert_int_equal(write_extents(&bed, NULL, 0, 0), 0);
    assert_extents(&bed, "");
    bed_release(&bed);
}

static void test_a_write_may_lie_behind_its_own_end(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    struct extent three[] = {extent_at(0, 100, 1, 0), extent_at(100, 100, 1, 100),
                             extent_at(200, 100, 1, 200)};
    assert_int_equal(write_extents(&bed, three, 3, 300), 0);
    struct extent fresh[] = {extent_at(20, 10, 2, 0), extent_at(240, 20, 2, 10)};
    assert_int_equal(write_extents(&bed, fresh, 2, 50), 0);
    assert_extents(&bed, "0+20(1:0 skip 0 of 100) 20+10(2:0 skip 0 of 10) "
                         "30+20(1:0 skip 30 of 100) ");
    add_container(&bed, 1, 3);
    add_container(&bed, 2, 3);
    assert_int_equal(container_of(&bed, 1).live, 50);
    assert_int_equal(container_of(&bed, 2).live, 5);
    bed_release(&bed);
}

static void test_extents_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    struct extent overlapping[] = {extent_at(0, 100, 1, 0), extent_at(50, 100, 1, 100)};
    assert_int_equal(write_extents(&bed, overlapping, 2, 300), EINVAL);
    struct extent odd = extent_at(0, 100, 1, 0);
    odd.skip = 1;
    assert_int_equal(write_one(&bed, odd, 100), EINVAL); /* more than the whole */
    odd = extent_at(0, 100, 1, 0);
    odd.codec = EXTENT_PLAIN;
    assert_int_equal(write_one(&bed, odd, 100), EINVAL); /* plain but smaller */
    odd = extent_at(0, 100, 1, 0);
    odd.container.kind = CONTAINER_RUN;
    assert_int_equal(write_one(&bed, odd, 100), EINVAL);
    odd = extent_at(0, 0, 1, 0);
    assert_int_equal(write_one(&bed, odd, 100), EINVAL);
    assert_int_equal(write_one(&bed, extent_at(INT64_MAX - 50, 100, 1, 0), 100), EFBIG);
    assert_int_equal(write_extents(&bed, NULL, 0, (uint64_t)INT64_MAX + 1), EFBIG);
    assert_int_equal(write_extents(&bed, NULL, 0, INT64_MAX), 0); /* one large hole */
    assert_int_equal(write_one(&bed, extent_at(INT64_MAX - 100, 100, 1, 0), INT64_MAX), 0);
    assert_extents(&bed, "9223372036854775707+100(1:0 skip 0 of 100) ");
    bed_release(&bed);
}

static void test_all_pieces_of_an_extent_move_together(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    struct extent old = extent_at(100, 1000, 1, 0);
    assert_int_equal(write_one(&bed, old, 1100), 0);
    assert_int_equal(write_one(&bed, hole_at(400, 100), 1100), 0);
    add_container(&bed, 1, 3);
    struct extent fresh = extent_at(100, 1000, 2, 5000);
    fresh.codec = EXTENT_PLAIN;
    fresh.stored_size = 1000;
    bool moved = false;
    assert_int_equal(engine_move(bed.engine, bed.file, &old, &fresh, &moved, NULL), ERR_OK);
    assert_true(moved);
    assert_extents(&bed, "100+300(2:5000 skip 0 of 1000) 500+600(2:5000 skip 400 of 1000) ");
    add_container(&bed, 2, 3);
    assert_int_equal(container_of(&bed, 1).live, 0);
    assert_int_equal(container_of(&bed, 2).live, 1000);
    assert_int_equal(engine_move(bed.engine, bed.file, &old, &fresh, &moved, NULL), ERR_OK);
    assert_false(moved); /* it does not lie there any more */
    struct extent part = extent_at(500, 100, 3, 0);
    assert_int_equal(engine_move(bed.engine, bed.file, &fresh, &part, &moved, NULL), ERR_OK);
    assert_false(moved); /* it would not hold them all */
    assert_int_equal(engine_move(bed.engine, 12345, &fresh, &old, &moved, NULL), ERR_OK);
    assert_false(moved);
    bed_release(&bed);
}

static void test_a_container_that_nothing_refers_to_is_born_dead(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    add_container(&bed, 1, 3);
    assert_int_equal(container_of(&bed, 1).dead, 3);
    assert_int_equal(write_one(&bed, extent_at(0, 100, 1, 0), 100), 0);
    assert_int_equal(container_of(&bed, 1).dead, 0); /* it came to life after all */
    add_container(&bed, 1, 3);
    assert_int_equal(container_of(&bed, 1).live, 50); /* added twice, counted once */
    struct container gone = {CONTAINER_PACK, 0, 1, 1};
    engine_container_remove(bed.engine, &gone);
    assert_int_equal(keys_of_kind(&bed, 'P'), 0);
    bed_release(&bed);
}

/* Commits. ------------------------------------------------------------------------------------- */

static void apply(void *context, const struct logobj_change *change)
{
    if (change->value) {
        map_put(context, change->key, change->key_size, change->value, change->value_size);
    } else {
        map_delete(context, change->key, change->key_size);
    }
}

static void test_a_new_owner_buries_what_only_held_files_kept_alive(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    engine_hold(bed.engine, ENGINE_ROOT, bed.file, false);
    assert_int_equal(write_one(&bed, extent_at(0, 100, 1, 0), 100), 0);
    add_container(&bed, 1, 3);
    struct bed later = {.testmap = testmap_create(2, 0)};
    engine_take(bed.engine, apply, testmap_map(later.testmap));
    later.engine = engine_create(testmap_map(later.testmap));
    engine_set_seq(later.engine, 7);
    assert_int_equal(engine_begin(later.engine, NULL), ERR_OK);
    assert_int_equal(container_of(&bed, 1).live, 50);
    assert_int_equal(container_of(&bed, 1).dead, 0);
    assert_int_equal(container_of(&later, 1).live, 0);
    assert_int_equal(container_of(&later, 1).dead, 7);
    struct engine_usage usage;
    engine_usage(later.engine, &usage);
    assert_int_equal(usage.bytes, 0);
    bed_release(&later);
    bed_release(&bed);
}

struct found {
    size_t count;
    uint64_t inode;
};

static void see_found(void *context, uint64_t inode, const struct extent *extent)
{
    struct found *found = context;
    assert_int_equal(extent->container.kind, CONTAINER_PACK);
    found->count++;
    found->inode = inode;
}

static void look_for_extents(void *context, const struct logobj_change *change)
{
    engine_change_extents(change, see_found, context);
}

static void test_the_extents_of_a_commit_are_found_in_its_changes(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed);
    assert_int_equal(write_one(&bed, extent_at(0, 100, 1, 0), 100), 0);
    struct found found = {0};
    engine_take(bed.engine, look_for_extents, &found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.inode, bed.file);
    assert_int_equal(write_one(&bed, extent_at(50, 10, 1, 100), 100), 0);
    found = (struct found){0};
    engine_take(bed.engine, look_for_extents, &found);
    assert_int_equal(found.count, 3);
    bed_release(&bed);
}

/* Damage. -------------------------------------------------------------------------------------- */

struct copy {
    uint8_t key[MAP_KEY_MAX];
    uint8_t value[512];
    size_t key_size, size;
};

struct copies {
    struct copy items[32];
    size_t count;
};

static bool copy_pair(void *context, struct map_slice key, struct map_slice value)
{
    struct copies *copies = context;
    struct copy *copy = &copies->items[copies->count++];
    assert_true(copies->count <= 32 && value.size <= sizeof copy->value);
    memcpy(copy->key, key.bytes, key.size);
    memcpy(copy->value, value.bytes, value.size);
    copy->key_size = key.size;
    copy->size = value.size;
    return true;
}

static bool see_entry(void *context, const struct engine_entry *entry)
{
    (void)entry;
    ++*(size_t *)context;
    return true;
}

static void assert_sane(enum err_code code)
{
    assert_true(code == ERR_OK || code == ERR_INVALID || code == ERR_CORRUPT);
}

/* Looks at everything and then removes it: nothing may crash. */
static void use_all(struct bed *bed)
{
    struct err err;
    int posix = 0;
    size_t count = 0;
    struct engine_attr attr;
    AUTO_STR struct str text = {0};
    struct engine_listing listing = {.folder = ENGINE_ROOT, .plus = true};
    assert_sane(engine_list(bed->engine, &listing, see_entry, &count, &posix, &err));
    for (uint64_t inode = 1; inode < 6; inode++) {
        struct engine_span span = {inode, 0, UINT64_MAX};
        assert_sane(engine_getattr(bed->engine, inode, &attr, &posix, &err));
        assert_sane(engine_extents(bed->engine, &span, add_text, &text, &posix, &err));
        assert_sane(engine_readlink(bed->engine, inode, &text, &posix, &err));
        assert_sane(engine_xattr_get(bed->engine, inode, "user.a", &text, &posix, &err));
        assert_sane(engine_xattr_list(bed->engine, inode, &text, &posix, &err));
    }
    struct wanted_container wanted = {.number = 1};
    assert_sane(engine_containers(bed->engine, find_container, &wanted, &err));
    struct engine_rename rename = {
        .from = ENGINE_ROOT, .to = ENGINE_ROOT, .old_name = "file", .new_name = "link"};
    assert_sane(engine_rename(bed->engine, &caller, &rename, &posix, &err));
    struct engine_set cut = {.attr = {.inode = bed->file, .size = 70}, .set = ENGINE_SET_SIZE};
    assert_sane(engine_setattr(bed->engine, &caller, &cut, &attr, &posix, &err));
    assert_sane(engine_begin(bed->engine, &err));
    struct engine_remove remove = {.folder = ENGINE_ROOT, .name = "link"};
    assert_sane(engine_remove(bed->engine, &caller, &remove, &posix, &err));
}

static void ignore_change(void *context, const struct logobj_change *change)
{
    (void)context;
    (void)change;
}

static void fill(struct bed *bed)
{
    bed_init(bed);
    struct extent two[] = {extent_at(0, 100, 1, 0), extent_at(150, 50, 1, 100)};
    assert_int_equal(write_extents(bed, two, 2, 300), 0);
    struct engine_make link = {
        .folder = ENGINE_ROOT, .name = "link", .mode = S_IFLNK | 0777, .target = "file"};
    struct engine_make folder = {.folder = ENGINE_ROOT, .name = "folder", .mode = S_IFDIR | 0755};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_make(bed->engine, &caller, &link, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(engine_make(bed->engine, &caller, &folder, &attr, &posix, NULL), ERR_OK);
    struct engine_xattr xattr = {bed->file, "user.a", "value", 5, 0};
    assert_int_equal(engine_xattr_set(bed->engine, &caller, &xattr, &posix, NULL), ERR_OK);
    add_container(bed, 1, 3);
    engine_take(bed->engine, ignore_change, NULL);
}

static void test_damaged_metadata_is_an_error_and_nothing_worse(void **state)
{
    (void)state;
    struct bed model;
    fill(&model);
    static struct copies copies;
    struct map_range range = {.prefix = {(const uint8_t *)"", 0}};
    assert_int_equal(map_scan(testmap_map(model.testmap), &range, copy_pair, &copies, NULL),
                     ERR_OK);
    for (size_t i = 0; i < copies.count; i++) {
        const struct copy *victim = &copies.items[i];
        /* Each byte changed in three ways, and each shorter value. */
        for (size_t how = 0; how < victim->size * 4; how++) {
            struct bed bed;
            fill(&bed);
            struct copy damaged = *victim;
            static const uint8_t flips[] = {0x01, 0x80, 0xff};
            if (how % 4 == 3) {
                damaged.size = how / 4;
            } else {
                damaged.value[how / 4] ^= flips[how % 4];
            }
            map_put(testmap_map(bed.testmap), damaged.key, damaged.key_size, damaged.value,
                    damaged.size);
            use_all(&bed);
            bed_release(&bed);
        }
    }
    bed_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_pieces_of_an_overwritten_extent_count_once),
        cmocka_unit_test(test_a_file_of_one_extent_has_it_in_its_inode),
        cmocka_unit_test(test_a_write_may_lie_behind_its_own_end),
        cmocka_unit_test(test_extents_that_make_no_sense_are_refused),
        cmocka_unit_test(test_all_pieces_of_an_extent_move_together),
        cmocka_unit_test(test_a_container_that_nothing_refers_to_is_born_dead),
        cmocka_unit_test(test_a_new_owner_buries_what_only_held_files_kept_alive),
        cmocka_unit_test(test_the_extents_of_a_commit_are_found_in_its_changes),
        cmocka_unit_test(test_damaged_metadata_is_an_error_and_nothing_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
