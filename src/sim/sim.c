#include "sim/sim.h"

#include "base/detmath.h"
#include "base/mem.h"
#include "sim/queue.h"

#include <stdlib.h>
#include <string.h>

enum { WORKFLOW = 1, RESEND_S = 1 };

struct sim_node {
    uint32_t life; /* counts up with each loss or return */
    bool up;       /* the machine works */
    bool cut;      /* but nobody hears it */
    bool known;    /* the master counts on it */
    uint32_t running;
    int64_t billed_from_us;
    struct core_attempt *queued; /* sent ahead, waiting for a slot; [queued_head, queued_count) */
    size_t queued_head;
    size_t queued_count;
    size_t queued_cap;
    struct core_attempt *late; /* tasks sent while the cable was cut */
    size_t late_count;
    size_t late_cap;
    struct event *held; /* reports that wait for it */
    size_t held_count;
    size_t held_cap;
};

struct sim {
    const struct sim_options *options;
    struct sim_result *result;
    struct core *core;
    struct core_out out;
    struct queue queue;
    struct rng rng;
    int64_t now_us;
    struct sim_node *nodes;
    uint8_t **accepted;       /* [experiment][task]: how often */
    uint16_t **last_assigned; /* [experiment][task]: the newest attempt */
    int64_t busy_us;
    bool ended;
    enum err_code code;
    struct err *err;
};

static int64_t us_of(double seconds)
{
    return (int64_t)(seconds * 1e6);
}

static int64_t now_ms(const struct sim *sim)
{
    return sim->now_us / 1000 + 1;
}

static void broken(struct sim *sim, const char *promise, const struct fact *fact)
{
    if (sim->code == ERR_OK) {
        sim->code =
            err_set(sim->err, ERR_CORRUPT,
                    "%s: experiment %u, task %llu, attempt %u, at %.3f s (seed %llu)", promise,
                    fact->experiment, (unsigned long long)fact->task, fact->attempt,
                    (double)sim->now_us / 1e6, (unsigned long long)sim->options->seed);
    }
}

/* --- checking ----------------------------------------------------------------------------------
 */

static void check_fact(struct sim *sim, const struct fact *fact)
{
    switch (fact->kind) {
    case FACT_ASSIGNED:
        if (sim->accepted[fact->experiment][fact->task]) {
            broken(sim, "an accepted task was assigned again", fact);
        }
        sim->last_assigned[fact->experiment][fact->task] = (uint16_t)fact->attempt;
        sim->result->attempts++;
        break;
    case FACT_ACCEPTED:
        if (sim->accepted[fact->experiment][fact->task]++) {
            sim->result->duplicates++;
            broken(sim, "a result was accepted twice", fact);
        }
        if (sim->last_assigned[fact->experiment][fact->task] != fact->attempt) {
            broken(sim, "a stale result was accepted", fact);
        }
        sim->result->accepted++;
        break;
    case FACT_LOST:
        sim->result->attempts_lost++;
        break;
    case FACT_ENDED:
        sim->ended = true;
        break;
    case FACT_TERM:
    case FACT_SUBMITTED:
    case FACT_FAILED:
    case FACT_SKIPPED:
    case FACT_CANCELLED:
    case FACT_KIND_COUNT:
        break;
    }
}

/* --- nodes -------------------------------------------------------------------------------------
 */

static void start_task(struct sim *sim, uint32_t number, const struct core_attempt *id)
{
    struct sim_node *node = &sim->nodes[number];
    double takes_s = sim_time_draw(&sim->options->task_time, &sim->rng);
    bool fails = rng_unit(&sim->rng) < sim->options->fail_share;
    node->running++;
    queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(takes_s),
                                            .kind = EVENT_TASK_ENDS,
                                            .node = number,
                                            .life = node->life,
                                            .code = fails,
                                            .began_us = sim->now_us,
                                            .id = *id});
}

