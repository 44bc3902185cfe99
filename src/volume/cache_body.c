#include "volume/cache_body.h"

#include "base/mem.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE_BYTES = 2 << 20,
    USUAL_BYTES = 6 << 20,                      /* of a fetch of several */
    USUAL_CAP = USUAL_BYTES + CACHE_PAGE_BYTES, /* the last page is for the NUL */
    USUAL_FROM = 1 << 20,                       /* less is not worth so much memory */
    SPARE_MAX = 4,
};

struct cache_bodies {
    struct str spare[SPARE_MAX];
    size_t spare_count;
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
    for (size_t i = 0; i < home->spare_count; i++) {
        str_release(&home->spare[i]);
    }
    free(home);
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
    if (size < USUAL_FROM || size > USUAL_BYTES) {
        size_t cap = (size / CACHE_PAGE_BYTES + 1) * CACHE_PAGE_BYTES;
        return make_room(CACHE_PAGE_BYTES, cap, cap);
    }
    if (home->spare_count > 0) {
        return home->spare[--home->spare_count];
    }
    struct str room = make_room(HUGE_PAGE_BYTES, USUAL_BYTES + HUGE_PAGE_BYTES, USUAL_CAP);
    if (room.text) {
        (void)madvise(room.text, USUAL_BYTES, MADV_HUGEPAGE); /* it works without, only slower */
    }
    return room;
}

void cache_bodies_return(struct cache_bodies *home, struct str *room)
{
    if (room->cap == USUAL_CAP && home->spare_count < SPARE_MAX) {
        str_clear(room);
        home->spare[home->spare_count++] = *room;
        *room = (struct str){0};
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
