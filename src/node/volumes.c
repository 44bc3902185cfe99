#include "node/volumes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "node/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    IDLE_MS = 30000,           /* a mount that nobody needs is kept so long */
    COLLECT_MS = 20,           /* between looks for a process that ends */
    CLOSE_PATIENCE_MS = 60000, /* until a mount that stores what was written is killed */
};

void volumes_init(struct agent *agent)
{
    TAILQ_INIT(&agent->volumes.places);
    TAILQ_INIT(&agent->volumes.errands);
}

/* --- places ---------------------------------------------------------------------------------- */

static void remove_place(struct agent *agent, struct volumes_place *place)
{
    struct volumes *volumes = &agent->volumes;
    volumes_remove_place_files(place);
    if (place->fd >= 0) {
        close(place->fd);
    }
    TAILQ_REMOVE(&volumes->places, place, link);
    volumes->place_count--;
    explicit_bzero(place->key, strlen(place->key)); /* it may have a secret in it */
    free(place->key);
    free(place->shown);
    free(place->mount);
    free(place->folder);
    free(place);
}

static struct volumes_place *find_place(struct agent *agent, const char *key)
{
    struct volumes_place *place = NULL;
    TAILQ_FOREACH(place, &agent->volumes.places, link)
    {
        bool lives = place->state == VOLUMES_MOUNTING || place->state == VOLUMES_READY;
        if (lives && strcmp(place->key, key) == 0) {
            return place;
        }
    }
    return NULL;
}

static enum err_code make_place(struct agent *agent, const Drover__Volume *volume,
                                struct volumes_place **out, struct err *err)
{
    struct volumes *volumes = &agent->volumes;
    if (volume->trouble[0]) {
        return err_set(err, ERR_IO, "%.300s", volume->trouble);
    }
    if (volumes->place_count >= VOLUMES_MAX) {
        return err_set(err, ERR_QUOTA, "more than %d volumes are mounted here", (int)VOLUMES_MAX);
    }
    if (volumes->epoll == 0) {
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        if (epoll < 0) {
            return err_errno(err, errno, "volumes: epoll");
        }
        volumes->epoll = epoll;
    }
    struct volumes_place *place = mem_alloc(sizeof *place);
    place->key = volumes_key(volume, false);
    place->shown = volumes_key(volume, true);
    place->is_writable = volume->snapshot[0] == '\0';
    place->fd = -1;
    TAILQ_INSERT_TAIL(&volumes->places, place, link);
    volumes->place_count++;
    enum err_code code = volumes_mount(agent, place, volume, err);
    if (code != ERR_OK && place->pid > 0) { /* it is collected later */
        volumes_unmount(place);
    } else if (code != ERR_OK) {
        remove_place(agent, place);
    }
    *out = place;
    return code;
}

/* For the checkpoint or the output of its attempts. */
static bool needs_folder(const Drover__Run *run, size_t index)
{
    const char *name = run->volumes[index]->name;
    return strcmp(name, run->checkpoint_volume) == 0 || strcmp(name, run->output_volume) == 0;
}

enum err_code volumes_before(struct agent *agent, struct attempt *attempt, struct err *err)
{
    const Drover__Run *run = attempt->run;
    attempt->volumes = mem_array(run->n_volumes, sizeof *attempt->volumes);
    for (size_t i = 0; i < run->n_volumes; i++) {
        AUTO_FREE char *key = volumes_key(run->volumes[i], false);
        struct volumes_place *place = find_place(agent, key);
        enum err_code code = place ? ERR_OK : make_place(agent, run->volumes[i], &place, err);
        if (code != ERR_OK) {
            return code;
        }
        attempt->volumes[i] = place;
        place->users++;
        if (place->state != VOLUMES_READY || needs_folder(run, i)) {
            struct haul_item *item = haul_add(agent, attempt, HAUL_VOLUME);
            item->volume = place;
            item->index = i;
        }
    }
    return ERR_OK;
}

