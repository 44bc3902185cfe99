/* engine_bench [FILES] - what the volume's engine costs over the real map, in one thread, without a
 * store: microseconds for each operation, entries listed in a second. First with everything in the
 * table in memory, then from runs whose blocks are in the cache.
 */
#include "base/check.h"
#include "volume/engine.h"
#include "volume/engine_testmap.h"
#include "volume/logobj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { BATCH = 100, COMMIT_FILES = 20000 };

static const struct engine_caller caller = {1000, 1000, 1700000000000000000};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* others may use this machine */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define DO(testmap_, call)                                                                         \
    do {                                                                                           \
        enum err_code code_;                                                                       \
        while ((code_ = (call)) == ERR_AGAIN) {                                                    \
            testmap_supply(testmap_);                                                              \
        }                                                                                          \
        CHECK(code_ == ERR_OK);                                                                    \
    } while (0)

static void count_change(void *context, const struct logobj_change *change)
{
    *(uint64_t *)context += change->key_size + change->value_size;
}

static void name_of(long i, char out[32])
{
    (void)snprintf(out, 32, "image-%08ld.jpg", i);
}

static void make_some(struct testmap *testmap, struct engine *engine, long first, uint64_t *inodes)
{
    for (long i = 0; i < BATCH; i++) {
        char name[32];
        name_of(first + i, name);
        struct engine_make make = {ENGINE_ROOT, name, S_IFREG | 0644, 0, NULL, 0};
        struct engine_attr attr;
        int posix = 0;
        DO(testmap, engine_make(engine, &caller, &make, &attr, &posix, NULL));
        engine_hold(engine, ENGINE_ROOT, attr.inode, false);
        inodes[i] = attr.inode;
    }
}

static void write_some(struct testmap *testmap, struct engine *engine, long first,
                       const uint64_t *inodes)
{
    for (long i = 0; i < BATCH; i++) {
        uint64_t number = (uint64_t)(first + i);
        struct extent extent = {.size = 40000,
                                .container = {CONTAINER_PACK, 0, 1, number / 1600},
                                .offset = number % 1600 * 40000,
                                .stored_size = 40000,
                                .checksum = 0x123456789abcdef,
                                .whole = 40000};
        struct engine_write write = {inodes[i], 40000, &extent, 1, caller.now_ns, false};
        struct engine_attr attr;
        int posix = 0;
        DO(testmap, engine_write(engine, &caller, &write, &attr, &posix, NULL));
        engine_release(engine, inodes[i]);
    }
}

/* Each file is made, held, written and released, as an untar does through the mount. */
static void make_files(struct testmap *testmap, struct engine *engine, long files)
{
    uint64_t log_bytes = 0;
    double make_s = 0;
    double write_s = 0;
    double take_s = 0;
    for (long i = 0; i < files; i += BATCH) {
        uint64_t inodes[BATCH];
        double start_s = now_s();
        make_some(testmap, engine, i, inodes);
        double made_s = now_s();
        write_some(testmap, engine, i, inodes);
        double written_s = now_s();
        if ((i + BATCH) % COMMIT_FILES == 0) {
            for (long pack = (i - COMMIT_FILES) / 1600; pack <= i / 1600; pack++) {
                engine_container_add(
                    engine, &(struct engine_container){
                                .container = {CONTAINER_PACK, 0, 1, (uint64_t)pack}, .born = 1});
            }
            engine_take(engine, count_change, &log_bytes);
        }
        make_s += made_s - start_s;
        write_s += written_s - made_s;
        take_s += now_s() - written_s;
    }
    engine_take(engine, count_change, &log_bytes);
    printf("bench engine-make ours %.2f us\nbench engine-write ours %.2f us\n"
           "bench engine-take ours %.2f us a file, %.0f bytes a file\n",
           make_s * 1e6 / (double)files, write_s * 1e6 / (double)files,
           take_s * 1e6 / (double)files, (double)log_bytes / (double)files);
}

static void look_up(struct testmap *testmap, struct engine *engine, long files, const char *where)
{
    long lookups = files < 500000 ? files : 500000;
    uint64_t at = 1;
    double start_s = now_s();
    for (long i = 0; i < lookups; i++) {
        char name[32];
        at = at * 6364136223846793005u + 1442695040888963407u;
        name_of((long)((at >> 20) % (uint64_t)files), name);
        struct engine_attr attr;
        int posix = 0;
        DO(testmap, engine_lookup(engine, ENGINE_ROOT, name, &attr, &posix, NULL));
        DO(testmap, engine_getattr(engine, attr.inode, &attr, &posix, NULL));
    }
    printf("bench engine-lookup-getattr-%s ours %.2f us\n", where,
           (now_s() - start_s) * 1e6 / (double)lookups);
}

struct listing {
    char last[256];
    long count;
    uint64_t bytes;
};

static bool see(void *context, const struct engine_entry *entry)
{
    struct listing *listing = context;
    listing->count++;
    listing->bytes += entry->attr ? entry->attr->size : 0;
    (void)snprintf(listing->last, sizeof listing->last, "%s", entry->name);
    return true;
}

static void list(struct testmap *testmap, struct engine *engine, long files, const char *where)
{
    struct listing all = {0};
    double start_s = now_s();
    enum err_code code = ERR_AGAIN;
    while (code == ERR_AGAIN) {
        char after[256];
        (void)snprintf(after, sizeof after, "%s", all.last);
        struct engine_listing listing = {ENGINE_ROOT, *after ? after : NULL, true};
        int posix = 0;
        code = engine_list(engine, &listing, see, &all, &posix, NULL);
        testmap_supply(testmap);
    }
    CHECK(code == ERR_OK);
    CHECK(all.count == files);
    printf("bench engine-list-plus-%s ours %.2f million/s\n", where,
           (double)files / (now_s() - start_s) / 1e6);
}

static bool ignore(void *context, struct map_slice key, struct map_slice value)
{
    (void)context;
    (void)key;
    (void)value;
    return true;
}

static void remove_files(struct testmap *testmap, struct engine *engine, long files)
{
    double start_s = now_s();
    for (long i = 0; i < files; i++) {
        char name[32];
        name_of(i, name);
        struct engine_remove gone = {.folder = ENGINE_ROOT, .name = name};
        int posix = 0;
        DO(testmap, engine_remove(engine, &caller, &gone, &posix, NULL));
    }
    printf("bench engine-remove ours %.2f us\n", (now_s() - start_s) * 1e6 / (double)files);
}

int main(int argc, char **argv)
{
    long files = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    files = files / BATCH * BATCH;
    struct testmap *testmap = testmap_create(1, 0);
    struct engine *engine = engine_create(testmap_map(testmap));
    engine_set_seq(engine, 1);
    engine_format(engine, &caller, 0755);
    make_files(testmap, engine, files);
    look_up(testmap, engine, files, "table");
    list(testmap, engine, files, "table");
    testmap_checkpoint(testmap, engine, ignore, NULL);
    list(testmap, engine, files, "cold-runs");
    list(testmap, engine, files, "runs");
    look_up(testmap, engine, files, "runs");
    remove_files(testmap, engine, files);
    engine_destroy(engine);
    testmap_destroy(testmap);
    return 0;
}
