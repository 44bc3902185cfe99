#include "master/carry.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/outputs.h"
#include "master/place.h"
#include "recipe/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SNAPSHOT_LOG_BYTES = 4 << 20, /* at least this much log between snapshots */
    RUN_BYTES_MAX = 1 << 20,      /* of one task's command and environment */
    DETAIL_BYTES_MAX = 300,
    OVERSIZE_BYTES = 512 << 10,   /* more than a node takes */
    MESSAGE_BYTES_SOFT = 1 << 20, /* a message to the node is sent when it reaches this */
    SMALL_MAX = 16384,            /* kills and settlements in one */
};

static void make_token(const struct carrier *carrier, const char *name, char out[64])
{
    snprintf(out, 64, "%s%s%s", name, carrier->nonce, WIRE_TOKEN_BYTE);
}

void carrier_init(struct carrier *carrier)
{
    snprintf(carrier->nonce, sizeof carrier->nonce, "%016llx",
             (unsigned long long)rng_seed_from_system());
    make_token(carrier, WIRE_TOKEN_OUTPUT, carrier->output_token);
    make_token(carrier, WIRE_TOKEN_CHECKPOINT, carrier->checkpoint_token);
    make_token(carrier, WIRE_TOKEN_CODE, carrier->code_token);
    make_token(carrier, WIRE_TOKEN_OUTPUTS, carrier->outputs_token);
    make_token(carrier, WIRE_TOKEN_LOCAL, carrier->local_token);
    make_token(carrier, "", carrier->volume_end);
}

void carrier_release(struct carrier *carrier)
{
    for (size_t i = carrier->pending_head; i < carrier->pending_count; i++) {
        free(carrier->pending[i].detail);
    }
    for (size_t i = 0; i < carrier->bag_count; i++) {
        free(carrier->bags[i].runs);
        free(carrier->bags[i].kills);
        free(carrier->bags[i].settled);
    }
    free(carrier->bags);
    free(carrier->full);
    free(carrier->pending);
    free(carrier->missing);
    free(carrier->held);
    str_release(&carrier->facts);
    arena_release(&carrier->arena);
}

/* --- messages to the nodes ---------------------------------------------------------------------
 */

static const struct flow *flow_of(const struct carrier *carrier, const struct core_attempt *id)
{
    CHECK(id->workflow >= 1 && id->workflow <= carrier->session->flow_count);
    return carrier->session->flows[id->workflow - 1];
}

static struct mailbag *bag_of(struct carrier *carrier, uint32_t node)
{
    if (node >= carrier->bag_count) {
        size_t count = (size_t)node + 16;
        carrier->bags = mem_resize(carrier->bags, count, sizeof *carrier->bags);
        memset(carrier->bags + carrier->bag_count, 0,
               (count - carrier->bag_count) * sizeof *carrier->bags);
        carrier->bag_count = count;
    }
    struct mailbag *bag = &carrier->bags[node];
    if (!bag->is_listed) {
        bag->is_listed = true;
        VEC_PUSH(carrier->full, carrier->full_count, carrier->full_cap) = node;
    }
    return bag;
}

static Drover__Attempt *make_id(struct carrier *carrier, const struct core_attempt *id)
{
    Drover__Attempt *made = arena_alloc(&carrier->arena, sizeof *made);
    drover__attempt__init(made);
    made->workflow = id->workflow;
    made->experiment = id->experiment;
    made->task = id->task;
    made->attempt = id->attempt;
    made->term = id->term;
    return made;
}

static ProtobufCBinaryData as_bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static ProtobufCBinaryData *bytes_list(struct carrier *carrier, const char *const *texts,
                                       size_t count, size_t *bytes)
{
    ProtobufCBinaryData *list = arena_alloc(&carrier->arena, count * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = as_bytes(texts[i]);
        *bytes += list[i].len + 4;
    }
    return list;
}

static void add_secrets(struct carrier *carrier, const struct flow *flow,
                        const struct experiment *experiment, Drover__Run *run)
{
    run->n_secrets = experiment->secret_count;
    run->secrets = arena_alloc(&carrier->arena, run->n_secrets * sizeof(Drover__Secret *));
    for (size_t i = 0; i < experiment->secret_count; i++) {
        Drover__Secret *secret = arena_alloc(&carrier->arena, sizeof *secret);
        drover__secret__init(secret);
        struct str path = {0};
        flow_add_secret_path(flow, &experiment->secrets[i], &path);
        secret->name = (char *)experiment->secrets[i].name;
        secret->file = as_bytes(arena_strdup(&carrier->arena, str_text(&path)));
        str_release(&path);
        run->secrets[i] = secret;
    }
}

