#include "master/trials.h"

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10 };

static const char *const state_names[] = {[TRIALS_SUCCEEDED] = "succeeded",
                                          [TRIALS_FAILED] = "failed",
                                          [TRIALS_STOPPED] = "stopped",
                                          [TRIALS_DIVERGED] = "diverged",
                                          [TRIALS_CANCELLED] = "cancelled"};

const char *trials_state_name(enum trials_state state)
{
    return state_names[state];
}

void trials_add_path(struct str *out, const char *flow_folder)
{
    str_addf(out, "%s/trials.log", flow_folder);
}

/* --- writing -----------------------------------------------------------------------------------
 */

static void add_text(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_text(json, text);
}

static void add_u64(struct json *json, const char *key, uint64_t number)
{
    json_key(json, key);
    json_u64(json, number);
}

static void add_search(struct json *json, const struct trials_line *line)
{
    add_text(json, "algorithm", line->algorithm);
    add_text(json, "chosen", line->chosen);
    add_text(json, "why", line->why);
    json_key(json, "metrics");
    json_array(json);
    for (size_t i = 0; i < line->goal_count; i++) {
        json_text(json, line->goal_metrics[i]);
    }
    json_end(json);
    json_key(json, "goals");
    json_array(json);
    for (size_t i = 0; i < line->goal_count; i++) {
        json_text(json, line->maximize[i] ? "maximize" : "minimize");
    }
    json_end(json);
    add_u64(json, "seed", line->seed);
}

static void add_task(struct json *json, const struct trials_line *line)
{
    add_u64(json, "task", line->task);
    add_u64(json, "trial", line->trial);
    add_u64(json, "rung", line->rung);
}

static void add_point(struct json *json, const struct trials_line *line)
{
    json_key(json, "params");
    json_raw(json, line->params, strlen(line->params));
    add_text(json, "point", line->point);
}

static void add_suggested(struct json *json, const struct trials_line *line)
{
    add_task(json, line);
    json_key(json, "budget");
    if (line->has_budget) {
        json_u64(json, line->budget);
    } else {
        json_null(json);
    }
    add_point(json, line);
}

static void add_values(struct json *json, const struct trials_line *line)
{
    add_text(json, "state", trials_state_name(line->state));
    json_key(json, "values");
    json_array(json);
    for (size_t i = 0; i < line->value_count; i++) {
        json_double(json, line->values[i]);
    }
    json_end(json);
}

static void add_warm(struct json *json, const struct trials_line *line)
{
    add_text(json, "from", line->from);
    add_u64(json, "trial", line->trial);
    add_values(json, line);
    add_point(json, line);
}

static void add_result(struct json *json, const struct trials_line *line)
{
    add_task(json, line);
    add_values(json, line);
    json_key(json, "metrics");
    json_object(json);
    for (size_t i = 0; i < line->metric_count && i < TRIALS_METRICS_MAX; i++) {
        json_key(json, line->metrics[i].name);
        json_double(json, line->metrics[i].value);
    }
    json_end(json);
    json_key(json, "reason");
    if (line->reason) {
        json_bytes(json, line->reason, strnlen(line->reason, TRIALS_REASON_BYTES));
    } else {
        json_null(json);
    }
    json_key(json, "step");
    if (line->has_step) {
        json_double(json, line->step);
    } else {
        json_null(json);
    }
}

void trials_add_line(struct str *out, const struct trials_line *line)
{
    static const char *const kinds[] = {[TRIALS_SEARCH] = "search",
                                        [TRIALS_SUGGESTED] = "suggested",
                                        [TRIALS_RESULT] = "result",
                                        [TRIALS_STOP] = "stop",
                                        [TRIALS_WARM] = "warm"};
    struct json json = {.out = out};
    json_object(&json);
    add_u64(&json, "v", 1);
    add_text(&json, "kind", kinds[line->kind]);
    add_text(&json, "experiment", line->experiment);
    json_key(&json, "at");
    json_i64(&json, line->at_ms);
    switch (line->kind) {
    case TRIALS_SEARCH:
        add_search(&json, line);
        break;
    case TRIALS_SUGGESTED:
        add_suggested(&json, line);
        break;
    case TRIALS_RESULT:
        add_result(&json, line);
        break;
    case TRIALS_STOP:
        add_text(&json, "why", line->why);
        break;
    case TRIALS_WARM:
        add_warm(&json, line);
        break;
    }
    json_end(&json);
    str_add_char(out, '\n');
}

/* --- reading the file --------------------------------------------------------------------------
 */

struct reading {
    trials_take_fn take;
    void *owner;
    struct arena arena;
    uint64_t line; /* whole lines so far */
};

static enum err_code take_line(struct reading *reading, const char *text, size_t size,
                               struct err *err)
{
    struct trials_line line;
    struct err why = {0};
    reading->line++;
    arena_reset(&reading->arena);
    enum err_code code = trials_parse(text, size, &reading->arena, &line, &why);
    if (code == ERR_OK && reading->take) {
        code = reading->take(reading->owner, &line, &why);
    }
    if (code == ERR_CORRUPT) {
        return err_set(err, code, "trials.log: line %llu: %s", (unsigned long long)reading->line,
                       why.text);
    }
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%s", why.text);
}

