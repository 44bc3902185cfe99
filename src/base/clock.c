#include "base/clock.h"

#include <inttypes.h>
#include <time.h>

int64_t clock_mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

int64_t clock_boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_add_rfc3339(struct str *out, int64_t unix_ms)
{
    int64_t seconds = unix_ms / 1000;
    int64_t rest_ms = unix_ms % 1000;
    if (rest_ms < 0) {
        rest_ms += 1000;
        seconds--;
    }
    time_t when = (time_t)seconds;
    struct tm utc;
    if (!gmtime_r(&when, &utc)) {
        str_add(out, "1970-01-01T00:00:00.000Z");
        return;
    }
    str_addf(out, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)rest_ms);
}

void clock_add_duration(struct str *out, int64_t duration_ms)
{
    int64_t seconds = duration_ms / 1000;
    if (duration_ms < 1000) {
        str_addf(out, "%" PRId64 "ms", duration_ms < 0 ? 0 : duration_ms);
    } else if (seconds < 60) {
        str_addf(out, "%" PRId64 ".%" PRId64 "s", seconds, duration_ms % 1000 / 100);
    } else if (seconds < 3600) {
        str_addf(out, "%" PRId64 "m%02" PRId64 "s", seconds / 60, seconds % 60);
    } else if (seconds < 86400) {
        str_addf(out, "%" PRId64 "h%02" PRId64 "m", seconds / 3600, seconds % 3600 / 60);
    } else {
        str_addf(out, "%" PRId64 "d%02" PRId64 "h", seconds / 86400, seconds % 86400 / 3600);
    }
}

int64_t clock_ns_of(const struct timespec *time)
{
    int64_t most = INT64_MAX / 1000000000 - 1;
    if (time->tv_sec > most || time->tv_sec < -most) {
        return time->tv_sec > 0 ? most * 1000000000 : -most * 1000000000;
    }
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

struct timespec clock_time_of(int64_t ns)
{
    int64_t rest = ns % 1000000000;
    return (struct timespec){ns / 1000000000 - (rest < 0), rest + (rest < 0 ? 1000000000 : 0)};
}
