#include "sim/sim.h"

#include "base/mem.h"
#include "sim/sim_state.h"

#include <stdlib.h>

enum { WORKFLOW = 1, PATIENCE_S = 120 };

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
    case FACT_TASK_CANCELLED:
    case FACT_RETRIED:
    case FACT_REOPENED:
    case FACT_SUGGESTED:
    case FACT_CLOSED:
    case FACT_STOPPED:
    case FACT_KIND_COUNT:
        break;
    }
}

void sim_carry_out(struct sim *sim)
{
    for (size_t i = 0; i < sim->out.fact_count; i++) {
        check_fact(sim, &sim->out.facts[i]);
    }
    size_t count = sim->out.effect_count;
    for (size_t i = 0; i < count; i++) {
        const struct core_effect *effect = &sim->out.effects[i];
        if (effect->kind == EFFECT_SETTLED && !effect->accepted && effect->after == 0) {
            sim->result->refused++;
        }
        if (effect->kind == EFFECT_START || effect->kind == EFFECT_KILL ||
            effect->kind == EFFECT_SETTLED) {
            sim_node_receive(sim, effect);
        }
    }
    CHECK(sim->out.effect_count == count); /* nodes answer later */
    core_out_clear(&sim->out);
}

/* --- events --------------------------------------------------------------------------------------
 */

static void on_report(struct sim *sim, const struct event *event)
{
    if (!sim->nodes[event->node].known) {
        return; /* this master asks who that is; a Hello will follow */
    }
    struct core_result result = {.outcome = event->killed ? OUT_KILLED : OUT_EXITED,
                                 .code = event->killed ? 9 : event->code,
                                 .started_ms = event->began_us / 1000,
                                 .duration_us = sim->now_us - event->began_us};
    core_task_ended(sim->core, event->node, &event->id, &result, sim_now_ms(sim), &sim->out);
}

/* Real nodes say something every second, each at its own time. Only the lapse matters, so all are
 * heard at once, often enough, and each again when it is struck. */
static void on_heartbeats(struct sim *sim, const struct event *event)
{
    for (uint32_t n = 0; n < sim->options->nodes; n++) {
        const struct sim_node *node = &sim->nodes[n];
        if (node->up && !node->cut && node->known) {
            core_node_heard(sim->core, n, sim_now_ms(sim), &sim->out);
        }
    }
    struct event next = *event;
    next.at_us = sim->now_us + us_of(sim->options->lease_s * 0.75);
    queue_push(&sim->queue, &next);
}

/* If they cannot, leases cost time and change nothing. */
static bool nodes_can_vanish(const struct sim_options *options)
{
    return options->lease_s > 0 &&
           (options->mtbf_s > 0 || options->net_loss > 0 || options->master_mtbf_s > 0);
}

static void begin_core(struct sim *sim, enum core_begin begin, const struct str *snapshot)
{
    sim->core = core_create();
    core_define(sim->core, WORKFLOW, sim->options->spec);
    core_set_lease(sim->core,
                   nodes_can_vanish(sim->options) ? (int64_t)(sim->options->lease_s * 1000) : 0);
    if (snapshot) {
        struct err err = {0};
        if (core_snapshot_read(sim->core, str_text(snapshot), snapshot->size, &err) != ERR_OK) {
            sim->code = err_set(sim->err, ERR_CORRUPT, "after a restart: %s", err.text);
        }
    }
    core_begin_term(sim->core, begin, sim_now_ms(sim), &sim->out);
    sim_carry_out(sim);
}

static void schedule_master(struct sim *sim)
{
    if (sim->options->master_mtbf_s > 0) {
        double life_s = sim_draw_exponential(sim, sim->options->master_mtbf_s);
        queue_push(&sim->queue, &(struct event){.at_us = sim->now_us + us_of(life_s),
                                                .kind = EVENT_MASTER_DIES,
                                                .life = EVENT_ANY_LIFE});
    }
}

/* Tasks go on; every node that can be heard says Hello to the new master. */
static void on_master_dies(struct sim *sim)
{
    struct str snapshot = {0};
    core_snapshot_write(sim->core, &snapshot);
    core_destroy(sim->core);
    begin_core(sim, CORE_NODES_AWAY, &snapshot);
    str_release(&snapshot);
    for (uint32_t n = 0; n < sim->options->nodes; n++) {
        sim->nodes[n].known = false;
        sim_node_hello_soon(sim, n);
    }
    sim->result->master_losses++;
    schedule_master(sim);
}

static void handle(struct sim *sim, const struct event *event)
{
    if (event->life != EVENT_ANY_LIFE && event->life != sim->nodes[event->node].life) {
        return;
    }
    switch (event->kind) {
    case EVENT_TASK_ENDS:
        sim_node_task_ends(sim, event);
        break;
    case EVENT_REPORT:
        on_report(sim, event);
        break;
    case EVENT_STRIKES:
        sim_node_strikes(sim, event);
        break;
    case EVENT_MENDED:
        sim_node_mended(sim, event->node);
        break;
    case EVENT_HELLO:
        sim_node_hello(sim, event->node);
        break;
    case EVENT_BOOTS:
        sim_node_boot(sim, event->node);
        break;
    case EVENT_HEARTBEATS:
        on_heartbeats(sim, event);
        break;
    case EVENT_MASTER_DIES:
        on_master_dies(sim);
        break;
    case EVENT_TICK:
        core_tick(sim->core, sim_now_ms(sim), &sim->out);
        break;
    }
}

