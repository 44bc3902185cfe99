/* hunt_check.c - can the searches of a recipe be made at all? Found before anything is written. */
#include "master/gauge.h"
#include "master/hunt.h"
#include "master/search_space.h"

/* A first suggestion is asked for and thrown away. */
static enum err_code try_search(const struct experiment *experiment, uint64_t seed, struct err *err)
{
    struct search_value values[SEARCH_PARAMS_MAX];
    struct search_trial trial = {.values = values};
    struct search_space *space = search_space_create(experiment, seed);
    struct search *search = search_create(search_space_options(space), err);
    enum err_code code = search ? search_ask(search, &trial, err) : ERR_INVALID;
    search_destroy(search);
    search_space_destroy(space);
    if (code == ERR_AGAIN || code == ERR_NOT_FOUND) {
        code = err_set(err, ERR_INVALID,
                       "require: nothing among very many combinations fulfils it, so there is "
                       "nothing to try");
    }
    return code;
}

static enum err_code try_asha(const struct experiment *experiment, struct err *err)
{
    if (experiment->search->early.algorithm != RECIPE_EARLY_ASHA) {
        return ERR_OK;
    }
    struct asha_options options;
    struct asha *asha = NULL;
    search_space_asha(experiment, &options);
    enum err_code code = asha_create(&options, &asha, err);
    asha_destroy(asha);
    return code;
}

static enum err_code check_experiment(const struct experiment *experiment, uint64_t seed,
                                      struct err *err)
{
    enum err_code code = try_asha(experiment, err);
    return code == ERR_OK ? try_search(experiment, seed, err) : code;
}

enum err_code hunt_check(const struct recipe *recipe, uint64_t seed, struct diag_list *diags,
                         struct err *err)
{
    bool good = gauge_check(recipe, diags);
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct experiment *experiment = &recipe->experiments[e];
        struct err why = {0};
        if (experiment->search && check_experiment(experiment, seed, &why) != ERR_OK) {
            diag_add(diags, experiment->search->line, experiment->search->column, "%s", why.text);
            good = false;
        }
    }
    return good ? ERR_OK : err_set(err, ERR_INVALID, "the recipe has mistakes");
}
