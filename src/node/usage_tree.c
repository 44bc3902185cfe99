#include "node/usage_tree.h"

#include "base/mem.h"
#include "node/usage.h"
#include "node/usage_parse.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DIRENTS_SIZE = 32768,
    TRUSTED_PASSES = 16, /* a stranger is looked at again after this many, or up to twice that */
    DEPTH_MAX = 256,     /* of ancestors; who is deeper is taken for a stranger */
    TEXT_SIZE = 1024,
};

/* From process numbers to values, made anew for each pass. */
struct pid_table {
    struct {
        pid_t pid; /* 0: free */
        uint32_t value;
    } * places;
    size_t size; /* a power of two, at least twice what is in it */
};

enum { GROUP_UNKNOWN = -2, GROUP_UNSURE = -3 };

struct process {
    pid_t pid;
    pid_t parent;
    int group;
    uint64_t ticks;
};

struct usage_tree {
    int proc; /* -1: there is none */
    uint32_t pass;
    uint64_t tick_us;
    uint64_t page_bytes;

    pid_t *pids;
    size_t pid_count;
    size_t pid_cap;
    struct process *processes; /* those looked at in this pass */
    size_t process_count;
    size_t process_cap;
    struct pid_table places;       /* pid to index in processes */
    struct pid_table strangers;    /* pid to the pass until which it is trusted to be one */
    struct pid_table strangers_up; /* being made */
};

/* --- tables ---------------------------------------------------------------------------------- */

static size_t place_of(const struct pid_table *table, pid_t pid)
{
    size_t at = (size_t)((uint32_t)pid * 2654435761u) & (table->size - 1);
    while (table->places[at].pid != 0 && table->places[at].pid != pid) {
        at = (at + 1) & (table->size - 1);
    }
    return at;
}

static void table_reset(struct pid_table *table, size_t count)
{
    size_t size = 64;
    while (size < count * 2) {
        size *= 2;
    }
    if (size != table->size) {
        free(table->places);
        table->places = mem_array(size, sizeof *table->places);
        table->size = size;
        return;
    }
    memset(table->places, 0, size * sizeof *table->places);
}

static void table_put(struct pid_table *table, pid_t pid, uint32_t value)
{
    size_t at = place_of(table, pid);
    table->places[at].pid = pid;
    table->places[at].value = value;
}

static const uint32_t *table_get(const struct pid_table *table, pid_t pid)
{
    if (table->size == 0 || pid <= 0) {
        return NULL;
    }
    size_t at = place_of(table, pid);
    return table->places[at].pid == pid ? &table->places[at].value : NULL;
}

/* --- reading --------------------------------------------------------------------------------- */

