/* hunt_ask.c - as many trials under way as there should be. */
#include "master/hunt_internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "recipe/value.h"

#include <inttypes.h>

enum { BATCH_MAX = 256 };

void hunt_add_open(struct hunt *hunt, uint64_t leg)
{
    struct hunt_leg *made = mem_alloc(sizeof *made);
    *made = (struct hunt_leg){.hunt = hunt, .leg = leg};
    VEC_PUSH(hunt->open, hunt->open_count, hunt->open_cap) = made;
}

/* --- how many ----------------------------------------------------------------------------------
 */

static uint64_t times(uint64_t free, uint64_t need, uint64_t most)
{
    return need > 0 && free / need < most ? free / need : most;
}

/* How many more of its tasks the nodes that are here could take. An estimate: placing is the
 * core's business. */
static uint64_t room(const struct hunt *hunt)
{
    const struct hardware *needs = &hunt->experiment->hardware;
    const struct herd *herd = server_herd(hunt->server);
    bool all = hunt->home->flow->ignore_hardware;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < herd->count; i++) {
        struct core_node_view node;
        core_node_view(hunt->server->core, i, &node);
        if (node.state != CORE_NODE_HERE) {
            continue;
        }
        uint64_t fit = BATCH_MAX;
        uint32_t cpu = node.capacity.cpu_milli - node.used.cpu_milli;
        fit = times(node.capacity.cpu_milli > node.used.cpu_milli ? cpu : 0,
                    all ? 1000 : needs->cpu_milli, fit);
        if (!all) {
            uint32_t gpus = node.capacity.gpus - node.used.gpus;
            fit = times(node.capacity.gpus > node.used.gpus ? gpus : 0, needs->gpus, fit);
        }
        sum += fit;
    }
    return sum;
}

/* Legs that no node has yet. */
static uint64_t queued(const struct hunt *hunt, const struct core_experiment_view *view)
{
    uint64_t taken = view->succeeded + view->failed + view->cancelled + view->skipped +
                     view->assigned + view->running;
    uint64_t tasks = hunt_task(hunt, hunt->book->leg_count);
    return tasks > taken ? tasks - taken : 0;
}

static uint64_t wanted(const struct hunt *hunt, const struct core_experiment_view *view)
{
    uint32_t parallel = hunt->experiment->search->parallel;
    if (parallel > 0) {
        return parallel > hunt->open_count ? parallel - hunt->open_count : 0;
    }
    if (queued(hunt, view) > 0) {
        return 0;
    }
    uint64_t more = room(hunt) / hunt->experiment->gang;
    return more < 1 ? 1 : more > BATCH_MAX ? BATCH_MAX : more;
}

/* --- the lines ---------------------------------------------------------------------------------
 */

static void add_search_line(struct hunt *hunt)
{
    const struct search_spec *spec = hunt->experiment->search;
    struct trials_line line = {.kind = TRIALS_SEARCH,
                               .experiment = hunt->experiment->name,
                               .at_ms = server_now_ms(hunt->server),
                               .algorithm = recipe_algorithm_name(spec->algorithm),
                               .chosen = search_algorithm_name(search_choice(hunt->search)),
                               .why = search_describe(hunt->search),
                               .goal_count = spec->goal_count,
                               .seed = search_space_options(hunt->book->space)->seed};
    for (size_t i = 0; i < spec->goal_count; i++) {
        line.goal_metrics[i] = spec->goals[i].metric;
        line.maximize[i] = spec->goals[i].maximize;
    }
    trials_add_line(&hunt->home->pending, &line);
}

/* What makes the suggestions: at the beginning, and whenever `auto` thinks again. */
static void say_choice(struct hunt *hunt)
{
    const struct search_spec *spec = hunt->experiment->search;
    bool is_first = hunt->began_ms == 0;
    if (!is_first && search_choice(hunt->search) == hunt->chosen) {
        return;
    }
    hunt->chosen = search_choice(hunt->search);
    add_search_line(hunt);
    if (is_first) {
        hunt->began_ms = server_now_ms(hunt->server);
        server_note(hunt->server, "%s: looking for the %s %s%s by %s", hunt->title,
                    spec->goals[0].maximize ? "greatest" : "least", spec->goals[0].metric,
                    spec->goal_count > 1 ? " and others" : "", search_describe(hunt->search));
    } else {
        server_note(hunt->server, "%s: the search goes on by %s", hunt->title,
                    search_describe(hunt->search));
    }
}

static void add_params(const struct hunt *hunt, const struct search_value *values,
                       struct arena *arena, struct str *out)
{
    const struct space *space = hunt->experiment->space;
    size_t count = space_param_count(space);
    struct value *arguments = arena_alloc(arena, count * sizeof *arguments);
    search_space_arguments(hunt->book->space, values, arguments, arena);
    struct json json = {.out = out};
    json_object(&json);
    for (size_t i = 0; i < count; i++) {
        if (arguments[i].kind != VALUE_ABSENT) {
            json_key(&json, space_param_name(space, i));
            value_add_json(&json, &arguments[i]);
        }
    }
    json_end(&json);
}

