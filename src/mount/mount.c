/* The mount's session with the kernel, and its loop. */
#include "mount/mount.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mount/back.h"
#include "mount/shown.h"
#include "mount/spin.h"
#include "mount/wakeful.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    TICK_MS = 100,
    RETRY_MS = 20,  /* parked requests are tried again at least this often */
    BATCH = 16,     /* requests between two looks at the store */
    LATE_US = 20,   /* nobody asked: what was put off is done */
    STORE_US = 100, /* between such looks while the next request is looked for */
    SAY_MS = 60 * 1000,
};

static struct mount *the_mount; /* libfuse gives its I/O functions no context of ours */

static void on_init(void *context, struct fuse_conn_info *conn)
{
    struct mount *mount = context;
    unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                      FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
                      FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_ATOMIC_O_TRUNC |
                      FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_EXPORT_SUPPORT;
    if (mount->read_only) {
        wanted |= FUSE_CAP_NO_OPEN_SUPPORT;
    }
    if (mount->dealer) { /* others change files and folders too */
        wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_CACHE_SYMLINKS |
                 FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ATOMIC_O_TRUNC |
                 FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_FLOCK_LOCKS;
    }
    if (mount->image) { /* one file, read as EROFS reads a disk */
        wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO;
    }
    conn->want = conn->capable & wanted;
    conn->max_write = 1 << 20;
    conn->max_readahead = 4 << 20;
    conn->max_background = 64;
    conn->congestion_threshold = 48;
    conn->time_gran = 1;
}

/* The first answer says what we can do. One thing libfuse does not know: that we clear the set-id
 * bits ourselves, without which the kernel asks for an attribute before each write. */
static ssize_t on_writev(int fd, struct iovec *iov, int count, void *context)
{
    (void)context;
    struct mount *mount = the_mount;
    if (!mount->greeted && count == 2 && iov[1].iov_len >= sizeof(struct fuse_init_out) - 32) {
        struct fuse_init_out *init = iov[1].iov_base;
        init->flags |= FUSE_HANDLE_KILLPRIV_V2;
        mount->greeted = true;
    }
    return writev(fd, iov, count);
}

static ssize_t on_read_device(int fd, void *buffer, size_t size, void *context)
{
    (void)context;
    return read(fd, buffer, size);
}

static const struct fuse_custom_io device = {.writev = on_writev, .read = on_read_device};

/* What may have changed for parked requests. */
static uint64_t progress(const struct mount *mount)
{
    return back_progress(mount) + reader_progress(mount->reader);
}

struct loop {
    struct mount *mount;
    const struct mount_options *options;
    struct fuse_buf buffer;
    struct spin spin;
    struct wakeful wakeful;
    uint64_t seen;    /* progress, when parked requests were last tried */
    int64_t store_us; /* when the store was last looked at */
    int64_t tick_ms;  /* when the next tick is due */
    int64_t retry_ms;
    int64_t said_ms; /* when the log was last told that the store is away; 0: never */
};

/* Whoever waits for a store that is full or out of reach learns why from the log. */
static void note_absence(struct loop *loop, int64_t now_ms)
{
    struct err err;
    if (back_trouble(loop->mount, &err) != ERR_AGAIN ||
        (loop->said_ms != 0 && now_ms - loop->said_ms < SAY_MS)) {
        return;
    }
    fprintf(stderr, "drover mount: waiting for the store: %s\n", err.text);
    loop->said_ms = now_ms;
}

static void turn_shown(struct loop *loop)
{
    struct mount *mount = loop->mount;
    if (shown_turn(mount) && loop->options->ready) {
        loop->options->ready(loop->options->context);
    }
    if (shown_trouble(mount->shown, NULL) != ERR_OK) {
        fuse_session_exit(mount->session);
    }
}

static void serve_store(struct loop *loop)
{
    struct mount *mount = loop->mount;
    int64_t now_ms = clock_mono_ms();

    (void)back_run(mount, 0);
    if (now_ms >= loop->tick_ms) {
        back_tick(mount, now_ms);
        note_absence(loop, now_ms);
        loop->tick_ms = now_ms + TICK_MS;
        if (mount->shown) {
            turn_shown(loop); /* even if we never sleep */
        }
    }
    uint64_t now = progress(mount);
    if (mount->parked != NULL && (now != loop->seen || now_ms >= loop->retry_ms)) {
        loop->seen = now;
        loop->retry_ms = now_ms + RETRY_MS;
        request_retry(mount);
    }
}

/* Up to BATCH requests. False: there are no more. */
static bool serve_kernel(struct loop *loop)
{
    struct mount *mount = loop->mount;
    bool more = true;
    int done = 0;

    while (done < BATCH && !fuse_session_exited(mount->session)) {
        more = fuse_session_receive_buf(mount->session, &loop->buffer) > 0;
        if (!more) {
            break;
        }
        size_t late = mount->late_count;
        fuse_session_process_buf(mount->session, &loop->buffer);
        if (late > 0 && mount->late_count == late) {
            request_catch_up(mount); /* while whoever was served goes on */
        }
        done++;
        if (mount->parked != NULL) {
            break; /* something is awaited from the store */
        }
    }
    if (done > 0) {
        int64_t now_us = clock_mono_us();
        spin_served(&loop->spin, now_us);
        wakeful_served(&loop->wakeful, (unsigned)done, now_us);
    }
    return more;
}

