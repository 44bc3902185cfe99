#include "metrics/watch.h"

#include "base/mem.h"
#include "metrics/jsonl.h"
#include "metrics/tfevents.h"
#include "metrics/words.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10, END_ROUNDS = 64 };

/* One file, by its path below the folder (or, for the report, as it was given). */
struct source {
    char *path;
    char *prefix; /* before the names, or NULL */
    bool is_report;
    struct jsonl *jsonl; /* one of the two */
    struct tfevents *events;
    dev_t device; /* which file it was */
    ino_t inode;
    uint64_t offset;
    bool is_given_up;
    struct err err; /* why */
};

struct watch {
    int folder; /* -1: none */
    struct source sources[WATCH_FILES_MAX];
    size_t count;
    size_t entries; /* looked at in this search */
    bool has_searched;
    int64_t searched_ms;
    char piece[PIECE_BYTES];
};

/* --- sources --------------------------------------------------------------------------------- */

static void source_begin(struct source *source)
{
    bool is_events = source->events != NULL;
    jsonl_destroy(source->jsonl);
    tfevents_destroy(source->events);
    source->jsonl = is_events ? NULL : jsonl_create();
    source->events = is_events ? tfevents_create() : NULL;
    source->offset = 0;
    source->is_given_up = false;
}

static void add_source(struct watch *watch, const char *path, const char *prefix, bool is_events)
{
    for (size_t i = 0; i < watch->count; i++) {
        if (!watch->sources[i].is_report && strcmp(watch->sources[i].path, path) == 0) {
            return;
        }
    }
    if (watch->count == WATCH_FILES_MAX) {
        return;
    }
    struct source *source = &watch->sources[watch->count++];
    *source = (struct source){.path = mem_strdup(path),
                              .prefix = prefix ? mem_strdup(prefix) : NULL,
                              .jsonl = is_events ? NULL : jsonl_create(),
                              .events = is_events ? tfevents_create() : NULL};
}

enum err_code watch_create(const char *folder, const char *report, struct watch **out,
                           struct err *err)
{
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder && fd < 0) {
        return err_errno(err, errno, "%s", folder);
    }
    struct watch *watch = mem_alloc(sizeof *watch);
    watch->folder = fd;
    if (report) {
        add_source(watch, report, NULL, false);
        watch->sources[0].is_report = true;
    }
    *out = watch;
    return ERR_OK;
}

void watch_destroy(struct watch *watch)
{
    if (!watch) {
        return;
    }
    for (size_t i = 0; i < watch->count; i++) {
        jsonl_destroy(watch->sources[i].jsonl);
        tfevents_destroy(watch->sources[i].events);
        free(watch->sources[i].path);
        free(watch->sources[i].prefix);
    }
    if (watch->folder >= 0) {
        close(watch->folder);
    }
    free(watch);
}

/* --- searching ------------------------------------------------------------------------------- */

/* The prefix that the folder at the end of the path gives its metrics; NULL: none. */
static const char *prefix_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *part = words_part(name, strlen(name));
    return part && part[0] ? name : NULL;
}

static void search_folder(struct watch *watch, int fd, const char *path, int depth);

static void search_below(struct watch *watch, int fd, const char *name, const char *path, int depth)
{
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0) {
        search_folder(watch, below, path, depth);
    }
}

/* Closes fd. */
static void search_folder(struct watch *watch, int fd, const char *path, int depth)
{
    static const char events_name[] = "events.out.tfevents.";
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    const struct dirent *entry = NULL;
    while (watch->entries < WATCH_ENTRIES_MAX && (entry = readdir(dir)) != NULL) {
        AUTO_STR struct str whole = {0};
        const char *name = entry->d_name;
        watch->entries++;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        str_addf(&whole, "%s%s%s", path, path[0] ? "/" : "", name);
        bool may_be_folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
        bool may_be_file = entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN;
        if (may_be_file && strncmp(name, events_name, sizeof events_name - 1) == 0) {
            add_source(watch, str_text(&whole), prefix_of(path), true);
        } else if (may_be_file && depth == 0 && strcmp(name, "metrics.jsonl") == 0) {
            add_source(watch, str_text(&whole), NULL, false);
        } else if (may_be_folder && depth < WATCH_DEPTH_MAX) {
            search_below(watch, fd, name, str_text(&whole), depth + 1);
        }
    }
    closedir(dir);
}

static void search(struct watch *watch, int64_t now_ms)
{
    if (watch->folder < 0) {
        return;
    }
    watch->has_searched = true;
    watch->searched_ms = now_ms;
    watch->entries = 0;
    int fd = openat(watch->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        search_folder(watch, fd, "", 0);
    }
}

/* --- reading --------------------------------------------------------------------------------- */