/* Best effort: where there is no room for it now, the next attempt will replace what is there. */
void volumes_refuse(struct agent *agent, struct attempt *attempt)
{
    const Drover__Run *run = attempt->run;
    bool has_kept = attempt->volumes && attempt->serial != 0 && run->output_volume[0] != '\0' &&
                    attempt->ended.outcome == DROVER__OUTCOME__OUTCOME_EXITED &&
                    attempt->ended.code == 0;
    for (size_t i = 0; has_kept && i < run->n_volumes; i++) {
        struct volumes_place *place = attempt->volumes[i];
        if (strcmp(run->volumes[i]->name, run->output_volume) == 0 &&
            place->state == VOLUMES_READY && agent->volumes.errand_count < VOLUMES_ERRANDS_MAX) {
            struct str *path = &agent->other_path;
            attempt_volume_output(attempt, true, path);
            const struct volumes_order order = {
                .what = VOLUMES_UNDO, .path = path->text, .attempt = run->id->attempt};
            (void)!volumes_send(agent, place, &order, ++agent->volumes.next_folder, NULL);
        }
    }
}

void volumes_let_go(struct attempt *attempt)
{
    for (size_t i = 0; attempt->volumes && i < attempt->run->n_volumes; i++) {
        struct volumes_place *place = attempt->volumes[i];
        if (place) {
            CHECK(place->users > 0);
            place->users--;
            place->idle_since_ms = clock_mono_ms();
        }
    }
    free(attempt->volumes);
    attempt->volumes = NULL;
}

const char *volumes_folder(const struct attempt *attempt, const char *name)
{
    const Drover__Run *run = attempt->run;
    size_t at = 0;
    while (at < run->n_volumes && strcmp(run->volumes[at]->name, name) != 0) {
        at++;
    }
    CHECK(at < run->n_volumes);
    return attempt->volumes[at]->folder;
}

static bool is_waiting_for(struct agent *agent, const struct attempt *attempt,
                           const struct volumes_place *place)
{
    const struct haul_item *item = NULL;
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        if (item->attempt == attempt && item->kind == HAUL_COMMIT && item->volume == place) {
            return true;
        }
    }
    return false;
}

static void order_commit(struct agent *agent, struct attempt *attempt, struct volumes_place *place)
{
    if (!is_waiting_for(agent, attempt, place)) {
        struct haul_item *item = haul_add(agent, attempt, HAUL_COMMIT);
        item->volume = place;
        item->round = place->rounds + 1; /* one that is under way may have begun too early */
    }
}

void volumes_after(struct agent *agent, struct attempt *attempt)
{
    const Drover__Run *run = attempt->run;
    struct volumes_place *output = NULL;
    if (!attempt->volumes) {
        return;
    }
    for (size_t i = 0; i < run->n_volumes; i++) {
        if (strcmp(run->volumes[i]->name, run->output_volume) == 0) {
            output = attempt->volumes[i];
            haul_add(agent, attempt, HAUL_KEEP)->volume = output; /* and then the commit */
        }
    }
    bool has_run = attempt->ended.outcome != DROVER__OUTCOME__OUTCOME_NOT_STARTED;
    for (size_t i = 0; has_run && i < run->n_volumes; i++) {
        struct volumes_place *place = attempt->volumes[i];
        if (place->is_writable && place != output) {
            order_commit(agent, attempt, place);
        }
    }
}

size_t volumes_processes(const struct agent *agent, pid_t out[VOLUMES_PROCESSES_MAX])
{
    size_t count = 0;
    const struct volumes_place *place = NULL;
    const struct volumes_errand *errand = NULL;
    TAILQ_FOREACH(place, &agent->volumes.places, link)
    {
        if (place->pid > 0) {
            out[count++] = place->pid;
        }
    }
    TAILQ_FOREACH(errand, &agent->volumes.errands, link)
    {
        if (errand->pid > 0) {
            out[count++] = errand->pid;
        }
    }
    return count;
}

/* --- what is heard of them ------------------------------------------------------------------- */

