#include "master/place.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 1000000 };

static enum err_code add_data_folder(struct str *out, const char *name, struct err *err)
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    if (data && data[0] == '/') {
        str_addf(out, "%s/drover/%s", data, name);
    } else if (home && home[0] == '/') {
        str_addf(out, "%s/.local/share/drover/%s", home, name);
    } else {
        return err_set(err, ERR_NOT_FOUND, "HOME is not set: say where with --state DIR");
    }
    return ERR_OK;
}

enum err_code place_runs_folder(struct str *out, struct err *err)
{
    return add_data_folder(out, "runs", err);
}

enum err_code place_server_folder(struct str *out, struct err *err)
{
    return add_data_folder(out, "server", err);
}

enum err_code place_create_run(const char *name, struct str *folder, struct err *err)
{
    AUTO_STR struct str runs = {0};
    enum err_code code = place_runs_folder(&runs, err);
    if (code == ERR_OK) {
        code = io_make_dirs(str_text(&runs), err);
    }
    if (code != ERR_OK) {
        return code;
    }
    for (int n = 1; n < RUNS_MAX; n++) {
        str_clear(folder);
        str_addf(folder, "%s/%s-%d", str_text(&runs), name, n);
        if (mkdir(str_text(folder), 0777) == 0) {
            return ERR_OK;
        }
        if (errno != EEXIST) {
            return err_errno(err, errno, "%s", str_text(folder));
        }
    }
    return err_set(err, ERR_QUOTA, "%s: too many runs of that name", str_text(&runs));
}

struct run {
    char *id;
    struct timespec made;
};

static int newest_first(const void *a, const void *b)
{
    const struct run *x = a;
    const struct run *y = b;
    if (x->made.tv_sec != y->made.tv_sec) {
        return x->made.tv_sec < y->made.tv_sec ? 1 : -1;
    }
    if (x->made.tv_nsec != y->made.tv_nsec) {
        return x->made.tv_nsec < y->made.tv_nsec ? 1 : -1;
    }
    return strcmp(x->id, y->id);
}

/* A run's age is that of its lock file, which is made with it and never changed. */
static bool run_age(const char *runs, const char *id, struct timespec *made)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s/lock", runs, id);
    struct stat st;
    if (stat(str_text(&path), &st) != 0) {
        return false;
    }
    *made = st.st_mtim;
    return true;
}

enum err_code place_each_run(place_run_fn fn, void *context, struct err *err)
{
    AUTO_STR struct str runs = {0};
    enum err_code code = place_runs_folder(&runs, err);
    if (code != ERR_OK) {
        return code;
    }
    DIR *dir = opendir(str_text(&runs));
    if (!dir) {
        return errno == ENOENT ? ERR_OK : err_errno(err, errno, "%s", str_text(&runs));
    }
    struct run *list = NULL;
    size_t count = 0;
    size_t cap = 0;
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        struct run run = {0};
        if (entry->d_name[0] != '.' && run_age(str_text(&runs), entry->d_name, &run.made)) {
            run.id = mem_strdup(entry->d_name);
            VEC_PUSH(list, count, cap) = run;
        }
    }
    closedir(dir);
    if (count > 0) {
        qsort(list, count, sizeof *list, newest_first);
    }
    bool go_on = true;
    for (size_t i = 0; i < count; i++) {
        AUTO_STR struct str folder = {0};
        str_addf(&folder, "%s/%s", str_text(&runs), list[i].id);
        go_on = go_on && fn(context, list[i].id, str_text(&folder));
        free(list[i].id);
    }
    free(list);
    return ERR_OK;
}

static bool take_first(void *context, const char *id, const char *folder)
{
    (void)id;
    str_add(context, folder);
    return false;
}

enum err_code place_find_run(const char *id, struct str *folder, struct err *err)
{
    if (!id) {
        size_t size_before = folder->size;
        enum err_code code = place_each_run(take_first, folder, err);
        if (code == ERR_OK && folder->size == size_before) {
            code = err_set(err, ERR_NOT_FOUND, "there are no runs yet: drover run RECIPE");
        }
        return code;
    }
    if (id[0] == '\0' || id[0] == '.' || strchr(id, '/')) {
        return err_set(err, ERR_NOT_FOUND, "%s: not the name of a run (drover list)", id);
    }
    AUTO_STR struct str path = {0};
    enum err_code code = place_runs_folder(&path, err);
    if (code != ERR_OK) {
        return code;
    }
    str_addf(&path, "/%s", id);
    if (access(str_text(&path), F_OK) != 0) {
        return err_set(err, ERR_NOT_FOUND, "there is no run '%s' (drover list)", id);
    }
    str_add(folder, str_text(&path));
    return ERR_OK;
}

bool place_has_state(const char *folder, bool *strange)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/drover.db", folder);
    *strange = false;
    if (access(str_text(&path), F_OK) == 0) {
        return true;
    }
    DIR *dir = opendir(folder);
    if (!dir) {
        *strange = errno != ENOENT;
        return false;
    }
    errno = 0;
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        bool ours = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                    strcmp(entry->d_name, "lock") == 0;
        *strange = *strange || !ours;
    }
    closedir(dir);
    return false;
}

/* The holder's pid, as it wrote it; 0 if unknown. */
static long lock_holder(int fd)
{
    char text[32] = {0};
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

enum err_code place_lock(const char *folder, int wait_ms, int *fd, struct err *err)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/lock", folder);
    int lock = open(str_text(&path), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0) {
        return err_errno(err, errno, "%s", str_text(&path));
    }
    int64_t until_ms = clock_mono_ms() + wait_ms;
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            enum err_code code = err_errno(err, errno, "%s", str_text(&path));
            close(lock);
            return code;
        }
        if (clock_mono_ms() >= until_ms) {
            enum err_code code =
                err_set(err, ERR_DENIED,
                        "%s is in use by another drover (pid %ld): wait for it, or stop it", folder,
                        lock_holder(lock));
            close(lock);
            return code;
        }
        usleep(10000);
    }
    char pid[32];
    int size = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    struct stat st;
    bool fresh = fstat(lock, &st) == 0 && st.st_size == 0;
    struct timespec keep[2] = {st.st_atim, st.st_mtim};
    if (pwrite(lock, pid, (size_t)size, 0) != size || ftruncate(lock, size) != 0) {
        enum err_code code = err_errno(err, errno, "%s", str_text(&path));
        close(lock);
        return code;
    }
    if (!fresh) {
        futimens(lock, keep); /* its age is the run's */
    }
    *fd = lock;
    return ERR_OK;
}

bool place_is_locked(const char *folder)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/lock", folder);
    AUTO_CLOSE int fd = open(str_text(&path), O_RDONLY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void place_add_log(struct str *out, const char *folder, const char *experiment, uint64_t task,
                   uint32_t attempt)
{
    str_addf(out, "%s/logs/%s/%" PRIu64 "/%" PRIu64 ".%" PRIu32 ".log", folder, experiment,
             task / 1000, task, attempt);
}

void place_add_attempt(struct str *out, const char *folder, const char *experiment, uint64_t task,
                       uint32_t attempt)
{
    str_addf(out, "%s/attempts/%s/%" PRIu64 "/%" PRIu64 ".%" PRIu32, folder, experiment,
             task / 1000, task, attempt);
}
