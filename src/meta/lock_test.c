/* Locks between mounts: nobody holds one that another has, and none stays with nobody, whatever is
 * lost and whoever gives up waiting. */
#include "meta/world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Plain cases. --------------------------------------------------------------------------------- */

static Drover__MetaOp lock_op(Drover__MetaLock *lock, uint64_t owner, uint32_t type, bool waits)
{
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_LOCK, ENGINE_ROOT, NULL);
    drover__meta_lock__init(lock);
    lock->inode = ENGINE_ROOT;
    lock->owner = owner;
    lock->type = type;
    op.lock = lock;
    op.flags = waits;
    return op;
}

static void test_a_lock_goes_to_who_waits_when_its_holder_lapses(void **state)
{
    (void)state;
    struct world world;
    Drover__MetaLock lock;
    int posix = 0;
    world_begin(&world, 2, 3);
    Drover__MetaOp op = lock_op(&lock, 7, 2, false);
    assert_int_equal(world_do(&world, 0, &op, NULL, NULL), ERR_OK);
    assert_int_equal(world_do(&world, 1, &op, &posix, NULL), ERR_INVALID);
    assert_int_equal(posix, EWOULDBLOCK);
    op = lock_op(&lock, 7, 2, true);
    struct meta_call *call = meta_link_ask(world.mounts[1].link, &op);
    for (int i = 0; i < 50; i++) {
        world_step(&world);
    }
    assert_null(meta_call_answer(call));
    world.mounts[0].is_cut = true;
    assert_int_equal(world_wait(&world, call)->code, ERR_OK);
    meta_link_drop(world.mounts[1].link, call);
    uint64_t lapses = meta_link_lapses(world.mounts[0].link);
    world.mounts[0].is_cut = false;
    for (int i = 0; i < 200; i++) {
        world_step(&world);
    }
    assert_true(meta_link_is_joined(world.mounts[0].link));
    assert_true(meta_link_lapses(world.mounts[0].link) > lapses);
    world_end(&world);
}

static void test_who_waits_for_a_lock_keeps_no_answers_waiting(void **state)
{
    (void)state;
    struct world world;
    struct meta_server_counts counts;
    Drover__MetaLock lock;
    world_begin(&world, 2, 8);
    Drover__MetaOp op = lock_op(&lock, 7, 2, false);
    assert_int_equal(world_do(&world, 0, &op, NULL, NULL), ERR_OK);
    op = lock_op(&lock, 7, 2, true);
    struct meta_call *call = meta_link_ask(world.mounts[1].link, &op);
    for (int i = 0; i < 100; i++) {
        Drover__MetaOp open = world_op(DROVER__META_VERB__META_VERB_OPEN, ENGINE_ROOT, NULL);
        open.verb = i % 2 ? DROVER__META_VERB__META_VERB_CLOSE : DROVER__META_VERB__META_VERB_OPEN;
        assert_int_equal(world_do(&world, 1, &open, NULL, NULL), ERR_OK);
    }
    meta_server_counts(world.server, &counts);
    assert_in_range(counts.answers, 0, 5);
    world_lose(&world, 1); /* what waits is asked for again, and is not forgotten */
    op = lock_op(&lock, 7, 0, false);
    assert_int_equal(world_do(&world, 0, &op, NULL, NULL), ERR_OK);
    assert_int_equal(world_wait(&world, call)->code, ERR_OK);
    meta_link_drop(world.mounts[1].link, call);
    world_end(&world);
}

static void test_a_lock_outlives_the_owner(void **state)
{
    (void)state;
    struct world world;
    Drover__MetaLock lock;
    world_begin(&world, 2, 4);
    Drover__MetaOp op = lock_op(&lock, 7, 2, false);
    assert_int_equal(world_do(&world, 0, &op, NULL, NULL), ERR_OK);
    world_kill(&world);
    world_revive(&world);
    assert_int_equal(world_do(&world, 1, &op, NULL, NULL), ERR_INVALID);
    world_end(&world);
}

static void steps(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        world_step(world);
    }
}

