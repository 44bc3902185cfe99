#include "base/mem.h"
#include "volume/merge_internal.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
    STEP_BYTES = 512 << 10,  /* decoded in one step */
    FETCH_BYTES = 1 << 20,   /* of one source at once, at most */
    FETCHED_BYTES = 8 << 20, /* of all sources */
    KIND_PART = 32, /* the end of a kind of keys may be a run of this part of the usual size */
    KINDS = 256,
};

/* Beginning and end. --------------------------------------------------------------------------- */

/* Puts the source at index where it belongs among those behind it. */
static void sift(struct map_merge *merge, size_t index)
{
    struct merge_source **order = merge->order;
    struct merge_source *moved = order[index];
    for (; index + 1 < merge->order_count; index++) {
        int compared = key_compare(order[index + 1]->key, moved->key);
        if (compared > 0 || (compared == 0 && order[index + 1]->rank > moved->rank)) {
            break;
        }
        order[index] = order[index + 1];
    }
    order[index] = moved;
}

static uint64_t input_bytes(const struct map_merge *merge, size_t *runs)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < merge->source_count; i++) {
        for (size_t k = 0; k < merge->sources[i].run_count; k++) {
            bytes += merge->sources[i].runs[k]->info.size;
        }
        *runs += merge->sources[i].run_count;
    }
    return bytes;
}

static void put_in_order(struct map_merge *merge)
{
    merge->order = mem_array(merge->source_count, sizeof *merge->order);
    for (size_t i = merge->source_count; i-- > 0;) {
        struct merge_source *source = &merge->sources[i];
        if (source->run_count > 0) {
            source->key = merge_source_run(source)->first;
            memmove(merge->order + 1, merge->order, merge->order_count * sizeof *merge->order);
            merge->order[0] = source;
            merge->order_count++;
            sift(merge, 0);
        }
    }
}

bool map_merge_is_due(const struct map *map)
{
    return merge_pick_is_due(map);
}

struct map_merge *map_merge_create(const struct map *map, bool all, uint32_t term,
                                   uint64_t *next_number)
{
    struct map_merge *merge = mem_alloc(sizeof *merge);
    if (!merge_pick(merge, map, all)) {
        map_merge_destroy(merge);
        return NULL;
    }
    put_in_order(merge);
    struct container none = {.kind = CONTAINER_RUN};
    merge->builder = run_builder_create(&none, merge->target, map->block_bytes);
    merge->zstd = ZSTD_createDCtx();
    CHECK(merge->zstd);
    merge->run_bytes = map->run_bytes;
    merge->fetch_bytes = FETCHED_BYTES / (merge->source_count + 1);
    if (merge->fetch_bytes > FETCH_BYTES) {
        merge->fetch_bytes = FETCH_BYTES;
    }
    /* A run is written for every so many bytes, a quarter of run_bytes at least, and before each
     * run that is moved; twice that is enough even if what is written compresses worse than what
     * was read. */
    size_t runs = 0;
    uint64_t outputs = 8 * (input_bytes(merge, &runs) / merge->run_bytes);
    merge->term = term;
    merge->next_number = *next_number;
    merge->number_end = *next_number + outputs + 2 * runs + KINDS + 8;
    *next_number = merge->number_end;
    return merge;
}

void map_merge_destroy(struct map_merge *merge)
{
    if (!merge) {
        return;
    }
    for (size_t i = 0; i < merge->source_count; i++) {
        merge_source_release(&merge->sources[i]);
    }
    for (size_t i = 0; i < merge->result_count; i++) {
        run_destroy(merge->results[i].made);
    }
    free(merge->sources);
    free(merge->order);
    free(merge->results);
    free(merge->inputs);
    run_builder_destroy(merge->builder);
    ZSTD_freeDCtx(merge->zstd);
    free(merge);
}

/* Stepping. ------------------------------------------------------------------------------------ */

static bool is_writing(const struct map_merge *merge)
{
    return run_builder_keys(merge->builder) > 0;
}

