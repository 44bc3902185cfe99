/* task_name.h - a task as people write it: "EXPERIMENT/INDEX" or "W/EXPERIMENT/INDEX". Pure. */
#ifndef CLI_TASK_NAME_H
#define CLI_TASK_NAME_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct task_name {
    const char *run; /* or NULL */
    const char *experiment;
    uint64_t index;
    char *copy; /* owns the texts */
};

/* False: it is not one. Release in either case. */
bool task_name_parse(const char *text, struct task_name *out);
void task_name_release(struct task_name *name);

/* "/tasks/EXPERIMENT/INDEX", encoded, after the path of a workflow. */
void task_name_add_path(struct str *path, const struct task_name *name);

#endif
