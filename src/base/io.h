/* io.h - whole files and whole writes. Blocking; shell code only. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "base/err.h"
#include "base/str.h"

#include <stddef.h>

/* Writes every byte or fails. Retries EINTR and short writes. */
MUST_USE enum err_code io_write_all(int fd, const void *bytes, size_t size, struct err *err);

/* Appends the file's bytes to out. ERR_QUOTA if it is larger than max_bytes (out is unchanged). */
MUST_USE enum err_code io_read_file(const char *path, size_t max_bytes, struct str *out,
                                    struct err *err);

/* Replaces path by a file of these bytes, all or nothing: a temporary file beside it, renamed. */
MUST_USE enum err_code io_replace_file(const char *path, const void *bytes, size_t size, int mode,
                                       struct err *err);

/* Creates path and its missing parents (mode 0777 less umask). An existing folder is fine. */
MUST_USE enum err_code io_make_dirs(const char *path, struct err *err);

/* Removes a file or a folder with all it holds, never following links. Missing is fine. */
MUST_USE enum err_code io_remove_tree(const char *path, struct err *err);

/* What a program of ours said last, from its log: one line, printable, without its name in front.
 * "" where there is nothing to be read. */
void io_last_words(const char *path, char *out, size_t size);

#endif
