/* volume_gc.h - which objects of a volume nobody needs any more. Only volume_gc*.c includes it.
 *
 * Deciding (volume_gc_decide.c) is pure: it is told what holds things (views with their runs, seqs
 * of snapshots and pins, records of containers, fences) and then judges one key after the other.
 * Asking and deleting is volume_gc.c.
 *
 * What was true before the pins were listed is what is judged by: the head in the store then, and
 * the commits durable then. A reader that pins later reads that head or a later one and all of
 * those commits, so nothing that is judged dead can be in what it sees. The same holds for an owner
 * that takes over while we are at it, and for deletions that arrive after we were fenced. */
#ifndef VOLUME_VOLUME_GC_H
#define VOLUME_VOLUME_GC_H

#include "volume/engine.h"
#include "volume/volume_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gc_facts {
    uint32_t term;      /* ours */
    uint64_t durable;   /* commits up to this one are stored */
    uint64_t view_seq;  /* of the head in the store: log objects up to it are not replayed */
    uint64_t run_floor; /* runs and snapshots of ours from this number on are still being made */
    const struct volume_snap *snaps; /* borrowed: those in head */
    size_t snap_count;

    struct container *runs; /* named by a view; sorted once complete */
    size_t run_count, run_cap;
    uint64_t *seqs; /* states that a snapshot or pin holds */
    size_t seq_count, seq_cap;
    struct engine_container *records; /* sorted once complete */
    size_t record_count, record_cap;
    const struct volume_writer *writers; /* borrowed: others that upload */
    size_t writer_count;
    uint64_t *fences; /* sorted */
    size_t fence_count, fence_cap;
};

void gc_facts_hold(struct gc_facts *facts, const struct volume_view *view, bool with_seq);
void gc_facts_complete(struct gc_facts *facts); /* sorts: no more are added */
void gc_facts_release(struct gc_facts *facts);

/* A container that has a record: may its object be deleted? */
bool gc_record_is_done(const struct gc_facts *facts, const struct engine_container *record);
/* A key under packs/, log/, runs/ or snap/: is it one that nothing refers to? Containers with a
 * record are not judged here (false), nor are keys that are no names of ours. */
bool gc_key_is_orphan(const struct gc_facts *facts, const char *key);

#endif
