#include "mount/shown.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/thread.h"
#include "mount/back.h"
#include "mount/image_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    RETRY_MS = 20,
    BACKLOG = 8,
    UNIQUE_MOUNT_ID = 0x4000, /* STATX_MNT_ID_UNIQUE, which older headers do not have */
};

struct shown {
    struct mount_options options;
    char name[80]; /* of the socket; behind a NUL in its address */
    int listener;
    int image;   /* the file */
    int context; /* EROFS, half configured */
    int device;  /* FUSE; -1: the session has it */
    int content; /* the file that FUSE serves, not opened yet */
    int ended;   /* an eventfd: the thread has returned */
    pthread_t thread;
    bool has_thread, is_mounted;
    uint64_t mount_id;
    enum err_code code; /* of the thread, which alone has these until it has ended */
    struct err err;
};

static enum err_code refuse(struct err *err, const char *what)
{
    int why = errno;
    err_errno(err, why, "%s", what);
    bool never = why == EPERM || why == ENODEV || why == ENOSYS || why == EINVAL ||
                 why == EOPNOTSUPP || why == ENOTBLK || why == EACCES || why == ENOENT;
    return err->code = never ? ERR_UNSUPPORTED : err->code;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* --- before the session ------------------------------------------------------------------------
 */

static int set(int context, const char *key, const char *value)
{
    return fsconfig(context, FSCONFIG_SET_STRING, key, value, 0);
}

static int set_number(int context, const char *key, unsigned number)
{
    char text[40];
    snprintf(text, sizeof text, "%u", number);
    return set(context, key, text);
}

/* Without direct reads a mistake in the middle of a long one would look like zeros. */
static enum err_code open_context(struct shown *shown, struct err *err)
{
    shown->context = fsopen("erofs", FSOPEN_CLOEXEC);
    if (shown->context < 0 ||
        fsconfig(shown->context, FSCONFIG_SET_FLAG, "directio", NULL, 0) != 0 ||
        fsconfig(shown->context, FSCONFIG_SET_FLAG, "ro", NULL, 0) != 0 ||
        fsconfig(shown->context, FSCONFIG_SET_FLAG, "noacl", NULL, 0) != 0) {
        return refuse(err, "EROFS");
    }
    return ERR_OK;
}

static enum err_code open_listener(struct shown *shown, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        return refuse(err, "random numbers");
    }
    int size = snprintf(shown->name, sizeof shown->name, "drover-mount-%d-%016llx", (int)getpid(),
                        (unsigned long long)random);
    memcpy(address.sun_path + 1, shown->name, (size_t)size);
    shown->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    if (shown->listener < 0 ||
        bind(shown->listener, (const struct sockaddr *)&address, length) != 0 ||
        listen(shown->listener, BACKLOG) != 0) {
        return refuse(err, "a socket");
    }
    return ERR_OK;
}

static enum err_code wait_for_store(void *context, struct err *err)
{
    struct mount *mount = context;
    back_want(mount);
    enum err_code trouble = back_trouble(mount, err);
    if (trouble != ERR_OK && trouble != ERR_AGAIN) {
        return trouble;
    }
    (void)back_run(mount, RETRY_MS);
    return ERR_OK;
}