static struct meta_call *start_lock(struct world *world, size_t mount, uint32_t type, bool waits)
{
    Drover__MetaLock lock;
    Drover__MetaOp op = lock_op(&lock, 7, type, waits);
    return meta_link_ask(world->mounts[mount].link, &op);
}

static enum err_code try_lock(struct world *world, size_t mount, uint32_t type)
{
    Drover__MetaLock lock;
    Drover__MetaOp op = lock_op(&lock, 7, type, false);
    return world_do(world, mount, &op, NULL, NULL);
}

static bool holds(const struct world *world, size_t mount, uint32_t type)
{
    Drover__MetaLock lock;
    (void)lock_op(&lock, 7, type, false);
    return meta_link_holds(world->mounts[mount].link, &lock, world->now_ms);
}

static void test_who_has_lapsed_does_not_name_a_lock_that_another_got(void **state)
{
    (void)state;
    for (int is_told = 0; is_told < 2; is_told++) { /* that it is lost, by the owner that gave it */
        struct world world;
        world_begin(&world, 3, 4);
        assert_int_equal(try_lock(&world, 0, 2), ERR_OK);
        assert_true(holds(&world, 0, 2));
        world.mounts[0].is_cut = true;
        struct meta_call *call = start_lock(&world, 1, 2, true);
        assert_int_equal(world_wait(&world, call)->code, ERR_OK);
        meta_link_drop(world.mounts[1].link, call);
        assert_false(holds(&world, 0, 2));
        world.mounts[0].is_cut = !is_told;
        steps(&world, is_told ? 200 : 0);
        world_kill(&world);
        world_revive(&world);
        world.mounts[0].is_cut = false;
        world.mounts[1].is_cut = true; /* the other comes first */
        steps(&world, 20);
        world.mounts[1].is_cut = false;
        steps(&world, 300);
        assert_false(holds(&world, 0, 2));
        assert_true(holds(&world, 1, 2));
        assert_int_equal(try_lock(&world, 0, 0), ERR_OK);
        assert_int_equal(try_lock(&world, 2, 2), ERR_INVALID);
        world_end(&world);
    }
}

static void test_who_has_lapsed_gets_back_what_nobody_took(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 2, 4);
    assert_int_equal(try_lock(&world, 0, 2), ERR_OK);
    world.mounts[0].is_cut = true;
    steps(&world, WORLD_LEASE_MS / 20 + 50);
    world.mounts[0].is_cut = false;
    steps(&world, 200);
    assert_true(holds(&world, 0, 2));
    assert_int_equal(try_lock(&world, 1, 2), ERR_INVALID);
    world_end(&world);
}

/* By two threads that share one open file. */
static void test_a_lock_that_is_let_go_before_it_is_answered_is_not_held(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 2, 4);
    struct meta_call *lock = start_lock(&world, 0, 2, true);
    struct meta_call *unlock = start_lock(&world, 0, 0, false);
    assert_int_equal(world_wait(&world, lock)->code, ERR_OK);
    assert_int_equal(world_wait(&world, unlock)->code, ERR_OK);
    meta_link_drop(world.mounts[0].link, lock);
    meta_link_drop(world.mounts[0].link, unlock);
    assert_false(holds(&world, 0, 2));
    world_kill(&world);
    world_revive(&world);
    assert_int_equal(try_lock(&world, 1, 2), ERR_OK);
    world_end(&world);
}

static void test_who_waits_for_another_kind_loses_what_was_held_once(void **state)
{
    (void)state;
    struct world world;
    struct meta_server_counts counts;
    world_begin(&world, 2, 4);
    assert_int_equal(try_lock(&world, 1, 1), ERR_OK);
    struct meta_call *call = start_lock(&world, 0, 2, true);
    steps(&world, 20);
    assert_int_equal(try_lock(&world, 0, 1), ERR_OK); /* another thread, the same open file */
    Drover__MetaOp make = world_op(DROVER__META_VERB__META_VERB_MAKE, ENGINE_ROOT, "a");
    make.mode = S_IFREG | 0644;
    assert_int_equal(world_do(&world, 1, &make, NULL, NULL), ERR_OK);
    steps(&world, 100); /* what waits was tried again */
    meta_server_counts(world.server, &counts);
    assert_int_equal(counts.locks, 2);
    assert_null(meta_call_answer(call));
    meta_link_abandon(world.mounts[0].link, call);
    world_end(&world);
}

