/* usage_parse.h - the numbers in the kernel's texts about use. Pure; private to usage.
 *
 * Texts are NUL-terminated and may be cut off anywhere; what is missing counts as 0. Totals only
 * grow while the machine runs, less what it forgets.
 */
#ifndef NODE_USAGE_PARSE_H
#define NODE_USAGE_PARSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* /proc/stat: time in which some processor did something, in ticks. */
uint64_t usage_parse_cpu(const char *text);

/* /proc/meminfo: what is neither free nor freed when needed, in bytes. */
uint64_t usage_parse_memory(const char *text);

struct usage_flow {
    uint64_t in;  /* bytes read, or received */
    uint64_t out; /* bytes written, or sent */
};

/* /proc/diskstats: of whole disks; parts of disks and what is made of others (dm, md, loop) are not
 * counted again. */
struct usage_flow usage_parse_disks(const char *text);

/* /proc/net/dev: without the loopback, and without virtual interfaces if there are real ones. */
struct usage_flow usage_parse_network(const char *text);

struct usage_stat {
    pid_t parent;
    uint64_t ticks; /* its own time and that of the children it waited for */
};

/* /proc/PID/stat. False: it is not one. */
bool usage_parse_stat(const char *text, struct usage_stat *out);

/* /proc/PID/io: what went to and came from disks, waited-for children included. */
struct usage_flow usage_parse_io(const char *text);

struct usage_pages {
    uint64_t resident;
    uint64_t shared;
};
struct usage_pages usage_parse_statm(const char *text);

/* The number behind a word at the start of a line: "usage_usec 1234"; 0 if it is not there. */
uint64_t usage_parse_field(const char *text, const char *name);

/* io.stat of a control group: the sum over its disks. */
struct usage_flow usage_parse_group_io(const char *text);

#endif
