#include "master/depot_testing.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "wire/manifest.h"
#include "wire/treeread.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static void make_keys(struct door_keys *keys)
{
    assert_int_equal(zmq_curve_keypair(keys->public_key, keys->secret_key), 0);
}

void pair_open(struct pair *pair, const char *name)
{
    *pair = (struct pair){.verdict = ERR_OK};
    const char *base = getenv("TMPDIR");
    snprintf(pair->folder, sizeof pair->folder, "%s/drover-%s-XXXXXX", base ? base : "/tmp", name);
    assert_non_null(mkdtemp(pair->folder));
    snprintf(pair->state, sizeof pair->state, "%s/state", pair->folder);
    snprintf(pair->flow, sizeof pair->flow, "%s/state/flow", pair->folder);
    snprintf(pair->work, sizeof pair->work, "%s/work", pair->folder);
    assert_int_equal(io_make_dirs(pair->flow, NULL), ERR_OK);
    assert_int_equal(io_make_dirs(pair->work, NULL), ERR_OK);
    make_keys(&pair->master_keys);
    make_keys(&pair->node_keys);
    pair->master_context = zmq_ctx_new();
    pair->node_context = zmq_ctx_new();
    pair->guard = door_guard_start(pair->master_context);
}

void pair_close(struct pair *pair)
{
    pair_stop_bulk(pair);
    pair_stop_depot(pair);
    door_guard_stop(pair->guard);
    zmq_ctx_term(pair->node_context);
    zmq_ctx_term(pair->master_context);
    str_release(&pair->http_body);
    assert_int_equal(io_remove_tree(pair->folder, NULL), ERR_OK);
}

void pair_start_depot(struct pair *pair)
{
    const char *names[] = {"alpha", "beta"};
    struct depot_options options = {.zmq_context = pair->master_context,
                                    .host = "127.0.0.1",
                                    .port = pair->port,
                                    .keys = &pair->master_keys,
                                    .state_folder = pair->state,
                                    .output_bytes_max = pair->output_bytes_max};
    struct err err = {0};
    enum err_code code = ERR_EXISTS;
    for (int i = 0; i < 100 && code == ERR_EXISTS; i++) {
        code = depot_start(&options, &pair->depot, &err);
        usleep(code == ERR_EXISTS ? 20000 : 0); /* the last one's socket is still closing */
    }
    if (code != ERR_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(code, ERR_OK);
    pair->port = depot_port(pair->depot);
    depot_flow(pair->depot,
               &(struct depot_flow){
                   .number = 1, .folder = pair->flow, .experiments = names, .experiment_count = 2});
}

void pair_stop_depot(struct pair *pair)
{
    depot_stop(pair->depot);
    pair->depot = NULL;
}

void pair_start_bulk(struct pair *pair, bool is_shared)
{
    struct bulk_options options = {.zmq_context = pair->node_context,
                                   .host = "127.0.0.1",
                                   .port = pair->port,
                                   .server_key = pair->master_keys.public_key,
                                   .keys = &pair->node_keys,
                                   .work_folder = pair->work,
                                   .is_shared = is_shared};
    assert_int_equal(bulk_start(&options, &pair->bulk, NULL), ERR_OK);
}

void pair_stop_bulk(struct pair *pair)
{
    bulk_stop(pair->bulk);
    pair->bulk = NULL;
}

static void answer(struct pair *pair, const struct depot_event *event)
{
    switch (event->kind) {
    case DEPOT_QUESTION:
        pair->questions++;
        assert_string_equal(event->key, pair->node_keys.public_key);
        depot_answer(pair->depot, event->number, pair->verdict, "as the test wants it",
                     pair->log_limit_bytes, pair->checkpoint ? pair->checkpoint : event->id.task);
        break;
    case DEPOT_HTTP:
        pair->http = *event;
        pair->has_http = true;
        str_clear(&pair->http_body);
        str_add_bytes(&pair->http_body, event->body, event->body_size);
        break;
    case DEPOT_TROUBLE:
        pair->in_trouble = true;
        pair->troubles++;
        break;
    case DEPOT_RECOVERED:
        pair->in_trouble = false;
        break;
    }
}

static void answer_all(struct pair *pair)
{
    struct depot_event event;
    while (pair->depot && depot_next(pair->depot, &event)) {
        answer(pair, &event);
    }
}

bool pair_wait(struct pair *pair, uint64_t ticket, int64_t wait_ms, struct bulk_event *event)
{
    int64_t until_ms = clock_mono_ms() + wait_ms;
    struct bulk_event ignored = {0};
    event = event ? event : &ignored;
    while (clock_mono_ms() < until_ms) {
        answer_all(pair);
        if (!pair->bulk) {
            usleep(1000);
            continue;
        }
        struct pollfd file = {.fd = bulk_fd(pair->bulk), .events = POLLIN};
        poll(&file, 1, 1);
        while (bulk_next(pair->bulk, event)) {
            if (event->ticket == ticket) {
                return true;
            }
            print_message("event of ticket %" PRIu64 " instead of %" PRIu64 ": %s\n", event->ticket,
                          ticket, event->err.text);
            assert_true(false);
        }
    }
    return false;
}

void pair_expect_done(struct pair *pair, uint64_t ticket)
{
    struct bulk_event event = {0};
    assert_true(pair_wait(pair, ticket, 30000, &event));
    if (event.err.code != ERR_OK) {
        print_message("%s\n", event.err.text);
    }
    assert_int_equal(event.err.code, ERR_OK);
}

int pair_http(struct pair *pair, const char *method, const char *path, const void *body,
              size_t size)
{
    static uint64_t id = 0;
    id++;
    struct depot_request request = {.id = id,
                                    .method = method,
                                    .path = path,
                                    .body = body,
                                    .body_size = size,
                                    .release = free,
                                    .owner = mem_alloc(10)};
    pair->has_http = false;
    depot_post_http(pair->depot, &request);
    for (int i = 0; i < 20000 && !pair->has_http; i++) {
        answer_all(pair);
        usleep(pair->has_http ? 0 : 500);
    }
    assert_true(pair->has_http);
    assert_true(pair->http.number == id);
    return pair->http.status;
}

/* --- trees ----------------------------------------------------------------------------------- */

void testing_write(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, bytes, size, NULL), ERR_OK);
    close(fd);
}

