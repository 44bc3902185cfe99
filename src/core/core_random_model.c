/* core_random_model.c - agents, and the plainest model of what the facts mean. */
#include "core/core_random.h"

#include <string.h>

const char *const label_names[] = {"zone=a", "fast", "node=3"};

uint64_t below(struct cluster *cluster, uint64_t limit)
{
    return rng_below(&cluster->rng, limit);
}

struct model_task *task_of(struct cluster *cluster, uint32_t workflow, uint32_t experiment,
                           uint64_t task)
{
    CHECK(workflow >= 1 && workflow <= cluster->wanted);
    CHECK(experiment < cluster->experiment_count[workflow - 1]);
    CHECK(task < cluster->specs[workflow - 1][experiment].task_count);
    return &cluster->tasks[workflow - 1][experiment][task];
}

/* --- facts and effects -------------------------------------------------------------------------
 */

static void end_in_model(struct cluster *cluster, const struct fact *fact)
{
    struct model_task *task = task_of(cluster, fact->workflow, fact->experiment, fact->task);
    CHECK(task->live);
    CHECK(task->attempt == fact->attempt);
    task->live = false;
}

static void check_fact(struct cluster *cluster, const struct fact *fact)
{
    switch (fact->kind) {
    case FACT_ASSIGNED: {
        struct model_task *task = task_of(cluster, fact->workflow, fact->experiment, fact->task);
        CHECK(!task->live); /* never twice at once */
        CHECK(!task->stopped);
        CHECK(!cluster->specs[fact->workflow - 1][fact->experiment].searched ||
              fact->task < cluster->suggested[fact->workflow - 1][fact->experiment]);
        CHECK(task->accepted == 0);
        task->live = true;
        task->attempt = fact->attempt;
        task->term = fact->term;
        task->node = fact->node;
        break;
    }
    case FACT_ACCEPTED:
        end_in_model(cluster, fact);
        CHECK(++task_of(cluster, fact->workflow, fact->experiment, fact->task)->accepted == 1);
        break;
    case FACT_FAILED:
    case FACT_LOST:
        end_in_model(cluster, fact);
        break;
    case FACT_TASK_CANCELLED:
        task_of(cluster, fact->workflow, fact->experiment, fact->task)->live = false;
        break;
    case FACT_SKIPPED:
    case FACT_CANCELLED:
        for (uint64_t t = 0; t < cluster->specs[fact->workflow - 1][fact->experiment].task_count;
             t++) {
            task_of(cluster, fact->workflow, fact->experiment, t)->live = false;
        }
        break;
    case FACT_SUGGESTED:
        CHECK(!cluster->closed[fact->workflow - 1][fact->experiment]);
        CHECK(fact->task > cluster->suggested[fact->workflow - 1][fact->experiment]);
        cluster->suggested[fact->workflow - 1][fact->experiment] = fact->task;
        break;
    case FACT_CLOSED:
        CHECK(!cluster->closed[fact->workflow - 1][fact->experiment]);
        cluster->closed[fact->workflow - 1][fact->experiment] = true;
        break;
    case FACT_STOPPED:
        end_in_model(cluster, fact);
        task_of(cluster, fact->workflow, fact->experiment, fact->task)->stopped = true;
        break;
    case FACT_RETRIED:
        CHECK(task_of(cluster, fact->workflow, fact->experiment, fact->task)->accepted == 0);
        break;
    case FACT_TERM:
    case FACT_SUBMITTED:
    case FACT_ENDED:
    case FACT_REOPENED:
    case FACT_KIND_COUNT:
        break;
    }
}

static struct held *find_held(struct agent *agent, const struct core_attempt *id)
{
    for (size_t i = 0; i < agent->held_count; i++) {
        if (memcmp(&agent->held[i].id, id, sizeof *id) == 0) {
            return &agent->held[i];
        }
    }
    return NULL;
}

static size_t label_index(const char *name)
{
    size_t label = 0;
    while (label < LABELS && strcmp(label_names[label], name) != 0) {
        label++;
    }
    CHECK(label < LABELS);
    return label;
}

static void check_start(const struct cluster *cluster, const struct core_effect *effect)
{
    const struct agent *agent = &cluster->agents[effect->node];
    const struct core_experiment_spec *spec =
        &cluster->specs[effect->id.workflow - 1][effect->id.experiment];
    CHECK(agent->joined);
    CHECK(!agent->suspect);
    CHECK(agent->drain == CORE_DRAIN_OFF);
    CHECK(agent->cpu_milli >= spec->needs.cpu_milli);
    for (size_t i = 0; i < spec->labels.count; i++) {
        CHECK(agent->labels >> label_index(spec->labels.items[i]) & 1);
    }
}

