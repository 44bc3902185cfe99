/* profile_watch.h - what a tree of processes uses: CPU time, and bytes over its TCP sockets.
 *
 * The bytes are the kernel's own counters of each socket (sock_diag, tcp_info), matched to the
 * processes by the inodes of their descriptors: no root and no capture is needed for one's own
 * processes. Sockets that closed between two looks keep what they had at the last; UDP and Unix
 * sockets are not counted. Linux; needs /proc.
 */
#ifndef CLI_PROFILE_WATCH_H
#define CLI_PROFILE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct profile_socket {
    uint64_t inode;
    uint64_t sent;
    uint64_t received;
};

struct profile_watch {
    pid_t root;
    struct profile_socket *sockets; /* every one ever seen */
    size_t socket_count;
    size_t socket_cap;
    uint64_t base_sent; /* before the measurement began */
    uint64_t base_received;
    double cpu_s; /* of the living */
    double base_cpu_s;
    bool no_counters; /* the kernel would not tell */
};

void profile_watch_look(struct profile_watch *watch);  /* call a few times a second */
void profile_watch_begin(struct profile_watch *watch); /* what was so far does not count */
void profile_watch_bytes(const struct profile_watch *watch, uint64_t *sent, uint64_t *received);
double profile_watch_cpu_s(const struct profile_watch *watch);
void profile_watch_release(struct profile_watch *watch);

/* Mean utilisation of this machine's GPUs in per cent, by NVML if it is there; below 0: not known.
 */
double profile_gpu_percent(void);

#endif
