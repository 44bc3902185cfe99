/* files - making and reading many files, timed.
 *
 *   files make FOLDER COUNT MIN_KB MAX_KB SEED     1,000 to a folder, in COUNT / 1000 folders
 *   files read LIST THREADS [SEED]                 every file named in LIST (one path a line) once,
 *                                                  whole; with SEED in a shuffled order. Prints
 *                                                  "FILES_PER_S MB_PER_S FILES BYTES"
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, THREADS_MAX = 64 };

static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

static void die(const char *what)
{
    fprintf(stderr, "files: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void make_file(const char *path, uint64_t size, uint64_t seed)
{
    static uint64_t block[8192]; /* noise that does not compress */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) {
        die(path);
    }
    for (uint64_t done = 0; done < size;) {
        for (size_t i = 0; i < 8192; i++) {
            block[i] = mix(seed ^ (done + i) * 0x100000001B3U);
        }
        size_t piece = size - done < sizeof block ? (size_t)(size - done) : sizeof block;
        if (write(fd, block, piece) != (ssize_t)piece) {
            die(path);
        }
        done += piece;
    }
    close(fd);
}

static int make(char **argv)
{
    const char *folder = argv[2];
    uint64_t count = strtoull(argv[3], NULL, 10);
    uint64_t low = strtoull(argv[4], NULL, 10) * 1000;
    uint64_t high = strtoull(argv[5], NULL, 10) * 1000;
    uint64_t seed = strtoull(argv[6], NULL, 10);
    char path[4096];
    mkdir(folder, 0755);
    for (uint64_t i = 0; i < count; i++) {
        if (i % 1000 == 0) {
            snprintf(path, sizeof path, "%s/d%04llu", folder, (unsigned long long)(i / 1000));
            mkdir(path, 0755);
        }
        snprintf(path, sizeof path, "%s/d%04llu/f%07llu", folder, (unsigned long long)(i / 1000),
                 (unsigned long long)i);
        make_file(path, low + (high > low ? mix(seed + i) % (high - low) : 0), seed * 1000003 + i);
    }
    return 0;
}

struct reader {
    char **paths;
    size_t from, end;
    uint64_t bytes;
    pthread_t thread;
};

static void *read_files(void *context)
{
    struct reader *reader = context;
    char *buffer = malloc(BUFFER);
    for (size_t i = reader->from; i < reader->end; i++) {
        int fd = open(reader->paths[i], O_RDONLY);
        if (fd < 0) {
            die(reader->paths[i]);
        }
        ssize_t got;
        while ((got = read(fd, buffer, BUFFER)) > 0) {
            reader->bytes += (uint64_t)got;
        }
        if (got < 0) {
            die(reader->paths[i]);
        }
        close(fd);
    }
    free(buffer);
    return NULL;
}

static char **read_list(const char *path, size_t *count)
{
    FILE *list = fopen(path, "r");
    char **paths = NULL;
    char line[4096];
    size_t cap = 0;
    if (!list) {
        die(path);
    }
    *count = 0;
    while (fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = '\0';
        if (*count == cap) {
            cap = cap ? cap * 2 : 1024;
            char **more = realloc(paths, cap * sizeof *paths);
            if (!more) {
                die("memory");
            }
            paths = more;
        }
        paths[(*count)++] = strdup(line);
    }
    fclose(list);
    return paths;
}

static int read_all(int argc, char **argv)
{
    size_t count;
    char **paths = read_list(argv[2], &count);
    size_t threads = strtoull(argv[3], NULL, 10);
    struct reader readers[THREADS_MAX] = {0};
    struct timespec began, ended;
    uint64_t bytes = 0;

    for (size_t i = count; argc > 4 && i > 1; i--) {
        size_t j = mix(strtoull(argv[4], NULL, 10) * 977 + i) % i;
        char *path = paths[i - 1];
        paths[i - 1] = paths[j];
        paths[j] = path;
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (size_t t = 0; t < threads; t++) {
        readers[t] = (struct reader){paths, count * t / threads, count * (t + 1) / threads, 0, 0};
        pthread_create(&readers[t].thread, NULL, read_files, &readers[t]);
    }
    for (size_t t = 0; t < threads; t++) {
        pthread_join(readers[t].thread, NULL);
        bytes += readers[t].bytes;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double seconds =
        (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("%.1f %.1f %zu %llu\n", (double)count / seconds, (double)bytes / seconds / 1e6, count,
           (unsigned long long)bytes);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "make") == 0) {
        return make(argv);
    }
    if (argc >= 4 && strcmp(argv[1], "read") == 0) {
        return read_all(argc, argv);
    }
    fputs("usage: files make FOLDER COUNT MIN_KB MAX_KB SEED | read LIST THREADS [SEED]\n", stderr);
    return 2;
}
