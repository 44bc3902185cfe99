#include "node/usage_parse.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { SECTOR_BYTES = 512, KIB = 1024, NAME_SIZE = 64 };

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t:");
}

static const char *skip_word(const char *at)
{
    at = skip_blanks(at);
    return at + strcspn(at, " \t:\n");
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

/* The decimal number at *at, which moves behind it; 0 if there is none on this line. */
static uint64_t take_number(const char **at)
{
    uint64_t number = 0;
    *at = skip_blanks(*at);
    while (isdigit((unsigned char)**at)) {
        number = number * 10 + (uint64_t)(*(*at)++ - '0');
    }
    return number;
}

static uint64_t take_nth(const char *at, int skipped)
{
    for (int i = 0; i < skipped; i++) {
        at = skip_word(at);
    }
    return take_number(&at);
}

uint64_t usage_parse_field(const char *text, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = text; *at; at = next_line(at)) {
        if (strncmp(at, name, size) == 0 && strchr(" \t:", at[size]) && at[size]) {
            return take_nth(at, 1);
        }
    }
    return 0;
}

/* "cpu  user nice system idle iowait irq softirq steal guest guest_nice": guests are in user. */
uint64_t usage_parse_cpu(const char *text)
{
    static const bool is_busy[] = {true, true, true, false, false, true, true, false};
    if (strncmp(text, "cpu ", 4) != 0) {
        return 0;
    }
    uint64_t busy = 0;
    const char *at = text + 4;
    for (size_t i = 0; i < sizeof is_busy / sizeof *is_busy; i++) {
        uint64_t ticks = take_number(&at);
        busy += is_busy[i] ? ticks : 0;
    }
    return busy;
}

uint64_t usage_parse_memory(const char *text)
{
    uint64_t total = usage_parse_field(text, "MemTotal");
    uint64_t available = usage_parse_field(text, "MemAvailable");
    return total > available ? (total - available) * KIB : 0;
}

static void take_name(const char *at, char name[NAME_SIZE])
{
    at = skip_blanks(at);
    size_t size = strcspn(at, " \t:\n");
    size = size < NAME_SIZE ? size : NAME_SIZE - 1;
    memcpy(name, at, size);
    name[size] = '\0';
}

static bool has_prefix_of(const char *name, const char *const *prefixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* "sda1" and "nvme0n1p2" are parts of the disk named before them. */
static bool is_part_of(const char *name, const char *disk)
{
    size_t size = strlen(disk);
    if (size == 0 || strncmp(name, disk, size) != 0) {
        return false;
    }
    const char *rest = name + size;
    if (isdigit((unsigned char)disk[size - 1]) && *rest++ != 'p') {
        return false;
    }
    return isdigit((unsigned char)*rest);
}

struct usage_flow usage_parse_disks(const char *text)
{
    static const char *const made_of_others[] = {"loop", "ram", "zram", "dm-",
                                                 "md",   "sr",  "fd",   "drbd"};
    struct usage_flow sum = {0};
    char disk[NAME_SIZE] = "";
    for (const char *at = text; *at; at = next_line(at)) {
        const char *behind_numbers = skip_word(skip_word(at));
        char name[NAME_SIZE];
        take_name(behind_numbers, name);
        if (has_prefix_of(name, made_of_others, sizeof made_of_others / sizeof *made_of_others) ||
            is_part_of(name, disk)) {
            continue;
        }
        memcpy(disk, name, sizeof disk);
        sum.in += take_nth(behind_numbers, 3) * SECTOR_BYTES;
        sum.out += take_nth(behind_numbers, 7) * SECTOR_BYTES;
    }
    return sum;
}

struct usage_flow usage_parse_network(const char *text)
{
    static const char *const virtual[] = {"veth",    "docker", "br-", "virbr", "cni", "cali",
                                          "flannel", "tun",    "tap", "bond",  "ifb", "dummy"};
    struct usage_flow real = {0};
    struct usage_flow other = {0};
    bool has_real = false;
    for (const char *at = next_line(next_line(text)); *at; at = next_line(at)) {
        char name[NAME_SIZE];
        take_name(at, name);
        if (strcmp(name, "lo") == 0) {
            continue;
        }
        bool is_virtual = has_prefix_of(name, virtual, sizeof virtual / sizeof *virtual);
        has_real = has_real || !is_virtual;
        struct usage_flow *sum = is_virtual ? &other : &real;
        sum->in += take_nth(at, 1);
        sum->out += take_nth(at, 9);
    }
    return has_real ? real : other;
}

/* The name is in parentheses and may hold any byte: what follows starts at the last one. */
bool usage_parse_stat(const char *text, struct usage_stat *out)
{
    const char *at = strrchr(text, ')');
    if (!at || strlen(at) < 4) {
        return false;
    }
    at += 4; /* ") S " */
    out->parent = (pid_t)take_nth(at, 0);
    out->ticks = 0;
    for (int i = 10; i < 14; i++) { /* utime, stime, cutime, cstime */
        out->ticks += take_nth(at, i);
    }
    return true;
}

struct usage_flow usage_parse_io(const char *text)
{
    return (struct usage_flow){.in = usage_parse_field(text, "read_bytes"),
                               .out = usage_parse_field(text, "write_bytes")};
}

struct usage_pages usage_parse_statm(const char *text)
{
    return (struct usage_pages){.resident = take_nth(text, 1), .shared = take_nth(text, 2)};
}

/* "8:0 rbytes=1 wbytes=2 rios=3 ..." */
struct usage_flow usage_parse_group_io(const char *text)
{
    struct usage_flow sum = {0};
    for (const char *at = text; (at = strstr(at, "bytes=")) != NULL;) {
        char kind = at > text ? at[-1] : ' ';
        at += strlen("bytes=");
        uint64_t bytes = take_number(&at);
        sum.in += kind == 'r' ? bytes : 0;
        sum.out += kind == 'w' ? bytes : 0;
    }
    return sum;
}