static enum err_code make_image(struct shown *shown, struct mount *mount, struct err *err)
{
    struct image_xattr socket = {"user.drover.socket", shown->name, strlen(shown->name)};
    shown->image = open(shown->options.scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (shown->image < 0) {
        return refuse(err, shown->options.scratch);
    }
    mount->image = image_create(shown->image);
    struct image_tree tree = {.image = mount->image,
                              .engine = mount->engine,
                              .root_xattr = &socket,
                              .uuid = volume_format(mount->volume)->uuid,
                              .wait = wait_for_store,
                              .context = mount};
    return image_tree_build(&tree, err);
}

/* A FUSE file system whose root is a file, mounted nowhere. */
static enum err_code open_device(struct shown *shown, struct err *err)
{
    shown->device = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    AUTO_CLOSE int context = shown->device < 0 ? -1 : fsopen("fuse", FSOPEN_CLOEXEC);
    if (context < 0 || set_number(context, "fd", (unsigned)shown->device) != 0 ||
        set(context, "rootmode", "100000") != 0 || /* a file */
        set_number(context, "user_id", getuid()) != 0 ||
        set_number(context, "group_id", getgid()) != 0 || set(context, "subtype", "drover") != 0 ||
        set(context, "source", "drover") != 0 ||
        fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) {
        return refuse(err, "FUSE");
    }
    shown->content = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
    return shown->content < 0 ? refuse(err, "FUSE") : ERR_OK;
}

enum err_code shown_open(struct mount *mount, const struct mount_options *options, struct err *err)
{
    struct engine_usage usage;
    engine_usage(mount->engine, &usage);
    if (usage.files > IMAGE_FILES_MAX) {
        return err_set(err, ERR_UNSUPPORTED, "more than %d files", (int)IMAGE_FILES_MAX);
    }
    struct shown *shown = mem_alloc(sizeof *shown);
    *shown = (struct shown){.options = *options,
                            .listener = -1,
                            .image = -1,
                            .context = -1,
                            .device = -1,
                            .content = -1,
                            .ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    mount->shown = shown;
    enum err_code code = shown->ended < 0 ? refuse(err, "an eventfd") : open_context(shown, err);
    if (code == ERR_OK) {
        code = open_listener(shown, err);
    }
    if (code == ERR_OK) {
        code = make_image(shown, mount, err);
    }
    if (code == ERR_OK) {
        code = open_device(shown, err);
    }
    if (code != ERR_OK) {
        shown_close(mount);
    }
    return code;
}

int shown_take_device(struct shown *shown)
{
    int device = shown->device;
    shown->device = -1;
    return device;
}

/* --- mounting ----------------------------------------------------------------------------------
 */

static uint64_t mount_id_of(const char *folder)
{
    struct statx of;
    int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW;
    return statx(AT_FDCWD, folder, flags, STATX_MNT_ID | UNIQUE_MOUNT_ID, &of) == 0 ? of.stx_mnt_id
                                                                                    : 0;
}

/* The table of mounts shows the path by which the image was opened. So it is opened by a path that
 * reads like the volume's name, in a folder that is there for a moment, as this thread sees it. */
static bool name_source(const struct shown *shown, const char *folder, const char *target)
{
    AUTO_STR struct str path = {0};
    const char *label = shown->options.label;
    str_addf(&path, "/%s/", label);
    if (!label[0] || strstr(str_text(&path), "/../") || strstr(str_text(&path), "/./")) {
        return false;
    }
    str_clear(&path);
    str_addf(&path, "%s/%s", folder, label);
    char *last = strrchr(path.text, '/');
    *last = '\0';
    if (io_make_dirs(path.text, NULL) != ERR_OK) {
        return false;
    }
    *last = '/';
    return symlink(target, path.text) == 0 && unshare(CLONE_FS) == 0 && chdir(folder) == 0;
}

static enum err_code create(struct shown *shown, struct err *err)
{
    char image[40];
    char content[40];
    struct stat stat_of;
    AUTO_STR struct str folder = {0};
    snprintf(image, sizeof image, "/proc/self/fd/%d", shown->image);
    snprintf(content, sizeof content, "/proc/self/fd/%d", shown->content);
    if (stat(content, &stat_of) !=
        0) { /* FUSE would read nothing of a root that nobody looked at */
        return refuse(err, "FUSE");
    }
    str_addf(&folder, "%s/mount.XXXXXX", shown->options.scratch);
    bool has_folder = mkdtemp(folder.text) != NULL;
    bool is_named = has_folder && name_source(shown, folder.text, image);
    int done = set(shown->context, "source", is_named ? shown->options.label : image);
    done = done == 0 ? set(shown->context, "device", content) : done;
    done = done == 0 ? fsconfig(shown->context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) : done;
    enum err_code code = done == 0 ? ERR_OK : refuse(err, "EROFS");
    if (has_folder) {
        (void)!io_remove_tree(folder.text, NULL);
    }
    return code;
}

static enum err_code attach(struct shown *shown, struct err *err)
{
    AUTO_CLOSE int mount = fsmount(shown->context, FSMOUNT_CLOEXEC,
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mount < 0 ||
        move_mount(mount, "", AT_FDCWD, shown->options.folder, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
        return refuse(err, "EROFS");
    }
    shown->mount_id = mount_id_of(shown->options.folder);
    return ERR_OK;
}

/* The kernel opens the file that FUSE serves, so the session must be served meanwhile. */
static void *mount_it(void *argument)
{
    struct shown *shown = argument;
    uint64_t one = 1;
    shown->code = create(shown, &shown->err);
    if (shown->code == ERR_OK) {
        shown->code = attach(shown, &shown->err);
    }
    if (write(shown->ended, &one, sizeof one) != (ssize_t)sizeof one) {
        check_failed(__FILE__, __LINE__, __func__, "an eventfd takes a one");
    }
    return NULL;
}

void shown_begin(struct shown *shown)
{
    int failed = thread_start(&shown->thread, mount_it, shown);
    shown->has_thread = failed == 0;
    if (failed) {
        shown->code = err_errno(&shown->err, failed, "no thread to mount it");
    }
}

/* --- serving -----------------------------------------------------------------------------------
 */

void shown_fds(const struct shown *shown, int out[SHOWN_FDS])
{
    out[0] = shown->has_thread ? shown->ended : -1;
    out[1] = shown->listener;
}

static void join(struct shown *shown)
{
    if (shown->has_thread) {
        pthread_join(shown->thread, NULL);
        shown->has_thread = false;
        shown->is_mounted = shown->code == ERR_OK;
        close_fd(&shown->context);
        close_fd(&shown->content); /* EROFS has it open */
        close_fd(&shown->image);
    }
}

/* To whoever asks: a few thousand bytes, which a socket takes at once. */
static void answer(struct mount *mount)
{
    int fd = -1;
    while ((fd = accept4(mount->shown->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        str_clear(&mount->scratch);
        stats_add(mount, &mount->scratch);
        (void)!send(fd, mount->scratch.text, mount->scratch.size, MSG_NOSIGNAL);
        close(fd);
    }
}

bool shown_turn(struct mount *mount)
{
    struct shown *shown = mount->shown;
    uint64_t count = 0;
    answer(mount);
    if (shown->has_thread && read(shown->ended, &count, sizeof count) == (ssize_t)sizeof count) {
        join(shown);
        return shown->is_mounted;
    }
    return false;
}

enum err_code shown_trouble(const struct shown *shown, struct err *err)
{
    if (shown->has_thread || shown->code == ERR_OK) {
        return ERR_OK;
    }
    return err_set(err, shown->code, "%s", shown->err.text);
}

void shown_close(struct mount *mount)
{
    struct shown *shown = mount->shown;
    join(shown);
    if (shown->is_mounted && mount_id_of(shown->options.folder) == shown->mount_id) {
        (void)!umount2(shown->options.folder, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
    close_fd(&shown->listener);
    close_fd(&shown->image);
    close_fd(&shown->context);
    close_fd(&shown->device);
    close_fd(&shown->content);
    close_fd(&shown->ended);
    image_destroy(mount->image);
    free(shown);
    mount->image = NULL;
    mount->shown = NULL;
}
