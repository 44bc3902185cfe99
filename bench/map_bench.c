/* map_bench [FILES] [shuffled] - a volume's metadata of so many files (10 million unless told): an
 * inode of 60 bytes and a name of 10 for each, in folders of a thousand, written through
 * checkpoints and merges into a folder, then looked up and listed. "shuffled" makes the folders in
 * random order, which is the worst case for merges. Prints what it costs and what 100 million files
 * would, by the number of files. The folder is on $TMPDIR and goes at the end. */
#include "base/mem.h"
#include "base/rng.h"
#include "volume/map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FOLDER_FILES = 1000,
    TABLE_BYTES = 32 << 20,
    CACHE_BYTES = 64 << 20,
    WANTS = 16,
    PROBES = 200000,
    WARM_FILES = 20000,
};

struct bench {
    struct map *map;
    char folder[256];
    uint64_t files;
    bool shuffled;
    uint64_t next_number;
    uint64_t stored_bytes; /* in the folder now */
    uint64_t written_bytes, read_bytes, reads;
    double put_s, write_s, merge_s, longest_step_s, longest_part_s;
    uint64_t written_keys;
};

static char bench_kind[64]; /* in the names of figures: 10M, 10M-shuffled */

/* Of this thread on a processor: others on the machine do not count. */
static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "map_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void must(enum err_code code)
{
    if (code) {
        fprintf(stderr, "map_bench: %s\n", err_name(code));
        exit(1);
    }
}

static double rss_mb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1) {
        die("/proc/self/statm");
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* The store: a folder with a file for each run. -------------------------------------------------
 */

static void run_path(const struct bench *bench, const struct container *container, char *out,
                     size_t size)
{
    snprintf(out, size, "%s/%016llx", bench->folder, (unsigned long long)container->number);
}

static void store(struct bench *bench, const struct map_run *run, const struct str *object)
{
    char path[300];
    run_path(bench, &run->container, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        die(path);
    }
    for (size_t at = 0; at < object->size;) {
        ssize_t wrote = write(fd, object->text + at, object->size - at);
        if (wrote <= 0) {
            die(path);
        }
        at += (size_t)wrote;
    }
    close(fd);
    bench->written_bytes += object->size;
}

/* The caller frees it. */
static void *fetch(struct bench *bench, const struct container *container, uint64_t offset,
                   size_t size)
{
    char path[300];
    run_path(bench, container, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = mem_resize(NULL, size, 1);
    if (fd < 0 || pread(fd, bytes, size, (off_t)offset) != (ssize_t)size) {
        die(path);
    }
    close(fd);
    bench->reads++;
    bench->read_bytes += size;
    return bytes;
}

static void supply(struct bench *bench)
{
    struct map_want wants[WANTS];
    size_t count = map_wanted(bench->map, wants, WANTS);
    for (size_t i = 0; i < count; i++) {
        void *bytes = fetch(bench, &wants[i].run, wants[i].offset, wants[i].size);
        must(map_supply(bench->map, &wants[i], bytes, NULL));
        free(bytes);
    }
}

/* Removes what the map no longer names, and counts what it does. */
static void collect(struct bench *bench)
{
    static struct map_run runs[MAP_RUNS_MAX];
    size_t count = map_runs(bench->map, runs, MAP_RUNS_MAX);
    DIR *folder = opendir(bench->folder);
    if (!folder) {
        die(bench->folder);
    }
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        bool named = entry->d_name[0] == '.';
        uint64_t number = strtoull(entry->d_name, NULL, 16);
        for (size_t i = 0; i < count && !named; i++) {
            named = runs[i].container.number == number;
        }
        if (!named) {
            unlinkat(dirfd(folder), entry->d_name, 0);
        }
    }
    closedir(folder);
    bench->stored_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bench->stored_bytes += runs[i].size;
    }
}

/* Keys and values. ----------------------------------------------------------------------------- */

static void put_u64(uint8_t *out, uint64_t number)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(number >> (56 - 8 * i));
    }
}

static size_t inode_key(uint64_t file, uint8_t *key)
{
    key[0] = 'I';
    put_u64(key + 1, file + 2);
    return 9;
}

static size_t name_key(uint64_t file, uint8_t *key)
{
    key[0] = 'D';
    put_u64(key + 1, (file / FOLDER_FILES) * (FOLDER_FILES + 1) + 1);
    int size = snprintf((char *)key + 9, 50, "ILSVRC2012_%08llx.JPEG",
                        (unsigned long long)(rng_mix(1, file, 0) >> 32));
    return 9 + (size_t)size;
}

/* As an inode with one extent looks: owner and mode alike, times and places rising, size and
 * checksum random. */
