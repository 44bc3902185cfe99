/* What volume.h promises, one thing at a time. Dying and takeovers are volume_model_test.c's. */
#include "volume/volume.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A store that is away while `away` is set: every call ends with ERR_AGAIN. */
struct flaky {
    struct object_store store;
    struct object_store *inner;
    struct object_call *ended;
    bool away;
};

static void flaky_start(struct object_store *store, struct object_call *call)
{
    struct flaky *flaky = (struct flaky *)store;
    if (!flaky->away) {
        object_start(flaky->inner, call);
        return;
    }
    call->code = err_set(&call->err, ERR_AGAIN, "%s: the store is away", call->key);
    call->next = flaky->ended;
    flaky->ended = call;
}

static size_t flaky_run(struct object_store *store, int wait_ms)
{
    struct flaky *flaky = (struct flaky *)store;
    struct object_call *call = flaky->ended;
    size_t count = 0;
    flaky->ended = NULL;
    while (call != NULL) {
        struct object_call *next = call->next;
        call->done(call);
        call = next;
        count++;
    }
    return count + object_run(flaky->inner, count > 0 ? 0 : wait_ms);
}

static int flaky_fd(struct object_store *store)
{
    return object_fd(((struct flaky *)store)->inner);
}

static void flaky_stats(const struct object_store *store, struct object_stats *out)
{
    object_stats(((const struct flaky *)store)->inner, out);
}

static void flaky_close(struct object_store *store)
{
    struct flaky *flaky = (struct flaky *)store;
    while (flaky->ended != NULL) {
        struct object_call *call = flaky->ended;
        flaky->ended = call->next;
        call->done(call);
    }
    object_close(flaky->inner);
    free(flaky);
}

static struct flaky *flaky_open(struct object_store *inner)
{
    static const struct object_ops ops = {flaky_start, flaky_run, flaky_fd, flaky_stats,
                                          flaky_close};
    struct flaky *flaky = mem_alloc(sizeof *flaky);
    flaky->store.ops = &ops;
    flaky->inner = inner;
    return flaky;
}

/* A volume on a shelf. ------------------------------------------------------------------------- */

struct fixture {
    struct object_shelf *shelf;
    struct flaky *flaky;
    struct volume *volume;
};

static struct object_store *look(struct fixture *fixture)
{
    return object_memory_open(fixture->shelf);
}

static void format(struct fixture *fixture)
{
    struct volume_format format = {.pack_bytes = PACK_BYTES_MIN};
    struct engine_caller caller = {.now_ns = 1};
    struct object_store *store = look(fixture);
    struct err err = {0};
    assert_int_equal(volume_format_write(store, &format, &caller, &err), ERR_OK);
    object_close(store);
}

static enum err_code open_as(struct fixture *fixture, const struct volume_options *options)
{
    struct err err = {0};
    fixture->flaky = flaky_open(look(fixture));
    enum err_code code = volume_open(&fixture->flaky->store, options, &fixture->volume, &err);
    if (code != ERR_OK) {
        object_close(&fixture->flaky->store);
        fixture->volume = NULL;
    }
    return code;
}

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof *fixture);
    fixture->shelf = object_shelf_create();
    format(fixture);
    struct volume_options options = {.role = VOLUME_OWNER, .owner = "test"};
    assert_int_equal(open_as(fixture, &options), ERR_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    volume_abandon(fixture->volume);
    object_shelf_destroy(fixture->shelf);
    free(fixture);
    return 0;
}

struct file {
    struct volume *volume;
    const char *name;
    const char *text;
    bool inlined;
    struct engine_attr attr;
    struct extent extent;
    int posix;
};

static enum err_code op_make(void *context, struct err *err)
{
    struct file *file = context;
    struct engine_caller caller = {.now_ns = 2};
    struct engine_make make = {.folder = ENGINE_ROOT, .name = file->name, .mode = S_IFREG | 0644};
    return engine_make(volume_engine(file->volume), &caller, &make, &file->attr, &file->posix, err);
}

static enum err_code op_write(void *context, struct err *err)
{
    struct file *file = context;
    struct engine_caller caller = {.now_ns = 3};
    struct engine_write write = {
        .inode = file->attr.inode, .size = file->extent.size, .extents = &file->extent, .count = 1};
    return engine_write(volume_engine(file->volume), &caller, &write, &file->attr, &file->posix,
                        err);
}