/* No node may ever throw away what was accepted from it. */
static void check_refusal(struct cluster *cluster, const struct core_effect *effect)
{
    const struct core_attempt *id = &effect->id;
    if (id->workflow < 1 || id->workflow > cluster->wanted ||
        id->experiment >= cluster->experiment_count[id->workflow - 1] ||
        id->task >= cluster->specs[id->workflow - 1][id->experiment].task_count) {
        return;
    }
    const struct model_task *task = task_of(cluster, id->workflow, id->experiment, id->task);
    CHECK(task->accepted == 0 || task->attempt != id->attempt || task->term != id->term ||
          task->node != effect->node);
}

static void deliver(struct cluster *cluster, const struct core_effect *effect)
{
    struct agent *agent = &cluster->agents[effect->node];
    if (effect->kind == EFFECT_KILL || (effect->kind == EFFECT_SETTLED && !effect->accepted)) {
        check_refusal(cluster, effect);
    }
    if (effect->kind == EFFECT_START) {
        check_start(cluster, effect);
        VEC_PUSH(cluster->stale, cluster->stale_count, cluster->stale_cap) = effect->id;
    }
    if (agent->cut || !agent->joined || (!cluster->calm && below(cluster, 40) == 0)) {
        return; /* lost on the way; a Hello will tell */
    }
    struct held *held = find_held(agent, &effect->id);
    switch (effect->kind) {
    case EFFECT_START:
        CHECK(!held);
        VEC_PUSH(agent->held, agent->held_count, agent->held_cap) = (struct held){.id = effect->id};
        break;
    case EFFECT_KILL:
        if (held) {
            held->killed = true;
        }
        break;
    case EFFECT_SETTLED:
        if (held) {
            *held = agent->held[--agent->held_count];
        }
        break;
    case EFFECT_TASK:
    case EFFECT_EXPERIMENT:
    case EFFECT_WORKFLOW:
        break;
    }
}

void carry_out_up_to(struct cluster *cluster, size_t facts)
{
    uint64_t durable = core_last_fact(cluster->core) - (cluster->out.fact_count - facts);
    for (size_t i = 0; i < facts; i++) {
        uint8_t bytes[FACT_BYTES_MAX];
        str_add_bytes(&cluster->log, bytes, fact_encode(&cluster->out.facts[i], bytes));
        check_fact(cluster, &cluster->out.facts[i]);
    }
    for (size_t i = 0; i < cluster->out.effect_count; i++) {
        const struct core_effect *effect = &cluster->out.effects[i];
        bool to_node = effect->kind == EFFECT_START || effect->kind == EFFECT_KILL ||
                       effect->kind == EFFECT_SETTLED;
        if (to_node && effect->after <= durable && effect->node < NODES) {
            deliver(cluster, effect);
        }
    }
    core_out_clear(&cluster->out);
}

void carry_out(struct cluster *cluster)
{
    carry_out_up_to(cluster, cluster->out.fact_count);
}

/* --- agents ------------------------------------------------------------------------------------
 */

struct core_result random_result(struct cluster *cluster)
{
    static const enum core_outcome outcomes[] = {
        OUT_EXITED,  OUT_EXITED, OUT_EXITED,        OUT_EXITED,    OUT_SIGNALLED,
        OUT_TIMEOUT, OUT_KILLED, OUT_OUT_OF_MEMORY, OUT_SLOT_LOST, OUT_EXITED};
    size_t choice = below(cluster, cluster->calm ? 5 : sizeof outcomes / sizeof outcomes[0]);
    return (struct core_result){.outcome = outcomes[choice],
                                .code = choice < 4 ? 0 : 1,
                                .has_output = below(cluster, 2),
                                .started_ms = cluster->now_ms,
                                .duration_us = (int64_t)below(cluster, 100000)};
}