static void add_leg(struct hunt *hunt, const struct ledger_leg *leg,
                    const struct search_value *values)
{
    struct arena arena = {0};
    AUTO_STR struct str params = {0};
    AUTO_STR struct str point = {0};
    uint64_t number = hunt->book->leg_count;
    add_params(hunt, values, &arena, &params);
    search_space_add_text(hunt->book->space, values, &point);
    ledger_add(hunt->book, leg, values);
    hunt_add_open(hunt, number);
    struct trials_line line = {.kind = TRIALS_SUGGESTED,
                               .experiment = hunt->experiment->name,
                               .at_ms = server_now_ms(hunt->server),
                               .task = hunt_task(hunt, number),
                               .trial = leg->trial,
                               .rung = leg->rung,
                               .has_budget = leg->budget > 0,
                               .budget = leg->budget,
                               .params = str_text(&params),
                               .point = str_text(&point)};
    trials_add_line(&hunt->home->pending, &line);
    arena_release(&arena);
}

/* --- asking ------------------------------------------------------------------------------------
 */

/* Nothing new is to be had. What runs may still be the best. */
static void give_up(struct hunt *hunt, enum err_code code, const struct err *err)
{
    if (hunt->asha) {
        asha_close(hunt->asha); /* promotions go on */
    }
    stop_exhausted(&hunt->stop);
    if (code != ERR_NOT_FOUND) {
        str_clear(&hunt->why);
        str_add(&hunt->why, err->text);
    }
}

static bool ask_new(struct hunt *hunt, uint32_t rung, uint64_t budget)
{
    struct search_value values[SEARCH_PARAMS_MAX];
    struct search_trial trial = {.values = values};
    struct err err = {0};
    say_choice(hunt);
    enum err_code code = search_ask(hunt->search, &trial, &err);
    if (code != ERR_OK) {
        give_up(hunt, code, &err);
        return false;
    }
    CHECK(trial.number == hunt->warm_count + hunt->book->trial_count);
    stop_begun(&hunt->stop);
    add_leg(hunt,
            &(struct ledger_leg){.trial = hunt->book->trial_count, .rung = rung, .budget = budget},
            values);
    return true;
}

static bool ask_plain(struct hunt *hunt)
{
    if (hunt->book->trial_count >= hunt->experiment->search->trials ||
        hunt->stop.reason != STOP_NOT_YET) {
        return false;
    }
    return ask_new(hunt, 0, hunt->experiment->search->early.max);
}

static bool ask_asha(struct hunt *hunt)
{
    struct asha_step step = asha_next(hunt->asha);
    uint64_t number = hunt->book->leg_count;
    if (step.action == ASHA_DONE || step.action == ASHA_WAIT ||
        hunt_task(hunt, number) >= hunt->experiment->task_count) {
        return false;
    }
    if (step.action == ASHA_START && !ask_new(hunt, step.rung, step.resource)) {
        return asha_next(hunt->asha).action == ASHA_PROMOTE; /* it was closed */
    }
    if (step.action == ASHA_PROMOTE) {
        say_choice(hunt);
        add_leg(
            hunt,
            &(struct ledger_leg){.trial = step.trial, .rung = step.rung, .budget = step.resource},
            ledger_values(hunt->book, step.trial));
    }
    enum err_code code = asha_begin(hunt->asha, step.trial, step.rung, NULL);
    CHECK(code == ERR_OK);
    return true;
}

void hunt_ask(struct hunt *hunt)
{
    struct core_experiment_view view;
    core_experiment_view(hunt->server->core, hunt->home->flow->number, hunt->number, &view);
    if (hunt->is_over || !view.ready || view.ended || view.closed || hunt->server->paused ||
        server_is_stopping(hunt->server)) {
        return;
    }
    if (hunt->reread < hunt->reread_count || (hunt->began_ms == 0 && !hunt_take_warm(hunt))) {
        return;
    }
    uint64_t more = wanted(hunt, &view);
    bool has_asked = false;
    while (more > 0 && (hunt->asha ? ask_asha(hunt) : ask_plain(hunt))) {
        has_asked = true;
        more--;
        if (more > 0 && hunt_time_is_up(hunt)) {
            return;
        }
    }
    if (has_asked && more == 0 && hunt->experiment->search->parallel == 0) {
        hunt->home->is_busy = true; /* there may be room for more, once these are placed */
    }
}

enum err_code hunt_apply_suggested(struct hunt *hunt, const struct trials_line *line,
                                   struct err *err)
{
    struct search_value values[SEARCH_PARAMS_MAX];
    struct err why = {0};
    enum err_code code = ERR_OK;
    if (hunt->warm_count + line->trial == search_count(hunt->search).suggested) {
        const struct search_value *known = ledger_values(hunt->book, line->trial);
        for (size_t i = 0; i < search_space_count(hunt->book->space); i++) {
            values[i] = known[i];
        }
        struct search_trial trial = {.number = hunt->warm_count + line->trial, .values = values};
        code = search_suggested(hunt->search, &trial, &why);
        stop_begun(&hunt->stop);
    } else if (!hunt->asha) {
        code = err_set(&why, ERR_CORRUPT, "the trial was suggested before");
    }
    if (code == ERR_OK && hunt->asha) { /* trials are fewer than ASHA_TRIALS_MAX: see ledger_take */
        code = asha_begin(hunt->asha, (uint32_t)line->trial, line->rung, &why);
    }
    return code == ERR_OK ? ERR_OK
                          : err_set(err, ERR_CORRUPT, "trial %llu: %.300s",
                                    (unsigned long long)line->trial, why.text);
}
