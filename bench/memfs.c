/* memfs - a plain file system in memory (FUSE, libfuse's own loop, one thread): what unpacking an
 * archive costs when nothing is stored anywhere.
 *
 *   memfs FOLDER     mounts there and serves until it is unmounted or told to end
 *
 * It asks the kernel for what drover mount asks for, so that both are sent the same requests: the
 * ones that tar -x and reading it all again need. Nothing is removed before the end.
 */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 1 << 16, TIMEOUT_S = 3600, WRITE_MAX = 1 << 20 };

struct node {
    struct node *parent;
    struct node *next_of_bucket;
    struct node *first, *last; /* of a folder */
    struct node *sibling;
    char *name;
    char *data;
    size_t room;
    struct stat stat;
};

static struct node root = {.stat = {.st_ino = FUSE_ROOT_ID, .st_mode = S_IFDIR | 0755}};
static struct node *buckets[BUCKETS];

/* The root is inode 1 for the kernel; any other's number is where it is in memory. */
static struct node *node_of(fuse_ino_t inode)
{
    return inode == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)inode;
}

static struct node **bucket_of(const struct node *parent, const char *name)
{
    uint64_t hash = (uint64_t)(uintptr_t)parent;
    for (const char *c = name; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * 0x100000001B3U;
    }
    return &buckets[(hash ^ hash >> 29) % BUCKETS];
}

static struct node *find(const struct node *parent, const char *name)
{
    struct node *node = *bucket_of(parent, name);
    while (node && (node->parent != parent || strcmp(node->name, name) != 0)) {
        node = node->next_of_bucket;
    }
    return node;
}

static struct node *make(fuse_req_t req, struct node *parent, const char *name, mode_t mode)
{
    struct node *node = calloc(1, sizeof *node);
    char *copy = strdup(name);
    if (!node || !copy) {
        free(node);
        free(copy);
        return NULL;
    }
    const struct fuse_ctx *caller = fuse_req_ctx(req);
    struct node **bucket = bucket_of(parent, name);
    node->parent = parent;
    node->name = copy;
    node->next_of_bucket = *bucket;
    *bucket = node;
    *(parent->last ? &parent->last->sibling : &parent->first) = node;
    parent->last = node;
    node->stat = (struct stat){.st_ino = (ino_t)(uintptr_t)node,
                               .st_mode = mode,
                               .st_nlink = S_ISDIR(mode) ? 2 : 1,
                               .st_uid = caller->uid,
                               .st_gid = caller->gid};
    clock_gettime(CLOCK_REALTIME, &node->stat.st_mtim);
    node->stat.st_atim = node->stat.st_ctim = node->stat.st_mtim;
    return node;
}

static struct fuse_entry_param entry_of(const struct node *node)
{
    return (struct fuse_entry_param){.ino = node->stat.st_ino,
                                     .attr = node->stat,
                                     .attr_timeout = TIMEOUT_S,
                                     .entry_timeout = TIMEOUT_S};
}

static void on_init(void *context, struct fuse_conn_info *conn)
{
    (void)context;
    unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_NO_OPENDIR_SUPPORT |
                      FUSE_CAP_ATOMIC_O_TRUNC;
    conn->want = conn->capable & wanted;
    conn->max_write = WRITE_MAX;
}

static void on_lookup(fuse_req_t req, fuse_ino_t folder, const char *name)
{
    const struct node *node = find(node_of(folder), name);
    struct fuse_entry_param entry = {.entry_timeout = TIMEOUT_S}; /* known to be absent */
    if (node) {
        entry = entry_of(node);
    }
    fuse_reply_entry(req, &entry);
}

static void on_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)fi;
    fuse_reply_attr(req, &node_of(inode)->stat, TIMEOUT_S);
}

static int resize(struct node *node, size_t size)
{
    if (size > node->room) {
        size_t room = size > node->room * 2 ? size : node->room * 2;
        char *data = realloc(node->data, room);
        if (!data) {
            return ENOSPC;
        }
        node->data = data;
        node->room = room;
    }
    size_t old = (size_t)node->stat.st_size;
    if (size > old) {
        memset(node->data + old, 0, size - old);
    }
    node->stat.st_size = (off_t)size;
    node->stat.st_blocks = (blkcnt_t)((size + 511) / 512);
    return 0;
}

