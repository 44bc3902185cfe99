#include "volume/reader_ahead.h"

#include "base/mem.h"
#include "volume/container_map.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define PIECE_MAX (4 * MIB)   /* of one fetch ahead */
#define AHEAD_MAX (32 * MIB)  /* of one stream */
#define LITTLE (64 * KIB)     /* scattered fetches are rounded to this */
#define REGION (4 * MIB)      /* in which scattered misses may fall together */
#define GAP_NEW (128 * KIB)   /* between asks that may be sequential */
#define GAP_KNOWN MIB         /* between those of a stream that is */
#define BACK_KNOWN (8 * MIB)  /* back in one: asks that waited come once more */
#define CROSS_AFTER (4 * MIB) /* sequential bytes before the next pack is begun */
#define SIZE_GUESS (4 * MIB)  /* of a container whose size is not known yet */

enum {
    STREAMS = 32,
    SWEEPS_MAX = 64,
    KNOWN_MAX = 16384,
    REGIONS_MAX = 32,
    REGION_MISSES = 4,     /* so many misses in a region ... */
    REGION_ASKS = 64,      /* ... among so many asks are locality */
    POINTS_SEQUENTIAL = 3, /* of adjacent (2) and near (1) asks */
    POINTS_MAX = 1000,
    DENSE_MISSES = 4,    /* of a container: then all of it */
    RECENT_ASKS = 32768, /* what was asked for among these is being read now */
    ACTIVE_ASKS = 1024,  /* a stream that was not for so long does not count */
    REVIEW_ASKS = 64,
    CROSSINGS_MAX = 16,
};

struct known { /* a container */
    struct container container;
    uint64_t size; /* 0: unknown */
    bool missing;
    uint32_t misses;
    uint64_t last_ask;
    uint64_t (*regions)[REGION_MISSES]; /* the last misses in each; NULL until there are any */
    struct known *newer, *older;
};

struct stream {
    struct container container;
    uint64_t last; /* where the last ask began */
    uint64_t next; /* where the next one is expected */
    uint64_t run;  /* sequential bytes so far */
    unsigned points;
    uint64_t inode;
    bool from_start; /* it began with the first byte of that inode */
    uint64_t last_ask;
    struct container cursor; /* reading ahead has come to here */
    uint64_t cursor_offset;
    uint64_t read_pos, ahead_pos; /* counted bytes, to tell how far ahead that is */
};

struct sweep { /* a container that is fetched whole */
    struct container container;
    uint64_t offset;
};

