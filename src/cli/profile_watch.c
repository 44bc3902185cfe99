#include "cli/profile_watch.h"

#include "base/mem.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROCESSES_MAX = 4096 };

/* ---- processes ------------------------------------------------------------------------------- */

struct process {
    pid_t pid;
    pid_t parent;
    double cpu_s;
};

/* /proc/PID/stat: the name may hold anything, so count from its closing parenthesis. */
static bool read_process(pid_t pid, struct process *out)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    char *at = strrchr(text, ')');
    int parent = 0;
    unsigned long user = 0;
    unsigned long kernel = 0;
    if (!at || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &parent, &user,
                      &kernel) != 3) {
        return false;
    }
    double ticks = (double)sysconf(_SC_CLK_TCK);
    *out = (struct process){.pid = pid, .parent = parent, .cpu_s = (double)(user + kernel) / ticks};
    return true;
}

static size_t read_processes(struct process *out)
{
    DIR *dir = opendir("/proc");
    size_t count = 0;
    struct dirent *entry = NULL;
    while (dir && count < PROCESSES_MAX && (entry = readdir(dir))) {
        long pid = strtol(entry->d_name, NULL, 10);
        count += pid > 0 && read_process((pid_t)pid, &out[count]);
    }
    if (dir) {
        (void)closedir(dir);
    }
    return count;
}

/* Moves root and all below it to the front; returns how many. */
static size_t keep_tree(struct process *all, size_t count, pid_t root)
{
    size_t kept = 0;
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = kept; i < count; i++) {
            bool below = all[i].pid == root;
            for (size_t k = 0; k < kept && !below; k++) {
                below = all[k].pid == all[i].parent;
            }
            if (below) {
                struct process swap = all[kept];
                all[kept++] = all[i];
                all[i] = swap;
                more = true;
            }
        }
    }
    return kept;
}

/* ---- sockets --------------------------------------------------------------------------------- */

struct inodes {
    uint64_t *items;
    size_t count;
    size_t cap;
};

static void add_inodes(pid_t pid, struct inodes *inodes)
{
    char path[64];
    char link[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, link, sizeof link - 1);
        if (size > 8 && strncmp(link, "socket:[", 8) == 0) {
            link[size] = '\0';
            VEC_PUSH(inodes->items, inodes->count, inodes->cap) = strtoull(link + 8, NULL, 10);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

static bool holds(const struct inodes *inodes, uint64_t inode)
{
    for (size_t i = 0; i < inodes->count; i++) {
        if (inodes->items[i] == inode) {
            return true;
        }
    }
    return false;
}

static void note_socket(struct profile_watch *watch, uint64_t inode, const struct tcp_info *info)
{
    struct profile_socket *found = NULL;
    for (size_t i = 0; i < watch->socket_count && !found; i++) {
        found = watch->sockets[i].inode == inode ? &watch->sockets[i] : NULL;
    }
    if (!found) {
        found = &VEC_PUSH(watch->sockets, watch->socket_count, watch->socket_cap);
        *found = (struct profile_socket){.inode = inode};
    }
    found->sent = info->tcpi_bytes_acked > found->sent ? info->tcpi_bytes_acked : found->sent;
    found->received =
        info->tcpi_bytes_received > found->received ? info->tcpi_bytes_received : found->received;
}

static void read_message(struct profile_watch *watch, const struct inodes *inodes,
                         const struct nlmsghdr *header)
{
    const struct inet_diag_msg *message = NLMSG_DATA(header);
    const struct rtattr *attribute = (const struct rtattr *)(message + 1);
    unsigned int left =
        header->nlmsg_len - (unsigned int)NLMSG_LENGTH(sizeof(struct inet_diag_msg));
    if (!holds(inodes, message->idiag_inode)) {
        return;
    }
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        if (attribute->rta_type == INET_DIAG_INFO) {
            struct tcp_info info = {0};
            size_t size = RTA_PAYLOAD(attribute);
            memcpy(&info, RTA_DATA(attribute), size < sizeof info ? size : sizeof info);
            note_socket(watch, message->idiag_inode, &info);
        }
    }
}

/* False: no more messages of this dump. */
static bool read_reply(struct profile_watch *watch, const struct inodes *inodes, int fd)
{
    static _Alignas(struct nlmsghdr) char buffer[1 << 16];
    ssize_t size = recv(fd, buffer, sizeof buffer, 0);
    if (size <= 0) {
        return size < 0 && errno == EINTR;
    }
    unsigned int left = (unsigned int)size;
    const struct nlmsghdr *header = (const struct nlmsghdr *)buffer;
    for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
        if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) {
            watch->no_counters = watch->no_counters || header->nlmsg_type == NLMSG_ERROR;
            return false;
        }
        if (header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
            read_message(watch, inodes, header);
        }
    }
    return true;
}

