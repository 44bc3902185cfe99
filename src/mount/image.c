#include "mount/image.h"

#include "base/mem.h"
#include "base/str.h"
#include "volume/cache_writer.h"
#include "volume/le.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK_BITS = 12,
    SLOT = 32,       /* nodes are numbered by where they lie, in units of this */
    NODE_BYTES = 64, /* without what follows it */
    ENTRY_BYTES = 12,
    SUPER_AT = 1024,
    SUPER_BYTES = 128,
    DEVICE_AT = 2048,
    DEVICE_BYTES = 128,
    BUFFER_BYTES = 1 << 18,
    XATTR_HEAD = 12,
    XATTR_VALUE_MAX = UINT16_MAX,
    LAYOUT_PLAIN = 0,
    LAYOUT_INLINE = 2,
    LAYOUT_CHUNKS = 4,
    CHUNK_BITS = 31, /* of the number of blocks in one */
    CHUNK_FORMAT = CHUNK_BITS | 32,
    CHUNK_BYTES = 8, /* what says where it is */
    FEATURE_MTIME = 2,
    FEATURE_CHUNKS = 4,
    FEATURE_DEVICES = 8,
};

/* A file's place on the second device. */
struct row {
    uint64_t inode;
    uint32_t block, blocks;
};

/* Bytes that are appended to a part of the image. */
struct part {
    struct str buffer;
    uint64_t at; /* of the buffer's first byte, in the image */
};

struct entry {
    uint64_t number;
    uint8_t type;
    uint8_t name_size;
};

struct image {
    int fd;
    struct part nodes, names, rows;
    uint64_t node_count, row_count, data_blocks;
    const struct row *map; /* all rows, once it is finished */

    struct image_folder folder; /* the one that is open */
    uint64_t folder_at;         /* where its entries begin */
    int dots;                   /* how many of "." and ".." it has */
    struct entry entries[IMAGE_BLOCK / ENTRY_BYTES];
    size_t entry_count;
    struct str entry_names;
};

struct image *image_create(int fd)
{
    struct image *image = mem_alloc(sizeof *image);
    image->fd = fd;
    image->nodes.at = IMAGE_BLOCK;
    image->names.at = (uint64_t)IMAGE_NAMES * IMAGE_BLOCK;
    image->rows.at = (uint64_t)IMAGE_ROWS * IMAGE_BLOCK;
    return image;
}

void image_destroy(struct image *image)
{
    if (!image) {
        return;
    }
    if (image->map) {
        munmap((void *)image->map, image->row_count * sizeof *image->map);
    }
    str_release(&image->nodes.buffer);
    str_release(&image->names.buffer);
    str_release(&image->rows.buffer);
    str_release(&image->entry_names);
    free(image);
}

/* --- writing ---------------------------------------------------------------------------------- */

static enum err_code write_at(int fd, uint64_t at, const void *bytes, size_t size, struct err *err)
{
    int why = cache_write_at(fd, at, bytes, size);
    return why ? err_errno(err, why, "the image of the volume") : ERR_OK;
}

static uint64_t part_end(const struct part *part)
{
    return part->at + part->buffer.size;
}

static enum err_code part_flush(struct image *image, struct part *part, struct err *err)
{
    enum err_code code =
        write_at(image->fd, part->at, str_text(&part->buffer), part->buffer.size, err);
    part->at += part->buffer.size;
    str_clear(&part->buffer);
    return code;
}

static enum err_code part_add(struct image *image, struct part *part, const void *bytes,
                              size_t size, struct err *err)
{
    str_add_bytes(&part->buffer, bytes, size);
    return part->buffer.size < BUFFER_BYTES ? ERR_OK : part_flush(image, part, err);
}

static void part_pad(struct part *part, uint64_t unit)
{
    uint64_t over = part_end(part) % unit;
    if (over > 0) {
        static const char zeros[IMAGE_BLOCK];
        str_add_bytes(&part->buffer, zeros, unit - over);
    }
}

static void put_u16(uint8_t *out, uint32_t number)
{
    out[0] = (uint8_t)number;
    out[1] = (uint8_t)(number >> 8);
}

static enum err_code too_much(const char *what, struct err *err)
{
    return err_set(err, ERR_RANGE, "%s", what);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* The number of the prefix of an attribute's name, and how long that is; 0: none that is known. */
static uint8_t xattr_prefix(const char *name, size_t *size)
{
    static const struct {
        const char *prefix;
        uint8_t number;
    } prefixes[] = {{"user.", 1}, {"trusted.", 4}, {"security.", 6}};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        *size = strlen(prefixes[i].prefix);
        if (strncmp(name, prefixes[i].prefix, *size) == 0) {
            return prefixes[i].number;
        }
    }
    return 0;
}

