/* filetest - ordinary file operations on a folder, checked against what they ought to do.
 *
 *   filetest fsx FILE SEED STEPS      random reads, writes, cuts, maps and syncs of one file, every
 *                                     byte compared with an array; FILE must not exist
 *   filetest names FOLDER SEED STEPS  random makes, renames, links and removals below a folder,
 *                                     compared with the same in a plain folder beside it (FOLDER
 * and FOLDER.model, made)
 *   filetest fsx2 FILE OTHER SEED STEPS       the same, where both paths are one file, seen through
 *   filetest names2 FOLDER OTHER SEED STEPS   two mounts: the next step is taken at either, once
 *                                     the file has been closed
 *   filetest writer FOLDER SEED [COUNT]  until killed: writes and overwrites
 * files whose every byte follows from their name and version; prints "synced NAME V" after an
 * fsync, "closed NAME V" after a close filetest check FOLDER LOG         every file in FOLDER is
 * whole and of one version, and no file is older than LOG's last "synced" of it
 *
 * Exit 0: as it ought to be; 1: it is not, and stderr says what; the seed and step make it again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPACE = 6 << 20, PIECE_MAX = 300000 };

static uint64_t rng_state;

static uint64_t roll(uint64_t limit)
{
    rng_state += 0x9E3779B97F4A7C15U;
    uint64_t z = rng_state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (z ^ (z >> 31)) % limit;
}

static _Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void must(bool well, const char *what)
{
    if (!well) {
        wrong("%s: %s", what, strerror(errno));
    }
}

/* fsx --------------------------------------------------------------------------------------------
 */

static uint8_t model[SPACE], seen[SPACE];
static uint64_t model_size;
static int fd = -1;
static const char *file_path, *other_path; /* the same file, or NULL */

static void compare(const uint8_t *got, uint64_t offset, uint64_t size, long step)
{
    for (uint64_t i = 0; i < size; i++) {
        if (got[i] != model[offset + i]) {
            wrong("step %ld: byte %llu is %u, not %u", step, (unsigned long long)(offset + i),
                  got[i], model[offset + i]);
        }
    }
}

static void read_all(int from, uint8_t *to, uint64_t offset, uint64_t size)
{
    while (size > 0) {
        ssize_t got = pread(from, to, size, (off_t)offset);
        must(got > 0, "read");
        to += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
}

static void do_read(long step)
{
    if (model_size == 0) {
        return;
    }
    uint64_t offset = roll(model_size);
    uint64_t size = 1 + roll(PIECE_MAX);
    size = size < model_size - offset ? size : model_size - offset;
    read_all(fd, seen, offset, size);
    compare(seen, offset, size, step);
    must(pread(fd, seen, 100, (off_t)model_size) == 0, "read behind the end");
}

static void do_write(bool appends)
{
    uint64_t offset = appends ? model_size : roll(SPACE);
    uint64_t size = 1 + roll(roll(3) ? 9000 : PIECE_MAX);
    size = size < SPACE - offset ? size : SPACE - offset;
    for (uint64_t i = 0; i < size; i++) {
        model[offset + i] = (uint8_t)(1 + (rng_state >> 7) + i * 13);
    }
    for (uint64_t done = 0; done < size;) {
        ssize_t put = pwrite(fd, model + offset + done, size - done, (off_t)(offset + done));
        must(put > 0, "write");
        done += (uint64_t)put;
    }
    model_size = offset + size > model_size ? offset + size : model_size;
}

static void do_truncate(void)
{
    uint64_t size = roll(SPACE);
    must(ftruncate(fd, (off_t)size) == 0, "truncate");
    if (size < model_size) {
        memset(model + size, 0, model_size - size);
    }
    model_size = size;
}

static void do_punch(void)
{
    uint64_t offset = roll(SPACE);
    uint64_t size = 1 + roll(PIECE_MAX);
    size = size < SPACE - offset ? size : SPACE - offset;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) !=
        0) {
        must(errno == EOPNOTSUPP, "punch");
        return;
    }
    memset(model + offset, 0, size);
}

