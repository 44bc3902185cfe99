#include "volume/engine_codec.h"

#include <string.h>
#include <sys/stat.h>

/* Keys. ---------------------------------------------------------------------------------------- */

static void put_be(uint8_t *out, uint64_t number, size_t size)
{
    for (size_t i = size; i > 0; i--) {
        out[i - 1] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t get_be(const uint8_t *in, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number = number << 8 | in[i];
    }
    return number;
}

void codec_key_inode(struct codec_key *key, char kind, uint64_t inode)
{
    key->bytes[0] = (uint8_t)kind;
    put_be(key->bytes + 1, inode, 8);
    key->size = 9;
}

static void key_with_text(struct codec_key *key, uint64_t inode, const char *text, size_t size)
{
    CHECK(size <= 255);
    put_be(key->bytes + 1, inode, 8);
    memcpy(key->bytes + 9, text, size);
    key->size = 9 + size;
}

void codec_key_name(struct codec_key *key, uint64_t folder, const char *name, size_t size)
{
    key->bytes[0] = 'D';
    key_with_text(key, folder, name, size);
}

void codec_key_xattr(struct codec_key *key, uint64_t inode, const char *name, size_t size)
{
    key->bytes[0] = 'X';
    key_with_text(key, inode, name, size);
}

void codec_key_extent(struct codec_key *key, uint64_t inode, uint64_t file_end)
{
    key->bytes[0] = 'E';
    put_be(key->bytes + 1, inode, 8);
    put_be(key->bytes + 9, file_end, 8);
    key->size = 17;
}

void codec_key_container(struct codec_key *key, const struct container *container)
{
    key->bytes[0] = 'P';
    key->bytes[1] = container->kind;
    put_be(key->bytes + 2, container->writer, 4);
    put_be(key->bytes + 6, container->term, 4);
    put_be(key->bytes + 10, container->number, 8);
    key->size = 18;
}

void codec_key_counters(struct codec_key *key)
{
    key->bytes[0] = 'C';
    key->size = 1;
}

bool codec_key_inode_read(struct map_slice key, uint64_t *inode)
{
    if (key.size < 9 || key.bytes[0] == 'P' || key.bytes[0] == 'C') {
        return false;
    }
    *inode = get_be(key.bytes + 1, 8);
    return true;
}

static bool container_is_sound(const struct container *container)
{
    return container->kind == CONTAINER_PACK ||
           (container->kind == CONTAINER_LOG && container->writer == 0 && container->term == 0);
}

bool codec_key_container_read(struct map_slice key, struct container *out)
{
    if (key.size != 18 || key.bytes[0] != 'P') {
        return false;
    }
    *out = (struct container){.kind = key.bytes[1],
                              .writer = (uint32_t)get_be(key.bytes + 2, 4),
                              .term = (uint32_t)get_be(key.bytes + 6, 4),
                              .number = get_be(key.bytes + 10, 8)};
    return container_is_sound(out);
}

/* Numbers in values. --------------------------------------------------------------------------- */

static size_t put_number(uint8_t *out, uint64_t number)
{
    size_t size = 0;
    while (number >= 0x80) {
        out[size++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    out[size++] = (uint8_t)number;
    return size;
}

/* Signed numbers near zero become small ones. */
static size_t put_signed(uint8_t *out, uint64_t bits)
{
    return put_number(out, bits << 1 ^ (uint64_t) - (int64_t)(bits >> 63));
}

struct input {
    const uint8_t *at;
    const uint8_t *end;
    bool bad; /* once something was wrong, all that follows reads as 0 */
};

static uint8_t get_byte(struct input *in)
{
    if (in->at == in->end) {
        in->bad = true;
        return 0;
    }
    return *in->at++;
}

static uint64_t get_number(struct input *in)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get_byte(in);
        if (shift == 63 && byte > 1) {
            break;
        }
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            in->bad |= byte == 0 && shift > 0; /* longer than need be */
            return in->bad ? 0 : number;
        }
    }
    in->bad = true;
    return 0;
}

