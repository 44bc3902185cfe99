/* snapshot.c - the lasting state as bytes, so that a restart need not replay the whole log.
 *
 * Layout, little-endian whatever the machine: magic, version, last fact, term, workflows; for each
 * its flags and experiments; for each of those its shape (to be checked), the tasks that were ever
 * tried, and the retries with the time they are due. Counters are recomputed, not stored.
 */
#include "core/core_state.h"

#include "base/mem.h"

#include <string.h>

enum { SNAPSHOT_MAGIC = 0x44524f56, SNAPSHOT_VERSION = 1, TASK_BYTES = 30 };

/* --- writing --------------------------------------------------------------------------------- */

static void put(uint8_t **at, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        *(*at)++ = (uint8_t)(number >> (8 * i));
    }
}

static void add_number(struct str *out, uint64_t number)
{
    uint8_t bytes[8];
    uint8_t *at = bytes;
    put(&at, number, sizeof bytes);
    str_add_bytes(out, bytes, sizeof bytes);
}

static void add_task(struct str *out, const struct task *task)
{
    uint8_t bytes[TASK_BYTES];
    uint8_t *at = bytes;
    put(&at, (uint64_t)task->started_ms, 8);
    put(&at, task->duration_ms, 4);
    put(&at, task->node, 4);
    put(&at, task->term, 4);
    put(&at, task->attempt, 2);
    put(&at, task->failures, 2);
    put(&at, task->losses, 2);
    /* running is not lasting: nobody who reads this knows that it still runs */
    put(&at, task->state == TASK_RUNNING ? TASK_ASSIGNED : task->state, 1);
    put(&at, task->outcome, 1);
    put(&at, task->code, 1);
    put(&at, task->flags, 1);
    CHECK(at == bytes + sizeof bytes);
    str_add_bytes(out, bytes, sizeof bytes);
}

static void add_experiment(struct str *out, const struct experiment_state_data *experiment)
{
    add_number(out, experiment->spec.task_count);
    add_number(out, experiment->next_fresh);
    add_number(out, (uint64_t)experiment->cancelled);
    add_number(out, experiment->attempts);
    add_number(out, (uint64_t)experiment->mean_us);
    add_number(out, experiment->retry_count);
    for (size_t i = 0; i < experiment->retry_count; i++) {
        add_number(out, (uint64_t)experiment->retries[i].due_ms);
        add_number(out, experiment->retries[i].task);
    }
    for (uint64_t t = 0; t < experiment->next_fresh; t++) {
        add_task(out, &experiment->tasks[t]);
    }
}

void core_snapshot_write(const struct core *core, struct str *out)
{
    add_number(out, SNAPSHOT_MAGIC);
    add_number(out, SNAPSHOT_VERSION);
    add_number(out, core->last_fact);
    add_number(out, core->term);
    add_number(out, core->workflow_count);
    for (size_t w = 0; w < core->workflow_count; w++) {
        const struct workflow *workflow = &core->workflows[w];
        add_number(out, workflow->submitted);
        add_number(out, (uint64_t)workflow->state);
        add_number(out, workflow->experiment_count);
        for (size_t e = 0; e < workflow->experiment_count; e++) {
            add_experiment(out, &workflow->experiments[e]);
        }
    }
}

/* --- reading --------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static uint64_t take(struct reader *reader, size_t size)
{
    if (reader->left < size) {
        reader->bad = true;
        return 0;
    }
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)reader->at[i] << (8 * i);
    }
    reader->at += size;
    reader->left -= size;
    return number;
}

static void take_task(struct reader *reader, struct task *task)
{
    task->started_ms = (int64_t)take(reader, 8);
    task->duration_ms = (uint32_t)take(reader, 4);
    task->node = (uint32_t)take(reader, 4);
    task->term = (uint32_t)take(reader, 4);
    task->attempt = (uint16_t)take(reader, 2);
    task->failures = (uint16_t)take(reader, 2);
    task->losses = (uint16_t)take(reader, 2);
    task->state = (uint8_t)take(reader, 1);
    task->outcome = (uint8_t)take(reader, 1);
    task->code = (uint8_t)take(reader, 1);
    task->flags = (uint8_t)take(reader, 1);
}

static bool count_task(struct experiment_state_data *experiment, const struct task *task,
                       uint64_t *queued)
{
    switch ((enum core_task_state)task->state) {
    case TASK_QUEUED:
        (*queued)++;
        return task->attempt > 0;
    case TASK_ASSIGNED:
        experiment->live++;
        return task->attempt > 0;
    case TASK_SUCCEEDED:
        experiment->succeeded++;
        return task->attempt > 0;
    case TASK_FAILED:
        experiment->failed++;
        return task->attempt > 0;
    case TASK_CANCELLED:
        experiment->cancelled_count++;
        return true;
    case TASK_SKIPPED:
        experiment->skipped++;
        return true;
    case TASK_WAITING:
    case TASK_RUNNING:
        break;
    }
    return false;
}

/* Tasks and retries must agree: each queued task has exactly one retry. */
static bool take_retries(struct reader *reader, struct experiment_state_data *experiment,
                         uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int64_t due_ms = (int64_t)take(reader, 8);
        uint64_t task = take(reader, 8);
        if (reader->bad || task >= experiment->next_fresh || due_ms < 0) {
            return false;
        }
        retry_push(experiment, due_ms, task);
    }
    return true;
}