struct ahead {
    uint64_t capacity;
    size_t memory_bytes;
    uint64_t asks;
    struct container_map containers; /* → struct known */
    struct known *newest, *oldest;
    struct stream streams[STREAMS];
    size_t stream_count, turn;
    struct sweep sweeps[SWEEPS_MAX];
    size_t sweep_count;
    uint64_t footprint; /* sizes of all containers being read now */
    uint64_t reviewed;  /* at which ask that was counted */
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct ahead *ahead_create(uint64_t capacity, size_t memory_bytes)
{
    struct ahead *ahead = mem_alloc(sizeof *ahead);
    ahead->capacity = capacity;
    ahead->memory_bytes = memory_bytes;
    return ahead;
}

/* -- containers ------------------------------------------------------------------------------- */

static void list_remove(struct ahead *ahead, struct known *known)
{
    *(known->newer ? &known->newer->older : &ahead->newest) = known->older;
    *(known->older ? &known->older->newer : &ahead->oldest) = known->newer;
    known->newer = known->older = NULL;
}

static void list_add(struct ahead *ahead, struct known *known)
{
    known->older = ahead->newest;
    *(ahead->newest ? &ahead->newest->newer : &ahead->oldest) = known;
    ahead->newest = known;
}

static void forget(struct ahead *ahead, struct known *known)
{
    container_map_remove(&ahead->containers, &known->container);
    list_remove(ahead, known);
    free(known->regions);
    free(known);
}

void ahead_destroy(struct ahead *ahead)
{
    if (ahead) {
        while (ahead->oldest) {
            forget(ahead, ahead->oldest);
        }
        container_map_release(&ahead->containers);
        free(ahead);
    }
}

static struct known *find_known(struct ahead *ahead, const struct container *container)
{
    return container_map_get(&ahead->containers, container);
}

static struct known *get_known(struct ahead *ahead, const struct container *container)
{
    struct known *known = find_known(ahead, container);
    if (known) {
        return known;
    }
    if (ahead->containers.count >= KNOWN_MAX) {
        forget(ahead, ahead->oldest);
    }
    known = mem_alloc(sizeof *known);
    known->container = *container;
    known->last_ask = ahead->asks;
    container_map_put(&ahead->containers, container, known);
    list_add(ahead, known);
    return known;
}

static void use_known(struct ahead *ahead, const struct ahead_access *access)
{
    struct known *known = get_known(ahead, &access->container);
    uint64_t size = access->size ? access->size : known->size;
    known->size = size ? max_u64(size, access->end) : 0;
    known->missing = false;
    known->last_ask = ahead->asks;
    if (ahead->newest != known) {
        list_remove(ahead, known);
        list_add(ahead, known);
    }
}

/* Whether the cache can hold all that is being read now. */
static bool fits(struct ahead *ahead)
{
    if (ahead->footprint == 0 || ahead->asks - ahead->reviewed >= REVIEW_ASKS) {
        ahead->footprint = 0;
        ahead->reviewed = ahead->asks;
        for (const struct known *known = ahead->newest;
             known && ahead->asks - known->last_ask < RECENT_ASKS; known = known->older) {
            ahead->footprint += known->size ? known->size : SIZE_GUESS;
        }
    }
    return ahead->footprint <= ahead->capacity;
}

void ahead_learn(struct ahead *ahead, const struct container *container, uint64_t size)
{
    struct known *known = get_known(ahead, container);
    known->missing = size == 0;
    if (known->size == 0) {
        known->size = size;
    }
}

/* -- streams ---------------------------------------------------------------------------------- */

static bool is_sequential(const struct stream *stream)
{
    return stream->points >= POINTS_SEQUENTIAL;
}

/* How far an ask may be from where the next one is expected. */
static uint64_t gap_of(const struct stream *stream, bool is_back)
{
    return !is_sequential(stream) ? GAP_NEW : is_back ? BACK_KNOWN : GAP_KNOWN;
}

static bool is_next_pack(const struct container *container, const struct container *next)
{
    return container->kind == CONTAINER_PACK && next->kind == CONTAINER_PACK &&
           container->writer == next->writer && container->term == next->term &&
           container->number + 1 == next->number;
}

static uint64_t size_of(struct ahead *ahead, const struct container *container)
{
    const struct known *known = find_known(ahead, container);
    return known ? known->size : 0;
}

/* How far the ask is from where the stream expects it; UINT64_MAX: it is not the stream's. */
static uint64_t distance(struct ahead *ahead, const struct stream *stream,
                         const struct ahead_access *access)
{
    uint64_t away = UINT64_MAX;
    bool is_back = false;
    if (container_equal(&stream->container, &access->container)) {
        if (access->begin >= stream->last && access->end <= stream->next) {
            return 0; /* the same once more */
        }
        is_back = access->begin < stream->next;
        away = access->begin > stream->next ? access->begin - stream->next
                                            : stream->next - access->begin;
    } else if (is_next_pack(&stream->container, &access->container)) {
        uint64_t size = size_of(ahead, &stream->container);
        uint64_t left = size > stream->next ? size - stream->next : 0;
        away = access->begin + left;
    } else if (is_next_pack(&access->container, &stream->container)) {
        uint64_t size = size_of(ahead, &access->container);
        is_back = true;
        away = size > access->begin ? stream->next + (size - access->begin) : UINT64_MAX;
    }
    return away <= gap_of(stream, is_back) ? away : UINT64_MAX;
}

static struct stream *find_stream(struct ahead *ahead, const struct ahead_access *access)
{
    struct stream *best = NULL;
    uint64_t best_away = UINT64_MAX;
    for (size_t i = 0; i < ahead->stream_count; i++) {
        uint64_t away = distance(ahead, &ahead->streams[i], access);
        if (away < best_away) {
            best_away = away;
            best = &ahead->streams[i];
        }
    }
    return best;
}

static void begin_stream(struct ahead *ahead, const struct ahead_access *access)
{
    struct stream *stream = &ahead->streams[0];
    if (ahead->stream_count < STREAMS) {
        stream = &ahead->streams[ahead->stream_count++];
    }
    for (size_t i = 0; i < ahead->stream_count; i++) {
        if (ahead->streams[i].last_ask < stream->last_ask) {
            stream = &ahead->streams[i];
        }
    }
    *stream = (struct stream){.container = access->container,
                              .last = access->begin,
                              .next = access->end,
                              .run = access->end - access->begin,
                              .inode = access->inode,
                              .from_start = access->file_offset == 0,
                              .last_ask = ahead->asks,
                              .cursor = access->container,
                              .cursor_offset = access->end};
}

/* Reading ahead never lies behind the reading itself. */
static void pull_cursor(struct stream *stream)
{
    bool same = container_equal(&stream->cursor, &stream->container);
    bool passed = !same && stream->cursor.number < stream->container.number;
    if (passed || (same && stream->cursor_offset <= stream->next)) {
        stream->cursor = stream->container;
        stream->cursor_offset = stream->next;
        stream->ahead_pos = stream->read_pos;
    } else if (same) {
        stream->ahead_pos = stream->read_pos + (stream->cursor_offset - stream->next);
    }
}

static void advance(struct ahead *ahead, struct stream *stream, const struct ahead_access *access)
{
    stream->last_ask = ahead->asks;
    if (is_next_pack(&access->container, &stream->container)) {
        return; /* a step back, to where it has come from */
    }
    if (!container_equal(&stream->container, &access->container)) {
        uint64_t size = size_of(ahead, &stream->container);
        stream->read_pos += size > stream->next ? size - stream->next : 0;
        stream->container = access->container;
        stream->next = 0;
    }
    if (access->end > stream->next) {
        bool adjacent = access->begin == stream->next;
        bool same_file = adjacent && stream->from_start && access->inode == stream->inode;
        stream->points += same_file ? 3 : adjacent ? 2 : access->begin > stream->next;
        stream->points = stream->points < POINTS_MAX ? stream->points : POINTS_MAX;
        stream->run += access->end - max_u64(stream->next, access->begin);
        stream->read_pos += access->end - stream->next;
        stream->last = access->begin;
        stream->next = access->end;
    }
    pull_cursor(stream);
}

void ahead_note(struct ahead *ahead, const struct ahead_access *access)
{
    ahead->asks++;
    use_known(ahead, access);
    struct stream *stream = find_stream(ahead, access);
    if (stream) {
        advance(ahead, stream, access);
    } else {
        begin_stream(ahead, access);
    }
}

/* How far ahead a stream reads now: a share of the memory, and no more than four times what it
 * has read. Metadata is so little beside the data that its streams do not make the shares smaller.
 */
static uint64_t length_of(const struct ahead *ahead, const struct stream *stream)
{
    uint64_t active = 0;
    for (size_t i = 0; i < ahead->stream_count; i++) {
        const struct stream *other = &ahead->streams[i];
        active += is_sequential(other) && ahead->asks - other->last_ask < ACTIVE_ASKS &&
                  other->container.kind != CONTAINER_RUN;
    }
    uint64_t share = ahead->memory_bytes / max_u64(active, 1);
    uint64_t most = min_u64(max_u64(share, MIB), AHEAD_MAX);
    return min_u64(max_u64(4 * stream->run, 4 * MIB), most);
}

static uint64_t piece_of(const struct ahead *ahead, const struct stream *stream)
{
    return min_u64(max_u64(length_of(ahead, stream) / 2, MIB), PIECE_MAX);
}

/* -- a miss ----------------------------------------------------------------------------------- */

/* Notes a miss and says whether misses have been falling together there. */
static bool note_region(struct ahead *ahead, struct known *known, uint64_t offset)
{
    if (!known->regions) {
        known->regions = mem_array(REGIONS_MAX, sizeof known->regions[0]);
    }
    uint64_t *last = known->regions[offset / REGION % REGIONS_MAX];
    bool local = last[0] > 0 && ahead->asks - last[0] < REGION_ASKS;
    memmove(last, last + 1, (REGION_MISSES - 1) * sizeof last[0]);
    last[REGION_MISSES - 1] = ahead->asks;
    return local;
}

static void begin_sweep(struct ahead *ahead, const struct container *container)
{
    for (size_t i = 0; i < ahead->sweep_count; i++) {
        if (container_equal(&ahead->sweeps[i].container, container)) {
            return;
        }
    }
    if (ahead->sweep_count < SWEEPS_MAX) {
        ahead->sweeps[ahead->sweep_count++] = (struct sweep){*container, 0};
    }
}

static struct range around(const struct ahead_access *access, uint64_t block)
{
    uint64_t begin = access->begin - access->begin % block;
    uint64_t end = access->end + (block - 1);
    return (struct range){begin, end - end % block};
}

static struct range miss_scattered(struct ahead *ahead, struct known *known,
                                   const struct ahead_access *access)
{
    bool local = note_region(ahead, known, access->begin);
    known->misses++;
    if (!fits(ahead)) {
        return around(access, local ? REGION : LITTLE);
    }
    if (known->misses >= DENSE_MISSES && known->size > 0) {
        begin_sweep(ahead, &access->container);
    }
    return around(access, MIB << min_u64(known->misses - 1, 2));
}

struct ahead_want ahead_miss(struct ahead *ahead, const struct ahead_access *access)
{
    struct known *known = get_known(ahead, &access->container);
    struct stream *stream = find_stream(ahead, access);
    struct range range = {access->begin, access->end};
    bool passing = stream && is_sequential(stream);
    if (passing) {
        range.end = max_u64(range.end, access->begin + piece_of(ahead, stream));
    } else {
        range = miss_scattered(ahead, known, access);
    }
    if (known->size > 0) {
        range.end = max_u64(min_u64(range.end, known->size), access->end);
    }
    if (stream && container_equal(&stream->cursor, &access->container) &&
        stream->cursor_offset < range.end) {
        stream->cursor_offset = range.end;
        pull_cursor(stream);
    }
    return (struct ahead_want){access->container, range, passing};
}

/* -- reading ahead ---------------------------------------------------------------------------- */

static bool may_cross(struct ahead *ahead, const struct stream *stream)
{
    uint64_t size = size_of(ahead, &stream->container);
    return stream->cursor.kind == CONTAINER_PACK &&
           stream->cursor.number - stream->container.number < CROSSINGS_MAX &&
           stream->run >= max_u64(CROSS_AFTER, size / 8);
}

/* The piece at offset of a container of that size (0: unknown); a short rest is taken along. Large
 * ones end where stores that keep objects in parts of this size have the next part. */
static struct range piece_at(uint64_t offset, uint64_t piece, uint64_t size)
{
    uint64_t end = offset + piece;
    end -= piece == PIECE_MAX ? end % PIECE_MAX : 0;
    if (size > 0 && (end >= size || size - end < piece / 2)) {
        end = size;
    }
    return (struct range){offset, end};
}

static bool next_of_stream(struct ahead *ahead, struct stream *stream, struct ahead_want *want)
{
    if (!is_sequential(stream) || ahead->asks - stream->last_ask >= ACTIVE_ASKS) {
        return false;
    }
    uint64_t piece = piece_of(ahead, stream);
    if (stream->ahead_pos - stream->read_pos + piece > length_of(ahead, stream)) {
        return false;
    }
    for (;;) {
        const struct known *known = find_known(ahead, &stream->cursor);
        uint64_t size = known ? known->size : 0;
        if (known && known->missing) {
            return false;
        }
        /* How large the next pack is comes with its first piece; most likely it is as large as
         * this one. */
        if (size == 0 && !container_equal(&stream->cursor, &stream->container) &&
            stream->cursor_offset > 0 &&
            stream->cursor_offset + piece > size_of(ahead, &stream->container)) {
            return false;
        }
        if (size == 0 || stream->cursor_offset < size) {
            want->container = stream->cursor;
            want->passing = true;
            want->range = piece_at(stream->cursor_offset, piece, size);
            stream->cursor_offset = want->range.end;
            stream->ahead_pos += want->range.end - want->range.begin;
            return true;
        }
        if (!may_cross(ahead, stream)) {
            return false;
        }
        stream->cursor.number++;
        stream->cursor_offset = 0;
    }
}

static bool next_of_sweeps(struct ahead *ahead, struct ahead_want *want)
{
    while (ahead->sweep_count > 0) {
        struct sweep *sweep = &ahead->sweeps[0];
        uint64_t size = size_of(ahead, &sweep->container);
        if (sweep->offset < size && fits(ahead)) {
            want->container = sweep->container;
            want->passing = false;
            want->range = piece_at(sweep->offset, PIECE_MAX, size);
            sweep->offset = want->range.end;
            return true;
        }
        ahead->sweep_count--;
        memmove(ahead->sweeps, ahead->sweeps + 1, ahead->sweep_count * sizeof ahead->sweeps[0]);
    }
    return false;
}

bool ahead_next(struct ahead *ahead, struct ahead_want *want)
{
    for (size_t i = 0; i < ahead->stream_count; i++) {
        size_t index = (ahead->turn + i) % ahead->stream_count;
        if (next_of_stream(ahead, &ahead->streams[index], want)) {
            ahead->turn = index + 1; /* the others come first next time */
            return true;
        }
    }
    return next_of_sweeps(ahead, want);
}