static void do_map(bool writes, long step)
{
    if (model_size == 0) {
        return;
    }
    uint64_t offset = roll(model_size) & ~(uint64_t)4095;
    uint64_t size = 1 + roll(PIECE_MAX);
    size = size < model_size - offset ? size : model_size - offset;
    uint8_t *map =
        mmap(NULL, size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)offset);
    must(map != MAP_FAILED, "mmap");
    compare(map, offset, size, step);
    if (writes) {
        for (uint64_t i = 0; i < size; i += 1 + roll(50)) {
            map[i] = model[offset + i] = (uint8_t)roll(256);
        }
        must(msync(map, size, MS_SYNC) == 0, "msync");
    }
    must(munmap(map, size) == 0, "munmap");
}

static void do_reopen(void)
{
    must(close(fd) == 0, "close");
    fd = open(other_path && roll(2) ? other_path : file_path, O_RDWR | O_CLOEXEC);
    must(fd >= 0, "open");
}

static int run_fsx(const char *path, const char *other, long steps)
{
    file_path = path;
    other_path = other;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    must(fd >= 0, path);
    for (long step = 0; step < steps; step++) {
        switch (roll(other ? 24 : 16)) {
        case 0:
            do_truncate();
            break;
        case 1:
            do_punch();
            break;
        case 2:
            do_map(false, step);
            break;
        case 3:
            do_map(true, step);
            break;
        case 4:
            must(fsync(fd) == 0, "fsync");
            break;
        case 5:
            do_reopen();
            break;
        case 6:
        case 7:
        case 8:
            do_read(step);
            break;
        case 9:
        case 10:
            do_write(true);
            break;
        case 11:
        case 12:
        case 13:
        case 14:
        case 15:
            do_write(false);
            break;
        default:
            do_reopen();
            break;
        }
        struct stat stat;
        must(fstat(fd, &stat) == 0, "stat");
        if ((uint64_t)stat.st_size != model_size) {
            wrong("step %ld: the size is %lld, not %llu", step, (long long)stat.st_size,
                  (unsigned long long)model_size);
        }
    }
    if (model_size > 0) {
        read_all(fd, seen, 0, model_size);
        compare(seen, 0, model_size, steps);
    }
    must(close(fd) == 0, "close");
    return 0;
}

/* names ------------------------------------------------------------------------------------------
 */

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
        struct stat s, t;
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

static int run_names(const char *root, const char *other, long steps)
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
        int kind = (int)roll(10);
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

/* writer and check -------------------------------------------------------------------------------
 */

enum { FILES = 40, HEADER = 32 };

static uint64_t size_of(uint64_t file, uint64_t version)
{
    uint64_t z = (file * 7919 + version) * 0x9E3779B97F4A7C15U;
    return HEADER + (z >> 40) % (file % 10 == 0 ? 3000000 : 60000);
}

static void fill(uint8_t *out, uint64_t file, uint64_t version)
{
    uint64_t size = size_of(file, version);
    memset(out, ' ', HEADER);
    snprintf((char *)out, HEADER, "%llu %llu", (unsigned long long)file,
             (unsigned long long)version);
    for (uint64_t i = HEADER; i < size; i++) {
        out[i] = (uint8_t)(file * 31 + version * 7 + i * 131 + (i >> 9));
    }
}

