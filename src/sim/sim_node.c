/* sim_node.c - simulated nodes: slots, reports, messages that get lost, cables that are cut.
 *
 * A node keeps every attempt it was given until the master has settled it. Whatever message is
 * lost, it says Hello a second later with all it has, and reports again what has ended: so does the
 * real one, when its connection is renewed.
 */
#include "sim/sim_state.h"

#include "base/detmath.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { HELLO_AFTER_S = 1 };

double sim_draw_exponential(struct sim *sim, double mean_s)
{
    return -det_log(rng_open_unit_of(rng_next(&sim->rng))) * mean_s;
}

static bool message_is_lost(struct sim *sim)
{
    return sim->options->net_loss > 0 && rng_unit(&sim->rng) < sim->options->net_loss;
}

/* --- lists of work -------------------------------------------------------------------------------
 */

static size_t find(const struct work_list *list, const struct core_attempt *id)
{
    size_t at = 0;
    while (at < list->count && memcmp(&list->items[at].id, id, sizeof *id) != 0) {
        at++;
    }
    return at;
}

/* Takes it out and keeps the order. */
static struct work take(struct work_list *list, size_t at)
{
    struct work work = list->items[at];
    list->count--;
    memmove(list->items + at, list->items + at + 1, (list->count - at) * sizeof *list->items);
    return work;
}

void sim_node_release(struct sim_node *node)
{
    free(node->running.items);
    free(node->queued.items);
    free(node->ended.items);
}

/* --- tasks ---------------------------------------------------------------------------------------
 */

static void start_task(struct sim *sim, uint32_t number, const struct core_attempt *id)
{
    struct sim_node *node = &sim->nodes[number];
    double takes_s = sim_time_draw(&sim->options->task_time, &sim->rng);
    bool fails = rng_unit(&sim->rng) < sim->options->fail_share;
    VEC_PUSH(node->running.items, node->running.count, node->running.cap) =
        (struct work){.id = *id, .began_us = sim->now_us};
    queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(takes_s),
                                            .kind = EVENT_TASK_ENDS,
                                            .node = number,
                                            .life = node->life,
                                            .code = fails,
                                            .began_us = sim->now_us,
                                            .id = *id});
}

static void send_report(struct sim *sim, uint32_t number, const struct work *work)
{
    struct sim_node *node = &sim->nodes[number];
    if (node->cut || !node->known) {
        return; /* the Hello that must follow will be followed by it */
    }
    if (message_is_lost(sim)) {
        sim_node_hello_soon(sim, number);
        return;
    }
    queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(sim->options->latency_s),
                                            .kind = EVENT_REPORT,
                                            .node = number,
                                            .life = node->life,
                                            .code = work->code,
                                            .killed = work->killed,
                                            .began_us = work->began_us,
                                            .id = work->id});
}

static void end_task(struct sim *sim, uint32_t number, const struct work *work)
{
    struct sim_node *node = &sim->nodes[number];
    VEC_PUSH(node->ended.items, node->ended.count, node->ended.cap) = *work;
    send_report(sim, number, work);
    while (node->queued.count > 0 && node->running.count < sim->options->slots) {
        struct work next = take(&node->queued, 0);
        start_task(sim, number, &next.id);
    }
}

void sim_node_task_ends(struct sim *sim, const struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    size_t at = find(&node->running, &event->id);
    if (at == node->running.count) {
        return; /* killed meanwhile */
    }
    struct work work = take(&node->running, at);
    work.code = event->code;
    sim->busy_us += sim->now_us - work.began_us;
    end_task(sim, event->node, &work);
}

static void kill_task(struct sim *sim, uint32_t number, const struct core_attempt *id)
{
    struct sim_node *node = &sim->nodes[number];
    struct work_list *list =
        find(&node->running, id) < node->running.count ? &node->running : &node->queued;
    size_t at = find(list, id);
    if (at == list->count) {
        return;
    }
    struct work work = take(list, at);
    sim->busy_us += list == &node->running ? sim->now_us - work.began_us : 0;
    work.killed = true;
    end_task(sim, number, &work);
}