/* Sends the whole lines in `rest` and keeps what follows them. */
static enum err_code take_lines(struct reading *reading, struct str *rest, struct err *err)
{
    size_t at = 0;
    enum err_code code = ERR_OK;
    while (code == ERR_OK && at < rest->size) {
        const char *start = rest->text + at;
        const char *end = memchr(start, '\n', rest->size - at);
        if (!end) {
            break;
        }
        code = take_line(reading, start, (size_t)(end - start), err);
        at += (size_t)(end - start) + 1;
    }
    if (code == ERR_OK && rest->size - at > TRIALS_LINE_MAX) {
        code = err_set(err, ERR_CORRUPT, "trials.log: line %llu is too long",
                       (unsigned long long)reading->line + 1);
    }
    if (at > 0) {
        memmove(rest->text, rest->text + at, rest->size - at);
        rest->size -= at;
    }
    return code;
}

/* *whole_bytes: where the last whole line ends. */
static enum err_code read_all(int fd, struct reading *reading, off_t *whole_bytes, struct err *err)
{
    AUTO_STR struct str rest = {0};
    AUTO_FREE char *piece = mem_alloc(READ_BYTES);
    enum err_code code = ERR_OK;
    off_t bytes = 0;
    while (code == ERR_OK) {
        ssize_t got = read(fd, piece, READ_BYTES);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            code = err_errno(err, errno, "trials.log");
        }
        if (got <= 0) {
            break;
        }
        bytes += got;
        str_add_bytes(&rest, piece, (size_t)got);
        code = take_lines(reading, &rest, err);
    }
    *whole_bytes = bytes - (off_t)rest.size;
    return code;
}

enum err_code trials_read(const char *flow_folder, trials_take_fn take, void *owner,
                          struct err *err)
{
    AUTO_STR struct str path = {0};
    trials_add_path(&path, flow_folder);
    AUTO_CLOSE int fd = open(str_text(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT ? ERR_OK : err_errno(err, errno, "%s", str_text(&path));
    }
    struct reading reading = {.take = take, .owner = owner};
    off_t whole_bytes = 0;
    enum err_code code = read_all(fd, &reading, &whole_bytes, err);
    arena_release(&reading.arena);
    return code;
}

/* --- the writer --------------------------------------------------------------------------------
 */

struct trials_log {
    int fd;
    off_t size;  /* of what counts */
    bool is_cut; /* the file ends there */
};

static enum err_code cut(struct trials_log *log, struct err *err)
{
    if (!log->is_cut && ftruncate(log->fd, log->size) != 0) {
        return err_errno(err, errno, "trials.log");
    }
    log->is_cut = true;
    return ERR_OK;
}

/* The name is to last too. */
static enum err_code sync_folder(const char *folder, struct err *err)
{
    AUTO_CLOSE int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? ERR_OK : err_errno(err, errno, "%s", folder);
}

/* Where the last whole line ends: looked for from behind, for the file may be long. */
static enum err_code find_end(int fd, off_t size, off_t *end, struct err *err)
{
    char piece[4096];
    off_t at = size;
    while (at > 0) {
        size_t want = at < (off_t)sizeof piece ? (size_t)at : sizeof piece;
        ssize_t got = pread(fd, piece, want, at - (off_t)want);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got != (ssize_t)want) {
            return err_errno(err, got < 0 ? errno : EIO, "trials.log");
        }
        const char *found = memrchr(piece, '\n', want);
        at -= (off_t)want;
        if (found) {
            *end = at + (found - piece) + 1;
            return ERR_OK;
        }
    }
    *end = 0;
    return ERR_OK;
}

void trials_close(struct trials_log *log)
{
    if (log) {
        close(log->fd);
        free(log);
    }
}

enum err_code trials_open(const char *flow_folder, struct trials_log **out, struct err *err)
{
    AUTO_STR struct str path = {0};
    trials_add_path(&path, flow_folder);
    int fd = open(str_text(&path), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        return err_errno(err, errno, "%s", str_text(&path));
    }
    struct trials_log *log = mem_alloc(sizeof *log);
    struct stat info = {0};
    log->fd = fd;
    enum err_code code = fstat(fd, &info) == 0 ? find_end(fd, info.st_size, &log->size, err)
                                               : err_errno(err, errno, "%s", str_text(&path));
    log->is_cut = log->size == info.st_size;
    if (code == ERR_OK) {
        code = cut(log, err);
    }
    if (code == ERR_OK) {
        code = sync_folder(flow_folder, err);
    }
    if (code != ERR_OK) {
        trials_close(log);
        return code;
    }
    *out = log;
    return ERR_OK;
}

enum err_code trials_append(struct trials_log *log, const struct str *lines, struct err *err)
{
    CHECK(lines->size > 0 && lines->text[lines->size - 1] == '\n');
    enum err_code code = cut(log, err);
    if (code != ERR_OK) {
        return code;
    }
    log->is_cut = false;
    code = io_write_all(log->fd, lines->text, lines->size, err);
    if (code == ERR_OK && fdatasync(log->fd) != 0) {
        code = err_errno(err, errno, "trials.log");
    }
    if (code != ERR_OK) {
        (void)!cut(log, NULL); /* else before the next */
        return code;
    }
    log->size += (off_t)lines->size;
    log->is_cut = true;
    return ERR_OK;
}
