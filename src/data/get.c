/* Files out of a volume. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct getting {
    struct copy *copy;
    const char *root;   /* the path in the volume that is copied */
    const char *target; /* what it becomes here */
};

struct writing {
    struct copy *copy;
    int fd;
    const char *path;
};

static enum err_code write_piece(void *context, uint64_t offset, const void *bytes, size_t size,
                                 struct err *err)
{
    struct writing *writing = context;
    const uint8_t *from = bytes;
    if (from == NULL) { /* a hole stays one: the size is set at the end */
        writing->copy->counts.bytes += size;
        size = 0;
    }
    while (size > 0) {
        ssize_t put = pwrite(writing->fd, from, size, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return err_errno(err, errno, "%s", writing->path);
        }
        from += put;
        offset += (uint64_t)put;
        size -= (size_t)put;
        writing->copy->counts.bytes += (uint64_t)put;
    }
    if (writing->copy->note) {
        writing->copy->note(writing->copy->context, &writing->copy->counts, NULL, NULL);
    }
    return ERR_OK;
}

static void keep_looks(int fd, const struct engine_attr *attr)
{
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        clock_time_of(attr->mtime_ns),
    };
    if (geteuid() == 0) {
        (void)!fchown(fd, attr->uid, attr->gid);
    }
    (void)!fchmod(fd, attr->mode & 07777);
    (void)!futimens(fd, times);
}

static bool is_same(const char *target, const struct engine_attr *attr)
{
    struct stat stat;
    return lstat(target, &stat) == 0 && S_ISREG(stat.st_mode) &&
           (uint64_t)stat.st_size == attr->size && clock_ns_of(&stat.st_mtim) == attr->mtime_ns;
}

static enum err_code get_file(struct copy *copy, const char *target, const struct engine_attr *attr,
                              struct err *err)
{
    if (is_same(target, attr)) {
        copy->counts.same++;
        copy->counts.same_bytes += attr->size;
        return ERR_OK;
    }
    AUTO_STR struct str temporary = {0};
    str_addf(&temporary, "%s.part-%d", target, (int)getpid());
    struct writing writing = {copy, -1, target};
    writing.fd =
        open(str_text(&temporary), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (writing.fd < 0) {
        return err_errno(err, errno, "%s", str_text(&temporary));
    }
    enum err_code code = tree_read(&copy->tree, attr, write_piece, &writing, err);
    if (code == ERR_OK && ftruncate(writing.fd, (off_t)attr->size) != 0) {
        code = err_errno(err, errno, "%s", target);
    }
    keep_looks(writing.fd, attr);
    if (close(writing.fd) != 0 && code == ERR_OK) {
        code = err_errno(err, errno, "%s", target);
    }
    if (code == ERR_OK && rename(str_text(&temporary), target) != 0) {
        code = err_errno(err, errno, "%s", target);
    }
    if (code != ERR_OK) {
        (void)unlink(str_text(&temporary));
        return code;
    }
    copy->counts.files++;
    return ERR_OK;
}

static enum err_code get_link(struct copy *copy, const char *target, const struct engine_attr *attr,
                              struct err *err)
{
    AUTO_STR struct str link = {0};
    char there[ENGINE_TARGET_MAX + 1];
    enum err_code code = tree_readlink(&copy->tree, attr->inode, &link, err);
    if (code != ERR_OK) {
        return code;
    }
    ssize_t size = readlink(target, there, sizeof there);
    if (size == (ssize_t)link.size && memcmp(there, link.text, link.size) == 0) {
        copy->counts.same++;
        return ERR_OK;
    }
    if (symlink(str_text(&link), target) != 0) {
        return err_errno(err, errno, "%s", target);
    }
    copy->counts.links++;
    return ERR_OK;
}

static enum err_code get_one(void *context, const char *path, const struct engine_attr *attr,
                             struct err *err)
{
    struct getting *getting = context;
    struct copy *copy = getting->copy;
    const char *rest = path + strlen(getting->root);
    AUTO_STR struct str target = {0};
    str_add(&target, getting->target);
    rest += strspn(rest, "/");
    if (rest[0]) {
        str_addf(&target, "/%s", rest);
    }
    switch (attr->mode & S_IFMT) {
    case S_IFREG:
        return get_file(copy, str_text(&target), attr, err);
    case S_IFLNK:
        return get_link(copy, str_text(&target), attr, err);
    case S_IFDIR:
        if (mkdir(str_text(&target), 0777) != 0 && errno != EEXIST) {
            return err_errno(err, errno, "%s", str_text(&target));
        }
        copy->counts.folders++;
        return ERR_OK;
    default:
        copy->counts.odd++;
        if (copy->note) {
            copy->note(copy->context, &copy->counts, path,
                       "neither a file, a folder nor a symbolic link");
        }
        return ERR_OK;
    }
}

enum err_code copy_get(struct copy *copy, const char *path, const char *target, struct err *err)
{
    struct engine_attr attr;
    AUTO_STR struct str into = {0};
    struct stat stat_of;
    enum err_code code = tree_find(&copy->tree, path, &attr, err);
    if (code != ERR_OK) {
        return code;
    }
    str_add(&into, target);
    bool is_folder_here = stat(target, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
    bool says_folder = into.size > 0 && into.text[into.size - 1] == '/';
    if (S_ISDIR(attr.mode) || (says_folder && !is_folder_here)) {
        code = io_make_dirs(target, err);
    }
    if (!S_ISDIR(attr.mode) && (is_folder_here || says_folder)) {
        const char *slash = strrchr(path, '/');
        str_addf(&into, "/%s", slash ? slash + 1 : path);
    }
    struct getting getting = {copy, path, str_text(&into)};
    return code == ERR_OK ? tree_walk(&copy->tree, path, &attr, get_one, &getting, err) : code;
}
