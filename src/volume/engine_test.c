#include "volume/engine.h"

#include "base/mem.h"
#include "base/str.h"
#include "volume/engine_codec.h"
#include "volume/engine_testmap.h"
#include "volume/logobj.h"

#include <errno.h>
#include <linux/fs.h>
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
};

static struct bed bed_create(void)
{
    struct bed bed = {.testmap = testmap_create(1, 0)};
    bed.engine = engine_create(testmap_map(bed.testmap));
    engine_set_seq(bed.engine, 1);
    engine_format(bed.engine, &caller, 0755);
    return bed;
}

static void bed_destroy(struct bed *bed)
{
    engine_destroy(bed->engine);
    testmap_destroy(bed->testmap);
}

/* Each short form returns 0 or the errno. */
static int make(struct bed *bed, uint64_t folder, const char *name, uint32_t mode, uint64_t *inode)
{
    struct engine_make how = {.folder = folder, .name = name, .mode = mode, .target = "target"};
    struct engine_attr attr = {0};
    int posix = 0;
    enum err_code code = engine_make(bed->engine, &caller, &how, &attr, &posix, NULL);
    assert_int_equal(code, posix ? ERR_INVALID : ERR_OK);
    if (inode) {
        *inode = attr.inode;
    }
    return posix;
}

static bool always_open(void *context, uint64_t inode)
{
    (void)context;
    (void)inode;
    return true;
}

static int remove_name(struct bed *bed, uint64_t folder, const char *name, bool is_open)
{
    struct engine_remove how = {
        .folder = folder, .name = name, .is_open = is_open ? always_open : NULL};
    int posix = 0;
    enum err_code code = engine_remove(bed->engine, &caller, &how, &posix, NULL);
    assert_int_equal(code, posix ? ERR_INVALID : ERR_OK);
    return posix;
}

static int rename_name(struct bed *bed, uint64_t from, const char *old_name, uint64_t to,
                       const char *new_name)
{
    struct engine_rename how = {.from = from, .to = to, .old_name = old_name, .new_name = new_name};
    int posix = 0;
    enum err_code code = engine_rename(bed->engine, &caller, &how, &posix, NULL);
    assert_int_equal(code, posix ? ERR_INVALID : ERR_OK);
    return posix;
}

static int lookup(struct engine *engine, uint64_t folder, const char *name, uint64_t *inode)
{
    struct engine_attr attr = {0};
    int posix = 0;
    enum err_code code = engine_lookup(engine, folder, name, &attr, &posix, NULL);
    assert_int_equal(code, posix ? ERR_INVALID : ERR_OK);
    if (inode) {
        *inode = attr.inode;
    }
    return posix;
}

static struct engine_attr attr_of(struct bed *bed, uint64_t inode)
{
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_getattr(bed->engine, inode, &attr, &posix, NULL), ERR_OK);
    return attr;
}

/* Held files. ---------------------------------------------------------------------------------- */

static void apply(void *context, const struct logobj_change *change)
{
    if (change->value) {
        map_put(context, change->key, change->key_size, change->value, change->value_size);
    } else {
        map_delete(context, change->key, change->key_size);
    }
}

struct successor { /* who takes over from the commits alone */
    struct testmap *testmap;
    struct engine *engine;
};

static void commit(struct bed *bed, struct successor *successor)
{
    if (!successor->testmap) {
        successor->testmap = testmap_create(2, 0);
    }
    engine_take(bed->engine, apply, testmap_map(successor->testmap));
    engine_destroy(successor->engine);
    successor->engine = engine_create(testmap_map(successor->testmap));
    engine_set_seq(successor->engine, 9);
    assert_int_equal(engine_begin(successor->engine, NULL), ERR_OK);
}

static void successor_release(struct successor *successor)
{
    engine_destroy(successor->engine);
    testmap_destroy(successor->testmap);
}

