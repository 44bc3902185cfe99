/* hunt.c - which workflows have searches to look after, and the slices in which that is done. */
#include "master/hunt_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

enum { LOOK_MS = 1000, WATCH_MS = 300, AGE_MS = 60000 };

bool hunt_time_is_up(const struct hunt *hunt)
{
    struct hunts *hunts = hunt->server->hunts;
    if (clock_mono_ms() < hunts->until_ms) {
        return false;
    }
    hunt->home->is_busy = true;
    return true;
}

uint64_t hunt_task(const struct hunt *hunt, uint64_t leg)
{
    return leg * hunt->experiment->gang;
}

bool hunt_is_final(const struct hunt *hunt, uint64_t leg)
{
    for (uint32_t i = 0; i < hunt->experiment->gang; i++) {
        struct core_task_view view;
        core_task_view(hunt->server->core, hunt->home->flow->number, hunt->number,
                       hunt_task(hunt, leg) + i, &view);
        if (view.state < TASK_SUCCEEDED) {
            return false;
        }
    }
    return true;
}

/* --- workflows ---------------------------------------------------------------------------------
 */

static void close_flow(struct hunt_flow *home)
{
    for (size_t i = 0; i < home->hunt_count; i++) {
        hunt_destroy(home->hunts[i]);
    }
    free(home->hunts);
    trials_close(home->log);
    str_release(&home->pending);
    free(home);
}

static struct hunt_flow *find_flow(const struct hunts *hunts, uint32_t workflow)
{
    for (size_t i = 0; hunts && i < hunts->flow_count; i++) {
        if (hunts->flows[i]->flow->number == workflow) {
            return hunts->flows[i];
        }
    }
    return NULL;
}

static void open_flow(struct server *server, struct flow *flow)
{
    struct hunts *hunts = server->hunts;
    struct hunt_flow *home = mem_alloc(sizeof *home);
    struct err err = {0};
    *home = (struct hunt_flow){.flow = flow, .is_awake = true};
    if (hunt_open_flow(home, server, &err) != ERR_OK) {
        server_note(server, "%s: its search cannot go on: %s", flow->id, err.text);
        home->is_broken = true;
    }
    VEC_PUSH(hunts->flows, hunts->flow_count, hunts->flow_cap) = home;
}

static bool is_running(const struct server *server, const struct flow *flow)
{
    return core_is_submitted(server->core, flow->number) &&
           core_workflow_state(server->core, flow->number) == WORKFLOW_RUNNING;
}

/* Records of old workflows that somebody looked at are not kept in memory for ever. */
static void age_ledgers(struct server *server)
{
    struct hunts *hunts = server->hunts;
    if (clock_mono_ms() - hunts->aged_ms < AGE_MS) {
        return;
    }
    hunts->aged_ms = clock_mono_ms();
    for (size_t i = 0; i < server->session->flow_count; i++) {
        if (!find_flow(hunts, (uint32_t)i + 1)) {
            ledger_age(server->session->flows[i]->ledger);
        }
    }
}

/* Forgets those that are over and finds those that have begun. */
static void find_flows(struct server *server)
{
    struct hunts *hunts = server->hunts;
    size_t kept = 0;
    for (size_t i = 0; i < hunts->flow_count; i++) {
        struct hunt_flow *home = hunts->flows[i];
        if (is_running(server, home->flow) || home->pending.size > 0) {
            hunts->flows[kept++] = home;
        } else {
            ledger_forget(home->flow->ledger); /* it is on the disk whole */
            close_flow(home);
        }
    }
    hunts->flow_count = kept;
    for (size_t i = 0; i < server->session->flow_count; i++) {
        struct flow *flow = server->session->flows[i];
        if (flow->ledger && is_running(server, flow) && !find_flow(hunts, flow->number)) {
            open_flow(server, flow);
        }
    }
    age_ledgers(server);
    hunts->flows_seen = (uint32_t)server->session->flow_count;
    hunts->looked_ms = clock_mono_ms();
}

/* --- a slice -----------------------------------------------------------------------------------
 */

static bool write_pending(struct hunt_flow *home, struct server *server)
{
    struct err err = {0};
    if (home->pending.size == 0) {
        return true;
    }
    enum err_code code = trials_append(home->log, &home->pending, &err);
    if (code == ERR_OK) {
        str_clear(&home->pending);
    }
    if ((code != ERR_OK) != home->has_trouble) {
        home->has_trouble = code != ERR_OK;
        if (home->has_trouble) {
            server_note(server, "waiting: %s: trials cannot be written (%s)", home->flow->id,
                        err.text);
        } else {
            server_note(server, "%s: trials can be written again; going on", home->flow->id);
        }
    }
    return code == ERR_OK;
}

