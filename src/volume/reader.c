#include "volume/reader.h"

#include "base/mem.h"
#include "volume/logobj.h"
#include "volume/reader_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum {
    MEMORY_BYTES_DEFAULT = 128 << 20, /* which eight readings at once have a use for */
    MEMORY_BYTES_SMALL = 64 << 20,    /* where it would be much of the machine's */
    MEMORY_PART = 32,
    MEMORY_BYTES_MIN = 8 << 20, /* so that two fetches which one extent needs are held at once */
    RAW_BYTES_MAX = 256 << 20,
};

static size_t default_memory(void)
{
    struct sysinfo info;
    uint64_t all = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
    return all / MEMORY_PART < MEMORY_BYTES_DEFAULT ? MEMORY_BYTES_SMALL : MEMORY_BYTES_DEFAULT;
}

/* -- life ------------------------------------------------------------------------------------- */

enum err_code reader_create(struct object_store *store, const struct reader_options *options,
                            struct reader **out, struct err *err)
{
    size_t memory_bytes = options->memory_bytes ? options->memory_bytes : default_memory();
    memory_bytes = memory_bytes > MEMORY_BYTES_MIN ? memory_bytes : MEMORY_BYTES_MIN;
    struct cache_disk *disk = NULL;
    if (options->folder) {
        enum err_code code = cache_disk_open(options->folder, options->folder_bytes, &disk, err);
        if (code != ERR_OK && code != ERR_AGAIN) { /* again: another reader has it */
            return code;
        }
    }
    struct reader *reader = mem_alloc(sizeof *reader);
    reader->store = store;
    reader->disk = disk;
    reader->memory = cache_memory_create(memory_bytes);
    reader->bodies = cache_bodies_create();
    reader->fetching_max = memory_bytes / 2;
    uint64_t capacity = disk ? cache_disk_limit(disk) : memory_bytes / 2;
    reader->ahead = ahead_create(capacity, memory_bytes / 2);
    *out = reader;
    return ERR_OK;
}

void reader_destroy(struct reader *reader)
{
    if (!reader) {
        return;
    }
    for (struct fetch *fetch = reader->fetches; fetch; fetch = fetch->next) {
        fetch->reader = NULL; /* it frees itself when it ends */
    }
    cache_disk_close(reader->disk);
    cache_memory_destroy(reader->memory);
    cache_bodies_destroy(reader->bodies);
    ahead_destroy(reader->ahead);
    str_release(&reader->scratch);
    free(reader);
}

uint64_t reader_progress(const struct reader *reader)
{
    return reader->progress;
}

void reader_stats(const struct reader *reader, struct reader_stats *out)
{
    *out = reader->stats;
    out->memory_bytes = cache_memory_bytes(reader->memory) + reader->fetching_bytes;
    out->disk_bytes = reader->disk ? cache_disk_bytes(reader->disk) : 0;
    out->evicted_bytes = reader->disk ? cache_disk_evicted(reader->disk) : 0;
}

/* -- what is waited for, and what was damaged -------------------------------------------------- */

static bool same_place(const struct place *a, const struct place *b)
{
    return a->begin == b->begin && a->end == b->end &&
           container_equal(&a->container, &b->container);
}

static struct waiting *find_waiting(struct reader *reader, const struct place *place)
{
    for (size_t i = 0; reader->waiting_count > 0 && i < READER_WAITING_MAX; i++) {
        if (same_place(&reader->waiting[i].place, place)) {
            return &reader->waiting[i];
        }
    }
    return NULL;
}

/* The failure that an ask has waited for; NULL: none. When more wait than can be remembered, it is
 * any since the oldest of them came: a store that fails is told of, however many there are. */
static const struct err *failure_of(struct reader *reader, const struct place *place)
{
    const struct waiting *waiting = find_waiting(reader, place);
    if (!waiting && reader->waiting_count == READER_WAITING_MAX) {
        waiting = &reader->waiting[0];
        for (size_t i = 1; i < READER_WAITING_MAX; i++) {
            waiting = reader->waiting[i].since < waiting->since ? &reader->waiting[i] : waiting;
        }
    }
    return waiting ? reader_failure(reader, place, waiting->since) : NULL;
}

