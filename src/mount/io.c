/* Reading and writing. */
#include "mount/back.h"

#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The extents of one read, all of them: the kernel takes a short answer for the end of the file. */
struct pieces {
    struct extent *items;
    size_t count, cap;
};

static bool keep_piece(void *context, const struct extent *extent)
{
    struct pieces *pieces = context;
    VEC_PUSH(pieces->items, pieces->count, pieces->cap) = *extent;
    return true;
}

/* The bytes of the file that an extent holds: extent->size of them. Borrowed for a moment. */
static enum err_code piece_bytes(struct mount *mount, const struct request *request,
                                 const struct extent *extent, const uint8_t **out, struct err *err)
{
    const void *bytes = back_young(mount, request, extent);
    if (bytes != NULL && extent->codec != EXTENT_PLAIN) {
        str_clear(&mount->scratch);
        str_add_repeat(&mount->scratch, " ", extent->whole);
        enum err_code code = extent_decode(extent, bytes, mount->scratch.text, err);
        if (code != ERR_OK) {
            return code;
        }
        bytes = mount->scratch.text;
    } else if (bytes == NULL) {
        struct reader_ask ask = {.extent = extent, .inode = request->inode};
        enum err_code code = reader_get(mount->reader, &ask, &bytes, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    *out = (const uint8_t *)bytes + extent->skip;
    return ERR_OK;
}

/* Copies what of [piece_offset, + piece_size) lies in the wanted range. */
static void copy_overlap(struct request *request, uint8_t *out, size_t size, uint64_t piece_offset,
                         uint64_t piece_size, const uint8_t *bytes)
{
    uint64_t from = piece_offset > request->offset ? piece_offset : request->offset;
    uint64_t piece_end = piece_offset + piece_size;
    uint64_t end = piece_end < request->offset + size ? piece_end : request->offset + size;
    if (from >= end) {
        return;
    }
    uint8_t *to = out + (from - request->offset);
    if (bytes != NULL) {
        memcpy(to, bytes + (from - piece_offset), end - from);
    } else {
        memset(to, 0, end - from);
    }
}

static enum err_code fill_from_draft(struct mount *mount, struct request *request,
                                     const struct draft *draft, uint8_t *out, size_t size,
                                     struct err *err)
{
    for (size_t i = draft_find(draft, request->offset); i < draft->count; i++) {
        const struct draft_segment *segment = &draft->segments[i];
        if (segment->offset >= request->offset + size) {
            break;
        }
        const uint8_t *bytes = segment->bytes;
        if (segment->kind == DRAFT_PLACED) {
            enum err_code code = piece_bytes(mount, request, &segment->extent, &bytes, err);
            if (code != ERR_OK) {
                return code;
            }
        }
        copy_overlap(request, out, size, segment->offset, segment->size, bytes);
    }
    return ERR_OK;
}

/* Fills out with the range: the base's extents, zeros between them, the draft over them. */
static enum err_code fill(struct mount *mount, struct request *request, const struct pieces *pieces,
                          const struct draft *draft, struct str *out, struct err *err)
{
    uint8_t *buffer = (uint8_t *)out->text;
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < pieces->count && code == ERR_OK; i++) {
        const struct extent *extent = &pieces->items[i];
        uint64_t size = extent->size;
        if (draft != NULL) { /* the base ends at base_end */
            if (extent->file_offset >= draft->base_end) {
                break;
            }
            uint64_t room = draft->base_end - extent->file_offset;
            size = size < room ? size : room;
        }
        const uint8_t *bytes;
        code = piece_bytes(mount, request, extent, &bytes, err);
        if (code == ERR_OK) {
            copy_overlap(request, buffer, out->size, extent->file_offset, size, bytes);
        }
    }
    if (code == ERR_OK && draft != NULL) {
        code = fill_from_draft(mount, request, draft, buffer, out->size, err);
    }
    return code;
}

static void reply(struct mount *mount, const struct request *request, const void *bytes,
                  size_t size)
{
    static const char zeros[IMAGE_BLOCK];
    struct iovec parts[] = {{(void *)bytes, size}, {(void *)zeros, request->padding}};
    if (request->padding > 0) {
        fuse_reply_iov(request->req, parts, 2);
    } else {
        fuse_reply_buf(request->req, bytes, size);
    }
    mount->counts.reads++;
    mount->counts.bytes_read += size;
}

/* One extent has it all: answered from where it lies. */
static bool is_simple(const struct request *request, const struct pieces *pieces, size_t size)
{
    return pieces->count == 1 && pieces->items[0].file_offset <= request->offset &&
           pieces->items[0].file_offset + pieces->items[0].size >= request->offset + size;
}

/* Compaction and gc may have taken away what the owner named a moment ago: it is asked again. */
static bool settle_read(struct mount *mount, struct request *request, enum err_code code,
                        const struct err *err)
{
    enum { TRIES = 5 };
    if (mount->dealer && code == ERR_NOT_FOUND && request->seq++ < TRIES) {
        memo_release(mount, request);
        return false;
    }
    return request_settle(mount, request, code, 0, err);
}

static bool answer_read(struct mount *mount, struct request *request, struct pieces *pieces,
                        const struct draft *draft, size_t size)
{
    struct err err;
    if (draft == NULL && is_simple(request, pieces, size)) {
        const uint8_t *bytes;
        enum err_code code = piece_bytes(mount, request, &pieces->items[0], &bytes, &err);
        if (code != ERR_OK) {
            return settle_read(mount, request, code, &err);
        }
        reply(mount, request, bytes + (request->offset - pieces->items[0].file_offset), size);
        return true;
    }
    AUTO_STR struct str out = {.text = mem_alloc(size + 1), .size = size, .cap = size + 1};
    enum err_code code = fill(mount, request, pieces, draft, &out, &err);
    if (code != ERR_OK) {
        return settle_read(mount, request, code, &err);
    }
    reply(mount, request, out.text, out.size);
    return true;
}

bool io_read(struct mount *mount, struct request *request)
{
    struct file *file = file_find(mount, request->inode);
    const struct draft *draft = file != NULL && file->has_draft ? &file->draft : NULL;
    struct engine_attr attr;
    struct err err;
    int posix = 0;
    enum err_code code = back_read_attr(mount, request, &attr, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    uint64_t end = draft ? draft->size : attr.size;
    if (request->offset >= end && !mount->image) {
        fuse_reply_buf(request->req, NULL, 0);
        return true;
    }
    uint64_t left = end > request->offset ? end - request->offset : 0;
    size_t size = left < request->size ? (size_t)left : request->size;
    request->padding = mount->image ? request->size - size : 0;
    if (request->padding >= IMAGE_BLOCK) {
        err_set(&err, ERR_CORRUPT, "its size is not what it was");
        return request_settle(mount, request, ERR_CORRUPT, 0, &err);
    }
    struct pieces pieces = {0};
    struct back_span span = {
        .span = {request->inode, request->offset, size}, .each = keep_piece, .context = &pieces};
    code = back_extents(mount, request, &span, &posix, &err);
    bool done = code == ERR_OK ? answer_read(mount, request, &pieces, draft, size)
                               : request_settle(mount, request, code, posix, &err);
    free(pieces.items);
    return done;
}

static void on_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    (void)fi;
    struct request request;
    request_of(&request, req, io_read, inode);
    request.size = size;
    request.offset = (uint64_t)offset;
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_write(struct mount *mount, struct request *request)
{
    struct file *file = (struct file *)(uintptr_t)request->fi.fh;
    struct err err;
    int posix = 0;
    enum err_code trouble = back_trouble(mount, &err);
    if (trouble != ERR_OK && trouble != ERR_AGAIN && trouble != ERR_CORRUPT) {
        return request_settle(mount, request, trouble, 0, &err);
    }
    if (file->flush) {
        return false; /* until what was written before has arrived */
    }
    if (mount->dirty_bytes > DIRTY_BYTES_MAX) {
        file_relieve(mount, file); /* as far as it has a draft already */
    }
    if (mount->dirty_bytes > DIRTY_BYTES_MAX && back_is_congested(mount)) {
        return false; /* until some of it is stored */
    }
    enum err_code code = file_begin_draft(mount, request, file, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    uint64_t before = file->draft.memory_bytes;
    draft_write(&file->draft, request->offset, request->data, request->size);
    mount->dirty_bytes += file->draft.memory_bytes - before;
    file->mtime_ns = file->changed_ns = request->caller.now_ns;
    file->kill_priv = file->kill_priv || request->caller.uid != 0;
    file_relieve(mount, file);
    mount->counts.writes++;
    mount->counts.bytes_written += request->size;
    fuse_reply_write(request->req, request->size);
    return true;
}

static void on_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    struct request request;
    request_of(&request, req, try_write, inode);
    request.data = data;
    request.size = size;
    request.offset = (uint64_t)offset;
    request.fi = *fi;
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_fallocate(struct mount *mount, struct request *request)
{
    struct file *file = (struct file *)(uintptr_t)request->fi.fh;
    struct err err;
    int posix = 0;
    if (file->flush) {
        return false;
    }
    enum err_code code = file_begin_draft(mount, request, file, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    uint64_t end = request->offset + request->seq; /* seq: the length */
    uint64_t before = file->draft.memory_bytes;
    uint64_t old_size = file->draft.size;
    if (request->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        draft_punch(&file->draft, request->offset, request->seq);
    }
    if (!(request->mode & FALLOC_FL_KEEP_SIZE) && end > old_size) {
        draft_truncate(&file->draft, end);
    }
    mount->dirty_bytes += file->draft.memory_bytes - before;
    file->mtime_ns = file->changed_ns = request->caller.now_ns;
    file->kill_priv = file->kill_priv || request->caller.uid != 0;
    fuse_reply_err(request->req, 0);
    return true;
}

static void on_fallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset, off_t length,
                         struct fuse_file_info *fi)
{
    int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
    if (mode & ~known) {
        fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    struct request request;
    request_of(&request, req, try_fallocate, inode);
    request.mode = (uint32_t)mode;
    request.offset = (uint64_t)offset;
    request.seq = (uint64_t)length;
    request.fi = *fi;
    request_begin(fuse_req_userdata(req), &request);
}

struct seek {
    uint64_t at;
    bool wants_data;
    bool found;
};

/* Extents come in order: `at` moves on to the first place of the wanted kind. */
static bool seek_step(void *context, const struct extent *extent)
{
    struct seek *seek = context;
    uint64_t end = extent->file_offset + extent->size;
    if (end <= seek->at) {
        return true;
    }
    if (seek->wants_data) {
        seek->at = extent->file_offset > seek->at ? extent->file_offset : seek->at;
        seek->found = true;
        return false;
    }
    if (extent->file_offset > seek->at) {
        return false; /* a hole begins here */
    }
    seek->at = end;
    return true;
}

/* A file that is being written is made part of the volume first. */
static bool try_lseek(struct mount *mount, struct request *request)
{
    struct file *file = file_find(mount, request->inode);
    struct seek seek = {.at = request->offset, .wants_data = request->mode == SEEK_DATA};
    struct engine_attr attr;
    struct err err;
    int posix = 0;
    enum err_code code = file ? file_flush(mount, file, false, &posix, &err) : ERR_OK;
    if (code == ERR_OK) {
        code = back_getattr(mount, request, request->inode, &attr, &posix, &err);
    }
    if (code == ERR_OK && request->offset < attr.size) {
        struct back_span span = {.each = seek_step, .context = &seek};
        span.span =
            (struct engine_span){request->inode, request->offset, attr.size - request->offset};
        code = back_extents(mount, request, &span, &posix, &err);
    }
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    if (request->offset >= attr.size || (seek.wants_data && !seek.found)) {
        fuse_reply_err(request->req, ENXIO);
    } else {
        fuse_reply_lseek(request->req, (off_t)(seek.at < attr.size ? seek.at : attr.size));
    }
    return true;
}

static void on_lseek(fuse_req_t req, fuse_ino_t inode, off_t offset, int whence,
                     struct fuse_file_info *fi)
{
    (void)fi;
    if ((whence != SEEK_DATA && whence != SEEK_HOLE) || offset < 0) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    struct request request;
    request_of(&request, req, try_lseek, inode);
    request.offset = (uint64_t)offset;
    request.mode = (uint32_t)whence;
    request_begin(fuse_req_userdata(req), &request);
}

void io_fill(struct fuse_lowlevel_ops *ops)
{
    ops->read = on_read;
    ops->write = on_write;
    ops->fallocate = on_fallocate;
    ops->lseek = on_lseek;
}
