/* A library that answers like NVIDIA's, for the tests: two GPUs, and a process on the second whose
 * number is in FAKE_NVML_PID. */
#include <stdlib.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned size);
int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long sizes[3]);

struct info {
    unsigned pid;
    unsigned long long used_memory;
    unsigned instances[2];
};
struct rates {
    unsigned pid;
    unsigned long long at_us;
    unsigned percent[4];
};
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct info *infos);
int nvmlDeviceGetProcessUtilization(void *device, struct rates *rates, unsigned *count,
                                    unsigned long long since_us);

static int devices[2];

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &devices[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
    snprintf(name, size, "%s", device == &devices[0] ? "Tesla K80" : "NVIDIA H200");
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2])
{
    rates[0] = device == &devices[0] ? 25 : 80;
    rates[1] = 1;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long sizes[3])
{
    sizes[0] = 1ULL << 34;
    sizes[2] = device == &devices[0] ? 1000 : 5000;
    sizes[1] = sizes[0] - sizes[2];
    return 0;
}

static unsigned own_pid(void)
{
    const char *text = getenv("FAKE_NVML_PID");
    return text ? (unsigned)strtoul(text, NULL, 10) : 1;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct info *infos)
{
    if (device == &devices[0]) {
        *count = 0;
        return 0;
    }
    *count = 2;
    infos[0] = (struct info){.pid = own_pid(), .used_memory = 4000};
    infos[1] = (struct info){.pid = 1, .used_memory = ~0ULL};
    return 0;
}

int nvmlDeviceGetProcessUtilization(void *device, struct rates *rates, unsigned *count,
                                    unsigned long long since_us)
{
    if (device == &devices[0] || since_us >= 7) {
        return 6; /* nothing new */
    }
    *count = 1;
    rates[0] = (struct rates){.pid = own_pid(), .at_us = 7, .percent = {70}};
    return 0;
}
