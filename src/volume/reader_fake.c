#include "volume/reader_fake.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { PATTERN_BYTES = 1000003 }; /* no power of two: what is misplaced by one is seen */

void fake_bytes(const struct fake *fake, uint64_t pack, uint64_t offset, void *out, size_t size)
{
    uint8_t *to = out;
    uint64_t at = (offset + pack * 7919) % PATTERN_BYTES;
    while (size > 0) {
        size_t piece = size < PATTERN_BYTES - at ? size : (size_t)(PATTERN_BYTES - at);
        memcpy(to, fake->pattern + at, piece);
        to += piece;
        size -= piece;
        at = 0;
    }
}

struct extent fake_extent(const struct fake *fake, uint64_t pack, uint64_t offset, uint32_t size)
{
    struct extent extent = {
        .size = size,
        .whole = size,
        .stored_size = size,
        .offset = offset,
        .container = {CONTAINER_PACK, 0, 1, pack},
    };
    uint8_t *bytes = mem_resize(NULL, size, 1);
    fake_bytes(fake, pack, offset, bytes, size);
    extent.checksum = XXH3_64bits(bytes, size);
    free(bytes);
    return extent;
}

static void fake_start(struct object_store *store, struct object_call *call)
{
    struct fake *fake = (struct fake *)store;
    call->next = NULL;
    *(fake->last ? &fake->last->next : &fake->first) = call;
    fake->last = call;
    fake->in_flight++;
    if (fake->in_flight > fake->in_flight_max) {
        fake->in_flight_max = fake->in_flight;
    }
}

static void answer(struct fake *fake, struct object_call *call)
{
    struct container container = {0};
    bool known = container_parse(call->key, &container) && container.kind != CONTAINER_LOG &&
                 container.number < fake->pack_count;
    fake->gets++;
    if (fake->fail != ERR_OK || !known) {
        call->code = err_set(&call->err, fake->fail != ERR_OK ? fake->fail : ERR_NOT_FOUND,
                             "%s: a failure", call->key);
        return;
    }
    if (call->offset >= fake->pack_bytes) {
        call->code = err_set(&call->err, ERR_RANGE, "%s: behind the end", call->key);
        return;
    }
    uint64_t left = fake->pack_bytes - call->offset;
    size_t size = (size_t)(call->size > 0 && call->size < left ? call->size : left);
    call->body.text = mem_resize(NULL, size + 1, 1);
    call->body.cap = size + 1;
    call->body.size = size;
    call->body.text[size] = '\0';
    fake_bytes(fake, container.number, call->offset, call->body.text, size);
    for (size_t i = 0; fake->damaged_everywhere && i < size; i++) {
        call->body.text[i] ^= 1;
    }
    call->object_size = fake->pack_bytes;
    fake->bytes += size;
    if (container.number == 0 && fake->damaged_times > 0 && fake->damaged_at >= call->offset &&
        fake->damaged_at - call->offset < size) {
        fake->damaged_times--;
        call->body.text[fake->damaged_at - call->offset] ^= 1;
    }
}

static void end_first(struct fake *fake, bool cancelled)
{
    struct object_call *call = fake->first;
    fake->first = call->next;
    fake->last = fake->first ? fake->last : NULL;
    fake->in_flight--;
    if (cancelled) {
        call->code = err_set(&call->err, ERR_CANCELLED, "%s: closed", call->key);
    } else {
        answer(fake, call);
    }
    call->done(call);
}

static size_t fake_run(struct object_store *store, int wait_ms)
{
    struct fake *fake = (struct fake *)store;
    (void)wait_ms;
    if (!fake->first) {
        return 0;
    }
    end_first(fake, false);
    return 1;
}

static int fake_fd(struct object_store *store)
{
    (void)store;
    return -1;
}

static void fake_stats(const struct object_store *store, struct object_stats *out)
{
    const struct fake *fake = (const struct fake *)store;
    *out = (struct object_stats){.gets = fake->gets, .bytes_in = fake->bytes};
}

static void fake_close(struct object_store *store)
{
    fake_release((struct fake *)store);
}

void fake_init(struct fake *fake, uint64_t pack_count, uint64_t pack_bytes)
{
    static const struct object_ops ops = {.start = fake_start,
                                          .run = fake_run,
                                          .fd = fake_fd,
                                          .stats = fake_stats,
                                          .close = fake_close};
    *fake = (struct fake){.store = {&ops}, .pack_count = pack_count, .pack_bytes = pack_bytes};
    fake->pattern = mem_alloc(PATTERN_BYTES);
    for (size_t i = 0; i < PATTERN_BYTES; i++) {
        fake->pattern[i] = (uint8_t)rng_mix(9, i, 0);
    }
}

void fake_release(struct fake *fake)
{
    while (fake->first) {
        end_first(fake, true);
    }
    free(fake->pattern);
    fake->pattern = NULL;
}
