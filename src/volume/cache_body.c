#include "volume/cache_body.h"

#include "base/mem.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE_BYTES = 2 << 20,
    USUAL_FROM = 1 << 20, /* less is not worth so much memory */
    SPARE_MAX = 4,
    USUALS = 2,
};

/* Of fetches: a piece, and one with a short rest. What lies behind the end is never touched, so a
 * room takes no more memory than that. */
static const size_t usual_bytes[USUALS] = {4 << 20, 6 << 20};

struct spares {
    struct str rooms[SPARE_MAX];
    size_t count;
};

struct cache_bodies {
    struct spares spares[USUALS];
    size_t bodies;
};

struct cache_bodies *cache_bodies_create(void)
{
    return mem_alloc(sizeof(struct cache_bodies));
}

void cache_bodies_destroy(struct cache_bodies *home)
{
    if (!home) {
        return;
    }
    CHECK(home->bodies == 0);
    for (size_t i = 0; i < USUALS; i++) {
        while (home->spares[i].count > 0) {
            str_release(&home->spares[i].rooms[--home->spares[i].count]);
        }
    }
    free(home);
}

static size_t usual_cap(size_t kind)
{
    return usual_bytes[kind] + CACHE_PAGE_BYTES; /* the last page is for the NUL */
}

static struct str make_room(size_t align, size_t size, size_t cap)
{
    char *text = aligned_alloc(align, size);
    if (!text) {
        return (struct str){0};
    }
    text[0] = '\0';
    return (struct str){.text = text, .cap = cap};
}

struct str cache_bodies_room(struct cache_bodies *home, size_t size)
{
    size_t kind = size <= usual_bytes[0] ? 0 : 1;
    size_t usual = usual_bytes[kind];
    if (size < USUAL_FROM || size > usual) {
        size_t cap = (size / CACHE_PAGE_BYTES + 1) * CACHE_PAGE_BYTES;
        return make_room(CACHE_PAGE_BYTES, cap, cap);
    }
    struct spares *spares = &home->spares[kind];
    if (spares->count > 0) {
        return spares->rooms[--spares->count];
    }
    struct str room = make_room(HUGE_PAGE_BYTES, usual + HUGE_PAGE_BYTES, usual_cap(kind));
    if (room.text) {
        (void)madvise(room.text, usual, MADV_HUGEPAGE); /* it works without, only slower */
    }
    return room;
}

void cache_bodies_return(struct cache_bodies *home, struct str *room)
{
    for (size_t i = 0; i < USUALS; i++) {
        struct spares *spares = &home->spares[i];
        if (room->cap == usual_cap(i) && spares->count < SPARE_MAX) {
            str_clear(room);
            spares->rooms[spares->count++] = *room;
            *room = (struct str){0};
        }
    }
    str_release(room);
}

struct cache_body *cache_body_create(struct cache_bodies *home, struct str *bytes)
{
    struct cache_body *body = mem_alloc(sizeof *body);
    *body = (struct cache_body){.bytes = *bytes, .holders = 1, .home = home};
    *bytes = (struct str){0};
    home->bodies++;
    return body;
}

void cache_body_hold(struct cache_body *body)
{
    body->holders++;
}

void cache_body_drop(struct cache_body *body)
{
    CHECK(body->holders > 0);
    if (--body->holders == 0) {
        body->home->bodies--;
        cache_bodies_return(body->home, &body->bytes);
        free(body);
    }
}
