/* Which folders a run needs before it can start: volumes, and what other experiments left. */
#include "base/mem.h"
#include "master/carry.h"
#include "recipe/plan.h"

/* The volume that an experiment's outputs live in, or NULL. */
static const struct recipe_volume *output_volume(const struct experiment *experiment)
{
    return recipe_find_volume(&experiment->volumes, RECIPE_OUTPUT_VOLUME);
}

static void add_volume(struct carrier *carrier, const struct flow *flow,
                       const struct recipe_volume *from, const char *name, Drover__Run *run)
{
    const struct store_place *place =
        from->listed ? stores_find(&flow->stores, from->listed) : NULL;
    CHECK(from->store || place); /* stores_check */
    Drover__Volume *volume = arena_alloc(&carrier->arena, sizeof *volume);
    drover__volume__init(volume);
    volume->name = (char *)name;
    if (from->store) {
        volume->store = (char *)from->store;
    } else if (place) {
        volume->store = place->store;
    }
    volume->snapshot = from->snapshot ? (char *)from->snapshot : volume->snapshot;
    if (place) {
        volume->endpoint = place->endpoint;
        volume->region = place->region;
        volume->addressing = place->addressing;
    }
    if (carrier->owners && !from->snapshot) {
        struct err err = {0};
        struct owners_volume which = {volume->store, volume->endpoint, volume->region,
                                      volume->addressing};
        const char *url = owners_url(carrier->owners, &which, &err);
        volume->through = url ? arena_strdup(&carrier->arena, url) : volume->through;
        volume->trouble = url ? volume->trouble : arena_strdup(&carrier->arena, err.text);
    }
    run->volumes[run->n_volumes++] = volume;
}

/* What other experiments left, as far as this one speaks of it: on our disk, or in volumes. */
static void add_inputs(struct carrier *carrier, const struct flow *flow,
                       const struct experiment *experiment, Drover__Run *run)
{
    run->inputs = arena_alloc(&carrier->arena, experiment->output_ref_count * sizeof(char *));
    for (size_t i = 0; i < experiment->output_ref_count; i++) {
        const struct experiment *other = &flow->recipe->experiments[experiment->output_refs[i]];
        if (output_volume(other)) {
            struct str name = {0};
            str_addf(&name, PLAN_OUTPUT_OF "%s", other->name);
            add_volume(carrier, flow, output_volume(other),
                       arena_strdup(&carrier->arena, str_text(&name)), run);
            str_release(&name);
        } else {
            run->inputs[run->n_inputs++] = (char *)other->name;
        }
    }
}

void carry_add_volumes(struct carrier *carrier, const struct flow *flow,
                       const struct experiment *experiment, Drover__Run *run)
{
    const struct recipe_volumes *volumes = &experiment->volumes;
    size_t most = volumes->count + experiment->output_ref_count;
    run->volumes = arena_alloc(&carrier->arena, most * sizeof(Drover__Volume *));
    for (size_t i = 0; i < volumes->count; i++) {
        add_volume(carrier, flow, &volumes->items[i], volumes->items[i].name, run);
    }
    if (experiment->checkpoint && recipe_find_volume(volumes, RECIPE_CHECKPOINT_VOLUME)) {
        run->checkpoint_volume = (char *)RECIPE_CHECKPOINT_VOLUME;
    }
    if (output_volume(experiment)) {
        run->output_volume = (char *)RECIPE_OUTPUT_VOLUME;
    }
    run->volume_folder = flow->volume_folder;
    add_inputs(carrier, flow, experiment, run);
}

static void need_volume(struct owners *owners, const struct flow *flow,
                        const struct recipe_volume *volume)
{
    const struct store_place *place =
        volume->listed ? stores_find(&flow->stores, volume->listed) : NULL;
    if (place && !volume->snapshot) {
        owners_need(owners, &(struct owners_volume){place->store, place->endpoint, place->region,
                                                    place->addressing});
    } else if (volume->store && !volume->snapshot) {
        owners_need(owners, &(struct owners_volume){volume->store, "", "", ""});
    }
}

void carry_need_volumes(struct owners *owners, const struct flow *flow)
{
    for (size_t e = 0; e < flow->recipe->experiment_count; e++) {
        const struct recipe_volumes *volumes = &flow->recipe->experiments[e].volumes;
        for (size_t i = 0; i < volumes->count; i++) {
            need_volume(owners, flow, &volumes->items[i]);
        }
    }
}
