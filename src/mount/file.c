/* Open inodes and their drafts. */
#include "mount/back.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

static size_t bucket_of(uint64_t inode)
{
    return (size_t)((inode * 0x9E3779B97F4A7C15U) >> 52) % FILE_BUCKETS;
}

struct file *file_find(struct mount *mount, uint64_t inode)
{
    struct file *file = mount->files[bucket_of(inode)];
    while (file != NULL && file->inode != inode) {
        file = file->next;
    }
    return file;
}

struct file *file_take(struct mount *mount, uint64_t inode)
{
    struct file *file = file_find(mount, inode);
    if (file == NULL) {
        struct file **bucket = &mount->files[bucket_of(inode)];
        file = mem_alloc(sizeof *file);
        file->inode = inode;
        file->next = *bucket;
        *bucket = file;
    }
    return file;
}

void file_drop(struct mount *mount, struct file *file)
{
    if (file->opens > 0 || file->has_draft || file->flush) {
        return;
    }
    struct file **link = &mount->files[bucket_of(file->inode)];
    while (*link != file) {
        link = &(*link)->next;
    }
    *link = file->next;
    free(file->placed);
    free(file);
}

bool file_is_open(void *context, uint64_t inode)
{
    struct file *file = file_find(context, inode);
    return file != NULL && (file->opens > 0 || file->has_draft);
}

enum err_code file_begin_draft(struct mount *mount, struct request *request, struct file *file,
                               int *posix, struct err *err)
{
    if (file->has_draft) {
        *posix = 0;
        return ERR_OK;
    }
    struct engine_attr attr = {.mtime_ns = request->caller.now_ns};
    enum err_code code = ERR_OK;
    if (!file->knows_base) {
        code = back_getattr(mount, request, file->inode, &attr, posix, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    file->knows_base = false;
    draft_init(&file->draft, attr.size);
    file->has_draft = true;
    file->mtime_ns = attr.mtime_ns;
    file->changed_ns = 0;
    file->kill_priv = false;
    return ERR_OK;
}

void file_end_draft(struct mount *mount, struct file *file)
{
    if (!mount->dealer) {
        volume_written(mount->volume, file->placed, file->placed_count);
    }
    file->placed_count = 0;
    mount->dirty_bytes -= file->draft.memory_bytes;
    draft_release(&file->draft);
    file->has_draft = false;
}

void file_relieve(struct mount *mount, struct file *file)
{
    struct draft *draft = &file->draft;
    bool all = mount->dirty_bytes > DIRTY_BYTES_MAX;

    if (!all && draft->memory_bytes < DRAFT_STREAM_BYTES) {
        return;
    }
    for (size_t i = 0; i < draft->count && !back_is_congested(mount); i++) {
        const struct draft_segment *segment = &draft->segments[i];
        if (segment->kind == DRAFT_MEMORY && (all || segment->size == EXTENT_BYTES_MAX)) {
            back_place(mount, file, i, false);
        }
    }
}

/* Every byte of the draft has a place. ERR_AGAIN: the volume takes no more just now. */
static enum err_code place_all(struct mount *mount, struct file *file, bool inlined,
                               struct err *err)
{
    inlined = inlined && file->draft.memory_bytes <= DRAFT_INLINE_BYTES;
    for (size_t i = 0; i < file->draft.count; i++) {
        if (file->draft.segments[i].kind != DRAFT_MEMORY) {
            continue;
        }
        if (back_is_congested(mount)) {
            return err_set(err, ERR_AGAIN, "too much is on its way to the store");
        }
        back_place(mount, file, i, inlined);
    }
    return ERR_OK;
}

enum err_code file_flush(struct mount *mount, struct file *file, bool inlined, int *posix,
                         struct err *err)
{
    *posix = 0;
    if (!file->has_draft) {
        return ERR_OK;
    }
    if (mount->dealer) {
        return back_flush_remote(mount, file, inlined, posix, err);
    }
    if (!draft_is_clean(&file->draft) || file->changed_ns != 0) {
        enum err_code code = place_all(mount, file, inlined, err);
        if (code != ERR_OK) {
            return code;
        }
        struct extent *extents;
        size_t count = draft_extents(&file->draft, &extents);
        struct engine_caller caller = {.now_ns = mount_now_ns()};
        struct engine_write write = {.inode = file->inode,
                                     .size = file->draft.size,
                                     .extents = extents,
                                     .count = count,
                                     .mtime_ns = file->mtime_ns,
                                     .kill_priv = file->kill_priv};
        struct engine_attr attr;
        code = engine_write(mount->engine, &caller, &write, &attr, posix, err);
        free(extents);
        if (code != ERR_OK) {
            return code;
        }
    }
    file_end_draft(mount, file);
    return ERR_OK;
}

bool file_show(const struct mount *mount, struct engine_attr *attr)
{
    const struct file *file = file_find((struct mount *)mount, attr->inode);
    if (file == NULL || !file->has_draft) {
        return false;
    }
    attr->size = file->draft.size;
    attr->stored += file->draft.memory_bytes; /* about */
    attr->mtime_ns = file->mtime_ns;
    if (file->kill_priv) {
        attr->mode = engine_mode_without_privilege(attr->mode);
    }
    if (attr->ctime_ns < file->changed_ns) {
        attr->ctime_ns = file->changed_ns;
    }
    return true;
}

void stat_of(const struct engine_attr *attr, struct stat *out)
{
    *out = (struct stat){
        .st_ino = attr->inode,
        .st_mode = attr->mode,
        .st_nlink = attr->nlink,
        .st_uid = attr->uid,
        .st_gid = attr->gid,
        .st_rdev = attr->rdev,
        .st_size = (off_t)attr->size,
        .st_blksize = 1 << 17,
        .st_blocks = (blkcnt_t)((attr->stored + 511) / 512),
        .st_atim = clock_time_of(attr->atime_ns),
        .st_mtim = clock_time_of(attr->mtime_ns),
        .st_ctim = clock_time_of(attr->ctime_ns),
    };
}

void entry_give(struct mount *mount, uint64_t folder, const char *name,
                struct fuse_entry_param *entry)
{
    if (mount->spots && S_ISDIR(entry->attr.st_mode) && entry->ino != ENGINE_ROOT) {
        entry->ino = spots_give(mount->spots, entry->ino, folder, name);
    }
}

void entry_forget(struct mount *mount, uint64_t number, uint64_t count)
{
    if (mount->spots) { /* of anything else nothing is kept for the kernel */
        spots_forget(mount->spots, number, count);
    }
}

void entry_of(const struct mount *mount, const struct engine_attr *attr,
              struct fuse_entry_param *out)
{
    *out = (struct fuse_entry_param){
        .ino = attr->inode, .attr_timeout = mount->timeout_s, .entry_timeout = mount->timeout_s};
    stat_of(attr, &out->attr);
}
