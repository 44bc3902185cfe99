#include "meta/world.h"

#include "base/mem.h"
#include "meta/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char SECRET[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

enum { STEP_MS = 20, WAIT_STEPS = 5000 };

static void post(struct world_mail **box, const void *bytes, size_t size)
{
    struct world_mail *mail = mem_alloc(sizeof *mail);
    str_add_bytes(&mail->bytes, bytes, size);
    while (*box != NULL) {
        box = &(*box)->next;
    }
    *box = mail;
}

static struct world_mail *pick(struct world_mail **box)
{
    struct world_mail *mail = *box;
    *box = mail->next;
    return mail;
}

static void throw_away(struct world_mail *mail)
{
    str_release(&mail->bytes);
    free(mail);
}

static void empty(struct world_mail **box)
{
    while (*box != NULL) {
        throw_away(pick(box));
    }
}

static bool says_forget(const void *bytes, size_t size)
{
    Drover__MetaAnswer *answer = NULL;
    bool says = meta_parse_answer(bytes, size, &answer, NULL) == ERR_OK && answer->forget != 0;
    meta_free_answer(answer);
    return says;
}

static bool to_mount(void *context, const struct door_sender *to, const void *bytes, size_t size)
{
    struct world *world = context;
    for (size_t i = 0; i < world->mount_count; i++) {
        struct world_mount *mount = &world->mounts[i];
        if (mount->link && strcmp(mount->sender.key, to->key) == 0 && !mount->is_cut &&
            !(mount->is_deaf && says_forget(bytes, size))) {
            post(&mount->down, bytes, size);
        }
    }
    return true;
}

static bool to_server(void *context, const void *bytes, size_t size)
{
    struct world_mount *mount = context;
    if (!mount->is_cut) {
        post(&mount->up, bytes, size);
    }
    return true;
}

static void on_reset(void *context)
{
    (void)context;
}

void world_join(struct world *world, size_t index)
{
    struct world_mount *mount = &world->mounts[index];
    static unsigned serial;
    struct meta_link_options options = {
        .secret = SECRET, .who = "a test", .send = to_server, .reset = on_reset, .context = mount};
    *mount = (struct world_mount){.world = world, .sender = {.route = {1}, .route_size = 1}};
    snprintf(mount->sender.key, sizeof mount->sender.key, "%040u", ++serial);
    memcpy(options.mount, mount->sender.key + DOOR_KEY_CHARS - META_ID_BYTES, META_ID_BYTES);
    mount->link = meta_link_create(&options, world->now_ms);
    while (!meta_link_is_joined(mount->link)) {
        world_step(world);
    }
}

void world_leave(struct world *world, size_t index, bool says_bye)
{
    struct world_mount *mount = &world->mounts[index];
    if (says_bye) {
        meta_link_bye(mount->link);
        world_step(world);
    }
    empty(&mount->up);
    empty(&mount->down);
    meta_link_destroy(mount->link);
    mount->link = NULL;
}

void world_revive(struct world *world)
{
    struct volume_options options = {.role = VOLUME_OWNER, .owner = "test", .take_over = true};
    struct meta_server_options how = {.secret = SECRET,
                                      .lease_ms = WORLD_LEASE_MS,
                                      .grants_max = world->grants_max,
                                      .send = to_mount,
                                      .context = world};
    struct err err;
    assert_int_equal(volume_open(object_memory_open(world->shelf), &options, &world->volume, &err),
                     ERR_OK);
    assert_int_equal(meta_server_create(world->volume, &how, world->now_ms, &world->server, &err),
                     ERR_OK);
}

void world_kill(struct world *world)
{
    meta_server_destroy(world->server);
    volume_abandon(world->volume);
    world->server = NULL;
    world->volume = NULL;
    for (size_t i = 0; i < world->mount_count; i++) {
        world_lose(world, i);
        empty(&world->mounts[i].up);
    }
}

