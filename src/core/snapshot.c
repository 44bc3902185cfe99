/* snapshot.c - the lasting state as bytes, so that a restart need not replay the whole log.
 *
 * Layout, little-endian whatever the machine: magic, version, last fact, term, workflows; for each
 * its flags and experiments; for each of those its shape (to be checked), the retries with the time
 * they are due, and the tasks that differ from how they were made. Counters are recomputed, not
 * stored. Version 1, which knew no tasks cancelled one by one, did not say how many those are: all
 * that were tried. Version 2 knew no searches: all tasks are defined.
 */
#include "core/core_state.h"

#include "base/mem.h"

#include <string.h>

enum {
    SNAPSHOT_MAGIC = 0x44524f56,
    SNAPSHOT_VERSION = 4, /* since then: when workflows ended */
    SNAPSHOT_VERSION_OLDEST = 1,
    TASK_BYTES = 30,
};

/* Bits. */
enum { SNAPSHOT_CLOSED = 1, SNAPSHOT_SKIPPED = 2 };

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
    put(&at, task->state == TASK_RUNNING ? 0 : task->duration_ms, 4);
    put(&at, task->node, 4);
    put(&at, task->term, 4);
    put(&at, task->attempt, 2);
    put(&at, task->failures, 2);
    put(&at, task->losses, 2);
    /* running (since when) is not lasting: nobody who reads this knows that it still runs */
    put(&at, task->state == TASK_RUNNING ? TASK_ASSIGNED : task->state, 1);
    put(&at, task->outcome, 1);
    put(&at, task->code, 1);
    put(&at, task->flags & TASK_LASTING, 1);
    CHECK(at == bytes + sizeof bytes);
    str_add_bytes(out, bytes, sizeof bytes);
}

static void add_experiment(struct str *out, const struct experiment_state_data *experiment)
{
    add_number(out, experiment->spec.task_count);
    add_number(out, experiment->defined);
    add_number(out, (experiment->closed ? SNAPSHOT_CLOSED : 0u) |
                        (experiment->was_skipped ? SNAPSHOT_SKIPPED : 0u));
    add_number(out, experiment->next_fresh);
    add_number(out, experiment->touched);
    add_number(out, (uint64_t)experiment->cancelled);
    add_number(out, experiment->attempts);
    add_number(out, (uint64_t)experiment->mean_us);
    add_number(out, experiment->retries.count);
    for (size_t i = 0; i < experiment->retries.count; i++) {
        add_number(out, (uint64_t)experiment->retries.items[i].due_ms);
        add_number(out, experiment->retries.items[i].task);
    }
    for (uint64_t t = 0; t < experiment->touched; t++) {
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
        add_number(out, (uint64_t)workflow->ended_ms);
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
    uint64_t version;
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
    task->flags = (uint8_t)take(reader, 1) & TASK_LASTING;
}

/* Counts the task; false if it cannot be in such a state. */
static bool count_task(struct experiment_state_data *experiment, uint64_t number)
{
    const struct task *task = &experiment->tasks[number];
    struct group *group =
        experiment->groups ? &experiment->groups[number / experiment->spec.gang] : NULL;
    if (number >= experiment->next_fresh && task->attempt > 0) {
        return false;
    }
    if ((task->flags & TASK_STOPPED) && task->state != TASK_SUCCEEDED) {
        return false;
    }
    switch ((enum core_task_state)task->state) {
    case TASK_WAITING:
        return number >= experiment->next_fresh;
    case TASK_QUEUED:
        experiment->queued++;
        if (group) {
            group->queued++;
        }
        return number < experiment->next_fresh && task->attempt < UINT16_MAX;
    case TASK_ASSIGNED:
        experiment->live++;
        if (group) {
            group->live++;
        }
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
    case TASK_RUNNING:
        break;
    }
    return false;
}

static bool take_retries(struct reader *reader, struct experiment_state_data *experiment,
                         uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int64_t due_ms = (int64_t)take(reader, 8);
        uint64_t task = take(reader, 8);
        if (reader->bad || task >= experiment->next_fresh || due_ms < 0) {
            return false;
        }
        heap_push(&experiment->retries, due_ms, task);
    }
    return true;
}

/* Whether this task, or the group that it is the first of, has to stand among the retries. */
static bool waits(const struct experiment_state_data *experiment, uint64_t task)
{
    if (!experiment->groups) {
        return experiment->tasks[task].state == TASK_QUEUED;
    }
    return task % experiment->spec.gang == 0 &&
           group_is_listed(&experiment->groups[task / experiment->spec.gang]);
}

/* Tasks and retries must agree: each that waits stands there exactly once, and nothing else. */
static bool retries_agree(struct experiment_state_data *experiment)
{
    uint64_t waiting = 0;
    for (uint64_t t = 0; t < experiment->next_fresh; t++) {
        waiting += waits(experiment, t);
    }
    if (experiment->retries.count != waiting) {
        return false;
    }
    AUTO_FREE uint8_t *seen = mem_array(experiment->next_fresh / 8 + 1, 1);
    for (size_t i = 0; i < experiment->retries.count; i++) {
        uint64_t task = experiment->retries.items[i].task;
        uint8_t bit = (uint8_t)(1u << (task % 8));
        if (!waits(experiment, task) || (seen[task / 8] & bit)) {
            return false;
        }
        seen[task / 8] |= bit;
        if (experiment->groups) {
            experiment->groups[task / experiment->spec.gang].due_ms =
                experiment->retries.items[i].due_ms;
        }
    }
    return true;
}

