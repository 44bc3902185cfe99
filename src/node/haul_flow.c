/* WORK/workflows/ID on nodes that do not share the master's disk: inputs stay there for the next
 * task of the workflow, but not for ever. */
#include "base/clock.h"
#include "base/mem.h"
#include "node/agent.h"

#include <stdlib.h>
#include <string.h>

enum { IDLE_MS = 10 * 60 * 1000 };

void haul_enter_flow(struct agent *agent, struct attempt *attempt)
{
    struct haul_flow *flow = NULL;
    TAILQ_FOREACH(flow, &agent->haul.flows, link)
    {
        if (strcmp(flow->id, attempt->run->workflow_id) == 0) {
            break;
        }
    }
    if (!flow) {
        flow = mem_alloc(sizeof *flow);
        flow->id = mem_strdup(attempt->run->workflow_id);
        TAILQ_INSERT_HEAD(&agent->haul.flows, flow, link);
    }
    flow->users++;
    attempt->flow = flow;
}

void haul_leave_flow(struct attempt *attempt)
{
    if (attempt->flow) {
        CHECK(attempt->flow->users > 0);
        attempt->flow->users--;
        attempt->flow->idle_since_ms = clock_mono_ms();
        attempt->flow = NULL;
    }
}

static void remove_flow(struct agent *agent, struct haul_flow *flow)
{
    TAILQ_REMOVE(&agent->haul.flows, flow, link);
    CHECK(TAILQ_FIRST(&agent->haul.flows) != flow); /* also tells the analyzer so */
    free(flow->id);
    free(flow);
}

void haul_sweep_flows(struct agent *agent)
{
    int64_t before_ms = clock_mono_ms() - IDLE_MS;
    struct haul_flow *flow = TAILQ_FIRST(&agent->haul.flows);
    while (flow) {
        struct haul_flow *next = TAILQ_NEXT(flow, link);
        if (flow->users == 0 && flow->idle_since_ms < before_ms) {
            AUTO_STR struct str path = {0};
            str_addf(&path, "%s/workflows/%s", agent->options->work_folder, flow->id);
            (void)!trash_take(&agent->trash, str_text(&path));
            remove_flow(agent, flow);
        }
        flow = next;
    }
}

void haul_release_flows(struct agent *agent)
{
    struct haul_flow *flow = NULL;
    while ((flow = TAILQ_FIRST(&agent->haul.flows)) != NULL) {
        remove_flow(agent, flow);
    }
}