static enum err_code add_xattr(struct str *out, const struct image_xattr *xattr, struct err *err)
{
    static const char zeros[4];
    size_t prefix_size = 0;
    uint8_t prefix = xattr_prefix(xattr->name, &prefix_size);
    if (prefix == 0) {
        return ERR_OK; /* the kernel would not ask for it */
    }
    if (xattr->size > XATTR_VALUE_MAX) {
        return too_much("an extended attribute is too large", err);
    }
    size_t name_size = strlen(xattr->name) - prefix_size;
    uint8_t head[4] = {(uint8_t)name_size, prefix};
    put_u16(head + 2, (uint32_t)xattr->size);
    str_add_bytes(out, head, sizeof head);
    str_add_bytes(out, xattr->name + prefix_size, name_size);
    str_add_bytes(out, xattr->value, xattr->size);
    str_add_bytes(out, zeros, -out->size & 3);
    return ERR_OK;
}

/* What follows a node: its extended attributes; *units as the node counts them. */
static enum err_code add_xattrs(struct str *out, const struct image_node *node, uint32_t *units,
                                struct err *err)
{
    static const char head[XATTR_HEAD];
    enum err_code code = ERR_OK;
    str_add_bytes(out, head, sizeof head);
    for (size_t i = 0; i < node->xattr_count && code == ERR_OK; i++) {
        code = add_xattr(out, &node->xattrs[i], err);
    }
    *units = (uint32_t)((out->size - XATTR_HEAD) / 4 + 1);
    if (code == ERR_OK && *units > UINT16_MAX) {
        code = too_much("a file has too many extended attributes", err);
    }
    return code;
}

struct content { /* where a node's lies, and how large it is */
    uint32_t layout;
    uint32_t block; /* or a device's number, or how its chunks are described */
    uint64_t size;
    uint32_t first; /* of its blocks on the second device */
};

static void put_node(uint8_t out[NODE_BYTES], const struct engine_attr *attr, uint32_t xattr_units,
                     const struct content *content)
{
    int64_t second = attr->mtime_ns / 1000000000;
    int64_t rest = attr->mtime_ns % 1000000000;
    memset(out, 0, NODE_BYTES);
    put_u16(out, 1 | content->layout << 1);
    put_u16(out + 2, xattr_units);
    put_u16(out + 4, attr->mode);
    le_put_u64(out + 8, content->size);
    le_put_u32(out + 16, content->block);
    le_put_u32(out + 20, (uint32_t)attr->inode);
    le_put_u32(out + 24, attr->uid);
    le_put_u32(out + 28, attr->gid);
    le_put_u64(out + 32, (uint64_t)(rest < 0 ? second - 1 : second));
    le_put_u32(out + 40, (uint32_t)(rest < 0 ? rest + 1000000000 : rest));
    le_put_u32(out + 44, attr->nlink);
}

static uint64_t blocks_of(uint64_t size)
{
    return size / IMAGE_BLOCK + (size % IMAGE_BLOCK > 0);
}

/* Room on the second device. */
static enum err_code place_file(struct image *image, const struct engine_attr *attr,
                                struct content *content, struct err *err)
{
    uint64_t blocks = blocks_of(attr->size);
    if (blocks >= UINT32_MAX - image->data_blocks) {
        return too_much("files are larger than 16 TiB in all", err);
    }
    if (blocks == 0) {
        return ERR_OK;
    }
    struct row row = {attr->inode, (uint32_t)image->data_blocks, (uint32_t)blocks};
    *content = (struct content){LAYOUT_CHUNKS, CHUNK_FORMAT, attr->size, row.block};
    image->data_blocks += blocks;
    image->row_count++;
    return part_add(image, &image->rows, &row, sizeof row, err);
}

static void add_chunks(struct part *nodes, const struct content *content)
{
    uint64_t blocks = blocks_of(content->size);
    part_pad(nodes, CHUNK_BYTES);
    for (uint64_t at = 0; at < blocks; at += (uint64_t)1 << CHUNK_BITS) {
        uint8_t chunk[CHUNK_BYTES] = {[2] = 1}; /* the second device */
        le_put_u32(chunk + 4, content->first + (uint32_t)at);
        str_add_bytes(&nodes->buffer, chunk, sizeof chunk);
    }
}

/* A link's target follows its node, if they fit into one block; else it gets one before it. */
static void place_link(struct image *image, const struct image_node *node, size_t before_size,
                       struct content *content)
{
    uint64_t size = NODE_BYTES + before_size + node->attr->size;
    if (size > IMAGE_BLOCK) {
        part_pad(&image->nodes, IMAGE_BLOCK);
        content->block = (uint32_t)(part_end(&image->nodes) / IMAGE_BLOCK);
        str_add_bytes(&image->nodes.buffer, node->target, node->attr->size);
        part_pad(&image->nodes, IMAGE_BLOCK);
        return;
    }
    content->layout = LAYOUT_INLINE;
    if (part_end(&image->nodes) % IMAGE_BLOCK + size > IMAGE_BLOCK) {
        part_pad(&image->nodes, IMAGE_BLOCK);
    }
}

