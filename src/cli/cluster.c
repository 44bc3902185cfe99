#include "cli/cluster.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "master/place.h"
#include "provider/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 20, SERVE_PATIENCE_MS = 20000, TAIL_BYTES = 300, CLUSTERS_MAX = 10000 };

static enum err_code add_clusters_folder(struct str *out, struct err *err)
{
    enum err_code code = place_runs_folder(out, err);
    if (code == ERR_OK) {
        out->size -= strlen("runs");
        str_add(out, "clusters");
    }
    return code;
}

/* Absolute, and made if wanted. */
static enum err_code find_state(const char *state, bool make, char **out, struct err *err)
{
    AUTO_STR struct str folder = {0};
    enum err_code code = ERR_OK;
    if (state) {
        str_add(&folder, state);
    } else {
        code = remote_default_folder(&folder, err);
    }
    if (code == ERR_OK && make) {
        code = io_make_dirs(str_text(&folder), err);
    }
    *out = code == ERR_OK ? realpath(str_text(&folder), NULL) : NULL;
    if (code == ERR_OK && !*out) {
        code = err_errno(err, errno, "%s", str_text(&folder));
    }
    return code;
}

static enum err_code write_record(const struct cluster *cluster, struct err *err)
{
    AUTO_STR struct str file = {0};
    AUTO_STR struct str text = {0};
    enum err_code code = io_make_dirs(cluster->record, err);
    str_addf(&file, "%s/state", cluster->record);
    str_addf(&text, "%s\n", cluster->state);
    return code == ERR_OK ? io_replace_file(str_text(&file), str_text(&text), text.size, 0600, err)
                          : code;
}

enum err_code cluster_open(const char *state, bool make, struct cluster *out, struct err *err)
{
    AUTO_STR struct str record = {0};
    AUTO_STR struct str nodes = {0};
    *out = (struct cluster){0};
    enum err_code code = find_state(state, make, &out->state, err);
    if (code == ERR_OK) {
        code = add_clusters_folder(&record, err);
    }
    if (code == ERR_OK) {
        str_addf(&record, "/%016" PRIx64, rng_hash_bytes(1, out->state, strlen(out->state)));
        out->record = str_take(&record);
        code = make ? write_record(out, err) : ERR_OK;
    }
    if (code == ERR_OK) {
        str_addf(&nodes, "%s/nodes", out->state);
        struct provider_local_options options = {.folder = str_text(&nodes)};
        code = provider_local_create(&options, &out->nodes, err);
    }
    if (code != ERR_OK) {
        cluster_close(out);
    }
    return code;
}

void cluster_close(struct cluster *cluster)
{
    provider_destroy(cluster->nodes);
    free(cluster->state);
    free(cluster->record);
    *cluster = (struct cluster){0};
}

void cluster_add_tail(struct str *out, const char *file)
{
    char bytes[TAIL_BYTES + 1] = {0};
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        return;
    }
    off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    ssize_t got = pread(fd, bytes, TAIL_BYTES, from);
    while (got > 0 && bytes[got - 1] == '\n') {
        bytes[--got] = '\0';
    }
    for (char *at = bytes; *at; at++) {
        *at = *at == '\n' ? ' ' : *at; /* one line of an error */
    }
    jread_add_clean(out, bytes);
}

/* --- the server ----------------------------------------------------------------------------- */

static void add_serve_file(struct str *out, const struct cluster *cluster, const char *ending)
{
    str_addf(out, "%s/serve.%s", cluster->record, ending);
}

static bool does_answer(const char *state)
{
    struct remote remote = {0};
    struct jread answer = {0};
    bool found = false;
    if (!remote_is_served(state)) {
        return false;
    }
    remote.quiet = true;
    int code = remote_look(state, &remote, &found);
    remote.quiet = true;
    bool answers = code == EXIT_DONE && found &&
                   remote_get(&remote, "/api/v1/server", &answer, NULL) == EXIT_DONE;
    jread_release(&answer);
    remote_close(&remote);
    return answers;
}

static enum err_code wait_for_server(const struct cluster *cluster, const char *pid_file,
                                     const char *log_file, struct err *err)
{
    int64_t until_ms = clock_mono_ms() + SERVE_PATIENCE_MS;
    pid_t pid = 0;
    while (!does_answer(cluster->state)) {
        bool dead = !daemon_is_alive(pid_file, &pid);
        if (dead || clock_mono_ms() >= until_ms) {
            AUTO_STR struct str tail = {0};
            cluster_add_tail(&tail, log_file);
            return err_set(err, ERR_IO, "the server %s; its log %s ends: %s",
                           dead ? "ended at once" : "does not answer", log_file, str_text(&tail));
        }
        usleep(LOOK_MS * 1000);
    }
    return ERR_OK;
}