static enum err_code op_lookup(void *context, struct err *err)
{
    struct file *file = context;
    return engine_lookup(volume_engine(file->volume), ENGINE_ROOT, file->name, &file->attr,
                         &file->posix, err);
}

static void write_file(struct volume *volume, const char *name, const char *text, bool inlined)
{
    struct file file = {.volume = volume, .name = name, .text = text};
    assert_int_equal(volume_do(volume, op_make, &file, NULL), ERR_OK);
    volume_place(volume, file.attr.inode, 0, text, strlen(text), inlined, &file.extent);
    assert_int_equal(volume_do(volume, op_write, &file, NULL), ERR_OK);
    volume_written(volume, &file.extent, 1);
}

static bool keep_extent(void *context, const struct extent *extent)
{
    *(struct extent *)context = *extent;
    return true;
}

struct extent_op {
    struct file *file;
    struct extent extent;
};

static enum err_code op_extent(void *context, struct err *err)
{
    struct extent_op *op = context;
    struct engine_span span = {op->file->attr.inode, 0, 1 << 20};
    return engine_extents(volume_engine(op->file->volume), &span, keep_extent, &op->extent,
                          &op->file->posix, err);
}

static void find_extent(struct volume *volume, const char *name, struct extent *out)
{
    struct file file = {.volume = volume, .name = name};
    struct extent_op op = {.file = &file};
    assert_int_equal(volume_do(volume, op_lookup, &file, NULL), ERR_OK);
    assert_int_equal(volume_do(volume, op_extent, &op, NULL), ERR_OK);
    *out = op.extent;
}

static void assert_text(struct fixture *fixture, const char *name, const char *text)
{
    struct extent extent = {0};
    char key[CONTAINER_NAME_MAX];
    char whole[4096] = "";
    find_extent(fixture->volume, name, &extent);
    container_name(&extent.container, key);
    struct object_store *store = look(fixture);
    struct object_call call = {
        .verb = OBJECT_GET, .key = key, .offset = extent.offset, .size = extent.stored_size};
    struct err err = {0};
    assert_int_equal(object_do(store, &call, &err), ERR_OK);
    assert_int_equal(extent_decode(&extent, call.body.text, whole, &err), ERR_OK);
    assert_int_equal(extent.whole, strlen(text));
    assert_memory_equal(whole, text, strlen(text));
    object_call_release(&call);
    object_close(store);
}

static bool count_item(void *context, const struct object_item *item)
{
    (void)item;
    ++*(size_t *)context;
    return true;
}

static size_t count_objects(struct fixture *fixture, const char *prefix)
{
    size_t count = 0;
    struct object_store *store = look(fixture);
    assert_int_equal(object_each(store, prefix, count_item, &count, NULL), ERR_OK);
    object_close(store);
    return count;
}

/* The tests. ----------------------------------------------------------------------------------- */

static void test_a_volume_is_made_once(void **state)
{
    struct fixture *fixture = *state;
    struct volume_format options = {0};
    struct engine_caller caller = {0};
    struct object_store *store = look(fixture);
    struct err err = {0};
    assert_int_equal(volume_format_write(store, &options, &caller, &err), ERR_EXISTS);
    object_close(store);
}

static void test_a_volume_that_was_not_made_to_its_end_is_ended(void **state)
{
    struct fixture *fixture = *state;
    struct volume_format options = {0};
    struct volume_options owner = {.role = VOLUME_OWNER, .take_over = true};
    struct engine_caller caller = {0};
    struct object_store *store = look(fixture);
    struct err err = {0};
    volume_abandon(fixture->volume);
    fixture->volume = NULL;
    assert_int_equal(object_delete(store, "head", &err), ERR_OK);
    assert_int_equal(object_delete(store, "log/0000000000000002", &err), ERR_OK); /* its fence */
    assert_int_equal(open_as(fixture, &owner), ERR_CORRUPT);
    assert_int_equal(volume_format_write(store, &options, &caller, &err), ERR_OK);
    assert_int_equal(open_as(fixture, &owner), ERR_OK);
    object_close(store);
}

static void test_nothing_is_opened_where_there_is_no_volume(void **state)
{
    (void)state;
    struct object_shelf *shelf = object_shelf_create();
    struct object_store *store = object_memory_open(shelf);
    struct volume_options options = {.role = VOLUME_OWNER};
    struct volume *volume = NULL;
    struct err err = {0};
    assert_int_equal(volume_open(store, &options, &volume, &err), ERR_NOT_FOUND);
    object_close(store);
    object_shelf_destroy(shelf);
}

