#include "node/output.h"

#include "base/io.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LIST_BYTES = 4096 };

static void name_folder(struct output *output)
{
    /* The end of the path is ours to vary: slots/N/output, output-1, ... */
    char *end = strrchr(output->path, '/');
    size_t room = sizeof output->path - (size_t)(end - output->path);
    if (output->generation == 0) {
        snprintf(end, room, "/output");
    } else {
        snprintf(end, room, "/output-%u", output->generation);
    }
}

/* The folder at path, which is not there yet. */
static enum err_code make_folder(struct output *output, struct err *err)
{
    struct stat stat;
    if (output->fd >= 0) {
        close(output->fd);
        output->fd = -1;
    }
    if (mkdir(output->path, 0777) != 0) {
        return err_errno(err, errno, "%s", output->path);
    }
    output->fd = open(output->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (output->fd < 0 || fstat(output->fd, &stat) != 0) {
        return err_errno(err, errno, "%s", output->path);
    }
    output->device = stat.st_dev;
    output->inode = stat.st_ino;
    output->mode = stat.st_mode;
    return ERR_OK;
}

enum err_code output_open(struct output *output, const char *work, uint32_t slot, struct err *err)
{
    AUTO_STR struct str parent = {0};
    *output = (struct output){.fd = -1, .slot = slot};
    str_addf(&parent, "%s/slots/%u", work, slot);
    if (parent.size + sizeof "/output-4294967295" > sizeof output->path) {
        return err_set(err, ERR_RANGE, "%s: the path is too long", str_text(&parent));
    }
    enum err_code code = io_make_dirs(str_text(&parent), err);
    if (code != ERR_OK) {
        return code;
    }
    snprintf(output->path, sizeof output->path, "%s/output", str_text(&parent));
    return make_folder(output, err);
}

void output_close(struct output *output)
{
    if (output->path[0] != '\0' && output->fd >= 0) {
        close(output->fd);
        output->fd = -1;
    }
}

/* The folder's entries; rewinds, so that it can be asked again and again. */
static ssize_t list(int fd, char *entries, size_t size)
{
    return lseek(fd, 0, SEEK_SET) == 0 ? getdents64(fd, entries, size) : -1;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A task may clear its folder by removing it and making it again: what is in the new one is its
 * output as much as ever. Only a folder is taken, never what a link leads to. */
static bool adopt_remade(struct output *output)
{
    struct stat stat;
    int fd = open(output->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &stat) != 0) {
        close(fd);
        return false;
    }
    close(output->fd);
    output->fd = fd;
    output->device = stat.st_dev;
    output->inode = stat.st_ino;
    return true;
}

enum output_state output_look(struct output *output)
{
    _Alignas(struct dirent64) char entries[LIST_BYTES];
    struct stat stat;
    if (lstat(output->path, &stat) != 0 || !S_ISDIR(stat.st_mode)) {
        return OUTPUT_SPOILT;
    }
    bool is_ours = stat.st_dev == output->device && stat.st_ino == output->inode;
    if (!is_ours && !adopt_remade(output)) {
        return OUTPUT_SPOILT;
    }
    ssize_t size = list(output->fd, entries, sizeof entries);
    if (size < 0) {
        return OUTPUT_SPOILT;
    }
    for (ssize_t at = 0; at < size;) {
        const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
        if (!is_dot(entry->d_name)) {
            return OUTPUT_FILLED;
        }
        at += entry->d_reclen;
    }
    /* Empty but with other rights than we gave it, it would not do for the next task. */
    return stat.st_mode == output->mode ? OUTPUT_EMPTY : OUTPUT_SPOILT;
}

static bool leads_out(const char *name)
{
    if (name[0] == '/' || name[0] == '\0') {
        return true;
    }
    for (const char *at = name; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0')) {
            return true;
        }
    }
    return false;
}

enum err_code output_has(const struct output *output, const char *name, struct err *err)
{
    if (leads_out(name)) {
        return err_set(err, ERR_INVALID, "%.200s: is not a name below the output folder", name);
    }
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    long fd = syscall(SYS_openat2, output->fd, name, &how, sizeof how);
    if (fd >= 0) {
        close((int)fd);
        return ERR_OK;
    }
    struct stat stat;
    if (errno == ENOSYS && fstatat(output->fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0) {
        return ERR_OK;
    }
    return err_set(err, ERR_NOT_FOUND, "%.200s: promised under outputs and not there", name);
}

/* A folder that cannot be moved away (something is mounted in it) is left, and another one used. */
static enum err_code make_next_folder(struct output *output, struct err *err)
{
    struct stat stat;
    while (lstat(output->path, &stat) == 0) {
        output->generation++;
        name_folder(output);
    }
    struct err why = {0};
    enum err_code code = make_folder(output, &why);
    if (code == ERR_NOT_FOUND) { /* the task removed our slots/N as well */
        AUTO_STR struct str parent = {0};
        str_add_bytes(&parent, output->path, (size_t)(strrchr(output->path, '/') - output->path));
        code = io_make_dirs(str_text(&parent), &why);
        code = code == ERR_OK ? make_folder(output, &why) : code;
    }
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%s", why.text);
}

static bool move_over(const char *from, const char *to, struct trash *trash)
{
    if (rename(from, to) == 0) {
        return true;
    }
    /* Of an attempt that was never accepted, before a crash. */
    return (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) && trash_take(trash, to) &&
           rename(from, to) == 0;
}

enum err_code output_keep(struct output *output, struct trash *trash, const char *kept_path,
                          struct err *err)
{
    bool moved = move_over(output->path, kept_path, trash);
    if (!moved && errno == EACCES) { /* the task took our rights from it */
        fchmod(output->fd, 0755);
        moved = move_over(output->path, kept_path, trash);
    }
    if (!moved) {
        return err_errno(err, errno, "output folder cannot be kept as %s", kept_path);
    }
    return make_next_folder(output, err);
}

/* Unlinks what is in the folder if that is a few plain files. */
static bool remove_few(struct output *output)
{
    _Alignas(struct dirent64) char entries[LIST_BYTES];
    ssize_t size = list(output->fd, entries, sizeof entries);
    for (ssize_t at = 0; at < size;) {
        const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
        at += entry->d_reclen;
        if (is_dot(entry->d_name)) {
            continue;
        }
        if (entry->d_type == DT_DIR || unlinkat(output->fd, entry->d_name, 0) != 0) {
            return false;
        }
    }
    return output_look(output) == OUTPUT_EMPTY;
}

enum err_code output_empty(struct output *output, struct trash *trash, struct err *err)
{
    enum output_state state = output_look(output);
    if (state == OUTPUT_EMPTY || (state == OUTPUT_FILLED && remove_few(output))) {
        return ERR_OK;
    }
    if (!trash_take(trash, output->path) && errno == EACCES && state == OUTPUT_FILLED) {
        fchmod(output->fd, 0755);
        (void)!trash_take(trash, output->path);
    }
    return make_next_folder(output, err);
}
