#include "base/io.h"
#include "base/mem.h"
#include "provider/daemon.h"
#include "provider/provider.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16 + 2 * PROVIDER_LABELS_MAX };

struct local {
    struct provider provider;
    char *folder;
    char *program; /* or NULL */
    bool tied;
};

static struct local *local_of(struct provider *provider)
{
    return (struct local *)provider; /* it comes first */
}

static void add_file(struct str *out, const struct local *local, const char *name,
                     const char *ending)
{
    str_addf(out, "%s/%s%s", local->folder, name, ending);
}

static enum err_code local_start(struct provider *provider, const struct provider_spec *spec,
                                 struct err *err)
{
    struct local *local = local_of(provider);
    AUTO_STR struct str pid_file = {0};
    AUTO_STR struct str log_file = {0};
    AUTO_STR struct str work = {0};
    AUTO_STR struct str join = {0};
    char slots[16];
    const char *argv[ARGUMENTS_MAX] = {"drover", "node",     "--join", NULL,
                                       "--name", spec->name, "--work", NULL};
    size_t count = 8;
    add_file(&pid_file, local, spec->name, ".pid");
    add_file(&log_file, local, spec->name, ".log");
    add_file(&work, local, spec->name, "");
    str_addf(&join, "@%s", spec->join_file);
    argv[3] = str_text(&join);
    argv[7] = str_text(&work);
    if (spec->slots > 0) {
        snprintf(slots, sizeof slots, "%u", (unsigned)spec->slots);
        argv[count++] = "--slots";
        argv[count++] = slots;
    }
    if (spec->price) {
        argv[count++] = "--price";
        argv[count++] = spec->price;
    }
    for (size_t i = 0; i < spec->label_count; i++) {
        argv[count++] = "--label";
        argv[count++] = spec->labels[i];
    }
    enum err_code code = io_make_dirs(str_text(&work), err);
    if (code != ERR_OK) {
        return code;
    }
    pid_t pid = 0;
    struct daemon_options options = {.program = local->program,
                                     .argv = (char *const *)argv,
                                     .pid_file = str_text(&pid_file),
                                     .log_file = str_text(&log_file),
                                     .folder = local->folder,
                                     .tied = local->tied};
    return daemon_start(&options, &pid, err);
}

/* The name in NAME.pid; false: something else. */
static bool name_of(const char *file, char out[PROVIDER_NAME_MAX + 1])
{
    const char *dot = strrchr(file, '.');
    if (!dot || strcmp(dot, ".pid") != 0 || dot - file > PROVIDER_NAME_MAX) {
        return false;
    }
    snprintf(out, PROVIDER_NAME_MAX + 1, "%.*s", (int)(dot - file), file);
    return provider_name_is_good(out);
}

static enum err_code local_list(struct provider *provider, struct provider_list *out,
                                struct err *err)
{
    struct local *local = local_of(provider);
    out->count = 0;
    DIR *folder = opendir(local->folder);
    if (!folder) {
        return errno == ENOENT ? ERR_OK : err_errno(err, errno, "%s", local->folder);
    }
    for (struct dirent *entry = NULL; (entry = readdir(folder));) {
        struct provider_node node = {0};
        pid_t pid = 0;
        if (!name_of(entry->d_name, node.name)) {
            continue;
        }
        AUTO_STR struct str file = {0};
        add_file(&file, local, node.name, ".pid");
        node.alive = daemon_is_alive(str_text(&file), &pid);
        if (node.alive) {
            snprintf(node.place, sizeof node.place, "pid %ld", (long)pid);
        } else {
            snprintf(node.place, sizeof node.place, "ended, see %.200s.log", node.name);
        }
        VEC_PUSH(out->nodes, out->count, out->cap) = node;
    }
    closedir(folder);
    return ERR_OK;
}

static enum err_code local_stop(struct provider *provider, const char *name, enum provider_stop how,
                                struct err *err)
{
    struct local *local = local_of(provider);
    AUTO_STR struct str file = {0};
    add_file(&file, local, name, ".pid");
    if (access(str_text(&file), F_OK) != 0) {
        return err_set(err, ERR_NOT_FOUND, "there is no node '%s' in %s", name, local->folder);
    }
    enum err_code code =
        daemon_signal(str_text(&file), how == PROVIDER_KILL ? SIGKILL : SIGTERM, err);
    if (code == ERR_NOT_FOUND) {
        unlink(str_text(&file)); /* what it left, logs above all, stays */
        code = ERR_OK;
    }
    return code;
}

static void local_destroy(struct provider *provider)
{
    struct local *local = local_of(provider);
    free(local->folder);
    free(local->program);
    free(local);
}

enum err_code provider_local_create(const struct provider_local_options *options,
                                    struct provider **out, struct err *err)
{
    static const struct provider_ops ops = {.kind = "local",
                                            .start = local_start,
                                            .list = local_list,
                                            .stop = local_stop,
                                            .destroy = local_destroy};
    if (options->folder[0] != '/') {
        return err_set(err, ERR_INVALID, "%s: nodes need a path from the root", options->folder);
    }
    struct local *local = mem_alloc(sizeof *local);
    local->provider.ops = &ops;
    local->folder = mem_strdup(options->folder);
    local->program = options->program ? mem_strdup(options->program) : NULL;
    local->tied = options->tied;
    *out = &local->provider;
    return ERR_OK;
}
