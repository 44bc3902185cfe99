#include "mount/request.h"

#include "base/io.h"
#include "base/mem.h"
#include "mount/back.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t mount_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void request_of(struct request *request, fuse_req_t req,
                bool (*attempt)(struct mount *mount, struct request *request), uint64_t inode)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    *request = (struct request){.req = req, .attempt = attempt, .inode = spots_inode(inode)};
    request->caller = (struct engine_caller){ctx->uid, ctx->gid, mount_now_ns()};
}

static void park(struct mount *mount, const struct request *request)
{
    struct request *copy = mem_dup(request, sizeof *request);
    copy->name = request->name ? mem_strdup(request->name) : NULL;
    copy->new_name = request->new_name ? mem_strdup(request->new_name) : NULL;
    copy->data = request->data ? mem_dup(request->data, request->size) : NULL;
    copy->next = NULL;
    *mount->parked_end = copy;
    mount->parked_end = &copy->next;
    mount->counts.parked++;
}

static void free_parked(struct mount *mount, struct request *request)
{
    memo_release(mount, request);
    volume_order_drop(request->order);
    free((char *)request->name);
    free((char *)request->new_name);
    free((void *)request->data);
    free(request);
}

void request_begin(struct mount *mount, struct request *request)
{
    mount->counts.requests++;
    if (!request->attempt(mount, request)) {
        park(mount, request);
    } else if (request->memo.count > 0) {
        memo_release(mount, request);
    }
}

void request_put_off(struct mount *mount, const struct request *request)
{
    if (mount->late_count == LATE_MAX) {
        request_catch_up(mount);
    }
    mount->late[mount->late_count++] = *request;
}

void request_catch_up(struct mount *mount)
{
    for (size_t i = 0; i < mount->late_count; i++) {
        request_begin(mount, &mount->late[i]);
    }
    mount->late_count = 0;
}

/* Was whoever waits for the answer killed? The kernel tells us of any signal, but lets nobody go
 * before we answer; and a program that is only interrupted does not expect that of files. */
static bool is_dying(fuse_req_t req)
{
    static const char pending[] = "\nSigPnd:";
    char path[64];
    AUTO_STR struct str text = {0};
    if (!fuse_req_interrupted(req)) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/status", (int)fuse_req_ctx(req)->pid);
    if (io_read_file(path, 64 << 10, &text, NULL) != ERR_OK) {
        return false;
    }
    const char *line = strstr(str_text(&text), pending);
    return line != NULL && (strtoull(line + sizeof pending - 1, NULL, 16) >> (SIGKILL - 1) & 1);
}

void request_retry(struct mount *mount)
{
    struct request *list = mount->parked;

    mount->parked = NULL;
    mount->parked_end = &mount->parked;
    while (list != NULL) {
        struct request *request = list;
        list = request->next;
        request->next = NULL;
        bool is_left = is_dying(request->req);
        if (request->memo.count > 0) {
            memo_refresh(mount, request);
        }
        if (is_left) {
            memo_abandon(mount, request);
            fuse_reply_err(request->req, EINTR);
        }
        if (is_left || request->attempt(mount, request)) {
            free_parked(mount, request);
        } else {
            *mount->parked_end = request;
            mount->parked_end = &request->next;
        }
    }
}

void request_fail_all(struct mount *mount)
{
    while (mount->parked != NULL) {
        struct request *request = mount->parked;
        mount->parked = request->next;
        memo_abandon(mount, request);
        fuse_reply_err(request->req, EIO);
        free_parked(mount, request);
    }
    mount->parked_end = &mount->parked;
}

bool request_settle(struct mount *mount, struct request *request, enum err_code code, int posix,
                    const struct err *err)
{
    struct err trouble;
    if (code == ERR_AGAIN) {
        back_want(mount);
        enum err_code state = back_trouble(mount, &trouble);
        if (state == ERR_OK || state == ERR_AGAIN) {
            return false;
        }
        code = state;
        err = &trouble;
    }
    if (code == ERR_INVALID && posix != 0) {
        fuse_reply_err(request->req, posix);
        return true;
    }
    int answer = code == ERR_QUOTA ? ENOSPC : EIO;
    fprintf(stderr, "drover mount: inode %llu: %s\n", (unsigned long long)request->inode,
            err->text);
    fuse_reply_err(request->req, answer);
    return true;
}
