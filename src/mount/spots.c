#include "mount/spots.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FIRST_CAP = 64, INODE_BITS = 48, MOVES_MAX = (1 << 15) - 1 };

struct spot {
    uint64_t inode; /* 0: empty */
    uint64_t folder, name;
    uint64_t count; /* that the kernel has of its present number */
    uint64_t moves;
};

struct spots {
    struct spot *table; /* by inode, each as near behind its place as there was room */
    size_t cap, count;
    uint64_t moves; /* of all: a number that is new is one that the kernel has not */
};

struct spots *spots_create(void)
{
    struct spots *spots = mem_alloc(sizeof *spots);
    spots->cap = FIRST_CAP;
    spots->table = mem_array(spots->cap, sizeof spots->table[0]);
    return spots;
}

void spots_destroy(struct spots *spots)
{
    if (spots) {
        free(spots->table);
        free(spots);
    }
}

static size_t home_of(const struct spots *spots, uint64_t inode)
{
    return (size_t)(inode * 0x9E3779B97F4A7C15U >> 20) & (spots->cap - 1);
}

/* Its spot, or the empty one where it would be. */
static struct spot *find(const struct spots *spots, uint64_t inode)
{
    size_t at = home_of(spots, inode);
    while (spots->table[at].inode != 0 && spots->table[at].inode != inode) {
        at = (at + 1) & (spots->cap - 1);
    }
    return &spots->table[at];
}

static void grow(struct spots *spots)
{
    struct spots old = *spots;
    spots->cap *= 2;
    spots->table = mem_array(spots->cap, sizeof spots->table[0]);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.table[i].inode != 0) {
            *find(spots, old.table[i].inode) = old.table[i];
        }
    }
    free(old.table);
}

/* Those behind it that are not at home move up. */
static void remove_spot(struct spots *spots, struct spot *spot)
{
    size_t mask = spots->cap - 1;
    size_t hole = (size_t)(spot - spots->table);
    for (size_t at = (hole + 1) & mask; spots->table[at].inode != 0; at = (at + 1) & mask) {
        size_t home = home_of(spots, spots->table[at].inode);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            spots->table[hole] = spots->table[at];
            hole = at;
        }
    }
    spots->table[hole] = (struct spot){0};
    spots->count--;
}

static uint64_t number_of(const struct spot *spot)
{
    return spot->inode | spot->moves << INODE_BITS;
}

static uint64_t hash_of(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

uint64_t spots_give(struct spots *spots, uint64_t inode, uint64_t folder, const char *name)
{
    CHECK(inode != 0);
    if (inode >> INODE_BITS != 0) {
        return inode; /* so many there are not */
    }
    struct spot *spot = find(spots, inode);
    if (spot->inode == 0) {
        if (2 * (spots->count + 1) > spots->cap) {
            grow(spots);
            spot = find(spots, inode);
        }
        *spot = (struct spot){
            .inode = inode, .folder = folder, .name = hash_of(name), .moves = spots->moves};
        spots->count++;
    } else if (!is_dots(name) && (spot->folder != folder || spot->name != hash_of(name))) {
        spot->folder = folder;
        spot->name = hash_of(name);
        spots->moves = spots->moves < MOVES_MAX ? spots->moves + 1 : 0;
        spot->moves = spots->moves;
        spot->count = 0;
    }
    spot->count++;
    return number_of(spot);
}

void spots_move(struct spots *spots, uint64_t inode, uint64_t folder, const char *name)
{
    struct spot *spot = find(spots, inode);
    if (spot->inode != 0) {
        spot->folder = folder;
        spot->name = hash_of(name);
    }
}

void spots_forget(struct spots *spots, uint64_t number, uint64_t count)
{
    struct spot *spot = find(spots, spots_inode(number));
    if (spot->inode == 0 || number_of(spot) != number) {
        return; /* of an earlier place */
    }
    spot->count -= count < spot->count ? count : spot->count;
    if (spot->count == 0) {
        remove_spot(spots, spot);
    }
}

size_t spots_count(const struct spots *spots)
{
    return spots->count;
}
