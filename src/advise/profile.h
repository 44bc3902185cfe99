/* profile.h - what short runs of a job measured: the table that `drover profile` writes.
 *
 * CSV with the columns (a * may be left out or empty)
 *     type,batch*,workers,bandwidth_mbps*,steps_per_s*,examples_per_s*,
 *     mode*                 sync, async or allreduce; how the workers keep in step
 *     servers*              parameter servers, 1 unless said; 0 where there are none
 *     server_mbps*          bandwidth of each, where it was not the catalog's
 * Steps are counted as frameworks count them: a synchronous step (also with all-reduce) takes a
 * batch from every worker, an asynchronous one from one. So examples_per_s is steps_per_s times
 * batch, and times workers unless asynchronous; either may be given. Pure; the table owns all text.
 */
#ifndef ADVISE_PROFILE_H
#define ADVISE_PROFILE_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum profile_mode { PROFILE_MODE_UNKNOWN, PROFILE_SYNC, PROFILE_ASYNC, PROFILE_ALLREDUCE };

struct profile_run {
    const char *type;
    uint32_t workers;
    uint32_t servers;
    double batch;          /* examples a step; 0: not said */
    double bandwidth_mbps; /* sent and received by one worker; 0: not measured */
    double steps_per_s;    /* of all workers together; 0: not measured */
    double examples_per_s; /* the same; 0: not measured */
    double server_mbps;    /* 0: as the catalog says */
    enum profile_mode mode;
    int line;
};

struct profile {
    struct profile_run *runs;
    size_t count;
    size_t cap;
    struct arena arena;
};

/* ERR_INVALID with "FILE:LINE: why". Adds to what is there. */
MUST_USE enum err_code profile_add_csv(struct profile *profile, const char *file, const char *text,
                                       size_t size, struct err *err);
void profile_release(struct profile *profile);

/* Mbit/s of one worker of this type, from the run with the fewest workers (the mean where there are
 * several); batch 0 takes any batch if the type was measured with one alone. 0: not measured. */
double profile_bandwidth(const struct profile *profile, const char *type, double batch);

const char *profile_mode_name(enum profile_mode mode);
/* PROFILE_MODE_UNKNOWN: there is no such mode. */
enum profile_mode profile_mode_of(const char *name);

#endif