static void wait_for_work(struct loop *loop)
{
    struct mount *mount = loop->mount;
    if (mount->dealer && back_run(mount, 0)) {
        return; /* its descriptor tells of news only once */
    }
    int fds[BACK_FDS];
    back_fds(mount, fds);
    int shown[SHOWN_FDS] = {-1, -1};
    if (mount->shown) {
        shown_fds(mount->shown, shown);
    }
    struct pollfd polls[1 + BACK_FDS + SHOWN_FDS] = {
        {.fd = fuse_session_fd(mount->session), .events = POLLIN},
        {.fd = fds[0], .events = POLLIN},
        {.fd = fds[1], .events = POLLIN},
        {.fd = shown[0], .events = POLLIN},
        {.fd = shown[1], .events = POLLIN},
    };
    int64_t left = loop->tick_ms - clock_mono_ms();
    int most = mount->parked != NULL ? RETRY_MS : TICK_MS;
    int rest_ms = wakeful_rest(&loop->wakeful, clock_mono_us());
    most = rest_ms >= 0 && rest_ms < most ? rest_ms : most;
    (void)poll(polls, sizeof polls / sizeof polls[0],
               left < 0      ? 0
               : left < most ? (int)left
                             : most);
    if (polls[3].revents || polls[4].revents) {
        turn_shown(loop);
    }
}

static void serve(struct mount *mount, const struct mount_options *options)
{
    struct loop loop = {.mount = mount, .options = options, .wakeful = {.fd = -1}};
    if (!mount->image) { /* of which nobody waits for an open */
        wakeful_open(&loop.wakeful);
    }

    while (!fuse_session_exited(mount->session)) {
        bool more = serve_kernel(&loop);
        int64_t now_us = clock_mono_us();
        bool spins = !more && spin_goes_on(&loop.spin, now_us);
        if (!spins || now_us - loop.spin.last_us >= LATE_US) {
            request_catch_up(mount);
        }
        if (!spins || mount->parked != NULL || now_us - loop.store_us >= STORE_US) {
            serve_store(&loop);
            loop.store_us = now_us;
        }
        if (!more && !spins) {
            wait_for_work(&loop);
        }
    }
    request_catch_up(mount);
    wakeful_close(&loop.wakeful);
    free(loop.buffer.mem);
}

static void fill_ops(const struct mount *mount, struct fuse_lowlevel_ops *ops)
{
    if (mount->image) {
        image_fill(ops);
        return;
    }
    names_fill(ops);
    attr_fill(ops);
    xattr_fill(ops);
    list_fill(ops);
    open_fill(ops);
    io_fill(ops);
    if (mount->dealer) {
        open_fill_remote(ops);
    }
}

static enum err_code new_session(struct mount *mount, const struct mount_options *options,
                                 struct err *err)
{
    struct fuse_lowlevel_ops ops = {.init = on_init};
    AUTO_STR struct str text = {0};
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

