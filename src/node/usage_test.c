#include "node/usage.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/rng.h"
#include "node/usage_internal.h"
#include "node/usage_parse.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void busy_time_of_a_machine_leaves_out_idling_and_guests(void **state)
{
    (void)state;
    assert_int_equal(usage_parse_cpu("cpu  100 20 30 4000 500 6 7 80 90 10\ncpu0 1 2 3"), 163);
    assert_int_equal(usage_parse_cpu("intr 1"), 0);
    assert_int_equal(usage_parse_cpu(""), 0);
}

static void used_memory_is_what_cannot_be_had(void **state)
{
    (void)state;
    const char *text =
        "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:   400 kB\nBuffers: 1 kB\n";
    assert_int_equal(usage_parse_memory(text), 600 * 1024);
    assert_int_equal(usage_parse_memory("MemTotal: 12"), 12 * 1024);
    assert_int_equal(usage_parse_memory(""), 0);
}

static void a_disk_and_its_parts_are_counted_once(void **state)
{
    (void)state;
    const char *text = "   7       0 loop0 9 0 9 0 9 0 9 0 0 0 0\n"
                       " 259       0 nvme0n1 10 0 100 0 20 0 200 0 0 0 0 0 0 0 0 0 0\n"
                       " 259       1 nvme0n1p1 10 0 60 0 20 0 70 0 0 0 0\n"
                       " 259       2 nvme0n1p2 10 0 40 0 20 0 130 0 0 0 0\n"
                       "   8       0 sda 1 0 1000 0 1 0 2000 0 0 0 0\n"
                       "   8       1 sda1 1 0 1000 0 1 0 2000 0 0 0 0\n"
                       "   8      16 sdb 1 0 1 0 1 0 1 0 0 0 0\n"
                       " 253       0 dm-0 1 0 1100 0 1 0 2200 0 0 0 0\n";
    struct usage_flow flow = usage_parse_disks(text);
    assert_int_equal(flow.in, 1101 * 512);
    assert_int_equal(flow.out, 2201 * 512);
    flow = usage_parse_disks(" 8 0 sda");
    assert_int_equal(flow.in + flow.out, 0);
}

static void virtual_interfaces_count_only_where_there_is_nothing_else(void **state)
{
    (void)state;
    char text[512];
    const char *head = "Inter-|   Receive\n face |bytes\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n";
    const char *veth = "  veth0:    50 1 0 0 0 0 0 0 60 1 0 0 0 0 0 0\n";
    const char *real = "  eth0:1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n";
    snprintf(text, sizeof text, "%s%s%s", head, veth, real);
    struct usage_flow flow = usage_parse_network(text);
    assert_int_equal(flow.in, 1000);
    assert_int_equal(flow.out, 2000);
    snprintf(text, sizeof text, "%s%s", head, veth);
    flow = usage_parse_network(text);
    assert_int_equal(flow.in, 50);
    assert_int_equal(flow.out, 60);
}

static void a_process_may_have_any_name(void **state)
{
    (void)state;
    struct usage_stat stat;
    const char *text = "12 (a) S 1 (b) R 7 12 12 0 -1 4194304 1 2 3 4 100 20 3 4 20 0 1 0 9 9 9";
    assert_true(usage_parse_stat(text, &stat));
    assert_int_equal(stat.parent, 7);
    assert_int_equal(stat.ticks, 127);
    assert_false(usage_parse_stat("12 (a", &stat));
    assert_false(usage_parse_stat("", &stat));
}

static void groups_tell_their_disks(void **state)
{
    (void)state;
    struct usage_flow flow = usage_parse_group_io("8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=5\n"
                                                  "8:16 rbytes=1 wbytes=2 rios=1\n");
    assert_int_equal(flow.in, 11);
    assert_int_equal(flow.out, 22);
}

static void a_total_that_falls_gives_nothing_and_no_peak_after(void **state)
{
    (void)state;
    struct usage_counter counter = {.last = 1000};
    assert_int_equal(usage_counter_rate(&counter, 3000, 2000000), 1000);
    assert_int_equal(usage_counter_rate(&counter, 500, 1000000), 0); /* somebody was missed */
    assert_int_equal(usage_counter_rate(&counter, 3100, 1000000), 100);
    assert_int_equal(usage_counter_rate(&counter, 200, 1000000), 0); /* somebody is gone */
    assert_int_equal(usage_counter_rate(&counter, 210, 1000000), 0);
    assert_int_equal(usage_counter_rate(&counter, 260, 1000000), 50);
}

