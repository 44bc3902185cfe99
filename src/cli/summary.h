/* summary.h - what became of a workflow, for people and for programs. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include "base/json.h"
#include "core/core.h"
#include "master/session.h"

/* The table, the first failures with their logs, and the last line. elapsed_ms < 0: not known. */
void summary_add_text(struct str *out, const struct session *session, bool stopped,
                      int64_t elapsed_ms);

/* The keys of `drover status --json` into an open object: id, state, experiments[]. */
void summary_add_json(struct json *json, const struct session *session);

/* " --state DIR" or " W": what another command needs to find this workflow. */
void summary_add_where(struct str *out, const struct session *session);

/* The state in a word; a workflow not at its end that nobody runs is "stopped". */
const char *summary_state(const struct session *session, bool stopped);

/* tasks, succeeded, failed, cancelled, skipped, running, attempts. */
void summary_add_counts(struct json *json, const struct core_experiment_view *view);

#endif