/* A little more than run_bytes, so that a run which gains a few keys stays one. */
static size_t full_bytes(const struct map_merge *merge)
{
    return (size_t)(merge->run_bytes + merge->run_bytes / 4);
}

/* Runs smaller than this are not made on purpose. */
static size_t least_bytes(const struct map_merge *merge)
{
    return (size_t)(merge->run_bytes / 4);
}

static bool has_numbers(const struct map_merge *merge)
{
    return merge->number_end - merge->next_number > 1; /* one is left for what comes last */
}

/* Whether the run that the first source is before needs no change: none of its keys is in another
 * source. Small runs are written anew together with their neighbours, else there would soon be
 * thousands. */
static bool can_move(const struct map_merge *merge)
{
    const struct run *run = merge_source_run(merge->order[0]);
    size_t least = least_bytes(merge);
    struct map_slice last = {merge->last, merge->last_size};
    return merge->moves && has_numbers(merge) && run->info.size >= least &&
           (!is_writing(merge) || run_builder_size(merge->builder) >= least) &&
           (merge->order_count == 1 || key_compare(merge->order[1]->key, run->last) > 0) &&
           (!merge->any || key_compare(last, run->first) < 0);
}

/* The first source leaves its run. */
static void leave_run(struct map_merge *merge)
{
    if (merge_source_next_run(merge->order[0])) {
        sift(merge, 0);
    } else {
        merge->order_count--;
        memmove(merge->order, merge->order + 1, merge->order_count * sizeof *merge->order);
    }
}

static void move_run(struct map_merge *merge)
{
    const struct run *run = merge_source_run(merge->order[0]);
    VEC_PUSH(merge->results, merge->result_count, merge->result_cap) =
        (struct merge_result){.moved = run->info.container};
    leave_run(merge);
}

static void write_key(struct map_merge *merge, struct map_slice key, struct map_slice value)
{
    if (!value.bytes && merge->drops) {
        return;
    }
    if (!is_writing(merge)) {
        struct container container = {
            .kind = CONTAINER_RUN, .term = merge->term, .number = merge->next_number++};
        run_builder_restart(merge->builder, &container);
        run_builder_reserve(merge->builder, full_bytes(merge) + full_bytes(merge) / 8);
    }
    run_builder_add(merge->builder, key, value);
}

/* The first source's key is written unless a newer source had it; then that source goes on. */
static void take_key(struct map_merge *merge)
{
    struct merge_source *top = merge->order[0];
    struct map_slice last = {merge->last, merge->last_size};
    if (!merge->any || key_compare(last, top->key) != 0) {
        write_key(merge, top->key, top->value);
        memcpy(merge->last, top->key.bytes, top->key.size);
        merge->last_size = top->key.size;
        merge->any = true;
    }
    if (block_cursor_next(&top->cursor)) {
        top->key.size = top->cursor.key_size;
        top->value = top->cursor.value;
        sift(merge, 0);
        return;
    }
    top->block_at++;
    if (top->block_at == merge_source_run(top)->block_count) {
        leave_run(merge);
    } else {
        merge->waiting = true;
    }
}

static void finish_run(struct map_merge *merge, struct map_run *info, struct str *out)
{
    struct run *run = NULL;
    run_builder_finish(merge->builder, info, out);
    run_builder_restart(merge->builder, &info->container);
    enum err_code code = run_create(info, out->text + info->index_offset,
                                    out->size - info->index_offset, &run, NULL);
    CHECK(!code);
    VEC_PUSH(merge->results, merge->result_count, merge->result_cap) =
        (struct merge_result){.made = run};
}

/* Keys of another kind, by their first byte, begin here: new keys of one kind will often come
 * behind its old ones, and in a run that holds the end of one kind and the beginning of the next
 * they would have both rewritten each time. */
static bool is_other_kind(const struct map_merge *merge)
{
    struct map_slice key = merge->order[0]->key;
    return merge->last_size > 0 && key.size > 0 && merge->last[0] != key.bytes[0] &&
           run_builder_size(merge->builder) >= merge->run_bytes / KIND_PART && has_numbers(merge);
}

