/* nvml.h - what NVIDIA's library says of the GPUs, asked at run time only.
 *
 * The library is there exactly where the driver is; it is opened by name and linked by nobody.
 * Calls that it does not have, or that a GPU does not answer, leave their values 0.
 */
#ifndef NODE_NVML_H
#define NODE_NVML_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { NVML_NAME_BYTES = 96, NVML_PROCESSES_MAX = 256 };

struct nvml;

/* NULL: there is no driver, or no GPU. library NULL: the usual name. */
struct nvml *nvml_open(const char *library);
void nvml_close(struct nvml *nvml); /* NULL does nothing */

uint32_t nvml_count(const struct nvml *nvml); /* at least 1 */
bool nvml_name(const struct nvml *nvml, uint32_t index, char out[NVML_NAME_BYTES]);

struct nvml_load {
    uint32_t busy_milli;
    uint64_t memory_bytes;
};
void nvml_load(const struct nvml *nvml, uint32_t index, struct nvml_load *out);

/* What a process uses of one GPU. busy_milli is its share of the time since the last call for that
 * GPU. */
struct nvml_process {
    pid_t pid;
    uint32_t busy_milli;
    uint64_t memory_bytes;
};
size_t nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out, size_t max);

#endif
