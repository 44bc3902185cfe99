/* recipe_fixture.h - for tests: a recipe from text, or all that is wrong with it. */
#ifndef RECIPE_RECIPE_FIXTURE_H
#define RECIPE_RECIPE_FIXTURE_H

#include "recipe/recipe.h"

#include <string.h>

/* The recipe of figure 1 of the Hyper paper, with the indentation that print lost. */
static const char FIGURE_1[] = "experiments:      # Provide list of experiments\n"
                               "  mnist:           # Name the experiment\n"
                               "    framework: pytorch # Or specify Docker name\n"
                               "    parameters:     # Define parameters\n"
                               "      lr:\n"
                               "        range: 0.1-0.3\n"
                               "        sampling: uniform\n"
                               "    samples: 1000 # Number of samples to draw\n"
                               "    workers: 100 # Number of workers\n"
                               "    hardware:      # Set hardware requirements\n"
                               "      gpu: k80\n"
                               "    command:      # Command executed\n"
                               "      - python train.py --lr {{lr}}\n";

/* The diagnoses as printed go to *out when there are any (then NULL is returned). */
static struct recipe *fixture_parse(const char *text, const char *const *sets, size_t set_count,
                                    struct str *out)
{
    struct diag_list diags = {.file = "r.yaml"};
    struct recipe *recipe = recipe_parse("dir/r.yaml", text, strlen(text), sets, set_count, &diags);
    diag_print(&diags, out);
    diag_release(&diags);
    return recipe;
}

#endif
