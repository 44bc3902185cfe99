#include "node/haul.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "node/agent.h"
#include "node/bulk.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 1000, /* between looks for logs worth following */
    CODE_CHARS = 64,
    PLACES_MAX = 16, /* versions remembered, besides those in use */
};

/* --- the connection -------------------------------------------------------------------------- */

enum err_code haul_need_bulk(struct agent *agent, struct err *err)
{
    struct haul *haul = &agent->haul;
    const struct node_join *join = agent->options->join;
    if (haul->bulk) {
        return ERR_OK;
    }
    if (!join || haul->bulk_port == 0) {
        return err_set(err, ERR_UNSUPPORTED, "the master offers no way to send files");
    }
    struct bulk_options options = {
        .zmq_context = agent->options->zmq_context,
        .host = join->url.host,
        .port = haul->bulk_port,
        .server_key = join->url.server_key,
        .keys = &join->keys,
        .work_folder = agent->options->work_folder,
        .is_shared = agent->is_shared,
    };
    return bulk_start(&options, &haul->bulk, err);
}

void haul_init(struct agent *agent)
{
    TAILQ_INIT(&agent->haul.places);
    TAILQ_INIT(&agent->haul.items);
    TAILQ_INIT(&agent->haul.flows);
}

static void remove_place(struct haul *haul, struct haul_place *place)
{
    TAILQ_REMOVE(&haul->places, place, link);
    CHECK(TAILQ_FIRST(&haul->places) != place); /* also tells the analyzer so */
    free(place->key);
    free(place->folder);
    free(place);
}

void haul_release(struct agent *agent)
{
    struct haul *haul = &agent->haul;
    struct haul_item *item = NULL;
    struct haul_place *place = NULL;
    bulk_stop(haul->bulk);
    haul->bulk = NULL;
    haul_release_flows(agent);
    while ((item = TAILQ_FIRST(&haul->items)) != NULL) {
        TAILQ_REMOVE(&haul->items, item, link);
        free(item);
    }
    while ((place = TAILQ_FIRST(&haul->places)) != NULL) {
        remove_place(haul, place);
    }
}

void haul_welcome(struct agent *agent, const Drover__Welcome *welcome)
{
    struct haul *haul = &agent->haul;
    haul->bulk_port = (uint16_t)welcome->bulk_port;
    if (!haul->is_decided) {
        haul->is_decided = true;
        agent->is_shared =
            !agent->options->no_share && share_probe(agent->options->work_folder, welcome);
    }
    if (haul->bulk && haul->bulk_port != 0) {
        bulk_reconnect(haul->bulk, haul->bulk_port);
    }
}

/* --- items ----------------------------------------------------------------------------------- */

struct haul_item *haul_add(struct agent *agent, struct attempt *attempt, enum haul_kind kind)
{
    struct haul_item *item = mem_alloc(sizeof *item);
    item->kind = kind;
    item->attempt = attempt;
    attempt->hauls++;
    TAILQ_INSERT_TAIL(&agent->haul.items, item, link);
    return item;
}

static void remove_item(struct agent *agent, struct haul_item *item)
{
    CHECK(item->attempt->hauls > 0);
    item->attempt->hauls--;
    TAILQ_REMOVE(&agent->haul.items, item, link);
    CHECK(TAILQ_FIRST(&agent->haul.items) != item); /* also tells the analyzer so */
    free(item);
}

struct haul_item *haul_find(struct agent *agent, const struct attempt *attempt, enum haul_kind kind)
{
    struct haul_item *item = NULL;
    if (attempt->hauls == 0) {
        return NULL;
    }
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        if (item->attempt == attempt && item->kind == kind) {
            return item;
        }
    }
    return NULL;
}

/* Whatever bulk still says about its ticket is not heard. */
void haul_drop_item(struct agent *agent, struct haul_item *item)
{
    if (item->ticket != 0) {
        bulk_drop(agent->haul.bulk, item->ticket);
    }
    remove_item(agent, item);
}

void haul_drop(struct agent *agent, struct attempt *attempt)
{
    struct haul_item *item = TAILQ_FIRST(&agent->haul.items);
    while (item && attempt->hauls > 0) {
        struct haul_item *next = TAILQ_NEXT(item, link);
        if (item->attempt == attempt) {
            haul_drop_item(agent, item);
        }
        item = next;
    }
}

/* --- places ---------------------------------------------------------------------------------- */

static void keep_code(struct agent *agent)
{
    const char *versions[2 * PLACES_MAX + AGENT_SLOTS_MAX];
    size_t count = 0;
    const struct haul_place *place = NULL;
    TAILQ_FOREACH(place, &agent->haul.places, link)
    {
        if (place->is_code && count < sizeof versions / sizeof versions[0]) {
            versions[count++] = place->key;
        }
    }
    bulk_keep_code(agent->haul.bulk, versions, count);
}

