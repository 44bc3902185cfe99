#include "store/store_conformance.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* -- the caller ------------------------------------------------------------------------------- */

/* Far more than any share of faults needs; a driver that never answers fails the test. */
enum { ATTEMPTS_MAX = 1000 };

#define INSIST(code, call)                                                                         \
    do {                                                                                           \
        int attempts = 0;                                                                          \
        do {                                                                                       \
            (code) = (call);                                                                       \
        } while (((code) == ERR_IO || (code) == ERR_QUOTA) && ++attempts < ATTEMPTS_MAX);          \
    } while (0)

enum err_code conformance_append(struct store *store, uint64_t first, uint32_t count,
                                 const struct str *bytes)
{
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->append(store, first, count, bytes->text, bytes->size, NULL));
    return code;
}

uint64_t conformance_last(struct store *store)
{
    uint64_t last = UINT64_MAX;
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->last(store, &last, NULL));
    CHECK(code == ERR_OK);
    return last;
}

enum err_code conformance_replay(struct store *store, uint64_t after, store_replay_fn fn,
                                 void *context)
{
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->replay(store, after, fn, context, NULL));
    return code;
}

static enum err_code put_snapshot(struct store *store, uint64_t upto, const struct str *bytes)
{
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->snapshot_put(store, upto, bytes->text, bytes->size, NULL));
    return code;
}

static enum err_code get_snapshot(struct store *store, uint64_t *upto, struct str *out)
{
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->snapshot_get(store, upto, out, NULL));
    return code;
}

static enum err_code put_doc(struct store *store, const char *name, const struct str *bytes)
{
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->doc_put(store, name, bytes->text, bytes->size, NULL));
    return code;
}

static enum err_code get_doc(struct store *store, const char *name, struct str *out)
{
    enum err_code code = ERR_OK;
    INSIST(code, store->ops->doc_get(store, name, out, NULL));
    return code;
}

void conformance_fill(struct str *out, uint64_t seed, size_t size)
{
    struct rng rng = {.state = seed};
    while (size > 0) {
        uint64_t bits = rng_next(&rng);
        size_t step = size < sizeof bits ? size : sizeof bits;
        str_add_bytes(out, &bits, step);
        size -= step;
    }
}

void conformance_folder_make(char *folder, size_t size)
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(folder, size, "%s/drover-store-XXXXXX", parent ? parent : "/tmp");
    CHECK(length > 0 && (size_t)length < size);
    CHECK(mkdtemp(folder));
}

void conformance_folder_remove(const char *folder)
{
    enum err_code code = io_remove_tree(folder, NULL);
    CHECK(code == ERR_OK);
}

char *conformance_path(const char *folder, const char *name)
{
    struct str path = {0};
    str_addf(&path, "%s/%s", folder, name);
    return str_take(&path);
}

/* -- the model: a list of batches, a snapshot, a few documents -------------------------------- */

enum { BATCHES_MAX = 4000, DOCS = 4 };
static const char *const doc_names[DOCS] = {"recipe", "options", "", "a name with \"quotes'; --"};

struct model_batch {
    uint64_t first;
    uint32_t count;
    uint64_t fill_seed;
    size_t size;
};

struct model {
    struct model_batch batches[BATCHES_MAX];
    size_t batch_count;
    size_t forgotten; /* how many of them a snapshot has replaced */
    uint64_t last;
    bool has_snapshot;
    uint64_t upto;
    struct str snapshot;
    bool has_doc[DOCS];
    struct str docs[DOCS];
};

static void model_destroy(struct model *model)
{
    str_release(&model->snapshot);
    for (size_t i = 0; i < DOCS; i++) {
        str_release(&model->docs[i]);
    }
    free(model);
}

static void model_append(struct model *model, const struct model_batch *batch)
{
    CHECK(model->batch_count < BATCHES_MAX);
    model->batches[model->batch_count++] = *batch;
    model->last += batch->count;
}

static void model_snapshot(struct model *model, uint64_t upto, const struct str *bytes)
{
    model->has_snapshot = true;
    model->upto = upto;
    str_clear(&model->snapshot);
    str_add_bytes(&model->snapshot, bytes->text, bytes->size);
    while (model->forgotten < model->batch_count &&
           model->batches[model->forgotten].first + model->batches[model->forgotten].count <=
               upto + 1) {
        model->forgotten++;
    }
}

