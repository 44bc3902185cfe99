/* testing.h - the master's end of a node, for tests: sends orders, remembers what became of them.
 *
 * A node runs in a thread of the test (or in a forked child, see node_fault_test.c) with a work
 * folder of its own that is gone after testing_close.
 */
#ifndef NODE_TESTING_H
#define NODE_TESTING_H

#include "node/node.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TESTING_ORDERS_MAX = 1024, TESTING_WORDS_MAX = 8 };

struct testing_order {
    const char *argv[TESTING_WORDS_MAX]; /* up to the first NULL */
    const char *script;                  /* instead of argv: sh -c */
    const char *env[TESTING_WORDS_MAX];
    const char *outputs[TESTING_WORDS_MAX];
    const char *workdir; /* NULL: the work folder */
    const char *secret_name;
    const char *secret_file;
    int64_t timeout_ms;
    int64_t grace_ms;
    uint64_t log_limit_bytes;
    uint64_t memory_bytes;
    uint32_t cpu_milli; /* 0: 1000 */
    uint32_t gpus;
    bool inherit_env;
    bool checkpoint;
    const char *checkpoint_name; /* NULL: the task's own */
    bool message_only;
    const char *root; /* NULL: none */
    const char *code;
    const char *inputs[TESTING_WORDS_MAX];
};

struct testing_result {
    bool has_started; /* Started was received */
    bool has_ended;
    uint32_t ended_count; /* how often that was told */
    Drover__Outcome outcome;
    uint32_t code;
    bool has_output;
    int64_t duration_us;
    int64_t cpu_us;
    uint64_t log_bytes;
    uint64_t log_dropped_bytes;
    char detail[512];
    char log[256]; /* the beginning of Ended.log */
    size_t log_size;
};

struct testing_net; /* testing_net.h */

struct testing {
    char work[64];
    struct node_options options;
    void *context;
    void *socket;
    pthread_t thread;
    enum err_code returned;
    struct err err;  /* with it */
    bool has_joined; /* its thread */
    uint64_t order_count;
    bool has_asked; /* for Stop */
    bool has_stopped;
    char note[512];          /* of Hello, or "" */
    struct testing_net *net; /* NULL: the node is in this process */
    struct testing_result results[TESTING_ORDERS_MAX];
};

/* testing is zeroed, or was closed; with testing->work set that folder is used. */
void testing_open(struct testing *testing, uint32_t slots);
void testing_open_with(struct testing *testing, const struct node_capacity *capacity);
void testing_stop(struct testing *testing, int64_t grace_ms); /* asks only */
void testing_close(struct testing *testing);                  /* stops, joins, removes */

/* Returns the task's number. */
uint64_t testing_send(struct testing *testing, const struct testing_order *order);
void testing_kill(struct testing *testing, uint64_t task, int64_t grace_ms);
void testing_settle(struct testing *testing, uint64_t task, bool accepted);

/* Sends what the test made. */
void testing_tell(struct testing *testing, Drover__ToNode *message);

/* What the test's master does with a message, however it came. */
void testing_take(struct testing *testing, const Drover__ToMaster *message);
/* Waits for the next message and takes it; fails the test if none comes. */
void testing_receive(struct testing *testing, int64_t timeout_ms);

/* Takes messages until the task has ended (started), and fails the test after ten seconds. */
const struct testing_result *testing_wait(struct testing *testing, uint64_t task);
void testing_wait_started(struct testing *testing, uint64_t task);
const struct testing_result *testing_do(struct testing *testing, const struct testing_order *order);

/* Text of WORK/NAME, to be freed; NULL if it is not there. */
char *testing_read(const struct testing *testing, const char *name);
char *testing_log(const struct testing *testing, uint64_t task);
bool testing_exists(const struct testing *testing, const char *name);
/* Waits until WORK/NAME holds a number, and returns it. */
pid_t testing_wait_pid(const struct testing *testing, const char *name);

/* Of processes: a zombie is not alive. */
bool testing_is_alive(pid_t pid);
bool testing_is_gone_within(pid_t pid, int64_t limit_ms);
/* The first process below `parent` called drover-slot; 0: none. */
pid_t testing_find_slot(pid_t parent);
size_t testing_count_children(void);
size_t testing_count_files(void);

#endif
