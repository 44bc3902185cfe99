/* Peers that mean harm, connections that break, and a disk that is full. */
#include "master/depot_testing.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static Drover__Attempt attempt_of(uint64_t task)
{
    Drover__Attempt id = DROVER__ATTEMPT__INIT;
    id.workflow = 1;
    id.task = task;
    id.attempt = 1;
    id.term = 1;
    return id;
}

/* --- a peer that says what it likes ---------------------------------------------------------- */

struct evil {
    struct pair pair;
    void *socket;
    uint64_t next_ticket;
};

static void open_evil(struct evil *evil)
{
    pair_open(&evil->pair, "evil");
    evil->pair.output_bytes_max = 1 << 20;
    pair_start_depot(&evil->pair);
    struct door_address master = {"127.0.0.1", evil->pair.port, evil->pair.master_keys.public_key};
    assert_int_equal(
        door_connect(evil->pair.node_context, &master, &evil->pair.node_keys, &evil->socket, NULL),
        ERR_OK);
    evil->next_ticket = 1;
}

static void close_evil(struct evil *evil)
{
    zmq_close(evil->socket);
    pair_close(&evil->pair);
}

static void send_message(struct evil *evil, const Drover__ToDepot *message)
{
    for (int i = 0; i < 5000; i++) {
        if (bulk_send_to_depot(evil->socket, message, NULL) == ERR_OK) {
            return;
        }
        usleep(1000);
    }
    assert_true(false);
}

/* The next answer about the ticket, or NULL. */
static Drover__FromDepot *hear(struct evil *evil, uint64_t ticket, int64_t wait_ms)
{
    int64_t until_ms = clock_mono_ms() + wait_ms;
    while (clock_mono_ms() < until_ms) {
        pair_wait(&evil->pair, 0, 2, NULL);
        Drover__FromDepot *message = NULL;
        if (bulk_receive_from_depot(evil->socket, &message, NULL) == ERR_OK) {
            if (message->ticket == ticket) {
                return message;
            }
            bulk_free_from_depot(message);
        }
    }
    return NULL;
}

static void begin(Drover__ToDepot *message, uint64_t ticket)
{
    drover__to_depot__init(message);
    message->protocol = BULK_PROTOCOL;
    message->boot = 42;
    message->ticket = ticket;
}

/* Puts an output of one piece with these parts; returns what the master says in the end: ERR_OK or
 * the code of its refusal. */
static enum err_code put_parts(struct evil *evil, Drover__BulkPart **parts, size_t count)
{
    Drover__ToDepot message;
    Drover__BulkPut put = DROVER__BULK_PUT__INIT;
    Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
    Drover__Attempt id = attempt_of(evil->next_ticket);
    begin(&message, evil->next_ticket++);
    put.kind = DROVER__BULK_KIND__BULK_KIND_OUTPUT;
    put.id = &id;
    piece.part = parts;
    piece.n_part = count;
    message.put = &put;
    message.piece = &piece;
    message.end = true;
    message.count = 1;
    send_message(evil, &message);
    Drover__FromDepot *answer = hear(evil, message.ticket, 3000);
    enum err_code code = ERR_TIMEOUT; /* malformed messages get no answer */
    if (answer) {
        code = answer->no ? answer->no->code : ERR_OK;
        assert_true(answer->no || answer->done);
    }
    bulk_free_from_depot(answer);
    return code;
}

static void set_part(Drover__BulkPart *part, const char *path, Drover__BulkType type,
                     const char *data)
{
    drover__bulk_part__init(part);
    part->path.data = (uint8_t *)(uintptr_t)path;
    part->path.len = strlen(path);
    part->type = type;
    part->data.data = (uint8_t *)(uintptr_t)data;
    part->data.len = strlen(data);
    part->size = part->data.len;
    part->mode = 06777;
}

