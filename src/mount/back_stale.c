/* Telling the kernel to forget the content of open files. That may wait for requests which only the
 * mount's thread can serve, so another thread does it. It gets a list of its own, and shares
 * nothing but the session, on which libfuse lets any thread do this. */
#include "base/mem.h"
#include "base/thread.h"
#include "mount/back_remote.h"

#include <stdlib.h>
#include <string.h>

struct staler {
    pthread_t thread;
    struct fuse_session *session;
    uint64_t *inodes;
    size_t count, cap;
};

static void *forget(void *argument)
{
    struct staler *staler = argument;
    for (size_t i = 0; i < staler->count; i++) {
        (void)fuse_lowlevel_notify_inval_inode(staler->session, staler->inodes[i], 0, 0);
    }
    return NULL;
}

static void staler_free(struct staler *staler)
{
    free(staler->inodes);
    free(staler);
}

void stale_all(struct mount *mount)
{
    memset(mount->seen, 0, SEEN * sizeof mount->seen[0]); /* files that are opened from now on */
    if (mount->staler) {
        if (pthread_tryjoin_np(mount->staler->thread, NULL) != 0) {
            return; /* it is still at it */
        }
        staler_free(mount->staler);
        mount->staler = NULL;
    }
    struct staler *staler = mem_alloc(sizeof *staler);
    staler->session = mount->session;
    for (size_t i = 0; i < FILE_BUCKETS; i++) {
        for (const struct file *file = mount->files[i]; file; file = file->next) {
            VEC_PUSH(staler->inodes, staler->count, staler->cap) = file->inode;
        }
    }
    if (staler->count == 0 || thread_start(&staler->thread, forget, staler) != 0) {
        staler_free(staler);
        return;
    }
    mount->staler = staler;
}

void stale_end(struct mount *mount)
{
    if (mount->staler) {
        (void)pthread_join(mount->staler->thread, NULL);
        staler_free(mount->staler);
        mount->staler = NULL;
    }
}
