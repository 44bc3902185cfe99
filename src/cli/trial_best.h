/* trial_best.h - a trial with what it ran, for people and for programs. Pure. */
#ifndef CLI_TRIAL_BEST_H
#define CLI_TRIAL_BEST_H

#include "cli/trial_set.h"

/* plan: as trials_json_plan has it. */
void trial_best_text(struct str *out, const struct trial_search *search, const struct trial *trial,
                     const struct jnode *plan);

/* One line: experiment, trial, state, params, metrics, value, values, rung, budget, step, task,
 * command, command_line, workdir, env, output, checkpoint. */
void trial_best_json(struct str *out, const struct trial_search *search, const struct trial *trial,
                     const struct jnode *plan);

/* The command as one would type it: of `/bin/sh -c SCRIPT` the script, where its commands can be
 * put into one line with &&; otherwise the arguments, quoted where they need it. */
void trial_best_command(struct str *out, const struct jnode *command);

#endif
