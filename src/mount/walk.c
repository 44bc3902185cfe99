#include "mount/walk.h"

#include "base/rng.h"

static uint64_t mark_of(uint64_t folder, const char *name)
{
    uint64_t mark = folder;
    for (const char *at = name; *at; at++) {
        mark = rng_mix(1, mark, (uint64_t)(unsigned char)*at);
    }
    return mark | 1; /* not 0, which is none */
}

void walk_probe(struct walk *walk, uint64_t folder, const char *name)
{
    walk->probes[walk->next++ % WALK_PROBES] = mark_of(folder, name);
    walk->silent += walk->silent < WALK_SILENT;
}

void walk_looked_up(struct walk *walk, uint64_t folder, const char *name)
{
    if (walk->silent == 0) {
        return;
    }
    uint64_t mark = mark_of(folder, name);
    for (size_t i = 0; i < WALK_PROBES; i++) {
        if (walk->probes[i] == mark) {
            walk->probes[i] = 0;
            walk->silent = 0;
            return;
        }
    }
}

bool walk_wants_names_only(const struct walk *walk)
{
    return walk->silent == WALK_SILENT;
}