static enum err_code place(struct image *image, const struct image_node *node, size_t before_size,
                           struct content *content, struct err *err)
{
    const struct engine_attr *attr = node->attr;
    *content = (struct content){LAYOUT_PLAIN, 0, attr->size, 0};
    if (S_ISREG(attr->mode)) {
        return place_file(image, attr, content, err);
    }
    if (S_ISLNK(attr->mode)) {
        place_link(image, node, before_size, content);
        return ERR_OK;
    }
    content->block = attr->rdev;
    return ERR_OK; /* of a folder it is found when its entries are known */
}

enum err_code image_add(struct image *image, const struct image_node *node, uint64_t *number,
                        struct err *err)
{
    AUTO_STR struct str xattrs = {0};
    uint32_t xattr_units = 0;
    uint8_t bytes[NODE_BYTES];
    struct content content;
    enum err_code code =
        node->xattr_count > 0 ? add_xattrs(&xattrs, node, &xattr_units, err) : ERR_OK;
    if (code == ERR_OK) {
        code = place(image, node, xattrs.size, &content, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (part_end(&image->nodes) % IMAGE_BLOCK + NODE_BYTES > IMAGE_BLOCK) {
        part_pad(&image->nodes, IMAGE_BLOCK);
    }
    if (part_end(&image->nodes) > ((uint64_t)IMAGE_NAMES - 256) * IMAGE_BLOCK) {
        return too_much("too many files", err);
    }
    *number = part_end(&image->nodes) / SLOT;
    put_node(bytes, node->attr, xattr_units, &content);
    str_add_bytes(&image->nodes.buffer, bytes, sizeof bytes);
    str_add_bytes(&image->nodes.buffer, str_text(&xattrs), xattrs.size);
    if (content.layout == LAYOUT_INLINE) {
        str_add_bytes(&image->nodes.buffer, node->target, node->attr->size);
    } else if (content.layout == LAYOUT_CHUNKS) {
        add_chunks(&image->nodes, &content);
    }
    part_pad(&image->nodes, SLOT);
    image->node_count++;
    return part_add(image, &image->nodes, NULL, 0, err);
}

/* --- folders ---------------------------------------------------------------------------------- */

void image_folder_begin(struct image *image, const struct image_folder *folder)
{
    image->folder = *folder;
    image->folder_at = part_end(&image->names);
    image->dots = 0;
}

static enum err_code end_block(struct image *image, struct err *err)
{
    uint8_t block[IMAGE_BLOCK] = {0};
    size_t at = image->entry_count * ENTRY_BYTES;
    if (image->entry_count == 0) {
        return ERR_OK;
    }
    memcpy(block + at, image->entry_names.text, image->entry_names.size);
    for (size_t i = 0; i < image->entry_count; i++) {
        uint8_t *entry = block + i * ENTRY_BYTES;
        le_put_u64(entry, image->entries[i].number);
        put_u16(entry + 8, (uint32_t)at);
        entry[10] = image->entries[i].type;
        at += image->entries[i].name_size;
    }
    image->entry_count = 0;
    str_clear(&image->entry_names);
    if (part_end(&image->names) >= ((uint64_t)IMAGE_ROWS - 1) * IMAGE_BLOCK) {
        return too_much("too many names", err);
    }
    return part_add(image, &image->names, block, sizeof block, err);
}

static uint8_t type_of(uint32_t mode)
{
    static const uint8_t types[16] = {
        [S_IFREG >> 12] = 1, [S_IFDIR >> 12] = 2,  [S_IFCHR >> 12] = 3, [S_IFBLK >> 12] = 4,
        [S_IFIFO >> 12] = 5, [S_IFSOCK >> 12] = 6, [S_IFLNK >> 12] = 7};
    return types[mode >> 12 & 15];
}

static enum err_code add_entry(struct image *image, const char *name, uint64_t number,
                               uint32_t mode, struct err *err)
{
    size_t size = strlen(name);
    enum err_code code = ERR_OK;
    if (size == 0 || size > ENGINE_NAME_MAX) {
        return err_set(err, ERR_CORRUPT, "a name is damaged");
    }
    if ((image->entry_count + 1) * ENTRY_BYTES + image->entry_names.size + size > IMAGE_BLOCK) {
        code = end_block(image, err);
    }
    image->entries[image->entry_count++] = (struct entry){number, type_of(mode), (uint8_t)size};
    str_add_bytes(&image->entry_names, name, size);
    return code;
}

/* "." and "..", as far as they come before `name` (NULL: all names). */
static enum err_code add_dots(struct image *image, const char *name, struct err *err)
{
    static const char *const dots[] = {".", ".."};
    enum err_code code = ERR_OK;
    while (image->dots < 2 && code == ERR_OK && (!name || strcmp(dots[image->dots], name) < 0)) {
        uint64_t number = image->dots == 0 ? image->folder.number : image->folder.parent;
        code = add_entry(image, dots[image->dots++], number, S_IFDIR, err);
    }
    return code;
}

enum err_code image_folder_add(struct image *image, const char *name, uint64_t number,
                               uint32_t mode, struct err *err)
{
    enum err_code code = add_dots(image, name, err);
    return code == ERR_OK ? add_entry(image, name, number, mode, err) : code;
}

/* The node, which was written before its entries were known, learns where they are. */
enum err_code image_folder_end(struct image *image, struct err *err)
{
    enum { SIZE_AT = 8 }; /* and the first block behind it */
    uint8_t bytes[12];
    enum err_code code = add_dots(image, NULL, err);
    if (code == ERR_OK) {
        code = end_block(image, err);
    }
    le_put_u64(bytes, part_end(&image->names) - image->folder_at);
    le_put_u32(bytes + 8, (uint32_t)(image->folder_at / IMAGE_BLOCK));
    uint64_t at = image->folder.number * SLOT + SIZE_AT;
    if (code == ERR_OK && at >= image->nodes.at) {
        memcpy(image->nodes.buffer.text + (at - image->nodes.at), bytes, sizeof bytes);
    } else if (code == ERR_OK) {
        code = write_at(image->fd, at, bytes, sizeof bytes, err);
    }
    return code;
}

/* --- all of it -------------------------------------------------------------------------------- */

static enum err_code write_super(struct image *image, const uint8_t uuid[16], struct err *err)
{
    uint8_t block[IMAGE_BLOCK] = {0};
    uint8_t *super = block + SUPER_AT;
    uint8_t *device = block + DEVICE_AT;
    le_put_u32(super, EROFS_SUPER_MAGIC_V1);
    le_put_u32(super + 8, FEATURE_MTIME);
    super[12] = BLOCK_BITS;
    put_u16(super + 14, IMAGE_BLOCK / SLOT); /* the root */
    le_put_u64(super + 16, image->node_count);
    le_put_u32(super + 36, 1); /* blocks: contents are what counts, on the second device */
    memcpy(super + 48, uuid, 16);
    le_put_u32(super + 80, FEATURE_CHUNKS | FEATURE_DEVICES);
    put_u16(super + 86, 1);
    put_u16(super + 88, DEVICE_AT / DEVICE_BYTES);
    device[0] = '-'; /* a name is needed, and not used */
    le_put_u32(device + 64, (uint32_t)image->data_blocks);
    return write_at(image->fd, 0, block, sizeof block, err);
}

enum err_code image_finish(struct image *image, const uint8_t uuid[16], struct err *err)
{
    struct part *parts[] = {&image->nodes, &image->names, &image->rows};
    enum err_code code = ERR_OK;
    part_pad(&image->nodes, IMAGE_BLOCK);
    part_pad(&image->names, IMAGE_BLOCK);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && code == ERR_OK; i++) {
        code = part_flush(image, parts[i], err);
    }
    if (code == ERR_OK) {
        code = write_super(image, uuid, err);
    }
    if (code != ERR_OK || image->row_count == 0) {
        return code;
    }
    void *map = mmap(NULL, image->row_count * sizeof *image->map, PROT_READ, MAP_SHARED, image->fd,
                     (off_t)IMAGE_ROWS * IMAGE_BLOCK);
    if (map == MAP_FAILED) {
        return err_errno(err, errno, "the image of the volume");
    }
    image->map = map;
    return ERR_OK;
}

uint64_t image_data_bytes(const struct image *image)
{
    return image->data_blocks * IMAGE_BLOCK;
}

bool image_find(const struct image *image, uint64_t offset, size_t size, struct image_spot *out)
{
    uint64_t block = offset / IMAGE_BLOCK;
    size_t low = 0;
    size_t high =
        image->row_count; /* the last that begins at block or before is in [low - 1, high) */
    if (block >= image->data_blocks) {
        return false;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (image->map[middle].block <= block) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct row *row = &image->map[low - 1]; /* blocks are given out without gaps */
    uint64_t begin = (uint64_t)row->block * IMAGE_BLOCK;
    uint64_t left = (uint64_t)row->blocks * IMAGE_BLOCK - (offset - begin);
    *out = (struct image_spot){row->inode, offset - begin, size < left ? size : (size_t)left};
    return true;
}
