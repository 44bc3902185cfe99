/* Any bytes as a snapshot followed by any bytes as a log: refused or consistent, never a crash. */
#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t snapshot_size = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    snapshot_size = snapshot_size < size ? snapshot_size : size;
    uint32_t depends[] = {0};
    struct core_experiment_spec experiments[] = {
        {.task_count = 3, .needs = {.cpu_milli = 1000}, .retries = 1},
        {.task_count = 2, .needs = {.cpu_milli = 1000}, .depends_on = depends, .depends_count = 1},
    };
    struct core_experiment_spec gangs = {
        .task_count = 6, .needs = {.cpu_milli = 1000}, .gang = 3, .retries = 2};
    struct core_workflow_spec spec = {.experiments = experiments, .experiment_count = 2};
    struct core_workflow_spec gang_spec = {.experiments = &gangs, .experiment_count = 1};
    struct core_experiment_spec searches[] = {
        {.task_count = 4, .searched = true, .needs = {.cpu_milli = 1000}},
        {.task_count = 2, .needs = {.cpu_milli = 1000}, .depends_on = depends, .depends_count = 1},
    };
    struct core_workflow_spec search_spec = {.experiments = searches, .experiment_count = 2};
    struct core *core = core_create();
    core_define(core, 1, &spec);
    core_define(core, 2, &gang_spec);
    core_define(core, 3, &search_spec);
    core_set_lease(core, 4000);
    bool good = snapshot_size == 0 || core_snapshot_read(core, data, snapshot_size, NULL) == ERR_OK;
    size_t at = snapshot_size;
    while (good && at < size) {
        struct fact fact;
        size_t used = 0;
        good = fact_decode(data + at, size - at, &fact, &used, NULL) == ERR_OK &&
               core_apply(core, &fact, NULL) == ERR_OK;
        at += used;
    }
    if (good && core_term(core) < 1000000) {
        core_verify(core);
        struct core_out out = {0};
        core_begin_term(core, size % 2 ? CORE_NODES_AWAY : CORE_NODES_GONE, 1000, &out);
        core_verify(core);
        struct core_node_spec node = {.capacity = {.cpu_milli = 4000}};
        core_node_join(core, 0, &node, 1000, &out);
        core_verify(core);
        core_tick(core, 5000, &out);
        core_verify(core);
        core_out_release(&out);
    }
    core_destroy(core);
    return 0;
}
