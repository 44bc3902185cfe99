/* curve_echo - the physical limit of messages: bare CURVE round trips over TCP on loopback.
 *
 *     curve_echo COUNT IN_FLIGHT     prints round trips per second
 *
 * A ROUTER in one process sends every message back to the DEALER in another, which keeps IN_FLIGHT
 * of them under way. They are as large as the messages of a small task.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum {
    MESSAGE_BYTES = 64,
    KEY_CHARS = 41,
    ENDPOINT_BYTES = 64,
    ROUTE_BYTES = 256,
    WARM_COUNT = 5000
};

struct keys {
    char public_key[KEY_CHARS];
    char secret_key[KEY_CHARS];
};

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "curve_echo: %s: %s\n", what, zmq_strerror(zmq_errno()));
        exit(1);
    }
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *open_socket(int type, const struct keys *own)
{
    void *context = zmq_ctx_new();
    void *socket = context ? zmq_socket(context, type) : NULL;
    int unbounded = 0;
    must(socket != NULL, "socket");
    must(zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, own->public_key, KEY_CHARS - 1) == 0, "key");
    must(zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, own->secret_key, KEY_CHARS - 1) == 0, "key");
    must(zmq_setsockopt(socket, ZMQ_SNDHWM, &unbounded, sizeof unbounded) == 0, "mark");
    must(zmq_setsockopt(socket, ZMQ_RCVHWM, &unbounded, sizeof unbounded) == 0, "mark");
    return socket;
}

/* In a process of its own, until it is killed. */
static _Noreturn void echo(const struct keys *server, int endpoint_fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    void *router = open_socket(ZMQ_ROUTER, server);
    int is_server = 1;
    char endpoint[ENDPOINT_BYTES] = "";
    size_t size = sizeof endpoint;
    must(zmq_setsockopt(router, ZMQ_CURVE_SERVER, &is_server, sizeof is_server) == 0, "server");
    must(zmq_bind(router, "tcp://127.0.0.1:*") == 0, "bind");
    must(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0, "endpoint");
    must(write(endpoint_fd, endpoint, sizeof endpoint) == (ssize_t)sizeof endpoint, "pipe");
    for (;;) {
        char route[ROUTE_BYTES];
        char body[MESSAGE_BYTES];
        int route_size = zmq_recv(router, route, sizeof route, 0);
        int body_size = zmq_recv(router, body, sizeof body, 0);
        must(route_size >= 0 && body_size >= 0, "receive");
        zmq_send(router, route, (size_t)route_size, ZMQ_SNDMORE);
        zmq_send(router, body, (size_t)body_size, 0);
    }
}

static void exchange(void *dealer, long count, long in_flight)
{
    char body[MESSAGE_BYTES] = "a task";
    long sent = 0;
    for (long received = 0; received < count; received++) {
        while (sent < count && sent - received < in_flight) {
            must(zmq_send(dealer, body, sizeof body, 0) >= 0, "send");
            sent++;
        }
        must(zmq_recv(dealer, body, sizeof body, 0) >= 0, "receive");
    }
}

int main(int argc, char **argv)
{
    long count = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    long in_flight = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (count <= 0 || in_flight <= 0) {
        fputs("usage: curve_echo COUNT IN_FLIGHT\n", stderr);
        return 2;
    }
    struct keys server;
    struct keys client;
    int ends[2];
    must(zmq_curve_keypair(server.public_key, server.secret_key) == 0, "keys");
    must(zmq_curve_keypair(client.public_key, client.secret_key) == 0, "keys");
    must(pipe(ends) == 0, "pipe");
    pid_t parent = getpid();
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        echo(&server, ends[1], parent);
    }
    close(ends[1]);
    char endpoint[ENDPOINT_BYTES];
    must(read(ends[0], endpoint, sizeof endpoint) == (ssize_t)sizeof endpoint, "pipe");
    void *dealer = open_socket(ZMQ_DEALER, &client);
    must(zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, server.public_key, KEY_CHARS - 1) == 0, "key");
    must(zmq_connect(dealer, endpoint) == 0, "connect");
    exchange(dealer, WARM_COUNT, in_flight);
    double began_s = now_s();
    exchange(dealer, count, in_flight);
    printf("%.0f\n", (double)count / (now_s() - began_s));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}