/* A message reaches the node: it begins, or waits for a slot. */
static void deliver_start(struct sim *sim, uint32_t number, const struct core_attempt *id)
{
    struct sim_node *node = &sim->nodes[number];
    if (!node->up) {
        return; /* into the void; the lease will tell */
    }
    if (node->cut) {
        VEC_PUSH(node->late, node->late_count, node->late_cap) = *id;
        return;
    }
    if (node->running < sim->options->slots) {
        start_task(sim, number, id);
    } else {
        VEC_PUSH(node->queued, node->queued_count, node->queued_cap) = *id;
    }
}

static void start_queued(struct sim *sim, uint32_t number)
{
    struct sim_node *node = &sim->nodes[number];
    if (node->queued_head < node->queued_count && node->running < sim->options->slots) {
        struct core_attempt id = node->queued[node->queued_head++];
        if (node->queued_head == node->queued_count) {
            node->queued_head = 0;
            node->queued_count = 0;
        }
        start_task(sim, number, &id);
    }
}

static void carry_out(struct sim *sim)
{
    for (size_t i = 0; i < sim->out.fact_count; i++) {
        check_fact(sim, &sim->out.facts[i]);
    }
    for (size_t i = 0; i < sim->out.effect_count; i++) {
        const struct core_effect *effect = &sim->out.effects[i];
        if (effect->kind == EFFECT_START) {
            deliver_start(sim, effect->node, &effect->id);
        } else if (effect->kind == EFFECT_SETTLED && !effect->accepted && effect->after == 0) {
            sim->result->refused++;
        }
    }
    core_out_clear(&sim->out);
}

static void schedule_strike(struct sim *sim, uint32_t number)
{
    if (sim->options->mtbf_s > 0) {
        double life_s = -det_log(rng_open_unit_of(rng_next(&sim->rng))) * sim->options->mtbf_s;
        queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(life_s),
                                                .kind = EVENT_STRIKES,
                                                .node = number,
                                                .life = sim->nodes[number].life});
    }
}

static void send_report(struct sim *sim, const struct event *end)
{
    double delay_s = sim->options->latency_s;
    while (rng_unit(&sim->rng) < sim->options->net_loss) {
        delay_s += RESEND_S;
    }
    struct event report = *end;
    report.kind = EVENT_REPORT;
    report.at_us = sim->now_us + us_of(delay_s);
    queue_push(&sim->queue, &report);
}

static void bill(struct sim *sim, struct sim_node *node)
{
    double hours = (double)(sim->now_us - node->billed_from_us) / 3.6e9;
    sim->result->cost_usd_micro += (int64_t)(hours * (double)sim->options->price_usd_micro);
    node->billed_from_us = sim->now_us;
}

static void join(struct sim *sim, uint32_t number)
{
    struct sim_node *node = &sim->nodes[number];
    struct core_resources capacity = {.cpu_milli = sim->options->slots * 1000,
                                      .memory_bytes = UINT64_MAX / 2,
                                      .disk_bytes = UINT64_MAX / 2};
    node->up = true;
    node->cut = false;
    node->known = true;
    node->billed_from_us = sim->now_us;
    schedule_strike(sim, number);
    core_node_join(sim->core, number, &capacity, now_ms(sim), &sim->out);
}

/* --- events ------------------------------------------------------------------------------------
 */

static void on_task_ends(struct sim *sim, const struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    node->running--;
    sim->busy_us += sim->now_us - event->began_us;
    if (node->cut) {
        VEC_PUSH(node->held, node->held_count, node->held_cap) = *event;
    } else {
        send_report(sim, event);
    }
    start_queued(sim, event->node);
}

static void on_report(struct sim *sim, const struct event *event)
{
    struct core_result result = {.outcome = OUT_EXITED,
                                 .code = event->code,
                                 .started_ms = event->began_us / 1000,
                                 .duration_us = sim->now_us - event->began_us};
    core_task_ended(sim->core, event->node, &event->id, &result, now_ms(sim), &sim->out);
}