static void test_an_owner_that_was_replaced_answers_nobody_who_waits(void **state)
{
    (void)state;
    struct world world;
    struct err err;
    struct volume *next = NULL;
    world_begin(&world, 2, 4);
    assert_int_equal(try_lock(&world, 0, 2), ERR_OK);
    struct meta_call *call = start_lock(&world, 1, 2, true);
    struct volume_options options = {.role = VOLUME_OWNER, .owner = "test", .take_over = true};
    assert_int_equal(volume_open(object_memory_open(world.shelf), &options, &next, &err), ERR_OK);
    volume_abandon(next);
    Drover__MetaOp make = world_op(DROVER__META_VERB__META_VERB_MAKE, ENGINE_ROOT, "a");
    make.mode = S_IFREG | 0644;
    meta_link_drop(world.mounts[0].link, meta_link_ask(world.mounts[0].link, &make));
    Drover__MetaOp sync = world_op(DROVER__META_VERB__META_VERB_SYNC, ENGINE_ROOT, NULL);
    struct meta_call *synced = meta_link_ask(world.mounts[0].link, &sync);
    steps(&world, 100);
    assert_int_equal(volume_trouble(world.volume, NULL), ERR_STALE);
    assert_null(meta_call_answer(call));
    assert_null(meta_call_answer(synced));
    world_kill(&world);
    world_revive(&world);
    assert_int_equal(world_wait(&world, synced)->code, ERR_OK);
    assert_null(meta_call_answer(call));
    assert_int_equal(try_lock(&world, 0, 0), ERR_OK);
    assert_int_equal(world_wait(&world, call)->code, ERR_OK);
    meta_link_drop(world.mounts[0].link, synced);
    meta_link_drop(world.mounts[1].link, call);
    world_end(&world);
}

static void test_a_lock_that_is_heard_of_after_the_lease_is_not_believed(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 2, 4);
    assert_int_equal(try_lock(&world, 1, 2), ERR_OK);
    struct meta_call *late = start_lock(&world, 0, 2, true);
    steps(&world, 20);
    world.mounts[0].is_frozen = true; /* it gets the lock, and does not hear of it */
    assert_int_equal(try_lock(&world, 1, 0), ERR_OK);
    steps(&world, 20);
    struct meta_call *call = start_lock(&world, 1, 2, true);
    steps(&world, 20);
    assert_null(meta_call_answer(call));
    assert_int_equal(world_wait(&world, call)->code, ERR_OK);
    meta_link_drop(world.mounts[1].link, call);
    world.mounts[0].is_frozen = false;
    steps(&world, 100);
    assert_null(meta_call_answer(late));
    assert_int_equal(try_lock(&world, 1, 0), ERR_OK);
    assert_int_equal(world_wait(&world, late)->code, ERR_OK);
    meta_link_drop(world.mounts[0].link, late);
    world_end(&world);
}

/* Random. -------------------------------------------------------------------------------------- */

enum { FILES = 2, OWNERS = 3, AGENTS = WORLD_MOUNTS * OWNERS * FILES, ROUNDS = 3000 };

/* One open file description. */
struct agent {
    size_t mount;
    uint64_t inode, owner;
    uint32_t wants, holds;
    struct meta_call *call;
    bool is_shared; /* what it asks for may be let go by another before it has it */
};

static struct meta_call *ask_lock(struct world *world, const struct agent *agent, uint32_t type,
                                  bool waits)
{
    Drover__MetaOp op = world_op(DROVER__META_VERB__META_VERB_LOCK, agent->inode, NULL);
    Drover__MetaLock lock = DROVER__META_LOCK__INIT;
    lock.inode = agent->inode;
    lock.owner = agent->owner;
    lock.type = type;
    op.lock = &lock;
    op.flags = waits;
    return meta_link_ask(world->mounts[agent->mount].link, &op);
}

