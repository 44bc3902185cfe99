/* cache_body.h - the bytes of one fetch, and memory for the next one.
 *
 * A body is held by whoever still needs its bytes (the memory cache, a write to the disk cache) and
 * goes when the last one lets go. Nobody changes the bytes. Memory of the usual size is kept for
 * the next fetch: fresh pages cost more time than the rest of receiving what comes into them.
 *
 * One thread owns the bodies and their home; another may read the bytes while a holder lives.
 */
#ifndef VOLUME_CACHE_BODY_H
#define VOLUME_CACHE_BODY_H

#include "base/str.h"

enum { CACHE_PAGE_BYTES = 4096 }; /* bodies begin at a multiple, as unbuffered writing wants */

struct cache_bodies;

struct cache_body {
    struct str bytes;
    unsigned holders;
    struct cache_bodies *home;
};

struct cache_bodies *cache_bodies_create(void);
void cache_bodies_destroy(
    struct cache_bodies *home); /* when the last body is gone; NULL: nothing */

/* Memory for `size` bytes and a NUL, empty; cap 0: there is none. */
struct str cache_bodies_room(struct cache_bodies *home, size_t size);
void cache_bodies_return(struct cache_bodies *home, struct str *room); /* was not needed */

/* Takes the memory (the str is empty afterwards); held by the caller. */
struct cache_body *cache_body_create(struct cache_bodies *home, struct str *bytes);
void cache_body_hold(struct cache_body *body);
void cache_body_drop(struct cache_body *body);

#endif
