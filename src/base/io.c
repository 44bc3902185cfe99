#include "base/io.h"

#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum err_code io_write_all(int fd, const void *bytes, size_t size, struct err *err)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t wrote = write(fd, at, size);
        if (wrote < 0) {
            if (errno == EINTR) {
                continue;
            }
            return err_errno(err, errno, "write");
        }
        at += wrote;
        size -= (size_t)wrote;
    }
    return ERR_OK;
}

enum err_code io_read_file(const char *path, size_t max_bytes, struct str *out, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "%s", path);
    }
    size_t size_before = out->size;
    for (;;) {
        char chunk[65536];
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got == 0) {
            return ERR_OK;
        }
        if (got < 0 || out->size - size_before + (size_t)got > max_bytes) {
            int why = errno;
            out->size = size_before;
            return got < 0 ? err_errno(err, why, "%s", path)
                           : err_set(err, ERR_QUOTA, "%s: larger than %zu bytes", path, max_bytes);
        }
        str_add_bytes(out, chunk, (size_t)got);
    }
}

enum err_code io_replace_file(const char *path, const void *bytes, size_t size, int mode,
                              struct err *err)
{
    AUTO_STR struct str temporary = {0};
    str_addf(&temporary, "%s.new.%ld", path, (long)getpid());
    int fd = open(str_text(&temporary), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, (mode_t)mode);
    if (fd < 0) {
        return err_errno(err, errno, "%s", str_text(&temporary));
    }
    struct err why = {0};
    enum err_code code = io_write_all(fd, bytes, size, &why);
    if (close(fd) != 0 && code == ERR_OK) {
        code = err_errno(&why, errno, "close");
    }
    if (code == ERR_OK && rename(str_text(&temporary), path) != 0) {
        code = err_errno(&why, errno, "rename");
    }
    if (code != ERR_OK) {
        unlink(str_text(&temporary));
        return err_set(err, code, "%s: %s", path, why.text);
    }
    return ERR_OK;
}

enum err_code io_make_dirs(const char *path, struct err *err)
{
    AUTO_FREE char *copy = mem_strdup(path);
    for (char *at = copy + (copy[0] == '/'); *at; at++) {
        if (*at != '/') {
            continue;
        }
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            return err_errno(err, errno, "%s", copy);
        }
        *at = '/';
    }
    if (mkdir(copy, 0777) != 0) {
        struct stat st;
        int why = errno;
        if (why != EEXIST || stat(copy, &st) != 0 || !S_ISDIR(st.st_mode)) {
            return err_errno(err, why, "%s", copy);
        }
    }
    return ERR_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

enum err_code io_remove_tree(const char *path, struct err *err)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        return err_errno(err, errno, "%s: cannot remove", path);
    }
    return ERR_OK;
}

void io_last_words(const char *path, char *out, size_t size)
{
    enum { LOG_BYTES_MAX = 1 << 20 };
    static const char prefix[] = "drover: ";
    AUTO_STR struct str text = {0};
    out[0] = '\0';
    if (io_read_file(path, LOG_BYTES_MAX, &text, NULL) != ERR_OK) {
        return;
    }
    while (text.size > 0 && text.text[text.size - 1] == '\n') {
        text.text[--text.size] = '\0';
    }
    const char *end = strrchr(str_text(&text), '\n');
    const char *line = end ? end + 1 : str_text(&text);
    line += strncmp(line, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    snprintf(out, size, "%s", line);
    for (char *at = out; *at; at++) {
        *at = isprint((unsigned char)*at) ? *at : '?';
    }
}
