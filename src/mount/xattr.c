/* Extended attributes; and what the mount says of itself, as one of the root's. */
#include "mount/back.h"

#include "base/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char STATS_NAME[] = "user.drover.stats";
static const char ORDER_NAME[] = "user.drover.do";
static const char SAID_NAME[] = "user.drover.said";

void stats_add(struct mount *mount, struct str *out)
{
    struct reader_stats reader;
    struct volume_stats volume;
    struct json json = {.out = out};
    reader_stats(mount->reader, &reader);
    struct meta_link_counts owner = {0}; /* where it is elsewhere */
    back_stats(mount, &volume);
    if (mount->dealer) {
        meta_link_counts(mount->link, &owner);
    }
    enum err_code trouble = back_trouble(mount, NULL);
    bool has_failed = trouble != ERR_OK && trouble != ERR_AGAIN && trouble != ERR_CORRUPT;

    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"pid", (uint64_t)getpid()},
        {"failed", has_failed},
        {"has_image", mount->image != NULL},
        {"requests", mount->counts.requests},
        {"parked", mount->counts.parked},
        {"reads", mount->counts.reads},
        {"writes", mount->counts.writes},
        {"bytes_read", mount->counts.bytes_read},
        {"bytes_written", mount->counts.bytes_written},
        {"dirty_bytes", mount->dirty_bytes},
        {"hits_memory", reader.hits_memory},
        {"hits_disk", reader.hits_disk},
        {"misses", reader.misses},
        {"extent_bytes", reader.bytes_read},
        {"fetched_bytes", reader.bytes_fetched},
        {"fetches", reader.fetches},
        {"evicted_bytes", reader.evicted_bytes},
        {"damaged", reader.damaged},
        {"cache_disk_bytes", reader.disk_bytes},
        {"cache_memory_bytes", reader.memory_bytes},
        {"commits", volume.commits},
        {"checkpoints", volume.checkpoints},
        {"merges", volume.merges},
        {"packs", volume.packs},
        {"packs_rewritten", volume.packs_rewritten},
        {"inline_bytes", volume.inline_bytes},
        {"pack_bytes", volume.pack_bytes},
        {"store_gets", volume.store.gets},
        {"store_puts", volume.store.puts},
        {"store_heads", volume.store.heads},
        {"store_lists", volume.store.lists},
        {"store_deletes", volume.store.deletes},
        {"store_bytes_in", volume.store.bytes_in},
        {"store_bytes_out", volume.store.bytes_out},
        {"store_retries", volume.store.retries},
        {"owner_asks", owner.asks},
        {"owner_not_asked", owner.known},
        {"owner_known_bytes", owner.known_bytes},
        {"owner_forgets", owner.forgets},
        {"owner_hellos", owner.hellos},
        {"changes_kept", owner.kept},
        {"changes_said_again", owner.again},
    };
    json_object(&json);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_key(&json, rows[i].key);
        json_u64(&json, rows[i].value);
    }
    json_end(&json);
}

/* The kernel asks for the size first (room 0), then for the bytes. */
static void reply_bytes(struct request *request, const struct str *bytes)
{
    if (request->size == 0) {
        fuse_reply_xattr(request->req, bytes->size);
    } else if (bytes->size > request->size) {
        fuse_reply_err(request->req, ERANGE);
    } else {
        fuse_reply_buf(request->req, str_text(bytes), bytes->size);
    }
}

static bool try_get(struct mount *mount, struct request *request)
{
    struct err err;
    int posix;
    str_clear(&mount->scratch);
    if (request->inode == ENGINE_ROOT && strcmp(request->name, STATS_NAME) == 0) {
        stats_add(mount, &mount->scratch);
        reply_bytes(request, &mount->scratch);
        return true;
    }
    if (request->inode == ENGINE_ROOT && strcmp(request->name, SAID_NAME) == 0) {
        reply_bytes(request, &mount->said);
        return true;
    }
    enum err_code code = back_xattr_get(mount, request, &mount->scratch, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    reply_bytes(request, &mount->scratch);
    return true;
}

static void on_getxattr(fuse_req_t req, fuse_ino_t inode, const char *name, size_t size)
{
    struct request request;
    request_of(&request, req, try_get, inode);
    request.name = name;
    request.size = size;
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_list(struct mount *mount, struct request *request)
{
    struct err err;
    int posix;
    str_clear(&mount->scratch);
    enum err_code code = back_xattr_list(mount, request, &mount->scratch, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    reply_bytes(request, &mount->scratch);
    return true;
}

static void on_listxattr(fuse_req_t req, fuse_ino_t inode, size_t size)
{
    struct request request;
    request_of(&request, req, try_list, inode);
    request.size = size;
    request_begin(fuse_req_userdata(req), &request);
}

static bool try_set(struct mount *mount, struct request *request)
{
    struct engine_xattr xattr = {.inode = request->inode,
                                 .name = request->name,
                                 .value = request->mode ? NULL : request->data,
                                 .size = request->size,
                                 .flags = (int)request->flags};
    struct err err;
    int posix;
    if (request->inode == ENGINE_ROOT && strcmp(request->name, ORDER_NAME) == 0) {
        int answer = request->mode ? ENODATA : orders_take(mount, request);
        if (answer == EAGAIN) {
            return false;
        }
        fuse_reply_err(request->req, answer);
        return true;
    }
    enum err_code code = back_xattr_set(mount, request, &xattr, &posix, &err);
    if (code != ERR_OK) {
        return request_settle(mount, request, code, posix, &err);
    }
    fuse_reply_err(request->req, 0);
    return true;
}

/* 0, or why there is no attribute of that name on Linux. */
static int name_refusal(const char *name)
{
    static const char *const spaces[] = {"user.", "trusted.", "security."};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        size_t size = strlen(spaces[i]);
        if (strncmp(name, spaces[i], size) == 0) {
            return name[size] ? 0 : EINVAL;
        }
    }
    return EOPNOTSUPP; /* lists of access rights are among these */
}

static void on_setxattr(fuse_req_t req, fuse_ino_t inode, const char *name, const char *value,
                        size_t size, int flags)
{
    int refusal = name_refusal(name);
    if (refusal) {
        fuse_reply_err(req, refusal);
        return;
    }
    struct request request;
    request_of(&request, req, try_set, inode);
    request.name = name;
    request.data = value;
    request.size = size;
    request.flags = (uint32_t)flags;
    request_begin(fuse_req_userdata(req), &request);
}

static void on_removexattr(fuse_req_t req, fuse_ino_t inode, const char *name)
{
    struct request request;
    request_of(&request, req, try_set, inode);
    request.name = name;
    request.mode = 1; /* remove */
    request_begin(fuse_req_userdata(req), &request);
}

void xattr_fill(struct fuse_lowlevel_ops *ops)
{
    ops->getxattr = on_getxattr;
    ops->listxattr = on_listxattr;
    ops->setxattr = on_setxattr;
    ops->removexattr = on_removexattr;
}