static int run_writer(const char *folder, uint64_t count)
{
    static uint8_t bytes[4 << 20];
    for (uint64_t version = 1; version <= count; version++) {
        uint64_t file = roll(FILES);
        char path[4096], other[4096];
        snprintf(path, sizeof path, "%s/f%llu", folder, (unsigned long long)file);
        snprintf(other, sizeof other, "%s/f%llu.new", folder, (unsigned long long)file);
        bool renames = roll(3) == 0;
        bool syncs = roll(3) != 0;
        fill(bytes, file, version);
        int out = open(renames ? other : path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        must(out >= 0, path);
        uint64_t size = size_of(file, version);
        for (uint64_t done = 0; done < size;) {
            uint64_t piece = size - done < 70000 ? size - done : 70000;
            must(write(out, bytes + done, piece) == (ssize_t)piece, "write");
            done += piece;
        }
        if (syncs) {
            must(fsync(out) == 0, "fsync");
        }
        must(close(out) == 0, "close");
        if (renames) {
            must(rename(other, path) == 0, "rename");
            if (syncs) {
                int above = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                must(above >= 0 && fsync(above) == 0, "fsync of the folder");
                close(above);
            }
        }
        printf("%s f%llu %llu\n", syncs ? "synced" : "closed", (unsigned long long)file,
               (unsigned long long)version);
        fflush(stdout);
    }
    return 0;
}

static uint64_t check_file(const char *folder, const char *name)
{
    static uint8_t got[4 << 20], want[4 << 20];
    char path[4096];
    unsigned long long file, version;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    must(in >= 0, path);
    size_t size = 0;
    ssize_t piece;
    while ((piece = read(in, got + size, sizeof got - size)) > 0) {
        size += (size_t)piece;
    }
    must(piece == 0, path);
    close(in);
    if (size < HEADER || sscanf((char *)got, "%llu %llu", &file, &version) != 2) {
        wrong("%s: %zu bytes, not a file of ours: half of one is visible", path, size);
    }
    fill(want, file, version);
    if (size != size_of(file, version) || memcmp(got, want, size) != 0) {
        wrong("%s: version %llu is not whole (%zu bytes of %llu)", path, version, size,
              (unsigned long long)size_of(file, version));
    }
    return version;
}

static int run_check(const char *folder, const char *log_path)
{
    uint64_t synced[FILES] = {0};
    FILE *log = fopen(log_path, "re");
    must(log != NULL, log_path);
    char line[256];
    unsigned long count = 0;
    while (fgets(line, sizeof line, log)) {
        unsigned long long file, version;
        if (sscanf(line, "synced f%llu %llu", &file, &version) == 2 && file < FILES &&
            strchr(line, '\n')) {
            synced[file] = version;
            count++;
        }
    }
    fclose(log);
    DIR *dir = opendir(folder);
    must(dir != NULL, folder);
    uint64_t present[FILES] = {0};
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        unsigned long long file;
        if (entry->d_name[0] == '.') {
            continue;
        }
        uint64_t version = check_file(folder, entry->d_name);
        if (!strstr(entry->d_name, ".new") && sscanf(entry->d_name, "f%llu", &file) == 1 &&
            file < FILES) {
            present[file] = version;
        }
    }
    closedir(dir);
    for (uint64_t file = 0; file < FILES; file++) {
        if (present[file] < synced[file]) {
            wrong("f%llu: version %llu was synced, %llu is there", (unsigned long long)file,
                  (unsigned long long)synced[file], (unsigned long long)present[file]);
        }
    }
    printf("%lu syncs hold\n", count);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    if (argc == 5 && strcmp(verb, "fsx") == 0) {
        rng_state = strtoull(argv[3], NULL, 10);
        return run_fsx(argv[2], NULL, strtol(argv[4], NULL, 10));
    }
    if (argc == 5 && strcmp(verb, "names") == 0) {
        rng_state = strtoull(argv[3], NULL, 10);
        return run_names(argv[2], NULL, strtol(argv[4], NULL, 10));
    }
    if (argc == 6 && strcmp(verb, "fsx2") == 0) {
        rng_state = strtoull(argv[4], NULL, 10);
        return run_fsx(argv[2], argv[3], strtol(argv[5], NULL, 10));
    }
    if (argc == 6 && strcmp(verb, "names2") == 0) {
        rng_state = strtoull(argv[4], NULL, 10);
        return run_names(argv[2], argv[3], strtol(argv[5], NULL, 10));
    }
    if ((argc == 4 || argc == 5) && strcmp(verb, "writer") == 0) {
        rng_state = strtoull(argv[3], NULL, 10);
        return run_writer(argv[2], argc == 5 ? strtoull(argv[4], NULL, 10) : UINT64_MAX);
    }
    if (argc == 4 && strcmp(verb, "check") == 0) {
        return run_check(argv[2], argv[3]);
    }
    fputs("usage: filetest fsx FILE SEED STEPS | names FOLDER SEED STEPS | fsx2 FILE OTHER SEED "
          "STEPS | names2 FOLDER OTHER SEED STEPS | writer FOLDER SEED [COUNT] | "
          "check FOLDER LOG\n",
          stderr);
    return 2;
}
