/* Listing folders. The kernel continues a listing by a number; the engine by a name. What name a
 * number stands for is remembered for the latest listings: longest for the end of each answer, but
 * also for each entry, since programs seek, and kernels before 6.16 ask for a page at a time and
 * come back to its middle when the program's buffer is full. A number that was forgotten is found
 * again by counting from the beginning, which is wrong if entries have gone meanwhile. */
#include "mount/back.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { COOKIE_DOTS = 2 }; /* "." is 1, ".." is 2, the first entry 3 */

static const struct place *ring_find(const struct place *ring, size_t size, size_t next,
                                     const struct request *request)
{
    for (size_t i = 0; i < size; i++) {
        const struct place *place = &ring[(next + size - 1 - i) % size]; /* the newest first */
        if (place->inode == request->inode && place->cookie == request->offset) {
            return place;
        }
    }
    return NULL;
}

/* The newest one: an older listing may have given the same number to another name. */
static const struct place *place_find(const struct mount *mount, const struct request *request)
{
    const struct place *place = ring_find(mount->places + PLACES, STEPS, mount->step_next, request);
    return place ? place : ring_find(mount->places, PLACES, mount->place_next, request);
}

static void place_keep(struct place *place, uint64_t inode, uint64_t cookie, const char *name)
{
    place->inode = inode;
    place->cookie = cookie;
    memcpy(place->name, name, strlen(name) + 1);
}

struct listing {
    struct mount *mount;
    struct request *request;
    bool plus;
    bool names_only; /* though more was asked for */
    bool has_probe;
    bool is_full;
    size_t used, room;
    uint64_t cookie; /* of the last entry that was given or skipped */
    uint64_t skip;   /* entries to pass over, counting from the beginning */
    char last[ENGINE_NAME_MAX + 1];
};

static bool add(struct listing *listing, const char *name, struct fuse_entry_param *entry)
{
    char *at = listing->mount->list_buffer + listing->used;
    size_t left = listing->room - listing->used;
    off_t next = (off_t)(listing->cookie + 1);
    size_t need =
        listing->plus
            ? fuse_add_direntry_plus(listing->request->req, at, left, name, entry, next)
            : fuse_add_direntry(listing->request->req, at, left, name, &entry->attr, next);
    if (need > left) {
        listing->is_full = true;
        return false;
    }
    listing->used += need;
    listing->cookie++;
    return true;
}

static bool on_entry(void *context, const struct engine_entry *item)
{
    struct listing *listing = context;
    if (listing->skip > 0) {
        listing->skip--;
        listing->cookie++;
        memcpy(listing->last, item->name, strlen(item->name) + 1);
        return true;
    }
    struct fuse_entry_param entry = {.attr = {.st_ino = item->inode, .st_mode = item->type}};
    bool is_probe = listing->plus && !listing->has_probe && !S_ISDIR(item->type);
    if (is_probe) {
        walk_probe(&listing->mount->walk, listing->request->inode, item->name);
        listing->has_probe = true;
    }
    if (listing->plus && !listing->names_only && !is_probe) {
        struct engine_attr attr = *item->attr;
        bool is_draft = file_show(listing->mount, &attr);
        entry_of(listing->mount, &attr, &entry);
        entry.attr_timeout = is_draft ? 0 : entry.attr_timeout;
        entry_give(listing->mount, listing->request->inode, item->name, &entry);
    }
    if (!add(listing, item->name, &entry)) {
        entry_forget(listing->mount, entry.ino, 1);
        return false;
    }
    struct mount *mount = listing->mount;
    place_keep(&mount->places[PLACES + mount->step_next], listing->request->inode, listing->cookie,
               item->name);
    mount->step_next = (mount->step_next + 1) % STEPS;
    memcpy(listing->last, item->name, strlen(item->name) + 1);
    return true;
}