static void on_strikes(struct sim *sim, const struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    sim->result->node_losses++;
    node->cut = true;
    if (rng_unit(&sim->rng) < sim->options->cut_share) {
        double away_s = -det_log(rng_open_unit_of(rng_next(&sim->rng))) * 4 * sim->options->lease_s;
        queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(away_s),
                                                .kind = EVENT_HEALS,
                                                .node = event->node,
                                                .life = node->life});
    } else {
        bill(sim, node);
        node->up = false;
        node->life++; /* its tasks end with it */
        node->running = 0;
        node->queued_head = 0;
        node->queued_count = 0;
        node->held_count = 0;
        node->late_count = 0;
    }
    queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(sim->options->lease_s),
                                            .kind = EVENT_LAPSES,
                                            .node = event->node,
                                            .life = node->life});
}

static void on_lapses(struct sim *sim, const struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    if (!node->cut) {
        return; /* it came back in time */
    }
    node->known = false;
    core_node_lost(sim->core, event->node, now_ms(sim), &sim->out);
    if (!node->up) {
        queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(sim->options->boot_s),
                                                .kind = EVENT_JOINS,
                                                .node = event->node,
                                                .life = node->life});
    }
}

/* The cable is mended: what it did meanwhile is reported, stale or not. Given up for lost it joins
 * anew, and what it still runs or holds for its former self is dropped. */
static void on_heals(struct sim *sim, const struct event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    node->cut = false;
    bool forgotten = !node->known;
    if (forgotten) {
        node->life++;
        node->running = 0;
        node->queued_head = 0;
        node->queued_count = 0;
        bill(sim, node);
        join(sim, event->node);
    } else {
        schedule_strike(sim, event->node);
        for (size_t i = 0; i < node->late_count; i++) {
            deliver_start(sim, event->node, &node->late[i]);
        }
    }
    node->late_count = 0;
    for (size_t i = 0; i < node->held_count; i++) {
        struct event report = node->held[i];
        report.life = node->life;
        send_report(sim, &report);
    }
    node->held_count = 0;
}

static void handle(struct sim *sim, const struct event *event)
{
    if (event->life != sim->nodes[event->node].life) {
        return;
    }
    switch (event->kind) {
    case EVENT_TASK_ENDS:
        on_task_ends(sim, event);
        break;
    case EVENT_REPORT:
        on_report(sim, event);
        break;
    case EVENT_STRIKES:
        on_strikes(sim, event);
        break;
    case EVENT_LAPSES:
        on_lapses(sim, event);
        break;
    case EVENT_HEALS:
        on_heals(sim, event);
        break;
    case EVENT_JOINS:
        join(sim, event->node);
        break;
    }
}

/* Retries that fall due before the next event. False: nothing is left to happen. */
static bool advance_time(struct sim *sim, struct event *event)
{
    int64_t due_ms = core_next_due_ms(sim->core);
    if (sim->queue.count == 0 && due_ms == INT64_MAX) {
        return false;
    }
    if (sim->queue.count == 0 ||
        (due_ms != INT64_MAX && (due_ms - 1) * 1000 < sim->queue.items[0].at_us)) {
        int64_t due_us = (due_ms - 1) * 1000;
        sim->now_us = due_us > sim->now_us ? due_us : sim->now_us;
        *event =
            (struct event){.kind = EVENT_JOINS, .life = UINT32_MAX}; /* nobody's: only a tick */
        core_tick(sim->core, now_ms(sim), &sim->out);
        return true;
    }
    queue_pop(&sim->queue, event);
    sim->now_us = event->at_us;
    return true;
}

