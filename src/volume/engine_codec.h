/* engine_codec.h - the bytes of the engine's keys and values (engine.h lists them).
 *
 * Numbers in keys are big-endian. Values begin with a version where they may ever change; their
 * numbers are variable-length, seven bits to a byte, lowest first, never longer than need be; times
 * are nanoseconds, the access and change time as differences to the modification time. Reading is
 * strict: what is read is exactly what would be written again, so bytes that are not ours are
 * refused rather than misunderstood. Pure code; only the engine uses it.
 */
#ifndef VOLUME_ENGINE_CODEC_H
#define VOLUME_ENGINE_CODEC_H

#include "volume/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CODEC_KEY_MAX = 1 + 8 + 255 + 1, /* one more for the NUL that means "behind this name" */
    CODEC_EXTENT_MAX = 80,
    CODEC_NODE_MAX = 192 + ENGINE_TARGET_MAX,
    CODEC_NAME_MAX = 11,      /* of a 'D' value */
    CODEC_CONTAINER_MAX = 41, /* of a 'P' value */
    CODEC_COUNTERS_MAX = 31,
    CODEC_VERSION = 1, /* of 'I', 'P', 'C', 'O' and 'X' values: their first byte */
};

struct codec_key {
    size_t size;
    uint8_t bytes[CODEC_KEY_MAX];
};

/* What an 'I' value holds. */
struct engine_node {
    struct engine_attr attr;
    uint64_t extents; /* how many the file has */
    uint32_t xattrs;
    bool spread;          /* they lie under 'E'; else the only one, if any, is `extent` */
    struct extent extent; /* file_offset, size, ... */
    const char *target;   /* of a symlink: attr.size bytes, borrowed; not NUL-terminated */
};

struct engine_counters {
    uint64_t next_inode;
    uint64_t files;
    uint64_t bytes;
};

void codec_key_inode(struct codec_key *key, char kind, uint64_t inode); /* 'I', 'O', and prefixes */
void codec_key_name(struct codec_key *key, uint64_t folder, const char *name, size_t size);
void codec_key_extent(struct codec_key *key, uint64_t inode, uint64_t file_end);
void codec_key_xattr(struct codec_key *key, uint64_t inode, const char *name, size_t size);
void codec_key_container(struct codec_key *key, const struct container *container);
void codec_key_counters(struct codec_key *key);
/* Each returns false, and out is undefined, if the bytes are no such key. */
bool codec_key_inode_read(struct map_slice key, uint64_t *inode); /* of 'I', 'O', 'D', 'E', 'X' */
bool codec_key_container_read(struct map_slice key, struct container *out);

/* Is it an extent that may be stored: sizes, codec and container that exist and fit together? */
bool codec_extent_is_sound(const struct extent *extent);

/* Writers return the size; out has room for the kind's maximum. */
size_t codec_node_write(uint8_t *out, const struct engine_node *node);
bool codec_node_read(struct map_slice value, uint64_t inode, struct engine_node *out);
size_t codec_name_write(uint8_t *out, uint64_t inode, uint32_t mode);
bool codec_name_read(struct map_slice value, uint64_t *inode, uint32_t *type);
size_t codec_extent_write(uint8_t *out, const struct extent *extent);
/* key: the whole 'E' key, which says where the extent ends. */
bool codec_extent_read(struct map_slice key, struct map_slice value, struct extent *out);
size_t codec_container_write(uint8_t *out, const struct engine_container *record);
bool codec_container_read(struct map_slice key, struct map_slice value,
                          struct engine_container *out);
size_t codec_counters_write(uint8_t *out, const struct engine_counters *counters);
bool codec_counters_read(struct map_slice value, struct engine_counters *out);

#endif
