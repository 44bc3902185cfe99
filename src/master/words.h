/* words.h - the names of states and outcomes, for people and for JSON. They are a contract. */
#ifndef MASTER_WORDS_H
#define MASTER_WORDS_H

#include "base/json.h"
#include "base/str.h"
#include "core/core.h"

#include <stdbool.h>

enum {
    WORDS_TASK_STATES = TASK_SKIPPED + 1,
    WORDS_WORKFLOW_STATES = WORKFLOW_CANCELLED + 1,
};

const char *words_task_state(enum core_task_state state);         /* "queued" */
const char *words_workflow_state(enum core_workflow_state state); /* "running" */
const char *words_outcome(enum core_outcome outcome);             /* "exited", "timeout" */
bool words_read_task_state(const char *word, enum core_task_state *out);
bool words_read_workflow_state(const char *word, enum core_workflow_state *out);

/* True when nothing more will happen to the task unless someone asks for it. */
bool words_is_final(enum core_task_state state);

/* "exit 3", "killed by SEGV (signal 11)", "timed out", "out of memory", ...; nothing for success.
 * detail may be NULL. */
void words_add_outcome(struct str *out, enum core_outcome outcome, uint32_t code,
                       const char *detail);

/* A key with the time in RFC 3339, or null for 0. */
void words_json_time(struct json *json, const char *key, int64_t unix_ms);

#endif
