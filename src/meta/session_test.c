/* An owner and its mounts: each change once, whatever is lost on the way and whoever dies. */
#include "base/mem.h"
#include "meta/world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static Drover__MetaOp make_op(const char *name, bool opens)
{
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_MAKE, ENGINE_ROOT, name);
    op.mode = S_IFREG | 0644;
    op.flags = opens;
    return op;
}

static enum err_code lookup(struct world *world, size_t mount, const char *name, uint64_t *size)
{
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_LOOKUP, ENGINE_ROOT, name);
    struct meta_call *call = meta_link_ask(world->mounts[mount].link, &op);
    const Drover__MetaAnswer *answer = world_wait(world, call);
    enum err_code code = (enum err_code)answer->code;
    *size = answer->attr ? answer->attr->size : 0;
    meta_link_drop(world->mounts[mount].link, call);
    return code;
}

static void test_what_one_makes_the_other_sees(void **state)
{
    (void)state;
    struct world world;
    uint64_t size = 0;
    world_begin(&world, 2, 1);
    Drover__MetaOp op = make_op("a", false);
    int posix = 0;
    assert_int_equal(world_do(&world, 0, &op, NULL, NULL), ERR_OK);
    assert_int_equal(lookup(&world, 1, "a", &size), ERR_OK);
    assert_int_equal(world_do(&world, 1, &op, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, EEXIST);
    world_end(&world);
}

static void test_a_wrong_secret_is_refused(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 1, 1);
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    Drover__MetaHello hello = DROVER__META_HELLO__INIT;
    uint8_t bytes[512];
    struct door_sender stranger = {.route = {9}, .route_size = 1, .key = "stranger"};
    hello.protocol = META_PROTOCOL;
    hello.mount = meta_bytes("0123456789abcdef", META_ID_BYTES);
    hello.secret = (char *)(uintptr_t) "0000";
    ask.hello = &hello;
    size_t size = drover__meta_ask__pack(&ask, bytes);
    meta_server_take(world.server, &stranger, bytes, size, world.now_ms);
    struct meta_server_counts counts;
    meta_server_counts(world.server, &counts);
    assert_int_equal(counts.sessions, 1);
    world_end(&world);
}