/* --- a /proc of our own ---------------------------------------------------------------------- */

enum { MODEL_PROCESSES = 60, MODEL_SLOTS = 5, MODEL_STEPS = 60 };

struct model_process {
    bool lives;
    int parent; /* index, or -1: a stranger's child */
    int group;  /* >= 0: is the reaper of that slot */
    unsigned ticks;
    unsigned resident;
    unsigned shared;
    unsigned read;
};

static void write_at(const char *folder, int pid, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%d/%s", folder, pid, name);
    assert_int_equal(io_replace_file(path, text, strlen(text), 0600, NULL), ERR_OK);
}

static void write_process(const char *folder, int index, const struct model_process *process)
{
    char path[256];
    char text[256];
    int pid = 1000 + index;
    snprintf(path, sizeof path, "%s/%d", folder, pid);
    if (!process->lives) {
        assert_int_equal(io_remove_tree(path, NULL), ERR_OK);
        return;
    }
    assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
    snprintf(text, sizeof text, "%d (x) S %d 1 1 0 -1 1 1 2 3 4 %u 0 0 0 20 0 1 0 9", pid,
             process->parent < 0 ? 1 : 1000 + process->parent, process->ticks);
    write_at(folder, pid, "stat", text);
    snprintf(text, sizeof text, "9999 %u %u 1 0 1 0", process->resident, process->shared);
    write_at(folder, pid, "statm", text);
    snprintf(text, sizeof text, "rchar: 1\nread_bytes: %u\nwrite_bytes: %u\n", process->read,
             process->read * 2);
    write_at(folder, pid, "io", text);
}

static int model_group(const struct model_process *processes, int index)
{
    while (index >= 0 && processes[index].group < 0) {
        index = processes[index].parent;
    }
    return index < 0 ? -1 : processes[index].group;
}

static void check_pass(const struct model_process *processes, const struct usage_tree *tree,
                       const struct usage_totals *got)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    struct usage_totals want[MODEL_SLOTS] = {0};
    uint64_t shared[MODEL_SLOTS] = {0};
    for (int i = 0; i < MODEL_PROCESSES; i++) {
        int group = processes[i].lives ? model_group(processes, i) : -1;
        assert_int_equal(usage_tree_group(tree, 1000 + i), group);
        if (group < 0) {
            continue;
        }
        want[group].cpu_us += processes[i].ticks * tick_us;
        want[group].memory_bytes += (processes[i].resident - processes[i].shared) * page;
        want[group].read_bytes += processes[i].read;
        want[group].write_bytes += 2 * (uint64_t)processes[i].read;
        shared[group] = processes[i].shared > shared[group] ? processes[i].shared : shared[group];
    }
    for (int i = 0; i < MODEL_SLOTS; i++) {
        assert_int_equal(got[i].cpu_us, want[i].cpu_us);
        assert_int_equal(got[i].memory_bytes, want[i].memory_bytes + shared[i] * page);
        assert_int_equal(got[i].read_bytes, want[i].read_bytes);
        assert_int_equal(got[i].write_bytes, want[i].write_bytes);
    }
}

/* One process is born, works, or dies with all below it going to its parent or to nobody. */
static void change_one(struct rng *rng, struct model_process *processes, const char *folder)
{
    int index = (int)rng_below(rng, MODEL_PROCESSES);
    struct model_process *process = &processes[index];
    if (!process->lives) {
        int parent = (int)rng_below(rng, (uint64_t)index + 1) - 1;
        bool is_orphan = parent >= 0 && !processes[parent].lives;
        process->lives = true;
        process->parent = is_orphan ? -1 : parent;
    } else if (process->group < 0 && rng_below(rng, 3) == 0) {
        bool has_child = false;
        for (int i = 0; i < MODEL_PROCESSES; i++) {
            has_child = has_child || (processes[i].lives && processes[i].parent == index);
        }
        process->lives = has_child;
    }
    process->ticks += (unsigned)rng_below(rng, 100);
    process->shared = (unsigned)rng_below(rng, 50);
    process->resident = process->shared + (unsigned)rng_below(rng, 100);
    process->read += (unsigned)rng_below(rng, 1000);
    write_process(folder, index, process);
}