void world_begin(struct world *world, size_t mounts, uint64_t seed)
{
    struct err err;
    struct engine_caller caller = {0};
    struct volume_format format = {.pack_bytes = 1 << 20};
    *world = (struct world){.shelf = object_shelf_create(), .now_ms = 1000, .rng.state = seed};
    world->grants_max = seed % 3 == 0 ? 15 : 0; /* sometimes there is room for few */
    struct object_store *store = object_memory_open(world->shelf);
    assert_int_equal(volume_format_write(store, &format, &caller, &err), ERR_OK);
    object_close(store);
    world_revive(world);
    for (size_t i = 0; i < mounts; i++) {
        world->mount_count++;
        world_join(world, i);
    }
}

void world_end(struct world *world)
{
    for (size_t i = 0; i < world->mount_count; i++) {
        if (world->mounts[i].link) {
            world_leave(world, i, false);
        }
    }
    if (world->server) {
        meta_server_destroy(world->server);
        volume_abandon(world->volume);
    }
    object_shelf_destroy(world->shelf);
}

/* A beginning of what is on its way arrives, the rest never does. */
void world_lose(struct world *world, size_t index)
{
    struct world_mount *mount = &world->mounts[index];
    struct world_mail **boxes[] = {&mount->up, &mount->down};
    for (size_t i = 0; i < 2; i++) {
        struct world_mail **at = boxes[i];
        while (*at != NULL && rng_below(&world->rng, 3) != 0) {
            at = &(*at)->next;
        }
        empty(at);
    }
}

static void deliver(struct world *world, struct world_mount *mount)
{
    size_t count = rng_below(&world->rng, 6);
    for (size_t i = 0; i < count && mount->up && world->server; i++) {
        struct world_mail *mail = pick(&mount->up);
        meta_server_take(world->server, &mount->sender, mail->bytes.text, mail->bytes.size,
                         world->now_ms);
        throw_away(mail);
    }
    for (size_t i = 0; i < count && mount->down; i++) {
        struct world_mail *mail = pick(&mount->down);
        meta_link_take(mount->link, mail->bytes.text, mail->bytes.size, world->now_ms);
        throw_away(mail);
    }
}

void world_step(struct world *world)
{
    world->now_ms += STEP_MS;
    for (size_t i = 0; i < world->mount_count; i++) {
        struct world_mount *mount = &world->mounts[i];
        if (mount->link && !mount->is_frozen) {
            if (!world->server) {
                empty(&mount->up); /* nobody listens */
            }
            deliver(world, mount);
            meta_link_turn(mount->link, world->now_ms);
        }
    }
    if (world->server) {
        volume_run(world->volume, 0);
        volume_tick(world->volume, world->now_ms);
        meta_server_turn(world->server, world->now_ms);
    }
}

const Drover__MetaAnswer *world_wait(struct world *world, struct meta_call *call)
{
    for (int i = 0; i < WAIT_STEPS && !meta_call_answer(call); i++) {
        world_step(world);
    }
    assert_non_null(meta_call_answer(call));
    return meta_call_answer(call);
}

enum err_code world_do(struct world *world, size_t mount, const Drover__MetaOp *op, int *posix,
                       uint64_t *inode)
{
    struct meta_link *link = world->mounts[mount].link;
    struct meta_call *call = meta_link_ask(link, op);
    const Drover__MetaAnswer *answer = world_wait(world, call);
    enum err_code code = (enum err_code)answer->code;
    if (posix) {
        *posix = (int)answer->posix;
    }
    if (inode) {
        *inode = answer->attr ? answer->attr->inode : 0;
    }
    meta_link_drop(link, call);
    return code;
}

Drover__MetaOp world_op(Drover__MetaVerb verb, uint64_t inode, const char *name)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = verb;
    op.inode = inode;
    op.now_ns = 1;
    op.name = meta_text(name);
    return op;
}