/* The versions used longest ago are the first in the list. */
static void forget_old_places(struct haul *haul)
{
    size_t count = 0;
    struct haul_place *place = NULL;
    TAILQ_FOREACH(place, &haul->places, link)
    {
        count++;
    }
    place = TAILQ_FIRST(&haul->places);
    while (place && count > PLACES_MAX) {
        struct haul_place *next = TAILQ_NEXT(place, link);
        if (place->users == 0) {
            remove_place(haul, place);
            count--;
        }
        place = next;
    }
}

static struct haul_place *get_place(struct agent *agent, const char *key, bool is_code)
{
    struct haul *haul = &agent->haul;
    struct haul_place *place = NULL;
    TAILQ_FOREACH(place, &haul->places, link)
    {
        if (place->is_code == is_code && strcmp(place->key, key) == 0) {
            TAILQ_REMOVE(&haul->places, place, link);
            TAILQ_INSERT_TAIL(&haul->places, place, link);
            return place;
        }
    }
    forget_old_places(haul);
    place = mem_alloc(sizeof *place);
    place->key = mem_strdup(key);
    place->is_code = is_code;
    TAILQ_INSERT_TAIL(&haul->places, place, link);
    return place;
}

static void let_go(struct agent *agent, struct haul_place *place)
{
    CHECK(place->users > 0);
    place->users--;
    if (!place->is_code && place->users == 0) {
        remove_place(&agent->haul, place); /* the next who needs it asks anew: there may be more */
    }
}

static enum err_code need_code(struct agent *agent, struct attempt *attempt, struct err *err)
{
    const char *version = attempt->run->code;
    if (strlen(version) != CODE_CHARS) {
        return err_set(err, ERR_INVALID, "code: not the name of a version");
    }
    struct haul_place *place = get_place(agent, version, true);
    if (place->folder && access(place->folder, F_OK) == 0) {
        attempt->code = place;
        place->users++;
        return ERR_OK;
    }
    enum err_code code = haul_need_bulk(agent, err);
    if (code != ERR_OK) {
        return code;
    }
    attempt->code = place;
    place->users++;
    if (place->ticket == 0) {
        place->ticket = bulk_fetch_code(agent->haul.bulk, version);
        keep_code(agent);
    }
    haul_add(agent, attempt, HAUL_PLACE)->place = place;
    return ERR_OK;
}

static enum err_code need_input(struct agent *agent, struct attempt *attempt, const char *name,
                                struct err *err)
{
    enum err_code code = haul_need_bulk(agent, err);
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/workflows/%s/outputs/%s", agent->options->work_folder,
             attempt->run->workflow_id, name);
    struct haul_place *place = get_place(agent, str_text(&folder), false);
    if (place->ticket == 0) {
        place->ticket =
            bulk_fetch_outputs(agent->haul.bulk, attempt->run->id, name, str_text(&folder));
    }
    place->users++;
    haul_add(agent, attempt, HAUL_PLACE)->place = place;
    return ERR_OK;
}

static enum err_code need_checkpoint(struct agent *agent, struct attempt *attempt, struct err *err)
{
    enum err_code code = haul_need_bulk(agent, err);
    if (code == ERR_OK) {
        attempt_checkpoint(agent, attempt, &agent->other_path);
        uint64_t ticket =
            bulk_fetch_checkpoint(agent->haul.bulk, attempt->run->id, str_text(&agent->other_path));
        haul_add(agent, attempt, HAUL_OLD_CHECKPOINT)->ticket = ticket;
    }
    return code;
}

enum err_code haul_before(struct agent *agent, struct attempt *attempt, struct err *err)
{
    const Drover__Run *run = attempt->run;
    if (attempt->is_remote) {
        haul_enter_flow(agent, attempt);
    }
    enum err_code code = run->code[0] ? need_code(agent, attempt, err) : ERR_OK;
    for (size_t i = 0; code == ERR_OK && attempt->is_remote && i < run->n_inputs; i++) {
        code = need_input(agent, attempt, run->inputs[i], err);
    }
    if (code == ERR_OK && attempt_sends_checkpoint(attempt)) {
        code = need_checkpoint(agent, attempt, err);
    }
    if (code == ERR_OK && run->n_volumes > 0) {
        code = volumes_before(agent, attempt, err);
    }
    if (code != ERR_OK) {
        haul_cancel(agent, attempt);
    } else if (attempt->hauls > 0) {
        attempt_move(attempt, &agent->fetching);
    }
    return code;
}

void haul_forget(struct agent *agent, struct attempt *attempt)
{
    haul_leave_flow(attempt);
    volumes_let_go(attempt);
    if (attempt->code) {
        let_go(agent, attempt->code);
        attempt->code = NULL;
    }
}

