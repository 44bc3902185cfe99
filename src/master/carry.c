#include "master/carry.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/outputs.h"
#include "master/place.h"
#include "recipe/plan.h"

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
};

void carrier_init(struct carrier *carrier)
{
    snprintf(carrier->nonce, sizeof carrier->nonce, "%016llx",
             (unsigned long long)rng_seed_from_system());
    snprintf(carrier->output_token, sizeof carrier->output_token, "%s%s%s", WIRE_TOKEN_OUTPUT,
             carrier->nonce, WIRE_TOKEN_BYTE);
    snprintf(carrier->checkpoint_token, sizeof carrier->checkpoint_token, "%s%s%s",
             WIRE_TOKEN_CHECKPOINT, carrier->nonce, WIRE_TOKEN_BYTE);
}

void carrier_release(struct carrier *carrier)
{
    for (size_t i = carrier->pending_head; i < carrier->pending_count; i++) {
        free(carrier->pending[i].detail);
    }
    free(carrier->pending);
    free(carrier->runs);
    free(carrier->kills);
    free(carrier->settled);
    free(carrier->missing);
    free(carrier->held);
    str_release(&carrier->facts);
    arena_release(&carrier->arena);
}

/* --- messages to the node ----------------------------------------------------------------------
 */

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
                                       size_t count)
{
    ProtobufCBinaryData *list = arena_alloc(&carrier->arena, count * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = as_bytes(texts[i]);
        carrier->run_bytes += list[i].len + 4;
    }
    return list;
}