static void no_path_leads_out(void **state)
{
    (void)state;
    struct evil evil;
    open_evil(&evil);
    Drover__BulkPart parts[2];
    Drover__BulkPart *pointers[] = {&parts[0], &parts[1]};
    char victim[700];
    snprintf(victim, sizeof victim, "%s/victim", evil.pair.folder);
    testing_write(victim, "safe", 4);
    const Drover__BulkType file = DROVER__BULK_TYPE__BULK_TYPE_FILE;
    const Drover__BulkType link = DROVER__BULK_TYPE__BULK_TYPE_LINK;
    set_part(&parts[0], "fine", file, "x");
    assert_int_equal(put_parts(&evil, pointers, 1), ERR_OK);
    set_part(&parts[0], "l", link, evil.pair.folder);
    set_part(&parts[1], "l/victim", file, "hacked");
    assert_int_equal(put_parts(&evil, pointers, 2), ERR_INVALID);
    set_part(&parts[0], "l", link, victim);
    set_part(&parts[1], "l", file, "hacked");
    assert_int_equal(put_parts(&evil, pointers, 2), ERR_INVALID);
    set_part(&parts[0], "../../../victim", file, "hacked");
    Drover__ToDepot message;
    Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
    begin(&message, 1000);
    piece.part = pointers;
    piece.n_part = 1;
    message.piece = &piece;
    send_message(&evil, &message);
    assert_null(hear(&evil, 1000, 200));
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(victim, 100, &text, NULL), ERR_OK);
    assert_string_equal(str_text(&text), "safe");
    /* set-id bits and write for others were cut off */
    char made[800];
    struct stat stat;
    snprintf(made, sizeof made, "%s/attempts/alpha/0/1.1/fine", evil.pair.flow);
    assert_int_equal(lstat(made, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0755);
    assert_false(pair_wait(&evil.pair, 0, 1300, NULL));
    struct depot_counts counts;
    depot_counts(evil.pair.depot, &counts);
    assert_true(counts.bad == 3 && counts.uploads == 1 && counts.open == 0);
    close_evil(&evil);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct evil evil;
    open_evil(&evil);
    AUTO_FREE char *bytes = mem_alloc(BULK_PIECE_BYTES + 1);
    memset(bytes, 'x', BULK_PIECE_BYTES);
    Drover__ToDepot message;
    Drover__BulkPut put = DROVER__BULK_PUT__INIT;
    Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
    Drover__BulkPart part;
    Drover__BulkPart *parts[] = {&part};
    Drover__Attempt id = attempt_of(1);
    set_part(&part, "big", DROVER__BULK_TYPE__BULK_TYPE_FILE, bytes);
    part.size = UINT64_C(1) << 40;
    put.kind = DROVER__BULK_KIND__BULK_KIND_OUTPUT;
    put.id = &id;
    piece.part = parts;
    piece.n_part = 1;
    bool is_refused = false;
    for (uint64_t i = 0; i < 8 && !is_refused; i++) {
        begin(&message, 1);
        message.put = i == 0 ? &put : NULL;
        message.piece = &piece;
        piece.number = i;
        part.offset = i * BULK_PIECE_BYTES;
        send_message(&evil, &message);
        Drover__FromDepot *answer = hear(&evil, 1, 3000);
        assert_non_null(answer);
        is_refused = answer->no != NULL;
        assert_true(!is_refused || answer->no->code == ERR_QUOTA);
        assert_true(!is_refused || i == 4); /* a megabyte may be sent */
        bulk_free_from_depot(answer);
    }
    assert_true(is_refused);
    close_evil(&evil);
}

static void pieces_without_a_put_write_nothing(void **state)
{
    (void)state;
    struct evil evil;
    open_evil(&evil);
    Drover__ToDepot message;
    Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
    Drover__BulkPart part;
    Drover__BulkPart *parts[] = {&part};
    set_part(&part, "a", DROVER__BULK_TYPE__BULK_TYPE_FILE, "x");
    piece.part = parts;
    piece.n_part = 1;
    begin(&message, 5);
    message.piece = &piece;
    send_message(&evil, &message);
    Drover__FromDepot *answer = hear(&evil, 5, 3000);
    assert_true(answer && answer->unknown);
    bulk_free_from_depot(answer);
    /* experiments and workflows that are not there, whatever the loop says of them */
    Drover__BulkPut put = DROVER__BULK_PUT__INIT;
    Drover__Attempt id = attempt_of(1);
    id.experiment = 99;
    put.kind = DROVER__BULK_KIND__BULK_KIND_OUTPUT;
    put.id = &id;
    begin(&message, 6);
    message.put = &put;
    send_message(&evil, &message);
    answer = hear(&evil, 6, 3000);
    assert_true(answer && answer->no && answer->no->code == ERR_STALE);
    bulk_free_from_depot(answer);
    close_evil(&evil);
}

/* Thousands of transfers begun and never gone on with: memory stays bounded, and a good node is
 * served meanwhile. */