static uint64_t make_held(struct bed *bed, uint64_t folder, const char *name)
{
    uint64_t inode = 0;
    assert_int_equal(make(bed, folder, name, S_IFREG | 0644, &inode), 0);
    engine_hold(bed->engine, folder, inode, false);
    return inode;
}

static void test_a_held_file_is_in_no_commit_until_it_is_released(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct successor successor = {0};
    uint64_t held = make_held(&bed, ENGINE_ROOT, "held");
    assert_int_equal(make(&bed, ENGINE_ROOT, "other", S_IFREG | 0644, NULL), 0);
    commit(&bed, &successor);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "held", NULL), ENOENT);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "other", NULL), 0);
    assert_int_equal(lookup(bed.engine, ENGINE_ROOT, "held", NULL), 0);
    struct engine_usage usage;
    engine_usage(successor.engine, &usage);
    assert_int_equal(usage.files, 2);
    assert_int_equal(engine_pending(bed.engine), 0);
    engine_release(bed.engine, held);
    assert_true(engine_pending(bed.engine) > 0);
    commit(&bed, &successor);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "held", NULL), 0);
    successor_release(&successor);
    bed_destroy(&bed);
}

static void test_what_depends_on_a_held_file_releases_it(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct successor successor = {0};
    uint64_t folder = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "folder", S_IFDIR | 0755, &folder), 0);
    (void)make_held(&bed, ENGINE_ROOT, "renamed");
    uint64_t linked = make_held(&bed, ENGINE_ROOT, "linked");
    (void)make_held(&bed, ENGINE_ROOT, "removed");
    (void)make_held(&bed, folder, "synced");
    (void)make_held(&bed, ENGINE_ROOT, "still");
    commit(&bed, &successor);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "renamed", folder, "new"), 0);
    struct engine_make link = {.folder = folder, .name = "second", .inode = linked};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_link(bed.engine, &caller, &link, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(remove_name(&bed, ENGINE_ROOT, "removed", false), 0);
    engine_release_folder(bed.engine, folder);
    commit(&bed, &successor);
    assert_int_equal(lookup(successor.engine, folder, "new", NULL), 0);
    assert_int_equal(lookup(successor.engine, folder, "second", NULL), 0);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "linked", NULL), 0);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "removed", NULL), ENOENT);
    assert_int_equal(lookup(successor.engine, folder, "synced", NULL), 0);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "still", NULL), ENOENT);
    successor_release(&successor);
    bed_destroy(&bed);
}

static void test_a_held_file_does_not_keep_the_old_one_of_its_name(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct successor successor = {0};
    uint64_t old = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "name", S_IFREG | 0644, &old), 0);
    commit(&bed, &successor);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "name", ENGINE_ROOT, "backup"), 0);
    (void)make_held(&bed, ENGINE_ROOT, "name");
    commit(&bed, &successor);
    uint64_t found = 0;
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "backup", &found), 0);
    assert_int_equal(found, old);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "name", NULL), ENOENT);
    successor_release(&successor);
    bed_destroy(&bed);
}

static void test_only_a_new_empty_file_can_be_held(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct successor successor = {0};
    uint64_t old = 0;
    uint64_t folder = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "old", S_IFREG | 0644, &old), 0);
    commit(&bed, &successor);
    assert_int_equal(make(&bed, ENGINE_ROOT, "folder", S_IFDIR | 0755, &folder), 0);
    struct engine_set set = {.attr = {.inode = old, .mode = 0600}, .set = ENGINE_SET_MODE};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    engine_hold(bed.engine, ENGINE_ROOT, old, false);
    engine_hold(bed.engine, ENGINE_ROOT, folder, false);
    engine_hold(bed.engine, ENGINE_ROOT, 12345, false);
    commit(&bed, &successor);
    assert_int_equal(engine_getattr(successor.engine, old, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.mode, S_IFREG | 0600);
    assert_int_equal(lookup(successor.engine, ENGINE_ROOT, "folder", NULL), 0);
    successor_release(&successor);
    bed_destroy(&bed);
}

