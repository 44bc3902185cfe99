#include "base/mem.h"
#include "volume/volume_gc.h"

#include <stdlib.h>
#include <string.h>

static int compare_containers(const struct container *a, const struct container *b)
{
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    if (a->writer != b->writer) {
        return a->writer < b->writer ? -1 : 1;
    }
    if (a->term != b->term) {
        return a->term < b->term ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_container(const void *a, const void *b)
{
    return compare_containers(a, b);
}

static int by_record(const void *a, const void *b)
{
    const struct engine_container *left = a;
    const struct engine_container *right = b;
    return compare_containers(&left->container, &right->container);
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    if (count > 1) {
        qsort(items, count, size, compare);
    }
}

static bool has(const void *key, const void *items, size_t count, size_t size,
                int (*compare)(const void *, const void *))
{
    return count > 0 && bsearch(key, items, count, size, compare) != NULL;
}

void gc_facts_hold(struct gc_facts *facts, const struct volume_view *view, bool with_seq)
{
    for (size_t i = 0; i < view->run_count; i++) {
        VEC_PUSH(facts->runs, facts->run_count, facts->run_cap) = view->runs[i].container;
    }
    if (with_seq) {
        VEC_PUSH(facts->seqs, facts->seq_count, facts->seq_cap) = view->seq;
    }
}

void gc_facts_complete(struct gc_facts *facts)
{
    sort(facts->runs, facts->run_count, sizeof facts->runs[0], by_container);
    sort(facts->records, facts->record_count, sizeof facts->records[0], by_record);
    sort(facts->seqs, facts->seq_count, sizeof facts->seqs[0], by_number);
    sort(facts->fences, facts->fence_count, sizeof facts->fences[0], by_number);
}

void gc_facts_release(struct gc_facts *facts)
{
    free(facts->runs);
    free(facts->seqs);
    free(facts->records);
    free(facts->fences);
    *facts = (struct gc_facts){0};
}

/* Does a snapshot or pin lie in [born, dead)? */
static bool is_held(const struct gc_facts *facts, uint64_t born, uint64_t dead)
{
    size_t low = 0;
    size_t high = facts->seq_count;
    while (low < high) { /* the first not below born */
        size_t middle = low + (high - low) / 2;
        if (facts->seqs[middle] < born) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < facts->seq_count && facts->seqs[low] < dead;
}

static bool is_fence(const struct gc_facts *facts, uint64_t seq)
{
    return has(&seq, facts->fences, facts->fence_count, sizeof facts->fences[0], by_number);
}

static bool is_of_a_writer(const struct gc_facts *facts, const struct container *container)
{
    for (size_t i = 0; i < facts->writer_count; i++) {
        const struct volume_writer *writer = &facts->writers[i];
        if (container->kind == CONTAINER_PACK && container->writer == writer->writer &&
            container->term == writer->term && container->number >= writer->floor) {
            return true;
        }
    }
    return false;
}

bool gc_record_is_done(const struct gc_facts *facts, const struct engine_container *record)
{
    const struct container *container = &record->container;
    if (record->dead == 0 || record->dead > facts->durable || record->live > 0 ||
        is_held(facts, record->born, record->dead) || is_of_a_writer(facts, container)) {
        return false;
    }
    return container->kind != CONTAINER_LOG ||
           (container->number <= facts->view_seq && !is_fence(facts, container->number));
}

static bool snap_is_orphan(const struct gc_facts *facts, const struct volume_snap *snap)
{
    if (snap->term > facts->term ||
        (snap->term == facts->term && snap->number >= facts->run_floor)) {
        return false;
    }
    for (size_t i = 0; i < facts->snap_count; i++) {
        const struct volume_snap *other = &facts->snaps[i];
        if (other->term == snap->term && other->number == snap->number) {
            return false;
        }
    }
    return true;
}

static bool container_is_orphan(const struct gc_facts *facts, const struct container *container)
{
    switch ((enum container_kind)container->kind) {
    case CONTAINER_PACK:
        return container->term < facts->term && !is_of_a_writer(facts, container);
    case CONTAINER_LOG:
        return container->number <= facts->view_seq && !is_fence(facts, container->number);
    case CONTAINER_RUN:
        return (container->term < facts->term ||
                (container->term == facts->term && container->number < facts->run_floor)) &&
               !has(container, facts->runs, facts->run_count, sizeof facts->runs[0], by_container);
    }
    return false;
}

bool gc_key_is_orphan(const struct gc_facts *facts, const char *key)
{
    struct volume_snap snap;
    if (volume_snap_key_parse(key, &snap)) {
        return snap_is_orphan(facts, &snap);
    }
    struct engine_container record = {0};
    if (!container_parse(key, &record.container) ||
        has(&record, facts->records, facts->record_count, sizeof facts->records[0], by_record)) {
        return false;
    }
    return container_is_orphan(facts, &record.container);
}
