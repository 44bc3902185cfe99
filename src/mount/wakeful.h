/* wakeful.h - processors that stay awake while requests come thick and fast.
 *
 * Whoever opens a file sleeps until we have answered, and its processor with it; waking that one up
 * takes longer than all the rest, on a virtual machine above all. The kernel can be told how long
 * that may take
 * (/dev/cpu_dma_latency): then an idle processor waits without sleeping. That costs power, so it is
 * asked for only while many requests come within a few milliseconds, and no longer than a few after
 * the last one; and where no request comes that somebody waits for (a snapshot that the kernel
 * shows by itself), never. Only root may ask for it.
 *
 * When to is pure: time is an argument.
 */
#ifndef MOUNT_WAKEFUL_H
#define MOUNT_WAKEFUL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WAKEFUL_SPAN_US = 5000, /* so many requests in so short a time begin it, */
    WAKEFUL_MANY = 40,
    WAKEFUL_REST_US = 5000, /* and so long without any ends it */
};

struct wakeful {
    int fd; /* -1: not to be had */
    bool is_on;
    int64_t span_us; /* when the span that is counted began */
    int64_t last_us; /* when requests were last served */
    unsigned count;
};

void wakeful_open(struct wakeful *wakeful);
void wakeful_close(struct wakeful *wakeful);
/* `count` requests were served. */
void wakeful_served(struct wakeful *wakeful, unsigned count, int64_t now_us);
/* There is nothing to serve. Returns how long, at most, until it must be called again, in ms; -1:
 * as long as one likes. */
int wakeful_rest(struct wakeful *wakeful, int64_t now_us);

#endif