static void let_go(struct world *world, struct agent *agent)
{
    meta_link_drop(world->mounts[agent->mount].link, ask_lock(world, agent, 0, false));
    agent->holds = 0;
}

static void give_up(struct world *world, struct agent *agent)
{
    meta_link_abandon(world->mounts[agent->mount].link, agent->call);
    agent->call = NULL;
    agent->is_shared = false;
    agent->holds = 0; /* what one holds is let go before one waits for another kind */
}

/* For certain, by what its mount knows. */
static bool is_sure(const struct world *world, const struct agent *agent, uint32_t type)
{
    Drover__MetaLock lock = DROVER__META_LOCK__INIT;
    lock.inode = agent->inode;
    lock.owner = agent->owner;
    lock.type = type;
    return meta_link_holds(world->mounts[agent->mount].link, &lock, world->now_ms);
}

static void try_for(struct world *world, struct agent *agent)
{
    agent->wants = 1 + (uint32_t)rng_below(&world->rng, 2);
    if (is_sure(world, agent, agent->wants)) {
        agent->holds = agent->wants;
        return;
    }
    agent->holds = 0;
    agent->call = ask_lock(world, agent, agent->wants, rng_below(&world->rng, 4) != 0);
}

static void act(struct world *world, struct agent *agent)
{
    if (agent->call && rng_below(&world->rng, 4) == 0) {
        let_go(world, agent); /* another thread of the same open file */
        agent->is_shared = true;
    } else if (agent->call) {
        give_up(world, agent);
        if (rng_below(&world->rng, 2)) {
            try_for(world, agent); /* at once, as one does whom a signal has interrupted */
        }
    } else if (agent->holds && rng_below(&world->rng, 8)) {
        let_go(world, agent);
    } else {
        try_for(world, agent);
    }
}

static void settle(struct world *world, struct agent *agents)
{
    for (size_t i = 0; i < AGENTS; i++) {
        struct agent *agent = &agents[i];
        const Drover__MetaAnswer *answer = agent->call ? meta_call_answer(agent->call) : NULL;
        if (answer == NULL) {
            continue;
        }
        if (answer->code != ERR_OK) {
            assert_int_equal(answer->posix, EWOULDBLOCK);
        }
        agent->holds = answer->code == ERR_OK && !agent->is_shared ? agent->wants : 0;
        if (agent->is_shared) {
            let_go(world, agent);
            agent->is_shared = false;
        }
        meta_link_drop(world->mounts[agent->mount].link, agent->call);
        agent->call = NULL;
    }
}

static void check_alone(const struct world *world, const struct agent *agents, bool may_cut)
{
    for (size_t i = 0; i < AGENTS; i++) {
        for (size_t j = i + 1; j < AGENTS; j++) {
            const struct agent *a = &agents[i];
            const struct agent *b = &agents[j];
            /* Who is cut off for a lease no longer holds what he believes he does. */
            bool both = a->holds && b->holds &&
                        (!may_cut || (is_sure(world, a, a->holds) && is_sure(world, b, b->holds)));
            if (both && a->inode == b->inode) {
                assert_true(a->holds == 1 && b->holds == 1);
            }
        }
    }
}

static bool is_over(const struct agent *agents)
{
    bool is_over = true;
    for (size_t i = 0; i < AGENTS; i++) {
        is_over = is_over && !agents[i].call && !agents[i].holds;
    }
    return is_over;
}

static void mischief(struct world *world, bool may_cut)
{
    uint64_t dice = rng_below(&world->rng, 600);
    struct world_mount *mount = &world->mounts[dice % WORLD_MOUNTS];
    if (dice < 12) {
        world_lose(world, dice % WORLD_MOUNTS);
    } else if (dice < 15 && world->server) {
        world_kill(world);
    } else if (dice < 21 && may_cut) {
        mount->is_cut = true; /* perhaps for longer than a lease */
    } else if (dice < 33) {
        mount->is_cut = false;
    }
    if (!world->server && rng_below(&world->rng, 20) == 0) {
        world_revive(world);
    }
}

