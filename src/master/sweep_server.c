/* The workflows of a server, for sweep.h. */
#include "master/series.h"
#include "master/server.h"
#include "master/sweep.h"

static void look(void *context, uint32_t number, struct sweep_flow *out)
{
    const struct server *server = context;
    const struct flow *flow = server_flow(server, number);
    if (!flow || core_workflow_state(server_core(server), number) == WORKFLOW_RUNNING) {
        return;
    }
    out->folder = flow->has_own_folder ? flow->folder : NULL;
    /* One that ended before this start, at a time that was not kept, counts from the start on. */
    out->ended_ms = flow->ended_ms > 0 ? flow->ended_ms : server_began_ms(server);
}

static void forget(void *context, uint32_t number)
{
    struct server *server = context;
    if (server_series(server)) {
        series_forget(server_series(server), number);
    }
}

void sweep_server_tick(struct sweep *sweep, struct server *server)
{
    struct sweep_source source = {.context = server,
                                  .count = (uint32_t)server_flow_count(server),
                                  .look = look,
                                  .forget = forget};
    sweep_tick(sweep, &source, server_now_ms(server));
}