static uint32_t get_number32(struct input *in)
{
    uint64_t number = get_number(in);
    in->bad |= number > UINT32_MAX;
    return (uint32_t)number;
}

static uint64_t get_signed(struct input *in)
{
    uint64_t number = get_number(in);
    return number >> 1 ^ (0 - (number & 1));
}

static struct input input_of(struct map_slice value)
{
    return (struct input){value.bytes, value.bytes + value.size, false};
}

/* Extents. ------------------------------------------------------------------------------------- */

enum { EXTENT_KIND = 3, EXTENT_PACKED = 4, EXTENT_CUT = 8, EXTENT_FOREIGN = 16, EXTENT_BITS = 31 };

bool codec_extent_is_sound(const struct extent *extent)
{
    return container_is_sound(&extent->container) && extent->size >= 1 &&
           extent->whole <= EXTENT_BYTES_MAX && extent->skip <= extent->whole &&
           extent->size <= extent->whole - extent->skip && extent->stored_size >= 1 &&
           extent->stored_size <= extent->whole && extent->file_offset <= INT64_MAX &&
           extent->size <= INT64_MAX - extent->file_offset && extent->offset <= INT64_MAX &&
           extent->skip <= extent->file_offset && extent->codec <= EXTENT_ZSTD &&
           (extent->codec == EXTENT_ZSTD || extent->stored_size == extent->whole);
}

size_t codec_extent_write(uint8_t *out, const struct extent *extent)
{
    const struct container *container = &extent->container;
    bool cut = extent->skip > 0 || extent->size != extent->whole;
    size_t size = 0;
    out[size++] = (uint8_t)(container->kind | (extent->codec == EXTENT_ZSTD ? EXTENT_PACKED : 0) |
                            (cut ? EXTENT_CUT : 0) | (container->writer ? EXTENT_FOREIGN : 0));
    size += put_number(out + size, extent->size);
    if (container->writer) {
        size += put_number(out + size, container->writer);
    }
    if (container->kind == CONTAINER_PACK) {
        size += put_number(out + size, container->term);
    }
    size += put_number(out + size, container->number);
    size += put_number(out + size, extent->offset);
    if (extent->codec == EXTENT_ZSTD) {
        size += put_number(out + size, extent->stored_size);
    }
    put_be(out + size, extent->checksum, 8);
    size += 8;
    if (cut) {
        size += put_number(out + size, extent->skip);
        size += put_number(out + size, extent->whole);
    }
    return size;
}

/* All but file_offset. */
static void get_extent(struct input *in, struct extent *out)
{
    uint8_t tag = get_byte(in);
    *out = (struct extent){.size = get_number32(in)};
    in->bad |= (tag & ~EXTENT_BITS) != 0;
    out->container.kind = tag & EXTENT_KIND;
    if (tag & EXTENT_FOREIGN) {
        out->container.writer = get_number32(in);
        in->bad |= out->container.writer == 0;
    }
    if (out->container.kind == CONTAINER_PACK) {
        out->container.term = get_number32(in);
    }
    out->container.number = get_number(in);
    out->offset = get_number(in);
    out->codec = tag & EXTENT_PACKED ? EXTENT_ZSTD : EXTENT_PLAIN;
    if (tag & EXTENT_PACKED) {
        out->stored_size = get_number32(in);
    }
    if (in->end - in->at < 8) {
        in->bad = true;
        return;
    }
    out->checksum = get_be(in->at, 8);
    in->at += 8;
    out->whole = out->size;
    if (tag & EXTENT_CUT) {
        out->skip = get_number32(in);
        out->whole = get_number32(in);
        in->bad |= out->skip == 0 && out->whole == out->size;
    }
    if (out->codec == EXTENT_PLAIN) {
        out->stored_size = out->whole;
    }
}