/* Names. --------------------------------------------------------------------------------------- */

static void test_limits_of_names_and_targets(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    char name[257];
    memset(name, 'n', 256);
    name[256] = '\0';
    assert_int_equal(make(&bed, ENGINE_ROOT, name, S_IFREG, NULL), ENAMETOOLONG);
    assert_int_equal(lookup(bed.engine, ENGINE_ROOT, name, NULL), ENAMETOOLONG);
    name[255] = '\0';
    assert_int_equal(make(&bed, ENGINE_ROOT, name, S_IFREG, NULL), 0);
    assert_int_equal(lookup(bed.engine, ENGINE_ROOT, name, NULL), 0);
    char *target = mem_alloc(4097);
    memset(target, 't', 4096);
    struct engine_make link = {
        .folder = ENGINE_ROOT, .name = "link", .mode = S_IFLNK | 0777, .target = target};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_make(bed.engine, &caller, &link, &attr, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, ENAMETOOLONG);
    target[4095] = '\0';
    assert_int_equal(engine_make(bed.engine, &caller, &link, &attr, &posix, NULL), ERR_OK);
    AUTO_STR struct str out = {0};
    assert_int_equal(engine_readlink(bed.engine, attr.inode, &out, &posix, NULL), ERR_OK);
    assert_string_equal(str_text(&out), target);
    assert_int_equal(make(&bed, ENGINE_ROOT, "odd", 0644, NULL), EINVAL);
    free(target);
    bed_destroy(&bed);
}

/* Sets the link count of an inode as no test could by linking. */
static void forge_links(struct bed *bed, uint64_t inode, uint32_t nlink)
{
    struct codec_key key;
    codec_key_inode(&key, 'I', inode);
    struct map_slice value;
    assert_int_equal(map_get(testmap_map(bed->testmap), key.bytes, key.size, &value, NULL), ERR_OK);
    struct engine_node node;
    assert_true(codec_node_read(value, inode, &node));
    node.attr.nlink = nlink;
    uint8_t out[CODEC_NODE_MAX];
    map_put(testmap_map(bed->testmap), key.bytes, key.size, out, codec_node_write(out, &node));
}

static void test_link_counts_have_a_limit(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    uint64_t file = 0;
    uint64_t folder = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "file", S_IFREG, &file), 0);
    assert_int_equal(make(&bed, ENGINE_ROOT, "folder", S_IFDIR, &folder), 0);
    assert_int_equal(make(&bed, ENGINE_ROOT, "other", S_IFDIR, NULL), 0);
    forge_links(&bed, file, ENGINE_LINK_MAX);
    forge_links(&bed, folder, ENGINE_LINK_MAX);
    struct engine_make link = {.folder = ENGINE_ROOT, .name = "second", .inode = file};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_link(bed.engine, &caller, &link, &attr, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, EMLINK);
    assert_int_equal(make(&bed, folder, "sub", S_IFDIR, NULL), EMLINK);
    assert_int_equal(make(&bed, folder, "sub", S_IFREG, NULL), 0);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "other", folder, "other"), EMLINK);
    bed_destroy(&bed);
}

static void test_folders_cannot_be_moved_into_themselves(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "a", S_IFDIR, &a), 0);
    assert_int_equal(make(&bed, a, "b", S_IFDIR, &b), 0);
    assert_int_equal(make(&bed, b, "c", S_IFDIR, &c), 0);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "a", a, "x"), EINVAL);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "a", c, "x"), EINVAL);
    assert_int_equal(rename_name(&bed, b, "c", ENGINE_ROOT, "a"), ENOTEMPTY);
    assert_int_equal(rename_name(&bed, b, "c", ENGINE_ROOT, "c"), 0);
    assert_int_equal(attr_of(&bed, ENGINE_ROOT).nlink, 4);
    assert_int_equal(attr_of(&bed, b).nlink, 2);
    assert_int_equal(attr_of(&bed, c).parent, ENGINE_ROOT);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "a", c, "a"), 0);
    assert_int_equal(rename_name(&bed, ENGINE_ROOT, "c", b, "c"), EINVAL);
    bed_destroy(&bed);
}

