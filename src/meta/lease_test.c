/* What mounts know without asking is never older than the last change that was answered, whatever
 * is delayed, lost or stopped. */
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

static Drover__MetaOp make_op(uint64_t folder, const char *name, uint32_t mode)
{
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_MAKE, folder, name);
    op.mode = mode;
    return op;
}

static struct meta_call *known(struct world *world, size_t mount, const Drover__MetaOp *op)
{
    return meta_link_known(world->mounts[mount].link, op, world->now_ms);
}

static bool is_known(struct world *world, size_t mount, const Drover__MetaOp *op)
{
    struct meta_call *call = known(world, mount, op);
    meta_link_drop(world->mounts[mount].link, call);
    return call != NULL;
}

static void steps(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        world_step(world);
    }
}

static Drover__MetaOp setattr_op(Drover__MetaAttr *set, uint64_t inode, uint64_t size)
{
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_SETATTR, inode, NULL);
    drover__meta_attr__init(set);
    set->size = size;
    op.set = set;
    op.flags = ENGINE_SET_SIZE;
    return op;
}

/* Plain cases. --------------------------------------------------------------------------------- */

static void test_what_was_answered_once_is_known(void **state)
{
    (void)state;
    struct world world;
    uint64_t inode = 0;
    int posix = 0;
    world_begin(&world, 2, 1);
    Drover__MetaOp make = make_op(ENGINE_ROOT, "a", S_IFREG | 0644);
    Drover__MetaOp lookup = world_op(DROVER__META_VERB__META_VERB_LOOKUP, ENGINE_ROOT, "a");
    assert_int_equal(world_do(&world, 0, &lookup, &posix, NULL), ERR_INVALID);
    assert_int_equal(world_do(&world, 1, &lookup, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, ENOENT);
    assert_true(is_known(&world, 1, &lookup)); /* that it is not there */
    assert_int_equal(world_do(&world, 0, &make, NULL, &inode), ERR_OK);
    assert_true(is_known(&world, 0, &lookup)); /* its maker knows it */
    assert_false(is_known(&world, 1, &lookup));
    steps(&world, WORLD_LEASE_MS / 5 / 20 + 5); /* just recalled: not granted at once */
    assert_int_equal(world_do(&world, 1, &lookup, NULL, NULL), ERR_OK);
    assert_true(is_known(&world, 1, &lookup));
    Drover__MetaAttr set;
    Drover__MetaOp change = setattr_op(&set, inode, 77);
    assert_int_equal(world_do(&world, 0, &change, NULL, NULL), ERR_OK);
    assert_false(is_known(&world, 1, &lookup));
    struct meta_call *call = known(&world, 0, &lookup); /* its own change costs nobody anything */
    assert_non_null(call);
    assert_int_equal(meta_call_answer(call)->attr->size, 77);
    meta_link_drop(world.mounts[0].link, call);
    world_end(&world);
}

static void test_a_change_waits_for_who_does_not_answer_for_a_lease_at_most(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 2, 2);
    Drover__MetaOp make = make_op(ENGINE_ROOT, "a", S_IFREG | 0644);
    Drover__MetaOp lookup = world_op(DROVER__META_VERB__META_VERB_LOOKUP, ENGINE_ROOT, "a");
    (void)world_do(&world, 1, &lookup, NULL, NULL);
    world.mounts[1].is_frozen = true;
    int64_t began_ms = world.now_ms;
    assert_int_equal(world_do(&world, 0, &make, NULL, NULL), ERR_OK);
    assert_true(world.now_ms - began_ms > WORLD_LEASE_MS / 2);
    assert_true(world.now_ms - began_ms < WORLD_LEASE_MS + 500);
    world.mounts[1].is_frozen = false;
    assert_false(is_known(&world, 1, &lookup)); /* before it has heard anything */
    assert_int_equal(world_do(&world, 1, &lookup, NULL, NULL), ERR_OK);
    struct meta_server_counts counts;
    meta_server_counts(world.server, &counts);
    assert_int_equal(counts.recalls, 1);
    world_end(&world);
}