static void test_a_volume_with_an_owner_is_refused_and_says_whose_it_is(void **state)
{
    struct fixture *fixture = *state;
    struct object_store *store = look(fixture);
    struct volume_options options = {.role = VOLUME_OWNER};
    struct volume *volume = NULL;
    struct err err = {0};
    assert_int_equal(volume_open(store, &options, &volume, &err), ERR_DENIED);
    assert_non_null(strstr(err.text, "test"));
    assert_int_equal(volume_close(fixture->volume, &err), ERR_OK);
    fixture->volume = NULL;
    assert_int_equal(volume_open(store, &options, &volume, &err), ERR_OK); /* it has left */
    assert_int_equal(volume_close(volume, &err), ERR_OK);
}

static void test_an_owner_whose_process_is_gone_need_not_be_asked(void **state)
{
    (void)state;
    char folder[] = "/tmp/volume_test.XXXXXX";
    struct object_store *store = NULL;
    struct volume_format format = {0};
    struct engine_caller caller = {0};
    struct volume_options options = {.role = VOLUME_OWNER, .owner = "the dead"};
    struct volume *volume = NULL;
    struct err err = {0};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(object_directory_open(folder, true, &store, &err), ERR_OK);
    assert_int_equal(volume_format_write(store, &format, &caller, &err), ERR_OK);
    pid_t pid = fork();
    if (pid == 0) {
        struct object_store *own = NULL;
        bool good = object_directory_open(folder, true, &own, &err) == ERR_OK &&
                    volume_open(own, &options, &volume, &err) == ERR_OK;
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(volume_open(store, &options, &volume, &err), ERR_OK);
    write_file(volume, "f", "in a folder", false);
    assert_int_equal(volume_close(volume, &err), ERR_OK);
    assert_int_equal(io_remove_tree(folder, &err), ERR_OK);
}

static void test_a_small_synced_file_is_one_request(void **state)
{
    struct fixture *fixture = *state;
    struct volume_stats before;
    struct volume_stats after;
    struct err err = {0};
    volume_stats(fixture->volume, &before);
    write_file(fixture->volume, "small", "a few bytes", true);
    assert_int_equal(volume_sync(fixture->volume, &err), ERR_OK);
    volume_stats(fixture->volume, &after);
    assert_int_equal(after.store.puts - before.store.puts, 1);
    assert_int_equal(after.store.gets - before.store.gets, 0);
    assert_text(fixture, "small", "a few bytes");
}

static void test_changes_made_while_a_commit_is_in_flight_share_the_next(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    uint64_t first = 0;
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        write_file(volume, name, "x", true);
        uint64_t seq = volume_commit(volume);
        first = i == 0 ? seq : first;
        assert_true(seq <= first + 1);
    }
    assert_int_equal(volume_sync(volume, NULL), ERR_OK);
    assert_int_equal(volume_seq_durable(volume), first + 1);
    assert_int_equal(volume_commit(volume), first + 1); /* nothing more is pending */
}

static void test_young_bytes_are_given_until_they_are_stored(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    for (int i = 0; i < 2; i++) {
        struct extent extent;
        const char *name = i == 0 ? "inline" : "packed";
        write_file(volume, name, name, i == 0);
        find_extent(volume, name, &extent);
        assert_memory_equal(volume_young(volume, &extent), name, 6);
        fixture->flaky->away = true;
        (void)volume_commit(volume);
        volume_run(volume, 0);
        assert_memory_equal(volume_young(volume, &extent), name, 6);
        fixture->flaky->away = false;
        assert_int_equal(volume_sync(volume, NULL), ERR_OK);
        assert_null(volume_young(volume, &extent));
        assert_text(fixture, name, name);
    }
}

static void test_a_store_that_is_away_is_waited_for(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    struct err err = {0};
    write_file(volume, "f", "patience", false);
    fixture->flaky->away = true;
    uint64_t seq = volume_commit(volume);
    for (int i = 0; i < 20; i++) {
        volume_run(volume, 10);
    }
    assert_int_equal(volume_trouble(volume, &err), ERR_AGAIN);
    assert_non_null(strstr(err.text, "away"));
    assert_true(volume_seq_durable(volume) < seq);
    fixture->flaky->away = false;
    assert_int_equal(volume_sync(volume, &err), ERR_OK);
    assert_int_equal(volume_trouble(volume, &err), ERR_OK);
    assert_text(fixture, "f", "patience");
}