static void step_flow(struct hunt_flow *home, struct server *server)
{
    bool watches = clock_mono_ms() - home->looked_ms >= WATCH_MS;
    home->is_busy = false;
    home->is_awake = false;
    home->waits_for = 0;
    server->hunts->until_ms = clock_mono_ms() + HUNT_SLICE_MS;
    for (size_t i = 0; i < home->hunt_count; i++) {
        hunt_collect(home->hunts[i]);
        if (watches || home->hunts[i]->reread < home->hunts[i]->reread_count) {
            hunt_watch(home->hunts[i]);
        }
        hunt_judge(home->hunts[i]);
        if (!home->has_trouble) {
            hunt_ask(home->hunts[i]);
        }
        hunt_log_end(home->hunts[i]);
    }
    if (watches) {
        home->looked_ms = clock_mono_ms();
    }
    if (!write_pending(home, server)) {
        return;
    }
    for (size_t i = 0; i < home->hunt_count; i++) {
        hunt_settle(home->hunts[i]);
    }
}

static bool watches_curves(const struct hunt_flow *home)
{
    for (size_t i = 0; i < home->hunt_count; i++) {
        if (home->hunts[i]->early && home->hunts[i]->open_count > 0) {
            return true;
        }
    }
    return false;
}

static bool is_due(const struct hunt_flow *home, uint64_t durable, int64_t now_ms)
{
    if (home->is_broken) {
        return false;
    }
    if (home->waits_for > 0 && home->waits_for <= durable) {
        return true;
    }
    int64_t every_ms = watches_curves(home) ? WATCH_MS : LOOK_MS;
    return home->is_awake || home->is_busy || now_ms - home->looked_ms >= every_ms;
}

void hunts_step(struct server *server)
{
    if (!server->hunts) {
        server->hunts = mem_alloc(sizeof *server->hunts);
    }
    struct hunts *hunts = server->hunts;
    int64_t now_ms = clock_mono_ms();
    if (hunts->flows_seen != server->session->flow_count || now_ms - hunts->looked_ms >= LOOK_MS) {
        find_flows(server);
    }
    for (size_t i = 0; i < hunts->flow_count; i++) {
        if (is_due(hunts->flows[i], server->carrier.durable, now_ms)) {
            step_flow(hunts->flows[i], server);
        }
    }
}

int64_t hunts_wait_ms(const struct server *server)
{
    int64_t wait_ms = LOOK_MS;
    if (!server->hunts || server->hunts->flows_seen != server->session->flow_count) {
        return 0; /* a workflow is new */
    }
    for (size_t i = 0; i < server->hunts->flow_count; i++) {
        const struct hunt_flow *home = server->hunts->flows[i];
        if (home->is_busy || home->is_awake) {
            return 0;
        }
        if (watches_curves(home) && wait_ms > WATCH_MS) {
            wait_ms = WATCH_MS;
        }
    }
    return wait_ms;
}

void hunts_wake(struct server *server, uint32_t workflow)
{
    struct hunt_flow *home = find_flow(server->hunts, workflow);
    if (home) {
        home->is_awake = true;
    }
}

void hunts_started(struct server *server, const struct core_attempt *id, const void *folder,
                   size_t size)
{
    struct hunt_flow *home = find_flow(server->hunts, id->workflow);
    for (size_t i = 0; home && i < home->hunt_count; i++) {
        struct hunt *hunt = home->hunts[i];
        for (size_t k = 0; hunt->number == id->experiment && hunt->early && k < hunt->open_count;
             k++) {
            struct hunt_leg *leg = hunt->open[k];
            if (hunt_task(hunt, leg->leg) == id->task) {
                free(leg->folder);
                leg->folder = size > 0 ? mem_strndup(folder, size) : NULL;
                leg->folder_attempt = id->attempt;
            }
        }
    }
}

void hunts_revive(struct server *server, uint32_t workflow)
{
    struct hunt_flow *home = find_flow(server->hunts, workflow);
    for (size_t i = 0; home && i < home->hunt_count; i++) {
        hunt_find_open(home->hunts[i]);
    }
    if (server->hunts) {
        server->hunts->flows_seen = UINT32_MAX; /* look for it again */
    }
}

void hunts_close(struct server *server)
{
    struct hunts *hunts = server->hunts;
    if (!hunts) {
        return;
    }
    hunts->until_ms = INT64_MAX;
    for (size_t i = 0; i < hunts->flow_count; i++) {
        struct hunt_flow *home = hunts->flows[i];
        for (size_t h = 0; h < home->hunt_count && !home->is_broken && !server->broken; h++) {
            hunt_collect(home->hunts[h]);
        }
        if (!home->is_broken && !server->broken) {
            (void)!write_pending(home, server);
        }
        close_flow(home);
    }
    free(hunts->flows);
    free(hunts);
    server->hunts = NULL;
}
