#include "cli/mount_node.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/mount_talk.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    OWNER_PATIENCE_MS = 60000, /* for one on this machine that may be on its way out */
    OWNER_LOOK_US = 200000,
};

void mount_node_say_ready(const char *folder)
{
    printf(folder ? "ready %s\n" : "ready\n", folder);
    fflush(stdout);
}

/* How the text about a volume's owner names a process of this machine. */
static void add_owner(struct str *out, int pid)
{
    char host[256] = "";
    (void)!gethostname(host, sizeof host - 1);
    str_addf(out, " on %s (pid ", host);
    if (pid > 0) {
        str_addf(out, "%d)", pid);
    }
}

static bool is_owner(const char *text, int pid)
{
    AUTO_STR struct str here = {0};
    add_owner(&here, pid);
    return strstr(text, str_text(&here)) != NULL;
}

/* The mount of the owner that the text names, if it is one we may use; its process in *pid. */
static char *find_mount(const char *text, int *pid)
{
    FILE *table = setmntent("/proc/self/mounts", "r");
    char *found = NULL;
    struct mntent *entry = NULL;
    while (table && !found && (entry = getmntent(table)) != NULL) {
        if (strcmp(entry->mnt_type, "fuse.drover") != 0 || !hasmntopt(entry, "rw")) {
            continue;
        }
        *pid = mount_talk_pid(entry->mnt_dir); /* 0 where it is another user's */
        found = *pid > 0 && is_owner(text, *pid) ? mem_strdup(entry->mnt_dir) : NULL;
    }
    if (table) {
        endmntent(table);
    }
    return found;
}

/* Another node's mount has a log beside it; while that is locked, it is not thought idle. */
static int lock_mount(const char *folder)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s.log", folder);
    int fd = open(str_text(&path), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!flock(fd, LOCK_SH | LOCK_NB);
    }
    return fd;
}

/* Until the other mount has ended, which is bad news, or a signal ends this process. */
static enum err_code stay_with(const char *folder, int pid, struct err *err)
{
    AUTO_CLOSE int watch = mount_talk_watch(pid);
    AUTO_CLOSE int lock = lock_mount(folder);
    (void)lock;
    if (watch >= 0 && mount_talk_pid(folder) == pid) {
        mount_node_say_ready(folder);
        struct pollfd file = {.fd = watch, .events = POLLIN};
        while (poll(&file, 1, -1) < 0 && errno == EINTR) {
        }
    }
    return err_set(err, ERR_IO, "its mount at %s has ended", folder);
}

/* Another has it, or was quicker. */
static bool is_taken(enum err_code code)
{
    return code == ERR_DENIED || code == ERR_STALE;
}

enum err_code mount_node_run(mount_node_fn serve, void *context, const bool *is_ready,
                             struct err *err)
{
    int64_t until_ms = clock_mono_ms() + OWNER_PATIENCE_MS;
    struct err why = {0};
    for (;;) {
        enum err_code code = serve(context, &why);
        if (*is_ready || !is_taken(code)) {
            return code == ERR_OK ? ERR_OK : err_set(err, code, "%s", why.text);
        }
        int pid = 0;
        AUTO_FREE char *folder = find_mount(why.text, &pid);
        if (folder) {
            return stay_with(folder, pid, err);
        }
        bool is_near = code == ERR_STALE || is_owner(why.text, 0);
        if (!is_near || clock_mono_ms() >= until_ms) {
            return err_set(err, ERR_DENIED,
                           "%s; one node at a time can write to it: use a snapshot to read it "
                           "(NAME@SNAPSHOT), or run these tasks on one node",
                           why.text);
        }
        usleep(OWNER_LOOK_US);
    }
}
