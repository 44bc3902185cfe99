/* locals.c - node processes of our own: `drover run --nodes N`.
 *
 * They are started with join.url and their own folders below FOLDER/nodes, and die with us (a
 * parent-death signal). One that ends is noticed at once, without waiting for its lease, and
 * started again, less and less eagerly.
 */
#include "master/child.h"
#include "master/server_state.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STOP_WAIT_MS = 20000, AGAIN_FIRST_MS = 200, AGAIN_MAX_MS = 10000 };

struct local {
    pid_t pid; /* 0: does not run */
    int pid_fd;
    int64_t again_ms; /* when to start it again */
    int64_t pause_ms; /* before the next start */
};

struct locals {
    struct local *items;
    size_t count;
    int epoll_fd;
};

static enum err_code start_one(struct server *server, size_t index, struct err *err)
{
    struct local *local = &server->locals->items[index];
    const char *folder = server->session->folder;
    AUTO_STR struct str join = {0};
    AUTO_STR struct str work = {0};
    AUTO_STR struct str log = {0};
    AUTO_STR struct str name = {0};
    AUTO_STR struct str slots = {0};
    str_addf(&join, "@%s/join.url", folder);
    str_addf(&work, "%s/nodes/local-%zu", folder, index + 1);
    str_addf(&log, "%s/nodes/local-%zu.log", folder, index + 1);
    str_addf(&name, "local-%zu", index + 1);
    str_addf(&slots, "%u", server->options->serve->local_slots);
    enum err_code code = io_make_dirs(str_text(&work), err);
    if (code != ERR_OK) {
        return code;
    }
    const char *arguments[] = {"drover", "node",    "--join",  join.text,  "--work",  work.text,
                               "--name", name.text, "--slots", slots.text, "--quiet", NULL};
    local->pid = child_start(arguments, str_text(&log), SIGKILL);
    if (local->pid < 0) {
        local->pid = 0;
        return err_errno(err, errno, "node %s cannot be started", str_text(&name));
    }
    local->pid_fd = (int)syscall(SYS_pidfd_open, local->pid, 0);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = index}};
    if (local->pid_fd >= 0) {
        epoll_ctl(server->locals->epoll_fd, EPOLL_CTL_ADD, local->pid_fd, &event);
    }
    return ERR_OK;
}

enum err_code locals_start(struct server *server, struct err *err)
{
    uint32_t count = server->options->serve->local_nodes;
    if (count == 0) {
        return ERR_OK;
    }
    struct locals *locals = mem_alloc(sizeof *locals);
    locals->items = mem_array(count, sizeof *locals->items);
    locals->count = count;
    locals->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(locals->epoll_fd >= 0);
    server->locals = locals;
    for (size_t i = 0; i < count; i++) {
        locals->items[i] = (struct local){.pid_fd = -1, .pause_ms = AGAIN_FIRST_MS};
        enum err_code code = start_one(server, i, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    return ERR_OK;
}

int locals_fd(const struct server *server)
{
    return server->locals ? server->locals->epoll_fd : -1;
}

/* Waits for a child that has ended; true if it had. */
static bool bury(struct local *local)
{
    if (local->pid == 0 || waitpid(local->pid, NULL, WNOHANG) != local->pid) {
        return false;
    }
    if (local->pid_fd >= 0) {
        close(local->pid_fd);
        local->pid_fd = -1;
    }
    local->pid = 0;
    return true;
}

static void see_end(struct server *server, struct local *local)
{
    pid_t pid = local->pid;
    if (!bury(local)) {
        return;
    }
    char name[32]; /* a node of another machine may have the same process number */
    int size =
        snprintf(name, sizeof name, "local-%zu", (size_t)(local - server->locals->items) + 1);
    for (size_t i = 0; i < server->herd.count; i++) {
        struct herd_node *node = server->herd.nodes[i];
        if (node->pid == (uint32_t)pid && strncmp(node->name, name, (size_t)size) == 0) {
            gate_lost(server, node);
        }
    }
    local->again_ms = clock_mono_ms() + local->pause_ms;
    local->pause_ms = local->pause_ms * 2 < AGAIN_MAX_MS ? local->pause_ms * 2 : AGAIN_MAX_MS;
}

void locals_read(struct server *server)
{
    struct locals *locals = server->locals;
    struct epoll_event events[64];
    int count = locals ? epoll_wait(locals->epoll_fd, events, 64, 0) : 0;
    for (int i = 0; i < count; i++) {
        see_end(server, &locals->items[events[i].data.u64]);
    }
}

void locals_tick(struct server *server)
{
    struct locals *locals = server->locals;
    for (size_t i = 0; locals && server->signals == 0 && i < locals->count; i++) {
        struct local *local = &locals->items[i];
        see_end(server, local); /* where there are no pid descriptors */
        struct err err = {0};
        if (local->pid == 0 && clock_mono_ms() >= local->again_ms &&
            start_one(server, i, &err) != ERR_OK) {
            server_note(server, "%s", err.text);
            local->again_ms = clock_mono_ms() + AGAIN_MAX_MS;
        }
    }
}

static bool all_are_buried(struct locals *locals)
{
    bool all = true;
    for (size_t i = 0; i < locals->count; i++) {
        (void)!bury(&locals->items[i]);
        all = all && locals->items[i].pid == 0;
    }
    return all;
}

static void kill_all(const struct locals *locals, int signal_number)
{
    for (size_t i = 0; i < locals->count; i++) {
        if (locals->items[i].pid > 0) {
            kill(locals->items[i].pid, signal_number);
        }
    }
}

void locals_stop(struct server *server)
{
    struct locals *locals = server->locals;
    if (!locals) {
        return;
    }
    gate_stop_nodes(server, server->broken ? 0 : 10000);
    int64_t until_ms = clock_mono_ms() + STOP_WAIT_MS;
    while (!all_are_buried(locals) && clock_mono_ms() < until_ms && server->signals < 2) {
        server_read_signals(server); /* who asks again need not wait for one that is stuck */
        gate_read(server);           /* their last words; and a late Hello must be answered */
        gate_flush(server);
        carry_flush(&server->carrier);
        gate_stop_nodes(server, 0);
        usleep(2000);
    }
    kill_all(locals, SIGKILL);
    while (!all_are_buried(locals)) {
        usleep(2000);
    }
    close(locals->epoll_fd);
    free(locals->items);
    free(locals);
    server->locals = NULL;
}
