#include "volume/cache_writer.h"

#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct cache_writer {
    int fd, thread_fd; /* two ends; pointers to jobs travel between them */
    pthread_t thread;
    size_t jobs, bytes;
};

int cache_write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t wrote = pwrite(fd, at, size, (off_t)offset);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return wrote < 0 ? errno : EIO;
        }
        at += wrote;
        offset += (uint64_t)wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

/* -- the thread ------------------------------------------------------------------------------- */

/* How much of it fills whole pages, was begun at one, and went past the page cache. */
static size_t write_direct(const struct cache_job *job)
{
    const struct str *bytes = &job->body->bytes;
    size_t size = bytes->size / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
    if (!job->direct || size == 0 || job->offset % CACHE_PAGE_BYTES != 0 ||
        (uintptr_t)bytes->text % CACHE_PAGE_BYTES != 0 || fcntl(job->fd, F_SETFL, O_DIRECT) != 0) {
        return 0;
    }
    bool done = cache_write_at(job->fd, job->offset, bytes->text, size) == 0;
    return fcntl(job->fd, F_SETFL, 0) == 0 && done ? size : 0;
}

static void do_job(struct cache_job *job)
{
    const struct str *bytes = &job->body->bytes;
    size_t done = write_direct(job); /* where it cannot be, the plain way is taken */
    job->failed =
        cache_write_at(job->fd, job->offset + done, bytes->text + done, bytes->size - done);
    close(job->fd);
}

static bool receive(int fd, struct cache_job **job, int flags)
{
    ssize_t got;
    do {
        got = recv(fd, job, sizeof *job, flags);
    } while (got < 0 && errno == EINTR);
    CHECK(got == (ssize_t)sizeof *job || (got < 0 && errno == EAGAIN));
    return got > 0;
}

/* There is always room: a socket holds more than CACHE_JOBS_MAX pointers. */
static void pass(int fd, struct cache_job *job)
{
    ssize_t sent;
    do {
        sent = send(fd, &job, sizeof job, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    CHECK(sent == (ssize_t)sizeof job);
}

static void *thread_run(void *argument)
{
    int fd = ((const struct cache_writer *)argument)->thread_fd;
    struct cache_job *job = NULL;
    while (receive(fd, &job, 0) && job) {
        do_job(job);
        pass(fd, job);
    }
    return NULL;
}

/* -- the owner -------------------------------------------------------------------------------- */

struct cache_writer *cache_writer_create(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return NULL;
    }
    struct cache_writer *writer = mem_alloc(sizeof *writer);
    writer->fd = ends[0];
    writer->thread_fd = ends[1];
    if (thread_start(&writer->thread, thread_run, writer) != 0) {
        close(ends[0]);
        close(ends[1]);
        free(writer);
        return NULL;
    }
    return writer;
}

void cache_writer_destroy(struct cache_writer *writer)
{
    if (writer) {
        CHECK(writer->jobs == 0);
        pass(writer->fd, NULL);
        pthread_join(writer->thread, NULL);
        close(writer->fd);
        close(writer->thread_fd);
        free(writer);
    }
}

void cache_writer_start(struct cache_writer *writer, struct cache_job *job)
{
    CHECK(writer->jobs < CACHE_JOBS_MAX);
    writer->jobs++;
    writer->bytes += job->body->bytes.size;
    pass(writer->fd, job);
}

struct cache_job *cache_writer_take(struct cache_writer *writer, bool wait)
{
    struct cache_job *job = NULL;
    if (writer->jobs == 0 || !receive(writer->fd, &job, wait ? 0 : MSG_DONTWAIT)) {
        return NULL;
    }
    writer->jobs--;
    writer->bytes -= job->body->bytes.size;
    return job;
}

size_t cache_writer_jobs(const struct cache_writer *writer)
{
    return writer->jobs;
}

size_t cache_writer_bytes(const struct cache_writer *writer)
{
    return writer->bytes;
}
