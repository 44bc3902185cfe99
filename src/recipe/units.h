/* units.h - lengths of time and sizes as people write them. Exact: no floating point. */
#ifndef RECIPE_UNITS_H
#define RECIPE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* At most ten years, so that sums of a few never overflow. */
#define UNITS_DURATION_MAX_MS (INT64_C(3650) * 24 * 3600 * 1000)

/* "500ms", "30s", "5m", "2h", "1d", "1.5h"; a bare number is seconds. False for anything else, for
 * a negative or over-long time, and for a part of a millisecond. */
bool units_duration(const char *text, int64_t *out_ms);

/* "512M" and "512MB" (10^6), "512Mi" and "512MiB" (2^20), K to P, in any case; a bare number is
 * bytes. False for anything else, for more than 2^63 - 1 and for a part of a byte. */
bool units_size(const char *text, uint64_t *out_bytes);

#endif
