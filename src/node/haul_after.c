/* What travels while an attempt runs, and after its end. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "node/agent.h"
#include "node/bulk.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOLLOW_MS = 1000,           /* an attempt's age when its log is followed */
    JOIN_BYTES_MAX = 256 << 20, /* the loop waits for it */
};

/* --- while it runs --------------------------------------------------------------------------- */

void haul_begin(struct agent *agent, struct attempt *attempt)
{
    if (attempt_sends_checkpoint(attempt) && agent->haul.bulk) {
        attempt_checkpoint(agent, attempt, &agent->other_path);
        uint64_t ticket =
            bulk_watch_checkpoint(agent->haul.bulk, attempt->run->id, str_text(&agent->other_path));
        haul_add(agent, attempt, HAUL_CHECKPOINT)->ticket = ticket;
    }
}

void haul_hurry(struct agent *agent, struct attempt *attempt)
{
    const struct haul_item *item = haul_find(agent, attempt, HAUL_CHECKPOINT);
    if (item) {
        bulk_hurry(agent->haul.bulk, item->ticket);
    }
}

static void follow_log(struct agent *agent, struct attempt *attempt, const char *file)
{
    uint64_t ticket = bulk_follow_log(agent->haul.bulk, attempt->run->id, file);
    haul_add(agent, attempt, HAUL_LOG)->ticket = ticket;
}

/* When a log was begun anew (capture.h), the one that is followed gets no longer. */
static void look_for_log(struct agent *agent, struct attempt *attempt)
{
    struct stat stat;
    AUTO_STR struct str file = {0};
    attempt_add_log(agent, attempt, &file);
    if (lstat(str_text(&file), &stat) != 0 || stat.st_ino == attempt->log_inode ||
        haul_need_bulk(agent, NULL) != ERR_OK) {
        return;
    }
    struct haul_item *item = haul_find(agent, attempt, HAUL_LOG);
    if (item) {
        haul_drop_item(agent, item);
    }
    attempt->log_inode = stat.st_ino;
    follow_log(agent, attempt, str_text(&file));
}

/* Those that have run for a while and have printed something are worth showing live. */
void haul_look_for_logs(struct agent *agent)
{
    int64_t before_us = clock_mono_us() - FOLLOW_MS * INT64_C(1000);
    struct attempt *attempt = NULL;
    TAILQ_FOREACH(attempt, &agent->running, link)
    {
        if (attempt->started_mono_us > before_us) {
            return; /* they are in the order of their starts */
        }
        if (attempt->is_remote) {
            look_for_log(agent, attempt);
        }
    }
}

/* --- after its end --------------------------------------------------------------------------- */

/* The log is lost, or was never there; an end without it is better than none. */
void haul_lose_log(struct attempt *attempt)
{
    attempt->ended.log_dropped_bytes = attempt->ended.log_bytes;
}

void haul_remove_log(struct agent *agent, const struct attempt *attempt)
{
    struct str *file = &agent->other_path;
    str_clear(file);
    attempt_add_log(agent, attempt, file);
    unlink(str_text(file));
    str_add(file, ".1");
    unlink(str_text(file));
}

/* Into Ended, from FILE.1 (see capture.h) and FILE, if both together are small. */
static bool pack_log(struct attempt *attempt, const char *file)
{
    AUTO_STR struct str older = {0};
    struct str text = {0};
    str_addf(&older, "%s.1", file);
    enum err_code code = io_read_file(str_text(&older), BULK_SMALL_LOG_BYTES, &text, NULL);
    if (code == ERR_OK || code == ERR_NOT_FOUND) {
        code = io_read_file(file, BULK_SMALL_LOG_BYTES - text.size, &text, NULL);
    }
    if (code == ERR_QUOTA) {
        str_release(&text);
        return false;
    }
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        haul_lose_log(attempt);
    }
    attempt->ended.log.len = text.size;
    attempt->ended.log.data = (uint8_t *)str_take(&text);
    return true;
}

/* Adds FILE to FILE.1, which was its beginning. What is too long for that is sent without it. */
static bool join_log(const char *older, const char *file)
{
    struct stat stat;
    AUTO_CLOSE int to = open(older, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int from = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0 || from < 0 || lseek(to, 0, SEEK_END) < 0 || fstat(from, &stat) != 0 ||
        stat.st_size > JOIN_BYTES_MAX) {
        return false;
    }
    ssize_t got = 0;
    for (off_t left = stat.st_size; left > 0; left -= got) {
        got = copy_file_range(from, NULL, to, NULL, (size_t)left, 0);
        if (got <= 0) {
            return false;
        }
    }
    return true;
}

static void send_log(struct agent *agent, struct attempt *attempt, const char *file)
{
    AUTO_STR struct str older = {0};
    struct haul_item *item = haul_find(agent, attempt, HAUL_LOG);
    str_addf(&older, "%s.1", file);
    bool was_begun_anew = access(str_text(&older), F_OK) == 0;
    if (item && was_begun_anew) {
        haul_drop_item(agent, item);
        item = NULL;
    }
    if (!item) {
        bool is_joined = was_begun_anew && join_log(str_text(&older), file);
        follow_log(agent, attempt, is_joined ? str_text(&older) : file);
        item = haul_find(agent, attempt, HAUL_LOG);
    }
    bulk_finish(agent->haul.bulk, item->ticket);
}

static void deliver_log(struct agent *agent, struct attempt *attempt)
{
    bool is_silent =
        attempt->ended.outcome == DROVER__OUTCOME__OUTCOME_EXITED && attempt->ended.log_bytes == 0;
    if (is_silent) {
        return;
    }
    AUTO_STR struct str file = {0};
    attempt_add_log(agent, attempt, &file);
    bool is_followed = haul_find(agent, attempt, HAUL_LOG) != NULL;
    if (!is_followed && pack_log(attempt, str_text(&file))) {
        haul_remove_log(agent, attempt);
    } else if (haul_need_bulk(agent, NULL) == ERR_OK) {
        send_log(agent, attempt, str_text(&file));
    } else {
        haul_lose_log(attempt);
        haul_remove_log(agent, attempt);
    }
}

static void deliver_output(struct agent *agent, struct attempt *attempt)
{
    struct err err = {0};
    if (!attempt->ended.has_output) {
        return;
    }
    if (haul_need_bulk(agent, &err) != ERR_OK) {
        attempt_fail_output(attempt, &err);
        return;
    }
    attempt_folder(agent, attempt, "attempts", &agent->other_path);
    attempt_add_name(attempt->run, &agent->other_path);
    uint64_t ticket =
        bulk_send_output(agent->haul.bulk, attempt->run->id, str_text(&agent->other_path));
    haul_add(agent, attempt, HAUL_OUTPUT)->ticket = ticket;
}

bool haul_after(struct agent *agent, struct attempt *attempt)
{
    if (attempt->serial == 0) {
        return false;
    }
    if (attempt->is_remote) {
        deliver_log(agent, attempt);
        deliver_output(agent, attempt);
    }
    const struct haul_item *checkpoint = haul_find(agent, attempt, HAUL_CHECKPOINT);
    if (checkpoint) {
        bulk_finish(agent->haul.bulk, checkpoint->ticket);
    }
    volumes_after(agent, attempt);
    if (attempt->hauls == 0) {
        return false;
    }
    attempt_move(attempt, &agent->delivering);
    return true;
}
