#include "node/tree.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MEMBERS_MAX = 16384, /* more are met in the next round */
    STOP_PASSES_MAX = 16,
    DIRENTS_SIZE = 8192,
};

struct member {
    pid_t pid;
    pid_t parent;
};

static struct member members[MEMBERS_MAX];
static size_t member_count;

struct process_stat {
    pid_t parent;
    pid_t session;
};

/* "/proc/PID/NAME", or "/proc/PID/task/TID/NAME" with tid > 0. snprintf is not safe here. */
static void proc_path(char *out, pid_t pid, pid_t tid, const char *name)
{
    const char *parts[] = {"/proc/", NULL, "/task/", NULL, "/", name};
    const pid_t numbers[] = {0, pid, 0, tid};
    size_t at = 0;
    for (size_t part = 0; part < 6; part++) {
        if (tid == 0 && (part == 2 || part == 3)) {
            continue;
        }
        if (parts[part]) {
            size_t size = strlen(parts[part]);
            memcpy(out + at, parts[part], size);
            at += size;
            continue;
        }
        char digits[12];
        size_t count = 0;
        for (pid_t rest = numbers[part]; rest > 0 || count == 0; rest /= 10) {
            digits[count++] = (char)('0' + rest % 10);
        }
        while (count > 0) {
            out[at++] = digits[--count];
        }
    }
    out[at] = '\0';
}

enum { PROC_PATH_SIZE = 64 };

/* The decimal number at *at, which moves behind it; 0 if there is none. */
static pid_t take_number(const char **at)
{
    int64_t number = 0;
    while (**at == ' ') {
        (*at)++;
    }
    while (**at >= '0' && **at <= '9' && number <= INT32_MAX) {
        number = number * 10 + (*(*at)++ - '0');
    }
    return number <= INT32_MAX ? (pid_t)number : 0;
}

static bool read_stat(pid_t pid, struct process_stat *out)
{
    char path[PROC_PATH_SIZE];
    char text[1024];
    proc_path(path, pid, 0, "stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0) {
        return false;
    }
    text[size] = '\0';
    /* The name is in parentheses and may hold any byte: what follows starts at the last one. */
    const char *at = strrchr(text, ')');
    if (!at || strlen(at) < 4) {
        return false;
    }
    at += 4; /* ") S " */
    out->parent = take_number(&at);
    take_number(&at); /* process group */
    out->session = take_number(&at);
    return true;
}

static bool is_spared(pid_t pid, const struct tree_spare *spare)
{
    if (!spare) {
        return false;
    }
    for (size_t i = 0; i < spare->count; i++) {
        if (spare->pids[i] == pid) {
            return true;
        }
    }
    struct process_stat stat;
    return !read_stat(pid, &stat) || stat.session == spare->session;
}

static void add_member(pid_t pid, pid_t parent, const struct tree_spare *spare)
{
    bool is_child = parent == getpid();
    if (pid > 0 && member_count < MEMBERS_MAX && !(is_child && is_spared(pid, spare))) {
        members[member_count++] = (struct member){.pid = pid, .parent = parent};
    }
}

/* False if the kernel has no such file. */
static bool add_children_of_thread(pid_t pid, pid_t tid, const struct tree_spare *spare)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, tid, "children");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno != ENOENT || tid != pid || kill(pid, 0) != 0;
    }
    char text[4096];
    size_t kept = 0;
    ssize_t got = 0;
    while ((got = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        size_t size = kept + (size_t)got;
        text[size] = '\0';
        const char *at = text;
        for (char *space = NULL; (space = strchr(at, ' ')) != NULL;) {
            add_member(take_number(&at), pid, spare);
            at = space + 1;
        }
        kept = size - (size_t)(at - text); /* a number cut in two by the end of the buffer */
        memmove(text, at, kept);
    }
    close(fd);
    return true;
}

/* Calls add for each number that names an entry of the folder. */
static bool for_each_number(const char *path, bool (*visit)(pid_t number, void *context),
                            void *context)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return true;
    }
    _Alignas(struct dirent64) char entries[DIRENTS_SIZE];
    bool ok = true;
    ssize_t size = 0;
    while (ok && (size = getdents64(fd, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; ok && at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            const char *digits = entry->d_name;
            pid_t number = take_number(&digits);
            at += entry->d_reclen;
            ok = number == 0 || *digits != '\0' || visit(number, context);
        }
    }
    close(fd);
    return ok;
}

