/* engine.h - POSIX files over the metadata map: what each operation reads, checks and changes.
 *
 * Pure code: no I/O, no clock, no file contents. An operation reads the map, decides, and only then
 * changes it, all at once; so when it needs a block that is not there (ERR_AGAIN) nothing has
 * happened, and it is simply called again after map_supply. Each change to the map is also noted
 * in the engine's pending set, which volume.c takes, in whole operations, into the next commit.
 *
 * Keys (integers big-endian, so that they sort):
 *   'I' inode                     → attributes, and the only extent or the symlink's target inline
 *   'D' folder name               → inode and type
 *   'E' inode file_end            → extent (files of more than one extent). Keyed by where it ends,
 *                                   so that the one that holds an offset is found by going forward
 *   'X' inode name                → extended attribute
 *   'O' inode                     → unlinked while open: freed when the last handle is closed, or
 *                                   when a new owner takes the volume over
 *   'P' container                 → size, live bytes, born, dead (gc.h)
 *   'C'                           → next inode, number of files, bytes
 *   'S' id                        → what whoever serves the volume to others keeps with it
 * The root folder is inode 1. Inode numbers are never used again.
 *
 * Live bytes: an extent of a pack counts with its stored size as long as any piece of it is part of
 * a file, however much of it has been overwritten; several pieces of one count once. Stored bytes
 * belong to one place of one file (file_offset - skip and inode are the same for all their pieces),
 * so an overwrite finds the other pieces near by and live bytes are exact.
 *
 * An operation takes time and memory by what it touches. Freeing or cutting a file touches all its
 * extents at once: about a second and 200 MB for a million of them.
 *
 * Names are 1 to 255 bytes, no '/' and no NUL, not "." or "..". Errors are POSIX's: operations
 * return ERR_OK, or ERR_AGAIN / ERR_CORRUPT about the map, or ERR_INVALID with *posix set to an
 * errno value that the caller passes on (ENOENT, EEXIST, ENOTEMPTY, EISDIR, ...). So the errno that
 * the mount answers is decided here and tested here.
 *
 * Permission checks are the kernel's (default_permissions) or the caller's; set-group-id
 * inheritance, clearing of set-id bits, time stamps and link counts are decided here.
 */
#ifndef VOLUME_ENGINE_H
#define VOLUME_ENGINE_H

#include "base/err.h"
#include "volume/container.h"
#include "volume/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ENGINE_ROOT = 1,
    ENGINE_NAME_MAX = 255,
    ENGINE_TARGET_MAX = 4095,
    ENGINE_XATTR_MAX = 65536,
    ENGINE_XATTR_NAME_MAX = 255,
    ENGINE_XATTR_LIST_MAX = 65536, /* names of one inode, each with its NUL */
    ENGINE_LINK_MAX = 0x7fffffff,
};

struct engine;

struct engine_attr {
    uint64_t inode;
    uint32_t mode; /* type and permissions, as st_mode */
    uint32_t uid, gid;
    uint32_t nlink;
    uint32_t rdev;
    uint32_t generation; /* grows with each change of the content */
    uint64_t size;
    uint64_t stored; /* bytes of data (without holes), for st_blocks */
    int64_t atime_ns, mtime_ns, ctime_ns;
    uint64_t parent; /* folders: the folder above; the root's is itself. 0 for others */
};

struct engine_caller { /* who asks, and when */
    uint32_t uid, gid;
    int64_t now_ns;
};

/* The map is borrowed and must outlive the engine. A map without a root gets one by
 * engine_format. */
struct engine *engine_create(struct map *map);
void engine_destroy(struct engine *engine);
void engine_format(struct engine *engine, const struct engine_caller *caller, uint32_t root_mode);
/* Reads 'C' and the orphans after a map was loaded; then frees the orphans a dead owner left, and
 * declares containers dead that only its held files referred to. engine_set_seq comes first.
 * ERR_AGAIN: call it again after map_supply. ERR_NOT_FOUND: the map has no root. */
MUST_USE enum err_code engine_begin(struct engine *engine, struct err *err);

/* Reading. `int *posix` is set to 0 or an errno value in each of these. */
MUST_USE enum err_code engine_lookup(struct engine *engine, uint64_t folder, const char *name,
                                     struct engine_attr *out, int *posix, struct err *err);
MUST_USE enum err_code engine_getattr(struct engine *engine, uint64_t inode,
                                      struct engine_attr *out, int *posix, struct err *err);
/* Entries behind `after` (NULL: from the first; "." and ".." are the caller's), in byte order of
 * names, with attributes if `plus`, until each returns false. ERR_AGAIN as map_scan: entries so far
 * have been given. The order never changes while names come and go, so a listing that is continued
 * by name sees every entry that was there throughout exactly once. */
struct engine_entry {
    const char *name;
    uint64_t inode;
    uint32_t type;                  /* S_IFMT bits */
    const struct engine_attr *attr; /* NULL unless plus */
    bool has_xattrs;                /* likewise */
};
typedef bool (*engine_each_fn)(void *context, const struct engine_entry *entry);
struct engine_listing {
    uint64_t folder;
    const char *after;
    bool plus;
};
MUST_USE enum err_code engine_list(struct engine *engine, const struct engine_listing *listing,
                                   engine_each_fn each, void *context, int *posix, struct err *err);