static void test_a_file_is_kept_while_another_has_it_open(void **state)
{
    (void)state;
    struct world world;
    uint64_t inode = 0;
    int posix = 0;
    world_begin(&world, 2, 2);
    Drover__MetaOp make = make_op("a", false);
    assert_int_equal(world_do(&world, 0, &make, NULL, &inode), ERR_OK);
    Drover__MetaOp open = world_op(DROVER__META_VERB__META_VERB_OPEN, inode, NULL);
    assert_int_equal(world_do(&world, 1, &open, NULL, NULL), ERR_OK);
    Drover__MetaOp remove = world_op(DROVER__META_VERB__META_VERB_REMOVE, ENGINE_ROOT, "a");
    assert_int_equal(world_do(&world, 0, &remove, NULL, NULL), ERR_OK);
    Drover__MetaOp getattr = world_op(DROVER__META_VERB__META_VERB_GETATTR, inode, NULL);
    assert_int_equal(world_do(&world, 1, &getattr, NULL, NULL), ERR_OK);
    Drover__MetaOp close = world_op(DROVER__META_VERB__META_VERB_CLOSE, inode, NULL);
    assert_int_equal(world_do(&world, 1, &close, NULL, NULL), ERR_OK);
    assert_int_equal(world_do(&world, 1, &getattr, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, ENOENT);
    world_end(&world);
}

static void test_a_new_file_that_is_never_closed_is_removed(void **state)
{
    (void)state;
    struct world world;
    uint64_t size = 0;
    world_begin(&world, 2, 5);
    Drover__MetaOp make = make_op("a", true);
    assert_int_equal(world_do(&world, 0, &make, NULL, NULL), ERR_OK);
    assert_int_equal(lookup(&world, 1, "a", &size), ERR_OK);
    world_leave(&world, 0, false);
    for (int i = 0; i < 300; i++) {
        world_step(&world);
    }
    assert_int_equal(lookup(&world, 1, "a", &size), ERR_INVALID);
    world_end(&world);
}

static void test_a_new_file_still_open_outlives_the_owner(void **state)
{
    (void)state;
    struct world world;
    uint64_t inode = 0;
    world_begin(&world, 1, 6);
    Drover__MetaOp make = make_op("a", true);
    assert_int_equal(world_do(&world, 0, &make, NULL, &inode), ERR_OK);
    for (int i = 0; i < 200; i++) { /* commits of others go by */
        world_step(&world);
    }
    world_kill(&world);
    world_revive(&world);
    Drover__MetaOp getattr = world_op(DROVER__META_VERB__META_VERB_GETATTR, inode, NULL);
    assert_int_equal(world_do(&world, 0, &getattr, NULL, NULL), ERR_OK);
    world_end(&world);
}

static uint64_t make_new(struct world *world, size_t mount, const char *name, bool opens)
{
    uint64_t inode = 0;
    Drover__MetaOp make = make_op(name, opens);
    assert_int_equal(world_do(world, mount, &make, NULL, &inode), ERR_OK);
    return inode;
}

static void close_new(struct world *world, size_t mount, uint64_t inode)
{
    Drover__MetaOp close = world_op(DROVER__META_VERB__META_VERB_CLOSE, inode, NULL);
    close.flags = 1;
    assert_int_equal(world_do(world, mount, &close, NULL, NULL), ERR_OK);
}

static void another_owner(struct world *world)
{
    world_kill(world);
    world_revive(world);
}

static enum err_code look_at(struct world *world, size_t mount, uint64_t inode)
{
    Drover__MetaOp getattr = world_op(DROVER__META_VERB__META_VERB_GETATTR, inode, NULL);
    return world_do(world, mount, &getattr, NULL, NULL);
}

static void sync_all(struct world *world, size_t mount)
{
    Drover__MetaOp sync = world_op(DROVER__META_VERB__META_VERB_SYNC, ENGINE_ROOT, NULL);
    assert_int_equal(world_do(world, mount, &sync, NULL, NULL), ERR_OK);
}

/* Whatever is lost on the way: what is said must hold in each of these. */
static void in_worlds(size_t mounts, void (*body)(struct world *world, uint64_t seed))
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world;
        world_begin(&world, mounts, seed);
        body(&world, seed);
        world_end(&world);
    }
}

static void a_new_file_that_was_closed_outlives_two_owners(struct world *world, uint64_t seed)
{
    (void)seed;
    uint64_t inode = make_new(world, 0, "a", true);
    close_new(world, 0, inode);
    another_owner(world);
    assert_int_equal(look_at(world, 0, inode), ERR_OK);
    (void)make_new(world, 0, "b", false);
    sync_all(world, 0);
    another_owner(world);
    assert_int_equal(look_at(world, 0, inode), ERR_OK);
}

/* None of them is stored before it is closed, though other changes are. */
static void test_many_new_files_that_are_open_are_no_files_yet(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    struct world world;
    char name[16];
    uint64_t size = 0;
    world_begin(&world, 2, 15);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        (void)make_new(&world, 0, name, true);
    }
    (void)make_new(&world, 1, "b", false);
    for (int i = 0; i < 100; i++) {
        world_step(&world);
    }
    world_leave(&world, 0, false); /* before it could say them again */
    another_owner(&world);
    assert_int_equal(lookup(&world, 1, "b", &size), ERR_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(lookup(&world, 1, name, &size), ERR_INVALID);
    }
    world_end(&world);
}

static void test_a_new_file_that_was_closed_outlives_two_owners(void **state)
{
    (void)state;
    in_worlds(1, a_new_file_that_was_closed_outlives_two_owners);
}