/* A task that no message can carry: its command is replaced by one that is just too large for the
 * node, which then says so of this task as it would of any other. */
static void oversize(Drover__Run *run)
{
    static char filler[OVERSIZE_BYTES + 1];
    static ProtobufCBinaryData arguments[2];
    memset(filler, 'x', OVERSIZE_BYTES);
    arguments[0] = as_bytes("/bin/true");
    arguments[1] = as_bytes(filler);
    run->n_argv = 2;
    run->argv = arguments;
    run->n_env = 0;
    run->n_outputs = 0;
}

static void make_plan(struct carrier *carrier, const struct flow *flow,
                      const struct core_attempt *id, struct plan_task *plan)
{
    const struct experiment *experiment = &flow->recipe->experiments[id->experiment];
    struct plan_context context = {
        .recipe = flow->recipe,
        .seed = flow->seed,
        .workflow = flow->id,
        .outputs_folder = carrier->outputs_token,
        .output = carrier->output_token,
        .report = carrier->local_token,
        .checkpoint = experiment->checkpoint ? carrier->checkpoint_token : NULL,
        .volume_before = WIRE_TOKEN_VOLUME,
        .volume_after = carrier->volume_end,
        .volume_folder = flow->volume_folder,
        .recipe_folder = flow->code[0] ? carrier->code_token : flow->recipe_folder,
        .given = flow->given,
        .given_owner = flow->given_owner};
    plan_task(&context, id->experiment, id->task, id->attempt, &carrier->arena, plan);
}

static void add_needs(const struct flow *flow, const struct experiment *experiment,
                      Drover__Run *run)
{
    run->cpu_milli = flow->ignore_hardware ? 1000 : experiment->hardware.cpu_milli;
    run->memory_bytes = flow->ignore_hardware ? 0 : experiment->hardware.memory_bytes;
    run->gpus = flow->ignore_hardware ? 0 : experiment->hardware.gpus;
}

/* What a run takes in a message besides its command and environment. */
static size_t other_bytes(const Drover__Run *run)
{
    enum { NUMBERS = 160 }; /* its id, limits, needs */
    size_t bytes = NUMBERS + run->root.len + run->workdir.len + strlen(run->experiment_name) +
                   strlen(run->workflow_id) + strlen(run->code) + strlen(run->nonce);
    for (size_t i = 0; i < run->n_secrets; i++) {
        bytes += strlen(run->secrets[i]->name) + run->secrets[i]->file.len + 8;
    }
    for (size_t i = 0; i < run->n_inputs; i++) {
        bytes += strlen(run->inputs[i]) + 4;
    }
    for (size_t i = 0; i < run->n_volumes; i++) {
        const Drover__Volume *volume = run->volumes[i];
        bytes += strlen(volume->name) + strlen(volume->store) + strlen(volume->snapshot) +
                 strlen(volume->endpoint) + strlen(volume->region) + 32;
    }
    return bytes;
}

static char *number_text(struct carrier *carrier, uint64_t number)
{
    AUTO_STR struct str text = {0};
    str_add_u64(&text, number);
    return arena_strndup(&carrier->arena, str_text(&text), text.size);
}

static void add_run(struct carrier *carrier, uint32_t node, const struct core_attempt *id)
{
    const struct flow *flow = flow_of(carrier, id);
    const struct experiment *experiment = &flow->recipe->experiments[id->experiment];
    struct plan_task plan = {0};
    make_plan(carrier, flow, id, &plan);
    size_t bytes = 0;
    Drover__Run *run = arena_alloc(&carrier->arena, sizeof *run);
    drover__run__init(run);
    run->id = make_id(carrier, id);
    run->experiment_name = (char *)experiment->name;
    run->workflow_id = flow->id;
    run->root = as_bytes(flow->folder);
    run->code = flow->code;
    run->n_argv = plan.argc;
    run->argv = bytes_list(carrier, (const char *const *)plan.argv, plan.argc, &bytes);
    run->n_env = plan.env_count;
    run->env = bytes_list(carrier, (const char *const *)plan.env, plan.env_count, &bytes);
    run->workdir = as_bytes(plan.workdir);
    run->n_outputs = plan.output_count;
    run->outputs = bytes_list(carrier, plan.outputs, plan.output_count, &bytes);
    run->inherit_env = experiment->inherit_env;
    add_secrets(carrier, flow, experiment, run);
    carry_add_volumes(carrier, flow, experiment, run);
    add_needs(flow, experiment, run);
    run->timeout_ms = experiment->timeout_ms;
    run->grace_ms = experiment->grace_ms;
    run->log_limit_bytes = experiment->log_limit_bytes;
    run->checkpoint = experiment->checkpoint;
    if (experiment->checkpoint && plan.is_trial) {
        run->checkpoint_name = number_text(carrier, plan.checkpoint);
    }
    run->nonce = carrier->nonce;
    run->message_only = carrier->message_only;
    if (bytes > RUN_BYTES_MAX) {
        oversize(run);
        bytes = OVERSIZE_BYTES;
    }
    struct mailbag *bag = bag_of(carrier, node);
    VEC_PUSH(bag->runs, bag->run_count, bag->run_cap) = run;
    bag->run_bytes += bytes + other_bytes(run);
}