static void inode_value(uint64_t file, uint8_t *value)
{
    memset(value, 0, 60);
    value[0] = 1;
    memcpy(value + 1, "\xa4\x81\xe8\x03\xe8\x03", 6);
    put_u64(value + 8, 1700000000000000000u + file * 21013u);
    put_u64(value + 16, 1700000000000000000u + file * 21013u);
    put_u64(value + 24, 1700000000000000000u + file * 21013u);
    put_u64(value + 32, 4096 + rng_mix(2, file, 0) % 100000);
    put_u64(value + 40, file / 1300);
    put_u64(value + 44, file % 1300 * 50000 + rng_mix(3, file, 0) % 50000);
    put_u64(value + 52, rng_mix(4, file, 0));
}

struct file { /* made before the clock runs */
    uint8_t inode_key[16], name_key[64];
    size_t inode_size, name_size;
    uint8_t value[60], entry[10];
};

static void make_file(struct file *out, uint64_t file)
{
    out->inode_size = inode_key(file, out->inode_key);
    out->name_size = name_key(file, out->name_key);
    inode_value(file, out->value);
    put_u64(out->entry, file + 2);
    out->entry[8] = 8;
    out->entry[9] = 1;
}

static void put_file(struct bench *bench, const struct file *file)
{
    map_put(bench->map, file->inode_key, file->inode_size, file->value, sizeof file->value);
    map_put(bench->map, file->name_key, file->name_size, file->entry, sizeof file->entry);
}

/* Building. ------------------------------------------------------------------------------------ */

static void checkpoint(struct bench *bench)
{
    struct map_run run = {
        .container = {.kind = CONTAINER_RUN, .term = 1, .number = bench->next_number++}};
    struct str object = {0};
    size_t keys = map_table_count(bench->map);
    must(map_freeze(bench->map, NULL));
    for (bool done = false; !done;) {
        double began_s = now_s();
        done = map_write_frozen_part(bench->map, &run, &object);
        double took_s = now_s() - began_s;
        bench->write_s += took_s;
        bench->longest_part_s = took_s > bench->longest_part_s ? took_s : bench->longest_part_s;
    }
    bench->written_keys += keys;
    store(bench, &run, &object);
    double began_s = now_s();
    map_thaw(bench->map, &run, &object);
    double took_s = now_s() - began_s;
    bench->longest_part_s = took_s > bench->longest_part_s ? took_s : bench->longest_part_s;
    str_release(&object);
}

static void supply_merge(struct bench *bench, struct map_merge *merge)
{
    struct map_want wants[WANTS];
    size_t count = map_merge_wanted(merge, wants, WANTS);
    for (size_t i = 0; i < count; i++) {
        void *bytes = fetch(bench, &wants[i].run, wants[i].offset, wants[i].size);
        must(map_merge_supply(merge, &wants[i], bytes, NULL));
        free(bytes);
    }
}

static void merge_once(struct bench *bench, struct map_merge *merge)
{
    enum map_merge_state state = MAP_MERGE_NEEDS;
    struct str out = {0};
    while (state != MAP_MERGE_DONE) {
        struct map_run run;
        double began_s = now_s();
        must(map_merge_step(merge, &state, &run, &out, NULL));
        double took_s = now_s() - began_s;
        bench->longest_step_s = took_s > bench->longest_step_s ? took_s : bench->longest_step_s;
        if (state == MAP_MERGE_NEEDS) {
            supply_merge(bench, merge);
        } else if (state == MAP_MERGE_OUTPUT) {
            store(bench, &run, &out);
        }
    }
    map_merge_apply(bench->map, merge);
    map_merge_destroy(merge);
    str_release(&out);
    collect(bench);
}

static void merge_due(struct bench *bench)
{
    double began_s = now_s();
    while (map_merge_is_due(bench->map)) {
        merge_once(bench, map_merge_create(bench->map, false, 1, &bench->next_number));
    }
    bench->merge_s += now_s() - began_s;
}

/* A permutation of the folders: an odd factor and a shift by halves. */
static uint64_t folder_at(const struct bench *bench, uint64_t index)
{
    uint64_t folders = (bench->files + FOLDER_FILES - 1) / FOLDER_FILES;
    if (!bench->shuffled) {
        return index;
    }
    uint64_t size = 1;
    while (size < folders) {
        size *= 2;
    }
    do {
        index = (index * 0x9e3779b1u + 12345) & (size - 1);
        index ^= index >> 5;
    } while (index >= folders);
    return index;
}