static void test_too_much_unsent_data_is_congestion(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    char *bytes = mem_alloc(EXTENT_BYTES_MAX);
    struct extent extent;
    size_t count = 0;
    fixture->flaky->away = true;
    while (!volume_is_congested(volume)) {
        volume_place(volume, 1, 0, bytes, EXTENT_BYTES_MAX, false, &extent);
        count++;
        assert_true(count < 300);
    }
    assert_true(count >= 190);
    fixture->flaky->away = false;
    while (volume_is_congested(volume)) {
        volume_run(volume, 10);
    }
    free(bytes);
}

static void test_time_alone_commits_checkpoints_moves_and_collects(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    struct volume_stats stats;
    struct extent extent;
    int64_t now_ms = 1000;
    write_file(volume, "f", "moves into a pack", true);
    for (; now_ms < 3000; now_ms += 100) {
        volume_tick(volume, now_ms);
        volume_run(volume, 0);
    }
    assert_int_equal(engine_pending(volume_engine(volume)), 0);
    find_extent(volume, "f", &extent);
    assert_int_equal(extent.container.kind, CONTAINER_LOG);
    uint64_t seq = volume_seq_durable(volume);
    for (; now_ms < 60000; now_ms += 100) {
        volume_tick(volume, now_ms);
        volume_run(volume, 0);
    }
    find_extent(volume, "f", &extent);
    assert_int_equal(extent.container.kind, CONTAINER_PACK);
    assert_text(fixture, "f", "moves into a pack");
    assert_true(volume_seq_durable(volume) > seq);

    /* Then it is quiet: no request is made for nothing. */
    for (; now_ms < 120000; now_ms += 100) {
        volume_tick(volume, now_ms);
        volume_run(volume, 0);
    }
    volume_stats(volume, &stats);
    for (; now_ms < 4000000; now_ms += 1000) {
        volume_tick(volume, now_ms);
        volume_run(volume, 0);
    }
    struct volume_stats later;
    volume_stats(volume, &later);
    assert_true(later.store.puts - stats.store.puts <= 3);
    assert_true(later.store.lists - stats.store.lists <= 20);
}

static void remove_file(struct volume *volume, const char *name)
{
    struct engine_caller caller = {.now_ns = 1};
    struct engine_remove remove = {.folder = ENGINE_ROOT, .name = name};
    int posix = 0;
    assert_int_equal(engine_remove(volume_engine(volume), &caller, &remove, &posix, NULL), ERR_OK);
}

/* A file is written anew every second: what it leaves behind is collected all the same. */
static void test_a_volume_that_is_never_idle_is_tidied_too(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    struct volume_stats stats;
    for (int64_t now_ms = 1000; now_ms < 2000000; now_ms += 500) {
        if (now_ms % 1000 == 0) {
            if (now_ms > 1000) {
                remove_file(volume, "f");
            }
            write_file(volume, "f", "the same again", true);
        }
        volume_tick(volume, now_ms);
        volume_run(volume, 0);
    }
    volume_stats(volume, &stats);
    assert_true(stats.commits > 500);
    assert_true(stats.store.deletes > 0);
    assert_text(fixture, "f", "the same again");
}

static void test_small_packs_are_put_together(void **state)
{
    struct fixture *fixture = *state;
    struct volume_gc_report report;
    struct err err = {0};
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        write_file(fixture->volume, name, name, false);
        assert_int_equal(volume_sync(fixture->volume, &err), ERR_OK);
    }
    assert_int_equal(count_objects(fixture, "packs/"), 20);
    assert_int_equal(volume_compact(fixture->volume, 0, &err), ERR_OK);
    assert_int_equal(volume_gc(fixture->volume, false, &report, &err), ERR_OK);
    assert_int_equal(report.objects, 20);
    assert_int_equal(count_objects(fixture, "packs/"), 1);
    assert_int_equal(volume_compact(fixture->volume, 0, &err), ERR_OK); /* and then left alone */
    assert_int_equal(count_objects(fixture, "packs/"), 1);
    assert_text(fixture, "f7", "f7");
}

