/* http_bench - requests a second that one owner answers through the HTTP server: GET with a reply
 * of 1 KiB, over connections that are kept, in one process. There is no peer to compare with (nginx
 * has no owner to ask), so it prints its figure and no ratio. */
#include "base/clock.h"
#include "base/mem.h"
#include "http/http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum { CONNECTIONS = 32, ROUNDS = 2000, BODY = 1024 };

static atomic_bool done;

static void *own(void *cls)
{
    struct http *http = cls;
    char body[BODY];
    memset(body, 'x', sizeof body);
    while (!atomic_load(&done)) {
        zmq_pollitem_t item = {.socket = http_socket(http), .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 100);
        struct http_request *request;
        while ((request = http_next(http))) {
            http_reply(http, request->id,
                       &(struct http_reply){.status = 200, .body = body, .body_size = BODY});
            http_request_free(request);
        }
    }
    return NULL;
}

static int connect_to(const struct http *http)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtol(strrchr(http_url(http), ':') + 1, NULL, 10)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void read_reply(int fd)
{
    char bytes[4096];
    size_t got = 0;
    const char *end = NULL;
    while (!end || got < (size_t)(end + 4 - bytes) + BODY) {
        ssize_t more = recv(fd, bytes + got, sizeof bytes - 1 - got, 0);
        CHECK(more > 0);
        got += (size_t)more;
        bytes[got] = '\0';
        end = strstr(bytes, "\r\n\r\n");
    }
    CHECK(strncmp(bytes, "HTTP/1.1 200", 12) == 0);
}

static double measure(const struct http *http, int connections, int rounds)
{
    static const char request[] = "GET /api/v1/workflows/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                  "Authorization: Bearer 0123456789abcdef\r\nAccept: */*\r\n\r\n";
    int fds[CONNECTIONS];
    for (int i = 0; i < connections; i++) {
        fds[i] = connect_to(http);
    }
    int64_t began_us = clock_mono_us();
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < connections; i++) {
            CHECK(send(fds[i], request, sizeof request - 1, MSG_NOSIGNAL) ==
                  (ssize_t)sizeof request - 1);
        }
        for (int i = 0; i < connections; i++) {
            read_reply(fds[i]);
        }
    }
    int64_t took_us = clock_mono_us() - began_us;
    for (int i = 0; i < connections; i++) {
        close(fds[i]);
    }
    return (double)connections * rounds * 1e6 / (double)took_us;
}

int main(void)
{
    void *context = zmq_ctx_new();
    struct http *http = NULL;
    struct err err;
    struct http_options options = {.zmq_context = context, .host = "127.0.0.1"};
    if (http_start(&options, &http, &err) != ERR_OK) {
        fprintf(stderr, "http_bench: %s\n", err.text);
        return 1;
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, own, http) == 0);
    printf("http: %.0f requests/s of 1 KiB on one connection, %.0f requests/s on %d\n",
           measure(http, 1, ROUNDS), measure(http, CONNECTIONS, ROUNDS), CONNECTIONS);
    atomic_store(&done, true);
    CHECK(pthread_join(thread, NULL) == 0);
    http_stop(http);
    zmq_ctx_term(context);
    return 0;
}