void haul_cancel(struct agent *agent, struct attempt *attempt)
{
    struct haul_item *item = NULL;
    while ((item = haul_find(agent, attempt, HAUL_PLACE)) != NULL) {
        if (item->place != attempt->code) {
            let_go(agent, item->place);
        }
        remove_item(agent, item);
    }
    haul_drop(agent, attempt);
    haul_forget(agent, attempt);
}

/* --- what arrives ---------------------------------------------------------------------------- */

static void fail_fetch(struct agent *agent, struct attempt *attempt, const struct err *err)
{
    haul_cancel(agent, attempt);
    Drover__Outcome outcome = err->code == ERR_STALE ? DROVER__OUTCOME__OUTCOME_KILLED
                                                     : DROVER__OUTCOME__OUTCOME_NOT_STARTED;
    attempt_end(agent, attempt, outcome, err->text);
}

void haul_finish_item(struct agent *agent, struct haul_item *item, const struct err *err)
{
    struct attempt *attempt = item->attempt;
    enum haul_kind kind = item->kind;
    bool is_stale = err->code == ERR_STALE; /* the master will say so; nothing to add to its end */
    bool has_failed =
        err->code != ERR_OK && !(kind == HAUL_OLD_CHECKPOINT && err->code == ERR_NOT_FOUND);
    remove_item(agent, item);
    if (attempt->list == &agent->fetching) {
        if (has_failed) {
            fail_fetch(agent, attempt, err);
        } else if (attempt->hauls == 0) {
            attempt_move(attempt, &agent->queued);
        }
        return;
    }
    if (kind == HAUL_LOG && has_failed && !is_stale) {
        haul_lose_log(attempt);
    }
    if (kind == HAUL_OUTPUT && has_failed && !is_stale) {
        attempt_fail_output(attempt, err);
    }
    bool was_well =
        attempt->ended.outcome == DROVER__OUTCOME__OUTCOME_EXITED && attempt->ended.code == 0;
    if ((kind == HAUL_COMMIT || kind == HAUL_KEEP) && has_failed && was_well) {
        attempt_fail_output(attempt, err);
    }
    if (attempt->list == &agent->delivering && attempt->hauls == 0) {
        haul_remove_log(agent, attempt);
        attempt_report(agent, attempt);
    }
}

/* Finishing one may end its attempt, and with it the others of that attempt. */
static struct haul_item *find_waiting(struct agent *agent, const struct haul_place *place)
{
    struct haul_item *item = NULL;
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see an item leave the list
        if (item->kind == HAUL_PLACE && item->place == place) {
            return item;
        }
    }
    return NULL;
}

static void finish_place(struct agent *agent, struct haul_place *place,
                         const struct bulk_event *event)
{
    struct haul_item *item = NULL;
    place->ticket = 0;
    free(place->folder);
    place->folder = event->err.code == ERR_OK ? mem_strdup(event->folder) : NULL;
    place->users++; /* it must not go while we look */
    while ((item = find_waiting(agent, place)) != NULL) {
        CHECK(place->users > 1); /* we and the one who waits */
        if (!place->is_code) {
            let_go(agent, place);
        }
        haul_finish_item(agent, item, &event->err);
    }
    let_go(agent, place);
}

static void take_event(struct agent *agent, const struct bulk_event *event)
{
    struct haul_place *place = NULL;
    TAILQ_FOREACH(place, &agent->haul.places, link)
    {
        if (place->ticket == event->ticket) {
            finish_place(agent, place, event);
            return;
        }
    }
    struct haul_item *item = NULL;
    TAILQ_FOREACH(item, &agent->haul.items, link)
    {
        if (item->kind != HAUL_PLACE && item->ticket == event->ticket) {
            haul_finish_item(agent, item, &event->err);
            return;
        }
    }
}

void haul_turn(struct agent *agent)
{
    struct haul *haul = &agent->haul;
    struct bulk_event event;
    while (haul->bulk && bulk_next(haul->bulk, &event)) {
        take_event(agent, &event);
    }
    int64_t now_ms = clock_mono_ms();
    if (agent->options->join && !agent->is_shared && now_ms >= haul->look_at_ms) {
        haul->look_at_ms = now_ms + LOOK_MS;
        haul_look_for_logs(agent);
        haul_sweep_flows(agent);
    }
}

int64_t haul_wake_ms(const struct agent *agent)
{
    bool looks = agent->options->join && !agent->is_shared && !TAILQ_EMPTY(&agent->running);
    return looks ? agent->haul.look_at_ms : INT64_MAX;
}

int haul_fd(const struct agent *agent)
{
    return agent->haul.bulk ? bulk_fd(agent->haul.bulk) : -1;
}