bool codec_extent_read(struct map_slice key, struct map_slice value, struct extent *out)
{
    if (key.size != 17 || key.bytes[0] != 'E') {
        return false;
    }
    struct input in = input_of(value);
    get_extent(&in, out);
    uint64_t end = get_be(key.bytes + 9, 8);
    if (in.bad || in.at != in.end || end < out->size) {
        return false;
    }
    out->file_offset = end - out->size;
    return codec_extent_is_sound(out);
}

/* Inodes. -------------------------------------------------------------------------------------- */

enum { NODE_INLINE = 1, NODE_SPREAD = 2, NODE_DEVICE = 4, NODE_XATTRS = 8, NODE_BITS = 15 };

size_t codec_node_write(uint8_t *out, const struct engine_node *node)
{
    const struct engine_attr *attr = &node->attr;
    bool inlined = !node->spread && node->extents > 0;
    size_t size = 0;
    out[size++] = CODEC_VERSION;
    out[size++] = (uint8_t)((inlined ? NODE_INLINE : 0) | (node->spread ? NODE_SPREAD : 0) |
                            (attr->rdev ? NODE_DEVICE : 0) | (node->xattrs ? NODE_XATTRS : 0));
    size += put_number(out + size, attr->mode);
    size += put_number(out + size, attr->uid);
    size += put_number(out + size, attr->gid);
    size += put_number(out + size, attr->nlink);
    size += put_number(out + size, attr->generation);
    size += put_number(out + size, attr->size);
    size += put_signed(out + size, (uint64_t)attr->mtime_ns);
    size += put_signed(out + size, (uint64_t)attr->atime_ns - (uint64_t)attr->mtime_ns);
    size += put_signed(out + size, (uint64_t)attr->ctime_ns - (uint64_t)attr->mtime_ns);
    if (attr->rdev) {
        size += put_number(out + size, attr->rdev);
    }
    if (node->xattrs) {
        size += put_number(out + size, node->xattrs);
    }
    if (S_ISDIR(attr->mode)) {
        size += put_number(out + size, attr->parent);
    }
    if (node->spread) {
        size += put_number(out + size, node->extents);
        size += put_number(out + size, attr->stored);
    }
    if (inlined) {
        size += put_number(out + size, node->extent.file_offset);
        size += codec_extent_write(out + size, &node->extent);
    }
    if (S_ISLNK(attr->mode)) {
        memcpy(out + size, node->target, attr->size);
        size += attr->size;
    }
    return size;
}

static bool mode_is_sound(uint32_t mode)
{
    return (mode & ~(uint32_t)(S_IFMT | 07777)) == 0 &&
           (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) ||
            S_ISFIFO(mode) || S_ISSOCK(mode));
}

static void get_attr(struct input *in, unsigned flags, struct engine_node *out)
{
    struct engine_attr *attr = &out->attr;
    attr->mode = get_number32(in);
    attr->uid = get_number32(in);
    attr->gid = get_number32(in);
    attr->nlink = get_number32(in);
    attr->generation = get_number32(in);
    attr->size = get_number(in);
    uint64_t mtime = get_signed(in);
    attr->mtime_ns = (int64_t)mtime;
    attr->atime_ns = (int64_t)(mtime + get_signed(in));
    attr->ctime_ns = (int64_t)(mtime + get_signed(in));
    if (flags & NODE_DEVICE) {
        attr->rdev = get_number32(in);
        in->bad |= attr->rdev == 0;
    }
    if (flags & NODE_XATTRS) {
        out->xattrs = get_number32(in);
        in->bad |= out->xattrs == 0;
    }
    if (S_ISDIR(attr->mode)) {
        attr->parent = get_number(in);
        in->bad |= attr->parent == 0;
    }
    in->bad |= !mode_is_sound(attr->mode) || attr->nlink > ENGINE_LINK_MAX ||
               attr->size > INT64_MAX ||
               (!S_ISREG(attr->mode) && !S_ISLNK(attr->mode) && attr->size);
}

