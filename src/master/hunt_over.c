/* hunt_over.c - when a search is over, and what follows from what was written down. */
#include "master/hunt_internal.h"

#include "base/mem.h"

#include <string.h>

/* --- money -------------------------------------------------------------------------------------
 */

/* What part of the node one task takes. */
static double share_of(const struct hunt *hunt, const struct herd_node *node)
{
    const struct hardware *needs = &hunt->experiment->hardware;
    if (needs->gpus > 0 && node->capacity.gpus > 0) {
        return (double)needs->gpus / node->capacity.gpus;
    }
    return node->capacity.cpu_milli > 0 ? (double)needs->cpu_milli / node->capacity.cpu_milli : 1;
}

/* The time of its tasks' newest attempts at the price of their nodes. */
static int64_t spent_micro(struct hunt *hunt)
{
    const double hour_ms = 3600e3;
    int64_t now_ms = server_now_ms(hunt->server);
    double sum = 0;
    bool has_price = false;
    bool has_begun = false;
    for (uint64_t task = 0; task < hunt_task(hunt, hunt->book->leg_count); task++) {
        struct core_task_view view;
        core_task_view(hunt->server->core, hunt->home->flow->number, hunt->number, task, &view);
        const struct herd_node *node =
            view.attempt > 0 ? herd_at(&hunt->server->herd, view.node) : NULL;
        /* How long a lost one ran before that is not known: whole days may have passed. */
        bool is_lost = view.state != TASK_RUNNING && view.outcome == OUT_NODE_LOST;
        if (!node || view.started_ms == 0 || is_lost) {
            continue;
        }
        int64_t ms = view.state == TASK_RUNNING ? now_ms - view.started_ms : view.duration_ms;
        double share = share_of(hunt, node);
        sum += (double)node->price_micro_hour * (double)ms / hour_ms * (share < 1 ? share : 1);
        has_begun = true;
        has_price = has_price || node->price_micro_hour > 0;
    }
    if (has_begun && !has_price && !hunt->warned_price) {
        hunt->warned_price = true;
        server_note(hunt->server,
                    "warning: %s: cost: cannot be held to, since no node says what it costs "
                    "(drover node --price)",
                    hunt->title);
    }
    return sum < 9e18 ? (int64_t)sum : INT64_MAX;
}

/* --- the end -----------------------------------------------------------------------------------
 */

static void end(struct hunt *hunt, enum stop_reason reason)
{
    hunt->is_over = true;
    hunt->ends_running = stop_ends_running(reason);
}

void hunt_judge(struct hunt *hunt)
{
    if (hunt->is_over || hunt->began_ms == 0) {
        return;
    }
    int64_t spent = hunt->stop.options.cost_micro > 0 ? spent_micro(hunt) : 0;
    enum stop_reason reason =
        stop_ask(&hunt->stop, spent, server_now_ms(hunt->server) - hunt->began_ms);
    bool goes_on = reason == STOP_TRIALS || reason == STOP_EXHAUSTED; /* with promotions */
    if (reason == STOP_NOT_YET ||
        (hunt->asha && goes_on && asha_next(hunt->asha).action != ASHA_DONE)) {
        return;
    }
    end(hunt, reason);
}

/* Trials whose results may still come change what is to be said of the best. */
void hunt_log_end(struct hunt *hunt)
{
    if (!hunt->is_over || hunt->over_is_logged || (hunt->open_count > 0 && !hunt->ends_running)) {
        return;
    }
    if (hunt->why.size == 0) {
        stop_why(&hunt->stop, &hunt->why);
    }
    struct trials_line line = {.kind = TRIALS_STOP,
                               .experiment = hunt->experiment->name,
                               .at_ms = server_now_ms(hunt->server),
                               .why = str_text(&hunt->why)};
    trials_add_line(&hunt->home->pending, &line);
    hunt->over_is_logged = true;
    server_note(hunt->server, "%s: the search is over: %s", hunt->title, str_text(&hunt->why));
}

/* Running ones count as far as they got; those that wait for a node never began. */
static void end_open_legs(struct hunt *hunt)
{
    for (size_t i = 0; i < hunt->open_count; i++) {
        uint64_t task = hunt_task(hunt, hunt->open[i]->leg);
        if (hunt->open[i]->after == 0 && !hunt_is_told(hunt, hunt->open[i]->leg)) {
            struct server *server = hunt->server;
            uint32_t workflow = hunt->home->flow->number;
            if (!core_stop_task(server->core, workflow, hunt->number, task, server_now_ms(server),
                                &server->out)) {
                (void)core_cancel_task(server->core, workflow, hunt->number, task,
                                       server_now_ms(server), &server->out);
            }
            server_carry(server, NULL);
        }
    }
}

static void stop_legs(struct hunt *hunt)
{
    struct server *server = hunt->server;
    uint32_t workflow = hunt->home->flow->number;
    for (size_t i = 0; i < hunt->stopped_count; i++) {
        uint64_t task = hunt_task(hunt, hunt->stopped[i]);
        if (!core_stop_task(server->core, workflow, hunt->number, task, server_now_ms(server),
                            &server->out)) {
            (void)core_cancel_task(server->core, workflow, hunt->number, task,
                                   server_now_ms(server), &server->out);
        }
        server_carry(server, NULL);
    }
    hunt->stopped_count = 0;
}

/* Suggestions that the core does not have yet: of now, or of before a crash. */
static void define(struct hunt *hunt)
{
    struct server *server = hunt->server;
    struct core_experiment_view view;
    uint32_t workflow = hunt->home->flow->number;
    uint64_t tasks = hunt_task(hunt, hunt->book->leg_count);
    core_experiment_view(server->core, workflow, hunt->number, &view);
    if (tasks > view.tasks && view.ready) {
        (void)core_suggest(server->core, workflow, hunt->number, tasks - view.tasks,
                           server_now_ms(server), &server->out);
        server_carry(server, NULL);
    }
}

void hunt_settle(struct hunt *hunt)
{
    struct server *server = hunt->server;
    stop_legs(hunt);
    define(hunt);
    if (!hunt->over_is_logged) {
        return;
    }
    if (hunt->open_count > 0 && hunt->ends_running) {
        end_open_legs(hunt);
    }
    if (hunt->open_count == 0 && core_close(server->core, hunt->home->flow->number, hunt->number,
                                            server_now_ms(server), &server->out)) {
        server_carry(server, NULL);
    }
}