static void a_new_file_that_a_reader_closed_outlives_the_owner(struct world *world, uint64_t seed)
{
    (void)seed;
    uint64_t inode = make_new(world, 0, "a", true);
    Drover__MetaOp open = world_op(DROVER__META_VERB__META_VERB_OPEN, inode, NULL);
    Drover__MetaOp close = world_op(DROVER__META_VERB__META_VERB_CLOSE, inode, NULL);
    assert_int_equal(world_do(world, 0, &open, NULL, NULL), ERR_OK);
    assert_int_equal(world_do(world, 0, &close, NULL, NULL), ERR_OK);
    (void)make_new(world, 0, "b", false);
    sync_all(world, 0);
    another_owner(world);
    assert_int_equal(look_at(world, 0, inode), ERR_OK);
}

static void test_a_new_file_that_a_reader_closed_outlives_the_owner(void **state)
{
    (void)state;
    in_worlds(1, a_new_file_that_a_reader_closed_outlives_the_owner);
}

static void a_new_file_is_closed_after_later_changes_were_stored(struct world *world, uint64_t seed)
{
    (void)seed;
    uint64_t inode = make_new(world, 0, "a", true);
    (void)make_new(world, 0, "b", false);
    sync_all(world, 0);
    close_new(world, 0, inode);
    another_owner(world);
    assert_int_equal(look_at(world, 0, inode), ERR_OK);
}

static void test_a_new_file_is_closed_after_later_changes_were_stored(void **state)
{
    (void)state;
    in_worlds(1, a_new_file_is_closed_after_later_changes_were_stored);
}

/* All of it or none, whoever dies before it is closed, and however often. */
static void a_new_file_that_is_made_again_and_never_closed_is_removed(struct world *world,
                                                                      uint64_t seed)
{
    uint64_t size = 0;
    uint64_t inode = make_new(world, 0, "a", true);
    another_owner(world);
    assert_int_equal(look_at(world, 0, inode), ERR_OK);
    (void)make_new(world, 1, "b", false);
    sync_all(world, 1);
    if (seed % 2 == 0) {
        another_owner(world);
        assert_int_equal(look_at(world, 0, inode), ERR_OK);
    }
    world_leave(world, 0, false);
    another_owner(world);
    for (int i = 0; i < 400; i++) {
        world_step(world);
    }
    assert_int_equal(lookup(world, 1, "a", &size), ERR_INVALID);
}

static void test_a_new_file_that_is_made_again_and_never_closed_is_removed(void **state)
{
    (void)state;
    in_worlds(2, a_new_file_that_is_made_again_and_never_closed_is_removed);
}

/* By another mount, and stored, before its maker has heard that the making was. */
static void a_new_file_that_another_removed_stays_removed(struct world *world, uint64_t seed)
{
    uint64_t size = 0;
    uint64_t inode = make_new(world, 0, "a", true);
    if (seed % 2 == 0) {
        close_new(world, 0, inode);
    }
    Drover__MetaOp remove = world_op(DROVER__META_VERB__META_VERB_REMOVE, ENGINE_ROOT, "a");
    assert_int_equal(world_do(world, 1, &remove, NULL, NULL), ERR_OK);
    sync_all(world, 1);
    another_owner(world);
    assert_int_equal(lookup(world, 1, "a", &size), ERR_INVALID);
    for (int i = 0; i < 50; i++) {
        world_step(world);
    }
    assert_int_equal(lookup(world, 1, "a", &size), ERR_INVALID);
}

static void test_a_new_file_that_another_removed_stays_removed(void **state)
{
    (void)state;
    in_worlds(2, a_new_file_that_another_removed_stays_removed);
}

static void test_what_was_synced_needs_no_mount(void **state)
{
    (void)state;
    struct world world;
    uint64_t size = 0;
    world_begin(&world, 2, 7);
    Drover__MetaOp make = make_op("a", false);
    assert_int_equal(world_do(&world, 0, &make, NULL, NULL), ERR_OK);
    sync_all(&world, 0);
    world_kill(&world);
    world_leave(&world, 0, false);
    world_revive(&world);
    assert_int_equal(lookup(&world, 1, "a", &size), ERR_OK);
    world_end(&world);
}

