/* Fetches: what is missing is asked of the store, and what comes goes to the caches. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/reader_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURE_MS = 5000 }; /* whoever has not asked for so long asks no more */

/* -- what is there ---------------------------------------------------------------------------- */

static struct fetch *find_fetch(const struct reader *reader, const struct container *container,
                                uint64_t at)
{
    for (struct fetch *fetch = reader->fetches; fetch; fetch = fetch->next) {
        if (fetch->begin <= at && at < fetch->end &&
            container_equal(&fetch->container, container)) {
            return fetch;
        }
    }
    return NULL;
}

uint64_t reader_there_to(const struct reader *reader, const struct container *container,
                         uint64_t at, bool on_way)
{
    for (;;) {
        uint64_t to = cache_memory_covered_to(reader->memory, container, at);
        if (to == at && reader->disk) {
            to = cache_disk_covered_to(reader->disk, container, at);
        }
        if (to == at && on_way) {
            const struct fetch *fetch = find_fetch(reader, container, at);
            to = fetch ? fetch->end : at;
        }
        if (to == at) {
            return at;
        }
        at = to;
    }
}

/* The first byte at or behind `at` that is there or on its way; UINT64_MAX: none. */
static uint64_t next_there(const struct reader *reader, const struct container *container,
                           uint64_t at)
{
    uint64_t next = cache_memory_next(reader->memory, container, at);
    uint64_t disk = reader->disk ? cache_disk_next(reader->disk, container, at) : UINT64_MAX;
    next = disk < next ? disk : next;
    for (const struct fetch *fetch = reader->fetches; fetch; fetch = fetch->next) {
        if (fetch->end > at && container_equal(&fetch->container, container)) {
            uint64_t begin = fetch->begin > at ? fetch->begin : at;
            next = begin < next ? begin : next;
        }
    }
    return next;
}

/* The first gap within [*begin, *end); false: there is none. */
static bool find_gap(const struct reader *reader, const struct container *container,
                     uint64_t *begin, uint64_t *end)
{
    uint64_t from = reader_there_to(reader, container, *begin, true);
    if (from >= *end) {
        return false;
    }
    uint64_t to = next_there(reader, container, from);
    *begin = from;
    *end = to < *end ? to : *end;
    return true;
}

/* -- the end of a fetch ----------------------------------------------------------------------- */

static void note_failure(struct reader *reader, const struct fetch *fetch, uint64_t begin,
                         enum err_code code, const char *text)
{
    if (fetch->needed_to == 0) {
        return; /* read ahead: whoever needs it will see for himself */
    }
    struct failure *failure = &reader->failures[reader->failure_next++ % READER_FAILURES_MAX];
    failure->place = (struct place){fetch->container, begin, fetch->end};
    failure->when = reader->progress;
    failure->when_ms = clock_mono_ms();
    err_set(&failure->err, code, "%s", text);
}

const struct err *reader_failure(const struct reader *reader, const struct place *place,
                                 uint64_t since)
{
    const struct failure *last = NULL;
    int64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < READER_FAILURES_MAX; i++) {
        const struct failure *failure = &reader->failures[i];
        if (failure->when > (last ? last->when : since) && now_ms - failure->when_ms < FAILURE_MS &&
            failure->place.begin < place->end && place->begin < failure->place.end &&
            container_equal(&failure->place.container, &place->container)) {
            last = failure;
        }
    }
    return last ? &last->err : NULL;
}

static void fail_fetch(struct reader *reader, const struct fetch *fetch)
{
    enum err_code code = fetch->call.code;
    if (code == ERR_NOT_FOUND) {
        ahead_learn(reader->ahead, &fetch->container, 0);
    } else if (code == ERR_RANGE) { /* it ends before this fetch begins */
        ahead_learn(reader->ahead, &fetch->container, fetch->begin);
        code = ERR_CORRUPT;
    } else if (code == ERR_AGAIN) { /* to our callers that means that a fetch is under way */
        code = ERR_IO;
    }
    note_failure(reader, fetch, fetch->begin, code, fetch->call.err.text);
}

