/* Workflows and their folders: where things go, what is under way, and what is thrown away. */
#include "master/depot_internal.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

const struct flow_place *depot_flow_find(const struct worker *worker, uint32_t number)
{
    for (size_t i = 0; i < worker->flow_count; i++) {
        if (worker->flows[i].number == number) {
            return &worker->flows[i];
        }
    }
    return NULL;
}

static void release_flow(struct flow_place *flow)
{
    for (size_t i = 0; i < flow->count; i++) {
        free(flow->experiments[i]);
    }
    free(flow->experiments);
    free(flow->folder);
    *flow = (struct flow_place){0};
}

typedef bool (*incoming_fn)(void *context, const char *name, const struct stat *stat);

/* Throws away what fn says of FOLDER/incoming. */
static void clear_incoming(struct worker *worker, const struct flow_place *flow, incoming_fn fn,
                           void *context)
{
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/incoming", flow->folder);
    DIR *dir = opendir(str_text(&folder));
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        struct stat stat;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
            !fn(context, entry->d_name, &stat)) {
            continue;
        }
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s/%s", str_text(&folder), entry->d_name);
        VEC_PUSH(worker->trash, worker->trash_count, worker->trash_cap) = str_take(&path);
    }
    if (dir) {
        closedir(dir);
    }
}

static bool is_old(void *context, const char *name, const struct stat *stat)
{
    (void)context;
    return strncmp(name, "trash-", 6) == 0 || stat->st_mtime < time(NULL) - INCOMING_AGE_S;
}

void depot_flow_set(struct worker *worker, struct post *post)
{
    struct flow_place flow = {.number = (uint32_t)post->number,
                              .folder = mem_strdup(post->text),
                              .experiments = post->texts,
                              .count = post->text_count};
    post->texts = NULL;
    post->text_count = 0;
    for (size_t i = 0; i < worker->flow_count; i++) {
        if (worker->flows[i].number == flow.number) {
            release_flow(&worker->flows[i]);
            worker->flows[i] = flow;
            return;
        }
    }
    VEC_PUSH(worker->flows, worker->flow_count, worker->flow_cap) = flow;
    clear_incoming(worker, &flow, is_old, NULL);
}

static bool is_any(void *context, const char *name, const struct stat *stat)
{
    (void)context;
    (void)name;
    (void)stat;
    return true;
}

static void refuse_loads(struct worker *worker, struct peer *peer, uint32_t number)
{
    struct load *next = NULL;
    for (struct load *load = peer->loads; load; load = next) {
        next = load->next;
        if (load->id.workflow == number) {
            depot_say_no(worker, peer, load->ticket, ERR_STALE, "the workflow has ended");
            depot_load_free(worker, load);
        }
    }
}

void depot_flow_end(struct worker *worker, uint32_t number)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        for (struct peer *peer = worker->peers[i]; peer; peer = peer->next) {
            refuse_loads(worker, peer, number);
        }
    }
    for (size_t i = 0; i < worker->flow_count; i++) {
        if (worker->flows[i].number == number) {
            clear_incoming(worker, &worker->flows[i], is_any, NULL);
            release_flow(&worker->flows[i]);
            worker->flows[i] = worker->flows[--worker->flow_count];
            return;
        }
    }
}

void depot_flow_release(struct worker *worker)
{
    for (size_t i = 0; i < worker->flow_count; i++) {
        release_flow(&worker->flows[i]);
    }
    free(worker->flows);
}

void depot_flow_add_log(struct str *out, const struct flow_place *flow,
                        const struct bulk_attempt *id)
{
    place_add_log(out, flow->folder, flow->experiments[id->experiment], id->task, id->attempt);
}

void depot_flow_add_attempt(struct str *out, const struct flow_place *flow,
                            const struct bulk_attempt *id)
{
    place_add_attempt(out, flow->folder, flow->experiments[id->experiment], id->task, id->attempt);
}

void depot_flow_add_checkpoint(struct str *out, const struct flow_place *flow,
                               const struct load *load)
{
    str_addf(out, "%s/checkpoints/%s/%" PRIu64 "/%" PRIu64, flow->folder,
             flow->experiments[load->id.experiment], load->checkpoint / 1000, load->checkpoint);
}

void depot_flow_add_staging(struct str *out, const struct flow_place *flow, const struct peer *peer,
                            uint64_t ticket)
{
    str_addf(out, "%s/incoming/%s-%016" PRIx64 "-%" PRIu64, flow->folder, peer->hex, peer->boot,
             ticket);
}

static bool is_of_other_boot(void *context, const char *name, const struct stat *stat)
{
    (void)stat;
    const struct peer *peer = context;
    char boot[20];
    snprintf(boot, sizeof boot, "%016" PRIx64 "-", peer->boot);
    return strncmp(name, peer->hex, 32) == 0 && name[32] == '-' &&
           strncmp(name + 33, boot, 17) != 0;
}

void depot_flow_clear_boots(struct worker *worker, const struct peer *peer)
{
    for (size_t i = 0; i < worker->flow_count; i++) {
        clear_incoming(worker, &worker->flows[i], is_of_other_boot, (void *)(uintptr_t)peer);
    }
}

/* --- trash ----------------------------------------------------------------------------------- */

void depot_trash_take(struct worker *worker, const char *path)
{
    const char *slash = strrchr(path, '/');
    CHECK(slash);
    AUTO_STR struct str away = {0};
    if (worker->next_trash == 0) {
        worker->next_trash = rng_seed_from_system() >> 16; /* apart from what an earlier one left */
    }
    str_add_bytes(&away, path, (size_t)(slash - path));
    str_addf(&away, "/trash-%" PRIu64, worker->next_trash++);
    if (rename(path, str_text(&away)) == 0) {
        VEC_PUSH(worker->trash, worker->trash_count, worker->trash_cap) = str_take(&away);
    }
}

void depot_trash_turn(struct worker *worker)
{
    size_t budget = REMOVED_AT_ONCE;
    while (worker->trash_count > 0 && budget > 0) {
        char *path = worker->trash[worker->trash_count - 1];
        size_t before = budget;
        bool is_gone = treewrite_remove_some(path, &budget);
        if (!is_gone && budget > 0 && budget + 1 >= before) {
            is_gone = true; /* it cannot be removed: left for the next start */
        }
        if (is_gone) {
            free(path);
            worker->trash_count--;
        }
    }
}

uint64_t depot_tree_id(const char *path)
{
    struct stat stat;
    if (lstat(path, &stat) != 0 || !S_ISDIR(stat.st_mode)) {
        return 0;
    }
    uint64_t ctime_ns = (uint64_t)stat.st_ctim.tv_sec * 1000000000 + (uint64_t)stat.st_ctim.tv_nsec;
    return rng_mix(stat.st_ino, ctime_ns, stat.st_dev) | 1;
}