static void test_data_that_is_not_stored_comes_with_the_answer(void **state)
{
    (void)state;
    struct world world;
    uint64_t inode = 0;
    world_begin(&world, 2, 8);
    Drover__MetaOp make = make_op("a", false);
    assert_int_equal(world_do(&world, 0, &make, NULL, &inode), ERR_OK);
    Drover__MetaOp write = world_op(DROVER__META_VERB__META_VERB_WRITE, inode, NULL);
    Drover__MetaExtent extent = DROVER__META_EXTENT__INIT;
    Drover__MetaExtent *extents[] = {&extent};
    extent.size = 5;
    extent.data = meta_bytes("hello", 5);
    write.size = 5;
    write.n_extent = 1;
    write.extent = extents;
    assert_int_equal(world_do(&world, 0, &write, NULL, NULL), ERR_OK);
    Drover__MetaOp read = world_op(DROVER__META_VERB__META_VERB_EXTENTS, inode, NULL);
    read.size = 100;
    struct meta_call *call = meta_link_ask(world.mounts[1].link, &read);
    const Drover__MetaAnswer *answer = world_wait(&world, call);
    assert_int_equal(answer->n_extent, 1);
    assert_int_equal(answer->attr->size, 5);
    if (answer->extent[0]->data.len > 0) {
        assert_memory_equal(answer->extent[0]->data.data, "hello", 5);
    }
    meta_link_drop(world.mounts[1].link, call);
    world_end(&world);
}

static void test_packs_of_another_writer_are_refused(void **state)
{
    (void)state;
    struct world world;
    uint64_t inode = 0;
    world_begin(&world, 1, 9);
    Drover__MetaOp make = make_op("a", false);
    assert_int_equal(world_do(&world, 0, &make, NULL, &inode), ERR_OK);
    Drover__MetaOp write = world_op(DROVER__META_VERB__META_VERB_WRITE, inode, NULL);
    Drover__MetaExtent extent = DROVER__META_EXTENT__INIT;
    Drover__MetaExtent *extents[] = {&extent};
    Drover__MetaPack pack = DROVER__META_PACK__INIT;
    Drover__MetaPack *packs[] = {&pack};
    const Drover__MetaWelcome *welcome = meta_link_welcome(world.mounts[0].link);
    extent.size = extent.whole = extent.stored_size = 5;
    extent.kind = CONTAINER_PACK;
    extent.writer = welcome->writer + 1;
    extent.term = welcome->term;
    extent.number = pack.number = 1;
    pack.size = 5;
    write.size = 5;
    write.n_extent = write.n_pack = 1;
    write.extent = extents;
    write.pack = packs;
    assert_int_equal(world_do(&world, 0, &write, NULL, NULL), ERR_STALE);
    extent.writer = welcome->writer;
    pack.size = 4; /* it does not lie in the pack */
    assert_int_equal(world_do(&world, 0, &write, NULL, NULL), ERR_STALE);
    pack.size = 5;
    assert_int_equal(world_do(&world, 0, &write, NULL, NULL), ERR_OK);
    world_end(&world);
}

static bool is_there(struct world *world, const char *key)
{
    struct object_store *store = object_memory_open(world->shelf);
    AUTO_STR struct str bytes = {0};
    enum err_code code = object_get(store, key, &bytes, NULL, NULL);
    object_close(store);
    return code == ERR_OK;
}

static void test_a_pack_that_a_mount_may_still_refer_to_is_not_collected(void **state)
{
    (void)state;
    struct world world;
    struct err err;
    struct volume_gc_report report;
    char key[CONTAINER_NAME_MAX];
    world_begin(&world, 1, 10);
    const Drover__MetaWelcome *welcome = meta_link_welcome(world.mounts[0].link);
    struct container pack = {CONTAINER_PACK, welcome->writer, welcome->term, 5};
    container_name(&pack, key);
    struct object_store *store = object_memory_open(world.shelf);
    assert_int_equal(object_put(store, key, "x", 1, &err), ERR_OK);
    object_close(store);
    world_kill(&world);
    world_revive(&world);
    for (int i = 0; i < 300; i++) {
        world_step(&world);
    }
    assert_int_equal(volume_gc(world.volume, false, &report, &err), ERR_OK);
    assert_true(is_there(&world, key));
    meta_link_set_floor(world.mounts[0].link, 6);
    for (int i = 0; i < 100; i++) {
        world_step(&world);
    }
    assert_int_equal(volume_gc(world.volume, false, &report, &err), ERR_OK);
    assert_false(is_there(&world, key));
    world_end(&world);
}