/* Heartbeats go on and nothing is forgotten: such a mount has lapsed too. */
static void test_who_forgets_nothing_has_lapsed(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 2, 3);
    Drover__MetaOp make = make_op(ENGINE_ROOT, "a", S_IFREG | 0644);
    Drover__MetaOp lookup = world_op(DROVER__META_VERB__META_VERB_LOOKUP, ENGINE_ROOT, "a");
    (void)world_do(&world, 1, &lookup, NULL, NULL);
    world.mounts[1].is_deaf = true;
    int64_t began_ms = world.now_ms;
    struct meta_call *call = meta_link_ask(world.mounts[0].link, &make);
    bool was_known = true;
    while (!meta_call_answer(call) && world.now_ms - began_ms < (int64_t)3 * WORLD_LEASE_MS) {
        world_step(&world);
        was_known = was_known && is_known(&world, 1, &lookup);
    }
    assert_non_null(meta_call_answer(call));
    assert_false(was_known); /* its lease had run out by its own clock */
    assert_true(world.now_ms - began_ms < WORLD_LEASE_MS + 500);
    meta_link_drop(world.mounts[0].link, call);
    world.mounts[1].is_deaf = false;
    assert_int_equal(world_do(&world, 1, &lookup, NULL, NULL), ERR_OK);
    world_end(&world);
}

static void test_a_file_opened_without_waiting_is_not_removed_under_its_reader(void **state)
{
    (void)state;
    struct world world;
    uint64_t inode = 0;
    int posix = 0;
    world_begin(&world, 2, 4);
    Drover__MetaOp make = make_op(ENGINE_ROOT, "a", S_IFREG | 0644);
    Drover__MetaOp lookup = world_op(DROVER__META_VERB__META_VERB_LOOKUP, ENGINE_ROOT, "a");
    assert_int_equal(world_do(&world, 0, &make, NULL, &inode), ERR_OK);
    assert_int_equal(world_do(&world, 1, &lookup, NULL, NULL), ERR_OK);
    Drover__MetaOp open = world_op(DROVER__META_VERB__META_VERB_OPEN, inode, NULL);
    Drover__MetaOp remove = world_op(DROVER__META_VERB__META_VERB_REMOVE, ENGINE_ROOT, "a");
    struct meta_call *gone = meta_link_ask(world.mounts[0].link, &remove);
    struct meta_call *call = NULL;
    struct engine_attr attr;
    struct meta_link *link = world.mounts[1].link;
    assert_true(meta_link_open(link, &open, world.now_ms, &call, &attr));
    assert_int_equal(attr.inode, inode);
    meta_link_drop(link, call);
    assert_int_equal(world_wait(&world, gone)->code, ERR_OK);
    meta_link_drop(world.mounts[0].link, gone);
    Drover__MetaOp getattr = world_op(DROVER__META_VERB__META_VERB_GETATTR, inode, NULL);
    assert_int_equal(world_do(&world, 1, &getattr, NULL, NULL), ERR_OK);
    assert_false(is_known(&world, 1, &getattr)); /* it may go without anybody being told */
    Drover__MetaOp close = world_op(DROVER__META_VERB__META_VERB_CLOSE, inode, NULL);
    assert_int_equal(world_do(&world, 1, &close, NULL, NULL), ERR_OK);
    assert_int_equal(world_do(&world, 1, &getattr, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, ENOENT);
    struct meta_server_counts counts;
    meta_server_counts(world.server, &counts);
    assert_int_equal(counts.opens, 0);
    world_end(&world);
}

static void test_another_version_of_the_protocol_is_refused(void **state)
{
    (void)state;
    struct world world;
    struct err err;
    world_begin(&world, 1, 5);
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    Drover__MetaHello hello = DROVER__META_HELLO__INIT;
    uint8_t bytes[512];
    hello.protocol = META_PROTOCOL - 1;
    hello.mount = meta_bytes("0123456789abcdef", META_ID_BYTES);
    ask.hello = &hello;
    size_t size = drover__meta_ask__pack(&ask, bytes);
    meta_server_take(world.server, &world.mounts[0].sender, bytes, size, world.now_ms);
    steps(&world, 20);
    assert_int_equal(meta_link_trouble(world.mounts[0].link, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "another version of the protocol"));
    world_end(&world);
}

/* Files opened without waiting, or not, or made, and closed: in the end the owner counts what is
 * open. */
struct opened {
    struct meta_call *call; /* it waits for an answer */
    uint64_t inode;
    bool is_open;
    bool is_made; /* anew, each time */
};

static void open_or_close(struct world *world, size_t mount, struct opened *file)
{
    struct meta_link *link = world->mounts[mount].link;
    struct engine_attr attr;
    if (file->call) {
        if (meta_call_answer(file->call)) {
            assert_int_equal(meta_call_answer(file->call)->code, ERR_OK);
            file->inode = meta_call_answer(file->call)->attr->inode;
            meta_link_drop(link, file->call);
            file->call = NULL;
        }
    } else if (file->is_open) {
        Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_CLOSE, file->inode, NULL);
        op.flags = file->is_made;
        meta_link_drop(link, meta_link_ask(link, &op));
        file->is_open = false;
    } else if (file->is_made) {
        char name[32];
        snprintf(name, sizeof name, "%llx", (unsigned long long)rng_next(&world->rng));
        Drover__MetaOp op = make_op(ENGINE_ROOT, name, S_IFREG | 0644);
        op.flags = 1;
        file->call = meta_link_ask(link, &op);
        file->is_open = true;
    } else {
        Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_OPEN, file->inode, NULL);
        if (meta_link_open(link, &op, world->now_ms, &file->call, &attr)) {
            meta_link_drop(link, file->call);
            file->call = NULL;
        }
        file->is_open = true;
    }
}