static void send_bag(struct carrier *carrier, uint32_t node)
{
    struct mailbag *bag = &carrier->bags[node];
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.n_run = bag->run_count;
    message.run = bag->runs;
    message.n_kill = bag->kill_count;
    message.kill = bag->kills;
    message.n_settled = bag->settled_count;
    message.settled = bag->settled;
    if (bag->run_count + bag->kill_count + bag->settled_count > 0) {
        carrier->ops->send(carrier->context, node, &message);
    }
    bag->run_count = 0;
    bag->run_bytes = 0;
    bag->kill_count = 0;
    bag->settled_count = 0;
}

/* Kills and settlements are small; so many of them are a message of their own. */
static void send_when_long(struct carrier *carrier, uint32_t node)
{
    const struct mailbag *bag = &carrier->bags[node];
    if (bag->kill_count + bag->settled_count >= SMALL_MAX) {
        send_bag(carrier, node);
    }
}

static void add_kill(struct carrier *carrier, uint32_t node, const struct core_attempt *id)
{
    Drover__Kill *kill = arena_alloc(&carrier->arena, sizeof *kill);
    drover__kill__init(kill);
    kill->id = make_id(carrier, id);
    /* a node may hold what no workflow of ours knows */
    if (id->workflow >= 1 && id->workflow <= carrier->session->flow_count &&
        id->experiment < flow_of(carrier, id)->recipe->experiment_count) {
        kill->grace_ms = flow_of(carrier, id)->recipe->experiments[id->experiment].grace_ms;
    }
    struct mailbag *bag = bag_of(carrier, node);
    VEC_PUSH(bag->kills, bag->kill_count, bag->kill_cap) = kill;
    send_when_long(carrier, node);
}

static void add_settled(struct carrier *carrier, const struct core_effect *effect)
{
    Drover__Settled *settled = arena_alloc(&carrier->arena, sizeof *settled);
    drover__settled__init(settled);
    settled->id = make_id(carrier, &effect->id);
    settled->accepted = effect->accepted;
    struct mailbag *bag = bag_of(carrier, effect->node);
    VEC_PUSH(bag->settled, bag->settled_count, bag->settled_cap) = settled;
    send_when_long(carrier, effect->node);
}

void carry_send(struct carrier *carrier, uint32_t node)
{
    if (node < carrier->bag_count) {
        send_bag(carrier, node);
    }
}

static void send_all(struct carrier *carrier)
{
    for (size_t i = 0; i < carrier->full_count; i++) {
        send_bag(carrier, carrier->full[i]);
        carrier->bags[carrier->full[i]].is_listed = false;
    }
    carrier->full_count = 0;
    arena_reset(&carrier->arena);
}

/* While a start waited for the log or for a link its node may have come back without the attempt,
 * which was lost then: nobody would tell the node to end it. One that was only cancelled is sent
 * all the same, with the kill behind it, because its end is waited for. */
static void start(struct carrier *carrier, const struct core_effect *effect)
{
    const struct core_attempt *id = &effect->id;
    if (!core_node_has(carrier->core, effect->node, id)) {
        return;
    }
    add_run(carrier, effect->node, id);
    if (carrier->bags[effect->node].run_bytes > MESSAGE_BYTES_SOFT) {
        send_bag(carrier, effect->node);
    }
}

/* --- facts -------------------------------------------------------------------------------------
 */