static void make_file(const char *path, struct rng *rng, size_t max_bytes)
{
    size_t size = (size_t)rng_below(rng, max_bytes + 1);
    size = rng_below(rng, 3) == 0 ? size : size / 100;
    AUTO_FREE uint8_t *bytes = mem_alloc(size + 8);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t bits = rng_next(rng);
        memcpy(bytes + i, &bits, 8);
    }
    testing_write(path, bytes, size);
    assert_int_equal(chmod(path, rng_below(rng, 4) == 0 ? 0755 : 0644), 0);
}

void testing_make_tree(const char *folder, struct rng *rng, int entries, size_t max_bytes)
{
    static const char *const names[] = {"a", "b-c", "b", "b.d", "%41", "new\nline", "ü", "sp ace"};
    char *folders[64] = {mem_strdup(folder)};
    size_t folder_count = 1;
    assert_int_equal(io_make_dirs(folder, NULL), ERR_OK);
    for (int i = 0; i < entries; i++) {
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s/%s%d", folders[rng_below(rng, folder_count)], names[rng_below(rng, 8)],
                 i);
        uint64_t kind = rng_below(rng, 10);
        if (kind == 0 && folder_count < 64) {
            assert_int_equal(mkdir(str_text(&path), 0755), 0);
            folders[folder_count++] = mem_strdup(str_text(&path));
        } else if (kind == 1) {
            assert_int_equal(
                symlink(rng_below(rng, 2) ? "../../../etc/passwd" : "b", str_text(&path)), 0);
        } else {
            make_file(str_text(&path), rng, max_bytes);
        }
    }
    for (size_t i = 0; i < folder_count; i++) {
        free(folders[i]);
    }
}

static void describe_content(struct treeread *reader, const struct treeread_entry *entry,
                             struct str *out)
{
    struct sha256 hash;
    sha256_init(&hash);
    uint64_t offset = 0;
    static uint8_t buffer[1 << 16];
    size_t got = sizeof buffer;
    while (got == sizeof buffer) {
        size_t room = entry->type == TREEREAD_LINK ? 4096 : sizeof buffer;
        assert_int_equal(treeread_bytes(reader, offset, buffer, room, &got, NULL), ERR_OK);
        sha256_update(&hash, buffer, got);
        offset += got;
    }
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_CHARS + 1];
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
    str_addf(out, " %s", hex);
}

static void describe(const char *folder, bool is_code, struct str *out)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        str_addf(out, "no folder %s", folder);
        return;
    }
    struct treeread *reader = treeread_create(fd, NULL, NULL);
    struct treeread_entry entry;
    enum err_code code = ERR_OK;
    while ((code = treeread_next(reader, &entry, NULL)) == ERR_OK) {
        uint32_t mode = entry.type == TREEREAD_LINK ? 0 : entry.mode;
        mode = is_code ? mode & 0100 : mode;
        str_addf(out, "%s %d %o %" PRIu64, entry.path, (int)entry.type, mode, entry.size);
        if (entry.type == TREEREAD_FILE && !is_code) {
            str_addf(out, " %" PRId64, entry.mtime_ns);
        }
        if (entry.type != TREEREAD_FOLDER) {
            describe_content(reader, &entry, out);
        }
        str_add_char(out, '\n');
    }
    assert_int_equal(code, ERR_NOT_FOUND);
    treeread_destroy(reader);
}

static void assert_same(const char *a, const char *b, bool is_code)
{
    AUTO_STR struct str left = {0};
    AUTO_STR struct str right = {0};
    describe(a, is_code, &left);
    describe(b, is_code, &right);
    assert_string_equal(str_text(&left), str_text(&right));
}

void testing_assert_same(const char *a, const char *b)
{
    assert_same(a, b, false);
}

void testing_assert_same_code(const char *a, const char *b)
{
    assert_same(a, b, true);
}