struct walk {
    pid_t pid;
    const struct tree_spare *spare;
};

static bool visit_thread(pid_t tid, void *context)
{
    const struct walk *walk = context;
    return add_children_of_thread(walk->pid, tid, walk->spare);
}

static bool add_children(pid_t pid, const struct tree_spare *spare)
{
    char path[PROC_PATH_SIZE];
    struct walk walk = {.pid = pid, .spare = spare};
    proc_path(path, pid, 0, "task");
    return for_each_number(path, visit_thread, &walk);
}

/* Without the children file: everyone's parent, then those whose parent is a member. */
static struct member everyone[MEMBERS_MAX];
static size_t everyone_count;

static bool visit_process(pid_t pid, void *context)
{
    (void)context;
    struct process_stat stat;
    if (everyone_count < MEMBERS_MAX && read_stat(pid, &stat)) {
        everyone[everyone_count++] = (struct member){.pid = pid, .parent = stat.parent};
    }
    return true;
}

static void add_from_everyone(pid_t parent, const struct tree_spare *spare)
{
    for (size_t i = 0; i < everyone_count; i++) {
        if (everyone[i].parent == parent) {
            add_member(everyone[i].pid, parent, spare);
        }
    }
}

static void find_members_slowly(const struct tree_spare *spare)
{
    everyone_count = 0;
    for_each_number("/proc", visit_process, NULL);
    member_count = 0;
    add_from_everyone(getpid(), spare);
    for (size_t i = 0; i < member_count; i++) {
        add_from_everyone(members[i].pid, spare);
    }
}

static bool is_fast = true;

void tree_set_fast(bool fast)
{
    is_fast = fast;
}

static void find_members(const struct tree_spare *spare)
{
    member_count = 0;
    bool ok = is_fast && add_children(getpid(), spare);
    for (size_t i = 0; ok && i < member_count; i++) {
        ok = add_children(members[i].pid, spare);
    }
    if (!ok) {
        find_members_slowly(spare);
    }
}

/* The descriptor pins whoever has the number now; if that one's parent is the one expected, then it
 * is the one meant. */
void tree_signal_one(pid_t pid, pid_t parent, int signal)
{
    int fd = pidfd_open(pid, 0);
    if (fd < 0) {
        return;
    }
    struct process_stat stat;
    if (read_stat(pid, &stat) && (stat.parent == parent || stat.parent == getpid())) {
        pidfd_send_signal(fd, signal, NULL, 0);
    }
    close(fd);
}

size_t tree_signal(int signal, const struct tree_spare *spare)
{
    find_members(spare);
    for (size_t i = 0; i < member_count; i++) {
        tree_signal_one(members[i].pid, members[i].parent, signal);
    }
    return member_count;
}

static void reap_children(int64_t *cpu_us)
{
    for (size_t i = 0; i < member_count; i++) {
        struct rusage usage;
        if (wait4(members[i].pid, NULL, WNOHANG, &usage) > 0) {
            *cpu_us += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
        }
    }
}

bool tree_kill(const struct tree_spare *spare, int64_t timeout_ms, int64_t *cpu_us)
{
    int64_t until_ms = clock_mono_ms() + timeout_ms;
    int64_t pause_us = 100;
    for (;;) {
        size_t count = tree_signal(SIGSTOP, spare);
        for (int pass = 0; pass < STOP_PASSES_MAX; pass++) {
            size_t before = count;
            count = tree_signal(SIGSTOP, spare);
            if (count <= before) {
                break;
            }
        }
        if (tree_signal(SIGKILL, spare) == 0) {
            return true;
        }
        struct timespec pause = {.tv_nsec = pause_us * 1000};
        nanosleep(&pause, NULL); /* death takes a moment */
        pause_us = pause_us < 10000 ? pause_us * 2 : pause_us;
        reap_children(cpu_us);
        find_members(spare);
        if (member_count == 0) {
            return true;
        }
        if (clock_mono_ms() >= until_ms) {
            return false;
        }
    }
}