/* Random. ----------------------------------------------------------------------------------------
 */

enum { NAMES = 12, STEPS = 2500 };
static const size_t THINGS = (size_t)WORLD_MOUNTS * NAMES;

struct thing { /* a name that one mount alone uses */
    bool exists;
    uint64_t inode, size;
    struct meta_call *call; /* what it is changed by now */
    int change;             /* 0 make, 1 remove, 2 write */
    uint64_t new_size;
};

struct random_mount {
    struct thing things[NAMES];
};

static void name_of(char out[32], size_t mount, size_t thing)
{
    snprintf(out, 32, "m%zu-t%zu", mount, thing);
}

static void ask_write(struct world *world, size_t mount, struct thing *thing)
{
    static const uint8_t bytes[64] = {1, 2, 3};
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_WRITE, thing->inode, NULL);
    Drover__MetaExtent extent = DROVER__META_EXTENT__INIT;
    Drover__MetaExtent *extents[] = {&extent};
    thing->new_size = 1 + rng_below(&world->rng, sizeof bytes);
    extent.size = (uint32_t)thing->new_size;
    extent.data = meta_bytes(bytes, thing->new_size);
    op.size = thing->new_size;
    op.n_extent = 1;
    op.extent = extents;
    thing->call = meta_link_ask(world->mounts[mount].link, &op);
}

static void ask_change(struct world *world, size_t mount, size_t index, struct thing *thing)
{
    char name[32];
    name_of(name, mount, index);
    thing->change = thing->exists ? 1 + (int)rng_below(&world->rng, 2) : 0;
    if (thing->change == 2) {
        ask_write(world, mount, thing);
        return;
    }
    Drover__MetaOp op = thing->change == 0
                            ? make_op(name, false)
                            : world_op(DROVER__META_VERB__META_VERB_REMOVE, ENGINE_ROOT, name);
    thing->call = meta_link_ask(world->mounts[mount].link, &op);
}

/* Every change is answered well, since nobody else changes this name: were one made twice, or
 * forgotten, the next would fail. */
static void settle(struct world *world, size_t mount, struct thing *thing)
{
    const Drover__MetaAnswer *answer = thing->call ? meta_call_answer(thing->call) : NULL;
    if (answer == NULL) {
        return;
    }
    if (answer->code != ERR_OK) {
        fprintf(stderr, "change %d: code %u posix %u %s\n", thing->change, answer->code,
                answer->posix, answer->text);
    }
    assert_int_equal(answer->code, ERR_OK);
    if (thing->change == 0) {
        thing->inode = answer->attr->inode;
        thing->size = 0;
    } else if (thing->change == 2) {
        thing->size = thing->new_size;
    }
    thing->exists = thing->change != 1;
    meta_link_drop(world->mounts[mount].link, thing->call);
    thing->call = NULL;
}

static void settle_all(struct world *world, struct random_mount *mounts)
{
    for (size_t i = 0; i < THINGS; i++) {
        settle(world, i / NAMES, &mounts[i / NAMES].things[i % NAMES]);
    }
}

/* One file that all mounts rename in turn, each when the one before has been answered. */
struct chain {
    unsigned link;
    size_t mount;
    struct meta_call *call;
};