static void keep_fetched(struct reader *reader, struct fetch *fetch)
{
    struct object_call *call = &fetch->call;
    uint64_t asked = fetch->end - fetch->begin;
    uint64_t left = call->object_size > fetch->begin ? call->object_size - fetch->begin : 0;
    uint64_t got = call->body.size;
    reader->stats.bytes_fetched += got;
    char text[160];
    if (got != (left < asked ? left : asked)) {
        snprintf(text, sizeof text, "%s: the store sent %" PRIu64 " bytes of %" PRIu64, fetch->key,
                 got, left < asked ? left : asked);
        note_failure(reader, fetch, fetch->begin, ERR_IO, text);
        return;
    }
    ahead_learn(reader->ahead, &fetch->container, call->object_size);
    if (got < asked && fetch->begin + got < fetch->needed_to) {
        snprintf(text, sizeof text, "%s: it has %" PRIu64 " bytes, too few for what lies in it",
                 fetch->key, call->object_size);
        note_failure(reader, fetch, fetch->begin + got, ERR_CORRUPT, text);
    }
    struct cache_body *body = cache_body_create(reader->bodies, &call->body);
    unsigned how =
        (fetch->needed_to > 0 ? CACHE_AWAITED : 0u) | (fetch->passing ? CACHE_PASSING : 0u);
    cache_memory_add(reader->memory, &fetch->container, fetch->begin, body, how);
    if (reader->disk) {
        cache_disk_keep(reader->disk, &fetch->container, fetch->begin, body, fetch->passing);
    }
    cache_body_drop(body);
    cache_memory_trim(reader->memory, (size_t)reader->fetching_bytes);
}

static void fetch_done(struct object_call *call)
{
    struct fetch *fetch = call->context;
    struct reader *reader = fetch->reader;
    if (reader) {
        struct fetch **link = &reader->fetches;
        while (*link != fetch) {
            link = &(*link)->next;
        }
        *link = fetch->next;
        reader->fetching_bytes -= fetch->end - fetch->begin;
        reader->progress++;
        if (call->code == ERR_OK) {
            keep_fetched(reader, fetch);
        } else {
            fail_fetch(reader, fetch);
        }
        cache_bodies_return(reader->bodies, &call->room);
        if (call->code != ERR_CANCELLED) {
            reader_fetch_ahead(reader);
        }
    }
    object_call_release(call);
    free(fetch);
}

/* -- the beginning of one --------------------------------------------------------------------- */

/* Whole pages of the cache's file, which is how it is written best. */
static void start_fetch(struct reader *reader, const struct place *place, uint64_t needed_to,
                        bool passing)
{
    struct fetch *fetch = mem_alloc(sizeof *fetch);
    fetch->reader = reader;
    fetch->container = place->container;
    fetch->begin = place->begin / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
    fetch->end = (place->end + CACHE_PAGE_BYTES - 1) / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
    size_t size = (size_t)(fetch->end - fetch->begin);
    fetch->needed_to = needed_to;
    fetch->passing = passing;
    container_name(&place->container, fetch->key);
    fetch->call = (struct object_call){.verb = OBJECT_GET,
                                       .key = fetch->key,
                                       .offset = fetch->begin,
                                       .size = size,
                                       .room = cache_bodies_room(reader->bodies, size),
                                       .done = fetch_done,
                                       .context = fetch};
    fetch->next = reader->fetches;
    reader->fetches = fetch;
    reader->fetching_bytes += size;
    reader->stats.fetches++;
    object_start(reader->store, &fetch->call);
}

/* Widens the gap [begin, end) within range, as far as nothing is there. */
static void widen(const struct reader *reader, struct place *gap, struct range range)
{
    uint64_t begin = range.begin;
    while (begin < gap->begin) {
        uint64_t from = reader_there_to(reader, &gap->container, begin, true);
        if (from >= gap->begin) {
            break;
        }
        uint64_t to = next_there(reader, &gap->container, from);
        if (to >= gap->begin) {
            gap->begin = from;
            break;
        }
        begin = to;
    }
    uint64_t next = next_there(reader, &gap->container, gap->end);
    uint64_t end = next < range.end ? next : range.end;
    gap->end = end > gap->end ? end : gap->end;
}

void reader_fetch_needed(struct reader *reader, const struct place *place,
                         const struct ahead_want *want)
{
    for (struct fetch *fetch = reader->fetches; fetch; fetch = fetch->next) {
        if (fetch->begin < place->end && place->begin < fetch->end &&
            fetch->needed_to < place->end &&
            container_equal(&fetch->container, &place->container)) {
            fetch->needed_to = place->end;
        }
    }
    uint64_t at = place->begin;
    while (at < place->end) {
        struct place gap = {place->container, at, place->end};
        if (!find_gap(reader, &place->container, &gap.begin, &gap.end)) {
            break;
        }
        uint64_t next = gap.end;
        widen(reader, &gap, want->range);
        start_fetch(reader, &gap, place->end, want->passing);
        at = next;
    }
}

void reader_fetch_ahead(struct reader *reader)
{
    struct ahead_want want = {0};
    while (reader->fetching_bytes < reader->fetching_max && ahead_next(reader->ahead, &want)) {
        struct place gap = {want.container, want.range.begin, want.range.end};
        while (find_gap(reader, &want.container, &gap.begin, &gap.end)) {
            start_fetch(reader, &gap, 0, want.passing);
            gap.begin = gap.end;
            gap.end = want.range.end;
        }
    }
}