static void test_an_orphan_lives_until_it_is_closed_or_its_owner_is_gone(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct successor successor = {0};
    uint64_t file = 0;
    uint64_t folder = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "file", S_IFREG, &file), 0);
    assert_int_equal(make(&bed, ENGINE_ROOT, "folder", S_IFDIR, &folder), 0);
    assert_int_equal(remove_name(&bed, ENGINE_ROOT, "file", true), 0);
    struct engine_rename over = {.from = ENGINE_ROOT,
                                 .to = ENGINE_ROOT,
                                 .old_name = "new",
                                 .new_name = "folder",
                                 .is_open = always_open};
    assert_int_equal(make(&bed, ENGINE_ROOT, "new", S_IFDIR, NULL), 0);
    int posix = 0;
    assert_int_equal(engine_rename(bed.engine, &caller, &over, &posix, NULL), ERR_OK);
    assert_int_equal(attr_of(&bed, file).nlink, 0);
    assert_int_equal(attr_of(&bed, folder).nlink, 0);
    assert_int_equal(make(&bed, folder, "late", S_IFREG, NULL), ENOENT);
    commit(&bed, &successor);
    struct engine_usage usage;
    engine_usage(successor.engine, &usage);
    assert_int_equal(usage.files, 2); /* the root and what was renamed */
    assert_int_equal(engine_forget(bed.engine, file, NULL), ERR_OK);
    assert_int_equal(engine_forget(bed.engine, folder, NULL), ERR_OK);
    assert_int_equal(engine_forget(bed.engine, ENGINE_ROOT, NULL), ERR_OK);
    struct engine_attr attr;
    assert_int_equal(engine_getattr(bed.engine, file, &attr, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, ENOENT);
    engine_usage(bed.engine, &usage);
    assert_int_equal(usage.files, 2);
    successor_release(&successor);
    bed_destroy(&bed);
}

/* Attributes. ---------------------------------------------------------------------------------- */

static void test_a_set_group_folder_gives_its_group_on(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    uint64_t folder = 0;
    uint64_t sub = 0;
    uint64_t file = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "shared", S_IFDIR | 02775, &folder), 0);
    struct engine_set set = {.attr = {.inode = folder, .gid = 77}, .set = ENGINE_SET_GID};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.mode, S_IFDIR | 02775); /* a folder keeps the bit */
    assert_int_equal(make(&bed, folder, "sub", S_IFDIR | 0755, &sub), 0);
    assert_int_equal(make(&bed, sub, "file", S_IFREG | 0644, &file), 0);
    assert_int_equal(attr_of(&bed, sub).mode, S_IFDIR | 02755);
    assert_int_equal(attr_of(&bed, sub).gid, 77);
    assert_int_equal(attr_of(&bed, file).mode, S_IFREG | 0644);
    assert_int_equal(attr_of(&bed, file).gid, 77);
    bed_destroy(&bed);
}

static void test_a_program_that_changes_hands_loses_its_set_id_bits(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    uint64_t file = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "su", S_IFREG | 06755, &file), 0);
    struct engine_set set = {.attr = {.inode = file, .uid = 5}, .set = ENGINE_SET_UID};
    struct engine_attr attr;
    int posix = 0;
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.mode, S_IFREG | 0755);
    set = (struct engine_set){.attr = {.inode = file, .mode = 06644}, .set = ENGINE_SET_MODE};
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    set.set = ENGINE_KILL_PRIV;
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.mode, S_IFREG | 02644); /* without group execution: mandatory locking */
    uint64_t other = 0;
    assert_int_equal(make(&bed, ENGINE_ROOT, "fifo", S_IFIFO | 06755, &other), 0);
    set = (struct engine_set){.attr = {.inode = other, .gid = 5}, .set = ENGINE_SET_GID};
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.mode, S_IFIFO | 0755);
    assert_int_equal(make(&bed, ENGINE_ROOT, "folder", S_IFDIR | 02755, &other), 0);
    set.attr.inode = other;
    assert_int_equal(engine_setattr(bed.engine, &caller, &set, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.mode, S_IFDIR | 02755); /* there it says who inherits */
    bed_destroy(&bed);
}