/* A free one; else one that can be forgotten, its ask then begins to wait anew. NULL: what came for
 * every single one of them was damaged, and that is not to be forgotten. */
static struct waiting *find_slot(struct reader *reader)
{
    bool is_full = reader->waiting_count == READER_WAITING_MAX;
    for (size_t i = 0; i < READER_WAITING_MAX; i++) {
        struct waiting *slot = &reader->waiting[reader->waiting_next++ % READER_WAITING_MAX];
        if (slot->place.container.kind == 0 || (is_full && slot->damaged == 0)) {
            return slot;
        }
    }
    return NULL;
}

/* False: it is waited for already, or cannot be remembered. */
static bool begin_wait(struct reader *reader, const struct place *place)
{
    struct waiting *slot = find_waiting(reader, place) ? NULL : find_slot(reader);
    if (!slot) {
        return false;
    }
    reader->waiting_count += slot->place.container.kind == 0;
    *slot = (struct waiting){.place = *place, .since = reader->progress};
    return true;
}

/* False: it was not waited for. */
static bool end_wait(struct reader *reader, const struct place *place)
{
    struct waiting *slot = find_waiting(reader, place);
    if (slot) {
        slot->place.container.kind = 0;
        reader->waiting_count--;
    }
    return slot;
}

/* Counts an extent that is given out; one that was waited for is not a hit. */
static void count_given(struct reader *reader, const struct place *place, uint64_t *hits,
                        uint64_t size)
{
    *hits += !end_wait(reader, place);
    reader->stats.bytes_read += size;
}

static void drop_place(struct reader *reader, const struct place *place)
{
    size_t size = (size_t)(place->end - place->begin);
    cache_memory_drop(reader->memory, &place->container, place->begin, size);
    if (reader->disk) {
        cache_disk_drop(reader->disk, &place->container, place->begin, size);
    }
}

/* The bytes of an extent do not have its checksum. If that is so however often they are fetched, it
 * is the store's damage. */
static enum err_code handle_damage(struct reader *reader, const struct place *place,
                                   const struct err *why, struct err *err)
{
    reader->stats.damaged++;
    drop_place(reader, place);
    reader->stats.misses += begin_wait(reader, place);
    struct waiting *waiting = find_waiting(reader, place);
    if (!waiting || ++waiting->damaged == READER_DAMAGED_MAX) {
        return err_set(err, ERR_CORRUPT, "%s", why->text);
    }
    struct ahead_want want = {place->container, {place->begin, place->end}, false};
    reader_fetch_needed(reader, place, &want);
    return ERR_AGAIN;
}

/* -- bytes ------------------------------------------------------------------------------------ */

static bool is_there(const struct reader *reader, const struct place *place)
{
    return reader_there_to(reader, &place->container, place->begin, false) >= place->end;
}

/* Copies what is there; false: some of it was not readable after all. */
static bool gather(struct reader *reader, const struct place *place, uint8_t *out, bool *from_disk)
{
    uint64_t at = place->begin;
    while (at < place->end) {
        size_t size = (size_t)(place->end - at);
        const uint8_t *bytes = cache_memory_at(reader->memory, &place->container, at, &size);
        if (!bytes) {
            size = 0;
        }
        if (!bytes && reader->disk) {
            size = (size_t)(cache_disk_covered_to(reader->disk, &place->container, at) - at);
        }
        size = size < place->end - at ? size : (size_t)(place->end - at);
        if (bytes) {
            memcpy(out, bytes, size);
        } else if (size == 0 || !cache_disk_read(reader->disk, &place->container, at, out, size)) {
            return false;
        } else {
            *from_disk = true;
        }
        out += size;
        at += size;
    }
    return true;
}