static void play(struct sim *sim)
{
    const struct sim_options *options = sim->options;
    while (!sim->ended && sim->code == ERR_OK) {
        struct event event;
        if (!advance_time(sim, &event)) {
            sim->code = err_set(sim->err, ERR_TIMEOUT, "stuck: nothing can happen any more");
            return;
        }
        if (options->limit_s > 0 && (double)sim->now_us / 1e6 > options->limit_s) {
            sim->code = err_set(sim->err, ERR_TIMEOUT, "not done after %.0f simulated seconds",
                                options->limit_s);
            return;
        }
        handle(sim, &event);
        carry_out(sim);
        sim->result->events++;
        if (options->scan_every > 0 && sim->result->events % options->scan_every == 0) {
            core_verify(sim->core);
        }
    }
}

/* --- beginning and end ---------------------------------------------------------------------------
 */

static void open_sim(struct sim *sim)
{
    const struct core_workflow_spec *spec = sim->options->spec;
    sim->core = core_create();
    core_define(sim->core, WORKFLOW, spec);
    sim->nodes = mem_array(sim->options->nodes, sizeof *sim->nodes);
    sim->accepted = mem_array(spec->experiment_count, sizeof *sim->accepted);
    sim->last_assigned = mem_array(spec->experiment_count, sizeof *sim->last_assigned);
    for (size_t e = 0; e < spec->experiment_count; e++) {
        sim->accepted[e] = mem_array(spec->experiments[e].task_count, sizeof **sim->accepted);
        sim->last_assigned[e] =
            mem_array(spec->experiments[e].task_count, sizeof **sim->last_assigned);
        sim->result->tasks += spec->experiments[e].task_count;
    }
    core_begin_term(sim->core, now_ms(sim), &sim->out);
    core_submit(sim->core, WORKFLOW, now_ms(sim), &sim->out);
    carry_out(sim);
    for (uint32_t n = 0; n < sim->options->nodes; n++) {
        join(sim, n);
        carry_out(sim);
    }
}

static void count_up(struct sim *sim)
{
    struct sim_result *result = sim->result;
    uint64_t other = 0;
    for (uint32_t e = 0; e < sim->options->spec->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(sim->core, WORKFLOW, e, &view);
        result->failed += view.failed;
        other += view.cancelled + view.skipped;
    }
    result->lost = result->tasks - result->accepted - result->failed - other;
    result->state = core_workflow_state(sim->core, WORKFLOW);
    result->simulated_s = (double)sim->now_us / 1e6;
    double slot_us = (double)sim->now_us * sim->options->nodes * sim->options->slots;
    result->busy_share = slot_us > 0 ? (double)sim->busy_us / slot_us : 0;
    for (uint32_t n = 0; n < sim->options->nodes; n++) {
        if (sim->nodes[n].up) {
            bill(sim, &sim->nodes[n]);
        }
    }
}

static void close_sim(struct sim *sim)
{
    for (size_t e = 0; e < sim->options->spec->experiment_count; e++) {
        free(sim->accepted[e]);
        free(sim->last_assigned[e]);
    }
    for (uint32_t n = 0; n < sim->options->nodes; n++) {
        free(sim->nodes[n].queued);
        free(sim->nodes[n].late);
        free(sim->nodes[n].held);
    }
    free(sim->accepted);
    free(sim->last_assigned);
    free(sim->nodes);
    queue_release(&sim->queue);
    core_out_release(&sim->out);
    core_destroy(sim->core);
}

enum err_code sim_run(const struct sim_options *options, struct sim_result *out, struct err *err)
{
    CHECK(options->nodes > 0);
    CHECK(options->slots > 0);
    *out = (struct sim_result){0};
    struct sim sim = {
        .options = options, .result = out, .rng = {.state = options->seed}, .err = err};
    open_sim(&sim);
    play(&sim);
    core_verify(sim.core);
    count_up(&sim);
    if (sim.code == ERR_OK && out->lost > 0) {
        sim.code = err_set(err, ERR_CORRUPT, "%llu tasks were lost (seed %llu)",
                           (unsigned long long)out->lost, (unsigned long long)options->seed);
    }
    close_sim(&sim);
    return sim.code;
}