    fill_ops(mount, &ops);
    str_add(&text, "fsname=");
    for (const char *c = options->label; *c; c++) {
        str_addf(&text, *c == ',' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    str_addf(&text, ",subtype=drover,default_permissions%s%s",
             options->allow_other ? ",allow_other" : "", mount->read_only ? ",ro" : "");
    fuse_opt_add_arg(&args, "drover");
    fuse_opt_add_arg(&args, "-o");
    fuse_opt_add_arg(&args, str_text(&text));
    mount->session = fuse_session_new(&args, &ops, sizeof ops, mount);
    mount->greeted = false;
    fuse_opt_free_args(&args);
    if (mount->session == NULL) {
        return err_set(err, ERR_IO, "%s: cannot begin a FUSE session", options->folder);
    }
    return ERR_OK;
}

/* where: the folder, or the device of a file system that is mounted already */
static enum err_code open_session(struct mount *mount, const struct mount_options *options,
                                  const char *where, struct err *err)
{
    enum err_code code = new_session(mount, options, err);
    if (code != ERR_OK) {
        return code;
    }
    if (fuse_session_mount(mount->session, where) != 0) {
        fuse_session_destroy(mount->session);
        return err_set(err, ERR_INVALID,
                       "%s: cannot be mounted on: FUSE refuses (see above, or mount.log)",
                       options->folder);
    }
    int fd = fuse_session_fd(mount->session);
    the_mount = mount;
    if (fuse_session_custom_io(mount->session, &device, fd) != 0 ||
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ||
        fuse_set_signal_handlers(mount->session) != 0) {
        fuse_session_unmount(mount->session);
        fuse_session_destroy(mount->session);
        return err_set(err, ERR_IO, "%s: cannot set up the FUSE session", options->folder);
    }
    return ERR_OK;
}

static enum err_code flush_one(struct mount *mount, struct file *file, struct err *err)
{
    int posix;
    enum err_code code;
    while ((code = file_flush(mount, file, false, &posix, err)) == ERR_AGAIN) {
        back_want(mount);
        enum err_code trouble = back_trouble(mount, NULL);
        if (trouble != ERR_OK && trouble != ERR_AGAIN) {
            return back_trouble(mount, err);
        }
        back_make_room(mount);
        (void)back_run(mount, RETRY_MS);
    }
    return code;
}

/* Files that are still open when the mount ends: what was written to them is kept, as a close
 * would. */
static enum err_code flush_all(struct mount *mount, struct err *err)
{
    enum err_code worst = ERR_OK;
    for (size_t i = 0; i < FILE_BUCKETS; i++) {
        while (mount->files[i] != NULL) {
            struct file *file = mount->files[i];
            enum err_code code = flush_one(mount, file, err);
            worst = code != ERR_OK ? code : worst;
            if (file->has_draft) {
                file_end_draft(mount, file);
            }
            back_release(mount, file->inode);
            if (file->is_made) {
                back_close(mount, file->inode, true); /* else it waits for that for ever */
            }
            file->opens = 0;
            file_drop(mount, file);
        }
    }
    return worst;
}

/* FUSE answers everything. */
static enum err_code run_fuse(struct mount *mount, const struct mount_options *options,
                              struct err *err)
{
    enum err_code code = open_session(mount, options, options->folder, err);
    if (code != ERR_OK) {
        return code;
    }
    if (options->ready) {
        options->ready(options->context);
    }
    serve(mount, options);
    request_fail_all(mount);
    fuse_remove_signal_handlers(mount->session);
    fuse_session_unmount(mount->session);
    back_end(mount);
    code = flush_all(mount, err);
    if (code == ERR_OK && !mount->read_only) {
        code = back_sync_all(mount, err);
    }
    fuse_session_destroy(mount->session);
    return code;
}

static void block_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
}

/* The kernel answers what it can. An error: it was never mounted. */
static enum err_code run_shown(struct mount *mount, const struct mount_options *options,
                               struct err *err)
{
    char where[32];
    sigset_t old;
    pthread_sigmask(SIG_SETMASK, NULL, &old);
    enum err_code code = shown_open(mount, options, err);
    if (code != ERR_OK) {
        return code;
    }
    int fd = shown_take_device(mount->shown);
    snprintf(where, sizeof where, "/dev/fd/%d", fd);
    code = open_session(mount, options, where, err);
    if (code == ERR_OK) {
        shown_begin(mount->shown, fd);
        serve(mount, options);
        code = shown_trouble(mount->shown, err);
        request_fail_all(mount);
        block_signals(); /* one more of those that end it must not end it half-way */
        fuse_remove_signal_handlers(mount->session);
        fuse_session_destroy(mount->session);
    }
    shown_close(mount);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

static enum err_code run_read_only(struct mount *mount, const struct mount_options *options,
                                   struct err *err)
{
    struct err why = {0};
    enum err_code code = run_shown(mount, options, &why);
    if (code == ERR_OK) {
        back_end(mount);
        return ERR_OK;
    }
    if (code != ERR_UNSUPPORTED) {
        fprintf(stderr, "drover mount: without EROFS, since: %s\n", why.text);
    }
    return run_fuse(mount, options, err);
}

static enum err_code run(struct mount *mount, const struct mount_options *options, struct err *err)
{
    mount->read_only = options->read_only;
    mount->uid = getuid();
    mount->parked_end = &mount->parked;
    mount->places = mem_array(PLACES + STEPS, sizeof mount->places[0]);

    bool is_still = mount->read_only && !mount->dealer && options->scratch;
    enum err_code code =
        is_still ? run_read_only(mount, options, err) : run_fuse(mount, options, err);
    free(mount->places);
    free(mount->list_buffer);
    str_release(&mount->scratch);
    str_release(&mount->said);
    return code;
}

enum err_code mount_run(struct volume *volume, struct reader *reader,
                        const struct mount_options *options, struct err *err)
{
    struct mount *mount = mem_alloc(sizeof *mount);
    mount->volume = volume;
    mount->engine = volume_engine(volume);
    mount->reader = reader;
    mount->timeout_s = 86400; /* all changes come through this mount */
    enum err_code code = run(mount, options, err);
    free(mount);
    return code;
}

enum err_code mount_run_remote(const struct mount_remote *remote, struct reader *reader,
                               const struct mount_options *options, struct err *err)
{
    struct mount *mount = mem_alloc(sizeof *mount);
    mount->dealer = remote->dealer;
    mount->link = meta_dealer_link(remote->dealer);
    mount->store = remote->store;
    mount->upload = upload_create(remote->store, remote->format);
    mount->seen = mem_array(SEEN, sizeof mount->seen[0]);
    mount->spots = spots_create();
    mount->reader = reader;
    enum err_code code = run(mount, options, err);
    while (!upload_is_idle(mount->upload)) {
        (void)object_run(mount->store, RETRY_MS);
    }
    upload_destroy(mount->upload);
    free(mount->seen);
    spots_destroy(mount->spots);
    free(mount);
    return code;
}