static void build(struct bench *bench)
{
    static struct file files[FOLDER_FILES];
    uint64_t folders = (bench->files + FOLDER_FILES - 1) / FOLDER_FILES;
    for (uint64_t i = 0; i < folders; i++) {
        uint64_t first = folder_at(bench, i) * FOLDER_FILES;
        uint64_t count = bench->files - first < FOLDER_FILES ? bench->files - first : FOLDER_FILES;
        for (uint64_t k = 0; k < count; k++) {
            make_file(&files[k], first + k);
        }
        double began_s = now_s();
        for (uint64_t k = 0; k < count; k++) {
            put_file(bench, &files[k]);
        }
        bench->put_s += now_s() - began_s;
        if (map_table_bytes(bench->map) >= TABLE_BYTES) {
            checkpoint(bench);
            merge_due(bench);
        }
    }
    checkpoint(bench);
    merge_due(bench);
    collect(bench);
}

/* A map of what is in the folder, with an empty cache. */
static void reload(struct bench *bench)
{
    static struct map_run runs[MAP_RUNS_MAX];
    size_t count = map_runs(bench->map, runs, MAP_RUNS_MAX);
    map_destroy(bench->map);
    bench->map = map_create(CACHE_BYTES);
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)(runs[i].size - runs[i].index_offset);
        void *index = fetch(bench, &runs[i].container, runs[i].index_offset, size);
        must(map_add_run(bench->map, &runs[i], index, size, NULL));
        free(index);
    }
    bench->reads = 0;
    bench->read_bytes = 0;
}

/* Reading. ------------------------------------------------------------------------------------- */

static void get(struct bench *bench, const uint8_t *key, size_t size, bool there)
{
    struct map_slice value;
    enum err_code code = map_get(bench->map, key, size, &value, NULL);
    while (code == ERR_AGAIN) {
        supply(bench);
        code = map_get(bench->map, key, size, &value, NULL);
    }
    if (code != (there ? ERR_OK : ERR_NOT_FOUND)) {
        fprintf(stderr, "map_bench: a key is %s\n", there ? "lost" : "too many");
        exit(1);
    }
}

/* Microseconds for one lookup of the names and inodes of random files of [first, first + count). */
static double lookups(struct bench *bench, uint64_t first, uint64_t count, bool there)
{
    struct probe {
        uint8_t key[64];
        size_t size;
    } *probes = mem_array(PROBES, sizeof *probes);
    struct rng rng = {.state = 99};
    for (int i = 0; i < PROBES; i++) {
        uint64_t file = first + rng_below(&rng, count);
        struct probe *probe = &probes[i];
        probe->size = i % 2 ? inode_key(file, probe->key) : name_key(file, probe->key);
        if (!there) {
            probe->key[probe->size++] = '~';
        }
    }
    double began_s = now_s();
    for (int i = 0; i < PROBES; i++) {
        get(bench, probes[i].key, probes[i].size, there);
    }
    double took_s = now_s() - began_s;
    free(probes);
    return took_s / PROBES * 1e6;
}

struct listing {
    uint64_t keys;
    uint8_t last[MAP_KEY_MAX + 1];
    size_t last_size;
};

static bool list_each(void *context, struct map_slice key, struct map_slice value)
{
    struct listing *listing = context;
    listing->keys++;
    (void)value;
    memcpy(listing->last, key.bytes, key.size);
    listing->last_size = key.size;
    return true;
}

/* Keys a second over all keys that begin with prefix. */
static double scan(struct bench *bench, struct map_slice prefix)
{
    struct listing listing = {0};
    struct map_range range = {.prefix = prefix};
    double began_s = now_s();
    while (map_scan(bench->map, &range, list_each, &listing, NULL) == ERR_AGAIN) {
        supply(bench);
        if (listing.keys > 0) {
            listing.last[listing.last_size] = 0;
            range.from = (struct map_slice){listing.last, listing.last_size + 1};
        }
    }
    return (double)listing.keys / (now_s() - began_s);
}

/* Report. -------------------------------------------------------------------------------------- */

static void limit(const char *name, double value, const char *unit, double most)
{
    printf("bench map-%s-%s ours %.3f %s, limit %g %s, ratio %.3f, target <=1, %s\n", bench_kind,
           name, value, unit, most, unit, value / most, value <= most ? "pass" : "short");
}

static void least(const char *name, double value, const char *unit, double fewest)
{
    printf("bench map-%s-%s ours %.2f %s, limit %g %s, ratio %.3f, target >=1, %s\n", bench_kind,
           name, value, unit, fewest, unit, value / fewest, value >= fewest ? "pass" : "short");
}

static void say(const char *name, double value, const char *unit)
{
    printf("bench map-%s-%s ours %.3f %s\n", bench_kind, name, value, unit);
}

