#include "master/sweep.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 10 * 60 * 1000, TICK_US = 5000, UNLINKS_PER_STEP = 50 };

static const char *const folders[] = {"outputs", "logs", "attempts", "checkpoints"};
enum { FOLDERS = sizeof folders / sizeof *folders };

struct sweep {
    struct retention_limits limits;
    int64_t looked_ms; /* 0: never */
    bool *swept;       /* by number: done in this life */
    uint32_t swept_count;

    char **doomed; /* folders to remove */
    size_t doomed_count;
    size_t doomed_cap;
    struct removal *removal;
};

struct sweep *sweep_create(const struct retention_limits *limits)
{
    struct sweep *sweep = mem_alloc(sizeof *sweep);
    sweep->limits = *limits;
    return sweep;
}

void sweep_destroy(struct sweep *sweep)
{
    if (!sweep) {
        return;
    }
    for (size_t i = 0; i < sweep->doomed_count; i++) {
        free(sweep->doomed[i]);
    }
    free(sweep->doomed);
    free(sweep->swept);
    removal_close(sweep->removal);
    free(sweep);
}

/* Also what a removal before a restart has left behind. */
static void doom(struct sweep *sweep, const char *folder)
{
    for (size_t i = 0; i < 2 * (size_t)FOLDERS; i++) {
        struct str path = {0};
        str_addf(&path, "%s/%s%s", folder, folders[i / 2], i % 2 ? "" : RETENTION_SUFFIX);
        if (access(str_text(&path), F_OK) == 0) {
            VEC_PUSH(sweep->doomed, sweep->doomed_count, sweep->doomed_cap) = str_take(&path);
        }
        str_release(&path);
    }
}

static void make_room(struct sweep *sweep, uint32_t count)
{
    if (count > sweep->swept_count) {
        sweep->swept = mem_resize(sweep->swept, count, sizeof *sweep->swept);
        memset(sweep->swept + sweep->swept_count, 0,
               (count - sweep->swept_count) * sizeof *sweep->swept);
        sweep->swept_count = count;
    }
}

static void choose(struct sweep *sweep, const struct sweep_source *source, int64_t now_ms)
{
    AUTO_FREE struct retention_item *items = mem_array(source->count, sizeof *items);
    make_room(sweep, source->count);
    for (uint32_t i = 0; i < source->count; i++) {
        struct sweep_flow flow = {0};
        source->look(source->context, i + 1, &flow);
        items[i] = (struct retention_item){.number = i + 1, .ended_ms = flow.ended_ms};
        if (flow.ended_ms == 0) {
            sweep->swept[i] = false; /* retried: it will have files again */
        }
    }
    retention_choose(items, source->count, &sweep->limits, now_ms);
    for (uint32_t i = 0; i < source->count; i++) {
        struct sweep_flow flow = {0};
        if (!items[i].chosen || sweep->swept[i]) {
            continue;
        }
        sweep->swept[i] = true;
        source->look(source->context, i + 1, &flow);
        source->forget(source->context, i + 1);
        if (flow.folder) {
            doom(sweep, flow.folder);
        }
    }
}

/* False: there is nothing to remove. */
static bool step(struct sweep *sweep)
{
    while (!sweep->removal && sweep->doomed_count > 0) {
        AUTO_FREE char *path = sweep->doomed[--sweep->doomed_count];
        if (removal_open(path, &sweep->removal, NULL) != ERR_OK) {
            sweep->removal = NULL; /* it is gone, or will be tried after a restart */
        }
    }
    if (!sweep->removal) {
        return false;
    }
    if (removal_step(sweep->removal, UNLINKS_PER_STEP, NULL) != ERR_AGAIN) {
        removal_close(sweep->removal);
        sweep->removal = NULL;
    }
    return true;
}

void sweep_tick(struct sweep *sweep, const struct sweep_source *source, int64_t now_ms)
{
    bool is_idle = !sweep->removal && sweep->doomed_count == 0;
    if (is_idle && (sweep->looked_ms == 0 || now_ms - sweep->looked_ms >= LOOK_EVERY_MS)) {
        sweep->looked_ms = now_ms;
        choose(sweep, source, now_ms);
    }
    int64_t until_us = clock_mono_us() + TICK_US;
    while (step(sweep) && clock_mono_us() < until_us) {
    }
}
