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

/* Random. -------------------------------------------------------------------------------------- */

enum { FILES = 2, OWNERS = 3, AGENTS = WORLD_MOUNTS * OWNERS * FILES, ROUNDS = 3000 };

/* One open file description. */
struct agent {
    size_t mount;
    uint64_t inode, owner;
    uint32_t wants, holds;
    struct meta_call *call;
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
    agent->holds = 0; /* what one holds is let go before one waits for another kind */
}

static void try_for(struct world *world, struct agent *agent)
{
    agent->wants = 1 + (uint32_t)rng_below(&world->rng, 2);
    agent->holds = 0;
    agent->call = ask_lock(world, agent, agent->wants, rng_below(&world->rng, 4) != 0);
}

static void act(struct world *world, struct agent *agent)
{
    if (agent->call) {
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
        agent->holds = answer->code == ERR_OK ? agent->wants : 0;
        meta_link_drop(world->mounts[agent->mount].link, agent->call);
        agent->call = NULL;
    }
}

static void check_alone(const struct agent *agents)
{
    for (size_t i = 0; i < AGENTS; i++) {
        for (size_t j = i + 1; j < AGENTS; j++) {
            const struct agent *a = &agents[i];
            const struct agent *b = &agents[j];
            if (a->inode == b->inode && a->holds && b->holds) {
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
    for (int i = 0; i < 100; i++) {
        world_step(world);
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
        if (!may_cut) {
            check_alone(agents);
        }
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
        cmocka_unit_test(test_a_lock_is_held_by_one_or_by_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
