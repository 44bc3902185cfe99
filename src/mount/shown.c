#include "mount/shown.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "mount/back.h"
#include "mount/image_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RETRY_MS = 20,
    BACKLOG = 8,
    UNIQUE_MOUNT_ID = 0x4000, /* STATX_MNT_ID_UNIQUE, which older headers do not have, */
    STATMOUNT = 457,          /* nor this call */
    SOURCE_MAX = 255,         /* what the kernel takes */
    LOST_MS = 5000,           /* nobody waits longer for what is no longer mounted */
};

struct shown {
    struct mount_options options;
    char name[80]; /* of the socket; behind a NUL in its address */
    int listener;
    int image;         /* the file */
    int context;       /* EROFS, half configured */
    int device;        /* FUSE; -1: the session has it */
    int content;       /* the file that FUSE serves, not opened yet */
    int ended;         /* what the child has to say */
    pid_t child;       /* which mounts; 0: none, any more */
    struct str folder; /* that it works in; empty: none */
    bool is_mounted;
    uint64_t mount_id;
    int64_t lost_ms;    /* since when somebody waits for what is not mounted any more; 0: nobody */
    enum err_code code; /* why it could not be mounted */
    struct err err;
};

static enum err_code refuse(struct err *err, const char *what)
{
    return err_errno(err, errno, "%s", what);
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

/* Who is root in a part of the machine only, a container's user namespace, may not mount it. */
static bool is_all_users(void)
{
    AUTO_STR struct str map = {0};
    unsigned inside = 1;
    unsigned outside = 1;
    unsigned count = 0;
    return io_read_file("/proc/self/uid_map", 1 << 12, &map, NULL) == ERR_OK &&
           sscanf(str_text(&map), "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
           outside == 0 && count == UINT32_MAX;
}

/* Without direct reads a mistake in the middle of a long one would look like zeros. */
static enum err_code open_context(struct shown *shown, struct err *err)
{
    if (!is_all_users()) {
        return err_set(err, ERR_UNSUPPORTED, "EROFS: not in a user namespace");
    }
    shown->context = fsopen("erofs", FSOPEN_CLOEXEC);
    if (shown->context < 0 ||
        fsconfig(shown->context, FSCONFIG_SET_FLAG, "directio", NULL, 0) != 0 ||
        fsconfig(shown->context, FSCONFIG_SET_FLAG, "ro", NULL, 0) != 0 ||
        fsconfig(shown->context, FSCONFIG_SET_FLAG, "noacl", NULL, 0) != 0) {
        (void)refuse(err, "EROFS");
        return err->code = ERR_UNSUPPORTED; /* not root, or not this kernel */
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
    back_tick(mount, clock_mono_ms()); /* or what it holds would be collected */
    return ERR_OK;
}

static enum err_code make_image(struct shown *shown, struct mount *mount, struct err *err)
{
    struct image_xattr socket = {"user.drover.socket", shown->name, strlen(shown->name)};
    struct statfs of;
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error of writing, no more */
    shown->image = open(shown->options.scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (shown->image < 0 || fstatfs(shown->image, &of) != 0) {
        return err_errno(err, errno, "%s", shown->options.scratch);
    }
    if (of.f_type == TMPFS_MAGIC || of.f_type == OVERLAYFS_SUPER_MAGIC) {
        return err_set(err, ERR_INVALID,
                       "%s: EROFS reads from disks alone, and this is tmpfs or overlayfs",
                       shown->options.scratch);
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
                            .ended = -1};
    mount->shown = shown;
    enum err_code code = open_context(shown, err);
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
 *
 * The kernel opens the file that FUSE serves, so somebody else must mount while we serve: another
 * process, which has closed the device. A thread of this one would wait for us without end if we
 * were killed just then, since the device is closed only when all threads have gone.
 */

struct report { /* of that process */
    int why;    /* errno; 0: it is mounted */
    uint64_t mount_id;
};

static const char folder_prefix[] = ".drover-mount-";

/* 0: none. An empty path: of the mount that fd is. */
static uint64_t mount_id_of(int fd, const char *path)
{
    struct statx of;
    int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    return statx(fd, path, flags, STATX_MNT_ID | UNIQUE_MOUNT_ID, &of) == 0 ? of.stx_mnt_id : 0;
}

/* Is it mounted anywhere that we can see? */
static bool is_mounted(uint64_t mount_id)
{
    struct { /* mnt_id_req */
        uint32_t size, spare;
        uint64_t id, param;
    } ask = {.size = sizeof ask, .id = mount_id};
    uint64_t room[128];
    return syscall(STATMOUNT, &ask, room, sizeof room, 0) == 0 || errno != ENOENT;
}

/* What those left who were killed while they had such a folder. */
static void sweep(const char *scratch)
{
    enum { OLD_S = 60 };
    DIR *dir = opendir(scratch);
    struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir)) != NULL) {
        AUTO_STR struct str path = {0};
        struct stat of;
        str_addf(&path, "%s/%s", scratch, entry->d_name);
        if (strncmp(entry->d_name, folder_prefix, strlen(folder_prefix)) == 0 &&
            lstat(str_text(&path), &of) == 0 && S_ISDIR(of.st_mode) &&
            of.st_mtime < time(NULL) - OLD_S) {
            (void)!io_remove_tree(str_text(&path), NULL);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* The table of mounts shows the path by which the image was opened. So it is opened by a path that
 * reads like the volume's name, in a folder that is there for a moment. False: it has none. */
static bool name_source(struct shown *shown, const char *target)
{
    AUTO_STR struct str path = {0};
    const char *label = shown->options.label;
    str_addf(&path, "/%s/", label);
    if (!label[0] || strlen(label) > SOURCE_MAX || strstr(str_text(&path), "/../") ||
        strstr(str_text(&path), "/./")) {
        return false;
    }
    sweep(shown->options.scratch);
    str_addf(&shown->folder, "%s/%sXXXXXX", shown->options.scratch, folder_prefix);
    if (!mkdtemp(shown->folder.text)) {
        str_clear(&shown->folder);
        return false;
    }
    str_clear(&path);
    str_addf(&path, "%s/%s", str_text(&shown->folder), label);
    char *last = strrchr(path.text, '/');
    *last = '\0';
    if (io_make_dirs(path.text, NULL) != ERR_OK) {
        return false;
    }
    *last = '/';
    return symlink(target, path.text) == 0;
}

static int attach(const struct shown *shown, uint64_t *mount_id)
{
    AUTO_CLOSE int mount = fsmount(shown->context, FSMOUNT_CLOEXEC,
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mount < 0) {
        return -1;
    }
    *mount_id = mount_id_of(mount, "");
    return move_mount(mount, "", AT_FDCWD, shown->options.folder, MOVE_MOUNT_F_EMPTY_PATH);
}

struct paths {
    char image[40], content[40];
    const char *source;
};

/* The child: system calls alone, as other threads may have held locks. FUSE would read nothing of a
 * file that nobody has looked at. */
static _Noreturn void mount_it(const struct shown *shown, const struct paths *paths, int out)
{
    struct stat of;
    struct report report = {0};
    bool is_done = (shown->folder.size == 0 || chdir(shown->folder.text) == 0) &&
                   stat(paths->content, &of) == 0 &&
                   set(shown->context, "source", paths->source) == 0 &&
                   set(shown->context, "device", paths->content) == 0 &&
                   fsconfig(shown->context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0 &&
                   attach(shown, &report.mount_id) == 0;
    report.why = is_done ? 0 : errno ? errno : EIO;
    (void)!write(out, &report, sizeof report);
    _exit(0);
}

void shown_begin(struct shown *shown, int device)
{
    struct paths paths;
    int ends[2];
    snprintf(paths.image, sizeof paths.image, "/proc/self/fd/%d", shown->image);
    snprintf(paths.content, sizeof paths.content, "/proc/self/fd/%d", shown->content);
    paths.source = name_source(shown, paths.image) ? shown->options.label : paths.image;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        shown->code = err_errno(&shown->err, errno, "no pipe");
        return;
    }
    pid_t parent = getpid();
    shown->child = _Fork();
    if (shown->child == 0) {
        close(device);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(0);
        }
        mount_it(shown, &paths, ends[1]);
    }
    if (shown->child < 0) {
        shown->code = err_errno(&shown->err, errno, "no process to mount it");
    }
    close(ends[1]);
    shown->ended = ends[0];
}

/* --- serving -----------------------------------------------------------------------------------
 */

void shown_fds(const struct shown *shown, int out[SHOWN_FDS])
{
    out[0] = shown->child > 0 ? shown->ended : -1;
    out[1] = shown->listener;
}

static void remove_folder(struct shown *shown)
{
    if (shown->folder.size > 0) {
        (void)!io_remove_tree(shown->folder.text, NULL);
        str_clear(&shown->folder);
    }
}

/* The child has ended, or is about to. */
static void join(struct shown *shown)
{
    struct report report = {.why = ECHILD};
    if (shown->child <= 0) {
        return;
    }
    if (read(shown->ended, &report, sizeof report) != (ssize_t)sizeof report) {
        report.why = ECHILD; /* it was killed */
    }
    while (waitpid(shown->child, NULL, 0) < 0 && errno == EINTR) {
    }
    shown->child = 0;
    shown->mount_id = report.mount_id;
    shown->is_mounted = report.why == 0;
    if (!shown->is_mounted) {
        errno = report.why;
        shown->code = refuse(&shown->err, "EROFS");
    }
    remove_folder(shown);
    close_fd(&shown->context);
    close_fd(&shown->content); /* EROFS has it open */
    close_fd(&shown->image);
}

/* To whoever asks: a few thousand bytes, which a socket takes at once. */
static void answer(struct mount *mount)
{
    int fd = -1;
    struct sockaddr_un who;
    socklen_t size = sizeof who;
    while ((fd = accept4(mount->shown->listener, (struct sockaddr *)&who, &size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        size = sizeof who;
        str_clear(&mount->scratch);
        stats_add(mount, &mount->scratch);
        (void)!send(fd, mount->scratch.text, mount->scratch.size, MSG_NOSIGNAL);
        close(fd);
    }
}

/* Unmounting waits for what was being read ahead, and cannot be killed while it does. */
static void let_go(struct mount *mount)
{
    struct shown *shown = mount->shown;
    int64_t now_ms = clock_mono_ms();
    if (mount->parked == NULL || !shown->is_mounted || is_mounted(shown->mount_id)) {
        shown->lost_ms = 0;
    } else if (shown->lost_ms == 0) {
        shown->lost_ms = now_ms;
    } else if (now_ms - shown->lost_ms >= LOST_MS) {
        request_fail_all(mount);
    }
}

bool shown_turn(struct mount *mount)
{
    struct shown *shown = mount->shown;
    struct pollfd ended = {.fd = shown->ended, .events = POLLIN};
    answer(mount);
    let_go(mount);
    if (shown->child > 0 && poll(&ended, 1, 0) > 0) {
        join(shown);
        return shown->is_mounted;
    }
    return false;
}

enum err_code shown_trouble(const struct shown *shown, struct err *err)
{
    if (shown->child > 0 || shown->code == ERR_OK) {
        return ERR_OK;
    }
    return err_set(err, shown->code, "%s", shown->err.text);
}

void shown_close(struct mount *mount)
{
    struct shown *shown = mount->shown;
    join(shown);
    if (shown->is_mounted && mount_id_of(AT_FDCWD, shown->options.folder) == shown->mount_id) {
        (void)!umount2(shown->options.folder, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
    close_fd(&shown->listener);
    close_fd(&shown->image);
    close_fd(&shown->context);
    close_fd(&shown->device);
    close_fd(&shown->content);
    close_fd(&shown->ended);
    remove_folder(shown);
    str_release(&shown->folder);
    image_destroy(mount->image);
    free(shown);
    mount->image = NULL;
    mount->shown = NULL;
}