static void run_opens(uint64_t seed)
{
    enum { INODES = 3, FILES = 3 * INODES, STEPS = 1500 }; /* each twice, and some are made */
    struct world world;
    struct opened files[WORLD_MOUNTS][FILES] = {0};
    uint64_t wanted = 0;
    world_begin(&world, WORLD_MOUNTS, seed);
    for (size_t i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "o%zu", i);
        Drover__MetaOp make = make_op(ENGINE_ROOT, name, S_IFREG | 0644);
        files[0][i].inode = i < INODES ? 0 : files[0][i - INODES].inode;
        if (i < INODES) {
            assert_int_equal(world_do(&world, 0, &make, NULL, &files[0][i].inode), ERR_OK);
            Drover__MetaOp sync =
                world_op(DROVER__META_VERB__META_VERB_SYNC, files[0][i].inode, NULL);
            assert_int_equal(world_do(&world, 0, &sync, NULL, NULL), ERR_OK);
        }
        for (size_t j = 0; j < WORLD_MOUNTS; j++) {
            files[j][i] =
                (struct opened){.inode = files[0][i].inode, .is_made = i >= FILES - INODES};
        }
    }
    for (int step = 0; step < STEPS; step++) {
        size_t mount = rng_below(&world.rng, WORLD_MOUNTS);
        open_or_close(&world, mount, &files[mount][rng_below(&world.rng, FILES)]);
        uint64_t dice = rng_below(&world.rng, 300);
        if (dice < 6) {
            world_lose(&world, dice % WORLD_MOUNTS);
        } else if (dice == 6 && world.server) {
            world_kill(&world);
        } else if (dice == 7) {
            world.mounts[mount].is_cut = true; /* perhaps for longer than a lease */
        } else if (dice == 8) {
            world.mounts[mount].is_cut = false;
        }
        if (!world.server && rng_below(&world.rng, 20) == 0) {
            world_revive(&world);
        }
        world_step(&world);
    }
    if (!world.server) {
        world_revive(&world);
    }
    for (size_t i = 0; i < WORLD_MOUNTS; i++) {
        world.mounts[i].is_cut = false;
    }
    steps(&world, 1000);
    for (size_t i = 0; i < (size_t)WORLD_MOUNTS * FILES; i++) {
        struct opened *file = &files[i / FILES][i % FILES];
        meta_link_drop(world.mounts[i / FILES].link, file->call);
        wanted += file->is_open;
    }
    struct meta_server_counts counts;
    struct meta_link_counts sent;
    meta_server_counts(world.server, &counts);
    meta_link_counts(world.mounts[0].link, &sent);
    printf("seed %llu: %llu open, %llu known\n", (unsigned long long)seed,
           (unsigned long long)wanted, (unsigned long long)sent.known);
    assert_int_equal(counts.opens, wanted);
    world_end(&world);
}

static void test_what_is_open_is_counted_whatever_is_lost(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    const char *count = getenv("SEEDS");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system();
    for (uint64_t i = 0; i < (count ? strtoull(count, NULL, 10) : 8); i++) {
        run_opens(seed + i);
    }
}

/* Random. -------------------------------------------------------------------------------------- */

enum { FOLDERS = 3, THINGS = 18, READS = 64, ROUNDS = 2500 };

/* A thing is changed by one mount at a time, so its versions have an order: a read must give one
 * from the last that was answered when it began to the last that was asked for when it ended. */
enum kind { NAME, SIZE, XATTR, PLACE, KINDS };

