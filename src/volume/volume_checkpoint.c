/* Checkpoints: the table as a run, then head.
 *
 * The table is frozen at a commit's edge: when all changes are in commits up to some seq (what is
 * held stays out of the frozen table). It is stored once that commit is durable. */
#include "volume/volume_internal.h"

#include <string.h>

void volume_checkpoint_edge(struct volume *volume)
{
    struct volume_checkpointer *checkpoint = &volume->checkpoint;
    if (checkpoint->state != CHECKPOINT_WANTED) {
        return;
    }
    checkpoint->seq = volume->commit.next - 1;
    engine_usage(volume->engine, &checkpoint->usage);
    if (checkpoint->seq == volume->head.now.view.seq) { /* there is nothing new */
        checkpoint->state = CHECKPOINT_IDLE;
        return;
    }
    CHECK(engine_freeze(volume->engine, NULL) == ERR_OK);
    checkpoint->state = CHECKPOINT_FROZEN;
}

void volume_checkpoint_want(struct volume *volume)
{
    struct volume_checkpointer *checkpoint = &volume->checkpoint;
    if (checkpoint->state != CHECKPOINT_IDLE || volume->role != VOLUME_OWNER ||
        !volume_is_well(volume)) {
        return;
    }
    checkpoint->state = CHECKPOINT_WANTED;
    if (engine_pending(volume->engine) == 0) {
        volume_checkpoint_edge(volume);
    } else {
        (void)volume_commit(volume); /* whose beginning is an edge */
    }
    volume_checkpoint_advance(volume);
}

static void run_stored(struct volume_call *call)
{
    struct volume *volume = call->volume;
    struct volume_checkpointer *checkpoint = &volume->checkpoint;
    map_thaw(volume->map, &checkpoint->run, &checkpoint->object);
    str_release(&checkpoint->object);
    volume->head.now.view.seq = checkpoint->seq;
    checkpoint->change = volume_head_touch(volume);
    checkpoint->state = CHECKPOINT_HEAD;
    volume->progress++;
}

static void begin_run(struct volume *volume)
{
    struct volume_checkpointer *checkpoint = &volume->checkpoint;
    checkpoint->state = CHECKPOINT_WRITING;
    checkpoint->run = (struct map_run){.container = {.kind = CONTAINER_RUN,
                                                     .term = volume->head.now.term,
                                                     .number = volume->next_run++}};
    str_clear(&checkpoint->object);
}

static void store_run(struct volume *volume)
{
    struct volume_checkpointer *checkpoint = &volume->checkpoint;
    checkpoint->state = CHECKPOINT_STORING;
    char name[CONTAINER_NAME_MAX];
    container_name(&checkpoint->run.container, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, name, run_stored);
    call->call.data = checkpoint->object.text;
    call->call.data_size = checkpoint->object.size;
    volume_call_start(call);
}

void volume_checkpoint_advance(struct volume *volume)
{
    struct volume_checkpointer *checkpoint = &volume->checkpoint;
    if (!volume_is_well(volume)) {
        return;
    }
    if (checkpoint->state == CHECKPOINT_FROZEN && volume->commit.durable >= checkpoint->seq) {
        begin_run(volume);
    }
    if (checkpoint->state == CHECKPOINT_WRITING &&
        map_write_frozen_part(volume->map, &checkpoint->run, &checkpoint->object)) {
        store_run(volume);
    }
    if (checkpoint->state == CHECKPOINT_HEAD && volume->head.stored_change >= checkpoint->change) {
        checkpoint->state = CHECKPOINT_IDLE;
        volume->stats.checkpoints++;
        volume->progress++;
    }
}

/* One that is under way is too old. */
enum err_code volume_checkpoint_step(struct volume_order *order)
{
    struct volume *volume = order->volume;
    if (order->step == 0 && volume->checkpoint.state == CHECKPOINT_IDLE) {
        volume_checkpoint_want(volume);
        order->step = 1;
    }
    bool is_done = order->step > 0 && volume->checkpoint.state == CHECKPOINT_IDLE;
    return is_done ? ERR_OK : ERR_AGAIN;
}

enum err_code volume_checkpoint(struct volume *volume, struct err *err)
{
    struct volume_order order = {.volume = volume, .kind = ORDER_CHECKPOINT};
    return volume_order_finish(&order, err);
}