static void add_fact(struct carrier *carrier, const struct fact *fact)
{
    uint8_t bytes[FACT_BYTES_MAX];
    str_add_bytes(&carrier->facts, bytes, fact_encode(fact, bytes));
    carrier->fact_count++;
    if (fact->kind == FACT_LOST) {
        carrier->ops->lost(carrier->context, fact);
    }
    if (fact->kind == FACT_ACCEPTED && (fact->flags & FACT_HAS_OUTPUT)) {
        /* at once, not when durable: what depends on it may start now. A link that a crash leaves
         * without its fact is put right when the run is resumed. */
        VEC_PUSH(carrier->missing, carrier->missing_count, carrier->missing_cap) =
            (struct missing_link){.workflow = fact->workflow,
                                  .experiment = fact->experiment,
                                  .attempt = fact->attempt,
                                  .task = fact->task};
        carry_links(carrier, NULL);
    }
}

bool carry_links(struct carrier *carrier, struct err *err)
{
    while (carrier->missing_count > 0) {
        const struct missing_link *link = &carrier->missing[carrier->missing_count - 1];
        const struct flow *flow = carrier->session->flows[link->workflow - 1];
        const char *name = flow->recipe->experiments[link->experiment].name;
        if (outputs_link(flow->folder, name, link->task, link->attempt, err) != ERR_OK) {
            return false;
        }
        carrier->missing_count--;
    }
    for (size_t i = 0; i < carrier->held_count; i++) {
        if (carrier->held[i].kind == EFFECT_START) {
            start(carrier, &carrier->held[i]);
        } else {
            add_kill(carrier, carrier->held[i].node, &carrier->held[i].id);
        }
    }
    carrier->held_count = 0;
    return true;
}

static void post_snapshot_when_due(struct carrier *carrier)
{
    size_t due =
        carrier->snapshot_bytes > SNAPSHOT_LOG_BYTES ? carrier->snapshot_bytes : SNAPSHOT_LOG_BYTES;
    if (carrier->log_bytes < due) {
        return;
    }
    struct str snapshot = {0};
    core_snapshot_write(carrier->core, &snapshot);
    keeper_post_snapshot(carrier->keeper, carrier->posted, str_text(&snapshot), snapshot.size);
    carrier->snapshot_bytes = snapshot.size;
    carrier->log_bytes = 0;
    str_release(&snapshot);
}

void carry_flush(struct carrier *carrier)
{
    if (carrier->fact_count > 0) {
        keeper_post(carrier->keeper, carrier->posted + 1, carrier->fact_count,
                    str_text(&carrier->facts), carrier->facts.size);
        carrier->posted += carrier->fact_count;
        carrier->log_bytes += carrier->facts.size;
        carrier->fact_count = 0;
        str_clear(&carrier->facts);
        post_snapshot_when_due(carrier);
    }
    send_all(carrier);
}

/* --- effects -----------------------------------------------------------------------------------
 */

/* Why an attempt could not start, or which output is missing, is worth keeping: it goes where the
 * user will look for it. Best effort; the result stands without it. */
static void note_in_log(struct carrier *carrier, const struct core_effect *effect,
                        const char *detail)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    const struct flow *flow = flow_of(carrier, &effect->id);
    place_add_log(&path, flow->folder, flow->recipe->experiments[effect->id.experiment].name,
                  effect->id.task, effect->id.attempt);
    str_addf(&text, "drover: %s\n", detail);
    enum { HOW = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC };
    AUTO_CLOSE int fd = open(str_text(&path), HOW, 0666);
    if (fd < 0 && errno == ENOENT) { /* nothing of its thousand has started yet */
        AUTO_FREE char *folder =
            mem_strndup(path.text, (size_t)(strrchr(path.text, '/') - path.text));
        (void)!io_make_dirs(folder, NULL);
        fd = open(str_text(&path), HOW, 0666);
    }
    if (fd >= 0) {
        (void)!io_write_all(fd, str_text(&text), text.size, NULL);
    }
}