static void add_secrets(struct carrier *carrier, const struct experiment *experiment,
                        Drover__Run *run)
{
    run->n_secrets = experiment->secret_count;
    run->secrets = arena_alloc(&carrier->arena, run->n_secrets * sizeof(Drover__Secret *));
    for (size_t i = 0; i < experiment->secret_count; i++) {
        Drover__Secret *secret = arena_alloc(&carrier->arena, sizeof *secret);
        drover__secret__init(secret);
        struct str path = {0};
        session_add_secret_path(carrier->session, &experiment->secrets[i], &path);
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

static void add_run(struct carrier *carrier, const struct core_attempt *id)
{
    const struct session *session = carrier->session;
    const struct experiment *experiment = &session->recipe->experiments[id->experiment];
    struct str outputs = {0};
    str_addf(&outputs, "%s/outputs", session->folder);
    struct plan_context context = {.recipe = session->recipe,
                                   .seed = session->seed,
                                   .workflow = session->id,
                                   .outputs_folder = str_text(&outputs),
                                   .output = carrier->output_token,
                                   .checkpoint =
                                       experiment->checkpoint ? carrier->checkpoint_token : NULL,
                                   .recipe_folder = session->recipe_folder};
    struct plan_task plan = {0};
    size_t bytes_before = carrier->run_bytes;
    plan_task(&context, id->experiment, id->task, id->attempt, &carrier->arena, &plan);
    str_release(&outputs);

    Drover__Run *run = arena_alloc(&carrier->arena, sizeof *run);
    drover__run__init(run);
    run->id = make_id(carrier, id);
    run->experiment_name = (char *)experiment->name;
    run->n_argv = plan.argc;
    run->argv = bytes_list(carrier, (const char *const *)plan.argv, plan.argc);
    run->n_env = plan.env_count;
    run->env = bytes_list(carrier, (const char *const *)plan.env, plan.env_count);
    run->workdir = as_bytes(plan.workdir);
    run->n_outputs = plan.output_count;
    run->outputs = bytes_list(carrier, plan.outputs, plan.output_count);
    run->inherit_env = experiment->inherit_env;
    add_secrets(carrier, experiment, run);
    run->timeout_ms = experiment->timeout_ms;
    run->grace_ms = experiment->grace_ms;
    run->log_limit_bytes = experiment->log_limit_bytes;
    run->cpu_milli = session->ignore_hardware ? 1000 : experiment->hardware.cpu_milli;
    run->memory_bytes = session->ignore_hardware ? 0 : experiment->hardware.memory_bytes;
    run->gpus = session->ignore_hardware ? 0 : experiment->hardware.gpus;
    run->checkpoint = experiment->checkpoint;
    run->nonce = carrier->nonce;
    if (carrier->run_bytes - bytes_before > RUN_BYTES_MAX) {
        oversize(run);
    }
    VEC_PUSH(carrier->runs, carrier->run_count, carrier->run_cap) = run;
}

static void add_kill(struct carrier *carrier, const struct core_attempt *id)
{
    Drover__Kill *kill = arena_alloc(&carrier->arena, sizeof *kill);
    drover__kill__init(kill);
    kill->id = make_id(carrier, id);
    kill->grace_ms = carrier->session->recipe->experiments[id->experiment].grace_ms;
    VEC_PUSH(carrier->kills, carrier->kill_count, carrier->kill_cap) = kill;
}

static void add_settled(struct carrier *carrier, const struct core_effect *effect)
{
    Drover__Settled *settled = arena_alloc(&carrier->arena, sizeof *settled);
    drover__settled__init(settled);
    settled->id = make_id(carrier, &effect->id);
    settled->accepted = effect->accepted;
    VEC_PUSH(carrier->settled, carrier->settled_count, carrier->settled_cap) = settled;
}

static void send_to_node(struct carrier *carrier)
{
    if (carrier->run_count + carrier->kill_count + carrier->settled_count == 0) {
        return;
    }
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.n_run = carrier->run_count;
    message.run = carrier->runs;
    message.n_kill = carrier->kill_count;
    message.kill = carrier->kills;
    message.n_settled = carrier->settled_count;
    message.settled = carrier->settled;
    /* in one process the peer's queue has no limit and the size is bounded by the soft limit plus
     * one task, whose parts the recipe bounds */
    struct err err = {0};
    enum err_code code = wire_send_to_node(carrier->node_socket, &message, &err);
    CHECK(code == ERR_OK);
    carrier->run_count = 0;
    carrier->run_bytes = 0;
    carrier->kill_count = 0;
    carrier->settled_count = 0;
    arena_reset(&carrier->arena);
}

/* --- facts -------------------------------------------------------------------------------------
 */

static void add_fact(struct carrier *carrier, const struct fact *fact)
{
    uint8_t bytes[FACT_BYTES_MAX];
    str_add_bytes(&carrier->facts, bytes, fact_encode(fact, bytes));
    carrier->fact_count++;
    if (fact->kind == FACT_ACCEPTED && (fact->flags & FACT_HAS_OUTPUT)) {
        /* at once, not when durable: what depends on it may start now. A link that a crash leaves
         * without its fact is put right when the run is resumed. */
        VEC_PUSH(carrier->missing, carrier->missing_count, carrier->missing_cap) =
            (struct missing_link){
                .experiment = fact->experiment, .attempt = fact->attempt, .task = fact->task};
        carry_links(carrier, NULL);
    }
}

bool carry_links(struct carrier *carrier, struct err *err)
{
    while (carrier->missing_count > 0) {
        const struct missing_link *link = &carrier->missing[carrier->missing_count - 1];
        const char *name = carrier->session->recipe->experiments[link->experiment].name;
        if (outputs_link(carrier->session->folder, name, link->task, link->attempt, err) !=
            ERR_OK) {
            return false;
        }
        carrier->missing_count--;
    }
    for (size_t i = 0; i < carrier->held_count; i++) {
        if (carrier->held[i].kind == EFFECT_START) {
            add_run(carrier, &carrier->held[i].id);
        } else {
            add_kill(carrier, &carrier->held[i].id);
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
    send_to_node(carrier);
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
    place_add_log(&path, carrier->session->folder,
                  carrier->session->recipe->experiments[effect->id.experiment].name,
                  effect->id.task, effect->id.attempt);
    str_addf(&text, "drover: %s\n", detail);
    AUTO_CLOSE int fd =
        open(str_text(&path), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
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
    out->event = (struct master_task_event){.experiment = effect->id.experiment,
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
        size_t size = report->detail ? strnlen(report->detail, DETAIL_BYTES_MAX) : 0;
        out->detail = size > 0 ? mem_strndup(report->detail, size) : NULL;
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
        add_run(carrier, &effect->id);
        if (carrier->run_bytes > MESSAGE_BYTES_SOFT) {
            send_to_node(carrier);
        }
        break;
    case EFFECT_KILL:
        if (carrier->held_count > 0) { /* not before the start it may be about */
            VEC_PUSH(carrier->held, carrier->held_count, carrier->held_cap) = *effect;
            break;
        }
        add_kill(carrier, &effect->id);
        break;
    case EFFECT_SETTLED:
        add_settled(carrier, effect);
        break;
    case EFFECT_TASK:
        item->event.detail = item->detail ? item->detail : "";
        carrier->observer->task(carrier->observer->context, carrier->master, &item->event);
        break;
    case EFFECT_EXPERIMENT:
        carrier->observer->experiment(carrier->observer->context, carrier->master,
                                      effect->id.experiment, &item->experiment);
        break;
    case EFFECT_WORKFLOW:
        carrier->workflow_ended = true;
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
                         report->id->experiment == item.effect.id.experiment;
            describe(carrier, &item.effect, about ? report : NULL, &item);
        } else if (item.effect.kind == EFFECT_EXPERIMENT) {
            core_experiment_view(carrier->core, item.effect.id.workflow, item.effect.id.experiment,
                                 &item.experiment);
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
