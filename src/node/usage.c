#include "node/usage.h"

#include "base/clock.h"
#include "base/mem.h"
#include "node/usage_internal.h"
#include "node/usage_parse.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORTEST_US = 100 * 1000, TEXT_SIZE = 65536, US_PER_S = 1000000 };

/* What is remembered of a slot between two looks. */
struct slot_state {
    uint64_t serial; /* 0: nothing yet */
    int64_t at_us;
    struct usage_counter cpu;
    struct usage_counter read;
    struct usage_counter write;
};

struct usage {
    int proc;
    int cgroup;    /* of the machine or container; -1: none */
    bool is_group; /* a container: its group says what is used, /proc speaks of the host */
    uint64_t cpu_milli_max;
    uint64_t tick_us;
    struct usage_tree *tree;
    struct nvml *nvml;

    int64_t at_us; /* of the last look; 0: none yet */
    struct usage_counter cpu;
    struct usage_counter disk_read;
    struct usage_counter disk_write;
    struct usage_counter net_in;
    struct usage_counter net_out;
    struct slot_state slots[USAGE_SLOTS_MAX];
};

struct usage *usage_open_at(const struct usage_places *places)
{
    struct usage *usage = mem_alloc(sizeof *usage);
    usage->proc = open(places->proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    usage->cgroup = open(places->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* The root of the machine's own hierarchy has no such file; that of a container has. */
    usage->is_group =
        usage->cgroup >= 0 && faccessat(usage->cgroup, "memory.current", R_OK, 0) == 0;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    usage->cpu_milli_max = (uint64_t)(cpus > 0 ? cpus : 1) * 1000;
    long ticks = sysconf(_SC_CLK_TCK);
    usage->tick_us = US_PER_S / (uint64_t)(ticks > 0 ? ticks : 100);
    usage->tree = usage_tree_create(places->proc);
    usage->nvml = nvml_open(places->nvml);
    return usage;
}

struct usage *usage_open(void)
{
    return usage_open_at(&(struct usage_places){.proc = "/proc", .cgroup = "/sys/fs/cgroup"});
}

void usage_close(struct usage *usage)
{
    if (usage) {
        mem_auto_close(&usage->proc);
        mem_auto_close(&usage->cgroup);
        usage_tree_destroy(usage->tree);
        nvml_close(usage->nvml);
        free(usage);
    }
}

uint64_t usage_counter_rate(struct usage_counter *counter, uint64_t total, int64_t elapsed_us)
{
    CHECK(elapsed_us > 0);
    if (total < counter->last) {
        if (counter->was_low) {
            counter->last = total;
        }
        counter->was_low = !counter->was_low;
        return 0;
    }
    uint64_t grown = total - counter->last;
    counter->last = total;
    counter->was_low = false;
    return (uint64_t)((double)grown * US_PER_S / (double)elapsed_us);
}

/* Microseconds of processor time a second, as thousandths of processors. */
static uint32_t cpu_rate(const struct usage *usage, struct usage_counter *counter,
                         uint64_t total_us, int64_t elapsed_us)
{
    uint64_t milli = usage_counter_rate(counter, total_us, elapsed_us) / 1000;
    return (uint32_t)(milli < usage->cpu_milli_max ? milli : usage->cpu_milli_max);
}

/* --- the node -------------------------------------------------------------------------------- */

/* What a control group holds and would not give back when asked. */
static uint64_t group_memory(int folder, char text[TEXT_SIZE])
{
    usage_read_at(folder, "memory.current", text, TEXT_SIZE);
    uint64_t held = strtoull(text, NULL, 10);
    usage_read_at(folder, "memory.stat", text, TEXT_SIZE);
    uint64_t spare = usage_parse_field(text, "inactive_file");
    return held > spare ? held - spare : 0;
}

static void sample_node(struct usage *usage, int64_t elapsed_us, Drover__Usage *out)
{
    char text[TEXT_SIZE];
    uint64_t cpu_us = 0;
    if (usage->is_group) {
        usage_read_at(usage->cgroup, "cpu.stat", text, sizeof text);
        cpu_us = usage_parse_field(text, "usage_usec");
        out->memory_bytes = group_memory(usage->cgroup, text);
    } else {
        usage_read_at(usage->proc, "stat", text, sizeof text);
        cpu_us = usage_parse_cpu(text) * usage->tick_us;
        usage_read_at(usage->proc, "meminfo", text, sizeof text);
        out->memory_bytes = usage_parse_memory(text);
    }
    out->cpu_milli = cpu_rate(usage, &usage->cpu, cpu_us, elapsed_us);

    usage_read_at(usage->proc, "diskstats", text, sizeof text);
    struct usage_flow disks = usage_parse_disks(text);
    out->disk_read_bytes = usage_counter_rate(&usage->disk_read, disks.in, elapsed_us);
    out->disk_write_bytes = usage_counter_rate(&usage->disk_write, disks.out, elapsed_us);

    usage_read_at(usage->proc, "thread-self/net/dev", text, sizeof text);
    struct usage_flow network = usage_parse_network(text);
    out->net_in_bytes = usage_counter_rate(&usage->net_in, network.in, elapsed_us);
    out->net_out_bytes = usage_counter_rate(&usage->net_out, network.out, elapsed_us);
}

/* --- slots ----------------------------------------------------------------------------------- */

/* The slot's group knows better than its processes: also of those that came and went. */
static void read_group(const char *folder, struct usage_totals *totals)
{
    char text[TEXT_SIZE];
    AUTO_CLOSE int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    usage_read_at(fd, "cpu.stat", text, sizeof text);
    uint64_t cpu_us = usage_parse_field(text, "usage_usec");
    totals->cpu_us = cpu_us > 0 ? cpu_us : totals->cpu_us;
    uint64_t memory_bytes = group_memory(fd, text);
    totals->memory_bytes = memory_bytes > 0 ? memory_bytes : totals->memory_bytes;
    usage_read_at(fd, "io.stat", text, sizeof text);
    if (text[0]) {
        struct usage_flow flow = usage_parse_group_io(text);
        totals->read_bytes = flow.in;
        totals->write_bytes = flow.out;
    }
}

static void sample_slot(struct usage *usage, struct usage_slot *slot,
                        const struct usage_totals *totals, int64_t now_us)
{
    struct slot_state *state = &usage->slots[slot->index];
    Drover__Usage *out = &slot->sample;
    if (state->serial != slot->serial) {
        *state = (struct slot_state){.serial = slot->serial, .at_us = now_us};
        state->cpu.last = totals->cpu_us;
        state->read.last = totals->read_bytes;
        state->write.last = totals->write_bytes;
        slot->has_sample = false;
        return;
    }
    int64_t elapsed_us = now_us - state->at_us;
    state->at_us = now_us;
    out->cpu_milli = cpu_rate(usage, &state->cpu, totals->cpu_us, elapsed_us);
    out->memory_bytes = totals->memory_bytes;
    out->disk_read_bytes = usage_counter_rate(&state->read, totals->read_bytes, elapsed_us);
    out->disk_write_bytes = usage_counter_rate(&state->write, totals->write_bytes, elapsed_us);
    slot->has_sample = true;
}

static void sample_slots(struct usage *usage, struct usage_slot *slots, size_t slot_count,
                         int64_t now_us)
{
    pid_t reapers[USAGE_SLOTS_MAX] = {0};
    struct usage_totals totals[USAGE_SLOTS_MAX];
    for (size_t i = 0; i < slot_count; i++) {
        CHECK(slots[i].index < USAGE_SLOTS_MAX);
        CHECK(slots[i].serial > 0);
        reapers[i] = slots[i].reaper;
    }
    usage_tree_pass(usage->tree, reapers, slot_count, totals);
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i].cgroup) {
            read_group(slots[i].cgroup, &totals[i]);
        }
        sample_slot(usage, &slots[i], &totals[i], now_us);
    }
}

bool usage_sample(struct usage *usage, Drover__Usage *node, struct usage_slot *slots,
                  size_t slot_count)
{
    CHECK(slot_count <= USAGE_SLOTS_MAX);
    int64_t now_us = clock_mono_us();
    int64_t unix_ms = clock_unix_ms();
    int64_t elapsed_us = now_us - usage->at_us;
    bool is_first = usage->at_us == 0;
    drover__usage__init(node);
    node->at_unix_ms = unix_ms;
    for (size_t i = 0; i < slot_count; i++) {
        drover__usage__init(&slots[i].sample);
        slots[i].sample.at_unix_ms = unix_ms;
        slots[i].has_sample = false;
    }
    if (!is_first && elapsed_us < SHORTEST_US) {
        return false;
    }
    usage->at_us = now_us;
    sample_node(usage, elapsed_us, node);
    sample_slots(usage, slots, slot_count, now_us);
    usage_add_gpus(usage->nvml, usage->tree, node, slots, slot_count);
    return !is_first;
}
