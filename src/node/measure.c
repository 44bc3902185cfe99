/* What this machine and the tasks on it use, told to the master from time to time. */
#include "base/clock.h"
#include "base/mem.h"
#include "node/agent.h"

#include <stdlib.h>

/* GPU i is bit i; those beyond are found by process. */
static uint64_t gpu_bits(const struct agent *agent, const struct attempt *attempt)
{
    uint64_t bits = 0;
    uint32_t count = agent->options->capacity.gpus < 64 ? agent->options->capacity.gpus : 64;
    for (uint32_t i = 0; attempt->run->gpus > 0 && i < count; i++) {
        if (agent->gpu_owner[i] == attempt) {
            bits |= UINT64_C(1) << i;
        }
    }
    return bits;
}

static size_t list_slots(const struct agent *agent, struct usage_slot *slots)
{
    size_t count = 0;
    for (uint32_t i = 0; i < agent->slot_count; i++) {
        const struct agent_slot *slot = &agent->slots[i];
        if (slot->attempt) {
            slots[count++] = (struct usage_slot){
                .index = slot->index,
                .reaper = slot->slot.pid,
                .serial = slot->attempt->serial,
                .gpus = gpu_bits(agent, slot->attempt),
            };
        }
    }
    return count;
}

static enum err_code send_samples(struct agent *agent, Drover__Usage *node,
                                  struct usage_slot *slots, size_t count, struct err *err)
{
    AUTO_FREE Drover__Usage **samples = mem_array(count + 1, sizeof *samples);
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.usage = samples;
    samples[message.n_usage++] = node;
    for (size_t i = 0; i < count; i++) {
        if (slots[i].has_sample) {
            slots[i].sample.id = agent->slots[slots[i].index].attempt->run->id;
            samples[message.n_usage++] = &slots[i].sample;
        }
    }
    enum err_code code = link_send(agent, &message, err);
    return code == ERR_AGAIN ? ERR_OK : code;
}

enum err_code measure_turn(struct agent *agent, struct err *err)
{
    int64_t now_ms = clock_mono_ms();
    if (agent->link.state != LINK_JOINED || now_ms < agent->usage_at_ms) {
        return ERR_OK;
    }
    agent->usage_at_ms = now_ms + USAGE_EVERY_MS;
    if (!agent->usage) {
        agent->usage = usage_open();
    }
    AUTO_FREE struct usage_slot *slots = mem_array(agent->slot_count, sizeof *slots);
    Drover__Usage node = DROVER__USAGE__INIT;
    size_t count = list_slots(agent, slots);
    if (!usage_sample(agent->usage, &node, slots, count)) {
        return ERR_OK;
    }
    return send_samples(agent, &node, slots, count, err);
}

int64_t measure_wake_ms(const struct agent *agent)
{
    return agent->link.state == LINK_JOINED ? agent->usage_at_ms : INT64_MAX;
}