/* Who waits gets what is let go, and then nothing is held by anybody. */
static void wind_up(struct world *world, struct agent *agents)
{
    if (!world->server) {
        world_revive(world);
    }
    for (size_t i = 0; i < WORLD_MOUNTS; i++) {
        world->mounts[i].is_cut = false;
    }
    for (int i = 0; i < 5000 && !is_over(agents); i++) {
        world_step(world);
        settle(world, agents);
        for (size_t j = 0; j < AGENTS; j++) {
            if (agents[j].holds) {
                let_go(world, &agents[j]);
            }
        }
    }
    assert_true(is_over(agents));
    steps(world, 100);
    if (rng_below(&world->rng, 2)) { /* what mounts say that they hold is true, too */
        world_kill(world);
        world_revive(world);
        steps(world, 100);
    }
    for (size_t i = 0; i < AGENTS; i++) {
        struct agent stranger = agents[i];
        stranger.owner = 77;
        struct meta_call *call = ask_lock(world, &stranger, 2, false);
        assert_int_equal(world_wait(world, call)->code, ERR_OK);
        meta_link_drop(world->mounts[stranger.mount].link, call);
        call = ask_lock(world, &stranger, 0, false);
        (void)world_wait(world, call);
        meta_link_drop(world->mounts[stranger.mount].link, call);
    }
}

static void run_locks(uint64_t seed)
{
    struct world world;
    struct agent agents[AGENTS] = {0};
    bool may_cut = seed % 2;
    uint64_t inodes[FILES] = {ENGINE_ROOT};
    size_t held = 0;
    world_begin(&world, WORLD_MOUNTS, seed);
    Drover__MetaOp make = world_op(DROVER__META_VERB__META_VERB_MAKE, ENGINE_ROOT, "a");
    make.mode = S_IFREG | 0644;
    assert_int_equal(world_do(&world, 0, &make, NULL, &inodes[1]), ERR_OK);
    for (size_t i = 0; i < AGENTS; i++) {
        agents[i] = (struct agent){
            .mount = i % WORLD_MOUNTS, .inode = inodes[i % FILES], .owner = 1 + i / WORLD_MOUNTS};
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct agent *agent = &agents[rng_below(&world.rng, AGENTS)];
        if (rng_below(&world.rng, 3) == 0) {
            act(&world, agent);
        }
        mischief(&world, may_cut);
        world_step(&world);
        settle(&world, agents);
        held += agent->holds != 0;
        check_alone(&world, agents, may_cut);
    }
    printf("seed %llu: held at %zu of %d looks\n", (unsigned long long)seed, held, ROUNDS);
    assert_true(may_cut || held > 100);
    wind_up(&world, agents);
    world_end(&world);
}

static void test_a_lock_is_held_by_one_or_by_none(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    const char *count = getenv("SEEDS");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system();
    for (uint64_t i = 0; i < (count ? strtoull(count, NULL, 10) : 8); i++) {
        run_locks(seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_goes_to_who_waits_when_its_holder_lapses),
        cmocka_unit_test(test_who_waits_for_a_lock_keeps_no_answers_waiting),
        cmocka_unit_test(test_a_lock_outlives_the_owner),
        cmocka_unit_test(test_who_has_lapsed_does_not_name_a_lock_that_another_got),
        cmocka_unit_test(test_who_has_lapsed_gets_back_what_nobody_took),
        cmocka_unit_test(test_a_lock_that_is_let_go_before_it_is_answered_is_not_held),
        cmocka_unit_test(test_who_waits_for_another_kind_loses_what_was_held_once),
        cmocka_unit_test(test_an_owner_that_was_replaced_answers_nobody_who_waits),
        cmocka_unit_test(test_a_lock_that_is_heard_of_after_the_lease_is_not_believed),
        cmocka_unit_test(test_a_lock_is_held_by_one_or_by_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