static void read_sockets(struct profile_watch *watch, const struct inodes *inodes, int family)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) {
        watch->no_counters = true;
        return;
    }
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } message = {.header = {.nlmsg_len = sizeof message,
                            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 .request = {.sdiag_family = (uint8_t)family,
                             .sdiag_protocol = IPPROTO_TCP,
                             .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                             .idiag_states = UINT32_MAX}};
    if (send(fd, &message, sizeof message, 0) < 0) {
        watch->no_counters = true;
    } else {
        while (read_reply(watch, inodes, fd)) {
        }
    }
    (void)close(fd);
}

/* ---- watching -------------------------------------------------------------------------------- */

void profile_watch_look(struct profile_watch *watch)
{
    struct process *all = mem_array(PROCESSES_MAX, sizeof *all);
    struct inodes inodes = {0};
    size_t count = keep_tree(all, read_processes(all), watch->root);
    double cpu_s = 0;
    for (size_t i = 0; i < count; i++) {
        cpu_s += all[i].cpu_s;
        add_inodes(all[i].pid, &inodes);
    }
    watch->cpu_s = cpu_s > watch->cpu_s ? cpu_s : watch->cpu_s;
    if (inodes.count > 0) {
        read_sockets(watch, &inodes, AF_INET);
        read_sockets(watch, &inodes, AF_INET6);
    }
    free(inodes.items);
    free(all);
}

static void add_all(const struct profile_watch *watch, uint64_t *sent, uint64_t *received)
{
    *sent = 0;
    *received = 0;
    for (size_t i = 0; i < watch->socket_count; i++) {
        *sent += watch->sockets[i].sent;
        *received += watch->sockets[i].received;
    }
}

void profile_watch_begin(struct profile_watch *watch)
{
    profile_watch_look(watch);
    add_all(watch, &watch->base_sent, &watch->base_received);
    watch->base_cpu_s = watch->cpu_s;
}

void profile_watch_bytes(const struct profile_watch *watch, uint64_t *sent, uint64_t *received)
{
    add_all(watch, sent, received);
    *sent -= watch->base_sent;
    *received -= watch->base_received;
}

double profile_watch_cpu_s(const struct profile_watch *watch)
{
    return watch->cpu_s - watch->base_cpu_s;
}

void profile_watch_release(struct profile_watch *watch)
{
    free(watch->sockets);
    watch->sockets = NULL;
    watch->socket_count = watch->socket_cap = 0;
}

/* ---- GPU ------------------------------------------------------------------------------------- */

struct nvml_use {
    unsigned int gpu;
    unsigned int memory;
};

typedef int (*nvml_init_fn)(void);
typedef int (*nvml_count_fn)(unsigned int *count);
typedef int (*nvml_handle_fn)(unsigned int index, void **device);
typedef int (*nvml_use_fn)(void *device, struct nvml_use *use);

double profile_gpu_percent(void)
{
    static void *library;
    static bool tried;
    if (!tried) {
        tried = true;
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        nvml_init_fn init = library ? (nvml_init_fn)dlsym(library, "nvmlInit_v2") : NULL;
        library = init && init() == 0 ? library : NULL;
    }
    if (!library) {
        return -1;
    }
    nvml_count_fn count_fn = (nvml_count_fn)dlsym(library, "nvmlDeviceGetCount_v2");
    nvml_handle_fn handle_fn = (nvml_handle_fn)dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    nvml_use_fn use_fn = (nvml_use_fn)dlsym(library, "nvmlDeviceGetUtilizationRates");
    unsigned int count = 0;
    if (!count_fn || !handle_fn || !use_fn || count_fn(&count) != 0 || count == 0) {
        return -1;
    }
    double sum = 0;
    for (unsigned int i = 0; i < count; i++) {
        void *device = NULL;
        struct nvml_use use = {0};
        if (handle_fn(i, &device) != 0 || use_fn(device, &use) != 0) {
            return -1;
        }
        sum += use.gpu;
    }
    return sum / count;
}