void sim_node_receive(struct sim *sim, const struct core_effect *effect)
{
    struct sim_node *node = &sim->nodes[effect->node];
    if (!node->up || node->cut || !node->known) {
        return; /* into the void; the lease will tell, or the next Hello */
    }
    if (message_is_lost(sim)) {
        sim_node_hello_soon(sim, effect->node);
    } else if (effect->kind == EFFECT_KILL) {
        kill_task(sim, effect->node, &effect->id);
    } else if (effect->kind == EFFECT_SETTLED) {
        size_t at = find(&node->ended, &effect->id);
        if (at < node->ended.count) {
            take(&node->ended, at);
        }
    } else if (node->running.count < sim->options->slots) {
        start_task(sim, effect->node, &effect->id);
    } else {
        VEC_PUSH(node->queued.items, node->queued.count, node->queued.cap) =
            (struct work){.id = effect->id};
    }
}

/* --- coming and going ----------------------------------------------------------------------------
 */

static void schedule_strike(struct sim *sim, uint32_t number)
{
    if (sim->options->mtbf_s > 0) {
        double life_s = sim_draw_exponential(sim, sim->options->mtbf_s);
        queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(life_s),
                                                .kind = EVENT_STRIKES,
                                                .node = number,
                                                .life = sim->nodes[number].life});
    }
}

void sim_node_bill(struct sim *sim, struct sim_node *node)
{
    double hours = (double)(sim->now_us - node->billed_from_us) / 3.6e9;
    sim->result->cost_usd_micro += (int64_t)(hours * (double)sim->options->price_usd_micro);
    node->billed_from_us = sim->now_us;
}

static size_t add_held(struct sim *sim, size_t count, const struct work_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        VEC_PUSH(sim->held, count, sim->held_cap) = list->items[i].id;
    }
    return count;
}

static void join(struct sim *sim, uint32_t number, bool fresh)
{
    struct sim_node *node = &sim->nodes[number];
    size_t count = add_held(sim, 0, &node->running);
    count = add_held(sim, count, &node->queued);
    count = add_held(sim, count, &node->ended);
    struct core_node_spec spec = {.capacity = {.cpu_milli = sim->options->slots * 1000,
                                               .memory_bytes = UINT64_MAX / 2,
                                               .disk_bytes = UINT64_MAX / 2},
                                  .held = sim->held,
                                  .held_count = count,
                                  .fresh = fresh};
    node->known = true;
    core_node_join(sim->core, number, &spec, sim_now_ms(sim), &sim->out);
    sim_carry_out(sim);
}

void sim_node_boot(struct sim *sim, uint32_t number)
{
    struct sim_node *node = &sim->nodes[number];
    node->up = true;
    node->cut = false;
    node->billed_from_us = sim->now_us;
    schedule_strike(sim, number);
    join(sim, number, true);
}

void sim_node_hello(struct sim *sim, uint32_t number)
{
    struct sim_node *node = &sim->nodes[number];
    node->hello_is_due = false;
    if (node->cut) {
        return; /* nobody hears it; it will say so again */
    }
    join(sim, number, false);
    for (size_t i = 0; i < node->ended.count; i++) {
        send_report(sim, number, &node->ended.items[i]);
    }
}

void sim_node_mended(struct sim *sim, uint32_t number)
{
    sim->nodes[number].cut = false;
    schedule_strike(sim, number);
    sim_node_hello(sim, number);
}

void sim_node_hello_soon(struct sim *sim, uint32_t number)
{
    struct sim_node *node = &sim->nodes[number];
    if (node->up && !node->cut && !node->hello_is_due) {
        node->hello_is_due = true;
        queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(HELLO_AFTER_S),
                                                .kind = EVENT_HELLO,
                                                .node = number,
                                                .life = node->life});
    }
}

/* It was last heard just before: from now on its lease runs. */
void sim_node_strikes(struct sim *sim, const struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    const struct sim_options *options = sim->options;
    sim->result->node_losses++;
    core_node_heard(sim->core, event->node, sim_now_ms(sim), &sim->out);
    node->cut = true;
    bool comes_back = rng_unit(&sim->rng) < options->cut_share;
    double away_s = comes_back ? sim_draw_exponential(sim, 4 * options->lease_s)
                               : options->lease_s + options->boot_s;
    struct event next = {.at_us = sim->now_us + us_of(away_s),
                         .kind = comes_back ? EVENT_MENDED : EVENT_BOOTS,
                         .node = event->node,
                         .life = node->life + !comes_back};
    queue_push(&sim->queue, &next);
    if (comes_back) {
        return;
    }
    sim_node_bill(sim, node);
    node->up = false;
    node->life++; /* all that it had is gone */
    node->hello_is_due = false;
    node->running.count = 0;
    node->queued.count = 0;
    node->ended.count = 0;
}
