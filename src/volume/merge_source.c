/* Reading the runs of a merge: a stretch of blocks is fetched, then decoded one by one. */
#include "base/mem.h"
#include "volume/merge_internal.h"

#include <stdlib.h>

struct run *merge_source_run(const struct merge_source *source)
{
    return source->runs[source->run_at];
}

static void drop_block(struct merge_source *source)
{
    free((void *)source->block.bytes);
    source->block = (struct block){0};
}

static void drop_stored(struct merge_source *source)
{
    str_clear(&source->stored);
    source->stored_first = 0;
    source->stored_end = 0;
}

void merge_source_release(struct merge_source *source)
{
    for (size_t i = 0; i < source->run_count; i++) {
        run_destroy(source->runs[i]);
    }
    free(source->runs);
    drop_block(source);
    str_release(&source->stored);
}

static bool has_stored(const struct merge_source *source)
{
    return source->block_at >= source->stored_first && source->block_at < source->stored_end;
}

enum err_code merge_source_enter(struct map_merge *merge, struct merge_source *source,
                                 bool *entered, size_t *work, struct err *err)
{
    const struct run *run = merge_source_run(source);
    *entered = has_stored(source);
    if (!*entered) {
        return ERR_OK;
    }
    size_t skip = run->offsets[source->block_at] - run->offsets[source->stored_first];
    struct block block;
    enum err_code code =
        run_load(run, source->block_at, source->stored.text + skip, merge->zstd, &block, err);
    if (code) {
        return code;
    }
    drop_block(source);
    source->block = block;
    source->entered = true;
    *work += block.size;
    block_cursor_first(&source->cursor, &source->block);
    source->key = (struct map_slice){source->cursor.key, source->cursor.key_size};
    source->value = source->cursor.value;
    return ERR_OK;
}

bool merge_source_next_run(struct merge_source *source)
{
    drop_block(source);
    drop_stored(source);
    source->entered = false;
    source->block_at = 0;
    source->run_at++;
    if (source->run_at == source->run_count) {
        return false;
    }
    source->key = merge_source_run(source)->first;
    return true;
}

bool merge_source_wants(const struct map_merge *merge, const struct merge_source *source,
                        struct map_want *out)
{
    const struct run *run = merge_source_run(source);
    uint32_t begin = has_stored(source) ? source->stored_end : source->block_at;
    if (begin == run->block_count ||
        run->offsets[begin] - run->offsets[source->block_at] > merge->fetch_bytes / 4) {
        return false; /* there is enough for a while */
    }
    uint32_t end = begin + 1;
    while (end < run->block_count &&
           run->offsets[end + 1] - run->offsets[begin] <= merge->fetch_bytes) {
        end++;
    }
    *out = (struct map_want){run->info.container, run->offsets[begin],
                             run->offsets[end] - run->offsets[begin]};
    return true;
}

/* Forgets the bytes of blocks that have been decoded. */
static void trim_stored(struct merge_source *source)
{
    if (!has_stored(source)) {
        drop_stored(source);
        source->stored_first = source->stored_end = source->block_at;
        return;
    }
    const uint32_t *offsets = merge_source_run(source)->offsets;
    size_t skip = offsets[source->block_at] - offsets[source->stored_first];
    memmove(source->stored.text, source->stored.text + skip, source->stored.size - skip);
    source->stored.size -= skip;
    source->stored_first = source->block_at;
}

enum err_code merge_source_supply(struct merge_source *source, const struct map_want *want,
                                  const void *bytes, struct err *err)
{
    const struct run *run = merge_source_run(source);
    uint32_t begin = has_stored(source) ? source->stored_end : source->block_at;
    if (!container_equal(&run->info.container, &want->run) || begin == run->block_count ||
        run->offsets[begin] != want->offset) {
        return ERR_OK;
    }
    uint32_t end = begin;
    while (end < run->block_count && run->offsets[end + 1] - want->offset <= want->size) {
        const uint8_t *stored = (const uint8_t *)bytes + (run->offsets[end] - want->offset);
        enum err_code code = run_verify(run, end, stored, err);
        if (code) {
            return code;
        }
        end++;
    }
    trim_stored(source);
    str_add_bytes(&source->stored, bytes, run->offsets[end] - run->offsets[begin]);
    source->stored_end = end;
    return ERR_OK;
}
