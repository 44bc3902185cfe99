#include "node/agent.h"

#include <inttypes.h>

bool room_fits(const struct agent *agent, const Drover__Run *run)
{
    const struct node_capacity *capacity = &agent->options->capacity;
    return agent->used_cpu_milli + run->cpu_milli <= capacity->cpu_milli &&
           agent->used_memory_bytes + run->memory_bytes <= capacity->memory_bytes &&
           agent->used_gpus + run->gpus <= capacity->gpus;
}

enum err_code room_check(const struct agent *agent, const Drover__Run *run, struct err *err)
{
    const struct node_capacity *capacity = &agent->options->capacity;
    if (run->cpu_milli > capacity->cpu_milli) {
        return err_set(err, ERR_QUOTA, "needs %u milli-CPUs, this node has %u", run->cpu_milli,
                       capacity->cpu_milli);
    }
    if (run->memory_bytes > capacity->memory_bytes) {
        return err_set(err, ERR_QUOTA, "needs %" PRIu64 " bytes of memory, this node has %" PRIu64,
                       run->memory_bytes, capacity->memory_bytes);
    }
    if (run->gpus > capacity->gpus) {
        return err_set(err, ERR_QUOTA, "needs %u GPUs, this node has %u", run->gpus,
                       capacity->gpus);
    }
    return ERR_OK;
}

void room_take(struct agent *agent, const struct attempt *attempt)
{
    agent->used_cpu_milli += attempt->run->cpu_milli;
    agent->used_memory_bytes += attempt->run->memory_bytes;
    agent->used_gpus += attempt->run->gpus;
    uint32_t wanted = attempt->run->gpus;
    for (uint32_t i = 0; wanted > 0; i++) {
        CHECK(i < agent->options->capacity.gpus); /* room_fits has counted them */
        if (!agent->gpu_owner[i]) {
            agent->gpu_owner[i] = attempt;
            wanted--;
        }
    }
}

void room_give_back(struct agent *agent, const struct attempt *attempt)
{
    agent->used_cpu_milli -= attempt->run->cpu_milli;
    agent->used_memory_bytes -= attempt->run->memory_bytes;
    agent->used_gpus -= attempt->run->gpus;
    for (uint32_t i = 0; attempt->run->gpus > 0 && i < agent->options->capacity.gpus; i++) {
        if (agent->gpu_owner[i] == attempt) {
            agent->gpu_owner[i] = NULL;
        }
    }
}

/* For CUDA_VISIBLE_DEVICES. On a node with GPUs a task that asked for none sees none. */
const char *room_list_gpus(struct agent *agent, const struct attempt *attempt)
{
    if (agent->options->capacity.gpus == 0) {
        return NULL;
    }
    str_clear(&agent->gpu_list);
    for (uint32_t i = 0; attempt->run->gpus > 0 && i < agent->options->capacity.gpus; i++) {
        if (agent->gpu_owner[i] == attempt) {
            str_add(&agent->gpu_list, agent->gpu_list.size > 0 ? "," : "");
            str_add_u64(&agent->gpu_list, i);
        }
    }
    return str_text(&agent->gpu_list);
}