static void on_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *wanted, int set,
                       struct fuse_file_info *fi)
{
    (void)fi;
    struct node *node = node_of(inode);
    struct stat *stat = &node->stat;
    if ((set & FUSE_SET_ATTR_SIZE) && resize(node, (size_t)wanted->st_size) != 0) {
        fuse_reply_err(req, ENOSPC);
        return;
    }
    if (set & FUSE_SET_ATTR_MODE) {
        stat->st_mode = (stat->st_mode & S_IFMT) | (wanted->st_mode & 07777);
    }
    if (set & FUSE_SET_ATTR_UID) {
        stat->st_uid = wanted->st_uid;
    }
    if (set & FUSE_SET_ATTR_GID) {
        stat->st_gid = wanted->st_gid;
    }
    clock_gettime(CLOCK_REALTIME, &stat->st_ctim);
    if (set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW)) {
        stat->st_atim = set & FUSE_SET_ATTR_ATIME_NOW ? stat->st_ctim : wanted->st_atim;
    }
    if (set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)) {
        stat->st_mtim = set & FUSE_SET_ATTR_MTIME_NOW ? stat->st_ctim : wanted->st_mtim;
    }
    fuse_reply_attr(req, stat, TIMEOUT_S);
}

static void on_mkdir(fuse_req_t req, fuse_ino_t folder, const char *name, mode_t mode)
{
    struct node *node = make(req, node_of(folder), name, S_IFDIR | (mode & 07777));
    if (!node) {
        fuse_reply_err(req, ENOSPC);
        return;
    }
    struct fuse_entry_param entry = entry_of(node);
    fuse_reply_entry(req, &entry);
}

static void on_create(fuse_req_t req, fuse_ino_t folder, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    struct node *node = make(req, node_of(folder), name, S_IFREG | (mode & 07777));
    if (!node) {
        fuse_reply_err(req, ENOSPC);
        return;
    }
    struct fuse_entry_param entry = entry_of(node);
    fi->keep_cache = 1;
    fuse_reply_create(req, &entry, fi);
}

static void on_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)inode;
    fi->keep_cache = 1;
    fuse_reply_open(req, fi);
}

static void on_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    (void)fi;
    const struct node *node = node_of(inode);
    size_t end = (size_t)node->stat.st_size;
    size_t from = (size_t)offset < end ? (size_t)offset : end;
    fuse_reply_buf(req, node->data ? node->data + from : NULL,
                   end - from < size ? end - from : size);
}

static void on_write(fuse_req_t req, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    (void)fi;
    struct node *node = node_of(inode);
    size_t end = (size_t)offset + size;
    if (end > (size_t)node->stat.st_size && resize(node, end) != 0) {
        fuse_reply_err(req, ENOSPC);
        return;
    }
    memcpy(node->data + offset, bytes, size);
    fuse_reply_write(req, size);
}

static void on_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
    (void)inode;
    (void)fi;
    fuse_reply_err(req, 0);
}

/* The offset is how many entries were seen. */
static void on_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
    (void)fi;
    const struct node *node = node_of(inode)->first;
    char *buffer = malloc(size);
    size_t used = 0;
    for (off_t i = 0; node && i < offset; i++) {
        node = node->sibling;
    }
    for (; node && buffer; node = node->sibling) {
        size_t need =
            fuse_add_direntry(req, buffer + used, size - used, node->name, &node->stat, ++offset);
        if (need > size - used) {
            break;
        }
        used += need;
    }
    fuse_reply_buf(req, buffer, used);
    free(buffer);
}

static const struct fuse_lowlevel_ops operations = {
    .init = on_init,
    .lookup = on_lookup,
    .getattr = on_getattr,
    .setattr = on_setattr,
    .mkdir = on_mkdir,
    .create = on_create,
    .open = on_open,
    .read = on_read,
    .write = on_write,
    .flush = on_flush,
    .release = on_flush,
    .readdir = on_readdir,
};

int main(int argc, char **argv)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    if (argc != 2) {
        fputs("usage: memfs FOLDER\n", stderr);
        return 2;
    }
    root.stat.st_uid = getuid();
    root.stat.st_gid = getgid();
    root.stat.st_nlink = 2;
    fuse_opt_add_arg(&args, argv[0]);
    fuse_opt_add_arg(&args, "-o");
    fuse_opt_add_arg(&args, "fsname=memfs,subtype=memfs,default_permissions");
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    fuse_opt_free_args(&args);
    if (!session || fuse_session_mount(session, argv[1]) != 0) {
        return 1;
    }
    int failed = fuse_set_signal_handlers(session) == 0 ? fuse_session_loop(session) : 1;
    fuse_remove_signal_handlers(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return failed < 0 ? 1 : 0; /* a signal that ended it is no failure */
}