static enum err_code miss(struct reader *reader, const struct ahead_access *access, struct err *err)
{
    struct place place = {access->container, access->begin, access->end};
    const struct err *failure = failure_of(reader, &place);
    if (failure) {
        return err_set(err, failure->code, "%s", failure->text);
    }
    bool on_way = reader_there_to(reader, &place.container, place.begin, true) >= place.end;
    bool busy = reader->fetching_bytes >= reader->fetching_max;
    struct ahead_want want = {place.container, {place.begin, place.end}, false};
    if (!on_way && !busy) {
        want = ahead_miss(reader->ahead, access);
    }
    reader_fetch_needed(reader, &place, &want);
    return ERR_AGAIN;
}

/* An extent that is there in pieces, or on disk: into memory of its own. */
static enum err_code get_gathered(struct reader *reader, const struct ahead_access *access,
                                  const struct extent *extent, const void **bytes, struct err *err)
{
    struct place place = {access->container, access->begin, access->end};
    bool from_disk = false;
    bool plain = extent->codec == EXTENT_PLAIN;
    uint8_t *decoded = mem_resize(NULL, extent->whole, 1);
    str_clear(&reader->scratch);
    uint8_t *stored = decoded;
    if (!plain) {
        reader->scratch.text = mem_resize(reader->scratch.text, EXTENT_BYTES_MAX + 1, 1);
        reader->scratch.cap = EXTENT_BYTES_MAX + 1;
        stored = (uint8_t *)reader->scratch.text;
    }
    if (!gather(reader, &place, stored, &from_disk)) {
        free(decoded);
        return miss(reader, access, err);
    }
    struct err why = {0};
    enum err_code code = extent_check(extent, stored, &why);
    if (code != ERR_OK) {
        free(decoded);
        return handle_damage(reader, &place, &why, err);
    }
    code = plain ? ERR_OK : extent_decode(extent, stored, decoded, err);
    if (code != ERR_OK) {
        free(decoded);
        return code;
    }
    cache_memory_keep(reader->memory, extent, decoded);
    cache_memory_trim(reader->memory, (size_t)reader->fetching_bytes);
    count_given(reader, &place, from_disk ? &reader->stats.hits_disk : &reader->stats.hits_memory,
                extent->size);
    *bytes = decoded;
    return ERR_OK;
}

/* A plain extent that lies in one piece in memory is given out where it is. */
static enum err_code get_in_place(struct reader *reader, const struct ahead_access *access,
                                  const struct extent *extent, const uint8_t *stored,
                                  struct err *err)
{
    struct place place = {access->container, access->begin, access->end};
    struct err why = {0};
    if (extent_check(extent, stored, &why) != ERR_OK) {
        return handle_damage(reader, &place, &why, err);
    }
    cache_memory_mark(reader->memory, extent);
    count_given(reader, &place, &reader->stats.hits_memory, extent->size);
    return ERR_OK;
}

static enum err_code get_extent(struct reader *reader, const struct ahead_access *access,
                                const struct extent *extent, const void **bytes, struct err *err)
{
    struct place place = {access->container, access->begin, access->end};
    *bytes = cache_memory_extent(reader->memory, extent);
    if (*bytes) {
        count_given(reader, &place, &reader->stats.hits_memory, extent->size);
        return ERR_OK;
    }
    if (extent->codec == EXTENT_PLAIN &&
        cache_memory_covered_to(reader->memory, &place.container, place.begin) >= place.end) {
        size_t size = extent->stored_size;
        const uint8_t *stored =
            cache_memory_at(reader->memory, &extent->container, extent->offset, &size);
        *bytes = stored;
        return get_in_place(reader, access, extent, stored, err);
    }
    return is_there(reader, &place) ? get_gathered(reader, access, extent, bytes, err)
                                    : miss(reader, access, err);
}

