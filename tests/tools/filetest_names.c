/* Random makes, renames, links and removals, as in a plain folder. */
#include "filetest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES = 12, DEPTH = 3 };

static void random_path(char *out, size_t size)
{
    size_t used = 0;
    int parts = 1 + (int)roll(DEPTH);
    for (int i = 0; i < parts; i++) {
        used += (size_t)snprintf(out + used, size - used, "%sn%d", i ? "/" : "", (int)roll(NAMES));
    }
}

/* One operation on both folders; they must agree on success and on the error. */
static int operate(const char *root, int kind, const char *a, const char *b, int *why)
{
    char from[4096], to[4096];
    snprintf(from, sizeof from, "%s/%s", root, a);
    snprintf(to, sizeof to, "%s/%s", root, b);
    int made;
    errno = 0;
    switch (kind) {
    case 0:
        made = mkdir(from, 0755);
        break;
    case 1:
    case 2:
        made = open(from, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (made >= 0) {
            must(write(made, a, strlen(a)) == (ssize_t)strlen(a), "write");
            must(close(made) == 0, "close");
            made = 0;
        }
        break;
    case 3:
        made = unlink(from);
        break;
    case 4:
        made = rmdir(from);
        break;
    case 5:
    case 6:
        made = rename(from, to);
        break;
    case 7:
        made = link(from, to);
        break;
    case 8:
        made = symlink(a, to);
        break;
    case 9:
        made = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
        break;
    case 10:
        made = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
        break;
    case 11:
        made = mkfifo(from, 0640);
        break;
    case 12:
        made = truncate(from, (off_t)strlen(b));
        break;
    default:
        made = chmod(from, 0600);
        break;
    }
    *why = made == 0 ? 0 : errno;
    return made;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void compare_folders(const char *a, const char *b, long step)
{
    struct dirent **left, **right;
    int count = scandir(a, &left, NULL, by_name);
    int other = scandir(b, &right, NULL, by_name);
    must(count >= 0 && other >= 0, a);
    if (count != other) {
        wrong("step %ld: %s has %d entries, the model %d", step, a, count, other);
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(left[i]->d_name, right[i]->d_name) != 0) {
            wrong("step %ld: %s has %s, the model %s", step, a, left[i]->d_name, right[i]->d_name);
        }
        if (strcmp(left[i]->d_name, "..") == 0 || strcmp(left[i]->d_name, ".") == 0) {
            free(left[i]);
            free(right[i]);
            continue;
        }
        char one[4096], two[4096];
        snprintf(one, sizeof one, "%s/%s", a, left[i]->d_name);
        snprintf(two, sizeof two, "%s/%s", b, left[i]->d_name);
        struct stat s = {0}, t = {0};
        must(lstat(one, &s) == 0 && lstat(two, &t) == 0, one);
        bool is_folder = S_ISDIR(t.st_mode);
        if (s.st_mode != t.st_mode || (!is_folder && s.st_size != t.st_size) ||
            (!is_folder && s.st_nlink != t.st_nlink)) {
            wrong("step %ld: %s: mode %o size %lld links %lu, the model %o %lld %lu", step, one,
                  s.st_mode, (long long)s.st_size, (unsigned long)s.st_nlink, t.st_mode,
                  (long long)t.st_size, (unsigned long)t.st_nlink);
        }
        if (is_folder) {
            compare_folders(one, two, step);
        }
        free(left[i]);
        free(right[i]);
    }
    free(left);
    free(right);
}

int run_names(const char *root, const char *other, long steps)
{
    char model_root[4096];
    snprintf(model_root, sizeof model_root, "%s.model", root);
    const char *beside = getenv("FILETEST_MODEL");
    if (beside) {
        snprintf(model_root, sizeof model_root, "%s", beside);
    }
    must(mkdir(root, 0755) == 0 || errno == EEXIST, root);
    must(mkdir(model_root, 0755) == 0 || errno == EEXIST, model_root);
    for (long step = 0; step < steps; step++) {
        char a[256], b[256];
        int kind = (int)roll(14);
        int ours, theirs;
        random_path(a, sizeof a);
        random_path(b, sizeof b);
        operate(other && roll(2) ? other : root, kind, a, b, &ours);
        operate(model_root, kind, a, b, &theirs);
        bool alike = ours == theirs || ((ours == ENOTEMPTY || ours == EEXIST) &&
                                        (theirs == ENOTEMPTY || theirs == EEXIST));
        if (!alike) {
            wrong("step %ld: operation %d on %s and %s: %s, the model: %s", step, kind, a, b,
                  strerror(ours), strerror(theirs));
        }
        if (step % 50 == 0) {
            compare_folders(other && roll(2) ? other : root, model_root, step);
        }
    }
    compare_folders(root, model_root, steps);
    if (other) {
        compare_folders(other, model_root, steps);
    }
    return 0;
}
