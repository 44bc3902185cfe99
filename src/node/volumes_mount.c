/* The processes that mount volumes: starting, ending, and what they leave. */
#include "base/io.h"
#include "base/mem.h"
#include "node/agent.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 12, NAME_TRIES = 10000 };

char *volumes_key(const Drover__Volume *volume, bool for_people)
{
    struct str key = {0};
    str_add(&key, volume->store);
    if (volume->snapshot[0]) {
        str_addf(&key, "@%s", volume->snapshot);
    }
    if (!for_people) {
        str_addf(&key, " %s %s %s %s", volume->endpoint, volume->region, volume->addressing,
                 volume->through);
    }
    return str_take(&key);
}

/* --- starting -------------------------------------------------------------------------------- */

/* Of a command line: each in one block of memory, so that nothing is allocated after the fork. */
struct arguments {
    char *texts[ARGUMENTS_MAX + 1];
    size_t count;
};

static void add_argument(struct arguments *arguments, const char *option, const char *value)
{
    struct str text = {0};
    CHECK(arguments->count < ARGUMENTS_MAX);
    str_add(&text, option);
    str_add(&text, value);
    arguments->texts[arguments->count++] = str_take(&text);
}

static void add_option(struct arguments *arguments, const char *option, const char *value)
{
    if (value[0]) {
        add_argument(arguments, option, value);
    }
}

static void add_url_path(const struct volumes_place *place, struct str *out)
{
    str_addf(out, "%s.url", place->mount);
}

/* How a volume is mounted: through its owner, where nodes share it, or by ourselves. */
static void make_arguments(const struct volumes_place *place, const Drover__Volume *volume,
                           struct arguments *out)
{
    AUTO_FREE char *what = volumes_key(volume, true);
    AUTO_STR struct str file = {0};
    add_url_path(place, &file);
    add_argument(out, "drover", "");
    add_argument(out, "mount", "");
    add_argument(out, "--foreground", "");
    add_argument(out, "--for-node", "");
    add_option(out, "--endpoint=", volume->endpoint);
    add_option(out, "--region=", volume->region);
    add_option(out, "--addressing=", volume->addressing);
    add_argument(out, "--", "");
    add_argument(out, volume->through[0] ? "@" : "", volume->through[0] ? str_text(&file) : what);
    add_argument(out, place->mount, "");
}

static void free_arguments(struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->count; i++) {
        free(arguments->texts[i]);
    }
}

struct child_files {
    int null;
    int said;
    int log;
};

/* After a fork in a program with threads: only what is safe in a signal handler. */
static _Noreturn void become_mount(const char *program, char **argv,
                                   const struct child_files *files, pid_t parent)
{
    sigset_t none;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(files->null, 0) < 0 || dup2(files->said, 1) < 0 ||
        dup2(files->log, 2) < 0) {
        _exit(127);
    }
    close_range(3, ~0U, 0);
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(program, argv);
    _exit(127);
}

