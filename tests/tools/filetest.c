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
 *   filetest writer FOLDER SEED [COUNT]       until killed: writes and overwrites files whose every
 *                                     byte follows from their name and version; prints "synced NAME
 *                                     V" after an fsync, "closed NAME V" after a close
 *   filetest check FOLDER LOG         every file in FOLDER is whole and of one version, and no file
 *                                     is older than LOG's last "synced" of it
 *
 * Exit 0: as it ought to be; 1: it is not, and stderr says what; the seed and step make it again.
 */
#include "filetest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t rng_state;

uint64_t roll(uint64_t limit)
{
    rng_state += 0x9E3779B97F4A7C15U;
    uint64_t z = rng_state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (z ^ (z >> 31)) % limit;
}

uint64_t roll_state(void)
{
    return rng_state;
}

_Noreturn void wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void must(bool well, const char *what)
{
    if (!well) {
        wrong("%s: %s", what, strerror(errno));
    }
}

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