struct thing {
    enum kind kind;
    uint64_t inode; /* of the file; of NAME: of the file that has it now */
    uint64_t asked, done;
    size_t mount;
    struct meta_call *call;
    char name[16];
    uint64_t home; /* the folder; of PLACE: of each version */
};

struct read {
    struct meta_call *call;
    size_t mount, thing, place;
    uint64_t done; /* of the thing, when it began */
};

struct play {
    struct world world;
    uint64_t folders[FOLDERS];
    struct thing things[THINGS];
    struct read reads[READS];
    uint64_t known, asked, listed;
    bool may_kill;
};

/* What a version is like. Names: odd ones exist. Places: the folder in which the file is. */
static uint64_t place_of(const struct play *play, uint64_t version)
{
    return play->folders[(version * 7 / 3) % FOLDERS];
}

static void place_name(const struct thing *thing, uint64_t version, char out[32])
{
    snprintf(out, 32, "%s-%llu", thing->name, (unsigned long long)version % 2);
}

static void begin_play(struct play *play, uint64_t seed)
{
    *play = (struct play){.may_kill = seed % 2};
    world_begin(&play->world, WORLD_MOUNTS, seed);
    for (size_t i = 0; i < FOLDERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%zu", i);
        Drover__MetaOp op = make_op(ENGINE_ROOT, name, S_IFDIR | 0755);
        assert_int_equal(world_do(&play->world, 0, &op, NULL, &play->folders[i]), ERR_OK);
    }
    for (size_t i = 0; i < THINGS; i++) {
        struct thing *thing = &play->things[i];
        thing->kind = (enum kind)(i % KINDS);
        thing->home = thing->kind == PLACE ? place_of(play, 0) : play->folders[i % FOLDERS];
        snprintf(thing->name, sizeof thing->name, "t%zu", i);
        char name[32];
        place_name(thing, 0, name);
        if (thing->kind != NAME) {
            Drover__MetaOp op =
                make_op(thing->home, thing->kind == PLACE ? name : thing->name, S_IFREG | 0644);
            assert_int_equal(world_do(&play->world, 0, &op, NULL, &thing->inode), ERR_OK);
        }
    }
}

static void change(struct play *play, struct thing *thing)
{
    char from[32], to[32], value[32];
    Drover__MetaAttr set;
    Drover__MetaOp op;
    uint64_t version = ++thing->asked;
    thing->mount = rng_below(&play->world.rng, WORLD_MOUNTS);
    switch (thing->kind) {
    case NAME:
        op = version % 2 ? make_op(thing->home, thing->name, S_IFREG | 0644)
                         : world_op(DROVER__META_VERB__META_VERB_REMOVE, thing->home, thing->name);
        break;
    case SIZE:
        op = setattr_op(&set, thing->inode, version);
        break;
    case XATTR:
        op = world_op(DROVER__META_VERB__META_VERB_XATTR_SET, thing->inode, "user.v");
        snprintf(value, sizeof value, "%llu", (unsigned long long)version);
        op.data = meta_text(value);
        break;
    case PLACE:
    case KINDS:
    default:
        place_name(thing, version - 1, from);
        place_name(thing, version, to);
        op = world_op(DROVER__META_VERB__META_VERB_RENAME, place_of(play, version - 1), from);
        op.folder = place_of(play, version);
        op.new_name = meta_text(to);
        break;
    }
    thing->call = meta_link_ask(play->world.mounts[thing->mount].link, &op);
}

static void settle_changes(struct play *play)
{
    for (size_t i = 0; i < THINGS; i++) {
        struct thing *thing = &play->things[i];
        const Drover__MetaAnswer *answer = thing->call ? meta_call_answer(thing->call) : NULL;
        if (answer == NULL || play->world.mounts[thing->mount].is_frozen) {
            continue;
        }
        if (answer->code != ERR_OK) {
            fprintf(stderr, "thing %zu version %llu: %u %u %s\n", i,
                    (unsigned long long)thing->asked, answer->code, answer->posix, answer->text);
        }
        assert_int_equal(answer->code, ERR_OK);
        if (thing->kind == NAME) {
            thing->inode = answer->attr ? answer->attr->inode : 0;
        }
        thing->done = thing->asked;
        meta_link_drop(play->world.mounts[thing->mount].link, thing->call);
        thing->call = NULL;
    }
}

