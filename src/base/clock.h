/* clock.h - the only place that reads a clock; core code takes now_ms as an argument. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/str.h"

#include <stdint.h>
#include <time.h>

int64_t clock_mono_ms(void); /* never goes back; for intervals */
int64_t clock_mono_us(void);
int64_t clock_boot_ms(void); /* the same, and goes on while the machine sleeps; for leases */
int64_t clock_unix_ms(void); /* for people and files; may jump */

/* Nanoseconds since 1970 and back. What 64 bits cannot say (before 1677, after 2262) becomes the
 * nearest that they can; before 1970 the part of a second is positive, as files have it. */
int64_t clock_ns_of(const struct timespec *time);
struct timespec clock_time_of(int64_t ns);

/* RFC 3339 in UTC with milliseconds: 2026-11-15T09:35:56.123Z */
void clock_add_rfc3339(struct str *out, int64_t unix_ms);

/* A length of time for people: 850ms, 12.3s, 4m05s, 3h07m, 2d04h */
void clock_add_duration(struct str *out, int64_t duration_ms);

#endif
