/* What FUSE serves of a volume that the kernel shows by itself: one file, all contents. */
#include "mount/back.h"

#include <errno.h>
#include <sys/stat.h>

static void stat_device(const struct mount *mount, struct stat *out)
{
    *out = (struct stat){.st_ino = FUSE_ROOT_ID,
                         .st_mode = S_IFREG | S_IRUSR,
                         .st_nlink = 1,
                         .st_size = (off_t)image_data_bytes(mount->image)};
}

static void on_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    const struct mount *mount = fuse_req_userdata(req);
    struct stat attr;
    (void)inode;
    (void)fi;
    stat_device(mount, &attr);
    fuse_reply_attr(req, &attr, mount->timeout_s);
}

/* Nothing of it is to be kept twice. */
static void on_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)inode;
    fi->direct_io = 1;
    fuse_reply_open(req, fi);
}

/* EROFS reads within the blocks of one file at a time. It takes a short answer for zeros, so there
 * are none. */
static void on_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    struct mount *mount = fuse_req_userdata(req);
    struct image_spot spot;
    struct request request;
    (void)inode;
    (void)fi;
    if (!image_find(mount->image, (uint64_t)offset, size, &spot) || spot.size != size) {
        fuse_reply_err(req, EIO);
        return;
    }
    request_of(&request, req, io_read, FUSE_ROOT_ID);
    request.inode = spot.inode;
    request.offset = spot.offset;
    request.size = size;
    request_begin(mount, &request);
}

void image_fill(struct fuse_lowlevel_ops *ops)
{
    ops->getattr = on_getattr;
    ops->open = on_open;
    ops->read = on_read;
}
