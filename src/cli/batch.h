/* batch.h - the recipes that `drover exec` and `drover map` make. Pure: arguments in, JSON out (a
 * recipe may be JSON).
 */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BATCH_NODES_MAX = 1000,          /* experiments of one recipe */
    BATCH_INPUTS_MAX = 200000,       /* of one recipe; more make several */
    BATCH_INPUT_BYTES_MAX = 6 << 20, /* of one recipe */
    BATCH_LINE_BYTES_MAX = 96 << 10, /* what a command line can carry */
    BATCH_LINES_MAX = 10000000,
};

/* --- exec: one command on each of these nodes ------------------------------------------------- */

struct batch_exec {
    char *const *argv;
    size_t argc;
    const char *const *nodes; /* names; at most BATCH_NODES_MAX */
    size_t node_count;
    int64_t timeout_ms; /* 0: none */
};

void batch_exec_recipe(struct str *out, const struct batch_exec *exec);
/* What the experiment of node i is called. */
void batch_exec_name(struct str *out, const struct batch_exec *exec, size_t i);

/* --- map: each line of a text through one command --------------------------------------------- */

struct batch_line {
    const char *text; /* borrowed from the input */
    size_t size;
    uint32_t recipe;     /* which of the recipes it is in, from 0 */
    uint32_t experiment; /* there: how often its text occurs, which is the experiment's name */
    uint64_t index;
};

struct batch_map {
    struct batch_line *lines; /* in the order of the input */
    size_t count;
    uint32_t recipe_count;
};

/* Cuts the text into lines (empty ones are left out) and says where each one goes: a text that
 * occurs m times is in experiment "map-m" (once: "map"), for a recipe refuses a value given twice.
 * ERR_INVALID: a line that is too long, is not UTF-8 or holds a NUL, by its number. */
MUST_USE enum err_code batch_map_split(struct batch_map *map, const char *text, size_t size,
                                       struct err *err);
void batch_map_release(struct batch_map *map);

struct batch_map_options {
    const char *command; /* a shell line; {} is the input, else it is appended */
    const char *label;   /* a node must have it; NULL: any node */
    uint64_t workers;    /* at most so many at a time; 0: no limit */
    double cpu;          /* processors for each; 0: one */
    uint64_t retries;
    int64_t timeout_ms;
};

void batch_map_recipe(struct str *out, const struct batch_map *map, uint32_t recipe,
                      const struct batch_map_options *options);
void batch_map_experiment(struct str *out, const struct batch_line *line);

/* The shell line with placeholders: {} becomes {{input}}, a literal {{ is kept literal. */
void batch_map_command(struct str *out, const char *command);

#endif