/* "ready" or "ready FOLDER", on a line of its own. */
static void take_line(struct volumes_place *place)
{
    static const char word[] = "ready";
    char *end = memchr(place->said, '\n', place->said_size);
    if (!end || place->state != VOLUMES_MOUNTING) {
        return;
    }
    *end = '\0';
    if (strncmp(place->said, word, sizeof word - 1) == 0) {
        const char *folder = place->said + sizeof word - 1;
        place->folder = mem_strdup(folder[0] == ' ' ? folder + 1 : place->mount);
        place->state = VOLUMES_READY;
    }
}

static void hear_place(struct volumes_place *place)
{
    ssize_t got = 0;
    while (place->fd >= 0) {
        size_t room = sizeof place->said - 1 - place->said_size;
        if (room == 0) { /* nobody says so much */
            place->said_size = 0;
            continue;
        }
        got = read(place->fd, place->said + place->said_size, room);
        if (got <= 0) {
            break;
        }
        place->said_size += (size_t)got;
    }
    take_line(place);
    bool is_over = place->fd >= 0 && !(got < 0 && (errno == EAGAIN || errno == EINTR));
    if (is_over) {
        close(place->fd);
        place->fd = -1;
    }
    if (place->fd < 0 && place->state != VOLUMES_DEAD) {
        if (place->state != VOLUMES_LEAVING) {
            volumes_read_why(place);
            place->state = VOLUMES_DEAD;
        }
    }
}

static struct haul_item *find_commit(struct agent *agent, const struct volumes_place *place,
                                     uint64_t round)
{
    struct haul_item *item = NULL;
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see an item leave the list
        if (item->kind == HAUL_COMMIT && item->volume == place && item->round <= round) {
            return item;
        }
    }
    return NULL;
}

/* What waits for an errand that is no commit, if it still does. */
static struct haul_item *find_waiting(struct agent *agent, const struct volumes_errand *errand)
{
    struct haul_item *item = NULL;
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        bool is_such = item->kind == HAUL_VOLUME || item->kind == HAUL_KEEP;
        if (is_such && item->volume == errand->place && item->round == errand->round) {
            return item;
        }
    }
    return NULL;
}

static void finish_commits(struct agent *agent, const struct volumes_place *place, uint64_t round,
                           const struct err *err)
{
    struct haul_item *item = NULL;
    while ((item = find_commit(agent, place, round)) != NULL) {
        haul_finish_item(agent, item, err);
    }
}

static void hear_errands(struct agent *agent)
{
    struct volumes_errand *next = NULL;
    for (struct volumes_errand *errand = TAILQ_FIRST(&agent->volumes.errands); errand;
         errand = next) {
        struct err err = {0};
        next = TAILQ_NEXT(errand, link);
        if (!volumes_is_back(errand, &err)) {
            continue;
        }
        bool is_commit = errand->what == VOLUMES_COMMIT;
        struct haul_item *item = is_commit ? NULL : find_waiting(agent, errand);
        if (is_commit) {
            errand->place->is_committing = false;
            finish_commits(agent, errand->place, errand->round, &err);
        }
        if (item && item->kind == HAUL_KEEP) {
            order_commit(agent, item->attempt, item->volume);
        }
        if (item) {
            haul_finish_item(agent, item, &err);
        }
        volumes_end_errand(agent, errand);
    }
}

/* --- what is to be done ---------------------------------------------------------------------- */

/* The folder that a new attempt needs in the volume. */
static enum err_code send_for_folder(struct agent *agent, struct haul_item *item, struct err *err)
{
    const struct attempt *attempt = item->attempt;
    const char *name = attempt->run->volumes[item->index]->name;
    struct str *path = &agent->other_path;
    struct volumes_order order = {.what = VOLUMES_MAKE};
    if (strcmp(name, attempt->run->output_volume) == 0) {
        order.what = VOLUMES_EMPTY;
        order.attempt = attempt->run->id->attempt;
        attempt_volume_output(attempt, false, path);
    } else {
        attempt_checkpoint(agent, attempt, path);
    }
    order.path = path->text;
    return volumes_send(agent, item->volume, &order, item->round, err);
}