/* Versions that a read may find: from `done` when it began to what has been asked for by now. */
static bool is_possible(const struct play *play, const struct thing *thing, const struct read *read,
                        const Drover__MetaAnswer *answer)
{
    char name[32], wanted[32];
    bool exists = answer->code == ERR_OK;
    place_name(thing, read->place / FOLDERS, wanted);
    for (uint64_t version = read->done; version <= thing->asked; version++) {
        bool is_it = false;
        if (thing->kind == NAME) {
            bool is_same = version != thing->done || !exists || answer->attr->inode == thing->inode;
            is_it = exists == (version % 2 == 1) && is_same;
        } else if (thing->kind == SIZE) {
            is_it = exists && answer->attr->size == version;
        } else if (thing->kind == XATTR) {
            uint64_t value = 0;
            for (size_t i = 0; i < answer->data.len; i++) {
                value = value * 10 + answer->data.data[i] - '0';
            }
            is_it = value == version && exists == (version > 0);
        } else {
            place_name(thing, version, name);
            is_it = exists == (place_of(play, version) == play->folders[read->place % FOLDERS] &&
                               strcmp(name, wanted) == 0);
        }
        if (is_it) {
            return true;
        }
    }
    return false;
}

static void judge(struct play *play, const struct read *read, const char *how)
{
    const struct thing *thing = &play->things[read->thing];
    const Drover__MetaAnswer *answer = meta_call_answer(read->call);
    if (!is_possible(play, thing, read, answer)) {
        fprintf(stderr,
                "%s at %lld ms: mount %zu thing %zu kind %d done %llu..%llu code %u size %llu\n",
                how, (long long)play->world.now_ms, read->mount, read->thing, (int)thing->kind,
                (unsigned long long)read->done, (unsigned long long)thing->asked, answer->code,
                (unsigned long long)(answer->attr ? answer->attr->size : 0));
    }
    assert_true(is_possible(play, thing, read, answer));
    meta_link_drop(play->world.mounts[read->mount].link, read->call);
}

static Drover__MetaOp read_op(const struct play *play, const struct read *read, char name[32])
{
    const struct thing *thing = &play->things[read->thing];
    if (thing->kind == XATTR) {
        return world_op(DROVER__META_VERB__META_VERB_XATTR_GET, thing->inode, "user.v");
    }
    if (thing->kind == SIZE && read->place % 2) {
        return world_op(DROVER__META_VERB__META_VERB_GETATTR, thing->inode, NULL);
    }
    if (thing->kind == PLACE) {
        place_name(thing, read->place / FOLDERS, name);
        return world_op(DROVER__META_VERB__META_VERB_LOOKUP, play->folders[read->place % FOLDERS],
                        name);
    }
    return world_op(DROVER__META_VERB__META_VERB_LOOKUP, thing->home, thing->name);
}

/* A listing that is known: everything that nobody is changing must be in it as it is. */
static void list(struct play *play, size_t mount)
{
    struct world *world = &play->world;
    uint64_t folder = play->folders[rng_below(&world->rng, FOLDERS)];
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_LIST, folder, NULL);
    op.size = 1 << 16;
    op.flags = (uint32_t)rng_below(&world->rng, 2);
    struct meta_call *call = known(world, mount, &op);
    if (call == NULL) {
        meta_link_drop(world->mounts[mount].link, meta_link_ask(world->mounts[mount].link, &op));
        return;
    }
    const Drover__MetaAnswer *answer = meta_call_answer(call);
    play->listed++;
    for (size_t i = 0; i < THINGS; i++) {
        const struct thing *thing = &play->things[i];
        const Drover__MetaEntry *found = NULL;
        for (size_t j = 0; j < answer->n_entry; j++) {
            const Drover__MetaEntry *entry = answer->entry[j];
            bool is_it = entry->name.len == strlen(thing->name) &&
                         memcmp(entry->name.data, thing->name, entry->name.len) == 0;
            found = is_it ? entry : found;
        }
        if (thing->call == NULL && thing->kind == NAME && thing->home == folder) {
            assert_int_equal(found != NULL, thing->done % 2);
        }
        if (thing->call == NULL && thing->kind == SIZE && thing->home == folder) {
            assert_true(found && (!found->attr || found->attr->size == thing->done));
        }
    }
    meta_link_drop(world->mounts[mount].link, call);
}