static bool retries_agree(const struct experiment_state_data *experiment, uint64_t queued)
{
    if (experiment->retry_count != queued) {
        return false;
    }
    AUTO_FREE uint8_t *seen = mem_array(experiment->next_fresh / 8 + 1, 1);
    for (size_t i = 0; i < experiment->retry_count; i++) {
        uint64_t task = experiment->retries[i].task;
        uint8_t bit = (uint8_t)(1u << (task % 8));
        if (experiment->tasks[task].state != TASK_QUEUED || (seen[task / 8] & bit)) {
            return false;
        }
        seen[task / 8] |= bit;
    }
    return true;
}

static bool take_experiment(struct reader *reader, struct experiment_state_data *experiment)
{
    uint64_t task_count = take(reader, 8);
    uint64_t next_fresh = take(reader, 8);
    uint64_t cancelled = take(reader, 8);
    experiment->attempts = take(reader, 8);
    experiment->mean_us = (double)take(reader, 8);
    uint64_t retry_count = take(reader, 8);
    if (reader->bad || task_count != experiment->spec.task_count || next_fresh > task_count ||
        cancelled > CANCEL_TOO_MANY_FAILURES || retry_count > next_fresh ||
        reader->left / TASK_BYTES < next_fresh) {
        return false;
    }
    experiment->cancelled = (enum core_cancel_reason)cancelled;
    experiment->next_fresh = next_fresh;
    if (!take_retries(reader, experiment, retry_count)) {
        return false;
    }
    uint64_t queued = 0;
    for (uint64_t t = 0; t < next_fresh; t++) {
        take_task(reader, &experiment->tasks[t]);
        if (reader->bad || !count_task(experiment, &experiment->tasks[t], &queued)) {
            return false;
        }
    }
    uint64_t final = experiment->succeeded + experiment->failed + experiment->cancelled_count +
                     experiment->skipped;
    if (final == task_count) {
        experiment->state = EXPERIMENT_ENDED;
    }
    return retries_agree(experiment, queued);
}

static bool take_workflow(struct reader *reader, struct workflow *workflow)
{
    uint64_t submitted = take(reader, 8);
    uint64_t state = take(reader, 8);
    uint64_t experiment_count = take(reader, 8);
    if (reader->bad || submitted > 1 || state > WORKFLOW_CANCELLED ||
        experiment_count != workflow->experiment_count) {
        return false;
    }
    workflow->submitted = submitted == 1;
    workflow->state = (enum core_workflow_state)state;
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        if (!take_experiment(reader, &workflow->experiments[e])) {
            return false;
        }
    }
    return true;
}

enum err_code core_snapshot_read(struct core *core, const void *bytes, size_t size, struct err *err)
{
    CHECK(core->last_fact == 0);
    struct reader reader = {.at = bytes, .left = size};
    uint64_t magic = take(&reader, 8);
    uint64_t version = take(&reader, 8);
    if (reader.bad || magic != SNAPSHOT_MAGIC) {
        return err_set(err, ERR_CORRUPT, "snapshot: not one of ours");
    }
    if (version != SNAPSHOT_VERSION) {
        return err_set(err, ERR_UNSUPPORTED, "snapshot: version %llu, this program reads %d",
                       (unsigned long long)version, SNAPSHOT_VERSION);
    }
    uint64_t last_fact = take(&reader, 8);
    uint64_t term = take(&reader, 8);
    uint64_t workflow_count = take(&reader, 8);
    bool good = !reader.bad && workflow_count == core->workflow_count && term <= UINT32_MAX;
    for (size_t w = 0; good && w < core->workflow_count; w++) {
        good = take_workflow(&reader, &core->workflows[w]);
    }
    if (!good || reader.bad || reader.left != 0) {
        return err_set(err, ERR_CORRUPT, "snapshot: damaged, or of another recipe");
    }
    core->last_fact = last_fact;
    core->term = (uint32_t)term;
    return ERR_OK;
}
