/* volume_head.h - the small JSON objects of a volume: format, head, snapshots and pins.
 *
 * Each ends with a checksum of its own text, so damage is never taken for a state. Reading checks
 * every number and text; what it gives back can be trusted to be something that was written.
 *
 * head.change grows with every write of head, so no two heads ever have the same bytes (some stores
 * make etags of the bytes alone). head lists the snapshots; what a snapshot names lies in an object
 * of its own, whose key holds the term and a number used once. So a snapshot exists from one write
 * of head on until another, and an owner that was fenced can neither make nor bring back one.
 *
 * Pure code.
 */
#ifndef VOLUME_VOLUME_HEAD_H
#define VOLUME_VOLUME_HEAD_H

#include "base/err.h"
#include "base/str.h"
#include "volume/map.h"
#include "volume/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VOLUME_VERSION = 1,
    VOLUME_WORD_MAX = 256, /* a text of an owner, with its NUL */
    VOLUME_SNAPSHOTS_MAX = 10000,
    VOLUME_HEAD_BYTES_MAX = 8 << 20, /* of any of these objects */
};

struct volume_owner {
    char who[VOLUME_WORD_MAX];
    char host[VOLUME_WORD_MAX];
    char boot[VOLUME_WORD_MAX];  /* the kernel's boot id */
    char space[VOLUME_WORD_MAX]; /* its pid namespace */
    int64_t pid;
    uint64_t start; /* of the process, in clock ticks since boot */
    int64_t since_unix_ms;
    uint8_t nonce[16];
};

struct volume_view { /* a state of the metadata: runs, and the last commit they hold */
    uint64_t seq;
    struct map_run *runs;
    size_t run_count;
};

struct volume_snap {
    struct volume_snapshot_info info;
    uint32_t term; /* of its object's key */
    uint64_t number;
};

struct volume_head {
    uint32_t term;
    uint64_t change;
    bool owned;
    struct volume_owner owner;
    struct volume_view view;
    struct volume_snap *snaps;
    size_t snap_count;
};

struct volume_pin {
    bool precise; /* false: its reader has not yet read head, so it may hold anything */
    int64_t expires_unix_ms;
    char who[VOLUME_WORD_MAX];
    struct volume_view view;
};

/* Writing appends to out. Reading: ERR_CORRUPT, ERR_UNSUPPORTED (a newer version); *out is
 * unchanged on failure and else the caller's to release. */
void volume_format_encode(const struct volume_format *format, struct str *out);
MUST_USE enum err_code volume_format_decode(const char *text, size_t size,
                                            struct volume_format *out, struct err *err);
void volume_head_encode(const struct volume_head *head, struct str *out);
MUST_USE enum err_code volume_head_decode(const char *text, size_t size, struct volume_head *out,
                                          struct err *err);
void volume_view_encode(const struct volume_view *view, struct str *out); /* a snapshot's object */
MUST_USE enum err_code volume_view_decode(const char *text, size_t size, struct volume_view *out,
                                          struct err *err);
void volume_pin_encode(const struct volume_pin *pin, struct str *out);
MUST_USE enum err_code volume_pin_decode(const char *text, size_t size, struct volume_pin *out,
                                         struct err *err);

void volume_view_copy(const struct volume_view *view, struct volume_view *out);
void volume_view_release(struct volume_view *view);
bool volume_view_names(const struct volume_view *view, const struct container *run);
void volume_head_release(struct volume_head *head);

enum { VOLUME_SNAP_KEY_MAX = 256 };
bool volume_snapshot_name_is_sound(const char *name);
void volume_snap_key(const struct volume_snap *snap, char out[VOLUME_SNAP_KEY_MAX]);
/* The inverse; sets the name, term and number of *out. */
bool volume_snap_key_parse(const char *key, struct volume_snap *out);

#endif
