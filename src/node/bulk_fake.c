#include "node/bulk_fake.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

struct bulk {
    int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below: tests only */
static struct bulk_fake_request requests[BULK_FAKE_MAX];
static size_t request_count;
static struct bulk_event events[BULK_FAKE_MAX];
static size_t event_first;
static size_t event_count;
static struct bulk *bulk_now;

/* --- the test's side ------------------------------------------------------------------------- */

void bulk_fake_reset(void)
{
    pthread_mutex_lock(&lock);
    request_count = 0;
    event_first = 0;
    event_count = 0;
    pthread_mutex_unlock(&lock);
}

static struct bulk_fake_request *find_request(const char *what, size_t nth)
{
    for (size_t i = 0; i < request_count; i++) {
        if (strcmp(requests[i].what, what) == 0 && nth-- == 0) {
            return &requests[i];
        }
    }
    return NULL;
}

static void wait_for(const char *what, size_t nth, bool finished, struct bulk_fake_request *out)
{
    for (int64_t until_ms = clock_mono_ms() + PATIENCE_MS; clock_mono_ms() < until_ms;) {
        pthread_mutex_lock(&lock);
        const struct bulk_fake_request *request = find_request(what, nth);
        bool good = request && (!finished || request->is_finished);
        if (good) {
            *out = *request;
        }
        pthread_mutex_unlock(&lock);
        if (good) {
            return;
        }
        usleep(1000);
    }
    abort(); /* the request that was waited for never came */
}

void bulk_fake_wait(const char *what, size_t nth, struct bulk_fake_request *out)
{
    wait_for(what, nth, false, out);
}

void bulk_fake_wait_finished(const char *what, size_t nth, struct bulk_fake_request *out)
{
    wait_for(what, nth, true, out);
}

size_t bulk_fake_count(const char *what)
{
    size_t count = 0;
    pthread_mutex_lock(&lock);
    while (find_request(what, count)) {
        count++;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

static void add_event(size_t index, enum err_code code, const char *folder)
{
    requests[index].is_over = true;
    CHECK(event_count < BULK_FAKE_MAX);
    struct bulk_event *event = &events[event_count++];
    *event = (struct bulk_event){.ticket = index + 1};
    event->err.code = code;
    snprintf(event->err.text, sizeof event->err.text, "the fake says %s", err_name(code));
    snprintf(event->folder, sizeof event->folder, "%s", folder ? folder : "");
    uint64_t one = 1;
    CHECK(write(bulk_now->fd, &one, sizeof one) == (ssize_t)sizeof one);
}

void bulk_fake_end(const char *what, size_t nth, enum err_code code, const char *folder)
{
    pthread_mutex_lock(&lock);
    const struct bulk_fake_request *request = find_request(what, nth);
    CHECK(request);
    if (!request->is_over && bulk_now) {
        add_event((size_t)(request - requests), code, folder);
    }
    pthread_mutex_unlock(&lock);
}

/* --- the agent's side ------------------------------------------------------------------------ */

enum err_code bulk_start(const struct bulk_options *options, struct bulk **out, struct err *err)
{
    (void)options, (void)err;
    struct bulk *bulk = mem_alloc(sizeof *bulk);
    bulk->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&lock);
    bulk_now = bulk;
    pthread_mutex_unlock(&lock);
    *out = bulk;
    return ERR_OK;
}

void bulk_stop(struct bulk *bulk)
{
    if (bulk) {
        pthread_mutex_lock(&lock);
        bulk_now = NULL;
        pthread_mutex_unlock(&lock);
        close(bulk->fd);
        free(bulk);
    }
}

void bulk_reconnect(struct bulk *bulk, uint16_t port)
{
    (void)bulk, (void)port;
}

int bulk_fd(const struct bulk *bulk)
{
    return bulk->fd;
}

bool bulk_next(struct bulk *bulk, struct bulk_event *out)
{
    pthread_mutex_lock(&lock);
    bool has_one = event_first < event_count;
    if (has_one) {
        *out = events[event_first++];
    } else {
        uint64_t count = 0;
        (void)!read(bulk->fd, &count, sizeof count);
    }
    pthread_mutex_unlock(&lock);
    return has_one;
}

static uint64_t add(const char *what, const Drover__Attempt *id, const char *name, const char *path)
{
    pthread_mutex_lock(&lock);
    CHECK(request_count < BULK_FAKE_MAX);
    struct bulk_fake_request *request = &requests[request_count];
    *request = (struct bulk_fake_request){.task = id ? id->task : 0};
    snprintf(request->what, sizeof request->what, "%s", what);
    snprintf(request->name, sizeof request->name, "%s", name);
    snprintf(request->path, sizeof request->path, "%s", path);
    uint64_t ticket = ++request_count;
    pthread_mutex_unlock(&lock);
    return ticket;
}

uint64_t bulk_follow_log(struct bulk *bulk, const Drover__Attempt *id, const char *file)
{
    (void)bulk;
    return add("log", id, "", file);
}

uint64_t bulk_send_output(struct bulk *bulk, const Drover__Attempt *id, const char *folder)
{
    (void)bulk;
    return add("output", id, "", folder);
}

uint64_t bulk_watch_checkpoint(struct bulk *bulk, const Drover__Attempt *id, const char *folder)
{
    (void)bulk;
    return add("checkpoint", id, "", folder);
}

void bulk_hurry(struct bulk *bulk, uint64_t ticket)
{
    (void)bulk;
    pthread_mutex_lock(&lock);
    requests[ticket - 1].is_hurried = true;
    pthread_mutex_unlock(&lock);
}

void bulk_finish(struct bulk *bulk, uint64_t ticket)
{
    (void)bulk;
    pthread_mutex_lock(&lock);
    requests[ticket - 1].is_finished = true;
    pthread_mutex_unlock(&lock);
}

void bulk_drop(struct bulk *bulk, uint64_t ticket)
{
    (void)bulk;
    pthread_mutex_lock(&lock);
    requests[ticket - 1].is_dropped = true;
    if (!requests[ticket - 1].is_over) {
        add_event(ticket - 1, ERR_CANCELLED, NULL);
    }
    pthread_mutex_unlock(&lock);
}

uint64_t bulk_fetch_checkpoint(struct bulk *bulk, const Drover__Attempt *id, const char *folder)
{
    (void)bulk;
    return add("old checkpoint", id, "", folder);
}

uint64_t bulk_fetch_outputs(struct bulk *bulk, const Drover__Attempt *id, const char *experiment,
                            const char *folder)
{
    (void)bulk;
    return add("outputs", id, experiment, folder);
}

uint64_t bulk_fetch_code(struct bulk *bulk, const char *version)
{
    (void)bulk;
    return add("code", NULL, version, "");
}

void bulk_keep_code(struct bulk *bulk, const char *const *versions, size_t count)
{
    (void)bulk, (void)versions, (void)count;
}