MUST_USE enum err_code engine_readlink(struct engine *engine, uint64_t inode, struct str *out,
                                       int *posix, struct err *err);
MUST_USE enum err_code engine_xattr_get(struct engine *engine, uint64_t inode, const char *name,
                                        struct str *out, int *posix, struct err *err);
MUST_USE enum err_code engine_xattr_list(struct engine *engine, uint64_t inode, struct str *out,
                                         int *posix, struct err *err); /* names, each with NUL */
/* Extents that overlap [offset, offset + size), in order; holes are what lies between. `each`
 * returning false ends it. ERR_AGAIN: none has been given yet, since all are gathered first (so
 * long spans of files with very many extents are better asked for in parts). */
typedef bool (*engine_extent_fn)(void *context, const struct extent *extent);
struct engine_span {
    uint64_t inode;
    uint64_t offset, size;
};
MUST_USE enum err_code engine_extents(struct engine *engine, const struct engine_span *span,
                                      engine_extent_fn each, void *context, int *posix,
                                      struct err *err);

/* Changing names. */
struct engine_make {
    uint64_t folder;
    const char *name;
    uint32_t mode; /* type and permissions (umask applied) */
    uint32_t rdev;
    const char *target; /* of a symlink */
    uint64_t inode;     /* engine_link: what gets a second name (mode, rdev, target unused).
                         * engine_make: 0, or the number to have, EEXIST if there is such an inode:
                         * for doing again what a dead owner did and did not commit */
};
MUST_USE enum err_code engine_make(struct engine *engine, const struct engine_caller *caller,
                                   const struct engine_make *make, struct engine_attr *out,
                                   int *posix, struct err *err);
MUST_USE enum err_code engine_link(struct engine *engine, const struct engine_caller *caller,
                                   const struct engine_make *link, struct engine_attr *out,
                                   int *posix, struct err *err);
/* is_folder: rmdir, else unlink. An inode that loses its last name while is_open says so becomes an
 * orphan rather than being freed. */
struct engine_remove {
    uint64_t folder;
    const char *name;
    bool is_folder;
    bool (*is_open)(void *context, uint64_t inode); /* NULL: nothing is open */
    void *context;
};
MUST_USE enum err_code engine_remove(struct engine *engine, const struct engine_caller *caller,
                                     const struct engine_remove *remove, int *posix,
                                     struct err *err);
struct engine_rename {
    uint64_t from, to; /* folders */
    const char *old_name, *new_name;
    uint32_t flags; /* RENAME_NOREPLACE, RENAME_EXCHANGE */
    bool (*is_open)(void *context, uint64_t inode);
    void *context;
};
MUST_USE enum err_code engine_rename(struct engine *engine, const struct engine_caller *caller,
                                     const struct engine_rename *rename, int *posix,
                                     struct err *err);
/* The last handle of an orphan was closed: frees it; of others: nothing. */
MUST_USE enum err_code engine_forget(struct engine *engine, uint64_t inode, struct err *err);

/* Changing attributes and contents. */
enum {
    ENGINE_SET_MODE = 1,
    ENGINE_SET_UID = 2,
    ENGINE_SET_GID = 4,
    ENGINE_SET_SIZE = 8, /* truncate: extents behind it are cut, growth is a hole */
    ENGINE_SET_ATIME = 16,
    ENGINE_SET_MTIME = 32,
    ENGINE_SET_CTIME = 64,
    ENGINE_KILL_PRIV = 128, /* clear set-id bits as a write by another user does */
};
/* A mode after a write by someone without privileges: without what gives a program rights. */
uint32_t engine_mode_without_privilege(uint32_t mode);
struct engine_set {
    struct engine_attr attr; /* its inode, and the members that `set` names */
    uint32_t set;
};
MUST_USE enum err_code engine_setattr(struct engine *engine, const struct engine_caller *caller,
                                      const struct engine_set *set, struct engine_attr *out,
                                      int *posix, struct err *err);
/* New content: the extents replace whatever of the file they overlap; then the size is `size`
 * (which may cut or grow). The extents are in order and do not overlap one another. One call is
 * one atomic change of the file: what close or fsync makes visible. Punching a hole is an extent
 * whose container.kind is 0 (and whose size may be any). EFBIG: past 2^63 - 1. */
struct engine_write {
    uint64_t inode;
    uint64_t size;
    const struct extent *extents;
    size_t count;
    int64_t mtime_ns;
    bool kill_priv;
};
MUST_USE enum err_code engine_write(struct engine *engine, const struct engine_caller *caller,
                                    const struct engine_write *write, struct engine_attr *out,
                                    int *posix, struct err *err);
/* Moves an extent to a new place: all pieces of the file that still lie in the stored bytes which
 * `old` names (its container and offset; found by file_offset, skip and whole, as pack footers and
 * engine_change_extents give them). *moved: there were such, and all of them lie within `fresh`;
 * else nothing has changed. */
