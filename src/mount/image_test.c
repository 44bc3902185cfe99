/* Images, read back by a reader of their own: it knows the format from its description alone, and
 * finds names as the kernel does, by halving. */
#include "mount/image.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "volume/le.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static int open_file(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void read_at(int fd, uint64_t at, void *out, size_t size)
{
    assert_int_equal(pread(fd, out, size, (off_t)at), size);
}

static uint32_t get_u16(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

/* --- the reader --------------------------------------------------------------------------------
 */

struct node {
    uint8_t bytes[64];
    uint64_t at; /* of what follows it and its extended attributes */
    uint64_t size;
    uint32_t layout, mode, xattr_bytes, word;
};

static struct node read_node(int fd, uint64_t number)
{
    struct node node;
    read_at(fd, number * 32, node.bytes, sizeof node.bytes);
    uint32_t format = get_u16(node.bytes);
    uint32_t units = get_u16(node.bytes + 2);
    assert_int_equal(format & 1, 1);
    node.layout = format >> 1;
    node.mode = get_u16(node.bytes + 4);
    node.size = le_get_u64(node.bytes + 8);
    node.word = le_get_u32(node.bytes + 16);
    node.xattr_bytes = units ? 12 + 4 * (units - 1) : 0;
    node.at = number * 32 + sizeof node.bytes + node.xattr_bytes;
    return node;
}

static uint64_t root_of(int fd)
{
    uint8_t super[128];
    read_at(fd, 1024, super, sizeof super);
    assert_int_equal(le_get_u32(super), 0xE0F5E1E2);
    assert_int_equal(super[12], 12);
    assert_int_equal(get_u16(super + 86), 1); /* devices besides */
    assert_memory_equal(super + 48, uuid, sizeof uuid);
    return get_u16(super + 14);
}

struct block {
    uint8_t bytes[IMAGE_BLOCK];
    size_t count;
};

static void read_block(int fd, const struct node *folder, uint64_t index, struct block *out)
{
    assert_int_equal(folder->size % IMAGE_BLOCK, 0);
    assert_true(index * IMAGE_BLOCK < folder->size);
    read_at(fd, ((uint64_t)folder->word + index) * IMAGE_BLOCK, out->bytes, sizeof out->bytes);
    out->count = get_u16(out->bytes + 8) / 12;
    assert_true(out->count > 0);
}

static size_t name_at(const struct block *block, size_t index, char out[256])
{
    size_t begin = get_u16(block->bytes + index * 12 + 8);
    size_t end = index + 1 < block->count
                     ? get_u16(block->bytes + (index + 1) * 12 + 8)
                     : begin + strnlen((const char *)block->bytes + begin, IMAGE_BLOCK - begin);
    assert_true(end > begin && end - begin <= 255);
    memcpy(out, block->bytes + begin, end - begin);
    out[end - begin] = '\0';
    return end - begin;
}

/* The number of that name; 0: none. */
static uint64_t look_up(int fd, uint64_t folder, const char *name)
{
    struct node node = read_node(fd, folder);
    struct block block;
    char found[256];
    uint64_t low = 0;
    uint64_t high = node.size / IMAGE_BLOCK;
    while (high - low > 1) { /* the last block whose first name is not behind it */
        uint64_t middle = (low + high) / 2;
        read_block(fd, &node, middle, &block);
        name_at(&block, 0, found);
        *(strcmp(found, name) <= 0 ? &low : &high) = middle;
    }
    read_block(fd, &node, low, &block);
    size_t from = 0;
    size_t to = block.count;
    while (to > from) {
        size_t middle = (from + to) / 2;
        name_at(&block, middle, found);
        int order = strcmp(found, name);
        if (order == 0) {
            return le_get_u64(block.bytes + middle * 12);
        }
        *(order < 0 ? &from : &to) = order < 0 ? middle + 1 : middle;
    }
    return 0;
}

static size_t count_entries(int fd, uint64_t folder)
{
    struct node node = read_node(fd, folder);
    struct block block;
    size_t count = 0;
    char last[256] = "";
    char name[256];
    for (uint64_t i = 0; i < node.size / IMAGE_BLOCK; i++) {
        read_block(fd, &node, i, &block);
        for (size_t e = 0; e < block.count; e++) {
            name_at(&block, e, name);
            assert_true(strcmp(last, name) < 0);
            memcpy(last, name, sizeof last);
        }
        count += block.count;
    }
    return count;
}

/* --- tests ---------------------------------------------------------------------------------------
 */

static uint64_t add(struct image *image, const struct engine_attr *attr, const char *target)
{
    struct image_node node = {.attr = attr, .target = target};
    uint64_t number = 0;
    assert_int_equal(image_add(image, &node, &number, NULL), ERR_OK);
    return number;
}

static struct image *begin(int fd, uint64_t *root)
{
    struct image *image = image_create(fd);
    struct engine_attr attr = {.inode = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    *root = add(image, &attr, NULL);
    return image;
}

static void finish(struct image *image, uint64_t root)
{
    struct image_folder folder = {root, root};
    image_folder_begin(image, &folder);
    assert_int_equal(image_folder_end(image, NULL), ERR_OK);
    assert_int_equal(image_finish(image, uuid, NULL), ERR_OK);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *random_name(struct rng *rng)
{
    char name[256] = {0};
    size_t size = rng_below(rng, 4) ? 1 + rng_below(rng, 12) : 1 + rng_below(rng, 255);
    for (size_t i = 0; i < size; i++) {
        do {
            name[i] = (char)(rng_below(rng, 3) ? '+' + rng_below(rng, 6) : 1 + rng_below(rng, 255));
        } while (name[i] == '/');
    }
    return mem_strdup(name);
}

/* A folder of random names; its files are numbered as they are added. */
static void one_folder(uint64_t seed, size_t count)
{
    struct rng rng = {seed};
    char **names = mem_array(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++) {
        names[i] = random_name(&rng);
    }
    qsort(names, count, sizeof *names, compare_names);
    int fd = open_file();
    uint64_t root = 0;
    struct image *image = begin(fd, &root);
    struct image_folder folder = {root, root};
    uint64_t *numbers = mem_array(count + 1, sizeof *numbers);
    size_t added = 0;
    image_folder_begin(image, &folder);
    for (size_t i = 0; i < count; i++) {
        bool is_new = strcmp(names[i], ".") != 0 && strcmp(names[i], "..") != 0 &&
                      (i == 0 || strcmp(names[i - 1], names[i]) != 0);
        if (is_new) {
            struct engine_attr attr = {
                .inode = 2 + i, .mode = S_IFREG, .nlink = 1, .size = rng_below(&rng, 20000)};
            numbers[i] = add(image, &attr, NULL);
            assert_int_equal(image_folder_add(image, names[i], numbers[i], S_IFREG, NULL), ERR_OK);
            added++;
        }
    }
    assert_int_equal(image_folder_end(image, NULL), ERR_OK);
    assert_int_equal(image_finish(image, uuid, NULL), ERR_OK);

    assert_int_equal(root_of(fd), root);
    assert_int_equal(count_entries(fd, root), added + 2);
    assert_int_equal(look_up(fd, root, "."), root);
    assert_int_equal(look_up(fd, root, ".."), root);
    for (size_t i = 0; i < count; i++) {
        if (numbers[i]) {
            assert_int_equal(look_up(fd, root, names[i]), numbers[i]);
            assert_int_equal(le_get_u32(read_node(fd, numbers[i]).bytes + 20), 2 + i);
        }
        char *other = random_name(&rng);
        bool is_there = bsearch(&other, names, count, sizeof *names, compare_names) != NULL;
        bool is_dots = strcmp(other, ".") == 0 || strcmp(other, "..") == 0;
        assert_int_equal(look_up(fd, root, other) != 0, is_there || is_dots);
        free(other);
    }
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
    free(numbers);
    image_destroy(image);
    close(fd);
}

static void names_are_found_by_halving(void **state)
{
    (void)state;
    const char *text = getenv("SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    printf("seed %" PRIu64 "\n", seed);
    for (uint64_t i = 0; i < 30; i++) {
        one_folder(seed + i, (size_t)(i * i * 3));
    }
}

static void contents_are_found_by_where_they_lie(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        1, 0, 4096, 4097, (uint64_t)9 << 40, 5, (uint64_t)3 << 40, 1 << 30, 0, 4095};
    int fd = open_file();
    uint64_t root = 0;
    struct image *image = begin(fd, &root);
    uint64_t numbers[sizeof sizes / sizeof sizes[0]];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct engine_attr attr = {.inode = 10 + i, .mode = S_IFREG, .size = sizes[i]};
        numbers[i] = add(image, &attr, NULL);
    }
    finish(image, root);
    struct image_spot spot;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct node node = read_node(fd, numbers[i]);
        assert_int_equal(node.size, sizes[i]);
        if (sizes[i] == 0) {
            continue;
        }
        assert_int_equal(node.layout, 4);
        assert_int_equal(node.word, 31 | 32); /* how chunks are described */
        const uint64_t last = (sizes[i] - 1) / IMAGE_BLOCK;
        for (uint64_t block = 0; block <= last; block += last > 1000 ? last / 7 + 1 : 1) {
            uint8_t chunk[8];
            read_at(fd, node.at + (block >> 31) * 8, chunk, sizeof chunk);
            assert_int_equal(get_u16(chunk + 2), 1);
            uint64_t at = (uint64_t)le_get_u32(chunk + 4) + (block & 0x7fffffff);
            assert_true(image_find(image, at * IMAGE_BLOCK, IMAGE_BLOCK, &spot));
            assert_int_equal(spot.inode, 10 + i);
            assert_int_equal(spot.offset, block * IMAGE_BLOCK);
            assert_int_equal(spot.size, IMAGE_BLOCK);
        }
    }
    assert_false(image_find(image, image_data_bytes(image), 1, &spot));
    assert_true(image_find(image, image_data_bytes(image) - 100, 200, &spot));
    assert_int_equal(spot.size, 100);
    image_destroy(image);
    close(fd);
}

static void links_have_their_targets_in_one_block(void **state)
{
    (void)state;
    int fd = open_file();
    uint64_t root = 0;
    char target[4096];
    memset(target, 't', sizeof target);
    struct image *image = begin(fd, &root);
    uint64_t numbers[4096] = {0};
    for (size_t size = 1; size < 4096; size += 13) {
        struct engine_attr attr = {.inode = size, .mode = S_IFLNK | 0777, .size = size};
        numbers[size] = add(image, &attr, target);
    }
    finish(image, root);
    for (size_t size = 1; size < 4096; size += 13) {
        struct node node = read_node(fd, numbers[size]);
        char found[4096];
        uint64_t at = node.layout == 2 ? node.at : (uint64_t)node.word * IMAGE_BLOCK;
        assert_int_equal(node.size, size);
        assert_int_equal(at / IMAGE_BLOCK, (at + size - 1) / IMAGE_BLOCK);
        assert_true(node.layout == 0 || at / IMAGE_BLOCK == numbers[size] * 32 / IMAGE_BLOCK);
        read_at(fd, at, found, size);
        assert_memory_equal(found, target, size);
    }
    image_destroy(image);
    close(fd);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    int fd = open_file();
    uint64_t root = 0;
    struct image *image = begin(fd, &root);
    uint64_t number = 0;
    char *value = mem_alloc(70000);
    struct engine_attr attr = {.inode = 2, .mode = S_IFREG, .size = (uint64_t)17 << 40};
    struct image_node node = {.attr = &attr};
    assert_int_equal(image_add(image, &node, &number, NULL), ERR_RANGE);
    attr.size = INT64_MAX;
    assert_int_equal(image_add(image, &node, &number, NULL), ERR_RANGE);
    attr.size = 0;
    struct image_xattr xattrs[5];
    for (int i = 0; i < 5; i++) {
        xattrs[i] = (struct image_xattr){"user.a", value, 65535};
    }
    node.xattrs = xattrs;
    node.xattr_count = 5;
    assert_int_equal(image_add(image, &node, &number, NULL), ERR_RANGE);
    node.xattr_count = 3;
    assert_int_equal(image_add(image, &node, &number, NULL), ERR_OK);
    xattrs[0].size = 65536;
    assert_int_equal(image_add(image, &node, &number, NULL), ERR_RANGE);
    image_destroy(image);
    free(value);
    close(fd);
}

static void a_full_disk_is_said(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    uint64_t root = 0;
    struct image *image = begin(fd, &root);
    struct image_folder folder = {root, root};
    struct err err = {0};
    image_folder_begin(image, &folder);
    assert_int_equal(image_folder_end(image, NULL), ERR_OK);
    assert_int_equal(image_finish(image, uuid, &err), ERR_QUOTA);
    image_destroy(image);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_by_halving),
        cmocka_unit_test(contents_are_found_by_where_they_lie),
        cmocka_unit_test(links_have_their_targets_in_one_block),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_full_disk_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