static void chain_step(struct world *world, struct chain *chain)
{
    char from[32], to[32];
    snprintf(from, sizeof from, "c%u", chain->link);
    snprintf(to, sizeof to, "c%u", chain->link + 1);
    if (chain->call == NULL) {
        Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_RENAME, ENGINE_ROOT, from);
        op.folder = ENGINE_ROOT;
        op.new_name = meta_text(to);
        chain->mount = rng_below(&world->rng, WORLD_MOUNTS);
        chain->call = meta_link_ask(world->mounts[chain->mount].link, &op);
    }
    const Drover__MetaAnswer *answer = meta_call_answer(chain->call);
    if (answer) {
        assert_int_equal(answer->code, ERR_OK);
        meta_link_drop(world->mounts[chain->mount].link, chain->call);
        chain->call = NULL;
        chain->link++;
    }
}

static void mischief(struct world *world)
{
    uint64_t dice = rng_below(&world->rng, 400);
    if (dice < 6) {
        world_lose(world, dice % WORLD_MOUNTS);
    } else if (dice < 8 && world->server) {
        world_kill(world);
    }
    if (!world->server && rng_below(&world->rng, 20) == 0) {
        world_revive(world);
    }
}

static void compare(struct world *world, struct random_mount *mounts)
{
    for (size_t i = 0; i < THINGS; i++) {
        const struct thing *thing = &mounts[i / NAMES].things[i % NAMES];
        char name[32];
        uint64_t size = 0;
        name_of(name, i / NAMES, i % NAMES);
        enum err_code code = lookup(world, rng_below(&world->rng, WORLD_MOUNTS), name, &size);
        assert_int_equal(code, thing->exists ? ERR_OK : ERR_INVALID);
        assert_int_equal(size, thing->exists ? thing->size : 0);
    }
}

static bool is_settled(struct random_mount *mounts)
{
    for (size_t i = 0; i < THINGS; i++) {
        if (mounts[i / NAMES].things[i % NAMES].call) {
            return false;
        }
    }
    return true;
}

static void run_random(uint64_t seed)
{
    struct world world;
    struct random_mount mounts[WORLD_MOUNTS] = {0};
    struct chain chain = {0};
    world_begin(&world, WORLD_MOUNTS, seed);
    Drover__MetaOp make = make_op("c0", false);
    assert_int_equal(world_do(&world, 0, &make, NULL, NULL), ERR_OK);
    for (int step = 0; step < STEPS; step++) {
        size_t mount = rng_below(&world.rng, WORLD_MOUNTS);
        size_t index = rng_below(&world.rng, NAMES);
        struct thing *thing = &mounts[mount].things[index];
        if (!thing->call) {
            ask_change(&world, mount, index, thing);
        }
        mischief(&world);
        world_step(&world);
        settle_all(&world, mounts);
        chain_step(&world, &chain);
    }
    for (int round = 0; round < 2; round++) {
        if (!world.server) {
            world_revive(&world);
        }
        for (int i = 0; i < 5000 && !is_settled(mounts); i++) {
            world_step(&world);
            settle_all(&world, mounts);
        }
        assert_true(is_settled(mounts));
        while (chain.call) {
            world_step(&world);
            chain_step(&world, &chain);
        }
        char name[32];
        uint64_t size = 0;
        snprintf(name, sizeof name, "c%u", chain.link);
        assert_int_equal(lookup(&world, 1, name, &size), ERR_OK);
        compare(&world, mounts);
        world_kill(&world); /* and what was not stored is said again */
    }
    world_end(&world);
}

static void test_each_change_is_made_once_whatever_is_lost(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system();
    for (uint64_t i = 0; i < 6; i++) {
        printf("seed %llu\n", (unsigned long long)(seed + i));
        run_random(seed + i);
    }
}