static pid_t start(const char *program, char **argv, const struct child_files *files)
{
    sigset_t all;
    sigset_t before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = _Fork();
    if (pid == 0) {
        become_mount(program, argv, files, parent);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

/* WORK/volumes/N, which was not there before, and the log beside it. */
static enum err_code make_folder(struct agent *agent, struct volumes_place *place, struct err *err)
{
    AUTO_STR struct str path = {0};
    const char *work = agent->options->work_folder;
    str_addf(&path, "%s/volumes", work);
    enum err_code code = io_make_dirs(str_text(&path), err);
    for (int i = 0; code == ERR_OK && i < NAME_TRIES; i++) {
        str_clear(&path);
        str_addf(&path, "%s/volumes/%llu", work, (unsigned long long)++agent->volumes.next_name);
        if (mkdir(str_text(&path), 0700) == 0) {
            place->mount = mem_strdup(str_text(&path));
            return ERR_OK;
        }
        if (errno != EEXIST) { /* else something is still mounted there */
            return err_errno(err, errno, "%s", str_text(&path));
        }
    }
    return code != ERR_OK ? code : err_set(err, ERR_EXISTS, "%s: full", str_text(&path));
}

static int open_log(const struct volumes_place *place)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s.log", place->mount);
    return open(str_text(&path), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

/* The owner's address holds its secret. */
static enum err_code write_url(const struct volumes_place *place, const char *url, struct err *err)
{
    AUTO_STR struct str path = {0};
    add_url_path(place, &path);
    return io_replace_file(str_text(&path), url, strlen(url), 0600, err);
}

enum err_code volumes_mount(struct agent *agent, struct volumes_place *place,
                            const Drover__Volume *volume, struct err *err)
{
    enum err_code code = make_folder(agent, place, err);
    if (code == ERR_OK && volume->through[0]) {
        code = write_url(place, volume->through, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    int ends[2] = {-1, -1};
    struct arguments arguments = {0};
    const char *program = agent->options->program ? agent->options->program : "/proc/self/exe";
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int log = open_log(place);
    if (null < 0 || log < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return err_errno(err, errno, "%s: cannot be mounted", place->shown);
    }
    make_arguments(place, volume, &arguments);
    struct child_files files = {null, ends[1], log};
    place->pid = start(program, arguments.texts, &files);
    int why = errno;
    free_arguments(&arguments);
    close(ends[1]);
    place->fd = ends[0];
    struct epoll_event event = {.events = EPOLLIN};
    if (place->pid < 0) {
        place->pid = 0;
        return err_errno(err, why, "%s: no process to mount it", place->shown);
    }
    if (epoll_ctl(agent->volumes.epoll, EPOLL_CTL_ADD, place->fd, &event) != 0) {
        return err_errno(err, errno, "%s: cannot be mounted", place->shown);
    }
    return ERR_OK;
}

bool volumes_is_shared(const struct volumes_place *place)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s.log", place->mount);
    AUTO_CLOSE int fd = open(str_text(&path), O_RDONLY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* --- ending ---------------------------------------------------------------------------------- */

void volumes_unmount(struct volumes_place *place)
{
    place->state = VOLUMES_LEAVING;
    if (place->pid > 0) {
        kill(place->pid, SIGTERM);
    }
}

/* The group, too, for what it started may have come to us. It is not asked for the process itself,
 * which founds it only some time after the fork. */
bool volumes_collect(struct volumes_place *place)
{
    if (place->pid == 0) {
        return true;
    }
    pid_t pid = place->pid;
    while (waitpid(-pid, NULL, WNOHANG) > 0) {
    }
    pid_t got = waitpid(pid, NULL, WNOHANG);
    if (got == pid || (got < 0 && errno == ECHILD)) {
        place->pid = 0;
    }
    return place->pid == 0;
}

void volumes_read_why(struct volumes_place *place)
{
    AUTO_STR struct str path = {0};
    char words[300];
    str_addf(&path, "%s.log", place->mount);
    io_last_words(str_text(&path), words, sizeof words);
    (void)!err_set(&place->why, ERR_IO, "volume %s: %s", place->shown,
                   words[0] ? words : "its mount has ended");
}

static void unmount_stale(const char *folder)
{
    if (umount2(folder, MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno != EPERM) {
        return;
    }
    pid_t child = _Fork(); /* those who are not root ask the helper that mounted it */
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 2);
        execlp("fusermount3", "fusermount3", "-u", "-z", "--", folder, (char *)NULL);
        _exit(127);
    }
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
}

void volumes_remove_place_files(const struct volumes_place *place)
{
    AUTO_STR struct str path = {0};
    if (!place->mount) {
        return;
    }
    if (rmdir(place->mount) != 0 && errno == EBUSY) { /* it was killed */
        unmount_stale(place->mount);
        rmdir(place->mount);
    }
    str_addf(&path, "%s.log", place->mount);
    unlink(str_text(&path));
    str_clear(&path);
    add_url_path(place, &path);
    unlink(str_text(&path));
}

void volumes_clean(const char *work)
{
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/volumes", work);
    DIR *list = opendir(str_text(&folder));
    const struct dirent *entry = NULL;
    while (list && (entry = readdir(list)) != NULL) {
        AUTO_STR struct str path = {0};
        const char *name = entry->d_name;
        if (!isdigit((unsigned char)name[0])) {
            continue;
        }
        str_addf(&path, "%s/%s", str_text(&folder), name);
        if (strchr(name, '.')) {
            unlink(str_text(&path));
            continue;
        }
        unmount_stale(str_text(&path));
        rmdir(str_text(&path)); /* never what is in it */
    }
    if (list) {
        closedir(list);
    }
    rmdir(str_text(&folder));
}
