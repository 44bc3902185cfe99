#include "node/detect.h"
#include "node/node.h"
#include "node/nvml.h"
#include "wire/wire.h"

#include <ctype.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* --- GPUs ------------------------------------------------------------------------------------ */

static bool is_word(const char *word, size_t size, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i]) == size && strncasecmp(word, list[i], size) == 0) {
            return true;
        }
    }
    return false;
}

static void add_word(char *out, size_t out_size, const char *word, size_t size)
{
    size_t used = strlen(out);
    if (used > 0 && used + 1 < out_size) {
        out[used++] = '-';
    }
    for (size_t i = 0; i < size && used + 1 < out_size; i++) {
        out[used++] = (char)tolower((unsigned char)word[i]);
    }
    out[used] = '\0';
}

/* Skips the makers and families that say nothing, takes the model's word up to a dash; the words
 * that are no model alone (RTX, GTX, Titan) take the next one with them, and Ti or Super are part
 * of the model. */
void detect_gpu_kind(const char *name, char *out, size_t out_size)
{
    static const char *const noise[] = {"nvidia", "tesla",    "geforce",
                                        "quadro", "graphics", "device"};
    static const char *const open_ended[] = {"rtx", "gtx", "titan", "gt"};
    static const char *const suffixes[] = {"ti", "super"};
    bool has_model = false;
    out[0] = '\0';
    for (const char *at = name + strspn(name, " "); *at; at += strspn(at, " ")) {
        size_t whole = strcspn(at, " ");
        size_t size = strcspn(at, " -");
        if (is_word(at, size, noise, sizeof noise / sizeof *noise)) {
            at += whole;
            continue;
        }
        if (has_model && !is_word(at, size, suffixes, sizeof suffixes / sizeof *suffixes)) {
            return;
        }
        add_word(out, out_size, at, size);
        has_model =
            has_model || !is_word(at, size, open_ended, sizeof open_ended / sizeof *open_ended);
        at += whole;
    }
}

static void detect_gpus(struct node_capacity *out)
{
    struct nvml *nvml = nvml_open(NULL);
    char name[NVML_NAME_BYTES] = "";
    if (nvml && nvml_name(nvml, 0, name)) {
        out->gpus = nvml_count(nvml);
        detect_gpu_kind(name, out->gpu_kind, sizeof out->gpu_kind);
    }
    nvml_close(nvml);
}

/* --- the rest -------------------------------------------------------------------------------- */

void node_detect(const char *work_folder, uint32_t slots, struct node_capacity *out)
{
    *out = (struct node_capacity){0};
    cpu_set_t cpus;
    long count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus)
                                                               : sysconf(_SC_NPROCESSORS_ONLN);
    if (slots > 0) {
        count = slots;
    }
    count = count > 0 ? count : 1;
    out->cpu_milli =
        count < WIRE_CPU_MILLI_MAX / 1000 ? (uint32_t)count * 1000 : WIRE_CPU_MILLI_MAX;
    struct sysinfo info;
    if (sysinfo(&info) == 0) {
        out->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    }
    struct statvfs disk;
    if (statvfs(work_folder, &disk) == 0) {
        out->disk_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    }
    detect_gpus(out);
}
