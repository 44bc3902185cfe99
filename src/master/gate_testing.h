/* gate_testing.h - a server whose loop a test turns by hand, and agents that say what it likes.
 *
 * The server is the real one: core, store in a folder, gate and depot on loopback, CURVE on. Only
 * HTTP is left out. An agent is a socket and a key; it runs nothing. For cmocka tests: whatever
 * does not happen in time fails the test.
 */
#ifndef MASTER_GATE_TESTING_H
#define MASTER_GATE_TESTING_H

#include "master/server_state.h"

struct scene {
    char folder[64];
    struct session session;
    struct server server;
    struct master_serve serve;
    struct master_observer observer;
    struct master_options options;
    void *context; /* of the agents */
    unsigned notes;
    char note[600];   /* the last */
    char detail[600]; /* of the last task event */
    bool is_open;
};

struct agent_double {
    struct scene *scene;
    struct door_keys keys;
    void *socket;
    char name[32];
    char boot[32];
    uint32_t cpu_milli;
    uint64_t session; /* of the last Welcome */
    uint32_t number;
    char called[64]; /* the name it was given */
    Drover__Holding **holding;
    size_t holding_count;
};

void scene_open(struct scene *scene, int64_t lease_ms);
void scene_close(struct scene *scene);
/* The server ends as it does when it is killed: what it had not posted to the log is gone. */
void scene_crash(struct scene *scene);
void scene_restart(struct scene *scene);
void scene_turn(struct scene *scene, int64_t for_ms);
/* The workflow of this recipe, submitted; nothing of it is durable yet. */
uint32_t scene_submit(struct scene *scene, const char *recipe, const char *key);
enum core_task_state scene_task(const struct scene *scene, uint64_t task); /* of 1/0 */

void agent_open(struct scene *scene, struct agent_double *agent, const char *name);
void agent_close(struct agent_double *agent);
void agent_connect(struct agent_double *agent); /* anew */
void agent_say(struct agent_double *agent, Drover__ToMaster *message, uint64_t session);
void agent_hello(struct agent_double *agent);
void agent_join(struct agent_double *agent); /* Hello and Welcome */
/* The next message to it, the caller's; other than an empty one. */
Drover__ToNode *agent_hear(struct agent_double *agent);
void agent_hear_nothing(struct agent_double *agent, int64_t for_ms);
/* The next Run's id. */
Drover__Attempt agent_hear_run(struct agent_double *agent);
void agent_end(struct agent_double *agent, const Drover__Attempt *id, Drover__Outcome outcome);
/* Whether the next word about it is that it was accepted. */
bool agent_hear_settled(struct agent_double *agent, const Drover__Attempt *id);

#endif