/* Whatever a mount can say: it is answered, and nothing else happens to the owner. */
static void test_nothing_that_can_be_asked_does_harm(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    struct world world;
    printf("seed %llu\n", (unsigned long long)seed);
    world_begin(&world, 1, seed);
    struct rng *rng = &world.rng;
    const Drover__MetaWelcome *welcome = meta_link_welcome(world.mounts[0].link);
    for (int i = 0; i < 3000; i++) {
        static const char *const names[] = {"a", "b", "", ".", "..", "a/b", "user.x", "trusted.y"};
        static const uint64_t sizes[] = {0, 1, 5, 4096, 1 << 20, INT64_MAX, (uint64_t)1 << 40};
        Drover__MetaOp op = world_op(
            (Drover__MetaVerb)(rng_below(rng, 2) ? 1 + rng_below(rng, 12) : 20 + rng_below(rng, 7)),
            rng_below(rng, 12), names[rng_below(rng, 8)]);
        Drover__MetaAttr set = DROVER__META_ATTR__INIT;
        Drover__MetaLock lock = DROVER__META_LOCK__INIT;
        Drover__MetaExtent extent = DROVER__META_EXTENT__INIT;
        Drover__MetaExtent *extents[] = {&extent};
        Drover__MetaPack pack = DROVER__META_PACK__INIT;
        Drover__MetaPack *packs[] = {&pack};
        op.folder = rng_below(rng, 12);
        op.new_name = meta_text(names[rng_below(rng, 8)]);
        op.mode = rng_below(rng, 2) ? (uint32_t)rng_next(rng) : (uint32_t)(S_IFREG | 0644);
        op.flags = rng_below(rng, 2) ? (uint32_t)rng_below(rng, 256) : (uint32_t)rng_next(rng);
        op.offset = sizes[rng_below(rng, 7)];
        op.size = sizes[rng_below(rng, 7)];
        op.data = meta_bytes("some bytes", rng_below(rng, 10));
        set.size = sizes[rng_below(rng, 7)];
        set.mode = (uint32_t)rng_next(rng);
        op.set = &set;
        lock.inode = op.inode;
        lock.owner = rng_below(rng, 3);
        lock.type = (uint32_t)rng_below(rng, 3);
        op.lock = &lock;
        op.flags = op.verb == DROVER__META_VERB__META_VERB_LOCK ? 0 : op.flags;
        extent.file_offset = sizes[rng_below(rng, 5)];
        extent.size = 5;
        if (rng_below(rng, 2)) {
            extent.data = meta_bytes("12345", 5);
        } else {
            extent.kind = CONTAINER_PACK;
            extent.writer = welcome->writer;
            extent.term = welcome->term;
            extent.number = pack.number = 1 + rng_below(rng, 3);
            extent.whole = extent.stored_size = 5;
            extent.offset = rng_below(rng, 3) * 5;
            pack.size = 20;
        }
        op.n_extent = op.n_pack = op.verb == DROVER__META_VERB__META_VERB_WRITE;
        op.extent = extents;
        op.pack = packs;
        (void)world_do(&world, 0, &op, NULL, NULL);
        welcome = meta_link_welcome(world.mounts[0].link);
    }
    world_kill(&world);
    world_revive(&world);
    uint64_t size = 0;
    (void)lookup(&world, 0, "a", &size);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_one_makes_the_other_sees),
        cmocka_unit_test(test_a_wrong_secret_is_refused),
        cmocka_unit_test(test_a_file_is_kept_while_another_has_it_open),
        cmocka_unit_test(test_a_new_file_that_is_never_closed_is_removed),
        cmocka_unit_test(test_a_new_file_still_open_outlives_the_owner),
        cmocka_unit_test(test_many_new_files_that_are_open_are_no_files_yet),
        cmocka_unit_test(test_a_new_file_that_was_closed_outlives_two_owners),
        cmocka_unit_test(test_a_new_file_that_a_reader_closed_outlives_the_owner),
        cmocka_unit_test(test_a_new_file_is_closed_after_later_changes_were_stored),
        cmocka_unit_test(test_a_new_file_that_is_made_again_and_never_closed_is_removed),
        cmocka_unit_test(test_a_new_file_that_another_removed_stays_removed),
        cmocka_unit_test(test_what_was_synced_needs_no_mount),
        cmocka_unit_test(test_data_that_is_not_stored_comes_with_the_answer),
        cmocka_unit_test(test_packs_of_another_writer_are_refused),
        cmocka_unit_test(test_a_pack_that_a_mount_may_still_refer_to_is_not_collected),
        cmocka_unit_test(test_nothing_that_can_be_asked_does_harm),
        cmocka_unit_test(test_each_change_is_made_once_whatever_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