static void random_trees_are_added_up_like_the_model(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    char folder[] = "/tmp/drover-usage-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct model_process processes[MODEL_PROCESSES] = {0};
    pid_t reapers[MODEL_SLOTS];
    for (int i = 0; i < MODEL_PROCESSES; i++) {
        processes[i].group = i % 7 == 2 && i / 7 < MODEL_SLOTS ? i / 7 : -1;
        if (processes[i].group >= 0) {
            processes[i].lives = true;
            processes[i].parent = -1;
            reapers[processes[i].group] = 1000 + i;
        }
        write_process(folder, i, &processes[i]);
    }
    struct usage_tree *tree = usage_tree_create(folder);
    struct usage_totals got[MODEL_SLOTS];
    for (int step = 0; step < MODEL_STEPS; step++) {
        for (uint64_t i = rng_below(&rng, 20); i > 0; i--) {
            change_one(&rng, processes, folder);
        }
        /* A number that died and was born again elsewhere within a pass would be taken for what it
         * was: the model's numbers rest for as long as strangers are remembered. */
        for (int i = 0; i < 40; i++) {
            usage_tree_pass(tree, reapers, MODEL_SLOTS, got);
        }
        check_pass(processes, tree, got);
    }
    usage_tree_destroy(tree);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

static void strangers_are_not_looked_at_in_every_pass(void **state)
{
    (void)state;
    struct usage_tree *tree = usage_tree_create("/proc");
    pid_t reaper = getpid();
    struct usage_totals totals;
    usage_tree_pass(tree, &reaper, 1, &totals);
    size_t first = usage_tree_looked_at(tree);
    usage_tree_pass(tree, &reaper, 1, &totals);
    assert_true(first > 1);
    assert_true(usage_tree_looked_at(tree) < first);
    assert_true(totals.memory_bytes > 0);
    assert_int_equal(usage_tree_group(tree, getpid()), 0);
    assert_int_equal(usage_tree_group(tree, 1), USAGE_NO_GROUP);
    usage_tree_destroy(tree);
}

/* --- real processes -------------------------------------------------------------------------- */

static void burn(int64_t for_ms)
{
    int64_t until_ms = clock_mono_ms() + for_ms;
    while (clock_mono_ms() < until_ms) {
    }
}

/* A reaper with a child that holds memory and a grandchild that works in bursts, each in a process
 * of its own, so that most of the work is done by processes that have gone. */
static pid_t start_family(void)
{
    pid_t reaper = fork();
    if (reaper != 0) {
        return reaper;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        enum { HELD = 64 << 20 };
        char *memory = mmap(NULL, HELD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(memory, 1, HELD);
        for (;;) {
            if (fork() == 0) {
                burn(50);
                _exit(0);
            }
            wait(NULL);
        }
    }
    pause();
    _exit(0);
}

static void a_task_is_measured_with_all_it_started(void **state)
{
    (void)state;
    struct usage *usage = usage_open();
    pid_t reaper = start_family();
    struct usage_slot slot = {.index = 3, .reaper = reaper, .serial = 1};
    Drover__Usage node;
    assert_false(usage_sample(usage, &node, &slot, 1));
    assert_false(slot.has_sample);
    assert_false(usage_sample(usage, &node, &slot, 1)); /* too soon */
    poll(NULL, 0, 1500);
    assert_true(usage_sample(usage, &node, &slot, 1));
    assert_true(slot.has_sample);
    printf("task: cpu %u memory %llu; node: cpu %u memory %llu\n", slot.sample.cpu_milli,
           (unsigned long long)slot.sample.memory_bytes, node.cpu_milli,
           (unsigned long long)node.memory_bytes);
    assert_in_range(slot.sample.cpu_milli, 20, 1200);
    assert_in_range(slot.sample.memory_bytes, 60 << 20, 400 << 20);
    assert_true(node.memory_bytes > 0);
    assert_true(node.cpu_milli > 0);
    assert_true(node.at_unix_ms > 0);
    slot.serial = 2; /* another attempt in the same slot begins anew */
    usleep(150 * 1000);
    assert_true(usage_sample(usage, &node, &slot, 1));
    assert_false(slot.has_sample);
    kill(reaper, SIGKILL);
    waitpid(reaper, NULL, 0);
    usleep(150 * 1000);
    assert_true(usage_sample(usage, &node, &slot, 1)); /* nobody there: nothing used */
    assert_int_equal(slot.sample.memory_bytes, 0);
    usage_close(usage);
}

static void a_slot_with_a_group_is_measured_by_it(void **state)
{
    (void)state;
    char folder[] = "/tmp/drover-usage-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *const files[][3] = {
        {"cpu.stat", "usage_usec 1000000\nuser_usec 1\n", "usage_usec 1100000\n"},
        {"memory.current", "5000000\n", "6000000\n"},
        {"memory.stat", "anon 1\ninactive_file 1000000\n", "inactive_file 1000000\n"},
        {"io.stat", "8:0 rbytes=1000 wbytes=0\n", "8:0 rbytes=1000000001000 wbytes=0\n"},
    };
    struct usage *usage = usage_open_at(
        &(struct usage_places){.proc = "/proc", .cgroup = folder, .nvml = "/nowhere/nvml.so"});
    struct usage_slot slot = {.index = 0, .reaper = getpid(), .serial = 1, .cgroup = folder};
    Drover__Usage node;
    for (int look = 1; look <= 2; look++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
            const char *text = files[i][look];
            assert_int_equal(io_replace_file(path, text, strlen(text), 0600, NULL), ERR_OK);
        }
        usage_sample(usage, &node, &slot, 1);
        usleep(look == 1 ? 200 * 1000 : 0);
    }
    assert_true(slot.has_sample);
    assert_int_equal(slot.sample.memory_bytes, 5000000);
    assert_in_range(slot.sample.cpu_milli, 50, 510); /* 100 ms in 200 ms or somewhat more */
    assert_true(slot.sample.disk_read_bytes > 1000000);
    usage_close(usage);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

/* --- GPUs ------------------------------------------------------------------------------------ */

static struct usage *open_with_fake_gpus(void)
{
    return usage_open_at(
        &(struct usage_places){.proc = "/proc", .cgroup = "/nowhere", .nvml = getenv("FAKE_NVML")});
}

static void without_a_driver_there_are_no_gpus(void **state)
{
    (void)state;
    assert_null(nvml_open("/nowhere/libnvidia-ml.so.1"));
    nvml_close(NULL);
}

static void gpus_are_counted_by_owner_and_by_process(void **state)
{
    (void)state;
    if (!getenv("FAKE_NVML")) {
        skip();
    }
    char pid[16];
    snprintf(pid, sizeof pid, "%d", getpid());
    setenv("FAKE_NVML_PID", pid, 1);
    struct usage *usage = open_with_fake_gpus();
    struct usage_slot slots[2] = {
        {.index = 0, .reaper = getppid(), .serial = 1, .gpus = 1},
        {.index = 1, .reaper = getpid(), .serial = 1},
    };
    Drover__Usage node;
    usage_sample(usage, &node, slots, 2);
    assert_int_equal(node.gpu_milli, 250 + 800);
    assert_int_equal(node.gpu_memory_bytes, 6000);
    assert_int_equal(slots[0].sample.gpu_milli, 250);
    assert_int_equal(slots[0].sample.gpu_memory_bytes, 1000);
    assert_int_equal(slots[1].sample.gpu_milli, 700);
    assert_int_equal(slots[1].sample.gpu_memory_bytes, 4000);
    usage_close(usage);

    struct nvml *nvml = nvml_open(getenv("FAKE_NVML"));
    char name[NVML_NAME_BYTES];
    assert_int_equal(nvml_count(nvml), 2);
    assert_true(nvml_name(nvml, 1, name));
    assert_string_equal(name, "NVIDIA H200");
    nvml_close(nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_time_of_a_machine_leaves_out_idling_and_guests),
        cmocka_unit_test(used_memory_is_what_cannot_be_had),
        cmocka_unit_test(a_disk_and_its_parts_are_counted_once),
        cmocka_unit_test(virtual_interfaces_count_only_where_there_is_nothing_else),
        cmocka_unit_test(a_process_may_have_any_name),
        cmocka_unit_test(groups_tell_their_disks),
        cmocka_unit_test(a_total_that_falls_gives_nothing_and_no_peak_after),
        cmocka_unit_test(random_trees_are_added_up_like_the_model),
        cmocka_unit_test(strangers_are_not_looked_at_in_every_pass),
        cmocka_unit_test(a_task_is_measured_with_all_it_started),
        cmocka_unit_test(a_slot_with_a_group_is_measured_by_it),
        cmocka_unit_test(without_a_driver_there_are_no_gpus),
        cmocka_unit_test(gpus_are_counted_by_owner_and_by_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
