#include "node/output.h"

#include "base/io.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Things land in WORK/slots/trash. To remove them it is renamed to trash.removing, so that what
 * comes later is not mixed up with what is being removed. */
static void trash_path(const struct trash *trash, struct str *out, const char *name)
{
    str_add(out, trash->work);
    str_add(out, "/slots/");
    str_add(out, name);
}

/* Moved aside first, since a folder cannot be renamed into itself. slots.stale is what a crash
 * between the two renames left. */
static enum err_code make_folders(struct trash *trash, struct err *err)
{
    AUTO_STR struct str slots = {0};
    AUTO_STR struct str stale = {0};
    AUTO_STR struct str bin = {0};
    trash_path(trash, &bin, "trash");
    str_addf(&slots, "%s/slots", trash->work);
    str_addf(&stale, "%s/slots.stale", trash->work);
    struct stat stat;
    if (lstat(str_text(&stale), &stat) == 0) {
        enum err_code code = io_remove_tree(str_text(&stale), err);
        if (code != ERR_OK) {
            return code;
        }
    }
    bool had_slots = rename(str_text(&slots), str_text(&stale)) == 0;
    if (!had_slots && errno != ENOENT) {
        return err_errno(err, errno, "%s", str_text(&slots));
    }
    enum err_code code = io_make_dirs(str_text(&bin), err);
    if (code == ERR_OK && had_slots && !trash_take(trash, str_text(&stale))) {
        code = err_errno(err, errno, "%s", str_text(&stale));
    }
    return code;
}

enum err_code trash_open(struct trash *trash, const char *work, struct err *err)
{
    *trash = (struct trash){.work = work};
    enum err_code code = make_folders(trash, err);
    if (code == ERR_OK) {
        trash_turn(trash);
    }
    return code;
}

bool trash_take(struct trash *trash, const char *path)
{
    AUTO_STR struct str target = {0};
    trash_path(trash, &target, "trash/");
    str_add_u64(&target, trash->next++);
    if (rename(path, str_text(&target)) != 0) {
        return errno == ENOENT;
    }
    trash->has_some = true;
    return true;
}

static void start_remover(struct trash *trash)
{
    AUTO_STR struct str bin = {0};
    AUTO_STR struct str doomed = {0};
    trash_path(trash, &bin, "trash");
    trash_path(trash, &doomed, "trash.removing");
    if (rename(str_text(&bin), str_text(&doomed)) != 0 && errno != ENOTEMPTY && errno != EEXIST) {
        return;
    }
    if (mkdir(str_text(&bin), 0777) != 0 && errno != EEXIST) {
        return;
    }
    char program[] = "rm";
    char option[] = "-rf";
    char end[] = "--";
    char *arguments[] = {program, option, end, doomed.text, NULL};
    char *no_variables[] = {NULL};
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    if (posix_spawnattr_init(&attributes) != 0) {
        return;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) == 0) {
        /* It cannot remove what a task took all rights from; that stays until the work folder
         * goes, and is no reason to print. */
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        pid_t pid = 0;
        if (posix_spawn(&pid, "/bin/rm", &files, &attributes, arguments, no_variables) == 0) {
            trash->remover = pid;
            trash->has_some = false;
        }
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&attributes);
}

bool trash_turn(struct trash *trash)
{
    if (trash->remover > 0 && waitpid(trash->remover, NULL, WNOHANG) != 0) {
        trash->remover = 0;
    }
    if (trash->remover == 0 && trash->has_some) {
        start_remover(trash);
    }
    return trash->remover > 0;
}

void trash_close(struct trash *trash)
{
    if (!trash->work) {
        return;
    }
    if (trash->remover > 0) {
        waitpid(trash->remover, NULL, 0);
        trash->remover = 0;
    }
    AUTO_STR struct str slots = {0};
    str_addf(&slots, "%s/slots", trash->work);
    (void)!io_remove_tree(str_text(&slots), NULL);
}