void usage_read_at(int folder, const char *path, char *text, size_t size)
{
    text[0] = '\0';
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    size_t used = 0;
    ssize_t got = 0;
    while (used < size - 1 && (got = read(fd, text + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(fd);
}

/* One read: these files are given whole, and there are thousands. */
static void read_of(const struct usage_tree *tree, pid_t pid, const char *name, char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%d/%s", pid, name);
    text[0] = '\0';
    int fd = openat(tree->proc, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, text, TEXT_SIZE - 1);
        text[got > 0 ? got : 0] = '\0';
        close(fd);
    }
}

static pid_t number_of(const char *name)
{
    char *end = NULL;
    long number = *name >= '1' && *name <= '9' ? strtol(name, &end, 10) : 0;
    return end && *end == '\0' && number <= INT32_MAX ? (pid_t)number : 0;
}

static void list_processes(struct usage_tree *tree)
{
    _Alignas(struct dirent64) char entries[DIRENTS_SIZE];
    ssize_t size = 0;
    tree->pid_count = 0;
    lseek(tree->proc, 0, SEEK_SET);
    while ((size = getdents64(tree->proc, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            pid_t pid = number_of(entry->d_name);
            at += entry->d_reclen;
            if (pid > 0 && tree->pid_count < USAGE_PROCESSES_MAX) {
                VEC_PUSH(tree->pids, tree->pid_count, tree->pid_cap) = pid;
            }
        }
    }
}

/* Parents have lower numbers, mostly, and are read first: a child that is waited for between the
 * two reads is missed once, and not counted twice. */
static void look_at_processes(struct usage_tree *tree, const pid_t *reapers, size_t count)
{
    struct pid_table *places = &tree->places;
    table_reset(places, tree->pid_count + count);
    for (size_t i = 0; i < count; i++) {
        if (reapers[i] > 0) {
            table_put(places, reapers[i], UINT32_MAX); /* never skipped, whatever is remembered */
        }
    }
    table_reset(&tree->strangers_up, tree->pid_count);
    tree->process_count = 0;
    for (size_t i = 0; i < tree->pid_count; i++) {
        pid_t pid = tree->pids[i];
        const uint32_t *until = table_get(&tree->strangers, pid);
        if (until && *until > tree->pass && !table_get(places, pid)) {
            table_put(&tree->strangers_up, pid, *until);
            continue;
        }
        char text[TEXT_SIZE];
        struct usage_stat stat;
        read_of(tree, pid, "stat", text);
        if (usage_parse_stat(text, &stat)) {
            table_put(places, pid, (uint32_t)tree->process_count);
            VEC_PUSH(tree->processes, tree->process_count, tree->process_cap) = (struct process){
                .pid = pid, .parent = stat.parent, .group = GROUP_UNKNOWN, .ticks = stat.ticks};
        }
    }
}

/* --- belonging ------------------------------------------------------------------------------- */

static struct process *find_process(const struct usage_tree *tree, pid_t pid)
{
    const uint32_t *index = table_get(&tree->places, pid);
    return index && *index < tree->process_count ? &tree->processes[*index] : NULL;
}

/* A parent that has gone since says nothing: the process has another one by now. */
static int group_below(const struct usage_tree *tree, pid_t parent)
{
    bool is_stranger = parent <= 1 || table_get(&tree->strangers_up, parent);
    return is_stranger ? USAGE_NO_GROUP : GROUP_UNSURE;
}

/* Goes up until somebody's group is known, and gives it to all on the way. */
static void find_group(struct usage_tree *tree, struct process *process)
{
    struct process *path[DEPTH_MAX];
    size_t depth = 0;
    int group = USAGE_NO_GROUP;
    while (depth < DEPTH_MAX) {
        if (process->group != GROUP_UNKNOWN) {
            group = process->group;
            break;
        }
        path[depth++] = process;
        struct process *parent = find_process(tree, process->parent);
        if (!parent) {
            group = group_below(tree, process->parent);
            break;
        }
        process = parent;
    }
    for (size_t i = 0; i < depth; i++) {
        path[i]->group = group;
    }
}

static void find_groups(struct usage_tree *tree, const pid_t *reapers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct process *reaper = find_process(tree, reapers[i]);
        if (reaper) {
            reaper->group = (int)i;
        }
    }
    for (size_t i = 0; i < tree->process_count; i++) {
        struct process *process = &tree->processes[i];
        find_group(tree, process);
        if (process->group == USAGE_NO_GROUP) {
            uint32_t trust = TRUSTED_PASSES + (uint32_t)process->pid % TRUSTED_PASSES;
            table_put(&tree->strangers_up, process->pid, tree->pass + trust);
        }
    }
    struct pid_table old = tree->strangers;
    tree->strangers = tree->strangers_up;
    tree->strangers_up = old;
}

/* --- adding up ------------------------------------------------------------------------------- */

static void add_process(const struct usage_tree *tree, const struct process *process,
                        struct usage_totals *out, uint64_t *shared_bytes)
{
    char text[TEXT_SIZE];
    out->cpu_us += process->ticks * tree->tick_us;
    read_of(tree, process->pid, "statm", text);
    struct usage_pages pages = usage_parse_statm(text);
    uint64_t shared = pages.shared < pages.resident ? pages.shared : pages.resident;
    out->memory_bytes += (pages.resident - shared) * tree->page_bytes;
    if (shared * tree->page_bytes > *shared_bytes) {
        *shared_bytes = shared * tree->page_bytes;
    }
    read_of(tree, process->pid, "io", text);
    struct usage_flow flow = usage_parse_io(text);
    out->read_bytes += flow.in;
    out->write_bytes += flow.out;
}

void usage_tree_pass(struct usage_tree *tree, const pid_t *reapers, size_t count,
                     struct usage_totals *out)
{
    uint64_t shared_bytes[USAGE_SLOTS_MAX] = {0};
    CHECK(count <= USAGE_SLOTS_MAX);
    memset(out, 0, count * sizeof *out);
    tree->pass++;
    tree->process_count = 0;
    if (tree->proc < 0 || count == 0) {
        return;
    }
    list_processes(tree);
    look_at_processes(tree, reapers, count);
    find_groups(tree, reapers, count);
    for (size_t i = 0; i < tree->process_count; i++) {
        const struct process *process = &tree->processes[i];
        if (process->group >= 0) {
            add_process(tree, process, &out[process->group], &shared_bytes[process->group]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        out[i].memory_bytes += shared_bytes[i];
    }
}

int usage_tree_group(const struct usage_tree *tree, pid_t pid)
{
    const struct process *process = tree->process_count > 0 ? find_process(tree, pid) : NULL;
    return process && process->group >= 0 ? process->group : USAGE_NO_GROUP;
}

size_t usage_tree_looked_at(const struct usage_tree *tree)
{
    return tree->process_count;
}

struct usage_tree *usage_tree_create(const char *proc)
{
    struct usage_tree *tree = mem_alloc(sizeof *tree);
    tree->proc = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long ticks = sysconf(_SC_CLK_TCK);
    tree->tick_us = 1000000 / (uint64_t)(ticks > 0 ? ticks : 100);
    tree->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return tree;
}

void usage_tree_destroy(struct usage_tree *tree)
{
    if (!tree) {
        return;
    }
    mem_auto_close(&tree->proc);
    free(tree->pids);
    free(tree->processes);
    free(tree->places.places);
    free(tree->strangers.places);
    free(tree->strangers_up.places);
    free(tree);
}