static enum err_code check_ask(const struct extent *extent, struct err *err)
{
    bool container =
        extent->container.kind == CONTAINER_PACK || extent->container.kind == CONTAINER_LOG;
    bool plain = extent->codec == EXTENT_PLAIN && extent->stored_size == extent->whole;
    bool packed = extent->codec == EXTENT_ZSTD && extent->stored_size <= extent->whole;
    if (!container || !(plain || packed) || extent->stored_size == 0 ||
        extent->whole > EXTENT_BYTES_MAX || extent->offset > INT64_MAX - EXTENT_BYTES_MAX) {
        return err_set(err, ERR_CORRUPT, "an extent cannot be: %" PRIu32 " bytes at %" PRIu64,
                       extent->stored_size, extent->offset);
    }
    return ERR_OK;
}

enum err_code reader_get(struct reader *reader, const struct reader_ask *ask, const void **bytes,
                         struct err *err)
{
    const struct extent *extent = ask->extent;
    enum err_code code = check_ask(extent, err);
    if (code != ERR_OK) {
        return code;
    }
    uint64_t size = ask->container_size;
    if (size > 0 && extent->container.kind == CONTAINER_LOG) {
        size += LOGOBJ_HEADER_BYTES; /* its data lies behind the header */
    }
    struct ahead_access access = {
        .container = extent->container,
        .begin = extent->offset,
        .end = extent->offset + extent->stored_size,
        .size = size,
        .inode = ask->inode,
        .file_offset = extent->file_offset,
    };
    if (reader->disk) {
        cache_disk_use(reader->disk, &extent->container);
    }
    ahead_note(reader->ahead, &access);
    code = get_extent(reader, &access, extent, bytes, err);
    struct place place = {access.container, access.begin, access.end};
    if (code == ERR_AGAIN) {
        reader->stats.misses += begin_wait(reader, &place);
    } else if (code != ERR_OK) {
        end_wait(reader, &place);
    }
    reader_fetch_ahead(reader);
    return code;
}

/* -- raw bytes -------------------------------------------------------------------------------- */

static const void *get_raw(struct reader *reader, const struct place *place)
{
    size_t wanted = (size_t)(place->end - place->begin);
    size_t size = wanted;
    const uint8_t *bytes = cache_memory_at(reader->memory, &place->container, place->begin, &size);
    if (bytes && size >= wanted) {
        return bytes;
    }
    if (!is_there(reader, place)) {
        return NULL;
    }
    str_release(&reader->scratch);
    reader->scratch.text = mem_resize(NULL, wanted + 1, 1);
    reader->scratch.cap = wanted + 1;
    bool from_disk = false;
    uint8_t *out = (uint8_t *)reader->scratch.text;
    return gather(reader, place, out, &from_disk) ? out : NULL;
}

enum err_code reader_get_raw(struct reader *reader, const struct container *container,
                             uint64_t offset, size_t size, const void **bytes, struct err *err)
{
    if (container->kind < CONTAINER_PACK || container->kind > CONTAINER_RUN || size == 0 ||
        size > RAW_BYTES_MAX || offset > INT64_MAX - RAW_BYTES_MAX) {
        return err_set(err, ERR_CORRUPT, "bytes that cannot be are asked for: %zu at %" PRIu64,
                       size, offset);
    }
    struct ahead_access access = {
        .container = *container, .begin = offset, .end = offset + size, .file_offset = offset};
    struct place place = {*container, offset, offset + size};
    if (reader->disk) {
        cache_disk_use(reader->disk, container);
    }
    ahead_note(reader->ahead, &access);
    *bytes = get_raw(reader, &place);
    enum err_code code = *bytes ? ERR_OK : miss(reader, &access, err);
    if (code == ERR_AGAIN) {
        begin_wait(reader, &place);
    } else {
        end_wait(reader, &place);
    }
    reader_fetch_ahead(reader);
    return code;
}

void reader_drop_raw(struct reader *reader, const struct container *container, uint64_t offset,
                     size_t size)
{
    struct place place = {*container, offset, offset + size};
    reader->stats.damaged++;
    drop_place(reader, &place);
}