static void look(struct play *play, size_t mount)
{
    struct world *world = &play->world;
    struct read *slot = &play->reads[rng_below(&world->rng, READS)];
    char name[32];
    struct read read = {.mount = mount,
                        .thing = rng_below(&world->rng, THINGS),
                        .place = rng_below(&world->rng, (uint64_t)2 * FOLDERS)};
    read.done = play->things[read.thing].done;
    Drover__MetaOp op = read_op(play, &read, name);
    read.call = known(world, mount, &op);
    if (read.call) {
        play->known++;
        judge(play, &read, "known");
    } else if (slot->call == NULL) {
        play->asked++;
        read.call = meta_link_ask(world->mounts[mount].link, &op);
        *slot = read;
    }
}

static void settle_reads(struct play *play)
{
    for (size_t i = 0; i < READS; i++) {
        struct read *read = &play->reads[i];
        if (read->call && meta_call_answer(read->call)) {
            judge(play, read, "asked");
            read->call = NULL;
        }
    }
}

static void mischief(struct play *play)
{
    struct world *world = &play->world;
    uint64_t dice = rng_below(&world->rng, 1200);
    struct world_mount *mount = &world->mounts[dice % WORLD_MOUNTS];
    if (dice < 12) {
        world_lose(world, dice % WORLD_MOUNTS);
    } else if (dice < 18 && play->may_kill && world->server) {
        world_kill(world);
    } else if (dice < 24 && !play->may_kill) {
        mount->is_frozen = true;
    } else if (dice < 30 && !play->may_kill) {
        mount->is_cut = true;
    } else if (dice < 36) {
        mount->is_deaf = true;
    }
    if (!world->server && rng_below(&world->rng, 20) == 0) {
        world_revive(world);
    }
    for (size_t i = 0; i < WORLD_MOUNTS; i++) {
        mount = &world->mounts[i];
        mount->is_cut = mount->is_cut && rng_below(&world->rng, 150) != 0;
        mount->is_deaf = mount->is_deaf && rng_below(&world->rng, 150) != 0;
        if (mount->is_frozen && rng_below(&world->rng, 150) == 0) {
            mount->is_frozen = false;
            for (int j = 0; j < 10; j++) {
                look(play, i); /* before it has heard what happened meanwhile */
            }
        }
    }
}

static void run_random(uint64_t seed)
{
    struct play play;
    begin_play(&play, seed);
    struct world *world = &play.world;
    for (int round = 0; round < ROUNDS; round++) {
        mischief(&play);
        struct thing *thing = &play.things[rng_below(&world->rng, THINGS)];
        if (!thing->call && rng_below(&world->rng, 25) == 0) {
            change(&play, thing);
            if (world->mounts[thing->mount].is_frozen) { /* it could not have asked */
                world->mounts[thing->mount].is_frozen = false;
            }
        }
        for (int i = 0; i < 6; i++) {
            size_t mount = rng_below(&world->rng, WORLD_MOUNTS);
            if (!world->mounts[mount].is_frozen) {
                look(&play, mount);
                list(&play, mount);
            }
        }
        world_step(world);
        settle_changes(&play);
        settle_reads(&play);
    }
    printf("seed %llu: %llu known, %llu asked, %llu listed\n", (unsigned long long)seed,
           (unsigned long long)play.known, (unsigned long long)play.asked,
           (unsigned long long)play.listed);
    assert_true(play.known > 200);
    for (size_t i = 0; i < THINGS; i++) {
        if (play.things[i].call) {
            meta_link_drop(world->mounts[play.things[i].mount].link, play.things[i].call);
        }
    }
    for (size_t i = 0; i < READS; i++) {
        meta_link_drop(world->mounts[play.reads[i].mount].link, play.reads[i].call);
    }
    world_end(world);
}

static void test_what_is_known_is_never_older_than_the_last_answered_change(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    const char *count = getenv("SEEDS");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system();
    for (uint64_t i = 0; i < (count ? strtoull(count, NULL, 10) : 8); i++) {
        run_random(seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_answered_once_is_known),
        cmocka_unit_test(test_a_change_waits_for_who_does_not_answer_for_a_lease_at_most),
        cmocka_unit_test(test_who_forgets_nothing_has_lapsed),
        cmocka_unit_test(test_a_file_opened_without_waiting_is_not_removed_under_its_reader),
        cmocka_unit_test(test_another_version_of_the_protocol_is_refused),
        cmocka_unit_test(test_what_is_open_is_counted_whatever_is_lost),
        cmocka_unit_test(test_what_is_known_is_never_older_than_the_last_answered_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
