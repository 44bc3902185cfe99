#include "mount/wakeful.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Where processors can do no better than halt, they must not even do that; elsewhere the lightest
 * sleep will do. */
static int32_t wanted_us(void)
{
    enum { LIGHT_SLEEP_US = 2 };
    char driver[32] = "";
    int fd = open("/sys/devices/system/cpu/cpuidle/current_driver", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, driver, sizeof driver - 1);
    if (fd >= 0) {
        close(fd);
    }
    return size > 0 && strncmp(driver, "haltpoll", strlen("haltpoll")) == 0 ? 0 : LIGHT_SLEEP_US;
}

static void ask(struct wakeful *wakeful, bool is_on)
{
    enum { ANY = -1 };
    int32_t us = is_on && wakeful->fd >= 0 ? wanted_us() : ANY;
    wakeful->is_on = is_on;
    if (wakeful->fd >= 0 && write(wakeful->fd, &us, sizeof us) != (ssize_t)sizeof us) {
        wakeful_close(wakeful);
    }
}

void wakeful_open(struct wakeful *wakeful)
{
    *wakeful = (struct wakeful){.fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC)};
}

void wakeful_close(struct wakeful *wakeful)
{
    if (wakeful->fd >= 0) {
        close(wakeful->fd);
    }
    wakeful->fd = -1;
}

void wakeful_served(struct wakeful *wakeful, unsigned count, int64_t now_us)
{
    if (now_us - wakeful->span_us > WAKEFUL_SPAN_US) {
        wakeful->span_us = now_us;
        wakeful->count = 0;
    }
    wakeful->count += count;
    wakeful->last_us = now_us;
    if (!wakeful->is_on && wakeful->count >= WAKEFUL_MANY) {
        ask(wakeful, true);
    }
}

int wakeful_rest(struct wakeful *wakeful, int64_t now_us)
{
    if (!wakeful->is_on) {
        return -1;
    }
    int64_t left_us = wakeful->last_us + WAKEFUL_REST_US - now_us;
    if (left_us > 0) {
        return (int)(left_us / 1000) + 1;
    }
    ask(wakeful, false);
    return -1;
}
