/* place.h - where state folders are, and what is in one.
 *
 *     FOLDER/drover.db     the log of facts, snapshots and documents
 *     FOLDER/lock          held by the one process that writes
 *     FOLDER/logs/EXPERIMENT/K/INDEX.ATTEMPT.log        K = INDEX / 1000
 *     FOLDER/attempts/EXPERIMENT/K/INDEX.ATTEMPT/       what an attempt left in DROVER_OUTPUT
 *     FOLDER/outputs/EXPERIMENT/INDEX -> ../../attempts/...   of accepted attempts alone
 *     FOLDER/checkpoints/EXPERIMENT/K/INDEX/            with checkpoint: true
 *     FOLDER/manifests/EXPERIMENT.PARAMETER/B           of files: parameters
 *
 * A server has FOLDER/drover.db and lock, and below FOLDER/workflows/ID the rest for each workflow;
 * besides api.url, admin.token, join.url, server.key, probe (gate_join.c) and nodes/.
 *
 * Without --state each run has a folder of its own, RUNS/NAME-N, below the user's data folder.
 */
#ifndef MASTER_PLACE_H
#define MASTER_PLACE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

/* XDG_DATA_HOME/drover/runs, else ~/.local/share/drover/runs. ERR_NOT_FOUND: no home. */
MUST_USE enum err_code place_runs_folder(struct str *out, struct err *err);

/* XDG_DATA_HOME/drover/server: the state of a server that was not told where. */
MUST_USE enum err_code place_server_folder(struct str *out, struct err *err);

/* Makes RUNS/NAME-N with the first N that is free; *folder gets its path. */
MUST_USE enum err_code place_create_run(const char *name, struct str *folder, struct err *err);

/* The folder of run `id`, or of the newest when id is NULL. ERR_NOT_FOUND. */
MUST_USE enum err_code place_find_run(const char *id, struct str *folder, struct err *err);

/* Calls fn for each run, newest first. Stops when fn returns false. */
typedef bool (*place_run_fn)(void *context, const char *id, const char *folder);
MUST_USE enum err_code place_each_run(place_run_fn fn, void *context, struct err *err);

/* True if the folder holds a state; *strange is set when it exists, is not empty and does not, or
 * cannot be looked into (errno says why then; else it is 0). */
bool place_has_state(const char *folder, bool *strange);

/* Takes FOLDER/lock for this process, waiting up to wait_ms. ERR_DENIED: someone holds it; the text
 * says who. The descriptor is closed on exec and must stay open while the state is written. */
MUST_USE enum err_code place_lock(const char *folder, int wait_ms, int *fd, struct err *err);

/* True while some process holds FOLDER/lock, that is, while someone runs it. */
bool place_is_locked(const char *folder);

void place_add_log(struct str *out, const char *folder, const char *experiment, uint64_t task,
                   uint32_t attempt);
void place_add_attempt(struct str *out, const char *folder, const char *experiment, uint64_t task,
                       uint32_t attempt);

#endif