static void test_a_dry_run_of_gc_counts_and_deletes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct volume_gc_report dry;
    struct volume_gc_report real;
    struct err err = {0};
    write_file(fixture->volume, "f", "x", true);
    assert_int_equal(volume_checkpoint(fixture->volume, &err), ERR_OK);
    assert_int_equal(volume_gc(fixture->volume, true, &dry, &err), ERR_OK);
    assert_int_equal(count_objects(fixture, "log/0000000000000001"), 1);
    assert_int_equal(volume_gc(fixture->volume, false, &real, &err), ERR_OK);
    assert_int_equal(real.objects, dry.objects);
    assert_true(real.objects >= 1);
    assert_int_equal(count_objects(fixture, "log/0000000000000001"), 0);
}

static void test_snapshots_have_names_and_sizes(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};
    write_file(fixture->volume, "f", "x", true);
    assert_int_equal(volume_snapshot(fixture->volume, "v1", &err), ERR_OK);
    assert_int_equal(volume_snapshot(fixture->volume, "v1", &err), ERR_EXISTS);
    assert_int_equal(volume_snapshot(fixture->volume, "v/1", &err), ERR_INVALID);
    assert_int_equal(volume_snapshot_delete(fixture->volume, "v2", &err), ERR_NOT_FOUND);
    assert_int_equal(volume_snapshot(fixture->volume, "v2", &err), ERR_OK); /* of the same state */
    assert_int_equal(volume_snapshot_delete(fixture->volume, "v1", &err), ERR_OK);
    assert_int_equal(volume_close(fixture->volume, &err), ERR_OK);
    struct volume_options options = {.role = VOLUME_READER, .snapshot = "v1"};
    assert_int_equal(open_as(fixture, &options), ERR_NOT_FOUND);
    assert_int_equal(count_objects(fixture, "pin/"), 0);
    options.snapshot = "v2";
    assert_int_equal(open_as(fixture, &options), ERR_OK);
    assert_int_equal(count_objects(fixture, "pin/"), 1);
    assert_text(fixture, "f", "x");
    assert_int_equal(volume_close(fixture->volume, &err), ERR_OK);
    assert_int_equal(count_objects(fixture, "pin/"), 0);
    fixture->volume = NULL;
}

static struct volume_order *begin_order(struct volume *volume, const char *words)
{
    struct volume_order *order = NULL;
    struct err err = {0};
    assert_int_equal(volume_order_begin(volume, words, &order, &err), ERR_OK);
    return order;
}

static enum err_code end_order(struct volume *volume, struct volume_order *order, struct str *said)
{
    struct err err = {0};
    enum err_code code = ERR_AGAIN;
    int64_t until_ms = clock_mono_ms() + 30000;
    while (code == ERR_AGAIN && clock_mono_ms() < until_ms) {
        volume_run(volume, 1);
        code = volume_order_go_on(order, said, &err);
    }
    volume_order_drop(order);
    return code;
}

static void test_files_are_written_while_an_order_waits_for_the_store(void **state)
{
    static const char *const words[] = {"gc", "compact", "checkpoint", "sync", "snapshot v1"};
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    struct err err = {0};
    AUTO_STR struct str said = {0};
    write_file(volume, "before", "the order", true);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char name[] = {'f', (char)('0' + i), '\0'};
        char more[] = {'m', (char)('0' + i), '\0'};
        write_file(volume, more, words[i], false);
        fixture->flaky->away = true;
        struct volume_order *order = begin_order(volume, words[i]);
        assert_int_equal(volume_order_go_on(order, &said, &err), ERR_AGAIN);
        write_file(volume, name, words[i], false);
        assert_int_equal(volume_order_go_on(order, &said, &err), ERR_AGAIN);
        fixture->flaky->away = false;
        assert_int_equal(end_order(volume, order, &said), ERR_OK);
        assert_int_equal(volume_sync(volume, &err), ERR_OK);
        assert_text(fixture, name, words[i]);
    }
    assert_non_null(strstr(str_text(&said), "\"packs_kept\""));
    assert_int_equal(volume_sync(volume, &err), ERR_OK);
    assert_int_equal(volume_close(volume, &err), ERR_OK);
    struct volume_options options = {.role = VOLUME_READER, .snapshot = "v1"};
    assert_int_equal(open_as(fixture, &options), ERR_OK);
    assert_text(fixture, "before", "the order");
    assert_text(fixture, "m4", "snapshot v1");
    assert_int_equal(volume_close(fixture->volume, &err), ERR_OK);
    fixture->volume = NULL;
}

