/* The conformance suite over every driver that needs no server, and over wrapped ones. */
#include "base/check.h"
#include "base/io.h"
#include "base/rng.h"
#include "object/object_conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { SMALLER_BYTES = 3 << 20, SMALLER_STEPS = 1000, FEWER_KEYS = 1234 };

struct place {
    struct object_shelf *shelf;
    char folder[128];
    uint64_t opened; /* how often: each store has faults of its own */
};

static struct object_store *open_memory(struct object_conformance *driver)
{
    return object_memory_open(((struct place *)driver->context)->shelf);
}

static struct object_store *open_directory(struct object_conformance *driver)
{
    struct object_store *store = NULL;
    struct err err = {0};
    struct place *place = driver->context;
    if (object_directory_open(place->folder, false, &store, &err) != ERR_OK) {
        print_error("%s\n", err.text);
    }
    CHECK(store);
    return store;
}

static enum err_code open_in_thread(void *context, struct object_store **out, struct err *err)
{
    return object_directory_open(((struct place *)context)->folder, false, out, err);
}

static struct object_store *open_threaded(struct object_conformance *driver)
{
    struct object_store *store = NULL;
    enum err_code code = object_threaded_open(open_in_thread, driver->context, &store, NULL);
    CHECK(code == ERR_OK);
    return store;
}

static struct object_store *with_faults(struct object_conformance *driver,
                                        struct object_store *inner)
{
    struct place *place = driver->context;
    struct object_faults faults = {.seed = driver->seed + place->opened++,
                                   .fail = 0.1,
                                   .lost_reply = 0.1,
                                   .repeated = 0.1,
                                   .truncated = 0.1,
                                   .delay_ms = 1};
    return object_faulty_create(inner, &faults);
}

static struct object_store *with_retries(struct object_conformance *driver,
                                         struct object_store *inner)
{
    struct object_patience patience = {.seed = driver->seed, .first_ms = 1, .longest_ms = 4};
    return object_retry_create(inner, &patience);
}

static struct object_store *open_retry(struct object_conformance *driver)
{
    return with_retries(driver, open_memory(driver));
}

static struct object_store *open_faulty_memory(struct object_conformance *driver)
{
    return with_faults(driver, open_memory(driver));
}

static struct object_store *open_retry_faulty_memory(struct object_conformance *driver)
{
    return with_retries(driver, open_faulty_memory(driver));
}

static struct object_store *open_retry_faulty_directory(struct object_conformance *driver)
{
    return with_retries(driver, with_faults(driver, open_directory(driver)));
}

/* A second time over a directory, the disk has shown what it can: memory is quicker to sync. */
static const char *parent_of(const struct object_conformance *driver)
{
    const char *parent = getenv("TMPDIR");
    if (driver->many_keys == FEWER_KEYS && access("/dev/shm", W_OK) == 0) {
        return "/dev/shm";
    }
    return parent ? parent : "/tmp";
}

static int run(struct object_conformance *driver)
{
    static struct place place;
    place = (struct place){.shelf = object_shelf_create()};
    snprintf(place.folder, sizeof place.folder, "%s/drover-object-XXXXXX", parent_of(driver));
    CHECK(mkdtemp(place.folder));
    driver->context = &place;
    driver->seed = rng_seed_from_system();
    int failed = object_conformance_run(driver);
    object_shelf_destroy(place.shelf);
    enum err_code code = io_remove_tree(place.folder, NULL);
    CHECK(code == ERR_OK);
    return failed;
}

int main(void)
{
    struct object_conformance drivers[] = {
        {.name = "memory", .open = open_memory, .random_steps = 20000},
        {.name = "directory", .open = open_directory},
        {.name = "threaded directory",
         .open = open_threaded,
         .random_steps = SMALLER_STEPS,
         .many_keys = FEWER_KEYS,
         .large_bytes = SMALLER_BYTES},
        {.name = "retry memory", .open = open_retry},
        {.name = "faulty memory",
         .open = open_faulty_memory,
         .is_faulty = true,
         .random_steps = SMALLER_STEPS,
         .large_bytes = SMALLER_BYTES},
        {.name = "retry faulty memory",
         .open = open_retry_faulty_memory,
         .is_faulty = true,
         .random_steps = SMALLER_STEPS,
         .large_bytes = SMALLER_BYTES},
        {.name = "retry faulty directory",
         .open = open_retry_faulty_directory,
         .is_faulty = true,
         .random_steps = SMALLER_STEPS,
         .many_keys = FEWER_KEYS,
         .large_bytes = SMALLER_BYTES},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        failed += run(&drivers[i]);
    }
    return failed;
}
