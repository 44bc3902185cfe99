#include "master/outputs.h"

#include "base/io.h"
#include "base/mem.h"
#include "master/place.h"
#include "master/retention.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct outputs_of {
    const struct core *core;
    const struct flow *flow;
    enum outputs_age age;
};

static void add_link(struct str *out, const char *folder, const char *experiment, uint64_t task)
{
    str_addf(out, "%s/outputs/%s/%" PRIu64, folder, experiment, task);
}

static void add_target(struct str *out, const char *experiment, uint64_t task, uint32_t attempt)
{
    place_add_attempt(out, "../..", experiment, task, attempt);
}

enum err_code outputs_link(const char *folder, const char *experiment, uint64_t task,
                           uint32_t attempt, struct err *err)
{
    AUTO_STR struct str link = {0};
    AUTO_STR struct str target = {0};
    add_link(&link, folder, experiment, task);
    add_target(&target, experiment, task, attempt);
    if (symlink(str_text(&target), str_text(&link)) == 0) {
        return ERR_OK;
    }
    if (errno == EEXIST) {
        unlink(str_text(&link));
    } else if (errno == ENOENT) { /* a retry, after its files had become too old to keep */
        AUTO_FREE char *parent =
            mem_strndup(str_text(&link), (size_t)(strrchr(str_text(&link), '/') - link.text));
        (void)!io_make_dirs(parent, NULL);
    }
    if (symlink(str_text(&target), str_text(&link)) == 0) {
        return ERR_OK;
    }
    return err_errno(err, errno, "%s", str_text(&link));
}

static bool link_is(const char *link, const char *target)
{
    char text[PATH_MAX];
    ssize_t size = readlink(link, text, sizeof text - 1);
    if (size < 0) {
        return false;
    }
    text[size] = '\0';
    return strcmp(text, target) == 0;
}

/* "17" → 17, true; anything else is not ours. */
static bool parse_index(const char *text, uint64_t limit, uint64_t *out, const char **rest)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    *rest = end;
    return errno == 0 && *out < limit;
}

static bool is_accepted(const struct outputs_of *of, uint32_t experiment, uint64_t task,
                        uint32_t *attempt)
{
    struct core_task_view view;
    core_task_view(of->core, of->flow->number, experiment, task, &view);
    *attempt = view.attempt;
    return view.state == TASK_SUCCEEDED && view.has_output;
}

/* Its result may be on the way: the node has put the output in its place, and we have not heard. */
static bool may_be_accepted(const struct outputs_of *of, uint32_t experiment, uint64_t task,
                            uint64_t attempt)
{
    struct core_task_view view;
    core_task_view(of->core, of->flow->number, experiment, task, &view);
    return of->age == OUTPUTS_ADOPTING &&
           (view.state == TASK_ASSIGNED || view.state == TASK_RUNNING) && view.attempt == attempt;
}

/* Removes links whose task has no accepted output. */
static void prune_links(const struct outputs_of *of, uint32_t number, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        return;
    }
    const struct experiment *experiment = &of->flow->recipe->experiments[number];
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        uint64_t task = 0;
        uint32_t attempt = 0;
        const char *rest = "";
        if (parse_index(entry->d_name, experiment->task_count, &task, &rest) && *rest == '\0' &&
            !is_accepted(of, number, task, &attempt)) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
}

/* Removes attempt folders that no fact speaks for: a crash came between the rename and the log. */
static void prune_attempts(const struct outputs_of *of, uint32_t number, const char *shard)
{
    DIR *dir = opendir(shard);
    if (!dir) {
        return;
    }
    const struct experiment *experiment = &of->flow->recipe->experiments[number];
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        uint64_t task = 0;
        uint64_t named_attempt = 0;
        uint32_t attempt = 0;
        const char *rest = "";
        if (!parse_index(entry->d_name, experiment->task_count, &task, &rest) || *rest != '.' ||
            !parse_index(rest + 1, UINT32_MAX, &named_attempt, &rest) ||
            (*rest != '\0' && strcmp(rest, RETENTION_SUFFIX) != 0)) {
            continue;
        }
        if (*rest != '\0') { /* its removal had begun */
            named_attempt = 0;
        }
        if ((!is_accepted(of, number, task, &attempt) || attempt != named_attempt) &&
            !may_be_accepted(of, number, task, named_attempt)) {
            AUTO_STR struct str path = {0};
            str_addf(&path, "%s/%s", shard, entry->d_name);
            struct err ignored;
            (void)!io_remove_tree(str_text(&path), &ignored);
        }
    }
    closedir(dir);
}

static enum err_code repair_experiment(const struct outputs_of *of, uint32_t number,
                                       struct err *err)
{
    const struct experiment *experiment = &of->flow->recipe->experiments[number];
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/outputs/%s", of->flow->folder, experiment->name);
    enum err_code code = io_make_dirs(str_text(&folder), err);
    if (code != ERR_OK || of->age == OUTPUTS_NEW) {
        return code;
    }
    prune_links(of, number, str_text(&folder));
    for (uint64_t shard = 0; shard <= (experiment->task_count - 1) / 1000; shard++) {
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s/attempts/%s/%" PRIu64, of->flow->folder, experiment->name, shard);
        prune_attempts(of, number, str_text(&path));
    }
    for (uint64_t task = 0; task < experiment->task_count; task++) {
        uint32_t attempt = 0;
        if (!is_accepted(of, number, task, &attempt)) {
            continue;
        }
        AUTO_STR struct str link = {0};
        AUTO_STR struct str target = {0};
        add_link(&link, of->flow->folder, experiment->name, task);
        add_target(&target, experiment->name, task, attempt);
        if (!link_is(str_text(&link), str_text(&target))) {
            code = outputs_link(of->flow->folder, experiment->name, task, attempt, err);
        }
        if (code != ERR_OK) {
            return code;
        }
    }
    return ERR_OK;
}

enum err_code outputs_repair(const struct core *core, const struct flow *flow, enum outputs_age age,
                             struct err *err)
{
    struct outputs_of of = {.core = core, .flow = flow, .age = age};
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        enum err_code code = repair_experiment(&of, (uint32_t)e, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    return ERR_OK;
}