enum err_code cluster_serve(struct cluster *cluster, bool *started, struct err *err)
{
    AUTO_STR struct str pid_file = {0};
    AUTO_STR struct str log_file = {0};
    add_serve_file(&pid_file, cluster, "pid");
    add_serve_file(&log_file, cluster, "log");
    *started = !place_is_locked(cluster->state);
    if (*started) {
        const char *argv[] = {"drover", "serve", "--state", cluster->state, NULL};
        struct daemon_options options = {.argv = (char *const *)argv,
                                         .pid_file = str_text(&pid_file),
                                         .log_file = str_text(&log_file),
                                         .folder = "/"};
        pid_t pid = 0;
        enum err_code code = daemon_start(&options, &pid, err);
        if (code != ERR_OK) {
            return code;
        }
        return wait_for_server(cluster, str_text(&pid_file), str_text(&log_file), err);
    }
    if (!does_answer(cluster->state)) {
        return err_set(err, ERR_IO, "%s is in use, but no server answers there", cluster->state);
    }
    return ERR_OK;
}

bool cluster_owns_server(const struct cluster *cluster, pid_t *pid)
{
    AUTO_STR struct str pid_file = {0};
    add_serve_file(&pid_file, cluster, "pid");
    return daemon_is_alive(str_text(&pid_file), pid);
}

enum err_code cluster_stop_server(struct cluster *cluster, struct err *err)
{
    AUTO_STR struct str pid_file = {0};
    add_serve_file(&pid_file, cluster, "pid");
    int64_t until_ms = clock_mono_ms() + SERVE_PATIENCE_MS;
    pid_t pid = 0;
    enum err_code code = daemon_signal(str_text(&pid_file), SIGTERM, err);
    while (code == ERR_OK && daemon_is_alive(str_text(&pid_file), &pid)) {
        if (clock_mono_ms() >= until_ms) {
            return err_set(err, ERR_TIMEOUT, "the server (pid %ld) does not end", (long)pid);
        }
        usleep(LOOK_MS * 1000);
    }
    if (code == ERR_OK) {
        unlink(str_text(&pid_file));
    }
    return code;
}

/* --- all of them ---------------------------------------------------------------------------- */

void cluster_tidy(struct cluster *cluster)
{
    struct provider_list list = {0};
    pid_t pid = 0;
    if (provider_list(cluster->nodes, &list, NULL) == ERR_OK && list.count == 0 &&
        !cluster_owns_server(cluster, &pid)) {
        /* nothing is lost if it stays */
        (void)!io_remove_tree(cluster->record, NULL);
    }
    provider_list_release(&list);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

enum err_code cluster_each(cluster_fn fn, void *context, struct err *err)
{
    AUTO_STR struct str folder = {0};
    char **states = NULL;
    size_t count = 0;
    size_t cap = 0;
    enum err_code code = add_clusters_folder(&folder, err);
    if (code != ERR_OK) {
        return code;
    }
    DIR *all = opendir(str_text(&folder));
    for (struct dirent *entry = NULL; all && count < CLUSTERS_MAX && (entry = readdir(all));) {
        AUTO_STR struct str file = {0};
        struct str state = {0};
        str_addf(&file, "%s/%s/state", str_text(&folder), entry->d_name);
        if (remote_read_line(str_text(&file), &state, NULL) == ERR_OK &&
            access(str_text(&state), F_OK) == 0) {
            VEC_PUSH(states, count, cap) = str_take(&state);
        }
        str_release(&state);
    }
    if (all) {
        closedir(all);
    }
    if (count > 1) {
        qsort(states, count, sizeof *states, compare_texts);
    }
    bool go_on = true;
    for (size_t i = 0; i < count; i++) {
        go_on = go_on && fn(context, states[i]);
        free(states[i]);
    }
    free(states);
    return ERR_OK;
}

long cluster_pid_of(const struct provider_node *node)
{
    long pid = 0;
    return sscanf(node->place, "pid %ld", &pid) == 1 ? pid : 0;
}

const char *cluster_find_joined(const struct jnode *items, long pid, const char *state)
{
    for (const struct jnode *node = jread_first(items); node && pid > 0; node = node->next) {
        if (jread_u64(node, "pid", 0) == (uint64_t)pid &&
            (!state || strcmp(jread_text(node, "state", ""), state) == 0)) {
            return jread_text(node, "name", NULL);
        }
    }
    return NULL;
}