MUST_USE enum err_code engine_move(struct engine *engine, uint64_t inode, const struct extent *old,
                                   const struct extent *fresh, bool *moved, struct err *err);
enum { ENGINE_XATTR_CREATE = 1, ENGINE_XATTR_REPLACE = 2 };
struct engine_xattr {
    uint64_t inode;
    const char *name;
    const void *value; /* NULL: remove */
    size_t size;
    int flags;
};
MUST_USE enum err_code engine_xattr_set(struct engine *engine, const struct engine_caller *caller,
                                        const struct engine_xattr *xattr, int *posix,
                                        struct err *err);

struct engine_usage {
    uint64_t files; /* inodes */
    uint64_t bytes; /* sum of the sizes of files */
};
void engine_usage(const struct engine *engine, struct engine_usage *out);

/* Containers: their lives are kept here because they change with the extents. */
struct engine_container {
    struct container container;
    uint64_t size; /* of its data */
    uint64_t live; /* bytes of it that extents refer to */
    uint64_t born; /* the seq of the commit that brought it */
    uint64_t dead; /* of the one that took its last live byte away; 0: alive */
};
/* Called when a pack (or a log object with inline data) joins the volume with commit `born`, before
 * the engine_take of that commit; extents may refer to it before. Its live and dead are not taken
 * from the argument: the engine has counted them. */
void engine_container_add(struct engine *engine, const struct engine_container *container);
/* `each` may use the engine. ERR_AGAIN: none was given. */
MUST_USE enum err_code engine_containers(struct engine *engine,
                                         bool (*each)(void *context,
                                                      const struct engine_container *container),
                                         void *context, struct err *err);
/* Is there a record of it? ERR_AGAIN. */
MUST_USE enum err_code engine_container_is_known(struct engine *engine,
                                                 const struct container *container, bool *known,
                                                 struct err *err);
void engine_container_remove(struct engine *engine, const struct container *container);
/* The seq that the pending changes will be committed as: what `dead` is set to. */
void engine_set_seq(struct engine *engine, uint64_t seq);

/* Small records that whoever serves the volume to others keeps with it: part of the next commit as
 * everything else is. Size 0 removes one. */
enum { ENGINE_SERVICE_ID_BYTES = 16, ENGINE_SERVICE_BYTES_MAX = 40 << 10 };
struct engine_service {
    uint8_t id[ENGINE_SERVICE_ID_BYTES];
    uint8_t *value;
    size_t size;
};
void engine_service_put(struct engine *engine, const uint8_t id[ENGINE_SERVICE_ID_BYTES],
                        const void *value, size_t size);
/* All of them. ERR_AGAIN, ERR_CORRUPT. */
MUST_USE enum err_code engine_services(struct engine *engine, struct engine_service **out,
                                       size_t *count, struct err *err);
void engine_services_free(struct engine_service *items, size_t count);
/* Numbers that a dead owner may have given out and not committed are left for those who know. */
void engine_skip_inodes(struct engine *engine, uint64_t count);

/* The pending changes, for a commit: the latest value of each key changed since the last take, in
 * the order of keys, never half an operation. Keys of an inode that engine_hold names (a new file
 * that is still being written, and its name) are left for a later commit, unless something else
 * has come to depend on them. The engine keeps nothing of what was taken. */
struct logobj_change;
size_t engine_pending(const struct engine *engine); /* how many keys; 0: a take would give none */
size_t engine_pending_bytes(const struct engine *engine); /* of keys and values changed since the
                                                           * last take, about */
/* Only for a file just made: not yet in a commit, with one name and no content; else it does
 * nothing (is_again: it was made under a number given before, so that alone does not tell). A
 * rename, another link or the removal of the name releases it. The live bytes of containers and 'C'
 * are committed without what held files add to them. */
void engine_hold(struct engine *engine, uint64_t folder, uint64_t inode, bool is_again);
bool engine_is_held(const struct engine *engine, uint64_t inode);
uint64_t engine_releases(const struct engine *engine); /* how often one was held no longer */
void engine_release(struct engine *engine, uint64_t inode);
/* Those whose name is in this folder (its fsync); 0: all. */
void engine_release_folder(struct engine *engine, uint64_t folder);
/* map_freeze for a checkpoint, right after engine_take: what is held stays out of the frozen table
 * and goes on in the new one. Never call map_freeze itself on an engine's map. ERR_EXISTS. */
MUST_USE enum err_code engine_freeze(struct engine *engine, struct err *err);
/* The inode and extents that a change of a commit puts (log objects have no footer: this is how
 * their inline data is found again). Changes of other kinds, and foreign bytes, give none. */
void engine_change_extents(const struct logobj_change *change,
                           void (*each)(void *context, uint64_t inode, const struct extent *extent),
                           void *context);
/* Calls each for every pending change (borrowed slices), then they are no longer pending. */
void engine_take(struct engine *engine,
                 void (*each)(void *context, const struct logobj_change *change), void *context);

#endif
