#include "master/words.h"

#include "base/clock.h"

#include <string.h>

const char *words_task_state(enum core_task_state state)
{
    static const char *const names[] = {
        [TASK_WAITING] = "waiting",     [TASK_QUEUED] = "queued",
        [TASK_ASSIGNED] = "assigned",   [TASK_RUNNING] = "running",
        [TASK_SUCCEEDED] = "succeeded", [TASK_FAILED] = "failed",
        [TASK_CANCELLED] = "cancelled", [TASK_SKIPPED] = "skipped",
    };
    return names[state];
}

const char *words_workflow_state(enum core_workflow_state state)
{
    static const char *const names[] = {
        [WORKFLOW_RUNNING] = "running",
        [WORKFLOW_SUCCEEDED] = "succeeded",
        [WORKFLOW_FAILED] = "failed",
        [WORKFLOW_CANCELLED] = "cancelled",
    };
    return names[state];
}

const char *words_outcome(enum core_outcome outcome)
{
    static const char *const names[] = {
        [OUT_NONE] = "none",
        [OUT_EXITED] = "exited",
        [OUT_SIGNALLED] = "signalled",
        [OUT_TIMEOUT] = "timeout",
        [OUT_OUT_OF_MEMORY] = "out_of_memory",
        [OUT_NOT_STARTED] = "not_started",
        [OUT_OUTPUT_MISSING] = "output_missing",
        [OUT_KILLED] = "stopped",
        [OUT_SLOT_LOST] = "slot_lost",
        [OUT_NODE_LOST] = "node_lost",
    };
    return names[outcome];
}

void words_add_outcome(struct str *out, enum core_outcome outcome, uint32_t code,
                       const char *detail)
{
    const char *colon = detail && detail[0] ? ": " : "";
    const char *more = detail ? detail : "";
    switch (outcome) {
    case OUT_NONE:
        break;
    case OUT_EXITED:
        if (code != 0) {
            str_addf(out, "exit %u", code);
        }
        break;
    case OUT_SIGNALLED: {
        const char *name = sigabbrev_np((int)code);
        str_addf(out, "killed by %s (signal %u)", name ? name : "a signal", code);
        break;
    }
    case OUT_TIMEOUT:
        str_add(out, "timed out");
        break;
    case OUT_OUT_OF_MEMORY:
        str_add(out, "out of memory");
        break;
    case OUT_NOT_STARTED:
        str_addf(out, "could not start%s%s", colon, more);
        break;
    case OUT_OUTPUT_MISSING:
        str_addf(out, "an output is missing%s%s", colon, more);
        break;
    case OUT_KILLED:
        str_add(out, "stopped");
        break;
    case OUT_SLOT_LOST:
        str_add(out, "lost: its slot died");
        break;
    case OUT_NODE_LOST:
        str_add(out, "lost");
        break;
    }
}

void words_json_time(struct json *json, const char *key, int64_t unix_ms)
{
    json_key(json, key);
    if (unix_ms > 0) {
        AUTO_STR struct str text = {0};
        clock_add_rfc3339(&text, unix_ms);
        json_text(json, str_text(&text));
    } else {
        json_null(json);
    }
}

bool words_read_task_state(const char *word, enum core_task_state *out)
{
    for (unsigned i = 0; i < WORDS_TASK_STATES; i++) {
        if (strcmp(word, words_task_state((enum core_task_state)i)) == 0) {
            *out = (enum core_task_state)i;
            return true;
        }
    }
    return false;
}

bool words_read_workflow_state(const char *word, enum core_workflow_state *out)
{
    for (unsigned i = 0; i < WORDS_WORKFLOW_STATES; i++) {
        if (strcmp(word, words_workflow_state((enum core_workflow_state)i)) == 0) {
            *out = (enum core_workflow_state)i;
            return true;
        }
    }
    return false;
}

bool words_is_final(enum core_task_state state)
{
    return state >= TASK_SUCCEEDED;
}