/* The next event, or a tick if the core has something to do before it. False: nothing is left to
 * happen. */
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
        *event = (struct event){.kind = EVENT_TICK, .life = EVENT_ANY_LIFE};
        return true;
    }
    queue_pop(&sim->queue, event);
    sim->now_us = event->at_us;
    return true;
}

/* Whether nothing has happened for longer than any retry waits, and nothing is planned. */
static bool is_stuck(struct sim *sim, const struct event *event)
{
    if (event->kind != EVENT_HEARTBEATS && event->kind != EVENT_TICK) {
        sim->busy_at_us = sim->now_us;
    }
    return sim->queue.count == 0 && sim->now_us - sim->busy_at_us > sim->patience_us;
}

static uint64_t at_once(uint64_t gang)
{
    return gang > 1 ? gang : 1;
}

/* Searches go on: a new trial for each that ended. */
static void suggest(struct sim *sim)
{
    const struct core_workflow_spec *spec = sim->options->spec;
    for (uint32_t e = 0; e < spec->experiment_count; e++) {
        struct core_experiment_view view;
        if (!spec->experiments[e].searched) {
            continue;
        }
        core_experiment_view(sim->core, WORKFLOW, e, &view);
        if (!view.ready || view.ended || view.closed) {
            continue;
        }
        const struct sim_search *search = &sim->options->searches[e];
        uint64_t gang = at_once(spec->experiments[e].gang);
        uint64_t active = view.tasks - view.succeeded - view.failed - view.cancelled - view.skipped;
        uint64_t most = search->parallel > 0 ? search->parallel * gang : UINT64_MAX;
        uint64_t left = search->trials * gang - view.tasks;
        uint64_t more = most > active ? (most - active) / gang * gang : 0;
        more = more < left ? more : left;
        if (more > 0) {
            CHECK(core_suggest(sim->core, WORKFLOW, e, more, sim_now_ms(sim), &sim->out));
        }
        if (more == left) {
            CHECK(core_close(sim->core, WORKFLOW, e, sim_now_ms(sim), &sim->out));
        }
    }
}

static void play(struct sim *sim)
{
    const struct sim_options *options = sim->options;
    while (!sim->ended && sim->code == ERR_OK) {
        struct event event;
        if (!advance_time(sim, &event) || is_stuck(sim, &event)) {
            sim->code = err_set(sim->err, ERR_TIMEOUT, "stuck: nothing can happen any more");
            return;
        }
        if (options->limit_s > 0 && (double)sim->now_us / 1e6 > options->limit_s) {
            sim->code = err_set(sim->err, ERR_TIMEOUT, "not done after %.0f simulated seconds",
                                options->limit_s);
            return;
        }
        handle(sim, &event);
        sim_carry_out(sim);
        suggest(sim);
        sim_carry_out(sim);
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
    sim->patience_us = us_of(PATIENCE_S + sim->options->lease_s);
    sim->nodes = mem_array(sim->options->nodes, sizeof *sim->nodes);
    sim->accepted = mem_array(spec->experiment_count, sizeof *sim->accepted);
    sim->last_assigned = mem_array(spec->experiment_count, sizeof *sim->last_assigned);
    for (size_t e = 0; e < spec->experiment_count; e++) {
        sim->accepted[e] = mem_array(spec->experiments[e].task_count, sizeof **sim->accepted);
        sim->last_assigned[e] =
            mem_array(spec->experiments[e].task_count, sizeof **sim->last_assigned);
        sim->result->tasks += spec->experiments[e].searched ? sim->options->searches[e].trials *
                                                                  at_once(spec->experiments[e].gang)
                                                            : spec->experiments[e].task_count;
        int64_t backoff_us = spec->experiments[e].backoff_ms * 1000;
        sim->patience_us = backoff_us > sim->patience_us ? backoff_us : sim->patience_us;
    }
    begin_core(sim, CORE_NODES_GONE, NULL);
    core_submit(sim->core, WORKFLOW, sim_now_ms(sim), &sim->out);
    sim_carry_out(sim);
    suggest(sim);
    sim_carry_out(sim);
    for (uint32_t n = 0; n < sim->options->nodes; n++) {
        sim_node_boot(sim, n);
    }
    AUTO_STR struct str lack = {0};
    if (core_unmet_need(sim->core, WORKFLOW, &lack) >= 0) {
        sim->code = err_set(sim->err, ERR_TIMEOUT, "stuck: there is not %s", str_text(&lack));
    }
    if (nodes_can_vanish(sim->options)) {
        queue_push(&sim->queue, &(struct event){.kind = EVENT_HEARTBEATS, .life = EVENT_ANY_LIFE});
    }
    schedule_master(sim);
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
            sim_node_bill(sim, &sim->nodes[n]);
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
        sim_node_release(&sim->nodes[n]);
    }
    free(sim->accepted);
    free(sim->last_assigned);
    free(sim->nodes);
    free(sim->held);
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