static void describe(struct carrier *carrier, const struct core_effect *effect,
                     const Drover__Ended *report, struct pending *out)
{
    struct core_task_view view;
    core_task_view(carrier->core, effect->id.workflow, effect->id.experiment, effect->id.task,
                   &view);
    out->event = (struct master_task_event){.workflow = effect->id.workflow,
                                            .experiment = effect->id.experiment,
                                            .task = effect->id.task,
                                            .attempt = effect->id.attempt,
                                            .state = view.state,
                                            .outcome = view.outcome,
                                            .code = view.code,
                                            .started_ms = view.started_ms,
                                            .duration_us = view.duration_ms * 1000,
                                            .final = view.state >= TASK_SUCCEEDED};
    if (report) {
        out->event.outcome = (enum core_outcome)report->outcome;
        out->event.code = report->code;
        out->event.started_ms = report->started_unix_ms;
        out->event.duration_us = report->duration_us;
        out->event.cpu_us = report->cpu_us;
        out->event.peak_rss_bytes = report->peak_rss_bytes;
        const char *detail = report->detail ? report->detail : "";
        if (carrier->owners && report->outcome == DROVER__OUTCOME__OUTCOME_NOT_STARTED) {
            detail = owners_explain(carrier->owners, detail);
        }
        size_t size = strnlen(detail, DETAIL_BYTES_MAX);
        out->detail = size > 0 ? mem_strndup(detail, size) : NULL;
        for (char *at = out->detail; at && *at; at++) { /* it goes to terminals */
            *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
        }
        if (out->detail) {
            note_in_log(carrier, effect, out->detail);
        }
    }
}

static void perform(struct carrier *carrier, struct pending *item)
{
    const struct core_effect *effect = &item->effect;
    switch (effect->kind) {
    case EFFECT_START:
        if (carrier->missing_count > 0) {
            VEC_PUSH(carrier->held, carrier->held_count, carrier->held_cap) = *effect;
            break;
        }
        start(carrier, effect);
        break;
    case EFFECT_KILL:
        if (carrier->held_count > 0) { /* not before the start it may be about */
            VEC_PUSH(carrier->held, carrier->held_count, carrier->held_cap) = *effect;
            break;
        }
        add_kill(carrier, effect->node, &effect->id);
        break;
    case EFFECT_SETTLED:
        add_settled(carrier, effect);
        break;
    case EFFECT_TASK:
        item->event.detail = item->detail ? item->detail : "";
        carrier->ops->task(carrier->context, effect->node, &item->event);
        break;
    case EFFECT_EXPERIMENT:
        carrier->ops->experiment(carrier->context, &effect->id, &item->experiment);
        break;
    case EFFECT_WORKFLOW:
        carrier->ops->workflow(carrier->context, effect->id.workflow);
        break;
    }
    free(item->detail);
    item->detail = NULL;
}

void carry_out(struct carrier *carrier, struct core_out *out, const Drover__Ended *report)
{
    for (size_t i = 0; i < out->fact_count; i++) {
        add_fact(carrier, &out->facts[i]);
    }
    for (size_t i = 0; i < out->effect_count; i++) {
        struct pending item = {.effect = out->effects[i]};
        if (item.effect.kind == EFFECT_TASK) {
            bool about = report && report->id->task == item.effect.id.task &&
                         report->id->experiment == item.effect.id.experiment &&
                         report->id->workflow == item.effect.id.workflow;
            describe(carrier, &item.effect, about ? report : NULL, &item);
        } else if (item.effect.kind == EFFECT_EXPERIMENT) {
            core_experiment_view(carrier->core, item.effect.id.workflow, item.effect.id.experiment,
                                 &item.experiment);
        }
        bool to_node = item.effect.kind == EFFECT_START || item.effect.kind == EFFECT_KILL;
        if (to_node && carrier->starts_wait) {
            item.effect.after = core_last_fact(carrier->core);
        }
        if (item.effect.after <= carrier->durable) {
            perform(carrier, &item);
        } else {
            VEC_PUSH(carrier->pending, carrier->pending_count, carrier->pending_cap) = item;
        }
    }
    core_out_clear(out);
}

void carry_durable(struct carrier *carrier, uint64_t durable)
{
    carrier->durable = durable;
    while (carrier->pending_head < carrier->pending_count &&
           carrier->pending[carrier->pending_head].effect.after <= durable) {
        perform(carrier, &carrier->pending[carrier->pending_head++]);
    }
    if (carrier->pending_head == carrier->pending_count) {
        carrier->pending_head = 0;
        carrier->pending_count = 0;
    } else if (carrier->pending_head > carrier->pending_count / 2) {
        size_t left = carrier->pending_count - carrier->pending_head;
        memmove(carrier->pending, carrier->pending + carrier->pending_head,
                left * sizeof *carrier->pending);
        carrier->pending_head = 0;
        carrier->pending_count = left;
    }
}
