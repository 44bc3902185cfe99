/* litter.c - outputs of attempts that were lost: a node may have put one in its place and died
 * before it could say so. They are removed a little at a time; a node that lives on, and puts one
 * there later, removes it itself when its result is refused. */
#include "master/server_state.h"

#include "base/mem.h"
#include "master/place.h"
#include "master/retention.h"

#include <stdlib.h>
#include <unistd.h>

enum { STEP_FILES = 500 };

void litter_lost(struct server *server, const struct fact *fact)
{
    const struct flow *flow = server->session->flows[fact->workflow - 1];
    AUTO_STR struct str path = {0};
    place_add_attempt(&path, flow->folder, flow->recipe->experiments[fact->experiment].name,
                      fact->task, fact->attempt);
    struct removal *removal = NULL;
    if (access(str_text(&path), F_OK) == 0 &&
        removal_open(str_text(&path), &removal, NULL) == ERR_OK) {
        VEC_PUSH(server->litter, server->litter_count, server->litter_cap) = removal;
    }
}

bool litter_step(struct server *server)
{
    if (server->litter_count == 0) {
        return false;
    }
    struct removal **last = &server->litter[server->litter_count - 1];
    if (removal_step(*last, STEP_FILES, NULL) != ERR_AGAIN) {
        removal_close(*last);
        server->litter_count--;
    }
    return server->litter_count > 0;
}

void litter_close(struct server *server)
{
    while (litter_step(server)) {
    }
    free(server->litter);
    server->litter = NULL;
}