static bool take_tasks(struct reader *reader, struct experiment_state_data *experiment)
{
    for (uint64_t t = 0; t < experiment->touched; t++) {
        take_task(reader, &experiment->tasks[t]);
        if (reader->bad || !count_task(experiment, t)) {
            return false;
        }
    }
    /* the first fresh one is one that waits */
    return experiment->next_fresh == experiment->defined ||
           experiment->tasks[experiment->next_fresh].state == TASK_WAITING;
}

/* How much of a search there is; false if it cannot be so. */
static bool take_search(struct reader *reader, struct experiment_state_data *experiment)
{
    if (reader->version < 3) {
        return !experiment->spec.searched;
    }
    uint64_t defined = take(reader, 8);
    uint64_t flags = take(reader, 8);
    if (reader->bad || flags > (SNAPSHOT_CLOSED | SNAPSHOT_SKIPPED) ||
        defined > experiment->spec.task_count ||
        (experiment->groups && defined % experiment->spec.gang != 0)) {
        return false;
    }
    if (!experiment->spec.searched &&
        (defined != experiment->spec.task_count || !(flags & SNAPSHOT_CLOSED))) {
        return false;
    }
    experiment->defined = defined;
    experiment->closed = (flags & SNAPSHOT_CLOSED) != 0;
    experiment->was_skipped = (flags & SNAPSHOT_SKIPPED) != 0;
    return true;
}

static bool take_experiment(struct reader *reader, struct experiment_state_data *experiment)
{
    uint64_t task_count = take(reader, 8);
    if (reader->bad || task_count != experiment->spec.task_count ||
        !take_search(reader, experiment)) {
        return false;
    }
    uint64_t next_fresh = take(reader, 8);
    uint64_t touched = reader->version > 1 ? take(reader, 8) : next_fresh;
    uint64_t cancelled = take(reader, 8);
    experiment->attempts = take(reader, 8);
    experiment->mean_us = (double)take(reader, 8);
    uint64_t retry_count = take(reader, 8);
    if (reader->bad || next_fresh > experiment->defined || touched > experiment->defined ||
        touched < next_fresh || cancelled > CANCEL_TOO_MANY_FAILURES || retry_count > next_fresh ||
        reader->left / TASK_BYTES < touched) {
        return false;
    }
    experiment->cancelled = (enum core_cancel_reason)cancelled;
    experiment->next_fresh = next_fresh;
    experiment->touched = touched;
    if (!take_retries(reader, experiment, retry_count) || !take_tasks(reader, experiment)) {
        return false;
    }
    if (experiment_is_complete(experiment)) {
        experiment->state = EXPERIMENT_ENDED;
    } else if (experiment->was_skipped) {
        return false;
    }
    return retries_agree(experiment);
}

static bool take_workflow(struct reader *reader, struct workflow *workflow)
{
    uint64_t submitted = take(reader, 8);
    uint64_t state = take(reader, 8);
    uint64_t ended_ms = reader->version >= 4 ? take(reader, 8) : 0;
    uint64_t experiment_count = take(reader, 8);
    if (reader->bad || submitted > 1 || state > WORKFLOW_CANCELLED || ended_ms > INT64_MAX ||
        experiment_count != workflow->experiment_count) {
        return false;
    }
    workflow->submitted = submitted == 1;
    workflow->state = (enum core_workflow_state)state;
    workflow->ended_ms = (int64_t)ended_ms;
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        struct experiment_state_data *experiment = &workflow->experiments[e];
        if (!take_experiment(reader, experiment)) {
            return false;
        }
        workflow->live_share += experiment->live * task_share(experiment);
        bool untouched = experiment->touched == 0 && !experiment->was_skipped &&
                         experiment->closed == !experiment->spec.searched &&
                         (experiment->defined == 0 || !experiment->spec.searched);
        if (!workflow->submitted && !untouched) {
            return false;
        }
    }
    return workflow->state == WORKFLOW_RUNNING || workflow_all_ended(workflow);
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
    if (version < SNAPSHOT_VERSION_OLDEST || version > SNAPSHOT_VERSION) {
        return err_set(err, ERR_UNSUPPORTED, "snapshot: version %llu, this program reads %d to %d",
                       (unsigned long long)version, SNAPSHOT_VERSION_OLDEST, SNAPSHOT_VERSION);
    }
    reader.version = version;
    uint64_t last_fact = take(&reader, 8);
    uint64_t term = take(&reader, 8);
    uint64_t workflow_count = take(&reader, 8);
    bool good = !reader.bad && workflow_count <= core->workflow_count && term <= UINT32_MAX;
    for (size_t w = 0; good && w < workflow_count; w++) {
        good = take_workflow(&reader, &core->workflows[w]);
    }
    if (!good || reader.bad || reader.left != 0) {
        return err_set(err, ERR_CORRUPT, "snapshot: damaged, or of another recipe");
    }
    core->last_fact = last_fact;
    core->term = (uint32_t)term;
    return ERR_OK;
}
