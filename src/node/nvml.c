#include "node/nvml.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_DEVICES_MAX = 64, PERCENT_MAX = 100 };

/* The library's own structures, as its documentation lays them out. */
struct nvml_rates {
    unsigned gpu; /* per cent */
    unsigned memory;
};
struct nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
struct nvml_process_info {
    unsigned pid;
    unsigned long long used_memory; /* all ones: not known */
    unsigned gpu_instance;
    unsigned compute_instance;
};
struct nvml_process_rates {
    unsigned pid;
    unsigned long long at_us;
    unsigned sm; /* per cent */
    unsigned memory;
    unsigned encoder;
    unsigned decoder;
};
_Static_assert(sizeof(struct nvml_process_info) == 24, "as the library has it");
_Static_assert(sizeof(struct nvml_process_rates) == 32, "as the library has it");

struct nvml_device {
    void *handle;
    unsigned long long seen_us; /* of the newest process_rates looked at */
};

struct nvml {
    void *library;
    int (*shutdown)(void);
    int (*name)(void *, char *, unsigned);
    int (*rates)(void *, struct nvml_rates *);
    int (*memory)(void *, struct nvml_memory *);
    int (*processes)(void *, unsigned *, struct nvml_process_info *);
    int (*process_rates)(void *, struct nvml_process_rates *, unsigned *, unsigned long long);
    struct nvml_device devices[NVML_DEVICES_MAX];
    uint32_t count;
};

/* Finds the optional calls, and the GPUs. */
static bool find_devices(struct nvml *nvml)
{
    void *library = nvml->library;
    int (*get_count)(unsigned *) = (int (*)(unsigned *))dlsym(library, "nvmlDeviceGetCount_v2");
    int (*get_handle)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    nvml->name = (int (*)(void *, char *, unsigned))dlsym(library, "nvmlDeviceGetName");
    nvml->rates =
        (int (*)(void *, struct nvml_rates *))dlsym(library, "nvmlDeviceGetUtilizationRates");
    nvml->memory = (int (*)(void *, struct nvml_memory *))dlsym(library, "nvmlDeviceGetMemoryInfo");
    void *processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!processes) {
        processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v2");
    }
    nvml->processes = (int (*)(void *, unsigned *, struct nvml_process_info *))processes;
    nvml->process_rates =
        (int (*)(void *, struct nvml_process_rates *, unsigned *, unsigned long long))dlsym(
            library, "nvmlDeviceGetProcessUtilization");

    unsigned count = 0;
    if (!get_count || !get_handle || get_count(&count) != NVML_SUCCESS) {
        return false;
    }
    count = count < NVML_DEVICES_MAX ? count : NVML_DEVICES_MAX;
    for (unsigned i = 0; i < count; i++) {
        /* One that cannot be asked keeps its number: tasks know GPUs by it. */
        if (get_handle(i, &nvml->devices[i].handle) != NVML_SUCCESS) {
            nvml->devices[i].handle = NULL;
        }
    }
    nvml->count = count;
    return count > 0;
}

struct nvml *nvml_open(const char *library)
{
    void *handle = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        return NULL;
    }
    int (*init)(void) = (int (*)(void))dlsym(handle, "nvmlInit_v2");
    int (*shutdown)(void) = (int (*)(void))dlsym(handle, "nvmlShutdown");
    if (!init || !shutdown || init() != NVML_SUCCESS) {
        dlclose(handle);
        return NULL;
    }
    struct nvml *nvml = mem_alloc(sizeof *nvml);
    nvml->library = handle;
    nvml->shutdown = shutdown;
    if (!find_devices(nvml)) {
        nvml_close(nvml);
        return NULL;
    }
    return nvml;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml) {
        nvml->shutdown();
        dlclose(nvml->library);
        free(nvml);
    }
}

uint32_t nvml_count(const struct nvml *nvml)
{
    return nvml->count;
}

bool nvml_name(const struct nvml *nvml, uint32_t index, char out[NVML_NAME_BYTES])
{
    CHECK(index < nvml->count);
    void *device = nvml->devices[index].handle;
    if (!device || !nvml->name || nvml->name(device, out, NVML_NAME_BYTES) != NVML_SUCCESS) {
        return false;
    }
    out[NVML_NAME_BYTES - 1] = '\0';
    return true;
}

static uint32_t milli_of(unsigned percent)
{
    return (percent < PERCENT_MAX ? percent : PERCENT_MAX) * 10;
}

void nvml_load(const struct nvml *nvml, uint32_t index, struct nvml_load *out)
{
    CHECK(index < nvml->count);
    void *device = nvml->devices[index].handle;
    *out = (struct nvml_load){0};
    if (!device) {
        return;
    }
    struct nvml_rates rates = {0};
    if (nvml->rates && nvml->rates(device, &rates) == NVML_SUCCESS) {
        out->busy_milli = milli_of(rates.gpu);
    }
    struct nvml_memory memory = {0};
    if (nvml->memory && nvml->memory(device, &memory) == NVML_SUCCESS) {
        out->memory_bytes = memory.used;
    }
}

static void add_rates(struct nvml *nvml, struct nvml_device *device, struct nvml_process *out,
                      size_t count)
{
    struct nvml_process_rates rates[NVML_PROCESSES_MAX];
    unsigned rate_count = NVML_PROCESSES_MAX;
    if (!nvml->process_rates ||
        nvml->process_rates(device->handle, rates, &rate_count, device->seen_us) != NVML_SUCCESS) {
        return;
    }
    for (unsigned i = 0; i < rate_count && i < NVML_PROCESSES_MAX; i++) {
        if (rates[i].at_us > device->seen_us) {
            device->seen_us = rates[i].at_us;
        }
        for (size_t j = 0; j < count; j++) {
            if (out[j].pid == (pid_t)rates[i].pid) {
                out[j].busy_milli = milli_of(rates[i].sm);
            }
        }
    }
}

size_t nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out, size_t max)
{
    CHECK(index < nvml->count);
    struct nvml_device *device = &nvml->devices[index];
    struct nvml_process_info infos[NVML_PROCESSES_MAX];
    unsigned info_count = NVML_PROCESSES_MAX;
    if (!device->handle || !nvml->processes ||
        nvml->processes(device->handle, &info_count, infos) != NVML_SUCCESS) {
        return 0;
    }
    size_t count = 0;
    for (unsigned i = 0; i < info_count && i < NVML_PROCESSES_MAX && count < max; i++) {
        bool is_known = infos[i].used_memory != ~0ULL;
        out[count++] = (struct nvml_process){.pid = (pid_t)infos[i].pid,
                                             .memory_bytes = is_known ? infos[i].used_memory : 0};
    }
    add_rates(nvml, device, out, count);
    return count;
}