static void one_who_floods_does_not_delay_others(void **state)
{
    (void)state;
    struct evil evil;
    open_evil(&evil);
    struct door_keys good_keys;
    struct door_keys evil_keys = evil.pair.node_keys;
    assert_int_equal(zmq_curve_keypair(good_keys.public_key, good_keys.secret_key), 0);
    AUTO_FREE char *bytes = mem_alloc(BULK_PIECE_BYTES + 1);
    memset(bytes, 'x', BULK_PIECE_BYTES);
    Drover__BulkPut put = DROVER__BULK_PUT__INIT;
    Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
    Drover__BulkPart part;
    Drover__BulkPart *parts[] = {&part};
    set_part(&part, "a", DROVER__BULK_TYPE__BULK_TYPE_FILE, bytes);
    piece.part = parts;
    piece.n_part = 1;
    put.kind = DROVER__BULK_KIND__BULK_KIND_OUTPUT;
    int sent = 0;
    for (uint64_t i = 1; i < 700; i++) { /* nobody answers its questions yet */
        Drover__ToDepot message;
        Drover__Attempt id = attempt_of(i);
        begin(&message, i);
        put.id = &id;
        message.put = &put;
        message.piece = &piece;
        sent += bulk_send_to_depot(evil.socket, &message, NULL) == ERR_OK;
        usleep(i % 16 == 0 ? 1000 : 0);
    }
    assert_true(sent > 100);
    evil.pair.node_keys = good_keys;
    pair_start_bulk(&evil.pair, false);
    char from[700];
    snprintf(from, sizeof from, "%s/out", evil.pair.work);
    struct rng rng = {5};
    testing_make_tree(from, &rng, 20, 10000);
    Drover__Attempt id = attempt_of(3000);
    uint64_t ticket = bulk_send_output(evil.pair.bulk, &id, from);
    bool is_done = false;
    int64_t until_ms = clock_mono_ms() + 5000;
    while (!is_done && clock_mono_ms() < until_ms) {
        struct depot_event event;
        while (depot_next(evil.pair.depot, &event)) {
            if (event.kind == DEPOT_QUESTION && strcmp(event.key, evil_keys.public_key) != 0) {
                depot_answer(evil.pair.depot, event.number, ERR_OK, NULL, 0, event.id.task);
            }
        }
        struct bulk_event done;
        usleep(1000);
        is_done =
            bulk_next(evil.pair.bulk, &done) && done.ticket == ticket && done.err.code == ERR_OK;
    }
    assert_true(is_done);
    close_evil(&evil);
}

/* --- a cable that is cut --------------------------------------------------------------------- */

/* Passes bytes between a node and the master, and cuts the connection after some of them. */
enum { CUTS = 2 }; /* each way */

struct proxy {
    pthread_t thread;
    int listener;
    uint16_t port;
    uint16_t to_port;
    size_t cut_after;
    _Atomic bool is_stopping;
    _Atomic int cuts;
    bool is_mute; /* cut connections are left open and silent instead */
};

static int connect_to(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool pass(int from, int to, size_t *passed)
{
    char bytes[16384];
    ssize_t size = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    for (ssize_t sent = 0; sent < size;) {
        ssize_t count = send(to, bytes + sent, (size_t)(size - sent), MSG_NOSIGNAL);
        if (count <= 0) {
            return false;
        }
        sent += count;
    }
    *passed += (size_t)size;
    return size > 0;
}

static void serve_one(struct proxy *proxy, int node)
{
    int master = connect_to(proxy->to_port);
    size_t passed = 0;
    bool is_open = master >= 0;
    size_t limit = proxy->cut_after;
    while (is_open && !proxy->is_stopping && (passed < limit || proxy->cuts >= CUTS)) {
        struct pollfd files[] = {{.fd = node, .events = POLLIN}, {.fd = master, .events = POLLIN}};
        poll(files, 2, 20);
        is_open = (!files[0].revents || pass(node, master, &passed)) &&
                  (!files[1].revents || pass(master, node, &passed));
    }
    proxy->cuts += is_open && passed >= limit;
    if (is_open && passed >= limit && proxy->is_mute) {
        proxy->is_mute = false; /* once is enough: it takes seconds to be noticed */
        struct pollfd file = {.fd = proxy->listener, .events = POLLIN};
        while (!proxy->is_stopping && poll(&file, 1, 20) == 0) {
        }
    }
    if (master >= 0) {
        close(master);
    }
    close(node);
}

static void *proxy_thread(void *argument)
{
    struct proxy *proxy = argument;
    while (!proxy->is_stopping) {
        struct pollfd file = {.fd = proxy->listener, .events = POLLIN};
        if (poll(&file, 1, 20) > 0) {
            int node = accept(proxy->listener, NULL, NULL);
            if (node >= 0) {
                serve_one(proxy, node);
            }
        }
    }
    close(proxy->listener);
    return NULL;
}

static void start_proxy(struct proxy *proxy, uint16_t to_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    proxy->to_port = to_port;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(proxy->listener, 8), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&address, &size), 0);
    proxy->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_thread, proxy), 0);
}