static int set_xattr(struct bed *bed, const char *name, const void *value, size_t size)
{
    struct engine_xattr xattr = {.inode = ENGINE_ROOT, .name = name, .value = value, .size = size};
    int posix = 0;
    enum err_code code = engine_xattr_set(bed->engine, &caller, &xattr, &posix, NULL);
    assert_int_equal(code, posix ? ERR_INVALID : ERR_OK);
    return posix;
}

static void test_limits_of_extended_attributes(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    char *value = mem_alloc(ENGINE_XATTR_MAX + 1);
    char name[257];
    memset(name, 'x', 256);
    name[256] = '\0';
    assert_int_equal(set_xattr(&bed, name, "v", 1), ERANGE);
    assert_int_equal(set_xattr(&bed, "", "v", 1), ERANGE);
    assert_int_equal(set_xattr(&bed, "user.big", value, ENGINE_XATTR_MAX + 1), E2BIG);
    assert_int_equal(set_xattr(&bed, "user.big", value, ENGINE_XATTR_MAX), 0);
    assert_int_equal(set_xattr(&bed, "user.empty", "", 0), 0);
    AUTO_STR struct str out = {0};
    int posix = 0;
    assert_int_equal(engine_xattr_get(bed.engine, ENGINE_ROOT, "user.empty", &out, &posix, NULL),
                     ERR_OK);
    assert_int_equal(out.size, 0);
    assert_int_equal(set_xattr(&bed, "user.none", NULL, 0), ENODATA);
    name[255] = '\0';
    int refusal = 0;
    for (int i = 0; i < 300 && refusal == 0; i++) {
        name[0] = (char)('a' + i % 26);
        name[1] = (char)('a' + i / 26);
        refusal = set_xattr(&bed, name, "v", 1);
    }
    assert_int_equal(refusal, ENOSPC);
    assert_int_equal(engine_xattr_list(bed.engine, ENGINE_ROOT, &out, &posix, NULL), ERR_OK);
    assert_true(out.size <= ENGINE_XATTR_LIST_MAX);
    assert_true(out.size > ENGINE_XATTR_LIST_MAX - 256);
    free(value);
    bed_destroy(&bed);
}

/* Listing. ------------------------------------------------------------------------------------- */

struct seen {
    size_t count;
    size_t stop;
    char last[256];
};

static bool see(void *context, const struct engine_entry *entry)
{
    struct seen *seen = context;
    assert_non_null(entry->attr);
    assert_int_equal(entry->attr->inode, entry->inode);
    assert_true(strcmp(seen->last, entry->name) < 0);
    (void)snprintf(seen->last, sizeof seen->last, "%s", entry->name);
    return ++seen->count < seen->stop;
}

