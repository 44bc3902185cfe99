#include "meta/dealer.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

enum { URL_BYTES_MAX = 4096, LINGER_MS = 1000, BATCH = 256 };

struct meta_dealer {
    void *context;
    void *socket;
    struct door_url url;
    char *url_file;
    char *who;
    struct door_keys keys;
    struct meta_link *link;
    bool wants_reset;
};

enum err_code meta_url_read(const char *text, struct door_url *out, struct err *err)
{
    AUTO_STR struct str url = {0};
    enum err_code code = ERR_OK;
    if (text[0] == '@') {
        code = io_read_file(text + 1, URL_BYTES_MAX, &url, err);
    } else {
        str_add(&url, text);
    }
    if (code == ERR_OK && url.size > 0) {
        url.text[strcspn(url.text, "\r\n")] = '\0';
    }
    if (code == ERR_OK) {
        struct err why = {0};
        code = door_url_parse(str_text(&url), out, &why);
        if (code != ERR_OK) {
            (void)err_set(err, code, "%s: no address that drover meta has written (%s)",
                          text[0] == '@' ? text + 1 : "the address", why.text);
        }
    }
    if (url.text) {
        explicit_bzero(url.text, url.cap);
    }
    return code;
}

static bool on_send(void *context, const void *bytes, size_t size)
{
    struct meta_dealer *dealer = context;
    int sent = 0;
    if (!dealer->socket) {
        return false;
    }
    do {
        sent = zmq_send(dealer->socket, bytes, size, ZMQ_DONTWAIT);
    } while (sent < 0 && zmq_errno() == EINTR);
    return sent >= 0;
}

static void on_reset(void *context)
{
    struct meta_dealer *dealer = context;
    dealer->wants_reset = true;
}

static void on_tell(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "drover mount: %s\n", line);
}

static enum err_code connect_to(struct meta_dealer *dealer, struct err *err)
{
    struct door_address address = {dealer->url.host, dealer->url.port, dealer->url.server_key};
    if (dealer->socket) {
        zmq_close(dealer->socket);
        dealer->socket = NULL;
    }
    return door_connect(dealer->context, &address, &dealer->keys, &dealer->socket, err);
}

static void reconnect(struct meta_dealer *dealer)
{
    struct door_url url;
    AUTO_STR struct str place = {0};
    dealer->wants_reset = false;
    if (dealer->url_file) {
        str_addf(&place, "@%s", dealer->url_file);
        if (meta_url_read(str_text(&place), &url, NULL) == ERR_OK) {
            dealer->url = url; /* the link borrows the secret from here */
        }
        explicit_bzero(&url, sizeof url);
    }
    (void)connect_to(dealer, NULL); /* if it cannot be, there is another time */
}

enum err_code meta_dealer_open(const struct door_url *url, const char *url_file, const char *who,
                               struct meta_dealer **out, struct err *err)
{
    struct meta_dealer *dealer = mem_alloc(sizeof *dealer);
    dealer->url = *url;
    dealer->url_file = url_file ? mem_strdup(url_file) : NULL;
    dealer->who = mem_strdup(who);
    dealer->context = zmq_ctx_new();
    CHECK(dealer->context);
    struct meta_link_options options = {.secret = dealer->url.secret,
                                        .who = dealer->who,
                                        .send = on_send,
                                        .reset = on_reset,
                                        .tell = on_tell,
                                        .context = dealer};
    CHECK(getrandom(options.mount, sizeof options.mount, 0) == (ssize_t)sizeof options.mount);
    dealer->link = meta_link_create(&options, clock_boot_ms());
    enum err_code code = ERR_OK;
    if (zmq_curve_keypair(dealer->keys.public_key, dealer->keys.secret_key) != 0) {
        code = err_set(err, ERR_UNSUPPORTED, "keys: this libzmq was built without CURVE");
    }
    if (code == ERR_OK) {
        code = connect_to(dealer, err);
    }
    if (code != ERR_OK) {
        meta_dealer_close(dealer, false);
        return code;
    }
    *out = dealer;
    return ERR_OK;
}

void meta_dealer_close(struct meta_dealer *dealer, bool says_bye)
{
    if (dealer == NULL) {
        return;
    }
    if (dealer->socket) {
        int linger_ms = says_bye ? LINGER_MS : 0;
        if (says_bye) {
            meta_link_bye(dealer->link);
        }
        zmq_setsockopt(dealer->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(dealer->socket);
    }
    meta_link_destroy(dealer->link);
    zmq_ctx_term(dealer->context);
    door_keys_wipe(&dealer->keys);
    explicit_bzero(&dealer->url, sizeof dealer->url);
    free(dealer->url_file);
    free(dealer->who);
    free(dealer);
}

struct meta_link *meta_dealer_link(struct meta_dealer *dealer)
{
    return dealer->link;
}

int meta_dealer_fd(struct meta_dealer *dealer)
{
    int fd = -1;
    size_t size = sizeof fd;
    if (!dealer->socket || zmq_getsockopt(dealer->socket, ZMQ_FD, &fd, &size) != 0) {
        return -1;
    }
    return fd;
}

bool meta_dealer_run(struct meta_dealer *dealer)
{
    bool any = false;
    int64_t now_ms = clock_boot_ms();
    for (int i = 0; i < BATCH && dealer->socket; i++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        int size = zmq_msg_recv(&message, dealer->socket, ZMQ_DONTWAIT);
        if (size >= 0 && !zmq_msg_more(&message)) {
            meta_link_take(dealer->link, zmq_msg_data(&message), (size_t)size, now_ms);
            any = true;
        }
        zmq_msg_close(&message);
        if (size < 0) {
            break;
        }
    }
    meta_link_turn(dealer->link, now_ms);
    if (dealer->wants_reset) {
        reconnect(dealer);
    }
    return any;
}

enum err_code meta_dealer_join(struct meta_dealer *dealer, int64_t timeout_ms, struct err *err)
{
    int64_t until_ms = clock_mono_ms() + timeout_ms;
    for (;;) {
        (void)meta_dealer_run(dealer);
        enum err_code code = meta_link_trouble(dealer->link, err);
        if (code != ERR_OK || meta_link_is_joined(dealer->link)) {
            return code;
        }
        if (clock_mono_ms() >= until_ms) {
            return err_set(err, ERR_TIMEOUT, "%s:%u: nobody there serves this volume (drover meta)",
                           dealer->url.host, (unsigned)dealer->url.port);
        }
        struct pollfd poll_fd = {.fd = meta_dealer_fd(dealer), .events = POLLIN};
        (void)poll(&poll_fd, 1, 20);
    }
}