/* Says that an attempt has ended; the report may be lost. What is live counts, and nothing else. */
static void report(struct cluster *cluster, uint32_t node, const struct held *held)
{
    if (cluster->agents[node].cut || !cluster->agents[node].joined ||
        (!cluster->calm && below(cluster, 20) == 0)) {
        return;
    }
    struct held copy = *held;
    struct model_task *task = task_of(cluster, copy.id.workflow, copy.id.experiment, copy.id.task);
    bool counts = task->live && task->attempt == copy.id.attempt && task->term == copy.id.term &&
                  task->node == node;
    size_t before = cluster->out.fact_count;
    core_task_ended(cluster->core, node, &copy.id, &copy.result, cluster->now_ms, &cluster->out);
    bool settled = false;
    for (size_t i = before; i < cluster->out.fact_count; i++) {
        const struct fact *fact = &cluster->out.facts[i];
        settled =
            settled || (fact->workflow == copy.id.workflow &&
                        fact->experiment == copy.id.experiment && fact->task == copy.id.task &&
                        fact->attempt == copy.id.attempt && fact->kind != FACT_ASSIGNED);
    }
    CHECK(settled == counts);
}

void step_end_one(struct cluster *cluster)
{
    uint32_t node = (uint32_t)below(cluster, NODES);
    struct agent *agent = &cluster->agents[node];
    if (agent->held_count == 0) {
        return;
    }
    struct held *held = &agent->held[below(cluster, agent->held_count)];
    if (!held->ended && !held->killed && below(cluster, 3) == 0) {
        core_task_running(cluster->core, &held->id, cluster->now_ms, cluster->now_ms);
        return;
    }
    if (!held->ended) {
        held->ended = true;
        held->result = random_result(cluster);
        held->result.outcome =
            held->killed && below(cluster, 4) ? OUT_KILLED : held->result.outcome;
    }
    report(cluster, node, held);
}

static void suggest_some(struct cluster *cluster, uint32_t w, uint32_t e)
{
    const struct core_experiment_spec *spec = &cluster->specs[w - 1][e];
    uint64_t gang = spec->gang > 1 ? spec->gang : 1;
    uint64_t count = gang * below(cluster, 4) + (below(cluster, 8) == 0);
    struct core_experiment_view view;
    core_experiment_view(cluster->core, w, e, &view);
    bool possible = spec->searched && count > 0 && count % gang == 0 && !view.closed &&
                    !view.ended && view.tasks + count <= spec->task_count &&
                    core_workflow_state(cluster->core, w) == WORKFLOW_RUNNING;
    CHECK(core_suggest(cluster->core, w, e, count, cluster->now_ms, &cluster->out) == possible);
}

void step_search(struct cluster *cluster)
{
    uint32_t w = (uint32_t)(1 + below(cluster, cluster->defined));
    uint32_t e = (uint32_t)below(cluster, cluster->experiment_count[w - 1]);
    const struct core_experiment_spec *spec = &cluster->specs[w - 1][e];
    uint64_t t = below(cluster, spec->task_count);
    uint64_t choice = below(cluster, cluster->calm ? 5 : 16);
    if (choice == 0) {
        struct core_experiment_view view;
        core_experiment_view(cluster->core, w, e, &view);
        bool possible = !view.closed && !view.ended;
        CHECK(core_close(cluster->core, w, e, cluster->now_ms, &cluster->out) == possible);
    } else if (choice < 4) {
        bool live = spec->searched && task_of(cluster, w, e, t)->live;
        if (spec->searched) {
            CHECK(core_stop_task(cluster->core, w, e, t, cluster->now_ms, &cluster->out) == live);
        }
    } else {
        suggest_some(cluster, w, e);
    }
}

static void core_join(struct cluster *cluster, uint32_t node)
{
    struct agent *agent = &cluster->agents[node];
    struct core_attempt held[256];
    const char *labels[LABELS];
    size_t count = 0;
    size_t label_count = 0;
    for (size_t i = 0; i < agent->held_count && count < 200; i++) {
        held[count++] = agent->held[i].id;
    }
    while (!cluster->calm && below(cluster, 4) == 0) { /* lies, and double talk */
        held[count++] = (struct core_attempt){.workflow = (uint32_t)below(cluster, 5),
                                              .experiment = (uint32_t)below(cluster, 5),
                                              .task = below(cluster, 30),
                                              .attempt = (uint32_t)below(cluster, 3),
                                              .term = (uint32_t)below(cluster, 3)};
        if (cluster->stale_count > 0 && below(cluster, 2)) {
            held[count - 1] = cluster->stale[below(cluster, cluster->stale_count)];
        }
        if (find_held(agent, &held[count - 1])) {
            continue; /* true after all, and said twice */
        }
        const struct core_attempt *lie = &held[count - 1];
        bool in_range = lie->workflow >= 1 && lie->workflow <= cluster->wanted &&
                        lie->experiment < cluster->experiment_count[lie->workflow - 1] &&
                        lie->task < cluster->specs[lie->workflow - 1][lie->experiment].task_count;
        if (in_range && task_of(cluster, lie->workflow, lie->experiment, lie->task)->live &&
            task_of(cluster, lie->workflow, lie->experiment, lie->task)->node == node) {
            count--; /* claiming what it was given and has not: only the lease could tell */
        }
    }
    for (uint32_t l = 0; l < LABELS; l++) {
        if (agent->labels >> l & 1) {
            labels[label_count++] = label_names[l];
        }
    }
    struct core_node_spec spec = {
        .capacity = {.cpu_milli = agent->cpu_milli, .memory_bytes = 1, .disk_bytes = 1},
        .labels = {.items = labels, .count = label_count},
        .held = held,
        .held_count = count,
        .fresh = agent->fresh};
    agent->joined = true;
    agent->fresh = false;
    agent->cut = false;
    agent->suspect = false;
    agent->heard_ms = cluster->now_ms;
    core_node_join(cluster->core, node, &spec, cluster->now_ms, &cluster->out);
}