static enum err_code add_promised(const struct attempt *attempt, const char *folder,
                                  struct str *out, struct err *err)
{
    AUTO_STR struct str name = {0};
    for (size_t i = 0; i < attempt->run->n_outputs; i++) {
        enum err_code code = attempt_output_name(attempt, i, folder, &name, err);
        if (code != ERR_OK) {
            return code;
        }
        str_add(out, str_text(&name));
        str_add_char(out, '\0');
    }
    str_add_char(out, '\0');
    return ERR_OK;
}

/* What becomes of an output that is there. */
static enum err_code send_to_keep(struct agent *agent, struct haul_item *item, struct err *err)
{
    const struct attempt *attempt = item->attempt;
    AUTO_STR struct str path = {0};
    AUTO_STR struct str to = {0};
    AUTO_STR struct str promised = {0};
    bool is_well =
        attempt->ended.outcome == DROVER__OUTCOME__OUTCOME_EXITED && attempt->ended.code == 0;
    attempt_volume_output(attempt, false, &path);
    attempt_volume_output(attempt, true, &to);
    enum err_code code = add_promised(attempt, str_text(&path), &promised, err);
    struct volumes_order order = {.what = is_well ? VOLUMES_KEEP : VOLUMES_DROP,
                                  .path = path.text,
                                  .to = to.text,
                                  .attempt = attempt->run->id->attempt,
                                  .promised = promised.text};
    return code == ERR_OK ? volumes_send(agent, item->volume, &order, item->round, err) : code;
}

static enum err_code send_commit(struct agent *agent, struct volumes_place *place, struct err *err)
{
    const struct volumes_order order = {.what = VOLUMES_COMMIT};
    place->rounds++;
    return volumes_send(agent, place, &order, place->rounds, err);
}

/* True: an item has gone, and the list with it. */
static bool serve_item(struct agent *agent, struct haul_item *item)
{
    struct volumes_place *place = item->volume;
    bool has_room = agent->volumes.errand_count < VOLUMES_ERRANDS_MAX;
    struct err err = {0};
    if (place->state == VOLUMES_DEAD) {
        haul_finish_item(agent, item, &place->why);
        return true;
    }
    if (place->state != VOLUMES_READY) {
        return false;
    }
    bool is_commit = item->kind == HAUL_COMMIT;
    if (item->kind == HAUL_VOLUME && !needs_folder(item->attempt->run, item->index)) {
        haul_finish_item(agent, item, &err);
        return true;
    }
    bool is_sent = is_commit ? place->is_committing : item->round != 0;
    if (is_sent || !has_room) {
        return false;
    }
    if (is_commit) {
        place->is_committing = send_commit(agent, place, &err) == ERR_OK;
        if (!place->is_committing) {
            finish_commits(agent, place, place->rounds, &err);
        }
        return !place->is_committing;
    }
    item->round = ++agent->volumes.next_folder;
    enum err_code code = item->kind == HAUL_KEEP ? send_to_keep(agent, item, &err)
                                                 : send_for_folder(agent, item, &err);
    if (code != ERR_OK) {
        haul_finish_item(agent, item, &err);
    }
    return code != ERR_OK;
}

static bool serve_some(struct agent *agent)
{
    struct haul_item *item = NULL;
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        bool is_ours = item->kind >= HAUL_VOLUME; /* and those behind it */
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see an item leave the list
        if (is_ours && serve_item(agent, item)) {
            return true;
        }
    }
    return false;
}

static bool has_errand(const struct agent *agent, const struct volumes_place *place)
{
    const struct volumes_errand *errand = NULL;
    TAILQ_FOREACH(errand, &agent->volumes.errands, link)
    {
        if (errand->place == place) {
            return true;
        }
    }
    return false;
}