/* After any number of steps; those that come next are none the worse for it. */
static void test_an_order_may_be_dropped_at_any_time(void **state)
{
    static const char *const words[] = {"gc", "compact", "checkpoint", "snapshot dropped"};
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    AUTO_STR struct str said = {0};
    struct err err = {0};
    for (int steps = 0; steps < 40; steps++) {
        char text[16];
        snprintf(text, sizeof text, "%d", steps);
        write_file(volume, text, text, steps % 2 == 0);
        struct volume_order *order = begin_order(volume, words[steps % 4]);
        enum err_code code = ERR_AGAIN;
        for (int i = 0; code == ERR_AGAIN && i < steps / 4; i++) {
            code = volume_order_go_on(order, &said, &err);
            volume_run(volume, 0);
        }
        volume_order_drop(order);
        enum err_code ended = end_order(volume, begin_order(volume, "snapshot whole"), &said);
        assert_int_equal(ended, ERR_OK);
        assert_int_equal(end_order(volume, begin_order(volume, "gc"), &said), ERR_OK);
        ended = end_order(volume, begin_order(volume, "snapshot-delete whole"), &said);
        assert_int_equal(ended, ERR_OK);
        (void)end_order(volume, begin_order(volume, "snapshot-delete dropped"), &said);
        assert_text(fixture, text, text);
    }
}

static void test_orders_that_cannot_be_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct volume *volume = fixture->volume;
    struct volume_order *order = NULL;
    struct err err = {0};
    AUTO_STR struct str said = {0};
    char words[400] = "snapshot ";
    assert_int_equal(volume_order_begin(volume, "dance", &order, &err), ERR_UNSUPPORTED);
    memset(words + strlen(words), 'x', 201); /* one more than a name may have */
    assert_int_equal(end_order(volume, begin_order(volume, words), &said), ERR_INVALID);
    order = begin_order(volume, "snapshot-delete nosuch");
    assert_int_equal(end_order(volume, order, &said), ERR_NOT_FOUND);
}

static void test_a_damaged_run_is_an_error_and_not_an_answer(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};
    AUTO_STR struct str bytes = {0};
    struct file file = {.name = "f7"};
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        write_file(fixture->volume, name, name, true);
    }
    assert_int_equal(volume_checkpoint(fixture->volume, &err), ERR_OK);
    assert_int_equal(volume_close(fixture->volume, &err), ERR_OK);
    struct volume_options options = {.role = VOLUME_OWNER};
    assert_int_equal(open_as(fixture, &options), ERR_OK);
    /* The block was read by the opening: a fresh view has not. */
    struct object_store *store = look(fixture);
    const char *key = "runs/00000001-0000000000000001";
    assert_int_equal(object_get(store, key, &bytes, NULL, &err), ERR_OK);
    assert_int_equal(volume_close(fixture->volume, &err), ERR_OK);
    fixture->volume = NULL;
    bytes.text[10] ^= 1;
    assert_int_equal(object_put(store, key, bytes.text, bytes.size, &err), ERR_OK);
    enum err_code code = open_as(fixture, &options);
    if (code == ERR_OK) {
        file.volume = fixture->volume;
        code = volume_do(fixture->volume, op_lookup, &file, &err);
    }
    assert_int_equal(code, ERR_CORRUPT);
    bytes.text[10] ^= 1;
    assert_int_equal(object_put(store, key, bytes.text, bytes.size, &err), ERR_OK);
    options.take_over = true;
    volume_abandon(fixture->volume);
    assert_int_equal(open_as(fixture, &options), ERR_OK);
    assert_text(fixture, "f7", "f7");
    object_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_volume_is_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_volume_that_was_not_made_to_its_end_is_ended, set_up,
                                        tear_down),
        cmocka_unit_test(test_nothing_is_opened_where_there_is_no_volume),
        cmocka_unit_test_setup_teardown(test_a_volume_with_an_owner_is_refused_and_says_whose_it_is,
                                        set_up, tear_down),
        cmocka_unit_test(test_an_owner_whose_process_is_gone_need_not_be_asked),
        cmocka_unit_test_setup_teardown(test_a_small_synced_file_is_one_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_changes_made_while_a_commit_is_in_flight_share_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_young_bytes_are_given_until_they_are_stored, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_store_that_is_away_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_much_unsent_data_is_congestion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_time_alone_commits_checkpoints_moves_and_collects,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_volume_that_is_never_idle_is_tidied_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_small_packs_are_put_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_dry_run_of_gc_counts_and_deletes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_snapshots_have_names_and_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_are_written_while_an_order_waits_for_the_store,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_order_may_be_dropped_at_any_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_orders_that_cannot_be_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_run_is_an_error_and_not_an_answer, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