/* Whether the run that is being written ends here. */
static bool is_full(const struct map_merge *merge)
{
    if (!is_writing(merge)) {
        return false;
    }
    if (merge->order_count == 0) {
        return true;
    }
    if (merge->waiting) {
        return false;
    }
    if (!merge->order[0]->entered && can_move(merge)) {
        return true;
    }
    if (is_other_kind(merge)) {
        return true;
    }
    return run_builder_size(merge->builder) >= full_bytes(merge) && has_numbers(merge);
}

enum err_code map_merge_step(struct map_merge *merge, enum map_merge_state *state,
                             struct map_run *run, struct str *out, struct err *err)
{
    size_t work = 0;
    str_clear(out);
    *state = MAP_MERGE_NEEDS;
    while (work < STEP_BYTES) {
        if (is_full(merge)) {
            if (!run_builder_prepare(merge->builder)) {
                return ERR_OK;
            }
            finish_run(merge, run, out);
            *state = MAP_MERGE_OUTPUT;
            return ERR_OK;
        }
        if (merge->order_count == 0) {
            merge->done = true;
            *state = MAP_MERGE_DONE;
            return ERR_OK;
        }
        struct merge_source *top = merge->order[0];
        if (top->entered && !merge->waiting) {
            take_key(merge);
        } else if (!merge->waiting && can_move(merge)) {
            move_run(merge);
        } else {
            bool entered = false;
            enum err_code code = merge_source_enter(merge, top, &entered, &work, err);
            if (code || !entered) {
                return code;
            }
            merge->waiting = false;
            sift(merge, 0);
        }
    }
    return ERR_OK;
}

size_t map_merge_wanted(struct map_merge *merge, struct map_want *out, size_t max)
{
    if (merge->order_count == 0 || max == 0 || is_full(merge)) {
        return 0;
    }
    struct merge_source *top = merge->order[0];
    if (top->entered && !merge->waiting) {
        return 0; /* it can go on */
    }
    size_t count = 0;
    for (size_t i = 0; i < merge->order_count && count < max; i++) {
        struct merge_source *source = merge->order[i];
        if (i == 0 || source->entered) {
            count += merge_source_wants(merge, source, &out[count]);
        }
    }
    return count;
}

enum err_code map_merge_supply(struct map_merge *merge, const struct map_want *want,
                               const void *bytes, struct err *err)
{
    for (size_t i = 0; i < merge->order_count; i++) {
        enum err_code code = merge_source_supply(merge->order[i], want, bytes, err);
        if (code) {
            return code;
        }
    }
    return ERR_OK;
}

/* Applying. ------------------------------------------------------------------------------------ */

static bool is_moved(const struct map_merge *merge, const struct container *container)
{
    for (size_t i = 0; i < merge->result_count; i++) {
        const struct merge_result *result = &merge->results[i];
        if (!result->made && container_equal(&result->moved, container)) {
            return true;
        }
    }
    return false;
}

void map_merge_apply(struct map *map, struct map_merge *merge)
{
    CHECK(merge->done);
    struct run **kept = mem_array(merge->input_count, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < merge->input_count; i++) {
        bool moved = is_moved(merge, &merge->inputs[i]);
        struct run *run = map_remove_run(map, &merge->inputs[i], !moved);
        CHECK(run);
        if (moved) {
            kept[kept_count++] = run;
        } else {
            run_destroy(run);
        }
    }
    for (size_t i = 0; i < kept_count; i++) {
        kept[i]->info.level = merge->target;
        if (!run_has_filter(merge->target)) {
            run_drop_filter(kept[i]);
        }
        map_insert_run(map, kept[i]);
    }
    free(kept);
    for (size_t i = 0; i < merge->result_count; i++) {
        if (merge->results[i].made) {
            map_insert_run(map, merge->results[i].made);
            merge->results[i].made = NULL;
        }
    }
}
