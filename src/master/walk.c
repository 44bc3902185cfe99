#include "master/walk.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct level {
    DIR *dir;
    char name[NAME_MAX + 1]; /* in the level above */
};

struct walk {
    bool force;
    size_t depth; /* levels that are open */
    struct level levels[WALK_DEPTH_MAX];
};

/* Only the owner can be locked out of its own folder; who else cannot enter it is told so. */
static void open_up(int folder, const char *name)
{
    struct stat stat;
    if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(stat.st_mode) &&
        (stat.st_mode & S_IRWXU) != S_IRWXU) {
        /* If this fails, entering does, and that is told. */
        (void)!fchmodat(folder, name, (stat.st_mode & 07777) | S_IRWXU, 0);
    }
}

static bool enter(struct walk *walk, int folder, const char *name)
{
    CHECK(walk->depth < WALK_DEPTH_MAX);
    if (walk->force) {
        open_up(folder, name);
    }
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return false;
    }
    struct level *level = &walk->levels[walk->depth++];
    level->dir = dir;
    snprintf(level->name, sizeof level->name, "%s", walk->depth > 1 ? name : "");
    return true;
}

enum err_code walk_open(const char *path, bool force, struct walk **out, struct err *err)
{
    struct walk *walk = mem_alloc(sizeof *walk);
    walk->force = force;
    if (!enter(walk, AT_FDCWD, path)) {
        int reason = errno;
        free(walk);
        return err_errno(err, reason, "%s", path);
    }
    *out = walk;
    return ERR_OK;
}

static bool is_folder(int folder, const struct dirent *entry)
{
    struct stat stat;
    if (entry->d_type != DT_UNKNOWN) {
        return entry->d_type == DT_DIR;
    }
    return fstatat(folder, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(stat.st_mode);
}

/* The next entry of the innermost folder; false: a folder was entered, and nothing is to be told.
 */
static bool visit(struct walk *walk, const struct dirent *entry, struct walk_entry *out)
{
    int folder = dirfd(walk->levels[walk->depth - 1].dir);
    *out = (struct walk_entry){
        .kind = WALK_FILE, .folder = folder, .name = entry->d_name, .depth = walk->depth};
    if (!is_folder(folder, entry)) {
        return true;
    }
    if (walk->depth == WALK_DEPTH_MAX) {
        out->kind = WALK_DEEP;
        return true;
    }
    if (enter(walk, folder, entry->d_name)) {
        return false;
    }
    out->kind = WALK_CLOSED;
    return errno != ENOENT;
}

bool walk_next(struct walk *walk, struct walk_entry *out)
{
    while (walk->depth > 0) {
        struct level *level = &walk->levels[walk->depth - 1];
        const struct dirent *entry = readdir(level->dir);
        if (!entry) {
            closedir(level->dir);
            walk->depth--;
            if (walk->depth == 0) {
                return false;
            }
            *out = (struct walk_entry){.kind = WALK_FOLDER,
                                       .folder = dirfd(walk->levels[walk->depth - 1].dir),
                                       .name = level->name,
                                       .depth = walk->depth};
            return true;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (visit(walk, entry, out)) {
            return true;
        }
    }
    return false;
}

int walk_root(const struct walk *walk)
{
    CHECK(walk->depth > 0);
    return dirfd(walk->levels[0].dir);
}

void walk_close(struct walk *walk)
{
    if (walk) {
        while (walk->depth > 0) {
            closedir(walk->levels[--walk->depth].dir);
        }
        free(walk);
    }
}