void join(struct cluster *cluster, uint32_t node)
{
    struct agent *agent = &cluster->agents[node];
    if (agent->fresh) {
        agent->labels = cluster->calm && node == 0 ? 7 : (uint32_t)below(cluster, 8);
        agent->cpu_milli = (uint32_t)(2000 + 500 * below(cluster, 4));
    }
    if (cluster->calm && node == 0) {
        agent->labels = 7;
        agent->cpu_milli = 16000; /* whatever is asked for fits here */
    }
    core_join(cluster, node);
    carry_out(cluster);
    size_t count = agent->held_count;
    for (size_t i = 0; i < count && i < agent->held_count; i++) {
        if (agent->held[i].ended) {
            report(cluster, node, &agent->held[i]);
            carry_out(cluster);
        }
    }
}

static void forget_some(struct cluster *cluster, struct agent *agent, uint64_t one_in)
{
    size_t kept = 0;
    for (size_t i = 0; i < agent->held_count; i++) {
        if (below(cluster, one_in) != 0) {
            agent->held[kept++] = agent->held[i];
        }
    }
    agent->held_count = kept;
}

void step_node(struct cluster *cluster)
{
    uint32_t node = (uint32_t)below(cluster, NODES);
    struct agent *agent = &cluster->agents[node];
    switch (below(cluster, 8)) {
    case 0: /* the cable is cut */
        agent->cut = agent->joined;
        break;
    case 1: /* it dies, and is started again */
        agent->held_count = 0;
        agent->fresh = true;
        agent->cut = true;
        break;
    case 2: /* the master is told */
        if (agent->joined && below(cluster, 2)) {
            agent->held_count = 0;
            agent->fresh = true;
            agent->cut = true;
            agent->joined = false;
            agent->suspect = false;
            core_node_lost(cluster->core, node, below(cluster, 2), cluster->now_ms, &cluster->out);
        }
        break;
    case 3:
        if (below(cluster, 3) == 0) {
            forget_some(cluster, agent, 3);
            agent->cut = true; /* what lost it also makes it say Hello */
        }
        break;
    case 4: {
        enum core_drain drain = below(cluster, 3)   ? CORE_DRAIN_OFF
                                : below(cluster, 2) ? CORE_DRAIN_SOFT
                                                    : CORE_DRAIN_HARD;
        agent->drain = drain;
        core_node_drain(cluster->core, node, drain, cluster->now_ms, &cluster->out);
        break;
    }
    default:
        if (agent->cut || !agent->joined || below(cluster, 8) == 0) {
            join(cluster, node);
        }
    }
}

static void step_heartbeat(struct cluster *cluster, uint32_t node)
{
    struct agent *agent = &cluster->agents[node];
    if (agent->joined && !agent->cut) {
        agent->heard_ms = cluster->now_ms;
        agent->suspect = false;
        core_node_heard(cluster->core, node, cluster->now_ms, &cluster->out);
        carry_out(cluster);
    }
}

void step_time(struct cluster *cluster)
{
    cluster->now_ms += (int64_t)below(cluster, 2000);
    for (uint32_t n = 0; n < NODES; n++) {
        if (cluster->calm || below(cluster, 4)) {
            step_heartbeat(cluster, n);
        }
    }
    for (uint32_t n = 0; n < NODES; n++) {
        struct agent *agent = &cluster->agents[n];
        agent->suspect =
            agent->suspect || (agent->joined && agent->heard_ms + LEASE_MS <= cluster->now_ms);
    }
    core_tick(cluster->core, cluster->now_ms, &cluster->out);
    CHECK(core_next_due_ms(cluster->core) > cluster->now_ms);
}