static void test_a_listing_goes_on_by_name_while_names_come_and_go(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    for (int i = 0; i < 1000; i++) { /* scattered inodes: names are not made in their order */
        char name[16];
        (void)snprintf(name, sizeof name, "n%03d", i * 7 % 1000);
        assert_int_equal(make(&bed, ENGINE_ROOT, name, S_IFREG, NULL), 0);
    }
    struct seen seen = {.stop = 500};
    struct engine_listing listing = {.folder = ENGINE_ROOT, .plus = true};
    int posix = 0;
    assert_int_equal(engine_list(bed.engine, &listing, see, &seen, &posix, NULL), ERR_OK);
    assert_int_equal(seen.count, 500);
    assert_int_equal(remove_name(&bed, ENGINE_ROOT, seen.last, false), 0);
    assert_int_equal(make(&bed, ENGINE_ROOT, "a-new-one-before", S_IFREG, NULL), 0);
    char after[256];
    (void)snprintf(after, sizeof after, "%s", seen.last);
    listing.after = after;
    seen.stop = 5000;
    assert_int_equal(engine_list(bed.engine, &listing, see, &seen, &posix, NULL), ERR_OK);
    assert_int_equal(seen.count, 1000);
    listing.folder = 5;
    assert_int_equal(engine_list(bed.engine, &listing, see, &seen, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, ENOTDIR);
    bed_destroy(&bed);
}

static void test_an_inode_is_made_again_under_its_number(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct engine_make how = {
        .folder = ENGINE_ROOT, .name = "a", .mode = S_IFREG | 0644, .inode = 100};
    struct engine_attr attr;
    uint64_t inode = 0;
    int posix = 0;
    assert_int_equal(engine_make(bed.engine, &caller, &how, &attr, &posix, NULL), ERR_OK);
    assert_int_equal(attr.inode, 100);
    assert_int_equal(make(&bed, ENGINE_ROOT, "b", S_IFREG, &inode), 0);
    assert_int_equal(inode, 101);
    how.name = "c";
    assert_int_equal(engine_make(bed.engine, &caller, &how, &attr, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, EEXIST);
    how.inode = 50; /* below the next one, which stays */
    assert_int_equal(engine_make(bed.engine, &caller, &how, &attr, &posix, NULL), ERR_OK);
    engine_skip_inodes(bed.engine, 1000);
    assert_int_equal(make(&bed, ENGINE_ROOT, "d", S_IFREG, &inode), 0);
    assert_int_equal(inode, 1102);
    bed_destroy(&bed);
}

static void test_records_of_a_service_are_kept_with_the_volume(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    struct successor successor = {0};
    static const uint8_t ids[2][ENGINE_SERVICE_ID_BYTES] = {"first", "second"};
    engine_service_put(bed.engine, ids[0], "one", 3);
    engine_service_put(bed.engine, ids[1], "two", 3);
    engine_service_put(bed.engine, ids[0], "three", 5);
    engine_service_put(bed.engine, ids[1], NULL, 0);
    commit(&bed, &successor);
    struct engine_service *items = NULL;
    size_t count = 0;
    assert_int_equal(engine_services(successor.engine, &items, &count, NULL), ERR_OK);
    assert_int_equal(count, 1);
    assert_memory_equal(items[0].id, ids[0], sizeof ids[0]);
    assert_int_equal(items[0].size, 5);
    assert_memory_equal(items[0].value, "three", 5);
    engine_services_free(items, count);
    successor_release(&successor);
    bed_destroy(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_held_file_is_in_no_commit_until_it_is_released),
        cmocka_unit_test(test_what_depends_on_a_held_file_releases_it),
        cmocka_unit_test(test_a_held_file_does_not_keep_the_old_one_of_its_name),
        cmocka_unit_test(test_only_a_new_empty_file_can_be_held),
        cmocka_unit_test(test_limits_of_names_and_targets),
        cmocka_unit_test(test_link_counts_have_a_limit),
        cmocka_unit_test(test_folders_cannot_be_moved_into_themselves),
        cmocka_unit_test(test_an_orphan_lives_until_it_is_closed_or_its_owner_is_gone),
        cmocka_unit_test(test_a_set_group_folder_gives_its_group_on),
        cmocka_unit_test(test_a_program_that_changes_hands_loses_its_set_id_bits),
        cmocka_unit_test(test_limits_of_extended_attributes),
        cmocka_unit_test(test_a_listing_goes_on_by_name_while_names_come_and_go),
        cmocka_unit_test(test_an_inode_is_made_again_under_its_number),
        cmocka_unit_test(test_records_of_a_service_are_kept_with_the_volume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