static struct str batch_bytes(const struct model_batch *batch)
{
    struct str bytes = {0};
    conformance_fill(&bytes, batch->fill_seed, batch->size);
    return bytes;
}

/* -- comparing -------------------------------------------------------------------------------- */

struct expectation {
    const struct model *model;
    size_t next;    /* which batch must come */
    size_t stop_at; /* say "enough" after this many */
    size_t seen;
};

static bool expect_batch(void *context, uint64_t first, uint32_t count, const void *bytes,
                         size_t size)
{
    struct expectation *expected = context;
    assert_true(expected->next < expected->model->batch_count);
    const struct model_batch *batch = &expected->model->batches[expected->next++];
    assert_int_equal(first, batch->first);
    assert_int_equal(count, batch->count);
    assert_int_equal(size, batch->size);
    AUTO_STR struct str want = batch_bytes(batch);
    assert_true(size == 0 || memcmp(bytes, want.text, size) == 0);
    return ++expected->seen < expected->stop_at;
}

static void check_replay(struct store *store, const struct model *model, uint64_t after)
{
    struct expectation expected = {.model = model, .next = model->forgotten, .stop_at = SIZE_MAX};
    while (expected.next < model->batch_count && model->batches[expected.next].first <= after) {
        expected.next++;
    }
    assert_int_equal(conformance_replay(store, after, expect_batch, &expected), ERR_OK);
    assert_int_equal(expected.next, model->batch_count);
}

static void check_bytes(const struct str *have, const struct str *want)
{
    assert_int_equal(have->size, want->size);
    assert_true(want->size == 0 || memcmp(have->text, want->text, want->size) == 0);
}

static void check_all(struct store *store, const struct model *model)
{
    assert_int_equal(conformance_last(store), model->last);
    check_replay(store, model, 0);
    AUTO_STR struct str bytes = {0};
    uint64_t upto = 0;
    enum err_code code = get_snapshot(store, &upto, &bytes);
    assert_int_equal(code, model->has_snapshot ? ERR_OK : ERR_NOT_FOUND);
    if (code == ERR_OK) {
        assert_int_equal(upto, model->upto);
        check_bytes(&bytes, &model->snapshot);
    }
    for (size_t i = 0; i < DOCS; i++) {
        str_clear(&bytes);
        code = get_doc(store, doc_names[i], &bytes);
        assert_int_equal(code, model->has_doc[i] ? ERR_OK : ERR_NOT_FOUND);
        check_bytes(&bytes, &model->docs[i]);
    }
}

/* Appends to both; after faults, "it is there already" means that it went well. */
static void append_both(struct conformance_driver *driver, struct model *model, uint32_t count,
                        size_t size)
{
    struct model_batch batch = {.first = model->last + 1, .count = count, .size = size};
    batch.fill_seed = rng_mix(driver->seed, batch.first, size);
    AUTO_STR struct str bytes = batch_bytes(&batch);
    enum err_code code = conformance_append(driver->store, batch.first, count, &bytes);
    assert_true(code == ERR_OK || (driver->is_faulty && code == ERR_EXISTS));
    model_append(model, &batch);
}

static void snapshot_both(struct store *store, struct model *model, uint64_t upto, size_t size)
{
    AUTO_STR struct str bytes = {0};
    conformance_fill(&bytes, upto, size);
    assert_int_equal(put_snapshot(store, upto, &bytes), ERR_OK);
    model_snapshot(model, upto, &bytes);
}

static void doc_both(struct store *store, struct model *model, size_t which, uint64_t seed,
                     size_t size)
{
    model->has_doc[which] = true;
    str_clear(&model->docs[which]);
    conformance_fill(&model->docs[which], seed, size);
    assert_int_equal(put_doc(store, doc_names[which], &model->docs[which]), ERR_OK);
}

static void reopen(struct conformance_driver *driver)
{
    if (driver->reopens) {
        driver->store->ops->close(driver->store);
        driver->store = driver->open(driver);
    }
}

/* -- the tests -------------------------------------------------------------------------------- */

static void test_a_new_store_is_empty(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    check_all(driver->store, model);
    check_replay(driver->store, model, 17);
    check_replay(driver->store, model, UINT64_MAX);
    reopen(driver);
    check_all(driver->store, model);
    model_destroy(model);
}

static void test_batches_come_back_in_order(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    for (uint32_t i = 0; i < 30; i++) {
        append_both(driver, model, 1 + i % 4, (size_t)i * 37); /* the first one has no bytes */
    }
    check_all(driver->store, model);
    for (uint64_t after = 0; after <= model->last + 1; after++) {
        check_replay(driver->store, model, after);
    }
    reopen(driver);
    check_all(driver->store, model);
    model_destroy(model);
}