static void report_build(const struct bench *bench)
{
    double keys = 2 * (double)bench->files;
    limit("put", bench->put_s / keys * 1e6, "us/key", 0.5);
    least("run-build", (double)bench->written_keys / bench->write_s / 1e6, "M keys/s", 1);
    say("build-all", (double)bench->files / (bench->put_s + bench->write_s + bench->merge_s),
        "files/s");
    say("written-per-byte-kept", (double)bench->written_bytes / (double)bench->stored_bytes,
        "times");
    limit("longest-merge-step", bench->longest_step_s * 1e3, "ms", 10);
    limit("longest-checkpoint-step", bench->longest_part_s * 1e3, "ms", 10);
    say("stored", (double)bench->stored_bytes / (double)bench->files, "bytes/file");
    say("rss-built", rss_mb(), "MB");
}

static void report_size(const struct bench *bench, double rss_cold)
{
    struct map_memory memory;
    map_memory(bench->map, &memory);
    double files = (double)bench->files;
    double stored = (double)bench->stored_bytes;
    double indexes = (double)(memory.indexes - memory.filters);
    say("index-memory", indexes / 1e6, "MB");
    say("filter-memory", (double)memory.filters / 1e6, "MB");
    say("stored-per-index-byte", stored / indexes, "times");
    say("rss-after-reading", rss_mb(), "MB");
    say("rss-opened", rss_cold, "MB");
    /* Filters are of levels 0 and 1, which grow no further than this. */
    double upper = MAP_LEVEL_ONE_BYTES + MAP_LEVEL_ZERO_MAX * (double)TABLE_BYTES / 4;
    double filters = upper / (stored / (2 * files)) * 64 / 51;
    double all = stored / files * 1e8;
    say("at-100M-stored", all / 1e9, "GB");
    say("at-100M-index-memory", indexes / files * 1e8 / 1e6, "MB");
    say("at-100M-filter-memory", filters / 1e6, "MB");
    /* Each level below 1 that holds anything costs a lookup one block; all are fetched at once. */
    double below = MAP_LEVEL_ONE_BYTES;
    int levels = 0;
    for (double left = all - below; left > 0; left -= below) {
        below *= MAP_LEVEL_FACTOR;
        levels++;
    }
    say("at-100M-lookup-cold-fetches-most", levels, "blocks");
    double fixed = 2 * (double)TABLE_BYTES + (double)CACHE_BYTES;
    limit("at-100M-memory", (indexes / files * 1e8 + filters + fixed) / 1e6, "MB", 300);
}

static void report_lookups(struct bench *bench)
{
    double us = lookups(bench, 0, bench->files, true);
    say("lookup-cold", us, "us");
    say("lookup-cold-fetches", (double)bench->reads / PROBES, "blocks");
    say("lookup-cold-bytes", (double)bench->read_bytes / PROBES / 1e3, "KB");
    bench->reads = 0;
    us = lookups(bench, 0, bench->files, false);
    say("lookup-absent", us, "us");
    say("lookup-absent-fetches", (double)bench->reads / PROBES, "blocks");
    uint64_t first = bench->files / 2;
    uint64_t count = bench->files < WARM_FILES ? bench->files - first : WARM_FILES;
    lookups(bench, first, count, true);
    limit("lookup-warm", lookups(bench, first, count, true), "us", 1);
}

static void report_scans(struct bench *bench)
{
    bench->reads = 0;
    double rate = scan(bench, (struct map_slice){(const uint8_t *)"D", 1});
    say("scan-all-cold", rate / 1e6, "M keys/s");
    say("scan-all-fetches", (double)bench->reads, "requests");
    /* 256 folders in a row. */
    uint8_t prefix[64];
    name_key(bench->files / 2, prefix);
    struct map_slice some = {prefix, 7};
    scan(bench, some);
    least("scan-warm", scan(bench, some) / 1e6, "M keys/s", 3);
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .map = map_create(CACHE_BYTES),
        .files = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000,
        .shuffled = argc > 2 && strcmp(argv[2], "shuffled") == 0,
        .next_number = 1,
    };
    const char *tmp = getenv("TMPDIR");
    snprintf(bench.folder, sizeof bench.folder, "%s/map_bench.XXXXXX", tmp ? tmp : "/tmp");
    if (bench.files == 0 || !mkdtemp(bench.folder)) {
        die(bench.folder);
    }
    bool millions = bench.files % 1000000 == 0;
    snprintf(bench_kind, sizeof bench_kind, "%llu%s%s",
             (unsigned long long)(millions ? bench.files / 1000000 : bench.files),
             millions ? "M" : "", bench.shuffled ? "-shuffled" : "");
    build(&bench);
    report_build(&bench);
    reload(&bench);
    double rss_cold = rss_mb();
    report_lookups(&bench);
    report_scans(&bench);
    report_size(&bench, rss_cold);
    map_destroy(bench.map);
    bench.map = map_create(0);
    collect(&bench);
    map_destroy(bench.map);
    rmdir(bench.folder);
    return 0;
}