/* "." and ".." carry no promise about the inode: plus entries with inode 0 are not entered. */
static void add_dots(struct listing *listing)
{
    static const char *const names[] = {".", ".."};
    while (listing->cookie < COOKIE_DOTS && !listing->is_full) {
        struct fuse_entry_param entry = {
            .attr = {.st_ino = listing->request->inode, .st_mode = S_IFDIR}};
        (void)add(listing, names[listing->cookie], &entry);
    }
}

static void listing_begin(struct listing *listing)
{
    struct mount *mount = listing->mount;
    uint64_t cookie = listing->request->offset;

    if (mount->list_cap < listing->room) {
        mount->list_buffer = mem_resize(mount->list_buffer, listing->room, 1);
        mount->list_cap = listing->room;
    }
    listing->cookie = cookie;
    if (cookie <= COOKIE_DOTS) {
        add_dots(listing);
        return;
    }
    const struct place *place = place_find(mount, listing->request);
    if (place != NULL) {
        memcpy(listing->last, place->name, sizeof listing->last);
    } else {
        listing->cookie = COOKIE_DOTS;
        listing->skip = cookie - COOKIE_DOTS;
    }
}

static bool try_read(struct mount *mount, struct request *request)
{
    struct listing listing = {.mount = mount,
                              .request = request,
                              .plus = request->flags != 0,
                              .room = request->size < (1U << 20) ? request->size : 1U << 20};
    struct err err;
    int posix = 0;
    enum err_code code = ERR_OK;

    bool is_first = request->offset <= COOKIE_DOTS;
    listing.has_probe = !is_first || mount->dealer; /* with a dealer the kernel keeps nothing */
    listing.names_only = !mount->dealer && walk_wants_names_only(&mount->walk);
    listing_begin(&listing);
    while (!listing.is_full) {
        char after[ENGINE_NAME_MAX + 1];
        memcpy(after, listing.last, sizeof after);
        struct back_listing ask = {.each = on_entry, .context = &listing, .room = listing.room};
        ask.ask = (struct engine_listing){.folder = request->inode,
                                          .after = after[0] ? after : NULL,
                                          .plus = listing.plus && !listing.names_only};
        uint64_t before = listing.cookie;
        code = back_list(mount, request, &ask, &posix, &err);
        if (code != ERR_AGAIN || listing.cookie == before) {
            break;
        }
    }
    if (code == ERR_INVALID && posix == ENOENT && ghost_find(mount, request->inode)) {
        fuse_reply_buf(request->req, NULL, 0);
        return true;
    }
    bool has_some = listing.used > 0;
    if (code != ERR_OK && !has_some) {
        return request_settle(mount, request, code, posix, &err);
    }
    if (code == ERR_AGAIN) {
        back_want(mount); /* it is asked for next */
    }
    if (listing.last[0]) {
        place_keep(&mount->places[mount->place_next], request->inode, listing.cookie, listing.last);
        mount->place_next = (mount->place_next + 1) % PLACES;
    }
    fuse_reply_buf(request->req, mount->list_buffer, listing.used);
    return true;
}

static void begin(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, bool plus)
{
    struct request request;
    request_of(&request, req, try_read, inode);
    request.size = size;
    request.offset = (uint64_t)offset;
    request.flags = plus;
    request_begin(fuse_req_userdata(req), &request);
}

static void on_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
    (void)fi;
    begin(req, inode, size, offset, false);
}

static void on_readdirplus(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
                           struct fuse_file_info *fi)
{
    (void)fi;
    begin(req, inode, size, offset, true);
}

/* Folders have no state of their own while they are open: the kernel need not say that it opens
 * them, and may keep what it has read of them. */
static void on_opendir(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    const struct mount *mount = fuse_req_userdata(req);
    (void)inode;
    if (mount->dealer) { /* others change folders too: nothing is kept */
        fuse_reply_open(req, fi);
        return;
    }
    fuse_reply_err(req, ENOSYS);
}

void list_fill(struct fuse_lowlevel_ops *ops)
{
    ops->opendir = on_opendir;
    ops->readdir = on_readdir;
    ops->readdirplus = on_readdirplus;
}