static void test_the_very_same_batch_exists(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    append_both(driver, model, 2, 100);
    append_both(driver, model, 3, 0);
    append_both(driver, model, 1, 300);
    for (size_t i = 0; i < model->batch_count; i++) {
        const struct model_batch *batch = &model->batches[i];
        AUTO_STR struct str bytes = batch_bytes(batch);
        assert_int_equal(conformance_append(driver->store, batch->first, batch->count, &bytes),
                         ERR_EXISTS);
    }
    check_all(driver->store, model);
    model_destroy(model);
}

static void test_a_batch_out_of_place_is_stale(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    append_both(driver, model, 2, 100);
    append_both(driver, model, 2, 100);
    AUTO_STR struct str same = batch_bytes(&model->batches[1]);
    AUTO_STR struct str longer = batch_bytes(&model->batches[1]);
    str_add_char(&longer, '\0');
    AUTO_STR struct str other = batch_bytes(&model->batches[1]);
    other.text[99] = (char)(other.text[99] ^ 1);

    struct store *store = driver->store;
    assert_int_equal(conformance_append(store, 3, 2, &longer), ERR_STALE);
    assert_int_equal(conformance_append(store, 3, 2, &other), ERR_STALE);
    assert_int_equal(conformance_append(store, 3, 1, &same), ERR_STALE);
    static const uint64_t wrong[] = {0,         1, 2, 4, 6, 7, INT64_MAX, (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(conformance_append(store, wrong[i], 2, &same), ERR_STALE);
    }
    check_all(store, model);
    model_destroy(model);
}

static void test_replay_stops_when_told(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    for (int i = 0; i < 5; i++) {
        append_both(driver, model, 1, 50);
    }
    for (size_t stop_at = 1; stop_at <= 5; stop_at++) {
        struct expectation expected = {.model = model, .stop_at = stop_at};
        assert_int_equal(conformance_replay(driver->store, 0, expect_batch, &expected), ERR_OK);
        assert_int_equal(expected.seen, stop_at);
    }
    append_both(driver, model, 1, 50); /* a replay left early is in nobody's way */
    check_all(driver->store, model);
    model_destroy(model);
}

static void test_a_snapshot_replaces_and_forgets(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    for (int i = 0; i < 4; i++) {
        append_both(driver, model, 3, 64); /* 1-3, 4-6, 7-9, 10-12 */
    }
    snapshot_both(driver->store, model, 0, 10);
    check_all(driver->store, model);
    snapshot_both(driver->store, model, 5, 1000); /* in the midst of the second batch */
    assert_int_equal(model->forgotten, 1);
    check_all(driver->store, model);
    snapshot_both(driver->store, model, 5, 0); /* again, other bytes: none */
    snapshot_both(driver->store, model, 6, 20);
    assert_int_equal(model->forgotten, 2);
    check_all(driver->store, model);
    check_replay(driver->store, model, 8);
    snapshot_both(driver->store, model, 12, 5000); /* nothing is left in the log */
    check_all(driver->store, model);
    reopen(driver);
    check_all(driver->store, model);
    append_both(driver, model, 2, 70);
    check_all(driver->store, model);
    model_destroy(model);
}

static void test_a_snapshot_out_of_place_is_refused(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    append_both(driver, model, 4, 64);
    append_both(driver, model, 4, 64);
    AUTO_STR struct str bytes = {0};
    str_add(&bytes, "never");
    assert_int_equal(put_snapshot(driver->store, 9, &bytes), ERR_RANGE);
    assert_int_equal(put_snapshot(driver->store, UINT64_MAX, &bytes), ERR_RANGE);
    check_all(driver->store, model);
    snapshot_both(driver->store, model, 6, 33);
    assert_int_equal(put_snapshot(driver->store, 5, &bytes), ERR_STALE);
    check_all(driver->store, model);

    struct model_batch *forgotten = &model->batches[0];
    AUTO_STR struct str old = batch_bytes(forgotten);
    assert_int_equal(conformance_append(driver->store, forgotten->first, forgotten->count, &old),
                     ERR_STALE);
    check_all(driver->store, model);
    model_destroy(model);
}

static void test_documents_are_replaced_whole(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    for (size_t i = 0; i < DOCS; i++) {
        doc_both(driver->store, model, i, i, 1000 * i); /* the first one has no bytes */
        check_all(driver->store, model);
    }
    doc_both(driver->store, model, 3, 9, 10);
    doc_both(driver->store, model, 1, 9, 0);
    check_all(driver->store, model);
    reopen(driver);
    check_all(driver->store, model);

    AUTO_STR struct str out = {0};
    str_add(&out, "kept ");
    assert_int_equal(get_doc(driver->store, "none", &out), ERR_NOT_FOUND);
    assert_int_equal(get_doc(driver->store, doc_names[3], &out), ERR_OK);
    assert_int_equal(out.size, 15);
    assert_memory_equal(out.text, "kept ", 5);
    model_destroy(model);
}

static void test_big_things_fit(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    append_both(driver, model, 100000, 5 << 20);
    append_both(driver, model, 1, 1);
    append_both(driver, model, UINT32_MAX, 5 << 20);
    doc_both(driver->store, model, 0, 1, 3 << 20);
    check_all(driver->store, model);
    snapshot_both(driver->store, model, 100001, 40 << 20);
    reopen(driver);
    check_all(driver->store, model);
    snapshot_both(driver->store, model, model->last, 100);
    check_all(driver->store, model);
    model_destroy(model);
}

static void random_step(struct conformance_driver *driver, struct model *model, struct rng *rng)
{
    uint64_t dice = rng_below(rng, 100);
    size_t size = (size_t)rng_below(rng, rng_below(rng, 20) == 0 ? 70000 : 600);
    if (dice < 60) {
        append_both(driver, model, (uint32_t)(1 + rng_below(rng, 5)), size);
    } else if (dice < 66) {
        uint64_t upto = model->upto + rng_below(rng, model->last - model->upto + 1);
        snapshot_both(driver->store, model, upto, size);
    } else if (dice < 74) {
        doc_both(driver->store, model, (size_t)rng_below(rng, DOCS), rng_next(rng), size);
    } else if (dice < 82 && model->batch_count > model->forgotten) {
        size_t which =
            model->forgotten + (size_t)rng_below(rng, model->batch_count - model->forgotten);
        AUTO_STR struct str bytes = batch_bytes(&model->batches[which]);
        assert_int_equal(conformance_append(driver->store, model->batches[which].first,
                                            model->batches[which].count, &bytes),
                         ERR_EXISTS);
    } else if (dice < 90) {
        check_replay(driver->store, model, rng_below(rng, model->last + 2));
    } else if (dice < 96) {
        check_all(driver->store, model);
    } else {
        reopen(driver);
    }
}

static void test_random_calls_match_the_model(void **state)
{
    struct conformance_driver *driver = *state;
    struct model *model = mem_alloc(sizeof *model);
    struct rng rng = {.state = driver->seed};
    print_message("%s: seed %llu\n", driver->name, (unsigned long long)driver->seed);
    for (int i = 0; i < driver->random_steps; i++) {
        random_step(driver, model, &rng);
    }
    check_all(driver->store, model);
    model_destroy(model);
}

/* -- the suite -------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    struct conformance_driver *driver = *state;
    conformance_folder_make(driver->folder, sizeof driver->folder);
    driver->store = driver->open(driver);
    return 0;
}

static int tear_down(void **state)
{
    struct conformance_driver *driver = *state;
    driver->store->ops->close(driver->store);
    driver->store = NULL;
    conformance_folder_remove(driver->folder);
    return 0;
}

#define CONFORMANCE_TEST(function)                                                                 \
    {                                                                                              \
#function, function, set_up, tear_down, driver                                             \
    }

int conformance_run(struct conformance_driver *driver)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_TEST(test_a_new_store_is_empty),
        CONFORMANCE_TEST(test_batches_come_back_in_order),
        CONFORMANCE_TEST(test_the_very_same_batch_exists),
        CONFORMANCE_TEST(test_a_batch_out_of_place_is_stale),
        CONFORMANCE_TEST(test_replay_stops_when_told),
        CONFORMANCE_TEST(test_a_snapshot_replaces_and_forgets),
        CONFORMANCE_TEST(test_a_snapshot_out_of_place_is_refused),
        CONFORMANCE_TEST(test_documents_are_replaced_whole),
        CONFORMANCE_TEST(test_big_things_fit),
        CONFORMANCE_TEST(test_random_calls_match_the_model),
    };
    return cmocka_run_group_tests_name(driver->name, tests, NULL, NULL);
}