/* Opens a file below the folder, one step of its path after the other: none of them a link. */
static int open_below(int folder, const char *path)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0) {
        const char *slash = strchr(path, '/');
        AUTO_FREE char *name = mem_strndup(path, slash ? (size_t)(slash - path) : strlen(path));
        int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (slash ? O_DIRECTORY : 0);
        int next = openat(fd, name, flags);
        close(fd);
        fd = next;
        if (!slash) {
            break;
        }
        path = slash + 1;
    }
    return fd;
}

static int open_source(const struct watch *watch, struct source *source)
{
    struct stat about;
    int fd = source->is_report ? open(source->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                               : open_below(watch->folder, source->path);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(fd);
        return -1;
    }
    bool is_same = about.st_dev == source->device && about.st_ino == source->inode &&
                   (uint64_t)about.st_size >= source->offset;
    if (!is_same) {
        source_begin(source);
        source->device = about.st_dev;
        source->inode = about.st_ino;
    }
    return fd;
}

struct renamer {
    const char *prefix;
    const struct metric_sink *sink;
};

static void send_renamed(void *owner, const struct metric *metric)
{
    const struct renamer *renamer = owner;
    char name[METRIC_NAME_MAX + 1];
    struct metric renamed = *metric;
    int size = snprintf(name, sizeof name, "%s/%s", renamer->prefix, metric->name);
    if (size > 0 && (size_t)size < sizeof name) {
        renamed.name = name;
        metric_send(renamer->sink, &renamed);
    }
}

static void feed(struct source *source, const char *bytes, size_t size, int64_t now_ms,
                 const struct metric_sink *sink)
{
    struct renamer renamer = {.prefix = source->prefix, .sink = sink};
    const struct metric_sink through = {.take = send_renamed, .owner = &renamer};
    if (source->jsonl) {
        jsonl_feed(source->jsonl, bytes, size, now_ms, sink);
    } else if (tfevents_feed(source->events, bytes, size, now_ms, source->prefix ? &through : sink,
                             &source->err) != ERR_OK) {
        source->is_given_up = true;
    }
}

/* True: there is more. */
static bool read_source(struct watch *watch, struct source *source, int64_t now_ms,
                        const struct metric_sink *sink)
{
    AUTO_CLOSE int fd = open_source(watch, source);
    size_t done = 0;
    while (fd >= 0 && !source->is_given_up) {
        if (done >= WATCH_BYTES_MAX) {
            return true;
        }
        ssize_t got = pread(fd, watch->piece, PIECE_BYTES, (off_t)source->offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        feed(source, watch->piece, (size_t)got, now_ms, sink);
        source->offset += (uint64_t)got;
        done += (size_t)got;
    }
    return false;
}

static bool read_all(struct watch *watch, int64_t now_ms, const struct metric_sink *sink)
{
    bool more = false;
    for (size_t i = 0; i < watch->count; i++) {
        more = read_source(watch, &watch->sources[i], now_ms, sink) || more;
    }
    return more;
}

bool watch_poll(struct watch *watch, int64_t now_ms, const struct metric_sink *sink)
{
    if (!watch->has_searched || now_ms - watch->searched_ms >= WATCH_SEARCH_MS ||
        now_ms < watch->searched_ms) {
        search(watch, now_ms);
    }
    return read_all(watch, now_ms, sink);
}

void watch_end(struct watch *watch, int64_t now_ms, const struct metric_sink *sink)
{
    search(watch, now_ms);
    for (int round = 0; round < END_ROUNDS && read_all(watch, now_ms, sink); round++) {
    }
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->sources[i].jsonl) {
            jsonl_end(watch->sources[i].jsonl, now_ms, sink);
        }
    }
}

static void add_jsonl_faults(const struct source *source, struct str *out)
{
    struct jsonl_faults faults = jsonl_faults(source->jsonl);
    if (faults.lines == 0) {
        return;
    }
    str_addf(out, "%s: line %" PRIu64 " is %s", source->path, faults.first_line,
             faults.first_is_long ? "too long" : "not a JSON object");
    if (faults.lines > 1) {
        str_addf(out, " (%" PRIu64 " such lines)", faults.lines);
    }
    str_add_char(out, '\n');
}

void watch_add_faults(const struct watch *watch, struct str *out)
{
    for (size_t i = 0; i < watch->count; i++) {
        const struct source *source = &watch->sources[i];
        if (source->jsonl) {
            add_jsonl_faults(source, out);
        } else if (source->is_given_up) {
            str_addf(out, "%s: %s\n", source->path, source->err.text);
        } else if (tfevents_counts(source->events).damaged > 0) {
            str_addf(out, "%s: %" PRIu64 " damaged records passed over\n", source->path,
                     tfevents_counts(source->events).damaged);
        }
    }
}
