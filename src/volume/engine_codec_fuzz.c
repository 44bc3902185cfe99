/* Bytes as keys and values of the engine: whatever is read is written again as the same bytes. The
 * first byte says what the input is, then come the key's size, the key and the value. */
#include "base/check.h"
#include "volume/engine_codec.h"
#include "volume/logobj.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(struct map_slice value, const uint8_t *written, size_t size)
{
    CHECK(size == value.size);
    CHECK(memcmp(written, value.bytes, size) == 0);
}

static void see_extent(void *context, uint64_t inode, const struct extent *extent)
{
    (void)inode;
    *(bool *)context = true;
    CHECK(codec_extent_is_sound(extent));
}

static void check_node(struct map_slice value)
{
    struct engine_node node;
    uint8_t out[CODEC_NODE_MAX] = {0};
    if (codec_node_read(value, 7, &node)) {
        same(value, out, codec_node_write(out, &node));
        CHECK(node.attr.inode == 7);
        CHECK(node.attr.stored <= node.attr.size);
    }
}

static void check_extent(struct map_slice key, struct map_slice value)
{
    struct extent extent;
    uint8_t out[CODEC_EXTENT_MAX] = {0};
    if (codec_extent_read(key, value, &extent)) {
        CHECK(codec_extent_is_sound(&extent));
        same(value, out, codec_extent_write(out, &extent));
        struct codec_key again;
        uint64_t inode = 0;
        CHECK(codec_key_inode_read(key, &inode));
        codec_key_extent(&again, inode, extent.file_offset + extent.size);
        same(key, again.bytes, again.size);
    }
}

static void check_others(struct map_slice key, struct map_slice value)
{
    uint64_t inode = 0;
    uint32_t type = 0;
    uint8_t name[CODEC_NAME_MAX] = {0};
    if (codec_name_read(value, &inode, &type)) {
        same(value, name, codec_name_write(name, inode, type));
    }
    struct engine_container record;
    uint8_t container[CODEC_CONTAINER_MAX] = {0};
    if (codec_container_read(key, value, &record)) {
        same(value, container, codec_container_write(container, &record));
        struct codec_key again;
        codec_key_container(&again, &record.container);
        same(key, again.bytes, again.size);
    }
    struct engine_counters counters;
    uint8_t out[CODEC_COUNTERS_MAX] = {0};
    if (codec_counters_read(value, &counters)) {
        same(value, out, codec_counters_write(out, &counters));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || data[0] > size - 1) {
        return 0;
    }
    struct map_slice key = {data + 1, data[0]};
    struct map_slice value = {key.bytes + key.size, size - 1 - key.size};
    check_node(value);
    check_extent(key, value);
    check_others(key, value);
    struct logobj_change change = {key.bytes, key.size, value.bytes, value.size};
    bool seen = false;
    engine_change_extents(&change, see_extent, &seen);
    CHECK(!seen || key.bytes[0] == 'I' || key.bytes[0] == 'E');
    return 0;
}