static void get_content(struct input *in, unsigned flags, struct engine_node *out)
{
    struct engine_attr *attr = &out->attr;
    if (flags & NODE_SPREAD) {
        out->spread = true;
        out->extents = get_number(in);
        attr->stored = get_number(in);
        in->bad |= out->extents == 0 || attr->stored > attr->size || attr->stored < out->extents;
    }
    if (flags & NODE_INLINE) {
        uint64_t file_offset = get_number(in);
        get_extent(in, &out->extent);
        out->extent.file_offset = file_offset;
        out->extents = 1;
        attr->stored = out->extent.size;
        in->bad |= out->spread || !codec_extent_is_sound(&out->extent) ||
                   file_offset + out->extent.size > attr->size;
    }
    in->bad |= out->extents > 0 && !S_ISREG(attr->mode);
}

static void get_target(struct input *in, struct engine_node *out)
{
    size_t size = (size_t)(in->end - in->at);
    if (size != out->attr.size || size == 0 || size > ENGINE_TARGET_MAX ||
        memchr(in->at, '\0', size) != NULL) {
        in->bad = true;
        return;
    }
    out->target = (const char *)in->at;
    in->at = in->end;
}

bool codec_node_read(struct map_slice value, uint64_t inode, struct engine_node *out)
{
    struct input in = input_of(value);
    *out = (struct engine_node){.attr.inode = inode};
    if (get_byte(&in) != CODEC_VERSION) {
        return false;
    }
    unsigned flags = get_byte(&in);
    if (flags & ~(unsigned)NODE_BITS) {
        return false;
    }
    get_attr(&in, flags, out);
    if (in.bad) {
        return false;
    }
    get_content(&in, flags, out);
    if (!in.bad && S_ISLNK(out->attr.mode)) {
        get_target(&in, out);
    }
    return !in.bad && in.at == in.end;
}

/* The rest. ------------------------------------------------------------------------------------ */

size_t codec_name_write(uint8_t *out, uint64_t inode, uint32_t mode)
{
    out[0] = (uint8_t)((mode & S_IFMT) >> 12);
    return 1 + put_number(out + 1, inode);
}

bool codec_name_read(struct map_slice value, uint64_t *inode, uint32_t *type)
{
    struct input in = input_of(value);
    *type = (uint32_t)get_byte(&in) << 12;
    *inode = get_number(&in);
    return !in.bad && in.at == in.end && *inode > 0 && mode_is_sound(*type);
}

size_t codec_container_write(uint8_t *out, const struct engine_container *record)
{
    size_t size = 0;
    out[size++] = CODEC_VERSION;
    size += put_number(out + size, record->size);
    size += put_number(out + size, record->live);
    size += put_number(out + size, record->born);
    size += put_number(out + size, record->dead);
    return size;
}

bool codec_container_read(struct map_slice key, struct map_slice value,
                          struct engine_container *out)
{
    struct input in = input_of(value);
    *out = (struct engine_container){0};
    if (!codec_key_container_read(key, &out->container) || get_byte(&in) != CODEC_VERSION) {
        return false;
    }
    out->size = get_number(&in);
    out->live = get_number(&in);
    out->born = get_number(&in);
    out->dead = get_number(&in);
    return !in.bad && in.at == in.end && (out->live == 0 || out->dead == 0);
}

size_t codec_counters_write(uint8_t *out, const struct engine_counters *counters)
{
    size_t size = 0;
    out[size++] = CODEC_VERSION;
    size += put_number(out + size, counters->next_inode);
    size += put_number(out + size, counters->files);
    size += put_number(out + size, counters->bytes);
    return size;
}

bool codec_counters_read(struct map_slice value, struct engine_counters *out)
{
    struct input in = input_of(value);
    if (get_byte(&in) != CODEC_VERSION) {
        return false;
    }
    out->next_inode = get_number(&in);
    out->files = get_number(&in);
    out->bytes = get_number(&in);
    return !in.bad && in.at == in.end && out->next_inode > ENGINE_ROOT;
}
