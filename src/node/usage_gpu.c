/* What GPUs do, by node and by task. */
#include "node/usage_internal.h"

enum { MASK_BITS = 64 };

static bool owns(const struct usage_slot *slot, uint32_t gpu)
{
    return gpu < MASK_BITS && (slot->gpus >> gpu & 1) != 0;
}

/* A GPU given to one task alone is that task's, whatever the driver says of processes: in a
 * container it knows them by other numbers. */
static bool add_to_owner(const struct nvml_load *load, uint32_t gpu, struct usage_slot *slots,
                         size_t slot_count)
{
    for (size_t i = 0; i < slot_count; i++) {
        if (owns(&slots[i], gpu)) {
            slots[i].sample.gpu_milli += load->busy_milli;
            slots[i].sample.gpu_memory_bytes += load->memory_bytes;
            return true;
        }
    }
    return false;
}

static void add_by_process(struct nvml *nvml, uint32_t gpu, const struct usage_tree *tree,
                           struct usage_slot *slots)
{
    struct nvml_process processes[NVML_PROCESSES_MAX];
    size_t count = nvml_processes(nvml, gpu, processes, NVML_PROCESSES_MAX);
    for (size_t i = 0; i < count; i++) {
        int group = usage_tree_group(tree, processes[i].pid);
        if (group != USAGE_NO_GROUP) {
            slots[group].sample.gpu_milli += processes[i].busy_milli;
            slots[group].sample.gpu_memory_bytes += processes[i].memory_bytes;
        }
    }
}

void usage_add_gpus(struct nvml *nvml, const struct usage_tree *tree, Drover__Usage *node,
                    struct usage_slot *slots, size_t slot_count)
{
    uint32_t count = nvml ? nvml_count(nvml) : 0;
    for (uint32_t gpu = 0; gpu < count; gpu++) {
        struct nvml_load load;
        nvml_load(nvml, gpu, &load);
        node->gpu_milli += load.busy_milli;
        node->gpu_memory_bytes += load.memory_bytes;
        if (!add_to_owner(&load, gpu, slots, slot_count) && slot_count > 0) {
            add_by_process(nvml, gpu, tree, slots);
        }
    }
}