static void check_cut_cables(bool is_mute)
{
    struct pair pair;
    struct proxy proxy = {.cut_after = 2 << 20, .is_mute = is_mute};
    pair_open(&pair, "cut");
    pair_start_depot(&pair);
    uint16_t real_port = pair.port;
    start_proxy(&proxy, real_port);
    pair.port = proxy.port;
    pair_start_bulk(&pair, false);
    pair.port = real_port;
    char from[700];
    char to[700];
    char back[700];
    struct rng rng = {77};
    snprintf(from, sizeof from, "%s/out", pair.work);
    snprintf(to, sizeof to, "%s/attempts/alpha/0/9.1", pair.flow);
    testing_make_tree(from, &rng, 30, 2 << 20);
    Drover__Attempt id = attempt_of(9);
    pair_expect_done(&pair, bulk_send_output(pair.bulk, &id, from));
    testing_assert_same(from, to);
    int cuts_up = proxy.cuts;
    proxy.cuts = 0;
    snprintf(back, sizeof back, "%s/checkpoint", pair.work);
    snprintf(to, sizeof to, "%s/checkpoints/alpha/0", pair.flow);
    assert_int_equal(io_make_dirs(to, NULL), ERR_OK);
    snprintf(to, sizeof to, "%s/checkpoints/alpha/0/9", pair.flow);
    testing_make_tree(to, &rng, 30, 2 << 20);
    pair_expect_done(&pair, bulk_fetch_checkpoint(pair.bulk, &id, back));
    testing_assert_same(to, back);
    print_message("%d cuts on the way up, %d down\n", cuts_up, proxy.cuts);
    assert_true(cuts_up > 0 && proxy.cuts > 0);
    proxy.is_stopping = true;
    pair_close(&pair);
    pthread_join(proxy.thread, NULL);
}

static void transfers_go_on_when_connections_are_cut(void **state)
{
    (void)state;
    check_cut_cables(false);
}

static void transfers_go_on_when_a_connection_falls_silent(void **state)
{
    (void)state;
    check_cut_cables(true);
}

/* --- a disk that is full --------------------------------------------------------------------- */

static void a_full_disk_makes_nodes_wait_and_loses_nothing(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, "full");
    if (mount("tmpfs", pair.flow, "tmpfs", 0, "size=1m") != 0) {
        print_message("no small file system to be had here (%s): skipped\n", strerror(errno));
        pair_close(&pair);
        skip();
    }
    pair_start_depot(&pair);
    pair_start_bulk(&pair, false);
    char ballast[700];
    char from[700];
    char to[700];
    snprintf(ballast, sizeof ballast, "%s/ballast", pair.flow);
    snprintf(from, sizeof from, "%s/out", pair.work);
    snprintf(to, sizeof to, "%s/attempts/alpha/0/9.1", pair.flow);
    AUTO_FREE char *bytes = mem_alloc(600000);
    testing_write(ballast, bytes, 600000);
    assert_int_equal(mkdir(from, 0755), 0);
    for (int i = 0; i < 5; i++) {
        char file[800];
        snprintf(file, sizeof file, "%s/f%d", from, i);
        testing_write(file, bytes, 120000);
    }
    Drover__Attempt id = attempt_of(9);
    uint64_t ticket = bulk_send_output(pair.bulk, &id, from);
    assert_false(pair_wait(&pair, ticket, 2500, NULL));
    assert_true(pair.in_trouble && pair.troubles == 1);
    assert_int_not_equal(access(to, F_OK), 0);
    assert_int_equal(unlink(ballast), 0);
    pair_expect_done(&pair, ticket);
    testing_assert_same(from, to);
    pair_stop_bulk(&pair);
    pair_stop_depot(&pair);
    assert_int_equal(umount2(pair.flow, MNT_DETACH), 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_path_leads_out),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(pieces_without_a_put_write_nothing),
        cmocka_unit_test(one_who_floods_does_not_delay_others),
        cmocka_unit_test(transfers_go_on_when_connections_are_cut),
        cmocka_unit_test(transfers_go_on_when_a_connection_falls_silent),
        cmocka_unit_test(a_full_disk_makes_nodes_wait_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