static void look_after(struct agent *agent, struct volumes_place *place, int64_t now_ms)
{
    bool is_idle = place->users == 0 && !has_errand(agent, place);
    if (place->state == VOLUMES_READY && is_idle && now_ms >= place->idle_since_ms + IDLE_MS) {
        if (volumes_is_shared(place)) {
            place->idle_since_ms = now_ms;
        } else {
            volumes_unmount(place);
        }
    }
    bool is_ending = place->state == VOLUMES_DEAD || place->state == VOLUMES_LEAVING;
    if (is_ending && volumes_collect(place) && is_idle) {
        remove_place(agent, place);
    }
}

void volumes_turn(struct agent *agent)
{
    struct volumes_place *next = NULL;
    if (TAILQ_EMPTY(&agent->volumes.places)) {
        return;
    }
    struct volumes_place *place = NULL;
    TAILQ_FOREACH(place, &agent->volumes.places, link)
    {
        hear_place(place);
    }
    hear_errands(agent);
    while (serve_some(agent)) {
    }
    int64_t now_ms = clock_mono_ms();
    for (place = TAILQ_FIRST(&agent->volumes.places); place; place = next) {
        next = TAILQ_NEXT(place, link);
        look_after(agent, place, now_ms);
    }
}

int64_t volumes_wake_ms(const struct agent *agent)
{
    int64_t until_ms = INT64_MAX;
    int64_t soon_ms = clock_mono_ms() + COLLECT_MS;
    const struct volumes_place *place = NULL;
    const struct volumes_errand *errand = NULL;
    TAILQ_FOREACH(place, &agent->volumes.places, link)
    {
        bool is_ending = place->fd < 0 && place->pid > 0;
        int64_t at_ms = is_ending ? soon_ms
                        : place->state == VOLUMES_READY && place->users == 0
                            ? place->idle_since_ms + IDLE_MS
                            : INT64_MAX;
        until_ms = at_ms < until_ms ? at_ms : until_ms;
    }
    TAILQ_FOREACH(errand, &agent->volumes.errands, link)
    {
        until_ms = errand->fd < 0 && soon_ms < until_ms ? soon_ms : until_ms;
    }
    return until_ms;
}

int volumes_fd(const struct agent *agent)
{
    return agent->volumes.epoll > 0 ? agent->volumes.epoll : -1;
}

/* --- the end --------------------------------------------------------------------------------- */

static bool all_gone(struct agent *agent)
{
    bool are_gone = true;
    struct volumes_place *place = NULL;
    TAILQ_FOREACH(place, &agent->volumes.places, link)
    {
        are_gone = volumes_collect(place) && are_gone;
    }
    return are_gone;
}

static void kill_place(struct volumes_place *place)
{
    if (!volumes_collect(place)) {
        kill(place->pid, SIGKILL);
        waitpid(place->pid, NULL, 0);
        place->pid = 0;
    }
}

void volumes_close(struct agent *agent)
{
    struct volumes *volumes = &agent->volumes;
    struct volumes_place *place = NULL;
    struct volumes_errand *errand = NULL;
    if (!agent->options->work_folder || volumes->epoll == 0) {
        return;
    }
    TAILQ_FOREACH(place, &volumes->places, link)
    {
        volumes_unmount(place);
    }
    int64_t until_ms = clock_mono_ms() + CLOSE_PATIENCE_MS;
    while (!all_gone(agent) && clock_mono_ms() < until_ms) {
        usleep(COLLECT_MS * 1000);
    }
    TAILQ_FOREACH(place, &volumes->places, link)
    {
        kill_place(place);
    }
    while ((errand = TAILQ_FIRST(&volumes->errands)) != NULL) {
        volumes_end_errand(agent, errand); /* nothing holds it any more: its mount is gone */
    }
    while ((place = TAILQ_FIRST(&volumes->places)) != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see an item leave the list
        remove_place(agent, place);
    }
    close(volumes->epoll);
    volumes->epoll = 0;
    volumes_clean(agent->options->work_folder);
}
