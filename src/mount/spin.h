/* spin.h - when to look for the next request, and when to sleep until it comes.
 *
 * After a request another often follows within microseconds, and being woken costs more than that:
 * so we look for it (spin). But a program that waits for us may need the very processor that we
 * look from, and then nothing comes before we sleep. So whenever nothing has come in SPIN_US, we
 * sleep at once for a while, twice as long each time up to a bound; a request that does come while
 * we look ends that. Looking in vain thus takes at most one part in 200 of the time, by and by.
 *
 * Pure: time is an argument. Zeroed memory is a fresh one.
 */
#ifndef MOUNT_SPIN_H
#define MOUNT_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum { SPIN_US = 80, SPIN_CALM_MIN_US = 250, SPIN_CALM_MAX_US = 16000 };

struct spin {
    bool is_on;
    int64_t last_us; /* when a request was last served */
    int64_t calm_us; /* until when we sleep at once */
    int64_t calm_length_us;
};

/* Requests were served. */
void spin_served(struct spin *spin, int64_t now_us);
/* There is nothing to serve: true says look again, false sleep. */
bool spin_goes_on(struct spin *spin, int64_t now_us);

#endif
