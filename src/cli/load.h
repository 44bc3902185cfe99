/* load.h - reading a recipe file for the commands that change nothing (check, plan). */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "recipe/recipe.h"

struct load {
    const char **sets;
    size_t set_count;
    size_t set_cap;
    struct recipe *recipe;
    char *folder; /* the recipe's */
    bool as_json; /* mistakes as one JSON object on standard output */
};

void load_add_set(struct load *load, const char *set);

/* Reads, checks and expands the recipe; prints what is wrong and returns the exit code. */
int load_recipe(struct load *load, const char *file);
void load_release(struct load *load);

#endif
